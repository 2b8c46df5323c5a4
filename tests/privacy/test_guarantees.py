"""Guarantees as values: what they refuse, how they compose, what tests they allow."""

from __future__ import annotations

import dataclasses
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from confidp.errors import ConfidpError, InvalidArgument, InvalidType
from confidp.privacy.guarantees import (
    GDP,
    ApproxDP,
    float_down,
    float_up,
    pure_dp_to_gdp,
    sqrt_down,
    sqrt_up,
)

LARGEST = sys.float_info.max
SMALLEST = math.ulp(0.0)

relaxed = settings(deadline=None, max_examples=200)
mus = st.floats(-150, 150).map(lambda power: 10.0**power)
deltas = st.just(0.0) | st.floats(0, 0.3) | st.floats(-320, -1).map(lambda power: 10.0**power)
guarantees = st.builds(GDP, mus, deltas)
fractions = st.fractions() | st.builds(
    lambda numerator, power: numerator * Fraction(2) ** power,
    st.integers(-(2**80), 2**80),
    st.integers(-1200, 1100),
)


def ulps_apart(x: float, y: float) -> float:
    return abs(x - y) / math.ulp(max(x, y))


# Bad input

NOT_NUMBERS = [True, False, "1", None, 1 + 0j, [1.0], np.bool_(True)]


@pytest.mark.parametrize("mu", [0, 0.0, -1, -1e-300, math.nan, math.inf, -math.inf, 10**400])
def test_gdp_refuses_a_mu_that_is_not_positive_and_finite(mu: float) -> None:
    with pytest.raises(InvalidArgument, match=r"^mu must be a finite number above 0, not \S+$"):
        GDP(mu)


@pytest.mark.parametrize("delta", [1, 1.5, -1e-300, math.nan, math.inf])
def test_gdp_refuses_a_delta_outside_its_range(delta: float) -> None:
    message = r"^delta must be a finite number in \[0, 1\), not \S+$"
    with pytest.raises(InvalidArgument, match=message):
        GDP(1.0, delta)
    with pytest.raises(InvalidArgument, match=message):
        GDP(1.0).epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1, -1e-300, math.nan, math.inf])
def test_a_negative_or_endless_epsilon_is_refused(epsilon: float) -> None:
    message = r"^epsilon must be a finite number of at least 0, not \S+$"
    with pytest.raises(InvalidArgument, match=message):
        ApproxDP(epsilon, 1e-6)
    with pytest.raises(InvalidArgument, match=message):
        GDP.from_approx_dp(epsilon, 1e-6)
    with pytest.raises(InvalidArgument, match=message):
        GDP(1.0).approx_delta(epsilon)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, math.inf])
def test_approx_dp_refuses_a_delta_of_0_or_1_or_beyond(delta: float) -> None:
    message = r"^delta must be a finite number in \(0, 1\), not \S+$"
    with pytest.raises(InvalidArgument, match=message):
        ApproxDP(1.0, delta)
    with pytest.raises(InvalidArgument, match=message):
        GDP.from_approx_dp(1.0, delta)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_pure_dp_needs_an_epsilon_above_0(epsilon: float) -> None:
    with pytest.raises(InvalidArgument, match=r"^epsilon must be a finite number above 0, not"):
        pure_dp_to_gdp(epsilon)


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_not_a_number_is_refused_by_name(value: object) -> None:
    kind = type(value).__name__
    for name, use in [
        ("mu", lambda: GDP(value)),
        ("delta", lambda: GDP(1.0, value)),
        ("delta", lambda: GDP(1.0).epsilon(value)),
        ("epsilon", lambda: GDP(1.0).approx_delta(value)),
        ("epsilon", lambda: ApproxDP(value, 0.1)),
        ("delta", lambda: ApproxDP(1.0, value)),
        ("epsilon", lambda: pure_dp_to_gdp(value)),
    ]:
        with pytest.raises(InvalidType, match=rf"^{name} must be a number, not {kind}$"):
            use()


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf, [0.5, 2.0], [0.1, math.nan]])
def test_tradeoff_refuses_rates_outside_0_to_1(alpha: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^alpha must be a finite number in \[0, 1\], not"):
        GDP(1.0).tradeoff(alpha)


@pytest.mark.parametrize("alpha", ["0.5", True, None, [True], [0.1, [0.2]], 0.5j])
def test_tradeoff_refuses_what_is_not_a_number(alpha: object) -> None:
    with pytest.raises(InvalidType, match=r"^alpha must be a number or an array of numbers"):
        GDP(1.0).tradeoff(alpha)


@pytest.mark.parametrize("expected", [ConfidpError, InvalidArgument, ValueError])
def test_a_refused_value_is_a_confidp_error_and_a_value_error(expected: type) -> None:
    with pytest.raises(expected, match=r"^mu must be a finite number above 0, not 0$"):
        GDP(0.0)


@pytest.mark.parametrize("expected", [ConfidpError, InvalidType, TypeError])
def test_a_refused_type_is_a_confidp_error_and_a_type_error(expected: type) -> None:
    with pytest.raises(expected, match=r"^mu must be a number, not str$"):
        GDP("1")


# Values


def test_numbers_of_any_kind_become_floats() -> None:
    for number in (1, np.float32(1), np.int64(1), Fraction(1)):
        guarantee = GDP(number)
        assert guarantee == GDP(1.0)
        assert type(guarantee.mu) is float
    assert type(ApproxDP(1, np.float32(0.5)).epsilon) is float


def test_guarantees_are_frozen_and_hashable() -> None:
    assert len({GDP(1.0), GDP(1), GDP(1.0, 0.1), ApproxDP(1.0, 0.1)}) == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        GDP(1.0).mu = 2.0


# Composition


@given(guarantees, guarantees)
@relaxed
def test_composition_is_commutative(first: GDP, second: GDP) -> None:
    assert first + second == second + first


@given(guarantees, guarantees, guarantees)
@relaxed
def test_composition_is_associative_up_to_rounding(first: GDP, second: GDP, third: GDP) -> None:
    left, right = (first + second) + third, first + (second + third)
    assert ulps_apart(left.mu, right.mu) <= 2
    assert ulps_apart(left.delta, right.delta) <= 2


@given(guarantees, guarantees)
@relaxed
def test_composition_is_the_exact_cost_rounded_up_by_under_a_unit(first: GDP, second: GDP) -> None:
    both = first + second
    mu_squared = Fraction(first.mu) ** 2 + Fraction(second.mu) ** 2
    assert Fraction(math.nextafter(both.mu, 0.0)) ** 2 < mu_squared <= Fraction(both.mu) ** 2
    delta = 1 - (1 - Fraction(first.delta)) * (1 - Fraction(second.delta))
    assert both.delta == 0 or Fraction(math.nextafter(both.delta, 0.0)) < delta
    assert delta <= Fraction(both.delta)


def test_composition_of_many_small_charges_does_not_fall_behind() -> None:
    total = GDP(0.01, 1e-24)
    for _ in range(999):
        total += GDP(0.01, 1e-24)
    assert Fraction(total.mu) ** 2 >= 1000 * Fraction(0.01) ** 2
    assert Fraction(total.delta) >= 1 - (1 - Fraction(1e-24)) ** 1000
    assert total.mu == pytest.approx(math.sqrt(0.1), rel=1e-12)
    assert total.delta == pytest.approx(1e-21, rel=1e-12)


@pytest.mark.parametrize("mu", [SMALLEST, 1e-320, 1e-200, 1e-160, 1e160, 1e300])
def test_composition_survives_squares_beyond_the_floats(mu: float) -> None:
    both = (GDP(mu) + GDP(mu)).mu
    assert Fraction(both) ** 2 >= 2 * Fraction(mu) ** 2
    assert Fraction(math.nextafter(both, 0.0)) ** 2 < 2 * Fraction(mu) ** 2


def test_composition_beyond_every_guarantee_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^mu must be .*, not inf$"):
        GDP(LARGEST) + GDP(LARGEST)
    with pytest.raises(InvalidArgument, match=r"^delta must be .*, not 1$"):
        GDP(1.0, 1 - 1e-16) + GDP(1.0, 1 - 1e-16)


def test_only_gdp_composes_with_gdp() -> None:
    for other in (1.0, ApproxDP(1.0, 0.1), None):
        with pytest.raises(TypeError, match="unsupported operand"):
            GDP(1.0) + other


# Tradeoff functions

RATES = np.linspace(0, 1, 2001)


@pytest.mark.parametrize("mu", [1e-300, 1e-3, 0.5, 1.0, 4.0, 1e300])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.4])
def test_tradeoff_decreases_convexly_under_blind_guessing(mu: float, delta: float) -> None:
    misses = GDP(mu, delta).tradeoff(RATES)
    assert np.all((misses >= 0) & (misses <= 1 - RATES + 1e-15))
    assert np.all(np.diff(misses) <= 1e-15)
    assert np.all(np.diff(misses, 2) >= -1e-14)


@given(st.floats(0.01, 6), st.floats(1e-12, 1 - 1e-3))
@relaxed
def test_pure_gdp_is_its_own_inverse(mu: float, alpha: float) -> None:
    guarantee = GDP(mu)
    misses = guarantee.tradeoff(alpha)
    # Beyond this a float of the miss rate no longer determines α.
    if 1e-12 < misses < 1 - 1e-3:
        assert guarantee.tradeoff(misses) == pytest.approx(alpha, rel=1e-9)


def test_own_delta_lowers_the_tradeoff_by_as_much_down_to_0() -> None:
    pure = GDP(1.0).tradeoff(RATES)
    shifted = GDP(1.0, 0.25).tradeoff(RATES)
    np.testing.assert_array_equal(shifted, np.maximum(pure - 0.25, 0.0))
    assert shifted[0] == 0.75
    assert shifted[-1] == 0.0


@pytest.mark.parametrize(("x", "mu"), [(9.0, 1.0), (20.0, 3.0), (35.0, 30.0)])
def test_tradeoff_holds_for_rates_under_the_float_spacing_at_1(x: float, mu: float) -> None:
    # α = Φ(−x) under 1e-16, whose complement is 1 in floats.
    assert GDP(mu).tradeoff(float(ndtr(-x))) == pytest.approx(float(ndtr(x - mu)), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, SMALLEST, 0.5, 1.0])
def test_tradeoff_of_a_scalar_is_a_float_and_of_an_array_its_shape(alpha: float) -> None:
    one = GDP(1.0).tradeoff(alpha)
    assert type(one) is float
    many = GDP(1.0).tradeoff([[alpha] * 3] * 2)
    assert many.shape == (2, 3)
    assert np.all(many == one)
    assert GDP(1.0).tradeoff([]).shape == (0,)


def test_tradeoff_spans_certainty_to_certainty() -> None:
    assert GDP(1.0).tradeoff(0.0) == 1.0
    assert GDP(1.0).tradeoff(1) == 0.0


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("own_delta", [0.0, 1e-6, 0.05])
def test_epsilon_and_delta_are_the_dual_of_the_tradeoff(mu: float, own_delta: float) -> None:
    # (ε, δ)-DP ⇔ f(α) ≥ 1 − δ − e^ε α for all α, so δ(ε) = sup 1 − f(α) − e^ε α.
    guarantee = GDP(mu, own_delta)
    for epsilon in (0.0, 0.1 * mu, mu, mu + mu * mu / 2, 3 * mu):
        optimum = epsilon / mu + mu / 2
        alpha = ndtr(-np.append(np.linspace(optimum - 3, optimum + 3, 20001), optimum))
        needed = np.max(1 - guarantee.tradeoff(alpha) - math.exp(epsilon) * alpha)
        delta = guarantee.approx_delta(epsilon)
        assert needed <= delta + 1e-14
        if delta <= 1 - own_delta:
            assert needed == pytest.approx(delta, abs=1e-13)


def test_a_large_own_delta_near_delta_1_makes_delta_more_than_the_least() -> None:
    guarantee = GDP(4.0, 0.1)
    alpha = np.linspace(0, 1, 100001)
    needed = np.max(1 - guarantee.tradeoff(alpha) - alpha)
    assert needed < 0.997
    assert guarantee.approx_delta(0.0) == 1.0


# Conversions


def test_the_gdp_of_a_budget_keeps_within_it() -> None:
    for epsilon in (0.0, 1e-6, 0.1, 1.0, 10.0, 1e6):
        for delta in (1e-300, 1e-12, 1e-6, 0.1, 0.9):
            budget = ApproxDP(epsilon, delta)
            gdp = budget.to_gdp()
            assert gdp == GDP.from_approx_dp(epsilon, delta)
            assert gdp.delta == 0.0
            assert gdp.epsilon(delta) <= epsilon
            assert gdp.approx_delta(epsilon) <= delta


def test_own_delta_is_taken_off_before_epsilon_is_read() -> None:
    assert GDP(1.0, 2.0**-20).epsilon(2.0**-19) == GDP(1.0).epsilon(2.0**-20)
    assert GDP(1.0, 1e-6).epsilon(1e-6) == math.inf
    assert GDP(1.0, 1e-6).epsilon(0.5) == 0.0
    assert GDP(1.0).epsilon(0.0) == math.inf


def test_pure_dp_is_weaker_once_it_is_gdp() -> None:
    # The GDP that ε-DP implies must allow an ε at least as large for every small δ.
    gdp = pure_dp_to_gdp(1.0)
    assert gdp.delta == 0.0
    assert gdp.epsilon(1e-9) > 1.0


# Directed rounding


@given(fractions)
@relaxed
def test_float_up_is_the_least_float_not_below(value: Fraction) -> None:
    up = float_up(value)
    assert up == math.inf or Fraction(up) >= value
    below = math.nextafter(up, -math.inf)
    assert below == -math.inf or Fraction(below) < value


@given(fractions)
@relaxed
def test_float_down_is_the_greatest_float_not_above(value: Fraction) -> None:
    down = float_down(value)
    assert down == -math.inf or Fraction(down) <= value
    above = math.nextafter(down, math.inf)
    assert above == math.inf or Fraction(above) > value


@given(fractions)
@relaxed
def test_roots_enclose_the_truth_between_neighbouring_floats(value: Fraction) -> None:
    value = abs(value)
    low, high = sqrt_down(value), sqrt_up(value)
    assert Fraction(low) ** 2 <= value <= Fraction(high) ** 2
    assert high in (low, math.nextafter(low, math.inf))


@given(st.floats(0, LARGEST))
@relaxed
def test_roots_of_squares_and_floats_of_floats_are_exact(x: float) -> None:
    assert float_up(Fraction(x)) == float_down(Fraction(x)) == x
    assert sqrt_up(Fraction(x) ** 2) == sqrt_down(Fraction(x) ** 2) == x


@given(st.floats(1e-150, 1e150))
@relaxed
def test_roots_round_away_from_a_float_that_they_miss_by_a_hair(x: float) -> None:
    square = Fraction(x) ** 2
    assert sqrt_up(square * (1 + Fraction(1, 10**60))) == math.nextafter(x, math.inf)
    assert sqrt_down(square * (1 - Fraction(1, 10**60))) == math.nextafter(x, 0.0)


def test_rounding_past_the_largest_float_keeps_its_direction() -> None:
    past = Fraction(LARGEST) * 2
    assert float_up(past) == math.inf
    assert float_down(past) == LARGEST
    assert float_up(-past) == -LARGEST
    assert float_down(-past) == -math.inf
    assert sqrt_up(past**2) == math.inf
    assert sqrt_down(past**2) == LARGEST


def test_rounding_below_the_smallest_float_keeps_its_direction() -> None:
    tiny = Fraction(SMALLEST) / 10**400
    assert float_up(tiny) == sqrt_up(tiny**2) == SMALLEST
    assert float_down(tiny) == sqrt_down(tiny**2) == 0.0
