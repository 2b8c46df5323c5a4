"""Variance, Gini's mean difference, Wilcoxon's signed rank and Kendall's τ, fast and exact."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from confidp.central.compiled import if_loaded
from confidp.central.resampling import IndexSets
from confidp.central.statistics.equations import SpreadEquation
from confidp.central.statistics.mean import Moments, resample_by_moments
from confidp.central.statistics.statistic import Resampled
from confidp.central.statistics.u_pairs import PairStatistic, check_size, exact_dot
from confidp.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Variance(PairStatistic):
    """The sample variance, with divisor N − 1, of values clipped to public bounds.

    Parameters
    ----------
    bounds
        ``(lower, upper)``, from public knowledge.
    resolution
        The data's public step; by default 2^-30 of the range.

    Notes
    -----
    It is the U-statistic of h(x, y) = (x − y)²/2. With R the range, h goes from 0 to R²/2 when one
    argument changes, so its sensitivity is exactly R²/N (`PairStatistic` proves it): from all
    records at one bound, to one of them at the other.

    Examples
    --------
    >>> variance = Variance(bounds=(0, 10), resolution=1).for_shape(n=3, columns=1)
    >>> variance.value(variance.encode(np.array([[1.0], [2.0], [6.0]])))
    array([7.])
    >>> variance.sensitivity(1000)
    Fraction(1, 10)
    """

    name: ClassVar[str] = "variance"

    @property
    def reach(self) -> Fraction:
        """R²/2."""
        return self.grids[0].range ** 2 / 2

    @property
    def equation(self) -> SpreadEquation:
        """m − θ, for `DeltaMethod`: one mean, of the squares of X − EX."""
        return SpreadEquation(self.grids, power=1)

    def exact(self, records: NDArray[np.int64]) -> Fraction:
        """Return (NΣx² − (Σx)²)/(N(N − 1)), which no shift of x changes."""
        x = records[:, 0]
        return self._from(Moments(len(x), [int(x.sum())], [exact_dot(x, x)]))

    def _from(self, moments: Moments) -> Fraction:
        n, (total,), (squares,) = moments.size, moments.sums, moments.products
        return Fraction(n * squares - total**2, n * (n - 1)) * self.grids[0].step ** 2

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the variances of resamples, the same to the last bit."""
        check_size(sets.size, 2)
        return resample_by_moments(self, self._from, [(0, 0)], records, sets, near)


@dataclass(frozen=True, slots=True)
class SortedStatistic(PairStatistic):
    """A U-statistic that is quick on sorted records, so that resamples sort nothing."""

    @abstractmethod
    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return U of records that rise by their first column, and by the next within its ties."""

    def exact(self, records: NDArray[np.int64]) -> Fraction:
        """Return U of records in any order."""
        return self._from_sorted(records[_rising(records)])

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the values on resamples, the same to the last bit. **Private**."""
        check_size(sets.size, 2)
        rising, n = _rising(records), len(records)
        ordered, places = records[rising], np.empty(n, np.int64)
        places[rising] = np.arange(n)
        values, kappa = [], 1
        for indices in sets:
            times = np.bincount(places[indices], minlength=n)
            held = ordered[np.repeat(np.arange(n), times)]
            values.append([float(self._from_sorted(held) - self.origin[0])])
            kappa = max(kappa, int(times.max()))
        return Resampled(np.array(values), kappa)


def _rising(records: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what sorts records by their first column, and by the next within its ties."""
    return np.lexsort(records.T[::-1])


@dataclass(frozen=True, slots=True)
class GiniMeanDifference(SortedStatistic):
    """Gini's mean difference: the mean of |x − y| over pairs of records.

    A spread in the units of the data, less moved by outliers than the standard deviation; for
    normal data it is 2σ/√π.

    Parameters
    ----------
    bounds
        ``(lower, upper)``, from public knowledge.
    resolution
        The data's public step; by default 2^-30 of the range.

    Notes
    -----
    With R the range, h goes from 0 to R when one argument changes: the sensitivity is 2R/N.

    Examples
    --------
    >>> gini = GiniMeanDifference(bounds=(0, 10), resolution=1).for_shape(n=3, columns=1)
    >>> gini.value(gini.encode(np.array([[1.0], [2.0], [7.0]])))
    array([4.])
    """

    name: ClassVar[str] = "Gini mean difference"

    @property
    def reach(self) -> Fraction:
        """R."""
        return self.grids[0].range

    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return 2/(N(N − 1)) Σ_i (2i − N − 1) x_(i): the i-th smallest tops i − 1 others."""
        x, n = records[:, 0], len(records)
        total = exact_dot(2 * np.arange(n) - (n - 1), x)
        return Fraction(2 * total, n * (n - 1)) * self.grids[0].step


@dataclass(frozen=True, slots=True)
class WilcoxonSignedRank(SortedStatistic):
    """The share of pairs with x + y > 0, of Wilcoxon's one-sample signed-rank test.

    It estimates P(X + Y > 0) + ½P(X + Y = 0) for independent X and Y: ½ where X is symmetric about
    0. A pair with x + y = 0 counts ½.

    Parameters
    ----------
    bounds
        Symmetric about 0, such as ``(-100, 100)``: wide ones cost no privacy here.
    resolution
        The data's public step, of which the upper bound must be a multiple; by default 2^-30 of
        the range. So 0 is on the grid, and zeros stay zeros.

    Notes
    -----
    h goes from 0 to 1 when one argument changes (beside y = 0): the sensitivity is 2/N.

    Examples
    --------
    >>> shift = WilcoxonSignedRank(bounds=(-5, 5), resolution=1).for_shape(n=3, columns=1)
    >>> shift.value(shift.encode(np.array([[-1.0], [1.0], [3.0]])))  # sums 0, 2, 4
    array([0.83333333])
    """

    name: ClassVar[str] = "Wilcoxon signed-rank share"

    def __post_init__(self) -> None:
        """Refuse bounds and steps that don't have 0 in the middle of the grid."""
        PairStatistic.__post_init__(self)
        ((lower, upper),) = self.bounds
        if lower != -upper:
            raise InvalidArgument(
                f"bounds must be symmetric about 0, such as (-100, 100), not {lower:g} and "
                f"{upper:g}: wide ones cost no privacy here"
            )
        if self.grids[0].cells % 2:
            raise InvalidArgument(
                f"resolution must divide the upper bound, so that 0 is on the grid, "
                f"not {self.resolution:g} for {upper:g}"
            )

    @property
    def reach(self) -> Fraction:
        """1."""
        return Fraction(1)

    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return Σ_{i≠j} (1 + sign(x_i + x_j))/(2N(N − 1)), by ranks among the sorted −x."""
        n, middle = len(records), self.grids[0].cells // 2
        x = records[:, 0] - middle
        below = np.searchsorted(x, -x, "left") + np.searchsorted(x, -x, "right")
        with_itself = int(np.sum(1 + np.sign(x)))
        return Fraction(2 * n * n - int(below.sum()) - with_itself, 2 * n * (n - 1))


@dataclass(frozen=True, slots=True)
class KendallTau(SortedStatistic):
    """Kendall's τ-a of two columns: the share of concordant pairs less that of discordant ones.

    h = sign(x − x′)·sign(y − y′), so a pair tied in either column counts 0 and stays in the
    divisor. (τ-b divides by what isn't tied, and has no small sensitivity.)

    Parameters
    ----------
    bounds
        ``(lower, upper)`` for both columns, or a pair of them. Wide ones cost no privacy here.
    resolution
        The data's public step; by default 2^-30 of the range. Values in one step are tied.

    Notes
    -----
    h goes from −1 to 1 when one argument changes: the sensitivity is 4/N. Where both columns have
    two values only, h(·, y) is 0 at all points but one, and the sensitivity is 2/N.

    Examples
    --------
    >>> tau = KendallTau(bounds=(0, 10), resolution=1).for_shape(n=3, columns=2)
    >>> tau.value(tau.encode(np.array([[1.0, 1.0], [2.0, 4.0], [3.0, 2.0]])))
    array([0.33333333])
    """

    name: ClassVar[str] = "Kendall tau-a"
    columns: ClassVar[int] = 2

    @property
    def reach(self) -> Fraction:
        """2, and 1 for two binary columns."""
        return Fraction(1 if all(grid.cells == 1 for grid in self.grids) else 2)

    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return (concordant − discordant)/(all pairs).

        Sorted by x, and by y within ties of x, the discordant pairs are the inversions of y.
        """
        n, (x, y) = len(records), records.T
        same_x = x[1:] == x[:-1]
        discordant, tied_y = _inversions(y)
        tied_x, tied_both = _tied_pairs(same_x), _tied_pairs(same_x & (y[1:] == y[:-1]))
        pairs = n * (n - 1) // 2
        return Fraction(pairs - tied_x - tied_y + tied_both - 2 * discordant, pairs)


def _tied_pairs(same: NDArray[np.bool_]) -> int:
    """Return how many pairs are equal, of sorted values which are the same as the one before."""
    starts = np.flatnonzero(np.concatenate([[True], ~same, [True]]))
    counts = np.diff(starts)
    return int(np.sum(counts * (counts - 1))) // 2


def _inversions(values: NDArray[np.int64]) -> tuple[int, int]:
    """Return #{i < j: values_i > values_j} and #{i < j: values_i = values_j}."""
    if (compiled := if_loaded()) is not None:
        found, ties = compiled.inversions(values)
        return found, ties
    ordered, ranks = np.unique(values, return_inverse=True)
    counts = np.bincount(ranks, minlength=len(ordered))
    return _by_blocks(ranks), int(np.sum(counts * (counts - 1))) // 2


def _by_blocks(ranks: NDArray[np.int64]) -> int:
    """Return #{i < j: ranks_i > ranks_j}, for ranks in 0, …, len − 1, in O(n log² n).

    As in a merge sort from the bottom up: for each pair of adjacent blocks, how many on the left
    are larger than each one on the right. All pairs of blocks at once, told apart by an offset.
    """
    n, position, found, width = len(ranks), np.arange(len(ranks)), 0, 1
    while width < n:
        block = position // (2 * width)
        keys = block * n + ranks
        is_left = position // width % 2 == 0
        lefts, rights = np.sort(keys[is_left]), keys[~is_left]
        block_ends = (block[~is_left] + 1) * n
        larger = np.searchsorted(lefts, block_ends) - np.searchsorted(lefts, rights, "right")
        found += int(larger.sum())
        width *= 2
    return found
