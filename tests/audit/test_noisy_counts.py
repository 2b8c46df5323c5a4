"""Attacks on two counts asked together, for each way in which a record can change them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from audit.harness import mu_lower_bound
from confidp.central.methods.noisy_counts import NoisyCounts
from confidp.randomness import Randomness

MU, RUNS, OS = 2.0, 4000, Randomness.of(None)
PAIR = NoisyCounts(MU, 2)
CHANGES = [(1, 1), (1, 0), (0, -1)]
PRECISION = np.linalg.inv([[1, 0.5], [0.5, 1]])  # of their errors, in variances


def leak(change, counts=PAIR):
    best = PRECISION @ change  # the likelihood ratio's direction

    def released(moved):
        exact = [40 + int(moved * c) for c in change]
        return lambda: np.array([best @ [float(a) for a in counts.release(exact, OS)]])

    return mu_lower_bound(released(1), released(0), RUNS)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_record_changes_leaks_no_more_than_mu_and_nearly_that(change):
    assert 0.65 * MU < leak(change) <= MU


@pytest.mark.parametrize("change", CHANGES)
def test_noise_for_a_sensitivity_of_half_is_caught(change):
    counts = NoisyCounts(MU, 2)
    quieter = replace(counts.mechanism, sensitivity=counts.mechanism.sensitivity / 2)
    object.__setattr__(counts, "mechanism", quieter)
    assert leak(change, counts) > MU


def test_two_counts_each_with_the_noise_of_one_are_caught():
    one = NoisyCounts(MU, 1)
    both = SimpleNamespace(release=lambda counts, rng: [one.release([c], rng)[0] for c in counts])
    assert leak((1, 1), both) > MU  # √2 of it
