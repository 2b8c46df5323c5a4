"""CR-GS: confidence regions via global sensitivity, as published (the paper, Algorithms 1 and 2).

The statistic is computed on the data and on B resamples, and noise is added **once**, to a quantile
of the resampling distances, instead of to each of B estimates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.method import Released, Request, bottom, unsuitable
from confidp.central.methods.noise_aware import (
    NoiseAwarePlan,
    check_alternative,
    half_samples,
    pivot_rate,
)
from confidp.central.pivots import Point, Units, quantile_distance
from confidp.central.resampling import (
    Indices,
    MultiplicityExceeded,
    Resampling,
    Sampling,
    check_settings,
)
from confidp.central.statistics.statistic import (
    MeanLike,
    Records,
    Statistic,
    resample,
    sensitivity_at,
)
from confidp.errors import choice
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

_UNIT_BITS = 32  # distances are whole numbers of 2^-32 of the sensitivity, or finer


@dataclass(frozen=True, slots=True)
class CRGS:
    """Algorithm 2 (CR-GS): noise on the center, and once on the resampling quantile.

    With Δ_N the sensitivity of θ on N records, κ⋆ the multiplicity bound of Algorithm 1 (1 without
    replacement), Z and Z_d standard normal:

    - center ``θ̃ = θ̂ + ν Z_d``, ν = √2·Δ_n/μ;
    - scaled radius ``Q̃ = max(Q + σ Z, 0)``, with Q = τ_m times the ⌈(1−α)B⌉-th smallest
      ‖θ*_i − θ̂‖₂ and σ = √2·τ_m(κ⋆Δ_m + Δ_n)/μ;
    - region {u : ‖u − θ̃‖₂ < Q̃/τ_n}.

    Parameters
    ----------
    sampling
        ``"without_replacement"`` or ``"with_replacement"``.
    resample_size
        m, from 1 to n (n − 1 without replacement). By default n/2 for ``"noise-aware"`` where τ_n
        is √n, and else ⌈n/ln n⌉, as in the paper's experiments.
    failure_probability
        ρ, with replacement as published only: with at most this probability Algorithm 1 returns ⊥,
        and the region is everything. By default 1/n.
    calibration
        ``"published"``: Algorithm 2. ``"noise-aware"``: the same releases at the same price, with
        a radius that counts both noises (`NoiseAwarePlan`); in one dimension also one-sided.

    Notes
    -----
    **Privacy** (theorem 4.2). Indices don't depend on the data, so fix them. One record appears at
    most κ⋆ times in a resample, so ‖θ*_i − θ̂‖₂ moves by at most κ⋆Δ_m + Δ_n, and an order statistic
    by no more than the largest of its inputs' moves. Center and radius are two Gaussian mechanisms
    at μ/√2 each, which compose to μ. ⊥ depends on the indices alone. ∎ The noise lattice adds
    (d+1)·δ₀ to δ. Float errors are in the sensitivities: distances are integers in units of 2^-32
    of Δ_n or finer, so both are larger by a relative 2^-31, plus the statistic's own `rounding`.

    **Coverage** is asymptotic, and the published radius knows nothing of the two noises: it falls
    short where they matter (at μ of 1 and under), and by √(1 − m/n) without replacement.
    """

    sampling: str = Sampling.WITHOUT_REPLACEMENT
    resample_size: int | None = None
    failure_probability: float | None = None
    calibration: str = "noise-aware"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        sampling, size = check_settings(self.sampling, self.resample_size, self.failure_probability)
        object.__setattr__(self, "sampling", sampling)
        object.__setattr__(self, "resample_size", size)
        choice("calibration", self.calibration, ("noise-aware", "published"))

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    @property
    def one_sided(self) -> bool:
        """Whether it can make one-sided intervals, in one dimension."""
        return self.calibration == "noise-aware"

    def plan(self, statistic: Statistic, request: Request) -> CRGSPlan | NoiseAwarePlan:
        """Choose m, κ⋆ and both noise scales."""
        if not isinstance(statistic, MeanLike):
            raise unsuitable("CR-GS", "a global sensitivity", statistic)
        n, dimension = request.n, len(statistic.origin)
        check_alternative(request.alternative, dimension)
        aware = self.calibration == "noise-aware"
        size = self.resample_size or (half_samples(statistic, n) if aware else None)
        resampling = Resampling.choose(
            n, request.n_resamples, Sampling(self.sampling), size, self.failure_probability
        )
        m = resampling.size
        delta_n, delta_m = (sensitivity_at(size, statistic.sensitivity) for size in (n, m))
        units = Units.below(delta_n / 2**_UNIT_BITS)
        error_n = statistic.rounding(n) + units.error(dimension)
        error_m = statistic.rounding(m) + units.error(dimension)
        pivot = resampling.multiplicity * delta_m + delta_n
        half = sqrt_down(Fraction(request.mu) ** 2 / 2)
        center = GaussianMechanism(delta_n + 2 * error_n, half, dimension)
        if aware:
            rate = pivot_rate(statistic, resampling)
            return NoiseAwarePlan(statistic, request, resampling, units, center, rate)
        return CRGSPlan(
            statistic=statistic,
            request=request,
            resampling=resampling,
            units=units,
            rate=statistic.scale(m) / statistic.scale(n),
            center=center,
            radius=GaussianMechanism(pivot + 2 * (error_m + error_n + units.step), half),
        )


@dataclass(frozen=True, slots=True)
class PublishedPlan(ABC):
    """What the paper's two algorithms share: a center, a resampling quantile, perhaps ⊥."""

    statistic: Statistic
    request: Request
    resampling: Resampling
    units: Units
    rate: float  # τ_m/τ_n, which takes a distance at m to a radius at n

    @abstractmethod
    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Release for given index sets, none of which may exceed the multiplicity bound."""

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw index sets by Algorithm 1, and release or return ⊥."""
        try:
            return self.release_on(records, self.resampling.sets(randomness.indices), randomness)
        except MultiplicityExceeded:
            return bottom(len(self.statistic.origin))

    def ball(
        self,
        center: Sequence[Fraction],
        distance: Fraction,
        public: Mapping[str, Any] | None = None,
    ) -> Released:
        """Return the ball around the noisy θ̂ − origin, of the noisy Q/τ_m times `rate`."""
        points = (to_float(x + o) for x, o in zip(center, self.statistic.origin, strict=True))
        return Released(tuple(points), max(to_float(distance), 0.0) * self.rate, public or {})


@dataclass(frozen=True, slots=True)
class CRGSPlan(PublishedPlan):
    """CR-GS with every public setting chosen."""

    statistic: MeanLike
    center: GaussianMechanism
    radius: GaussianMechanism  # of the distance itself: Q/τ_m

    @property
    def cost(self) -> GDP:
        """μ, and the lattice's (d+1)·δ₀."""
        parts = self.center.cost + self.radius.cost
        return GDP(self.request.mu, parts.delta)

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-GS (published, {self.resampling.sampling.replace('_', ' ')})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large: coverage is asymptotic and doesn't count the privacy noise, so it falls "
            "short where that noise is not small beside the width",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings and noise scales, in the units of the data."""
        return {
            **self.resampling.public,
            "center_noise": self.center.scale,
            "radius_noise": self.radius.scale * self.rate,
        }

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Run Algorithm 2 on given index sets, none of which may exceed the multiplicity bound."""
        estimate, distance = self.pivot(records, sets)
        center = self.center.release(self.units.fractions(estimate), randomness)
        (noisy,) = self.radius.release([distance * self.units.step], randomness)
        return self.ball(center, noisy)

    def pivot(self, records: Records, sets: Iterable[Indices]) -> tuple[Point, int]:
        """Return θ̂ − origin and Q/τ_m, in whole units: **private**, before any noise."""
        points = self.units.points
        full = self.statistic.value(records)
        estimate = points(full)
        resampled = points(resample(self.statistic, records, sets, near=full).values)
        return estimate, quantile_distance(resampled, estimate, self.request.confidence_level)
