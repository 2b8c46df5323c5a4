"""Where randomness comes from: the operating system, or a seed that gives up privacy."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import TypeAlias

import numpy as np

from confidp.errors import InvalidArgument, InvalidType

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None


@dataclass(frozen=True, slots=True)
class Randomness:
    """Two independent streams: one for resampling indices, one for noise.

    Indices don't depend on the data, and our own guarantees hold for each fixed set of them, so
    that NumPy's generator is good enough for them. (Methods whose proof needs hidden indices draw
    them like noise: `noise.secret_indices`.) Noise must be unpredictable: `noise` is None
    where it comes from the operating system, and a NumPy generator in a reproducible run, whose
    output anyone who knows the seed can strip of its noise.

    Examples
    --------
    >>> Randomness.of(None).private
    True
    >>> Randomness.of(7).private
    False
    """

    indices: np.random.Generator = field(repr=False)
    noise: np.random.Generator | None = field(repr=False)

    @classmethod
    def of(cls, rng: Seed) -> Randomness:
        """Return the streams for an `rng` argument: None for private runs, else a seed.

        A generator is spawned from, so that two calls with the same one never share noise.
        """
        if rng is None:
            return cls(np.random.default_rng(), None)
        if isinstance(rng, bool) or not isinstance(
            rng, Integral | np.random.SeedSequence | np.random.Generator
        ):
            raise InvalidType(
                f"rng must be None, a whole number, a SeedSequence or a numpy Generator, "
                f"not {type(rng).__name__}"
            )
        if isinstance(rng, Integral) and rng < 0:
            raise InvalidArgument("rng must be a seed of at least 0")
        try:
            indices, noise = np.random.default_rng(rng).spawn(2)
        except TypeError:  # a generator without a seed sequence
            raise InvalidArgument("rng must be a numpy Generator that can spawn") from None
        return cls(indices, noise)

    @property
    def private(self) -> bool:
        """Whether the noise is unpredictable, without which nothing is private."""
        return self.noise is None
