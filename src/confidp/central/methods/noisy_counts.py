"""Counts of records below one or several points, with Gaussian noise.

Counts together cost less than one by one, because no record can move two of them apart: one that
changes its value takes every count between the old and the new one up, or every one down.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from confidp.privacy.guarantees import GDP, sqrt_up
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """Releases C(x) = #{X < x} at k points in rising order with μ-GDP, up to the lattice's δ.

    Parameters
    ----------
    mu
        In (0, 2^30].
    together
        k, at least 1. The noise on each count has the variance (k + 2)/(3μ²): 1/μ² for one, 4/3 of
        that for two, 8/3 for six. One by one, and for the same μ, it would be k/μ².

    Notes
    -----
    **Privacy.** Where a record moves from a to b, C(x) changes for the x between them only, and all
    of these by 1 in the same direction. So c = (C(x_1), …, C(x_k)) changes by a or −a, where a is 1
    on a run of neighbours and 0 elsewhere. Released is h = Mc, whole numbers: the first count, the
    last, every count, and every difference c_i − c_{i+1} twice. A run of length l in which e ends
    are neither the first nor the last point changes it by ‖Ma‖² = (2 − e) + l + 2e = l + 2 + e, and
    l ≤ k − e: by k + 2 at most. So the Gaussian mechanism for the ℓ2-sensitivity √(k + 2) makes h
    μ-GDP. (For k of 1 and 2 everything in h is there three times or twice: one of each then has a
    third or a half of the squared sensitivity and noise.) The points may depend on anything already
    released. ∎

    **The noise.** Least squares take h to ĉ = (MᵀM)⁻¹Mᵀh, c plus noise of covariance
    (MᵀM)⁻¹(k + 2)/μ². MᵀM is tridiagonal, −2 beside a diagonal of 5, which is 4 at both ends: that
    is 3Σ⁻¹ for Σ_ij = 2^−|i−j|, whence the variance, with correlations of 2^−|i−j|. For one count
    and two nothing has less, as the changes (1), and (1, 0) and (1, 1), show. For four, six and ten
    a numerical search found 1.93, 2.36 and 2.99 for 2, 2.67 and 4.

    Examples
    --------
    >>> NoisyCounts(0.5, together=2).noise
    2.309...
    """

    mu: float
    together: int = 1
    mechanism: GaussianMechanism = field(init=False)
    noise: float = field(init=False)  # standard deviation of the noise on each count

    def __post_init__(self) -> None:
        """Choose the noise."""
        rows, copies = _released(self.together)
        sensitivity = sqrt_up(Fraction(self.together + 2, copies))
        mechanism = GaussianMechanism(Fraction(sensitivity), self.mu, len(rows))
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "noise", mechanism.scale * math.sqrt(copies / 3))

    @property
    def cost(self) -> GDP:
        """What one release costs."""
        return self.mechanism.cost

    def release(self, counts: Sequence[int], randomness: Randomness) -> tuple[Fraction, ...]:
        """Return counts at **rising** points, noisy. This spends `cost`: charge it first."""
        rows, _ = _released(self.together)
        h = [sum(w * c for w, c in zip(row, counts, strict=True)) for row in rows]
        noisy = self.mechanism.release_steps(h, randomness)
        scale, inverse = _least_squares(self.together)
        scale *= self.mechanism.unit
        return tuple(scale * sum(w * x for w, x in zip(row, noisy, strict=True)) for row in inverse)


def price(together: int) -> Fraction:
    """Return μ² for noise of variance 1 on each count."""
    return Fraction(together + 2, 3)


@lru_cache(maxsize=64)
def _released(k: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return M's rows, as many copies of each dropped as all have, and how many all have."""
    counts = [tuple(int(i == j) for j in range(k)) for i in range(k)]
    gaps = [tuple((j == i) - (j == i + 1) for j in range(k)) for i in range(k - 1)]
    rows = Counter([counts[0], counts[-1], *counts, *gaps, *gaps])
    copies = math.gcd(*rows.values())
    return tuple(row for row, times in rows.items() for _ in range(times // copies)), copies


@lru_cache(maxsize=64)
def _least_squares(k: int) -> tuple[Fraction, tuple[tuple[int, ...], ...]]:
    """Return (MᵀM)⁻¹Mᵀ as a factor and whole numbers."""
    rows, copies = _released(k)
    inverse = [[2 ** (k - 1 - abs(i - j)) for j in range(k)] for i in range(k)]  # 2^(k−1)·Σ
    whole = tuple(
        tuple(sum(a * b for a, b in zip(line, row, strict=True)) for row in rows)
        for line in inverse
    )
    return Fraction(copies, 3 * 2 ** (k - 1)), whole
