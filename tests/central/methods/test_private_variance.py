"""Private variance: its noise, its proof's two sensitivities, and the intervals that it makes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import (
    GDP,
    FiniteUStatistic,
    GiniMeanDifference,
    KendallTau,
    Mean,
    Median,
    PrivateVariance,
    ProductKernel,
    UStatistic,
    WilcoxonSignedRank,
    confidence_region,
)
from confidp.central.methods.estimated_variance import total_variance
from confidp.central.methods.method import Request
from confidp.central.methods.private_covariance import unit_covariance, unit_means
from confidp.central.methods.private_variance import PrivateVariancePlan
from confidp.errors import ConfidpError, InvalidType

FALSE_ALARM = 1e-6


def plan_for(
    n, *, bounds=(0, 1), columns=1, mu=1.0, level=0.9, share=0.8, alternative="two-sided"
) -> PrivateVariancePlan:
    statistic = Mean(bounds).for_shape(n, columns)
    request = Request(n, mu, level, 1, alternative=alternative)
    return PrivateVariance(share).plan(statistic, request)


def test_the_noise_scales_are_those_of_the_docstring():
    plan = plan_for(500, bounds=(-1, 3), mu=0.5)
    assert plan.public["center_noise"] == pytest.approx(4 / 500 / (0.5 * math.sqrt(0.8)))
    assert plan.public["variance_noise"] == pytest.approx(16 / 500 / (0.5 * math.sqrt(0.2)))
    vector = plan_for(500, bounds=((-1, 3), (0, 10)), columns=2, mu=0.5)
    root = math.sqrt(2)
    expected = [root * r / 500 / (0.5 * math.sqrt(0.8)) for r in (4, 10)]
    assert vector.public["center_noise"] == pytest.approx(expected)
    expected = [root * r * r / 500 / (0.5 * math.sqrt(0.2)) for r in (4, 10)]
    assert vector.public["variance_noise"] == pytest.approx(expected)


@given(st.floats(1e-3, 1e3), st.floats(0.01, 0.99) | st.none(), st.integers(1, 5))
def test_the_two_parts_compose_to_no_more_than_the_budget(mu, share, columns):
    plan = plan_for(50, mu=mu, share=share, columns=columns)
    total = Fraction(plan.center.mu) ** 2 + Fraction(plan.spread.mu) ** 2
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -50) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert plan.center.dimension == plan.spread.dimension == columns


@given(st.integers(0, 2**32), st.integers(2, 30), st.integers(1, 3))
@settings(deadline=None)
def test_no_neighbours_move_means_or_variances_by_more_than_the_noise_allows_for(seed, n, columns):
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 1.0, 0.5, 1 / 3], size=(n, columns))
    other = rows.copy()
    other[rng.integers(n)] = rng.choice([0.0, 1.0], size=columns)
    plan = plan_for(n, columns=columns)
    cells = [grid.cells for grid in plan.statistic.grids]
    first, second = plan.statistic.encode(rows), plan.statistic.encode(other)
    pairs = zip(unit_means(first, cells), unit_means(second, cells), strict=True)
    assert sum((a - b) ** 2 for a, b in pairs) <= plan.center.sensitivity**2
    moved = sum(
        (unit_covariance(first, cells, j, j) - unit_covariance(second, cells, j, j)) ** 2
        for j in range(columns)
    )
    assert moved <= plan.spread.sensitivity**2


@pytest.mark.parametrize("columns", [1, 4])
def test_both_sensitivities_are_attained(columns):
    plan = plan_for(20, columns=columns)
    zeros, one = np.zeros((20, columns)), np.zeros((20, columns))
    one[3] = 1.0
    first, second = (plan.statistic.encode(rows) for rows in (zeros, one))
    cells = [grid.cells for grid in plan.statistic.grids]
    assert unit_means(second, cells) == [Fraction(1, 20)] * columns
    moved = unit_covariance(second, cells, 0, 0) - unit_covariance(first, cells, 0, 0)
    assert moved == Fraction(1, 20)
    attained = Fraction(columns, 400)
    for mechanism in (plan.center, plan.spread):
        assert attained <= mechanism.sensitivity**2 <= attained * (1 + Fraction(2) ** -50)


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


def test_the_half_width_counts_all_three_errors():
    plan = plan_for(200, mu=0.5)
    t, d, nu = stats.t.isf(0.05, 199), plan.spread.scale, plan.center.scale
    for variance in (3 * d, d, 0.1 * d, -2 * d):
        total = total_variance(variance / 200 + nu * nu, d / 200, nu * nu, t)
        assert plan.half_width(variance) == pytest.approx(t * math.sqrt(total))
        assert plan.half_width(variance) >= t * math.sqrt(max(variance, 0) / 200 + nu * nu)


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


def test_only_means_are_taken():
    with pytest.raises(InvalidType, match="PrivateVariance needs a mean"):
        confidence_region(
            np.zeros(9), Median((0, 1)), budget=GDP(1.0, 1e-6), method=PrivateVariance()
        )


@pytest.mark.parametrize("share", [0, 1, -1, math.nan, "half"])
def test_a_share_that_leaves_nothing_is_refused(share):
    with pytest.raises(ConfidpError, match="center_share"):
        PrivateVariance(share)


def normal_copula(rng, n):
    x = rng.standard_normal((n, 2))
    x[:, 1] = (x[:, 0] + math.sqrt(3) * x[:, 1]) / 2
    return stats.norm.cdf(x)


U_STATISTICS = {
    "Gini's": (GiniMeanDifference((0, 1)), lambda r, n: r.random(n), 1 / 3),
    "Wilcoxon's": (WilcoxonSignedRank((-1, 1)), lambda r, n: r.random(n) - 0.4, 0.68),
    "Kendall's": (KendallTau((0, 1)), normal_copula, 1 / 3),
    "a product": (ProductKernel((0, 1)), lambda r, n: r.random(n), 1 / 4),
    "a table": (
        FiniteUStatistic(lambda x, y: float(x == y), range(4)),
        lambda r, n: np.minimum(r.integers(0, 6, n), 3),
        1 / 3,
    ),
    "a user's of three": (
        UStatistic(lambda x, y, z: x * y * z, 3, (0, 1), (0, 1), vectorized=True),
        lambda r, n: r.random(n),
        1 / 8,
    ),
}


@pytest.mark.parametrize("mu", [0.25, 1.0])
@pytest.mark.parametrize("case", U_STATISTICS)
def test_u_statistics_are_covered_without_resampling(case, mu):
    statistic, draw, truth = U_STATISTICS[case]
    rng, covered, runs = np.random.default_rng(6), 0, 200
    for _ in range(runs):
        region = confidence_region(
            draw(rng, 400), statistic, budget=GDP(mu), confidence_level=0.9, rng=rng
        )
        covered += region.contains(truth)
    assert region.method == "private variance"
    assert region.public["counts_noise"]
    assert binomtest(covered, runs, 0.9, "less").pvalue > FALSE_ALARM


def test_with_no_noise_to_speak_of_a_u_statistic_has_the_jackknifes_interval():
    data = np.random.default_rng(1).random(80)
    region = confidence_region(
        data, GiniMeanDifference((0, 1)), budget=GDP(1e8), confidence_level=0.9
    )

    def mean_difference(x):
        return np.abs(np.subtract.outer(x, x)).sum() / (len(x) * (len(x) - 1))

    without = np.array([mean_difference(np.delete(data, i)) for i in range(80)])
    error = math.sqrt(79 / 80 * ((without - without.mean()) ** 2).sum())
    center, reach = mean_difference(data), stats.t.isf(0.05, 79) * error
    assert region.interval == pytest.approx((center - reach, center + reach), abs=1e-6)
    assert region.public["variance"] == pytest.approx(80 * error**2, abs=1e-6)


@pytest.mark.parametrize(("alternative", "own_end"), [("greater", 1.0), ("less", -1.0)])
def test_a_bound_for_a_u_statistic_ends_at_the_kernels_own_range(alternative, own_end):
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(150):
        region = confidence_region(
            normal_copula(rng, 300), KendallTau((0, 1)), budget=GDP(1.0), confidence_level=0.9,
            alternative=alternative, rng=rng,
        )  # fmt: skip
        covered += region.contains(1 / 3)
        assert region.interval[alternative == "greater"] == own_end
    assert binomtest(covered, 150, 0.9, "less").pvalue > FALSE_ALARM


def test_its_noise_is_that_of_both_sensitivities():
    n, statistic = 500, ProductKernel((1, 3))
    plan = PrivateVariance(0.8).plan(statistic.for_shape(n, 1), Request(n, 0.5, 0.9, 1))
    assert plan.public["center_noise"] == pytest.approx(12 / n / (0.5 * math.sqrt(0.8)))
    moved = 4 * 8**2 * (n + 1) / (n - 2) ** 2  # the kernel goes from 1 to 9
    assert plan.public["variance_noise"] == pytest.approx(moved / (0.5 * math.sqrt(0.2)))


def test_degenerate_kernels_are_refused():
    statistic = ProductKernel((-1, 1), degenerate=True)
    with pytest.raises(InvalidType, match="isn't degenerate"):
        confidence_region(np.zeros(9), statistic, budget=GDP(1.0), method=PrivateVariance())


def test_the_half_width_is_in_the_units_of_both_where_their_ratio_is_not_one():
    n, statistic = 500, ProductKernel((1, 3))
    plan = PrivateVariance(0.8).plan(statistic.for_shape(n, 1), Request(n, 0.5, 0.9, 1))
    ((center_unit, spread_unit),) = plan.units
    ratio = float(spread_unit / center_unit**2)
    assert ratio > 1.7  # (8/6)²
    t, nu, d = stats.t.isf(0.05, n - 1), plan.public["center_noise"], plan.public["variance_noise"]
    for variance in (2 * d, 0.0, -d):
        total = total_variance(variance / n + nu * nu, d / n, nu * nu, t)
        scaled = plan.half_width(variance / float(spread_unit), ratio)
        assert scaled * float(center_unit) == pytest.approx(t * math.sqrt(total))
