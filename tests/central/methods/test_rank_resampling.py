"""Quantiles resampled by rank: the ranks' law, what one record can move, and coverage."""

import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare, norm

from confidp import CRSS, GDP, Median, Quantile, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware import _ERROR, calibrated_reach
from confidp.central.methods.rank_resampling import RankResamplingPlan, draw_ranks
from confidp.central.resampling import Resampling, Sampling
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
SAMPLINGS = ["with_replacement", "without_replacement"]


def plan_for(
    n, *, q=0.5, bounds=(0, 1), mu=8.0, delta=1e-6, side="two-sided", **settings
) -> RankResamplingPlan:
    statistic = Quantile(q, bounds).for_shape(n, 1)
    plan = CRSS(**settings).plan(statistic, Request(n, mu, 0.9, 50, delta, side))
    assert isinstance(plan, RankResamplingPlan)
    return plan


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("at", [(1,), (3,), (2,), (1, 3), (2, 2), (1, 2, 3)])
@pytest.mark.parametrize("n", [4, 6])
def test_ranks_are_those_of_a_uniform_resample(sampling, at, n):
    m, draws = 3, 20_000
    resampling = Resampling.choose(n, draws, Sampling(sampling), m)
    drawn = draw_ranks(resampling, at, np.random.default_rng(1))
    if resampling.sampling is Sampling.WITH_REPLACEMENT:
        sets = list(product(range(1, n + 1), repeat=m))
    else:
        sets = list(combinations(range(1, n + 1), m))
    expected = Counter(tuple(sorted(s)[h - 1] for h in at) for s in sets)
    found = Counter(map(tuple, drawn.tolist()))
    assert set(found) <= set(expected)
    if len(expected) == 1:
        return
    counts = np.array([[found[key], expected[key]] for key in expected])
    p = chisquare(counts[:, 0], counts[:, 1] * (draws / len(sets))).pvalue
    assert p > FALSE_ALARM / 24  # settings


@given(st.floats(1e-3, 1e5), st.floats(1e-12, 0.5), st.sampled_from(SAMPLINGS))
@settings(deadline=None)
def test_the_parts_compose_to_the_budget_in_equal_shares(mu, delta, sampling):
    plan = plan_for(100, mu=mu, delta=delta, sampling=sampling)
    parts = [plan.center.mu_bound, plan.center.mu_value, plan.radius.mu_bound, plan.radius.mu_value]
    assert parts == pytest.approx([mu / 2] * 4)
    assert sum(part**2 for part in parts) <= mu**2 * (1 + 1e-12)
    assert plan.cost.mu == mu
    assert plan.cost.delta <= delta
    for part in (plan.center, plan.radius):
        expected = min(0.5, norm.isf(delta / 2) / part.mu_bound)  # β is 1 at most
        assert part.log_inflation == pytest.approx(expected, rel=1e-6)


def test_a_quarter_of_the_records_is_the_default_and_the_finite_population_is_corrected_for():
    plan = plan_for(1000)
    assert plan.public["resample_size"] == 250
    assert plan.rate == pytest.approx(math.sqrt(1 / 3))
    assert plan_for(1000, sampling="with_replacement").rate == pytest.approx(0.5)
    assert plan_for(3).public["resample_size"] == 1
    assert plan_for(1000, resample_size=500).rate == pytest.approx(1.0)


def test_settings_that_are_given_are_used():
    plan = plan_for(100, beta=0.3, shares=(1, 1, 2, 4), sampling="with_replacement")
    assert plan.center.beta == plan.radius.beta == 0.3
    assert plan.radius.mu_value == pytest.approx(8 * math.sqrt(0.5))


def smooth(order: list[int], r: int, beta: float) -> float:
    """S_β at rank r by its definition; `order` has the bounds at both ends."""
    x, places = np.array(order), np.arange(len(order))
    apart = places[None, r:] - places[: r + 1, None]
    gaps = (x[None, r:] - x[: r + 1, None]) * np.exp(-beta * (apart - 1))
    return float(gaps[apart > 0].max())


@pytest.mark.parametrize("q", [0.5, 0.05, [0.2, 0.5, 0.95]])
@pytest.mark.parametrize("beta", [0.003, 0.3])
def test_pivots_and_bounds_are_the_stated_ones(q, beta):
    rng = np.random.default_rng(3)
    plan = plan_for(90, q=q, beta=beta)
    quantile, step = plan.statistic, float(plan.statistic.grid.step)
    records = quantile.encode(rng.beta(0.5, 3, (90, 1)))
    own = quantile.ranks(90)
    ranks = rng.integers(1, 91, (50, len(own)))
    private = plan.pivots(records, ranks)

    order = [0, *sorted(records.tolist()), quantile.grid.cells]
    assert [float(x) for x in private.estimate] == pytest.approx([order[h] * step for h in own])
    pivots = [
        [(order[r] - order[h]) * step * plan.rate for r, h in zip(row, own, strict=True)]
        for row in ranks.tolist()
    ]
    np.testing.assert_allclose(private.pivots, pivots, rtol=1e-12)
    at = {r: smooth(order, r, beta) * step for r in range(1, 91)}
    assert private.center_bound == pytest.approx(math.hypot(*(at[h] for h in own)), rel=1e-9)
    largest = max(
        math.hypot(*(max(at[r], at[h]) for r, h in zip(row, own, strict=True)))
        for row in ranks.tolist()
    )
    assert private.radius_bound == pytest.approx(plan.rate * largest, rel=1e-9)


@pytest.mark.parametrize("away", [100, 300, 400, 900])
def test_a_gap_counts_from_afar(away):
    # Small ones nearby, as if they were all there is; the large one decides.
    plan, n = plan_for(2000, beta=0.02), 2000
    values = 0.1 + 1e-5 * np.arange(n) + 0.5 * (np.arange(n) >= 999 + away)
    records = plan.statistic.encode(values[:, None])
    private = plan.pivots(records, np.full((50, 1), 1000))
    order = [0, *records.tolist(), plan.statistic.grid.cells]
    expected = smooth(order, 1000, 0.02) * float(plan.statistic.grid.step)
    assert private.center_bound == pytest.approx(expected, rel=1e-9)
    assert private.radius_bound == pytest.approx(plan.rate * expected, rel=1e-9)


@st.composite
def neighbours(draw):
    n = draw(st.integers(3, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    beta = draw(st.sampled_from([0.01, 0.2, 1.0]))
    q = draw(st.sampled_from([0.5, 0.01, 0.9, [0.3, 0.6]]))
    points = rng.choice([0.0, 1.0, 0.5, 0.25, 0.5 + 2**-20], size=(n + 1, 1))
    other = points[:n].copy()
    other[rng.integers(n)] = points[n]
    plan = plan_for(n, q=q, beta=beta, resample_size=draw(st.integers(1, n - 1)))
    return plan, points[:n], other, rng.integers(1, n + 1, (2, len(plan.statistic.qs)))


@given(neighbours(), st.floats(0.01, 100), st.sampled_from(["two-sided", "greater", "less"]))
@settings(deadline=None, max_examples=400)
def test_no_neighbours_move_what_is_released_beyond_its_bounds_or_these_beyond_smoothness(
    case, ratio, side
):
    plan, data, other, ranks = case
    first, second = (plan.pivots(plan.statistic.encode(rows), ranks) for rows in (data, other))
    slack = 1 + 1e-11
    center = min(first.center_bound, second.center_bound) * slack
    radius = min(first.radius_bound, second.radius_bound) * slack
    moved = [float(a - b) for a, b in zip(first.estimate, second.estimate, strict=True)]
    assert math.hypot(*moved) <= center
    assert np.linalg.norm(first.pivots - second.pivots, axis=1).max() <= radius
    assert abs(math.log(first.center_bound / second.center_bound)) <= plan.center.beta + 1e-11
    assert abs(math.log(first.radius_bound / second.radius_bound)) <= plan.radius.beta + 1e-11
    if len(moved) > 1:
        return
    # At one and the same pair of scales, as the released bounds give, Q moves by no more.
    reaches = [
        calibrated_reach(p.pivots, ratio * radius, radius, 0.9, side) for p in (first, second)
    ]
    assert abs(reaches[0] - reaches[1]) <= radius * (1 + 2 * _ERROR)


def test_equal_records_whose_bounds_underflow_are_released_like_others():
    plan = plan_for(4000, beta=1.0)
    records = plan.statistic.encode(np.full((4000, 1), 0.5))
    private = plan.pivots(records, np.full((50, 1), 2000))
    assert 0 < private.radius_bound < 1e-15
    assert 0 < private.center_bound < 1e-15


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("q", [0.5, 0.9, [0.25, 0.5, 0.75]])
@pytest.mark.parametrize("side", ["two-sided", "greater"])
def test_it_covers(sampling, q, side):
    if side != "two-sided" and isinstance(q, list):
        return
    rng, n, data_sets, covered = np.random.default_rng(5), 500, 80, 0
    for _ in range(data_sets):
        region = confidence_region(
            rng.exponential(size=n),
            Quantile(q, bounds=(0, 10)),
            budget=GDP(4.0, 1e-6),
            confidence_level=0.9,
            alternative=side,
            method=CRSS(sampling),
            n_resamples=200,
            rng=rng,
        )
        covered += region.contains(-np.log1p(-np.array(q)))
    assert binomtest(covered, data_sets, 0.88, "less").pvalue > FALSE_ALARM / 10


def test_ranks_need_a_fraction_of_the_noise_that_resamples_need():
    class Plain(Quantile):
        """One whose resamples are drawn."""

    data, noise = np.random.default_rng(2).random((2000, 1)), []
    for statistic in (Median((0, 1)), Plain(0.5, (0, 1))):
        plan = CRSS(beta=0.1).plan(statistic.for_shape(2000, 1), Request(2000, 2.0, 0.9, 200, 1e-6))
        released = plan.release(plan.statistic.encode(data), Randomness.of(3))
        noise.append(released.public["radius_noise"])
    assert noise[0] < 0.5 * noise[1]
