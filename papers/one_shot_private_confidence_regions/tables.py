"""Tables 3 and 4 beside what is printed, and the same tables at the budgets people use.

400 data sets a cell, fewer where a method takes long (the row says how many)::

    python -m papers.one_shot_private_confidence_regions.tables [--mu 8] [--n 2000 5000 …]
        [--experiments median …] [--methods cr_wr …] [--data-sets 400] [--seconds 600]
        [--workers 2] [--out tables.csv]

Each finished cell is appended to the table in one write; cells that are there already are skipped,
so a run that was stopped goes on where it was. Noise is seeded: nothing here is private data.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import scipy

import confidp as cdp
from papers.one_shot_private_confidence_regions.cells import (
    EXPERIMENTS,
    NAMES,
    SEED,
    methods_for,
    run_cell,
)

HERE = Path(__file__).parent
PRINTED = HERE / "printed_tables_3_and_4.csv"
RESULTS = HERE / "tables.csv"
SIZES = (2000, 5000, 10_000, 20_000, 40_000, 50_000)
BUDGETS = (8.0, 1.0, 0.5, 2.0, 0.25)
VERSIONS = (
    f"confidp {cdp.__version__}; numpy {np.__version__}; scipy {scipy.__version__}; "
    f"Python {platform.python_version()}"
)
Key = tuple[str, int, float, str]


@dataclass(frozen=True)
class Task:
    """A cell to run."""

    experiment: str
    n: int
    mu: float
    method: str
    data_sets: int
    seconds: float

    @property
    def key(self) -> Key:
        return self.experiment, self.n, self.mu, self.method


def printed() -> dict[tuple[str, int, str], dict[str, float]]:
    """Return the printed coverage, mean length and runtime of each cell, at μ = 8."""
    beside: dict[str, list[str]] = {}
    for experiment, setting in EXPERIMENTS.items():
        beside.setdefault(setting.printed or experiment, []).append(experiment)
    with PRINTED.open() as lines:
        return {
            (experiment, int(row["n"]), row["method"]): {
                name: float(row[name]) for name in ("coverage", "mean_length", "runtime_ms")
            }
            for row in csv.DictReader(lines)
            for experiment in beside[row["experiment"]]
        }


def read(path: Path) -> dict[Key, dict[str, str]]:
    """Return the rows of a table, of two for the same cell the one of more data sets."""
    found: dict[Key, dict[str, str]] = {}
    if path.exists():
        with path.open() as lines:
            for row in csv.DictReader(lines):
                key = row["experiment"], int(row["n"]), float(row["mu"]), row["method"]
                if key not in found or int(row["data_sets"]) > int(found[key]["data_sets"]):
                    found[key] = row
    return found


def append(path: Path, row: Mapping[str, object]) -> None:
    """Append one row in one write, under a header if the file is new: never half a line."""
    text = StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size == 0:
        writer.writeheader()
    writer.writerow(row)
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(out, text.getvalue().encode())
    finally:
        os.close(out)


def tasks(
    experiments: Iterable[str],
    sizes: Iterable[int],
    budgets: Iterable[float],
    methods: Iterable[str],
    data_sets: int,
    seconds: float,
) -> list[Task]:
    """Return the cells in the order in which they tell most for their time."""
    wanted = set(methods)
    found = []
    for experiment, n in product(experiments, sizes):
        if "non_private" in wanted:
            found.append(Task(experiment, n, math.inf, "non_private", data_sets, seconds))
        for mu, method in product(budgets, methods_for(experiment)):
            task = Task(experiment, n, mu, method, data_sets, seconds)
            if method in wanted:
                found.append(task)

    def late(task: Task) -> tuple[int, bool, int]:
        dear = task.method in ("blbquant", "dette_graw_sound", "ssvhl25")
        first = task.mu >= 8 and task.method != "cr_aware"
        quick = task.method in ("private_variance", "half_centred")
        stage = 3 if dear else 2 if task.n > 10_000 else 0 if first or quick else 1
        return stage, task.experiment == "degenerate_u", task.n

    return sorted(found, key=late)


def run(task: Task) -> dict[str, object]:
    """Run a cell and return its row."""
    cell = run_cell(task.experiment, task.n, task.mu, task.method, task.data_sets, task.seconds)
    low, high = cell.coverage_interval
    length = float(cell.lengths.mean()) if len(cell.lengths) else math.inf
    paper = printed().get((task.experiment, task.n, task.method)) if task.mu == 8 else None
    return {
        "experiment": task.experiment,
        "n": task.n,
        "mu": f"{task.mu:g}",
        "method": task.method,
        "asked": task.data_sets,
        "data_sets": cell.data_sets,
        "returned": len(cell.lengths),
        "empty": int((cell.lengths == 0).sum()),
        "covered": int(cell.covered.sum()),
        "coverage": f"{cell.covered.mean():.4f}",
        "coverage_low": f"{low:.4f}",
        "coverage_high": f"{high:.4f}",
        "printed_coverage": paper["coverage"] if paper else "",
        "mean_length": f"{length:.6g}",
        "length_error": f"{cell.length_error:.2g}",
        "printed_length": paper["mean_length"] if paper else "",
        "length_ratio": f"{length / paper['mean_length']:.4f}" if paper else "",
        "cpu_ms": f"{cell.cpu_ms:.4g}",
        "printed_ms": paper["runtime_ms"] if paper else "",
        "seed": SEED,
        "versions": VERSIONS,
        "command": "python -m papers.one_shot_private_confidence_regions.tables "
        f"--experiments {task.experiment} --n {task.n} --mu {task.mu:g} --methods {task.method} "
        f"--data-sets {task.data_sets}",
    }


def results(todo: Sequence[Task], workers: int) -> Iterator[dict[str, object]]:
    """Yield each cell's row when it is done."""
    if workers == 1:
        yield from map(run, todo)
        return
    with ProcessPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(run, task) for task in todo]):
            yield future.result()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--n", nargs="+", type=int, default=SIZES)
    parser.add_argument("--mu", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=600, help="processor time for a cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    budgets = [mu for mu in given.mu if math.isfinite(mu)]
    done = {key: int(row["asked"]) for key, row in read(given.out).items()}
    todo = [
        task
        for task in tasks(
            given.experiments, given.n, budgets, given.methods, given.data_sets, given.seconds
        )
        if done.get(task.key, 0) < given.data_sets
    ]
    for count, row in enumerate(results(todo, given.workers), start=1):
        append(given.out, row)
        if sys.stderr.isatty():
            print(
                "{count}/{total} {experiment:15} n={n:<6} mu={mu:<5} {method:17} coverage "
                "{coverage} [{coverage_low}, {coverage_high}] (printed {printed_coverage})  length "
                "{mean_length} (printed {printed_length})".format(
                    count=count, total=len(todo), **row
                ),
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
