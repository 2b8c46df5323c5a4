"""Values that a careless caller, a broken file or an enemy passes: one of every kind."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


class Raises:
    """Whatever is asked of it, it raises, and says something private."""

    def _raise(self, *_: Any) -> Any:
        raise ZeroDivisionError("canary")

    __float__ = __index__ = __int__ = __len__ = __iter__ = __array__ = __getitem__ = _raise
    __bool__ = __eq__ = __hash__ = __repr__ = __str__ = __fspath__ = __call__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __abs__ = _raise


class RaisingFloat(float):
    """A number to `isinstance`, which can't be made one."""

    def _raise(self, *_: Any) -> Any:
        raise ZeroDivisionError("canary")

    __float__ = __lt__ = __gt__ = __le__ = __ge__ = _raise


def ragged() -> Any:
    array = np.empty(2, dtype=object)
    array[:] = [[1], [2, 3]]
    return array


_self_holding: list[Any] = []
_self_holding.append(_self_holding)

# Made anew for each use, since some are used up or could be changed.
NASTY: dict[str, Any] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "2": lambda: 2,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "10**5000": lambda: 10**5000,  # more digits than Python prints
    "0.0": lambda: 0.0,
    "-0.0": lambda: -0.0,
    "0.5": lambda: 0.5,
    "-1.5": lambda: -1.5,
    "1.0": lambda: 1.0,
    "least": lambda: 5e-324,
    "1e-300": lambda: 1e-300,
    "1e308": lambda: 1e308,
    "1e150": lambda: 1e150,
    "1e-16": lambda: 1e-16,
    "1 - ulp": lambda: math.nextafter(1.0, 0),
    "22": lambda: 22,
    "709": lambda: 709.9,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "complex": lambda: 1j,
    "empty text": lambda: "",
    "text": lambda: "canary",
    "number as text": lambda: "1",
    "lines": lambda: "a\nb\0",
    "surrogate": lambda: "\ud800",
    "long text": lambda: "x" * 100_000,
    "bytes": lambda: b"canary",
    "bytearray": lambda: bytearray(b"1"),
    "date": lambda: datetime.date(2026, 1, 1),
    "timedelta": lambda: datetime.timedelta(1),
    "Decimal": lambda: Decimal("0.5"),
    "Decimal sNaN": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 3),
    "huge Fraction": lambda: Fraction(10**400, 3),
    "float16": lambda: np.float16(0.5),
    "float32": lambda: np.float32(0.5),
    "float64": lambda: np.float64(0.5),
    "longdouble": lambda: np.longdouble("1e4000"),
    "int8": lambda: np.int8(1),
    "uint64": lambda: np.uint64(2**64 - 1),
    "np.bool": lambda: np.bool_(True),
    "np.str": lambda: np.str_("canary"),
    "np.complex": lambda: np.complex128(1),
    "datetime64": lambda: np.datetime64("2026-01-01"),
    "NaT64": lambda: np.datetime64("NaT"),
    "np.void": lambda: np.void(b"abc"),
    "0-d": lambda: np.array(0.5),
    "0-d int": lambda: np.array(1),
    "0-d object": lambda: np.array(None, dtype=object),
    "no numbers": lambda: np.zeros(0),
    "no columns": lambda: np.zeros((3, 0)),
    "no rows": lambda: np.zeros((0, 3)),
    "1-d": lambda: np.array([0.25, 0.75]),
    "2-d": lambda: np.array([[0.25, 0.75], [0.5, 1.0]]),
    "3-d": lambda: np.zeros((2, 2, 2)),
    "nan array": lambda: np.array([math.nan, 1.0]),
    "inf array": lambda: np.array([-math.inf, math.inf]),
    "object array": lambda: np.array([1, "canary", None], dtype=object),
    "ragged array": ragged,
    "complex array": lambda: np.array([1j, 2]),
    "text array": lambda: np.array(["canary", "b"]),
    "structured": lambda: np.zeros(3, dtype=[("a", float)]),
    "masked": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "masked all": lambda: np.ma.masked,
    "dates": lambda: np.array(["2026-01-01", "NaT"], dtype="M8[D]"),
    "[]": lambda: [],
    "()": lambda: (),
    "[1]": lambda: [1],
    "(0, 1)": lambda: (0, 1),
    "(1, 0)": lambda: (1, 0),
    "(0, nan)": lambda: (0, math.nan),
    "(0, inf)": lambda: (0, math.inf),
    "(0, 10**400)": lambda: (0, 10**400),
    "(0, 5e-324)": lambda: (0, 5e-324),
    "(1, 1 + ulp)": lambda: (1.0, math.nextafter(1.0, 2)),
    "(-1e120, 1e120)": lambda: (-1e120, 1e120),
    "(-1e308, 1e308)": lambda: (-1e308, 1e308),
    "(0, 1e-130)": lambda: (0, 1e-130),
    "fractions": lambda: [Fraction(1, 3), Fraction(10**400)],
    "identity": lambda: np.eye(2),
    "pairs": lambda: [(0, 1), (0, 1)],
    "nested": lambda: [[[[1]]]],
    "ragged": lambda: [[1], [2, 3]],
    "with text": lambda: [1, "canary"],
    "with None": lambda: [None, 1],
    "holds itself": lambda: _self_holding,
    "range": lambda: range(3),
    "set": lambda: {0, 1},
    "frozenset": lambda: frozenset({0, 1}),
    "dict": lambda: {"canary": 1},
    "dict of ints": lambda: {0: 1, 1: 2},
    "generator": lambda: (x for x in (0, 1)),
    "iterator": lambda: iter([0, 1]),
    "map": lambda: map(float, (0, 1)),
    "NA": lambda: pd.NA,
    "NaT": lambda: pd.NaT,
    "pd.Series": lambda: pd.Series([0.0, 1.0]),
    "pd.Series NA": lambda: pd.Series([1, pd.NA], dtype="Int64"),
    "pd.DataFrame": lambda: pd.DataFrame({"a": [0.0, 1.0]}),
    "pl.Series": lambda: pl.Series([0.0, None]),
    "pl.LazyFrame": lambda: pl.LazyFrame({"a": [0.0]}),
    "pa.array": lambda: pa.array([0.0, 1.0]),
    "class": lambda: int,
    "float class": lambda: float,
    "function": lambda: len,
    "lambda": lambda: lambda *_: math.nan,
    "object": object,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "module": lambda: math,
    "type error": lambda: ValueError("canary"),
    "Raises": Raises,
    "RaisingFloat": lambda: RaisingFloat(0.5),
    "Random": lambda: np.random.default_rng(0),
    "RandomState": lambda: np.random.RandomState(0),
}
