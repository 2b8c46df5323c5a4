"""What intervals for a mean cover at μ = 0.5, where they promise 0.90: others' and ours.

    python benchmarks/at_mu_half.py [--data-sets 400]

At n = 2000, on uniform, Bernoulli(0.05) and earnings data. "Noise only" is the interval that counts
the privacy noise alone around a noisy mean, which is what an accuracy statement of a library for
private queries amounts to; the others are this package's methods, as published or calibrated.
Finished rows are appended to at_mu_half.csv and skipped by the next run. Noise is seeded: nothing
here is private data.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from coverage_atlas import means
from rows import append, finished
from scipy import stats

import confidp as cdp

RESULTS = Path(__file__).parent / "at_mu_half.csv"
SEED, N, MU, LEVEL, B = 20261130, 2000, 0.5, 0.9, 500
POPULATIONS = ("uniform", "bernoulli 0.05", "earnings")
METHODS: dict[str, Any] = {
    "noise only": None,
    "CR-GS, published, without replacement": cdp.CRGS(calibration="published"),
    "CR-GS, published, with replacement": cdp.CRGS("with_replacement", calibration="published"),
    "BLBQuant": cdp.BLBQuant(),
    "Dette-Graw, numerical accounting": cdp.DetteGraw(),
    "CR-GS, noise-aware": cdp.CRGS(),
    "private variance (our default)": cdp.PrivateVariance(),
}


def run(name: str, method: str, data_sets: int) -> dict[str, Any]:
    """Return one row."""
    population = means()[name]
    rng = np.random.default_rng([SEED, zlib.crc32(f"{name} {method}".encode())])
    low, high = population.bounds
    noise = (high - low) / (N * MU)
    z = float(stats.norm.isf((1 - LEVEL) / 2))
    covered, width = 0, 0.0
    for _ in range(data_sets):
        data = population.draw(rng, N)
        if METHODS[method] is None:
            center, radius = float(data.mean() + noise * rng.standard_normal()), z * noise
        else:
            region = cdp.confidence_region(
                data,
                cdp.Mean(population.bounds),
                budget=cdp.GDP(MU, 1e-6),  # of the methods here only Dette-Graw spends δ
                confidence_level=LEVEL,
                method=METHODS[method],
                n_resamples=B,
                rng=rng,
            )
            ((center,), radius) = region.center, region.radius
        covered += abs(center - population.truth) <= radius
        width += 2 * radius / data_sets
    exact = stats.binomtest(covered, data_sets).proportion_ci(0.95, method="exact")
    return {
        "population": name,
        "method": method,
        "n": N,
        "mu": MU,
        "level": LEVEL,
        "data_sets": data_sets,
        "coverage": f"{covered / data_sets:.4f}",
        "coverage_low": f"{exact.low:.4f}",
        "coverage_high": f"{exact.high:.4f}",
        "width": f"{width:.5g}",
        "width_over_normal": f"{width / (2 * z * population.sd / N**0.5):.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "at_mu_half.py",
    }


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=400)
    data_sets = parser.parse_args().data_sets
    done = finished(RESULTS, ("population", "method", "data_sets"))
    for method in METHODS:
        for name in POPULATIONS:
            if (name, method, str(data_sets)) in done:
                continue
            row = run(name, method, data_sets)
            append(RESULTS, row)
            print(
                "{population:16} {method:40} covers {coverage}, width {width_over_normal}".format(
                    **row
                ),
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
