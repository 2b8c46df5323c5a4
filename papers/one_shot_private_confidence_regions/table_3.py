"""Table 3: means of Bernoulli(0.05) and Uniform[−1, 1] data at μ = 8, beside what is printed.

400 data sets a cell, B = 500, level 0.90, m = ⌈n/ln n⌉, ρ = 1/n, as the paper has them::

    python papers/one_shot_private_confidence_regions/table_3.py [--n 2000 5000 …] [--data-sets 400]

Each finished cell is appended to table_3.csv; cells that are there already are skipped, so a run
that was stopped goes on where it was. The noise is seeded: nothing here is private data.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import confidp as cdp

HERE = Path(__file__).parent
PRINTED = HERE / "printed_tables_3_and_4.csv"
RESULTS = HERE / "table_3.csv"

SEED = 20261130
MU, LEVEL, N_RESAMPLES = 8.0, 0.90, 500

METHODS: dict[str, Any] = {
    "blbquant": cdp.BLBQuant(grid_step=1 / 2000),  # the paper's 1/n, at n = 2000
    "dette_graw": cdp.DetteGraw("asymptotic", acknowledge_unproved=True),
    "cr_wr": cdp.CRGS("with_replacement", calibration="published"),
    "cr_wor": cdp.CRGS("without_replacement", calibration="published"),
}


@dataclass(frozen=True)
class Experiment:
    """A population: how to draw from it, its bounds and its mean."""

    draw: Callable[[np.random.Generator, int], NDArray[np.float64]]
    bounds: tuple[float, float]
    truth: float


EXPERIMENTS = {
    "bernoulli_mean": Experiment(
        lambda rng, n: (rng.random(n) < 0.05).astype(np.float64), (0, 1), 0.05
    ),
    "uniform_mean": Experiment(lambda rng, n: rng.uniform(-1, 1, n), (-1, 1), 0.0),
}


@dataclass(frozen=True)
class Cell:
    """What one experiment, size and method gave over many data sets."""

    data_sets: int
    covered: int
    lengths: NDArray[np.float64]  # of those that returned a region

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """Exact 95% binomial interval of the coverage."""
        exact = binomtest(self.covered, self.data_sets).proportion_ci(0.95, method="exact")
        return float(exact.low), float(exact.high)

    @property
    def length_error(self) -> float:
        """Standard error of the mean length."""
        return float(self.lengths.std(ddof=1) / math.sqrt(len(self.lengths)))


def run_cell(experiment: str, n: int, method: str, data_sets: int) -> Cell:
    """Run one cell. Its seed is its own, so cells can run in any order."""
    setting = EXPERIMENTS[experiment]
    rng = np.random.default_rng([SEED, n, zlib.crc32(f"{experiment} {method}".encode())])
    covered, lengths = 0, []
    for _ in range(data_sets):
        region = cdp.confidence_region(
            setting.draw(rng, n),
            cdp.Mean(setting.bounds),
            budget=cdp.GDP(MU),
            confidence_level=LEVEL,
            method=METHODS[method],
            n_resamples=N_RESAMPLES,
            rng=rng,
        )
        covered += region.contains(setting.truth)
        if math.isfinite(region.radius):
            lengths.append(2 * region.radius)
    return Cell(data_sets, covered, np.array(lengths))


def printed() -> dict[tuple[str, int, str], tuple[float, float]]:
    """Return the printed coverage and mean length of each cell."""
    with PRINTED.open() as lines:
        return {
            (row["experiment"], int(row["n"]), row["method"]): (
                float(row["coverage"]),
                float(row["mean_length"]),
            )
            for row in csv.DictReader(lines)
        }


def done() -> set[tuple[str, int, str, int]]:
    """Return the cells that are in the results already."""
    if not RESULTS.exists():
        return set()
    with RESULTS.open() as lines:
        return {
            (row["experiment"], int(row["n"]), row["method"], int(row["data_sets"]))
            for row in csv.DictReader(lines)
        }


def rows(sizes: list[int], data_sets: int) -> Iterator[dict[str, object]]:
    """Yield a row a cell, skipping those that are done."""
    skip, paper = done(), printed()
    for experiment in EXPERIMENTS:
        for n in sizes:
            for method in METHODS:
                if (experiment, n, method, data_sets) in skip:
                    continue
                cell = run_cell(experiment, n, method, data_sets)
                coverage, length = paper[experiment, n, method]
                low, high = cell.coverage_interval
                yield {
                    "experiment": experiment,
                    "n": n,
                    "method": method,
                    "data_sets": data_sets,
                    "returned": len(cell.lengths),
                    "coverage": f"{cell.covered / data_sets:.4f}",
                    "coverage_low": f"{low:.4f}",
                    "coverage_high": f"{high:.4f}",
                    "printed_coverage": coverage,
                    "mean_length": f"{cell.lengths.mean():.6g}",
                    "length_error": f"{cell.length_error:.2g}",
                    "printed_length": length,
                    "length_ratio": f"{cell.lengths.mean() / length:.4f}",
                    "seed": SEED,
                    "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
                    "command": "table_3.py",
                }


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", nargs="+", type=int, default=[2000])
    parser.add_argument("--data-sets", type=int, default=400)
    arguments = parser.parse_args()
    for row in rows(arguments.n, arguments.data_sets):
        new = not RESULTS.exists()
        with RESULTS.open("a", newline="") as out:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(
            "{experiment:15} n={n:<6} {method:7} coverage {coverage} [{coverage_low}, "
            "{coverage_high}] (printed {printed_coverage})  length {mean_length} "
            "(printed {printed_length}, ratio {length_ratio})".format(**row),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
