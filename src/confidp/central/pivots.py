"""Distances between a statistic on resamples and on the data, in exact whole numbers.

Values are put on a public grid whose step is a power of two, far below the noise; from there on
distances, their order and their squares are exact, whatever the statistic's size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**61  # so that differences stay inside 64 bits

Point = NDArray[np.int64]  # d whole numbers of units


@dataclass(frozen=True, slots=True)
class Units:
    """The grid that values are rounded to: whole numbers of `step`, a power of two."""

    step: Fraction

    @classmethod
    def below(cls, size: Fraction) -> Units:
        """Return the units whose step is the power of two at or under `size`, or half of it."""
        bits = size.numerator.bit_length() - size.denominator.bit_length() - 1
        return cls(Fraction(2) ** bits)

    def error(self, dimension: int) -> Fraction:
        """Return a bound on the ℓ2 distance that rounding moves a value: half a unit, √d ≤ d."""
        return self.step * dimension / 2

    def points(self, value: NDArray[np.float64]) -> Point:
        """Round to whole units; clipping to 61 bits never widens a difference.

        Examples
        --------
        >>> Units(Fraction(1, 4)).points(np.array([0.3, 1e300])).tolist()
        [1, 2305843009213693952]
        """
        with np.errstate(over="ignore"):  # an infinity clips too
            scaled = np.rint(value / float(self.step))  # by a power of two: exact
        return np.clip(scaled, -_LARGEST, _LARGEST).astype(np.int64)

    def fractions(self, point: Point) -> list[Fraction]:
        """Return a point in the value's own units, exactly."""
        return [int(x) * self.step for x in point]


def quantile_distance(resampled: Sequence[Point] | Point, center: Point, level: float) -> int:
    """Return the ⌈level·B⌉-th smallest ℓ2 distance to `center`, rounded down to a whole unit.

    Examples
    --------
    >>> quantile_distance([np.array([k]) for k in range(10)], np.array([0]), 0.9)
    8
    """
    rank = math.ceil(Fraction(repr(level)) * len(resampled))  # 0.9 is 9/10: no float surprise
    moved = np.abs(np.asarray(resampled) - center).view(np.uint64)  # up to 2^63
    if moved.shape[1] == 1:
        return int(np.partition(moved[:, 0], rank - 1)[rank - 1])
    squares = sorted(sum(x * x for x in move) for move in moved.tolist())
    return math.isqrt(squares[rank - 1])
