"""How much any ε-DP channel can tell: a linear programme over staircase columns, with its dual.

The measure other mechanisms are held against. A person's value is seen through a fine public
partition of k cells with chances π and derivatives d (one row a cell). A column q of a channel
contributes qᵀd dᵀq/(πᵀq) to the information F.

1. *Extremal columns* (Kairouz, Oh and Viswanath 2016, theorem 2). ε-DP columns are those with
   q_i ≤ e^ε q_j: a cone whose every member is a sum of *staircase* columns, which have two values
   with ratio e^ε. For G ⪰ 0 a column's part of tr(GF) is convex and homogeneous, so splitting a
   column into staircase ones loses nothing, and max tr(GF) over all ε-DP channels, with any number
   of answers, is linear in the weights of the 2^k staircase columns: rows must sum to 1.
2. *Its dual* is any λ, one price a cell: with v = d·G^½ and v(s) = Σ s_i v_i, the maximum is at
   most Σλ_i + max_s (|v(s)|²/π(s) − λ(s))/π(s), as the chances π(s) of the answers sum to 1.
3. *Pricing is exact for two parameters.* |v|²/p = max_b 2b·v − |b|²p, so the best s for a given b
   is high where c_i(b) = 2b·v_i − |b|²π_i − λ_i > 0: the inside of a circle in the plane of b.
   Every best pattern is that of a face of an arrangement of k circles, which has O(k²) faces, and
   each face has an arc of some circle on its edge: points beside the middles of all arcs see all.
4. *A convex loss* of F falls by at most tr(G(F′ − F)) from F to F′, with −G its gradient at F. So
   step 1's maximum, bounded by step 2, bounds the loss of every ε-DP channel from below
   (Frank-Wolfe). Channels are mixed by a public coin, with the weights that are best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from confidp.errors import InvalidArgument, integer, real, shown
from confidp.local.channel import EPSILON_CAP
from confidp.local.design import Best, best_cells, best_knots, quantiles
from confidp.local.information import (
    Array,
    COptimal,
    Criterion,
    Design,
    Diagonal,
    a_optimal,
    check_criterion,
    d_optimal,
)
from confidp.local.kinds import Response
from confidp.local.population import Population, as_population

Patterns = NDArray[np.bool_]  # one row a staircase column: where it is high

_ENDS = 4.0  # the partition ends at the normal quantiles of ±4: 3e-5 beyond either
MOST_CELLS = 160
_VERTICES = 16  # channels mixed at most
_STEPS = 80  # of one linear programme
_NEW = 80  # patterns that enter it in one step
_POOL = 400  # patterns kept from one to the next
_SHIFTS = 8
_SETTLED = 1e-7  # where the best channel so far has value 1
_FAILED = "epsilon must be smaller, or cells fewer: the linear programme failed in floats"
_BESIDE = 1e-9  # how far beside an arc a face is looked at, relative to the circle


@dataclass(frozen=True, slots=True)
class BestChannel:
    """The best channel found on a partition, and a bound that no ε-DP channel on it can pass.

    Attributes
    ----------
    loss
        What the channel found achieves.
    bound
        No ε-DP channel that sees the value through this partition, with any number of answers,
        has a smaller loss (up to floating-point rounding, about 1e-9 of it). Of channels that see
        more than the partition it says nothing: more cells can only lower it. For a normal at
        ε of 0.5 and 1, 160 cells lower the loss found with 80 by 0.1% and 0.
    information
        The channel's Fisher information.
    design
        The channel: its partition and a column for each answer.
    """

    loss: float
    bound: float
    information: Array = field(repr=False)
    design: Design = field(repr=False)


def best_channel(
    population: Population,
    theta: Sequence[float] | Array,
    epsilon: float,
    criterion: Criterion = a_optimal,
    *,
    cells: int = 80,
    tolerance: float = 2e-3,
) -> BestChannel:
    """Return the ε-DP channel with the least loss at θ, to within a proved tolerance.

    Parameters
    ----------
    criterion
        `a_optimal`, `d_optimal`, a `COptimal` or a `Diagonal` of weights of at least 0.
    cells
        How many cells there are between normal-score quantiles of the population at θ, 2 to 160;
        the best response's cuts make a few more.
    tolerance
        The gap between `loss` and `bound` at which to stop, relative to tr(GF) (for
        A-optimality that is the loss itself). A search that stalls returns a wider gap.

    Raises
    ------
    InvalidArgument
        Where the criterion is another, or weighs more than two directions of θ: pricing is then
        not exact.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> found = best_channel(Normal(), (0.0, 1.0), epsilon=1.0, cells=40)
    >>> bool(found.bound <= found.loss <= 1.002 * found.bound)
    True
    >>> round(found.loss, 1)  # three-ary response: 21.07
    21.1
    """
    point = as_population(population).check(theta)
    allowed = f"above 0 and at most {EPSILON_CAP:g}"
    epsilon = real("epsilon", epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP)
    tolerance = real("tolerance", tolerance, "in (0, 1)", lambda t: 0 < t < 1)
    if integer("cells", cells, least=2) > MOST_CELLS:
        raise InvalidArgument(f"cells must be at most {MOST_CELLS}, not {shown(cells)}")
    check_criterion(criterion, len(point))
    _root(_gain(criterion, np.eye(len(point))))  # refuses what it can't do, before any work
    response, knots = _response(population, point, epsilon, criterion)
    cuts = _partition(population, point, cells, knots)
    chances = population.cells(point[None, :], cuts)[0]
    programme = _Programme(chances, population.gradient(point, cuts).T, math.exp(epsilon))
    return _frank_wolfe(programme, criterion, cuts, response.cells, knots, tolerance)


def _response(
    population: Population, point: Array, epsilon: float, criterion: Criterion
) -> tuple[Response, Best]:
    """Return the best response and its cuts, from which to start."""
    found = best_cells(population, criterion, epsilon=epsilon, theta=point)
    response = Response(found.cells, epsilon)
    return response, best_knots(population, point, response, criterion)


def _partition(population: Population, point: Array, cells: int, response: Best) -> Array:
    """Return cut points at normal-score quantiles, and the response's."""
    grid = quantiles(population, point, np.linspace(-_ENDS, _ENDS, cells - 1))
    least = 0.01 * np.diff(grid).min() if len(grid) > 1 else 0.0
    apart = np.abs(grid[:, None] - np.array(response.knots)).min(axis=1) > least
    cuts = np.sort(np.concatenate([grid[apart], response.knots]))
    while True:  # every cell needs a chance: discrete tails may have none
        empty = np.flatnonzero(population.cells(point[None, :], cuts)[0] <= 0)
        if not len(empty):
            return cuts
        cuts = np.delete(cuts, min(int(empty[0]), len(cuts) - 1))


def _gain(criterion: Criterion, information: Array) -> Array:
    """Return G, minus the gradient of a convex loss: what each direction of F is worth."""
    if criterion is a_optimal:
        inverse = np.linalg.inv(information)
        with np.errstate(over="ignore"):
            squared = np.asarray(inverse @ inverse)
        if not 0 < np.trace(squared) < np.inf:
            raise InvalidArgument("theta must be in another unit: its fourth power isn't a float")
        return squared
    if criterion is d_optimal:
        return np.asarray(np.linalg.inv(information))
    if isinstance(criterion, COptimal):
        tilted = np.linalg.solve(information, np.array(criterion.direction))
        return np.outer(tilted, tilted)
    if isinstance(criterion, Diagonal) and min(criterion.weights) >= 0:
        return np.diag(criterion.weights)
    raise InvalidArgument("criterion must be A- or D-optimality, COptimal, or Diagonal from 0 up")


def _root(gain: Array) -> Array:
    """Return d × 2 with G = root·rootᵀ."""
    values, vectors = np.linalg.eigh(gain)
    if (values[:-2] > 1e-12 * values[-1]).any():
        raise InvalidArgument("criterion must weigh at most two directions of theta")
    root = np.zeros((len(gain), 2))
    kept = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    root[:, : kept.shape[1]] = kept
    return root


@dataclass(frozen=True, slots=True)
class _Programme:
    """The linear programme's constants: chances of k cells, k × d slopes and e^ε."""

    chances: Array
    slopes: Array
    ratio: float

    def columns(self, high: Patterns) -> Array:
        """Return staircase columns, one a row, scaled so that their answers have chance 1."""
        raw = 1.0 + (self.ratio - 1.0) * high
        return np.asarray(raw / (raw @ self.chances)[:, None])

    def information(self, high: Patterns, weights: Array) -> Array:
        """Return F of the channel that has these columns, with these answers' chances."""
        told = self.columns(high) @ self.slopes
        return np.asarray((told.T * weights) @ told)

    def best(self, high: Patterns, values: Array) -> tuple[float, Array]:
        """Return the most value that weights of these columns give, and the weights."""
        found = optimize.linprog(
            -values / values.max(),
            A_eq=self.columns(high).T * self.chances[:, None],
            b_eq=self.chances,
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.x is None:
            raise InvalidArgument(_FAILED)
        return -float(found.fun) * float(values.max()), np.maximum(found.x, 0.0)


def _frank_wolfe(
    programme: _Programme,
    criterion: Criterion,
    cuts: Array,
    answers: int,
    response: Best,
    tolerance: float,
) -> BestChannel:
    cell = np.searchsorted(np.array(response.knots), np.append(cuts, np.inf), side="left")
    high = cell[None, :] == np.arange(answers)[:, None]
    raw = 1.0 + (programme.ratio - 1.0) * high
    pool, mixed = high, [(high, raw @ programme.chances / raw[:, 0].sum())]
    told = [programme.information(*mixed[0])]
    shares, bound, inner = np.ones(1), -math.inf, 0.05
    prices: Array | None = None
    while True:
        information = np.tensordot(shares, np.array(told), axes=1)
        loss, gain = criterion(information), _gain(criterion, information)
        worth = float(np.trace(gain @ information))
        root = _root(gain / worth)  # the channel so far has value 1
        most, pool, weights, prices = _maximise(
            programme, programme.slopes @ root, pool, prices, inner
        )
        bound = max(bound, loss - worth * (most - 1.0))
        if loss - bound <= tolerance * worth or len(mixed) == _VERTICES:
            break
        inner = max(tolerance / 4, min(inner, (most - 1.0) / 3))
        mixed.append((pool[weights > 0], weights[weights > 0]))
        told.append(programme.information(*mixed[-1]))
        shares = _shares(criterion, told, np.append(shares, 0.0), loss)
    kept = [(high, share * w) for (high, w), share in zip(mixed, shares, strict=True) if share > 0]
    columns = np.concatenate([programme.columns(high) * w[:, None] for high, w in kept])
    matrix = columns.T / columns.sum(axis=0)[:, None]  # rows sum to 1 but for rounding
    return BestChannel(loss, bound, information, Design.of(cuts, matrix))


def _shares(criterion: Criterion, told: list[Array], before: Array, loss: float) -> Array:
    """Return the shares of mixed channels with the least loss, or those before if none is less."""
    stack, unit = np.array(told), max(abs(loss), 1e-300)

    def scaled(shares: Array) -> float:
        return min(criterion(np.tensordot(shares, stack, axes=1)) / unit, 1e9)

    start = 0.9 * before + 0.1 / len(before)
    found = optimize.minimize(
        scaled,
        start,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(before),
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1.0},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    shares = np.where(found.x > 1e-9, found.x, 0.0)
    shares = shares / shares.sum()
    return shares if scaled(shares) < scaled(before) else before


def _maximise(
    programme: _Programme, v: Array, pool: Patterns, before: Array | None, tolerance: float
) -> tuple[float, Patterns, Array, Array]:
    """Return a bound on max tr(GF), a pool with weights that come close to it, and the prices.

    Column generation on the dual in a box around its best prices so far, which grows and shrinks
    like a trust region: at large ε the plain dual is far from unique, and its prices swing.
    """
    chances = programme.chances
    columns = programme.columns(pool)
    reached, weights = programme.best(pool, ((columns @ v) ** 2).sum(axis=1))
    # Start where every cell's price is what it earns from the columns in use, or where the last
    # programme ended, which was nearly this one.
    tilt = columns @ v
    earned = 2 * tilt @ v.T / chances - (tilt**2).sum(axis=1)[:, None]
    prices = np.einsum("yk,y,yk->k", columns, weights, earned)  # λ_i/π_i
    bound, fresh = _price(programme, v, prices)
    if before is not None:
        again, others = _price(programme, v, before)
        if again < bound:
            bound, prices, fresh = again, before, others
    size = float(np.abs(prices).max()) / 4
    for step in range(1, _STEPS + 1):
        if bound <= reached * (1 + tolerance):
            break
        pool = np.unique(np.concatenate([pool, fresh]), axis=0)
        trial, model = _master(programme, v, pool, prices, size)
        tried, fresh = _price(programme, v, trial)
        if tried < bound:
            size *= 2.0 if bound - tried > 0.5 * (bound - model) else 1.0
            bound, prices = tried, trial
        else:
            size /= 2
        if step % 5 == 0:
            reached, weights = programme.best(pool, ((programme.columns(pool) @ v) ** 2).sum(1))
    values = ((programme.columns(pool) @ v) ** 2).sum(axis=1)
    reached, weights = programme.best(pool, values)
    slack = programme.columns(pool) @ (prices * chances) - values
    kept = (weights > 0) | (slack <= np.sort(slack)[min(_POOL, len(slack)) - 1])
    return bound, pool[kept], weights[kept], prices


def _master(
    programme: _Programme, v: Array, pool: Patterns, centre: Array, size: float
) -> tuple[Array, float]:
    """Return the prices in a box that bound best by the pool's columns, and that bound."""
    columns, chances = programme.columns(pool), programme.chances
    found = optimize.linprog(
        np.append(chances, 1.0),
        A_ub=-np.column_stack([columns * chances, np.ones(len(pool))]),
        b_ub=-((columns @ v) ** 2).sum(axis=1),
        bounds=[*((c - size, c + size) for c in centre), (None, None)],
        method="highs",
    )
    if found.x is None:
        raise InvalidArgument(_FAILED)
    return np.asarray(found.x[:-1]), float(found.fun)


def _price(programme: _Programme, v: Array, prices: Array) -> tuple[float, Patterns]:
    """Return the bound that prices (λ_i/π_i) prove, and the patterns that break them most.

    Faces have the pattern with the largest |v(s)|²/π(s) − λ(s). The bound needs the least t that,
    added to every price, leaves none above 0: the root that Dinkelbach's iteration goes to.
    """
    high, over, chance = _broken(programme, v, prices)
    shift = 0.0
    for _ in range(_SHIFTS):
        if abs(over.max()) <= _SETTLED:
            break
        shift += float((over / chance).max())
        high, over, chance = _broken(programme, v, prices + shift)
    order = np.argsort(-over / chance)[: 8 * _NEW]  # a face is seen from each of its arcs
    first = np.sort(np.unique(high[order], axis=0, return_index=True)[1])[:_NEW]
    fresh = high[order[first]]
    # Columns here are 1 or e^ε, so π(s) is at least 1, and what is left over is paid for too.
    return float(prices @ programme.chances) + shift + max(float(over.max()), 0.0), fresh


def _broken(programme: _Programme, v: Array, prices: Array) -> tuple[Patterns, Array, Array]:
    """Return every face's pattern with |v(s)|²/π(s) − λ(s) and π(s)."""
    chances, costs = programme.chances, prices * programme.chances
    b = _faces(v / chances[:, None], prices)
    inside = 2 * b @ v.T - (b**2).sum(axis=1)[:, None] * chances - costs > 0
    high = np.concatenate([inside, np.zeros((1, len(chances)), dtype=bool)])
    parts = np.column_stack([v, chances, costs])
    sums = parts.sum(axis=0) + (programme.ratio - 1.0) * (high @ parts)
    return high, (sums[:, :2] ** 2).sum(axis=1) / sums[:, 2] - sums[:, 3], sums[:, 2]


def _faces(centres: Array, prices: Array) -> Array:
    """Return points on both sides of the middle of every arc of the circles c_i(b) = 0.

    Circle i has centre v_i/π_i and squared radius |v_i/π_i|² − λ_i/π_i; where that is not above 0
    it has no inside.
    """
    squares = (centres**2).sum(axis=1) - prices
    real = squares > 0
    centres, squares = centres[real], squares[real]
    radii = np.sqrt(squares)
    found = [np.zeros((0, 2))]
    for centre, square, radius in zip(centres, squares, radii, strict=True):
        apart = centres - centre
        distance = np.hypot(apart[:, 0], apart[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (distance**2 + square - squares) / (2 * distance * radius)
        crossing = np.abs(cosine) < 1  # False where NaN: the circle itself, or one around it
        towards = np.arctan2(apart[crossing, 1], apart[crossing, 0])
        half = np.arccos(cosine[crossing])
        ends = np.sort(np.concatenate([towards - half, towards + half]) % (2 * math.pi))
        if len(ends):
            angles = (ends + np.append(ends[1:], ends[0] + 2 * math.pi)) / 2
        else:
            angles = np.zeros(1)
        ring = radius * np.column_stack([np.cos(angles), np.sin(angles)])
        found += [centre + (1 - _BESIDE) * ring, centre + (1 + _BESIDE) * ring]
    return np.concatenate(found)
