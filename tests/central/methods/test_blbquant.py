"""BLBQuant: the algorithm as described, what one record can move, and its lengths beside print."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confidp import GDP, Custom, Ledger, Mean, Median, Quantile, confidence_region
from confidp.central.methods.blbquant import BLBQuant, BLBQuantPlan
from confidp.central.methods.method import Request
from confidp.central.methods.private_estimators import private_estimator
from confidp.errors import BudgetExhausted, ConfidpError
from confidp.privacy.conversions import mu_of_pure_dp
from confidp.privacy.guarantees import pure_dp_to_gdp
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


def plan_for(statistic, n, *, mu=8.0, level=0.9, method=None) -> BLBQuantPlan:
    request = Request(n=n, mu=mu, confidence_level=level, n_resamples=500)
    return (method or BLBQuant()).plan(statistic.for_shape(n, 1), request)


@given(st.floats(1.0, 100.0))
def test_the_two_epsilons_are_equal_and_compose_to_no_more_than_the_budget(mu):
    plan = plan_for(Mean((0, 1)), 10_000, mu=mu)
    epsilon = plan.search.epsilon
    assert plan.estimator.mechanism.epsilon == epsilon
    both = pure_dp_to_gdp(epsilon) + pure_dp_to_gdp(epsilon)
    assert mu * (1 - 1e-9) <= both.mu <= mu * (1 + 1e-15)
    assert plan.cost == GDP(mu)
    assert plan.blocks == math.ceil(10 * math.log(10_000) / epsilon)


def test_mu_8_gives_the_papers_epsilons_and_13_blocks():
    plan = plan_for(Mean((-1, 1)), 2000)
    assert plan.search.epsilon == pytest.approx(6.06, abs=0.01)
    assert plan.blocks == 13
    assert plan.estimator.mechanism.scale == pytest.approx(2 / 2000 / plan.search.epsilon)
    # The exponential mechanism is ε-DP at η = ε/2.
    median = plan_for(Median((-1, 1)), 2000)
    assert median.estimator.mechanism.epsilon == pytest.approx(median.search.epsilon)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_searched_is_the_description_on_the_blocks_own_curves(seed):
    class Spy:
        epsilon = 6.0

        def first(self, numbers, threshold, randomness):
            self.numbers, self.threshold = list(numbers), threshold
            return 7

    spy, rng = Spy(), np.random.default_rng(seed)
    plan = replace(plan_for(Mean((0, 1)), 1000), search=spy)
    records = plan.statistic.encode(rng.random((1000, 1)))
    ball = plan.release(records, Randomness.of(seed))
    assert ball.radius == 8 * plan.step
    enough = plan.enough(records, Randomness.of(seed).indices)
    for k in range(1, plan.n_steps + 1):
        for noise in rng.normal(0, 4, size=5):
            over = np.sort(enough <= k)  # whether p_i exceeds the level, the least p_i first
            rank = math.floor(plan.blocks / 2 + noise)
            exceeds = rank > plan.blocks or (rank >= 1 and over[rank - 1])
            assert exceeds == (spy.numbers[k - 1] + noise >= spy.threshold)


def test_a_block_is_enough_at_the_first_radius_with_more_than_the_level_inside():
    plan = plan_for(Mean((0, 1)), 2000, level=0.9)

    class Fixed:
        def simulate(self, block, counts, rng):
            assert counts.shape == (100, len(block))
            assert (counts.sum(axis=1) == 2000).all()  # resamples have the size of the data
            places = np.arange(100)
            return 0.5 + (places + 0.5) * plan.step / 10 * np.where(places % 2, 1, -1)

    block = np.full((153, 1), plan.statistic.encode(np.array([[0.5]]))[0, 0])
    fixed = BLBQuantPlan(
        plan.statistic, plan.request, Fixed(), plan.search, 13, 100, plan.step, plan.n_steps
    )
    # 90 of 100 lie within 8.95 steps, and 91 within 9.05: over 0.9 first at step 10.
    assert fixed._enough(block, np.random.default_rng(1)) == 10


@given(st.integers(0, 2**32), st.sampled_from(["mean", "median"]))
@settings(max_examples=40, deadline=None)
def test_one_record_moves_one_blocks_curve_at_most(seed, kind):
    rng = np.random.default_rng(seed)
    statistic = Mean((0, 1)) if kind == "mean" else Median((0, 1), resolution=0.01)
    plan = plan_for(statistic, 200, method=BLBQuant(inner_resamples=10))
    rows = rng.choice([0.0, 0.3, 1.0], size=(200, 1))
    other = rows.copy()
    other[rng.integers(200)] = rng.random()
    enough = [
        plan.enough(plan.statistic.encode(x), np.random.default_rng(seed)) for x in (rows, other)
    ]
    assert (enough[0] != enough[1]).sum() <= 1


def test_one_record_can_move_a_curve_at_every_radius_that_matters():
    plan = plan_for(Mean((0, 1)), 200)
    zeros, one = np.zeros((200, 1)), np.zeros((200, 1))
    one[:, 0] = np.arange(200) == 7
    enough = [plan.enough(plan.statistic.encode(x), np.random.default_rng(3)) for x in (zeros, one)]
    moved = np.flatnonzero(enough[0] != enough[1])
    assert len(moved) <= 1
    assert enough[1].max() > enough[0].max()


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_simulated_estimates_spread_as_the_final_one_will(kind):
    # All resamples at once against the real release on such a resample.
    n, rng = 300, np.random.default_rng(5)
    statistic = Mean((0, 1)) if kind == "mean" else Median((0, 1), resolution=0.01)
    statistic = statistic.for_shape(n, 1)
    estimator = private_estimator(statistic, n, 0.2)  # so little that most of it is noise
    block = statistic.encode(rng.random((40, 1)))
    counts = rng.multinomial(n, np.full(40, 1 / 40), size=3000)
    simulated = estimator.simulate(block, counts, rng)
    source = Randomness.of(1)
    released = np.array(
        [float(estimator.release(np.repeat(block, c, axis=0), source)) for c in counts[::-1]]
    )
    assert stats.ks_2samp(simulated, released).pvalue > FALSE_ALARM
    shifted = simulated + 0.3 * simulated.std()
    assert stats.ks_2samp(shifted, released).pvalue < FALSE_ALARM


def test_any_mean_like_statistic_is_resampled_and_the_fast_path_agrees():
    rng = np.random.default_rng(7)
    rows = np.rint(rng.random((300, 1)) * 100) / 100
    mean = Mean((0, 1), resolution=0.01).for_shape(300, 1)
    same = Custom(lambda x: x.mean(), lambda n: 1 / n, (0, 1), name="mean by hand")
    enough = [
        plan_for(s, 300).enough(s.encode(rows), np.random.default_rng(2)) for s in (mean, same)
    ]
    assert np.abs(enough[0] - enough[1]).max() <= 1  # float rounding at a step's edge


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("source", [None, 3], ids=["exact", "seeded"])
def test_a_quantiles_estimate_has_the_chances_of_the_exponential_mechanism(q, source):
    statistic = Quantile(q, (0, 10), resolution=1).for_shape(6, 1)
    data = np.array([2, 2, 3, 7, 7, 10])
    epsilon, randomness = 2.0, Randomness.of(source)
    estimator = private_estimator(statistic, 6, epsilon)
    (rank,) = statistic.ranks(6)
    chances = np.array(
        [
            math.exp(-epsilon / 2 * max((data < x).sum() - rank, rank - (data <= x).sum(), 0))
            for x in range(11)
        ]
    )
    chances /= chances.sum()
    drawn = [int(estimator.release(data, randomness)) for _ in range(8000)]
    counts = np.bincount(drawn, minlength=11)
    assert stats.chisquare(counts, 8000 * chances).pvalue > FALSE_ALARM


@given(st.integers(0, 2**32))
def test_one_record_moves_no_points_penalty_by_more_than_one(seed):
    rng = np.random.default_rng(seed)
    n, cells = int(rng.integers(2, 9)), int(rng.integers(1, 12))
    statistic = Quantile(0.3, (0, cells), resolution=1).for_shape(n, 1)
    estimator = private_estimator(statistic, n, 1.0)
    data = rng.integers(0, cells + 1, n)
    other = data.copy()
    other[rng.integers(n)] = rng.integers(0, cells + 1)
    penalties = []
    for records in (data, other):
        values, counts = np.unique(records, return_counts=True)
        starts, lengths = estimator._runs(values)
        assert lengths.sum() == cells + 1
        each = np.repeat(estimator._penalties(counts[None, :])[0], lengths)
        assert (np.repeat(starts, lengths)[0], len(each)) == (0, cells + 1)
        penalties.append(each)
    assert np.abs(penalties[0] - penalties[1]).max() <= 1
    assert penalties[0].min() == 0


def test_where_the_grid_ends_first_nothing_is_learnt_of_the_radius():
    data = np.random.default_rng(1).random(500)
    region = confidence_region(
        data, Mean((0, 1)), budget=GDP(8.0), method=BLBQuant(largest_radius=0.002), rng=1
    )
    assert math.isinf(region.radius)
    assert region.center[0] == pytest.approx(0.5, abs=0.1)


# (name, draw, statistic, truth, printed length). As printed, the grid's step is 1/n.
PRINTED = [
    ("bernoulli", lambda rng: (rng.random(2000) < 0.05) * 1.0, Mean((0, 1)), 0.05, 0.01639),
    ("uniform", lambda rng: rng.uniform(-1, 1, 2000), Mean((-1, 1)), 0.0, 0.0425),
]


@pytest.mark.parametrize(("name", "draw", "statistic", "truth", "printed"), PRINTED)
def test_lengths_are_near_those_printed_and_it_covers(name, draw, statistic, truth, printed):
    rng = np.random.default_rng([2026, len(name)])
    lengths, covered, runs = [], 0, 60
    for _ in range(runs):
        region = confidence_region(
            draw(rng), statistic, budget=GDP(8.0), confidence_level=0.9, rng=rng,
            method=BLBQuant(grid_step=1 / 2000),
        )  # fmt: skip
        lengths.append(2 * region.radius)
        covered += region.contains(truth)
    slack = stats.norm.isf(FALSE_ALARM / 2) * np.std(lengths) / math.sqrt(runs)
    # 3% longer than printed: the ⌊s/2⌋-th smallest p_i asks 8 blocks of 13 to agree.
    assert abs(np.mean(lengths) / (1.03 * printed) - 1) < 0.01 + slack / printed
    assert stats.binomtest(covered, runs, 0.88, "less").pvalue > FALSE_ALARM


def test_the_median_is_covered():
    rng = np.random.default_rng(4)
    covered = sum(
        confidence_region(
            rng.uniform(-1, 1, 1000), Median((-1, 1)), budget=GDP(8.0), confidence_level=0.9,
            method=BLBQuant(), rng=rng,
        ).contains(0.0)
        for _ in range(25)
    )  # fmt: skip
    assert stats.binomtest(covered, 25, 0.9, "less").pvalue > FALSE_ALARM


def test_it_costs_no_delta_and_a_ledger_pays_for_it(tmp_path):
    ledger = Ledger.create(tmp_path / "l", GDP(9.0))
    data = np.random.default_rng(1).random(300)
    region = confidence_region(
        data, Mean((0, 1)), budget=GDP(8.0), method=BLBQuant(), ledger=ledger
    )
    assert region.private
    assert region.spent == ledger.spent == GDP(8.0)
    with pytest.raises(BudgetExhausted):
        confidence_region(data, Mean((0, 1)), budget=GDP(8.0), method=BLBQuant(), ledger=ledger)


@pytest.mark.parametrize(
    ("settings_", "name"),
    [
        ({"inner_resamples": 0}, "inner_resamples"),
        ({"grid_step": 0.0}, "grid_step"),
        ({"grid_step": math.nan}, "grid_step"),
        ({"largest_radius": -1}, "largest_radius"),
    ],
)
def test_settings_out_of_range_are_refused_at_once(settings_, name):
    with pytest.raises(ConfidpError, match=name):
        BLBQuant(**settings_)


def test_budgets_too_small_for_blocks_and_vectors_are_refused():
    with pytest.raises(ConfidpError, match="budget must be larger"):
        plan_for(Mean((0, 1)), 100, mu=1.0)
    with pytest.raises(ConfidpError, match="budget must be larger"):
        plan_for(Mean((0, 1)), 10_000, mu=1e-300)
    assert plan_for(Mean((0, 1)), 100, mu=1e6).blocks == 1
    vector = Mean((0, 1)).for_shape(2000, 2)
    with pytest.raises(ConfidpError, match="method must suit"):
        BLBQuant().plan(vector, Request(2000, 8.0, 0.9, 100))


def test_conversion_is_that_of_the_worst_mechanism():
    plan = plan_for(Mean((0, 1)), 2000)
    assert mu_of_pure_dp(plan.search.epsilon) == pytest.approx(8 / math.sqrt(2), rel=1e-9)
    assert Fraction(plan.step) == Fraction(1 / 2000)
