"""Bound the real privacy loss from below, by attacking a mechanism's output.

Run a mechanism many times on two neighbours. The first half of the runs teaches a linear test and
its thresholds; the second half measures its false-positive and false-negative rates. With exact
binomial upper bounds on both, at a simultaneous level over all thresholds, any μ-GDP mechanism has
μ ≥ Φ⁻¹(1 − α) − Φ⁻¹(β) at every threshold: the largest is a lower bound on its μ, which a sound
mechanism exceeds with probability at most the stated false-alarm rate.

Where the likelihood ratio is known, `score_lower_bound` takes it as the test, and a tenth of the
runs is enough to choose thresholds. For pure ε-DP, `epsilon_lower_bound` compares how often one
event happens.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

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
    return _bound(outputs @ direction, others @ direction, half)


def score_lower_bound(
    run: Callable[[], float], run_neighbour: Callable[[], float], n_runs: int
) -> float:
    """Return the same where each run returns a score, which is larger for the neighbour."""
    scores = np.array([run() for _ in range(n_runs)])
    other_scores = np.array([run_neighbour() for _ in range(n_runs)])
    return _bound(scores, other_scores, n_runs // 10)


def log_ratio(released: ArrayLike, first: ArrayLike, second: ArrayLike, scale: float) -> float:
    """Return ln of N(second, scale²)'s density over N(first, scale²)'s at what was released."""
    x, a, b = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (released, first, second))
    return float((b - a) @ (x - (a + b) / 2)) / scale**2


def epsilon_lower_bound(hits: int, other_hits: int, runs: int) -> float:
    """Return a lower bound on ε from how often an event happened on each of two neighbours.

    Exact binomial bounds on two chances, for either order of the two: a quarter of FALSE_ALARM.
    """
    more, fewer = max(hits, other_hits), min(hits, other_hits)
    if not more:
        return 0.0
    low = stats.beta.ppf(FALSE_ALARM / 4, more, runs - more + 1)
    high = stats.beta.isf(FALSE_ALARM / 4, fewer + 1, runs - fewer) if fewer < runs else 1.0
    return max(math.log(low / high), 0.0)


class Overheard:
    """A mechanism that notes what it releases, for an attacker to whom the claim grants it."""

    def __init__(self, mechanism: GaussianMechanism, log: list[list[float]]) -> None:
        self.mechanism, self.log = mechanism, log

    def __getattr__(self, name: str) -> object:
        return getattr(self.mechanism, name)

    def release(self, value: Sequence[Fraction], randomness: Randomness) -> tuple[Fraction, ...]:
        released = self.mechanism.release(value, randomness)
        self.log.append([float(x) for x in released])
        return released


def _bound(scores: NDArray[np.float64], other_scores: NDArray[np.float64], taught: int) -> float:
    """Choose thresholds by the first `taught` runs, and measure by the others."""
    learnt = np.concatenate([scores[:taught], other_scores[:taught]])
    thresholds = np.quantile(learnt, np.linspace(0.01, 0.99, THRESHOLDS))
    measured = len(scores) - taught
    level = 1 - FALSE_ALARM / (2 * THRESHOLDS)  # two rates at each threshold
    false_positives = (scores[taught:, None] > thresholds).sum(axis=0)
    false_negatives = (other_scores[taught:, None] <= thresholds).sum(axis=0)
    alpha, beta = (
        np.where(k < measured, stats.beta.ppf(level, k + 1, np.maximum(measured - k, 1)), 1.0)
        for k in (false_positives, false_negatives)
    )
    return max(float(np.max(stats.norm.isf(alpha) - stats.norm.ppf(beta))), 0.0)


def _best_direction(
    outputs: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fisher's linear discriminant: for Gaussian noise, the likelihood-ratio test."""
    within = np.cov(outputs, rowvar=False) + np.cov(others, rowvar=False)
    shift = others.mean(axis=0) - outputs.mean(axis=0)
    return np.linalg.solve(np.atleast_2d(within), np.atleast_1d(shift))
