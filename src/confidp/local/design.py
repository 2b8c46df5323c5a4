"""Which question tells most: Fisher information of a report, and the cut points that maximise it.

A report's information on θ is a finite sum, F = Σ_y ∇p(y) ∇p(y)ᵀ / p(y). A criterion turns F
into a loss, and the best cut points minimise it. For a family of location and scale they are
solved once for a standard θ and moved to any other; everything solved is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from confidp.errors import InvalidArgument, integer, real
from confidp.local import mechanisms
from confidp.local.channel import EPSILON_CAP, TOTAL, Channel
from confidp.local.population import Population
from confidp.local.query import Query

Array = NDArray[np.float64]
Weights = tuple[tuple[float, ...], ...]  # one row for each cell, one column for each answer
Criterion: TypeAlias = Callable[[Array], float]  # the loss of a d × d information: less is better

_SUM = 1e-9  # how far two rows' sums may be apart
_FLAT = 1e-12  # a reciprocal condition number below which information is taken as singular
_SPREADS = (0.25, 0.6, 1.0, 1.6)  # where the search for knots starts
_SHIFTS = (0.0, 0.7)
_MOST_CELLS = 8  # at ε = 10 two more would gain 2%


@dataclass(frozen=True, slots=True)
class Design:
    """All that a likelihood needs of a query: cut points, and weights of answers in each cell.

    Rows of weights have the same sum, and are probabilities once divided by it.
    """

    cuts: tuple[float, ...]
    weights: Weights

    @classmethod
    def of(cls, cuts: ArrayLike, weights: ArrayLike) -> Design:
        """Check cut points and weights, and return them hashable.

        Examples
        --------
        >>> Design.of([0.0], [[3, 1], [1, 3]])
        Design(cuts=(0.0,), weights=((3.0, 1.0), (1.0, 3.0)))
        """
        points = np.asarray(cuts, dtype=np.float64)
        matrix = np.asarray(weights, dtype=np.float64)
        if points.ndim != 1 or not np.isfinite(points).all() or (np.diff(points) <= 0).any():
            raise InvalidArgument("cuts must be finite and increasing")
        if matrix.ndim != 2 or len(matrix) != len(points) + 1:
            raise InvalidArgument(f"weights must have {len(points) + 1} rows, one for each cell")
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            raise InvalidArgument("weights must be finite numbers of at least 0")
        totals = matrix.sum(axis=1)
        if not (totals > 0).all() or np.ptp(totals) > _SUM * totals[0]:
            raise InvalidArgument("weights must have rows of the same sum, above 0")
        return cls(tuple(points.tolist()), tuple(map(tuple, matrix.tolist())))

    @property
    def answers(self) -> int:
        """How many answers a report may have."""
        return len(self.weights[0])

    def probabilities(self) -> Array:
        """Return the probability of each answer in each cell."""
        matrix = np.array(self.weights)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def answer_probabilities(population: Population, theta: Array, design: Design) -> Array:
    """Return the probability of each answer under each θ: an N × answers array.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> design = Design.of([0.0], [[3, 1], [1, 3]])
    >>> answer_probabilities(Normal(), np.array([[0.0, 1.0], [99.0, 1.0]]), design)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    cells = population.cells(theta, np.array(design.cuts))
    return np.asarray(cells @ design.probabilities())


def fisher_information(
    population: Population, theta: Sequence[float] | Array, design: Design
) -> Array:
    """Return one report's information on θ, d × d: Σ_y ∇p(y) ∇p(y)ᵀ / p(y).

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> sign = Design.of([0.0], randomised_response(2, 1.0))
    >>> information = fisher_information(Normal(), [0.0, 1.0], sign)
    >>> math.isclose(information[0, 0], 2 / math.pi * math.tanh(0.5) ** 2)
    True
    """
    point = population.check(theta)
    return _information(population, point, np.array(design.cuts), design.probabilities())


def _information(population: Population, theta: Array, cuts: Array, matrix: Array) -> Array:
    chances = (population.cells(theta[None, :], cuts) @ matrix)[0]
    slopes = population.gradient(theta, cuts) @ matrix
    possible = chances > 0  # an impossible answer tells nothing, and its slope is 0
    scaled = slopes[:, possible] / np.sqrt(chances[possible])
    return np.asarray(scaled @ scaled.T)


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


def a_optimal(information: Array) -> float:
    """Return the trace of F⁻¹: the summed variances at the limit; ∞ where F is singular."""
    inverse = _inverse(information)
    return math.inf if inverse is None else float(np.trace(inverse))


def d_optimal(information: Array) -> float:
    """Return −log det F: twice the logarithm of the limiting ellipse's size, up to a constant."""
    if _inverse(information) is None:
        return math.inf
    return -float(np.linalg.slogdet(information)[1])


@dataclass(frozen=True, slots=True)
class COptimal:
    """The variance cᵀF⁻¹c of one combination of parameters."""

    direction: tuple[float, ...]

    def __call__(self, information: Array) -> float:
        """Return the loss."""
        inverse, c = _inverse(information), np.array(self.direction)
        return math.inf if inverse is None else float(c @ inverse @ c)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """−Σ wᵢ Fᵢᵢ. The paper's F₁₁ is Diagonal((1, 0)), its trace Diagonal((1, 1)).

    It may leave a parameter unseen: as F₁₁ grows, F₂₂ goes to 0.
    """

    weights: tuple[float, ...]

    def __call__(self, information: Array) -> float:
        """Return the loss."""
        return -float(np.array(self.weights) @ np.diagonal(information))


def _inverse(information: Array) -> Array | None:
    """Return F⁻¹, or None where F is singular; F is scaled first, so units don't matter."""
    scale = np.sqrt(np.diagonal(information))
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    if values[0] <= _FLAT * values[-1]:
        return None
    return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))


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

    def query(self, knots: tuple[float, ...]) -> Query:
        """Return the query to be asked, its privacy checked."""


@dataclass(frozen=True, slots=True)
class Response:
    """k-ary randomised response: the knots are the cut points.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> best = best_knots(Normal(), (0.0, 1.0), Response(3, 1.0))
    >>> [round(c, 2) for c in best.knots], round(best.loss, 1)
    ([-0.7, 0.7], 21.1)
    """

    cells: int
    epsilon: float

    @property
    def n_knots(self) -> int:
        """One fewer than cells."""
        return self.cells - 1

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return np.array(knots), _matrix(self)

    def query(self, knots: tuple[float, ...]) -> Query:
        """Return the query."""
        return Query(knots, _channel(self), epsilon=self.epsilon)


@dataclass(frozen=True, slots=True)
class GaussianResponse:
    """k-ary randomised response that is μ-GDP: it has the ε that `response_epsilon` finds.

    Examples
    --------
    >>> GaussianResponse(2, 1.0).query((0.0,))
    Query(id='...', cells=2, outputs=2, epsilon=None, mu=1.0)
    """

    cells: int
    mu: float

    @property
    def n_knots(self) -> int:
        """One fewer than cells."""
        return self.cells - 1

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return np.array(knots), _matrix(self)

    def query(self, knots: tuple[float, ...]) -> Query:
        """Return the query, whose weights `Query` proves to be μ-GDP."""
        return Query(knots, _channel(self), mu=self.mu)


@dataclass(frozen=True, slots=True)
class TruncatedLaplace:
    """The truncated Laplace mechanism: the knots are the ends of its interval."""

    epsilon: float
    steps: int = 32

    @property
    def n_knots(self) -> int:
        """Two ends."""
        return 2

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return _grid(knots, self.steps), _matrix(self)

    def query(self, knots: tuple[float, ...]) -> Query:
        """Return the query."""
        return Query(tuple(_grid(knots, self.steps).tolist()), _channel(self), epsilon=self.epsilon)


@dataclass(frozen=True, slots=True)
class TruncatedGaussian:
    """The truncated Gaussian mechanism: the knots are the ends of its interval."""

    mu: float
    steps: int = 32
    outputs: int = 64

    @property
    def n_knots(self) -> int:
        """Two ends."""
        return 2

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return cut points and matrix."""
        return _grid(knots, self.steps), _matrix(self)

    def query(self, knots: tuple[float, ...]) -> Query:
        """Return the query."""
        return Query(tuple(_grid(knots, self.steps).tolist()), _channel(self), mu=self.mu)


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


@dataclass(frozen=True, slots=True)
class Best:
    """The best knots found, and their loss."""

    knots: tuple[float, ...]
    loss: float


def best_knots(
    population: Population,
    theta: Sequence[float] | Array,
    mechanism: Mechanism,
    criterion: Criterion = a_optimal,
) -> Best:
    """Return the increasing knots whose report has the least loss at θ.

    Kept by its arguments, so mechanism and criterion should be frozen values or functions. The
    loss at a family's standard θ is in units of its scale.

    Raises
    ------
    InvalidArgument
        Where no knots give a finite loss: two answers, say, can't tell two parameters.
    """
    point = tuple(population.check(theta).tolist())
    return _best(population, point, mechanism, criterion)


@lru_cache(maxsize=4096)
def _best(
    population: Population,
    theta: tuple[float, ...],
    mechanism: Mechanism,
    criterion: Criterion,
) -> Best:
    """Search from several starts, on a middle and the logarithms of the gaps around it."""
    point = np.array(theta)
    middle, spread = _middle(population, point)

    def knots_of(x: Array) -> Array:
        gaps = np.exp(np.clip(x[1:], -30, 30))
        offsets = np.concatenate([[0.0], np.cumsum(gaps)])
        line = np.clip(x[0] + offsets - offsets[-1] / 2, -1e9, 1e9)
        if population.positive:
            return np.asarray(middle * np.exp(np.clip(spread * line, -600, 600)))
        return np.asarray(middle + spread * line)

    def loss(x: Array) -> float:
        knots = knots_of(x)
        if not (np.diff(knots) > 0).all():
            return math.inf
        cuts, matrix = mechanism.build(tuple(knots.tolist()))
        return criterion(_information(population, point, cuts, matrix))

    n_knots = mechanism.n_knots
    gaps = [math.log(2 * width / max(n_knots - 1, 1)) for width in _SPREADS]
    # Off-centre starts too: where one knot is best beside the middle, symmetry is a saddle.
    starts = [[np.array([shift] + [gap] * (n_knots - 1)) for gap in gaps] for shift in _SHIFTS]
    best, least = None, math.inf
    for start in (min(aligned, key=loss) for aligned in starts):
        first = loss(start)
        if math.isfinite(first):
            found = _descend(loss, start, max(abs(first), 1e-300))
            if loss(found) < least:
                best, least = knots_of(found), loss(found)
    if best is None:
        names = ", ".join(population.parameters)
        raise InvalidArgument(
            f"{n_knots} cut points of this mechanism tell too little of ({names})"
        )
    return Best(tuple(best.tolist()), least)


def _descend(loss: Callable[[Array], float], start: Array, unit: float) -> Array:
    """Return a local minimum: gradients first, then a simplex where they stopped short."""

    def scaled(x: Array) -> float:  # ∞ becomes a large number, which can be subtracted
        return min(loss(x) / unit, 1e9)

    found = optimize.minimize(scaled, start, method="BFGS", options={"gtol": 1e-6})
    if found.success or np.abs(found.jac).max() < 1e-3:
        return np.asarray(found.x)
    options = {"xatol": 1e-6, "fatol": 1e-11, "maxiter": 400 * len(start)}
    return np.asarray(optimize.minimize(scaled, found.x, method="Nelder-Mead", options=options).x)


def _middle(population: Population, theta: Array) -> tuple[float, float]:
    """Return the median, by bisection of the CDF, and the spread; the logarithm's if positive."""
    spread = population.spread(theta)

    def excess(x: float) -> float:
        below, above = population.tails(theta[None, :], np.array([x]))
        return float(below[0, 0] - above[0, 0])

    low, high = (0.0 if population.positive else -spread), spread
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high *= 2
    median = float(optimize.brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-10))
    return median, (min(spread / median, 3.0) if population.positive else spread)


def place_best(
    population: Population,
    theta: Array,
    mechanism: Mechanism,
    criterion: Criterion = a_optimal,
) -> Array:
    """Return the best knots at θ, on the family's public grid.

    For a family of location and scale they are those of the standard θ, moved. That is exact for
    A- and D-optimality and the diagonals with one weight; a general weighting is then in units of
    the scale. For other families θ is rounded first, so that few are ever solved for.
    """
    standard = population.standard
    solved_at = tuple(population.coarse(theta).tolist()) if standard is None else standard
    knots = np.array(best_knots(population, solved_at, mechanism, criterion).knots)
    placed = population.place(theta, knots)
    snapped = population.snap(theta, placed)
    if np.isfinite(snapped).all() and (np.diff(snapped) > 0).all():
        return snapped
    for i in range(1, len(placed)):  # a spread below a float's resolution: next neighbours
        placed[i] = max(placed[i], np.nextafter(placed[i - 1], np.inf))
    return placed


def best_cells(
    population: Population,
    criterion: Criterion = a_optimal,
    *,
    epsilon: float | None = None,
    mu: float | None = None,
    theta: Sequence[float] | Array | None = None,
) -> Response | GaussianResponse:
    """Return randomised response with the number of cells that is best at θ.

    θ is the family's standard one unless told, or the middle of the prior where it has none.
    More cells pay as ε grows: three are best for a normal up to ε = 3, eight from 4.6 on.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> [best_cells(Normal(), epsilon=epsilon).cells for epsilon in (0.5, 2.0, 5.0)]
    [3, 3, 8]
    """
    at = theta if theta is not None else population.standard or population.middle()
    best: Response | GaussianResponse | None = None
    losses: list[float] = []
    # k answers tell k − 1 parameters at most.
    for k in range(len(population.parameters) + 1, _MOST_CELLS + 1):
        if epsilon is not None:
            tried: Response | GaussianResponse = Response(k, epsilon)
        elif mu is not None:
            tried = GaussianResponse(k, mu)
        else:
            raise InvalidArgument("give epsilon or mu")
        loss = best_knots(population, at, tried, criterion).loss
        if best is None or loss < min(losses):
            best = tried
        losses.append(loss)
        if len(losses) > 2 and losses[-3] <= losses[-2] <= losses[-1]:
            break
    if best is None:
        raise InvalidArgument(f"population must have fewer than {_MOST_CELLS} parameters")
    return best
