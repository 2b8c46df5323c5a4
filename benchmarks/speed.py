"""How fast it is, each time beside a peer, or a plain way to do part of the same work::

    python benchmarks/speed.py [--only means medians competitors intervals regressions streams
                               billions imports] [--out FILE]

Writes speed.csv, or with `--only` prints and writes nothing unless told where. What counts are the
ratios: seconds say more of the machine than of the code. The two sides of a row take turns in one
process, so that other load meets both, and a ratio is that of their median processor times; imports
take turns as fresh processes. `make bench` allows linear algebra one thread, and installs the peers
that aren't our own: the row of a missing one says so.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.metadata import version
from itertools import count, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import local_calibration as paper
import numpy as np
import online
from comparison import PEERS, Comparison, installed, row_of
from numpy.typing import NDArray
from plain_blbquant import plain_blbquant
from scipy.special import expit

from confidp import CRGS, CRSS, GDP, BLBQuant, LogisticERM, Mean, Median, confidence_region
from confidp.central import grid
from confidp.central.methods.method import Request
from confidp.central.methods.rank_resampling import RankResamplingPlan, draw_ranks
from confidp.central.resampling import Resampling, Sampling, ready
from confidp.central.statistics import exact
from confidp.local.posterior import Posterior, start, update_many
from confidp.randomness import Randomness

RESULTS = Path(__file__).parent / "speed.csv"
LEVEL, N, B, MILLION = 0.9, 50_000, 500, 10**6
PEOPLE, PARTICLES, QUERIES, RUNS, SEED = 1000, 1000, 200, 12, 20261130
AS_EXACT = 100  # of our particles have about the error of 1000 of IBIS, at its best
WITH, WITHOUT = Sampling
PACKAGES = ("numpy", "scipy", "numba", "opendp")
Floats = NDArray[np.float64]


def drawn(x: Floats, m: int, sampling: Sampling, rng: np.random.Generator) -> list[Floats]:
    """Return B resamples as NumPy draws them fastest: at once, or one by one without replacement.

    As one block of shape (B, m), or B of shape (1, m).
    """
    if sampling is WITH:
        return [x[rng.integers(0, len(x), size=(B, m))]]
    choices = (rng.choice(len(x), size=m, replace=False, shuffle=False) for _ in range(B))
    return [x[None, indices] for indices in choices]


def on_drawn(
    each: Callable[[Floats], Any],
    x: Floats,
    m: int,
    sampling: Sampling,
    rng: np.random.Generator,
) -> list[Any]:
    """Return what `each` makes of NumPy's resamples."""
    return [each(block) for block in drawn(x, m, sampling, rng)]


def on_sets(
    pivots: Callable[..., Any], records: Any, resampling: Resampling, rng: np.random.Generator
) -> Any:
    """Return a plan's numbers before noise, on fresh index sets."""
    return pivots(records, resampling.sets(rng))


def by_rank(plan: RankResamplingPlan, records: Any, rng: np.random.Generator) -> Any:
    """Return the same for quantiles, whose resamples are drawn as ranks."""
    at = plan.statistic.ranks(plan.resampling.size)
    return plan.pivots(records, draw_ranks(plan.resampling, at, rng))


def means(rng: np.random.Generator) -> Iterator[Comparison]:
    """CR-GS's two numbers before noise, beside NumPy's B means alone."""
    x = rng.random(N)
    mean = Mean((0, 1)).for_shape(N, 1)
    records = mean.encode(x[:, None])
    for sampling, faster in ((WITH, 5), (WITHOUT, 8)):
        plan: Any = CRGS(sampling, calibration="published").plan(mean, Request(N, 1.0, LEVEL, B))
        m = plan.resampling.size
        yield Comparison(
            f"CR-GS mean, n = {N}, m = {m}, B = {B}, {sampling.replace('_', ' ')}",
            "NumPy that draws and averages as many resamples",
            1 / faster,
            partial(on_sets, plan.pivot, records, plan.resampling, rng),
            partial(on_drawn, partial(np.mean, axis=1), x, m, sampling, rng),
        )


def medians(rng: np.random.Generator) -> Iterator[Comparison]:
    """CR-SS's numbers before noise, smooth sensitivities included, beside NumPy's sorts alone."""
    x = rng.random(N)
    median = Median((0, 1)).for_shape(N, 1)
    records = median.encode(x[:, None])
    for sampling in (WITHOUT, WITH):
        for calibration in ("published", "noise-aware"):
            method = CRSS(sampling, calibration=calibration)
            plan: Any = method.plan(median, Request(N, 1.0, LEVEL, B, delta=1e-6))
            m = plan.resampling.size
            ours = (
                partial(on_sets, plan.pivot, records, plan.resampling, rng)
                if calibration == "published"
                else partial(by_rank, plan, records, rng)
            )
            yield Comparison(
                f"CR-SS median ({calibration}), n = {N}, m = {m}, B = {B}, "
                + sampling.replace("_", " "),
                "NumPy that draws and sorts as many resamples",
                1 / 3,
                ours,
                partial(on_drawn, partial(np.sort, axis=1), x, m, sampling, rng),
                5,
            )


def competitors(rng: np.random.Generator) -> Iterator[Comparison]:
    """Whole releases with the paper's settings, beside our BLBQuant's, and that beside a plain one.

    Data are uniform on [−1, 1] and μ = 8, as in its tables.
    """
    data = rng.uniform(-1, 1, N)
    blbquant = BLBQuant(inner_resamples=100, grid_step=1 / N)
    noise = Randomness.of(None)
    for name, statistic, method, faster in (
        ("mean", Mean((-1, 1)), CRGS, 30),
        ("median", Median((-1, 1)), CRSS, 300),
    ):
        one = statistic.for_shape(N, 1)
        records = one.encode(data[:, None])
        request = Request(N, 8.0, LEVEL, B, delta=1e-6)
        peer = blbquant.plan(one, request)
        other = partial(peer.release, records, noise)
        for sampling, calibration in (
            (WITH, "published"), (WITHOUT, "published"), (WITHOUT, "noise-aware")
        ):  # fmt: skip
            plan = method(sampling, calibration=calibration).plan(one, request)
            yield Comparison(
                f"{method.__name__.replace('CR', 'CR-')} {name} ({calibration}), n = {N}, "
                f"m = {plan.resampling.size}, B = {B}, mu = 8, {sampling.replace('_', ' ')}, "
                "released",
                f"our BLBQuant with {peer.blocks} blocks of 100 resamples, released",
                1 / faster,
                partial(plan.release, records, noise),
                other,
                5,
            )
        plain = partial(
            plain_blbquant, data, name == "median", peer.search.epsilon, LEVEL, 100, 1 / N, rng
        )
        yield Comparison(
            f"BLBQuant {name}, n = {N}, {peer.blocks} blocks of 100 resamples, released",
            "the same in plain NumPy",
            1.5,
            other,
            plain,
            5,
        )


def by_numpy(run: Callable[[], Any]) -> Any:
    """Run as in a process in which nothing has loaded the compiled loops."""
    with (
        patch.object(grid, "if_loaded", return_value=None),
        patch.object(exact, "if_loaded", return_value=None),
    ):
        return run()


def intervals(rng: np.random.Generator) -> Iterator[Comparison]:
    """Default intervals from arrays, grid and noise included.

    A mean's doesn't load the compiled loops, and is quicker where something else has.
    """
    x = rng.random(MILLION)
    of_median, of_mean = (
        partial(confidence_region, x, statistic, budget=GDP(1.0), confidence_level=LEVEL)
        for statistic in (Median((0, 1)), Mean((0, 1)))
    )
    work = "default 90% interval of a {}, n = " + str(MILLION)
    sort = partial(np.sort, x)
    ready(MILLION)
    yield Comparison(work.format("median"), "np.sort of the data", 2.5, of_median, sort)
    yield Comparison(work.format("mean"), "x.sum()", 10, of_mean, x.sum)
    plain = partial(by_numpy, of_mean)
    yield Comparison(f"{work.format('mean')}, loops not loaded", "x.sum()", 30, plain, x.sum)


def regressions(rng: np.random.Generator) -> Iterator[Comparison]:
    """All refits on half-samples, beside one plain fit to the same gradient."""
    n, d, fits, ridge = 20_000, 10, 300, 0.05
    features = rng.normal(size=(n, d)) / math.sqrt(2 * d)
    outcome = rng.random(n) < expit(features @ np.full(d, 1.0))
    statistic = LogisticERM(ridge, intercept=False).for_shape(n, d + 1)
    records = statistic.encode(np.column_stack([features, outcome]))
    plan: Any = CRGS().plan(statistic, Request(n, 1.0, LEVEL, fits))
    tolerance = 2.0**-12 * statistic.lipschitz / n
    z, o = np.ascontiguousarray(records[:, :-1]), records[:, -1]

    def scikit_learn() -> Any:
        models = importlib.import_module("sklearn.linear_model")
        # Its loss is C·n/ridge times ours, whose gradient it divides by n; its tolerance is for the
        # largest component of that.
        fit = models.LogisticRegression(
            C=1 / (n * ridge), tol=tolerance / math.sqrt(d), fit_intercept=False
        )
        return fit.fit(z, o)

    yield Comparison(
        f"ridge logistic regression, n = {n}, d = {d}, B = {fits}, m = {plan.resampling.size}",
        "one scikit-learn fit to the same tolerance",
        60,
        partial(on_sets, plan.pivots, records, plan.resampling, rng),
        scikit_learn,
        5,
        needs="sklearn",
    )


def ours(reports: list[online.Report], particles: int, seeds: Iterator[int]) -> online.Moments:
    """Run our sampler with the next seed."""
    return online.moments_of_ours(online.by_confidp(reports, particles, next(seeds)))


def ibis(model: Callable[[], Any], kind: str, seeds: Iterator[int]) -> online.Moments:
    """Run that of `particles`."""
    return online.moments_of_ibis(online.by_ibis(model(), PARTICLES, kind, next(seeds)))


def streams(_: np.random.Generator) -> Iterator[Comparison]:
    """One report at a time, each to a query of its own, beside `particles` on the same reports."""
    for name, epsilon in (("response", 1.0), ("truncated-laplace A", 5.0)):
        reports = online.stream_reports(name, epsilon, PEOPLE, SEED)
        posterior = online.by_confidp(reports, PARTICLES, SEED)
        model = cache(partial(online.model, reports))
        for kind, particles in product(online.IBIS, (PARTICLES, AS_EXACT)):
            mine, theirs = count(1), count(1)  # a seed for each run
            yield Comparison(
                f"online posterior, {name}, epsilon = {epsilon:g}, {PEOPLE} reports one by one to "
                f"{len(posterior.counts)} queries, {particles} particles",
                f"IBIS of particles, {kind}; same reports and likelihood, {PARTICLES} particles",
                1 / 8,
                partial(ours, reports, particles, mine),
                partial(ibis, model, kind, theirs),
                RUNS,
                partial(online.errors, online.exact(posterior)),
                "particles",
            )


def billions(rng: np.random.Generator) -> Iterator[Comparison]:
    """A billion reports at once as counts of 200 queries, beside seconds and beside a million."""
    for name, epsilon in product(("response", "truncated-laplace A"), (1.0, 5.0)):
        mechanism = paper.STUDIES[name].mechanism(epsilon)

        def posterior(counts: Any) -> Posterior:
            return update_many(start(paper.POPULATION, PARTICLES, rng), counts, rng)

        many, few = (
            partial(posterior, online.pooled(mechanism, reports, QUERIES, rng))
            for reports in (10**9, 10**6)
        )
        work = (
            f"posterior of 10^9 reports in counts over {QUERIES} queries, {name}, "
            f"epsilon = {epsilon:g}, {PARTICLES} particles"
        )
        yield Comparison(work, "5 seconds", 1, many, 5.0, 3)
        yield Comparison(work, "the same with 10^6 reports", 2, many, few, 3)


def imports(_: np.random.Generator) -> Iterator[Comparison]:
    """Fresh processes, a bare Python's start included."""

    def run(*arguments: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    numpy = run("-c", "import numpy")
    for work, ours in (
        ("import confidp", run("-c", "import confidp")),
        ("confidp --help", run("-c", "from confidp.cli.main import main; main()", "--help")),
    ):
        yield Comparison(work, "import numpy", 2, ours, numpy)


PARTS: dict[str, Callable[[np.random.Generator], Iterator[Comparison]]] = {
    "means": means,
    "medians": medians,
    "competitors": competitors,
    "intervals": intervals,
    "regressions": regressions,
    "streams": streams,
    "billions": billions,
    "imports": imports,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparisons and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=[])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    packages = (*PACKAGES, *(package for module, package in PEERS.items() if installed(module)))
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    made_with = f"Python {platform.python_version()}, {versions}"
    rows: list[dict[str, Any]] = []
    for part in given.only or PARTS:
        for comparison in PARTS[part](np.random.default_rng(SEED)):
            rows.append(row := row_of(comparison, made_with))
            print(
                "{time_ratio:>8}  (at most {target_at_most})  {work}; {beside}  {note}".format(
                    **row
                ),
                flush=True,
            )
    if results := given.out or (None if given.only else RESULTS):
        with results.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
