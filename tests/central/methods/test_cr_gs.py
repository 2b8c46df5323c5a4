"""CR-GS: the algorithm as printed, its sensitivities attacked, its settings checked."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from confidp import CRGS, GDP, Custom, Mean, confidence_region
from confidp.central.methods.cr_gs import CRGSPlan
from confidp.central.methods.method import Request
from confidp.central.pivots import quantile_distance
from confidp.central.resampling import multiplicity, multiplicity_bound
from confidp.errors import ConfidpError, InvalidArgument
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

SAMPLINGS = ["with_replacement", "without_replacement"]


def plan_for(
    statistic, n, *, columns=1, mu=1.0, level=0.9, n_resamples=100, method=None
) -> CRGSPlan:
    request = Request(n=n, mu=mu, confidence_level=level, n_resamples=n_resamples)
    return (method or CRGS(calibration="published")).plan(statistic.for_shape(n, columns), request)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_noise_scales_are_those_of_algorithm_2(sampling):
    n, mu, n_resamples = 2000, 0.5, 500
    plan = plan_for(
        Mean(bounds=(-1, 1)),
        n,
        mu=mu,
        n_resamples=n_resamples,
        method=CRGS(sampling, calibration="published"),
    )
    m = math.ceil(n / math.log(n))
    kappa = multiplicity_bound(n, m, n_resamples, 1 / n) if sampling == "with_replacement" else 1
    center = math.sqrt(2) * (2 / n) / mu
    radius = math.sqrt(2) * math.sqrt(m) * (kappa * 2 / m + 2 / n) / mu / math.sqrt(n)
    assert plan.public["resample_size"] == m
    assert plan.public["multiplicity_bound"] == kappa
    # Never less noise; more by no more than the stated roundings.
    assert center <= plan.public["center_noise"] * (1 + 1e-15) < center * (1 + 1e-8)
    assert radius <= plan.public["radius_noise"] * (1 + 1e-15) < radius * (1 + 1e-8)


@given(st.floats(1e-6, 1e6), st.integers(1, 5))
def test_center_and_radius_compose_to_no_more_than_the_budget(mu, columns):
    plan = plan_for(Mean(bounds=(0, 1)), 50, columns=columns, mu=mu)
    halves = Fraction(plan.center.mu) ** 2 + Fraction(plan.radius.mu) ** 2
    assert halves <= Fraction(mu) ** 2
    assert halves >= Fraction(mu) ** 2 * (1 - Fraction(2) ** -50)
    assert plan.cost.mu == mu
    assert plan.cost.delta >= lattice_delta(mu / 2, columns) + lattice_delta(mu / 2)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_released_pair_is_the_algorithms_up_to_its_noise(sampling):
    # At an enormous budget the noise vanishes and the printed formulas are left.
    rng = np.random.default_rng(3)
    data = rng.uniform(2, 5, size=(400, 2))
    plan = plan_for(
        Mean(bounds=(2, 5)), 400, columns=2, mu=1e8, method=CRGS(sampling, calibration="published")
    )
    sets = [rng.integers(0, 400, plan.resampling.size) for _ in range(100)]
    ball = plan.release_on(plan.statistic.encode(data), sets, Randomness.of(1))

    estimate = data.mean(axis=0)
    distances = [np.linalg.norm(data[s].mean(axis=0) - estimate) for s in sets]
    expected = np.sort(distances)[math.ceil(0.9 * 100) - 1] * math.sqrt(plan.resampling.size / 400)
    assert ball.center == pytest.approx(estimate, abs=1e-6)
    assert ball.radius == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("level", "n_resamples", "rank"),
    [(0.9, 10, 9), (0.9, 500, 450), (0.95, 1000, 950), (0.7, 10, 7), (0.01, 5, 1), (0.999, 5, 5)],
)
def test_the_quantile_is_the_order_statistic_of_rank_level_times_b_rounded_up(
    level, n_resamples, rank
):
    points = [np.array([k]) for k in range(n_resamples, 0, -1)]
    assert quantile_distance(points, np.array([0]), level) == rank


def test_distances_of_vectors_are_euclidean_and_rounded_down():
    assert quantile_distance([np.array([3, 4])], np.array([0, 0]), 0.5) == 5
    assert quantile_distance([np.array([1, 1])], np.array([0, 0]), 0.5) == 1
    far = 2**62
    assert quantile_distance([np.array([far])], np.array([-far]), 0.5) == 2**63


@st.composite
def neighbours(draw):
    """Return a statistic's plan, two data sets that differ in one row, and index sets."""
    n = draw(st.integers(2, 12))
    columns = draw(st.integers(1, 3))
    with_replacement = draw(st.booleans())
    m = draw(st.integers(1, n if with_replacement else n - 1))
    offset = draw(st.sampled_from([0.0, -1.0, 1e9, 1e-9]))
    width = draw(st.sampled_from([1.0, 3.0, 1e-6, 1e6]))
    bounds = (offset, offset + width)
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    extremes = rng.choice([0.0, 1.0, 1 / 3, 5e-324, 1 - 2**-53], size=(n + 1, columns))
    data = bounds[0] + extremes * width
    other = data[:n].copy()
    other[rng.integers(n)] = data[n]
    sampling = SAMPLINGS[0] if with_replacement else SAMPLINGS[1]
    plan = plan_for(
        Mean(bounds=bounds),
        n,
        columns=columns,
        n_resamples=5,
        method=CRGS(sampling, m, calibration="published"),
    )
    sets = []
    while len(sets) < 5:
        indices = rng.integers(0, n, m) if with_replacement else rng.permutation(n)[:m]
        if multiplicity(indices) <= plan.resampling.multiplicity:
            sets.append(indices)
    return plan, data[:n], other, sets


@given(neighbours())
def test_no_neighbours_move_the_pivot_or_the_center_by_more_than_the_noise_allows_for(case):
    plan, data, other, sets = case
    encode = plan.statistic.encode
    (center, distance), (center2, distance2) = (
        plan.pivot(encode(rows), sets) for rows in (data, other)
    )
    assert abs(distance - distance2) * plan.units.step <= plan.radius.sensitivity
    moved = sum((int(x) - int(y)) ** 2 for x, y in zip(center, center2, strict=True))
    assert moved * plan.units.step**2 <= plan.center.sensitivity**2


def test_the_centers_sensitivity_is_attained():
    plan = plan_for(Mean(bounds=(0, 1)), 10)
    zeros, one = np.zeros((10, 1)), np.zeros((10, 1))
    one[3] = 1.0
    sets = [np.array([0, 1])]
    (center, _), (center2, _) = (
        plan.pivot(plan.statistic.encode(rows), sets) for rows in (zeros, one)
    )
    moved = abs(int(center[0]) - int(center2[0])) * plan.units.step
    assert moved > plan.center.sensitivity * (1 - Fraction(2) ** -28)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_any_statistic_with_a_global_sensitivity_works(sampling):
    rng = np.random.default_rng(5)
    data = rng.uniform(0, 1, 1500)
    variance = Custom(lambda x: x.var(ddof=1), lambda n: 1 / n, (0, 1), name="variance")
    region = confidence_region(
        data,
        variance,
        budget=GDP(8.0),
        method=CRGS(sampling, calibration="published"),
        n_resamples=200,
        rng=1,
    )
    assert region.contains(1 / 12)
    assert region.radius < 0.02
    assert region.statistic["statistic"] == "variance"


def test_when_a_resample_exceeds_the_multiplicity_bound_the_result_is_bottom_whatever_the_data():
    plan = plan_for(
        Mean(bounds=(0, 1)), 100, method=CRGS("with_replacement", 20, calibration="published")
    )
    tight = replace(
        plan, resampling=replace(plan.resampling, multiplicity=3)
    )  # so tight that it is exceeded now and then
    bottoms = 0
    for seed in range(60):
        balls = [
            tight.release(tight.statistic.encode(rows), Randomness.of(seed))
            for rows in (np.zeros((100, 1)), np.ones((100, 1)))
        ]
        assert math.isinf(balls[0].radius) == math.isinf(balls[1].radius)
        assert math.isnan(balls[0].center[0]) == math.isinf(balls[0].radius)
        bottoms += math.isinf(balls[0].radius)
    assert 0 < bottoms < 60


def test_radius_noise_below_zero_is_clipped():
    radii = [
        confidence_region(
            np.zeros(50),
            Mean(bounds=(0, 1)),
            budget=GDP(0.1),
            method=CRGS(calibration="published"),
            rng=seed,
        ).radius
        for seed in range(40)
    ]
    assert min(radii) == 0.0
    # Half the noise is negative: a binomial count, with a false-alarm rate of 1e-6.
    zeros = sum(radius == 0 for radius in radii)
    assert stats.binomtest(zeros, 40).pvalue > 1e-6


def test_a_resample_size_that_the_paper_recommends_elsewhere_can_be_passed():
    plan = plan_for(
        Mean(bounds=(0, 1)),
        10_000,
        method=CRGS(resample_size=round(10_000**0.75), calibration="published"),
    )
    assert plan.public["resample_size"] == 1000


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"sampling": "bootstrap"}, "sampling"),
        ({"resample_size": 0}, "resample_size"),
        ({"resample_size": 2.5}, "resample_size"),
        ({"failure_probability": 0}, "failure_probability"),
        ({"failure_probability": 1.0}, "failure_probability"),
        ({"failure_probability": math.nan}, "failure_probability"),
    ],
)
def test_settings_out_of_range_are_refused_at_once(settings, name):
    with pytest.raises(ConfidpError, match=name):
        CRGS(**settings)


@pytest.mark.parametrize(("sampling", "most"), [(SAMPLINGS[0], 20), (SAMPLINGS[1], 19)])
def test_a_resample_size_beyond_n_is_refused(sampling, most):
    plan_for(Mean(bounds=(0, 1)), 20, method=CRGS(sampling, most, calibration="published"))
    with pytest.raises(InvalidArgument, match="resample_size must be at most"):
        plan_for(Mean(bounds=(0, 1)), 20, method=CRGS(sampling, most + 1, calibration="published"))
