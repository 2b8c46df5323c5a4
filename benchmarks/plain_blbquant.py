"""BLBQuant as one would write it down in NumPy: floats for noise, and all radii tried at once.

Chadha, Duchi and Kuditipudi (2024), arXiv 2402.07131; `confidp.BLBQuant` has the algorithm in
words. **Not private**: its noise is ordinary floats'. It is here to be timed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def noisy_means(values: Floats, counts: Counts, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return a private mean of each resample of numbers in [−1, 1], given as counts."""
    n = counts[0].sum()
    means: Floats = counts @ values / n + rng.laplace(0, 2 / (n * epsilon), len(counts))
    return means


def noisy_medians(
    values: Floats, counts: Counts, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Return a private median of each, by the exponential mechanism on gaps between −1 and 1."""
    order = np.argsort(values)
    below = np.concatenate(
        [np.zeros((len(counts), 1)), np.cumsum(counts[:, order], axis=1)], axis=1
    )
    edges = np.concatenate([[-1.0], values[order], [1.0]])
    n = counts[0].sum()
    scores = np.log(np.diff(edges)) - epsilon / 2 * np.abs(below - n / 2)
    gap = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    medians: Floats = rng.uniform(edges[gap], edges[gap + 1])
    return medians


def plain_blbquant(
    data: Floats,
    median: bool,
    epsilon: float,
    level: float,
    resamples: int,
    step: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return center and radius, with `epsilon` for each; the radius is infinite if none is enough.

    Of the data in [−1, 1], s blocks get so many resamples of size n each; radii are multiples of
    `step` up to the range, 2.
    """
    n = len(data)
    estimate, value = (noisy_medians, np.median) if median else (noisy_means, np.mean)
    blocks = math.ceil(10 * math.log(n) / epsilon)
    size = n // blocks
    radii = step * np.arange(1, math.ceil(2 / step) + 1)
    within = np.zeros(len(radii), dtype=int)  # blocks in which a radius covers often enough
    for block in rng.permutation(data)[: blocks * size].reshape(blocks, size):
        counts = rng.multinomial(n, np.full(size, 1 / size), size=resamples)
        strays = np.sort(np.abs(estimate(block, counts, epsilon, rng) - value(block)))
        within += np.searchsorted(strays, radii, side="right") > level * resamples
    threshold = blocks / 2 + rng.laplace(0, 2 / epsilon)
    enough = within + rng.laplace(0, 4 / epsilon, len(radii)) >= threshold
    radius = float(radii[np.argmax(enough)]) if enough.any() else math.inf
    return float(estimate(data, np.ones((1, n), dtype=np.int64), epsilon, rng)[0]), radius
