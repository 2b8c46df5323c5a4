"""The public grid: bounds and resolutions that make sense, and an encoding that is a function."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confidp import central
from confidp.central import kernels
from confidp.central.grid import DEFAULT_CELLS, Grid, check_bounds, encode_columns
from confidp.errors import InvalidArgument, InvalidType

GRIDS = [
    Grid.over((0.0, 1.0)),
    Grid.over((0.0, 30_000.0), 0.01),
    Grid.over((16.0, 55.0), 1),
    Grid.over((-0.1, 0.2), 0.1),
    Grid.over((1e9, 1e9 + 1)),
    Grid.over((-1e120, 1e120)),
    Grid.over((1e-120, 3e-120)),
    Grid.over((0.0, 2.0**52), 1),
]


# Its upper bound's steps round to one more than there are.
PAST_THE_END = Grid.over((0.917727, 3861.089326083805), 1e-12)


@pytest.fixture(params=["NumPy", "compiled"])
def way(request, monkeypatch):
    """Both ways to encode, whatever is loaded."""
    monkeypatch.setattr(
        central.grid, "if_loaded", lambda: kernels if request.param == "compiled" else None
    )


def plain_encode(grid, values):
    """Clip first, then count steps."""
    lower, upper = float(grid.lower), float(grid.lower + grid.range)
    steps = np.rint((np.clip(values, lower, upper) - lower) / float(grid.step))
    return np.clip(steps, 0, grid.cells).astype(np.int64)


def decode(grid, k):
    return float(grid.lower + k * grid.step)


def exact_distance(grid, value, k):
    """The distance of `value`, clipped to the decimal bounds, to grid point k, in steps."""
    clipped = min(max(Fraction(value), grid.lower), grid.lower + grid.range)
    return abs(clipped - grid.lower - k * grid.step) / grid.step


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 100),
        [0, 100],
        np.array([0, 100]),
        np.array([0, 100], dtype=np.float32),
        (np.int8(0), np.uint64(100)),
        (Fraction(0), 100.0),
    ],
)
def test_an_ordered_pair_of_numbers_makes_bounds(bounds):
    checked = check_bounds(bounds)
    assert checked == (0.0, 100.0)
    assert all(type(bound) is float for bound in checked)


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ((30_000, 0), InvalidArgument),
        ((5, 5), InvalidArgument),
        ((0, math.nan), InvalidArgument),
        ((math.nan, 0), InvalidArgument),
        ((-math.inf, 0), InvalidArgument),
        ((0, math.inf), InvalidArgument),
        ((0, 10**400), InvalidArgument),
        ((0, 1e251), InvalidArgument),
        ((0, 1e-251), InvalidArgument),
        ((0, True), InvalidType),
        (np.array([False, True]), InvalidType),
        (("0", "1"), InvalidType),
        ("01", InvalidType),
        (b"01", InvalidType),
        (None, InvalidType),
        ((0, None), InvalidType),
        (5, InvalidType),
        (np.array(5), InvalidType),
        ((), InvalidType),
        ((0, 1, 2), InvalidType),
        ({0, 1}, InvalidType),
        ({0: 1, 2: 3}, InvalidType),
        ((0, 1j), InvalidType),
        (((0, 1), (2, 3)), InvalidType),
        (((0, 1), 5), InvalidType),
        (np.zeros((2, 2)), InvalidType),
    ],
    ids=repr,
)
def test_anything_else_is_refused_in_one_line_that_names_the_bounds(bounds, error):
    with pytest.raises(error, match=r"^bounds must ") as caught:
        check_bounds(bounds)
    assert "\n" not in str(caught.value)


def test_the_default_grid_has_2_to_30_cells():
    grid = Grid.over((-3.0, 5.0))
    assert grid == Grid(Fraction(-3), Fraction(8, 2**30), DEFAULT_CELLS)
    assert grid.range == 8


@pytest.mark.parametrize(
    ("bounds", "resolution", "cells"),
    [
        ((0.0, 30_000.0), 0.01, 3_000_000),
        ((16.0, 55.0), 1, 39),
        ((0.1, 0.7), 0.1, 6),
        ((0.0, 1.0), 1, 1),
        ((0.0, 2.0**52), 1, 2**52),
    ],
)
def test_a_resolution_is_read_as_the_decimal_it_prints_as(bounds, resolution, cells):
    grid = Grid.over(bounds, resolution)
    assert grid.cells == cells
    assert grid.range == Fraction(repr(bounds[1])) - Fraction(repr(bounds[0]))


@pytest.mark.parametrize(
    ("resolution", "error"),
    [
        (7, InvalidArgument),
        (0.03, InvalidArgument),
        (200, InvalidArgument),
        (1e-20, InvalidArgument),
        (0, InvalidArgument),
        (-1, InvalidArgument),
        (math.nan, InvalidArgument),
        (math.inf, InvalidArgument),
        ("1", InvalidType),
        (True, InvalidType),
        ((1,), InvalidType),
    ],
)
def test_a_resolution_that_does_not_divide_the_range_is_refused(resolution, error):
    with pytest.raises(error, match=r"^resolution must ") as caught:
        Grid.over((0.0, 100.0), resolution)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("grid", [*GRIDS, PAST_THE_END])
@pytest.mark.parametrize("n", [1, 5, 2**14 - 1, 2**14 + 7])  # blocks of 2^14
def test_both_ways_of_encoding_are_the_plain_one_to_the_last_bit(way, grid, n):
    rng = np.random.default_rng(n)
    lower, upper = float(grid.lower), float(grid.lower + grid.range)
    halves = lower + (rng.integers(-3, grid.cells + 3, n) + 0.5) * float(grid.step)
    anywhere = lower + rng.uniform(-0.1, 1.1, n) * (upper - lower)
    ends = np.nextafter(rng.choice([lower, upper], n), rng.choice([-math.inf, math.inf], n))
    wild = rng.choice([-math.inf, math.inf, 1.7e308, -1.7e308, 5e-324, -0.0], n)
    values = rng.permuted(np.stack([halves, anywhere, ends, wild]), axis=0)[0]
    values.flags.writeable = False
    expected = plain_encode(grid, values)
    assert np.array_equal(grid.encode(values), expected)
    columns = np.stack([values, values[::-1]], axis=1)  # no longer side by side
    assert np.array_equal(encode_columns([grid, grid], columns)[:, 0], expected)


@pytest.mark.parametrize("grid", GRIDS)
def test_whatever_a_record_is_its_integer_is_on_the_grid(way, grid):
    assert grid.encode(np.array([math.nan, -math.nan])).tolist() == [0, 0]


def test_arrays_of_any_shape_keep_it(way):
    grid = Grid.over((0.0, 1.0), 0.25)
    assert grid.encode(np.array([[0.3, 0.9], [2.0, -1.0]])).tolist() == [[1, 4], [4, 0]]


@pytest.mark.parametrize("grid", GRIDS)
def test_values_beyond_the_bounds_and_infinities_clip_to_the_ends(way, grid):
    lower, upper = float(grid.lower), float(grid.lower + grid.range)
    below = [-math.inf, -1.7e308, math.nextafter(lower, -math.inf), lower]
    above = [upper, math.nextafter(upper, math.inf), 1.7e308, math.inf]
    assert grid.encode(np.array(below)).tolist() == [0] * 4
    assert grid.encode(np.array(above)).tolist() == [grid.cells] * 4


@pytest.mark.parametrize("grid", GRIDS)
@settings(deadline=None, max_examples=60, derandomize=True)
@given(data=st.data())
def test_encoding_takes_the_nearest_point_keeps_order_and_is_idempotent(grid, data):
    lower, upper = float(grid.lower), float(grid.lower + grid.range)
    pair = sorted(data.draw(st.lists(st.floats(lower, upper), min_size=2, max_size=2)))
    first, second = grid.encode(np.array(pair)).tolist()
    assert 0 <= first <= second <= grid.cells
    for value, k in zip(pair, (first, second), strict=True):
        # A quotient of up to 2^52 has rounding errors of up to 2^-52 of itself.
        assert exact_distance(grid, value, k) <= Fraction(1, 2) + Fraction(4 * grid.cells, 2**53)
        assert grid.encode(np.array([decode(grid, k)])).tolist() == [k]


@pytest.mark.parametrize(
    "grid", [Grid.over((0.0, 30_000.0), 0.01), Grid.over((16.0, 55.0), 1), Grid.over((0.1, 0.9))]
)
def test_grid_points_encode_to_themselves(grid):
    ks = np.random.default_rng(0).integers(0, grid.cells + 1, 1000)
    assert grid.encode(np.array([decode(grid, int(k)) for k in ks])).tolist() == ks.tolist()


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20), st.randoms())
def test_a_record_is_encoded_by_itself_whatever_the_others(values, random):
    grid = Grid.over((-3.0, 5.0))
    together = grid.encode(np.array(values)).tolist()
    assert [int(grid.encode(np.array([value]))[0]) for value in values] == together
