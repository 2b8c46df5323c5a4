"""Data in: any array, data frame or column becomes float rows, or a clear error.

What raises depends on the schema and the shape, which are public, with two exceptions for the
curator's eyes: `MissingValues`, and a Python list or object column that holds something other than
numbers, since those have no schema. Both come before anything is charged.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, MissingValues, real, shown


def as_rows(data: Any) -> NDArray[np.float64]:
    """Return `data` as an (n, d) float array to read from, missing values as NaN.

    Parameters
    ----------
    data
        A sequence of numbers, a NumPy array of shape (n,) or (n, d), or a pandas, Polars or
        Arrow column or table. Booleans count as 0 and 1.

    Examples
    --------
    >>> as_rows([1, None, True]).tolist()
    [[1.0], [nan], [1.0]]
    >>> as_rows(["low", "high"])
    Traceback (most recent call last):
    confidp.errors.InvalidType: data must be numbers, not text
    """
    if type(data) is np.ndarray:
        rows = _array(data)
        return _checked(rows if rows.ndim == 2 else rows[:, None])
    try:
        native = nw.from_native(data, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InvalidArgument("data must have a different name for each column") from None
    except Exception:  # whatever its type raises, its message may quote it
        raise InvalidType("data must be an array of numbers") from None
    if isinstance(native, nw.LazyFrame):
        raise InvalidType("data must be in memory: collect the lazy frame first")
    if isinstance(native, nw.Series):
        columns = [_column(native)]
    elif isinstance(native, nw.DataFrame):
        columns = [_column(native[:, j]) for j in range(len(native.columns))]
    else:
        columns = [_array(data)]
    if not columns:
        raise InvalidArgument("data must have at least one column")
    return _checked(np.column_stack(columns))


def _checked(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    if rows.shape[0] < 2:
        raise InvalidArgument(f"data must have at least 2 rows, not {rows.shape[0]}")
    if rows.shape[1] < 1:
        raise InvalidArgument("data must have at least one column")
    rows = rows.view()
    rows.flags.writeable = False  # it may be the caller's own memory
    return rows


def check_missing(missing: Any, bounds: tuple[tuple[float, float], ...] | None) -> float | None:
    """Return the public value that stands in for missing ones, or None for "none"."""
    if isinstance(missing, str):
        if missing == "none":
            return None
        raise InvalidArgument(f"missing must be 'none' or a number, not {shown(missing)}")
    value = real("missing", missing, "that stands in for missing values", lambda _: True)
    for lower, upper in bounds or ():
        if not lower <= value <= upper:
            raise InvalidArgument(
                f"missing must lie inside the bounds {lower:g} to {upper:g}, not {value:g}"
            )
    return value


def fill_missing(rows: NDArray[np.float64], value: float | None) -> NDArray[np.float64]:
    """Return `rows` without NaN: filled with `value`, or refused where there should be none."""
    if value is not None:
        return np.where(np.isnan(rows), value, rows)
    if np.isnan(rows.max()):  # as it is if any is
        raise MissingValues(
            "data have missing or non-numeric values although missing='none' says there are none; "
            "pass a number inside the bounds to stand in for them (nothing was spent)"
        )
    return rows


def _column(column: nw.Series[Any]) -> NDArray[np.float64]:
    dtype = column.dtype
    if dtype == nw.Object or str(getattr(column.to_native(), "dtype", "")) == "object":
        return _array(column.to_numpy())  # no schema, whatever narwhals sees inside
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        kind = "text" if dtype in (nw.String, nw.Categorical, nw.Enum) else str(dtype)
        where = f"column {column.name!r}" if column.name else "data"
        raise InvalidType(f"{where} must be numbers, not {kind}")
    if dtype in (nw.Int128, nw.UInt128):  # NumPy has no such integers
        column = column.cast(nw.Float64)
    return _array(column.to_numpy())  # not `cast`: Arrow's refuses integers beyond 2^53, by value


def _array(data: Any) -> NDArray[np.float64]:
    if isinstance(data, str | bytes | dict | set):
        raise InvalidType(f"data must be an array of numbers, not {type(data).__name__}")
    if isinstance(data, np.ma.MaskedArray):
        rows = _array(data.data).copy()
        rows[np.ma.getmaskarray(data)] = np.nan
        return rows
    try:
        array = np.asarray(data)
    except ValueError:
        raise InvalidArgument("data must be rectangular: every row as long as the first") from None
    except MemoryError:
        raise InvalidArgument("data must fit into memory") from None
    except Exception:
        raise InvalidType("data must be an array of numbers") from None
    if array.ndim not in (1, 2):
        raise InvalidArgument(f"data must have one or two dimensions, not {array.ndim}")
    if array.dtype.kind == "O":
        return np.array([_number(x) for x in array.ravel()], dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        kind = "text" if array.dtype.kind in "USTa" else str(array.dtype)
        raise InvalidType(f"data must be numbers, not {kind}")
    with np.errstate(over="ignore"):  # a long double beyond the largest float is an infinity
        return array.astype(np.float64, order="C", copy=False)


def _number(value: Any) -> float:
    """Return one entry of an object array as a float; None and NA are missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    if isinstance(value, str | bytes | bytearray | complex):
        raise InvalidType("data must be numbers, not text")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except Exception:  # whatever its type raises, its message may quote it
        raise InvalidType("data must be numbers") from None
