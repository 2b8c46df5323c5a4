"""Private variance: its noise, its proof's two sensitivities, and the half-width that it makes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import GDP, Mean, Median, PrivateVariance, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.private_variance import PrivateVariancePlan
from confidp.errors import ConfidpError, InvalidType

FALSE_ALARM = 1e-6


def plan_for(n, *, bounds=(0, 1), mu=1.0, level=0.9, share=0.8) -> PrivateVariancePlan:
    statistic = Mean(bounds).for_shape(n, 1)
    return PrivateVariance(share).plan(statistic, Request(n, mu, level, 1))


def test_the_noise_scales_are_those_of_the_docstring():
    plan = plan_for(500, bounds=(-1, 3), mu=0.5)
    assert plan.public["center_noise"] == pytest.approx(4 / 500 / (0.5 * math.sqrt(0.8)))
    assert plan.public["variance_noise"] == pytest.approx(16 / 500 / (0.5 * math.sqrt(0.2)))


@given(st.floats(1e-3, 1e3), st.floats(0.01, 0.99))
def test_the_two_parts_compose_to_no_more_than_the_budget(mu, share):
    plan = plan_for(50, mu=mu, share=share)
    total = Fraction(plan.center.mu) ** 2 + Fraction(plan.spread.mu) ** 2
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -50) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu


@given(st.integers(0, 2**32), st.integers(2, 30))
@settings(deadline=None)
def test_no_neighbours_move_mean_or_variance_by_more_than_the_noise_allows_for(seed, n):
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 1.0, 0.5, 1 / 3], size=(n, 1))
    other = rows.copy()
    other[rng.integers(n)] = rng.choice([0.0, 1.0])
    plan = plan_for(n)
    encode, exact = plan.statistic.encode, plan.variance.exact
    assert abs(exact(encode(rows)) - exact(encode(other))) <= plan.spread.sensitivity
    moved = abs(int(encode(rows).sum()) - int(encode(other).sum())) * plan.statistic.grids[0].step
    assert moved / n <= plan.center.sensitivity


def test_the_variances_sensitivity_is_attained():
    plan = plan_for(20)
    zeros, one = np.zeros((20, 1)), np.zeros((20, 1))
    one[3] = 1.0
    exact, encode = plan.variance.exact, plan.statistic.encode
    assert exact(encode(one)) - exact(encode(zeros)) == plan.spread.sensitivity


def test_with_no_noise_to_speak_of_it_is_the_t_interval():
    data = np.random.default_rng(1).gamma(2.0, size=80)
    region = confidence_region(
        data, Mean((0, 20)), budget=GDP(1e8), method=PrivateVariance(), confidence_level=0.9
    )
    expected = stats.t.interval(0.9, 79, data.mean(), stats.sem(data))
    assert region.interval == pytest.approx(expected, abs=1e-6)


def test_the_half_width_counts_all_three_errors():
    plan = plan_for(200, mu=0.5)
    t, d, nu = stats.t.isf(0.05, 199), plan.spread.scale, plan.center.scale
    for variance in (3 * d, d, 0.1 * d, -2 * d):
        counted = max(variance, 0) + (t * t + 1) / 4 * d * d / max(variance, d)
        expected = t * math.sqrt(counted / 200 + nu * nu)
        assert plan.half_width(variance) == pytest.approx(expected)


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("share_of_ones", [0.05, 0.5])
def test_it_covers_at_budgets_where_published_regions_fall_short(mu, share_of_ones):
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        data = (rng.random(500) < share_of_ones).astype(float)
        region = confidence_region(
            data, Mean((0, 1)), budget=GDP(mu), confidence_level=0.9, rng=rng
        )
        covered += region.contains(share_of_ones)
    assert region.method == "private variance"
    assert binomtest(covered, 400, 0.9, "less").pvalue > FALSE_ALARM


def test_constant_data_give_an_interval_that_holds_them():
    region = confidence_region(np.full(1000, 0.5), Mean((0, 1)), budget=GDP(1.0), rng=3)
    assert region.contains(0.5)
    assert region.radius < 0.02


def test_only_means_of_one_column_are_taken():
    for statistic, rows in ((Median((0, 1)), np.zeros(9)), (Mean((0, 1)), np.zeros((9, 2)))):
        with pytest.raises(InvalidType, match="PrivateVariance needs a mean of one column"):
            confidence_region(rows, statistic, budget=GDP(1.0, 1e-6), method=PrivateVariance())


@pytest.mark.parametrize("share", [0, 1, -1, math.nan, "half"])
def test_a_share_that_leaves_nothing_is_refused(share):
    with pytest.raises(ConfidpError, match="center_share"):
        PrivateVariance(share)
