"""The coverage atlas: does an interval cover what it says, and how wide is it?

Every cell is a statistic, a population, n, μ, a level and a method: the default one, and resampling
noise-aware and as published. Beside private coverage and width stand those of the non-private
interval on the same data (Student's t for means, with the jackknife's variance for U-statistics;
order statistics for quantiles) and, but for quantiles, the floor 2z√(σ²/n + (R/(nμ))²) that no
Gaussian-noised estimate can go under (2R for R and 2√ζ₁ for σ for a kernel of two)::

    python benchmarks/coverage_atlas.py [--statistic mean quantile] [--population NAME …]
                                        [--method "private variance" …]
                                        [--n 100 200 …] [--mu 0.1 …] [--level 0.9 0.95]
                                        [--data-sets 2000] [--out FILE]

What a cell lacks is run and appended to coverage_atlas.csv, so a run that was stopped goes on, and
one for more data sets adds to those that are there; `cells` pools a cell's rows. Noise is seeded:
nothing here is private data. `atlas_page.py` draws it.
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
from rows import append
from scipy import stats

import confidp as cdp
from confidp.io.files import read_column

HERE = Path(__file__).parent
RESULTS = HERE / "coverage_atlas.csv"
EARNINGS = HERE.parent / "examples" / "data" / "cps_earnings.csv"
SEED = 20261130
SIZES = (100, 200, 500, 2000, 10_000, 50_000)
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0, 8.0)
Draw = Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Population:
    """What data are drawn from, with public bounds; what is estimated, and its true value."""

    draw: Draw
    bounds: tuple[float, float]
    truth: float
    sd: float = math.nan  # of what a mean is like: σ, 2√ζ₁ for a kernel of two
    q: float = math.nan  # for quantiles
    estimand: Any = None  # for others
    swing: float = math.nan  # n times what one record moves it by; by default the bounds' range

    def statistic(self) -> Any:
        """Return what is estimated."""
        if self.estimand is not None:
            return self.estimand
        if math.isnan(self.q):
            return cdp.Mean(self.bounds)
        return cdp.Quantile(self.q, self.bounds)


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


def two_clusters(share: float) -> Draw:
    """Return two tight clusters with F(gap) = `share`."""
    return lambda r, n: np.where(r.random(n) < share, 0.2, 0.8) + 1e-3 * r.random(n)


def cluster_median(share: float) -> float:
    """Return the median of two tight clusters."""
    return 0.2 + 1e-3 * 0.5 / share if share > 0.5 else 0.8 + 1e-3 * (0.5 - share) / (1 - share)


def atom_at_zero(r: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Draw 0 with probability 0.505, and else uniformly from 0 to 77."""
    return np.where(r.random(n) < 0.505, 0.0, 77 * r.random(n))


def lognormal(r: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Draw min(exp(Z), 20)."""
    return np.minimum(np.exp(r.standard_normal(n)), 20)


def drawn_earnings(r: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Draw from the shipped table with replacement."""
    return r.choice(earnings(), n)


def means() -> dict[str, Population]:
    """Return the populations whose mean is estimated."""
    mean, sd = clipped_lognormal()
    shipped = earnings()
    return {
        "uniform": Population(lambda r, n: r.random(n), (0, 1), 0.5, 1 / math.sqrt(12)),
        "bernoulli 0.05": Population(
            lambda r, n: (r.random(n) < 0.05) * 1.0, (0, 1), 0.05, math.sqrt(0.05 * 0.95)
        ),
        "bernoulli 0.5": Population(lambda r, n: (r.random(n) < 0.5) * 1.0, (0, 1), 0.5, 0.5),
        "lognormal to 20": Population(lognormal, (0, 20), mean, sd),
        "beta(0.5, 0.5)": Population(
            lambda r, n: r.beta(0.5, 0.5, n), (0, 1), 0.5, math.sqrt(1 / 8)
        ),
        "earnings": Population(
            drawn_earnings, (0, 30_000), float(shipped.mean()), float(shipped.std())
        ),
    }


def quantiles() -> dict[str, Population]:
    """Return the populations whose quantile is estimated, the hard ones included."""
    ordered = np.sort(earnings())
    uniform = {
        f"uniform, q = {q}": Population(lambda r, n: r.random(n), (0, 1), q, q=q)
        for q in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    }
    clusters = {
        f"clusters, F(gap) = {share}": Population(
            two_clusters(share), (0, 1), cluster_median(share), q=0.5
        )
        for share in (0.499, 0.501, 0.51, 0.52)
    }
    return {
        **uniform,
        **clusters,
        "lognormal to 20, q = 0.5": Population(lognormal, (0, 20), 1.0, q=0.5),
        "lognormal to 20, q = 0.9": Population(
            lognormal, (0, 20), math.exp(float(stats.norm.ppf(0.9))), q=0.9
        ),
        "beta(0.5, 0.5), q = 0.5": Population(lambda r, n: r.beta(0.5, 0.5, n), (0, 1), 0.5, q=0.5),
        "earnings, q = 0.5": Population(
            drawn_earnings, (0, 30_000), float(ordered[math.ceil(0.5 * len(ordered)) - 1]), q=0.5
        ),
        "earnings, q = 0.9, top code": Population(
            drawn_earnings, (0, 30_000), float(ordered[math.ceil(0.9 * len(ordered)) - 1]), q=0.9
        ),
        "atom of 0.505 at 0": Population(atom_at_zero, (0, 77), 0.0, q=0.5),
        **{
            f"bounds 1000 times too wide, q = {q}": Population(
                lambda r, n: r.random(n), (-500, 500), q, q=q
            )
            for q in (0.5, 0.9)
        },
    }


def correlated(r: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Draw pairs with uniform margins and a normal copula of correlation 1/2."""
    x = r.standard_normal((n, 2))
    x[:, 1] = (x[:, 0] + math.sqrt(3) * x[:, 1]) / 2
    return np.asarray(stats.norm.cdf(x))


@cache
def earnings_differences() -> tuple[float, float]:
    """Return the mean difference of the shipped earnings, and 2√ζ₁ of its kernel."""
    shipped = earnings()
    projection = np.array([np.abs(shipped - x).mean() for x in shipped])
    return float(projection.mean()), float(2 * projection.std())


def u_statistics() -> dict[str, Population]:
    """Return populations with a kernel of two people.

    With h₁(x) = E h(x, X): x² − x + ½ for Gini's; min(0.6 + x, 1) for Wilcoxon's; for Kendall's
    var h₁ = 1/9 − (2/π·arcsin(ρ/2))², ρ = 1/2 (Esscher, 1924).
    """
    unit, wages = (0.0, 1.0), (0.0, 30_000.0)
    mean_difference, sd = earnings_differences()
    return {
        "Gini's mean difference, uniform": Population(
            lambda r, n: r.random(n), unit, 1 / 3, 2 * math.sqrt(1 / 180),
            estimand=cdp.GiniMeanDifference(unit), swing=2,
        ),
        "Gini's mean difference, earnings": Population(
            drawn_earnings, wages, mean_difference, sd,
            estimand=cdp.GiniMeanDifference(wages), swing=60_000,
        ),
        "Wilcoxon's, uniform - 0.4": Population(
            lambda r, n: r.random(n) - 0.4, (-1, 1), 0.68,
            2 * math.sqrt((1 - 0.2**3) / 3 + 0.2 - 0.68**2),
            estimand=cdp.WilcoxonSignedRank((-1, 1)), swing=2,
        ),
        "Kendall's tau, normal copula": Population(
            correlated, unit, 1 / 3, 2 * math.sqrt(1 / 9 - (2 / math.pi * math.asin(1 / 4)) ** 2),
            estimand=cdp.KendallTau(unit), swing=4,
        ),
    }  # fmt: skip


STUDIES = {"mean": means, "quantile": quantiles, "u-statistic": u_statistics}
_CR_GS = {
    "CR-GS, noise-aware": cdp.CRGS(),
    "CR-GS, published": cdp.CRGS(calibration="published"),
}
METHODS: dict[str, dict[str, Any]] = {  # the default one first
    "mean": {"private variance": cdp.PrivateVariance(), **_CR_GS},
    "quantile": {
        "rank inversion": cdp.RankInversion(),
        "CR-SS, noise-aware": cdp.CRSS(),
        "CR-SS, published": cdp.CRSS(calibration="published"),
    },
    "u-statistic": {"private variance": cdp.PrivateVariance(), **_CR_GS},
}
DELTA = 1e-6  # for methods that need one
RESAMPLES = 300  # where a method takes any


@cache
def order_statistics(n: int, q: float, miss: float) -> tuple[int, int]:
    """Return how many order statistics to leave out at either end of a quantile's interval."""
    return int(stats.binom.ppf(miss, n, q)), int(stats.binom.ppf(miss, n, 1 - q))


def without_privacy(
    population: Population, data: NDArray[np.floating[Any]], level: float
) -> tuple[float, float]:
    """Return the non-private interval on the same data."""
    n, miss = len(data), (1 - level) / 2
    if population.estimand is not None:
        statistic = population.estimand.for_shape(n, data.ndim)
        value, variance = statistic.jackknife(statistic.encode(data.reshape(n, -1)))
        center = float(value + statistic.origin[0])
        t = stats.t.isf(miss, n - 1) * math.sqrt(variance / n)
        return center - t, center + t
    if math.isnan(population.q):
        t = stats.t.isf(miss, n - 1) * data.std(ddof=1) / math.sqrt(n)
        return float(data.mean() - t), float(data.mean() + t)
    below, above = order_statistics(n, population.q, miss)
    ordered = np.partition(data, [max(below - 1, 0), min(n - above, n - 1)])
    low = ordered[below - 1] if below else population.bounds[0]
    high = ordered[n - above] if above else population.bounds[1]
    return float(low), float(high)


def run_cell(
    statistic: str,
    name: str,
    n: int,
    mu: float,
    level: float,
    method: str,
    data_sets: int,
    before: int = 0,
) -> dict[str, Any]:
    """Run data sets of one cell, `before` of which there are already; the seed is their own."""
    population = STUDIES[statistic]()[name]
    key = zlib.crc32(f"{name} {n} {mu:g} {level:g} {method}".encode())
    rng = np.random.default_rng([SEED, key, before] if before else [SEED, key])
    chosen = METHODS[statistic][method]
    budget = cdp.GDP(mu, DELTA if chosen.uses_delta else 0.0)
    covered = reference_covered = 0
    width = reference_width = 0.0
    for _ in range(data_sets):
        data = population.draw(rng, n)
        region = cdp.confidence_region(
            data,
            population.statistic(),
            budget=budget,
            confidence_level=level,
            method=chosen,
            n_resamples=RESAMPLES,
            rng=rng,
        )
        low, high = without_privacy(population, data, level)
        covered += region.contains(population.truth)
        reference_covered += low <= population.truth <= high
        width += 2 * region.radius / data_sets
        reference_width += (high - low) / data_sets
    low, high = population.bounds
    noise = (high - low if math.isnan(population.swing) else population.swing) / (n * mu)
    floor = 2 * stats.norm.isf((1 - level) / 2) * math.hypot(population.sd / math.sqrt(n), noise)
    return {
        "statistic": statistic,
        "population": name,
        "n": n,
        "mu": mu,
        "level": level,
        "method": method,
        "data_sets": data_sets,
        "coverage": f"{covered / data_sets:.4f}",
        **bounds(covered, data_sets),
        "reference_coverage": f"{reference_covered / data_sets:.4f}",
        "width_over_reference": f"{width / reference_width:.4f}" if reference_width else "",
        "width_over_floor": "" if math.isnan(floor) else f"{width / floor:.4f}",
        "seed": SEED,
        "versions": f"confidp {cdp.__version__}; numpy {np.__version__}",
        "command": "coverage_atlas.py",
    }


COLUMNS = ("statistic", "population", "n", "mu", "level", "method")
POOLED = ("coverage", "reference_coverage", "width_over_reference", "width_over_floor")
Row = dict[str, str]


def cells(results: Path) -> dict[tuple[str, ...], Row]:
    """Return one row for each cell: rows of more data sets of it are averaged."""
    found: dict[tuple[str, ...], Row] = {}
    if not results.exists():
        return found
    with results.open() as lines:
        for row in csv.DictReader(lines):
            key = tuple(row[column] for column in COLUMNS)
            if key in found:
                old = found[key]
                n, more = int(old["data_sets"]), int(row["data_sets"])
                for name in POOLED:
                    if row[name] and old[name]:
                        mean = (n * float(old[name]) + more * float(row[name])) / (n + more)
                        row[name] = f"{mean:.4f}"
                row["data_sets"] = str(n + more)
                row |= bounds(round(float(row["coverage"]) * (n + more)), n + more)
            found[key] = row
    return found


def bounds(covered: int, data_sets: int) -> Row:
    """Return the 95% Clopper-Pearson interval of a coverage."""
    low, high = stats.binomtest(covered, data_sets).proportion_ci(0.95, method="exact")
    return {"coverage_low": f"{low:.4f}", "coverage_high": f"{high:.4f}"}


def data_sets(statistic: str, n: int, method: str) -> int:
    """Return how many data sets a cell needs: fewer where a run takes over 10 ms."""
    if method != next(iter(METHODS[statistic])):
        return 300 if n <= 10_000 else 100
    return 2000 if statistic != "quantile" or n <= 10_000 else 1000


def main() -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statistic", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--population", nargs="+", help="some by name; by default, all")
    parser.add_argument("--method", nargs="+", help="some by name; by default, all at level 0.9")
    parser.add_argument("--n", nargs="+", type=int, default=SIZES)
    parser.add_argument("--mu", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--level", nargs="+", type=float, default=[0.9, 0.95])
    parser.add_argument("--data-sets", type=int, help="by default it depends on the cell")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    for level, statistic in product(options.level, options.statistic):
        done = {key: int(row["data_sets"]) for key, row in cells(options.out).items()}
        names = [x for x in STUDIES[statistic]() if x in (options.population or [x])]
        default, *others = METHODS[statistic]
        methods = [default, *(others if level == 0.9 or options.method else [])]
        methods = [x for x in methods if x in (options.method or [x])]
        for method, name, n, mu in product(methods, names, options.n, options.mu):
            before = done.get(tuple(map(str, (statistic, name, n, mu, level, method))), 0)
            missing = (options.data_sets or data_sets(statistic, n, method)) - before
            if missing <= 0:
                continue
            what = f"{name:36} n={n:<5} mu={mu:<5} level={level} {method}"
            try:
                row = run_cell(statistic, name, n, mu, level, method, missing, before)
            except cdp.errors.InvalidArgument as error:  # public: before any data are read
                print(f"{what}: none, {error}", file=sys.stderr)
                continue
            append(options.out, row)
            print(
                "{}: coverage {coverage} (non-private {reference_coverage}), width over it "
                "{width_over_reference}".format(what, **row),
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
