"""Figures 1, 2 and 3 from what `experiment.py` wrote, and the table of errors.

::

    python papers/online_bayes_adaptive_truncation/figures.py

Writes figure_1.png, figure_2.png, figure_3.png, summary.csv and the README's tables.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from confidp.local.continuous import TruncatedLaplaceDensity, best_interval
from confidp.local.design import Design, best_cells, best_knots, fisher_information
from confidp.local.population import Normal

Array = NDArray[np.float64]
Rows = list[dict[str, str]]
HERE = Path(__file__).parent

MU, SIGMA, PEOPLE = 50.0, 10.0**0.5, 1000
TRUTH = {"mu": MU, "sigma": SIGMA}
SYMBOL = {"mu": "μ", "sigma": "σ"}
EPSILONS = (1.0, 2.0, 5.0, 10.0)
QUARTILE = 0.6745  # of a standard normal
FRAME = (25, 75)  # of Figure 1: early intervals and reports are anywhere
DARK, MIDDLE, LIGHT, RED = "#111111", "#777777", "#d9d9d9", "#c22a1e"
MARKS = ("<!-- written by figures.py -->", "<!-- to here -->")
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

# What Figure 3 draws: a box, its place, whether what is exact is drawn, and single runs over it.
BOXES = (
    ("exact_adaptive", "adaptive\ntruncation", True),
    ("exact_wide", "μ ± 10σ\nfor all", True),
    ("response", "response\n(confidp)", False),
)
POINTS = (
    ("smc_adaptive", 0, "^", "latent SMC, adaptive"),
    ("smc_wide", 1, "v", "latent SMC, non-adaptive"),
    ("batch_mcmc", 1, "s", "MHAAR, non-adaptive"),
)


def read(path: Path) -> Rows:
    """Return a CSV file's rows."""
    with path.open() as lines:
        return list(csv.DictReader(lines))


def column(rows: Iterable[dict[str, str]], name: str) -> Array:
    """Return a column as numbers."""
    return np.array([float(row[name]) for row in rows])


def of(rows: Rows, method: str, epsilon: float) -> Rows:
    """Return the rows of one method and ε."""
    return [r for r in rows if r["method"] == method and float(r["epsilon"]) == epsilon]


@cache
def paper_interval(epsilon: float) -> tuple[float, float]:
    """Return the interval with the most F₁₁ at (0, 1)."""
    return best_interval(epsilon)


@cache
def information(method: str, epsilon: float) -> Array:
    """Return a report's information on (μ, σ), by the query that is best at the truth."""
    if method == "response":
        best = best_cells(Normal(), epsilon=epsilon)
        knots = best_knots(Normal(), (0.0, 1.0), best).knots
        standard = fisher_information(Normal(), (0.0, 1.0), Design.of(*best.build(knots)))
    else:
        ends = paper_interval(epsilon) if "adaptive" in method else (-10.0, 10.0)
        standard = TruncatedLaplaceDensity(*ends, epsilon).fisher_information(0.0, 1.0)
    return np.asarray(standard / SIGMA**2)


def limit(method: str, epsilon: float) -> dict[str, float]:
    """Return the standard deviations at the information limit: √((F⁻¹)ᵢᵢ/n)."""
    inverse = np.linalg.inv(information(method, epsilon))
    return dict(zip(TRUTH, np.sqrt(np.diagonal(inverse) / PEOPLE), strict=True))


def figure_1(course: Rows, epsilon: float = 5.0) -> Figure:
    """One run of SMC-adaptive: what is asked, what comes, what is believed."""
    rows = [r for r in course if float(r["epsilon"]) == epsilon]
    t = column(rows, "t")
    figure = Figure(figsize=(7.0, 4.6), dpi=150, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    low, high = column(rows, "low"), column(rows, "high")
    upper.vlines(t, low, high, color=LIGHT, linewidth=1.4, label="interval asked")
    reports = column(rows, "report")
    upper.plot(t, reports, ".", color=MIDDLE, markersize=2.2, label="report")
    for axes, name, bottom, top in ((upper, "mu", *FRAME), (lower, "sigma", 0, 10)):
        believed = column(rows, f"{name}_mean")
        axes.plot(t, believed, color=RED, linewidth=1.6, label="posterior mean")
        for end in ("2.5%", "97.5%"):
            label = "95% interval" if end == "2.5%" else None
            axes.plot(t, column(rows, f"{name}_{end}"), color=DARK, linewidth=0.8, label=label)
        axes.axhline(TRUTH[name], color=DARK, linestyle=(0, (5, 3)), linewidth=1, label="truth")
        axes.set_ylim(bottom, top)
        axes.set_ylabel(f"report, {SYMBOL[name]}" if name == "mu" else SYMBOL[name])
    lower.set_xscale("log")
    lower.set_xlim(1, len(t))
    lower.xaxis.set_major_formatter("{x:g}")
    lower.set_xlabel("person t")
    outside = int(((reports < FRAME[0]) | (reports > FRAME[1])).sum())
    upper.legend(loc="upper right", ncols=5, fontsize=7.5, framealpha=1, handlelength=1.5)
    upper.set_title(
        f"One run of SMC-adaptive, ε = {epsilon:g} ({outside} of {len(t)} reports off the frame)",
        fontsize=9,
    )
    return figure


def figure_2(adaptive: Rows, wide: Rows) -> Figure:
    """Particles, their mean and the truncation points of both latent samplers."""
    figure = Figure(figsize=(9.6, 8.4), dpi=150, layout="constrained")
    grid: Any = figure.subplots(4, 4, sharex=True)
    for i, epsilon in enumerate(EPSILONS):
        for j, (name, course) in enumerate(
            [(name, course) for name in TRUTH for course in (adaptive, wide)]
        ):
            axes = grid[i, j]
            rows = [r for r in course if float(r["epsilon"]) == epsilon and r["mu_particles"]]
            t = column(rows, "t")
            for at, row in zip(t, rows, strict=True):
                values = np.array(row[f"{name}_particles"].split(), dtype=np.float64)
                axes.plot(np.full(len(values), at), values, ".", color="#8a9db5", markersize=1.3)
            if name == "mu":
                for end in ("low", "high"):
                    axes.plot(t, column(rows, end), color=DARK, linewidth=0.6)
            axes.plot(t, column(rows, f"{name}_mean"), color=RED, linewidth=1.5)
            axes.axhline(TRUTH[name], color=DARK, linestyle=(0, (5, 3)), linewidth=0.9)
            if name == "mu":
                axes.set_ylim(10, 90)
            else:
                axes.set_yscale("log")
                axes.set_ylim(0.3, 30)
                axes.set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
                axes.minorticks_off()
            if i == 0:
                kind = "adaptive" if j % 2 == 0 else "non-adaptive"
                axes.set_title(f"{SYMBOL[name]}, SMC-{kind}", fontsize=9)
            if j == 0:
                axes.set_ylabel(f"ε = {epsilon:g}", fontsize=9)
            if i == 3:
                axes.set_xlabel("t")
    handles = [
        Line2D([], [], color="#8a9db5", marker=".", linestyle="", label="particles"),
        Line2D([], [], color=RED, linewidth=1.5, label="posterior mean"),
        Line2D([], [], color=DARK, linewidth=0.6, label="truncation points l, r"),
        Line2D([], [], color=DARK, linestyle=(0, (5, 3)), linewidth=0.9, label="truth"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def figure_3(estimates: Rows) -> Figure:
    """Box plots of posterior means, beside what the information limit would give."""
    figure = Figure(figsize=(9.6, 5.8), dpi=150, layout="constrained")
    grid: Any = figure.subplots(2, 4)
    for j, epsilon in enumerate(EPSILONS):
        for i, name in enumerate(TRUTH):
            _boxes(grid[i, j], estimates, epsilon, name)
        grid[0, j].set_title(f"ε = {epsilon:g}", fontsize=9)
    for i, name in enumerate(TRUTH):
        grid[i, 0].set_ylabel(f"posterior mean of {SYMBOL[name]}")
    handles: list[Any] = [
        Patch(
            facecolor="white",
            edgecolor=DARK,
            label=f"{len(of(estimates, BOXES[0][0], 1.0))} runs (truncation: exact posterior)",
        ),
        Patch(facecolor=LIGHT, label="middle half at the information limit"),
        Line2D([], [], color=DARK, linestyle=(0, (5, 3)), linewidth=0.9, label="truth"),
        *(
            Line2D([], [], color=RED, marker=marker, linestyle="", markersize=4, label=label)
            for _, _, marker, label in POINTS
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _boxes(axes: Axes, estimates: Rows, epsilon: float, name: str) -> None:
    drawn = []
    for place, (method, _, exact) in enumerate(BOXES):
        rows = of(estimates, method, epsilon)
        values = column(rows, f"{name}_exact_mean" if exact else f"{name}_mean")
        drawn.append(values)
        half = QUARTILE * limit(method, epsilon)[name]
        axes.fill_between(
            [place - 0.42, place + 0.42],
            max(TRUTH[name] - half, 0),
            TRUTH[name] + half,
            color=LIGHT,
            linewidth=0,
            zorder=0,
        )
        axes.boxplot(
            values,
            positions=[place],
            widths=0.5,
            patch_artist=True,
            boxprops={"facecolor": "white", "edgecolor": DARK, "alpha": 0.85},
            medianprops={"color": DARK, "linewidth": 1.8},
            flierprops={"marker": ".", "markersize": 3, "markerfacecolor": DARK},
        )
    for method, place, marker, _ in POINTS:
        values = column(of(estimates, method, epsilon), f"{name}_mean")
        drawn.append(values)
        shift = {"^": 0.0, "v": -0.14, "s": 0.14}[marker]
        at = np.full(len(values), place + shift)
        axes.plot(at, values, marker, color=RED, markersize=3.6, markeredgecolor="white", mew=0.4)
    everything = np.concatenate([*drawn, [TRUTH[name]]])
    margin = 0.06 * (everything.max() - everything.min())
    axes.set_ylim(everything.min() - margin, everything.max() + margin)
    axes.axhline(TRUTH[name], color=DARK, linestyle=(0, (5, 3)), linewidth=0.9, zorder=1)
    axes.set_xlim(-0.6, 2.6)
    axes.set_xticks(range(3), [label for _, label, _ in BOXES], fontsize=7.5)


def summary(estimates: Rows) -> Iterable[dict[str, object]]:
    """Yield each cell's root mean square errors beside the limit, and the samplers' own error."""
    methods = list(dict.fromkeys(row["method"] for row in estimates))
    for method in sorted(methods):
        for epsilon in EPSILONS:
            rows = of(estimates, method, epsilon)
            if not rows:
                continue
            line: dict[str, object] = {"method": method, "epsilon": f"{epsilon:g}"}
            line["runs"] = len(rows)
            for name in TRUTH:
                kept = f"{name}_exact_mean" if method.startswith("exact") else f"{name}_mean"
                errors = column(rows, kept) - TRUTH[name]
                line[f"{name}_rmse"] = f"{math.sqrt(float((errors**2).mean())):.3g}"
                line[f"{name}_median_error"] = f"{float(np.median(errors)):.3g}"
                sd = column(rows, kept.replace("mean", "sd"))
                line[f"{name}_in_95%"] = int((np.abs(errors) < 1.96 * sd).sum())
                line[f"{name}_limit"] = f"{limit(method, epsilon)[name]:.3g}"
                # How far the sampler is from the exact posterior of the same reports.
                line[f"{name}_sampler_error"] = ""
                if rows[0][f"{name}_exact_mean"]:
                    away = column(rows, f"{name}_mean") - column(rows, f"{name}_exact_mean")
                    scaled = away / column(rows, f"{name}_exact_sd")
                    line[f"{name}_sampler_error"] = f"{math.sqrt(float((scaled**2).mean())):.2g}"
            line["seconds"] = f"{column(rows, 'seconds').mean():.1f}"
            yield line


def table(lines: list[dict[str, Any]]) -> str:
    """Return the README's two tables."""
    kinds = {
        "exact_adaptive": "adaptive truncation, exact posterior",
        "exact_wide": "μ ± 10σ, exact posterior",
        "response": "response, confidp's default",
    }
    out = [
        "| ε | queries | runs | μ: RMSE (limit) | σ: RMSE (limit) | μ, σ within 1.96 sd |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for epsilon in EPSILONS:
        for method, name in kinds.items():
            for r in lines:
                if r["method"] == method and float(r["epsilon"]) == epsilon:
                    out.append(
                        f"| {r['epsilon']} | {name} | {r['runs']} "
                        f"| {r['mu_rmse']} ({r['mu_limit']}) | {r['sigma_rmse']} "
                        f"({r['sigma_limit']}) | {r['mu_in_95%']}, {r['sigma_in_95%']} |"
                    )
    out += [
        "",
        "| sampler | runs at ε = 1, 2, 5, 10 | error of μ | of σ |",
        "| --- | --- | --- | --- |",
    ]
    for method, _, _, name in POINTS:
        mine = [r for r in lines if r["method"] == method]
        runs = np.array([r["runs"] for r in mine])
        errors = [
            math.sqrt(
                sum(runs * np.array([float(r[f"{n}_sampler_error"]) for r in mine]) ** 2)
                / sum(runs)
            )
            for n in TRUTH
        ]
        counts = ", ".join(map(str, runs))
        out.append(f"| {name} | {counts} | {errors[0]:.2f} | {errors[1]:.2f} |")
    return "\n".join(out)


def insert(readme: Path, text: str) -> None:
    """Put the tables between the README's marks, where there is one."""
    if readme.exists():
        before, _, rest = readme.read_text().partition(f"{MARKS[0]}\n")
        _, _, after = rest.partition(MARKS[1])
        readme.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


def draw(folder: Path) -> list[Path]:
    """Write the figures and the table, and return the figures' paths."""
    estimates = read(folder / "estimates.csv")
    adaptive, wide = (read(folder / f"course_smc_{kind}.csv") for kind in ("adaptive", "wide"))
    paths = []
    with mpl.rc_context(STYLE):
        for name, figure in (
            ("figure_1", figure_1(adaptive)),
            ("figure_2", figure_2(adaptive, wide)),
            ("figure_3", figure_3(estimates)),
        ):
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1])
    rows = list(summary(estimates))
    with (folder / "summary.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    insert(folder / "README.md", table(rows))
    return paths


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE, help="of the results")
    draw(parser.parse_args().folder)


if __name__ == "__main__":
    main()
