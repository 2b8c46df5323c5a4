"""Smooth functions of means: standard deviation, ratio of means, correlation, with public floors.

Without a floor none of them has a small sensitivity: dividing by a deviation or a mean that one
record can move to 0 moves them arbitrarily (the paper's "Lipschitz functions of means", section
4 (i), need the Lipschitz constant to be real).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid, check_bounds, encode_columns, is_list
from confidp.central.resampling import IndexSets
from confidp.central.statistics.equations import (
    CorrelationEquation,
    Equation,
    RatioEquation,
    SpreadEquation,
)
from confidp.central.statistics.exact import exact_dot, exact_sum
from confidp.central.statistics.mean import (
    PUBLIC_BOUNDS,
    Moments,
    resample_by_moments,
    resampled_sums,
)
from confidp.central.statistics.statistic import Resampled
from confidp.errors import InvalidArgument, InvalidType, real


class _FunctionOfMeans(ABC):
    """What the three share: records as whole numbers of grid steps, and an error of order 1/√n."""

    __slots__ = ()
    bounds: Any
    resolution: float | None
    grids: tuple[Grid, ...]

    @property
    @abstractmethod
    def equation(self) -> Equation:
        """The equation in means that it solves, for `DeltaMethod`."""

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """Zero."""
        return (Fraction(0),)

    def for_shape(self, n: int, columns: int) -> Self:
        """Check the number of columns."""
        if columns != len(self.grids):
            raise InvalidArgument(
                f"data must have {len(self.grids)} columns for a {self.describe()['statistic']}, "
                f"not {columns}"
            )
        return self

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the (n, columns) integers of the nearest grid points, after clipping."""
        return encode_columns(self.grids, rows)

    def scale(self, n: int) -> float:
        """Return √n."""
        return math.sqrt(n)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""

    def _description(self, name: str, **more: Any) -> dict[str, Any]:
        pairs = [list(pair) for pair in self.bounds]
        return {"statistic": name, "bounds": pairs, "resolution": self.resolution, **more}


@dataclass(frozen=True, slots=True)
class StandardDeviation(_FunctionOfMeans):
    """The standard deviation (n − 1), at least `floor`, of values clipped to public bounds.

    Parameters
    ----------
    bounds
        ``(lower, upper)``.
    floor
        Above 0: a deviation that the population surely has. The value is max(s, floor).
    resolution
        The data's public step.

    Notes
    -----
    **Sensitivity.** s² moves by at most R²/n: with x̄ the mean of the other n − 1 records, putting
    in x adds (x − x̄)²/n, and one such term replaces another, both in [0, R²/n]. On s² ≥ floor² the
    root is 1/(2·floor)-Lipschitz, so Δ_n = R²/(2·floor·n).

    Examples
    --------
    >>> StandardDeviation((0, 10), floor=1, resolution=1).for_shape(100, 1).sensitivity(100)
    Fraction(1, 2)
    """

    bounds: Any
    floor: float
    resolution: float | None = None
    grids: tuple[Grid, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        (pair,) = _pairs(self.bounds, 1)
        object.__setattr__(self, "bounds", (pair,))
        object.__setattr__(self, "grids", (Grid.over(pair, self.resolution),))
        floor = _check_floor("floor", self.floor, pair[1] - pair[0])
        object.__setattr__(self, "floor", floor)

    @property
    def assumes(self) -> tuple[str, ...]:
        """Where its limit law holds."""
        return (PUBLIC_BOUNDS, f"the population's standard deviation is above {self.floor:g}")

    @property
    def equation(self) -> SpreadEquation:
        """m − θ², with m the variance."""
        return SpreadEquation(self.grids, power=2, least=self.floor)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return max(s, floor)."""
        k = records[:, 0]
        return np.array([self._from(Moments(len(k), [exact_sum(k)], [exact_dot(k, k)]))])

    def _from(self, moments: Moments) -> float:
        spread = math.sqrt(_covariance(moments, 0, 0, 0)) * float(self.grids[0].step)
        return max(spread, self.floor)

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the deviations of resamples, the same to the last bit."""
        return resample_by_moments(self, self._from, self.equation.pairs, records, sets, near)

    def sensitivity(self, n: int) -> Fraction:
        """Return R²/(2·floor·n)."""
        return self.grids[0].range ** 2 / (2 * Fraction(self.floor) * n)

    def rounding(self, n: int) -> Fraction:
        """Return 2^-50 of R, which no deviation exceeds: sums are exact.

        Four roundings of 2^-53 each: the variance and the step to floats, the root, the product.
        """
        return self.grids[0].range / 2**50

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return self._description("standard deviation", floor=self.floor)


@dataclass(frozen=True, slots=True)
class Ratio(_FunctionOfMeans):
    """The ratio of two columns' means, the second at least `floor`.

    Parameters
    ----------
    bounds
        Two pairs: the numerator's and the denominator's.
    floor
        Above 0: a mean that the denominator's population surely has. The value is
        x̄/max(ȳ, floor).
    resolution
        The data's public step, in both columns.

    Notes
    -----
    **Sensitivity.** With y, y′ ≥ floor, |x/y − x′/y′| ≤ |x − x′|/floor + |x′||y − y′|/floor², so
    Δ_n = (R_x/floor + max|x|·R_y/floor²)/n.

    Examples
    --------
    >>> Ratio(((0, 1), (0, 1)), floor=0.5).for_shape(100, 2).sensitivity(100)
    Fraction(3, 50)
    """

    bounds: Any
    floor: float
    resolution: float | None = None
    grids: tuple[Grid, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        pairs = _pairs(self.bounds, 2)
        object.__setattr__(self, "bounds", pairs)
        grids = tuple(Grid.over(pair, self.resolution) for pair in pairs)
        object.__setattr__(self, "grids", grids)
        object.__setattr__(self, "floor", _check_floor("floor", self.floor, pairs[1][1]))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Where its limit law holds."""
        return (PUBLIC_BOUNDS, f"the denominator's population mean is above {self.floor:g}")

    def for_shape(self, n: int, columns: int) -> Self:
        """Accept two columns, and check that sums stay inside 64 bits."""
        for grid in self.grids:
            grid.check_sums(n)
        return super(Ratio, self).for_shape(n, columns)

    @property
    def equation(self) -> RatioEquation:
        """m₀ − θm₁."""
        return RatioEquation(self.grids, self.floor)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return x̄/max(ȳ, floor)."""
        x, y = (
            float(grid.lower) + float(grid.step) * (total / len(records))
            for grid, total in zip(self.grids, records.sum(axis=0).tolist(), strict=True)
        )
        return np.array([x / max(y, self.floor)])

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the ratios on resamples, the same to the last bit."""
        totals, kappa = resampled_sums(records, sets)
        x, y = (
            float(grid.lower) + float(grid.step) * (total / sets.size)
            for grid, total in zip(self.grids, totals.T, strict=True)
        )
        return Resampled((x / np.maximum(y, self.floor))[:, None], kappa)

    def sensitivity(self, n: int) -> Fraction:
        """Return (R_x/floor + max|x|·R_y/floor²)/n."""
        x, y = self.grids
        floor = Fraction(self.floor)
        return (x.range / floor + _reach(x) * y.range / floor**2) / n

    def rounding(self, n: int) -> Fraction:
        """Return 2^-44 of the same with bounds in place of ranges: sums are exact."""
        x, y = self.grids
        floor = Fraction(self.floor)
        return (_reach(x) / floor + _reach(x) * _reach(y) / floor**2) / 2**44

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return self._description("ratio of means", floor=self.floor)


@dataclass(frozen=True, slots=True)
class Correlation(_FunctionOfMeans):
    """Pearson's correlation of two columns, their standard deviations at least `floors`.

    Parameters
    ----------
    bounds
        Two pairs.
    floors
        Two numbers above 0: deviations that the populations surely have. The value is
        c/(max(s_x, floor_x)·max(s_y, floor_y)), c the covariance (n − 1).
    resolution
        The data's public step, in both columns.

    Notes
    -----
    **Sensitivity.** With V = max(s², floor²), the value is g = c/√(V_x V_y) on the set
    |c| ≤ √(V_x V_y), V ≥ floor², which is convex (a geometric mean is concave), so moves are
    bounded by the largest partial derivatives along the segment between neighbours:
    |∂g/∂c| ≤ 1/(floor_x floor_y) and |∂g/∂V| = |c|/(2V√(V_x V_y)) ≤ 1/(2·floor²). s² moves by at
    most R²/n, and V by no more; c by at most R_x R_y/n: putting x, y in adds
    (x − x̄)(y − ȳ)/n, x̄, ȳ of the others, and over the box the product's largest value less its
    smallest is at most R_x R_y, for instance (R_x−p)(R_y−q) + p(R_y−q) = R_x(R_y−q). Hence
    Δ_n = (R_x R_y/(floor_x floor_y) + R_x²/(2·floor_x²) + R_y²/(2·floor_y²))/n.

    Examples
    --------
    >>> Correlation(((0, 1), (0, 1)), floors=(0.5, 0.5)).for_shape(100, 2).sensitivity(100)
    Fraction(2, 25)
    """

    bounds: Any
    floors: tuple[float, float]
    resolution: float | None = None
    grids: tuple[Grid, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        pairs = _pairs(self.bounds, 2)
        object.__setattr__(self, "bounds", pairs)
        grids = tuple(Grid.over(pair, self.resolution) for pair in pairs)
        object.__setattr__(self, "grids", grids)
        if not is_list(self.floors) or len(self.floors) != 2:
            raise InvalidType("floors must be two numbers above 0")
        for floor, (lower, upper) in zip(self.floors, pairs, strict=True):
            _check_floor("floors", floor, upper - lower)
        object.__setattr__(self, "floors", tuple(float(floor) for floor in self.floors))

    @property
    def assumes(self) -> tuple[str, ...]:
        """Where its limit law holds."""
        return (
            PUBLIC_BOUNDS,
            f"the populations' standard deviations are above {self.floors[0]:g} and "
            f"{self.floors[1]:g}",
        )

    @property
    def equation(self) -> CorrelationEquation:
        """m₂ − θ√(m₀m₁), with m₀ and m₁ the variances and m₂ the covariance."""
        return CorrelationEquation(self.grids, self.floors)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the correlation with floored deviations."""
        x, y = records.T
        products = [exact_dot(x, x), exact_dot(y, y), exact_dot(x, y)]
        return np.array([self._from(Moments(len(x), [exact_sum(x), exact_sum(y)], products))])

    def _from(self, moments: Moments) -> float:
        steps = [floor / float(g.step) for floor, g in zip(self.floors, self.grids, strict=True)]
        squares = [max(_covariance(moments, j, j, j), steps[j] ** 2) for j in (0, 1)]
        return _covariance(moments, 0, 1, 2) / (math.sqrt(squares[0]) * math.sqrt(squares[1]))

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the correlations of resamples, the same to the last bit."""
        return resample_by_moments(self, self._from, self.equation.pairs, records, sets, near)

    def sensitivity(self, n: int) -> Fraction:
        """Return (1/(f_x f_y) + 1/(2f_x²) + 1/(2f_y²))/n, f the floors in units of R."""
        f_x, f_y = (Fraction(f) / g.range for f, g in zip(self.floors, self.grids, strict=True))
        return (1 / (f_x * f_y) + 1 / (2 * f_x**2) + 1 / (2 * f_y**2)) / n

    def rounding(self, n: int) -> Fraction:
        """Return 2^-48: sums are exact, and correlations at most 1 in size.

        Up to 16 roundings of 2^-53 each: three moments to floats, floors and steps, two roots and
        squares, a product and a quotient.
        """
        return Fraction(1, 2**48)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return self._description("correlation", floors=list(self.floors))


def _covariance(moments: Moments, j: int, k: int, pair: int) -> float:
    """Return the covariance (n − 1) of columns j and k, whose products are number `pair`, in steps.

    Rounded once; 0 of a single record.
    """
    n, sums = moments.size, moments.sums
    if n < 2:
        return 0.0
    return float(Fraction(n * moments.products[pair] - sums[j] * sums[k], n * (n - 1)))


def _pairs(bounds: Any, count: int) -> tuple[tuple[float, float], ...]:
    """Return `count` checked pairs of bounds; for one, a bare pair will do."""
    if count == 1 and is_list(bounds) and len(bounds) and not is_list(bounds[0]):
        bounds = (bounds,)
    if not is_list(bounds) or len(bounds) != count:
        raise InvalidType(f"bounds must be {count} pair{'s' * (count > 1)} of numbers")
    return tuple(check_bounds(pair) for pair in bounds)


def _check_floor(name: str, floor: float, most: float) -> float:
    """Return a floor under `most`; one under 2^-40 of it would bound nothing in floats."""
    least = most / 2**40 if most > 0 else math.inf
    return real(name, floor, f"in [{least:g}, {most:g})", lambda x: least <= x < most)


def _reach(grid: Grid) -> Fraction:
    return max(abs(grid.lower), abs(grid.lower + grid.range))
