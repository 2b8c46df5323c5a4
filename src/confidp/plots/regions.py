"""A picture of private intervals, from public results alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from confidp.central.region import ConfidenceRegion


def plot_intervals(regions: Mapping[str, ConfidenceRegion], xlabel: str = "") -> Figure:
    """Return a figure with one line for each labelled one-dimensional region.

    Parameters
    ----------
    regions
        From a label to its region; drawn top to bottom.
    xlabel
        What is measured, with its unit.
    """
    # A Figure of its own: pyplot would keep global state.
    figure = Figure(figsize=(6.4, 1.1 + 0.55 * len(regions)), layout="constrained")
    axes = figure.add_subplot()
    for row, (label, region) in enumerate(regions.items()):
        low, high = region.interval
        if math.isinf(region.radius):
            axes.annotate(
                f"{_short(label)}: {region}",
                (0.5, row),
                xycoords=("axes fraction", "data"),
                ha="center",
                parse_math=False,
            )
            continue
        axes.plot([low, high], [row, row], color="black", linewidth=2, solid_capstyle="butt")
        axes.plot(region.center[0], row, "o", color="black", markersize=5)
        axes.annotate(
            f"{_short(label)}: {region}",
            (region.center[0], row),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            parse_math=False,
        )
    axes.set_ylim(len(regions) - 0.5, -0.7)
    axes.margins(x=0.35)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter("{x:,.6g}")
    axes.spines[["left", "right", "top"]].set_visible(False)
    levels = {f"{region.confidence_level:.4g}" for region in regions.values()}
    budgets = {f"{region.spent.mu:.4g}" for region in regions.values()}
    axes.set_xlabel(
        f"{xlabel}\nprivate confidence intervals, level {', '.join(sorted(levels))}, "
        f"μ = {', '.join(sorted(budgets))}".strip(),
        fontsize=9,
        parse_math=False,
    )
    return figure


def _short(label: str) -> str:
    return label if len(label) <= 40 else f"{label[:39]}…"
