"""The public integer grid that one-dimensional data are put on before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.compiled import if_loaded
from confidp.errors import InvalidArgument, InvalidType, real

DEFAULT_CELLS = 2**30
MOST_CELLS = 2**52  # beyond it a float can't tell neighbouring grid points apart
_BLOCK = 2**14  # values at a time, which stay near the processor
_LARGEST = 1e120  # so that squares, products and their steps stay inside floats


@dataclass(frozen=True, slots=True)
class Grid:
    """The points ``lower + k·step`` for k = 0, …, `cells`: public, and fixed before the data.

    Each record becomes the integer k of its nearest grid point, so that sums are exact and a
    sensitivity holds to the last bit. Floats are read as the decimals they print as: 0.1 is 1/10.

    Examples
    --------
    >>> ages = Grid.over((16, 55), resolution=1)
    >>> ages.cells
    39
    >>> ages.encode(np.array([15.0, 16.4, 55.0, np.inf])).tolist()
    [0, 0, 39, 39]
    """

    lower: Fraction
    step: Fraction
    cells: int

    @classmethod
    def over(cls, bounds: tuple[float, float], resolution: float | None = None) -> Grid:
        """Return the grid over `bounds`, in steps of `resolution` or of 2^-30 of the range."""
        lower, upper = (_decimal(bound) for bound in bounds)
        if resolution is None:
            return cls(lower, (upper - lower) / DEFAULT_CELLS, DEFAULT_CELLS)
        resolution = real("resolution", resolution, "above 0", lambda x: x > 0)
        step = _decimal(resolution)
        cells = (upper - lower) / step
        if cells.denominator != 1 or not 1 <= cells <= MOST_CELLS:
            raise InvalidArgument(
                f"resolution must divide the range of the bounds into 1 to 2^52 whole steps, "
                f"not {resolution:g} for bounds {bounds[0]:g} to {bounds[1]:g}"
            )
        return cls(lower, step, int(cells))

    @property
    def range(self) -> Fraction:
        """Upper minus lower bound."""
        return self.step * self.cells

    def check_sums(self, n: int) -> None:
        """Refuse an n for which sums of n grid integers wouldn't fit in 62 bits."""
        if n * self.cells >= 2**62:
            raise InvalidArgument(
                f"resolution must be coarser: {n} sums of up to 2^{math.log2(self.cells):.0f} "
                f"steps each don't fit in 62 bits"
            )

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Clip `values` to the bounds and return their nearest grid points' integers.

        A fixed function of each record by itself, always one of 0, …, `cells`: its own rounding
        can't affect a sensitivity.
        """
        steps = np.empty(values.shape, np.int64)
        self._encode_into(steps.reshape(-1), values.reshape(-1))
        return steps

    def _encode_into(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        lower, step = float(self.lower), float(self.step)
        # Quotients and their roundings never fall where values rise: so it's enough to clip last,
        # at what the upper bound gives.
        most = min(np.rint((float(self.lower + self.range) - lower) / step), self.cells)
        if kernels := if_loaded():
            kernels.encode(values, lower, step, most, steps)
            return
        scratch = np.empty(_BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(values), _BLOCK):
                block = values[start : start + _BLOCK]
                quotients = scratch[: len(block)]
                np.subtract(block, lower, out=quotients)
                np.divide(quotients, step, out=quotients)
                np.rint(quotients, out=quotients)
                np.clip(quotients, 0, most, out=quotients)
                steps[start : start + _BLOCK] = quotients
        np.maximum(steps, 0, out=steps)  # NaN isn't expected, and has no whole number


def encode_columns(grids: Sequence[Grid], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (n, d) rows as the integers of their nearest grid points, a grid for each column.

    Examples
    --------
    >>> encode_columns([Grid.over((0, 1), 1), Grid.over((0, 1), 0.25)], np.array([[0.9, 0.3]]))
    array([[1, 1]])
    """
    steps = np.empty(rows.shape, np.int64)
    for grid, column, place in zip(grids, rows.T, steps.T, strict=True):
        grid._encode_into(place, column)
    return steps


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return `bounds` as an ordered pair of finite floats, or raise.

    Examples
    --------
    >>> check_bounds((30_000, 0))
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: bounds must be a lower and a larger upper one, not 30000 and 0
    """
    if not is_list(bounds) or len(bounds) != 2:
        raise InvalidType("bounds must be a pair of numbers, such as (0, 100)")
    lower, upper = (
        real("bounds", bound, "within ±1e120", lambda x: abs(x) <= _LARGEST)
        for bound in (bounds.tolist() if isinstance(bounds, np.ndarray) else bounds)
    )
    if not lower < upper:
        raise InvalidArgument(
            f"bounds must be a lower and a larger upper one, not {lower:g} and {upper:g}"
        )
    if upper - lower < 1 / _LARGEST:
        raise InvalidArgument("bounds must lie at least 1e-120 apart")
    return lower, upper


def is_list(value: Any) -> bool:
    """Whether `value` is an ordered sequence with a length: a tuple, a list or an array."""
    return isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _decimal(number: float) -> Fraction:
    return Fraction(repr(float(number)))
