"""Data in: every kind of array, column and table, missing values, and errors that quote nothing."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from confidp.central.data import as_rows, check_missing, fill_missing
from confidp.errors import InvalidArgument, InvalidType, MissingValues

NAN = math.nan
CANARY = "canary-90210"
BEYOND = 2**53 + 1  # the first integer that no float equals


class Unfriendly:
    """A number whose own error quotes it."""

    def __float__(self):
        raise ZeroDivisionError(CANARY)


class Hostile:
    """Nothing that can be asked of it goes well."""

    def __array__(self, *_, **__):
        raise ZeroDivisionError(CANARY)

    __len__ = __getitem__ = __iter__ = __array__


def column(data):
    rows = as_rows(data)
    assert rows.dtype == np.float64
    assert rows.shape == (len(rows), 1)
    return rows[:, 0].tolist()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([1, 2], [1, 2]),
        ((1.5, 2), [1.5, 2]),
        (range(3), [0, 1, 2]),
        ([1, None, True], [1, NAN, 1]),
        ([1, pd.NA, pd.NaT, NAN], [1, NAN, NAN, NAN]),
        ([None, None], [NAN, NAN]),
        ([math.inf, -math.inf], [math.inf, -math.inf]),
        ([10**400, -(10**400), 1], [math.inf, -math.inf, 1]),
        ([2**64, -1], [2.0**64, -1]),
        ([Fraction(1, 4), Decimal("0.5"), Decimal("NaN")], [0.25, 0.5, NAN]),
        (np.array([1, 2], dtype=np.float16), [1, 2]),
        (np.array([0.5, 2], dtype=np.float32), [0.5, 2]),
        (np.array([np.longdouble("1e4000"), 1]), [math.inf, 1]),
        (np.array([True, False]), [1, 0]),
        (np.array([2**64 - 1, 0], dtype=np.uint64), [2.0**64, 0]),
        (np.array([-128, 127], dtype=np.int8), [-128, 127]),
        (np.array([3, BEYOND]), [3, 2.0**53]),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), [1, NAN, 3]),
        (np.ma.array([1.5, 2]), [1.5, 2]),
        (np.ma.array([True, False], mask=[0, 1]), [1, NAN]),
        (np.arange(10)[::-3], [9, 6, 3, 0]),
    ],
    ids=repr,
)
def test_arrays_and_sequences_of_numbers_become_one_float_column(data, expected):
    np.testing.assert_array_equal(column(data), expected)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pd.Series([1.5, NAN]), [1.5, NAN]),
        (pd.Series([1, 2], dtype="float32"), [1, 2]),
        (pd.Series([1, pd.NA, 3], dtype="Int64"), [1, NAN, 3]),
        (pd.Series([2**64 - 1, pd.NA], dtype="UInt64"), [2.0**64, NAN]),
        (pd.Series([1.5, pd.NA], dtype="Float64"), [1.5, NAN]),
        (pd.Series([True, pd.NA], dtype="boolean"), [1, NAN]),
        (pd.Series([True, False]), [1, 0]),
        (pd.Series([1, None, Decimal("2.5"), pd.NA], dtype=object), [1, NAN, 2.5, NAN]),
        (pd.Series([None, None], dtype=object), [NAN, NAN]),
        (pd.Series([1, None, BEYOND], dtype="int64[pyarrow]"), [1, NAN, 2.0**53]),
        (pd.Series([1, 2], index=["b", "a"]), [1, 2]),
        (pd.Index([1, 2]), [1, 2]),
        (pd.array([1, None], dtype="Int64"), [1, NAN]),
        (pl.Series([1, None, 3]), [1, NAN, 3]),
        (pl.Series([1, BEYOND]), [1, 2.0**53]),
        (pl.Series([1.5, None, NAN]), [1.5, NAN, NAN]),
        (pl.Series([2**64 - 1, 1], dtype=pl.UInt64), [2.0**64, 1]),
        (pl.Series([2**100, 1], dtype=pl.Int128), [2.0**100, 1]),
        (pl.Series([Decimal("1.5"), None]), [1.5, NAN]),
        (pl.Series([True, None]), [1, NAN]),
        (pl.Series([1, 2.5], dtype=pl.Object), [1, 2.5]),
        (pa.array([1, None, BEYOND]), [1, NAN, 2.0**53]),
        (pa.array([True, None]), [1, NAN]),
        (pa.chunked_array([[1, None], [3]]), [1, NAN, 3]),
        (pa.chunked_array([[BEYOND, 1]]), [2.0**53, 1]),
        (pa.chunked_array([pa.array([2**64 - 1, 1], pa.uint64())]), [2.0**64, 1]),
        (pa.chunked_array([pa.array([Decimal("1.5"), None])]), [1.5, NAN]),
        (pa.table({"a": [1, None]}), [1, NAN]),
    ],
    ids=lambda value: type(value).__module__ if not isinstance(value, list) else "",
)
def test_pandas_polars_and_arrow_columns_become_floats_with_nulls_as_nan(data, expected):
    np.testing.assert_array_equal(column(data), expected)


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2], [3, None], [5, 6]],
        np.array([[1, 2], [3, NAN], [5, 6]]),
        np.asfortranarray([[1, 2], [3, NAN], [5, 6]]),
        np.array([[1, 0, 2], [3, 0, NAN], [5, 0, 6]])[:, ::2],
        np.ma.array([[1, 2], [3, 4], [5, 6]], mask=[[0, 0], [0, 1], [0, 0]]),
        pd.DataFrame([[1, 2], [3, NAN], [5, 6]]),  # its columns are named 0 and 1
        pd.DataFrame([[1, 2], [3, NAN], [5, 6]], columns=pd.MultiIndex.from_tuples(["ab", "cd"])),
        pl.DataFrame({"a": [1, 3, 5], "b": [2, None, 6]}),
        pa.table({"a": [1, 3, 5], "b": [2, None, 6]}),
        pa.record_batch({"a": [1, 3, 5], "b": [2, None, 6]}),
    ],
    ids=lambda value: type(value).__module__,
)
def test_tables_become_rows_with_a_column_for_each_of_theirs(data):
    np.testing.assert_array_equal(as_rows(data), [[1, 2], [3, NAN], [5, 6]])


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.0, NAN, 3.0]),
        np.asfortranarray([[1.0, NAN], [2.0, 3.0]]),
        np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    ],
)
@pytest.mark.parametrize("writeable", [True, False])
def test_the_input_is_never_written_to(data, writeable):
    data = data.copy(order="K")
    before = np.asarray(data).copy()
    data.flags.writeable = writeable
    rows = as_rows(data)
    fill_missing(rows, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        rows[:] = 77.0
    np.testing.assert_array_equal(np.asarray(data), before)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, InvalidArgument),
        (5, InvalidArgument),
        (np.float64(5), InvalidArgument),
        (np.zeros((2, 2, 2)), InvalidArgument),
        ((x for x in range(3)), InvalidArgument),
        ([[1], [2, 3]], InvalidArgument),
        ([None, [1, 2]], InvalidArgument),
        ([], InvalidArgument),
        ([1], InvalidArgument),
        (np.zeros((0, 2)), InvalidArgument),
        (np.zeros((3, 0)), InvalidArgument),
        (pd.DataFrame(), InvalidArgument),
        (pd.Series([], dtype=object), InvalidArgument),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), InvalidArgument),
        (pa.table([[1, 2], [3, 4]], names=["a", "a"]), InvalidArgument),
        (CANARY, InvalidType),
        (CANARY.encode(), InvalidType),
        ({"a": [1, CANARY]}, InvalidType),
        ({1, 2}, InvalidType),
        ([1, CANARY], InvalidType),
        ([None, CANARY], InvalidType),
        ([b"canary", 1], InvalidType),
        ([{CANARY: 1}, 2], InvalidType),
        ([1j, 2], InvalidType),
        ([None, 1j], InvalidType),
        ([Decimal("sNaN"), 1], InvalidType),
        ([Unfriendly(), 1], InvalidType),
        (np.array([CANARY, "b"]), InvalidType),
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), InvalidType),
        (np.zeros(3, dtype=[("a", float)]), InvalidType),
        (np.ma.array([CANARY, "b"]), InvalidType),
        (np.ma.array([1, CANARY], mask=[0, 1], dtype=object), InvalidType),
        (np.ma.array([1j, 2]), InvalidType),
        (pd.Series([CANARY, "b"]), InvalidType),
        (pd.Series([1, CANARY], dtype=object), InvalidType),
        (pd.Series([CANARY, None], dtype="string"), InvalidType),
        (pd.Series([CANARY, "b"], dtype="category"), InvalidType),
        (pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"])), InvalidType),
        (pd.Series([1j, 2]), InvalidType),
        (pd.DataFrame({"a": [1, 2], "b": [CANARY, "c"]}), InvalidType),
        (pl.Series([CANARY, "b"]), InvalidType),
        (pl.Series([None, None]), InvalidType),
        (pl.Series([[1], [2]]), InvalidType),
        (pl.Series([1, 2]).cast(pl.Date), InvalidType),
        (pl.Series([1, Unfriendly()], dtype=pl.Object), InvalidType),
        (pl.LazyFrame({"a": [1, 2]}), InvalidType),
        (Hostile(), InvalidType),
        (range(10**12), InvalidArgument),  # more than memory holds
        (pa.array([CANARY, "b"]), InvalidType),
        (pa.chunked_array([pa.array([CANARY, "b"]).dictionary_encode()]), InvalidType),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_a_table_of_numbers_is_refused_in_one_line_that_quotes_no_value(data, error):
    with pytest.raises(error, match=r"^(data|column '[ab]') ") as caught:
        as_rows(data)
    message = str(caught.value)
    assert "\n" not in message
    assert "canary" not in message
    assert caught.value.__cause__ is None


def test_a_float_column_is_read_where_it_is():
    data = np.arange(5.0)
    assert np.shares_memory(as_rows(data), data)
    assert data.flags.writeable


@pytest.mark.parametrize("bounds", [((0.0, 100.0),), ((0.0, 100.0), (-5.0, 50.0)), None])
def test_missing_may_be_none_or_a_number_inside_every_bound(bounds):
    assert check_missing("none", bounds) is None
    for value in (0, 50, 50.0, np.float32(12.5), Fraction(1, 2)):
        assert check_missing(value, bounds) == value


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("mean", InvalidArgument),
        ("None", InvalidArgument),
        ("0", InvalidArgument),
        ("", InvalidArgument),
        (NAN, InvalidArgument),
        (math.inf, InvalidArgument),
        (-0.001, InvalidArgument),
        (100.5, InvalidArgument),
        (60, InvalidArgument),  # inside the first column's bounds, not the second's
        (None, InvalidType),
        (True, InvalidType),
        ([0], InvalidType),
        (pd.NA, InvalidType),
    ],
)
def test_any_other_missing_is_refused(missing, error):
    with pytest.raises(error, match=r"^missing must ") as caught:
        check_missing(missing, ((0.0, 100.0), (-5.0, 50.0)))
    assert "\n" not in str(caught.value)


def test_missing_values_are_filled_with_the_public_value_and_infinities_are_not_missing():
    rows = np.array([[1.0, NAN], [NAN, math.inf]])
    np.testing.assert_array_equal(fill_missing(rows, 7.0), [[1, 7], [7, math.inf]])
    assert np.isnan(rows).sum() == 2


def test_the_error_for_missing_values_does_not_tell_how_many_or_which():
    messages = set()
    for data in ([NAN, 1.0, 2.0], [1.0, 2.0, None], [NAN] * 50, pl.Series([None, 1.0])):
        with pytest.raises(MissingValues) as caught:
            fill_missing(as_rows(data), None)
        messages.add(str(caught.value))
    (message,) = messages
    assert "\n" not in message
    assert not any(character.isdigit() for character in message)
