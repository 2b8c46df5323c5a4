"""Privacy guarantees as values: Gaussian differential privacy and (ε, δ)-differential privacy.

Neighbouring data sets differ in one record (replace-one). Definitions and theorems: Dong, Roth and
Su (2022), "Gaussian differential privacy", and Pandey, Sarkar, Loh and Mukherjee (2026), sections
3.1 and 5.1 ("the paper").
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from confidp.errors import InvalidType, real, shown
from confidp.privacy import conversions


@dataclass(frozen=True, slots=True)
class GDP:
    """(μ, δ)-Gaussian differential privacy (the paper, definition 5.2); pure μ-GDP for δ = 0.

    A mechanism M is (μ, δ)-GDP if for all neighbours D, D′ no test of "D or D′?" from its output
    with false-positive rate α has a false-negative rate under ``max(G_μ(α) − δ, 0)``, where
    ``G_μ(α) = Φ(Φ⁻¹(1 − α) − μ)``.

    Parameters
    ----------
    mu
        Above 0, finite. 0.25 is strict, 1 customary, 8 weak.
    delta
        In [0, 1).

    Examples
    --------
    >>> GDP(1.0).tradeoff(0.05)
    0.740488...
    >>> GDP(1.0).epsilon(1e-6)
    4.886554...
    >>> GDP(0.75) + GDP(1.0)
    GDP(mu=1.25, delta=0.0)
    """

    mu: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse parameters that guarantee nothing or mean nothing."""
        object.__setattr__(self, "mu", real("mu", self.mu, "above 0", lambda x: x > 0))
        object.__setattr__(self, "delta", _delta(self.delta))

    @classmethod
    def from_approx_dp(cls, epsilon: float, delta: float) -> GDP:
        """Return the largest pure GDP that implies (ε, δ)-DP: the budget that (ε, δ) buys.

        Examples
        --------
        >>> budget = GDP.from_approx_dp(1.0, 1e-6)
        >>> budget.mu
        0.236704...
        >>> budget.epsilon(1e-6) <= 1.0
        True
        """
        return ApproxDP(epsilon, delta).to_gdp()

    def epsilon(self, delta: float) -> float:
        """Return the least ε ≥ 0 for which this guarantee implies (ε, δ)-DP, rounded up.

        Infinite where `delta` is not above this guarantee's own δ. Where `delta` plus the own δ
        are over 1, it is enough but may not be the least.
        """
        return conversions.epsilon_of_gdp(self.mu, _delta(delta), self.delta)

    def approx_delta(self, epsilon: float) -> float:
        """Return the least δ for which this guarantee implies (ε, δ)-DP, rounded up.

        Where the result plus the own δ are over 1, it is enough but may not be the least.
        """
        epsilon = real("epsilon", epsilon, "of at least 0", lambda x: x >= 0)
        return conversions.delta_of_gdp(self.mu, epsilon, self.delta)

    def tradeoff(self, alpha: ArrayLike) -> float | NDArray[np.float64]:
        """Return the least false-negative rate of any test with false-positive rate `alpha`.

        Parameters
        ----------
        alpha
            A rate or an array of rates, each in [0, 1].
        """
        rates = numbers("alpha", alpha)
        for extreme in (rates.min(initial=0.0), rates.max(initial=0.0)):
            real("alpha", float(extreme), "in [0, 1]", lambda x: 0 <= x <= 1)
        # −Φ⁻¹(α), not Φ⁻¹(1 − α): the latter loses every α under 1e-16.
        misses = np.maximum(ndtr(-ndtri(rates) - self.mu) - self.delta, 0.0)
        return float(misses) if misses.ndim == 0 else misses

    def __add__(self, other: GDP) -> GDP:
        """Compose: the guarantee of releasing both (equation 3, proposition 5.3), rounded up.

        For budgets that are fixed beforehand, though the second mechanism may look at the first's
        output. For budgets chosen along the way, keep a ledger.
        """
        if not isinstance(other, GDP):
            return NotImplemented
        mu_squared = Fraction(self.mu) ** 2 + Fraction(other.mu) ** 2
        delta = 1 - (1 - Fraction(self.delta)) * (1 - Fraction(other.delta))
        return GDP(sqrt_up(mu_squared), float_up(delta))


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(ε, δ)-differential privacy, as a budget.

    Parameters
    ----------
    epsilon
        At least 0, finite.
    delta
        In (0, 1): no Gaussian mechanism is (ε, 0)-DP.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse parameters out of range."""
        epsilon = real("epsilon", self.epsilon, "of at least 0", lambda x: x >= 0)
        object.__setattr__(self, "epsilon", epsilon)
        delta = real("delta", self.delta, "in (0, 1)", lambda x: 0 < x < 1)
        object.__setattr__(self, "delta", delta)

    def to_gdp(self) -> GDP:
        """Return the largest pure GDP that implies this guarantee, rounded down."""
        return GDP(conversions.mu_of_approx_dp(self.epsilon, self.delta))


def pure_dp_to_gdp(epsilon: float) -> GDP:
    """Return the least GDP that every ε-DP mechanism satisfies, rounded up.

    The worst ε-DP mechanism is randomised response, whence μ = 2Φ⁻¹(e^ε/(1 + e^ε)).

    Examples
    --------
    >>> pure_dp_to_gdp(1.0).mu
    1.232035...
    """
    return GDP(conversions.mu_of_pure_dp(real("epsilon", epsilon, "above 0", lambda x: x > 0)))


def float_up(value: Fraction) -> float:
    """Return the least float that is at least `value`: infinite above the largest float."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the greatest float that is at most `value`."""
    return 0.0 - float_up(-value)  # 0.0 −: no negative zero


def sqrt_up(value: Fraction) -> float:
    """Return the least float that is at least √value."""
    return float_up(_root_bracket(value)[1])


def sqrt_down(value: Fraction) -> float:
    """Return the greatest float that is at most √value."""
    return float_down(_root_bracket(value)[0])


def _root_bracket(value: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose √value between neighbours on a binary grid that holds every float of its size."""
    size = value.numerator.bit_length() - value.denominator.bit_length()
    shift = max(64 - size // 2, 0)
    scaled = value.numerator << 2 * shift
    low = math.isqrt(scaled // value.denominator)
    high = low if low * low * value.denominator == scaled else low + 1
    return Fraction(low, 1 << shift), Fraction(high, 1 << shift)


def numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return an argument as an array of floats, or raise; what a float can't hold is infinite.

    Examples
    --------
    >>> numbers("theta", [1, 0.5])
    array([1. , 0.5])
    >>> numbers("theta", "0.5")
    Traceback (most recent call last):
    confidp.errors.InvalidType: theta must be a number or an array of numbers, not dtype('<U3')
    """
    wanted = f"{name} must be a number or an array of numbers"
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and array.size:
            array = np.array([_float(x) for x in array.flat]).reshape(array.shape)
    except Exception:  # whatever its type raises: its message may quote anything
        raise InvalidType(wanted) from None
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidType(f"{wanted}, none of them masked")
    if array.dtype.kind not in "fiu":
        raise InvalidType(f"{wanted}, not {shown(array.dtype)}")
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False)


def _float(value: Any) -> float:
    """Return a whole number or a fraction that NumPy has no type for as a float."""
    if not issubclass(type(value), Real) or isinstance(value, bool):
        raise TypeError
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _delta(delta: float) -> float:
    return real("delta", delta, "in [0, 1)", lambda x: 0 <= x < 1)
