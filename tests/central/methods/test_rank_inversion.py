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
from confidp.central.methods.noisy_counts import NoisyCounts
from confidp.central.methods.rank_inversion import RankInversionPlan
from confidp.central.methods.rank_search import Axis, search
from confidp.central.methods.rank_sketch import Sketch
from confidp.errors import InvalidArgument, InvalidType
from confidp.privacy.noise import lattice_delta
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
    asks = plan.asks
    spent = sum(ask.times * Fraction(ask.counts.mu) ** 2 for ask in asks)
    assert Fraction(mu) ** 2 * Fraction(9, 10) <= spent <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    numbers = 3 if isinstance(q, float) else 12  # of two counts, and of four
    least = lattice_delta(min(ask.counts.mu for ask in asks), numbers)
    assert plan.cost.delta >= sum(ask.times for ask in asks) * least * 0.999


@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize("q", [0.5, [0.25, 0.5, 0.75], 0.97, [0.05, 0.5, 0.9]])
def test_no_search_asks_more_often_than_it_is_charged_for(alternative, q):
    plan = plan_for(300, q=q, alternative=alternative)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        asked = Counter()
        asks = tuple(replace(a, counts=Counting(a.counts, asked)) for a in plan.asks)
        sketch = Sketch.blank(300, plan.statistic.grid.cells + 1)
        wild = lambda x, rng=rng: int(rng.integers(301))  # noqa: E731
        search(wild, plan.ends, asks, sketch, Randomness.of(seed))
        allowed = Counter()
        for ask in plan.asks:
            allowed[ask.noise] += ask.times
        assert asked
        assert all(asked[noise] <= allowed[noise] for noise in asked)


@dataclass(frozen=True)
class Counting:
    """Noisy counts that count their releases by scale."""

    counts: NoisyCounts
    asked: Counter

    @property
    def noise(self):
        return self.counts.noise

    def release(self, counts, randomness):
        self.asked[self.noise] += 1
        return self.counts.release(counts, randomness)


@pytest.mark.parametrize(("n", "q"), [(30, 0.5), (100, 0.9), (500, 0.1), (50, 0.01)])
@pytest.mark.parametrize("mu", [0.25, 2.0])
@pytest.mark.parametrize(("alternative", "miss"), [("two-sided", 0.05), ("greater", 0.1)])
def test_the_threshold_keeps_the_chance_of_a_wrong_end_at_its_share_of_alpha(
    n, q, mu, alternative, miss
):
    plan = plan_for(n, q=q, mu=mu, alternative=alternative)
    end = plan.ends[0]
    # The docstring's formula, summed over every count.
    counts = np.arange(n + 1)
    safe = np.ones(n + 1)
    for ask in plan.asks:
        standing = (counts - end.threshold) / ask.noise + ask.margin
        safe *= stats.norm.cdf(standing) ** ask.times
    missed = 1 - (stats.binom.pmf(counts, n, q) * safe).sum()
    assert 0.999 * miss < missed <= miss


@pytest.mark.parametrize("q", [0.5, 0.97])
@pytest.mark.parametrize("upper", [False, True])
def test_a_point_is_believed_by_the_margin_of_its_scale_only(upper, q):
    plan = plan_for(400, q=q)
    end = plan.ends[upper]
    assert end.upper == upper
    for ask in plan.asks:
        # An exact count a hair over what is believed never moves the end, a hair under does.
        for shift, moved in ((1e-6, False), (-1e-6, True)):
            fixed = end.threshold - ask.margin * ask.noise + shift
            said = 400 - fixed if upper else fixed
            alone = (replace(ask, counts=Saying(said, ask.noise), scouts=False),)
            sketch = Sketch.blank(400, plan.statistic.grid.cells + 1)
            (found,), _ = search(lambda x: x, (end,), alone, sketch, Randomness.of(1))
            assert (found.low > 0) == moved


@dataclass(frozen=True)
class Saying:
    """Noisy counts that always say the same."""

    answer: float
    noise: float

    def release(self, counts, randomness):
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


def test_on_smooth_data_it_is_hardly_wider_than_without_privacy_at_mu_1():
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(60):
        data = rng.uniform(-1, 1, 2000)
        region = confidence_region(
            data, Median((-1, 1)), budget=GDP(1.0), confidence_level=0.9, rng=rng
        )
        low, high = np.sort(data)[[962, 1037]]  # P(N < 963) ≤ 0.05
        ratios.append(2 * region.radius / (high - low))
    assert 1.0 < np.mean(ratios) < 1.15  # measured 1.07


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


@pytest.mark.parametrize("q", [0.5, 0.95])
@pytest.mark.parametrize("low", [0.0, 40.0])
def test_a_quantile_is_found_with_bounds_that_are_far_too_wide(low, q):
    # Up to 5 times as wide as with bounds of the data's own width; without scouts 500 and 10^5.
    rng = np.random.default_rng(17)
    widths = {1.0: 0.0, 1e6: 0.0}
    for _ in range(20):
        data = low + rng.random(2000)
        for far in widths:
            quantile = Quantile(q, (low - far, low + 1 + far))
            region = confidence_region(
                data, quantile, budget=GDP(0.5), confidence_level=0.9, rng=rng
            )
            widths[far] += region.radius
    assert widths[1e6] < 10 * widths[1.0]


@pytest.mark.parametrize("rounding", [0, 1])
def test_points_are_asked_in_rising_order_whatever_their_places(rounding, monkeypatch):
    point = Axis.point
    monkeypatch.setattr(Axis, "point", lambda self, place: point(self, place) ^ rounding)
    plan, asked = plan_for(500, q=[0.02, 0.03, 0.9]), []
    ordered = np.sort(np.random.default_rng(15).integers(0, plan.statistic.grid.cells, 500) // 99)

    def below(x):
        asked.append(x)
        return int(np.searchsorted(ordered, x))

    sketch = Sketch.blank(500, plan.statistic.grid.cells + 1)
    search(below, plan.ends, plan.asks, sketch, Randomness.of(3))
    rounds = np.array(asked).reshape(-1, 6)
    assert (np.diff(rounds, axis=1) >= 0).all()
    assert len(rounds) > 10


def test_points_are_asked_in_rising_order_whatever_end_asks_for_them():
    """Privacy needs it: a record may then change a run of neighbours only."""
    plan, asked = plan_for(500, q=QUARTILES), []
    ordered = np.sort(np.random.default_rng(15).integers(0, plan.statistic.grid.cells, 500))

    def below(x):
        asked.append(x)
        return int(np.searchsorted(ordered, x))

    sketch = Sketch.blank(500, plan.statistic.grid.cells + 1)
    ends, _ = search(below, plan.ends, plan.asks, sketch, Randomness.of(3))
    rounds = np.array(asked).reshape(-1, 6)
    assert (np.diff(rounds, axis=1) >= 0).all()
    assert len(rounds) > 10
    # Each end got its own answers: they are where they should be.
    for i, share in enumerate((0.25, 0.25, 0.5, 0.5, 0.75, 0.75)):
        at = plan.statistic.grid.cells - ends[i].low if ends[i].upper else ends[i].low
        assert abs(np.searchsorted(ordered, at) - share * 500) < 80
        assert (np.searchsorted(ordered, at) > share * 500) == ends[i].upper


def test_several_quantiles_are_narrower_than_each_with_a_share_of_the_budget():
    rng = np.random.default_rng(16)
    together, apart = [], []
    for _ in range(40):
        data = rng.random(500)
        options = {"confidence_level": 0.9, "rng": rng}
        region = confidence_region(data, Quantile(QUARTILES, (0, 1)), budget=GDP(0.5), **options)
        together.append([high - low for low, high in region.intervals])
        options["confidence_level"] = 1 - 0.1 / 3
        apart.append(
            [
                2 * confidence_region(
                    data, Quantile(q, (0, 1)), budget=GDP(0.5 / math.sqrt(3)), **options
                ).radius
                for q in QUARTILES
            ]
        )  # fmt: skip
    assert np.mean(together) < 0.95 * np.mean(apart)


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
