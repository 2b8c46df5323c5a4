"""PTR-GDP: release a value with noise as large as its local sensitivity (Algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from scipy.special import ndtri

from confidp.errors import InvalidArgument, real
from confidp.privacy.guarantees import GDP, float_down, float_up
from confidp.privacy.noise import GaussianMechanism, lattice_delta
from confidp.randomness import Randomness

_SMOOTHNESS_ERROR = 1e-12  # what statistics may be off in SS_β, relatively
_LARGEST_LOG = 690.0  # e^690 is over every sensitivity that bounds within 1e120 allow


def half_delta(method: str, mu: float, delta: float, dimension: int) -> float:
    """Return δ′ for each of two PTR-GDP releases, of a d-vector and a number, within `delta`.

    What their d + 3 lattices cost is taken out first: for each a bound and its numbers.

    Examples
    --------
    >>> half_delta("CR-SS", 1.0, 1e-6, dimension=1)
    4.99...e-07
    """
    lattices = lattice_delta(mu, dimension + 3)
    half = float_down((Fraction(delta) - Fraction(lattices)) / 2)
    if half <= 0:
        raise InvalidArgument(
            f"budget must have a delta above {lattices:.1e} for {method}, not {delta:g}: "
            f"pass GDP(mu, delta) or ApproxDP(epsilon, delta)"
        )
    return half


def beta_for(inflation: float, mu_bound: float, delta: float) -> float:
    """Return the β for which B lies e^t above SS_β on average: β = tμ₁/Φ⁻¹(1−δ).

    A larger β makes SS_β smaller, and B larger beside it.
    """
    return inflation * mu_bound / -float(ndtri(delta))


@dataclass(frozen=True, slots=True)
class PTRGDP:
    """A bound on the local sensitivity is released first, then the value with noise at that bound.

    With SS_β a β-smooth bound on the local sensitivity of θ and Z, Z_d standard normal,

    - ``B = SS_β(D)·exp((β/μ₁)(Z + Φ⁻¹(1−δ)))``,
    - ``θ̃ = θ(D) + (B/μ₂) Z_d``.

    Parameters
    ----------
    beta
        Above 0.
    mu_bound, mu_value
        μ₁ and μ₂, above 0. Algorithm 3 has them equal.
    delta
        In (0, ½]: the probability that B falls short.
    dimension
        How many numbers θ has.

    Notes
    -----
    **Privacy** (lemma 5.4, for any μ₁, μ₂). Releasing B *and* θ̃ is (√(μ₁²+μ₂²), δ)-GDP. Fix
    neighbours D, D′. log SS_β moves by at most β, so log B is a Gaussian mechanism at μ₁. Let R be
    the law that draws B as D′ does, then θ̃ from θ(D′) if B ≥ LS(D′) and from θ(D) otherwise. Given
    B, the values under D and R are the same law, or two normals at most LS(D′) ≤ B apart with
    deviation B/μ₂: T ≥ G_{μ₂}; so T(D, R) ≥ G_{√(μ₁²+μ₂²)}. R differs from the law under D′ only
    where B < LS(D′) ≤ SS_β(D′), that is where Z < −Φ⁻¹(1−δ): TV ≤ δ. Proposition 5.1 gives the
    claim, since D and D′ may swap. ∎ For two bounds at once: `release_with_bounds`.

    **On the lattice** both draws are `GaussianMechanism`s, which adds (d+1)·δ₀ to δ. The logarithm
    as computed moves by at most β + 3e-12, its noise being scaled to that; B is rounded up by a
    relative 4e-12; and Φ⁻¹(1−δ) is raised by 2^-40, over the half unit (2^-45) that rounding to the
    lattice takes and the discrete law's excess in the tail (a relative 2^-88).

    Examples
    --------
    >>> ptr = PTRGDP(beta=0.1, mu_bound=1.0, mu_value=1.0, delta=1e-6)
    >>> ptr.cost
    GDP(mu=1.41421356..., delta=1.0...e-06)
    >>> (value,), bound = ptr.release([Fraction(5)], 0.001, Randomness.of(7))
    >>> float(value), bound
    (5.00..., 0.0018...)
    """

    beta: float
    mu_bound: float
    mu_value: float
    delta: float
    dimension: int = 1
    _log_bound: GaussianMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse parameters out of range."""
        real("beta", self.beta, "above 0", lambda x: x > 0)
        real("delta", self.delta, "in (0, 0.5]", lambda x: 0 < x <= 0.5)
        sensitivity = Fraction(self.beta) + 3 * Fraction(_SMOOTHNESS_ERROR)
        object.__setattr__(self, "_log_bound", GaussianMechanism(sensitivity, self.mu_bound))

    @property
    def cost(self) -> GDP:
        """(√(μ₁²+μ₂²), δ + (d+1)·δ₀)."""
        parts = GDP(self.mu_bound) + GDP(self.mu_value)
        lattices = Fraction(lattice_delta(self.mu_bound)) + Fraction(
            lattice_delta(self.mu_value, self.dimension)
        )
        return GDP(parts.mu, float_up(Fraction(self.delta) + lattices))

    @property
    def log_inflation(self) -> float:
        """By how much log B is moved up on average: t = (β/μ₁)Φ⁻¹(1−δ)."""
        margin: float = -ndtri(self.delta)
        return self._log_bound.scale * (margin * (1 + 1e-12) + 2.0**-40)

    def release(
        self, value: Sequence[Fraction], smooth_sensitivity: float, randomness: Randomness
    ) -> tuple[tuple[Fraction, ...], float]:
        """Return θ̃ and B, both public. This spends `cost`.

        Parameters
        ----------
        value
            θ(D), private.
        smooth_sensitivity
            SS_β(D) of the value *as computed*, above 0, private.
        """
        bound = self.release_bound(smooth_sensitivity, randomness)
        return self.value_mechanism(bound).release(value, randomness), bound

    def release_bound(self, smooth_sensitivity: float, randomness: Randomness) -> float:
        """Return B, the first of the two draws: public from here on."""
        log_bound = Fraction(math.log(smooth_sensitivity))
        (noisy,) = self._log_bound.release([log_bound], randomness)
        exponent = min(float(noisy) + self.log_inflation, _LARGEST_LOG)
        return math.exp(max(exponent, -_LARGEST_LOG)) * (1 + 4 * _SMOOTHNESS_ERROR)

    def value_mechanism(self, bound: float) -> GaussianMechanism:
        """Return the second draw's mechanism, whose noise is as large as B says."""
        return GaussianMechanism(Fraction(bound), self.mu_value, self.dimension)
