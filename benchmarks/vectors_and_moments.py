"""Private variance beyond one two-sided mean: one-sided bounds, vectors, functions of means.

Every cell is a study, a population, n, μ and a method. All methods of a cell see the same data, and
so does the non-private interval or ellipsoid (Student's t, Hotelling; for functions of means the
widths alone are compared)::

    python benchmarks/vectors_and_moments.py [--study one-sided vectors moments] [--n 2000]
                                             [--data-sets 300]

Finished cells are appended to vectors_and_moments.csv and skipped by the next run. CR-GS, which is
slow, gets a sixth of the data sets. Noise is seeded: nothing here is private data.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coverage_atlas import SEED, Population, clipped_lognormal, lognormal, means
from numpy.typing import NDArray
from rows import append, finished
from scipy import stats
from scipy.special import gammaln

import confidp as cdp
from confidp.central.methods.delta_method import DeltaMethod

RESULTS = Path(__file__).parent / "vectors_and_moments.csv"
LEVEL = 0.9
N_RESAMPLES = 300  # of CR-GS
Rows = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Case:
    """A statistic, what data are drawn from, and the true value."""

    statistic: Any
    draw: Callable[[np.random.Generator, int], Rows]
    truth: NDArray[np.float64]
    alternative: str = "two-sided"


@dataclass(frozen=True)
class Study:
    """Cases, sizes, budgets and methods."""

    cases: dict[str, Case]
    sizes: tuple[int, ...]
    budgets: tuple[float, ...]
    methods: dict[str, Any]


def one_sided() -> Study:
    """Return the atlas's means with lower and upper bounds."""

    def case(population: Population, side: str) -> Case:
        truth = np.array([population.truth])
        return Case(cdp.Mean(population.bounds), population.draw, truth, side)

    cases = {
        f"{name}, {side}": case(population, side)
        for name, population in means().items()
        for side in ("greater", "less")
    }
    return Study(cases, (200, 2000), (0.25, 1.0), {"private variance": cdp.PrivateVariance()})


def uniform_vectors(d: int) -> Case:
    """Return d independent uniform columns."""
    bounds = ((-1.0, 1.0),) * d
    return Case(cdp.Mean(bounds), lambda r, n: r.uniform(-1, 1, (n, d)), np.zeros(d))


def one_factor(d: int) -> Case:
    """Return d columns with a common part: correlations of 0.8."""

    def draw(r: np.random.Generator, n: int) -> Rows:
        common, own = r.uniform(-1, 1, (n, 1)), r.uniform(-1, 1, (n, d))
        return np.asarray((2 * common + own) / 3)

    return Case(cdp.Mean(((-1.0, 1.0),) * d), draw, np.zeros(d))


def mixed() -> Case:
    """Return columns of different ranges and shapes: uniform, rare events, skewed."""

    def draw(r: np.random.Generator, n: int) -> Rows:
        rare = (r.random(n) < 0.05) * 1.0
        return np.stack([r.uniform(0, 100, n), rare, lognormal(r, n)], axis=1)

    truth = np.array([50.0, 0.05, clipped_lognormal()[0]])
    return Case(cdp.Mean(((0.0, 100.0), (0.0, 1.0), (0.0, 20.0))), draw, truth)


def vectors() -> Study:
    """Return vectors of means: boxes, ellipsoids and CR-GS's balls."""
    cases = {f"uniform, d = {d}": uniform_vectors(d) for d in (2, 5)}
    cases |= {f"correlated 0.8, d = {d}": one_factor(d) for d in (2,)}
    cases["mixed, d = 3"] = mixed()
    methods = {
        "box": cdp.PrivateVariance(),
        "ellipsoid": cdp.PrivateVariance(shape="ellipsoid"),
        "CR-GS ball": cdp.CRGS(),
    }
    return Study(cases, (200, 2000), (0.25, 0.5, 1.0, 8.0), methods)


def halves(r: np.random.Generator, n: int) -> Rows:
    """Draw X uniform and Y = (X + U)/2."""
    x = r.random((n, 2))
    x[:, 1] = (x[:, 0] + x[:, 1]) / 2
    return x


def conversions(r: np.random.Generator, n: int) -> Rows:
    """Draw half the people exposed, and three in ten of these converted."""
    exposed = (r.random(n) < 0.5) * 1.0
    return np.stack([exposed * (r.random(n) < 0.3), exposed], axis=1)


def lognormals(r: np.random.Generator, n: int) -> Rows:
    """Draw a pair with correlated logarithms, clipped at 20."""
    z = r.standard_normal((n, 2))
    z[:, 1] = 0.6 * z[:, 0] + 0.8 * z[:, 1]
    return np.asarray(np.minimum(np.exp(z), 20))


def lognormals_correlation() -> float:
    """Return its correlation, by the midpoint rule."""
    points = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    x = np.minimum(np.exp(points), 20)[:, None]
    y = np.minimum(np.exp(0.6 * points[:, None] + 0.8 * points[None, :]), 20)
    covariance = float(np.mean(x * y) - x.mean() * y.mean())
    return covariance / float(x.std() * y.std())


def moments() -> Study:
    """Return functions of means: the delta method and noise-aware CR-GS."""
    unit, wide = ((0.0, 1.0),) * 2, ((0.0, 20.0),) * 2
    sd = clipped_lognormal()[1]

    def one(r: np.random.Generator, n: int) -> Rows:
        return r.random(n)

    cases = {
        "variance, uniform": Case(cdp.Variance(unit[0]), one, np.array([1 / 12])),
        "variance, lognormal": Case(cdp.Variance(wide[0]), lognormal, np.array([sd * sd])),
        "sd, uniform": Case(cdp.StandardDeviation(unit[0], 0.1), one, np.array([12**-0.5])),
        "sd, lognormal": Case(cdp.StandardDeviation(wide[0], 0.5), lognormal, np.array([sd])),
        "ratio, uniform": Case(cdp.Ratio(unit, 0.25), halves, np.array([1.0])),
        "ratio, Bernoulli": Case(cdp.Ratio(unit, 0.1), conversions, np.array([0.3])),
        "correlation, uniform": Case(
            cdp.Correlation(unit, (0.15, 0.1)), halves, np.array([0.5**0.5])
        ),
        "correlation, lognormal": Case(
            cdp.Correlation(wide, (0.5, 0.5)), lognormals, np.array([lognormals_correlation()])
        ),
    }
    methods = {"delta method": DeltaMethod(), "CR-GS": cdp.CRGS()}
    return Study(cases, (200, 2000, 10_000), (0.25, 0.5, 1.0, 8.0), methods)


STUDIES = {"one-sided": one_sided, "vectors": vectors, "moments": moments}


def mean_side(region: cdp.ConfidenceRegion, alternative: str) -> float:
    """Return the mean width over coordinates; for one-sided intervals twice center to end."""
    if alternative != "two-sided":
        low, high = region.interval
        end = low if alternative == "greater" else high
        return 2 * abs(region.center[0] - end)
    return float(np.mean([high - low for low, high in region.intervals]))


def size(region: cdp.ConfidenceRegion) -> float:
    """Return the volume's d-th root."""
    d = region.dimension
    if region.shape == "box":
        return float(np.prod([high - low for low, high in region.intervals]) ** (1 / d))
    ball = float(math.sqrt(math.pi) / math.exp(gammaln(d / 2 + 1) / d))
    if region.shape == "ball":
        return ball * region.radius
    return float(ball * np.linalg.det(np.array(region.ellipsoid)) ** (1 / (2 * d)))


def without_privacy(case: Case, data: Rows) -> tuple[bool, float, float]:
    """Return whether the non-private region covers, its mean side, and its size.

    A simultaneous t box for the side, Hotelling's ellipsoid for coverage and size.
    """
    rows = data.reshape(len(data), -1)
    n, d = rows.shape
    center, covariance = rows.mean(axis=0), np.atleast_2d(np.cov(rows.T))
    tail = 1 - LEVEL if case.alternative != "two-sided" else (1 - LEVEL ** (1 / d)) / 2
    sides = 2 * stats.t.isf(tail, n - 1) * np.sqrt(np.diag(covariance) / n)
    off = center - case.truth
    if case.alternative != "two-sided":
        sign = 1 if case.alternative == "greater" else -1
        return bool(sign * off[0] <= sides[0] / 2), float(sides[0]), float(sides[0])
    quantile = d * (n - 1) / (n - d) * stats.f.ppf(LEVEL, d, n - d)
    ball = math.sqrt(math.pi) / math.exp(gammaln(d / 2 + 1) / d)
    volume_root = ball * np.linalg.det(quantile * covariance / n) ** (1 / (2 * d))
    covered = off @ np.linalg.solve(covariance, off) * n < quantile
    return bool(covered), float(sides.mean()), float(volume_root)


def run_cell(study: str, name: str, n: int, mu: float, method: str, count: int) -> dict[str, Any]:
    """Run one cell; its data's seed doesn't depend on the method."""
    plan = STUDIES[study]()
    case = plan.cases[name]
    key = zlib.crc32(f"{study} {name} {n} {mu:g}".encode())
    rng, noise = np.random.default_rng([SEED, key]), np.random.default_rng([SEED, key, 1])
    compared = study != "moments"
    covered = gave_up = reference = 0
    sides, sizes, reference_sides, reference_sizes = [], [], [], []
    for _ in range(count):
        data = case.draw(rng, n)
        region = cdp.confidence_region(
            data,
            case.statistic,
            budget=cdp.GDP(mu),
            confidence_level=LEVEL,
            alternative=case.alternative,
            method=plan.methods[method],
            n_resamples=N_RESAMPLES,
            rng=noise,
        )
        covered += region.contains(case.truth)
        gave_up += "note" in region.public
        sides.append(mean_side(region, case.alternative))
        if compared:
            inside, side, reference_size = without_privacy(case, data)
            reference += inside
            reference_sides.append(side)
            reference_sizes.append(reference_size)
            one = case.alternative != "two-sided"
            sizes.append(sides[-1] if one else size(region))
    lower, upper = stats.binomtest(covered, count).proportion_ci(0.95, method="exact")
    return {
        "study": study,
        "population": name,
        "n": n,
        "mu": mu,
        "level": LEVEL,
        "method": method,
        "data_sets": count,
        "coverage": f"{covered / count:.4f}",
        "coverage_low": f"{lower:.4f}",
        "coverage_high": f"{upper:.4f}",
        "reference_coverage": f"{reference / count:.4f}" if compared else "",
        "width": f"{np.mean(sides):.6g}",
        "median_width": f"{np.median(sides):.6g}",
        "width_over_reference": (
            f"{np.mean(sides) / np.mean(reference_sides):.4f}" if compared else ""
        ),
        "size_over_reference": (
            f"{np.mean(sizes) / np.mean(reference_sizes):.4f}" if compared else ""
        ),
        "gave_up": f"{gave_up / count:.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "vectors_and_moments.py",
    }


def cells(
    studies: list[str], sizes: list[int], data_sets: int
) -> Iterator[tuple[str, str, int, float, str, int]]:
    """Yield every cell, with its number of data sets."""
    for study in studies:
        plan = STUDIES[study]()
        for name in plan.cases:
            for n in (size for size in plan.sizes if not sizes or size in sizes):
                for mu in plan.budgets:
                    for method in plan.methods:
                        count = data_sets // 6 if method.startswith("CR-GS") else data_sets
                        yield study, name, n, mu, method, count


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--n", nargs="+", type=int, default=[])
    parser.add_argument("--data-sets", type=int, default=300)
    options = parser.parse_args()
    columns = ("study", "population", "n", "mu", "method", "data_sets")
    done = finished(RESULTS, columns)
    for cell in cells(options.study, options.n, options.data_sets):
        if tuple(map(str, cell)) in done:
            continue
        row = run_cell(*cell)
        append(RESULTS, row)
        print(
            "{population:28} n={n:<5} mu={mu:<4} {method:16}: coverage {coverage}, width {width}, "
            "over non-private {width_over_reference} (size {size_over_reference})".format(**row),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
