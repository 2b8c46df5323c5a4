"""Which question tells most: the cut points that lose least by a criterion.

For a family of location and scale they are solved once for a standard θ and moved to any other;
everything solved is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from confidp.errors import InvalidArgument
from confidp.local.information import (
    COptimal,
    Criterion,
    Design,
    Diagonal,
    Weights,
    a_optimal,
    answer_probabilities,
    check_criterion,
    d_optimal,
    fisher_information,
    information_at,
)
from confidp.local.kinds import (
    GaussianResponse,
    Mechanism,
    Response,
    TruncatedGaussian,
    TruncatedLaplace,
    as_mechanism,
    randomised_response,
    response_epsilon,
)
from confidp.local.population import Population, as_population

__all__ = [  # the two modules below it are part of its surface
    "Best",
    "COptimal",
    "Criterion",
    "Design",
    "Diagonal",
    "GaussianResponse",
    "Mechanism",
    "Response",
    "TruncatedGaussian",
    "TruncatedLaplace",
    "Weights",
    "a_optimal",
    "answer_probabilities",
    "best_cells",
    "best_knots",
    "d_optimal",
    "fisher_information",
    "place_best",
    "randomised_response",
    "response_epsilon",
]

Array = NDArray[np.float64]

_SPREADS = (0.25, 0.6, 1.0, 1.6)  # where the search for knots starts
_SHIFTS = (0.0, 0.7)
_ONE_SD = 0.8413447460685429  # Φ(1)
_MOST_CELLS = 8  # at ε = 10 two more would gain 2%


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
    point = tuple(as_population(population).check(theta).tolist())
    check_criterion(criterion, len(point))
    return _best(population, point, as_mechanism(mechanism), criterion)


@lru_cache(maxsize=4096)
def _best(
    population: Population,
    theta: tuple[float, ...],
    mechanism: Mechanism,
    criterion: Criterion,
) -> Best:
    """Search from several starts, on a middle and the logarithms of the gaps around it."""
    point = np.array(theta)
    middle, spread = middle_and_spread(population, point)

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
        return criterion(information_at(population, point, cuts, matrix))

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


def middle_and_spread(population: Population, theta: Array) -> tuple[float, float]:
    """Return the median and the spread: of the logarithm where all values are positive.

    Examples
    --------
    >>> from confidp.local.population import LogNormal
    >>> middle, spread = middle_and_spread(LogNormal(), np.array([9.0, 1.2]))
    >>> round(math.log(middle), 6), round(spread, 6)
    (9.0, 1.2)
    """
    median = _quantile(population, theta, 0.5)
    if not population.positive:
        return median, population.spread(theta)
    upper = _quantile(population, theta, _ONE_SD)  # `spread` is in units that a family chooses
    return median, min(math.log(upper / median), 3.0)


def _quantile(population: Population, theta: Array, share: float) -> float:
    """Return where the CDF is `share`, by bisection."""
    spread = population.spread(theta)

    def excess(x: float) -> float:
        below, above = population.tails(theta[None, :], np.array([x]))
        return float(below[0, 0] * (1 - share) - above[0, 0] * share)

    low, high = (0.0 if population.positive else -spread), spread
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high *= 2
    return float(optimize.brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-10))


def quantiles(population: Population, theta: Array, scores: Array) -> Array:
    """Return where the population's CDF is Φ(score), by bisection of the nearer tail.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> quantiles(Normal(), np.array([50.0, 3.0]), np.array([-1.0, 0.0, 2.0])).round(9)
    array([47., 50., 56.])
    """
    middle, spread = middle_and_spread(population, theta)

    def place(line: Array) -> Array:
        if population.positive:
            return np.asarray(middle * np.exp(np.clip(spread * line, -600, 600)))
        return np.asarray(middle + spread * line)

    def short(line: Array) -> NDArray[np.bool_]:
        below, above = population.tails(theta[None, :], place(line))
        lower = below[0] < special.ndtr(scores)
        return np.asarray(np.where(scores < 0, lower, above[0] > special.ndtr(-scores)))

    low, high = np.full(len(scores), -8.0), np.full(len(scores), 8.0)
    for _ in range(60):
        low = np.where(short(low), low, 2 * low)
        high = np.where(short(high), 2 * high, high)
    for _ in range(100):
        half = (low + high) / 2
        low, high = np.where(short(half), half, low), np.where(short(half), high, half)
    return place((low + high) / 2)


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
    at = tuple(population.check(solved_at).tolist())
    knots = np.array(_best(population, at, mechanism, criterion).knots)
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
    as_population(population)
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
