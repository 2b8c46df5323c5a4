"""The conversions, against the definitions, a 60-digit oracle and dp_accounting."""

from __future__ import annotations

import math
import random
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from confidp.privacy.conversions import (
    delta_of_gdp,
    epsilon_of_gdp,
    log_delta_of_gdp,
    mu_of_approx_dp,
    mu_of_laplace,
    mu_of_pure_dp,
    pure_dp_of_mu,
)

LARGEST = sys.float_info.max
SMALLEST = math.ulp(0.0)

relaxed = settings(deadline=None, max_examples=100)


def spread(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats between two powers of ten, even in the exponent."""
    return st.floats(low, high).map(lambda power: 10.0**power)


any_mu = spread(-300, 300) | st.sampled_from([SMALLEST, 1e-300, 1e154, 1e300, LARGEST])
any_epsilon = spread(-320, 308) | st.sampled_from([0.0, SMALLEST, 709.0, 1e155, 1e308, LARGEST])
any_delta = (
    spread(-323, -0.0001)
    | st.floats(1e-3, 1 - 1e-16)
    | st.sampled_from([SMALLEST, 1e-320, 0.5, 1 - 1e-16])
)
usual_mu = spread(-3, math.log10(50))
usual_delta = spread(-300, math.log10(0.9))


# The oracle: the textbook formulas, with enough digits to outlast every cancellation.


def digits(mu: float, epsilon: float) -> int:
    """60 digits beyond what e^ε and a², and M(a) − M(b) for small μ, consume."""
    size = max(epsilon, 1.0), max(epsilon / mu, mu, 1.0 / mu, 1.0)
    return 60 + int(math.log10(size[0]) + 4 * math.log10(min(size[1], LARGEST)))


def upper_tail(x: mp.mpf) -> mp.mpf:
    return mp.erfc(x / mp.sqrt(2)) / 2


def true_delta(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(digits(mu, epsilon)):
        a = mp.mpf(epsilon) / mp.mpf(mu) - mp.mpf(mu) / 2
        return upper_tail(a) - mp.exp(mp.mpf(epsilon)) * upper_tail(a + mp.mpf(mu))


def true_log_delta(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(digits(mu, epsilon)):
        return mp.log(true_delta(mu, epsilon))


def true_pure_dp(mu: mp.mpf) -> mp.mpf:
    return mp.log(upper_tail(-mp.mpf(mu) / 2) / upper_tail(mp.mpf(mu) / 2))


def true_laplace(mu: mp.mpf) -> mp.mpf:
    return -2 * mp.log(2 * upper_tail(mp.mpf(mu) / 2))


def usual_cases(count: int) -> list[tuple[float, float, float]]:
    """(μ, ε, δ) with δ the oracle's, rounded: every regime, and its boundaries."""
    draw = random.Random(7)
    cases = []
    while len(cases) < count:
        mu = math.exp(draw.uniform(math.log(1e-3), math.log(50)))
        a = draw.choice([draw.uniform(-1.3, 8), draw.uniform(0, 37), -mu / 2, 8 * mu, 4.0, 0.0])
        epsilon = max(mu * (a + mu / 2), 0.0)
        delta = float(true_delta(mu, epsilon))
        if 1e-300 <= delta <= 0.9:
            cases.append((mu, epsilon, delta))
    return cases


CASES = usual_cases(300)


def stated_margin(log_delta: float) -> float:
    return 2e-13 + 3e-15 * abs(log_delta)


# Agreement with the definitions


@pytest.mark.parametrize(("mu", "epsilon"), [(0.1, 0.0), (0.5, 1.0), (1.0, 0.3), (3.0, 2.0)])
def test_delta_is_the_integral_of_the_excess_density(mu: float, epsilon: float) -> None:
    crossing = mp.mpf(epsilon) / mu + mp.mpf(mu) / 2
    with mp.workdps(30):
        excess = mp.quad(
            lambda x: mp.npdf(x, mu) - mp.exp(epsilon) * mp.npdf(x),
            [crossing, crossing + 1, crossing + 4, crossing + 20],
        )
    assert delta_of_gdp(mu, epsilon) == pytest.approx(float(excess), rel=1e-11)


# dp_accounting 0.6.0 computes everywhere on this grid. It stops at an absolute 1e-12, so it is no
# help for ε far under 1; for μ under about 1e-7 its difference of logarithms is all rounding.
@pytest.mark.parametrize("mu", np.geomspace(1e-3, 50, 16).tolist())
def test_epsilon_agrees_with_dp_accounting(mu: float) -> None:
    exponents = [300, 299.5, 250, 200, 150, 100, 50, 30, 20, 16, 12, 9, 7, 6, 5, 4, 3, 2, 1, 0.3]
    for delta in [10.0**-exponent for exponent in exponents] + [0.7, 0.9]:
        expected = get_epsilon_gaussian(1 / mu, delta)
        assert epsilon_of_gdp(mu, delta) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 2.0, 8.0])
def test_the_laplace_mechanism_has_its_mu_and_no_less(epsilon: float) -> None:
    alpha = np.geomspace(1e-15, 0.5, 2001)
    # The tradeoff of two Laplace laws one scale/ε apart (Dong, Roth and Su 2022, appendix).
    laplace = np.where(
        alpha < 0.5 * math.exp(-epsilon),
        1 - math.exp(epsilon) * alpha,
        math.exp(-epsilon) / (4 * alpha),
    )
    mu = mu_of_laplace(epsilon)
    assert np.all(laplace >= ndtr(-ndtri(alpha) - mu) - 1e-15)
    fixed_point = 0.5 * math.exp(-epsilon / 2)
    assert ndtr(-ndtri(fixed_point) - mu) == pytest.approx(fixed_point, rel=1e-11)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 2.0, 8.0, 30.0])
def test_randomised_response_has_the_mu_of_pure_dp_and_no_less(epsilon: float) -> None:
    alpha = np.geomspace(1e-15, 1, 2001)
    response = np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
    mu = mu_of_pure_dp(epsilon)
    assert np.all(response >= ndtr(-ndtri(alpha) - mu) - 1e-15)
    kink = 1 / (1 + math.exp(epsilon))
    assert ndtr(-ndtri(kink) - mu) == pytest.approx(kink, rel=1e-10)


# Rounding, against the oracle


def test_delta_is_never_under_the_truth_and_over_it_by_no_more_than_stated() -> None:
    for mu, epsilon, _ in CASES:
        truth = true_delta(mu, epsilon)
        found = mp.mpf(delta_of_gdp(mu, epsilon))
        assert truth <= found <= truth * (1 + stated_margin(mp.log(truth)) + 5e-16), (mu, epsilon)


def test_delta_is_never_under_the_truth_where_its_two_terms_cancel_most() -> None:
    for mu in np.linspace(0.12, 0.3, 19).tolist():
        for epsilon in np.linspace(0.0, mu, 21).tolist():
            truth = true_delta(mu, epsilon)
            assert truth <= delta_of_gdp(mu, epsilon) <= truth * (1 + stated_margin(mp.log(truth)))


def test_epsilon_is_never_under_the_truth_and_within_1e9th_of_it() -> None:
    for mu, _, delta in CASES:
        epsilon = epsilon_of_gdp(mu, delta)
        assert true_delta(mu, epsilon) <= delta, (mu, delta)
        less = epsilon - 1e-9 * max(epsilon, 1.0)
        assert less < 0 or true_delta(mu, less) > delta, (mu, delta)


def test_epsilon_is_over_the_truth_by_no_more_than_the_stated_part_of_delta() -> None:
    for mu, _, delta in CASES:
        epsilon = epsilon_of_gdp(mu, delta)
        if epsilon > 0:
            slack = mp.log(mp.mpf(delta)) - true_log_delta(mu, epsilon)
            assert 0 <= slack <= stated_margin(math.log(delta)), (mu, delta)


def test_epsilon_keeps_its_relative_accuracy_where_it_is_small() -> None:
    for mu in (1e-3, 1e-2, 0.1):
        for delta in (1e-300, 1e-100, 1e-12, 1e-6):
            epsilon = epsilon_of_gdp(mu, delta)
            assert true_delta(mu, epsilon) <= delta < true_delta(mu, epsilon * (1 - 1e-9))


def test_mu_of_approx_dp_is_never_over_the_truth_and_under_it_by_no_more_than_stated() -> None:
    for _, epsilon, delta in CASES:
        mu = mu_of_approx_dp(epsilon, delta)
        assert true_delta(mu, epsilon) <= delta, (epsilon, delta)
        assert true_delta(mu * (1 + 6e-12), epsilon) > delta, (epsilon, delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-150, 1e-12, 0.1, 0.9])
def test_mu_of_approx_dp_is_right_at_epsilon_zero_too(delta: float) -> None:
    mu = mu_of_approx_dp(0.0, delta)
    assert true_delta(mu, 0.0) <= delta < true_delta(mu * (1 + 6e-12), 0.0)


@pytest.mark.parametrize(
    ("upward", "truth"), [(mu_of_pure_dp, true_pure_dp), (mu_of_laplace, true_laplace)]
)
def test_mu_of_pure_mechanisms_is_never_under_the_truth_and_barely_over(upward, truth) -> None:
    for epsilon in [*np.geomspace(1e-12, 1e6, 150).tolist(), 0.9999, 1.0, 708.0, 710.0]:
        mu = mp.mpf(upward(epsilon))
        with mp.workdps(80):
            assert truth(mu * (1 - mp.mpf("2e-13"))) <= epsilon <= truth(mu), epsilon


def test_pure_dp_of_mu_is_never_over_the_truth_and_barely_under() -> None:
    for mu in [*np.geomspace(1e-12, 1e4, 150).tolist(), 0.9999, 1.0, 1.0001, 75.0, 77.0]:
        epsilon = mp.mpf(pure_dp_of_mu(mu))
        with mp.workdps(80):
            assert epsilon <= true_pure_dp(mu) <= epsilon * (1 + mp.mpf("2e-13")), mu


@given(mu=spread(-300, 150), a=st.floats(-8, 40) | spread(-10, 40))
@relaxed
def test_log_delta_is_rounded_up_over_the_whole_range(mu: float, a: float) -> None:
    epsilon = max(mu * (a + mu / 2), 0.0)
    truth = true_log_delta(mu, epsilon)
    found = log_delta_of_gdp(mu, epsilon)
    assert truth <= found <= min(truth + stated_margin(float(truth)), 0)


@given(mu=spread(-300, 60), ratio=spread(61, 245))
@relaxed
def test_log_delta_keeps_over_its_leading_term_where_no_oracle_reaches(
    mu: float, ratio: float
) -> None:
    epsilon = mu * ratio
    exact_a = Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2
    # δ = φ(a) (M(a) − M(b)); the bracket's logarithm, over −3000, vanishes beside the margin.
    leading = -exact_a * exact_a / 2
    found = Fraction(log_delta_of_gdp(mu, epsilon))
    assert leading <= found
    assert found <= max(leading, -Fraction(LARGEST)) * (1 - Fraction(1, 10**14))


@given(mu=any_mu, epsilon=any_epsilon, own_delta=any_delta)
@relaxed
def test_own_delta_is_added_without_rounding_down(
    mu: float, epsilon: float, own_delta: float
) -> None:
    total = Fraction(delta_of_gdp(mu, epsilon, own_delta))
    assert total == 1 or total >= Fraction(delta_of_gdp(mu, epsilon)) + Fraction(own_delta)


# Edges


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-300, 1e308), (SMALLEST, LARGEST), (1.0, 1e3)])
def test_a_delta_too_small_for_a_float_is_the_smallest_float(mu: float, epsilon: float) -> None:
    assert delta_of_gdp(mu, epsilon) == SMALLEST
    assert -LARGEST <= log_delta_of_gdp(mu, epsilon) < math.log(SMALLEST)


def test_a_log_delta_too_small_for_a_float_is_still_finite() -> None:
    assert math.isfinite(log_delta_of_gdp(1e-300, 1e308))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 1e308])
def test_delta_is_1_where_mu_is_huge(epsilon: float) -> None:
    assert delta_of_gdp(1e300, epsilon) == 1.0
    assert log_delta_of_gdp(1e300, epsilon) == 0.0


def test_delta_never_passes_1() -> None:
    assert delta_of_gdp(10.0, 0.0, own_delta=0.5) == 1.0


@pytest.mark.parametrize("delta", [0.0, SMALLEST, 1e-9, 0.3])
def test_epsilon_is_infinite_unless_delta_exceeds_the_guarantees_own(delta: float) -> None:
    assert epsilon_of_gdp(1.0, delta, own_delta=delta) == math.inf
    assert epsilon_of_gdp(1.0, delta, own_delta=math.nextafter(delta, 1.0)) == math.inf
    assert epsilon_of_gdp(1.0, math.nextafter(delta, 1.0), own_delta=delta) < math.inf


def test_epsilon_is_infinite_where_no_float_is_large_enough() -> None:
    assert epsilon_of_gdp(1e300, 0.5) == math.inf
    assert epsilon_of_gdp(1e154, 0.5) < math.inf


@pytest.mark.parametrize("mu", [1e-300, 1e-3, 1.0, 4.0])
def test_epsilon_is_0_where_total_variation_is_within_delta(mu: float) -> None:
    variation = float(true_delta(mu, 0.0))
    assert epsilon_of_gdp(mu, variation * (1 + 3e-12)) == 0.0
    assert epsilon_of_gdp(mu, variation * (1 - 1e-9)) > 0.0


def test_no_epsilon_costs_no_mu() -> None:
    assert mu_of_pure_dp(0.0) == mu_of_laplace(0.0) == 0.0


@pytest.mark.parametrize("upward", [mu_of_pure_dp, mu_of_laplace])
@pytest.mark.parametrize("epsilon", [SMALLEST, 2 * SMALLEST, 1e-310, 1e-300, 1e-200])
def test_tiny_pure_budgets_follow_their_tangent_rounded_up(upward, epsilon: float) -> None:
    tangent = mp.sqrt(mp.pi / 2) * mp.mpf(epsilon)
    assert tangent <= upward(epsilon) <= tangent * (1 + mp.mpf("2e-13")) + 3 * SMALLEST


@pytest.mark.parametrize("mu", [SMALLEST, 1e-310, 0.99e-300, 1.01e-300, 1e-200])
def test_tiny_mu_follow_their_tangent_rounded_down(mu: float) -> None:
    tangent = mp.sqrt(2 / mp.pi) * mp.mpf(mu)
    assert tangent * (1 - mp.mpf("2e-13")) - 2 * SMALLEST <= pure_dp_of_mu(mu) <= tangent


@pytest.mark.parametrize("mu", [0.99e100, 2.01e100, 1e150, 3e154, 1e300, LARGEST])
def test_huge_mu_buy_at_most_an_eighth_of_their_square(mu: float) -> None:
    # −ln Φ(−x) is x²/2 + ln x + O(1), and ln x is far under the margin here.
    leading = Fraction(mu) ** 2 / 8
    epsilon = Fraction(pure_dp_of_mu(mu))
    assert epsilon <= leading
    assert epsilon >= min(leading, Fraction(LARGEST)) * (1 - Fraction(2, 10**13))


# Properties over the extreme ranges. pytest turns every warning into a failure.


@given(mu=any_mu, epsilon=any_epsilon, delta=any_delta)
@relaxed
def test_nothing_overflows_or_is_undefined(mu: float, epsilon: float, delta: float) -> None:
    assert 0.0 < delta_of_gdp(mu, epsilon) <= 1.0
    assert delta <= delta_of_gdp(mu, epsilon, delta) <= 1.0
    assert -LARGEST <= log_delta_of_gdp(mu, epsilon) <= 0.0
    assert epsilon_of_gdp(mu, delta) >= 0.0
    assert epsilon_of_gdp(mu, delta, delta / 2) >= 0.0
    assert 0.0 < mu_of_approx_dp(epsilon, delta) < math.inf
    assert 0.0 <= mu_of_laplace(epsilon) <= mu_of_pure_dp(epsilon) * (1 + 1e-12) < math.inf
    assert 0.0 <= pure_dp_of_mu(mu) <= LARGEST


@given(mu=any_mu, delta=any_delta, own_delta=st.just(0.0) | any_delta)
@relaxed
def test_the_epsilon_of_a_delta_keeps_within_that_delta(
    mu: float, delta: float, own_delta: float
) -> None:
    epsilon = epsilon_of_gdp(mu, delta, own_delta)
    if epsilon < math.inf:
        assert delta_of_gdp(mu, epsilon, own_delta) <= delta


@given(epsilon=any_epsilon, delta=any_delta)
@relaxed
def test_the_mu_of_a_budget_keeps_within_that_budget(epsilon: float, delta: float) -> None:
    mu = mu_of_approx_dp(epsilon, delta)
    assert delta_of_gdp(mu, epsilon) <= delta
    assert epsilon_of_gdp(mu, delta) <= epsilon


@given(mu=usual_mu, epsilon=st.floats(1e-12, 0.01))
@settings(relaxed, max_examples=200)
def test_the_mu_of_a_budget_keeps_within_it_where_delta_is_flat(mu: float, epsilon: float) -> None:
    # ε is so small beside μ that one unit of δ is many units of ε.
    delta = delta_of_gdp(mu, epsilon)
    assume(delta < 1)
    assert epsilon_of_gdp(mu_of_approx_dp(epsilon, delta), delta) <= epsilon


@given(mu=usual_mu, delta=usual_delta)
@relaxed
def test_mu_returns_from_its_epsilon(mu: float, delta: float) -> None:
    epsilon = epsilon_of_gdp(mu, delta)
    if epsilon > 0:
        assert mu_of_approx_dp(epsilon, delta) == pytest.approx(mu, rel=1e-9)


@given(epsilon=any_epsilon)
@relaxed
def test_pure_epsilon_returns_from_its_mu_never_smaller(epsilon: float) -> None:
    returned = pure_dp_of_mu(mu_of_pure_dp(epsilon))
    assert epsilon <= returned <= epsilon * (1 + 1e-12) + 2 * SMALLEST


@given(mu=any_mu)
@relaxed
def test_mu_returns_from_its_pure_epsilon_never_larger(mu: float) -> None:
    epsilon = pure_dp_of_mu(mu)
    returned = mu_of_pure_dp(epsilon)
    assert returned <= mu
    if epsilon < LARGEST:
        assert returned >= mu * (1 - 1e-12) - 3 * SMALLEST


@given(mu=any_mu, epsilons=st.tuples(any_epsilon, any_epsilon))
@relaxed
def test_delta_falls_as_epsilon_grows(mu: float, epsilons: tuple[float, float]) -> None:
    low, high = sorted(epsilons)
    rounding = 1e-13 + 1e-15 * abs(log_delta_of_gdp(mu, high))
    assert log_delta_of_gdp(mu, high) <= log_delta_of_gdp(mu, low) + rounding


@given(mus=st.tuples(any_mu, any_mu), epsilon=any_epsilon)
@relaxed
def test_delta_grows_with_mu(mus: tuple[float, float], epsilon: float) -> None:
    low, high = sorted(mus)
    rounding = 1e-13 + 1e-15 * abs(log_delta_of_gdp(low, epsilon))
    assert log_delta_of_gdp(low, epsilon) <= log_delta_of_gdp(high, epsilon) + rounding


@given(mu=any_mu, deltas=st.tuples(usual_delta, usual_delta))
@relaxed
def test_epsilon_falls_as_delta_grows(mu: float, deltas: tuple[float, float]) -> None:
    low, high = sorted(deltas)
    more = epsilon_of_gdp(mu, low)
    assert epsilon_of_gdp(mu, high) <= more + 1e-9 * max(more, mu)


@given(mus=st.tuples(any_mu, any_mu), delta=usual_delta)
@relaxed
def test_epsilon_grows_with_mu(mus: tuple[float, float], delta: float) -> None:
    low, high = sorted(mus)
    more = epsilon_of_gdp(high, delta)
    assert epsilon_of_gdp(low, delta) <= more + 1e-9 * max(more, high)


@given(epsilons=st.tuples(any_epsilon, any_epsilon), delta=usual_delta)
@relaxed
def test_a_larger_budget_buys_a_larger_mu(epsilons: tuple[float, float], delta: float) -> None:
    low, high = sorted(epsilons)
    assert mu_of_approx_dp(low, delta) <= mu_of_approx_dp(high, delta) * (1 + 1e-11)


@given(epsilon=spread(-300, 308))
@relaxed
def test_laplace_costs_less_than_the_worst_pure_mechanism(epsilon: float) -> None:
    assert mu_of_laplace(epsilon) <= mu_of_pure_dp(epsilon) * (1 + 3e-13)
