"""Quantiles and the median of bounded data, with their exact smooth sensitivity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid, check_bounds, is_list
from confidp.central.resampling import IndexSets
from confidp.central.statistics.mean import PUBLIC_BOUNDS
from confidp.central.statistics.statistic import ResampledSmooth
from confidp.errors import InvalidArgument, real


@dataclass(frozen=True, slots=True)
class Quantile:
    """The q-quantile of values clipped to public bounds: the ⌈qN⌉-th smallest of N.

    Parameters
    ----------
    q
        In (0, 1), or several in rising order: a region then covers all of them at once.
    bounds
        ``(lower, upper)``, from public knowledge.
    resolution
        The data's public step; by default 2^-30 of the range.

    Notes
    -----
    Its global sensitivity is the whole range, so it needs a method of its own (`RankInversion`), or
    one for smooth sensitivity (`CRSS`).
    With x_(i) the i-th smallest, x_(i) = lower for i ≤ 0 and upper for i > N, h = ⌈qN⌉,

        S_β = max_{k ≥ 0} e^{−βk} A_k,  A_k = max_{0 ≤ t ≤ k+1} (x_(h+t) − x_(h+t−k−1)),

    where A_k is the largest local sensitivity among data sets at distance k: k replacements and one
    more can close any window of k+1 gaps around rank h, and no wider one. So S_β is the smallest
    β-smooth bound (Nissim, Raskhodnikova and Smith 2007, definition 2.2 and section 3.1). The
    paper's Lemma 6.1 uses x_(h+k⋆+1) − x_(h−k⋆−1) + C/n³, which bounds S_β but isn't β-smooth
    itself, and would break the guarantee. For several quantiles the root of the sum of squares of
    their bounds is one for the vector.

    Examples
    --------
    >>> median = Quantile(0.5, bounds=(0, 10), resolution=1).for_shape(5, 1)
    >>> records = median.encode(np.array([[1.0], [4.0], [4.0], [5.0], [9.0]]))
    >>> median.value(records)
    array([4.])
    >>> round(median.smooth_sensitivity(records, 1.0), 3)
    1.839
    >>> Quantile([0.25, 0.75], bounds=(0, 10), resolution=1).value(records)
    array([4., 5.])
    """

    q: Any
    bounds: Any
    resolution: float | None = None
    grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        several = is_list(self.q)
        given = self.q if several else (self.q,)
        qs = tuple(real("q", q, "in (0, 1)", lambda x: 0 < x < 1) for q in given)
        if not qs or any(a >= b for a, b in pairwise(qs)):
            raise InvalidArgument("q must be a number in (0, 1), or several in rising order")
        pair = self.bounds
        if is_list(pair) and len(pair) == 1:  # as `replace` passes it on
            (pair,) = pair
        pair = check_bounds(pair)
        object.__setattr__(self, "q", qs if several else qs[0])
        object.__setattr__(self, "bounds", (pair,))
        object.__setattr__(self, "grid", Grid.over(pair, self.resolution))

    @property
    def qs(self) -> tuple[float, ...]:
        """Every q, in rising order."""
        return self.q if isinstance(self.q, tuple) else (self.q,)

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """The lower bound, for each quantile."""
        return (self.grid.lower,) * len(self.qs)

    @property
    def parameter_bounds(self) -> tuple[float, float]:
        """The bounds of the data."""
        ((lower, upper),) = self.bounds
        return lower, upper

    @property
    def assumes(self) -> tuple[str, ...]:
        """What every method needs; resampling needs a density besides."""
        return (PUBLIC_BOUNDS,)

    def for_shape(self, n: int, columns: int) -> Self:
        """Accept one column."""
        if columns != 1:
            raise InvalidArgument(f"data must have one column for a quantile, not {columns}")
        return replace(self)

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the n integers of the nearest grid points, after clipping."""
        return self.grid.encode(rows[:, 0])

    def ranks(self, n: int) -> tuple[int, ...]:
        """Return each h = ⌈qn⌉, from 1 to n; q is read as the decimal it prints as."""
        return tuple(min(max(math.ceil(Fraction(repr(q)) * n), 1), n) for q in self.qs)

    def value(
        self, records: NDArray[np.int64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return x_(h) − lower, for each quantile."""
        at = [rank - 1 for rank in self.ranks(len(records))]
        steps: NDArray[np.float64] = np.partition(records, at)[at].astype(np.float64)
        return steps * float(self.grid.step)

    def rounding(self, n: int) -> Fraction:
        """Return 2^-51 of the range for each quantile: the step as a float, and one product."""
        return len(self.qs) * self.grid.range / 2**51

    def smooth_sensitivity(self, records: NDArray[np.int64], beta: float) -> float:
        """Return S_β exactly, but for a relative 1e-14 of float rounding."""
        from confidp.central import kernels

        own = np.array(self.ranks(len(records)))
        found = kernels.largest_smooth(self.in_order(records), own[None][:0], own, beta)
        return found * float(self.grid.step)

    def resampled_smooth(
        self, records: NDArray[np.int64], sets: IndexSets, beta: float
    ) -> ResampledSmooth:
        """Return quantiles and S_β of the data, which are sorted once, and of resamples."""
        from confidp.central import kernels

        cells, step, own = self.grid.cells, float(self.grid.step), np.array(self.ranks(sets.n))
        by, ordered = kernels.by_value(records, cells)
        values, largest, kappa = ranks_of_sets(
            by, ordered, self.ranks(sets.size), cells, sets, beta
        )
        order = _with_bounds(ordered, cells)
        return ResampledSmooth(
            value=order[own] * step,
            sensitivity=kernels.largest_smooth(order, own[None][:0], own, beta) * step,
            values=values.astype(np.float64) * step,
            largest_sensitivity=largest * step,
            multiplicity=kappa,
        )

    def scale(self, n: int) -> float:
        """Return √n."""
        return math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        names = ["median" if q == 0.5 else f"{q:g}-quantile" for q in self.qs]
        return {
            "statistic": ", ".join(names),
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": self.resolution,
        }

    def in_order(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return x_(0), …, x_(N+1) in steps, with x_(0) and x_(N+1) the bounds. **Private**."""
        from confidp.central import kernels

        return _with_bounds(kernels.by_value(records, self.grid.cells)[1], self.grid.cells)


def _with_bounds(ordered: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    return np.concatenate([[0], ordered, [cells]])


def resampled_ranks(
    records: NDArray[np.int64],
    ranks: Sequence[int],
    cells: int,
    sets: IndexSets,
) -> NDArray[np.int64]:
    """Return resamples' values at rising ranks. **Private**.

    Records are whole numbers from 0 to `cells`.

    Examples
    --------
    >>> from confidp.central.resampling import Sampling
    >>> sets = IndexSets(3, 2, 4, Sampling.WITHOUT_REPLACEMENT, seed=2)
    >>> resampled_ranks(np.array([5, 9, 7]), [1, 2], 10, sets).tolist()
    [[7, 9], [5, 7], [7, 9], [5, 7]]
    """
    from confidp.central import kernels

    return ranks_of_sets(*kernels.by_value(records, cells), ranks, cells, sets)[0]


def ranks_of_sets(
    by: NDArray[np.uint32],
    ordered: NDArray[np.int64],
    ranks: Sequence[int],
    cells: int,
    sets: IndexSets,
    beta: float = 0.0,
) -> tuple[NDArray[np.int64], float, int]:
    """Return resamples' values at rising ranks, largest S_β in steps, and the multiplicity.

    **Private** but the last. Data are given as what sorts them and as sorted: of a resample, what
    matters is sorted by its place in that order. β = 0 leaves S_β out.
    """
    from confidp.central import kernels

    arguments = (
        by, ordered, cells, np.array(ranks), sets.seed, sets.n_resamples, sets.size, beta
    )  # fmt: skip
    if sets.replace:
        return kernels.multiset_quantiles(*arguments)
    return *kernels.subset_quantiles(*arguments), 1


def Median(bounds: Any, resolution: float | None = None) -> Quantile:  # noqa: N802
    """Return the median: ``Quantile(0.5, bounds, resolution)``."""
    return Quantile(0.5, bounds, resolution)
