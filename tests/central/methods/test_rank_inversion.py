"""Rank inversion: its threshold against brute force, its budget, its coverage on hard cases."""

import math
from collections import Counter
from dataclasses import dataclass, replace
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
from confidp.central.methods.rank_search import search
from confidp.central.methods.rank_sketch import Sketch
from confidp.errors import InvalidArgument, InvalidType
from confidp.privacy.noise import GaussianMechanism, lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


def plan_for(
    n, *, q=0.5, bounds=(0, 1), mu=1.0, level=0.9, resolution=None, alternative="two-sided"
) -> RankInversionPlan:
    statistic = Quantile(q, bounds, resolution).for_shape(n, 1)
    return RankInversion().plan(statistic, Request(n, mu, level, 1, alternative=alternative))


@given(st.floats(1e-3, 1e3), st.integers(2, 10**6), st.sampled_from([0.5, [0.1, 0.5], 0.01]))
@settings(deadline=None, max_examples=20)
def test_all_counts_that_may_be_asked_stay_within_the_budget_and_near_it(mu, n, q):
    plan = plan_for(n, q=q, mu=mu)
    asks = [ask for end in plan.ends for ask in end.asks]
    spent = sum(ask.count * Fraction(ask.mechanism.mu) ** 2 for ask in asks)
    assert Fraction(mu) ** 2 * Fraction(9, 10) <= spent <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    least = lattice_delta(min(ask.mechanism.mu for ask in asks))
    assert plan.cost.delta >= sum(ask.count for ask in asks) * least * 0.999


def test_no_search_asks_more_often_than_it_is_charged_for():
    plan = plan_for(300)
    for end in plan.ends:
        for seed in range(20):
            rng = np.random.default_rng(seed)
            asked = Counter()
            asks = tuple(replace(a, mechanism=Counting(a.mechanism, asked)) for a in end.asks)
            sketch = Sketch.blank(300, plan.statistic.grid.cells + 1)
            wild = lambda x, rng=rng: int(rng.integers(301))  # noqa: E731
            search(wild, asks, end.threshold, sketch, Randomness.of(seed))
            assert all(asked[a.noise] <= allowed for a, allowed in by_scale(end.asks))


@dataclass(frozen=True)
class Counting:
    """A mechanism that counts its releases by scale."""

    mechanism: GaussianMechanism
    asked: Counter

    @property
    def scale(self):
        return self.mechanism.scale

    def release(self, value, randomness):
        self.asked[self.scale] += 1
        return self.mechanism.release(value, randomness)


def by_scale(asks):
    """Each ask, and how many are allowed at its scale in all."""
    allowed = Counter()
    for ask in asks:
        allowed[ask.noise] += ask.count
    return [(ask, allowed[ask.noise]) for ask in asks]


@pytest.mark.parametrize(("n", "q"), [(30, 0.5), (100, 0.9), (500, 0.1), (50, 0.01)])
@pytest.mark.parametrize("mu", [0.25, 2.0])
@pytest.mark.parametrize(("alternative", "miss"), [("two-sided", 0.05), ("greater", 0.1)])
def test_the_threshold_keeps_the_chance_of_a_wrong_end_at_its_share_of_alpha(
    n, q, mu, alternative, miss
):
    end = plan_for(n, q=q, mu=mu, alternative=alternative).ends[0]
    # The docstring's formula, summed over every count.
    counts = np.arange(n + 1)
    safe = np.ones(n + 1)
    for ask in end.asks:
        standing = (counts - end.threshold) / ask.noise + ask.margin
        safe *= stats.norm.cdf(standing) ** ask.count
    missed = 1 - (stats.binom.pmf(counts, n, q) * safe).sum()
    assert 0.999 * miss < missed <= miss


def test_a_point_is_believed_by_the_margin_of_its_scale_only():
    plan = plan_for(400)
    end = plan.ends[0]
    for ask in end.asks:
        # An exact count a hair over what is believed never moves the end, a hair under does.
        for shift, moved in ((1e-6, False), (-1e-6, True)):
            fixed = end.threshold - ask.margin * ask.noise + shift
            alone = (replace(ask, mechanism=Saying(fixed, ask.noise)),)
            sketch = Sketch.blank(400, plan.statistic.grid.cells + 1)
            low, _ = search(lambda x: x, alone, end.threshold, sketch, Randomness.of(1))
            assert (low > 0) == moved


@dataclass(frozen=True)
class Saying:
    """A mechanism that always says the same."""

    answer: float
    scale: float

    def release(self, value, randomness):
        return (Fraction(self.answer),)


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
    low, high = region.interval
    # Or one further in: the noise, though tiny, makes a randomised and so an exact test.
    assert ordered[below - 1] - 1e-4 <= low <= ordered[below] + 1e-4
    assert ordered[1000 - below] - 1e-4 <= high <= ordered[1001 - below] + 1e-4


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


def test_on_smooth_data_it_is_a_tenth_wider_than_without_privacy_at_mu_1():
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(60):
        data = rng.uniform(-1, 1, 2000)
        region = confidence_region(
            data, Median((-1, 1)), budget=GDP(1.0), confidence_level=0.9, rng=rng
        )
        low, high = np.sort(data)[[962, 1037]]  # P(N < 963) ≤ 0.05
        ratios.append(2 * region.radius / (high - low))
    assert 1.0 < np.mean(ratios) < 1.2  # measured 1.10


def test_bounds_a_thousand_times_too_wide_cost_next_to_nothing():
    widths = {}
    for bounds in ((-1, 1), (-1000, 1000)):
        rng = np.random.default_rng(12)
        widths[bounds] = np.mean(
            [
                confidence_region(
                    rng.uniform(-1, 1, 2000),
                    Median(bounds),
                    budget=GDP(1.0),
                    confidence_level=0.9,
                    rng=rng,
                ).radius
                for _ in range(40)
            ]
        )
    assert widths[(-1000, 1000)] < 1.1 * widths[(-1, 1)]


QUARTILES = [0.25, 0.5, 0.75]


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("draw", [lambda rng, n: rng.random(n), atom], ids=["uniform", "atom"])
def test_several_quantiles_are_covered_at_once(draw, mu):
    truth = {True: QUARTILES, False: [0.0, 0.0, (0.75 - 0.505) / 0.495]}[draw is not atom]
    rng = np.random.default_rng(13)
    covered = 0
    for _ in range(100):
        region = confidence_region(
            draw(rng, 600), Quantile(QUARTILES, (0, 1)), budget=GDP(mu), confidence_level=0.9,
            rng=rng,
        )  # fmt: skip
        covered += region.contains(truth)
        lows, highs = zip(*region.intervals, strict=True)
        assert list(lows) == sorted(lows)
        assert list(highs) == sorted(highs)
    assert region.shape == "box"
    assert binomtest(covered, 100, 0.9, "less").pvalue > FALSE_ALARM


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize(("alternative", "at"), [("greater", 0), ("less", 1)])
def test_a_one_sided_bound_covers_and_is_tighter_than_the_end_of_an_interval(mu, alternative, at):
    rng = np.random.default_rng(14)
    options = {"budget": GDP(mu), "confidence_level": 0.9, "rng": rng}
    covered, bounds, ends = 0, [], []
    for _ in range(100):
        data = rng.random(400)
        region = confidence_region(data, Median((0, 1)), alternative=alternative, **options)
        covered += region.contains(0.5)
        assert region.interval[1 - at] == 1 - at  # the public bound
        assert region.interval[0] <= region.center[0] <= region.interval[1]
        bounds.append(region.interval[at])
        ends.append(confidence_region(data, Median((0, 1)), **options).interval[at])
    assert binomtest(covered, 100, 0.9, "less").pvalue > FALSE_ALARM
    assert abs(np.mean(bounds) - 0.5) < 0.9 * abs(np.mean(ends) - 0.5)


@pytest.mark.parametrize("q", [[], [0.5, 0.5], [0.9, 0.1], [0.5, 1.0], "0.5", [True]])
def test_quantiles_must_rise_within_0_and_1(q):
    with pytest.raises((InvalidArgument, InvalidType), match=r"^q must"):
        Quantile(q, (0, 1))


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
    with pytest.raises(InvalidType, match="RankInversion needs quantiles"):
        confidence_region(np.zeros(9), Mean((0, 1)), budget=GDP(1.0), method=RankInversion())
