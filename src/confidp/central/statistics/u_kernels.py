"""Variance, Gini's mean difference, Wilcoxon's signed rank and Kendall's τ, fast and exact."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from confidp.central.compiled import if_loaded
from confidp.central.resampling import IndexSets
from confidp.central.statistics.equations import SpreadEquation
from confidp.central.statistics.exact import exact_dot, exact_sum, power_sums
from confidp.central.statistics.mean import Moments, resample_by_moments
from confidp.central.statistics.statistic import Resampled
from confidp.central.statistics.u_pairs import PairStatistic, check_size
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
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """From 0 to R²/2."""
        return Fraction(0), self.reach

    @property
    def equation(self) -> SpreadEquation:
        """m − θ, for `DeltaMethod`: one mean, of the squares of X − EX."""
        return SpreadEquation(self.grids, power=1)

    def exact(self, records: NDArray[np.int64]) -> Fraction:
        """Return (NΣx² − (Σx)²)/(N(N − 1)), which no shift of x changes."""
        x = records[:, 0]
        return self._from(Moments(len(x), [int(x.sum())], [exact_dot(x, x)]))

    def partner_sums(self, records: NDArray[np.int64]) -> tuple[Fraction, Fraction]:
        """Return those of D_i = (Nx_i² − 2x_iS_1 + S_2)/2, with S_p = Σx^p, from S_1 to S_4."""
        x = records[:, 0]
        n, (s1, s2, s3, s4) = len(x), power_sums(x)
        total, squares = n * s2 - s1**2, n * n * s4 - 4 * n * s1 * s3 + 3 * n * s2**2
        step = self.grids[0].step
        return total * step**2, Fraction(squares, 4) * step**4

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

    @abstractmethod
    def _partners(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], Fraction]:
        """Return each D_i of such records, in whole steps, and that step."""

    def partner_sums(self, records: NDArray[np.int64]) -> tuple[Fraction, Fraction]:
        """Return Σ D_i and Σ D_i²."""
        each, step = self._partners(records[_rising(records)])
        return exact_sum(each) * step, exact_dot(each, each) * step**2

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

    @property
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """From 0 to R."""
        return Fraction(0), self.reach

    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return 2/(N(N − 1)) Σ_i (2i − N − 1) x_(i): the i-th smallest tops i − 1 others."""
        x, n = records[:, 0], len(records)
        total = exact_dot(2 * np.arange(n) - (n - 1), x)
        return Fraction(2 * total, n * (n - 1)) * self.grids[0].step

    def _partners(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], Fraction]:
        """Return x_i less each smaller one, and each larger one less x_i, summed.

        D_i < 2^62; what is added up on the way may leave 63 bits, and comes back modulo 2^64.
        """
        x, n = records[:, 0], len(records)
        up_to = np.cumsum(x)
        return (2 * np.arange(1, n + 1) - n) * x + up_to[-1] - 2 * up_to, self.grids[0].step


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

    @property
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """From 0 to 1."""
        return Fraction(0), Fraction(1)

    def _from_sorted(self, records: NDArray[np.int64]) -> Fraction:
        """Return Σ_{i≠j} (1 + sign(x_i + x_j))/(2N(N − 1)), by ranks among the sorted −x."""
        n = len(records)
        halves, _ = self._partners(records)
        return Fraction(int(halves.sum()), 2 * n * (n - 1))

    def _partners(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], Fraction]:
        """Return Σ_{j≠i} (1 + sign(x_i + x_j)), in halves."""
        x = records[:, 0] - self.grids[0].cells // 2
        below = np.searchsorted(x, -x, "left") + np.searchsorted(x, -x, "right")
        return 2 * len(x) - below - (1 + np.sign(x)), Fraction(1, 2)


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

    @property
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """From −1 to 1."""
        return Fraction(-1), Fraction(1)

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

    def _partners(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], Fraction]:
        """Return how many more pairs of each record are concordant than discordant.

        With s_i and e_i records before i of smaller and equal y, b_i and t_i such ones in all, i
        itself included, the others after it are n − 1 − i − (b_i − s_i) − (t_i − 1 − e_i) larger
        and b_i − s_i smaller ones, and i − s_i − e_i larger ones are before it. In this order pairs
        tied in x are concordant or tied in y; so those tied in x alone are taken off again.
        """
        n, (x, y) = len(records), records.T
        place = np.arange(n)
        _, ranks, each = np.unique(y, return_inverse=True, return_counts=True)
        smaller, tied = (np.cumsum(each) - each)[ranks], each[ranks]
        by_y = np.argsort(ranks, kind="stable")
        equal_before = np.empty(n, np.int64)
        equal_before[by_y] = place - smaller[by_y]
        same_x = x[1:] == x[:-1]
        tied_in_x = _run_lengths(same_x) - _run_lengths(same_x & (y[1:] == y[:-1]))
        before = _smaller_before(ranks)
        more = 4 * before + 2 * equal_before + n - 2 * place - 2 * smaller - tied - tied_in_x
        return more, Fraction(1)


def _tied_pairs(same: NDArray[np.bool_]) -> int:
    """Return how many pairs are equal, of sorted values which are the same as the one before."""
    return int(np.sum(_run_lengths(same) - 1)) // 2


def _run_lengths(same: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each sorted value how many are equal to it, itself included."""
    starts = np.flatnonzero(np.concatenate([[True], ~same, [True]]))
    counts = np.diff(starts)
    return np.repeat(counts, counts)


def _inversions(values: NDArray[np.int64]) -> tuple[int, int]:
    """Return #{i < j: values_i > values_j} and #{i < j: values_i = values_j}."""
    if (compiled := if_loaded()) is not None:
        found, ties = compiled.inversions(values)
        return found, ties
    ordered, ranks = np.unique(values, return_inverse=True)
    counts = np.bincount(ranks, minlength=len(ordered))
    return _by_blocks(ranks), int(np.sum(counts * (counts - 1))) // 2


def _by_blocks(ranks: NDArray[np.int64]) -> int:
    """Return #{i < j: ranks_i > ranks_j}, for ranks in 0, …, len − 1: all that aren't ≤."""
    n = len(ranks)
    return n * (n - 1) // 2 - int(_before_by_blocks(ranks, "right").sum())


def _smaller_before(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return #{j < i: ranks_j < ranks_i} for each i, for ranks in 0, …, len − 1."""
    if (compiled := if_loaded()) is not None:
        counts: NDArray[np.int64] = compiled.smaller_before(ranks)
        return counts
    return _before_by_blocks(ranks, "left")


def _before_by_blocks(
    ranks: NDArray[np.int64], side: Literal["left", "right"]
) -> NDArray[np.int64]:
    """Return how many before each are smaller ("left"), or no larger ("right"), in O(n log² n).

    As in a merge sort from the bottom up: for each pair of adjacent blocks, how many on the left
    come before each one on the right. All pairs of blocks at once, told apart by an offset.
    """
    n, position, width = len(ranks), np.arange(len(ranks)), 1
    found = np.zeros(n, np.int64)
    while width < n:
        block = position // (2 * width)
        keys = block * n + ranks
        is_left = position // width % 2 == 0
        lefts, rights = np.sort(keys[is_left]), keys[~is_left]
        starts = np.searchsorted(lefts, block[~is_left] * n)
        found[~is_left] += np.searchsorted(lefts, rights, side) - starts
        width *= 2
    return found
