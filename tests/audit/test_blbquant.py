"""Attacks on BLBQuant's two parts, each pure ε-DP: the estimate, and the search for the radius.

At n = 100 and μ = 2 each part has ε = 1.18 and a block 2 rows; neighbours are all zeros, and one 1.
The search is attacked with the streams that these neighbours give it. Attacks run on the real
noise, where a sound mechanism fails one in a million times, and with a fixed seed where they must
find something.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from audit.harness import epsilon_lower_bound
from confidp import Mean, Median
from confidp.central.methods.blbquant import BLBQuant
from confidp.central.methods.method import Request
from confidp.privacy.pure_dp import AboveThreshold, ExponentialMechanism, LaplaceMechanism
from confidp.randomness import Randomness

SEED, N = 20261130, 100


def plan_for(statistic):
    return BLBQuant().plan(statistic.for_shape(N, 1), Request(N, 2.0, 0.9, 100))


def estimate_leak(plan, rows, other, event, seed=SEED, runs=2000) -> float:
    source = Randomness.of(seed)
    counts = [
        sum(event(plan.estimator.release(plan.statistic.encode(x), source)) for _ in range(runs))
        for x in (rows, other)
    ]
    return epsilon_lower_bound(*counts, runs)


ZEROS = np.zeros((N, 1))
ONE = np.where(np.arange(N)[:, None] == 0, 1.0, 0.0)


def mean_estimate_leak(plan, seed=SEED, runs=2000):
    return estimate_leak(plan, ZEROS, ONE, lambda x: x > Fraction(1, N), seed, runs)


def half_the_noise(plan):
    mechanism = LaplaceMechanism(Fraction(1, 2 * N), plan.search.epsilon)
    return replace(plan, estimator=replace(plan.estimator, mechanism=mechanism))


def test_the_means_estimate_leaks_no_more_than_epsilon_and_half_the_noise_is_caught():
    plan = plan_for(Mean((0, 1)))
    epsilon = plan.search.epsilon
    assert mean_estimate_leak(plan, seed=None) <= epsilon
    assert 0.4 * epsilon < mean_estimate_leak(plan) <= epsilon
    assert mean_estimate_leak(half_the_noise(plan)) > epsilon


def median_estimate_leak(plan, seed=SEED, runs=2000):
    """49 zeros, or 50: the point 0 is a rank from the 50th smallest, or none."""
    rows, other = (np.where(np.arange(N)[:, None] < zeros, 0.0, 1.0) for zeros in (49, 50))
    return estimate_leak(plan, rows, other, lambda x: x == 0, seed, runs)


def eta_too_large(plan):
    mechanism = ExponentialMechanism(4 * plan.search.epsilon)
    return replace(plan, estimator=replace(plan.estimator, mechanism=mechanism))


def test_the_medians_estimate_leaks_no_more_than_epsilon_and_a_larger_eta_is_caught():
    plan = plan_for(Median((0, 1), resolution=1))
    epsilon = plan.search.epsilon
    assert median_estimate_leak(plan, seed=None) <= epsilon
    assert 0.05 < median_estimate_leak(plan) <= epsilon
    assert median_estimate_leak(eta_too_large(plan)) > epsilon


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
    assert search_leak(plan, plan.search, seed=None) <= plan.search.epsilon


def test_a_search_with_a_sixteenth_of_the_noise_is_caught():
    plan = plan_for(Mean((0, 1)))
    assert search_leak(plan, AboveThreshold(16 * plan.search.epsilon)) > plan.search.epsilon


def test_overlapping_blocks_with_the_sensitivity_of_disjoint_ones_are_caught():
    plan = plan_for(Mean((0, 1)))
    assert search_leak(plan, plan.search, copies=12) > plan.search.epsilon
