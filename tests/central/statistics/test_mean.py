"""The mean: exact sums, a sensitivity that no neighbours exceed, and bounds that hold."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confidp.central.statistics.mean import Mean
from confidp.errors import InvalidArgument, InvalidType

STATISTICS = [
    Mean((0, 1)),
    Mean((0, 30_000), 0.01),
    Mean((-0.1, 0.2), 0.1),
    Mean((1e9, 1e9 + 1)),
    Mean((-1e120, 1e120)),
    Mean((1e-120, 3e-120)),
    Mean((0, 2.0**52), 1),
    Mean(((0, 1), (-1e6, 1e6))),
    Mean(((1e9, 1e9 + 1), (0, 1e-9), (-3, 4))),
]


def on(statistic, values):
    """The fitted statistic, and its value on (n, columns) `values` as exact fractions."""
    rows = np.array(values, dtype=np.float64)
    statistic = statistic.for_shape(*rows.shape)
    return statistic, [Fraction(x) for x in statistic.value(statistic.encode(rows)).tolist()]


def square(vector):
    return sum((x * x for x in vector), Fraction(0))


def exact_mean(statistic, values):
    """The mean of the encoded records less the lower bounds, with no rounding at all."""
    records = statistic.encode(np.array(values, dtype=np.float64)).tolist()
    return [
        grid.step * sum(column) / len(records)
        for grid, column in zip(statistic.grids, zip(*records, strict=True), strict=True)
    ]


@st.composite
def neighbours(draw, statistic):
    """Two data sets that differ in one record, full of what upsets float sums."""
    columns = len(statistic.bounds)
    cells = [
        st.one_of(
            st.sampled_from([lower, upper, math.inf, -math.inf, 5e-324, -5e-324, 1e308, 0.1]),
            st.floats(lower, upper),
            st.floats(allow_nan=False),
        )
        for lower, upper in statistic.bounds
    ]
    record = st.tuples(*cells)
    data = draw(st.lists(record, min_size=2, max_size=9))
    other = list(data)
    other[draw(st.integers(0, len(data) - 1))] = draw(record)
    assert len(data[0]) == columns
    return data, other


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
@settings(deadline=None, max_examples=60, derandomize=True)
@given(data=st.data())
def test_no_neighbours_are_further_apart_than_the_sensitivity_and_two_roundings(statistic, data):
    first, second = data.draw(neighbours(statistic))
    fitted, value = on(statistic, first)
    _, other = on(statistic, second)
    n = len(first)
    most = Fraction(fitted.sensitivity(n)) + 2 * fitted.rounding(n)
    assert square(x - y for x, y in zip(value, other, strict=True)) <= most**2
    # The one without the other: the rounding bound alone, against the exact mean.
    error = square(x - y for x, y in zip(value, exact_mean(fitted, first), strict=True))
    assert error <= fitted.rounding(n) ** 2


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 7, 900])
def test_the_sensitivity_is_attained_by_records_at_opposite_bounds(statistic, n):
    lower = [low for low, _ in statistic.bounds]
    upper = [high for _, high in statistic.bounds]
    for rest in (lower, upper):
        fitted, value = on(statistic, [lower] + [rest] * (n - 1))
        _, other = on(statistic, [upper] + [rest] * (n - 1))
        attained = square(x - y for x, y in zip(value, other, strict=True))
        stated = Fraction(fitted.sensitivity(n))
        assert (stated * (1 - Fraction(1, 10**9))) ** 2 <= attained
        assert attained <= (stated + 2 * fitted.rounding(n)) ** 2


def test_the_sensitivity_is_the_diameter_over_n_rounded_up():
    assert Mean((0, 1)).sensitivity(10) == Fraction(1, 10)
    assert Mean((0.1, 0.4)).sensitivity(3) == Fraction(1, 10)  # bounds are read as decimals
    vector = Mean(((0, 3), (0, 4))).sensitivity(2)
    assert vector == Fraction(5, 2)
    assert Mean((0, 1)).for_shape(10, 2).sensitivity(1) ** 2 >= 2


@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_sums_at_the_widest_are_exact(fill):
    n, cells = 1000, 2**52  # 2^61.97: just inside 62 bits
    statistic, (value,) = on(Mean((0, cells), 1), np.full((n, 1), fill * cells))
    assert value == fill * cells
    records = statistic.encode(np.full((n, 1), math.inf))
    assert int(records.sum()) == n * cells  # no overflow


def test_a_mean_of_many_tiny_steps_is_exact_where_a_float_sum_is_not():
    values = np.full(10**5, 0.1)
    _, (value,) = on(Mean((0, 1), 0.1), values[:, None])
    assert value == Fraction(0.1)
    assert Fraction(float(np.cumsum(values)[-1])) / len(values) != Fraction(0.1)


def test_order_does_not_change_the_value():
    values = np.random.default_rng(1).lognormal(5, 3, (500, 1))
    statistic = Mean((0, 1e6))
    assert on(statistic, values)[1] == on(statistic, values[::-1])[1]


def test_far_off_bounds_cost_no_precision():
    rng = np.random.default_rng(2)
    offset = rng.integers(0, 2**20, 1000) / 2**20
    statistic, (value,) = on(Mean((1e9, 1e9 + 1)), (1e9 + offset)[:, None])
    exact = sum(map(Fraction, (1e9 + offset).tolist()), Fraction(0)) / 1000
    assert abs(value + statistic.origin[0] - exact) < Fraction(1, 10**9)


def test_a_record_beyond_the_bounds_counts_as_the_bound():
    data = [[0.2], [0.7], [1.0]]
    for outlier in (1.5, 1e6, 1.7e308, math.inf):
        assert on(Mean((0, 1)), [*data[:2], [outlier]])[1] == on(Mean((0, 1)), data)[1]


def test_one_pair_of_bounds_serves_every_column_and_more_must_match():
    assert Mean((0, 1)).for_shape(5, 3).bounds == ((0.0, 1.0),) * 3
    assert Mean([[0, 1], [2, 3]]).for_shape(5, 2).bounds == ((0.0, 1.0), (2.0, 3.0))
    assert Mean(np.array([[0, 1], [2, 3]])).origin == (0, 2)
    for columns in (1, 3):
        with pytest.raises(InvalidArgument, match=r"^bounds must .* each of the . columns"):
            Mean([[0, 1], [2, 3]]).for_shape(5, columns)


@pytest.mark.parametrize("columns", [1, 2])
def test_a_resolution_too_fine_for_n_is_refused_before_sums_can_overflow(columns):
    statistic = Mean((0, 2.0**52), 1)
    assert statistic.for_shape(1023, columns).bounds
    for n in (1024, 10**9):
        with pytest.raises(InvalidArgument, match=r"^resolution must be coarser"):
            statistic.for_shape(n, columns)


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ((1, 0), InvalidArgument),
        (((0, 1), (1, 1)), InvalidArgument),
        ((0, math.nan), InvalidArgument),
        ((True, 2), InvalidType),
        ("01", InvalidType),
        (("0", "1"), InvalidType),
        (("01", "23"), InvalidType),
        (((0, 1), 5), InvalidType),
        ((0, (1, 2)), InvalidType),
        ((), InvalidType),
        (None, InvalidType),
        (5, InvalidType),
        ({0, 1}, InvalidType),
        ({"a": 1, "b": 2}, InvalidType),
        (np.array(5), InvalidType),
    ],
    ids=repr,
)
def test_bad_bounds_are_refused_at_once(bounds, error):
    with pytest.raises(error, match=r"^bounds must ") as caught:
        Mean(bounds)
    assert "\n" not in str(caught.value)


def test_its_settings_are_json_and_its_scale_is_the_root_of_n():
    statistic = Mean(((0, 1), (2, 3)), 0.5)
    assert json.loads(json.dumps(statistic.describe(), allow_nan=False)) == {
        "statistic": "mean",
        "bounds": [[0.0, 1.0], [2.0, 3.0]],
        "resolution": 0.5,
    }
    assert statistic.scale(100) == 10
