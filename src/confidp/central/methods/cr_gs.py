"""CR-GS: confidence regions via global sensitivity, as published (the paper, Algorithms 1 and 2).

The statistic is computed on the data and on B resamples, and noise is added **once**, to a quantile
of the resampling distances, instead of to each of B estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.method import Ball, Request
from confidp.central.resampling import (
    Indices,
    MultiplicityExceeded,
    Sampling,
    multiplicity_bound,
    multiplicity_constrained,
    resamples,
)
from confidp.central.statistics.statistic import MeanLike, Records, Statistic
from confidp.errors import InvalidArgument, InvalidType, integer, real
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

_UNIT_BITS = 32  # distances are integers in units of at most 2^-32 of the sensitivity
_LARGEST = 2**62


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
        m, from 1 to n (n − 1 without replacement). By default ⌈n/ln n⌉, as in the paper's
        experiments.
    failure_probability
        ρ, with replacement only: with at most this probability Algorithm 1 returns ⊥, and the
        region is everything. By default 1/n.

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

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.sampling not in tuple(Sampling):
            raise InvalidArgument(
                f"sampling must be one of {', '.join(Sampling)}, not {self.sampling!r}"
            )
        object.__setattr__(self, "sampling", Sampling(self.sampling))
        if self.resample_size is not None:
            integer("resample_size", self.resample_size, least=1)
        if self.failure_probability is not None:
            rho = self.failure_probability
            real("failure_probability", rho, "in (0, 1)", lambda x: 0 < x < 1)

    def plan(self, statistic: Statistic, request: Request) -> CRGSPlan:
        """Choose m, κ⋆ and both noise scales."""
        if not isinstance(statistic, MeanLike):
            raise InvalidType(
                f"method must suit the statistic: CR-GS needs a global sensitivity, and "
                f"{statistic.describe()['statistic']} has none"
            )
        n, sampling = request.n, Sampling(self.sampling)
        most = n if sampling is Sampling.WITH_REPLACEMENT else n - 1
        m = self.resample_size or min(math.ceil(n / math.log(n)), most)
        if m > most:
            raise InvalidArgument(
                f"resample_size must be at most {most} {sampling.replace('_', ' ')}, not {m}"
            )
        rho = self.failure_probability or 1 / n
        kappa = (
            multiplicity_bound(n, m, request.n_resamples, rho)
            if sampling is Sampling.WITH_REPLACEMENT
            else 1
        )
        half = sqrt_down(Fraction(request.mu) ** 2 / 2)
        dimension = len(statistic.origin)
        delta_n, delta_m = Fraction(statistic.sensitivity(n)), Fraction(statistic.sensitivity(m))
        unit = _unit(delta_n)
        # Each coordinate is off by half a unit on the grid of distances; √d ≤ d.
        error_n = statistic.rounding(n) + unit * dimension / 2
        error_m = statistic.rounding(m) + unit * dimension / 2
        return CRGSPlan(
            statistic=statistic,
            request=request,
            sampling=sampling,
            resample_size=m,
            failure_probability=rho,
            multiplicity=kappa,
            unit=unit,
            center=GaussianMechanism(delta_n + 2 * error_n, half, dimension),
            radius=GaussianMechanism(
                kappa * delta_m + delta_n + 2 * (error_m + error_n + unit), half
            ),
        )


@dataclass(frozen=True, slots=True)
class CRGSPlan:
    """CR-GS with every public setting chosen."""

    statistic: MeanLike
    request: Request
    sampling: Sampling
    resample_size: int
    failure_probability: float
    multiplicity: int
    unit: Fraction
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
        return f"CR-GS (published, {self.sampling.replace('_', ' ')})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "one row is one person, and rows are independent draws from the population",
            *self.statistic.assumes,
            "n is large: coverage is asymptotic and doesn't count the privacy noise, so it falls "
            "short where that noise is not small beside the width",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings and noise scales, in the units of the data."""
        with_replacement = self.sampling is Sampling.WITH_REPLACEMENT
        return {
            "n": self.request.n,
            "resample_size": self.resample_size,
            "n_resamples": self.request.n_resamples,
            "sampling": str(self.sampling),
            "multiplicity_bound": self.multiplicity,
            "failure_probability": self.failure_probability if with_replacement else None,
            "center_noise": self.center.scale,
            "radius_noise": self.radius.scale * self.rate,
        }

    @property
    def rate(self) -> float:
        """τ_m/τ_n, which takes a distance at m to a radius at n."""
        scale = self.statistic.scale
        return scale(self.resample_size) / scale(self.request.n)

    def release(self, records: Records, randomness: Randomness) -> Ball:
        """Run Algorithm 2 on encoded records."""
        sets = resamples(
            self.request.n,
            self.resample_size,
            self.request.n_resamples,
            self.sampling,
            randomness.indices,
        )
        if self.sampling is Sampling.WITH_REPLACEMENT:
            sets = multiplicity_constrained(sets, self.multiplicity)
        try:
            return self.release_on(records, sets, randomness)
        except MultiplicityExceeded:
            return Ball((math.nan,) * self.center.dimension, math.inf)  # ⊥

    def release_on(self, records: Records, sets: Iterable[Indices], randomness: Randomness) -> Ball:
        """Run Algorithm 2 on given index sets, none of which may exceed the multiplicity bound."""
        estimate, distance = self.pivot(records, sets)
        center = self.center.release([int(x) * self.unit for x in estimate], randomness)
        (radius,) = self.radius.release([distance * self.unit], randomness)
        return Ball(
            tuple(to_float(x + o) for x, o in zip(center, self.statistic.origin, strict=True)),
            max(to_float(radius), 0.0) * self.rate,
        )

    def pivot(self, records: Records, sets: Iterable[Indices]) -> tuple[NDArray[np.int64], int]:
        """Return θ̂ − origin and Q/τ_m, in whole units: **private**, before any noise."""
        value = self.statistic.value
        full = value(records)
        estimate = self._on_units(full)
        resampled = [self._on_units(value(records[indices], near=full)) for indices in sets]
        return estimate, _quantile_distance(resampled, estimate, self.request.confidence_level)

    def _on_units(self, value: NDArray[np.float64]) -> NDArray[np.int64]:
        """Round to whole units; clipping to 62 bits never widens a difference."""
        with np.errstate(over="ignore"):  # an infinity clips too
            scaled = np.rint(value / float(self.unit))  # a power of two: an exact division
        return np.clip(scaled, -_LARGEST, _LARGEST).astype(np.int64)


def _unit(sensitivity: Fraction) -> Fraction:
    """Return the power of two at or under 2^-32 of `sensitivity`."""
    bits = sensitivity.numerator.bit_length() - sensitivity.denominator.bit_length() - 1
    return Fraction(2) ** (bits - _UNIT_BITS)


def _quantile_distance(
    resampled: list[NDArray[np.int64]], estimate: NDArray[np.int64], level: float
) -> int:
    """Return the ⌈level·B⌉-th smallest distance to `estimate`, rounded down to a whole unit."""
    center = estimate.tolist()
    squares = sorted(
        sum((x - c) ** 2 for x, c in zip(point.tolist(), center, strict=True))
        for point in resampled
    )
    rank = math.ceil(Fraction(repr(level)) * len(squares))  # 0.9 is 9/10: no float surprise
    return math.isqrt(squares[rank - 1])
