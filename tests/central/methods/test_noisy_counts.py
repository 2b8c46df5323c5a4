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
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


class Told:
    """Instead of the Gaussian mechanism: what would be released without noise."""

    def __init__(self, monkeypatch):
        self.values = []

        def release_steps(mechanism, value, randomness):
            self.values.append(list(value))
            return tuple(int(x / mechanism.unit) for x in value)

        monkeypatch.setattr(noisy_counts.GaussianMechanism, "release_steps", release_steps)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(0, 9),
    st.lists(st.integers(0, 10), min_size=1, max_size=7),
)
def test_no_record_changes_what_is_released_by_more_than_the_sensitivity(
    records, who, value, points
):
    neighbours = list(records)
    neighbours[who % len(records)] = value
    counts = NoisyCounts(1.0, len(points))
    with pytest.MonkeyPatch.context() as patch:
        told = Told(patch)
        for data in (records, neighbours):
            exact = [sum(x < point for x in data) for point in sorted(points)]
            assert counts.release(exact, Randomness.of(1)) == tuple(exact)
    one, other = told.values
    squared = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    assert squared <= counts.mechanism.sensitivity**2


@pytest.mark.parametrize(("k", "copies"), [(1, 3), (2, 2), (3, 1), (6, 1), (11, 1)])
def test_every_run_of_counts_is_within_the_sensitivity_and_the_longest_at_either_end_attain_it(
    k, copies, monkeypatch
):
    counts, told = NoisyCounts(1.0, k), Told(monkeypatch)
    assert len(told.values) == 0
    for first in range(k):
        for last in range(first, k):
            counts.release([int(first <= i <= last) for i in range(k)], Randomness.of(1))
            inside = (first > 0) + (last < k - 1)
            squared = sum(x**2 for x in told.values[-1])
            assert copies * squared == last - first + 1 + 2 + inside
            assert squared <= counts.mechanism.sensitivity**2
    largest = max(sum(x**2 for x in values) for values in told.values)
    assert largest == Fraction(k + 2, copies)


@pytest.mark.parametrize("together", [1, 2, 3, 6])
def test_each_count_has_the_noise_that_it_says_and_neighbours_half_of_it_in_common(together):
    counts, runs = NoisyCounts(0.5, together), 4000
    assert counts.noise == pytest.approx(math.sqrt((together + 2) / 3) / 0.5)
    assert price(together) == pytest.approx((counts.noise * counts.mu) ** 2)
    rng, exact = Randomness.of(11), list(range(70, 70 + together))
    errors = np.array(
        [[float(a) - e for a, e in zip(counts.release(exact, rng), exact, strict=True)]
         for _ in range(runs)]
    )  # fmt: skip
    for column in errors.T:
        assert stats.kstest(column / counts.noise, "norm").pvalue > FALSE_ALARM / 12
    if together > 1:
        apart = np.abs(np.subtract.outer(range(together), range(together)))
        off = np.corrcoef(errors.T) - 0.5**apart
        # 36 correlations, whose deviations are at most 1/√runs: 6 of them, 2e-9 each.
        assert np.abs(off).max() < 6 / math.sqrt(runs)


@pytest.mark.parametrize(("k", "less"), [(2, 2 / 3), (6, 4 / 9), (18, 10 / 27)])
def test_counts_together_have_less_variance_than_counts_for_a_share_of_mu_squared_each(k, less):
    apart = NoisyCounts(math.sqrt(1 / k), 1).noise
    assert NoisyCounts(1.0, k).noise == pytest.approx(apart * math.sqrt(less))


@pytest.mark.parametrize(("k", "numbers"), [(1, 1), (2, 3), (3, 9), (6, 18)])
def test_the_cost_is_mu_and_the_lattice_for_every_number_released(k, numbers):
    assert NoisyCounts(0.5, k).cost.mu == 0.5
    assert NoisyCounts(0.5, k).cost.delta == pytest.approx(lattice_delta(0.5, numbers))
