"""CR-SS calibrated for its own noise: both of PTR-GDP's bounds first, then what they scale.

The published order draws the center whole, then the radius. Here both bounds are released before
either value, so that the radius may count the two noises, whose scales they set. Proofs in full:
``docs/noise_aware.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.method import Released, Request
from confidp.central.methods.noise_aware import calibrated_reach, reach_mechanism, region_around
from confidp.central.methods.ptr_gdp import PTRGDP
from confidp.central.pivots import Units
from confidp.central.resampling import Indices, Resampling, resamples
from confidp.central.statistics.statistic import (
    Records,
    SmoothFriendly,
    Statistic,
    resample_smooth,
)
from confidp.privacy.guarantees import GDP
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class SmoothPivots:
    """What is released, before any noise: **private**.

    Attributes
    ----------
    estimate
        θ̂ − origin, on a fixed grid.
    pivots
        w_i, of shape (B, d), in the units of the data.
    center_bound, radius_bound
        A smooth bound on how far θ̂ moves, and one on how far any w_i does, as computed.
    """

    estimate: Sequence[Fraction]
    pivots: NDArray[np.float64]
    center_bound: float
    radius_bound: float


def release_with_bounds(
    private: SmoothPivots,
    center: PTRGDP,
    radius: PTRGDP,
    statistic: Statistic,
    request: Request,
    randomness: Randomness,
) -> Released:
    """Release both bounds, then center and radius with noise at them, the radius counting both.

    With S_c and S_r the two smooth bounds, β_c and β_r their smoothness:

    - ``B_c = S_c·exp((β_c/μ₁)(Z + Φ⁻¹(1−δ′)))``, ``B_r = S_r·exp((β_r/μ₃)(Z + Φ⁻¹(1−δ′)))``;
    - ``θ̃ = θ̂ + (B_c/μ₂) Z_d``, ``Q̃ = Q + (B_r/μ₄) Z₁``, where Q is the noise-aware radius
      (`calibrated_reach`) for s_c = B_c/μ₂ and s_r = B_r/μ₄.

    Notes
    -----
    **Privacy** (lemma 5.4 for a vector of bounds). Releasing (B_c, B_r, θ̃, Q̃) is
    (√(μ₁²+μ₂²+μ₃²+μ₄²), 2δ′)-GDP. Fix neighbours D, D′ and the indices. Let R be the law that draws
    both bounds as D′ does, then θ̃ from D′ if B_c ≥ S_c(D′) and from D otherwise, and Q̃ likewise by
    B_r ≥ S_r(D′). The bounds' logarithms move by β_c and β_r: under D and R they are two Gaussian
    mechanisms at μ₁ and μ₃. Given the bounds, whatever they are, Q of D and Q of D′ are calibrated
    to the *same* two scales, so they lie as far apart as the w_i do, S_r(D′) at most. So each
    value's two laws are the same, or normals at most B apart with deviation B/μ: T(D, R) ≥ G_μ. R
    differs from D′'s own law only where B_c < S_c(D′) or B_r < S_r(D′): TV ≤ 2δ′. ∎ A scale that
    isn't what was released would add its own move to Q's, and the proof would fail.

    Q's float error, 3e-6·s_r, is added to the sensitivity B_r twice, after B_r is known.
    """
    center_bound = center.release_bound(private.center_bound, randomness)
    radius_bound = radius.release_bound(private.radius_bound, randomness)
    # From here on both scales are public.
    values = center.value_mechanism(center_bound)
    mechanism, nominal = reach_mechanism(Fraction(radius_bound), radius.mu_value)
    level, alternative = request.confidence_level, request.alternative
    reach = calibrated_reach(private.pivots, values.scale, nominal, level, alternative)
    noisy_center = values.release(private.estimate, randomness)
    (noisy_reach,) = mechanism.release([Fraction(reach)], randomness)
    public = {"center_noise": values.scale, "radius_noise": mechanism.scale}
    return region_around(noisy_center, noisy_reach, values.scale, statistic, request, public)


@dataclass(frozen=True, slots=True)
class SmoothPlan:
    """What the plans of noise-aware CR-SS share: all public, and all chosen."""

    request: Request
    resampling: Resampling
    center: PTRGDP
    radius: PTRGDP
    rate: float  # c

    @property
    def cost(self) -> GDP:
        """(μ, δ), the lattices included."""
        return GDP(self.request.mu, (self.center.cost + self.radius.cost).delta)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for resampling to work: coverage is asymptotic, though it counts "
            "the privacy noise",
            "the smooth sensitivity is small on data like these; else the interval is wide",
            "the statistic has a limit law at its rate: for a quantile, a density near it that "
            "isn't small, and no heavy ties",
        )


@dataclass(frozen=True, slots=True)
class NoiseAwareSmoothPlan(SmoothPlan):
    """Noise-aware CR-SS with every public setting chosen but κ, which the drawn indices give.

    Pivots are w_i = c(θ*_i − θ̂), c = (τ_m/τ_n)/√(1 − m/n) for √n-statistics without replacement and
    τ_m/τ_n else. With κ the realised multiplicity, S_c = SS_{β_c}(D) and

        S_r = c·(max_i SS_β(D[S_i])·(e^{κβ} − 1)/(e^β − 1) + SS_β(D)),

    which bounds how far any w_i moves and is κβ-smooth (lemma 5.5, as in `CRSS`);
    `release_with_bounds` does the rest. The guarantee holds for each collection of index sets, so κ
    may be what was drawn, and there is no ⊥.
    """

    statistic: SmoothFriendly
    units: Units
    beta: float  # of the radius for one record; `radius` has it for κ⋆, `release_on` for κ

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-SS (noise-aware, {self.resampling.sampling.replace('_', ' ')})"

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; κ and the noise scales come with the release."""
        return {
            **self.resampling.public,
            "failure_probability": None,
            "beta": self.beta,
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw indices, compute, and release."""
        r = self.resampling
        sets = resamples(r.n, r.size, r.n_resamples, r.sampling, randomness.indices)
        return self.release_on(records, sets, randomness)

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Release for given index sets."""
        private, kappa = self.pivots(records, sets)
        radius = replace(self.radius, beta=kappa * self.beta)
        released = release_with_bounds(
            private, self.center, radius, self.statistic, self.request, randomness
        )
        return replace(released, public={**released.public, "multiplicity_bound": kappa})

    def pivots(self, records: Records, sets: Iterable[Indices]) -> tuple[SmoothPivots, int]:
        """Return what is released, before any noise (**private**), and the multiplicity."""
        statistic, beta, points = self.statistic, self.beta, self.units.points
        resampled = resample_smooth(statistic, records, sets, beta)
        estimate = points(resampled.value)
        kappa = resampled.multiplicity
        moved = points(resampled.values) - estimate
        # Constants: what computing and rounding can add to a move.
        dimension = self.center.dimension
        error_n = statistic.rounding(self.resampling.n) + self.units.error(dimension)
        error_m = statistic.rounding(self.resampling.size) + self.units.error(dimension)
        telescoped = math.expm1(kappa * beta) / math.expm1(beta)
        own = statistic.smooth_sensitivity(records, self.center.beta)
        moves = resampled.largest_sensitivity * telescoped + resampled.sensitivity
        return SmoothPivots(
            estimate=self.units.fractions(estimate),
            pivots=moved.astype(np.float64) * (float(self.units.step) * self.rate),
            center_bound=own + 2 * float(error_n),
            radius_bound=self.rate * (moves + 2 * float(error_n + error_m)),
        ), kappa
