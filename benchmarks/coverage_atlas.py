"""The coverage atlas: does the default interval cover what it says, and how wide is it?

Every cell is a statistic, a distribution, n, μ, a level and a method; 2000 data sets each. Beside
private coverage and width stand those of the non-private t interval on the same data, and the floor
2z√(σ²/n + (R/(nμ))²) that no Gaussian-noised mean can go under::

    python benchmarks/coverage_atlas.py [--n 100 200 500 2000] [--level 0.9] [--data-sets 2000]

Finished cells are appended to coverage_atlas.csv and skipped by the next run, so it resumes. Noise
is seeded: nothing here is private data. So far: means of one column.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import confidp as cdp
from confidp.io.files import read_column

HERE = Path(__file__).parent
RESULTS = HERE / "coverage_atlas.csv"
EARNINGS = HERE.parent / "examples" / "data" / "cps_earnings.csv"
SEED = 20261130
SIZES = (100, 200, 500, 2000)
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 8.0)
METHODS: dict[str, Any] = {"private variance": cdp.PrivateVariance()}


@dataclass(frozen=True)
class Population:
    """What data are drawn from: its public bounds, its mean and its standard deviation."""

    draw: Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]
    bounds: tuple[float, float]
    mean: float
    sd: float


@cache
def earnings() -> NDArray[np.float64]:
    """Return the shipped table's 1978 earnings, which serve as a population here."""
    return read_column(EARNINGS, "earnings_1978").to_numpy()


def clipped_lognormal() -> tuple[float, float]:
    """Return mean and standard deviation of min(exp(Z), 20), in closed form."""
    b = math.log(20)

    def moment(k: int) -> float:
        below = math.exp(k * k / 2) * stats.norm.cdf(b - k)
        return float(below + 20**k * stats.norm.sf(b))

    return moment(1), math.sqrt(moment(2) - moment(1) ** 2)


POPULATIONS = {
    "uniform": Population(lambda r, n: r.random(n), (0, 1), 0.5, 1 / math.sqrt(12)),
    "bernoulli 0.05": Population(
        lambda r, n: (r.random(n) < 0.05) * 1.0, (0, 1), 0.05, math.sqrt(0.05 * 0.95)
    ),
    "bernoulli 0.5": Population(lambda r, n: (r.random(n) < 0.5) * 1.0, (0, 1), 0.5, 0.5),
    "lognormal to 20": Population(
        lambda r, n: np.minimum(np.exp(r.standard_normal(n)), 20), (0, 20), *clipped_lognormal()
    ),
    "beta(0.5, 0.5)": Population(lambda r, n: r.beta(0.5, 0.5, n), (0, 1), 0.5, math.sqrt(1 / 8)),
    "earnings": Population(
        lambda r, n: r.choice(earnings(), n),
        (0, 30_000),
        float(earnings().mean()),
        float(earnings().std()),
    ),
}


def run_cell(name: str, n: int, mu: float, level: float, method: str, data_sets: int) -> Any:
    """Run one cell; its seed is its own."""
    population = POPULATIONS[name]
    key = zlib.crc32(f"{name} {n} {mu:g} {level:g} {method}".encode())
    rng = np.random.default_rng([SEED, key])
    covered = t_covered = 0
    width = t_width = 0.0
    for _ in range(data_sets):
        data = population.draw(rng, n)
        region = cdp.confidence_region(
            data,
            cdp.Mean(population.bounds),
            budget=cdp.GDP(mu),
            confidence_level=level,
            method=METHODS[method],
            rng=rng,
        )
        t = stats.t.isf((1 - level) / 2, n - 1) * data.std(ddof=1) / math.sqrt(n)
        covered += region.contains(population.mean)
        t_covered += abs(data.mean() - population.mean) < t
        width += 2 * region.radius / data_sets
        t_width += 2 * t / data_sets
    low, high = stats.binomtest(covered, data_sets).proportion_ci(0.95, method="exact")
    noise = (population.bounds[1] - population.bounds[0]) / (n * mu)
    floor = 2 * stats.norm.isf((1 - level) / 2) * math.hypot(population.sd / math.sqrt(n), noise)
    return {
        "statistic": "mean",
        "population": name,
        "n": n,
        "mu": mu,
        "level": level,
        "method": method,
        "data_sets": data_sets,
        "coverage": f"{covered / data_sets:.4f}",
        "coverage_low": f"{low:.4f}",
        "coverage_high": f"{high:.4f}",
        "t_coverage": f"{t_covered / data_sets:.4f}",
        "width_over_t": f"{width / t_width:.4f}" if t_width else "",
        "width_over_floor": f"{width / floor:.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "coverage_atlas.py",
    }


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", nargs="+", type=int, default=SIZES)
    parser.add_argument("--level", nargs="+", type=float, default=[0.9])
    parser.add_argument("--data-sets", type=int, default=2000)
    options = parser.parse_args()
    columns = ("population", "n", "mu", "level", "method", "data_sets")
    done: set[tuple[str, ...]] = set()
    if RESULTS.exists():
        with RESULTS.open() as lines:
            done = {tuple(row[c] for c in columns) for row in csv.DictReader(lines)}
    for name, n, mu, level, method in product(
        POPULATIONS, options.n, BUDGETS, options.level, METHODS
    ):
        if tuple(map(str, (name, n, mu, level, method, options.data_sets))) in done:
            continue
        row = run_cell(name, n, mu, level, method, options.data_sets)
        new = not RESULTS.exists()
        with RESULTS.open("a", newline="") as out:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(
            "{population:16} n={n:<5} mu={mu:<5} {method}: coverage {coverage} (t {t_coverage}), "
            "width over t {width_over_t}, over floor {width_over_floor}".format(**row),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
