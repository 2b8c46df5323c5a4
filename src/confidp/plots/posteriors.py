"""A picture of learning from private reports: what is known, and what was asked, over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from confidp.errors import InvalidArgument
from confidp.local.simulation import Round

Array = NDArray[np.float64]

_OUTER, _INNER = "0.86", "0.66"  # greys that stay apart in print
_EARLY = 0.05  # the share of reports before which an axis may be left
_MOST_DOTS = 150  # rounds whose cuts are drawn


def plot_posteriors(
    rounds: Sequence[Round],
    parameters: Sequence[str],
    truth: Sequence[float] | None = None,
    xlabel: str = "",
    truth_label: str = "truth",
) -> Figure:
    """Return a figure with a panel for each parameter and one for the cut points asked.

    After Figure 2 of the paper on adaptive truncation: posterior mean, 50% and 90% intervals
    against the number of reports. Axes are scaled to what is known after a twentieth of the
    reports; the first rounds, when little is known, may leave them.

    Parameters
    ----------
    rounds
        What `rehearse` yielded, at least one.
    parameters
        A name for each.
    truth
        What is being learnt, where it is known.
    xlabel
        What was done, in a line under the axis.
    """
    if not rounds:
        raise InvalidArgument("rounds must hold at least one round")
    reports = np.array([r.reports for r in rounds])
    means = np.array([r.mean for r in rounds])
    quantiles = np.array([r.quantiles for r in rounds])  # rounds × d × 5
    settled = reports >= _EARLY * reports[-1]
    d = len(parameters)
    # A Figure of its own: pyplot would keep global state.
    figure = Figure(figsize=(6.4, 0.9 + 1.75 * (d + 1)), layout="constrained")
    panels = figure.subplots(d + 1, 1, sharex=True, squeeze=False)[:, 0]
    for i, (axes, name) in enumerate(zip(panels, parameters, strict=False)):
        low, lower, _, upper, high = quantiles[:, i].T
        axes.fill_between(reports, low, high, color=_OUTER, linewidth=0, label="90% interval")
        axes.fill_between(reports, lower, upper, color=_INNER, linewidth=0, label="50% interval")
        axes.plot(reports, means[:, i], color="black", linewidth=1.3, label="mean")
        ends = [low[settled].min(), high[settled].max()]
        if truth is not None:
            axes.axhline(
                truth[i], color="black", linewidth=1, linestyle=(0, (5, 3)), label=truth_label
            )
            ends += [truth[i], truth[i]]
        _scale(axes, np.array(ends))
        axes.set_ylabel(name, rotation=0, ha="right", va="center", parse_math=False)
    _draw_cuts(panels[-1], rounds, settled)
    for axes in panels:
        axes.spines[["right", "top"]].set_visible(False)
        axes.yaxis.set_major_formatter("{x:,.6g}")
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    panels[-1].set_xlim(0, 1.005 * reports[-1])  # room for half a dot
    figure.align_ylabels(panels)
    panels[-1].set_xlabel(f"private reports\n{xlabel}".strip(), fontsize=9, parse_math=False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_cuts(axes: Axes, rounds: Sequence[Round], settled: NDArray[np.bool_]) -> None:
    """Draw each round's cut points as dots; of many rounds, evenly spaced ones."""
    shown = np.unique(np.linspace(0, len(rounds) - 1, _MOST_DOTS).astype(int))
    for i in shown.tolist():
        cuts = rounds[i].cuts
        axes.plot([rounds[i].reports] * len(cuts), cuts, ".", color="black", markersize=2.5)
    late = [rounds[i].cuts for i in np.flatnonzero(settled).tolist()]
    _scale(axes, np.array([end for cuts in late for end in (min(cuts), max(cuts))]))
    axes.set_ylabel("cut points\nasked", rotation=0, ha="right", va="center", fontsize=9)


def _scale(axes: Axes, shown: Array) -> None:
    low, high = float(shown.min()), float(shown.max())
    room = 0.08 * (high - low) or 0.5
    axes.set_ylim(low - room, high + room)
