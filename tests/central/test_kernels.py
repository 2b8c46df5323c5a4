"""Each compiled loop gives what its plain twin gives, from the same words."""

import numpy as np
import pytest
from scipy import stats

from confidp.central import kernels
from confidp.central.resampling import Sampling, multiplicity, resamples

FALSE_ALARM = 1e-6
MASK = 2**64 - 1


def plain_word(state, t):
    """SplitMix64 in Python's whole numbers."""
    z = (state + (t + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class PlainDraws:
    """Lemire's draws from a key's words, one after the other."""

    def __init__(self, key):
        self.halves = (
            half
            for t in range(10**9)
            for half in (plain_word(key, t) >> 32, plain_word(key, t) & 0xFFFFFFFF)
        )

    def below(self, k):
        while True:
            product = next(self.halves) * k
            if product % 2**32 >= 2**32 % k:
                return product >> 32


def plain_sets(n, m, n_resamples, replace, seed):
    order = list(range(n))
    for b in range(n_resamples):
        draws = PlainDraws(plain_word(seed, b))
        if replace:
            yield np.array([draws.below(n) for _ in range(m)])
            continue
        for i in range(m):
            j = i + draws.below(n - i)
            order[i], order[j] = order[j], order[i]
        yield np.array(order[:m])


def plain_gap(ordered, at, beta):
    """max e^{−β(j−i−1)}(x_j − x_i) over all i ≤ at ≤ j, i < j."""
    return max(
        np.exp(-beta * (j - i - 1)) * float(ordered[j] - ordered[i])
        for i in range(at + 1)
        for j in range(at, len(ordered))
        if i < j
    )


def test_words_are_those_of_the_published_generator():
    # The first outputs from state 1234567, as printed beside many implementations.
    printed = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [kernels.word(1234567, t) for t in range(3)] == printed


@pytest.mark.parametrize("t", [0, 1, 2**40])
def test_words_are_the_plain_twins(t):
    for state in (0, 1, 2**63, MASK):
        assert kernels.word(state, t) == plain_word(state, t)


# 2^31 − 1 and 3·2^29 pass over a draw in two and in four: every chunk takes the slow path.
@pytest.mark.parametrize("n", [1, 2, 3, 1000, 50_000, 3 * 2**29, 2**31 - 1, 2**31])
@pytest.mark.parametrize("fewer", [0, 1])
def test_draws_are_the_plain_twins_passing_over_the_same(n, fewer):
    n += fewer  # so that there are as many values as draws
    chunk = np.empty(min(1024, n // 2 * 2) if fewer else 1024, dtype=np.uint32)
    for key in (5, 2**63 + 11):
        kept = kernels.draw_chunk(key, 3, n, fewer, chunk)
        draws = PlainDraws(key)
        for _ in range(6):  # three words
            next(draws.halves)
        assert kept > len(chunk) / 4
        assert chunk[:kept].tolist() == [draws.below(n - fewer * i) for i in range(kept)]


@pytest.mark.parametrize(("n", "m"), [(2, 1), (5, 4), (100, 50), (3000, 2999), (5000, 2500)])
@pytest.mark.parametrize("sampling", Sampling)
def test_sets_are_the_plain_twins(n, m, sampling):
    sets = resamples(n, m, 3, sampling, np.random.default_rng(n))
    twins = plain_sets(n, m, 3, sets.replace, sets.seed)
    assert all(np.array_equal(a, b) for a, b in zip(sets, twins, strict=True))


def test_draws_near_the_largest_n_are_uniform():
    chunk = np.empty(1024, dtype=np.uint32)
    n = 3 * 2**29
    drawn = [chunk[: kernels.draw_chunk(key, 0, n, 0, chunk)].copy() for key in range(40)]
    counts = np.bincount(np.concatenate(drawn) // (n // 48), minlength=48)
    assert len(counts) == 48
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize(("n", "m", "columns"), [(9, 5, 1), (300, 150, 3), (2000, 700, 2)])
@pytest.mark.parametrize("kind", [np.uint32, np.int64])
def test_sums_are_those_over_the_sets_themselves(sampling, n, m, columns, kind):
    rng = np.random.default_rng(n)
    most = 2**32 if kind is np.uint32 else 2**50
    records = rng.integers(0, most, size=(n, columns)).astype(kind)
    sets = resamples(n, m, 7, sampling, rng)
    totals, kappa = kernels.sums(records, sets.seed, 7, m, sets.replace)
    for total, indices in zip(totals, sets, strict=True):
        chosen = records[indices].astype(object)  # whole numbers of any size
        assert total.tolist() == chosen.sum(axis=0).tolist()
    assert kappa == max(map(multiplicity, sets))


@pytest.mark.parametrize("size", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("beta", [1e-3, 0.05, 1.0])
@pytest.mark.parametrize("most", [3, 2**30])  # with many ties, and with none
def test_the_largest_weighted_gap_is_that_over_all_pairs(size, beta, most):
    rng = np.random.default_rng(size)
    for at in {0, size // 3, size - 1}:
        ordered = np.sort(rng.integers(0, most, size=size + 1))
        left = ordered[at::-1].astype(np.float64)
        right = ordered[at:].astype(np.float64)
        exact, weights = plain_gap(ordered, at, beta), kernels.gap_weights(size + 1, beta)
        for share in (0.0, 0.5, 0.999, 1.001, 3.0):
            found = kernels.largest_weighted_gap(left, right, weights, share * exact)
            assert found == pytest.approx(max(1.0, share) * exact, rel=1e-13)


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("spread", [4, 2**30])  # with many ties, and with none
@pytest.mark.parametrize("beta", [0.003, 0.3])  # the whole set matters, or a few neighbours
def test_quantiles_and_sensitivities_are_those_of_the_sorted_sets(sampling, spread, beta):
    rng = np.random.default_rng(spread)
    n, m, at_ranks = 700, 300, np.array([1, 90, 150, 151, 300])
    records = rng.integers(0, spread + 1, size=n)
    order = np.argsort(records)
    places = np.argsort(order).astype(np.uint32)
    sets = resamples(n, m, 5, sampling, rng)
    ordered = [np.sort(records[indices]) for indices in sets]
    for ranks in (at_ranks, at_ranks[2:3], at_ranks[[0, 4]]):
        values, largest, kappa = kernels.quantiles(
            places, records[order], spread, ranks, sets.seed, 5, m, sets.replace, beta
        )
        for found, resample in zip(values, ordered, strict=True):
            assert found.tolist() == resample[ranks - 1].tolist()
        bounded = [np.concatenate([[0], resample, [spread]]) for resample in ordered]
        exact = max(np.linalg.norm([plain_gap(x, h, beta) for h in ranks]) for x in bounded)
        assert largest == pytest.approx(exact, rel=1e-12)
        assert kappa == max(map(multiplicity, sets))


@pytest.mark.parametrize("n", [255, 256, 257, 700])  # blocks of 256 places
def test_every_order_statistic_is_found(n):
    rng = np.random.default_rng(n)
    records, m = rng.permutation(n), n - 40
    sets = resamples(n, m, 2, Sampling.WITH_REPLACEMENT, rng)
    places, ordered, seed = records.astype(np.uint32), np.arange(n), sets.seed
    each = [np.array([h]) for h in range(1, m + 1)]
    for at_ranks in (np.arange(1, m + 1), *each):  # on the way from the one before, and from 0
        values, _, _ = kernels.quantiles(places, ordered, n, at_ranks, seed, 2, m, True, 0.0)
        exact = [np.sort(records[indices])[at_ranks - 1].tolist() for indices in sets]
        assert values.tolist() == exact


@pytest.mark.parametrize("most", [1, 2**31 - 1])
@pytest.mark.parametrize("n", [1, 2, 100, 5000])
def test_sums_of_products_are_exact(most, n):
    rng = np.random.default_rng(n)
    x, y = rng.integers(-most, most + 1, size=(2, n))
    x[0], y[-1] = -most, most
    for a, b in ((x, y), (x, x), (np.stack([x, y]).T[:, 0], np.stack([x, y]).T[:, 1])):
        first, second, high, low, bits = kernels.product_sums(a, b)
        assert (first, second) == (sum(a.tolist()), sum(b.tolist()))
        assert (high << 32) + low == sum(i * j for i, j in zip(a.tolist(), b.tolist(), strict=True))
        assert bits < 2**31


@pytest.mark.parametrize("large", [2**31, -(2**31) - 1, 2**62, -(2**62)])
def test_products_that_no_64_bits_can_hold_show_in_the_bits(large):
    small = np.arange(9)
    x = np.where(small == 5, large, small)
    assert kernels.product_sums(x, small)[4] >= 2**31
    assert kernels.product_sums(small, x)[4] >= 2**31
