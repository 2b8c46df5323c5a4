"""Conversions between μ-GDP, (ε, δ)-DP and pure ε-DP, each rounded towards privacy.

With a = ε/μ − μ/2 and b = ε/μ + μ/2, a μ-GDP mechanism is (ε, δ(ε))-DP for

    δ(ε) = Φ(−a) − e^ε Φ(−b) = φ(a) (M(a) − M(b)) = φ(a) ∫_a^b (1 − x M(x)) dx,

where M(x) = Φ(−x)/φ(x) is the Mills ratio and M′(x) = x M(x) − 1 (Dong, Roth and Su 2022,
corollary 2.13). Nothing here holds e^ε, a and a²/2 are exact fractions before they are rounded
once, and each form serves where it doesn't cancel. That gives log δ to within
2e-14 + 4e-16 |log δ|, and five times as much is added before anything is returned: a relative
2e-12 of δ, at most, where δ ≥ 1e-300.

Arguments are floats that the caller has checked: μ > 0, ε ≥ 0 and 0 ≤ δ < 1, all finite.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from fractions import Fraction

from scipy.special import erfcx, log_ndtr, ndtr

_LARGEST = sys.float_info.max
_SMALLEST = math.ulp(0.0)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_TWO = math.sqrt(2.0)
_ROOT_HALF_PI = math.sqrt(0.5 * math.pi)

# Gauss-Legendre on [0, 1], five points: (node, weight).
_RULE = (
    (0.046910077030668004, 0.11846344252809454),
    (0.23076534494715845, 0.23931433524968324),
    (0.5, 0.28444444444444444),
    (0.7692346550528415, 0.23931433524968324),
    (0.953089922969332, 0.11846344252809454),
)


def delta_of_gdp(mu: float, epsilon: float, own_delta: float = 0.0) -> float:
    """Return the least δ for which (μ, `own_delta`)-GDP implies (ε, δ)-DP, rounded up.

    It is Φ(−a) − e^ε Φ(−b) + `own_delta`, at most 1. The first part is over its true value by at
    most a relative 2e-13 + 3e-15 |log δ| and two units in the last place, and is never 0. A sum
    above 1 − `own_delta` is enough, but may not be the least.

    Examples
    --------
    >>> delta_of_gdp(1.0, 1.0)
    0.126936737506...
    >>> delta_of_gdp(1.0, 1e6)
    5e-324
    """
    return min(_sum_up(_delta_up(mu, epsilon, margins=1), own_delta), 1.0)


def log_delta_of_gdp(mu: float, epsilon: float) -> float:
    """Return the logarithm of the least δ for which μ-GDP implies (ε, δ)-DP, rounded up.

    Over its true value by at most 2e-13 + 3e-15 |log δ|, never above 0, and finite where δ itself
    underflows.

    Examples
    --------
    >>> log_delta_of_gdp(1.0, 100.0)
    -4960.254553...
    """
    return _log_delta_up(mu, epsilon, margins=1)


def epsilon_of_gdp(mu: float, delta: float, own_delta: float = 0.0) -> float:
    """Return the least ε ≥ 0 for which (μ, `own_delta`)-GDP implies (ε, δ)-DP, rounded up.

    It is the least float at which `delta_of_gdp` is at most `delta`, so it is over its true value
    by what a relative 2e-12 of δ makes (δ ≥ 1e-300). Infinite where `delta` is not above
    `own_delta`, or where no float is large enough. For `delta` above 1 − `own_delta` it is
    enough, but may not be the least.

    Examples
    --------
    >>> epsilon_of_gdp(1.0, 1e-6)
    4.886554...
    >>> epsilon_of_gdp(1.0, 0.5)
    0.0
    >>> epsilon_of_gdp(1.0, 1e-6, own_delta=1e-6)
    inf
    """
    room = _sum_down(delta, -own_delta)
    if room <= 0.0 or _delta_up(mu, _LARGEST, margins=1) > room:
        return math.inf
    return _least_float(lambda epsilon: _delta_up(mu, epsilon, margins=1) <= room, 0.0, _LARGEST)


def mu_of_approx_dp(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-GDP implies (ε, δ)-DP, for δ in (0, 1), rounded down.

    Under its true value by at most a relative 6e-12 (1e-300 ≤ δ ≤ 0.9). The result satisfies
    ``delta_of_gdp(mu, epsilon) <= delta`` and ``epsilon_of_gdp(mu, delta) <= epsilon`` exactly.

    Examples
    --------
    >>> mu_of_approx_dp(1.0, 1e-6)
    0.236704...
    """
    # Three margins: rounding can't then lift δ above `delta` at any larger ε, hence the second.
    too_large = _least_float(
        lambda mu: _delta_up(mu, epsilon, margins=3) > delta, _SMALLEST, _LARGEST
    )
    # The smallest float always serves: δ ≤ μ/√(2π).
    return max(math.nextafter(too_large, 0.0), _SMALLEST)


def mu_of_pure_dp(epsilon: float) -> float:
    """Return the least μ for which every ε-DP mechanism is μ-GDP, rounded up.

    It is 2Φ⁻¹(e^ε/(1 + e^ε)), over its true value by at most a relative 2e-13 and three units in
    the last place: the least float at which `pure_dp_of_mu` is at least `epsilon`.

    Examples
    --------
    >>> mu_of_pure_dp(1.0)
    1.232035...
    """
    return _least_float(lambda mu: pure_dp_of_mu(mu) >= epsilon, 0.0, _LARGEST)


def pure_dp_of_mu(mu: float) -> float:
    """Return the largest ε for which every ε-DP mechanism is μ-GDP, rounded down.

    It is ln Φ(μ/2) − ln Φ(−μ/2), under its true value by at most a relative 2e-13 and two units
    in the last place, and at most the largest float.

    Examples
    --------
    >>> pure_dp_of_mu(1.0)
    0.806965...
    """
    half = mu / 2.0
    if mu < 1e-300:
        # The tangent at 0 lies below; halving such a μ could lose its last bit.
        return _down(mu / _ROOT_HALF_PI)
    if mu < 1.0:
        return _down(2.0 * math.atanh(math.erf(half / _ROOT_TWO)))
    return _down(float(log_ndtr(half)) + _minus_log_tail(half))


def mu_of_laplace(epsilon: float) -> float:
    """Return the least μ for which the Laplace mechanism at ε is μ-GDP, rounded up.

    It is −2Φ⁻¹(½e^{−ε/2}), less than for the worst ε-DP mechanism; over its true value by at most
    a relative 2e-13 and three units in the last place.

    Examples
    --------
    >>> mu_of_laplace(1.0)
    1.030063...
    """
    return _least_float(lambda mu: _laplace_of_mu(mu) >= epsilon, 0.0, _LARGEST)


def _laplace_of_mu(mu: float) -> float:
    """Return the largest ε at which the Laplace mechanism is μ-GDP, rounded down likewise."""
    half = mu / 2.0
    if mu < 1e-300:
        return _down(mu / _ROOT_HALF_PI)
    if mu < 1.0:
        return _down(-2.0 * math.log1p(-math.erf(half / _ROOT_TWO)))
    return _down(2.0 * (_minus_log_tail(half) - math.log(2.0)))


def _minus_log_tail(x: float) -> float:
    """Return −ln Φ(−x)."""
    # SciPy's form overflows for the largest x, where −ln Φ(−x) is x²/2 and a little more.
    return -float(log_ndtr(-x)) if x < 1e100 else 0.5 * x * x


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log δ(ε), at most 0, to within 2e-14 + 4e-16 |log δ|."""
    exact_a = Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2
    exact_exponent = exact_a * exact_a / 2
    if exact_exponent >= _LARGEST:
        return -_LARGEST if exact_a > 0 else 0.0
    a = float(exact_a)
    exponent = float(exact_exponent)
    b = float(exact_a + Fraction(mu))
    if mu < max(1.0, a) / 8.0:
        # M(a) and M(b) nearly cancel: average M′ between them instead.
        bracket = sum(weight * _mills_slope(a + mu * node) for node, weight in _RULE)
        log_bracket = math.log(mu) + math.log(bracket)
    elif a < 0.0:
        # M(a) may overflow, and Φ(−a) is at least a half.
        density = math.exp(-exponent - _LOG_ROOT_TWO_PI)
        return math.log(float(ndtr(-a)) - density * _mills(b))
    else:
        log_bracket = math.log(_mills(a) - _mills(b))
    return math.fsum((-exponent, -_LOG_ROOT_TWO_PI, log_bracket))


def _log_delta_up(mu: float, epsilon: float, margins: int) -> float:
    log_delta = _log_delta(mu, epsilon)
    return min(log_delta + margins * (1e-13 - 2e-15 * log_delta), 0.0)


def _delta_up(mu: float, epsilon: float, margins: int) -> float:
    return math.nextafter(math.exp(_log_delta_up(mu, epsilon, margins)), math.inf)


def _mills(x: float) -> float:
    """Return M(x) = Φ(−x)/φ(x)."""
    return _ROOT_HALF_PI * float(erfcx(x / _ROOT_TWO))


def _mills_slope(x: float) -> float:
    """Return −M′(x) = 1 − x M(x) > 0, for x > −1."""
    if x < 4.0:
        return 1.0 - x * _mills(x)
    # Laplace's fraction M = 1/(x + 1/(x + 2/(x + …))) without its first two levels: no cancelling,
    # and 40 levels leave under a relative 1e-16 from x = 4 on.
    tail = x
    for level in range(40, 1, -1):
        tail = x + level / tail
    return _mills(x) / tail


def _down(value: float) -> float:
    return math.nextafter(value * (1.0 - 1e-13), 0.0)


def _sum_up(x: float, y: float) -> float:
    """Return the least float that is at least x + y."""
    total = x + y
    return total if math.fsum((x, y, -total)) <= 0.0 else math.nextafter(total, math.inf)


def _sum_down(x: float, y: float) -> float:
    """Return the greatest float that is at most x + y."""
    return -_sum_up(-x, -y)


def _least_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least float in [`low`, `high`] where `holds`: false below it, true above.

    Takes `holds(high)` for granted. Bisects the bit patterns, which are in the floats' order: 63
    steps at most. Where rounding makes `holds` flicker, the result is still one where it holds.
    """
    if holds(low):
        return low
    below, above = _bits(low), _bits(high)
    while above - below > 1:
        middle = (below + above) // 2
        if holds(_float(middle)):
            above = middle
        else:
            below = middle
    return _float(above)


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
