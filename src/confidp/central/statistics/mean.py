"""The mean of bounded data, in one dimension and for vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid, check_bounds, encode_columns, is_list
from confidp.central.resampling import IndexSets
from confidp.central.statistics.statistic import Resampled, Statistic, resample_one_by_one
from confidp.errors import InvalidArgument, InvalidType
from confidp.privacy.guarantees import sqrt_up

PUBLIC_BOUNDS = "the bounds come from public knowledge, not from this data set"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of values clipped to public bounds.

    The target is the population mean of the **clipped** values. Bounds come from public knowledge
    (what an age or a wage can be), never from the data: bounds read off the data leak.

    Parameters
    ----------
    bounds
        ``(lower, upper)``, for every column; or one such pair for each column.
    resolution
        The data's public step: 1 for whole numbers, 0.01 for cents. It must divide the range.
        By default 2^-30 of the range; values are rounded to it.
    name, assumes
        For results: what it is called, and what its coverage rests on.

    Notes
    -----
    Values are sums of integers, so they are exact. Replacing one of N records moves the sum in
    coordinate j by at most the range R_j = upper_j − lower_j, so Δ_N = √(Σ R_j²)/N (the paper,
    section 4 (i)), and it is attained.

    Examples
    --------
    >>> wages = Mean(bounds=(0, 30_000)).for_shape(n=1000, columns=1)
    >>> wages.sensitivity(1000)
    Fraction(30, 1)
    """

    bounds: Any
    resolution: float | None = None
    name: str = field(default="mean", kw_only=True)
    assumes: tuple[str, ...] = field(default=(PUBLIC_BOUNDS,), kw_only=True, repr=False)
    grids: tuple[Grid, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse bad bounds at once."""
        pairs = self.bounds
        several = is_list(pairs) and len(pairs) > 0 and is_list(pairs[0])
        checked = tuple(check_bounds(pair) for pair in (pairs if several else [pairs]))
        object.__setattr__(self, "bounds", checked)
        grids = tuple(Grid.over(pair, self.resolution) for pair in checked)
        object.__setattr__(self, "grids", grids)
        if not isinstance(self.name, str) or not isinstance(self.assumes, tuple | list):
            raise InvalidType("name must be a str, and assumes a tuple of them")

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """The lower bounds."""
        return tuple(grid.lower for grid in self.grids)

    def for_shape(self, n: int, columns: int) -> Self:
        """Give each column its bounds, and check that sums stay inside 64 bits."""
        pairs = self.bounds * columns if len(self.bounds) == 1 else self.bounds
        if len(pairs) != columns:
            raise InvalidArgument(
                f"bounds must be one pair, or one for each of the {columns} columns, "
                f"not {len(pairs)} pairs"
            )
        for grid in self.grids:
            grid.check_sums(n)
        return self if pairs == self.bounds else replace(self, bounds=pairs)

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the (n, columns) integers of the nearest grid points, after clipping."""
        return encode_columns(self.grids, rows)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the mean of each column, less its lower bound."""
        steps = np.array([float(grid.step) for grid in self.grids])
        mean: NDArray[np.float64] = steps * (records.sum(axis=0) / len(records))
        return mean

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the means of resamples, the same to the last bit."""
        totals, kappa = resampled_sums(records, sets)
        steps = np.array([float(grid.step) for grid in self.grids])
        return Resampled(steps * (totals / sets.size), kappa)

    def sensitivity(self, n: int) -> Fraction:
        """Return √(Σ R_j²)/n, exact in one dimension and rounded up beyond."""
        ranges = [grid.range for grid in self.grids]
        diameter = (
            ranges[0]
            if len(ranges) == 1
            else Fraction(sqrt_up(sum((r * r for r in ranges), Fraction(0))))
        )
        return diameter / n

    def pivot_sensitivity(self, n: int, m: int, kappa: int) -> Fraction:
        """Return the diameter times max(|κ/m − 1/n|, 1/n).

        θ(D[S]) − θ(D) = Σ_j (c_j/m − 1/n) x_j with multiplicities 0 ≤ c_j ≤ κ.
        """
        weight = max(abs(Fraction(kappa, m) - Fraction(1, n)), Fraction(1, n))
        return self.sensitivity(1) * weight

    def rounding(self, n: int) -> Fraction:
        """Return a relative 2^-50 of the diameter.

        Four roundings of 2^-53 each: the sum and the step to floats, the quotient, the product.
        """
        return n * self.sensitivity(n) / 2**50

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


def resampled_sums(records: NDArray[np.int64], sets: IndexSets) -> tuple[NDArray[np.int64], int]:
    """Return each resample's exact column sums, and the multiplicity. The sums are **private**.

    `records` are whole numbers, m of which sum to less than 2^63.

    Examples
    --------
    >>> from confidp.central.resampling import Sampling
    >>> sets = IndexSets(3, 2, 4, Sampling.WITHOUT_REPLACEMENT, seed=2)
    >>> resampled_sums(np.array([[1], [10], [100]]), sets)[0].ravel().tolist()
    [110, 101, 110, 101]
    >>> [indices.tolist() for indices in sets]
    [[1, 2], [0, 2], [1, 2], [0, 2]]
    """
    from confidp.central import kernels

    if not sets.replace:
        return kernels.subset_sums(records, sets.seed, sets.n_resamples, sets.size), 1
    small = records.min() >= 0 and records.max() < 2**32  # half the size is quicker to get at
    columns: Any = np.ascontiguousarray(records.T, np.uint32 if small else np.int64)
    return kernels.multiset_sums(columns, sets.seed, sets.n_resamples, sets.size)


MOST_SQUARED = 2**31 - 1  # cells whose products fit in 62 bits


class OnGrids(Statistic, Protocol):
    """A statistic of records on grids."""

    @property
    def grids(self) -> Sequence[Grid]:
        """One for each column."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums of columns, and of products of pairs of them, in whole grid steps. **Private**."""

    size: int
    sums: Sequence[int] = field(repr=False)
    products: Sequence[int] = field(repr=False)


def resampled_moments(
    records: NDArray[np.int64], pairs: Sequence[tuple[int, int]], sets: IndexSets
) -> tuple[list[Moments], int]:
    """Return each resample's moments, and the multiplicity; records up to `MOST_SQUARED` in size.

    Examples
    --------
    >>> from confidp.central.resampling import Sampling
    >>> sets = IndexSets(3, 2, 2, Sampling.WITHOUT_REPLACEMENT, seed=2)
    >>> each, kappa = resampled_moments(np.array([[1], [10], [100]]), [(0, 0)], sets)
    >>> [moments.products for moments in each]
    [[10100], [10001]]
    """
    products = [records[:, j] * records[:, k] for j, k in pairs]
    halves = [half for p in products for half in (p >> 32, p & 0xFFFFFFFF)]  # sums stay in 63 bits
    totals, kappa = resampled_sums(np.stack([*records.T, *halves], axis=1), sets)
    d = records.shape[1]
    return [
        Moments(
            sets.size,
            row[:d],
            [(high << 32) + low for high, low in zip(row[d::2], row[d + 1 :: 2], strict=True)],
        )
        for row in totals.tolist()
    ], kappa


def resample_by_moments(
    statistic: OnGrids,
    value: Callable[[Moments], float | Fraction],
    pairs: Sequence[tuple[int, int]],
    records: NDArray[np.int64],
    sets: IndexSets,
    near: NDArray[np.float64],
) -> Resampled:
    """Return a statistic that is `value` of moments on resamples. **Private**.

    One by one where products wouldn't fit.
    """
    if max(grid.cells for grid in statistic.grids) > MOST_SQUARED:
        return resample_one_by_one(statistic, records, sets, near)
    each, kappa = resampled_moments(records, pairs, sets)
    return Resampled(np.array([[float(value(moments))] for moments in each]), kappa)
