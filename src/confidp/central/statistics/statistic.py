"""What a method needs to know of a statistic: its value and how far one record can move it.

And, where a statistic has quick ones, its values on all resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from confidp.central.resampling import IndexSets, Indices, multiplicity
from confidp.errors import ConfidpError, InvalidArgument, real

T = TypeVar("T")
Records = NDArray[Any]  # (N, …): whatever `encode` made, one row a person


class Statistic(Protocol):
    """A statistic θ of a data set, with values in d dimensions.

    Settings live in the object, data come in the calls. Everything but `encode`, `value` and
    `smooth_sensitivity` is public: it depends on the settings, N and the number of columns alone.
    """

    @property
    def bounds(self) -> tuple[tuple[float, float], ...] | None:
        """Public bounds of each column, to which records are clipped; None if they aren't."""

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """A public point, one entry for each of θ's d coordinates: `value` is relative to it.

        So that far-off bounds, such as years or account numbers, cost no float precision.
        """

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the coverage of a region for θ rests on besides the method, for people."""

    def for_shape(self, n: int, columns: int) -> Statistic:
        """Return this statistic for data of that public shape, or raise if it can't take them."""

    def encode(self, rows: NDArray[np.float64]) -> Records:
        """Return (n, columns) rows clipped and on the grid: a fixed function of each record.

        Rows may be the caller's own memory, and can't be written to.
        """

    def value(
        self, records: Records, near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return θ(records) − origin, of shape (d,).

        `near` is a value on similar records, for a search to start from: it may change the result
        by rounding only.
        """

    def rounding(self, n: int) -> Fraction:
        """Return a bound on the ℓ2 distance between `value` as computed and its exact value."""

    def scale(self, n: int, /) -> float:
        """Return τ_n, with which τ_n(θ(D) − θ) has a limit law: √n for most."""

    def describe(self) -> dict[str, Any]:
        """Return the name and the settings, JSON-ready, for results and the audit trail."""


def stated_at(n: int, role: str, function: Callable[[int], T]) -> T:
    """Return what a user's own function of N returns, or raise naming what it raised."""
    try:
        return function(n)
    except ConfidpError:
        raise
    except Exception as error:  # its traceback is the user's to see: N is public
        kind = type(error).__name__
        raise InvalidArgument(f"{role} must be a function of N, but raised {kind}") from error


@runtime_checkable
class MeanLike(Statistic, Protocol):
    """A statistic with a small global sensitivity (the paper, definition 1.1)."""

    def sensitivity(self, n: int, /) -> Fraction | float:
        """Return Δ_n: the most that exact θ moves in ℓ2 when one of n records is replaced."""


def sensitivity_at(n: int, sensitivity: Callable[[int], Fraction | float]) -> Fraction:
    """Return Δ_n as a fraction, or raise if a user's function states nonsense.

    Under 1e-250 the units that distances are counted in would underflow.
    """
    stated = stated_at(n, "sensitivity", sensitivity)
    allowed = "of at least 1e-250 for every N"
    checked = real("sensitivity", stated, allowed, lambda x: x >= 1e-250)
    return stated if isinstance(stated, Fraction) else Fraction(checked)


def pivot_sensitivity(statistic: MeanLike, n: int, m: int, kappa: int) -> Fraction:
    """Return the most that θ(D[S]) − θ(D) moves, for m indices of n, none more than κ times.

    κΔ_m + Δ_n, or what the statistic itself knows (its own `pivot_sensitivity`).
    """
    own = getattr(statistic, "pivot_sensitivity", None)
    if own is not None:
        tight: Fraction = own(n, m, kappa)
        return tight
    delta_n, delta_m = (sensitivity_at(size, statistic.sensitivity) for size in (n, m))
    return kappa * delta_m + delta_n


@runtime_checkable
class SmoothFriendly(Statistic, Protocol):
    """A statistic whose smooth sensitivity is small on most data (the paper, definition 1.2)."""

    def smooth_sensitivity(self, records: Records, beta: float, /) -> float:
        """Return SS_β(records) > 0, private: a β-smooth upper bound on the local sensitivity.

        For all neighbours D, D′: ‖θ(D) − θ(D′)‖₂ ≤ SS_β(D) ≤ e^β SS_β(D′), for exact θ, both up to
        a relative 1e-12, which methods allow for.
        """


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic on B resamples. The multiplicity alone isn't private.

    Attributes
    ----------
    values
        Of shape (B, d), each as `value` would return it.
    multiplicity
        The largest κ(S) drawn.
    """

    values: NDArray[np.float64]
    multiplicity: int


@dataclass(frozen=True, slots=True)
class ResampledSmooth:
    """A statistic on the data and on B resamples, with SS_β. The multiplicity alone isn't private.

    Attributes
    ----------
    value, sensitivity
        θ(D) − origin and SS_β(D).
    values, largest_sensitivity
        θ(D[S]) − origin, of shape (B, d), and the largest SS_β(D[S]).
    multiplicity
        The largest κ(S) drawn.
    """

    value: NDArray[np.float64]
    sensitivity: float
    values: NDArray[np.float64]
    largest_sensitivity: float
    multiplicity: int


@runtime_checkable
class Batched(Protocol):
    """A statistic that is quicker on many resamples together than on one after the other."""

    def resampled(
        self, records: Records, sets: IndexSets, near: NDArray[np.float64], /
    ) -> Resampled:
        """Return the values on `sets`, those that iterating over it yields.

        `near` is the value on `records`, for a search to start from.
        """


@runtime_checkable
class SmoothBatched(Protocol):
    """The same with smooth sensitivities, and on the data."""

    def resampled_smooth(
        self, records: Records, sets: IndexSets, beta: float, /
    ) -> ResampledSmooth:
        """Return values and smooth sensitivities on `records` and on `sets`."""


def resample(
    statistic: Statistic,
    records: Records,
    sets: Iterable[Indices],
    near: NDArray[np.float64],
) -> Resampled:
    """Return θ on resamples: all at once where the statistic can, else one by one. **Private**.

    `near` is θ on the data, for a search to start from.
    """
    if isinstance(sets, IndexSets) and isinstance(statistic, Batched):
        quick = statistic.resampled(records, sets, near)
        sets.check(quick.multiplicity)
        return quick
    return resample_one_by_one(statistic, records, sets, near)


def resample_one_by_one(
    statistic: Statistic,
    records: Records,
    sets: Iterable[Indices],
    near: NDArray[np.float64],
) -> Resampled:
    """Return θ on resamples, each from its own records. **Private**."""
    values, kappa = [], 1
    for indices in sets:
        values.append(statistic.value(records[indices], near=near))
        kappa = max(kappa, multiplicity_in(indices, sets))
    return Resampled(np.array(values), kappa)


def resample_smooth(
    statistic: SmoothFriendly,
    records: Records,
    sets: Iterable[Indices],
    beta: float,
) -> ResampledSmooth:
    """Return θ and SS_β on the data and on resamples. **Private**."""
    if isinstance(sets, IndexSets) and isinstance(statistic, SmoothBatched):
        quick = statistic.resampled_smooth(records, sets, beta)
        sets.check(quick.multiplicity)
        return quick
    full, values, kappa, largest = statistic.value(records), [], 1, 0.0
    for indices in sets:
        sample = records[indices]
        values.append(statistic.value(sample, near=full))
        largest = max(largest, statistic.smooth_sensitivity(sample, beta))
        kappa = max(kappa, multiplicity_in(indices, sets))
    own = statistic.smooth_sensitivity(records, beta)
    return ResampledSmooth(full, own, np.array(values), largest, kappa)


def multiplicity_in(indices: Indices, sets: Iterable[Indices]) -> int:
    """Return κ(S), which needs no count where the sets are known to be without replacement."""
    known = isinstance(sets, IndexSets) and not sets.replace
    return 1 if known else multiplicity(indices)
