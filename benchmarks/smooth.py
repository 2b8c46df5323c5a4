"""Where only smooth sensitivity is small: medians, and a degenerate product kernel.

The median of uniform data at n = 2000, by CR-SS in both calibrations and by rank inversion; and the
product kernel on uniform [−½, ½] + shift by half-centred resampling, at every n of the paper's
Table 4, beside the interval for any E X that squaring a mean's interval gives::

    python benchmarks/smooth.py [--study kernel median] [--n 2000 5000] [--data-sets 400]

The kernel's halves serve every μ at once: only noise differs between its cells of one n. Finished
cells are appended to smooth.csv and skipped by the next run, so it resumes. Noise is seeded:
nothing here is private data.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rows import append, finished
from scipy import stats

import confidp as cdp
from confidp.central.methods.half_centred import HalfCentred, twice_centred
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware_smooth import release_with_bounds
from confidp.randomness import Randomness

RESULTS = Path(__file__).parent / "smooth.csv"
SEED = 20261130
SIZES = (2000, 5000, 10_000, 20_000, 40_000, 50_000)  # of Table 4
LEVEL, DELTA = 0.9, 1e-6
KERNEL_RESAMPLES, MEDIAN_RESAMPLES = 500, 300
HALF_CENTRED, SQUARED_MEAN = "half-centred", "mean squared"
MEDIAN_METHODS: dict[str, Any] = {
    "CR-SS noise-aware": cdp.CRSS(),
    "CR-SS published": cdp.CRSS(calibration="published"),
    "rank inversion": cdp.RankInversion(),
}


@dataclass
class Cell:
    """What one method did on some data sets."""

    covered: int = 0
    lengths: list[float] = field(default_factory=list)

    def add(self, low: float, high: float, truth: float) -> None:
        """Count one interval."""
        self.covered += low <= truth <= high
        self.lengths.append(high - low)


def seeded(*key: Any) -> np.random.Generator:
    """Return a cell's own generator."""
    return np.random.default_rng([SEED, zlib.crc32(" ".join(map(str, key)).encode())])


def random_halves(
    rng: np.random.Generator, n: int, count: int
) -> Iterator[NDArray[np.signedinteger[Any]]]:
    """Yield uniform halves of 0, …, n − 1: fair coins, then as many random flips as balance needs.

    Given its size a set of heads is uniform, and so is what uniform flips make of it: the law of
    `resamples` without replacement, several times as fast.
    """
    m = n // 2
    for _ in range(count):
        heads = np.unpackbits(rng.integers(0, 256, n // 8 + 1, dtype=np.uint8))[: 2 * m]
        excess = int(heads.sum()) - m
        side = np.flatnonzero(heads == (excess > 0))
        heads[rng.choice(side, abs(excess), replace=False)] ^= 1
        yield np.flatnonzero(heads)


def run_kernel(n: int, shift: float, budgets: list[float], data_sets: int) -> dict[str, Cell]:
    """Run all methods and budgets on the same data sets and halves."""
    rng = seeded("kernel", n, shift)
    bounds = (-0.5 - shift, 0.5 + shift)
    kernel = cdp.ProductKernel(bounds, degenerate=True).for_shape(n, 1)
    plans = {
        mu: HalfCentred().plan(kernel, Request(n, mu, LEVEL, KERNEL_RESAMPLES, DELTA))
        for mu in budgets
    }
    methods = [
        "non-private",
        *(f"{m} {mu:g}" for m in (HALF_CENTRED, SQUARED_MEAN) for mu in plans),
    ]
    cells, truth = {m: Cell() for m in methods}, shift**2
    for _ in range(data_sets):
        x = rng.uniform(-0.5, 0.5, n) + shift
        records = kernel.encode(x[:, None])
        twice = twice_centred(records, random_halves(rng, n, KERNEL_RESAMPLES))
        for mu, plan in plans.items():
            private = plan.pivots(records, twice)
            ball = release_with_bounds(
                private, plan.center, plan.radius, kernel, plan.request, Randomness.of(rng)
            )
            (center,) = ball.center
            cells[f"{HALF_CENTRED} {mu:g}"].add(center - ball.radius, center + ball.radius, truth)
            mean = cdp.confidence_region(
                x, cdp.Mean(bounds), budget=cdp.GDP(mu), confidence_level=LEVEL, rng=rng
            )
            low, high = mean.interval
            least = 0.0 if low <= 0 <= high else min(low**2, high**2)
            cells[f"{SQUARED_MEAN} {mu:g}"].add(least, max(low**2, high**2), truth)
        reach = float(np.quantile(np.abs(private.pivots), LEVEL, method="inverted_cdf"))
        estimate = float(kernel.value(records)[0] + float(kernel.origin[0]))
        cells["non-private"].add(estimate - reach, estimate + reach, truth)
    return cells


def run_median(n: int, mu: float, method: str, data_sets: int) -> dict[str, Cell]:
    """Run one method, beside the non-private order-statistic interval."""
    rng = seeded("median", n, mu, method)
    cells = {method: Cell(), "non-private": Cell()}
    miss = (1 - LEVEL) / 2
    below = int(stats.binom.ppf(miss, n, 0.5))
    for _ in range(data_sets):
        x = rng.random(n)
        region = cdp.confidence_region(
            x,
            cdp.Median((0, 1)),
            budget=cdp.GDP(mu, DELTA),
            confidence_level=LEVEL,
            method=MEDIAN_METHODS[method],
            n_resamples=MEDIAN_RESAMPLES,
            rng=rng,
        )
        cells[method].add(*region.interval, 0.5)
        ordered = np.sort(x)
        cells["non-private"].add(float(ordered[below - 1]), float(ordered[n - below]), 0.5)
    return cells


def row_of(
    study: str, n: int, shift: float, mu: float, method: str, cell: Cell, reference: Cell
) -> dict[str, Any]:
    """Return a line of the table."""
    data_sets = len(cell.lengths)
    interval = stats.binomtest(cell.covered, data_sets).proportion_ci(0.95, method="exact")
    length, usual = float(np.mean(cell.lengths)), float(np.mean(reference.lengths))
    return {
        "study": study,
        "n": n,
        "shift": shift,
        "mu": mu,
        "method": method,
        "level": LEVEL,
        "data_sets": data_sets,
        "n_resamples": KERNEL_RESAMPLES if study == "kernel" else MEDIAN_RESAMPLES,
        "coverage": f"{cell.covered / data_sets:.4f}",
        "coverage_low": f"{interval.low:.4f}",
        "coverage_high": f"{interval.high:.4f}",
        "mean_length": f"{length:.4g}",
        "reference_coverage": f"{reference.covered / data_sets:.4f}",
        "width_over_reference": f"{length / usual:.4f}",
        "length_error": f"{float(np.std(cell.lengths)) / math.sqrt(data_sets) / usual:.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "smooth.py",
    }


def keep(rows: list[dict[str, Any]]) -> None:
    """Add finished cells to the table, and say so."""
    for row in rows:
        append(RESULTS, row)
        print(
            "{study:7} n={n:<6} shift={shift:<6} mu={mu:<4} {method:18} coverage {coverage} "
            "(non-private {reference_coverage}), width over it {width_over_reference}".format(
                **row
            ),
            file=sys.stderr,
        )


def has(study: str, n: int, shift: float, mu: float, method: str, data_sets: int) -> bool:
    """Whether the table has that cell."""
    columns = ("study", "n", "shift", "mu", "method", "data_sets")
    return tuple(map(str, (study, n, shift, mu, method, data_sets))) in finished(RESULTS, columns)


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", nargs="+", choices=["kernel", "median"], default=["kernel"])
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--n", nargs="+", type=int, choices=SIZES, default=SIZES)
    options = parser.parse_args()
    if "kernel" in options.study:
        budgets, cells = [1.0, 8.0], [(n, 0.0) for n in SIZES] + [(SIZES[0], 0.025)]
        for n, shift in cells:
            done = has("kernel", n, shift, budgets[-1], SQUARED_MEAN, options.data_sets)
            if done or n not in options.n:
                continue
            results = run_kernel(n, shift, budgets, options.data_sets)
            usual = results["non-private"]
            keep(
                [
                    row_of("kernel", n, shift, mu, m, results[f"{m} {mu:g}"], usual)
                    for m, mu in product((HALF_CENTRED, SQUARED_MEAN), budgets)
                ]
            )
    if "median" in options.study:
        for mu, method in product((8.0, 1.0, 0.5), MEDIAN_METHODS):
            n = SIZES[0]
            if has("median", n, 0.0, mu, method, options.data_sets):
                continue
            results = run_median(n, mu, method, options.data_sets)
            keep([row_of("median", n, 0.0, mu, method, results[method], results["non-private"])])


if __name__ == "__main__":
    main()
