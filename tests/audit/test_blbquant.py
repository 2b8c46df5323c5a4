"""Attacks on BLBQuant's two parts, each pure ε-DP: the estimate, and the search for the radius.

At n = 100 and μ = 2 each part has ε = 1.18 and a block 2 rows; neighbours are all zeros, and one 1.
The search is attacked with the streams that these neighbours give it. Attacks run on the real
noise, where a sound mechanism fails one in a million times, and with a fixed seed where they must
find something.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import stats

from confidp import Mean, Median
from confidp.central.methods.blbquant import BLBQuant
from confidp.central.methods.method import Request
from confidp.privacy.noise import AboveThreshold, ExponentialMechanism, LaplaceMechanism
from confidp.randomness import Randomness

SEED, N, FALSE_ALARM = 20261130, 100, 1e-6


def plan_for(statistic):
    return BLBQuant().plan(statistic.for_shape(N, 1), Request(N, 2.0, 0.9, 100))


def epsilon_lower_bound(first, second, runs: int) -> float:
    """Return a lower bound on ε from how often an event happens on each of two neighbours."""
    more, fewer = max(first, second), min(first, second)
    low = stats.beta.ppf(FALSE_ALARM / 2, more, runs - more + 1)
    high = stats.beta.ppf(1 - FALSE_ALARM / 2, fewer + 1, runs - fewer)
    return math.log(low / high)


def estimate_leak(plan, rows, other, event, seed=SEED, runs=2000) -> float:
    source = Randomness.of(seed)
    counts = [
        sum(event(plan.estimator.release(plan.statistic.encode(x), source)) for _ in range(runs))
        for x in (rows, other)
    ]
    return epsilon_lower_bound(*counts, runs)


ZEROS = np.zeros((N, 1))
ONE = np.where(np.arange(N)[:, None] == 0, 1.0, 0.0)


def test_the_means_estimate_leaks_no_more_than_epsilon_and_half_the_noise_is_caught():
    plan = plan_for(Mean((0, 1)))
    epsilon, half = plan.search.epsilon, Fraction(1, 200)

    def leak(plan, seed=SEED):
        return estimate_leak(plan, ZEROS, ONE, lambda x: x > 2 * half, seed)

    assert leak(plan, seed=None) <= epsilon
    assert 0.4 * epsilon < leak(plan) <= epsilon
    broken = replace(plan.estimator, mechanism=LaplaceMechanism(half, epsilon))
    assert leak(replace(plan, estimator=broken)) > epsilon


def test_the_medians_estimate_leaks_no_more_than_epsilon_and_a_larger_eta_is_caught():
    # 49 zeros, or 50: the point 0 is a rank from the 50th smallest, or none.
    plan = plan_for(Median((0, 1), resolution=1))
    rows, other = (np.where(np.arange(N)[:, None] < zeros, 0.0, 1.0) for zeros in (49, 50))
    epsilon = plan.search.epsilon

    def leak(plan, seed=SEED):
        return estimate_leak(plan, rows, other, lambda x: x == 0, seed)

    assert leak(plan, seed=None) <= epsilon
    assert 0.05 < leak(plan) <= epsilon
    broken = replace(plan.estimator, mechanism=ExponentialMechanism(4 * epsilon))
    assert leak(replace(plan, estimator=broken)) > epsilon


def search_leak(plan, search, copies: int = 1, seed=SEED, runs: int = 1000) -> float:
    """Attack the search with c(t) of all zeros and of one 1, which is in `copies` blocks."""
    source = Randomness.of(seed)
    enough = [
        np.repeat(plan.enough(plan.statistic.encode(x), np.random.default_rng(5)), copies)
        for x in (ZEROS, ONE)
    ]
    streams = [[-int((e > k).sum()) for k in range(1, 41)] for e in enough]
    # At the step where they differ most, does it stop? Nothing reaches the threshold before.
    last = max(range(40), key=lambda k: streams[0][k] - streams[1][k])
    bar = streams[0][last]
    counts = [
        sum(
            (stop := search.first(s, bar, source)) is not None and stop <= last for _ in range(runs)
        )
        for s in ([-50] * last + s[last:] for s in streams)
    ]
    return epsilon_lower_bound(*counts, runs)


def test_the_search_leaks_no_more_than_epsilon():
    plan = plan_for(Mean((0, 1)))
    assert search_leak(plan, plan.search, seed=None, runs=2500) <= plan.search.epsilon


def test_a_search_with_a_sixteenth_of_the_noise_is_caught():
    plan = plan_for(Mean((0, 1)))
    assert search_leak(plan, AboveThreshold(16 * plan.search.epsilon)) > plan.search.epsilon


def test_overlapping_blocks_with_the_sensitivity_of_disjoint_ones_are_caught():
    plan = plan_for(Mean((0, 1)))
    assert search_leak(plan, plan.search, copies=12) > plan.search.epsilon
