"""Smooth functions of means as roots: θ solves h(θ, m) = 0, m the means of columns or products.

An interval for θ is then the set of all θ for which h(θ, m̃) isn't far from 0 (Fieller, 1954).
Nothing is divided by a noisy mean, and no gradient is taken at a noisy θ̃: where the data say little
the set is wide, not wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid

Moments = NDArray[np.float64]  # (k,), in the units of the data


class Equation(Protocol):
    """h(θ, m), falling in θ where `clear_of_zero` are above 0.

    Attributes
    ----------
    grids
        One for each column of the data.
    pairs
        Which products of two centred columns m holds the means of; empty for the columns' means.
    clear_of_zero
        Which entries of m θ divides by.
    clear_by
        By how many deviations they must be above 0, beside those of the interval itself.
    limits
        The least and the largest θ that the bounds, and floors, allow.
    """

    @property
    def grids(self) -> tuple[Grid, ...]:
        """One for each column."""

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Products of centred columns."""

    @property
    def clear_of_zero(self) -> tuple[int, ...]:
        """Denominators."""

    @property
    def clear_by(self) -> float:
        """In deviations."""

    @property
    def limits(self) -> tuple[float, float]:
        """The public range of θ."""

    def root(self, m: Moments) -> float:
        """Return the θ with h(θ, m) = 0, for m clear of zero."""

    def gap(self, theta: float, m: Moments) -> float:
        """Return h(θ, m)."""

    def gradient(self, theta: float, m: Moments) -> NDArray[np.float64]:
        """Return ∂h/∂m, of shape (k,)."""


@dataclass(frozen=True, slots=True)
class SpreadEquation:
    """The variance, m − θ, or the standard deviation, m − θ², m = E(X − EX)².

    Examples
    --------
    >>> equation = SpreadEquation((Grid.over((0, 10)),), power=2, least=1.0)
    >>> equation.root(np.array([9.0])), equation.limits
    (3.0, (1.0, 5.0))
    """

    grids: tuple[Grid, ...]
    power: int
    least: float = 0.0
    pairs: tuple[tuple[int, int], ...] = ((0, 0),)
    clear_of_zero: tuple[int, ...] = ()
    clear_by: float = 0.0

    @property
    def limits(self) -> tuple[float, float]:
        """Up to half the range, squared for the variance."""
        return self.least, max((float(self.grids[0].range) / 2) ** (2 / self.power), self.least)

    def root(self, m: Moments) -> float:
        """Return m, or √m."""
        return float(max(m[0], 0.0) ** (1 / self.power))

    def gap(self, theta: float, m: Moments) -> float:
        """Return m − θ^power."""
        return float(m[0] - theta**self.power)

    def gradient(self, theta: float, m: Moments) -> NDArray[np.float64]:
        """Return 1: no θ and no root of a noisy number in it."""
        return np.ones(1)


@dataclass(frozen=True, slots=True)
class RatioEquation:
    """The ratio of two means: m₀ − θm₁, m₁ at least `floor`."""

    grids: tuple[Grid, ...]
    floor: float
    pairs: tuple[tuple[int, int], ...] = ()
    clear_of_zero: tuple[int, ...] = (1,)
    clear_by: float = 0.0  # linear in m: exact as soon as the set is an interval

    @property
    def limits(self) -> tuple[float, float]:
        """Of x/y, y from the floor to its upper bound."""
        x, y = self.grids
        ends = [float(x.lower), float(x.lower + x.range)]
        divisors = [self.floor, float(y.lower + y.range)]
        ratios = [end / divisor for end in ends for divisor in divisors]
        return min(ratios), max(ratios)

    def root(self, m: Moments) -> float:
        """Return m₀/m₁."""
        return float(m[0] / m[1])

    def gap(self, theta: float, m: Moments) -> float:
        """Return m₀ − θm₁."""
        return float(m[0] - theta * m[1])

    def gradient(self, theta: float, m: Moments) -> NDArray[np.float64]:
        """Return (1, −θ)."""
        return np.array([1.0, -theta])


@dataclass(frozen=True, slots=True)
class CorrelationEquation:
    """Pearson's correlation: m₂ − θ√(m₀m₁), with variances m₀, m₁ and covariance m₂."""

    grids: tuple[Grid, ...]
    floors: tuple[float, float]
    pairs: tuple[tuple[int, int], ...] = ((0, 0), (1, 1), (0, 1))
    clear_of_zero: tuple[int, ...] = (0, 1)
    clear_by: float = 3.0  # so that √(m₀m₁) is off by 3% on average at most, (1/3)²/8 for each
    limits: tuple[float, float] = (-1.0, 1.0)

    def root(self, m: Moments) -> float:
        """Return m₂/√(m₀m₁)."""
        return float(m[2] / self._scale(m))

    def gap(self, theta: float, m: Moments) -> float:
        """Return m₂ − θ√(m₀m₁)."""
        return float(m[2] - theta * self._scale(m))

    def gradient(self, theta: float, m: Moments) -> NDArray[np.float64]:
        """Return (−θm₁/2√(m₀m₁), −θm₀/2√(m₀m₁), 1)."""
        scale = self._scale(m)
        slopes = [-theta * max(m[j], f * f) / (2 * scale) for j, f in self._crossed]
        return np.array([*slopes, 1.0])

    @property
    def _crossed(self) -> tuple[tuple[int, float], ...]:
        return (1, self.floors[1]), (0, self.floors[0])

    def _scale(self, m: Moments) -> float:
        """Return √(m₀m₁), both at least their floors' squares."""
        return math.sqrt(math.prod(max(float(m[j]), f * f) for j, f in self._crossed))
