"""Families on the positive half-line that are not exponentials of others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confidp.local.family import Population, snap_logarithm
from confidp.local.priors import ANY_SIZE, LogNormalPrior, Prior, check_prior

Array = NDArray[np.float64]

_ANY_SHAPE = LogNormalPrior(0.0, 1.5)


@dataclass(frozen=True, slots=True)
class Exponential(Population):
    """Positive values with mean `scale`.

    Examples
    --------
    >>> Exponential().cells(np.array([[2.0]]), np.array([-1.0, 2 * np.log(2)])).round(3)
    array([[0. , 0.5, 0.5]])
    """

    scale: Prior = ANY_SIZE

    def __post_init__(self) -> None:
        """Check the settings."""
        check_prior("scale", self.scale, positive=True)

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = np.maximum(cuts, 0.0)[None, :] / theta
            return -np.expm1(-z), np.exp(-z)

    def spread(self, theta: Array) -> float:
        """Return the scale."""
        return float(theta[0])

    @property
    def standard(self) -> tuple[float, ...] | None:
        """Scale 1."""
        return (1.0,)

    def place(self, theta: Array, cuts: Array) -> Array:
        """Scale cut points."""
        return np.asarray(theta[0] * cuts)

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return snap_logarithm(cuts, 1.0)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivative of the cell probabilities: −z·e^−z/σ at each end."""
        z = np.maximum(cuts, 0.0) / theta[0]
        return np.diff((-z * np.exp(-z) / theta[0])[None, :], axis=1, prepend=0.0, append=0.0)


@dataclass(frozen=True, slots=True)
class Gamma(Population):
    """Positive values with density proportional to x^(shape−1)·e^(−x/scale)."""

    shape: Prior = _ANY_SHAPE
    scale: Prior = ANY_SIZE

    def __post_init__(self) -> None:
        """Check the settings."""
        check_prior("shape", self.shape, positive=True)
        check_prior("scale", self.scale, positive=True)

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = np.maximum(cuts, 0.0)[None, :] / theta[:, 1:]
            shape = theta[:, :1]
            return special.gammainc(shape, z), special.gammaincc(shape, z)

    def spread(self, theta: Array) -> float:
        """Return the standard deviation."""
        return float(math.sqrt(theta[0]) * theta[1])

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return snap_logarithm(cuts, 1 / math.sqrt(float(theta[0])))
