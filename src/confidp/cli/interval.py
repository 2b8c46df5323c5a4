"""`confidp interval`: a private confidence interval from one column of a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from confidp.cli.options import budget as budget_of
from confidp.errors import InvalidArgument

_STATISTICS = ("mean", "median", "quantile")
_METHODS = ("auto", "private-variance", "rank-inversion", "cr-gs", "cr-gs-published", "cr-ss")
_SAMPLINGS = ("without_replacement", "with_replacement")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--column", required=True, metavar="C", help="The column to use.")
@click.option("--statistic", type=click.Choice(_STATISTICS), default="mean", show_default=True)
@click.option("--q", type=float, metavar="Q", help="Which quantile, in (0, 1).")
@click.option(
    "--bounds",
    required=True,
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="What a value can be, from public knowledge; values beyond are clipped.",
)
@click.option("--mu", type=float, metavar="MU", help="Budget: μ of Gaussian DP (1 is customary).")
@click.option("--epsilon", type=float, metavar="E", help="Budget: ε, with --delta.")
@click.option("--delta", type=float, metavar="D", help="Budget: δ, with either.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level.")
@click.option("--missing", metavar="VALUE", default="none", help="What missing values count as.")
@click.option("--resolution", type=float, metavar="R", help="The data's step, such as 1 or 0.01.")
@click.option("--method", type=click.Choice(_METHODS), default="auto", show_default=True)
@click.option("--sampling", type=click.Choice(_SAMPLINGS), help="With --method: how to resample.")
@click.option("--resamples", type=int, default=1000, show_default=True, metavar="B")
@click.option(
    "--ledger", type=click.Path(path_type=Path), metavar="L", help="Charge this ledger first."
)
@click.option("--seed", type=int, metavar="N", help="Reproducible, and NOT PRIVATE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="P.png", help="Draw a picture.")
def interval(
    file: Path,
    column: str,
    statistic: str,
    q: float | None,
    bounds: tuple[float, float],
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    level: float,
    missing: str,
    resolution: float | None,
    method: str,
    sampling: str | None,
    resamples: int,
    ledger: Path | None,
    seed: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print a private confidence interval for the population that FILE's rows were drawn from.

    \b
    Example:
      confidp interval earnings.csv --column earnings_1978 --bounds 0 30000 --mu 1
      confidp interval earnings.csv --column age --statistic median --bounds 16 55 \\
        --epsilon 4 --delta 1e-6
    """
    # Heavy imports, and only what this command needs.
    from confidp import Ledger, confidence_region
    from confidp.cli.output import print_region
    from confidp.io.files import read_column

    budget = budget_of(mu, epsilon, delta)
    estimand = _statistic(statistic, q, bounds, resolution)
    chosen = _method(method, sampling)
    if plot is not None and plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidArgument(f"--plot must end in .png, .pdf or .svg, not {plot.name!r}")
    if plot is not None and not plot.resolve().parent.is_dir():
        raise InvalidArgument(f"--plot must be in a folder that exists, not {str(plot)!r}")
    if plot is not None and (plot.is_dir() or not os.access(plot.resolve().parent, os.W_OK)):
        raise InvalidArgument(f"--plot must be a file that can be written, not {str(plot)!r}")
    opened = Ledger.open(ledger) if ledger is not None else None

    region = confidence_region(
        read_column(file, column),
        estimand,
        budget=budget,
        confidence_level=level,
        method=chosen,
        n_resamples=resamples,
        missing=_missing(missing),
        ledger=opened,
        rng=seed,
        label=f"{file.name}: {column}",
    )
    if as_json:
        click.echo(json.dumps(region.to_dict()))
    else:
        print_region(region, of=column, ledger=opened)
    if plot is not None:  # after the result, which is paid for, is safe
        from confidp.plots.regions import plot_intervals

        plot_intervals({column: region}).savefig(plot, dpi=200)


def _statistic(
    name: str, q: float | None, bounds: tuple[float, float], resolution: float | None
) -> Any:
    from confidp import Mean, Median, Quantile

    if (q is not None) != (name == "quantile"):
        raise InvalidArgument("--q must come with --statistic quantile, and only with it")
    if q is not None:
        return Quantile(q, bounds, resolution)
    return (Mean if name == "mean" else Median)(bounds, resolution)


def _method(name: str, sampling: str | None) -> Any:
    from confidp import CRGS, CRSS, PrivateVariance, RankInversion

    others = {
        "auto": name,
        "private-variance": PrivateVariance(),
        "rank-inversion": RankInversion(),
    }
    if name in others:
        if sampling is not None:
            raise InvalidArgument("--sampling must come with a --method that resamples")
        return others[name]
    sampling = sampling or _SAMPLINGS[0]
    if name == "cr-ss":
        return CRSS(sampling)
    return CRGS(sampling, calibration="noise-aware" if name == "cr-gs" else "published")


def _missing(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
