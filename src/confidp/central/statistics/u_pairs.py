"""U-statistics of order two on the public grid: what the named kernels share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid, check_bounds, is_list
from confidp.central.statistics.jackknife import Pair, jackknife_from, spread_sensitivity
from confidp.central.statistics.mean import PUBLIC_BOUNDS
from confidp.errors import InvalidArgument, shown

NOT_DEGENERATE = (
    "the statistic isn't degenerate on this population: E h(x, X) isn't the same for every x, so "
    "that its error is of order 1/√n"
)


@dataclass(frozen=True, slots=True)
class PairStatistic(ABC):
    """U = Σ_{i<j} h(x_i, x_j) / (N choose 2) for a symmetric kernel h, in exact arithmetic.

    Each kernel states its `reach` b: the most that h moves when one of its two arguments changes.

    **Sensitivity.** Replacing one of N records changes only the N − 1 pairs that hold it, by at
    most b each, so U moves by at most (N − 1)·b / (N choose 2) = 2b/N. It is attained: where
    h(x′, y) − h(x, y) = b, by x → x′ beside N − 1 copies of y. ∎ With h's diameter in place of its
    reach, which is never smaller, this is r·b/N of the paper, section 4 (iii).
    """

    bounds: Any
    resolution: float | None = None
    grids: tuple[Grid, ...] = field(init=False, repr=False, compare=False)

    name: ClassVar[str]
    columns: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse bad bounds at once."""
        pairs = for_columns(bounds_of(self.bounds), self.columns)
        object.__setattr__(self, "bounds", pairs)
        object.__setattr__(self, "grids", tuple(Grid.over(p, self.resolution) for p in pairs))

    @property
    @abstractmethod
    def reach(self) -> Fraction:
        """The most that h moves when one of its arguments changes."""

    @property
    @abstractmethod
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """The least and the largest h."""

    @abstractmethod
    def partner_sums(self, records: NDArray[np.int64]) -> tuple[Fraction, Fraction]:
        """Return Σ D_i and Σ D_i², D_i = Σ_{j≠i} h(x_i, x_j). Exact, and **private**."""

    @abstractmethod
    def exact(self, records: NDArray[np.int64]) -> Fraction:
        """Return U of encoded records, with no rounding at all. Private."""

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """Zero."""
        return (Fraction(0),)

    @property
    def assumes(self) -> tuple[str, ...]:
        """Public bounds, and an error of order 1/√n."""
        return (PUBLIC_BOUNDS, NOT_DEGENERATE)

    def for_shape(self, n: int, columns: int) -> Self:
        """Check the columns, and that sums stay inside 64 bits."""
        if columns != self.columns:
            count = "one column" if self.columns == 1 else f"{self.columns} columns"
            raise InvalidArgument(f"data must have {count} for a {self.name}, not {columns}")
        for grid in self.grids:
            grid.check_sums(n)
        return self

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the (n, columns) integers of the nearest grid points, after clipping."""
        columns = [grid.encode(column) for grid, column in zip(self.grids, rows.T, strict=True)]
        return np.stack(columns, axis=1)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return U − origin, rounded once."""
        return np.array([float(self.exact(records) - self.origin[0])])

    def sensitivity(self, n: int) -> Fraction:
        """Return 2b/n, exact and attained."""
        check_size(n, 2)
        return 2 * self.reach / n

    def has_jackknife(self, n: int) -> bool:
        """Return whether there are three records: the kernel isn't degenerate."""
        return n >= 3

    def jackknife(self, records: NDArray[np.int64]) -> Pair:
        """Return U − origin, and n times its jackknife variance. **Private**."""
        n = len(records)
        u, variance = jackknife_from(n, 2, n - 1, *self.partner_sums(records))
        return u - self.origin[0], variance

    def jackknife_sensitivity(self, n: int) -> Pair:
        """Return 2b/n, and what h's diameter allows (the theorem in `jackknife`)."""
        check_size(n, 3)
        low, high = self.kernel_range
        return self.sensitivity(n), spread_sensitivity(n, 2, high - low, all_pairs=True)

    def rounding(self, n: int) -> Fraction:
        """Return 2^-52 of the reach: one rounding of a number that is at most twice the reach."""
        check_size(n, 2)
        return self.reach / 2**52

    def scale(self, n: int) -> float:
        """Return √n."""
        return math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": self.resolution,
        }


def bounds_of(bounds: Any) -> tuple[tuple[float, float], ...]:
    """Return one pair of bounds, or a sequence of pairs, as checked pairs.

    Examples
    --------
    >>> bounds_of((0, 1)), bounds_of([(0, 1), (2, 3)])
    (((0.0, 1.0),), ((0.0, 1.0), (2.0, 3.0)))
    """
    several = is_list(bounds) and len(bounds) > 0 and is_list(bounds[0])
    return tuple(check_bounds(pair) for pair in (bounds if several else [bounds]))


def for_columns(
    pairs: tuple[tuple[float, float], ...], columns: int
) -> tuple[tuple[float, float], ...]:
    """Return a pair for each column: one serves them all."""
    if len(pairs) not in (1, columns):
        raise InvalidArgument(
            f"bounds must be one pair, or one for each of the columns, which are {columns}, "
            f"not {len(pairs)} pairs"
        )
    return pairs * columns if len(pairs) == 1 else pairs


def check_size(n: int, order: int) -> None:
    """Refuse data sets and resamples without a single tuple; n is public."""
    if n < order:
        raise InvalidArgument(
            f"n and resample_size must be at least {order} for a kernel of {order} records, "
            f"not {shown(n)}"
        )
