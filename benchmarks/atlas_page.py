"""The coverage atlas as one page: heat maps of coverage and width, and what stands out.

    python benchmarks/atlas_page.py

Reads coverage_atlas.csv; writes docs/coverage_atlas.md, its pictures, and README's part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from coverage_atlas import METHODS, RESULTS, STUDIES, Row, cells
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from scipy.stats import beta

ROOT = Path(__file__).parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
BEGIN, END = "<!-- written by benchmarks/atlas_page.py -->\n", "<!-- to here -->\n"
SHOWN = (
    "uniform, q = 0.5",
    "lognormal to 20, q = 0.5",
    "earnings, q = 0.5",
    "uniform, q = 0.9",
    "clusters, F(gap) = 0.51",
    "atom of 0.505 at 0",
    "bounds 1000 times too wide, q = 0.5",
    "bounds 1000 times too wide, q = 0.9",
)
NOTES = {  # what a reader would ask of cells that are under
    "CR-SS, noise-aware": (
        " Resampling a quantile needs a density there, and the result says so (`assumes`): what is "
        "under are two clusters with a gap at the median, and an atom, at which the interval is "
        "narrower than a step of the default grid (2^-30 of the bounds' range), beside which the "
        "truth lies: `resolution=0.01` would put it there. Rank inversion needs none of this."
    ),
}
SIMULTANEOUS = 0.05  # chance of any false alarm in the whole atlas
SLACK = {
    "mean": 0.015,
    "quantile": 0.01,
    "u-statistic": 0.02,
}  # under the level, or under what no privacy would give


def bounds(row: Row, alpha: float) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a cell's coverage at 1 − alpha."""
    n = int(row["data_sets"])
    k = round(float(row["coverage"]) * n)
    low = float(beta.ppf(alpha / 2, k, n - k + 1)) if k else 0.0
    high = float(beta.isf(alpha / 2, k + 1, n - k)) if k < n else 1.0
    return low, high


def is_default(row: Row) -> bool:
    """Return whether a cell is of the method that `auto` takes."""
    return row["method"] == next(iter(METHODS[row["statistic"]]))


def promised(row: Row) -> float:
    """Return the coverage that a cell is held to: the level, or the t interval's if that's less."""
    level = float(row["level"])
    if row["statistic"] != "quantile":
        return min(level, float(row["reference_coverage"]))
    return level


def wanting(rows: Sequence[Row]) -> list[Row]:
    """Return the cells whose coverage is surely under what is promised, less the slack."""
    alpha = SIMULTANEOUS / len(rows)
    return [row for row in rows if bounds(row, alpha)[1] < promised(row) - SLACK[row["statistic"]]]


def heat_map(rows: Sequence[Row], title: str) -> Figure:
    """Draw coverage, and width over the non-private one, of one statistic at one level."""
    level = rows[0]["level"]
    populations = list(dict.fromkeys(r["population"] for r in rows))
    columns = sorted({(int(r["n"]), float(r["mu"])) for r in rows})
    figure = Figure(figsize=(1.9 + 0.36 * len(columns), 1.7 + 0.52 * len(populations)))
    axes = figure.subplots(2, 1, sharex=True)
    panels: list[tuple[str, Callable[[Row], float], str, list[float], str]] = [
        ("coverage", lambda r: float(r["coverage"]), "RdYlBu",
         [0.0, 0.85, float(level) - 0.015, float(level), 0.95, 0.98, 1.001], "{:.2f}"),
        ("width over the non-private interval",
         lambda r: float(r["width_over_reference"] or "nan"), "Greys",
         [0.0, 1.02, 1.1, 1.25, 1.6, 2.5, 5.0, 1e9], "{:#.3g}"),
    ]  # fmt: skip
    for axis, (name, value, colours, edges, form) in zip(axes, panels, strict=True):
        grid = np.full((len(populations), len(columns)), np.nan)
        for row in rows:
            at = columns.index((int(row["n"]), float(row["mu"])))
            grid[populations.index(row["population"]), at] = value(row)
        colour_map = mpl.colormaps[colours].resampled(len(edges) - 1)
        axis.imshow(grid, aspect="auto", cmap=colour_map, norm=BoundaryNorm(edges, colour_map.N))
        for (i, j), x in np.ndenumerate(grid):
            if np.isfinite(x):
                shown = form.format(x).lstrip("0") if x < 1 else form.format(x)
                red, green, blue, _ = colour_map(BoundaryNorm(edges, colour_map.N)(x))
                dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
                axis.text(
                    j,
                    i,
                    shown.rstrip(".") if x < 100 else "≫",
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    color="white" if dark else "black",
                )
        axis.set_yticks(range(len(populations)), populations, fontsize=7)
        axis.set_title(name, loc="left", fontsize=9)
        sizes = [n for n, _ in columns]
        for j in range(1, len(columns)):
            if sizes[j] != sizes[j - 1]:
                axis.axvline(j - 0.5, color="black", linewidth=1.5)
        axis.tick_params(length=0)
    axes[1].set_xticks(range(len(columns)), [f"{mu:g}" for _, mu in columns], fontsize=7)
    for n in dict.fromkeys(sizes):
        inside = [j for j, size in enumerate(sizes) if size == n]
        axes[1].text(
            (inside[0] + inside[-1]) / 2, len(populations) + 0.25, f"n = {n:,}", ha="center",
            va="top", fontsize=8,
        )  # fmt: skip
    axes[1].set_xlabel("budget μ, and n below it", fontsize=8, labelpad=16)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout()
    return figure


def picture(statistic: str, level: str, method: str = "") -> str:
    """Return the name of a heat map's file."""
    words = [statistic, level.replace("0.", ""), *method.lower().replace(",", "").split()]
    return f"atlas_{'_'.join(words)}.png"


def groups(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield statistics, levels and their cells."""
    for statistic in dict.fromkeys(r["statistic"] for r in rows):
        for level in sorted({r["level"] for r in rows if r["statistic"] == statistic}):
            found = [r for r in rows if r["statistic"] == statistic and r["level"] == level]
            yield statistic, level, found


def data_sets_of(rows: Sequence[Row]) -> str:
    """Return in words how many data sets cells have."""
    sets = sorted({int(r["data_sets"]) for r in rows})
    return " or ".join(f"{s:,}" for s in sets)


def others(rows: Sequence[Row]) -> Iterator[tuple[str, str, str, list[Row]]]:
    """Yield statistics, levels and methods that aren't the default, and their cells."""
    for statistic, level, found in groups([r for r in rows if not is_default(r)]):
        for method in dict.fromkeys(r["method"] for r in found):
            yield statistic, level, method, [r for r in found if r["method"] == method]


def page(rows: Sequence[Row]) -> str:
    """Return the page's text."""
    lines = [
        "# The coverage atlas",
        "",
        "Does the default interval cover what it says, and how wide is it? Made by",
        "`make coverage` and `python benchmarks/atlas_page.py`; every cell is a row of",
        "`benchmarks/coverage_atlas.csv`, with its seed, versions and number of data sets.",
        "",
        f"{len(rows)} cells. Bounds on coverage are simultaneous: with probability "
        f"{1 - SIMULTANEOUS:.0%} all of them hold at once. The non-private intervals are Student's "
        "t for means, with the jackknife's variance for U-statistics, and that of order statistics "
        "for quantiles, on the same data.",
        "",
    ]
    for statistic, level, found in groups([r for r in rows if is_default(r)]):
        under = wanting(found)
        least = min(found, key=lambda r: float(r["coverage"]) - promised(r))
        against = (
            level
            if statistic == "quantile"
            else f"the smaller of {level} and the t interval's coverage on the same data"
        )
        lines += [
            f"## {statistic.capitalize()}s at level {level}",
            "",
            f"{len(found)} cells of {data_sets_of(found)} data sets, by "
            f"{found[0]['method']}. Held to {against}, less {SLACK[statistic]}: "
            f"{len(under)} cells are surely under it. The lowest against its promise is "
            f"{least['population']}, n = {int(least['n']):,}, μ = {least['mu']}: "
            f"{float(least['coverage']):.3f} (promised {promised(least):.3f}).",
            "",
            f"![coverage and width]({picture(statistic, level)})",
            "",
        ]
    for statistic, level, method, found in others(rows):
        under, many = wanting(found), [r for r in found if float(r["mu"]) <= 1]
        least = min(found, key=lambda r: float(r["coverage"]))
        short = sum(row in many for row in under)
        lines += [
            f"## {statistic.capitalize()}s at level {level}, by {method}",
            "",
            f"Not the default. {len(found)} cells of {data_sets_of(found)} data sets; "
            f"{len(under)} are surely under what is promised, {short} of them among the "
            f"{len(many)} with μ of 1 and under. The lowest is {least['population']}, "
            f"n = {int(least['n']):,}, μ = {least['mu']}: {float(least['coverage']):.3f}."
            + NOTES.get(method, ""),
            "",
            f"![coverage and width]({picture(statistic, level, method)})",
            "",
        ]
    return "\n".join(lines)


def means_in_short(rows: Sequence[Row]) -> list[str]:
    """Return README's paragraph and table on means at level 0.9."""
    cells = [r for r in rows if r["statistic"] == "mean" and r["level"] == "0.9" and is_default(r)]
    short = max(promised(r) - float(r["coverage"]) for r in cells)
    sizes = sorted({int(r["n"]) for r in cells})
    budgets = sorted({float(r["mu"]) for r in cells})
    lines = [
        "**The default interval for a mean covers what it says**: in all "
        f"{len(cells)} cells of the atlas at level 0.90 (six populations, n = {sizes[0]:,} to "
        f"{sizes[-1]:,}, μ = {budgets[0]:g} to {budgets[-1]:g}, 2000 data sets each) coverage is "
        "at least the smaller of 0.90 and the non-private t interval's on the same data, less "
        f"{short:.3f}. Its mean width over the floor that no Gaussian-noised mean can go under, "
        "2z√(σ²/n + (R/nμ)²), for the worst and (in brackets) the median of the six populations "
        "(`make coverage`, [`docs/coverage_atlas.md`](docs/coverage_atlas.md)):",
        "",
        "| n | " + " | ".join(f"μ = {mu:g}" for mu in budgets) + " |",
        "| --- " * (len(budgets) + 1) + "|",
    ]
    for n in sizes:
        shown = []
        for mu in budgets:
            widths = [
                float(r["width_over_floor"])
                for r in cells
                if int(r["n"]) == n and float(r["mu"]) == mu
            ]
            shown.append(f"{max(widths):.2f} ({np.median(widths):.2f})")
        lines.append(f"| {n:,} | " + " | ".join(shown) + " |")
    small = [
        r for r in rows
        if r["statistic"] == "mean" and r["method"] == "CR-GS, published" and float(r["mu"]) <= 1
    ]  # fmt: skip
    if small:
        lowest = min(float(r["coverage"]) for r in small)
        lines += [
            "",
            f"CR-GS as published is surely under the same promise in {len(wanting(small))} of the "
            f"{len(small)} cells with μ of 1 and under; the lowest coverage there is {lowest:.2f}.",
        ]
    return lines


def quantiles_in_short(rows: Sequence[Row]) -> list[str]:
    """Return README's paragraph and tables on quantiles at level 0.9."""
    cells = [
        r for r in rows if r["statistic"] == "quantile" and r["level"] == "0.9" and is_default(r)
    ]
    least = min(float(r["coverage"]) for r in cells)
    sets = sorted({int(r["data_sets"]) for r in cells})
    sizes = sorted({int(r["n"]) for r in cells})
    lines = [
        "**The default interval for a quantile covers for every distribution**, by proof and in "
        f"all {len(cells)} cells of the atlas at level 0.90 (19 populations, n from {sizes[0]:,} "
        f"to {sizes[-1]:,}, {data_sets_of(cells)} data sets each, lowest coverage "
        f"{least:.3f}, the standard error at {sets[0]:,} being {math.sqrt(0.09 / sets[0]):.3f}), "
        "hard cases included. Mean width over the non-private order-statistic interval's on the "
        "same data, with coverage in brackets:",
    ]
    by_cell = {(r["population"], int(r["n"]), float(r["mu"])): r for r in cells}
    for n in (2000, 10_000):
        lines += ["", f"| n = {n:,} | μ = 0.25 | μ = 0.5 | μ = 1 |", "| --- | --- | --- | --- |"]
        for population in SHOWN:
            found = [by_cell[population, n, mu] for mu in (0.25, 0.5, 1.0)]
            shown = [
                f"{float(r['width_over_reference']):.2f} ({float(r['coverage']):.2f})"
                for r in found
            ]
            lines.append(f"| {population} | " + " | ".join(shown) + " |")
    return lines


def u_statistics_in_short(rows: Sequence[Row]) -> list[str]:
    """Return README's paragraph and table on U-statistics at level 0.9, n = 2000."""
    budgets = (0.25, 0.5, 1.0)
    cells = [
        r for r in rows
        if r["statistic"] == "u-statistic" and r["level"] == "0.9" and int(r["n"]) == 2000
        and float(r["mu"]) in budgets
    ]  # fmt: skip
    lines = [
        "**U-statistics** by private variance, the default, beside resampling: the same at "
        "n = 2000, over the t interval with the jackknife's variance.",
        "",
        "| n = 2000 | method | " + " | ".join(f"μ = {mu:g}" for mu in budgets) + " |",
        "| --- | --- |" + " --- |" * len(budgets),
    ]
    by_cell = {(r["population"], r["method"], float(r["mu"])): r for r in cells}
    for population, method in dict.fromkeys((r["population"], r["method"]) for r in cells):
        found = [by_cell[population, method, mu] for mu in budgets]
        shown = [
            f"{float(r['width_over_reference']):.2f} ({float(r['coverage']):.2f})" for r in found
        ]
        lines.append(f"| {population} | {method} | " + " | ".join(shown) + " |")
    return lines


def write_in_short(rows: Sequence[Row]) -> None:
    """Put both between README's marks."""
    before, rest = README.read_text().split(BEGIN)
    _, after = rest.split(END)
    lines = [
        *means_in_short(rows), "", *quantiles_in_short(rows), "", *u_statistics_in_short(rows)
    ]  # fmt: skip
    README.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


def studied() -> Iterator[tuple[str, str]]:
    """Yield statistics and populations in their order, whatever the order of their runs."""
    for study, populations in STUDIES.items():
        for name in populations():
            yield study, name


def main() -> None:
    """Write the page and the pictures."""
    found = cells(RESULTS)
    order = {(study, name): i for i, (study, name) in enumerate(studied())}
    methods = [method for each in METHODS.values() for method in each]
    rows = [
        found[key]
        for key in sorted(found, key=lambda key: (order[key[0], key[1]], methods.index(key[5])))
    ]
    for statistic, level, of_default in groups([r for r in rows if is_default(r)]):
        drawn = heat_map(of_default, f"{statistic}s, level {level}")
        drawn.savefig(DOCS / picture(statistic, level), dpi=150)
    for statistic, level, method, of_other in others(rows):
        drawn = heat_map(of_other, f"{statistic}s by {method}, level {level}")
        drawn.savefig(DOCS / picture(statistic, level, method), dpi=150)
    (DOCS / "coverage_atlas.md").write_text(page(rows))
    write_in_short(rows)


if __name__ == "__main__":
    main()
