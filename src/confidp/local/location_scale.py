"""Families of location and scale: X, or its logarithm, is location + scale·Z with Z standard."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from confidp.errors import real
from confidp.local.family import Population, snap_logarithm
from confidp.local.priors import (
    ANYWHERE,
    LOG_LIMIT,
    PAPERS_SCALE,
    NormalPrior,
    Prior,
    check_prior,
    keep,
)

Array = NDArray[np.float64]

_ANY_LOGARITHM = NormalPrior(0.0, 10.0)


class LocationScale(Population):
    """X = location + scale·Z with Z standard, and symmetric: P(Z > z) = P(Z ≤ −z)."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the priors; the scale's has positive values alone."""
        location, scale = self.parameters
        check_prior(location, self.priors[0])
        check_prior(scale, self.priors[1], positive=True)

    @abstractmethod
    def _cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _density(self, z: Array) -> Array: ...

    def _line(self, cuts: Array) -> Array:
        """Return cut points on the line where the family is one of location and scale."""
        return cuts

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = self._standardised(theta, cuts)
            return self._cdf(z), self._cdf(-z)

    def cdf(self, theta: Array, cuts: Array) -> Array:
        """Return P(X ≤ c) alone, N × k."""
        with np.errstate(all="ignore"):
            return self._cdf(self._standardised(theta, cuts))

    def _standardised(self, theta: Array, cuts: Array) -> Array:
        # An overflow is a cut point at infinity, which is right.
        return np.asarray((self._line(cuts)[None, :] - theta[:, :1]) / theta[:, 1:])

    def spread(self, theta: Array) -> float:
        """Return the scale."""
        return float(theta[1])

    @property
    def standard(self) -> tuple[float, ...] | None:
        """Location 0 and scale 1."""
        return (0.0, 1.0)

    def guesses(self, cuts: Array) -> Array:
        """Return locations at cut points, with scales from far below their range to above it."""
        line = self._line(cuts)
        line = line[np.isfinite(line)]
        if not len(line):
            return np.zeros((0, 2))
        places = line[np.unique(np.linspace(0, len(line) - 1, 60).astype(int))]
        extent = float(np.ptp(line)) or 1.0
        scales = extent * 2.0 ** np.arange(-8, 4)
        return np.stack([g.ravel() for g in np.meshgrid(places, scales)], axis=1)

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points from the standard distribution to θ's."""
        return np.asarray(theta[0] + theta[1] * cuts)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivatives of the cell probabilities: −f/σ and −z·f/σ at each end."""
        with np.errstate(all="ignore"):
            z = (self._line(cuts) - theta[0]) / theta[1]
            density = self._density(z) / theta[1]
            ends = np.stack([-density, np.where(density > 0, -z * density, 0.0)])
        return np.diff(ends, axis=1, prepend=0.0, append=0.0)


@dataclass(frozen=True, slots=True)
class Normal(LocationScale):
    """N(mu, sigma²), with the paper's priors: mu ~ N(0, 10⁴), sigma² ~ IG(1, 1).

    Examples
    --------
    >>> Normal().cells(np.array([[50.0, 3.0]]), np.array([47.0, 53.0])).round(4)
    array([[0.1587, 0.6827, 0.1587]])
    """

    mu: Prior = ANYWHERE
    sigma: Prior = PAPERS_SCALE

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.ndtr(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


@dataclass(frozen=True, slots=True)
class StudentT(LocationScale):
    """Student's t with known degrees of freedom, from 0.1 to 1e10, moved and scaled.

    Examples
    --------
    >>> StudentT(1).cells(np.array([[0.0, 1.0]]), np.array([0.0, 1.0]))
    array([[0.5 , 0.25, 0.25]])
    """

    df: float
    location: Prior = ANYWHERE
    scale: Prior = PAPERS_SCALE

    def __post_init__(self) -> None:
        """Check the settings."""
        keep(self, df=real("df", self.df, "in [0.1, 1e10]", lambda x: 0.1 <= x <= 1e10))
        LocationScale.__post_init__(self)

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.stdtr(self.df, z))

    def _density(self, z: Array) -> Array:
        return np.asarray(stats.t.pdf(z, self.df))

    def _settings(self) -> dict[str, Any]:
        return {"df": self.df}


@dataclass(frozen=True, slots=True)
class Logistic(LocationScale):
    """The logistic distribution."""

    location: Prior = ANYWHERE
    scale: Prior = PAPERS_SCALE

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.expit(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(special.expit(z) * special.expit(-z))


@dataclass(frozen=True, slots=True)
class Laplace(LocationScale):
    """The Laplace distribution; its scale is the mean distance from the location."""

    location: Prior = ANYWHERE
    scale: Prior = PAPERS_SCALE

    def _cdf(self, z: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z > 0, 1 - tail, tail))

    def _density(self, z: Array) -> Array:
        return np.asarray(0.5 * np.exp(-np.abs(z)))


@dataclass(frozen=True, slots=True)
class LogNormal(LocationScale):
    """Positive values whose logarithm is N(mu, sigma²)."""

    mu: Prior = _ANY_LOGARITHM
    sigma: Prior = PAPERS_SCALE

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.ndtr(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))

    def _line(self, cuts: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(cuts, 0.0)))

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points from the standard log-normal to θ's: exponentials of a line."""
        line = theta[0] + theta[1] * self._line(cuts)
        return np.asarray(np.exp(np.clip(line, -LOG_LIMIT, LOG_LIMIT)))

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return snap_logarithm(cuts, float(theta[1]))
