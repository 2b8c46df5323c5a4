"""Counts together: what a record can change, and the noise on each."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from confidp.central.methods import noisy_counts
from confidp.central.methods.noisy_counts import NoisyCounts, price
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


class Told:
    """Instead of the Gaussian mechanism: what would be released without noise."""

    def __init__(self, monkeypatch):
        self.values = []

        def release(mechanism, value, randomness):
            self.values.append(list(value))
            return tuple(value)

        monkeypatch.setattr(noisy_counts.GaussianMechanism, "release", release)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(0, 9),
    st.tuples(st.integers(0, 10), st.integers(0, 10)),
    st.sampled_from([1, 2]),
)
def test_no_record_changes_what_is_released_by_more_than_the_sensitivity(
    records, who, value, points, together
):
    neighbours = list(records)
    neighbours[who % len(records)] = value
    counts = NoisyCounts(1.0, together)
    with pytest.MonkeyPatch.context() as patch:
        told = Told(patch)
        for data in (records, neighbours):
            exact = [sum(x < point for x in data) for point in points[:together]]
            assert counts.release(exact, Randomness.of(1)) == tuple(exact)
    one, other = told.values
    squared = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    assert squared <= counts.mechanism.sensitivity**2
    assert squared in (0, Fraction(2, 3) if together == 2 else 1)  # and attains it


@pytest.mark.parametrize("together", [1, 2])
def test_each_count_has_the_noise_that_it_says(together):
    counts, runs = NoisyCounts(0.5, together), 4000
    assert counts.noise == pytest.approx(math.sqrt(price(together)) / 0.5)
    rng = Randomness.of(11)
    errors = np.array(
        [[float(a) - 70 for a in counts.release([70] * together, rng)] for _ in range(runs)]
    )
    for column in errors.T:
        assert stats.kstest(column / counts.noise, "norm").pvalue > FALSE_ALARM / 4
    if together == 2:
        assert abs(np.corrcoef(errors.T)[0, 1] - 0.5) < 5 * 0.75 / math.sqrt(runs)


def test_two_counts_together_have_less_noise_than_two_for_half_of_mu_squared_each():
    apart = NoisyCounts(math.sqrt(0.5), 1).noise
    assert NoisyCounts(1.0, 2).noise == pytest.approx(apart * math.sqrt(2 / 3))


def test_the_cost_is_mu_and_the_lattice_for_every_number_released():
    assert NoisyCounts(0.5, 2).cost.mu == 0.5
    assert NoisyCounts(0.5, 2).cost.delta == pytest.approx(3 * NoisyCounts(0.5, 1).cost.delta)
