"""Any kernel on a finite support: a smooth sensitivity that holds on all small data sets."""

import json
import math
from fractions import Fraction
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binomtest

from brute_force import data_sets, local_sensitivities, violations
from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly
from confidp.central.statistics.u_finite import FiniteUStatistic
from confidp.central.statistics.u_smooth import ProductKernel, smooth_bound
from confidp.errors import InvalidArgument, InvalidType

FALSE_ALARM = 1e-6
BETAS = [0.01, 0.05, 0.2, math.log(2), 1.0, 3.0]
WILD = np.random.default_rng(8).integers(-8, 9, (4, 4)) / 8


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
SMALL = pytest.mark.parametrize("n", [2, 3, 4, 5])
EACH = pytest.mark.parametrize("statistic", FINITE.values(), ids=FINITE)


def all_pairs(statistic, x):
    """U by its definition, of the kernel as tabulated, with no rounding."""
    terms = [int(statistic.table[i, j]) for i, j in combinations(np.asarray(x).tolist(), 2)]
    return statistic.grid.lower + statistic.grid.step * Fraction(sum(terms), len(terms))


def local(statistic, n):
    return local_sensitivities(lambda x: float(all_pairs(statistic, x)), len(statistic.support), n)


@SMALL
@EACH
def test_it_bounds_the_local_sensitivity_and_is_smooth_on_all_data_sets(statistic, n):
    by_data = local(statistic, n)
    for beta in BETAS:

        def bound(x, beta=beta):
            return statistic.smooth_sensitivity(x, beta)

        assert violations(bound, by_data, beta, len(statistic.support)) == (0, 0)
        assert min(bound(np.array(data)) for data in by_data) > 0


@EACH
def test_the_coarser_form_by_the_kernel_s_diameter_is_smooth_too_and_never_smaller(statistic):
    n, by_data = 4, local(statistic, 4)
    diameter = statistic.grid.range

    def coarse(x, beta):
        sums = statistic.table @ np.bincount(x, minlength=len(statistic.table))
        g = statistic.grid.step * Fraction(int(np.ptp(sums)), n - 1)
        a = Fraction(2, n) * (g + diameter / (n - 1))
        return smooth_bound(a, 4 * diameter / (n * (n - 1)), 2 * diameter / n, beta)

    for beta in BETAS:
        bound = partial(coarse, beta=beta)
        assert violations(bound, by_data, beta, len(statistic.support)) == (0, 0)
        for data in by_data:
            x = np.array(data)
            assert statistic.smooth_sensitivity(x, beta) <= bound(x) * (1 + 1e-12)


@SMALL
@EACH
def test_its_value_is_the_mean_over_pairs_and_its_global_sensitivity_is_attained(statistic, n):
    for data in data_sets(len(statistic.support), n):
        (value,) = statistic.value(np.array(data)).tolist()
        error = Fraction(value) + statistic.origin[0] - all_pairs(statistic, data)
        assert abs(error) <= statistic.rounding(n)
    largest = max(local(statistic, n).values())
    assert largest == pytest.approx(float(statistic.sensitivity(n)), rel=1e-12)


def test_on_the_same_grid_the_table_gives_what_the_product_s_formula_gives():
    table, formula = FINITE["product"], ProductKernel((-1, 1), 0.5)
    rng = np.random.default_rng(2)
    for n, beta in product([2, 5, 40, 1000], BETAS):
        rows = rng.integers(-2, 3, (n, 1)) / 2
        mine, theirs = table.encode(rows), formula.encode(rows)
        assert table.smooth_sensitivity(mine, beta) == pytest.approx(
            formula.smooth_sensitivity(theirs, beta), rel=1e-12
        )
        value = table.value(mine)[0] + table.origin[0]
        assert value == pytest.approx(float(formula.exact(theirs)), abs=1e-15)


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
    ],
)
def test_bad_settings_are_refused(make, error, name):
    with pytest.raises(error, match=rf"^{name}.* must ") as caught:
        make()
    assert "\n" not in str(caught.value)


@EACH
def test_each_suits_both_kinds_of_method_and_says_what_it_assumes(statistic):
    assert isinstance(statistic, SmoothFriendly)
    assert isinstance(statistic, MeanLike)
    assert json.loads(json.dumps(statistic.describe(), allow_nan=False))["statistic"]
    assert ("kernel is degenerate" in " ".join(statistic.assumes)) == statistic.degenerate
    assert statistic.scale(100) == (100 if statistic.degenerate else 10)


def test_cr_gs_covers_the_simpson_index():
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
