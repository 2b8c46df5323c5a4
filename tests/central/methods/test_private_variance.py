"""Private variance of U-statistics: its noise, and the intervals that it makes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import (
    GDP,
    FiniteUStatistic,
    GiniMeanDifference,
    KendallTau,
    Median,
    PrivateVariance,
    ProductKernel,
    UStatistic,
    WilcoxonSignedRank,
    confidence_region,
)
from confidp.central.methods.estimated_variance import total_variance
from confidp.central.methods.method import Request
from confidp.errors import ConfidpError, InvalidType

FALSE_ALARM = 1e-6


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


@given(st.floats(1e-3, 1e3), st.floats(0.01, 0.99) | st.none())
def test_the_two_parts_compose_to_no_more_than_the_budget(mu, share):
    statistic = GiniMeanDifference((0, 1)).for_shape(50, 1)
    plan = PrivateVariance(share).plan(statistic, Request(50, mu, 0.9, 1))
    total = Fraction(plan.center.mu) ** 2 + Fraction(plan.spread.mu) ** 2
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -50) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu


def test_the_half_width_counts_all_three_errors():
    n, statistic = 200, ProductKernel((1, 3))
    plan = PrivateVariance().plan(statistic.for_shape(n, 1), Request(n, 0.5, 0.9, 1))
    t, nu, d = stats.t.isf(0.05, n - 1), plan.public["center_noise"], plan.public["variance_noise"]
    for variance in (3 * d, d, 0.1 * d, -2 * d):
        total = total_variance(variance / n + nu * nu, d / n, nu * nu, t)
        assert plan.half_width(variance) == pytest.approx(t * math.sqrt(total))
        assert plan.half_width(variance) >= t * math.sqrt(max(variance, 0) / n + nu * nu)
