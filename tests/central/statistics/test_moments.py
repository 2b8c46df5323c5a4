"""Standard deviation, ratio, correlation: right values, and sensitivities no search exceeds."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from confidp import GDP, Correlation, Ratio, StandardDeviation, confidence_region
from confidp.errors import ConfidpError, InvalidArgument

UNIT = ((0, 1), (0, 1))


def fitted(statistic, n):
    return statistic.for_shape(n, 1 if isinstance(statistic, StandardDeviation) else 2)


def moved(statistic, rows, other):
    """Return how far a replacement moves the value, in the floats that are used."""
    first, second = (statistic.value(statistic.encode(np.array(r))) for r in (rows, other))
    return abs(Fraction(float(first[0])) - Fraction(float(second[0])))


STATISTICS = [
    StandardDeviation((0, 1), floor=0.05),
    StandardDeviation((1e6, 1e6 + 3), floor=0.5),
    Ratio(UNIT, floor=0.2),
    Ratio(((-3, 1), (1, 2)), floor=0.5),
    Correlation(UNIT, floors=(0.1, 0.2)),
    Correlation(((-5, 5), (0, 1e-3)), floors=(2, 1e-4)),
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_no_neighbours_move_it_by_more_than_its_sensitivity(statistic):
    rng = np.random.default_rng(1)
    columns = len(statistic.bounds)
    corners = [np.array(c) for c in itertools.product(*statistic.bounds)]
    lower, upper = np.array(statistic.bounds).T
    for n in (2, 3, 5, 20):
        fit = fitted(statistic, n)
        allowed = fit.sensitivity(n) + 2 * fit.rounding(n)
        for _ in range(300):
            kind = rng.integers(3)
            rows = [
                corners[rng.integers(len(corners))] if kind == 0 or (kind == 1 and i) else
                rng.uniform(lower, upper, columns)
                for i in range(n)
            ]  # fmt: skip
            other = [*rows[:-1], corners[rng.integers(len(corners))]]
            assert moved(fit, rows, other) <= allowed


@pytest.mark.parametrize(
    ("statistic", "rows", "replacement"),
    [
        # Deviation at its floor: 1/(2·floor) times the variance's 1/n.
        (StandardDeviation((0, 1), 0.05), [[0.0]] * 400, [1.0]),
        (Ratio(UNIT, 0.2), [[1.0, 0.2]] * 399 + [[1.0, 1.0]], [0.0, 0.0]),
    ],
)
def test_the_sensitivity_is_approached_where_the_floor_bites(statistic, rows, replacement):
    n = len(rows)
    fit = fitted(statistic, n)
    # A base that sits just at the floor makes the root as steep as claimed.
    if isinstance(statistic, StandardDeviation):
        ones = 1
        rows = [[1.0]] * ones + [[0.0]] * (n - ones)
    other = [*rows[:-1], replacement]
    assert moved(fit, rows, other) > 0.4 * fit.sensitivity(n)


def test_values_are_the_textbooks():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, size=(500, 2))
    rows[:, 1] += rows[:, 0]
    bounds = ((-1, 1), (-2, 2))
    s = fitted(StandardDeviation((-1, 1), 0.01), 500)
    assert s.value(s.encode(rows[:, :1]))[0] == pytest.approx(rows[:, 0].std(ddof=1), rel=1e-6)
    c = fitted(Correlation(bounds, (0.01, 0.01)), 500)
    assert c.value(c.encode(rows))[0] == pytest.approx(np.corrcoef(rows.T)[0, 1], rel=1e-6)
    shifted = rows + np.array([0, 3])
    r = fitted(Ratio(((-1, 1), (1, 5)), 1.0), 500)
    expected = shifted[:, 0].mean() / shifted[:, 1].mean()
    assert r.value(r.encode(shifted))[0] == pytest.approx(expected, rel=1e-6)


def test_floors_hold():
    s = fitted(StandardDeviation((0, 1), 0.25), 4)
    assert s.value(s.encode(np.full((4, 1), 0.5)))[0] == 0.25
    r = fitted(Ratio(UNIT, 0.25), 4)
    assert r.value(r.encode(np.array([[1.0, 0.0]] * 4)))[0] == 4.0
    c = fitted(Correlation(UNIT, (0.1, 0.1)), 4)
    assert c.value(c.encode(np.full((4, 2), 0.5)))[0] == 0.0


def exact_value(statistic, records):
    """The value to 50 digits, from the records' whole numbers and the bounds' decimals."""
    grids, n = statistic.grids, len(records)
    columns = [
        [grid.lower + grid.step * k for k in column]
        for grid, column in zip(grids, records.T.tolist(), strict=True)
    ]
    means = [sum(column) / n for column in columns]

    def moment(i, j):
        pairs = zip(columns[i], columns[j], strict=True)
        centred = sum((x - means[i]) * (y - means[j]) for x, y in pairs) / (n - 1)
        return mpmath.mpf(centred.numerator) / centred.denominator

    with mpmath.workdps(50):
        if isinstance(statistic, StandardDeviation):
            return max(mpmath.sqrt(moment(0, 0)), mpmath.mpf(statistic.floor))
        if isinstance(statistic, Ratio):
            ratio = means[0] / max(means[1], Fraction(statistic.floor))
            return mpmath.mpf(ratio.numerator) / ratio.denominator
        squares = [max(moment(i, i), mpmath.mpf(statistic.floors[i]) ** 2) for i in (0, 1)]
        return moment(0, 1) / mpmath.sqrt(squares[0] * squares[1])


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
@pytest.mark.parametrize(("n", "times"), [(2, 100), (9, 100), (3000, 1)])
def test_the_rounding_bound_covers_floats(statistic, n, times):
    rng = np.random.default_rng(3)
    fit = fitted(statistic, n)
    lower, upper = np.array(statistic.bounds).T
    for _ in range(times):
        spread = (upper - lower) * 10.0 ** -rng.uniform(0, 4)  # down to the floors
        rows = lower + rng.uniform(0.2, 0.9) * (upper - lower) + rng.normal(size=(n, 1)) * spread
        records = fit.encode(rows + rng.normal(size=rows.shape) * spread)
        with mpmath.workdps(50):
            apart = abs(mpmath.mpf(float(fit.value(records)[0])) - exact_value(fit, records))
            bound = fit.rounding(n)
            assert apart <= mpmath.mpf(bound.numerator) / bound.denominator


def test_their_intervals_cover_at_generous_budgets():
    rng = np.random.default_rng(4)
    rows = rng.uniform(0, 1, size=(4000, 2))
    rows[:, 1] = (rows[:, 0] + rows[:, 1]) / 2
    options = {"budget": GDP(50.0), "confidence_level": 0.999, "n_resamples": 500, "rng": 5}
    spread = confidence_region(rows[:, 0], StandardDeviation((0, 1), 0.1), **options)
    assert spread.contains(1 / math.sqrt(12))
    ratio = confidence_region(rows, Ratio(UNIT, 0.3), **options)
    assert ratio.contains(1.0)
    correlation = confidence_region(rows, Correlation(UNIT, (0.1, 0.1)), **options)
    assert correlation.contains(1 / math.sqrt(2))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: StandardDeviation((0, 1), 0), "floor"),
        (lambda: StandardDeviation((0, 1), 2), "floor"),
        (lambda: StandardDeviation((1, 0), 0.1), "bounds"),
        (lambda: Ratio((0, 1), 0.1), "bounds"),
        (lambda: Ratio(UNIT, -1), "floor"),
        (lambda: Ratio(UNIT, math.nan), "floor"),
        (lambda: Correlation(UNIT, 0.1), "floors"),
        (lambda: Correlation(UNIT, (0.1, 0)), "floors"),
        (lambda: Correlation(((0, 1),), (0.1, 0.1)), "bounds"),
    ],
)
def test_bad_settings_are_refused_at_once(make, name):
    with pytest.raises(ConfidpError, match=name):
        make()


@pytest.mark.parametrize("statistic", STATISTICS[::2], ids=str)
def test_the_wrong_number_of_columns_is_refused(statistic):
    with pytest.raises(InvalidArgument, match="columns"):
        statistic.for_shape(10, 3)
