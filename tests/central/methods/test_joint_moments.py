"""Joint moments: a variance that costs nothing, and the intervals that are made of both."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import GDP, Mean, PrivateVariance, confidence_region
from confidp.central.methods.estimated_variance import total_variance
from confidp.central.methods.joint_moments import (
    BULGE,
    JointCovariance,
    JointMomentsPlan,
    bulging_means,
)
from confidp.central.methods.method import Request
from confidp.errors import InvalidArgument
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
GOLDEN = (math.sqrt(5) - 1) / 2


def plan_for(
    n, *, bounds=(0, 1), columns=1, mu=1.0, level=0.9, alternative="two-sided"
) -> JointMomentsPlan:
    statistic = Mean(bounds).for_shape(n, columns)
    request = Request(n, mu, level, 1, alternative=alternative)
    return PrivateVariance().plan(statistic, request)


def test_the_noise_scales_are_those_of_the_docstring():
    plan = plan_for(500, bounds=(-1, 3), mu=0.5)
    assert plan.public["center_noise"] == pytest.approx(4 / 500 / 0.5)
    assert plan.public["variance_noise"] == pytest.approx(16 / 500 / 0.5 * math.hypot(1, 0.3003))
    vector = plan_for(500, bounds=((-1, 3), (0, 10)), columns=2, mu=0.5)
    expected = [math.sqrt(2) * r / 500 / 0.5 for r in (4, 10)]
    assert vector.public["center_noise"] == pytest.approx(expected)


@given(st.floats(1e-3, 1e3), st.integers(1, 5))
def test_the_means_have_the_noise_that_they_would_have_alone(mu, columns):
    plan = plan_for(50, mu=mu, columns=columns)
    root = Fraction(plan.mechanism.sensitivity)
    alone = GaussianMechanism(root, mu, columns)
    assert plan.mechanism.scale == pytest.approx(alone.scale)
    assert plan.cost.mu == mu
    assert root**2 * 50**2 == pytest.approx(columns)


def test_the_bulge_is_the_sharp_constant_rounded_up():
    assert Fraction(0) < BULGE**2 - (5 * Fraction(5**0.5) - 11) / 2 < Fraction(1, 90_000)
    # φ⁻⁵ is the largest a²(1 − a)/(1 + a): on a fine grid, and at 1/φ.
    a = np.linspace(0, 1, 100_001)
    needed = a * a * (1 - a) / (1 + a)
    assert needed.max() <= GOLDEN**5 <= float(BULGE) ** 2
    assert needed.max() == pytest.approx(GOLDEN**5)


@given(st.integers(0, 2**32), st.integers(2, 30), st.integers(1, 3))
@settings(deadline=None)
def test_no_neighbours_move_both_moments_by_more_than_the_noise_allows_for(seed, n, columns):
    rng = np.random.default_rng(seed)
    kinds = [0.0, 1.0, 0.5, GOLDEN, 1 - GOLDEN, rng.random()]
    rows = rng.choice(kinds, size=(n, columns))
    other = rows.copy()
    other[rng.integers(n)] = rng.choice(kinds, size=columns)
    plan = plan_for(n, columns=columns)
    cells = [grid.cells for grid in plan.statistic.grids]
    first, second = plan.statistic.encode(rows), plan.statistic.encode(other)
    pairs = zip(bulging_means(first, cells), bulging_means(second, cells), strict=True)
    assert sum((a - b) ** 2 for a, b in pairs) <= plan.mechanism.sensitivity**2


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize(("new", "slack"), [(1.0, 1e-12), (GOLDEN, 1e-3)])
def test_the_sensitivity_is_attained(columns, new, slack):
    plan = plan_for(20, columns=columns)
    zeros, one = np.zeros((20, columns)), np.zeros((20, columns))
    one[3] = new
    cells = [grid.cells for grid in plan.statistic.grids]
    first, second = (bulging_means(plan.statistic.encode(rows), cells) for rows in (zeros, one))
    moved = float(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
    assert moved == pytest.approx(columns / 400, rel=slack)
    assert plan.mechanism.sensitivity**2 == pytest.approx(columns / 400)


@pytest.mark.parametrize("most", [3, 2**31 - 1, 2**31, 2**45])
def test_both_moments_are_exact_fractions(most):
    rows = np.random.default_rng(1).integers(0, most + 1, size=(50, 2))
    rows[0] = most, 0
    expected_means, expected_bulges = [], []
    for column in rows.T.tolist():
        units = [Fraction(k, most) for k in column]
        expected_means.append(sum(units) / 50)
        expected_bulges.append(sum(x * (1 - x) for x in units) / 50 / BULGE)
    assert bulging_means(rows, (most, most)) == expected_means + expected_bulges


@pytest.mark.parametrize("mean", [0.02, 0.5])
def test_the_released_variance_has_no_bias_and_the_noise_that_is_stated(mean):
    n, mu, runs = 100, 0.25, 20_000
    plan, rng = plan_for(n, mu=mu), np.random.default_rng(3)
    nu = plan.mechanism.scale
    data = np.array([0.0, 2 * mean] * (n // 2))
    exact = float(mean), float((data * (1 - data)).mean())
    drawn = np.array([
        plan.joint.variance(Fraction(exact[0] + nu * a), Fraction(exact[1] + float(BULGE) * nu * b))
        for a, b in rng.standard_normal((runs, 2))
    ])  # fmt: skip
    error = nu * math.sqrt(float(BULGE) ** 2 + (1 - 2 * mean) ** 2) * n / (n - 1)
    assert abs(drawn.mean() - data.var(ddof=1)) < 4.9 * drawn.std() / math.sqrt(runs)
    # To first order; the second, ν²(Z² − 1), adds √2·ν² at most.
    assert error * 0.97 < drawn.std() < math.hypot(error, 1.5 * nu * nu) * 1.03


def test_with_no_noise_to_speak_of_it_is_the_t_interval():
    data = np.random.default_rng(1).gamma(2.0, size=80)
    region = confidence_region(
        data, Mean((0, 20)), budget=GDP(1e8), method=PrivateVariance(), confidence_level=0.9
    )
    expected = stats.t.interval(0.9, 79, data.mean(), stats.sem(data))
    assert region.interval == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_with_no_noise_to_speak_of_a_bound_is_the_t_bound(alternative):
    data = np.random.default_rng(1).gamma(2.0, size=80)
    region = confidence_region(
        data,
        Mean((0, 20)),
        budget=GDP(1e8),
        method=PrivateVariance(),
        confidence_level=0.9,
        alternative=alternative,
    )
    reach = stats.t.isf(0.1, 79) * stats.sem(data)
    expected = (data.mean() - reach, 20) if alternative == "greater" else (0, data.mean() + reach)
    assert region.interval == pytest.approx(expected, abs=1e-6)
    assert region.radius == pytest.approx(reach, abs=1e-6)


def test_with_no_noise_to_speak_of_a_box_has_sidaks_level():
    rows = np.random.default_rng(2).uniform(size=(40, 3)) * np.array([1, 10, 100])
    bounds = ((0, 1), (0, 10), (0, 100))
    options = {"budget": GDP(1e8), "method": PrivateVariance(), "confidence_level": 0.9}
    box = confidence_region(rows, Mean(bounds), **options)
    t = stats.t.isf((1 - 0.9 ** (1 / 3)) / 2, 39)
    reach = t * stats.sem(rows, axis=0)
    np.testing.assert_allclose(box.box, np.stack([rows.mean(0) - reach, rows.mean(0) + reach], 1))
    bound = confidence_region(rows, Mean(bounds), alternative="greater", **options)
    reach = stats.t.isf(0.1 / 3, 39) * stats.sem(rows, axis=0)
    np.testing.assert_allclose(bound.box, np.stack([rows.mean(0) - reach, [1, 10, 100]], 1))


def test_the_half_width_counts_all_errors():
    n = 200
    plan = plan_for(n, mu=0.5)
    t, nu = stats.t.isf(0.05, n - 1), plan.mechanism.scale
    for mean in (0.0, 0.3, 0.5):
        for variance in (0.25, 0.01, 0.0, -0.01):
            share = nu**2 / (max(variance, 0) / n + nu**2)
            along = (1 - 2 * mean) ** 2
            along *= (1 - share) + share * t**2 * (t**2 - 1) / (t**2 + 1)
            noise = nu * math.sqrt(0.3003**2 + along) / n
            total = total_variance(variance / n + nu * nu, noise, nu * nu, t)
            found = plan.joint.half_width(1 - 2 * mean, variance)
            assert found == pytest.approx(t * math.sqrt(total))
            assert found >= t * math.sqrt(max(variance, 0) / n + nu * nu)


def test_a_bound_on_the_side_where_the_variance_errs_low_is_wider():
    # Where data lie low, an error upwards makes the variance look large: only upper bounds suffer.
    joint = plan_for(200, mu=0.5, alternative="greater").joint
    plain = joint.bound_width(0.8, 0.001, above=False)
    assert joint.bound_width(0.8, 0.001, above=True) > 1.02 * plain
    assert joint.bound_width(-0.8, 0.001, above=False) > 1.02 * plain
    both = [joint.bound_width(0.0, 0.001, above) for above in (True, False)]
    assert both[0] == both[1]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 4.0])
def test_with_normal_errors_both_kinds_cover_but_for_the_stated_part(mu, level):
    # The sampling error is normal and independent of the sample variance, which is σ².
    n, runs, rng = 1000, 1000, np.random.default_rng([round(10 * mu), round(100 * level)])
    least = 1.0
    for mean in (0.02, 0.3, 0.8):
        for ratio in (0.1, 1.0, 10.0):  # of the sampling error's variance to the noise's
            plans = {
                side: plan_for(n, mu=mu, level=level, alternative=side).joint
                for side in ("two-sided", "greater", "less")
            }
            nu = plans["less"].mechanism.scale
            sampling = math.sqrt(ratio) * nu
            if n * sampling**2 > mean * (1 - mean):
                continue
            covered = dict.fromkeys(plans, 0)
            for e, a, b in rng.standard_normal((runs, 3)):
                own = mean + sampling * e
                bulge = own * (1 - own) - n * sampling**2 * (n - 1) / n
                x = own + nu * a
                variance = plans["less"].variance(Fraction(x), Fraction(bulge + 0.3003 * nu * b))
                error = x - mean
                covered["two-sided"] += abs(error) <= plans["two-sided"].half_width(
                    1 - 2 * x, variance
                )
                covered["greater"] += error <= plans["greater"].bound_width(
                    1 - 2 * x, variance, False
                )
                covered["less"] += -error <= plans["less"].bound_width(1 - 2 * x, variance, True)
            for found in covered.values():
                least = min(least, binomtest(found, runs, level - 0.003, "less").pvalue)
    assert least > FALSE_ALARM


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


@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("columns", [1, 3])
def test_bounds_cover_all_columns_at_once_and_not_always(alternative, columns):
    rng = np.random.default_rng(3)
    covered, options = 0, {"budget": GDP(0.5), "confidence_level": 0.8, "rng": rng}
    for _ in range(250):
        rows = rng.uniform(size=(300, columns))
        region = confidence_region(
            rows, Mean((0, 1)), method=PrivateVariance(), alternative=alternative, **options
        )
        covered += region.contains([0.5] * columns)
    assert binomtest(covered, 250, 0.8, "less").pvalue > FALSE_ALARM
    assert binomtest(covered, 250, 0.9, "greater").pvalue > FALSE_ALARM


@pytest.mark.parametrize("mu", [0.2, 2.0])
def test_a_box_covers_all_columns_at_once(mu):
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(250):
        rows = np.stack([rng.uniform(0, 100, 400), rng.random(400) < 0.1], axis=1)
        region = confidence_region(
            rows,
            Mean(((0, 100), (0, 1))),
            budget=GDP(mu),
            confidence_level=0.9,
            method=PrivateVariance(),
            rng=rng,
        )
        covered += region.contains([50, 0.1])
    assert region.shape == "box"
    assert binomtest(covered, 250, 0.9, "less").pvalue > FALSE_ALARM
    assert binomtest(covered, 250, 0.95, "greater").pvalue > FALSE_ALARM


def test_constant_data_give_an_interval_that_holds_them():
    region = confidence_region(np.full(1000, 0.5), Mean((0, 1)), budget=GDP(1.0), rng=3)
    assert region.contains(0.5)
    assert region.radius < 0.02


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_a_bound_stays_inside_the_bounds_and_in_order(alternative):
    for edge in (0.0, 1.0):
        for seed in range(20):
            region = confidence_region(
                np.full(5, edge),
                Mean((0, 1)),
                budget=GDP(0.1),
                method=PrivateVariance(),
                alternative=alternative,
                confidence_level=0.5,
                rng=seed,
            )
            low, high = region.interval
            assert low <= high
            assert (high == 1) if alternative == "greater" else (low == 0)


def test_where_it_matters_most_an_upper_bound_is_put_right():
    # A fault of 0.026 without: data low in their bounds, noise as large as the sampling error.
    n, runs, rng = 1000, 12_000, np.random.default_rng(7)
    plan = plan_for(n, mu=1.0, alternative="less")
    nu, mean, covered = plan.mechanism.scale, 0.02, 0
    for e, a, b in rng.standard_normal((runs, 3)):
        own = mean + nu * e
        x, bulge = own + nu * a, own * (1 - own) - (n - 1) * nu**2 + 0.3003 * nu * b
        variance = plan.joint.variance(Fraction(x), Fraction(bulge))
        covered += mean - x <= plan.joint.bound_width(1 - 2 * x, variance, above=True)
    assert binomtest(covered, runs, 0.9, "less").pvalue > FALSE_ALARM


@given(st.integers(0, 2**32), st.integers(2, 20), st.integers(1, 5))
@settings(deadline=None)
def test_no_neighbours_move_means_and_covariance_by_more_than_the_noise_allows_for(seed, n, d):
    rng = np.random.default_rng(seed)
    cells = tuple(int(c) for c in rng.integers(1, 1000, d))
    corners = rng.integers(2, size=(n, d)) * np.array(cells)
    rows = np.where(rng.random((n, 1)) < 0.6, corners, rng.integers(0, np.array(cells) + 1, (n, d)))
    other = rows.copy()
    moving = rng.random(d) < 0.6
    other[0] = np.where(moving, rng.integers(0, np.array(cells) + 1, d), rows[0])
    joint = JointCovariance(n, d, 1.0)
    pairs = zip(joint.exact(rows, cells), joint.exact(other, cells), strict=True)
    assert sum((a - b) ** 2 for a, b in pairs) <= joint.mechanism.sensitivity**2


def test_the_bound_on_both_is_nearly_needed_beyond_one_column():
    # d − 1 columns go from a bound to the other, and one stays at a bound.
    for d in (2, 3, 8):
        joint, cells = JointCovariance(1, d, 1.0), (1,) * d
        before, after = np.zeros((1, d), int), np.array([[1] * (d - 1) + [0]])
        pairs = zip(joint.exact(before, cells), joint.exact(after, cells), strict=True)
        moved = float(sum((a - b) ** 2 for a, b in pairs))
        assert (d - 1) * (1 + 1 / d) - 1e-9 <= moved <= d


@pytest.mark.parametrize("d", [1, 2, 3])
def test_with_no_noise_to_speak_of_the_covariance_is_the_samples(d):
    rng = np.random.default_rng(d)
    rows = rng.integers(0, 1001, (60, d))
    means, covariance = JointCovariance(60, d, 1e8).release(rows, (1000,) * d, Randomness.of(1))
    np.testing.assert_allclose([float(m) for m in means], rows.mean(axis=0) / 1000, atol=1e-6)
    expected = np.cov(rows / 1000, rowvar=False).reshape(d, d)
    np.testing.assert_allclose(covariance, expected, atol=1e-6)


def test_the_covariance_has_no_bias_and_the_noise_that_is_stated_in_every_direction():
    rng = np.random.default_rng(5)
    n, mu, runs, d = 200, 0.5, 3000, 2
    rows = (rng.random((n, d)) < [0.1, 0.4]).astype(int)
    joint, source = JointCovariance(n, d, mu), Randomness.of(6)
    drawn = np.array([joint.release(rows, (1, 1), source)[1] for _ in range(runs)])
    exact, z = np.cov(rows, rowvar=False), rows.mean(axis=0) - 0.5
    nu = joint.scale
    assert float(joint.beta) == pytest.approx(1.0)
    for u in ([1, 0], [0, 1], [0.6, -0.8], [math.sqrt(0.5)] * 2):
        u = np.array(u)
        found = np.einsum("i,rij,j->r", u, drawn, u)
        error = nu * math.hypot(float(joint.beta), 2 * float(u @ z)) * n / (n - 1)
        assert abs(found.mean() - u @ exact @ u) < 4.9 * found.std() / math.sqrt(runs)
        assert found.std() == pytest.approx(error, rel=4.9 / math.sqrt(2 * runs))


def test_few_records_and_much_noise_leave_the_covariance_without_bias():
    rows = np.array([[0, 1], [1, 0]] * 10)
    joint, source, runs = JointCovariance(20, 2, 0.5), Randomness.of(6), 4000
    drawn = np.array([joint.release(rows, (1, 1), source)[1] for _ in range(runs)])
    off = drawn.mean(axis=0) - np.cov(rows, rowvar=False)
    allowed = 4.9 * drawn.std(axis=0) / math.sqrt(runs)
    assert (np.abs(off) < allowed).all()
    assert (allowed < joint.scale**2).all()  # what is taken off matters here


def test_there_is_no_budget_to_share():
    with pytest.raises(InvalidArgument, match="center_share must be None for intervals of means"):
        confidence_region(np.zeros(9), Mean((0, 1)), budget=GDP(1.0), method=PrivateVariance(0.5))
