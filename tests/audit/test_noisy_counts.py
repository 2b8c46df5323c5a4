"""Attacks on counts asked together, two and six, for each way in which a record can change them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from audit.harness import score_lower_bound
from confidp.central.methods.noisy_counts import NoisyCounts
from confidp.randomness import Randomness

SEED, MU, RUNS = 20261130, 2.0, 1500
CHANGES = [(1, 1), (1, 0), (0, -1), (1, 1, 1, 1, 1, 1), (0, 1, 1, 1, 1, 0), (0, 0, 0, -1, -1, -1)]


def leak(change, counts=None, runs=RUNS, seed=None):
    source, k = Randomness.of(seed), len(change)
    counts = counts or NoisyCounts(MU, k)
    correlation = 0.5 ** np.abs(np.subtract.outer(range(k), range(k)))
    best = np.linalg.solve(correlation, change)  # the likelihood ratio's direction

    def released(moved):
        exact = [40 + 5 * i + int(moved * c) for i, c in enumerate(change)]
        return lambda: float(best @ [float(a) for a in counts.release(exact, source)])

    return score_lower_bound(released(0), released(1), runs)


def quieter(counts):
    """The same counts with half the noise."""
    mechanism = replace(counts.mechanism, sensitivity=counts.mechanism.sensitivity / 2)
    changed = replace(counts)
    object.__setattr__(changed, "mechanism", mechanism)
    return changed


def one_by_one():
    """Two counts, each with the noise of one alone."""
    one = NoisyCounts(MU, 1)
    return SimpleNamespace(release=lambda counts, rng: [one.release([c], rng)[0] for c in counts])


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_record_changes_leaks_no_more_than_mu_and_nearly_that(change):
    assert 0.6 * MU < leak(change) <= MU  # 1.55 ± 0.06


@pytest.mark.parametrize("change", CHANGES)
def test_noise_for_a_sensitivity_of_half_is_caught(change):
    counts = NoisyCounts(MU, len(change))
    assert leak(change, quieter(counts), seed=SEED) > MU


def test_two_counts_each_with_the_noise_of_one_are_caught():
    assert leak((1, 1), one_by_one(), runs=4000, seed=SEED) > MU  # √2 of it


def test_counts_that_a_record_moves_by_2_claimed_as_1_are_caught():
    assert leak((2, 2), seed=SEED) > MU
