"""Each compiled loop gives what its plain twin gives, from the same words."""

import math

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

    def __init__(self, key, first=0):
        self.halves = (
            half
            for t in range(first, 10**9)
            for half in (plain_word(key, t) >> 32, plain_word(key, t) & 0xFFFFFFFF)
        )

    def below(self, k):
        while True:
            product = next(self.halves) * k
            if product % 2**32 >= 2**32 % k:
                return product >> 32


def plain_subset(key, n, m, planes, share):
    """Who has a random number below share/2^planes; then drawn ones go in or out."""
    words = (n + 63) // 64

    def digit(i, plane):
        return 1 - (plain_word(key, plane * words + i // 64) >> (i % 64) & 1)

    numbers = [sum(digit(i, plane) << plane for plane in range(planes)) for i in range(n)]
    held, draws = {i for i in range(n) if numbers[i] < share}, PlainDraws(key, planes * words)
    change = held.discard if len(held) > m else held.add
    while len(held) != m:
        change(draws.below(n))
    return np.array(sorted(held))


def plain_binomial(key, first, trials, part, whole):
    """How many of `trials` numbers, of which words have the binary digits, are below part/whole."""
    below = 0
    while trials and part:
        digit, part = divmod(2 * part, whole)
        words = [plain_word(key, first + w) for w in range((trials + 63) // 64)]
        first += len(words)
        ups = sum(words[i // 64] >> (i % 64) & 1 for i in range(trials))
        below, trials = (below + trials - ups, ups) if digit else (below, trials - ups)
    return below, first


def plain_blocks(n):
    k = next(2**j for j in range(40) if n <= 8192 * 2**j)
    return [q * n // k for q in range(k + 1)]


def plain_multiset(key, n, m):
    """Places shared out by halving, and drawn block by block."""
    edges = plain_blocks(n)
    k = len(edges) - 1
    own, at, counts = plain_word(key, k), 0, {(0, k): m}
    while len(counts) < k:
        halved = {}
        for (a, c), count in counts.items():
            b = (a + c) // 2
            whole = edges[c] - edges[a]
            below, at = plain_binomial(own, at, count, edges[b] - edges[a], whole)
            halved |= {(a, b): below, (b, c): count - below}
        counts = halved
    indices = []
    for (q, _), count in counts.items():
        draws = PlainDraws(plain_word(key, q))
        indices += [edges[q] + draws.below(edges[q + 1] - edges[q]) for _ in range(count)]
    return np.array(indices)


def plain_sets(n, m, n_resamples, replace, seed):
    for b in range(n_resamples):
        key = plain_word(seed, b)
        if replace:
            yield plain_multiset(key, n, m)
        else:
            yield plain_subset(key, n, m, *kernels.near_share(n, m))


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


@pytest.mark.parametrize("x", [0, 1, 2**63, MASK, 0x123456789ABCDEF0, 0xAAAAAAAAAAAAAAAA])
def test_bits_are_counted_and_the_highest_is_found(x):
    assert kernels.ones(x) == x.bit_count()
    assert kernels.highest(x) == (1 << x.bit_length()) >> 1


# 2^31 − 1 and 3·2^29 pass over a draw in two and in four: every chunk takes the slow path.
@pytest.mark.parametrize("n", [1, 2, 3, 1000, 50_000, 3 * 2**29, 2**31 - 1, 2**31])
def test_draws_are_the_plain_twins_passing_over_the_same(n):
    chunk = np.empty(1024, dtype=np.uint32)
    for key in (5, 2**63 + 11):
        kept = kernels.draw_chunk(key, 3, n, chunk)
        draws = PlainDraws(key, 3)
        assert kept > len(chunk) / 4
        assert chunk[:kept].tolist() == [draws.below(n) for _ in range(kept)]


# One block of records, and four.
@pytest.mark.parametrize(
    ("n", "m"), [(2, 1), (5, 4), (64, 3), (100, 50), (3000, 2999), (5000, 450), (24_999, 700)]
)
@pytest.mark.parametrize("sampling", Sampling)
def test_sets_are_the_plain_twins(n, m, sampling):
    sets = resamples(n, m, 3, sampling, np.random.default_rng(n))
    twins = plain_sets(n, m, 3, sets.replace, sets.seed)
    assert all(np.array_equal(a, b) for a, b in zip(sets, twins, strict=True))


def test_draws_near_the_largest_n_are_uniform():
    chunk = np.empty(1024, dtype=np.uint32)
    n = 3 * 2**29
    drawn = [chunk[: kernels.draw_chunk(key, 0, n, chunk)].copy() for key in range(40)]
    counts = np.bincount(np.concatenate(drawn) // (n // 48), minlength=48)
    assert len(counts) == 48
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("planes", "share"), [(0, 0), (1, 1), (2, 1), (3, 7), (5, 11)])
@pytest.mark.parametrize("m", [1, 3, 5])
def test_every_subset_is_equally_likely_whatever_the_share_to_begin_with(planes, share, m):
    n, count, bits = 6, 6000, np.empty(1, np.uint64)
    chunk, drawn = np.empty(kernels.CHUNK, np.uint32), []
    for key in range(count):
        kernels.draw_subset(kernels.word(99, key), n, m, planes, share, bits, chunk)
        drawn.append(int(bits[0]))
    subsets, counts = np.unique(drawn, return_counts=True)
    assert len(subsets) == math.comb(n, m)
    assert {int(s).bit_count() for s in subsets} == {m}
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "m"), [(2, 1), (50_000, 4622), (50_000, 25_000), (10**6, 10**6 - 1)])
def test_a_share_to_begin_with_is_near_that_of_the_set_or_none(n, m):
    planes, share = kernels.near_share(n, m)
    assert 0 <= share < 2**planes or planes == share == 0
    words = planes * (n + 63) // 64
    assert words / 10 + abs(n * share / 2**planes - m) <= m * n / (n - m)  # what none would take
    assert kernels.near_share(n, n // 2) == (1, 1)
    assert kernels.near_share(10**6, 3) == (0, 0)


@pytest.mark.parametrize(("part", "whole"), [(1, 2), (1, 3), (6249, 12_499), (7, 8), (0, 5)])
@pytest.mark.parametrize("trials", [0, 1, 70, 1000])
def test_binomials_are_the_plain_twins_and_binomial(part, whole, trials):
    drawn = []
    for key in range(4000):
        drawn.append(kernels.binomial(kernels.word(7, key), 5, trials, part, whole)[0])
        if key < 20:
            twin = plain_binomial(plain_word(7, key), 5, trials, part, whole)
            assert kernels.binomial(kernels.word(7, key), 5, trials, part, whole) == twin
    # By the binomial's own distribution function, numbers are uniform but for its jumps.
    law = stats.binom(trials, part / whole)
    edges = np.unique(law.ppf([0.1, 0.3, 0.5, 0.7, 0.9]))
    observed = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(drawn)
    assert observed[expected < 1e-9].sum() == 0
    likely = expected > 1e-9
    if likely.sum() > 1:
        assert stats.chisquare(observed[likely], expected[likely]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [8192, 8193, 24_999])  # one block, two, and four of unequal sizes
def test_with_replacement_every_record_is_drawn_equally_often_in_any_block(n):
    drawn = np.concatenate(
        list(resamples(n, n, 200, Sampling.WITH_REPLACEMENT, np.random.default_rng(n)))
    )
    counts = np.bincount(drawn, minlength=n)
    assert len(counts) == n
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    edges = plain_blocks(n)[:-1]
    by_block = np.add.reduceat(counts, edges)
    sizes = np.diff([*edges, n])
    if len(sizes) > 1:
        assert stats.chisquare(by_block, by_block.sum() * sizes / n).pvalue > FALSE_ALARM


def columns_of(rng, n, columns, most):
    records = rng.integers(-most, most, size=(n, columns), endpoint=True)
    records[:, -1] = most  # all alike: no bit to tell them apart
    return records


@pytest.mark.parametrize(("n", "m", "columns"), [(9, 5, 2), (300, 150, 3), (20_000, 700, 2)])
@pytest.mark.parametrize("most", [1, 2**31, 2**50])
def test_sums_of_subsets_are_those_over_the_sets_themselves(n, m, columns, most):
    rng = np.random.default_rng(n)
    records = columns_of(rng, n, columns, most)
    sets = resamples(n, m, 7, Sampling.WITHOUT_REPLACEMENT, rng)
    for given in (records, np.asfortranarray(records), records[:, :1]):
        totals = kernels.subset_sums(given, sets.seed, 7, m)
        for total, indices in zip(totals, sets, strict=True):
            chosen = given[indices].astype(object)  # whole numbers of any size
            assert total.tolist() == chosen.sum(axis=0).tolist()


@pytest.mark.parametrize(("n", "m", "columns"), [(9, 5, 1), (300, 150, 3), (20_000, 700, 2)])
@pytest.mark.parametrize("kind", [np.uint32, np.int64])
def test_sums_of_multisets_are_those_over_the_sets_themselves(n, m, columns, kind):
    rng = np.random.default_rng(n)
    most = 2**32 if kind is np.uint32 else 2**50
    records = rng.integers(0, most, size=(columns, n)).astype(kind)
    sets = resamples(n, m, 7, Sampling.WITH_REPLACEMENT, rng)
    totals, kappa = kernels.multiset_sums(records, sets.seed, 7, m)
    for total, indices in zip(totals, sets, strict=True):
        chosen = records[:, indices].astype(object)
        assert total.tolist() == chosen.sum(axis=1).tolist()
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


@pytest.mark.parametrize("most", [1, 2047, 2048, 2**30, 2**62])
@pytest.mark.parametrize("n", [1, 2, 5000])
def test_values_are_sorted_and_ties_keep_their_order(n, most):
    values = np.random.default_rng(n).integers(0, most, size=n, endpoint=True)
    values[n // 2] = most
    order, ordered = kernels.by_value(values, most)
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    assert ordered.tolist() == np.sort(values).tolist()


def found_quantiles(records, cells, at_ranks, sets, beta):
    """Values, largest sensitivity and multiplicity, by either loop."""
    arguments = (
        *kernels.by_value(records, cells), cells, at_ranks,
        sets.seed, sets.n_resamples, sets.size, beta,
    )  # fmt: skip
    if sets.replace:
        return kernels.multiset_quantiles(*arguments)
    return *kernels.subset_quantiles(*arguments), 1


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("spread", [4, 2**30])  # with many ties, and with none
@pytest.mark.parametrize("beta", [0.003, 0.3])  # the whole set matters, or a few neighbours
@pytest.mark.parametrize(("n", "m"), [(700, 300), (9000, 500)])
def test_quantiles_and_sensitivities_are_those_of_the_sorted_sets(sampling, spread, beta, n, m):
    rng = np.random.default_rng(spread)
    at_ranks = np.array([1, 90, m // 2, m // 2 + 1, m])
    records = rng.integers(0, spread + 1, size=n)
    sets = resamples(n, m, 5, sampling, rng)
    ordered = [np.sort(records[indices]) for indices in sets]
    for ranks in (at_ranks, at_ranks[2:3], at_ranks[[0, 4]]):
        values, largest, kappa = found_quantiles(records, spread, ranks, sets, beta)
        for found, resample in zip(values, ordered, strict=True):
            assert found.tolist() == resample[ranks - 1].tolist()
        bounded = [np.concatenate([[0], resample, [spread]]) for resample in ordered]
        exact = max(np.linalg.norm([plain_gap(x, h, beta) for h in ranks]) for x in bounded)
        assert largest == pytest.approx(exact, rel=1e-12)
        assert kappa == max(map(multiplicity, sets))


@pytest.mark.parametrize("n", [63, 64, 65, 700])  # words of 64 places
@pytest.mark.parametrize("sampling", Sampling)
def test_every_order_statistic_is_found(n, sampling):
    rng = np.random.default_rng(n)
    records, m = rng.permutation(n), n - 40
    sets = resamples(n, m, 2, sampling, rng)
    each = [np.array([h]) for h in range(1, m + 1)]
    for at_ranks in (np.arange(1, m + 1), *each):
        values, _, _ = found_quantiles(records, n, at_ranks, sets, 0.0)
        exact = [np.sort(records[indices])[at_ranks - 1].tolist() for indices in sets]
        assert values.tolist() == exact


@pytest.mark.parametrize("kind", ["subset", "multiset"])
@pytest.mark.parametrize("n", [10, 64, 130])
def test_values_are_collected_up_and_down_after_those_that_are_skipped(kind, n):
    rng = np.random.default_rng(n)
    ordered, order = 10 * np.arange(n), rng.permutation(n).astype(np.uint32)
    counts = rng.integers(0, 2 if kind == "subset" else 4, size=n).astype(np.uint8)  # by place
    held = counts
    if kind == "subset":
        bits = np.zeros((n + 63) // 64 * 64, np.uint8)
        bits[order] = counts
        held = np.packbits(bits, bitorder="little").view(np.uint64)
    for at in (0, n // 3, n - 1):
        for step, there in ((1, np.arange(at, n)), (-1, np.arange(at, -1, -1))):
            values = np.repeat(ordered[there], counts[there])
            for skip in (0, 1, int(counts[at]), 5):
                for size in (1, 7, 2 * n):
                    out = np.empty(size)
                    kernels.collect(held, order, ordered, at, step, skip, -1.0, out)
                    wanted = [*values[skip : skip + size], *[-1] * size][:size]
                    assert out.tolist() == wanted


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


@pytest.mark.parametrize("most", [1, 5, 2**62])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 65, 300])
def test_inversions_and_ties_are_counted_among_all_pairs(n, most):
    rng = np.random.default_rng(n)
    for values in (
        rng.integers(-most, most, size=n),
        np.arange(n),
        -np.arange(n),
        np.ones((n, 2), int)[:, 0],
    ):
        pairs = [(int(values[i]), int(values[j])) for j in range(n) for i in range(j)]
        expected = sum(a > b for a, b in pairs), sum(a == b for a, b in pairs)
        assert kernels.inversions(values) == expected
