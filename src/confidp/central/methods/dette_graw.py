"""Dette and Graw's private m-out-of-n bootstrap, with its own accounting and with a sound one.

"Gaussian differential private bootstrap by subsampling", arXiv 2505.01197 (2025), as a method to
compare with: noise on the estimate and on **each** of B small resamples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from confidp.central.methods.hidden_resamples import LARGEST_MU, largest_ratio, likely_square_sum
from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.resampling import Indices
from confidp.central.statistics.statistic import MeanLike, Records, Statistic, sensitivity_at
from confidp.errors import InvalidArgument, InvalidType, choice, real
from confidp.privacy.guarantees import GDP, float_up, sqrt_down, sqrt_up
from confidp.privacy.noise import GaussianMechanism, lattice_delta, secret_indices, to_float
from confidp.randomness import Randomness

_UNLIKELY = 1e-9  # asymptotic accounting: a record is resampled more often than is charged for


class Accounting(StrEnum):
    """How the noise on the resamples is chosen."""

    NUMERICAL = "numerical"
    ASYMPTOTIC = "asymptotic"


@dataclass(frozen=True, slots=True)
class DetteGraw:
    """The m-out-of-n bootstrap with noise on every resample.

    With m = round(ln(1−1/B)/ln(1−1/n)), about n/B, and μ₁ = μ/√2:

    - center ``θ̃ = θ̂ + (Δ_n/μ₁) Z``;
    - ``θ*_b = θ(D[S_b]) + (Δ_m/μ_B) Z_b`` for b = 1, …, B, each S_b of m indices drawn with
      replacement;
    - interval [θ̃ − (τ_m/τ_n)q_{1−α}, θ̃ − (τ_m/τ_n)q_α] at level 1 − 2α, with q_p the ⌈pB⌉-th
      smallest θ*_b − θ̃.

    Parameters
    ----------
    accounting
        ``"numerical"``: μ_B is the largest for which the release, the θ*_b included, is proved to
        be (μ, δ)-GDP. ``"asymptotic"``: μ_B = μ₁n/(m√B) as published, which is **not μ-GDP**.
    acknowledge_unproved
        Must be True for ``"asymptotic"``. ``region.spent`` and a ledger then get what is proved of
        it, far over the budget.

    Notes
    -----
    **Asymptotic accounting is not a guarantee.** Published, B releases of m-out-of-n resamples
    compose to μ₁ by a central limit theorem for many small privacy losses. But at m ≈ n/B a record
    appears in about one resample in all, and there at a signal of μ_B = μ₁√B or so, 126 deviations
    at μ = 8 and B = 500: the largest θ*_b then tells one 1 among 2000 zeros with power 0.63 at a
    false-positive rate under 1e-20, which no 8-GDP release allows. *What is proved:* let K_b be how
    often a record is in S_b. Given all indices the θ*_b are Gaussian mechanisms at μ_B K_b. With T²
    such that ΣK_b² > T² has probability at most 1e-9, the release is (√(μ₁² + μ_B²T²), 1e-9)-GDP:
    on the other index sets put D's law for that of D′ and use proposition 5.1 of the paper.

    **Numerical accounting** is proved in ``hidden_resamples``, for any statistic with a global
    sensitivity. It rests on nobody knowing the indices, so that private runs draw them like noise.
    The lattices' δ₀ is charged twice for all B + 1 numbers, at multiplicity m.

    **Coverage** is asymptotic in m too, and so poor where m records tell little.

    Examples
    --------
    >>> import numpy as np
    >>> from confidp import Mean, confidence_region
    >>> data = np.random.default_rng(0).uniform(-1, 1, size=2000)
    >>> region = confidence_region(
    ...     data, Mean((-1, 1)), budget=GDP(8.0, 1e-6), method=DetteGraw(), n_resamples=500, rng=7
    ... )
    >>> region.interval
    (-0.02..., 0.02...)
    >>> region.spent
    GDP(mu=8.0, delta=1e-06)
    """

    accounting: str = Accounting.NUMERICAL
    acknowledge_unproved: bool = False

    def __post_init__(self) -> None:
        """Refuse settings out of range, and an unproved claim that isn't asked for."""
        accounting = Accounting(choice("accounting", self.accounting, Accounting))
        object.__setattr__(self, "accounting", accounting)
        if not isinstance(self.acknowledge_unproved, bool):
            raise InvalidType("acknowledge_unproved must be True or False")
        if self.accounting is Accounting.ASYMPTOTIC and not self.acknowledge_unproved:
            raise InvalidArgument(
                "accounting must be 'numerical', not 'asymptotic', which doesn't keep to the "
                "budget, unless you pass acknowledge_unproved=True"
            )

    @property
    def uses_delta(self) -> bool:
        """Yes, where the budget is kept."""
        return self.accounting is Accounting.NUMERICAL

    def plan(self, statistic: Statistic, request: Request) -> DetteGrawPlan:
        """Choose m and both noise scales."""
        if not isinstance(statistic, MeanLike) or len(statistic.origin) != 1:
            raise unsuitable("DetteGraw", "a global sensitivity in one dimension", statistic)
        n, n_resamples = request.n, request.n_resamples
        if n_resamples < 2:
            raise InvalidArgument(
                f"n_resamples must be at least 2 for DetteGraw, not {n_resamples}"
            )
        m = max(round(math.log1p(-1 / n_resamples) / math.log1p(-1 / n)), 1)
        half = sqrt_down(Fraction(request.mu) ** 2 / 2)
        if self.accounting is Accounting.NUMERICAL:
            if request.delta <= 0:
                raise InvalidArgument(
                    "budget must have a delta above 0 for DetteGraw: pass GDP(mu, delta) or "
                    "ApproxDP(epsilon, delta)"
                )
            real("mu", request.mu, f"of at most {LARGEST_MU:g}", lambda x: x <= LARGEST_MU)
            ratio = largest_ratio(n, m, n_resamples, request.mu, half, request.delta * (1 - 1e-6))
        else:
            ratio = half * n / (m * math.sqrt(n_resamples))
        delta_n, delta_m = (sensitivity_at(size, statistic.sensitivity) for size in (n, m))
        plan = DetteGrawPlan(
            statistic=statistic,
            request=request,
            accounting=Accounting(self.accounting),
            resample_size=m,
            rate=statistic.scale(m) / statistic.scale(n),
            center=GaussianMechanism(delta_n + 2 * statistic.rounding(n), half),
            # Each of B numbers by itself gets the noise that moves of Δ_m·k need at ratio·k.
            resample=GaussianMechanism(delta_m + 2 * statistic.rounding(m), ratio, n_resamples),
        )
        if self.uses_delta and plan.lattices > request.delta * 1e-6:
            raise InvalidArgument(
                f"budget must have a larger delta than {request.delta:g}: DetteGraw's noise "
                f"lattices take {plan.lattices:.1e}"
            )
        return plan


@dataclass(frozen=True, slots=True)
class DetteGrawPlan:
    """The m-out-of-n bootstrap with every public setting chosen."""

    statistic: MeanLike
    request: Request
    accounting: Accounting
    resample_size: int
    rate: float  # τ_m/τ_n
    center: GaussianMechanism
    resample: GaussianMechanism

    @property
    def lattices(self) -> float:
        """What the lattices of B + 1 numbers add to δ, at most."""
        most = self.resample.mu * self.resample_size
        return lattice_delta(max(most, self.center.mu), 2 * (self.request.n_resamples + 1))

    @property
    def cost(self) -> GDP:
        """What is proved: the budget, or with asymptotic accounting far more."""
        if self.accounting is Accounting.NUMERICAL:
            return GDP(self.request.mu, self.request.delta)
        square_sum = likely_square_sum(
            self.request.n, self.resample_size, self.request.n_resamples, _UNLIKELY
        )
        mu_squared = Fraction(self.center.mu) ** 2 + square_sum * Fraction(self.resample.mu) ** 2
        delta = float_up(Fraction(_UNLIKELY) + Fraction(self.lattices))
        return GDP(sqrt_up(mu_squared), min(delta, 1 - 1e-12))

    @property
    def name(self) -> str:
        """For people."""
        if self.accounting is Accounting.NUMERICAL:
            return "Dette-Graw (numerical accounting)"
        return f"Dette-Graw (asymptotic accounting: NOT {self.request.mu:g}-GDP)"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on, and what the claimed privacy doesn't."""
        coverage = (
            f"resamples of {self.resample_size} rows are enough for the limit law: coverage is "
            "asymptotic in that number too",
        )
        if self.accounting is Accounting.NUMERICAL:
            return coverage
        return (
            f"WARNING: asymptotic accounting claims {self.request.mu:g}-GDP, and an attack refutes "
            f"it; what is proved is {self.cost.mu:.4g}-GDP",
            *coverage,
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings and noise scales, in the units of the data."""
        return {
            "n": self.request.n,
            "resample_size": self.resample_size,
            "n_resamples": self.request.n_resamples,
            "accounting": str(self.accounting),
            "center_noise": self.center.scale,
            "resample_noise": self.resample.scale,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release an interval around nothing but its own middle; θ̃ is in the ball's `public`."""
        n, m = self.request.n, self.resample_size
        sets = (
            secret_indices(n, m, replace=True, randomness=randomness)
            for _ in range(self.request.n_resamples)
        )
        center, noisy = self.release_on(records, sets, randomness)
        alpha = (1 - Fraction(repr(self.request.confidence_level))) / 2
        pivots = sorted(x - center for x in noisy)
        least, largest = (
            pivots[math.ceil(p * len(pivots)) - 1] for p in (alpha, 1 - alpha)
        )  # fmt: skip
        rate = Fraction(self.rate)
        estimate = center + self.statistic.origin[0]
        middle, radius = estimate - rate * (largest + least) / 2, rate * (largest - least) / 2
        return Released((to_float(middle),), to_float(radius), {"estimate": to_float(estimate)})

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> tuple[Fraction, tuple[Fraction, ...]]:
        """Return θ̃ − origin and all θ*_b − origin: `cost` pays for publishing all of them."""
        value = self.statistic.value
        full = value(records)
        resampled = [Fraction(float(value(records[s], near=full)[0])) for s in sets]
        (center,) = self.center.release([Fraction(float(full[0]))], randomness)
        return center, self.resample.release(resampled, randomness)
