"""Rank inversion: its threshold against brute force, its budget, its coverage on hard cases."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import GDP, Mean, Median, Quantile, RankInversion, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.rank_inversion import RankInversionPlan
from confidp.errors import InvalidType
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


def plan_for(n, *, q=0.5, bounds=(0, 1), mu=1.0, level=0.9, resolution=None) -> RankInversionPlan:
    statistic = Quantile(q, bounds, resolution).for_shape(n, 1)
    return RankInversion().plan(statistic, Request(n, mu, level, 1))


@given(st.floats(1e-3, 1e3), st.integers(2, 10**6))
@settings(deadline=None, max_examples=20)
def test_all_counts_that_may_be_asked_stay_within_the_budget_and_near_it(mu, n):
    plan = plan_for(n, mu=mu)
    spent = sum(2 * count * Fraction(m.mu) ** 2 for m, count in plan.asks)
    assert Fraction(mu) ** 2 * Fraction(9, 10) <= spent <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    asked = sum(2 * count for _, count in plan.asks)
    assert plan.cost.delta >= asked * lattice_delta(min(m.mu for m, _ in plan.asks)) * 0.999


def test_no_bisection_asks_more_often_than_it_is_charged_for():
    plan = plan_for(300)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        asked = []
        plan.lower_end(
            lambda x, asked=asked, rng=rng: asked.append(x) or int(rng.integers(300)),
            plan.thresholds[0],
            Randomness.of(seed),
        )
        assert len(asked) <= sum(count for _, count in plan.asks)


@pytest.mark.parametrize(("n", "q"), [(30, 0.5), (100, 0.9), (500, 0.1), (50, 0.01)])
@pytest.mark.parametrize("mu", [0.25, 2.0])
def test_the_threshold_keeps_the_chance_of_a_wrong_end_at_half_of_alpha(n, q, mu):
    plan = plan_for(n, q=q, mu=mu)
    t = plan.thresholds[0]
    # The docstring's formula, summed over every count.
    counts = np.arange(n + 1)
    safe = np.ones(n + 1)
    for k, (mechanism, asks) in enumerate(plan.asks):
        margin = 0 if k == len(plan.asks) - 1 else 4
        safe *= stats.norm.cdf((counts - t) / mechanism.scale + margin) ** asks
    missed = 1 - (stats.binom.pmf(counts, n, q) * safe).sum()
    assert 0.0499 < missed <= 0.05


def two_clusters(share):
    return lambda rng, n: np.where(rng.random(n) < share, 0.2, 0.8) + 1e-3 * rng.random(n)


def atom(rng, n):
    return np.where(rng.random(n) < 0.505, 0.0, rng.random(n))


HARD = {
    "uniform": (lambda rng, n: rng.random(n), (0, 1), 0.5, 0.5),
    "clusters, the quantile just right of the gap": (
        two_clusters(0.499), (0, 1), 0.5, 0.8 + 1e-3 * 0.001 / 0.501
    ),
    "clusters, just left of it": (two_clusters(0.501), (0, 1), 0.5, 0.2 + 1e-3 * 0.5 / 0.501),
    "clusters, left of it": (two_clusters(0.51), (0, 1), 0.5, 0.2 + 1e-3 * 0.5 / 0.51),
    "an atom at the bound that holds the quantile": (atom, (0, 77), 0.5, 0.0),
    "constant": (lambda rng, n: np.full(n, 0.25), (0, 1), 0.5, 0.25),
    "bounds a thousand times too wide": (lambda rng, n: rng.random(n), (-500, 500), 0.9, 0.9),
    "a far quantile": (lambda rng, n: rng.random(n), (0, 1), 0.99, 0.99),
    "a far quantile on the other side": (lambda rng, n: rng.random(n), (0, 1), 0.01, 0.01),
}  # fmt: skip


@pytest.mark.parametrize("mu", [0.25, 1.0])
@pytest.mark.parametrize("case", HARD)
def test_it_covers_on_every_distribution(case, mu):
    draw, bounds, q, truth = HARD[case]
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(100):
        region = confidence_region(
            draw(rng, 400),
            Quantile(q, bounds),
            budget=GDP(mu),
            confidence_level=0.9,
            method=RankInversion(),
            rng=rng,
        )
        covered += region.contains(truth)
    assert binomtest(covered, 100, 0.9, "less").pvalue > FALSE_ALARM


def test_with_no_noise_to_speak_of_it_is_the_order_statistic_interval():
    rng = np.random.default_rng(6)
    data = rng.random(1001)
    region = confidence_region(
        data, Median((0, 1)), budget=GDP(1e6), confidence_level=0.9, method=RankInversion(), rng=9
    )
    ordered = np.sort(data)
    below = int(stats.binom.ppf(0.05, 1001, 0.5))  # P(N < below) < 0.05 ≤ P(N ≤ below)
    expected = (ordered[below - 1], ordered[1001 - below])
    assert region.interval == pytest.approx(expected, abs=1e-4)


def test_at_mu_1_it_is_a_fraction_of_the_width_of_a_region_by_smooth_sensitivity():
    rng = np.random.default_rng(7)
    data = rng.uniform(-1, 1, 2000)
    options = {"budget": GDP(1.0, 1e-6), "confidence_level": 0.9, "rng": 8}
    region = confidence_region(data, Median((-1, 1)), **options)
    assert region.method == "rank inversion"
    low, high = np.sort(data)[[963, 1036]]  # the non-private interval's order statistics
    assert region.radius < 0.75 * (high - low)


def test_ends_that_are_half_a_step_wider_hold_the_quantile_of_whole_numbers():
    ages = np.full(500, 40.0)
    region = confidence_region(
        ages, Median((0, 100), resolution=1), budget=GDP(2.0), method=RankInversion(), rng=4
    )
    assert region.interval == (39.5, 40.5)
    assert region.contains(40)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_tiny_data_sets_give_wide_intervals_and_no_error(n):
    region = confidence_region(
        np.linspace(0, 1, n), Median((0, 1)), budget=GDP(0.5), method=RankInversion(), rng=1
    )
    assert math.isfinite(region.radius)
    low, high = region.interval
    assert low >= -1e-9
    assert high <= 1 + 1e-9


def test_only_quantiles_are_taken():
    with pytest.raises(InvalidType, match="RankInversion needs a quantile"):
        confidence_region(np.zeros(9), Mean((0, 1)), budget=GDP(1.0), method=RankInversion())
