"""The local half's calibration: how far from the limit, and do its intervals cover?

The paper's experiment on adaptive truncation: N(50, 10) and n = 1000 people, one report each, the
paper's priors, Thompson sampling, 1000 particles. Every cell is a mechanism and an ε. The limit of
a parameter's root mean square error is √(10·(F⁻¹)ᵢᵢ/n), with F the information of one report to the
mechanism's best query at the truth, for σ = 1; that of both together is √(10·tr F⁻¹/n)::

    python benchmarks/local_calibration.py [--mechanism response ...] [--epsilon 1 2 5 10]
                                           [--streams 400]

Reports are simulated as the collector's loop has them (`place_best`, an answer, `update`), without
messages. Every cell runs 400 streams; truncated Laplace costs several times as much. Every stream
has its own seed. A row of local_calibration.csv is a cell as far as it has
come; it is rewritten after every few streams, and the next run goes on from there. Everything is
seeded: nothing here is private data.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import stats

import confidp as cdp
from confidp.local.design import (
    Criterion,
    Design,
    Diagonal,
    Mechanism,
    TruncatedLaplace,
    a_optimal,
    best_cells,
    best_knots,
    fisher_information,
    place_best,
)
from confidp.local.population import Normal
from confidp.local.posterior import Posterior, start, update

HERE = Path(__file__).parent
RESULTS = HERE / "local_calibration.csv"
SEED = 20261130
BUDGETS = (1.0, 2.0, 5.0, 10.0)
POPULATION = Normal()  # the paper's priors
TRUTH = np.array([50.0, math.sqrt(10.0)])
PEOPLE, PARTICLES, LEVEL = 1000, 1000, 0.9
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """A mechanism at each ε, the criterion of its queries, streams to run, and how many at once."""

    mechanism: Callable[[float], Mechanism]
    criterion: Criterion
    streams: int
    batch: int


STUDIES = {
    "response": Study(lambda epsilon: best_cells(POPULATION, epsilon=epsilon), a_optimal, 400, 20),
    "truncated-laplace A": Study(TruncatedLaplace, a_optimal, 400, 10),
    "truncated-laplace F11": Study(TruncatedLaplace, Diagonal((1.0, 0.0)), 400, 10),
}


@dataclass(frozen=True)
class Tally:
    """Sums over streams, from which a cell's row follows and goes on."""

    streams: int = 0
    squared_error: tuple[float, float] = (0.0, 0.0)
    covered: tuple[int, int] = (0, 0)
    queries: int = 0
    cpu_seconds: float = 0.0


def stream(
    mechanism: Mechanism, criterion: Criterion, people: int, rng: np.random.Generator
) -> Posterior:
    """Return the posterior after `people` reports, each to the best query at a posterior draw."""
    posterior = start(POPULATION, PARTICLES, rng)
    designs: dict[tuple[float, ...], tuple[Design, Array]] = {}
    for x in rng.normal(TRUTH[0], TRUTH[1], people):
        place = place_best(POPULATION, posterior.draw(rng), mechanism, criterion)
        knots = tuple(place.tolist())
        if knots not in designs:
            design = Design.of(*mechanism.build(knots))
            designs[knots] = design, np.cumsum(design.probabilities(), axis=1)
        design, sums = designs[knots]
        row = sums[np.searchsorted(design.cuts, x)]
        answer = int(np.searchsorted(row, rng.random() * row[-1], side="right"))
        counts = [int(y == answer) for y in range(design.answers)]
        posterior = update(posterior, design, counts, rng)
    return posterior


def limits(mechanism: Mechanism, criterion: Criterion, people: int) -> Array:
    """Return the least root mean square error of each parameter at the truth."""
    best = best_knots(POPULATION, (0.0, 1.0), mechanism, criterion)
    information = fisher_information(
        POPULATION, (0.0, 1.0), Design.of(*mechanism.build(best.knots))
    )
    return np.asarray(TRUTH[1] * np.sqrt(np.diagonal(np.linalg.inv(information)) / people))


def run(name: str, epsilon: float, tally: Tally, streams: int, people: int = PEOPLE) -> Tally:
    """Return the tally after so many more streams; stream i has its own seed, whenever it runs."""
    study = STUDIES[name]
    mechanism = study.mechanism(epsilon)
    key = zlib.crc32(f"{name} {epsilon:g} {people}".encode())
    squares, covered = np.array(tally.squared_error), np.array(tally.covered)
    queries, began = tally.queries, time.process_time()
    for i in range(tally.streams, tally.streams + streams):
        rng = np.random.default_rng([SEED, key, i])
        posterior = stream(mechanism, study.criterion, people, rng)
        low, high = posterior.interval(LEVEL).T
        squares += (posterior.mean - TRUTH) ** 2
        covered += (low <= TRUTH) & (high >= TRUTH)
        queries += len(posterior.counts)
        if sys.stderr.isatty():
            print(f"{name}, epsilon = {epsilon:g}: stream {i + 1}", end="\r", file=sys.stderr)
    return Tally(
        tally.streams + streams,
        (float(squares[0]), float(squares[1])),
        (int(covered[0]), int(covered[1])),
        queries,
        tally.cpu_seconds + time.process_time() - began,
    )


def row_of(name: str, epsilon: float, tally: Tally, people: int = PEOPLE) -> dict[str, Any]:
    """Return a cell's row: errors beside their limits, coverage with its exact 95% interval."""
    mechanism, n = STUDIES[name].mechanism(epsilon), tally.streams
    limit = limits(mechanism, STUDIES[name].criterion, people)
    rmse = np.sqrt(np.array(tally.squared_error) / n)
    row: dict[str, Any] = {
        "mechanism": name,
        "epsilon": epsilon,
        "people": people,
        "streams": n,
        "kind": repr(mechanism),
    }
    for i, parameter in enumerate(("mu", "sigma")):
        interval = stats.binomtest(tally.covered[i], n).proportion_ci(0.95, method="exact")
        row |= {
            f"rmse_{parameter}": f"{rmse[i]:.4f}",
            f"limit_{parameter}": f"{limit[i]:.4f}",
            f"coverage_{parameter}": f"{tally.covered[i] / n:.4f}",
            f"coverage_{parameter}_low": f"{interval.low:.4f}",
            f"coverage_{parameter}_high": f"{interval.high:.4f}",
        }
    return row | {
        "total_over_limit": f"{np.linalg.norm(rmse) / np.linalg.norm(limit):.4f}",
        "distinct_queries": f"{tally.queries / n:.1f}",
        "cpu_seconds_per_stream": f"{tally.cpu_seconds / n:.2f}",
        "level": LEVEL,
        "seed": SEED,
        "versions": (
            f"confidp {cdp.__version__}; numpy {np.__version__}; scipy {scipy.__version__}"
        ),
        "command": "local_calibration.py",
        "tally": json.dumps(asdict(tally)),
    }


def read() -> dict[tuple[str, float], Tally]:
    """Return the cells so far."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open() as lines:
        rows = list(csv.DictReader(lines))
    cells = {}
    for row in rows:
        tally: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(row["tally"]).items()
        }
        cells[row["mechanism"], float(row["epsilon"])] = Tally(**tally)
    return cells


def write(cells: dict[tuple[str, float], Tally]) -> None:
    """Write all cells, whole or not at all."""
    order = {name: i for i, name in enumerate(STUDIES)}
    rows = [row_of(*key, cells[key]) for key in sorted(cells, key=lambda k: (order[k[0]], k[1]))]
    partial = RESULTS.with_suffix(".partial")
    with partial.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(RESULTS)


def main() -> None:
    """Run what is missing, a few streams of each cell in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mechanism", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--streams", type=int, help="instead of each mechanism's own number")
    options = parser.parse_args()
    cells = read()
    left = list(product(options.mechanism, options.epsilon))
    while left:
        for name, epsilon in list(left):
            tally, study = cells.get((name, epsilon), Tally()), STUDIES[name]
            missing = (options.streams or study.streams) - tally.streams
            if missing <= 0:
                left.remove((name, epsilon))
                continue
            cells[name, epsilon] = run(name, epsilon, tally, min(missing, study.batch))
            write(cells)
            print(
                "{mechanism:22} epsilon={epsilon:<4g} {streams:3} streams: rmse {rmse_mu}, "
                "{rmse_sigma} (limits {limit_mu}, {limit_sigma}; together {total_over_limit}), "
                "coverage {coverage_mu}, {coverage_sigma}".format(
                    **row_of(name, epsilon, cells[name, epsilon])
                ),
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
