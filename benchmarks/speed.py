"""How fast the central half is, each time beside a plain way to do part of the same work::

    python benchmarks/speed.py

Writes speed.csv: ratios only, since seconds say more of the machine than of the code. The two sides
of a row take turns in one process, so that other load meets both, and a ratio is that of their
median processor times; imports take turns as fresh processes. `make bench` allows linear algebra
one thread.
"""

from __future__ import annotations

import csv
import math
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from confidp import CRGS, CRSS, GDP, LogisticERM, Mean, Median, confidence_region
from confidp.central import grid
from confidp.central.methods import private_covariance
from confidp.central.methods.method import Request
from confidp.central.resampling import Resampling, Sampling, ready

RESULTS = Path(__file__).parent / "speed.csv"
LEVEL, N, B, MILLION = 0.9, 50_000, 500, 10**6
WITH, WITHOUT = Sampling
PACKAGES = ("numpy", "scipy", "numba", "opendp")
Floats = NDArray[np.float64]


def clock() -> float:
    """Return the processor time of this process and its children, which waiting doesn't add to."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Comparison:
    """What is timed, and how many times the other side's time it may take: its target."""

    work: str
    beside: str
    most: float
    ours: Callable[[], Any]
    other: Callable[[], Any]
    repeats: int = 21

    def ratio(self) -> float:
        """Return our median time over the other's, after one untimed run of each."""
        sides = (self.ours, self.other)
        times: tuple[list[float], list[float]] = ([], [])
        for side in sides:
            side()
        for _ in range(self.repeats):
            for side, taken in zip(sides, times, strict=True):
                start = clock()
                side()
                taken.append(clock() - start)
        return float(np.median(times[0]) / np.median(times[1]))


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
            pivots = plan.pivot if calibration == "published" else plan.pivots
            yield Comparison(
                f"CR-SS median ({calibration}), n = {N}, m = {m}, B = {B}, "
                + sampling.replace("_", " "),
                "NumPy that draws and sorts as many resamples",
                1 / 3,
                partial(on_sets, pivots, records, plan.resampling, rng),
                partial(on_drawn, partial(np.sort, axis=1), x, m, sampling, rng),
                5,
            )


def by_numpy(run: Callable[[], Any]) -> Any:
    """Run as in a process in which nothing has loaded the compiled loops."""
    with (
        patch.object(grid, "if_loaded", return_value=None),
        patch.object(private_covariance, "if_loaded", return_value=None),
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
    z, o = records[:, :-1], records[:, -1]

    def newton() -> Floats:
        y: Floats = np.zeros(d)
        while True:
            wrong = expit(-o * (z @ y))
            gradient = -(o * wrong) @ z / n + ridge * y
            if np.linalg.norm(gradient) <= tolerance:
                return y
            hessian = (z * (wrong * (1 - wrong))[:, None]).T @ z / n + ridge * np.eye(d)
            y = y - np.linalg.solve(hessian, gradient)

    yield Comparison(
        f"ridge logistic regression, n = {n}, d = {d}, B = {fits}, m = {plan.resampling.size}",
        "one Newton fit to the same tolerance",
        60,
        partial(on_sets, plan.pivots, records, plan.resampling, rng),
        newton,
        5,
    )


def imports() -> Iterator[Comparison]:
    """Fresh processes, a bare Python's start included."""

    def run(*arguments: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    numpy = run("-c", "import numpy")
    for work, ours in (
        ("import confidp", run("-c", "import confidp")),
        ("confidp --help", run("-c", "from confidp.cli.main import main; main()", "--help")),
    ):
        yield Comparison(work, "import numpy", 2, ours, numpy)


def main() -> None:
    """Run every comparison and write the table."""
    rng = np.random.default_rng(20261130)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    made_with = f"Python {platform.python_version()}, {versions}"
    parts = (means(rng), medians(rng), intervals(rng), regressions(rng), imports())
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["work", "beside", "time_ratio", "target_at_most", "repeats", "made_with"])
        for part in parts:
            for c in part:
                ratio = c.ratio()
                row = [c.work, c.beside, f"{ratio:.3g}", f"{c.most:.3g}", c.repeats, made_with]
                writer.writerow(row)
                print(f"{ratio:8.3g}  (at most {c.most:.3g})  {c.work}; {c.beside}", flush=True)


if __name__ == "__main__":
    main()
