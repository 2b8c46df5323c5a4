"""Counts of records below a point or two, with Gaussian noise.

Two counts together cost less than one by one, because no record can move them apart: one that
changes its value takes both counts up, or both down, or changes only one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from confidp.privacy.guarantees import GDP, sqrt_up
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """Releases C(x) = #{X < x} at one point or at two with μ-GDP, up to the lattice's δ.

    Parameters
    ----------
    mu
        In (0, 2^30].
    together
        How many counts are released at once: 1, with noise of standard deviation 1/μ, or 2, each
        with √(4/3)/μ, where one by one and for the same μ each would have √2/μ.

    Notes
    -----
    **One.** A count has sensitivity 1.

    **Two.** Released is h = ((C + C′)/3, (2C − C′)/3, (2C′ − C)/3), of which C = h₀ + h₁ and
    C′ = h₀ + h₂ are post-processing. Where a record moves from a to b, C(x) changes for the x
    between them only, and all of these by 1 in the same direction: (C, C′) changes by ±(1, 1),
    ±(1, 0), ±(0, 1) or not at all, hence h by ±(2, 1, 1)/3, ±(1, 2, −1)/3 or ±(1, −1, 2)/3, which
    all have squared length 2/3. So the Gaussian mechanism for ℓ2-sensitivity √(2/3) makes h μ-GDP
    with noise of variance 2/(3μ²) in each entry, and C and C′ have twice that. The points may
    depend on anything already released. ∎ (Their errors have correlation ½. It is the best that a
    pair of Gaussians can do for these changes: any covariance Σ with equal variances v has to have
    aᵀΣ⁻¹a ≤ μ² for a = (1, 0) and (1, 1), which v = 4/(3μ²) meets with equality in both.)

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
        squared, entries = _RELEASED[self.together]
        mechanism = GaussianMechanism(Fraction(sqrt_up(squared)), self.mu, entries)
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "noise", mechanism.scale * (1 if self.together == 1 else 2**0.5))

    @property
    def cost(self) -> GDP:
        """What one release costs."""
        return self.mechanism.cost

    def release(self, counts: Sequence[int], randomness: Randomness) -> tuple[Fraction, ...]:
        """Return `together` counts with noise. This spends `cost`: charge it first."""
        if self.together == 1:
            return self.mechanism.release([Fraction(count) for count in counts], randomness)
        one, other = counts
        third = Fraction(1, 3)
        h = [(one + other) * third, (2 * one - other) * third, (2 * other - one) * third]
        both, first, second = self.mechanism.release(h, randomness)
        return both + first, both + second


# Squared sensitivity of what is released, and how many entries it has.
_RELEASED = {1: (Fraction(1), 1), 2: (Fraction(2, 3), 3)}


def price(together: int) -> Fraction:
    """Return μ² for noise of variance 1 on each count."""
    squared, _ = _RELEASED[together]
    return squared * together
