"""Index sets for resampling, drawn without a look at the data.

Nothing here is private, and no B × m array is ever made. The sets are a function of a seed, so that
a compiled loop can draw them and use them at once (``kernels.py``): the same ones as are yielded
here one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from confidp.errors import InvalidArgument, choice, integer, real, shown

Indices = NDArray[np.int64]

MOST_RECORDS = 2**31  # draws have 32 bits


class Sampling(StrEnum):
    """How m of n indices are drawn."""

    WITH_REPLACEMENT = "with_replacement"
    WITHOUT_REPLACEMENT = "without_replacement"


class MultiplicityExceeded(Exception):
    """A resample has an index more often than κ⋆: Algorithm 1 returns ⊥. Says nothing private."""


@dataclass(frozen=True, slots=True)
class IndexSets:
    """B sets of m indices out of 0, …, n − 1: an iterable, the same each time.

    The order of indices in a set means nothing.

    Attributes
    ----------
    bound
        κ⋆ where Algorithm 1 is to return ⊥: then `check` raises `MultiplicityExceeded` for a larger
        multiplicity, and iteration at the first such set. None elsewhere.
    seed
        Below 2^64: what the sets are a function of.
    """

    n: int
    size: int
    n_resamples: int
    sampling: Sampling
    seed: int
    bound: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes for which the compiled loops aren't made."""
        if not 1 <= self.size <= self.n - (not self.replace):
            raise InvalidArgument(
                f"m must be from 1 to n, or n − 1 without replacement, not {shown(self.size)}"
            )

    @property
    def replace(self) -> bool:
        """Whether with replacement."""
        return self.sampling is Sampling.WITH_REPLACEMENT

    def check(self, largest: int) -> int:
        """Return a multiplicity that was drawn, or raise `MultiplicityExceeded`."""
        if self.bound is not None and largest > self.bound:
            raise MultiplicityExceeded
        return largest

    def __iter__(self) -> Iterator[Indices]:
        """Yield one set after the other."""
        from confidp.central import kernels

        n, m = self.n, self.size
        planes, share = (0, 0) if self.replace else kernels.near_share(n, m)
        bits = np.empty((n + 63) // 64, "<u8")  # so that bytes follow one another as bits do
        chunk = np.empty(kernels.CHUNK, np.uint32)
        for b in range(self.n_resamples):
            key = kernels.word(self.seed, b)
            if self.replace:
                indices = np.empty(m, np.int64)
                kernels.draw_indices(key, n, m, indices)
            else:
                kernels.draw_subset(key, n, m, planes, share, bits, chunk)
                indices = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
            if self.bound is not None:
                self.check(multiplicity(indices))
            yield indices


def ready(n: int) -> None:
    """Refuse more records than draws can tell apart, and load the compiled loops.

    A plan asks for this, so that whatever can fail in either does so before the charge.
    """
    if n > MOST_RECORDS:
        raise InvalidArgument(f"n must be at most 2^31 for resampling, not {shown(n)}")
    from confidp.central import kernels  # noqa: F401 - half a second, and once more to compile


def resamples(
    n: int,
    m: int,
    n_resamples: int,
    sampling: Sampling,
    rng: np.random.Generator,
    bound: int | None = None,
) -> IndexSets:
    """Draw `n_resamples` sets of m indices out of 0, …, n − 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> for indices in resamples(5, 3, 2, Sampling.WITHOUT_REPLACEMENT, rng):
    ...     print(indices.tolist())
    [1, 2, 4]
    [1, 3, 4]
    """
    ready(n)
    seed = int(rng.integers(0, 2**64, dtype=np.uint64))
    return IndexSets(n, m, n_resamples, sampling, seed, bound)


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


def check_settings(
    sampling: str, resample_size: int | None, rho: float | None
) -> tuple[Sampling, int | None]:
    """Return the sampling and m as a plain int, or raise if a setting is out of range for any n."""
    checked = Sampling(choice("sampling", sampling, tuple(Sampling)))
    if resample_size is not None:  # as it came, a NumPy integer would overflow
        resample_size = integer("resample_size", resample_size, least=1)
    if rho is not None:
        real("failure_probability", rho, "in (0, 1)", lambda x: 0 < x < 1)
    return checked, resample_size


@dataclass(frozen=True, slots=True)
class Resampling:
    """How B index sets are drawn for n records, all settings chosen; public.

    Attributes
    ----------
    size
        m, the indices in a set.
    failure_probability
        ρ: with at most this probability a set drawn with replacement exceeds `multiplicity`.
    multiplicity
        κ⋆, how often one index may appear in a set; 1 without replacement.
    """

    n: int
    size: int
    n_resamples: int
    sampling: Sampling
    failure_probability: float
    multiplicity: int

    @classmethod
    def choose(
        cls,
        n: int,
        n_resamples: int,
        sampling: Sampling,
        size: int | None = None,
        failure_probability: float | None = None,
    ) -> Resampling:
        """Choose what isn't given: m = ⌈n/ln n⌉ and ρ = 1/n, as in the paper's experiments.

        Its Table 2 recommends to start with m = n^0.7 to n^0.8: n/ln n lies there for n from 50
        to a million, and grows faster.

        Examples
        --------
        >>> Resampling.choose(2000, 500, Sampling.WITH_REPLACEMENT).multiplicity
        8
        """
        ready(n)
        most = n if sampling is Sampling.WITH_REPLACEMENT else n - 1
        m = size or min(math.ceil(n / math.log(n)), most)
        if m > most:
            raise InvalidArgument(
                f"resample_size must be at most {most} {sampling.replace('_', ' ')}, not {shown(m)}"
            )
        rho = failure_probability or 1 / n
        kappa = 1
        if sampling is Sampling.WITH_REPLACEMENT:
            kappa = multiplicity_bound(n, m, n_resamples, rho)
        return cls(n, m, n_resamples, sampling, rho, kappa)

    def sets(self, rng: np.random.Generator) -> IndexSets:
        """Draw the index sets of Algorithm 1 (MCS), which returns ⊥ where κ(S) > κ⋆.

        With replacement each κ(S) is looked at (`IndexSets.bound`).
        """
        bound = self.multiplicity if self.sampling is Sampling.WITH_REPLACEMENT else None
        return resamples(self.n, self.size, self.n_resamples, self.sampling, rng, bound)

    @property
    def public(self) -> dict[str, Any]:
        """The settings, JSON-ready."""
        with_replacement = self.sampling is Sampling.WITH_REPLACEMENT
        return {
            "n": self.n,
            "resample_size": self.size,
            "n_resamples": self.n_resamples,
            "sampling": str(self.sampling),
            "multiplicity_bound": self.multiplicity,
            "failure_probability": self.failure_probability if with_replacement else None,
        }
