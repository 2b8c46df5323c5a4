"""Index sets: uniform, data-independent, and within the multiplicity bound."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from confidp.central.resampling import (
    MultiplicityExceeded,
    Sampling,
    multiplicity,
    multiplicity_bound,
    resamples,
)
from confidp.errors import InvalidArgument

FALSE_ALARM = 1e-6
WITH, WITHOUT = Sampling.WITH_REPLACEMENT, Sampling.WITHOUT_REPLACEMENT


@pytest.mark.parametrize("sampling", Sampling)
def test_every_index_is_drawn_equally_often(sampling):
    rng = np.random.default_rng(1)
    drawn = np.concatenate(list(resamples(20, 7, 5000, sampling, rng)))
    counts = np.bincount(drawn, minlength=20)
    # Without replacement counts are less spread than χ² says: the test is then conservative.
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_without_replacement_no_index_repeats():
    rng = np.random.default_rng(2)
    sets = list(resamples(30, 12, 500, WITHOUT, rng))
    assert all(multiplicity(indices) == 1 for indices in sets)


def test_without_replacement_every_subset_is_equally_likely():
    rng = np.random.default_rng(3)
    drawn = [tuple(sorted(s.tolist())) for s in resamples(6, 3, 20_000, WITHOUT, rng)]
    counts = [drawn.count(subset) for subset in sorted(set(drawn))]
    assert len(counts) == math.comb(6, 3)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_with_replacement_multiplicities_are_binomial():
    rng = np.random.default_rng(4)
    n, m, count = 10, 6, 20_000
    times = np.bincount([int((s == 0).sum()) for s in resamples(n, m, count, WITH, rng)])
    expected = stats.binom.pmf(np.arange(4), m, 1 / n) * count
    observed = np.append(times[:3], times[3:].sum())
    expected[3] = count - expected[:3].sum()
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [10, 200, 2000, 50_000, 10**7])
@pytest.mark.parametrize("share", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.5])
def test_the_multiplicity_bound_keeps_the_failure_probability(n, share, rho):
    m, n_resamples = max(1, int(share * n)), 500
    kappa = multiplicity_bound(n, m, n_resamples, rho)
    assert 1 <= kappa <= m
    # The union bound over all Bn binomials, exactly: P(some multiplicity > κ⋆) ≤ ρ.
    assert n_resamples * n * stats.binom.sf(kappa, m, 1 / n) <= rho


def test_the_multiplicity_bound_is_the_printed_formula():
    # A = ln(500 · 2000 · 2000), W₀(2000 A/(264 e)) = 2.993, A/W₀ = 7.155.
    assert multiplicity_bound(2000, 264, 500, 1 / 2000) == 8


def test_the_multiplicity_bound_grows_with_the_logarithm_of_b():
    bounds = [multiplicity_bound(10_000, 1000, b, 1e-4) for b in (10, 10**3, 10**5, 10**7)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < 2 * bounds[0]


def test_a_set_beyond_the_bound_stops_the_stream_and_those_before_pass():
    free = resamples(80, 5, 50, WITH, np.random.default_rng(6))
    kappas = [multiplicity(indices) for indices in free]
    first = kappas.index(2)
    assert first > 0
    passed = []
    with pytest.raises(MultiplicityExceeded):
        passed.extend(replace(free, bound=1))
    assert [multiplicity(indices) for indices in passed] == kappas[:first]
    assert len(list(replace(free, bound=2))) == 50


def test_sets_come_one_at_a_time():
    stream = iter(resamples(10**6, 10**5, 10**9, WITH, np.random.default_rng(5)))
    assert next(stream).shape == (10**5,)


@pytest.mark.parametrize("sampling", Sampling)
def test_sets_are_the_same_each_time_and_others_for_another_seed(sampling):
    sets = resamples(50, 20, 8, sampling, np.random.default_rng(7))
    again = np.array(list(sets))
    assert np.array_equal(np.array(list(sets)), again)
    assert not np.array_equal(np.array(list(replace(sets, seed=sets.seed ^ 1))), again)


def test_neighbouring_sets_are_independent():
    # How many indices two of them share is then hypergeometric.
    n, m, pairs = 20, 10, 4000
    sets = [set(s.tolist()) for s in resamples(n, m, 2 * pairs, WITHOUT, np.random.default_rng(8))]
    shared = [len(a & b) for a, b in zip(sets[::2], sets[1::2], strict=True)]
    observed = np.bincount(shared, minlength=m + 1)[3:8]
    expected = stats.hypergeom.pmf(np.arange(3, 8), n, m, m) * pairs
    rest = [pairs - observed.sum(), pairs - expected.sum()]
    p = stats.chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue
    assert p > FALSE_ALARM


def test_more_records_than_draws_can_tell_apart_are_refused():
    with pytest.raises(InvalidArgument, match="n must be at most"):
        resamples(2**31 + 1, 5, 1, WITH, np.random.default_rng(9))


@pytest.mark.parametrize(("n", "m", "sampling"), [(5, 6, WITH), (5, 0, WITH), (5, 5, WITHOUT)])
def test_sizes_that_no_loop_is_made_for_are_refused(n, m, sampling):
    # Multiplicities are counted in bytes, which m ≤ n can't fill: see `multiset_sums`.
    with pytest.raises(InvalidArgument, match="m must be from 1 to n"):
        resamples(n, m, 1, sampling, np.random.default_rng(10))
