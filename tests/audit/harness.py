"""Bound the real privacy loss from below, by attacking a mechanism's output.

Run a mechanism many times on two neighbours. The first half of the runs teaches a linear test and
its thresholds; the second half measures its false-positive and false-negative rates. With exact
binomial upper bounds on both, at a simultaneous level over all thresholds, any μ-GDP mechanism has
μ ≥ Φ⁻¹(1 − α) − Φ⁻¹(β) at every threshold: the largest is a lower bound on its μ, which a sound
mechanism exceeds with probability at most the stated false-alarm rate.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_ALARM = 1e-6
THRESHOLDS = 40


def mu_lower_bound(
    run: Callable[[], NDArray[np.float64]],
    run_neighbour: Callable[[], NDArray[np.float64]],
    n_runs: int,
) -> float:
    """Return a lower bound on the mechanism's μ, false with probability at most FALSE_ALARM.

    Parameters
    ----------
    run, run_neighbour
        Return one release, as a vector, on each of two neighbours.
    n_runs
        How often to run each; half teach the test, half measure it.
    """
    outputs = np.array([run() for _ in range(n_runs)])
    others = np.array([run_neighbour() for _ in range(n_runs)])
    half = n_runs // 2
    direction = _best_direction(outputs[:half], others[:half])
    learnt = np.concatenate([outputs[:half], others[:half]]) @ direction
    thresholds = np.quantile(learnt, np.linspace(0.01, 0.99, THRESHOLDS))
    scores, other_scores = outputs[half:] @ direction, others[half:] @ direction

    measured = n_runs - half
    level = 1 - FALSE_ALARM / (2 * THRESHOLDS)  # two rates at each threshold
    false_positives = (scores[:, None] > thresholds).sum(axis=0)
    false_negatives = (other_scores[:, None] <= thresholds).sum(axis=0)
    alpha, beta = (
        np.where(k < measured, stats.beta.ppf(level, k + 1, np.maximum(measured - k, 1)), 1.0)
        for k in (false_positives, false_negatives)
    )
    return float(np.max(stats.norm.isf(alpha) - stats.norm.ppf(beta)))


def _best_direction(
    outputs: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fisher's linear discriminant: for Gaussian noise, the likelihood-ratio test."""
    within = np.cov(outputs, rowvar=False) + np.cov(others, rowvar=False)
    shift = others.mean(axis=0) - outputs.mean(axis=0)
    return np.linalg.solve(np.atleast_2d(within), np.atleast_1d(shift))
