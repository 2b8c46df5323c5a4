"""Noise-aware CR-SS: both bounds first, its pivots attacked, its scales and its coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, kstest, norm

from confidp import CRSS, GDP, Custom, Median, ProductKernel, Quantile, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware import _ERROR, calibrated_reach
from confidp.central.methods.noise_aware_smooth import NoiseAwareSmoothPlan, release_with_bounds
from confidp.central.resampling import multiplicity
from confidp.errors import InvalidArgument
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
SAMPLINGS = ["with_replacement", "without_replacement"]


class Plain(Quantile):
    """A median whose resamples are drawn as sets: `CRSS` takes quantiles' by rank."""


def plan_for(
    n, *, mu=8.0, delta=1e-6, level=0.9, statistic=None, side="two-sided", **settings
) -> NoiseAwareSmoothPlan:
    statistic = (statistic or Plain(0.5, bounds=(0, 1))).for_shape(n, 1)
    plan = CRSS(**settings).plan(statistic, Request(n, mu, level, 50, delta, side))
    assert isinstance(plan, NoiseAwareSmoothPlan)
    return plan


@given(st.floats(1e-3, 1e5), st.floats(1e-12, 0.5), st.sampled_from(SAMPLINGS))
@settings(deadline=None)
def test_the_parts_compose_to_the_budget_and_bounds_lie_e_to_the_half_above(mu, delta, sampling):
    plan = plan_for(100, mu=mu, delta=delta, sampling=sampling)
    parts = [plan.center.mu_bound, plan.center.mu_value, plan.radius.mu_bound, plan.radius.mu_value]
    assert sum(part**2 for part in parts) == pytest.approx(mu**2)
    assert parts[2] ** 2 == pytest.approx(mu**2 / 3)
    assert plan.cost.mu == mu
    assert plan.cost.delta <= delta
    assert plan.radius.beta == pytest.approx(plan.beta * plan.resampling.multiplicity)
    for part in (plan.center, plan.radius):
        expected = min(0.5, norm.isf(delta / 2) / part.mu_bound)  # β is 1 at most
        assert part.log_inflation == pytest.approx(expected, rel=1e-6)


def test_a_beta_that_is_given_is_used_for_both():
    plan = plan_for(100, beta=0.3, sampling="with_replacement")
    assert plan.center.beta == plan.beta == 0.3
    assert plan.radius.beta == pytest.approx(0.3 * plan.resampling.multiplicity)


def test_half_samples_are_the_default_and_the_finite_population_is_corrected_for():
    plan = plan_for(1000)
    assert plan.public["resample_size"] == 500
    assert plan.rate == pytest.approx(1.0)
    degenerate = plan_for(1000, statistic=ProductKernel((-1, 1), degenerate=True))
    assert degenerate.public["resample_size"] == math.ceil(1000 / math.log(1000))
    assert degenerate.rate == degenerate.resampling.size / 1000


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_pivots_and_their_bounds_are_the_stated_ones(sampling):
    rng = np.random.default_rng(3)
    plan = plan_for(300, sampling=sampling)
    median = plan.statistic
    records = median.encode(rng.random((300, 1)))
    replacing = sampling == "with_replacement"
    sets = [rng.choice(300, 150, replace=replacing) for _ in range(50)]
    private, kappa = plan.pivots(records, sets)

    assert kappa == max(map(multiplicity, sets))
    full, rate = median.value(records)[0], math.sqrt(0.5) if replacing else 1.0
    pivots = [rate * (median.value(records[s])[0] - full) for s in sets]
    assert private.pivots[:, 0] == pytest.approx(pivots, abs=1e-8)
    geometric = sum(math.exp(q * plan.beta) for q in range(kappa))
    largest = max(median.smooth_sensitivity(records[s], plan.beta) for s in sets)
    bound = rate * (largest * geometric + median.smooth_sensitivity(records, plan.beta))
    assert private.radius_bound == pytest.approx(bound, rel=1e-6)
    own = median.smooth_sensitivity(records, plan.center.beta)
    assert private.center_bound == pytest.approx(own, rel=1e-6)


@st.composite
def neighbours(draw):
    n = draw(st.integers(3, 14))
    with_replacement = draw(st.booleans())
    m = draw(st.integers(1, n if with_replacement else n - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    beta = draw(st.sampled_from([0.01, 0.2, 1.0]))
    points = rng.choice([0.0, 1.0, 0.5, 0.25, 0.5 + 2**-20], size=(n + 1, 1))
    other = points[:n].copy()
    other[rng.integers(n)] = points[n]
    sampling = SAMPLINGS[0] if with_replacement else SAMPLINGS[1]
    plan = plan_for(n, sampling=sampling, resample_size=m, beta=beta)
    sets = [rng.integers(0, n, m) if with_replacement else rng.permutation(n)[:m] for _ in range(4)]
    return plan, points[:n], other, sets


@given(neighbours(), st.floats(0.01, 100), st.sampled_from(["two-sided", "greater", "less"]))
@settings(deadline=None, max_examples=150)
def test_no_neighbours_move_what_is_released_beyond_its_bounds_or_these_beyond_smoothness(
    case, ratio, side
):
    plan, data, other, sets = case
    (first, kappa), (second, same) = (
        plan.pivots(plan.statistic.encode(rows), sets) for rows in (data, other)
    )
    assert kappa == same
    slack = 1 + 1e-11
    center = min(first.center_bound, second.center_bound) * slack
    radius = min(first.radius_bound, second.radius_bound) * slack
    assert abs(first.estimate[0] - second.estimate[0]) <= center
    assert np.abs(first.pivots - second.pivots).max() <= radius
    assert abs(math.log(first.center_bound / second.center_bound)) <= plan.center.beta + 1e-11
    assert abs(math.log(first.radius_bound / second.radius_bound)) <= kappa * plan.beta + 1e-11
    # At one and the same pair of scales, as the released bounds give, Q moves by no more.
    reaches = [
        calibrated_reach(p.pivots, ratio * radius, radius, 0.9, side) for p in (first, second)
    ]
    assert abs(reaches[0] - reaches[1]) <= radius * (1 + 2 * _ERROR)


def test_bounds_and_values_have_the_stated_laws():
    # A lower bound, which isn't clipped at 0 as a radius is; at a level where Q is several scales.
    plan, noise = plan_for(200, mu=2.0, side="greater", level=0.9999), Randomness.of(None)
    records = plan.statistic.encode(np.random.default_rng(1).random((200, 1)))
    private, _ = plan.pivots(records, [np.arange(100), np.arange(50, 150)])
    normals = []
    for _ in range(400):
        ball = release_with_bounds(
            private, plan.center, plan.radius, plan.statistic, plan.request, noise
        )
        s_c, s_r = ball.public["center_noise"], ball.public["radius_noise"]
        reach = calibrated_reach(private.pivots, s_c, s_r, 0.9999, "greater")
        raised = [
            math.log(scale * part.mu_value / bound) - part.log_inflation
            for scale, part, bound in (
                (s_c, plan.center, private.center_bound),
                (s_r, plan.radius, private.radius_bound),
            )
        ]
        normals.append(
            (
                raised[0] * plan.center.mu_bound / plan.center.beta,
                raised[1] * plan.radius.mu_bound / plan.radius.beta,
                (ball.center[0] - float(private.estimate[0])) / s_c,
                (ball.center[0] - ball.box[0][0] - reach) / s_r,
            )
        )
    columns = np.array(normals)
    assert min(kstest(column, "norm").pvalue for column in columns.T) > FALSE_ALARM / 4
    correlations = np.corrcoef(columns.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5.5 / math.sqrt(400)  # 1e-6, over six pairs: independent


def test_the_radius_bound_is_as_uncertain_as_the_multiplicity_that_was_drawn_asks_for():
    plan = plan_for(100, mu=2.0, sampling="with_replacement", resample_size=20)
    records = plan.statistic.encode(np.random.default_rng(1).random((100, 1)))
    sets = [np.arange(20), np.array([*range(18), 5, 5])]
    assert plan.resampling.multiplicity > 3
    private, kappa = plan.pivots(records, sets)
    assert kappa == 3
    logs = []
    for seed in range(400):
        ball = plan.release_on(records, sets, Randomness.of(seed))
        assert ball.public["multiplicity_bound"] == 3
        scale = ball.public["radius_noise"] * plan.radius.mu_value / private.radius_bound
        logs.append(math.log(scale))
    deviation = 3 * plan.beta / plan.radius.mu_bound
    margin = norm.isf(plan.radius.delta)
    assert kstest(np.array(logs) / deviation - margin, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("side", ["two-sided", "greater", "less"])
def test_it_covers_where_the_published_radius_does_not(side):
    rng, n, data_sets = np.random.default_rng(3), 500, 80
    covered = {"noise-aware": 0, "published": 0}
    for calibration in covered if side == "two-sided" else ["noise-aware"]:
        for _ in range(data_sets):
            region = confidence_region(
                rng.random(n),
                Plain(0.5, bounds=(0, 1)),
                budget=GDP(2.0, 1e-6),
                confidence_level=0.9,
                alternative=side,
                method=CRSS(calibration=calibration),
                n_resamples=100,
                rng=rng,
            )
            covered[calibration] += region.contains(0.5)
    assert binomtest(covered["noise-aware"], data_sets, 0.88, "less").pvalue > FALSE_ALARM
    if side == "two-sided":
        assert binomtest(covered["published"], data_sets, 0.88, "less").pvalue < FALSE_ALARM


def test_vectors_are_two_sided_only():
    pair = Custom(
        lambda x: np.median(x, axis=0),
        None,
        bounds=(0, 1),
        dimension=2,
        smooth_sensitivity=lambda x, beta: 1.5,
        precision=1e-9,
    )
    rows, budget = np.random.default_rng(0).random((50, 2)), GDP(4.0, 1e-6)
    region = confidence_region(rows, pair, budget=budget, method=CRSS(), n_resamples=5)
    assert region.dimension == 2
    assert math.isfinite(region.radius)
    with pytest.raises(InvalidArgument, match="alternative must be 'two-sided' in 2 dimensions"):
        confidence_region(rows, pair, budget=budget, method=CRSS(), alternative="less")


def test_one_sided_as_published_is_refused():
    with pytest.raises(InvalidArgument, match="alternative"):
        confidence_region(
            np.zeros(50),
            Median(bounds=(0, 1)),
            budget=GDP(4.0, 1e-6),
            method=CRSS(calibration="published"),
            alternative="less",
        )
