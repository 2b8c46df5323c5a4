"""Gaussian noise and secret indices; `pure_dp` has Laplace noise. Noise is drawn nowhere else.

A float sampler leaks its input through the low bits of its output (Mironov, 2012). So a release
lives on a lattice ``2^k Z^d``: the value is rounded to it, and integer noise is added from OpenDP's
exact discrete Gaussian, fed by the operating system. Its scale is at least ``2^44`` lattice units,
so that the lattice costs nothing one could measure: ``docs/lattice_noise.md`` proves that the
release is (μ, d·δ₀)-GDP with

    δ₀ = 1.01·((μ + 11)² + 1)/(24 s²) + 2Φ(−10.99),   s = scale in lattice units ≥ 2^44, μ ≤ 2^30,

about 2e-26 for μ = 1, and every release is charged for it.

Roundings, all towards privacy: rounding the value to the lattice moves the difference between two
neighbours by at most √d units, which are added to the sensitivity (a relative 2^-44/μ); the scale
is rounded up to a float (2^-52).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, integer, real
from confidp.privacy.guarantees import GDP, float_up
from confidp.randomness import Randomness

LATTICE_BITS = 44  # the noise scale is at least 2^44 lattice units
LARGEST_MU = 2.0**30  # as far as the bound on δ₀ is proved
_TAIL = 4.3e-28  # over 2Φ(−10.99) = 4.26e-28


def lattice_delta(mu: float, dimension: int = 1) -> float:
    """Return d·δ₀, what the lattice adds to δ for a release of `dimension` numbers, rounded up.

    Examples
    --------
    >>> lattice_delta(1.0)
    2.0...e-26
    """
    one = 1.01 * ((mu + 11) ** 2 + 1) / 24 * 4.0**-LATTICE_BITS + _TAIL
    return math.nextafter(one * dimension, math.inf)


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Releases a d-vector of ℓ2-sensitivity `sensitivity` with μ-GDP, up to the lattice's δ.

    Calibrating looks at nothing private, so that the cost is known, and charged, before
    `release` draws any noise.

    Parameters
    ----------
    sensitivity
        ℓ2-sensitivity of the value **as computed**: float errors are the caller's to include.
    mu
        In (0, 2^30].
    dimension
        How many numbers are released.

    Examples
    --------
    >>> mechanism = GaussianMechanism(Fraction(1, 1000), mu=0.5)
    >>> mechanism.scale
    0.002000000000...
    >>> mechanism.cost
    GDP(mu=0.5, delta=1.8...e-26)
    >>> noisy, = mechanism.release([Fraction(1, 2)], Randomness.of(7))
    >>> float(noisy)
    0.50...
    """

    sensitivity: Fraction
    mu: float
    dimension: int = 1
    exponent: int = field(init=False)  # the lattice is 2^exponent times the integers
    lattice_scale: float = field(init=False)  # of the noise, in lattice units: at least 2^44

    def __post_init__(self) -> None:
        """Refuse what the proof doesn't cover."""
        real("mu", self.mu, f"in (0, {LARGEST_MU:g}]", lambda mu: 0 < mu <= LARGEST_MU)
        integer("dimension", self.dimension, least=1)
        if not self.sensitivity > 0:
            raise ValueError("sensitivity must be above 0")
        object.__setattr__(self, "exponent", lattice_exponent(self.sensitivity / Fraction(self.mu)))
        root = math.isqrt(self.dimension - 1) + 1  # √d, rounded up
        moved = self.sensitivity / self.unit + root
        object.__setattr__(self, "lattice_scale", float_up(moved / Fraction(self.mu)))
        if math.isinf(self.lattice_scale):
            raise InvalidArgument(f"mu must be larger, such as 1e-300, not {self.mu:g}")

    @property
    def unit(self) -> Fraction:
        """The lattice's step."""
        return Fraction(2) ** self.exponent

    @property
    def scale(self) -> float:
        """The standard deviation of the noise in each coordinate, in the value's own units."""
        return to_float(Fraction(self.lattice_scale) * self.unit)

    @property
    def cost(self) -> GDP:
        """What one release costs."""
        return GDP(self.mu, lattice_delta(self.mu, self.dimension))

    def release(self, value: Sequence[Fraction], randomness: Randomness) -> tuple[Fraction, ...]:
        """Return `value` plus noise. This spends `cost`: charge it first."""
        unit = self.unit
        return tuple(steps * unit for steps in self.release_steps(value, randomness))

    def release_steps(
        self, value: Sequence[Fraction | int], randomness: Randomness
    ) -> tuple[int, ...]:
        """Return the same as whole numbers of the lattice's `unit`. This spends `cost`, too."""
        if len(value) != self.dimension:
            raise ValueError("value must have as many entries as the mechanism has dimensions")
        unit, exponent = self.unit, self.exponent
        noise = _noise(self.lattice_scale, self.dimension, randomness)
        # Python integers: a value can lie further than 2^63 units from 0.
        nearest = [
            x << -exponent if isinstance(x, int) and exponent <= 0 else round(x / unit)
            for x in value
        ]
        return tuple(x + z for x, z in zip(nearest, noise, strict=True))


def secret_indices(n: int, m: int, replace: bool, randomness: Randomness) -> NDArray[np.int64]:
    """Return m of the indices 0, …, n − 1, as unpredictable as noise in a private run.

    For guarantees that rest on nobody knowing them: amplification by subsampling.
    """
    if randomness.noise is not None:
        return randomness.indices.choice(n, size=m, replace=replace)
    system = secrets.SystemRandom()
    drawn = [system.randrange(n) for _ in range(m)] if replace else system.sample(range(n), m)
    return np.array(drawn, dtype=np.int64)


def to_float(value: Fraction) -> float:
    """Return the nearest float, or an infinity beyond the largest: harmless after the noise."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _noise(lattice_scale: float, dimension: int, randomness: Randomness) -> list[int]:
    if randomness.noise is None:
        return list(_exact_sampler(lattice_scale)([0] * dimension))
    normal = randomness.noise.normal(0.0, lattice_scale, size=dimension)
    return [round(z) for z in normal.tolist()]


@lru_cache(maxsize=128)  # holds public scales only; building one costs more than a draw
def _exact_sampler(lattice_scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's exact discrete Gaussian; 2^46 times 40 is far inside 64 bits."""
    import opendp.prelude as dp  # half a second to import: only where noise is drawn

    domain, metric = _space()
    sampler: Callable[[list[int]], list[int]] = dp.m.make_gaussian(
        domain, metric, scale=lattice_scale
    )
    return sampler


@cache
def _space() -> tuple[Any, Any]:
    """Return OpenDP's space of integer vectors: two thirds of the time of building a sampler."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")


def lattice_exponent(scale: Fraction) -> int:
    """Return k such that `scale` is 2^44 to 2^46 lattice steps of 2^k."""
    power = scale.numerator.bit_length() - scale.denominator.bit_length() - 1
    return power - LATTICE_BITS
