"""Attacks on the delta method: centers, moments and their covariance together leak at most μ.

All records lie at one corner but one of the neighbour's, which lies where the products move most.
The attacker sees everything that is released.
"""

from dataclasses import replace

import numpy as np
import pytest

from audit.harness import mu_lower_bound
from confidp import Correlation, Ratio, StandardDeviation
from confidp.central.methods.delta_method import DeltaMethod
from confidp.central.methods.method import Request
from confidp.randomness import Randomness

SEED, N, RUNS, MU = 20261130, 50, 1000, 2.0
UNIT = ((0.0, 1.0), (0.0, 1.0))
SPREAD = StandardDeviation((0, 1), 0.01)
RATIO = Ratio(UNIT, 0.01)
CORRELATION = Correlation(UNIT, (0.01, 0.01))


def leak(plan, statistic, moved=1.0, runs=RUNS, seed=None):
    source = Randomness.of(seed)
    columns = len(statistic.grids)
    zeros = np.zeros((N, columns))
    one = zeros.copy()
    one[0] = moved

    def released(rows):
        records = statistic.encode(rows)

        def run():
            out = plan.measure(records, source)
            upper = np.triu_indices(len(out.covariance))
            return np.concatenate([out.centers or [], out.moments, out.covariance[upper]])

        return run

    return mu_lower_bound(released(zeros), released(one), runs)


def plan_for(statistic):
    return DeltaMethod().plan(statistic, Request(N, MU, 0.9, 1))


@pytest.mark.parametrize("statistic", [SPREAD, RATIO, CORRELATION], ids=["sd", "ratio", "corr"])
def test_all_it_releases_leaks_no_more_than_mu_and_a_good_part_of_it(statistic):
    bound = leak(plan_for(statistic), statistic, runs=2 * RUNS)
    assert bound <= MU
    assert (
        bound > 0.5
    )  # 1.0 ± 0.1, of three products, which don't all move by all they can; or more


@pytest.mark.parametrize(
    ("part", "statistic"),
    [("probe", SPREAD), ("center", SPREAD), ("center", RATIO), ("spread", CORRELATION)],
)
def test_too_little_noise_on_any_part_is_caught(part, statistic):
    plan = plan_for(statistic)
    mechanism = getattr(plan, part)
    broken = replace(mechanism, mu=mechanism.mu * (6 if part == "probe" else 4))
    assert leak(replace(plan, **{part: broken}), statistic, seed=SEED) > MU


def test_a_covariance_with_half_of_its_own_noise_is_caught():
    # Beside means with all of theirs: where one column moves, and the other lies at a bound.
    plan = plan_for(RATIO)
    center = plan.center
    object.__setattr__(center, "beta", center.beta / 4)
    assert leak(plan, RATIO, moved=[1.0, 0.0], seed=SEED) > MU


def all_of_it_on_every_part(plan):
    return replace(plan, probe=replace(plan.probe, mu=MU), center=replace(plan.center, mu=MU))


def test_a_budget_spent_on_every_part_in_full_is_caught():
    broken = all_of_it_on_every_part(plan_for(SPREAD))
    assert leak(broken, SPREAD, runs=3 * RUNS, seed=SEED) > MU  # √2 times it
