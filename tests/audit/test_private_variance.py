"""Attacks on private variance: the released mean and variance leak no more than μ says.

All records say 0, but one of the neighbour's says 1: both statistics move by all they can.
"""

from dataclasses import replace

import numpy as np
import pytest

from audit.harness import mu_lower_bound
from confidp import Mean, PrivateVariance
from confidp.central.methods.method import Request
from confidp.randomness import Randomness

N, RUNS, OS = 100, 4000, Randomness.of(None)


def leak(plan):
    zeros = np.zeros((N, 1))
    one = zeros.copy()
    one[0] = 1.0

    def released(rows):
        records = plan.statistic.encode(rows)

        def run():
            ball = plan.release(records, OS)
            return np.array([ball.center[0], ball.public["variance"]])

        return run

    return mu_lower_bound(released(zeros), released(one), RUNS)


def plan_for(mu):
    return PrivateVariance().plan(Mean((0, 1)).for_shape(N, 1), Request(N, mu, 0.9, 1))


@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_mean_and_variance_together_leak_no_more_than_mu_and_nearly_that_much(mu):
    bound = leak(plan_for(mu))
    assert bound <= mu
    assert bound > 0.6 * mu - 0.25


@pytest.mark.parametrize("part", ["center", "spread"])
def test_too_little_noise_on_either_is_caught(part):
    plan = plan_for(3.0)
    mechanism = getattr(plan, part)
    # The variance has a fifth of the budget: halving its noise alone is a smaller breach.
    factor = 2 if part == "center" else 4
    broken = replace(mechanism, sensitivity=mechanism.sensitivity / factor)
    assert leak(replace(plan, **{part: broken})) > 3.0
