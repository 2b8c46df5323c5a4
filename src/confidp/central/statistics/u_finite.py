"""A U-statistic of order two on a finite public support, with its smooth sensitivity."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from confidp.central.grid import Grid
from confidp.central.statistics.exact import exact_dot
from confidp.central.statistics.jackknife import Pair, jackknife_from, spread_sensitivity
from confidp.central.statistics.u_pairs import NOT_DEGENERATE, check_size
from confidp.central.statistics.u_smooth import check_degenerate, known_degenerate, smooth_bound
from confidp.errors import InvalidArgument, InvalidType

_MOST_POINTS = 500
_LARGEST = 1e120


@dataclass(frozen=True, slots=True)
class FiniteUStatistic:
    """The mean of a kernel h(x, y) over pairs of records that lie on a few public points.

    Every record counts as the support point nearest to it, so the kernel is a public table, and the
    suprema in its smooth sensitivity are exact. On an infinite support, calling an arbitrary kernel
    at some points bounds no supremum: `UStatistic` has a global sensitivity only.

    Parameters
    ----------
    kernel
        ``kernel(x, y)``, symmetric, returns a finite number. It is called on support points only,
        never on data: floats for one column, arrays of a point's coordinates for more.
    support
        2 to 500 public points: numbers, such as ``range(6)`` or ``np.linspace(0, 1, 101)``; or
        rows of coordinates, for data of several columns.
    degenerate
        Whether it is **known** that E h(x, X) is the same for every x. Then the error is of order
        1/n; if it isn't so after all, the interval covers far too rarely.
    name
        For results and the audit trail.

    Notes
    -----
    With c_g the number of records at point g, H the table, C its largest minus least entry and
    p = Hc: U = (cᵀHc − Σ_g c_g H_gg)/(n(n−1)), and a record i at g has (n−1)P_i = p − H_·g in the
    theorem of `u_smooth`, so that with maxima over g among the data

        A = 2/(n(n−1)) · max_g [max_x − min_x](p_x − H_xg),

    and Λ and GS are maxima over the table. (They are at most the coarser A = 2/n·([max_x −
    min_x] p_x + C)/(n−1), Λ = 4C/(n(n−1)) and GS = 2C/n of any kernel of diameter C.) The table is
    in whole steps of 2^-30 of C, so all of this is exact, for the kernel rounded to those.

    Examples
    --------
    >>> agree = FiniteUStatistic(lambda x, y: float(x == y), support=[1, 2, 3], name="Simpson")
    >>> agree = agree.for_shape(n=4, columns=1)
    >>> records = agree.encode(np.array([[1.0], [1.2], [3.0], [9.0]]))
    >>> agree.value(records)  # 2 of 6 pairs
    array([0.33333333])
    >>> agree.sensitivity(4)
    Fraction(1, 2)
    """

    kernel: Callable[[Any, Any], Any]
    support: Any
    degenerate: bool = False
    name: str = "U-statistic on a finite support"
    grid: Grid = field(init=False, repr=False, compare=False)  # of the kernel's values
    table: NDArray[np.int64] = field(init=False, repr=False, compare=False)  # H, in its steps
    steepest: int = field(init=False, repr=False, compare=False)  # of GS, in its steps
    interaction: int = field(init=False, repr=False, compare=False)  # of Λ, in its steps

    def __post_init__(self) -> None:
        """Tabulate the kernel, and refuse one that isn't finite, symmetric and able to vary."""
        if not callable(self.kernel):
            raise InvalidType(f"kernel must be callable, not {type(self.kernel).__name__}")
        check_degenerate(self.degenerate)
        if not isinstance(self.name, str):
            raise InvalidType(f"name must be a str, not {type(self.name).__name__}")
        points = _points(self.support)
        heights = _tabulate(self.kernel, points)
        grid = Grid.over((float(heights.min()), float(heights.max())))
        table = grid.encode(heights)
        object.__setattr__(self, "support", tuple(map(tuple, points.tolist())))
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "steepest", int(_spread(table).max()))
        interactions = (_spread(table - table[:, [y]]).max() for y in range(len(table)))
        object.__setattr__(self, "interaction", int(max(interactions)))

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """The smallest box around the support."""
        columns = zip(*self.support, strict=True)
        return tuple((min(column), max(column)) for column in columns)

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """The kernel's least value."""
        return (self.grid.lower,)

    @property
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """The least and the largest entry of the table."""
        return self.grid.lower, self.grid.lower + self.grid.range

    @property
    def assumes(self) -> tuple[str, ...]:
        """A public support, and degeneracy or its absence."""
        condition = "E h(x, X) is the same for every x"
        return (
            "the support comes from public knowledge, not from this data set",
            known_degenerate(condition) if self.degenerate else NOT_DEGENERATE,
        )

    def for_shape(self, n: int, columns: int) -> Self:
        """Check the columns."""
        if columns != len(self.support[0]):
            raise InvalidArgument(
                f"support must have a coordinate for each of the {columns} columns of the data, "
                f"not {len(self.support[0])}"
            )
        return self

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return which support point is nearest to each row, after clipping to the box."""
        lower, upper = np.array(self.bounds).T
        _, nearest = cKDTree(np.array(self.support)).query(np.clip(rows, lower, upper))
        return np.asarray(nearest, dtype=np.int64)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return U − origin, rounded once."""
        n, counts = len(records), self._counts(records)
        pairs = exact_dot(counts, self.table @ counts - np.diag(self.table))
        return np.array([float(Fraction(pairs, n * (n - 1)) * self.grid.step)])

    def sensitivity(self, n: int) -> Fraction:
        """Return GS, exact and attained: `PairStatistic` has the proof."""
        check_size(n, 2)
        return 2 * self.steepest * self.grid.step / n

    def has_jackknife(self, n: int) -> bool:
        """Return whether there are three records, and the kernel isn't known to be degenerate."""
        return n >= 3 and not self.degenerate

    def jackknife(self, records: NDArray[np.int64]) -> Pair:
        """Return U − origin, and n times its jackknife variance. **Private**."""
        n, counts = len(records), self._counts(records)
        each = (self.table @ counts - np.diag(self.table)).tolist()
        total = sum(c * d for c, d in zip(counts.tolist(), each, strict=True))
        squares = sum(c * d * d for c, d in zip(counts.tolist(), each, strict=True))
        u, variance = jackknife_from(n, 2, n - 1, total, squares)
        return u * self.grid.step, variance * self.grid.step**2

    def jackknife_sensitivity(self, n: int) -> Pair:
        """Return GS, and what the table's range allows (the theorem in `jackknife`)."""
        check_size(n, 3)
        spread = spread_sensitivity(n, 2, self.grid.range, all_pairs=True)
        return self.sensitivity(n), spread

    def smooth_sensitivity(self, records: NDArray[np.int64], beta: float) -> float:
        """Return SS_β, rounded up by at most a relative 2^-42."""
        n, counts = len(records), self._counts(records)
        check_size(n, 2)
        others = (self.table @ counts)[:, None] - self.table[:, counts > 0]
        per_pair = 2 * self.grid.step / (n * (n - 1))
        return smooth_bound(
            at_zero=per_pair * int(_spread(others).max()),
            slope=per_pair * self.interaction,
            cap=self.sensitivity(n),
            beta=beta,
        )

    def rounding(self, n: int) -> Fraction:
        """Return 2^-53 of the kernel's range: one rounding."""
        check_size(n, 2)
        return self.grid.range / 2**53

    def scale(self, n: int) -> float:
        """Return √n, or n when degenerate."""
        return float(n) if self.degenerate else math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": None,
            "support": [list(point) for point in self.support],
            "degenerate": self.degenerate,
        }

    def _counts(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(records, minlength=len(self.table))


def _spread(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each column's largest minus least entry."""
    return np.asarray(columns.max(axis=0) - columns.min(axis=0))


def _points(support: Any) -> NDArray[np.float64]:
    """Return the support as (P, columns) floats, or raise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a complex or masked value is no number
            points = np.array(list(support), dtype=np.float64)
    except Exception:  # whatever its type raises
        raise InvalidType("support must be numbers, or rows of as many numbers each") from None
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not 2 <= len(points) <= _MOST_POINTS or points.shape[1] < 1:
        raise InvalidArgument(
            f"support must have 2 to {_MOST_POINTS} points, not an array of shape {points.shape}"
        )
    if not (np.abs(points) <= _LARGEST).all():
        raise InvalidArgument("support must be finite numbers within ±1e120")
    if len(np.unique(points, axis=0)) < len(points):
        raise InvalidArgument("support must have no point twice")
    return points


def _tabulate(kernel: Callable[[Any, Any], Any], points: NDArray[np.float64]) -> Any:
    """Return the kernel at all pairs of points, or raise: both are public."""
    arguments: Any = points[:, 0].tolist() if points.shape[1] == 1 else points
    try:
        heights = np.array(
            [[float(kernel(x, y)) for y in arguments] for x in arguments], dtype=np.float64
        )
    except Exception as error:
        raise InvalidArgument(
            f"kernel must take two support points and return a number; it raised "
            f"{type(error).__name__} (no other order than two has a smooth sensitivity here)"
        ) from error
    if not (np.abs(heights) <= _LARGEST).all():
        raise InvalidArgument("kernel must be finite, and within ±1e120, on the support")
    if np.ptp(heights) < 1 / _LARGEST:
        raise InvalidArgument("kernel must vary by at least 1e-120 on the support")
    if np.abs(heights - heights.T).max() > 1e-9 * np.ptp(heights):
        raise InvalidArgument("kernel must be symmetric: kernel(x, y) == kernel(y, x)")
    return np.maximum(heights, heights.T)  # they may differ by float rounding
