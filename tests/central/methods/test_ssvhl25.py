"""SSVHL25, our reading: each step of its accounting, its interval, what it refuses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confidp import GDP, ApproxDP, Mean, Median, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.ssvhl25 import SSVHL25, SSVHL25Plan, single_epsilon
from confidp.errors import ConfidpError
from confidp.privacy.conversions import delta_of_gdp, mu_of_approx_dp, pure_dp_of_mu
from confidp.privacy.guarantees import pure_dp_to_gdp
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


def plan_for(n=2000, *, mu=8.0, delta=1e-6, n_resamples=100, m=None, level=0.9):
    request = Request(n, mu, level, n_resamples, delta)
    plan: SSVHL25Plan = SSVHL25(m).plan(Mean((0, 1)).for_shape(n, 1), request)
    return plan


@given(st.floats(0.01, 50), st.floats(1e-9, 0.1), st.integers(1, 2000), st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_the_steps_of_the_accounting_lead_back_to_no_more_than_the_budget(
    mu, delta, n_resamples, share
):
    n = 2000
    m = max(round(share * n), 1)
    plan = plan_for(n, mu=mu, delta=delta, n_resamples=n_resamples, m=m)
    # The estimator is (ε₀, δ₀)-DP.
    assert delta_of_gdp(plan.estimator.mu, plan.epsilon) <= plan.delta
    # Subsampling, then advanced composition, both forwards.
    one = math.log1p(m / n * math.expm1(plan.epsilon))
    slack = delta / 2
    total = one * (
        n_resamples * math.tanh(one / 2) + math.sqrt(2 * n_resamples * math.log(1 / slack))
    )
    total = min(total, n_resamples * one)
    assert total <= pure_dp_of_mu(mu)
    # No more than that is lost to rounding, as ε₁ is what is bounded.
    assert total >= pure_dp_of_mu(mu) * (1 - 1e-6)
    assert n_resamples * m / n * plan.delta + slack <= delta
    assert plan.cost == GDP(mu, delta)
    assert pure_dp_to_gdp(total).mu <= mu


def test_advanced_composition_is_the_known_formula():
    # 100 mechanisms at 0.1: 0.5 from the mean and √(200 ln 10⁶)·0.1 = 5.26 from the spread.
    assert single_epsilon(5.756, 100, 1e-6) == pytest.approx(0.1, rel=1e-3)
    assert single_epsilon(0.3, 1, 1e-6) == pytest.approx(0.3)  # one costs itself


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-6, 0.05])
def test_approximate_dp_is_gdp_with_the_same_delta(epsilon, delta):
    alpha = np.linspace(0, 1, 5001)
    worst = np.maximum.reduce(
        [1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha), 0 * alpha]
    )
    assert np.all(worst >= GDP(pure_dp_to_gdp(epsilon).mu, delta).tradeoff(alpha) - 1e-12)
    if delta == 1e-6:  # as δ → 0 no less μ will do
        less = GDP(0.95 * pure_dp_to_gdp(epsilon).mu, delta)
        assert np.any(worst < less.tradeoff(alpha) - 1e-6)


def test_noise_on_one_estimate_is_that_of_its_own_epsilon_and_delta():
    plan = plan_for(m=500)
    mu = mu_of_approx_dp(plan.epsilon, plan.delta)
    assert plan.estimator.mu == mu
    assert plan.estimator.scale == pytest.approx(1 / 500 / mu, rel=1e-9)


def test_the_interval_reflects_scaled_order_statistics():
    rng = np.random.default_rng(1)
    data = rng.uniform(0, 1, 300)
    plan = plan_for(300, mu=1e6, delta=0.5, n_resamples=40, m=60, level=0.8)
    records = plan.statistic.encode(data[:, None])
    ball = plan.release(records, Randomness.of(4))
    indices = Randomness.of(4).indices
    values = np.array([data[indices.choice(300, 60, replace=False)].mean() for _ in range(40)])
    pivots = np.sort(values - values.mean())
    rate = math.sqrt(60 / 300) / math.sqrt(1 - 60 / 300)
    ends = values.mean() - rate * pivots[[35, 3]]
    assert ball.center[0] - ball.radius == pytest.approx(ends[0], abs=1e-4)
    assert ball.center[0] + ball.radius == pytest.approx(ends[1], abs=1e-4)
    assert ball.public["estimate"] == pytest.approx(values.mean(), abs=1e-4)


def test_it_covers():
    rng = np.random.default_rng(4)
    covered = sum(
        confidence_region(
            rng.uniform(-1, 1, 1000), Mean((-1, 1)), budget=GDP(8.0, 1e-6), confidence_level=0.9,
            n_resamples=50, method=SSVHL25(), rng=rng,
        ).contains(0.0)
        for _ in range(60)
    )  # fmt: skip
    assert stats.binomtest(covered, 60, 0.9, "less").pvalue > FALSE_ALARM


def test_an_approximate_dp_budget_is_kept():
    region = confidence_region(
        np.random.default_rng(1).random(300), Mean((0, 1)), budget=ApproxDP(3.0, 1e-5),
        n_resamples=20, method=SSVHL25(), rng=1,
    )  # fmt: skip
    assert region.spent.epsilon(1e-5) <= 3.0
    assert "our reading" in region.method
    assert any("our reading" in line for line in region.assumes)


def test_what_does_not_suit_or_fit_is_refused():
    for statistic, columns in ((Mean((0, 1)), 2), (Median((0, 1)), 1)):
        with pytest.raises(ConfidpError, match="method must suit"):
            SSVHL25().plan(statistic.for_shape(50, columns), Request(50, 1.0, 0.9, 9, 1e-6))
    for delta in (0.0, 1e-22):
        with pytest.raises(ConfidpError, match="delta"):
            plan_for(delta=delta)
    with pytest.raises(ConfidpError, match="resample_size"):
        plan_for(20, m=20)
    with pytest.raises(ConfidpError, match="resample_size"):
        SSVHL25(0)
    assert plan_for(2).resample_size == 1
