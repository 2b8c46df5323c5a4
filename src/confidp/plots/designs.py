"""A picture of mechanisms side by side: how well one report by each tells the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from confidp.local.comparison import Comparison

_MARKS = ("o", "s", "^", "D")


def plot_comparison(comparison: Comparison, parameters: Sequence[str], xlabel: str = "") -> Figure:
    """Return a figure with a row for each mechanism and a mark for each parameter's deviation.

    Parameters
    ----------
    comparison
        What `compare` returned.
    parameters
        A name for each.
    xlabel
        What is compared, in a line under the axis.
    """
    best = comparison.best_told
    rows = [*comparison.mechanisms, *([] if best is None else [best]), comparison.no_privacy]
    # A Figure of its own: pyplot would keep global state.
    figure = Figure(figsize=(6.4, 1.5 + 0.32 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    deviations = np.sqrt([told.variances for told in rows])
    for i, name in enumerate(parameters):
        known = np.isfinite(deviations[:, i])
        axes.plot(
            deviations[known, i],
            np.flatnonzero(known),
            _MARKS[i % len(_MARKS)],
            color="black" if i % 2 == 0 else "white",
            markeredgecolor="black",
            markersize=6,
            label=f"{name}",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.xaxis.set_major_formatter("{x:,.6g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [told.name for told in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["left", "right", "top"]].set_visible(False)
    what = "standard deviation that one report leaves, at the limit (less is better)"
    axes.set_xlabel(
        f"{what}\n{xlabel}".strip(),
        fontsize=9,
        parse_math=False,
    )
    figure.legend(loc="outside upper center", ncols=len(parameters), frameon=False, fontsize=9)
    return figure
