"""`confidp interval`: a private confidence interval from one column of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from confidp.cli.options import budget as budget_of
from confidp.cli.options import picture
from confidp.errors import InvalidArgument

_STATISTICS = ("mean", "median", "quantile", "variance", "standard-deviation", "mean-difference")
_METHODS = (
    "auto", "private-variance", "delta-method", "rank-inversion", "cr-gs", "cr-gs-published",
    "cr-ss", "cr-ss-published",
)  # fmt: skip
_ALTERNATIVES = ("two-sided", "greater", "less")
_SAMPLINGS = ("without_replacement", "with_replacement")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--column", required=True, metavar="C", help="The column to use.")
@click.option("--statistic", type=click.Choice(_STATISTICS), default="mean", show_default=True)
@click.option(
    "--q",
    type=float,
    multiple=True,
    metavar="Q",
    help="Which quantile, in (0, 1); again for several, all covered at once.",
)
@click.option(
    "--floor", type=float, metavar="F", help="What a standard deviation is at least, publicly."
)
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
@click.option(
    "--alternative",
    type=click.Choice(_ALTERNATIVES),
    default="two-sided",
    show_default=True,
    help="greater: a lower bound; less: an upper bound.",
)
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
    q: tuple[float, ...],
    floor: float | None,
    bounds: tuple[float, float],
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    level: float,
    alternative: str,
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
    if plot is not None and len(q) > 1:
        raise InvalidArgument("--plot draws one interval, and several quantiles have several")
    estimand = _statistic(statistic, q, floor, bounds, resolution)
    chosen = _method(method, sampling)
    picture(plot)
    opened = Ledger.open(ledger) if ledger is not None else None

    region = confidence_region(
        read_column(file, column),
        estimand,
        budget=budget,
        confidence_level=level,
        alternative=alternative,
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
    name: str,
    q: tuple[float, ...],
    floor: float | None,
    bounds: tuple[float, float],
    resolution: float | None,
) -> Any:
    from confidp import GiniMeanDifference, Mean, Median, Quantile, StandardDeviation, Variance

    if bool(q) != (name == "quantile"):
        raise InvalidArgument("--q must come with --statistic quantile, and only with it")
    if (floor is not None) != (name == "standard-deviation"):
        raise InvalidArgument("--floor must come with --statistic standard-deviation, and only it")
    if q:
        return Quantile(q[0] if len(q) == 1 else sorted(q), bounds, resolution)
    if floor is not None:
        return StandardDeviation(bounds, floor, resolution)
    simple: dict[str, Any] = {
        "mean": Mean,
        "median": Median,
        "variance": Variance,
        "mean-difference": GiniMeanDifference,
    }
    return simple[name](bounds, resolution)


def _method(name: str, sampling: str | None) -> Any:
    from confidp import CRGS, CRSS, DeltaMethod, PrivateVariance, RankInversion

    others = {
        "auto": name,
        "private-variance": PrivateVariance(),
        "delta-method": DeltaMethod(),
        "rank-inversion": RankInversion(),
    }
    if name in others:
        if sampling is not None:
            raise InvalidArgument("--sampling must come with a --method that resamples")
        return others[name]
    sampling = sampling or _SAMPLINGS[0]
    resampled = CRSS if name.startswith("cr-ss") else CRGS
    calibration = "published" if name.endswith("published") else "noise-aware"
    return resampled(sampling, calibration=calibration)


def _missing(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
