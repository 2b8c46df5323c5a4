"""Noisy estimates on hidden subsamples, after Shoham, Shenfeld, Velner-Harris and Ligett (2025).

**Our reading, not their algorithm.** Of "Black-box differentially private nonparametric confidence
intervals under minimal assumptions", arXiv 2511.01303, this follows one sentence: run a private
estimator on B subsamples, account by subsampling amplification and advanced composition, and take
the interval from the distribution of the noisy estimates. What that leaves open (the estimator, m,
the center, the scaling, how ε and δ are split) is ours, so no result here may be held against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.resampling import Indices
from confidp.central.statistics.statistic import MeanLike, Records, Statistic, sensitivity_at
from confidp.errors import InvalidArgument, integer, shown
from confidp.privacy.conversions import mu_of_approx_dp, pure_dp_of_mu
from confidp.privacy.guarantees import GDP
from confidp.privacy.noise import GaussianMechanism, lattice_delta, secret_indices, to_float
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class SSVHL25:
    """An (ε₀, δ₀)-private estimator on B subsamples; the interval is read off their spread.

    - ``θ*_b = θ(D[S_b]) + (Δ_m/μ₀) Z_b`` for b = 1, …, B, each S_b of m indices out of n without
      replacement, with μ₀ the largest μ for which μ-GDP implies (ε₀, δ₀)-DP;
    - center: the mean θ̄ of the θ*_b;
    - interval [θ̄ − c q_{1−α/2}, θ̄ − c q_{α/2}], with q_p the ⌈pB⌉-th smallest θ*_b − θ̄ and
      c = (τ_m/τ_n)/√(1 − m/n), which takes the spread of subsamples of m to that of samples of n.

    Our reading of arXiv 2511.01303, for comparisons: see the module.

    Parameters
    ----------
    resample_size
        m, from 1 to n − 1; by default ⌈n/ln n⌉, as for `CRGS`.

    Notes
    -----
    **Privacy.** (1) Subsampling: the estimator is (ε₀, δ₀)-DP, hence on a hidden subsample (ε₁, δ₁)
    for e^{ε₁} = 1 + (m/n)(e^{ε₀} − 1) and δ₁ = (m/n)δ₀ (Balle, Barthe and Gaboardi 2018, theorem
    9). (2) Advanced composition of B such: (ε, Bδ₁ + δ̃)-DP for ε = Bε₁(e^{ε₁} − 1)/(e^{ε₁} + 1) +
    ε₁√(2B ln(1/δ̃)) (Kairouz, Oh and Viswanath 2015, theorem 3.4). (3) (ε, δ)-DP is (μ, δ)-GDP for
    the μ = 2Φ⁻¹(e^ε/(1+e^ε)) of pure ε-DP: (ε, δ)-DP says T(α) ≥ max(1 − δ − e^ε α,
    e^{−ε}(1 − δ − α), 0), which is at least max(1 − e^ε α, e^{−ε}(1 − α), 0) − δ, and the maximum
    is the trade-off curve of randomised response, at least G_μ (Wasserman and Zhou 2010; Dong, Roth
    and Su 2022). (4) The interval is post-processing. ∎ Half of δ is δ̃, half pays for the Bδ₁, the
    lattices' share included. (1) rests on nobody knowing the indices, so that private runs draw
    them like noise. ε₁ is rounded down by a relative 2^-30, ε₀ by 1e-9.

    **Coverage**: conservative where the noise on the estimates isn't small beside their spread,
    since c scales it too.

    Examples
    --------
    >>> import numpy as np
    >>> from confidp import Mean, confidence_region
    >>> data = np.random.default_rng(0).uniform(-1, 1, size=2000)
    >>> region = confidence_region(
    ...     data, Mean((-1, 1)), budget=GDP(8.0, 1e-6), method=SSVHL25(), n_resamples=100, rng=7
    ... )
    >>> region.interval
    (-0.04..., 0.04...)
    """

    resample_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.resample_size is not None:
            size = integer("resample_size", self.resample_size, least=1)
            object.__setattr__(self, "resample_size", size)

    @property
    def uses_delta(self) -> bool:
        """Yes: for the estimators and for advanced composition."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> SSVHL25Plan:
        """Work back from (μ, δ) to the noise on one estimate."""
        if not isinstance(statistic, MeanLike) or len(statistic.origin) != 1:
            raise unsuitable("SSVHL25", "a global sensitivity in one dimension", statistic)
        n, n_resamples = request.n, request.n_resamples
        m = self.resample_size or min(math.ceil(n / math.log(n)), n - 1)
        if m >= n:
            raise InvalidArgument(f"resample_size must be at most {n - 1}, not {shown(m)}")
        if request.delta <= 0:
            raise InvalidArgument(
                "budget must have a delta above 0 for SSVHL25: pass GDP(mu, delta) or "
                "ApproxDP(epsilon, delta)"
            )
        epsilon = pure_dp_of_mu(request.mu)
        one = single_epsilon(epsilon, n_resamples, request.delta / 2)
        # e^ε₀ − 1 = (e^ε₁ − 1)n/m, without overflow.
        own = (one + math.log1p((n / m - 1) * -math.expm1(-one))) * (1 - 1e-9)
        delta_each = min(request.delta / 2 * (1 - 1e-6) * n / (m * n_resamples), 0.5)
        mu_each = mu_of_approx_dp(own, delta_each)
        lattice = lattice_delta(mu_each)
        if n_resamples * lattice > request.delta / 2 * 1e-6:
            raise InvalidArgument(
                f"budget must have a larger delta than {request.delta:g}: SSVHL25's noise lattices "
                f"take {n_resamples * lattice:.1e}"
            )
        moved = sensitivity_at(m, statistic.sensitivity) + 2 * statistic.rounding(m)
        return SSVHL25Plan(
            statistic=statistic,
            request=request,
            resample_size=m,
            rate=statistic.scale(m) / statistic.scale(n) / math.sqrt(1 - m / n),
            epsilon=own,
            delta=delta_each,
            # Each of B numbers by itself gets the noise that a move of Δ_m needs.
            estimator=GaussianMechanism(moved, mu_each, n_resamples),
        )


@dataclass(frozen=True, slots=True)
class SSVHL25Plan:
    """B private subsample estimates with every public setting chosen."""

    statistic: MeanLike
    request: Request
    resample_size: int
    rate: float  # takes a distance at m, without replacement, to one at n
    epsilon: float
    delta: float
    estimator: GaussianMechanism

    @property
    def cost(self) -> GDP:
        """The whole budget."""
        return GDP(self.request.mu, self.request.delta)

    @property
    def name(self) -> str:
        """For people."""
        return "SSVHL25 (our reading of arXiv 2511.01303)"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "this is our reading of arXiv 2511.01303, not its authors' algorithm",
            f"subsamples of {self.resample_size} rows are enough for the limit law; where the "
            "noise on them is not small beside their spread, the interval is too long",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings and noise scales, in the units of the data."""
        return {
            "n": self.request.n,
            "resample_size": self.resample_size,
            "n_resamples": self.request.n_resamples,
            "epsilon_each": self.epsilon,
            "delta_each": self.delta,
            "resample_noise": self.estimator.scale,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release an interval around its own middle; θ̄ is in the ball's `public`."""
        n, m, n_resamples = self.request.n, self.resample_size, self.request.n_resamples
        sets = (
            secret_indices(n, m, replace=False, randomness=randomness) for _ in range(n_resamples)
        )
        noisy = self.release_on(records, sets, randomness)
        center = sum(noisy, Fraction(0)) / n_resamples
        pivots = sorted(x - center for x in noisy)
        alpha = (1 - Fraction(repr(self.request.confidence_level))) / 2
        least, largest = (pivots[math.ceil(p * n_resamples) - 1] for p in (alpha, 1 - alpha))
        rate = Fraction(self.rate)
        estimate = center + self.statistic.origin[0]
        middle, radius = estimate - rate * (largest + least) / 2, rate * (largest - least) / 2
        return Released((to_float(middle),), to_float(radius), {"estimate": to_float(estimate)})

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> tuple[Fraction, ...]:
        """Return all θ*_b − origin: `cost` pays for publishing all of them."""
        value = self.statistic.value
        resampled = [Fraction(float(value(records[indices])[0])) for indices in sets]
        return self.estimator.release(resampled, randomness)


def single_epsilon(epsilon: float, times: int, slack: float) -> float:
    """Return the largest ε₁ of which `times` compose to (`epsilon`, `slack`), rounded down.

    Examples
    --------
    >>> single_epsilon(1.0, 100, 1e-6)
    0.0186...
    """

    def composed(one: float) -> float:
        mean = times * one * math.tanh(one / 2)
        return min(mean + one * math.sqrt(-2 * times * math.log(slack)), times * one)

    low, high = 0.0, epsilon
    while high - low > high * 2.0**-30:
        middle = (low + high) / 2
        low, high = (middle, high) if composed(middle) <= epsilon * (1 - 1e-12) else (low, middle)
    return low
