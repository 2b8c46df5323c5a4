"""The delta method, privately: intervals for smooth functions of means, from noisy moments.

Not from the paper. Ratios, variances, standard deviations and correlations are roots of equations
in a few means; the interval inverts the test of each value, as Fieller does for a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from confidp.central.methods.estimated_variance import center_share, student_t, total_variance
from confidp.central.methods.joint_moments import JointCovariance, JointMoments
from confidp.central.methods.method import Released, Request, bound_beside, box_around, unsuitable
from confidp.central.methods.private_covariance import (
    CovarianceMechanism,
    means_mechanism,
    unit_means,
)
from confidp.central.statistics.equations import Equation
from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP, sqrt_down, sqrt_up
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

Numbers = NDArray[np.float64]

# How far one record moves the means of (u², v², uv)/2, and their covariance, times n: u and v are
# centred columns in [−1, 1] (``docs/private_variance.md``, section 3).
DIAMETER, SPREAD = Fraction(1), Fraction(sqrt_up(Fraction(3, 2)))
_FINEST = 31  # bits of a centred column's steps, so that products stay under 2^62
_LARGEST = 1e60  # of a range: its fourth power is a float
NOT_CLEAR = (
    "at this budget what the statistic divides by isn't clear of 0: the interval is all that the "
    "bounds allow"
)


@runtime_checkable
class HasEquation(Statistic, Protocol):
    """A statistic that solves an equation in means."""

    @property
    def equation(self) -> Equation:
        """h(θ, m) = 0."""


@dataclass(frozen=True, slots=True)
class DeltaMethod:
    """An interval for a ratio, a correlation, a variance or a standard deviation.

    θ solves h(θ, m) = 0, where m holds k means (`Equation`). In three releases:

    - c̃, the columns' means, where m is of centred products, such as (X − EX)²: a small share;
    - m̃, the means of the columns or of the products of X − c̃, scaled, with noise ν;
    - S̃, their covariance matrix. But for the three products of a correlation it is released with
      the means, for no budget of its own (`JointCovariance`); else with noise ω in any direction.

    The interval is {θ: |h(θ, m̃)| ≤ t√w(θ)} within the θ that the bounds allow; w(θ) is what
    `total_variance` makes of bᵀS̃b/n + ν²‖b‖², b = ∂h/∂m at θ and m̃, in scaled columns.

    Notes
    -----
    **Privacy.** c̃ is a Gaussian mechanism (`means_mechanism`). Given c̃, scaled products of X − c̃
    are a fixed function of each record into a known set, whose size is bounded, so m̃ and S̃
    are Gaussian mechanisms too. Budgets are fixed beforehand and compose adaptively:
    μ_1² + μ_c² + μ_v² ≤ μ². The rest is post-processing. ∎ Everything released is an exact
    fraction; the lattices' δ₀ are in the cost. A joint release is one Gaussian mechanism, at
    μ_c² + μ_v².

    **Coverage.** At the true θ, h(θ, m̃) is close to normal around 0, with variance
    bᵀΣb/n + ν²‖b‖²; `total_variance` counts the noise in its estimate. A ratio's h is linear in m
    and a standard deviation's b is constant, so that nothing in them is linearised at a noisy
    point. (Of a joint release w is what `JointMoments` makes.) A correlation's is: its interval is
    all of [−1, 1], with a note, unless both noisy variances are 3 deviations above 0. A ratio's is
    all that the bounds allow unless the noisy denominator is t deviations above 0, where Fieller's
    set is no interval.

    Products of X − c̃ rather than X − EX: with e = c̃ − x̄ ~ N(0, ν²), the mean of (X − c̃)² is
    (n − 1)/n·s² + e². ν² is taken off, and the variance of what stays, 2ν⁴, is counted (ν_x²ν_y²
    for XY); n/(n − 1) is put back.

    Examples
    --------
    >>> from confidp import GDP, StandardDeviation, confidence_region
    >>> ages = np.random.default_rng(1).normal(40, 10, size=5000)
    >>> confidence_region(ages, StandardDeviation((0, 100), floor=1), budget=GDP(1.0), rng=7,
    ...                   method=DeltaMethod()).interval
    (9..., 10...)
    """

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    @property
    def one_sided(self) -> bool:
        """Yes."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> DeltaMethodPlan:
        """Choose the noise scales."""
        if not isinstance(statistic, HasEquation):
            raise unsuitable("DeltaMethod", "a smooth function of means", statistic)
        equation = statistic.equation
        if not all(1 / _LARGEST <= grid.range <= _LARGEST for grid in equation.grids):
            raise InvalidArgument("bounds must be between 1e-60 and 1e60 apart for DeltaMethod")
        n, columns = request.n, len(equation.grids)
        k = len(equation.pairs) or columns
        t = student_t(request)
        probe = _probe_share(request) if equation.pairs else Fraction(0)
        mu_squared = Fraction(request.mu) ** 2
        rest = (1 - probe) * mu_squared
        left = replace(request, mu=sqrt_down(rest))
        first = (
            means_mechanism(n, columns, sqrt_down(probe * mu_squared)) if equation.pairs else None
        )
        if len(equation.pairs) != 3:
            return DeltaMethodPlan(equation, request, first, JointCovariance(n, k, left.mu), t)
        share = center_share(left, 1, (t * t + 1) / 4)  # about as noisy as one column
        return DeltaMethodPlan(
            equation=equation,
            request=request,
            probe=first,
            center=GaussianMechanism(DIAMETER / n, sqrt_down(share * rest), k),
            t=t,
            spread=CovarianceMechanism(SPREAD / n, k, sqrt_down((1 - share) * rest)),
        )


def _probe_share(request: Request) -> Fraction:
    """Return the part of μ² for the columns' means: 1/50, and more where n is small.

    What is left of e² has deviation √2ν_1², ν_1 = R/(nμ_1), and counts beside the noise of the
    squares, of range R²/4 or more, as long as μ_1²/μ² isn't well over 10/(nμ).
    """
    return Fraction(min(0.25, 0.02 + 10 / (request.n * request.mu)))


@dataclass(frozen=True, slots=True)
class DeltaMethodPlan:
    """The delta method with every noise scale chosen.

    A `JointCovariance` releases the means and their covariance; else `spread` does the latter.
    """

    equation: Equation
    request: Request
    probe: GaussianMechanism | None
    center: GaussianMechanism | JointCovariance
    t: float
    spread: CovarianceMechanism | None = None

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' δ."""
        parts = self.center, self.spread, self.probe
        return GDP(self.request.mu, sum(part.cost.delta for part in parts if part is not None))

    @property
    def name(self) -> str:
        """For people."""
        return "delta method"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for the moments to be close to normal: squares and products of "
            "skewed data need more rows than their means",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """n and the noise scales, in units of the moments' ranges."""
        return {
            "n": self.request.n,
            "relative_center_noise": self.center.scale,
            "relative_covariance_noise": (
                self.center.scale * math.hypot(float(self.center.beta), self.center.dimension**0.5)
                if isinstance(self.center, JointCovariance)  # at most
                else self._spread.scale
            ),
            "relative_probe_noise": None if self.probe is None else self.probe.scale,
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release the moments and their covariance, and invert the tests."""
        measured = self.measure(records, randomness)
        released = self.invert(measured)
        public = {
            **released.public,
            "moments": measured.moments.tolist(),
            "scaled_covariance": measured.covariance.tolist(),
            "centers": None if measured.centers is None else list(measured.centers),
        }
        return replace(released, public=public)

    def measure(self, records: Records, randomness: Randomness) -> Measured:
        """Release all that depends on the data. This spends `cost`."""
        features = self.features(records, randomness)
        means: Sequence[Fraction]
        if isinstance(self.center, JointCovariance):
            means, covariance = self.center.release(features.rows, features.cells, randomness)
        else:
            means = self.center.release(unit_means(features.rows, features.cells), randomness)
            covariance = self._spread.release(features.rows, features.cells, randomness)
        tilts = np.array([1 - 2 * min(max(to_float(m), 0.0), 1.0) for m in means])
        scaled = zip(means, features.lowest, features.units, strict=True)
        moments = np.array([to_float(low + m * unit) for m, low, unit in scaled])
        if self.probe is not None:
            moments = (moments - features.bias) * (self.request.n / (self.request.n - 1))
        units = np.array([to_float(u) for u in features.units])
        return Measured(moments, covariance, units, tilts, features.extra, features.centers)

    def features(self, records: Records, randomness: Randomness) -> Features:
        """Return the columns whose means are wanted; this releases the centers of products."""
        grids, pairs = self.equation.grids, self.equation.pairs
        cells = [grid.cells for grid in grids]
        none = np.zeros(len(grids))
        if self.probe is None:
            lowest, ranges = zip(*((grid.lower, grid.range) for grid in grids), strict=True)
            return Features(records, tuple(cells), lowest, ranges, none, none)
        centers = self.probe.release(unit_means(records, cells), randomness)
        shifts = [max(c.bit_length() - _FINEST, 0) for c in cells]  # coarser, record by record
        cells = [c >> s for c, s in zip(cells, shifts, strict=True)]
        steps = [grid.step * 2**s for grid, s in zip(grids, shifts, strict=True)]
        at = [min(max(round(m * c), 0), c) for m, c in zip(centers, cells, strict=True)]
        off = [(column >> s) - a for column, s, a in zip(records.T, shifts, at, strict=True)]
        reach = [max(a, c - a) for a, c in zip(at, cells, strict=True)]
        half = 2 if len(pairs) == 3 else 1
        sizes = tuple(half * reach[j] * reach[k] for j, k in pairs)
        noise = [(self.probe.scale * to_float(grid.range)) ** 2 for grid in grids]
        return Features(
            np.stack([off[j] * off[k] for j, k in pairs], axis=1),
            sizes,
            (Fraction(0),) * len(pairs),
            tuple(size * steps[j] * steps[k] for size, (j, k) in zip(sizes, pairs, strict=True)),
            np.array([noise[j] if j == k else 0.0 for j, k in pairs]),
            np.array([noise[j] * noise[k] * (2 if j == k else 1) for j, k in pairs]),
            tuple(to_float(g.lower + g.range * m) for g, m in zip(grids, centers, strict=True)),
        )

    def invert(self, measured: Measured) -> Released:
        """Return the θ that the released numbers don't reject: post-processing."""
        moments, equation = measured.moments, self.equation
        low, high = equation.limits
        needed = max(self.t, equation.clear_by)
        basis = np.eye(len(moments))
        clear = all(
            moments[j] > needed * self._deviation(measured, basis[j])
            for j in equation.clear_of_zero
        )
        if not clear:
            return box_around([low / 2 + high / 2], [(low, high)], {"note": NOT_CLEAR})

        def margin(theta: float) -> float:
            gap = equation.gap(theta, moments)
            return self._reach(measured, equation.gradient(theta, moments), gap) - abs(gap)

        center = min(max(equation.root(moments), low), high)
        left, right = _edge(margin, center, low), _edge(margin, center, high)
        alternative = self.request.alternative
        if alternative == "two-sided":
            return box_around([center], [(left, right)])
        side = (left, high) if alternative == "greater" else (low, right)
        return bound_beside(center, side, alternative)

    @property
    def _spread(self) -> CovarianceMechanism:
        assert self.spread is not None  # beside a center that releases means alone
        return self.spread

    def _deviation(self, measured: Measured, gradient: Numbers) -> float:
        """Return √w of a combination of the moments."""
        size, variance, tilt, extra = measured.along(gradient)
        if isinstance(self.center, JointCovariance):
            return size * self._joint(self.center).deviation(tilt, variance, extra)
        n, least = self.request.n, self.center.scale**2 + extra
        estimate, noise = variance / n + least, self._spread.scale / n
        return size * math.sqrt(total_variance(estimate, noise, least, self.t))

    def _reach(self, measured: Measured, gradient: Numbers, gap: float) -> float:
        """Return how large a gap of that sign may be."""
        if self.request.alternative == "two-sided" or not isinstance(self.center, JointCovariance):
            return self.t * self._deviation(measured, gradient)
        size, variance, tilt, extra = measured.along(gradient)
        return size * self._joint(self.center).bound_width(tilt, variance, gap < 0, extra)

    def _joint(self, center: JointCovariance) -> JointMoments:
        return JointMoments(self.request.n, center.mechanism, self.t, float(center.beta))


@dataclass(frozen=True, slots=True)
class Measured:
    """What was released, for k moments: all of it public.

    Attributes
    ----------
    moments
        m̃, of shape (k,).
    covariance
        S̃ of the scaled columns, of shape (k, k).
    units
        What one is in scaled columns, of shape (k,).
    tilts
        1 − 2m̃ of the scaled columns, of shape (k,).
    extra
        Variances that the centers' noise adds to m̃, of shape (k,).
    centers
        c̃ in the units of the data, where m is of products.
    """

    moments: NDArray[np.float64]
    covariance: NDArray[np.float64]
    units: NDArray[np.float64]
    tilts: NDArray[np.float64]
    extra: NDArray[np.float64]
    centers: tuple[float, ...] | None

    def along(self, gradient: Numbers) -> tuple[float, float, float, float]:
        """Return ‖b‖, and in its direction m̃'s variance, tilt and extra variance, all scaled."""
        b = gradient * self.units
        size = math.sqrt(float(b @ b))
        u = b / size
        extra = float((gradient / size) ** 2 @ self.extra)
        return size, float(u @ self.covariance @ u), float(u @ self.tilts), extra


@dataclass(frozen=True, slots=True)
class Features:
    """The columns whose means make m, in whole numbers: scaled, they are rows_j/cells_j.

    m_j = lowest_j + (scaled mean)·units_j − bias_j; `extra` is what the centers' noise adds to its
    variance. The rows are **private**, the rest is public.
    """

    rows: Records = field(repr=False)
    cells: tuple[int, ...]
    lowest: tuple[Fraction, ...]
    units: tuple[Fraction, ...]
    bias: NDArray[np.float64]
    extra: NDArray[np.float64]
    centers: tuple[float, ...] | None = None  # as released, in the units of the data


def _edge(margin: Callable[[float], float], inside: float, limit: float) -> float:
    """Return how far from `inside` towards `limit` the margin stays at least 0."""
    if margin(limit) >= 0:
        return limit
    if margin(inside) <= 0:  # the root lies beyond the bounds, and so does all that is kept
        return inside
    return float(brentq(margin, inside, limit, xtol=abs(limit - inside) * 1e-13))
