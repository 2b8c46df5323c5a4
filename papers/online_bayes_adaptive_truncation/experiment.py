"""The paper's experiment: X ~ N(50, 10), n = 1000, ε ∈ {1, 2, 5, 10}, six methods, 30 runs.

::

    python papers/online_bayes_adaptive_truncation/experiment.py [--runs 30] [--dear-runs 4]
    python papers/online_bayes_adaptive_truncation/experiment.py --quick --out /tmp/quick

Each finished run is appended to estimates.csv with its seed, versions and command; runs that are
there already are skipped, so that a stopped run goes on where it was. Run 0 of the latent samplers
also writes what Figures 1 and 2 show. `figures.py` draws. A run's people are the same for all
methods. Everything is simulated: nothing here is private data.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

import confidp
from confidp.local import Query, Report
from confidp.local.collector import Collector
from confidp.local.continuous import TruncatedLaplaceDensity, best_interval
from confidp.local.population import Normal
from confidp.local.published.adaptive import Choice, Step, fixed, learn, scaled
from confidp.local.published.marginal import MarginalSMC, log_likelihood
from confidp.local.published.mhaar import mhaar
from confidp.local.published.model import Reports, normal
from confidp.local.published.smc import LatentSMC

Array = NDArray[np.float64]
HERE = Path(__file__).parent

SEED = 20230119
MU, SIGMA = 50.0, 10.0**0.5
THETA = np.array([MU, SIGMA])
EPSILONS = (1.0, 2.0, 5.0, 10.0)
WIDE = (MU - 10 * SIGMA, MU + 10 * SIGMA)  # the non-adaptive interval
EXACT_PARTICLES = 500  # their Monte Carlo error is 5% of a posterior standard deviation
FIGURE_1 = 5.0  # whose ε it is
SNAPSHOT, SHOWN = 20, 60  # Figure 2: every 20th step, and how many particles of each


@dataclass(frozen=True)
class Size:
    """How large the experiment is: the paper's, or the quick one."""

    people: int = 1000
    particles: int = 1000
    iterations: int = 100_000


QUICK = Size(people=120, particles=200, iterations=4000)


@dataclass(frozen=True)
class Estimate:
    """What one run gave: posterior means, and deviations where the method has them.

    What is exact is the posterior given the same reports, by quadrature.
    """

    mean: Array
    sd: Array
    exact_mean: Array | None = None
    exact_sd: Array | None = None
    course: list[dict[str, object]] | None = None


def people(run: int, size: Size) -> Array:
    """Return the values of a run's people."""
    return np.random.default_rng([SEED, run]).normal(MU, SIGMA, size.people)


@cache
def adaptive_choice(epsilon: float) -> Choice:
    """Return the paper's rule: the interval with the most F₁₁, moved to θ."""
    return scaled(*best_interval(epsilon))


def exact_adaptive(values: Array, epsilon: float, _: Size, rng: np.random.Generator) -> Estimate:
    """The paper's adaptive queries, with the exact likelihood."""
    return _exact(values, epsilon, adaptive_choice(epsilon), rng)


def exact_wide(values: Array, epsilon: float, _: Size, rng: np.random.Generator) -> Estimate:
    """The paper's non-adaptive queries, with the exact likelihood."""
    return _exact(values, epsilon, fixed(*WIDE), rng)


def _exact(
    values: Array,
    epsilon: float,
    choose: Choice,
    rng: np.random.Generator,
) -> Estimate:
    sampler = MarginalSMC(n_particles=EXACT_PARTICLES)
    for step in learn(values, epsilon, choose, sampler, rng):
        last = step.state
    assert last.reports is not None
    middle = last.weights @ last.z
    spread = np.sqrt(last.weights @ (last.z - middle) ** 2)
    sd = np.sqrt(last.weights @ (last.theta - last.mean) ** 2)
    return Estimate(last.mean, sd, *quadrature(last.reports, middle, spread))


def smc_adaptive(values: Array, epsilon: float, size: Size, rng: np.random.Generator) -> Estimate:
    """SMC-adaptive as published."""
    return _latent(values, epsilon, adaptive_choice(epsilon), size, rng)


def smc_wide(values: Array, epsilon: float, size: Size, rng: np.random.Generator) -> Estimate:
    """SMC-non-adaptive as published."""
    return _latent(values, epsilon, fixed(*WIDE), size, rng)


def _latent(
    values: Array,
    epsilon: float,
    choose: Choice,
    size: Size,
    rng: np.random.Generator,
) -> Estimate:
    sampler = LatentSMC(normal(), n_particles=size.particles)
    course = []
    for t, step in enumerate(learn(values, epsilon, choose, sampler, rng), start=1):
        course.append(_course(t, epsilon, step))
    state = step.state
    assert state.reports is not None
    exact = _exact_from(state.reports, rng)
    return Estimate(state.mean, state.theta.std(axis=0), *exact, course)


def _course(t: int, epsilon: float, step: Step[Any]) -> dict[str, object]:
    """Return one step of a run: what was asked, what came, what is believed."""
    theta, report = step.state.theta, step.report
    low, high = np.quantile(theta, [0.025, 0.975], axis=0)
    shown = theta[:: max(1, len(theta) // SHOWN)] if t % SNAPSHOT == 0 else theta[:0]

    def both(name: str, values: Array) -> dict[str, object]:
        return {f"mu_{name}": f"{values[0]:.5g}", f"sigma_{name}": f"{values[1]:.5g}"}

    return {
        "epsilon": epsilon,
        "t": t,
        "low": f"{report.low[0]:.5g}",
        "high": f"{report.high[0]:.5g}",
        "report": f"{report.values[0]:.5g}",
        **both("mean", step.state.mean),
        **both("2.5%", low),
        **both("97.5%", high),
        "mu_particles": " ".join(f"{value:.4g}" for value in shown[:, 0]),
        "sigma_particles": " ".join(f"{value:.4g}" for value in shown[:, 1]),
    }


def batch_mcmc(values: Array, epsilon: float, size: Size, rng: np.random.Generator) -> Estimate:
    """MHAAR on reports to the non-adaptive query, as published."""
    sent = TruncatedLaplaceDensity(*WIDE, epsilon).sample(values, rng)
    reports = Reports.of(sent, *WIDE, epsilon)
    chain = mhaar(normal(), reports, rng, n_iterations=size.iterations)
    kept = chain.theta[-(size.iterations // 5) :]
    return Estimate(chain.mean, kept.std(axis=0), *_exact_from(reports, rng))


def response(values: Array, epsilon: float, size: Size, rng: np.random.Generator) -> Estimate:
    """Our default: adaptive randomised response through a collector."""
    seed = int(rng.integers(2**31))
    collector = Collector(Normal(), epsilon=epsilon, n_particles=size.particles, rng=seed)
    for number, x in enumerate(values):
        query = collector.query()
        collector.add(seeded_report(query, float(x), number, rng))
    return Estimate(collector.posterior.mean, collector.posterior.sd)


def seeded_report(query: Query, x: float, number: int, rng: np.random.Generator) -> Report:
    """Return what `query.privatize(x)` may return, but seeded: runs can be repeated."""
    sums = list(accumulate(query.channel.weights[query.cell(x)]))
    answer = bisect_right(sums, int(rng.integers(sums[-1])))
    return Report(query.id, answer, f"{number:032x}")


def _exact_from(reports: Reports, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the exact posterior given reports that another sampler's queries had."""
    sampler = MarginalSMC(n_particles=EXACT_PARTICLES)
    state = sampler.start(rng)
    for t in range(len(reports)):
        state = sampler.update(state, reports[slice(t, t + 1)], rng)
    mean = state.weights @ state.z
    return quadrature(reports, mean, np.sqrt(state.weights @ (state.z - mean) ** 2))


def quadrature(
    reports: Reports, middle: Array, spread: Array, points: int = 24, width: float = 7.0
) -> tuple[Array, Array]:
    """Return the exact posterior mean and deviation, on a grid of (μ, log σ) around `middle`.

    Twice the points, or a width of 9, changed means by 0.005 posterior deviations at most.
    """
    population = normal().population
    axes = [
        np.linspace(m - width * s, m + width * s, points)
        for m, s in zip(middle, spread, strict=True)
    ]
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    theta = population.natural(mesh)
    logs = log_likelihood(theta, reports) + population.log_prior(mesh)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


Method = Callable[[Array, float, Size, np.random.Generator], Estimate]
CHEAP: dict[str, Method] = {
    "response": response,
    "exact_adaptive": exact_adaptive,
    "exact_wide": exact_wide,
}
DEAR: dict[str, Method] = {
    "smc_adaptive": smc_adaptive,
    "smc_wide": smc_wide,
    "batch_mcmc": batch_mcmc,
}


def plan(runs: int, dear_runs: int) -> Iterator[tuple[str, float, int]]:
    """Yield (method, ε, run): a few cheap runs, one dear run of each cell, then the rest."""
    for methods, count in ((CHEAP, min(4, runs)), (DEAR, min(1, dear_runs)), (CHEAP, runs)):
        yield from ((m, e, run) for run in range(count) for m in methods for e in EPSILONS)
    yield from ((m, e, run) for run in range(dear_runs) for m in DEAR for e in EPSILONS)


def done(path: Path) -> set[tuple[str, float, int]]:
    """Return the runs that are in the results already."""
    if not path.exists():
        return set()
    with path.open() as lines:
        return {
            (row["method"], float(row["epsilon"]), int(row["run"])) for row in csv.DictReader(lines)
        }


def append(path: Path, rows: list[dict[str, object]]) -> None:
    """Append rows to a CSV file, with a header where it is new."""
    new = not path.exists()
    with path.open("a", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def run_one(method: str, epsilon: float, run: int, size: Size) -> tuple[Estimate, float]:
    """Return a run's estimate and its seconds. Its seed is its own, so runs come in any order."""
    seed = [SEED, run, zlib.crc32(f"{method} {epsilon:g}".encode())]
    # The dear methods draw some 10⁹ numbers, a fifth faster by SFC64.
    rng = np.random.Generator(np.random.SFC64(seed) if method in DEAR else np.random.PCG64(seed))
    started = time.perf_counter()
    estimate = {**CHEAP, **DEAR}[method](people(run, size), epsilon, size, rng)
    return estimate, time.perf_counter() - started


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing and append it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30, help="of the exact methods and ours")
    parser.add_argument("--dear-runs", type=int, default=4, help="of latent SMC and MHAAR")
    parser.add_argument("--iterations", type=int, default=Size().iterations, help="of MHAAR")
    parser.add_argument("--quick", action="store_true", help="one small run of each, in a minute")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the results")
    chosen = parser.parse_args(arguments)
    size = QUICK if chosen.quick else Size(iterations=chosen.iterations)
    runs, dear_runs = (1, 1) if chosen.quick else (chosen.runs, chosen.dear_runs)
    if chosen.quick and chosen.out == HERE:
        parser.error("--quick must have another --out: its runs are no results")
    results = chosen.out / "estimates.csv"
    for method, epsilon, run in plan(runs, dear_runs):
        if (method, epsilon, run) in done(results):
            continue
        estimate, seconds = run_one(method, epsilon, run, size)
        if run == 0 and estimate.course is not None:
            append(chosen.out / f"course_{method}.csv", drawn(method, epsilon, estimate.course))
        append(results, [row(method, epsilon, run, size, estimate, seconds)])
        if sys.stderr.isatty():
            print(
                f"{method:15} ε={epsilon:<3g} run {run:<3} mean {estimate.mean} {seconds:.1f} s",
                file=sys.stderr,
            )


def drawn(method: str, epsilon: float, course: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return what the figures show of a course: every 20th step, and all of Figure 1's run."""
    every = 1 if (method, epsilon) == ("smc_adaptive", FIGURE_1) else SNAPSHOT
    return course[every - 1 :: every]


def row(
    method: str, epsilon: float, run: int, size: Size, estimate: Estimate, seconds: float
) -> dict[str, object]:
    """Return a line of estimates.csv."""

    def two(name: str, values: Array | None) -> dict[str, object]:
        given = ("", "") if values is None else tuple(f"{value:.6g}" for value in values)
        return {f"mu_{name}": given[0], f"sigma_{name}": given[1]}

    return {
        "method": method,
        "epsilon": f"{epsilon:g}",
        "run": run,
        "people": size.people,
        **two("mean", estimate.mean),
        **two("sd", estimate.sd),
        **two("exact_mean", estimate.exact_mean),
        **two("exact_sd", estimate.exact_sd),
        "seconds": f"{seconds:.1f}",
        "seed": SEED,
        "versions": f"confidp {confidp.__version__}; numpy {np.__version__}; "
        f"scipy {scipy.__version__}",
        "command": f"experiment.py --iterations {size.iterations}",
    }


if __name__ == "__main__":
    main()
