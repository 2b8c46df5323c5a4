"""Smooth sensitivities by brute force: over all data sets of a small grid, and all neighbours.

A U-statistic is symmetric, so a data set is a multiset, and neighbours share all records but one.
"""

import json
import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from scipy.stats import binomtest

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly
from confidp.central.statistics.u_finite import FiniteUStatistic
from confidp.central.statistics.u_smooth import ProductKernel, smooth_bound
from confidp.errors import InvalidArgument, InvalidType

FALSE_ALARM = 1e-6
ALLOWED = 1 + 1e-12  # by the protocol
BETAS = [0.01, 0.05, 0.2, math.log(2), 1.0, 3.0]


def mean_over_tuples(kernel, data, order=2):
    terms = [kernel(*t) for t in combinations(data, order)]
    return sum(terms, Fraction(0)) / len(terms)


def complaints(space, n, theta, bound, beta):
    """Where `bound` isn't a β-smooth upper bound on θ's local sensitivity, over all of space^n."""
    data_sets = [tuple(sorted(d)) for d in combinations_with_replacement(space, n)]
    value = {d: theta(d) for d in data_sets}
    stated = {d: bound(d) for d in data_sets}
    found = Counter()
    for d in data_sets:
        if not stated[d] > 0:
            found["not above 0"] += 1
        for i, new in product(range(n), space):
            other = tuple(sorted([*d[:i], *d[i + 1 :], new]))
            if abs(value[d] - value[other]) > stated[d] * ALLOWED:
                found["under the local sensitivity"] += 1
            if stated[d] > math.exp(beta) * stated[other] * ALLOWED:
                found["not smooth"] += 1
    return found


def local_sensitivity(space, theta, d):
    others = [[*d[:i], *d[i + 1 :], new] for i, new in product(range(len(d)), space)]
    return max(abs(theta(d) - theta(other)) for other in others)


PRODUCTS = {
    "centred": ProductKernel((-1, 1), 0.5),
    "one-sided": ProductKernel((0, 1), 0.25),
    "far from 0": ProductKernel((2, 5), 1),
    "lopsided": ProductKernel((-1, 3), 1),
}


def grid_points(statistic):
    (grid,) = statistic.grids
    return [grid.lower + grid.step * k for k in range(grid.cells + 1)]


def of_records(statistic, method, d):
    return method(statistic.encode(np.array([[float(x)] for x in d])))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("statistic", PRODUCTS.values(), ids=PRODUCTS)
def test_the_product_kernel_s_is_above_the_local_sensitivity_and_smooth(statistic, n, beta):
    bound = partial(
        of_records, statistic, lambda records: statistic.smooth_sensitivity(records, beta)
    )
    theta = partial(of_records, statistic, statistic.exact)
    assert complaints(grid_points(statistic), n, theta, bound, beta) == {}


def test_it_is_the_formula_in_print_and_tight_where_records_are_at_the_bounds():
    statistic, n = ProductKernel((-0.5, 0.5)), 500
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.5, 0.5, (n, 1))
    rows[:2, 0] = -0.5, 0.5
    records = statistic.encode(rows)
    x, total = rows[:, 0], rows.sum()
    a = 2 * max(abs(total - x.min()), abs(total - x.max())) / (n * (n - 1))
    slope, cap = 2 / (n * (n - 1)), 1 / n
    for beta in (0.01, 0.1, 1.0):
        k = np.arange(20_000)
        stated = np.max(np.exp(-beta * k) * np.minimum(cap, a + k * slope))
        assert statistic.smooth_sensitivity(records, beta) == pytest.approx(stated, rel=1e-7)
    assert statistic.smooth_sensitivity(records, 100.0) == pytest.approx(a, rel=1e-7)
    far = int(np.argmax(np.abs(total - x)))  # which is at a bound: sending it across moves U by A
    other = rows.copy()
    other[far] = -other[far]
    moved = statistic.exact(records) - statistic.exact(statistic.encode(other))
    assert abs(float(moved)) == pytest.approx(a, rel=1e-7)


# -- Wrong forms, which the checker must catch ------------------------------------------------


def parts(statistic, d):
    """A, Λ and GS of the product kernel on the data set d."""
    n, total = len(d), sum(d)
    (grid,) = statistic.grids
    a = 2 * grid.range * max(abs(total - x) for x in d) / (n * (n - 1))
    return a, 2 * grid.range**2 / (n * (n - 1)), statistic.sensitivity(n)


def max_form(a, slope, cap, beta, ks=range(3000)):
    a, slope, cap = float(a), float(slope), float(cap)
    return max(math.exp(-beta * k) * min(cap, a + k * slope) for k in ks)


def truncated_plus_constant(a, slope, cap, beta, steps, constant):
    """max_{k ≤ k⋆}(…) + C/n³."""
    return max_form(a, slope, cap, beta, range(steps + 1)) + constant


def window_plus_constant(a, slope, cap, beta, steps, constant):
    """Lemma 6.1's form: the local sensitivity at distance k⋆, plus C/n³."""
    return float(min(cap, a + steps * slope)) + constant


@pytest.mark.parametrize("steps", [0, 1])  # at 2 no data set of 5 is under the cap
@pytest.mark.parametrize("form", [truncated_plus_constant, window_plus_constant])
def test_the_forms_in_print_with_an_added_constant_are_not_smooth(form, steps):
    statistic, beta, n = PRODUCTS["centred"], 0.05, 5

    def bound(d):
        a, slope, cap = parts(statistic, d)
        # k⋆ ≥ β⁻¹(ln(GS/C) + 3 ln n) holds with equality for this C/n³.
        return form(a, slope, cap, beta, steps, float(cap) * math.exp(-beta * steps))

    theta = partial(of_records, statistic, statistic.exact)
    found = complaints(grid_points(statistic), n, theta, bound, beta)
    assert set(found) == {"not smooth"}


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (lambda a, slope, cap, beta: float(a) + 1e-9, "not smooth"),
        (lambda a, slope, cap, beta: max_form(a, slope / 2, cap, beta), "not smooth"),
        (
            lambda a, slope, cap, beta: max_form(a / 2, slope, cap / 2, beta),
            "under the local sensitivity",
        ),
        (lambda a, slope, cap, beta: max_form(a, slope, cap, beta, range(2)), "not smooth"),
        (lambda a, slope, cap, beta: max_form(a, slope, cap, 2 * beta), "not smooth"),
        (lambda a, slope, cap, beta: max_form(a, slope, cap, beta), None),
    ],
)
def test_the_checker_catches_every_wrong_form_and_passes_the_right_one(form, complaint):
    statistic, beta = PRODUCTS["centred"], 0.05
    theta = partial(of_records, statistic, statistic.exact)
    found = complaints(
        grid_points(statistic), 5, theta, lambda d: form(*parts(statistic, d), beta), beta
    )
    assert complaint in found if complaint else found == {}


# -- Any kernel on a finite support -----------------------------------------------------------

RNG = np.random.default_rng(8)
WILD = RNG.integers(-8, 9, (4, 4)) / 8


def wild(x, y):
    return WILD[int(x), int(y)] + WILD[int(y), int(x)]


def checkers(x, y):
    """Degenerate for balanced data, with the largest interaction there is."""
    return 1.0 if x == y else -1.0


FINITE = {
    "wild": FiniteUStatistic(wild, range(4)),
    "checkers": FiniteUStatistic(checkers, [0, 1]),
    "product": FiniteUStatistic(lambda x, y: x * y, [-1, -0.5, 0, 0.5, 1], degenerate=True),
    "additive": FiniteUStatistic(lambda x, y: x + y, [0, 1, 3]),
    "plane": FiniteUStatistic(
        lambda x, y: float(x[0] != y[0]) - float(x[1] * y[1]), [(0, 0), (0, 2), (1, 1)]
    ),
}


def table_of(statistic):
    """The kernel as tabulated, between points' numbers, in exact numbers."""
    grid = statistic.grid
    return [[grid.lower + grid.step * h for h in row] for row in statistic.table.tolist()]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("statistic", FINITE.values(), ids=FINITE)
def test_any_kernel_s_is_above_the_local_sensitivity_and_smooth(statistic, n, beta):
    table = table_of(statistic)
    theta = partial(mean_over_tuples, lambda x, y: table[x][y])

    def bound(d):
        return statistic.smooth_sensitivity(np.array(d), beta)

    assert complaints(range(len(table)), n, theta, bound, beta) == {}


@pytest.mark.parametrize("beta", [0.05, 0.7])
@pytest.mark.parametrize("statistic", FINITE.values(), ids=FINITE)
def test_the_coarser_form_by_the_diameter_is_smooth_too_and_never_smaller(statistic, beta):
    table, n = table_of(statistic), 4
    size = range(len(table))
    diameter = max(map(max, table)) - min(map(min, table))

    def coarse(d):
        sums = [sum(table[x][j] for j in d) for x in size]
        g = (max(sums) - min(sums)) / (n - 1)
        a = Fraction(2, n) * (g + diameter / (n - 1))
        return max_form(a, 4 * diameter / (n * (n - 1)), 2 * diameter / n, beta) * (1 + 1e-13)

    theta = partial(mean_over_tuples, lambda x, y: table[x][y])
    assert complaints(size, n, theta, coarse, beta) == {}
    for d in combinations_with_replacement(size, n):
        assert statistic.smooth_sensitivity(np.array(d), beta) <= coarse(d) * ALLOWED


def test_on_the_same_grid_the_table_gives_what_the_product_s_formula_gives():
    table, formula = FINITE["product"], PRODUCTS["centred"]
    rng = np.random.default_rng(2)
    for n, beta in product([2, 5, 40, 1000], BETAS):
        rows = rng.integers(-2, 3, (n, 1)) / 2
        stated = table.smooth_sensitivity(table.encode(rows), beta)
        assert stated == pytest.approx(
            formula.smooth_sensitivity(formula.encode(rows), beta), rel=1e-12
        )
        value = table.value(table.encode(rows))[0] + table.origin[0]
        assert value == pytest.approx(float(formula.exact(formula.encode(rows))), abs=1e-15)


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_the_theorem_holds_for_order_three(beta):
    # No statistic here uses it beyond order two, but the docstring of u_smooth proves it.
    points, n = range(3), 4
    rng = np.random.default_rng(9)
    heights = {
        t: Fraction(int(rng.integers(-4, 5))) for t in combinations_with_replacement(points, 3)
    }

    def h(*xs):
        return heights[tuple(sorted(xs))]

    def spread(d):
        averages = [
            [mean_over_tuples(lambda u, v, x=x: h(x, u, v), d[:i] + d[i + 1 :]) for x in points]
            for i in range(n)
        ]
        return max(max(row) - min(row) for row in averages)

    quadruples = list(product(points, repeat=5))
    interaction = max(
        abs(h(x, y, w) - h(z, y, w) - h(x, v, w) + h(z, v, w)) for x, z, y, v, w in quadruples
    )
    steepest = max(abs(h(x, y, w) - h(z, y, w)) for x, z, y, _, w in quadruples)
    r_n, among_others = Fraction(3, n), Fraction(2, n - 1)

    def bound(d, share=among_others):
        a, slope = r_n * spread(d), r_n * share * interaction
        return max_form(a, slope, r_n * steepest, beta) * (1 + 1e-13)

    theta = partial(mean_over_tuples, h, order=3)
    assert complaints(points, n, theta, bound, beta) == {}


@pytest.mark.parametrize("statistic", FINITE.values(), ids=FINITE)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_its_value_is_the_mean_over_pairs_and_its_global_sensitivity_is_attained(statistic, n):
    table = table_of(statistic)
    theta = partial(mean_over_tuples, lambda x, y: table[x][y])
    size, largest = range(len(table)), Fraction(0)
    for d in combinations_with_replacement(size, n):
        (value,) = statistic.value(np.array(d)).tolist()
        assert abs(Fraction(value) + statistic.origin[0] - theta(d)) <= statistic.rounding(n)
        largest = max(largest, local_sensitivity(size, theta, list(d)))
    assert largest == statistic.sensitivity(n)


def test_records_count_as_the_nearest_support_point():
    statistic = FiniteUStatistic(lambda x, y: x * y, [3, 0, 1]).for_shape(5, 1)
    rows = np.array([[-math.inf], [0.4], [0.6], [1.9], [math.inf]])
    assert statistic.encode(rows).tolist() == [1, 1, 2, 2, 0]
    plane = FINITE["plane"].for_shape(2, 2)
    assert plane.encode(np.array([[0.2, 1.9], [math.inf, 1.0]])).tolist() == [1, 2]
    assert plane.bounds == ((0.0, 1.0), (0.0, 2.0))


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: FiniteUStatistic(3, [0, 1]), InvalidType, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y, z: x, [0, 1]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: 1 / x, [0, 1]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: math.nan, [0, 1]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: math.inf * y, [1, 2]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: x - y, [0, 1]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: 7.0, [0, 1]), InvalidArgument, "kernel"),
        (lambda: FiniteUStatistic(lambda x, y: x, [0]), InvalidArgument, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, range(501)), InvalidArgument, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, [0, 1, 0]), InvalidArgument, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, [0, math.nan]), InvalidArgument, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, "ab"), InvalidType, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, 5), InvalidType, "support"),
        (lambda: FiniteUStatistic(lambda x, y: x, [[0], [1, 2]]), InvalidType, "support"),
        (lambda: FiniteUStatistic(checkers, [0, 1], degenerate="no"), InvalidType, "degenerate"),
        (lambda: FINITE["wild"].for_shape(5, 2), InvalidArgument, "support"),
        (lambda: FINITE["wild"].sensitivity(1), InvalidArgument, "n and resample_size"),
        (lambda: FINITE["wild"].rounding(1), InvalidArgument, "n and resample_size"),
        (lambda: FINITE["wild"].smooth_sensitivity(np.array([0]), 1.0), InvalidArgument, "n and"),
        *[
            (partial(FINITE["wild"].smooth_sensitivity, np.array([0, 1]), beta), error, "beta")
            for beta, error in [(0, InvalidArgument), (-1, InvalidArgument), (101, InvalidArgument),
                                (math.nan, InvalidArgument), (math.inf, InvalidArgument),
                                ("1", InvalidType)]
        ],
    ],
)  # fmt: skip
def test_bad_settings_are_refused(make, error, name):
    with pytest.raises(error, match=rf"^{name}.* must ") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_smooth_bound_is_the_maximum_over_whole_k_whatever_the_shape():
    rng = np.random.default_rng(3)
    for _ in range(300):
        a, slope, cap = (Fraction(int(x)) for x in rng.integers([0, 1, 1], [50, 20, 300]))
        beta = float(rng.choice([1e-3, 0.03, 0.3, 2.0, 30.0, 100.0]))
        brute = max(math.exp(-beta * k) * float(min(cap, a + k * slope)) for k in range(400))
        assert brute * (1 - 1e-15) <= smooth_bound(a, slope, cap, beta) <= brute * (1 + 3e-13)
    # Where a small slope and far-off bounds leave floats no digits for k.
    far, step = Fraction(10**18), Fraction(1)
    assert smooth_bound(far, step, far + 5, 1e-17) == pytest.approx(1e18, rel=1e-12)
    assert smooth_bound(Fraction(0), step, Fraction(7), 1e-300) == pytest.approx(7, rel=1e-12)
    assert smooth_bound(Fraction(3), Fraction(0), Fraction(3), 0.1) == pytest.approx(3, rel=1e-12)


def test_both_are_smooth_friendly_and_say_what_they_assume():
    for statistic in (*PRODUCTS.values(), *FINITE.values()):
        assert isinstance(statistic, SmoothFriendly)
        assert isinstance(statistic, MeanLike)
        assert json.loads(json.dumps(statistic.describe(), allow_nan=False))["statistic"]
    assert "degenerate" in " ".join(FINITE["product"].assumes)
    assert FINITE["product"].scale(100) == 100
    assert FINITE["wild"].scale(100) == 10


def test_the_degenerate_rate_shows_in_the_smooth_sensitivity():
    statistic, ratios = ProductKernel((-0.5, 0.5), degenerate=True), []
    for n in (1000, 16_000):
        rows = np.random.default_rng(n).uniform(-0.5, 0.5, (n, 1))
        bound = statistic.smooth_sensitivity(statistic.encode(rows), 1 / math.sqrt(n))
        ratios.append(bound / float(statistic.sensitivity(n)))
    assert ratios[1] < ratios[0] / 3  # n^-½ of the global one: 4 times smaller


def test_cr_gs_covers_the_simpson_index_of_a_fair_die():
    rng, level, sets, covered = np.random.default_rng(31), 0.9, 60, 0
    statistic = FiniteUStatistic(lambda x, y: float(x == y), range(1, 4))
    for _ in range(sets):
        region = confidence_region(
            rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1], size=600),
            statistic,
            budget=GDP(1000.0),
            confidence_level=level,
            method=CRGS("with_replacement", resample_size=150),
            n_resamples=200,
            rng=rng,
        )
        covered += region.contains([0.46])
        assert region.radius < 0.2
    assert binomtest(covered, sets, level - 0.05, "less").pvalue > FALSE_ALARM
