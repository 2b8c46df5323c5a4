"""Read one column of a file: CSV, TSV or Parquet.

A text file has no schema, so every field is read as text and turned into a number by itself; what
isn't one counts as missing, and so does the value of a row that has more or fewer fields than the
header, since nobody can tell which field is whose: an unquoted ``1,234`` is not 1. Every line is a
row, an empty one too. Nothing is inferred from the rows, which are private, and no error quotes
one, or the first line of a text file, which may be a row.

That the file is well-formed is taken for public: quotes that close, no field of more than 131,072
characters, a Parquet file that is whole.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import polars as pl

from confidp.errors import InvalidArgument, InvalidType

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
    InvalidArgument, InvalidType
        In one line that quotes nothing of a text file.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidType(f"file must be a path, not {type(path).__name__}")
    if not isinstance(column, str):
        raise InvalidType(f"column must be a name, not {type(column).__name__}")
    try:
        file = Path(path)
        kind, name = file.suffix.lower(), repr(file.name)
    except Exception:
        raise InvalidArgument("file must be a path") from None
    if kind not in (*_SEPARATORS, ".parquet"):
        raise InvalidArgument(f"file must end in .csv, .tsv or .parquet, not {name}")
    try:
        if not file.is_file():
            raise InvalidArgument(f"file {str(file)!r} doesn't exist, or isn't a file")
        if kind == ".parquet":
            return _read_parquet(file, column)
        return _read_text(file, column, _SEPARATORS[kind])
    except InvalidArgument:
        raise
    except PermissionError:
        raise InvalidArgument(f"file {str(file)!r} can't be opened: permission denied") from None
    except (Exception, pl.exceptions.PanicException):  # a reader's own message may quote rows
        raise InvalidArgument(f"file {str(file)!r} can't be read as {kind[1:].upper()}") from None


def _read_parquet(file: Path, column: str) -> pl.Series:
    names = list(pl.read_parquet_schema(file))
    if column not in names:
        raise InvalidArgument(
            f"column {column!r} is not in {file.name}, which has {', '.join(map(_plain, names))}"
        )
    return pl.read_parquet(file, columns=[column])[column]


def _read_text(file: Path, column: str, separator: str) -> pl.Series:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        rows = csv.reader(lines, delimiter=separator, strict=True)
        header = next(rows, [])
        at, width = _position(column, header, file), len(header)
        # A list of text, and one cast: much faster than a float() for each row.
        fields = [row[at] if len(row) == width else None for row in rows]
    text = pl.Series(column, fields, dtype=pl.String)
    return text.str.strip_chars().cast(pl.Float64, strict=False)


def _position(column: str, header: Sequence[str], file: Path) -> int:
    found = list(header).count(column)
    if found == 1:
        return list(header).index(column)
    # Without the names that there are: the first line may be a row.
    problem = "more than once in" if found else "not in"
    raise InvalidArgument(
        f"column {column!r} is {problem} the first line of {file.name}, which must name the columns"
    )


def _plain(name: str) -> str:
    return name if name.isprintable() else repr(name)
