"""The product kernel's smooth sensitivity, and its theorem, over all data sets of small grids."""

import math
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from brute_force import local_sensitivities, violations
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly
from confidp.central.statistics.u_smooth import ProductKernel, smooth_bound
from confidp.errors import InvalidArgument, InvalidType

BETAS = [0.01, 0.05, 0.2, math.log(2), 1.0, 3.0]
PRODUCTS = {
    "centred": ProductKernel((-1, 1), 0.5),
    "one-sided": ProductKernel((0, 1), 0.25),
    "far from 0": ProductKernel((2, 5), 1),
    "lopsided": ProductKernel((-1, 3), 1),
}
CENTRED = PRODUCTS["centred"]


def local(statistic, n):
    """The local sensitivity of all data sets of n grid points."""
    points = statistic.grids[0].cells + 1
    return local_sensitivities(lambda x: float(statistic.exact(x[:, None])), points, n)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("statistic", PRODUCTS.values(), ids=PRODUCTS)
def test_it_bounds_the_local_sensitivity_and_is_smooth_on_all_data_sets(statistic, n):
    points, by_data = statistic.grids[0].cells + 1, local(statistic, n)
    for beta in BETAS:

        def bound(x, beta=beta):
            return statistic.smooth_sensitivity(x[:, None], beta)

        assert violations(bound, by_data, beta, points) == (0, 0)
        assert min(bound(np.array(data)) for data in by_data) > 0


def test_it_is_the_formula_in_print_and_attained_where_records_are_at_the_bounds():
    statistic, n = ProductKernel((-0.5, 0.5)), 500
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (n, 1))
    rows[:2, 0] = -0.5, 0.5
    records, x, total = statistic.encode(rows), rows[:, 0], rows.sum()
    a = 2 * max(abs(total - x.min()), abs(total - x.max())) / (n * (n - 1))
    slope, cap, k = 2 / (n * (n - 1)), 1 / n, np.arange(20_000)
    for beta in (0.01, 0.1, 1.0):
        stated = np.max(np.exp(-beta * k) * np.minimum(cap, a + k * slope))
        assert statistic.smooth_sensitivity(records, beta) == pytest.approx(stated, rel=1e-7)
    assert statistic.smooth_sensitivity(records, 100.0) == pytest.approx(a, rel=1e-7)
    far = int(np.argmax(np.abs(total - x)))  # which is at a bound: sending it across moves U by A
    other = rows.copy()
    other[far] *= -1
    moved = statistic.exact(records) - statistic.exact(statistic.encode(other))
    assert abs(float(moved)) == pytest.approx(a, rel=1e-7)


def test_the_degenerate_rate_shows():
    statistic, ratios = ProductKernel((-0.5, 0.5), degenerate=True), []
    for n in (1000, 16_000):
        rows = np.random.default_rng(n).uniform(-0.5, 0.5, (n, 1))
        bound = statistic.smooth_sensitivity(statistic.encode(rows), 1 / math.sqrt(n))
        ratios.append(bound / float(statistic.sensitivity(n)))
    assert ratios[1] < ratios[0] / 3  # n^-½ of the global one: 4 times smaller


def parts(x):
    """A, Λ and GS of the centred kernel on grid indices x, as floats."""
    n, (grid,) = len(x), CENTRED.grids
    values = float(grid.lower) + float(grid.step) * x
    spread = float(grid.range)
    a = 2 * spread * np.abs(values.sum() - values).max() / (n * (n - 1))
    return a, 2 * spread**2 / (n * (n - 1)), float(CENTRED.sensitivity(n))


def maximum(a, slope, cap, beta, ks=range(3000)):
    return max(math.exp(-beta * k) * min(cap, a + k * slope) for k in ks)


def truncated_plus_constant(a, slope, cap, beta, steps, constant):
    """max_{k ≤ k⋆}(…) + C/n³."""
    return maximum(a, slope, cap, beta, range(steps + 1)) + constant


def window_plus_constant(a, slope, cap, beta, steps, constant):
    """Lemma 6.1's form: the local sensitivity at distance k⋆, plus C/n³."""
    return min(cap, a + steps * slope) + constant


@pytest.mark.parametrize("steps", [0, 1])  # at 2 no data set of 5 is under the cap
@pytest.mark.parametrize("form", [truncated_plus_constant, window_plus_constant])
def test_the_forms_in_print_with_an_added_constant_are_not_smooth(form, steps):
    beta, n = 0.05, 5

    def bound(x):
        a, slope, cap = parts(x)
        # k⋆ ≥ β⁻¹(ln(GS/C) + 3 ln n) holds with equality for this C/n³.
        return form(a, slope, cap, beta, steps, cap * math.exp(-beta * steps))

    under, rough = violations(bound, local(CENTRED, n), beta, 5)
    assert under == 0
    assert rough > 0


@pytest.mark.parametrize(
    ("form", "sound"),
    [
        (lambda a, slope, cap, beta: maximum(a, slope, cap, beta), (True, True)),
        (lambda a, slope, cap, beta: a + 1e-9, (True, False)),
        (lambda a, slope, cap, beta: maximum(a, slope / 2, cap, beta), (True, False)),
        (lambda a, slope, cap, beta: maximum(a, slope, cap, beta, range(2)), (True, False)),
        (lambda a, slope, cap, beta: maximum(a, slope, cap, 2 * beta), (True, False)),
        (lambda a, slope, cap, beta: maximum(a / 2, slope / 2, cap / 2, beta), (False, True)),
    ],
)
def test_the_checker_tells_the_right_form_from_every_wrong_one(form, sound):
    beta = 0.05
    under, rough = violations(lambda x: form(*parts(x), beta), local(CENTRED, 5), beta, 5)
    assert (under == 0, rough == 0) == sound


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_the_theorem_holds_for_order_three(beta):
    # No statistic here uses it beyond order two, but the docstring of u_smooth proves it.
    points, n = range(3), 4
    rng = np.random.default_rng(9)
    heights = {t: int(rng.integers(-4, 5)) for t in combinations_with_replacement(points, 3)}

    def h(*xs):
        return heights[tuple(sorted(xs))]

    def mean(kernel, data, order):
        return float(np.mean([kernel(*t) for t in combinations(data, order)]))

    def spread(data):
        others = [data[:i] + data[i + 1 :] for i in range(n)]
        averages = [[mean(partial(h, x), rest, 2) for x in points] for rest in others]
        return max(max(row) - min(row) for row in averages)

    interaction = max(
        abs(h(x, y, w) - h(z, y, w) - h(x, v, w) + h(z, v, w))
        for x, z, y, v, w in product(points, repeat=5)
    )
    steepest = max(abs(h(x, y, w) - h(z, y, w)) for x, z, y, w in product(points, repeat=4))

    def bound(data):
        slope = 3 / n * 2 / (n - 1) * interaction
        return maximum(3 / n * spread(data.tolist()), slope, 3 / n * steepest, beta)

    by_data = local_sensitivities(lambda data: mean(h, data.tolist(), 3), 3, n)
    assert violations(bound, by_data, beta, 3) == (0, 0)


def test_the_smooth_bound_is_the_maximum_over_whole_k_whatever_the_shape():
    rng = np.random.default_rng(3)
    for _ in range(300):
        a, slope, cap = (Fraction(int(x)) for x in rng.integers([0, 1, 1], [50, 20, 300]))
        beta = float(rng.choice([1e-3, 0.03, 0.3, 2.0, 30.0, 100.0]))
        brute = maximum(float(a), float(slope), float(cap), beta, range(400))
        assert brute * (1 - 1e-15) <= smooth_bound(a, slope, cap, beta) <= brute * (1 + 3e-13)
    # Where a small slope and far-off bounds leave floats no digits for k.
    far, step = Fraction(10**18), Fraction(1)
    assert smooth_bound(far, step, far + 5, 1e-17) == pytest.approx(1e18, rel=1e-12)
    assert smooth_bound(Fraction(0), step, Fraction(7), 1e-300) == pytest.approx(7, rel=1e-12)
    assert smooth_bound(Fraction(3), Fraction(0), Fraction(3), 0.1) == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("beta", [0, -1, 101, math.nan, math.inf, "1", None])
def test_a_beta_out_of_range_is_refused(beta):
    with pytest.raises((InvalidArgument, InvalidType), match=r"^beta must "):
        CENTRED.smooth_sensitivity(np.array([[0], [1]]), beta)


def test_every_product_kernel_suits_both_kinds_of_method():
    for statistic in PRODUCTS.values():
        assert isinstance(statistic, SmoothFriendly)
        assert isinstance(statistic, MeanLike)
    with pytest.raises(InvalidArgument, match=r"^n and resample_size must be at least 2"):
        CENTRED.smooth_sensitivity(np.array([[0]]), 1.0)
