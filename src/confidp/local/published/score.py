"""The score and the Fisher information of a report by Monte Carlo (Algorithm 4, equation 8).

By Fisher's identity ∇ log p_θ(y) = E[∇ log p_θ(X) | y]: draw values from P_θ, weight each by the
report's density given it, and average their own scores. The information is the mean of ∇∇ᵀ over
simulated reports. Self-normalised weights bias a score by O(1/samples), and its Monte Carlo error
adds its variance to the information; `TruncatedLaplaceDensity` has both exactly for a normal.
"""

from __future__ import annotations

import numpy as np

from confidp.errors import integer
from confidp.local.published.model import Array, LatentModel, Reports

_BLOCK = 1 << 16  # numbers in flight


def score(
    model: LatentModel,
    theta: Array,
    reports: Reports,
    n_samples: int,
    rng: np.random.Generator,
) -> Array:
    """Return ∇ log p_θ(y) for each of t reports: t rows of (location, scale).

    Examples
    --------
    >>> from confidp.local.published.model import normal
    >>> reports = Reports.of([-3.0, 3.0], low=-2, high=2, epsilon=4.0)
    >>> score(normal(), np.array([0.0, 1.0]), reports, 20_000, np.random.default_rng(1)).round(1)
    array([[-0.9,  0.6],
           [ 0.9,  0.6]])
    """
    samples = integer("n_samples", n_samples, least=1)
    t, rows = len(reports), max(1, _BLOCK // samples)
    found = np.empty((t, 2))
    for start in range(0, t, rows):
        part = reports[slice(start, start + rows)]
        z = model.draw(rng, (samples, len(part)))
        x = theta[0] + theta[1] * z
        misfit = part.misfit(x)
        weights = np.exp(misfit.min(axis=0) - misfit)
        by_location, by_scale = model.gradient(theta, x)
        total = weights.sum(axis=0)
        found[start : start + rows, 0] = (weights * by_location).sum(axis=0) / total
        found[start : start + rows, 1] = (weights * by_scale).sum(axis=0) / total
    return found


def fisher_information(
    model: LatentModel,
    theta: Array,
    low: float,
    high: float,
    epsilon: float,
    rng: np.random.Generator,
    *,
    n_reports: int = 1000,
    n_samples: int = 10_000,
) -> Array:
    """Return one report's information on θ, 2 × 2, estimated as in the paper's experiments.

    Examples
    --------
    >>> from confidp.local.published.model import normal
    >>> found = fisher_information(
    ...     normal(), np.array([0.0, 1.0]), -1, 1, 5.0, np.random.default_rng(1), n_samples=500
    ... )
    >>> found.shape, bool(0.5 < found[0, 0] < 0.8)
    ((2, 2), True)
    """
    reports = simulate(model, theta, low, high, epsilon, n_reports, rng)
    scores = score(model, theta, reports, n_samples, rng)
    return np.asarray(scores.T @ scores / len(reports))


def simulate(
    model: LatentModel,
    theta: Array,
    low: float,
    high: float,
    epsilon: float,
    n_reports: int,
    rng: np.random.Generator,
) -> Reports:
    """Return reports of simulated people. Not private: floating-point noise from a seed."""
    count = integer("n_reports", n_reports, least=1)
    nothing = Reports.of(np.zeros(count), low, high, epsilon)
    x = theta[0] + theta[1] * model.draw(rng, (count,))
    noise = nothing.scale * rng.laplace(size=count)
    return Reports.of(np.clip(x, low, high) + noise, low, high, epsilon)
