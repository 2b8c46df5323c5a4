"""Attacks on private variance: what it releases leaks no more than μ says.

All records say 0, but one of the neighbour's says 1 in every column: means, variances and
covariances all move by all they can, by 1/n. So do Gini's mean difference and its jackknife
variance, by 2/n and 4/n. The test is the exact log-likelihood ratio. Sound plans are attacked with
the real noise, broken ones with a seed.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from audit.harness import score_lower_bound
from confidp import GiniMeanDifference, Mean, PrivateVariance
from confidp.central.methods.method import Request
from confidp.central.methods.private_covariance import CovarianceMechanism
from confidp.randomness import Randomness

SEED, N, RUNS = 20261130, 50, 1000


def leak(plan, columns=1, runs=RUNS, seed=None):
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
            spread = out.public.get("variance", out.public.get("covariance"))
            return np.sum(out.center) / plan.center.scale**2 + np.sum(spread) / plan.spread.scale**2

        return run

    return score_lower_bound(released(zeros), released(one), runs)


def plan_for(mu, columns=1, shape="box"):
    statistic = Mean((0, 1)).for_shape(N, columns)
    return PrivateVariance(0.8, shape).plan(statistic, Request(N, mu, 0.9, 1))


@pytest.mark.parametrize("mu", [1.0, 2.0])
def test_mean_and_variance_together_leak_no_more_than_mu_and_nearly_that_much(mu):
    bound = leak(plan_for(mu))
    assert bound <= mu
    assert bound > 0.6 * mu - 0.45  # 0.51 ± 0.06 of 1, and 1.45 ± 0.07 of 2


@pytest.mark.parametrize("shape", ["box", "ellipsoid"])
def test_several_columns_leak_no_more_than_mu_and_nearly_that_much(shape):
    bound = leak(plan_for(2.0, columns=2, shape=shape), columns=2)
    assert bound <= 2.0
    assert bound > 0.6 * 2.0 - 0.25  # 1.45 ± 0.07


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


@pytest.mark.parametrize("part", ["center", "spread"])
def test_too_little_noise_on_either_is_caught(part):
    plan = plan_for(2.0)
    mechanism = getattr(plan, part)
    # The variance has a fifth of the budget: halving its noise alone is a smaller breach.
    factor = 2 if part == "center" else 4
    broken = replace(mechanism, sensitivity=mechanism.sensitivity / factor)
    assert leak(replace(plan, **{part: broken}), seed=SEED) > 2.0


def test_noise_for_one_column_on_all_is_caught():
    plan = plan_for(2.0, columns=4)
    broken = replace(plan.center, sensitivity=Fraction(1, N))
    assert leak(replace(plan, center=broken), columns=4, seed=SEED) > 2.0


def test_a_covariance_with_the_noise_of_one_variance_is_caught():
    plan = plan_for(2.0, columns=4, shape="ellipsoid")
    broken = CovarianceMechanism(Fraction(1, N), 4, plan.spread.mu)
    assert leak(replace(plan, spread=broken), columns=4, seed=SEED) > 2.0
