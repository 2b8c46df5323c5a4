"""The best truncation interval, by search over a grid (equations 12 and 13).

For a family of location and scale the interval [μ + σa, μ + σb] has at (μ, σ) the information that
[a, b] has at (0, 1), up to factors of σ that are the same for all (a, b). So (a, b) is found once,
as the one whose information at (0, 1) has the best score. `continuous.best_interval` finds it
exactly for a normal, in a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from confidp.errors import InvalidArgument
from confidp.local.design import Criterion
from confidp.local.published.model import Array

Information = Callable[[float, float], Array]  # of a report truncated to [a, b], at (0, 1)


@dataclass(frozen=True, slots=True)
class Search:
    """The best interval, its loss, and all that was tried.

    Attributes
    ----------
    a, b
        The interval.
    loss
        The criterion there: less is better, so the paper's score is −loss.
    intervals
        k × 2 intervals.
    losses
        Their k losses.
    """

    a: float
    b: float
    loss: float
    intervals: Array = field(repr=False)
    losses: Array = field(repr=False)


def search(information: Information, criterion: Criterion, intervals: ArrayLike) -> Search:
    """Return the interval whose information has the least loss.

    Parameters
    ----------
    information
        From (a, b) to the information at (0, 1): `score.fisher_information` as published, the same
        seed in every call so that intervals share their random numbers, or an exact one.
    criterion
        Such as `Diagonal((1.0, 0.0))`, the paper's F₁₁, `Diagonal((1.0, 1.0))`, its trace, or
        `a_optimal`. F₁₁ alone loses sight of σ.
    intervals
        k × 2: `symmetric_grid` or `full_grid`.

    Examples
    --------
    >>> from confidp.local.continuous import TruncatedLaplaceDensity
    >>> from confidp.local.design import Diagonal
    >>> def exact(a, b):
    ...     return TruncatedLaplaceDensity(a, b, 5.0).fisher_information(0.0, 1.0)
    >>> search(exact, Diagonal((1.0, 0.0)), symmetric_grid(51))
    Search(a=-0.72, b=0.72, loss=-0.6...)
    """
    tried = np.asarray(intervals, dtype=np.float64)
    if tried.ndim != 2 or tried.shape[1] != 2 or not len(tried):
        raise InvalidArgument("intervals must be rows of (a, b)")
    losses = np.array([criterion(information(float(a), float(b))) for a, b in tried])
    best = int(np.argmin(losses))
    a, b = (float(end) for end in tried[best])
    return Search(a, b, float(losses[best]), tried, losses)


def symmetric_grid(points: int = 51, extent: float = 3.0) -> Array:
    """Return the intervals [−b, b] for b on a grid up to `extent`, the empty one left out.

    Examples
    --------
    >>> symmetric_grid(3)
    array([[-1.5,  1.5],
           [-3. ,  3. ]])
    """
    ends = np.linspace(0, extent, points)[1:]
    return np.stack([-ends, ends], axis=1)


def full_grid(points: int = 50, extent: float = 3.0) -> Array:
    """Return every [a, b] with a < b on a grid of [−extent, extent], as the paper describes.

    Examples
    --------
    >>> full_grid(3)
    array([[-3.,  0.],
           [-3.,  3.],
           [ 0.,  3.]])
    """
    ends = np.linspace(-extent, extent, points)
    first, second = np.triu_indices(points, k=1)
    return np.stack([ends[first], ends[second]], axis=1)
