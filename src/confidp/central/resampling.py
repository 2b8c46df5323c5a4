"""Index sets for resampling, one at a time: drawn without a look at the data.

Nothing here is private, and no B × m array is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

Indices = NDArray[np.int64]


class Sampling(StrEnum):
    """How m of n indices are drawn."""

    WITH_REPLACEMENT = "with_replacement"
    WITHOUT_REPLACEMENT = "without_replacement"


def resamples(
    n: int, m: int, n_resamples: int, sampling: Sampling, rng: np.random.Generator
) -> Iterator[Indices]:
    """Yield `n_resamples` sets of m indices out of 0, …, n − 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> for indices in resamples(5, 3, 2, Sampling.WITHOUT_REPLACEMENT, rng):
    ...     print(sorted(indices.tolist()))
    [2, 3, 4]
    [0, 1, 4]
    """
    for _ in range(n_resamples):
        if sampling is Sampling.WITH_REPLACEMENT:
            yield rng.integers(0, n, size=m)
        else:
            yield rng.choice(n, size=m, replace=False, shuffle=False)


def multiplicity(indices: Indices) -> int:
    """Return κ(S): how often the most frequent index appears.

    Examples
    --------
    >>> multiplicity(np.array([4, 1, 4]))
    2
    """
    return int(np.bincount(indices).max())


def multiplicity_bound(n: int, m: int, n_resamples: int, failure_probability: float) -> int:
    """Return κ⋆, which all of B resamples with replacement stay within but for probability ρ.

    κ⋆ = min{m, ⌈A / W₀(nA/(me))⌉} with A = ln(Bn/ρ) (the paper, equation 4, proposition 4.1): a
    multiplicity is Binomial(m, 1/n), a Chernoff bound gives P(≥ k) ≤ exp(−k ln(kn/(em))), and κ⋆
    solves k ln(kn/(em)) = A, over Bn pairs of a resample and an index.

    Examples
    --------
    >>> multiplicity_bound(n=2000, m=264, n_resamples=500, failure_probability=1 / 2000)
    8
    """
    log_pairs = math.log(n_resamples) + math.log(n) - math.log(failure_probability)
    argument = n * log_pairs / (m * math.e)
    return min(m, math.ceil(log_pairs / float(lambertw(argument).real)))


class MultiplicityExceeded(Exception):
    """A resample has an index more often than κ⋆: Algorithm 1 returns ⊥. Says nothing private."""


def multiplicity_constrained(sets: Iterator[Indices], bound: int) -> Iterator[Indices]:
    """Algorithm 1 (MCS), one set at a time: yield `sets`, and raise at the first κ(S) > `bound`."""
    for indices in sets:
        if multiplicity(indices) > bound:
            raise MultiplicityExceeded
        yield indices
