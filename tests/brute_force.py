"""Every data set of a small grid: what a smooth sensitivity must bound, by definition."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

DataSet = tuple[int, ...]  # sorted: the statistics here don't depend on the order


def data_sets(points: int, n: int) -> list[DataSet]:
    """Return all multisets of n grid points 0, …, points − 1."""
    return list(itertools.combinations_with_replacement(range(points), n))


def neighbours(data: DataSet, points: int) -> Iterator[DataSet]:
    """Yield all data sets that differ from `data` in one record."""
    for position in range(len(data)):
        for value in range(points):
            yield tuple(sorted((*data[:position], value, *data[position + 1 :])))


def local_sensitivities(
    value: Callable[[NDArray[np.int64]], float], points: int, n: int
) -> dict[DataSet, float]:
    """Return the local sensitivity of every data set."""
    values = {data: value(np.array(data)) for data in data_sets(points, n)}
    return {
        data: max(abs(values[data] - values[other]) for other in neighbours(data, points))
        for data in values
    }


def smallest_smooth_bound(local: dict[DataSet, float], beta: float) -> dict[DataSet, float]:
    """Return max over D′ of e^{−β d(D, D′)} LS(D′), the definition, for every D."""

    def distance(data: DataSet, other: DataSet) -> int:
        shared = sum(min(data.count(x), other.count(x)) for x in set(data))
        return len(data) - shared

    return {
        data: max(math.exp(-beta * distance(data, other)) * ls for other, ls in local.items())
        for data in local
    }


def violations(
    bound: Callable[[NDArray[np.int64]], float],
    local: dict[DataSet, float],
    beta: float,
    points: int,
) -> tuple[int, int]:
    """Return how often `bound` is under the local sensitivity, and how often it isn't β-smooth."""
    bounds = {data: bound(np.array(data)) for data in local}
    slack = 1 + 1e-9
    under = sum(bounds[data] * slack < ls for data, ls in local.items())
    rough = sum(
        bounds[data] > math.exp(beta) * bounds[other] * slack
        for data in local
        for other in neighbours(data, points)
    )
    return under, rough
