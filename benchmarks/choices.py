"""The numbers that docs give as reasons for a choice::

    python benchmarks/choices.py [--runs 200] [--out FILE]

Appends to choices.csv what is missing there, one row a setting:

- *together*: the mean width of several quantiles' intervals, asked for together, over that of
  intervals one by one, each with its share of μ² and of the error; over all of them.
- *least radius*: the coverage at level 0.9 of noise-aware regions that are at least as wide as
  their center's noise asks for, and their mean width over that without the least; for normal
  pivots, with deviations as multiples of the center's noise.
- *loose bounds*: the mean width of a quantile's interval over that with bounds that fit.

All are seeded: nothing here is private data. Intervals of coverage are Clopper and Pearson's at
95%; those of ratios are twice the standard error of the mean.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rows import append, finished
from scipy import stats

import confidp as cdp
from confidp.central.methods.noise_aware import calibrated_reach

RESULTS = Path(__file__).parent / "choices.csv"
SEED, LEVEL, RESAMPLES = 20261130, 0.9, 300
QUARTILES, DECILES = (0.25, 0.5, 0.75), tuple(k / 10 for k in range(1, 10))
Found = tuple[float, float, float]  # a value and its interval
Case = tuple[str, str, Callable[[np.random.Generator, int], Found]]


def widths(data: Any, q: Any, bounds: Any, mu: float, level: float, rng: Any) -> Any:
    """Return the width of every quantile's interval."""
    region = cdp.confidence_region(
        data, cdp.Quantile(q, bounds), budget=cdp.GDP(mu), confidence_level=level, rng=rng
    )
    lows, highs = zip(*region.box, strict=True) if region.box else zip(region.interval)
    return np.subtract(highs, lows)


def ratio(pairs: Any) -> Found:
    """Return a ratio of two means, and twice its standard error around it."""
    ours, others = np.array(pairs).T
    value = ours.mean() / others.mean()
    error = 2 * (ours - value * others).std(ddof=1) / math.sqrt(len(ours)) / others.mean()
    return value, value - error, value + error


def together(qs: tuple[float, ...], n: int, mu: float) -> Case:
    """Several quantiles of uniform data, together and one by one."""

    def run(rng: np.random.Generator, runs: int) -> Found:
        pairs, k = [], len(qs)
        for _ in range(runs):
            data = rng.random(n)
            box = widths(data, list(qs), (0, 1), mu, LEVEL, rng)
            level, share = 1 - (1 - LEVEL) / k, mu / math.sqrt(k)
            each = [widths(data, q, (0, 1), share, level, rng)[0] for q in qs]
            pairs.append((box.mean(), np.mean(each)))
        return ratio(pairs)

    return "together", f"{len(qs)} quantiles, n = {n}, mu = {mu:g}: width over one by one", run


def least_radius(sampling: float, radius_noise: float, what: str) -> Case:
    """Noise-aware regions of a normal estimate: center noise 1, and what else there is."""

    def run(rng: np.random.Generator, runs: int) -> Found:
        least = math.sqrt(stats.chi2.isf(1 - LEVEL, 1))
        covered, pairs = 0, []
        for _ in range(50 * runs):
            pivots = sampling * rng.standard_normal((RESAMPLES, 1))
            reach = calibrated_reach(pivots, 1.0, radius_noise, LEVEL)
            plain = max(reach + radius_noise * rng.standard_normal(), 0.0)
            error = abs(sampling * rng.standard_normal() + rng.standard_normal())
            covered += error <= max(plain, least)
            pairs.append((max(plain, least), plain))
        if what == "width":
            return ratio(pairs)
        low, high = stats.binomtest(covered, len(pairs)).proportion_ci(0.95, method="exact")
        return covered / len(pairs), low, high

    setting = f"sampling {sampling:g} and radius noise {radius_noise:g} times the center's: {what}"
    return "least radius", setting, run


def loose(q: float, n: int, mu: float, far: float) -> Case:
    """Uniform data, whose bounds are `far` times as wide on either side."""

    def run(rng: np.random.Generator, runs: int) -> Found:
        pairs = []
        for _ in range(runs):
            data = rng.random(n)
            pairs.append([widths(data, q, b, mu, LEVEL, rng)[0] for b in ((-far, 1 + far), (0, 1))])
        return ratio(pairs)

    setting = (
        f"q = {q:g}, n = {n}, mu = {mu:g}, bounds {far:g} times as far: width over fitting ones"
    )
    return "loose bounds", setting, run


def cases() -> Iterator[Case]:
    """Yield every case."""
    for qs in (QUARTILES, DECILES):
        for n, mu in ((500, 0.5), (2000, 0.25), (2000, 1.0), (10_000, 0.5)):
            yield together(qs, n, mu)
    for sampling, radius_noise in ((0.5, 3.0), (1.0, 3.0), (2.0, 3.0), (2.0, 1.0)):
        for what in ("coverage", "width"):
            yield least_radius(sampling, radius_noise, what)
    for q in (0.5, 0.9, 0.95):
        for far in (1e3, 1e6):
            yield loose(q, 2000, 0.5, far)
            yield loose(q, 10_000, 0.5, far)


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="50 times as many for least radii")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    done = finished(options.out, ("choice", "setting"))
    for choice, setting, run in cases():
        if (choice, setting) in done:
            continue
        rng = np.random.default_rng([SEED, zlib.crc32(f"{choice} {setting}".encode())])
        value, low, high = run(rng, options.runs)
        row = {
            "choice": choice,
            "setting": setting,
            "value": f"{value:.4g}",
            "low": f"{low:.4g}",
            "high": f"{high:.4g}",
            "runs": options.runs * (50 if choice == "least radius" else 1),
            "seed": SEED,
            "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
            "command": "choices.py",
        }
        append(options.out, row)
        print("{choice}, {setting}: {value} ({low} to {high})".format(**row), file=sys.stderr)


if __name__ == "__main__":
    main()
