"""Jackknife variances: equal to leaving each record out, and moved by no more than the theorem."""

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from central.statistics.test_u_kernels import COARSE, FINE, KERNELS, data_sets, points
from confidp import FiniteUStatistic, UStatistic
from confidp.central import kernels
from confidp.central.statistics.exact import exact_dot
from confidp.central.statistics.jackknife import Jackknifed, jackknife_from, spread_sensitivity
from confidp.central.statistics.u_kernels import GiniMeanDifference, _before_by_blocks
from confidp.central.statistics.u_smooth import ProductKernel
from confidp.central.statistics.u_statistic import design
from confidp.errors import InvalidArgument


def leaving_each_out(u, n):
    """(n − 1)·Σ(U without record i, less their mean)²: the definition. `u` takes positions."""
    without = [u([j for j in range(n) if j != i]) for i in range(n)]
    mean = sum(without) / Fraction(n)
    return (n - 1) * sum((x - mean) ** 2 for x in without)


@pytest.mark.parametrize("statistic", COARSE + FINE, ids=repr)
def test_it_is_that_of_leaving_each_record_out_exactly(statistic):
    for rows in data_sets(statistic, seed=5):
        n = len(rows)
        if not 3 <= n <= 16:
            continue
        fitted = statistic.for_shape(*rows.shape)
        records = fitted.encode(rows)
        exact = points(fitted, records)
        kernel = KERNELS[type(fitted)]
        pairs = {(i, j): kernel(exact[i], exact[j]) for i, j in combinations(range(n), 2)}

        def u(kept, pairs=pairs):
            terms = [pairs[pair] for pair in combinations(kept, 2)]
            return sum(terms, Fraction(0)) / len(terms)

        value, variance = fitted.jackknife(records)
        assert value + fitted.origin[0] == u(range(n)) == fitted.exact(records)
        assert variance == leaving_each_out(u, n)
        assert fitted.jackknife(records[::-1]) == (value, variance)


TABLE = FiniteUStatistic(lambda x, y: (x * y) % 5 - x - y, range(6))


def test_a_finite_support_has_the_same_by_its_table():
    rng = np.random.default_rng(1)
    for n in (3, 4, 11, 30):
        records = TABLE.encode(rng.integers(0, 6, (n, 1)).astype(float))
        heights = TABLE.table[np.ix_(records, records)].tolist()

        def u(kept, heights=heights):
            terms = [heights[i][j] for i, j in combinations(kept, 2)]
            return Fraction(sum(terms), len(terms))

        value, variance = TABLE.jackknife(records)
        assert value == u(range(n)) * TABLE.grid.step
        assert variance == leaving_each_out(u, n) * TABLE.grid.step**2


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_users_kernel_of_any_order_has_the_same(order, vectorized):
    def kernel(*x):
        return sum(x) * (1 - x[0]) / order

    statistic = UStatistic(kernel, order, (0, 1), (0, 1), vectorized=vectorized).for_shape(7, 1)
    records = statistic.encode(np.random.default_rng(2).random((7, 1)))
    heights = statistic._heights(records, design(7, order, None)).tolist()
    by_tuple = dict(zip(combinations(range(7), order), heights, strict=True))

    def u(kept):
        terms = [by_tuple[one] for one in combinations(kept, order)]
        return Fraction(sum(terms), len(terms))

    value, variance = statistic.jackknife(records)
    assert value == u(range(7)) * statistic.grid.step
    assert variance == leaving_each_out(u, 7) * statistic.grid.step**2
    assert abs(float(value) - statistic.value(records)[0]) <= statistic.rounding(7)


def spread_of(weights):
    """Σ(q_i − q̄)² for the (…, n, n) symmetric weights of pairs."""
    n = weights.shape[-1]
    q = weights.sum(axis=-1) / (n - 1)
    return ((q - q.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)


def with_record(others, beside):
    """All weights: of the others, (n − 1, n − 1), and of one record beside them, (k, n − 1)."""
    n = len(others) + 1
    weights = np.zeros((len(beside), n, n))
    weights[:, 1:, 1:] = others
    weights[:, 0, 1:] = weights[:, 1:, 0] = beside
    return weights


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_no_kernel_of_all_pairs_moves_the_spread_by_more_than_the_theorem_says(n):
    # Every kernel with values 0 and 1 (for n = 6, one of each shape and more), and of the new
    # record's values also random ones: the least may be inside.
    others, rng = n - 1, np.random.default_rng(n)
    beside = np.array([*product((0.0, 1.0), repeat=others), *rng.random((200, others))])
    pairs, largest = list(combinations(range(others), 2)), 0.0
    for bits in product((0, 1), repeat=len(pairs)):
        weights = np.zeros((others, others))
        for bit, (i, j) in zip(bits, pairs, strict=True):
            weights[i, j] = weights[j, i] = bit
        spreads = spread_of(with_record(weights, beside))
        largest = max(largest, np.ptp(spreads))
    assert largest <= (n + 1) / (n - 1)
    if n >= 4:  # what the module says was found
        assert largest == pytest.approx((n - 2) ** 2 / (n * (n - 1)))


@given(st.integers(0, 2**32), st.integers(3, 40))
@settings(deadline=None, max_examples=200)
def test_nor_do_large_ones_of_the_shapes_that_come_close(seed, n):
    # Complete, empty and mixed blocks: of such the proof's extremes are made.
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 3, n - 1)
    table = rng.choice([0.0, 1.0, rng.random()], (3, 3))
    table = np.triu(table) + np.triu(table, 1).T
    others = table[np.ix_(blocks, blocks)]
    np.fill_diagonal(others, 0)
    beside = np.array(
        [*(rng.choice([0.0, 1.0], 3)[blocks] for _ in range(20)), *rng.random((3, n - 1))]
    )
    assert np.ptp(spread_of(with_record(others, beside))) <= (n + 1) / (n - 1)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
@settings(max_examples=500)
def test_the_lemma_that_the_proof_rests_on(numbers):
    g = np.array(numbers)
    m = g.mean()
    if m < 0:
        g, m = -g, -m
    first = np.maximum(np.add.outer(g, g) - 4 * m, 0).mean()
    assert first + m * (2 - np.abs(g).mean()) <= 1 + 1e-12


@pytest.mark.parametrize("statistic", [*COARSE, TABLE], ids=[*map(repr, COARSE), "table"])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_no_neighbours_on_a_small_grid_move_it_by_more_than_is_stated(statistic, n):
    space = (
        list(range(6))
        if statistic is TABLE
        else list(product(*(range(grid.cells + 1) for grid in statistic.grids)))
    )
    center, spread = statistic.jackknife_sensitivity(n)
    for shared in combinations_with_replacement(space, n - 1):
        both = [statistic.jackknife(np.array([*shared, one])) for one in space]
        values, variances = zip(*both, strict=True)
        assert max(values) - min(values) <= center
        assert max(variances) - min(variances) <= spread


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_the_stated_one_is_attained_but_for_a_part_in_n(n):
    gini = GiniMeanDifference((0, 10), 1)
    before, after = np.zeros((n, 1), np.int64), np.zeros((n, 1), np.int64)
    after[0] = 10
    (_, low), (_, high) = gini.jackknife(before), gini.jackknife(after)
    assert low == 0
    assert high == Fraction(400, n)
    _, stated = gini.jackknife_sensitivity(n)
    assert 1 < stated / high < 1 + Fraction(12, n)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_no_neighbours_move_an_incomplete_one_by_more_than_is_stated(order, rounds):
    # Kernels of 0 and 1 by tuple, climbing to the furthest neighbours from random starts. Record i
    # is the number i, and n in place of 0 for the neighbour, so that a kernel can tell them apart.
    n, rng = 12, np.random.default_rng([order, rounds])
    drawn = np.sort(design(n, order, rounds), axis=1)
    tuples, times = np.unique(drawn, axis=0, return_counts=True)  # some come more than once
    first = (tuples == 0).any(axis=1)
    incidence = np.zeros((n, len(tuples)))
    for column in tuples.T:
        incidence[column, np.arange(len(tuples))] = times * n / (len(drawn) * order)

    def moved(heights, others):
        q = incidence @ np.stack([heights, np.where(first, others, heights)], axis=1)
        return float(np.ptp(((q - q.mean(axis=0)) ** 2).sum(axis=0)))

    largest, found = 0.0, None
    for _ in range(30):
        both = (rng.random((2, len(tuples))) < rng.random()).astype(float)
        best = moved(*both)
        for _ in range(200):
            at = rng.integers(2), rng.integers(len(tuples))
            both[at] = 1 - both[at]
            if (new := moved(*both)) >= best:
                best = new
            else:
                both[at] = 1 - both[at]
        if best > largest:
            largest, found = best, both.copy()
    heights = {tuple(sorted(t)): h for t, h in zip(tuples.tolist(), found[0], strict=True)}
    heights |= {
        tuple(sorted(n if i == 0 else i for i in t)): h
        for t, h in zip(tuples.tolist(), found[1], strict=True)
        if 0 in t
    }

    def kernel(*x):
        return heights[tuple(sorted(map(round, x)))]

    statistic = UStatistic(kernel, order, (0, n), (0, 1), max_tuples=rounds * n).for_shape(n, 1)
    rows = np.arange(n, dtype=float)[:, None]
    other = rows.copy()
    other[0] = n
    (_, before), (_, after) = statistic.jackknife(rows), statistic.jackknife(other)
    assert float(abs(after - before)) == pytest.approx(
        order**2 * (n - 1) / (n - order) ** 2 * largest, rel=1e-6
    )
    _, stated = statistic.jackknife_sensitivity(n)
    assert abs(after - before) <= stated
    if order > 1 and rounds == 1:  # further than all pairs could move: the design matters
        assert largest > 1.2


def test_what_is_stated_is_what_the_theorem_says():
    assert spread_sensitivity(10, 1, Fraction(3), all_pairs=False) == Fraction(9, 9)
    assert spread_sensitivity(10, 2, Fraction(3), all_pairs=True) == Fraction(36 * 11, 64)
    assert spread_sensitivity(10, 2, Fraction(1), all_pairs=False) == Fraction(4 * 9 * 3, 64)
    assert spread_sensitivity(10, 3, Fraction(1), all_pairs=True) == Fraction(9 * 9 * 5, 49)
    users = UStatistic(lambda x, y: x, 2, (0, 1), (0, 3), max_tuples=30)
    small, large = users.for_shape(8, 1), users.for_shape(20, 1)
    assert small.jackknife_sensitivity(8)[1] == spread_sensitivity(8, 2, Fraction(3), True)
    assert large.jackknife_sensitivity(20)[1] == spread_sensitivity(20, 2, Fraction(3), False)


def test_a_vectorized_kernel_may_round_differently_beside_others():
    # Its values may all move by one step: both sensitivities allow for that.
    plain, vector = (
        UStatistic(lambda x, y: x * y, 2, (0, 1), (0, 1), vectorized=v).for_shape(20, 1)
        for v in (False, True)
    )
    (before, spread), (with_step, more) = (
        each.jackknife_sensitivity(20) for each in (plain, vector)
    )
    step = vector.grid.step
    assert with_step - before == step
    weight = Fraction(4 * 19, 18**2)
    records = vector.encode(np.random.default_rng(3).choice([0.0, 1.0], (20, 1)))
    _, as_it_is = vector.jackknife(records)
    heights = vector._heights(records, design(20, 2, None))
    for moved in (heights + 1, heights - 1, heights + np.arange(len(heights)) % 2):
        each = np.zeros(20, np.int64)
        for positions in design(20, 2, None).T:
            np.add.at(each, positions, moved)
        _, other = jackknife_from(20, 2, 19, int(each.sum()), exact_dot(each, each))
        assert abs(other * step**2 - as_it_is) <= more - spread
    assert more - spread == weight * 2 * 20 * step


def test_degenerate_kernels_and_too_few_records_have_none():
    product_kernel = ProductKernel((-1, 1), degenerate=True)
    table = FiniteUStatistic(lambda x, y: x * y, [-1, 1], degenerate=True)
    users = UStatistic(lambda x, y, z: x, 3, (0, 1), (0, 1), degenerate=True)
    for statistic in (product_kernel, table, users):
        assert isinstance(statistic, Jackknifed)
        assert not statistic.has_jackknife(100)
    assert not GiniMeanDifference((0, 1)).has_jackknife(2)
    assert GiniMeanDifference((0, 1)).has_jackknife(3)
    assert not UStatistic(lambda x, y, z: x, 3, (0, 1), (0, 1)).has_jackknife(3)
    with pytest.raises(InvalidArgument, match="at least 3"):
        GiniMeanDifference((0, 1)).jackknife_sensitivity(2)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 501])
def test_both_ways_to_count_smaller_ones_before_agree(n):
    rng = np.random.default_rng(n)
    for ranks in (rng.integers(0, n, n), np.arange(n), np.arange(n)[::-1].copy(), np.zeros(n, int)):
        expected = [sum(int(x) < int(ranks[i]) for x in ranks[:i]) for i in range(n)]
        assert kernels.smaller_before(ranks).tolist() == expected
        assert _before_by_blocks(ranks, "left").tolist() == expected


def test_it_errs_to_the_safe_side_on_average():
    # Efron and Stein: E V/n is at least the variance of U. Gini's of five uniforms.
    rng, n, runs = np.random.default_rng(8), 5, 4000
    gini = GiniMeanDifference((0, 1)).for_shape(n, 1)
    both = [gini.jackknife(gini.encode(rng.random((n, 1)))) for _ in range(runs)]
    values, estimates = np.array([(float(u), float(v) / n) for u, v in both]).T
    # 4.9 standard errors: a false alarm of 1e-6.
    assert estimates.mean() - values.var() > -4.9 * math.hypot(
        estimates.std() / math.sqrt(runs), values.var() * math.sqrt(2 / runs)
    )


@pytest.mark.parametrize(("order", "least"), [(2, 2.5), (3, 3.5)])
def test_few_tuples_of_many_records_come_near_the_bound_for_designs(order, least):
    # All tuples are 0 but the other ones of record 0's partners; then its own become 1 too.
    n = 200
    tuples = design(n, order, 3)
    own = (tuples == 0).any(axis=1)
    partners = np.unique(tuples[own])
    heights = np.where(np.isin(tuples, partners[partners > 0]).any(axis=1) & ~own, 1.0, 0.0)
    spreads = []
    for value in (0.0, 1.0):
        full = np.where(own, value, heights)
        q = np.zeros(n)
        for positions in tuples.T:
            np.add.at(q, positions, full / (3 * order))
        spreads.append(((q - q.mean()) ** 2).sum())
    assert least < spreads[1] - spreads[0] <= 2 * order - 1
