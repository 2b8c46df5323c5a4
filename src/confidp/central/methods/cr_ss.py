"""CR-SS: confidence regions via smooth sensitivity, as published (the paper, Algorithm 4).

For statistics such as quantiles, whose worst-case sensitivity is large and whose sensitivity on
most data is small. Noise is added once to the center and once to a resampling quantile, each by
PTR-GDP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.method import Released, Request, bottom, unsuitable
from confidp.central.methods.ptr_gdp import PTRGDP
from confidp.central.pivots import Point, Units, quantile_distance
from confidp.central.resampling import (
    Indices,
    MultiplicityExceeded,
    Resampling,
    Sampling,
    check_settings,
)
from confidp.central.statistics.statistic import Records, SmoothFriendly, Statistic
from confidp.errors import InvalidArgument, InvalidType, real
from confidp.privacy.guarantees import GDP, float_down, sqrt_down
from confidp.privacy.noise import lattice_delta, to_float
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class CRSS:
    """Algorithm 4 (CR-SS): two calls of PTR-GDP, for the center and for the resampling quantile.

    With SS_β a β-smooth bound on the local sensitivity of θ, κ⋆ the multiplicity bound (1 without
    replacement) and Q the ⌈(1−α)B⌉-th smallest τ_m‖θ*_i − θ̂‖₂:

    - ``s(D) = max_i SS_β(D[S_i])·(e^{κ⋆β} − 1)/(e^β − 1) + SS_β(D)``;
    - center: PTR-GDP of θ̂ with β; scaled radius: PTR-GDP of Q with κ⋆β and τ_m s(D), clipped at 0;
    - each at (μ/√2, δ/2), with μ/2 for its bound and μ/2 for its value.

    Parameters
    ----------
    sampling, resample_size, failure_probability
        As for `CRGS`.
    beta
        The smoothness parameter; by default equation 6's
        β = (μ/2κ⋆)·min{1, 1/(4√ln(B/(δρ)))}.
    shares
        How μ² is divided among the center's bound, the center's value, the radius's bound and its
        value: four numbers above 0, equal by default as published. δ is halved.

    Notes
    -----
    It needs δ above 0: ``GDP(mu, delta)``, or ``ApproxDP``, half of whose δ it takes.

    **Privacy** (lemma 5.5, theorem 5.6). Fix the indices. D[S_i] and D′[S_i] differ in at most κ⋆
    records, so by telescoping over them θ*_i moves by at most SS_β(D[S_i])(1 + e^β + … +
    e^{(κ⋆−1)β}), and Q by at most τ_m s(D). In the same way s(D) ≤ e^{κ⋆β} s(D′): τ_m s is
    κ⋆β-smooth for Q. Two PTR-GDP calls compose (proposition 5.3), and ⊥ depends on the indices
    alone. ∎ The noise lattices' (d+3)·δ₀ is taken out of δ. Float errors enter the sensitivities as
    constants, which keep a bound smooth.

    **Coverage** is asymptotic and doesn't count the privacy noise.
    """

    sampling: str = Sampling.WITHOUT_REPLACEMENT
    resample_size: int | None = None
    failure_probability: float | None = None
    beta: float | None = None
    shares: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        checked = check_settings(self.sampling, self.resample_size, self.failure_probability)
        object.__setattr__(self, "sampling", checked)
        if self.beta is not None:
            real("beta", self.beta, "above 0", lambda x: x > 0)
        if not isinstance(self.shares, tuple | list) or len(self.shares) != 4:
            raise InvalidType("shares must be four numbers above 0")
        shares = tuple(real("shares", s, "above 0", lambda x: x > 0) for s in self.shares)
        object.__setattr__(self, "shares", shares)

    @property
    def uses_delta(self) -> bool:
        """Yes: PTR-GDP's bounds fall short with probability δ."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> CRSSPlan:
        """Choose m, κ⋆, β and the parts of the budget."""
        if not isinstance(statistic, SmoothFriendly):
            raise unsuitable("CR-SS", "a smooth sensitivity", statistic)
        resampling = Resampling.choose(
            request.n,
            request.n_resamples,
            Sampling(self.sampling),
            self.resample_size,
            self.failure_probability,
        )
        dimension, kappa = len(statistic.origin), resampling.multiplicity
        # Lattices: a bound and d numbers for the center, a bound and one number for the radius.
        lattices = lattice_delta(request.mu, dimension + 3)
        half_delta = float_down((Fraction(request.delta) - Fraction(lattices)) / 2)
        if half_delta <= 0:
            raise InvalidArgument(
                f"budget must have a delta above {lattices:.1e} for CR-SS, not {request.delta:g}: "
                f"pass GDP(mu, delta) or ApproxDP(epsilon, delta)"
            )
        total = sum(map(Fraction, self.shares))
        mus = [sqrt_down(Fraction(request.mu) ** 2 * Fraction(s) / total) for s in self.shares]
        beta = self.beta or _published_beta(request, resampling)
        units = Units.below(statistic.rounding(request.n))
        return CRSSPlan(
            statistic=statistic,
            request=request,
            resampling=resampling,
            units=units,
            beta=beta,
            center=PTRGDP(beta, mus[0], mus[1], half_delta, dimension),
            radius=PTRGDP(kappa * beta, mus[2], mus[3], half_delta),
        )


def _published_beta(request: Request, resampling: Resampling) -> float:
    """Return equation 6's β."""
    log_term = (
        math.log(request.n_resamples)
        - math.log(request.delta)
        - math.log(resampling.failure_probability)
    )
    slack = min(1.0, 1 / (4 * math.sqrt(log_term)))
    return request.mu / (2 * resampling.multiplicity) * slack


@dataclass(frozen=True, slots=True)
class CRSSPlan:
    """CR-SS with every public setting chosen."""

    statistic: SmoothFriendly
    request: Request
    resampling: Resampling
    units: Units
    beta: float
    center: PTRGDP
    radius: PTRGDP  # of the distance itself: Q/τ_m

    @property
    def cost(self) -> GDP:
        """(μ, δ), the lattices included."""
        return GDP(self.request.mu, (self.center.cost + self.radius.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-SS (published, {self.resampling.sampling.replace('_', ' ')})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large: coverage is asymptotic and doesn't count the privacy noise, so it falls "
            "short where that noise is not small beside the width",
            "the smooth sensitivity is small on data like these; else the interval is wide",
            "the statistic has a limit law at its rate: for a quantile, a density near it that "
            "isn't small, and no heavy ties",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; the noise scales come with the release."""
        return {**self.resampling.public, "beta": self.beta}

    @property
    def rate(self) -> float:
        """τ_m/τ_n, which takes a distance at m to a radius at n."""
        scale = self.statistic.scale
        return scale(self.resampling.size) / scale(self.resampling.n)

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Run Algorithm 4 on encoded records."""
        try:
            return self.release_on(records, self.resampling.sets(randomness.indices), randomness)
        except MultiplicityExceeded:
            return bottom(self.center.dimension)

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Run Algorithm 4 on given index sets, none of which may exceed the multiplicity bound."""
        pivot = self.pivot(records, sets)
        center, center_bound = self.center.release(
            self.units.fractions(pivot.estimate), pivot.center_bound, randomness
        )
        (radius,), radius_bound = self.radius.release(
            [pivot.distance * self.units.step], pivot.radius_bound, randomness
        )
        return Released(
            tuple(to_float(x + o) for x, o in zip(center, self.statistic.origin, strict=True)),
            max(to_float(radius), 0.0) * self.rate,
            {
                "center_noise": center_bound / self.center.mu_value,
                "radius_noise": radius_bound / self.radius.mu_value * self.rate,
            },
        )

    def pivot(self, records: Records, sets: Iterable[Indices]) -> SmoothPivot:
        """Return what is released, before any noise: **private**."""
        statistic, beta, points = self.statistic, self.beta, self.units.points
        full = statistic.value(records)
        resampled, largest = [], 0.0
        for indices in sets:
            sample = records[indices]
            resampled.append(points(statistic.value(sample, near=full)))
            largest = max(largest, statistic.smooth_sensitivity(sample, beta))
        estimate = points(full)
        own = statistic.smooth_sensitivity(records, beta)
        # Constants: what computing and rounding can add to a move, of the value and of Q.
        dimension = self.center.dimension
        error_n = statistic.rounding(self.resampling.n) + self.units.error(dimension)
        error_m = statistic.rounding(self.resampling.size) + self.units.error(dimension)
        telescoped = math.expm1(self.resampling.multiplicity * beta) / math.expm1(beta)
        return SmoothPivot(
            estimate=estimate,
            distance=quantile_distance(resampled, estimate, self.request.confidence_level),
            center_bound=own + 2 * float(error_n),
            radius_bound=largest * telescoped + own
            + 2 * float(error_n + error_m + self.units.step),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmoothPivot:
    """θ̂ and Q/τ_m in whole units, with their smooth sensitivities. Private."""

    estimate: Point
    distance: int
    center_bound: float
    radius_bound: float
