"""Private variance: noisy estimates and variances, and intervals that count all three errors.

Not from the paper: for means and U-statistics this is the interval to beat. Its half-width carries
noise of order 1/n, where a resampling quantile's is of order 1/√n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.estimated_variance import center_share, student_t, total_variance
from confidp.central.methods.joint_moments import (
    NORMAL,
    JointMomentsPlan,
    moments_mechanism,
    one_sided,
)
from confidp.central.methods.method import Plan, Released, Request, bound_beside, unsuitable
from confidp.central.methods.noise_aware import parameter_bounds
from confidp.central.methods.private_covariance import plan_ellipsoid
from confidp.central.statistics.jackknife import Jackknifed
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidArgument, choice, real
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

SHAPES = ("box", "ellipsoid")


@dataclass(frozen=True, slots=True)
class PrivateVariance:
    """t intervals for means and U-statistics, from private estimates and private variances.

    For means of d columns of ranges R_j (`JointMomentsPlan`):

    - centers ``x̃_j = x̄_j + ν_j Z``, ν_j = √d·R_j/(nμ), as if nothing else were released;
    - variances s̃_j², with noise of deviation ν_j·R_j·√(β² + (1 − 2m_j)²), m_j the mean on [0, 1]
      and β = 0.3003;
    - half-widths ``t·√w_j``, w_j being what `total_variance` makes of s̃_j²/n + ν_j².

    t is the quantile of Student's t with n − 1 degrees of freedom at the two-sided level
    (1 − α)^{1/d}, so that all d intervals hold at once: a box. One-sided bounds are at 1 − α/d.

    For a U-statistic (`JackknifePlan`) U and n times the jackknife's variance are released with
    μ_c² + μ_v² = μ²: of a kernel of two records with range R, one record moves them by 2R/n and
    about (2R)²/n (`confidp.central.statistics.jackknife`).

    Parameters
    ----------
    center_share
        μ_c²/μ², in (0, 1), for U-statistics and ellipsoids. By default a public rule of n, μ, d and
        the level (`center_share`). Means with their variances have nothing to share.
    shape
        ``"box"``, or ``"ellipsoid"`` for a private covariance matrix (`PrivateCovariancePlan`): of
        less volume where columns are correlated, and with wider sides. The same in one dimension.

    Notes
    -----
    **Privacy.** `moments_mechanism` has the proof for means: one Gaussian mechanism at μ. For a
    U-statistic two of them, at μ_c and μ_v, with the sensitivities of the module `jackknife`,
    compose to μ. The rest is post-processing. ∎ The lattices add 2d·δ₀ to δ. All that is released
    is exact fractions before noise: there is no float error to cover.

    **Coverage.** x̃_j − θ_j is close to normal with variance σ²/n + ν², which is estimated with
    noise; that is counted, one- and two-sided. What is left is what the t interval itself lacks
    where n is small and the data are skewed. Šidák's inequality makes d two-sided intervals
    simultaneous whatever the correlations, and Bonferroni's one-sided ones.

    A one-sided interval ends at the column's own bound on its other side.

    Examples
    --------
    >>> from confidp.central.methods.method import Request
    >>> plan = PrivateVariance().plan(Mean(((0, 1), (0, 50))), Request(1000, 1.0, 0.9, 1))
    >>> plan.public["center_noise"]
    [0.0014..., 0.0707...]
    """

    center_share: float | None = None
    shape: str = "box"

    def __post_init__(self) -> None:
        """Refuse a share that leaves either part nothing, and unknown shapes."""
        if self.center_share is not None:
            share = real("center_share", self.center_share, "in [1e-9, 1)", lambda x: 1e-9 <= x < 1)
            object.__setattr__(self, "center_share", share)
        choice("shape", self.shape, SHAPES)

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    @property
    def one_sided(self) -> bool:
        """Yes, but for ellipsoids."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> Plan:
        """Choose the noise scales."""
        n = request.n
        if isinstance(statistic, Mean):
            return self._means(statistic, request)
        if not isinstance(statistic, Jackknifed) or not statistic.has_jackknife(n):
            need = "a mean, or a U-statistic of enough records whose kernel isn't degenerate,"
            raise unsuitable("PrivateVariance", need, statistic)
        t = student_t(request)
        center, spread = statistic.jackknife_sensitivity(n)
        ratio = to_float(spread / (n * center**2))  # 1 where V moves as a mean's variance would
        share = (
            center_share(request, 1, (t * t + 1) / 4 * ratio**2)
            if self.center_share is None
            else Fraction(self.center_share)
        )
        mu_squared = Fraction(request.mu) ** 2
        return JackknifePlan(
            statistic=statistic,
            request=request,
            center=GaussianMechanism(center, sqrt_down(share * mu_squared)),
            spread=GaussianMechanism(spread, sqrt_down((1 - share) * mu_squared)),
            t=t,
        )

    def _means(self, statistic: Mean, request: Request) -> Plan:
        n, d = request.n, len(statistic.grids)
        if self.shape == "ellipsoid" and d > 1:
            if request.alternative != "two-sided":
                raise InvalidArgument(
                    f"alternative must be 'two-sided' for an ellipsoid, not {request.alternative!r}"
                )
            return plan_ellipsoid(statistic, request, self.center_share)
        if self.center_share is not None:
            raise InvalidArgument(
                f"center_share must be None for intervals of means, not {self.center_share:g}: "
                f"their variances come with them"
            )
        mechanism = moments_mechanism(n, d, request.mu)
        return JointMomentsPlan(statistic, request, mechanism, student_t(request, intervals=d))


@dataclass(frozen=True, slots=True)
class JackknifePlan:
    """An interval for a U-statistic with both noise scales chosen."""

    statistic: Jackknifed
    request: Request
    center: GaussianMechanism
    spread: GaussianMechanism
    t: float

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
        return (NORMAL,)

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
        """Release U and V, and make the interval."""
        u, v = self.statistic.jackknife(records)
        (moved,), (noisy,) = (
            self.center.release([u], randomness),
            self.spread.release([v], randomness),
        )
        variance, center = to_float(noisy), to_float(moved + self.statistic.origin[0])
        reach, alternative = self.half_width(variance), self.request.alternative
        public = {"variance": variance}
        if alternative == "two-sided":
            return Released((center,), reach, public)
        side = one_sided(center, reach, parameter_bounds(self.statistic), alternative)
        return bound_beside(center, side, alternative, public)

    def half_width(self, variance: float) -> float:
        """Return the half-width that a released V makes: post-processing."""
        n, least = self.request.n, self.center.scale**2
        total = total_variance(variance / n + least, self.spread.scale / n, least, self.t)
        return self.t * math.sqrt(total)
