"""Read one column of a file: CSV, TSV or Parquet.

A CSV file has no schema, so every field is read as text and turned into a number by itself; what
isn't one counts as missing. Nothing is inferred from the rows, which are private. Column names are
public. No error quotes a row.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import polars as pl

from confidp.errors import InvalidArgument

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_column(path: str | PathLike[str], column: str) -> pl.Series:
    """Return the column of that name.

    Parameters
    ----------
    path
        A ``.csv`` (UTF-8, with a header), ``.tsv`` or ``.parquet`` file.
    column
        Its name, exactly; it must be there once.

    Raises
    ------
    InvalidArgument
        In one line that quotes column names but no rows.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind not in (*_SEPARATORS, ".parquet"):
        raise InvalidArgument(f"file must end in .csv, .tsv or .parquet, not {file.name!r}")
    try:
        if not file.is_file():
            raise InvalidArgument(f"file {str(file)!r} doesn't exist, or isn't a file")
        if kind == ".parquet":
            _check_name(column, list(pl.read_parquet_schema(file)), file)
            return pl.read_parquet(file, columns=[column])[column]
        return _read_text(file, column, _SEPARATORS[kind])
    except InvalidArgument:
        raise
    except Exception:  # a reader's own message may quote rows
        raise InvalidArgument(f"file {str(file)!r} can't be read as {kind[1:].upper()}") from None


def _read_text(file: Path, column: str, separator: str) -> pl.Series:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        header = next(csv.reader(lines, delimiter=separator), [])
    _check_name(column, header, file)
    rows = pl.read_csv(
        file,
        separator=separator,
        columns=[header.index(column)],
        infer_schema=False,
        encoding="utf8-lossy",
    )
    return rows.to_series().str.strip_chars().cast(pl.Float64, strict=False).alias(column)


def _check_name(column: str, names: Sequence[str], file: Path) -> None:
    found = list(names).count(column)
    if found != 1:
        problem = f"{found} times in" if found else "not in"
        raise InvalidArgument(f"column {column!r} is {problem} {file.name}, {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    """Return the column names, unless they look like a row, which is private."""
    if any(_is_number(name) or not name.isprintable() for name in names):
        return "whose first line doesn't look like a header"
    return f"which has {', '.join(names) or 'none'}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
