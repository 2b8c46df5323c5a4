"""Every method with every statistic it suits: coverage and length over 200 data sets, in one table.

The competitors re-estimate thousands of times: they run on four statistics only (`COMPARED`).

n = 1000, δ = 1e-6, level 0.90, B = 100; once at the paper's μ = 8, and once at μ = 50, where the
noise hardly matters and what is left is whether each pair works::

    python -m papers.one_shot_private_confidence_regions.every_method [--data-sets 200]

Finished pairs are appended to every_method.csv and skipped by the next run. The truths are exact
or, where the comment says so, computed once from a sample of ten million.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

import confidp as cdp
from papers.one_shot_private_confidence_regions.tables import append

RESULTS = Path(__file__).parent / "every_method.csv"
SEED, N, LEVEL, N_RESAMPLES, DELTA = 20261130, 1000, 0.90, 100, 1e-6
BUDGETS = (8.0, 50.0)

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def uniform(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Uniform on [0, 1]."""
    return rng.random(n)


def pair(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Two columns: X uniform on [0, 1], Y the mean of X and another such."""
    both = rng.random((n, 2))
    both[:, 1] = both.mean(axis=1)
    return both


def largest(x: Any, y: Any, z: Any) -> Any:
    """A kernel of order 3: the largest of three values; 3/4 on average for uniform ones."""
    return np.maximum(np.maximum(x, y), z)


def answers(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """A feature on five points of [−0.8, 0.8], and a yes with probability 1/(1 + e^(−2x))."""
    x = rng.integers(-2, 3, n) * 0.4
    return np.column_stack([x, rng.random(n) < 1 / (1 + np.exp(-2 * x))])


def regularised_truth(statistic: Any) -> list[float]:
    """Return the minimiser for the law of `answers`, from 100,000 rows in its exact proportions."""
    rows = []
    for x in (-0.8, -0.4, 0.0, 0.4, 0.8):
        yes = round(20_000 / (1 + math.exp(-2 * x)))
        rows += [(x, 1.0)] * yes + [(x, 0.0)] * (20_000 - yes)
    fitted = statistic.for_shape(len(rows), 2)
    minimiser: list[float] = fitted.value(fitted.encode(np.array(rows))).tolist()
    return minimiser


RIDGE = cdp.LogisticERM(0.1)


@dataclass(frozen=True)
class Case:
    """A statistic, a population, and what the statistic estimates there."""

    statistic: Any
    draw: Draw
    truth: float | list[float]


UNIT = (0, 1)
CASES = {
    "mean": Case(cdp.Mean(UNIT), uniform, 0.5),
    "vector mean (d = 3)": Case(cdp.Mean(UNIT), lambda rng, n: rng.random((n, 3)), [0.5, 0.5, 0.5]),
    "clipped mean": Case(cdp.ClippedMean(2.0), lambda rng, n: rng.normal(0.5, 1.0, n), 0.5),
    "standard deviation": Case(cdp.StandardDeviation(UNIT, 0.1), uniform, 1 / math.sqrt(12)),
    "ratio of means": Case(cdp.Ratio((UNIT, UNIT), 0.25), pair, 1.0),
    "correlation": Case(cdp.Correlation((UNIT, UNIT), (0.15, 0.1)), pair, 1 / math.sqrt(2)),
    "variance": Case(cdp.Variance(UNIT), uniform, 1 / 12),
    "Gini mean difference": Case(cdp.GiniMeanDifference(UNIT), uniform, 1 / 3),
    # P(X + Y > 0) for X, Y uniform on [−0.4, 0.6]: 1 − 0.8²/2.
    "Wilcoxon signed rank": Case(
        cdp.WilcoxonSignedRank((-1, 1)), lambda rng, n: rng.random(n) - 0.4, 0.68
    ),
    # The sign of A + C, for A and C alike and symmetric, is that of the larger: A half the time.
    "Kendall tau": Case(cdp.KendallTau(UNIT), pair, 0.5),
    "product kernel": Case(cdp.ProductKernel(UNIT), uniform, 0.25),
    "product kernel, degenerate": Case(
        cdp.ProductKernel((-0.5, 0.5), degenerate=True), lambda rng, n: rng.random(n) - 0.5, 0.0
    ),
    "kernel of order 3": Case(
        cdp.UStatistic(largest, 3, UNIT, kernel_range=UNIT, vectorized=True), uniform, 0.75
    ),
    "ridge logistic regression": Case(RIDGE, answers, regularised_truth(RIDGE)),
    "the same by averaged SGD": Case(
        cdp.AveragedSGD.logistic(0.1), answers, regularised_truth(RIDGE)
    ),
    "median": Case(cdp.Median(UNIT), uniform, 0.5),
    "0.9-quantile": Case(cdp.Quantile(0.9, UNIT), uniform, 0.9),
}
METHODS: dict[str, Any] = {
    "CR-GS, published, with replacement": cdp.CRGS("with_replacement", calibration="published"),
    "CR-GS, published, without": cdp.CRGS("without_replacement", calibration="published"),
    "CR-GS, noise-aware, with": cdp.CRGS("with_replacement"),
    "CR-GS, noise-aware, without": cdp.CRGS("without_replacement"),
    "private variance": cdp.PrivateVariance(),
    "rank inversion": cdp.RankInversion(),
    "BLBQuant": cdp.BLBQuant(),
    "Dette-Graw, numerical accounting": cdp.DetteGraw(),
    "Dette-Graw, NOT private": cdp.DetteGraw("asymptotic", acknowledge_unproved=True),
    "SSVHL25": cdp.SSVHL25(),
    "CR-SS, with replacement": cdp.CRSS("with_replacement", calibration="published"),
    "CR-SS, without": cdp.CRSS("without_replacement", calibration="published"),
    "CR-SS, noise-aware": cdp.CRSS(),
    "half-centred": cdp.HalfCentred(),
    "delta method": cdp.DeltaMethod(),
    "private sandwich": cdp.PrivateSandwich(),
    "linearised": cdp.Linearised(),
}

# Competitors re-estimate thousands of times: they are compared where that is quick.
COMPETITORS = {m for m in METHODS if m.startswith(("BLB", "Dette", "SSVHL"))}
COMPARED = {"mean", "clipped mean", "variance", "median"}


def run_pair(statistic: str, method: str, mu: float, data_sets: int) -> dict[str, Any] | None:
    """Run one pair; None where the method doesn't suit the statistic."""
    case = CASES[statistic]
    rng = np.random.default_rng([SEED, zlib.crc32(f"{statistic} {method} {mu:g}".encode())])
    covered, lengths = 0, []
    for _ in range(data_sets):
        try:
            region = cdp.confidence_region(
                case.draw(rng, N),
                case.statistic,
                budget=cdp.GDP(mu, DELTA),
                confidence_level=LEVEL,
                method=METHODS[method],
                n_resamples=N_RESAMPLES,
                rng=rng,
            )
        except cdp.ConfidpError as error:
            if str(error).startswith(("method must suit", "statistic must be ProductKernel")):
                return None
            raise
        covered += region.contains(case.truth)
        if math.isfinite(region.radius):
            lengths.append(2 * region.radius)
    interval = binomtest(covered, data_sets).proportion_ci(0.95, method="exact")
    return {
        "statistic": statistic,
        "method": method,
        "mu": mu,
        "data_sets": data_sets,
        "returned": len(lengths),
        "coverage": f"{covered / data_sets:.3f}",
        "coverage_low": f"{interval.low:.3f}",
        "coverage_high": f"{interval.high:.3f}",
        "mean_length": f"{np.mean(lengths):.4g}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "every_method.py",
    }


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=200)
    data_sets = parser.parse_args().data_sets
    done = set()
    if RESULTS.exists():
        with RESULTS.open() as lines:
            done = {
                (row["statistic"], row["method"], float(row["mu"]))
                for row in csv.DictReader(lines)
                if int(row["data_sets"]) == data_sets
            }
    for statistic, method, mu in product(CASES, METHODS, BUDGETS):
        if (statistic, method, mu) in done:
            continue
        if method in COMPETITORS and statistic not in COMPARED:
            continue
        row = run_pair(statistic, method, mu, data_sets)
        if row is None:
            continue
        append(RESULTS, row)
        print(
            "{statistic:22} {method:34} mu {mu:<4g} coverage {coverage} [{coverage_low}, "
            "{coverage_high}]  length {mean_length}".format(**row),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
