"""Attacks on PTR-GDP and CR-SS: the released bounds and values leak no more than (μ, δ) says.

δ is 1e-6 here and the rates that are measured are thousands of times larger, so a lower bound on μ
that ignores δ is off by less than 0.001.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from audit.harness import mu_lower_bound
from confidp import CRSS, Median
from confidp.central.methods.method import Request
from confidp.central.methods.ptr_gdp import PTRGDP
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

OS, RUNS, DELTA, SLACK = Randomness.of(None), 4000, 1e-6, 1e-3


def ptr_leak(ptr: PTRGDP, smooth: tuple[float, float], runs: int = RUNS) -> float:
    """Attack neighbours whose values lie 1 apart and whose smooth sensitivities are `smooth`."""

    def released(value, bound):
        def run():
            (noisy,), released_bound = ptr.release([Fraction(value)], bound, OS)
            return np.array([np.log(released_bound), float(noisy), float(noisy) / released_bound])

        return run

    return mu_lower_bound(released(0, smooth[0]), released(1, smooth[1]), runs)


def test_ptr_gdp_leaks_no_more_than_both_its_parts_and_nearly_that_much():
    # A small β makes the bound tight, so that both parts leak in full.
    beta, mu = 0.01, 2.0
    ptr = PTRGDP(beta, mu, mu, DELTA)
    bound = ptr_leak(ptr, (1.0, np.exp(beta)))
    assert bound <= ptr.cost.mu + SLACK
    assert bound > 0.6 * ptr.cost.mu - 0.25


def test_ptr_gdp_with_a_bound_that_is_not_smooth_is_caught():
    # Lemma 6.1's form can grow by e^22 where e^β is claimed.
    ptr = PTRGDP(0.19, 1.5, 1.5, DELTA)
    assert ptr_leak(ptr, (1.0, np.exp(22)), runs=1000) > ptr.cost.mu


def test_ptr_gdp_with_half_the_noise_on_its_bound_is_caught():
    ptr = PTRGDP(0.01, 3.0, 0.1, DELTA)
    half = GaussianMechanism(Fraction(0.01) / 2, 3.0)
    broken = replace(ptr)
    object.__setattr__(broken, "_log_bound", half)
    assert ptr_leak(broken, (1.0, np.exp(0.01))) > ptr.cost.mu


class LemmaMedian(Median(bounds=(0, 1)).__class__):
    """A median that claims Lemma 6.1's bound, x_(h+k⋆+1) − x_(h−k⋆−1) + C/n³, as SS_β."""

    def smooth_sensitivity(self, records, beta):
        x = np.sort(records)
        h, step = self.rank(len(x)), float(self.grid.step)
        return (x[h] - x[h - 2]) * step + 1 / len(x) ** 3  # k⋆ = 0


def cr_ss_leak(statistic, mu: float, runs: int) -> float:
    """Attack CR-SS on neighbours where one record opens a gap beside the median."""
    n, m = 400, 20
    statistic = statistic.for_shape(n, 1)
    plan = CRSS(resample_size=m).plan(statistic, Request(n, mu, 0.9, 1, DELTA))
    half = n // 2  # the median is the 200th smallest, and its right neighbour at first is as small
    data = np.concatenate([np.full(half + 1, 0.5), np.full(n - half - 1, 1.0)])[:, None]
    other = data.copy()
    other[half] = 1.0
    indices = np.arange(half - m // 2, half + m // 2)

    def released(rows):
        records = statistic.encode(rows)

        def run():
            ball = plan.release_on(records, [indices], OS)
            bounds = [np.log(ball.public["center_noise"]), np.log(ball.public["radius_noise"])]
            return np.array([*bounds, ball.center[0], ball.radius])

        return run

    return mu_lower_bound(released(data), released(other), runs)


def test_cr_ss_with_exact_smooth_sensitivities_leaks_no_more_than_mu():
    assert cr_ss_leak(Median(bounds=(0, 1)), mu=3.0, runs=3000) <= 3.0 + SLACK


def test_cr_ss_with_lemma_6_1_as_its_smooth_sensitivity_is_caught():
    assert cr_ss_leak(LemmaMedian(0.5, (0, 1)), mu=2.0, runs=1000) > 2.0 + SLACK
