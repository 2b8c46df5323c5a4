"""The named kernels: fast formulas equal to all pairs, and sensitivities exact and attained."""

import json
import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from scipy.stats import binomtest, kendalltau

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics.exact import exact_dot
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly
from confidp.central.statistics.u_kernels import (
    GiniMeanDifference,
    KendallTau,
    Variance,
    WilcoxonSignedRank,
)
from confidp.central.statistics.u_smooth import ProductKernel
from confidp.errors import InvalidArgument, InvalidType

FALSE_ALARM = 1e-6


def sign(x):
    return (x > 0) - (x < 0)


KERNELS = {
    Variance: lambda x, y: (x[0] - y[0]) ** 2 / 2,
    GiniMeanDifference: lambda x, y: abs(x[0] - y[0]),
    WilcoxonSignedRank: lambda x, y: Fraction(1 + sign(x[0] + y[0]), 2),
    KendallTau: lambda x, y: Fraction(sign(x[0] - y[0]) * sign(x[1] - y[1])),
    ProductKernel: lambda x, y: x[0] * y[0],
}
COARSE = [
    Variance((-1, 3), 1),
    GiniMeanDifference((0.1, 0.5), 0.1),
    WilcoxonSignedRank((-2, 2), 1),
    WilcoxonSignedRank((-0.2, 0.2), 0.2),
    KendallTau((0, 2), 1),
    KendallTau(((0, 1), (0, 2)), 1),
    KendallTau((0, 1), 1),
    ProductKernel((-1, 1), 0.5),
    ProductKernel((1, 3), 0.5),
    ProductKernel((-3, 1), 1),
]
FINE = [
    Variance((-1, 3)),
    Variance((0, 30_000), 0.01),
    Variance((1e9, 1e9 + 1)),
    Variance((0, 2.0**52), 1),
    Variance((-1e120, 1e120)),
    GiniMeanDifference((-1e9, 7)),
    GiniMeanDifference((0, 2.0**52), 1),
    WilcoxonSignedRank((-1e-9, 1e-9)),
    WilcoxonSignedRank((-(2.0**51), 2.0**51), 1),
    KendallTau(((0, 1), (-1e6, 1e6))),
    KendallTau((0, 2.0**52), 1),
    ProductKernel((-0.5, 0.5)),
    ProductKernel((1e9, 1e9 + 1)),
    ProductKernel((-3, -2), 0.001),
    ProductKernel((-(2.0**51), 2.0**51), 1),
]


def points(statistic, records):
    """The encoded records as exact numbers, a tuple a record."""
    return [
        tuple(grid.lower + grid.step * k for grid, k in zip(statistic.grids, record, strict=True))
        for record in np.asarray(records).tolist()
    ]


def all_pairs(statistic, records):
    """The U-statistic by its definition."""
    kernel = KERNELS[type(statistic)]
    terms = [kernel(x, y) for x, y in combinations(points(statistic, records), 2)]
    return sum(terms, Fraction(0)) / len(terms)


def data_sets(statistic, seed):
    """Rows of many sizes: random, heavy with ties, at the bounds, all equal, near the bounds."""
    rng = np.random.default_rng(seed)
    low, high = np.array(statistic.bounds).T
    for n in (2, 2, 3, 4, 7, 16, 33):
        spread = rng.uniform(low, high, (n, len(low)))
        yield spread
        yield spread[rng.integers(0, max(n // 3, 1), n)]  # a resample: records repeat
        yield np.where(rng.random(spread.shape) < 0.5, low, high)
        yield np.broadcast_to(spread[:1], spread.shape)
        yield np.where(rng.random(spread.shape) < 0.3, 0.0, spread)
        yield np.where(rng.random(spread.shape) < 0.5, math.inf, spread)
        yield low + (high - low) * rng.integers(0, 4, spread.shape) / 3


@pytest.mark.parametrize("statistic", COARSE + FINE, ids=repr)
def test_the_fast_formula_equals_all_pairs_exactly(statistic):
    for rows in data_sets(statistic, seed=3):
        fitted = statistic.for_shape(*rows.shape)
        records = fitted.encode(rows)
        exact = all_pairs(fitted, records)
        assert fitted.exact(records) == exact
        (value,) = fitted.value(records).tolist()
        assert abs(Fraction(value) + fitted.origin[0] - exact) <= fitted.rounding(len(rows))
        assert fitted.exact(records[::-1]) == exact


@pytest.mark.parametrize("statistic", COARSE, ids=repr)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_sensitivity_is_the_largest_move_of_all_neighbours_on_a_small_grid(statistic, n):
    # U is symmetric, so data sets are multisets, and neighbours share n − 1 records.
    record_space = list(product(*(range(grid.cells + 1) for grid in statistic.grids)))
    largest = Fraction(0)
    for shared in combinations_with_replacement(record_space, n - 1):
        values = [statistic.exact(np.array([*shared, one])) for one in record_space]
        largest = max(largest, max(values) - min(values))
    assert largest == statistic.sensitivity(n)


@pytest.mark.parametrize("statistic", COARSE + FINE, ids=repr)
def test_no_neighbours_found_by_a_search_are_further_apart_than_the_sensitivity(statistic):
    rng = np.random.default_rng(11)
    low, high = np.array(statistic.bounds).T
    for rows in data_sets(statistic, seed=12):
        n = len(rows)
        first = statistic.value(statistic.encode(rows))[0]
        for new in (low, high, (low + high) / 2, rng.uniform(low, high)):
            other = rows.copy()
            other[rng.integers(n)] = new
            second = statistic.value(statistic.encode(other))[0]
            most = statistic.sensitivity(n) + 2 * statistic.rounding(n)
            assert abs(Fraction(first) - Fraction(second)) <= most


@pytest.mark.parametrize(
    ("statistic", "rest", "old", "new"),
    [
        (Variance((-1, 3)), [-1], [-1], [3]),
        (Variance((1e9, 1e9 + 1)), [1e9], [1e9], [1e9 + 1]),
        (GiniMeanDifference((-1e9, 7)), [7], [7], [-1e9]),
        (WilcoxonSignedRank((-3, 3)), [0], [1], [-1]),
        (KendallTau((0, 2)), [1, 1], [2, 2], [2, 0]),
        (KendallTau(((0, 1), (0, 2)), 1), [0, 1], [1, 2], [1, 0]),
        (KendallTau((0, 1), 1), [0, 0], [1, 1], [1, 0]),
        (ProductKernel((-0.5, 0.5)), [0.5], [-0.5], [0.5]),
        (ProductKernel((-3, -2)), [-3], [-2], [-3]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [2, 5, 1000])
def test_the_sensitivity_is_attained_at_every_n(statistic, rest, old, new, n):
    values = [statistic.exact(statistic.encode(np.array([one] + [rest] * (n - 1), dtype=float)))
              for one in (old, new)]  # fmt: skip
    assert abs(values[0] - values[1]) == statistic.sensitivity(n)


def test_the_sensitivities_are_the_formulas_in_print():
    assert Variance((0, 3)).sensitivity(10) == Fraction(9, 10)  # R²/n
    assert GiniMeanDifference((0, 3)).sensitivity(10) == Fraction(6, 10)  # 2R/n
    assert WilcoxonSignedRank((-3, 3)).sensitivity(10) == Fraction(2, 10)
    assert KendallTau((0, 3)).sensitivity(10) == Fraction(4, 10)
    assert ProductKernel((-1, 2)).sensitivity(10) == Fraction(2 * 3 * 2, 10)  # 2R·max(|a|,|b|)/n
    # By the kernel's diameter, 2·(9 − 1)/10 is all that one could say.
    assert ProductKernel((1, 3)).sensitivity(10) == Fraction(12, 10)


@pytest.mark.parametrize("statistic", COARSE + FINE, ids=repr)
def test_each_is_mean_like_and_only_the_product_is_smooth(statistic):
    assert isinstance(statistic, MeanLike)
    assert isinstance(statistic, SmoothFriendly) == isinstance(statistic, ProductKernel)
    assert json.loads(json.dumps(statistic.describe(), allow_nan=False))["statistic"]
    assert all(isinstance(line, str) for line in statistic.assumes)
    assert len(statistic.origin) == 1
    assert statistic.scale(100) == 10
    for too_few in (0, 1):
        with pytest.raises(InvalidArgument, match=r"^n and resample_size must be at least 2"):
            statistic.sensitivity(too_few)
        with pytest.raises(InvalidArgument, match=r"^n and resample_size must be at least 2"):
            statistic.rounding(too_few)


def test_only_a_product_that_is_known_to_be_degenerate_has_the_faster_rate():
    assert ProductKernel((-1, 1), degenerate=True).scale(100) == 100
    assert "E X = 0" in " ".join(ProductKernel((-1, 1), degenerate=True).assumes)
    assert ProductKernel((-1, 1), degenerate=True).describe()["degenerate"] is True


def test_zeros_are_ties_for_wilcoxon_on_any_grid():
    for bounds, resolution in [((-3, 3), None), ((-0.7, 0.7), None), ((-0.3, 0.3), 0.1)]:
        statistic = WilcoxonSignedRank(bounds, resolution)
        zeros = statistic.encode(np.zeros((5, 1)))
        assert statistic.exact(zeros) == Fraction(1, 2)
        opposite = statistic.encode(np.array([[0.1], [-0.1], [0.1], [-0.1]]))
        assert statistic.exact(opposite) == Fraction(1, 2)


def test_large_data_sets_agree_with_other_people_s_code():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(20_000, 2))
    rows[:, 1] += rows[:, 0]
    tau = KendallTau((-9, 9))
    assert float(tau.exact(tau.encode(rows))) == pytest.approx(kendalltau(*rows.T).statistic)
    x = rows[:, :1]
    variance = Variance((-9, 9))
    assert float(variance.exact(variance.encode(x))) == pytest.approx(x.var(ddof=1), rel=1e-7)


def test_integer_sums_beyond_64_bits_are_exact():
    rng = np.random.default_rng(5)
    for size in (1, 2, 1000, 70_000):
        a, b = rng.integers(-(2**61), 2**61, (2, size))
        exact = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
        assert exact_dot(a, b) == exact
    top = np.full(1000, 2**52)
    assert exact_dot(top, -top) == -1000 * 2**104


def test_a_record_beyond_the_bounds_counts_as_the_bound():
    for statistic in (Variance((0, 1)), GiniMeanDifference((0, 1)), ProductKernel((0, 1))):
        values = [
            statistic.value(statistic.encode(np.array([[0.2], [0.7], [outlier]]))).tolist()
            for outlier in (1.0, 1.5, 1.7e308, math.inf)
        ]
        assert values == [values[0]] * 4


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: Variance((1, 0)), InvalidArgument, "bounds"),
        (lambda: Variance((0, math.nan)), InvalidArgument, "bounds"),
        (lambda: Variance((-1e121, 1e121)), InvalidArgument, "bounds"),
        (lambda: Variance((0, 1e-121)), InvalidArgument, "bounds"),
        (lambda: Variance(None), InvalidType, "bounds"),
        (lambda: Variance("01"), InvalidType, "bounds"),
        (lambda: Variance(((0, 1), (0, 1))), InvalidArgument, "bounds"),
        (lambda: Variance((0, 1), 0.3), InvalidArgument, "resolution"),
        (lambda: KendallTau(((0, 1), (1, 1))), InvalidArgument, "bounds"),
        (lambda: KendallTau(((0, 1), 5)), InvalidType, "bounds"),
        (lambda: KendallTau(((0, 1),) * 3), InvalidArgument, "bounds"),
        (lambda: KendallTau(np.array(5)), InvalidType, "bounds"),
        (lambda: WilcoxonSignedRank((-1, 2)), InvalidArgument, "bounds"),
        (lambda: WilcoxonSignedRank((0, 2)), InvalidArgument, "bounds"),
        (lambda: WilcoxonSignedRank((-1.5, 1.5), 1), InvalidArgument, "resolution"),
        (lambda: ProductKernel((0, 1), degenerate=1), InvalidType, "degenerate"),
        (lambda: Variance((0, 1)).for_shape(9, 2), InvalidArgument, "data"),
        (lambda: KendallTau((0, 1)).for_shape(9, 1), InvalidArgument, "data"),
        (lambda: Variance((0, 2.0**52), 1).for_shape(1024, 1), InvalidArgument, "resolution"),
    ],
)
def test_bad_settings_are_refused(make, error, name):
    with pytest.raises(error, match=rf"^{name} must ") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_bounds_come_as_one_pair_or_one_a_column_in_any_container():
    assert KendallTau([0, 1]).bounds == ((0.0, 1.0), (0.0, 1.0))
    assert KendallTau(np.array([[0, 1], [2, 3]])).bounds == ((0.0, 1.0), (2.0, 3.0))
    assert Variance(((0, 1),)).bounds == ((0.0, 1.0),)


def mixed_ranks(rng, n):
    """Y = X half of the time, else independent: τ = p(2 + p)/3 = 5/12 for p = ½."""
    x, y = rng.uniform(size=(2, n))
    return np.column_stack([x, np.where(rng.random(n) < 0.5, x, y)])


@pytest.mark.parametrize(
    ("statistic", "draw", "parameter"),
    [
        (Variance((0, 1)), lambda rng, n: rng.uniform(size=n), 1 / 12),
        (GiniMeanDifference((0, 1)), lambda rng, n: rng.uniform(size=n), 1 / 3),
        (WilcoxonSignedRank((-2, 2)), lambda rng, n: rng.uniform(-1, 1, n), 1 / 2),
        (KendallTau((0, 1)), mixed_ranks, 5 / 12),
        (ProductKernel((0, 1)), lambda rng, n: rng.uniform(size=n), 1 / 4),
        (ProductKernel((-1, 1), degenerate=True), lambda rng, n: rng.uniform(-1, 1, n), 0.0),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_cr_gs_covers_a_known_parameter(statistic, draw, parameter):
    rng, level, sets, n = np.random.default_rng(21), 0.9, 60, 600
    covered = 0
    for _ in range(sets):
        region = confidence_region(
            draw(rng, n),
            statistic,
            budget=GDP(1000.0),
            confidence_level=level,
            method=CRGS("without_replacement", resample_size=40),
            n_resamples=200,
            rng=rng,
        )
        covered += region.contains([parameter])
        assert region.radius < 0.2
    # √(1 − m/n), the degenerate law's larger share of it, and B = 200 cost under 0.06 here.
    assert binomtest(covered, sets, level - 0.06, "less").pvalue > FALSE_ALARM
