"""Attacks on the linearised methods: everything that they release, on worst neighbours.

Huber regressions attain each sensitivity: where the other records are 0, one whose outcome goes
from far above to far below moves minimiser and gradient by all they can, and one whose feature
turns from the first axis to the second moves the mean of g gᵀ and, if its residual is small, the
Hessian. Shares are equal here, so that an attack on any part has something to find.
"""

from dataclasses import replace

import numpy as np
import pytest

from audit.harness import mu_lower_bound
from confidp import HuberERM
from confidp.central.methods.linearised import Linearised
from confidp.central.methods.method import Request
from confidp.central.methods.newton_step import NewtonStep, symmetric_to_vector
from confidp.central.methods.private_sandwich import PrivateSandwich
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

N, M, MU, RUNS, OS = 40, 4, 2.0, 400, Randomness.of(None)
HUBER = HuberERM(1.0, threshold=1.0, outcome_bounds=(-1000, 1000), intercept=False)
UP, DOWN = [1.0, 0.0, 1000.0], [-1.0, 0.0, 1000.0]
FIRST, SECOND = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
ASIDE = [0.0, 1.0, 1000.0]


def newton_for(request):
    return NewtonStep.choose(HUBER.for_shape(N, 3), request, (0.25, 0.25, 0.25))


def sandwich():
    plan = PrivateSandwich().plan(HUBER.for_shape(N, 3), Request(N, MU, 0.9, 1))
    covariance = GaussianMechanism(plan.covariance.sensitivity, MU / 2, 3)
    return replace(plan, newton=newton_for(plan.request), covariance=covariance)


def linearised():
    plan = Linearised(M).plan(HUBER.for_shape(N, 3), Request(N, MU, 0.9, 1))
    return replace(plan, newton=newton_for(plan.request), radius_mu=MU / 2)


def data(row):
    rows = np.zeros((N, 3))
    rows[0] = row
    return HUBER.encode(rows)


def told(step):
    """What the step's three releases were, as a vector."""
    hessian = symmetric_to_vector(np.linalg.inv(step.inverse)[None])[0]
    return np.concatenate([step.start, hessian, step.slope])


def sandwich_leak(plan, row, other, times=1):
    def released(records):
        def run():
            step, gradients = plan.newton.release(records, OS)
            squares = plan.covariance.release(plan.squares(gradients), OS)
            return np.concatenate([told(step), [float(x) for x in squares]])

        return run

    return mu_lower_bound(released(data(row)), released(data(other)), RUNS * times)


def linearised_leak(plan, row, other):
    indices = [np.arange(M)]  # record 0 is in the one resample

    def released(records):
        def run():
            ball = plan.release_on(records, indices, OS)
            return np.array([*ball.center, ball.radius])

        return run

    return mu_lower_bound(released(data(row)), released(data(other)), RUNS)


def part_of(plan, name):
    return plan.covariance if name == "covariance" else getattr(plan.newton, name)


def quieter(plan, name, factor):
    """The same claim with one part's noise divided."""
    part = part_of(plan, name)
    part = replace(part, sensitivity=part.sensitivity / factor)
    if name == "covariance":
        return replace(plan, covariance=part)
    return replace(plan, newton=replace(plan.newton, **{name: part}))


def test_minimiser_and_gradient_leak_no_more_than_mu_though_something():
    bound = sandwich_leak(sandwich(), UP, DOWN, times=4)
    assert 0.2 < bound <= MU  # √½ of μ is theirs; 1600 runs show a part of it


def test_hessian_and_squares_leak_no_more_than_mu():
    assert sandwich_leak(sandwich(), FIRST, SECOND) <= MU
    assert sandwich_leak(sandwich(), UP, ASIDE) <= MU


@pytest.mark.parametrize(
    ("name", "row", "other"),
    [("start", UP, DOWN), ("gradient", UP, DOWN), ("hessian", FIRST, SECOND)],
)
def test_too_little_noise_on_a_part_of_the_step_is_caught(name, row, other):
    assert sandwich_leak(quieter(sandwich(), name, 8), row, other) > MU


def test_too_little_noise_on_the_squares_is_caught():
    assert sandwich_leak(quieter(sandwich(), "covariance", 8), UP, ASIDE) > MU


def test_the_linearised_ball_leaks_no_more_than_mu():
    for row, other in ((UP, DOWN), (UP, [0.0, 0.0, 0.0])):
        assert linearised_leak(linearised(), row, other) <= MU


def test_a_radius_whose_pivots_are_taken_to_move_by_a_sixteenth_is_caught(monkeypatch):
    cls = type(linearised())
    honest = cls.pivot_sensitivity
    monkeypatch.setattr(cls, "pivot_sensitivity", lambda self: honest(self) / 16)
    assert linearised_leak(linearised(), UP, [0.0, 0.0, 0.0]) > MU
