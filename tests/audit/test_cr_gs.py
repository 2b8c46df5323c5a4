"""Attacks on CR-GS: the released pair on worst neighbours leaks no more than μ says.

Index sets are fixed, since the guarantee holds for each of them: n = 1000 people, B = 1 resample
of m = 10, in which person 0 appears κ times. All say 0, but person 0 of the neighbour says 1: the
center moves by 1/n and the distance by κ/m − 1/n, near its bound of κ/m + 1/n, so the attack can
come near μ.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from audit.harness import mu_lower_bound
from confidp import CRGS, Custom, Mean
from confidp.central.methods.cr_gs import CRGSPlan
from confidp.central.methods.method import Request
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

N, M, RUNS = 1000, 10, 4000
OS = Randomness.of(None)


def plan_for(sampling: str, mu: float) -> CRGSPlan:
    statistic = Mean(bounds=(0, 1)).for_shape(N, 1)
    request = Request(n=N, mu=mu, confidence_level=0.9, n_resamples=1)
    return CRGS(sampling, resample_size=M, calibration="published").plan(statistic, request)


def leak(plan: CRGSPlan, times: int) -> float:
    """Return the lower bound on μ when person 0 appears `times` times in the resample."""
    zeros = np.zeros((N, 1))
    one = zeros.copy()
    one[0] = 1.0
    indices = np.array([0] * times + list(range(1, M - times + 1)))

    def released(rows):
        records = plan.statistic.encode(rows)

        def run():
            ball = plan.release_on(records, [indices], OS)
            return np.array([*ball.center, ball.radius])

        return run

    return mu_lower_bound(released(zeros), released(one), RUNS)


def noise_halved(mechanism: GaussianMechanism) -> GaussianMechanism:
    """Claim the same μ at half the sensitivity: half the noise."""
    return replace(mechanism, sensitivity=mechanism.sensitivity / 2)


@pytest.mark.parametrize("mu", [1.0, 3.0])
@pytest.mark.parametrize("sampling", ["with_replacement", "without_replacement"])
def test_the_released_pair_leaks_no_more_than_mu_and_nearly_that_much(sampling, mu):
    plan = plan_for(sampling, mu)
    bound = leak(plan, times=plan.resampling.multiplicity)
    assert bound <= mu
    assert bound > 0.6 * mu - 0.25  # the attack has teeth


@pytest.mark.parametrize("sampling", ["with_replacement", "without_replacement"])
def test_half_the_noise_is_caught(sampling):
    plan = plan_for(sampling, 3.0)
    broken = replace(plan, center=noise_halved(plan.center), radius=noise_halved(plan.radius))
    assert leak(broken, times=plan.resampling.multiplicity) > 3.0


def test_half_the_noise_on_the_radius_alone_is_caught():
    plan = plan_for("without_replacement", 3.0)
    assert leak(replace(plan, radius=noise_halved(plan.radius)), times=1) > 3.0


def test_a_multiplicity_taken_as_1_with_replacement_is_caught():
    plan = plan_for("with_replacement", 3.0)
    assert plan.resampling.multiplicity > 1
    sensitivity = Fraction(plan.statistic.sensitivity(M)) + Fraction(plan.statistic.sensitivity(N))
    broken = replace(plan, radius=replace(plan.radius, sensitivity=sensitivity))
    assert leak(broken, times=plan.resampling.multiplicity) > 3.0


def noise_aware_leak(change=None, side="two-sided"):
    """Attack the noise-aware region with the same neighbours; m = 10 of 1000 makes pivots leak."""
    # A Custom mean has no public bounds of its own, which would clip a one-sided end.
    mean = Mean(bounds=(0, 1)) if side == "two-sided" else Custom(np.mean, lambda n: 1 / n, (0, 1))
    statistic = mean.for_shape(N, 1)
    plan = CRGS(resample_size=M).plan(statistic, Request(N, 3.0, 0.9, 1, alternative=side))
    if change is not None:
        plan = change(plan)
    zeros = np.zeros((N, 1))
    one = zeros.copy()
    one[0] = 1.0

    def released(rows):
        records = statistic.encode(rows)

        def run():
            ball = plan.release_on(records, [np.arange(M)], OS)
            reach = ball.radius if ball.box is None else ball.center[0] - ball.box[0][0]
            return np.array([*ball.center, reach])

        return run

    return mu_lower_bound(released(zeros), released(one), RUNS // 2)


def test_the_noise_aware_pair_leaks_no_more_than_mu_and_nearly_that_much():
    # The calibrated quantile moves by less than its pivots where the center's noise is counted.
    bound = noise_aware_leak()
    assert 1.2 < bound <= 3.0


def test_a_noise_aware_region_with_half_its_center_noise_is_caught():
    def half(plan):
        return replace(plan, center=noise_halved(plan.center))

    assert noise_aware_leak(half) > 3.0


def test_a_noise_aware_lower_bound_leaks_no_more_than_mu_and_nearly_that_much():
    # Its Q moves as far as the pivots do: no noise of the center's blurs it.
    bound = noise_aware_leak(side="greater")
    assert 0.6 * 3.0 - 0.25 < bound <= 3.0


def test_a_lower_bound_with_half_its_center_noise_is_caught():
    def half(plan):
        return replace(plan, center=noise_halved(plan.center))

    assert noise_aware_leak(half, side="greater") > 3.0
