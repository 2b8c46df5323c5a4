"""What one private report tells of a normal population, by mechanism, beside the most there is.

tr F⁻¹ with both parameters unknown, and F₁₁ where the location alone is, each mechanism placed
where it is best for that. "best found" comes from the linear programme over staircase channels on
80 cells, with the bound it proves for every ε-DP channel on those cells::

    python benchmarks/local_mechanisms.py [--epsilon 0.5 1 2 5 10] [--cells 80]

Writes local_mechanisms.csv beside it and prints the table. Nothing is random.
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from confidp.local.comparison import compare
from confidp.local.information import Criterion, Diagonal, a_optimal
from confidp.local.population import Normal

RESULTS = Path(__file__).with_suffix(".csv")
COLUMNS = (
    *("epsilon", "criterion", "mechanism", "knots", "trace_inverse", "f11", "loss"),
    *("best_found", "bound", "cells", "versions", "command"),
)
CRITERIA: dict[str, Criterion] = {
    "A (both parameters)": a_optimal,
    "F11 (location alone)": Diagonal((1.0, 0.0)),
}


def rows(epsilon: float, cells: int) -> list[dict[str, object]]:
    """Return a row for each criterion and mechanism at one ε, for N(0, 1)."""
    found = []
    for criterion, loss in CRITERIA.items():
        compared = compare(Normal(), (0.0, 1.0), epsilon=epsilon, criterion=loss, cells=cells)
        best, told = compared.best, compared.best_told
        assert best is not None
        assert told is not None
        for one in (*compared.mechanisms, told, compared.no_privacy):
            found.append(
                {
                    "epsilon": f"{epsilon:g}",
                    "criterion": criterion,
                    "mechanism": one.name,
                    "knots": " ".join(f"{knot:.4f}" for knot in one.knots),
                    # A channel for the location alone may leave 1e-34 of the scale: none.
                    "trace_inverse": f"{one.trace if one.trace < 1e15 else math.inf:.6g}",
                    "f11": f"{one.information[0, 0]:.6g}",
                    "loss": f"{one.loss:.6g}",
                    "best_found": f"{best.loss:.6g}",
                    "bound": f"{best.bound:.6g}",
                    "cells": len(best.design.weights),
                }
            )
    return found


def main() -> None:
    """Compute, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 5.0, 10.0])
    parser.add_argument("--cells", type=int, default=80)
    chosen = parser.parse_args()
    packages = ("confidp", "numpy", "scipy")
    versions = ", ".join(
        [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]
    )
    command = shlex.join(["python", "benchmarks/local_mechanisms.py", *sys.argv[1:]])
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for epsilon in chosen.epsilon:
            for row in rows(epsilon, chosen.cells):
                writer.writerow({**row, "versions": versions, "command": command})
                print(
                    f"ε = {row['epsilon']:<4} {row['criterion']:<21} {row['mechanism']:<27} "
                    f"tr F⁻¹ {row['trace_inverse']:>9}  F₁₁ {row['f11']:>9}  loss {row['loss']:>9}"
                    f"  best found {row['best_found']:>9}  bound {row['bound']:>9}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
