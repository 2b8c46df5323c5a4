"""Figure 1, the figure of the headline claim, and the README's tables, from the CSV files.

::

    python -m papers.one_shot_private_confidence_regions.figures [--folder DIR]

Writes figure_1.png and overhead.png there, and the tables into a README that has marks for them,
or else into tables.md. Cells that haven't been run yet are left open.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.one_shot_private_confidence_regions import overhead
from papers.one_shot_private_confidence_regions.cells import (
    COMPETITORS,
    EXPERIMENTS,
    NAMES,
    PAPER,
    PRINTED_COMPETITORS,
)
from papers.one_shot_private_confidence_regions.overhead import Point, multiplicity
from papers.one_shot_private_confidence_regions.tables import SIZES, Key, printed, read

HERE = Path(__file__).parent
MARKS = ("<!-- written by figures.py -->", "<!-- to here -->")
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
DARK, MIDDLE, LIGHT = "#111111", "#777777", "#bbbbbb"
TITLES = {
    "bernoulli_mean": "Table 3a: mean of Bernoulli(0.05)",
    "uniform_mean": "Table 3b: mean of Uniform[−1, 1]",
    "median": "Table 4a: median of Uniform[−1, 1]",
    "median_normal": "Table 4a again: median of N(0, 1) clipped to [−½, ½]",
    "degenerate_u": "Table 4b: degenerate U-statistic, Uniform[−½, ½]",
}
EVERY = {  # what is in which column
    "default": (
        "delta method", "private variance", "rank inversion", "half-centred", "private sandwich",
    ),
    "CR-GS with": ("CR-GS, published, with replacement",),
    "without": ("CR-GS, published, without",),
    "noise-aware": ("CR-GS, noise-aware, without",),
    "CR-SS with": ("CR-SS, with replacement",),
    "CR-SS without": ("CR-SS, without",),
    "CR-SS noise-aware": ("CR-SS, noise-aware",),
    "BLBQuant": ("BLBQuant",),
    "Dette–Graw, sound": ("Dette-Graw, numerical accounting",),
    "SSVHL25": ("SSVHL25",),
}  # fmt: skip
PRINTED_METHODS = (*PRINTED_COMPETITORS, *PAPER)
MARKERS = {"blbquant": "s", "dette_graw": "D", "cr_wr": "o", "cr_wor": "^"}
TICKS = (2000, 5000, 10_000, 20_000, 50_000)
BUDGETS = (0.25, 0.5, 1.0, 2.0, 8.0)
Rows = dict[Key, dict[str, str]]


def figure_1(rows: Rows) -> Figure:
    """Mean runtime against n: ours in full lines, the printed ones in broken ones."""
    paper = printed()
    figure = Figure(figsize=(9.0, 3.4), dpi=150, layout="constrained")
    panels: Any = figure.subplots(1, 3, sharey=True)
    for axes, experiment in zip(panels, ("bernoulli_mean", "median", "degenerate_u"), strict=True):
        for method, marker in MARKERS.items():
            shade = DARK if method in PAPER else MIDDLE
            filled = method in ("cr_wr", "blbquant")
            style: dict[str, Any] = {"color": shade, "marker": marker, "markersize": 4.5}
            style["markerfacecolor"] = shade if filled else "white"
            ran = [n for n in SIZES if (experiment, n, 8.0, method) in rows]
            times = [float(rows[experiment, n, 8.0, method]["cpu_ms"]) for n in ran]
            axes.plot(ran, times, label=NAMES[method], **style)
            theirs = [paper[experiment, n, method]["runtime_ms"] for n in SIZES]
            axes.plot(SIZES, theirs, **style | {"linestyle": ":", "linewidth": 1, "markersize": 3})
        axes.set_title(TITLES[experiment].partition(": ")[2], fontsize=9)
        logarithmic(axes, "n", TICKS)
    panels[0].set_ylabel("a region's processor time, ms\n(dotted: printed, other hardware)")
    panels[0].yaxis.set_major_formatter("{x:g}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def logarithmic(axes: Axes, label: str, ticks: Sequence[int]) -> None:
    """Set both axes to logarithms, with ticks that can be read."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{x // 1000}k" if x >= 1000 else f"{x}" for x in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(label)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


LINES: dict[str, dict[str, Any]] = {
    "CR-GS with replacement": {"color": DARK, "marker": "o"},
    "CR-GS without replacement": {"color": DARK, "marker": "^", "markerfacecolor": "white"},
    "Dette–Graw": {"color": MIDDLE, "marker": "D", "markerfacecolor": "white"},
    "SSVHL25": {"color": MIDDLE, "marker": "s"},
}
PROVED = {
    "Dette–Graw": "Dette–Graw, sound accounting, m = n/B",
    "SSVHL25": "SSVHL25 (our reading), m = ⌈n/ln n⌉",
}
OF_N: dict[str, dict[str, Any]] = {
    "mean": {"color": DARK, "marker": "o"},
    "median": {"color": MIDDLE, "marker": "s"},
    "degenerate U": {"color": LIGHT, "marker": "D"},
}


def figure_overhead(points: Sequence[Point]) -> Figure:
    """Noise and width against B, noise against n and m."""
    figure = Figure(figsize=(9.0, 7.6), dpi=150, layout="constrained")
    grid: Any = figure.subplots(2, 2)
    against_b(grid[0, 0], points, "noise against B")
    against_b(grid[0, 1], points, "width against B")
    against_n(grid[1, 0], points)
    against_m(grid[1, 1], points)
    return figure


def series(points: Sequence[Point], panel: str, name: str, simulated: bool) -> list[Point]:
    """Return a line's points, computed or simulated."""
    return [
        p for p in points if (p.panel, p.series) == (panel, name) and (p.data_sets > 0) == simulated
    ]


def line(axes: Axes, points: Sequence[Point], label: str, **style: Any) -> None:
    """Draw one line."""
    axes.plot([p.x for p in points], [p.y for p in points], label=label, markersize=4.5, **style)


def against_b(axes: Axes, points: Sequence[Point], panel: str) -> None:
    """Noise or width against B, with √B for comparison."""
    noise = panel.startswith("noise")
    for name, style in LINES.items():
        which = "published " if noise else "noise-aware "
        label = f"{which}{name}" if name.startswith("CR") else PROVED[name]
        line(axes, series(points, panel, name, False), label, **style)
        crosses = series(points, panel, name, True)
        axes.plot([p.x for p in crosses], [p.y for p in crosses], "x", color=DARK, markersize=8)
    where = f"mean, n = {overhead.N_OF_B:,}, μ = {overhead.MU_OF_B:g}"
    logarithmic(axes, "B, resamples", (50, 500, 5000, 50_000))
    axes.set_ylim(top=axes.get_ylim()[1] * 3)
    if noise:
        start = series(points, panel, "SSVHL25", False)[0]
        rate(axes, [p.x for p in series(points, panel, "SSVHL25", False)], math.sqrt, start, "√B")
        axes.set_title(f"Noise in the radius, over the radius\n{where}", fontsize=9)
    else:
        axes.axhline(1, color=DARK, linewidth=0.8)
        axes.set_title(f"Width, over the non-private width\n{where}; ×: simulated", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.yaxis.set_major_formatter("{x:g}")


def rate(
    axes: Axes, xs: Sequence[int], law: Callable[[int], float], start: Point, label: str
) -> None:
    """Draw a rate through `start`."""
    scaled = [start.y * law(x) / law(start.x) for x in xs]
    axes.plot(xs, scaled, color=DARK, linestyle=(0, (1, 2)), linewidth=1)
    axes.annotate(
        label, (xs[-1], scaled[-1]), xytext=(3, 0), textcoords="offset points", fontsize=8,
        va="center", annotation_clip=False,
    )  # fmt: skip


def against_n(axes: Axes, points: Sequence[Point]) -> None:
    """Noise of each estimand against n, at m = ⌈n/ln n⌉, with Table 1's rates."""
    for estimand, style in OF_N.items():
        for sampling, dashes in (("with replacement", "-"), ("without replacement", "--")):
            name = f"{estimand}, {sampling}"
            found = [p for s in (False, True) for p in series(points, "noise against n", name, s)]
            label = estimand if dashes == "-" else "_"
            line(axes, found, label, **style | {"linestyle": dashes})
            if estimand == "mean" and found:
                with_replacement = sampling == "with replacement"

                def law(n: int, with_replacement: bool = with_replacement) -> float:
                    kappa = multiplicity(n) if with_replacement else 1
                    return kappa / math.sqrt(n / math.log(n))

                label = "κ⋆/√m" if with_replacement else "1/√m"
                rate(axes, SIZES, law, found[0], label)
    axes.axhline(1, color=DARK, linewidth=0.8)
    logarithmic(axes, "n", TICKS)
    axes.set_title(
        "Published noise over the radius: m = ⌈n/ln n⌉, "
        f"B = 500, μ = {overhead.LARGE_MU:g}\nfull: with replacement; broken: without",
        fontsize=9,
    )
    axes.set_ylim(bottom=axes.get_ylim()[0] / 6)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center")
    axes.yaxis.set_major_formatter("{x:g}")


def against_m(axes: Axes, points: Sequence[Point]) -> None:
    """Noise of the mean against m."""
    panel = "noise against m"
    line(axes, series(points, panel, "with replacement", False), "published, with replacement",
         color=DARK, marker="o")  # fmt: skip
    without = series(points, panel, "without replacement", False)
    line(axes, without, "published, without", color=DARK, marker="^", markerfacecolor="white")
    tight = "without, tight and for a finite population"
    line(axes, series(points, panel, tight, False), "noise-aware: tight sensitivity,\n1 − m/n",
         color=MIDDLE, marker="v")  # fmt: skip
    sizes = [p.x for p in without]
    if without:
        rate(axes, sizes, lambda m: 1 / math.sqrt(m), without[0], "1/√m")
    logarithmic(axes, "m, records in a resample", (100, 1000, 10_000))
    axes.set_title(
        "Noise over the radius against m\n"
        f"mean, n = {overhead.LARGE_N:,}, μ = {overhead.LARGE_MU:g}",
        fontsize=9,
    )
    axes.legend(frameon=False, fontsize=8)
    axes.yaxis.set_major_formatter("{x:g}")


def as_printed(rows: Rows) -> Iterator[str]:
    """Yield Tables 3 and 4: coverage with its interval, the printed one, and the length's ratio."""
    for experiment, title in TITLES.items():
        yield from ("", f"**{title}**, μ = 8", "")
        yield "| n | " + " | ".join(NAMES[m] for m in PRINTED_METHODS) + " |"
        yield "| --- |" + " --- |" * len(PRINTED_METHODS)
        for n in SIZES:
            cells = []
            for method in PRINTED_METHODS:
                row = rows.get((experiment, n, 8.0, method))
                cells.append("" if row is None else beside_print(row))
            yield f"| {n:,} | " + " | ".join(cells) + " |"


def beside_print(row: dict[str, str]) -> str:
    """Return what a cell measured beside what is printed."""
    cover = ", ".join(f"{float(row[f'coverage_{end}']):.2f}" for end in ("low", "high"))
    few = "" if row["data_sets"] == "400" else f"; {row['data_sets']} sets"
    return (
        f"{float(row['coverage']):.2f} [{cover}] / {float(row['printed_coverage']):.2f}; "
        f"{float(row['length_ratio']):.2f} ×{few}"
    )


def at_small_budgets(rows: Rows, sizes: Sequence[int] = (2000, 10_000, 50_000)) -> Iterator[str]:
    """Yield the tables the paper doesn't print: coverage, and width over the non-private width."""
    for experiment, title in TITLES.items():
        for n in sizes:
            floor = rows.get((experiment, n, math.inf, "non_private"))
            methods = (*PAPER, *EXPERIMENTS[experiment].own, *COMPETITORS)
            lines = []
            for method in methods:
                found = [rows.get((experiment, n, mu, method)) for mu in BUDGETS]
                if floor is None or not any(found):
                    continue
                width = float(floor["mean_length"])
                cells = ["" if r is None else over_floor(r, width) for r in found]
                lines.append(f"| {NAMES[method]} | " + " | ".join(cells) + " |")
            if lines:
                yield from ("", f"**{title.partition(': ')[2]}**, n = {n:,}", "")
                yield "| method | " + " | ".join(f"μ = {mu:g}" for mu in BUDGETS) + " |"
                yield "| --- |" + " --- |" * len(BUDGETS)
                yield from lines


def over_floor(row: dict[str, str], width: float) -> str:
    """Return coverage and relative width."""
    ratio = float(row["mean_length"]) / width
    few = "" if row["data_sets"] == "400" else f" ({row['data_sets']})"
    return f"{float(row['coverage']):.2f} at {ratio:.3g} ×{few}"


def tables(rows: Rows) -> str:
    """Return all tables in Markdown."""
    return "\n".join(
        [
            "### As printed",
            "Measured coverage [exact 95% interval] / printed coverage; measured length over "
            "printed length. 400 data sets unless it says so; what is open hasn't been run. CR is "
            "CR-GS for means and CR-SS for the others, as published.",
            *as_printed(rows),
            "",
            "### At other budgets",
            "Coverage, nominal 0.90, at mean width over the mean non-private width on the same "
            "data, over 400 data sets (±0.03), or as many as are in brackets. `tables.csv` has the "
            "sizes in between too.",
            *at_small_budgets(rows),
        ]
    )


def every_pair(folder: Path) -> Iterator[str]:
    """Yield the table of every_method.csv: coverage at the paper's μ."""
    results = folder / "every_method.csv"
    if not results.exists():
        return
    with results.open() as lines:
        pairs = [row for row in csv.DictReader(lines) if float(row["mu"]) == 8]
    found = {(row["statistic"], row["method"]): f"{float(row['coverage']):.2f}" for row in pairs}
    yield from ("", "### Every method with every statistic")
    yield (
        "Coverage at nominal 0.90, μ = 8, n = 1000, B = 100, 200 data sets a cell (so ±0.04); "
        "lengths, μ = 50, binomial intervals and more methods are in `every_method.csv`."
    )
    yield from ("", "| statistic | " + " | ".join(EVERY) + " |")
    yield "| --- |" + " --- |" * len(EVERY)
    for statistic in dict.fromkeys(row["statistic"] for row in pairs):
        cells = [
            next((found[statistic, m] for m in methods if (statistic, m) in found), "–")
            for methods in EVERY.values()
        ]
        yield f"| {statistic} | " + " | ".join(cells) + " |"


def put(folder: Path, text: str) -> Path:
    """Put the tables between the marks of a README there, or else into tables.md."""
    readme, alone = folder / "README.md", folder / "tables.md"
    if not (readme.exists() and MARKS[0] in readme.read_text()):
        alone.write_text(f"{text}\n")
        return alone
    before, _, rest = readme.read_text().partition(f"{MARKS[0]}\n")
    _, _, after = rest.partition(MARKS[1])
    readme.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")
    return readme


def draw(folder: Path) -> list[Path]:
    """Write what there are results for, and return the paths."""
    rows = read(folder / "tables.csv")
    paths = [put(folder, "\n".join([tables(rows), *every_pair(folder)]))]
    with mpl.rc_context(STYLE):
        figures = {"figure_1": figure_1(rows)}
        if (folder / "overhead.csv").exists():
            figures["overhead"] = figure_overhead(overhead.read(folder / "overhead.csv"))
        for name, figure in figures.items():
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1])
    return paths


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE, help="of the results")
    draw(parser.parse_args().folder)


if __name__ == "__main__":
    main()
