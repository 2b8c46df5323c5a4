"""A family: what the collector assumes of the population, by its CDF and a prior.

The likelihood of a report needs the probability of each cell between cut points and nothing else,
so a family is a CDF with both tails, named parameters and a prior for each. Particles are N rows
of d parameters; they move in unconstrained coordinates, where a positive parameter is its
logarithm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confidp.errors import InvalidArgument, InvalidType, real
from confidp.local.priors import LOG_LIMIT, PRIORS, Prior
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]

_LARGEST = math.exp(LOG_LIMIT + 1)  # of a θ that is asked for: a grid may go a little beyond
_GRID = 4  # cut points lie on a grid of at least this many steps in the population's spread
_STENCIL = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences of sixth order
_STEP = 1e-3  # relative: truncation 1e-18 against rounding 1e-13


@cache
def _prior_fields(family: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(family) if field.type in ("Prior", Prior))


class Population(ABC):
    """A one-dimensional family with a prior; the parameter vector θ is a row of N × d arrays."""

    __slots__ = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of θ's coordinates: by default the settings that are priors, in order."""
        return _prior_fields(type(self))

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return tuple(getattr(self, name) for name in self.parameters)

    @abstractmethod
    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each, either accurate where it is small."""

    @abstractmethod
    def spread(self, theta: Array) -> float:
        """Return about one standard deviation of X, for one θ."""

    @property
    def positive(self) -> bool:
        """Whether all values are positive: their cut points are then sought in logarithms."""
        return False

    @property
    def standard(self) -> tuple[float, ...] | None:
        """The θ at which designs are solved once for all θ; None where there is no such θ."""
        return None

    def cdf(self, theta: Array, cuts: Array) -> Array:
        """Return P(X ≤ c) alone, N × k."""
        return self.tails(theta, cuts)[0]

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points that are right at `standard` to where they are right at `theta`."""
        return cuts

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a public grid, so that nearby θ ask the same question.

        A step is a power of two, and a quarter to an eighth of the spread: rounding to it costs
        half a hundredth of the information at most. Where cut points are nearer than that, a step
        is no more than their distance.
        """
        finest = np.diff(cuts).min(initial=self.spread(theta) / _GRID)
        step = 2.0 ** math.floor(math.log2(finest)) if finest > 0 else 1.0
        return np.asarray(np.rint(cuts / step) * step)

    def coarse(self, theta: Array) -> Array:
        """Return a θ nearby out of few: to half a quarter octave, or an eighth of the spread."""
        octaves = np.rint(4 * np.log2(np.abs(theta) + 1e-300)) / 4
        step = 2.0 ** math.floor(math.log2(self.spread(theta))) / 4
        positive = [prior.positive for prior in self.priors]
        return np.where(positive, np.exp2(octaves), np.rint(theta / step) * step)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivatives of the cell probabilities at one θ: d rows, k + 1 columns."""
        d = len(theta)
        spread = self.spread(theta)
        steps = [
            _STEP * (float(value) if prior.positive else spread)
            for value, prior in zip(theta, self.priors, strict=True)
        ]
        multiples, weights = np.array(_STENCIL).T
        shifts = np.multiply.outer(multiples, np.diag(steps))  # stencil × d × d
        both = np.concatenate([theta + shifts, theta - shifts]).reshape(-1, d)
        above, below = self.cells(both, cuts).reshape(2, len(multiples), d, len(cuts) + 1)
        slopes = np.tensordot(weights, above - below, axes=1)
        return np.asarray(slopes / np.array(steps)[:, None])

    def cells(self, theta: Array, cuts: Array) -> Array:
        """Return the probability of each of the k + 1 cells: an N × (k + 1) array, never NaN.

        The error is 1e-16 of a cell's nearer tail, so cells far out keep their digits on both
        sides. A θ that the family refuses has probability 0 in every cell.

        Examples
        --------
        >>> from confidp.local.location_scale import Normal
        >>> print(Normal().cells(np.array([[0.0, 1.0]]), np.array([-30.0, 0.0, 30.0])))
        [[4.90671393e-198 5.00000000e-001 5.00000000e-001 4.90671393e-198]]
        """
        return cells_between(*self.tails(theta, cuts))

    def natural(self, z: Array) -> Array:
        """Return θ from unconstrained coordinates.

        Examples
        --------
        >>> from confidp.local.location_scale import Normal
        >>> Normal().natural(np.array([[3.0, 0.0]]))
        array([[3., 1.]])
        """
        theta = np.array(z, dtype=np.float64)
        for i, prior in enumerate(self.priors):
            if prior.positive:
                theta[..., i] = np.exp(np.clip(theta[..., i], -LOG_LIMIT, LOG_LIMIT))
        return theta

    def unconstrained(self, theta: ArrayLike) -> Array:
        """Return coordinates on the whole line, the inverse of `natural`."""
        z = np.array(theta, dtype=np.float64)
        for i, prior in enumerate(self.priors):
            if prior.positive:
                z[..., i] = np.log(z[..., i])
        return z

    def log_jacobian(self, z: Array) -> Array:
        """Return log |dθ/dz| for each row: the sum of the logarithmic coordinates."""
        positive = [i for i, prior in enumerate(self.priors) if prior.positive]
        return np.asarray(z[..., positive].sum(axis=-1))

    def log_prior(self, z: Array) -> Array:
        """Return the log prior density of unconstrained coordinates, −∞ where not finite.

        Also −∞ where a logarithm is beyond the limit that `natural` clips to: clipped parameters
        with a Jacobian that goes on growing would make the density grow for ever.
        """
        theta = self.natural(z)
        with np.errstate(all="ignore"):
            total = self.log_jacobian(z)
            for i, prior in enumerate(self.priors):
                total = total + prior.log_density(theta[..., i])
        logarithms = z[..., [prior.positive for prior in self.priors]]
        inside = np.isfinite(z).all(axis=-1) & (np.abs(logarithms) <= LOG_LIMIT).all(axis=-1)
        return np.where(inside & ~np.isnan(total), total, -np.inf)

    def sample_prior(self, size: int, rng: np.random.Generator) -> Array:
        """Return `size` draws of θ."""
        return np.stack([prior.sample(size, rng) for prior in self.priors], axis=1)

    def guesses(self, cuts: Array) -> Array:
        """Return rows of θ that may put people near the cut points: the prior's, unless better."""
        return self.sample_prior(1000, np.random.default_rng(0))

    def middle(self) -> Array:
        """Return a θ in the middle of the prior: each parameter's median, by a fixed sample."""
        return np.asarray(np.median(self.sample_prior(10_001, np.random.default_rng(0)), axis=0))

    def check(self, theta: Sequence[float] | Array) -> Array:
        """Return one θ as an array, or raise naming the parameter that is out of range."""
        point = numbers("theta", theta).reshape(-1)
        if len(point) != len(self.parameters):
            names = ", ".join(self.parameters)
            raise InvalidArgument(f"theta must be ({names}), not {len(point)} numbers")
        for name, prior, value in zip(self.parameters, self.priors, point, strict=True):
            if prior.positive:
                real(name, float(value), "in e^±300", lambda x: 1 / _LARGEST <= x <= _LARGEST)
            else:
                real(name, float(value), "within ±e^300", lambda x: abs(x) <= _LARGEST)
        return point

    def to_dict(self) -> dict[str, Any]:
        """Return the family, its settings and priors, JSON-ready; priors of your own aren't."""
        own = [type(p).__name__ for p in self.priors if type(p) not in PRIORS.values()]
        if own:
            raise InvalidArgument(f"save knows confidp's priors only, not {', '.join(own)}")
        priors = {
            name: {"prior": type(prior).__name__, **asdict(prior)}  # type: ignore[call-overload]
            for name, prior in zip(self.parameters, self.priors, strict=True)
        }
        return {"family": type(self).__name__, **self._settings(), "priors": priors}

    def _settings(self) -> dict[str, Any]:
        return {}


def cells_between(cdf: Array, sf: Array) -> Array:
    """Return cell probabilities from both tails at the cut points, along the last axis.

    A cell that starts above the median is a difference of upper tails, the others of lower ones.
    """
    shape = (*cdf.shape[:-1], 1)
    zeros, ones = np.zeros(shape), np.ones(shape)
    low = np.concatenate([zeros, cdf], axis=-1)
    high = np.concatenate([cdf, ones], axis=-1)
    above = np.concatenate([ones, sf], axis=-1)
    beyond = np.concatenate([sf, zeros], axis=-1)
    cells = np.maximum(np.where(low > 0.5, above - beyond, high - low), 0.0)
    refused = np.isnan(cells).any(axis=-1, keepdims=True)
    return np.where(refused, 0.0, cells)


def as_population(value: Any) -> Population:
    """Return `value` if it is a population, or raise."""
    if not isinstance(value, Population):
        raise InvalidType(f"population must be one such as Normal(), not {type(value).__name__}")
    return value


def snap_logarithm(cuts: Array, relative: float) -> Array:
    """Return cut points on a grid that is even in their logarithms."""
    step = 2.0 ** math.floor(math.log2(relative / _GRID))
    with np.errstate(divide="ignore"):
        lines = np.rint(np.log2(np.maximum(cuts, 0.0)) / step) * step
    return np.exp2(lines)
