"""The likelihood of pooled counts, exact for every family with a CDF, at many θ at once.

A report's probability is a finite sum over cells: p(y) = Σ_j P(cell j) Q[j, y]. Counts of the
same query are sufficient, so its cost depends on the number of distinct queries and cut points,
not of reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from confidp.local.design import Design, Weights
from confidp.local.population import Population

Array = NDArray[np.float64]
Counts = Mapping[Design, tuple[int, ...]]

_BLOCK = 1 << 15  # numbers in flight: a quarter of a megabyte, which stays in a core's cache
_LEAST = 4  # particles at once
_STEEP = 1e-6
_FULL = 1 / 4  # share of answers seen from which all are computed, as one product of matrices


def log_likelihood(population: Population, theta: Array, counts: Counts) -> Array:
    """Return Σ counts·log p(answer | query, θ) for each θ: a vector of N, −∞ but never NaN.

    The CDF is computed once for each distinct cut point.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> sign = Design.of([0.0], [[3, 1], [1, 3]])
    >>> log_likelihood(Normal(), np.array([[0.0, 1.0], [99.0, 1.0]]), {sign: (1, 2)}).round(4)
    array([-2.0794, -1.9617])
    """
    return Likelihood(population, counts)(theta)


class Likelihood:
    """Pooled counts, arranged for many evaluations.

    Summed by parts, p(y) = Q[k, y] + Σ_c P(X ≤ c)·(Q[c, y] − Q[c + 1, y]): linear in the CDF at
    the distinct cut points. Its rounding is 1e-16 of the largest Q[·, y], so where another is
    1e-6 of that or less, as no channel with ε below 13 has it, cells are taken from the nearer
    tail instead.

    Queries with one matrix are taken together. Where most of their answers have counts, all
    their probabilities are one product of matrices; where few have, one sparse row each.
    """

    def __init__(self, population: Population, counts: Counts) -> None:
        self._population = population
        self._steep: list[tuple[Array, Array, Array]] = []
        self._dense: list[_Dense] = []
        self._sparse = None
        if len(counts) == 1 and self._arranged(*next(iter(counts.items()))):
            return
        groups: dict[Weights, list[tuple[tuple[float, ...], Array]]] = {}
        for design, totals in counts.items():
            seen = np.array(totals, dtype=np.float64)
            parts = _parts(design.weights)
            if parts.steep[seen > 0].any():
                some = seen > 0
                self._steep.append((np.array(design.cuts), parts.matrix[:, some], seen[some]))
            else:
                groups.setdefault(design.weights, []).append((design.cuts, seen))
        cuts = [np.array(cuts) for members in groups.values() for cuts, _ in members]
        self._points = cuts[0] if len(cuts) == 1 else np.unique(np.concatenate([*cuts, []]))
        rows: list[_Dense] = []
        for weights, members in groups.items():
            group = _group(_parts(weights), members, self._points)
            full = (group.seen > 0).sum() >= _FULL * group.seen.size
            (self._dense if full else rows).append(group)
        self._sparse = _sparse(rows, len(self._points))
        widest = max([len(self._points), *(group.seen.size for group in self._dense)])
        self._block = max(_LEAST, _BLOCK // max(1, widest))

    def _arranged(self, design: Design, totals: tuple[int, ...]) -> bool:
        """Arrange one query, as nearly all new reports are to; or say that it is steep."""
        parts, seen = _parts(design.weights), np.array(totals, dtype=np.float64)
        answers = np.flatnonzero(seen)
        if parts.steep[answers].any():
            return False
        slopes, last = parts.slopes[:, answers], parts.matrix[-1, answers]
        self._points = np.array(design.cuts)
        self._dense.append(_Dense(None, slopes, last, seen[answers]))
        self._block = max(_LEAST, _BLOCK // max(1, len(self._points)))
        return True

    def __call__(self, theta: Array) -> Array:
        """Return the log-likelihood at each row of θ."""
        sums = np.zeros(len(theta))
        with np.errstate(divide="ignore", invalid="ignore"):
            for start in range(0, len(theta), self._block):
                part = slice(start, start + self._block)
                sums[part] = self._linear(theta[part])
            for cuts, matrix, seen in self._steep:
                sums += np.log(self._population.cells(theta, cuts) @ matrix) @ seen
        return np.where(np.isnan(sums), -np.inf, sums)

    def _linear(self, theta: Array) -> Array:
        sums = np.zeros(len(theta))
        if not len(self._points):
            return sums
        below = self._population.cdf(theta, self._points)
        for group in self._dense:
            at = below
            if group.places is not None:
                at = np.take(below, group.places, axis=1).reshape(-1, len(group.slopes))
            chances = at @ group.slopes
            chances += group.last
            logs = np.log(chances, out=chances)
            sums += logs.reshape(len(theta), -1) @ group.seen.reshape(-1)
        if self._sparse is not None:
            slopes, last, seen = self._sparse
            chances = slopes @ np.ascontiguousarray(below.T)
            chances += last
            sums += seen @ np.log(chances, out=chances)
        return sums


@dataclass(frozen=True, slots=True)
class _Parts:
    """A matrix of probabilities, cells × answers, and which of its answers are steep."""

    matrix: Array
    slopes: Array  # by how much each cell's row exceeds the next one's
    steep: NDArray[np.bool_]


@lru_cache(maxsize=64)
def _parts(weights: Weights) -> _Parts:
    matrix = np.array(weights)
    matrix /= matrix.sum(axis=1, keepdims=True)
    steep = matrix.min(axis=0) <= _STEEP * matrix.max(axis=0)
    return _Parts(matrix, -np.diff(matrix, axis=0), steep)


@dataclass(frozen=True, slots=True)
class _Dense:
    """D queries with one matrix: k cut points and m answers that any of them has seen."""

    # D × k: where each one's cut points are among the distinct ones; None: one query's, in order
    places: NDArray[np.intp] | None
    slopes: Array  # k × m
    last: Array  # m
    seen: Array  # D × m


def _group(parts: _Parts, members: list[tuple[tuple[float, ...], Array]], points: Array) -> _Dense:
    seen = np.stack([totals for _, totals in members])
    # An answer that isn't steep has a chance above 0 everywhere, so 0 counts of it add 0.
    columns = (seen > 0).any(axis=0)
    places = np.searchsorted(points, np.array([cuts for cuts, _ in members]))
    return _Dense(places, parts.slopes[:, columns], parts.matrix[-1, columns], seen[:, columns])


def _sparse(groups: list[_Dense], points: int) -> tuple[Any, Array, Array] | None:
    """Return one row for each answer that was seen: slopes, last chances and counts."""
    if not groups:
        return None
    values, columns, sizes, last, seen = [], [], [], [], []
    for group in groups:
        query, answer = np.nonzero(group.seen)
        values.append(group.slopes.T[answer].reshape(-1))
        assert group.places is not None
        columns.append(group.places[query].reshape(-1))
        sizes.append(np.full(len(query), len(group.slopes)))
        last.append(group.last[answer])
        seen.append(group.seen[query, answer])
    ends = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    content = np.concatenate(values), np.concatenate(columns), ends
    slopes = sparse.csr_array(content, shape=(len(ends) - 1, points))
    return slopes, np.concatenate(last)[:, None], np.concatenate(seen)
