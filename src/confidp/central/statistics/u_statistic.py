"""U-statistics of a user's own bounded kernel, complete or on a fixed balanced design."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid, check_bounds
from confidp.central.statistics.exact import exact_dot, exact_sum
from confidp.central.statistics.jackknife import Pair, jackknife_from, spread_sensitivity
from confidp.central.statistics.mean import PUBLIC_BOUNDS
from confidp.central.statistics.u_pairs import (
    NOT_DEGENERATE,
    bounds_of,
    check_size,
    for_columns,
)
from confidp.central.statistics.u_smooth import check_degenerate, known_degenerate
from confidp.errors import ConfidpError, InvalidArgument, InvalidType, integer


@dataclass(frozen=True, slots=True)
class UStatistic:
    """The mean of a bounded kernel h over tuples of r different records, such as all pairs.

    The kernel's values are clipped to `kernel_range`, and where it raises or returns something that
    isn't a number, it counts as the lower end, silently, since an error would tell something about
    the data. So the guarantee holds for any kernel that is a function of its arguments alone.

    Parameters
    ----------
    kernel
        Takes r records and returns a number, whatever their order: floats for one column, arrays
        with an entry for each column otherwise.
    order
        r, at least 1.
    bounds
        Public bounds ``(lower, upper)`` that records are clipped to; or one such pair for each
        column.
    kernel_range
        Public ``(lowest, highest)`` values of the kernel. The noise is proportional to its width.
    degenerate
        Whether it is **known** that E h(x, X_2, …, X_r) is the same for every x. Then the error is
        of order 1/n; if it isn't so after all, the interval covers far too rarely.
    max_tuples
        Beyond so many tuples of the n records, a fixed design of about as many stands for them, n
        at the least; for a resample of m records in proportion, m/n times as many.
    vectorized
        Whether the kernel takes arrays of T records at once and returns T numbers, which is much
        faster. **Then the guarantee needs that each result depends on its own r records alone**:
        no mean over the T, no sort.
    name
        For results and the audit trail.

    Notes
    -----
    **Design.** In each of K rounds the N positions are put on a circle in a pseudo-random order
    that depends on N and r alone, and every r successive ones are a tuple. So of the K·N tuples
    each position is in exactly K·r, as large a share as of all (N choose r) tuples: r/N.

    **Sensitivity.** One record is in a share r/N of the tuples, complete or not, and each tuple's
    value lies in an interval of width b: Δ_N = r·b/N (the paper, section 4 (iii)). A tuple holds
    different *positions*; that a resample repeats records doesn't matter. ∎ Values of the kernel
    are whole steps of 2^-30 of b, whose sums are exact.

    **Law.** An incomplete U-statistic has the additional variance Var(h)/(K·N), of the same order
    as its own. K is the same for the data and for resamples, so their laws agree. It would swamp a
    degenerate one, which is of order 1/N²: there the design must be complete.

    Examples
    --------
    >>> distance = UStatistic(lambda x, y: abs(x - y), order=2, bounds=(0, 9), kernel_range=(0, 9))
    >>> distance = distance.for_shape(n=3, columns=1)
    >>> distance.value(distance.encode(np.array([[1.0], [2.0], [7.0]])))
    array([4.])
    >>> distance.sensitivity(3)
    Fraction(6, 1)
    """

    kernel: Callable[..., Any]
    order: int
    bounds: Any
    kernel_range: tuple[float, float]
    degenerate: bool = False
    max_tuples: int = 100_000
    vectorized: bool = False
    name: str = "U-statistic"
    grid: Grid = field(init=False, repr=False, compare=False)  # of the kernel's values
    rounds: int | None = field(default=None, init=False, repr=False, compare=False)  # None: all

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        if not callable(self.kernel):
            raise InvalidType(f"kernel must be callable, not {type(self.kernel).__name__}")
        object.__setattr__(self, "order", integer("order", self.order, least=1, most=1000))
        most = integer("max_tuples", self.max_tuples, least=1, most=2**31)
        object.__setattr__(self, "max_tuples", most)
        check_degenerate(self.degenerate)
        if not isinstance(self.vectorized, bool) or not isinstance(self.name, str):
            raise InvalidType("vectorized must be True or False, and name a str")
        object.__setattr__(self, "bounds", bounds_of(self.bounds))
        try:
            kernel_range = check_bounds(self.kernel_range)
        except (InvalidArgument, InvalidType) as error:
            message = str(error).replace("bounds", "kernel_range")
            wrong: ConfidpError = type(error)(message)
            raise wrong from None
        object.__setattr__(self, "kernel_range", kernel_range)
        object.__setattr__(self, "grid", Grid.over(kernel_range))

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """The kernel's lowest value."""
        return (self.grid.lower,)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What only the user can know."""
        condition = "E h(x, X_2, …) is the same for every x"
        return (
            PUBLIC_BOUNDS,
            f"the kernel of {self.name} lies in kernel_range: values beyond it count as its ends",
            known_degenerate(condition) if self.degenerate else NOT_DEGENERATE,
        )

    def for_shape(self, n: int, columns: int) -> Self:
        """Give each column its bounds, and choose how many rounds the design has."""
        check_size(n, self.order)
        rounds = None
        if math.comb(n, self.order) > self.max_tuples:
            if self.degenerate:
                raise InvalidArgument(
                    f"max_tuples must be at least {math.comb(n, self.order)} for a degenerate "
                    f"kernel, which needs all tuples, not {self.max_tuples}"
                )
            rounds = max(1, self.max_tuples // n)
        fitted = replace(self, bounds=for_columns(self.bounds, columns))
        object.__setattr__(fitted, "rounds", rounds)
        return fitted

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip every column to its bounds."""
        lower, upper = np.array(for_columns(self.bounds, rows.shape[1])).T
        clipped: NDArray[np.float64] = np.clip(rows, lower, upper)
        return clipped

    def value(
        self, records: NDArray[np.float64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the kernel's mean over the design, less its lowest value."""
        tuples = design(len(records), self.order, self.rounds)
        heights = self._heights(records, tuples)
        return np.array([float(Fraction(int(heights.sum()), len(tuples)) * self.grid.step)])

    def has_jackknife(self, n: int) -> bool:
        """Return whether more than r records, and a kernel not known to be degenerate."""
        return n > self.order and not self.degenerate

    def jackknife(self, records: NDArray[np.float64]) -> Pair:
        """Return U less the kernel's lowest value, and n times its jackknife variance. **Private**.

        Of an incomplete design, that of the module `jackknife`.
        """
        n, tuples = len(records), design(len(records), self.order, self.rounds)
        heights = self._heights(records, tuples)
        each = np.zeros(n, np.int64)
        for positions in tuples.T:
            np.add.at(each, positions, heights)
        partners = len(tuples) * self.order // n
        sums = exact_sum(each), exact_dot(each, each)
        u, variance = jackknife_from(n, self.order, partners, *sums)
        return u * self.grid.step, variance * self.grid.step**2

    def jackknife_sensitivity(self, n: int) -> Pair:
        """Return r·b/n and what the theorem in `jackknife` allows, of the design and the order.

        If `vectorized`, a step of the kernel's grid more for U, since all values may move by one
        (`rounding`). So may all q_i then, which moves Σ(q_i − q̄)² by at most 2nb steps.
        """
        check_size(n, self.order + 1)
        step = self.grid.step if self.vectorized else Fraction(0)
        spread = spread_sensitivity(n, self.order, self.grid.range, all_pairs=self.rounds is None)
        more = Fraction(self.order**2 * (n - 1), (n - self.order) ** 2)
        more *= 2 * n * self.grid.range * step
        return self.sensitivity(n) + step, spread + more

    def sensitivity(self, n: int) -> Fraction:
        """Return r·b/n, exact."""
        check_size(n, self.order)
        return self.order * self.grid.range / n

    def rounding(self, n: int) -> Fraction:
        """Return 2^-53 of b; and one step of the kernel's grid if `vectorized`.

        NumPy may round the same tuple's value differently in batches of different lengths, by far
        less than a step, so that it lands on the same grid point or the next.
        """
        check_size(n, self.order)
        return self.grid.range / 2**53 + (self.grid.step if self.vectorized else 0)

    def scale(self, n: int) -> float:
        """Return √n, or n when degenerate."""
        return float(n) if self.degenerate else math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": None,
            "order": self.order,
            "kernel_range": list(self.kernel_range),
            "degenerate": self.degenerate,
            "max_tuples": self.max_tuples,
        }

    def _heights(
        self, records: NDArray[np.float64], tuples: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the kernel's values on tuples, in whole steps over its lowest."""
        records = records[:, 0] if records.shape[1] == 1 else records
        arguments = [records[positions] for positions in tuples.T]
        for argument in arguments:
            argument.setflags(write=False)  # no tuple's call can change another's
        outputs = self._outputs(arguments)
        return self.grid.encode(np.where(np.isnan(outputs), self.kernel_range[0], outputs))

    def _outputs(self, arguments: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return what the kernel makes of each tuple, NaN where that is no number."""
        count = len(arguments[0])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # they would tell of the data
            if not self.vectorized:
                # Python floats are faster, one by one, than NumPy's.
                rows = [a.tolist() if a.ndim == 1 else list(a) for a in arguments]
                return np.array([_number(self.kernel, row) for row in zip(*rows, strict=True)])
            try:
                outputs = np.asarray(self.kernel(*arguments), dtype=np.float64)
                if outputs.shape == (count,):
                    return outputs
            except Exception:  # one tuple's fault mustn't touch the others: call it one by one
                pass
            slices = ([a[i : i + 1] for a in arguments] for i in range(count))
            return np.array([_number(self.kernel, row) for row in slices])


def _number(kernel: Callable[..., Any], row: Any) -> float:
    try:
        return float(np.asarray(kernel(*row), dtype=np.float64).item())
    except Exception:  # whatever it is, it may depend on the data
        return math.nan


@lru_cache(maxsize=4)  # the data's and the resamples' are asked for again and again
def design(n: int, order: int, rounds: int | None) -> NDArray[np.int64]:
    """Return the (T, order) positions of all tuples, or of `rounds` circles where those are fewer.

    Public: a function of its arguments alone. Each position is in exactly T·order/n tuples.

    Examples
    --------
    >>> design(4, 2, None).tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    >>> np.bincount(design(1000, 3, rounds=5).ravel()).tolist() == [15] * 1000
    True
    """
    if rounds is None or rounds * n >= math.comb(n, order):
        flat = chain.from_iterable(combinations(range(n), order))
        tuples = np.fromiter(flat, dtype=np.int64).reshape(-1, order)
    else:
        rng = np.random.default_rng([n, order])  # a fixed seed: the design is part of the statistic
        circles = [rng.permutation(n) for _ in range(rounds)]
        tuples = np.concatenate(
            [np.stack([np.roll(circle, -j) for j in range(order)], axis=1) for circle in circles]
        )
    tuples.setflags(write=False)
    return tuples
