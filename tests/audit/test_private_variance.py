"""Attacks on private variance: what it releases leaks no more than μ says.

All records say 0, but one of the neighbour's says 1, or 1/φ, in every column: the means of x and of
its bulge move by √d/n together, by all they can. In the other cases means and covariances, or a
mean difference and its jackknife variance, do. The test is the exact log-likelihood ratio, read off
the released numbers. Sound plans are attacked with the real noise, broken ones with a seed.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from audit.harness import score_lower_bound
from confidp import GiniMeanDifference, Mean, PrivateVariance
from confidp.central.methods.joint_moments import BULGE, bulging_means
from confidp.central.methods.method import Request
from confidp.central.methods.private_covariance import CovarianceMechanism
from confidp.randomness import Randomness

SEED, N, RUNS = 20261130, 50, 1000


def leak(plan, new=1.0, columns=1, runs=RUNS, seed=None):
    """Of means and their variances, where one record goes from 0 to `new` in all columns."""
    source = Randomness.of(seed)
    zeros = np.zeros((N, columns))
    one = zeros.copy()
    one[0] = new
    moved = np.array([new, new * (1 - new) / float(BULGE)])

    def released(rows):
        records = plan.statistic.encode(rows)

        def run():
            out = plan.release(records, source)
            x, variance = np.array(out.center), np.array(out.public["variance"])
            bulge = (x * (1 - x) + plan.mechanism.scale**2 - variance * (N - 1) / N) / float(BULGE)
            return float(np.sum(moved[0] * x + moved[1] * bulge))

        return run

    return score_lower_bound(released(zeros), released(one), runs)


def leak_of_an_ellipsoid(plan, columns, runs=RUNS, seed=None):
    source = Randomness.of(seed)
    zeros = np.zeros((N, columns))
    one = zeros.copy()
    one[0] = 1.0

    def released(rows):
        records = plan.statistic.encode(rows)

        def run():
            out = plan.release(records, source)
            # All move by 1/n alike. A matrix has its noise off the diagonal twice, and half as
            # much variance there: the sum of all entries is the test.
            spread = np.sum(out.public["covariance"])
            return np.sum(out.center) / plan.center.scale**2 + spread / plan.spread.scale**2

        return run

    return score_lower_bound(released(zeros), released(one), runs)


def plan_for(mu, columns=1, shape="box"):
    statistic = Mean((0, 1)).for_shape(N, columns)
    method = PrivateVariance(0.8, shape) if shape == "ellipsoid" else PrivateVariance()
    return method.plan(statistic, Request(N, mu, 0.9, 1))


GOLDEN = (5**0.5 - 1) / 2


@pytest.mark.parametrize("mu", [1.0, 2.0])
@pytest.mark.parametrize("new", [1.0, GOLDEN])
def test_mean_and_variance_together_leak_no_more_than_mu_and_nearly_that_much(mu, new):
    bound = leak(plan_for(mu), new)
    assert bound <= mu
    assert bound > 0.6 * mu - 0.45


def test_several_columns_leak_no_more_than_mu_and_nearly_that_much():
    bound = leak(plan_for(2.0, columns=2), GOLDEN, columns=2)
    assert bound <= 2.0
    assert bound > 0.6 * 2.0 - 0.25


def test_an_ellipsoid_leaks_no_more_than_mu_and_nearly_that_much():
    bound = leak_of_an_ellipsoid(plan_for(2.0, columns=2, shape="ellipsoid"), columns=2)
    assert bound <= 2.0
    assert bound > 0.6 * 2.0 - 0.25  # 1.45 ± 0.07


def test_half_the_noise_is_caught():
    plan = plan_for(2.0)
    broken = replace(plan.mechanism, sensitivity=plan.mechanism.sensitivity / 2)
    assert leak(replace(plan, mechanism=broken), seed=SEED) > 2.0


def small_bulge_leak(runs=RUNS, seed=SEED):
    """As if x(1 − x) could be released with a third of its noise: where it moves most, at ½."""
    source = Randomness.of(seed)
    plan = plan_for(2.0)
    nu, third = plan.mechanism.scale, float(BULGE) / 3
    zeros, one = np.zeros((N, 1)), np.zeros((N, 1))
    one[0] = 0.5

    def released(rows):
        cells = [grid.cells for grid in plan.statistic.grids]
        mean, bulge = bulging_means(plan.statistic.encode(rows), cells)

        def run():
            x, w = plan.mechanism.release([mean, bulge * 3], source)
            return float(0.5 * x + 0.25 / third * w) / nu**2

        return run

    return score_lower_bound(released(zeros), released(one), runs)


def test_too_small_a_bulge_is_caught():
    assert small_bulge_leak() > 2.0


def leak_of_a_mean_difference(plan, runs=RUNS, seed=None):
    source, n = Randomness.of(seed), plan.request.n
    one = np.zeros((n, 1))
    one[0] = 1.0
    center_noise, spread_noise = (plan.public[f"{part}_noise"] for part in ("center", "variance"))

    def released(rows):
        records = plan.statistic.encode(rows)

        def run():
            out = plan.release(records, source)
            spread = out.public["variance"] * (4 / n) / spread_noise**2
            return out.center[0] * (2 / n) / center_noise**2 + spread

        return run

    return score_lower_bound(released(np.zeros((n, 1))), released(one), runs)


def mean_difference_plan(mu, share=0.5):
    statistic = GiniMeanDifference((0, 1)).for_shape(N, 1)
    return PrivateVariance(share).plan(statistic, Request(N, mu, 0.9, 1))


def test_a_u_statistic_and_its_jackknife_variance_leak_no_more_than_mu_and_nearly_that_much():
    bound = leak_of_a_mean_difference(mean_difference_plan(2.0))
    assert bound <= 2.0
    assert bound > 0.6 * 2.0 - 0.3  # 1.38 ± 0.09


def test_a_u_statistics_noise_of_independent_components_is_caught():
    # As if one record moved its own q_i only: R²/n for (2R)²/n.
    plan = mean_difference_plan(2.0)
    broken = replace(plan.spread, sensitivity=plan.spread.sensitivity / 4)
    assert leak_of_a_mean_difference(replace(plan, spread=broken), seed=SEED) > 2.0


def test_noise_for_one_column_on_all_is_caught():
    plan = plan_for(2.0, columns=4)
    broken = replace(plan.mechanism, sensitivity=Fraction(1, N))
    assert leak(replace(plan, mechanism=broken), columns=4, seed=SEED) > 2.0


def test_a_covariance_with_the_noise_of_one_variance_is_caught():
    plan = plan_for(2.0, columns=4, shape="ellipsoid")
    broken = CovarianceMechanism(Fraction(1, N), 4, plan.spread.mu)
    assert leak_of_an_ellipsoid(replace(plan, spread=broken), columns=4, seed=SEED) > 2.0
