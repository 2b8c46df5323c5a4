"""A table of finished cells, so that a long run goes on where it stopped."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def finished(results: Path, columns: Sequence[str]) -> set[tuple[str, ...]]:
    """Return those columns of every row in the table: what need not be run again."""
    if not results.exists():
        return set()
    with results.open() as lines:
        return {tuple(row[column] for column in columns) for row in csv.DictReader(lines)}


def append(results: Path, row: Mapping[str, Any]) -> None:
    """Add a row, below a line of names where it is the first."""
    new = not results.exists()
    with results.open("a", newline="") as out:
        writer = csv.DictWriter(out, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
