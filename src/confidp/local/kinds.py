"""Kinds of query whose place is free: some knots, from which all else follows.

A design search moves the knots; what the answers' probabilities are doesn't depend on where they
lie, so each kind builds its channel once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from confidp.errors import InvalidArgument, InvalidType, integer, real
from confidp.local import mechanisms
from confidp.local.channel import (
    EPSILON_CAP,
    MAX_CELLS,
    MAX_OUTPUTS,
    MAX_WEIGHTS,
    TOTAL,
    Channel,
)
from confidp.local.query import Query
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]


def randomised_response(cells: int, epsilon: float) -> Array:
    """Return the k × k matrix that gives the true cell weight e^ε and the others 1.

    Examples
    --------
    >>> randomised_response(2, math.log(3)).round(6)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    count = integer("cells", cells, least=2)
    small = math.exp(-real("epsilon", epsilon, "of at least 0", lambda e: e >= 0))
    matrix = np.full((count, count), small)
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(matrix / (1 + (count - 1) * small))


_MOST_STEPS = math.isqrt(MAX_WEIGHTS) - 1


@runtime_checkable
class Mechanism(Hashable, Protocol):
    """A kind of query whose place is free: k knots, from which all else follows.

    The knots are cut points, or the two ends of a grid.
    """

    @property
    def n_knots(self) -> int:
        """How many knots there are."""

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and the matrix of probabilities, fast: a search calls it often."""

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the query to be asked, its privacy checked; of several a fair coin chooses one."""


def as_mechanism(value: Any) -> Mechanism:
    """Return `value` if it is a mechanism, or raise."""
    if isinstance(value, type) or not isinstance(value, Mechanism):
        kind = type(value).__name__
        raise InvalidType(f"mechanism must be one such as Response(3, 1.0), not {kind}")
    return value


def _keep(mechanism: Any, **fields: float | int) -> None:
    """Set fields of a frozen mechanism, once they have been checked."""
    for name, kept in fields.items():
        object.__setattr__(mechanism, name, kept)


def _cells(cells: Any) -> int:
    return integer("cells", cells, least=2, most=MAX_CELLS)


def _epsilon(epsilon: Any) -> float:
    allowed = f"above 0 and at most {EPSILON_CAP:g}"
    return real("epsilon", epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP)


@dataclass(frozen=True, slots=True)
class Response:
    """k-ary randomised response: the knots are the cut points.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> from confidp.local.design import best_knots
    >>> best = best_knots(Normal(), (0.0, 1.0), Response(3, 1.0))
    >>> [round(c, 2) for c in best.knots], round(best.loss, 1)
    ([-0.7, 0.7], 21.1)
    """

    cells: int
    epsilon: float

    def __post_init__(self) -> None:
        """Check the settings."""
        _keep(self, cells=_cells(self.cells), epsilon=_epsilon(self.epsilon))

    @property
    def n_knots(self) -> int:
        """One fewer than cells."""
        return self.cells - 1

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return np.array(knots), _matrix(self)

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the one query."""
        return (Query(knots, _channel(self), epsilon=self.epsilon),)


@dataclass(frozen=True, slots=True)
class GaussianResponse:
    """k-ary randomised response that is μ-GDP: it has the ε that `response_epsilon` finds.

    Examples
    --------
    >>> GaussianResponse(2, 1.0).queries((0.0,))
    (Query(id='...', cells=2, outputs=2, epsilon=None, mu=1.0),)
    """

    cells: int
    mu: float

    def __post_init__(self) -> None:
        """Check the settings."""
        mu = real("mu", self.mu, "above 0", lambda x: x > 0)
        _keep(self, cells=_cells(self.cells), mu=mu)

    @property
    def n_knots(self) -> int:
        """One fewer than cells."""
        return self.cells - 1

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return np.array(knots), _matrix(self)

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the one query, whose weights `Query` proves to be μ-GDP."""
        return (Query(knots, _channel(self), mu=self.mu),)


@dataclass(frozen=True, slots=True)
class TruncatedLaplace:
    """The truncated Laplace mechanism: the knots are the ends of its interval."""

    epsilon: float
    steps: int = 32

    def __post_init__(self) -> None:
        """Check the settings."""
        steps = integer("steps", self.steps, least=1, most=_MOST_STEPS)
        _keep(self, epsilon=_epsilon(self.epsilon), steps=steps)

    @property
    def n_knots(self) -> int:
        """Two ends."""
        return 2

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return _grid(knots, self.steps), _matrix(self)

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the one query."""
        cuts = _grid(_ends(knots), self.steps)
        return (Query(tuple(cuts.tolist()), _channel(self), epsilon=self.epsilon),)


@dataclass(frozen=True, slots=True)
class TruncatedGaussian:
    """The truncated Gaussian mechanism: the knots are the ends of its interval."""

    mu: float
    steps: int = 32
    outputs: int = 64

    def __post_init__(self) -> None:
        """Check the settings."""
        cap = mechanisms.MU_CAP
        mu = real("mu", self.mu, f"above 0 and at most {cap:g}", lambda x: 0 < x <= cap)
        steps = integer("steps", self.steps, least=1, most=_MOST_STEPS)
        outputs = integer("outputs", self.outputs, least=2, most=MAX_OUTPUTS)
        _keep(self, mu=mu, steps=steps, outputs=outputs)

    @property
    def n_knots(self) -> int:
        """Two ends."""
        return 2

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return _grid(knots, self.steps), _matrix(self)

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the one query."""
        cuts = _grid(_ends(knots), self.steps)
        return (Query(tuple(cuts.tolist()), _channel(self), mu=self.mu),)


def _ends(knots: Any) -> tuple[float, float]:
    ends = numbers("knots", knots)
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise InvalidArgument("knots must be two finite ends of an interval, the lower one first")
    return float(ends[0]), float(ends[1])


def _grid(knots: tuple[float, ...], steps: int) -> Array:
    low, high = knots
    return np.asarray(low + (high - low) * (np.arange(steps) + 0.5) / steps)


@lru_cache(maxsize=256)
def _channel(
    mechanism: Response | GaussianResponse | TruncatedLaplace | TruncatedGaussian,
) -> Channel:
    """Return the exact channel, which doesn't depend on where the knots are."""
    match mechanism:
        case Response(cells, epsilon):
            return mechanisms.response(range(cells - 1), epsilon).channel
        case GaussianResponse(cells, mu):
            return mechanisms.response(range(cells - 1), response_epsilon(mu, cells)).channel
        case TruncatedLaplace(epsilon, steps):
            return mechanisms.truncated_laplace(0.0, 1.0, epsilon, steps).channel
        case TruncatedGaussian(mu, steps, outputs):
            return mechanisms.truncated_gaussian(0.0, 1.0, mu, steps, outputs).channel


@lru_cache(maxsize=256)
def _matrix(mechanism: Response | GaussianResponse | TruncatedLaplace | TruncatedGaussian) -> Array:
    matrix = np.array(_channel(mechanism).weights) / TOTAL
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=1024)
def response_epsilon(mu: float, cells: int) -> float:
    """Return about the largest ε at which k-ary randomised response is μ-GDP, from below.

    With p the true cell's chance and q another's, the trade-off curve of two rows has the inner
    vertices (q, 1 − p) and its mirror image, and between them ones of the same two ratios: it is
    μ-GDP where Φ⁻¹(p) − Φ⁻¹(q) ≤ μ. The channel's own exact check has the last word.

    Examples
    --------
    >>> round(response_epsilon(1.0, 2), 4)  # logit Φ(1/2)
    0.807
    """
    wanted = real("mu", mu, "above 0", lambda x: x > 0)

    def excess(epsilon: float) -> float:
        p, q = randomised_response(cells, epsilon)[0, :2]
        return float(special.ndtri(p) - special.ndtri(q)) - wanted

    if excess(EPSILON_CAP) <= 0:
        return EPSILON_CAP
    epsilon = float(optimize.brentq(excess, 0.0, EPSILON_CAP, xtol=1e-12))
    less = 1e-12  # rounding to 2^-32 may exceed μ: step down until proved
    cuts = tuple(float(c) for c in range(cells - 1))
    while not mechanisms.response(cuts, epsilon).channel.satisfies_gdp(wanted):
        epsilon, less = epsilon - less, 2 * less
    return epsilon
