"""Attacks on the mechanisms of `noise.py` and `pure_dp.py`, at the moves they are calibrated for.

A sound mechanism is attacked with the real noise, a broken copy with a seed, which is faster.
Asserted bounds lie at least 5 standard deviations from the mean of what the attack finds.
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from audit.harness import epsilon_lower_bound, score_lower_bound
from confidp.privacy.noise import GaussianMechanism
from confidp.privacy.pure_dp import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerLaplaceMechanism,
    LaplaceMechanism,
)
from confidp.randomness import Randomness

SEED, MU, EPSILON, RUNS = 20261130, 2.0, 1.0, 2000
ROOT_2 = Fraction(141421356, 100000000)
GAUSSIAN = GaussianMechanism(Fraction(1, 100), MU, 3)
LAPLACE = LaplaceMechanism(Fraction(1, 100), EPSILON)
COUNT = IntegerLaplaceMechanism(1, EPSILON)
SEARCH = AboveThreshold(4.0)
RANK = ExponentialMechanism(EPSILON / 2)


def gaussian_leak(mechanism=GAUSSIAN, runs=RUNS, seed=None):
    """Move all three numbers alike, by a hundredth in ℓ2."""
    source, move = Randomness.of(seed), Fraction(1, 100) / Fraction(3**0.5)

    def released(value):
        return lambda: float(sum(mechanism.release([value] * 3, source)))

    return score_lower_bound(released(Fraction(0)), released(move), runs)


def frequency(event, runs):
    return sum(event() for _ in range(runs))


def laplace_leak(mechanism=LAPLACE, runs=RUNS, seed=None):
    """How often does the noise take 0 and a hundredth over a hundredth? e^−ε/2, and ½."""
    source, move = Randomness.of(seed), Fraction(1, 100)
    return epsilon_lower_bound(
        *(frequency(lambda v=v: mechanism.release(v, source) > move, runs) for v in (0, move)), runs
    )


def count_leak(mechanism=COUNT, move=1, runs=RUNS, seed=None):
    """The same for whole numbers that move by `move`."""
    source = Randomness.of(seed)
    return epsilon_lower_bound(
        *(frequency(lambda v=v: mechanism.release(v, source) >= move, runs) for v in (0, move)),
        runs,
    )


def search_leak(mechanism=SEARCH, runs=RUNS, seed=None):
    """Ten numbers move up by 1 and the last one down: both noises have to make up for it."""
    source = Randomness.of(seed)
    return epsilon_lower_bound(
        *(
            frequency(lambda s=s: mechanism.first(s, 1, source) == 10, runs)
            for s in ([0] * 10 + [2], [1] * 11)
        ),
        runs,
    )


def rank_leak(mechanism=RANK, move=1, runs=10 * RUNS, seed=None):
    """One point's penalty goes up by `move` and that of ten others down by as much."""
    source = Randomness.of(seed)
    return epsilon_lower_bound(
        *(
            frequency(lambda p=p: mechanism.release(p, [1, 10], source)[0] == 0, runs)
            for p in ([0, move], [move, 0])
        ),
        runs,
    )


def test_gaussian_noise_leaks_no_more_than_mu_and_nearly_that_much():
    assert 1.3 < gaussian_leak() <= MU  # 1.61 ± 0.05


# The means of what each finds: 0.65, 0.75, 1.6 and 0.67.
@pytest.mark.parametrize(
    ("attack", "claim", "least"),
    [
        (laplace_leak, EPSILON, 0.35),
        (count_leak, EPSILON, 0.5),
        (search_leak, SEARCH.epsilon, 0.7),
        (rank_leak, EPSILON, 0.45),
    ],
)
def test_other_noise_leaks_no_more_than_epsilon_and_nearly_that_much(attack, claim, least):
    assert least < attack() <= claim


# Each with the attack, the claim and the number of draws.
BROKEN = {
    "half of Gaussian noise": (
        lambda runs: gaussian_leak(replace(GAUSSIAN, sensitivity=Fraction(1, 200)), runs, SEED),
        MU, RUNS,
    ),
    "half of Laplace noise": (
        lambda runs: laplace_leak(LaplaceMechanism(Fraction(1, 200), EPSILON), runs, SEED),
        EPSILON, RUNS,
    ),
    "Laplace noise with the scale as its deviation: too little by √2": (
        lambda runs: laplace_leak(
            LaplaceMechanism(Fraction(1, 100) / ROOT_2, EPSILON), runs, SEED
        ),
        EPSILON, 10 * RUNS,
    ),
    "half of integer noise": (
        lambda runs: count_leak(IntegerLaplaceMechanism(1, 2 * EPSILON), 1, runs, SEED),
        EPSILON, RUNS,
    ),
    "a count of sensitivity 2 claimed as 1": (
        lambda runs: count_leak(COUNT, 2, runs, SEED), EPSILON, RUNS,
    ),
    "a rank of sensitivity 2 claimed as 1": (
        lambda runs: rank_leak(RANK, 2, runs, SEED), EPSILON, 5 * RUNS,
    ),
    "AboveThreshold with a quarter of its noise": (
        lambda runs: search_leak(AboveThreshold(4.0), runs, SEED), 1.0, RUNS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_copy_is_caught(name):
    attack, claim, runs = BROKEN[name]
    assert attack(runs) > claim
