"""Regions for M-estimators: do they cover, and how wide are they beside resampling without privacy?

Ridge logistic regression without an intercept, λ = 0.05, features uniform in the unit ball, and
P(y = 1 | x) = 1/(1 + e^(−b·x)) with b = 2/√d·(1, …, 1). By symmetry the population's regularised
minimiser is a multiple of b, found by one-dimensional quadrature to some ten digits::

    python benchmarks/m_estimators.py [--method sandwich linearised cr-gs] [--dimension 2 5]
                                      [--n 500 2000 20000] [--mu 0.25 0.5 1 8]
                                      [--data-sets 1000] [--reference-sets 20]

The reference is the non-private half-sample resampling radius with B = 500, of whole refits, on the
first `--reference-sets` data sets of a cell: `width_over_reference` compares mean radii on those
same sets. Data sets depend on the dimension, n and their number alone, so that all methods and
budgets see the same ones, and coverages along a column are correlated. Finished cells are appended
to m_estimators.csv and skipped by the next run. Noise is seeded: nothing here is private data.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rows import append, finished
from scipy import integrate, optimize, special, stats

import confidp as cdp
from confidp.central.methods.linearised import Linearised
from confidp.central.methods.private_sandwich import PrivateSandwich

RESULTS = Path(__file__).parent / "m_estimators.csv"
SEED = 20261130
LEVEL, RIDGE, SLOPE, RESAMPLES = 0.9, 0.05, 2.0, 500
METHODS: dict[str, Any] = {
    "sandwich": PrivateSandwich(),
    "linearised": Linearised(),
    "cr-gs": cdp.CRGS(),
}
Floats = NDArray[np.float64]


def draw(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Draw n rows: features, then the outcome."""
    x = rng.standard_normal((n, d))
    x *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(x, axis=1, keepdims=True)
    chance = special.expit(x.sum(axis=1) * SLOPE / math.sqrt(d))
    return np.column_stack([x, rng.random(n) < chance])


def truth(d: int) -> Floats:
    """Return the population's regularised minimiser: t·(1, …, 1)/√d.

    With u = x·b/‖b‖, of density (1 − u²)^((d−1)/2) up to a factor, t solves
    E[(σ(tu) − σ(‖b‖u))·u] + λt = 0.
    """

    def slope(t: float) -> float:
        def integrand(u: float) -> float:
            gap = special.expit(t * u) - special.expit(SLOPE * u)
            return float(gap * u * (1 - u * u) ** ((d - 1) / 2))

        mass = float(special.beta(0.5, (d + 1) / 2))
        return float(integrate.quad(integrand, -1, 1, epsabs=1e-12)[0]) / mass + RIDGE * t

    size = optimize.brentq(slope, 0, SLOPE, xtol=1e-12)
    return np.full(d, size / math.sqrt(d))


def data_set(d: int, n: int, number: int) -> Floats:
    """Return one of a cell's data sets."""
    return draw(np.random.default_rng([SEED, d, n, number]), n, d)


@lru_cache(maxsize=64)
def reference_radius(d: int, n: int, number: int) -> float:
    """Return the non-private half-sample resampling radius of one data set."""
    rows = data_set(d, n, number)
    ridge = cdp.LogisticERM(RIDGE, intercept=False).for_shape(n, d + 1)
    records = ridge.encode(rows)
    whole = ridge.value(records)
    rng = np.random.default_rng([SEED, d, n, number, 1])
    distances = []
    for _ in range(RESAMPLES):
        half = records[rng.choice(n, n // 2, replace=False)]
        distances.append(np.linalg.norm(ridge.value(half, near=whole) - whole))
    return float(np.quantile(distances, LEVEL))  # √m/√(1 − m/n)/√n is 1 at m = n/2


def run_cell(
    method: str, d: int, n: int, mu: float, data_sets: int, reference_sets: int
) -> dict[str, Any]:
    """Run one cell; its seeds are its own."""
    target = truth(d)
    covered, remainders = 0, []
    radii = np.zeros(data_sets)
    for number in range(data_sets):
        seed = np.random.SeedSequence([SEED, d, n, number, 2 + list(METHODS).index(method)])
        region = cdp.confidence_region(
            data_set(d, n, number),
            cdp.LogisticERM(RIDGE, intercept=False),
            budget=cdp.GDP(mu),
            confidence_level=LEVEL,
            method=METHODS[method],
            n_resamples=RESAMPLES,
            rng=seed,
        )
        covered += region.contains(target)
        radii[number] = region.radius
        remainders.append(region.public.get("remainder", math.nan) / region.radius)
    shared = min(reference_sets, data_sets)
    reference = np.mean([reference_radius(d, n, number) for number in range(shared)])
    low, high = stats.binomtest(covered, data_sets).proportion_ci(0.95, method="exact")
    remainder = float(np.median(remainders))
    return {
        "method": method,
        "dimension": d,
        "n": n,
        "mu": mu,
        "level": LEVEL,
        "data_sets": data_sets,
        "coverage": f"{covered / data_sets:.4f}",
        "coverage_low": f"{low:.4f}",
        "coverage_high": f"{high:.4f}",
        "mean_radius": f"{radii.mean():.5f}",
        "reference_radius": f"{reference:.5f}",
        "reference_sets": shared,
        "width_over_reference": f"{radii[:shared].mean() / reference:.4f}",
        "median_remainder_over_radius": "" if math.isnan(remainder) else f"{remainder:.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "m_estimators.py",
    }


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--dimension", nargs="+", type=int, default=[2, 5])
    parser.add_argument("--n", nargs="+", type=int, default=[500, 2000, 20_000])
    parser.add_argument("--mu", nargs="+", type=float, default=[0.25, 0.5, 1.0, 8.0])
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--reference-sets", type=int, default=20)
    options = parser.parse_args()
    columns = ("method", "dimension", "n", "mu", "data_sets")
    done = finished(RESULTS, columns)
    for d, n, mu, method in product(options.dimension, options.n, options.mu, options.method):
        if tuple(map(str, (method, d, n, mu, options.data_sets))) in done:
            continue
        row = run_cell(method, d, n, mu, options.data_sets, options.reference_sets)
        append(RESULTS, row)
        print(
            "{method:10} d={dimension} n={n:<5} mu={mu:<5} coverage {coverage}, width over "
            "non-private {width_over_reference}".format(**row),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
