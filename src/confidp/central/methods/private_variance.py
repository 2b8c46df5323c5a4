"""Private variance: noisy estimates and variances, and intervals that count all three errors.

Not from the paper: for means and U-statistics this is the interval to beat. Its half-width carries noise of order
1/n, where a resampling quantile's is of order 1/√n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.estimated_variance import center_share, student_t, total_variance
from confidp.central.methods.method import Plan, Released, Request, box_around, unsuitable
from confidp.central.methods.noise_aware import parameter_bounds
from confidp.central.methods.private_covariance import means_mechanism, plan_ellipsoid
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

    For means of d columns of ranges R_j, and μ² divided as μ_c² + μ_v² = μ²:

    - centers ``x̃_j = x̄_j + ν_j Z``, ν_j = √d·R_j/(nμ_c);
    - variances ``ṽ_j = s_j² + d_j Z′``, d_j = √d·R_j²/(nμ_v), s_j² with divisor n − 1;
    - half-widths ``t·√w_j``, w_j being what `total_variance` makes of ṽ_j/n + ν_j².

    t is the quantile of Student's t with n − 1 degrees of freedom at the two-sided level
    (1 − α)^{1/d}, so that all d intervals hold at once: a box. One-sided bounds are at 1 − α/d.

    For a U-statistic the same with d = 1, U for x̄, n times the jackknife's variance V for s², and
    what one record moves them for R/n and R²/n: of a kernel of two records with range R, 2R/n and
    about (2R)²/n (`confidp.central.statistics.jackknife`).

    Parameters
    ----------
    center_share
        μ_c²/μ², in (0, 1). By default a public rule of n, μ, d and the level (`center_share`).
    shape
        ``"box"``, or ``"ellipsoid"`` for a private covariance matrix (`PrivateCovariancePlan`): of
        less volume where columns are correlated, and with wider sides. The same in one dimension.

    Notes
    -----
    **Privacy.** Scale the columns to [0, 1]. Replacing one of n records moves each mean by at most
    1/n and each variance by at most 1/n (`Variance`), so d of either by √d/n in ℓ2, which one
    record that goes from corner to corner attains. Two Gaussian mechanisms at μ_c and μ_v compose
    to μ, and the rest is post-processing. ∎ The lattices add 2d·δ₀ to δ. Both statistics are exact
    fractions: there is no float error to cover. For a U-statistic the two sensitivities are those
    of the module `jackknife`, with its theorem.

    **Coverage.** x̃_j − θ_j is close to normal with variance σ²/n + ν², which is estimated with
    noise of deviation d_j/n; `total_variance` counts that, one- and two-sided. What is left is what
    the t interval itself lacks where n is small and the data are skewed. Šidák's inequality makes d
    two-sided intervals simultaneous whatever the correlations, and Bonferroni's one-sided ones.

    A one-sided interval ends at the column's own bound on its other side.

    Examples
    --------
    >>> from confidp.central.methods.method import Request
    >>> plan = PrivateVariance().plan(Mean(((0, 1), (0, 50))), Request(1000, 1.0, 0.9, 1))
    >>> plan.public["center_noise"]
    [0.0016..., 0.0811...]
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
        """Choose both noise scales."""
        n, d = request.n, len(statistic.origin)
        if not isinstance(statistic, Jackknifed) or not statistic.has_jackknife(n):
            need = "a mean, or a U-statistic of enough records whose kernel isn't degenerate,"
            raise unsuitable("PrivateVariance", need, statistic)
        if self.shape == "ellipsoid" and d > 1 and isinstance(statistic, Mean):
            if request.alternative != "two-sided":
                raise InvalidArgument(
                    f"alternative must be 'two-sided' for an ellipsoid, not {request.alternative!r}"
                )
            return plan_ellipsoid(statistic, request, self.center_share)
        t = student_t(request, intervals=d)
        centers, spreads = statistic.jackknife_sensitivity(n)
        units = tuple((n * c, n * v) for c, v in zip(centers, spreads, strict=True))
        ratio = max(_ratio(unit) for unit in units)
        share = (
            center_share(request, d, (t * t + 1) / 4 * ratio**2)
            if self.center_share is None
            else Fraction(self.center_share)
        )
        mu_squared = Fraction(request.mu) ** 2
        return PrivateVariancePlan(
            statistic=statistic,
            request=request,
            center=means_mechanism(n, d, sqrt_down(share * mu_squared)),
            spread=means_mechanism(n, d, sqrt_down((1 - share) * mu_squared)),
            t=t,
            units=units,
        )


@dataclass(frozen=True, slots=True)
class PrivateVariancePlan:
    """Private variance with both noise scales chosen, in units by which one record moves all 1/n.

    `units` are such ones of θ_j and V_j: R_j and R_j² for means.
    """

    statistic: Jackknifed
    request: Request
    center: GaussianMechanism
    spread: GaussianMechanism
    t: float
    units: tuple[tuple[Fraction, Fraction], ...]

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' 2d·δ₀."""
        return GDP(self.request.mu, (self.center.cost + self.spread.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return "private variance" if len(self.units) == 1 else "private variance (box)"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for the estimate to be close to normal: on very skewed data a few "
            "hundred rows are not, with privacy or without",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """n and the noise scales, in the units of the data and of their square."""
        return {
            "n": self.request.n,
            "center_noise": _one_or_all([self.center.scale * to_float(c) for c, _ in self.units]),
            "variance_noise": _one_or_all([self.spread.scale * to_float(v) for _, v in self.units]),
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release the estimates and their variances, and make the intervals."""
        exact, exact_variances = self.statistic.jackknife(records)
        scaled = [x / c for x, (c, _) in zip(exact, self.units, strict=True)]
        scaled_variances = [x / v for x, (_, v) in zip(exact_variances, self.units, strict=True)]
        moved = self.center.release(scaled, randomness)
        variances = [to_float(v) for v in self.spread.release(scaled_variances, randomness)]
        units = [(to_float(c), to_float(v)) for c, v in self.units]
        center = [
            to_float(origin + unit * m)
            for origin, (unit, _), m in zip(self.statistic.origin, self.units, moved, strict=True)
        ]
        reach = [
            unit * self.half_width(variance, _ratio(both))
            for (unit, _), both, variance in zip(units, self.units, variances, strict=True)
        ]
        in_units = [v * variance for (_, v), variance in zip(units, variances, strict=True)]
        public = {"variance": _one_or_all(in_units)}
        if self.request.alternative == "two-sided":
            if len(center) == 1:
                return Released(tuple(center), reach[0], public)
            sides = [(c - h, c + h) for c, h in zip(center, reach, strict=True)]
            return box_around(center, sides, public)
        ends = zip(center, reach, self._limits(), strict=True)
        box = tuple(_side(c, h, limits, self.request.alternative) for c, h, limits in ends)
        return Released(tuple(center), max(reach), public, box=box)

    def half_width(self, variance: float, ratio: float = 1.0) -> float:
        """Return the half-width that a released variance makes, both scaled: post-processing.

        `ratio` is the variance's unit over the square of the estimate's.
        """
        n, least = self.request.n, self.center.scale**2
        noise = ratio * self.spread.scale / n
        total = total_variance(ratio * variance / n + least, noise, least, self.t)
        return self.t * math.sqrt(total)

    def _limits(self) -> Sequence[tuple[float, float]]:
        if isinstance(self.statistic, Mean):
            return tuple(self.statistic.bounds)
        return (parameter_bounds(self.statistic),)


def _ratio(unit: tuple[Fraction, Fraction]) -> float:
    center, spread = unit
    return to_float(spread / center**2)


def _side(
    center: float, reach: float, bounds: tuple[float, float], alternative: str
) -> tuple[float, float]:
    """Return a one-sided interval, up to the bound: a mean can't be outside of its bounds."""
    lower, upper = bounds
    if alternative == "greater":
        return min(center - reach, upper), upper
    return lower, max(center + reach, lower)


def _one_or_all(numbers: list[float]) -> float | list[float]:
    return numbers[0] if len(numbers) == 1 else numbers
