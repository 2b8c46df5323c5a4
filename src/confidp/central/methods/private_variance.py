"""Private variance: a noisy mean, a noisy variance, and the interval that counts all three errors.

Not from the paper: for a mean this is the interval to beat. Its half-width carries noise of order
1/n, where a resampling quantile's is of order 1/√n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.special import stdtrit

from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import Records, Statistic
from confidp.central.statistics.u_kernels import Variance
from confidp.errors import real
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class PrivateVariance:
    """A t interval for the mean of one column, from a private mean and a private variance.

    With R the range of the bounds and μ² divided as μ_c² + μ_v² = μ²:

    - center ``x̃ = x̄ + ν Z``, ν = R/(nμ_c);
    - variance ``ṽ = s² + d Z′``, d = R²/(nμ_v), s² with divisor n − 1;
    - half-width ``t·√(v/n + ν²)``, with t the (1 − α/2)-quantile of Student's t with n − 1 degrees
      of freedom, and v = max(ṽ, 0) + (t² + 1)/4 · d²/max(ṽ, d).

    Parameters
    ----------
    center_share
        μ_c²/μ², in (0, 1).

    Notes
    -----
    **Privacy.** Replacing one of n records moves the mean by at most R/n and the variance by at
    most R²/n (`Variance`); two Gaussian mechanisms at μ_c and μ_v compose to μ, and the rest is
    post-processing. ∎ The lattices add 2δ₀ to δ. Both statistics are exact fractions: there is no
    float error to cover.

    **Coverage.** x̃ − θ is close to normal with variance σ²/n + ν², both known or estimated. An
    estimated variance with a relative error of deviation r makes a normal interval miss more often,
    to second order as if the variance were smaller by a factor 1 − r²(t² + 1)/4: coverage is
    2Φ(t√(1+rZ)) − 1 on average over Z, whose second derivative in r at 0 is −t(t²+1)φ(t)/2. The
    last term of v puts that back, with r = d/max(ṽ, d) ≤ 1. What is left is what the t interval
    itself lacks where n is small and the data are skewed.
    """

    center_share: float = 0.8

    def __post_init__(self) -> None:
        """Refuse a share that leaves either part nothing."""
        real("center_share", self.center_share, "in (0, 1)", lambda x: 0 < x < 1)

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    def plan(self, statistic: Statistic, request: Request) -> PrivateVariancePlan:
        """Choose both noise scales."""
        if not isinstance(statistic, Mean) or len(statistic.grids) != 1:
            raise unsuitable("PrivateVariance", "a mean of one column", statistic)
        variance = Variance(statistic.bounds, statistic.resolution)
        share = Fraction(self.center_share)
        mu_squared = Fraction(request.mu) ** 2
        return PrivateVariancePlan(
            statistic=statistic,
            variance=variance,
            request=request,
            center=GaussianMechanism(
                statistic.sensitivity(request.n), sqrt_down(share * mu_squared)
            ),
            spread=GaussianMechanism(
                variance.sensitivity(request.n), sqrt_down((1 - share) * mu_squared)
            ),
        )


@dataclass(frozen=True, slots=True)
class PrivateVariancePlan:
    """Private variance with both noise scales chosen."""

    statistic: Mean
    variance: Variance
    request: Request
    center: GaussianMechanism
    spread: GaussianMechanism

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' 2δ₀."""
        return GDP(self.request.mu, (self.center.cost + self.spread.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return "private variance"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for the mean to be close to normal: on very skewed data a few "
            "hundred rows are not, with privacy or without",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """n and the noise scales, in the units of the data and of their square."""
        return {
            "n": self.request.n,
            "center_noise": self.center.scale,
            "variance_noise": self.spread.scale,
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release the two numbers and make the interval."""
        (grid,) = self.statistic.grids
        mean = Fraction(int(records.sum()), len(records)) * grid.step
        (center,) = self.center.release([mean], randomness)
        (variance,) = self.spread.release([self.variance.exact(records)], randomness)
        released = to_float(variance)
        return Released(
            (to_float(center + grid.lower),),
            self.half_width(released),
            {"variance": released},
        )

    def half_width(self, variance: float) -> float:
        """Return the half-width that a released variance makes: post-processing."""
        n, noise = self.request.n, self.spread.scale
        t = float(stdtrit(n - 1, (1 + self.request.confidence_level) / 2))
        counted = max(variance, 0.0) + (t * t + 1) / 4 * noise * (noise / max(variance, noise))
        return t * math.sqrt(counted / n + self.center.scale**2)
