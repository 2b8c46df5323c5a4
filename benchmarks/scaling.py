"""Processor time and peak memory against n, B, and reports or distinct queries of the posterior.

::

    python benchmarks/scaling.py [--out FOLDER] [--largest 1e6]

Each point is a process of its own. Its memory is the peak of what is resident less what was before
the work, data included, as Linux counts it: tracemalloc doesn't see what compiled code takes, and
`getrusage` can't forget a peak from loading. A small run goes first, which loads and compiles. The
time is the median of so many runs as take half a second, 5 at most. Points are rows of scaling.csv;
the next run goes on from there, and draws scaling.png from all. Delete rows to time them anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import online
from local_calibration import POPULATION, STUDIES
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import append, finished

from confidp import CRGS, CRSS, GDP, Mean, Median, confidence_region
from confidp.local.posterior import start, update_many

HERE = Path(__file__).parent
SEED, LEVEL, N, B, PARTICLES = 20261130, 0.9, 50_000, 500, 1000
ENOUGH, MOST = 0.5, 5  # seconds, runs
KEY = ("panel", "series", "x")
Run = Callable[[], Any]


def region(statistic: Any, method: Any, n: int, n_resamples: int) -> Run:
    """Return a whole release on n uniform numbers."""
    data = np.random.default_rng(SEED).random(n)
    return partial(
        confidence_region,
        data,
        statistic,
        budget=GDP(1.0, 1e-6),
        confidence_level=LEVEL,
        method=method,
        n_resamples=n_resamples,
    )


def posterior(reports: int, queries: int) -> Run:
    """Return the posterior of reports in counts, from the prior, by the best cells at ε = 1."""
    rng = np.random.default_rng(SEED)
    counts = online.pooled(STUDIES["response"].mechanism(1.0), reports, queries, rng)
    return lambda: update_many(start(POPULATION, PARTICLES, rng), counts, rng)


MEAN, MEDIAN = Mean((0, 1)), Median((0, 1))
METHODS: dict[str, tuple[Any, Any]] = {
    "mean, default": (MEAN, "auto"),
    "median, default": (MEDIAN, "auto"),
    "mean, CR-GS": (MEAN, CRGS()),
    "median, CR-SS": (MEDIAN, CRSS()),
}
RESAMPLED = ("mean, CR-GS", "median, CR-SS")
REPORTS, QUERIES = "reports, to 200 queries", "queries, 10⁶ reports"
PANELS = {
    "n": f"records n; B = {B}",
    "B": f"resamples B; n = {N:,}",
    "posterior": f"reports or distinct queries; {PARTICLES:,} particles",
}


@dataclass(frozen=True)
class Point:
    """Which work, and how much of it."""

    panel: str
    series: str
    x: int

    def work(self) -> Run:
        """Make the data."""
        if self.panel == "posterior":
            return posterior(self.x, 200) if self.series == REPORTS else posterior(10**6, self.x)
        n, n_resamples = (self.x, B) if self.panel == "n" else (N, self.x)
        return region(*METHODS[self.series], n, n_resamples)

    def loaded(self) -> None:
        """Run a small one, so that what is loaded or compiled once isn't counted."""
        if self.panel == "posterior":
            posterior(100, 5)()
        else:
            region(*METHODS[self.series], 500, 50)()


def points(largest: int) -> Iterator[Point]:
    """Yield every point, up to so many of each."""
    for n in steps(1000, min(largest, 10**6)):
        yield from (Point("n", name, n) for name in METHODS)
    for n_resamples in steps(50, min(largest, 50_000)):
        yield from (Point("B", name, n_resamples) for name in RESAMPLED)
    for reports in steps(1000, min(largest, 10**6), 2):
        yield Point("posterior", REPORTS, reports)
    for queries in steps(10, min(largest, 1000), 2):
        yield Point("posterior", QUERIES, queries)


def steps(least: int, most: int, in_a_decade: int = 1) -> list[int]:
    """Return so many numbers in every decade, from the least on, and the largest."""
    found = [round(least * 10 ** (k / in_a_decade)) for k in range(10 * in_a_decade)]
    return [*(x for x in found if x < most), most]


def memory(line: str) -> float:
    """Return MB of resident memory, now (VmRSS) or at the peak (VmHWM): Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (text for text in lines if text.startswith(line + ":"))
    return int(found.split()[1]) / 1024


def measure(point: Point) -> dict[str, float]:
    """Return seconds of processor time and the peak of added memory: for a process of its own."""
    point.loaded()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = memory("VmRSS")
    work = point.work()
    times: list[float] = []
    while not times or (len(times) < MOST and sum(times) < ENOUGH):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    added = memory("VmHWM") - before
    return {"cpu_seconds": float(np.median(times)), "runs": len(times), "added_mb": added}


def in_its_own_process(point: Point) -> dict[str, float]:
    """Measure a point there."""
    command = [sys.executable, __file__, "--point", point.panel, point.series, str(point.x)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


SHADES = ("#000000", "#777777")
MARKS = ("o", "s", "^", "D")
LINES = [*METHODS, REPORTS, QUERIES]


def draw(rows: Sequence[dict[str, str]]) -> Figure:
    """Draw time above memory, a column for each panel, every line named at its end."""
    figure = Figure(figsize=(12.0, 6.6), dpi=150, layout="constrained")
    grid: Any = figure.subplots(2, len(PANELS), sharex="col", sharey="row")
    for (upper, lower), (panel, label) in zip(grid.T, PANELS.items(), strict=True):
        lines(upper, [row for row in rows if row["panel"] == panel], "cpu_seconds", 1e-4)
        lines(lower, [row for row in rows if row["panel"] == panel], "added_mb", 0.1)
        lower.set_xlabel(label)
    grid[0, 0].set_ylabel("processor time, seconds")
    grid[1, 0].set_ylabel("memory added, MB (0.1: or less)")
    return figure


def lines(axes: Axes, rows: Sequence[dict[str, str]], column: str, least: float) -> None:
    """Draw one line for each series on logarithmic axes, its name where there is most room."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends: list[tuple[float, float, str]] = []
    for name in dict.fromkeys(row["series"] for row in rows):
        i = LINES.index(name) % len(MARKS)
        own = sorted((int(r["x"]), float(r[column])) for r in rows if r["series"] == name)
        xs, ys = [x for x, _ in own], [max(y, least) for _, y in own]
        axes.plot(
            xs,
            ys,
            color=SHADES[i % 2],
            marker=MARKS[i],
            markerfacecolor=SHADES[i % 2] if i < 2 else "white",
            markersize=4.5,
            linestyle="-" if i < 2 else "--",
        )
        ends.append((xs[-1], ys[-1], name))
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.05)
    for x, y, height, name in spread(ends):
        axes.annotate(
            name,
            (x, y),
            xytext=(9, height),
            textcoords=("offset points", "data"),
            va="center",
            fontsize=8,
            annotation_clip=False,
        )


def spread(ends: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, float, str]]:
    """Return lines' ends with heights for their names, which never lie on each other."""
    placed: list[tuple[float, float, float, str]] = []
    for x, y, name in sorted(ends, key=lambda end: end[1]):
        near = [height for other, _, height, _ in placed if 0.1 < other / x < 10]
        placed.append((x, y, max([y, *(1.6 * height for height in near)]), name))
    return placed


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--largest", type=float, default=1e6, help="of everything")
    parser.add_argument("--point", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.point:
        panel, series, x = given.point
        print(json.dumps(measure(Point(panel, series, int(x)))))
        return
    results = given.out / "scaling.csv"
    done = finished(results, KEY)
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    for point in points(math.floor(given.largest)):
        if (point.panel, point.series, str(point.x)) in done:
            continue
        found = in_its_own_process(point)
        row = {"panel": point.panel, "series": point.series, "x": point.x, "runs": found["runs"]}
        row |= {name: f"{found[name]:.4g}" for name in ("cpu_seconds", "added_mb")}
        made_with = f"Python {platform.python_version()}, {versions}"
        append(results, row | {"seed": SEED, "made_with": made_with})
        print("{series:26} {x:8}  {cpu_seconds} s, {added_mb} MB".format(**row), flush=True)
    with results.open() as written:
        draw(list(csv.DictReader(written))).savefig(given.out / "scaling.png")


if __name__ == "__main__":
    main()
