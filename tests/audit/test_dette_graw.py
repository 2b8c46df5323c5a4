"""Attacks on Dette-Graw: asymptotic accounting's claim fails, numerical accounting's holds.

All zeros, or one 1 among them: a resample that holds the 1 lies Δ_m above the others. Attacks run
on the real noise and indices where a sound mechanism must withstand them, and with a fixed seed
where they must find something.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from audit.harness import mu_lower_bound
from confidp import GDP, Mean
from confidp.central.methods.dette_graw import DetteGraw
from confidp.central.methods.method import Request
from confidp.privacy.noise import GaussianMechanism, secret_indices
from confidp.randomness import Randomness

SEED, FALSE_ALARM = 20261130, 1e-6


def data(n: int, ones: int):
    return np.where(np.arange(n)[:, None] < ones, 1.0, 0.0)


def estimates(plan, rows, source):
    """Return θ̃ and all θ*_b: what the guarantee is for."""
    n, m = plan.request.n, plan.resample_size
    sets = [secret_indices(n, m, True, source) for _ in range(plan.request.n_resamples)]
    center, noisy = plan.release_on(plan.statistic.encode(rows), sets, source)
    return float(center), np.array([float(x) for x in noisy])


def plan_for(method, n, mu, n_resamples, level=0.9):
    statistic = Mean((0, 1)).for_shape(n, 1)
    return method.plan(statistic, Request(n, mu, level, n_resamples, 1e-5))


def asymptotic_plan():
    method = DetteGraw("asymptotic", acknowledge_unproved=True)
    return plan_for(method, n=2000, mu=8.0, n_resamples=500)


def asymptotic_leak(plan, runs: int = 150, seed=SEED) -> float:
    """Return a lower bound on μ by the largest noisy resample: is it over Δ_m/2?"""
    n, source = plan.request.n, Randomness.of(seed)
    bar = 1 / (2 * plan.resample_size)
    # Among zeros the largest exceeds that only by noise: 63 deviations, 500 times.
    false_positives = plan.request.n_resamples * stats.norm.sf(bar / plan.resample.scale)
    assert false_positives < 1e-20
    caught = sum(estimates(plan, data(n, 1), source)[1].max() > bar for _ in range(runs))
    power = stats.beta.ppf(FALSE_ALARM, caught, runs - caught + 1)  # a lower bound on it
    assert caught / runs < 0.63 + 0.25  # (1 − 1/e): the 1 isn't in every set of resamples
    return float(stats.norm.isf(1e-20) - stats.norm.isf(power))


def test_the_largest_noisy_resample_refutes_asymptotic_accounting_at_mu_8():
    plan = asymptotic_plan()
    bound = asymptotic_leak(plan)
    assert bound > 8.0 + 0.5  # three times the power that 8-GDP allows, 0.10
    assert bound <= plan.cost.mu  # what is proved isn't refuted


def test_the_released_interval_itself_refutes_it_at_a_high_level():
    # At level 0.999 and B = 500 the interval's ends come from the largest and least resample.
    n, n_resamples, runs = 2000, 500, 60
    method = DetteGraw("asymptotic", acknowledge_unproved=True)
    plan = plan_for(method, n, 8.0, n_resamples, level=0.999)
    rate = (plan.resample_size / n) ** 0.5
    records = plan.statistic.encode(data(n, 1))
    caught, source = 0, Randomness.of(SEED)
    for _ in range(runs):
        ball = plan.release(records, source)
        low = ball.center[0] - ball.radius
        caught += (ball.public["estimate"] - low) / rate > 1 / (2 * plan.resample_size)
    power = stats.beta.ppf(FALSE_ALARM, caught, runs - caught + 1)
    assert power > 2 * (1 - GDP(8.0).tradeoff(1e-20))


def numerical_leak(plan, runs: int, seed=SEED) -> float:
    """Attack with the center and the resamples' exact log-likelihood ratio."""
    source = Randomness.of(seed)
    n, m, scale = plan.request.n, plan.resample_size, plan.resample.scale
    times = np.arange(m + 1)
    logs = stats.binom.logpmf(times, m, 1 / n)

    def released(rows):
        def run():
            center, noisy = estimates(plan, rows, source)
            shift = times / (m * scale)
            ratios = logsumexp(logs + shift * noisy[:, None] / scale - shift**2 / 2, axis=1)
            return np.array([center, ratios.sum(), noisy.max()])

        return run

    return mu_lower_bound(released(data(n, 0)), released(data(n, 1)), runs)


def test_numerical_accounting_leaks_no_more_than_mu():
    plan = plan_for(DetteGraw(), n=60, mu=3.0, n_resamples=10)
    assert numerical_leak(plan, 1000, seed=None) <= 3.0
    assert 1.0 < numerical_leak(plan, 1500) <= 3.0


def a_third_of_the_noise(plan):
    assert plan.resample_size == 6
    return replace(
        plan,
        center=GaussianMechanism(plan.center.sensitivity / 3, plan.center.mu),
        resample=GaussianMechanism(Fraction(1, 6) / 3, plan.resample.mu, 10),
    )


def test_a_third_of_the_noise_is_caught():
    plan = plan_for(DetteGraw(), n=60, mu=3.0, n_resamples=10)
    assert numerical_leak(a_third_of_the_noise(plan), 2000) > 3.0
