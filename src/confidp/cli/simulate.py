"""`confidp simulate`: rehearse a collection of private reports on simulated people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from confidp.cli.options import MECHANISMS, ManyNumbers, Numbers, local_options, picture
from confidp.errors import InvalidArgument, integer

_POLICIES = ("thompson", "mean")
_PEOPLE = 1000
_ROUNDS = 100
_LEVELS = (0.9, 0.95)
_MISFIT = 4.0
Item = TypeVar("Item")


@click.command(cls=ManyNumbers)
@local_options
@click.option("--truth", type=Numbers(), metavar="θ...", help="The people's true parameters.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the people's values from a file instead. NOT PRIVATE towards whoever runs this.",
)
@click.option("--column", metavar="C", help="With --data: the column to use.")
@click.option(
    "--people", type=int, metavar="N", help=f"How many are asked.  [default: {_PEOPLE}, or all]"
)
@click.option("--round", "round_size", type=int, metavar="N", help="People who get the same query.")
@click.option("--mechanism", type=click.Choice(MECHANISMS), default="response", show_default=True)
@click.option(
    "--policy",
    type=click.Choice(_POLICIES),
    default="thompson",
    show_default=True,
    help="Ask what is best at a draw from the posterior, or at its mean.",
)
@click.option("--particles", type=int, default=1000, show_default=True, metavar="N")
@click.option("--seed", type=int, metavar="N", help="Make the run reproducible.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="P.png", help="Draw a picture.")
def simulate(
    population: str,
    hold: tuple[tuple[str, float], ...],
    prior: tuple[tuple[str, float, float], ...],
    epsilon: float | None,
    mu: float | None,
    criterion: str,
    truth: tuple[float, ...] | None,
    data: Path | None,
    column: str | None,
    people: int | None,
    round_size: int | None,
    mechanism: str,
    policy: str,
    particles: int,
    seed: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Rehearse learning a population from private reports, on people who are simulated.

    A planning tool: how close would so many reports come? Nobody is asked anything. With --data
    the values are a real column's: the reports are then randomised as they would be, but whoever
    runs this holds the data and learns from it what they like.

    \b
    Examples:
      confidp simulate --population normal --truth 50 3.162 --epsilon 1 --people 1000
      confidp simulate --population log-normal --data earnings.csv --column earnings_1978 \\
        --epsilon 2 --prior mu 9 2
    """
    # Heavy imports, and only what this command needs.
    import numpy as np

    from confidp.cli import population as words
    from confidp.local.collector import Collector
    from confidp.local.comparison import guarantee
    from confidp.local.simulation import Drawn, Rows, fit, rehearse

    family = words.population_of(population, hold, prior)
    goal = words.criterion_of(criterion, family)
    epsilon, mu = guarantee(epsilon, mu)
    kind = words.mechanism_of(mechanism, epsilon, mu)
    picture(plot)
    if (truth is None) == (data is None) or (data is None) != (column is None):
        raise InvalidArgument("give either --truth, or --data and --column")
    rng = np.random.default_rng(_seed(seed))
    values = None if data is None or column is None else _values(data, column, rng)
    if values is None:
        count = integer("--people", _PEOPLE if people is None else people, least=1)
    else:
        count = integer("--people", len(values) if people is None else people, least=1)
        if count > len(values):
            raise InvalidArgument(f"--people must be at most {len(values)}, the column's rows")
    size = math.ceil(count / _ROUNDS) if round_size is None else round_size
    integer("--round", size, least=1)
    at = [] if truth is None else words.theta_of("--truth", family, truth)
    collector = Collector(
        family,
        epsilon=epsilon if isinstance(kind, str) else None,  # a mechanism has its own
        mu=mu if isinstance(kind, str) else None,
        mechanism=kind,
        policy=policy,
        criterion=goal,
        n_particles=particles,
        rng=rng,
    )
    asked = Drawn(family, np.array(at)) if values is None else Rows(values)
    steps = rehearse(collector, asked, count, size, rng)
    rounds = list(_with_progress(steps, math.ceil(count / size)))
    if values is not None:
        at = fit(family, values).tolist()
    result = {
        "population": population,
        "family": family.to_dict(),
        "people": count,
        "round": size,
        "epsilon": epsilon,
        "mu": mu,
        "mechanism": mechanism,
        "answers": collector.queries[0].channel.outputs,
        "policy": policy,
        "criterion": criterion,
        "seed": seed,
        "data": None if data is None else {"file": str(data), "column": column},
        "private": False,  # a rehearsal: its answers can be repeated, and whoever runs it has all
        "parameters": _parameters(collector, at, goal, count),
        "distinct_queries": len(collector.queries),
        "effective_sample_size": collector.posterior.effective_sample_size,
        "particles": particles,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        _print(result, words.named(family, at))
    if plot is not None:  # after the result is safe
        from confidp.plots.posteriors import plot_posteriors

        each = f"ε = {epsilon:g}" if epsilon is not None else f"μ = {mu:g}"
        who = "simulated people" if data is None else f"rehearsal on {data.name}: {column}"
        plot_posteriors(
            rounds,
            family.parameters,
            at,
            xlabel=f"{who}, one report each at {each}",
            truth_label="truth" if data is None else "fit without privacy",
        ).savefig(plot, dpi=200)


def _seed(seed: int | None) -> int | None:
    return None if seed is None else integer("--seed", seed, least=0)


def _values(data: Path, column: str, rng: Any) -> Any:
    """Return the column's values in random order, so that the file's order teaches nothing."""
    import numpy as np

    from confidp.io.files import read_column

    series = read_column(data, column)
    if not series.dtype.is_numeric():
        raise InvalidArgument(f"column {column!r} must be numbers, not {series.dtype}")
    values = series.cast(float, strict=False).to_numpy().astype(float)
    if not len(values) or not np.isfinite(values).all():
        raise InvalidArgument("data have missing, infinite or non-numeric values, or no rows")
    return rng.permutation(values)


def _parameters(collector: Any, truth: list[float], criterion: Any, count: int) -> dict[str, Any]:
    """Return what is known of each parameter beside the truth and the information limit.

    The limit is that of `count` reports to the mechanism's best query at the truth.
    """
    import numpy as np

    from confidp.local.design import best_knots
    from confidp.local.information import Design, fisher_information

    family, posterior = collector.posterior.population, collector.posterior
    knots = best_knots(family, truth, collector.mechanism, criterion).knots
    design = Design.of(*collector.mechanism.build(knots))
    variances = np.diagonal(np.linalg.inv(fisher_information(family, truth, design))) / count
    intervals = {level: posterior.interval(level).tolist() for level in _LEVELS}
    return {
        name: {
            "truth": truth[i],
            "mean": float(posterior.mean[i]),
            "sd": float(posterior.sd[i]),
            "limit_sd": float(np.sqrt(variances[i])),
            **{f"interval_{100 * level:.0f}": intervals[level][i] for level in _LEVELS},
        }
        for i, name in enumerate(family.parameters)
    }


def _with_progress(items: Iterable[Item], total: int) -> Iterator[Item]:
    """Yield the items, with a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description="asking")


def _print(result: dict[str, Any], truth: str) -> None:
    """Print what was rehearsed, and how close it came."""
    from rich.table import Table

    from confidp.cli.output import console_for_people

    console, data = console_for_people(), result["data"]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column()
    family = result["population"]
    rounds = f"in rounds of {result['round']:,}"
    if data is None:
        facts.add_row("rehearsal", f"{result['people']:,} simulated people, {rounds}")
        facts.add_row("population", f"{family}, {truth}")
    else:
        facts.add_row(
            "NOT PRIVATE",
            "towards whoever runs this: the column is read in the clear, to plan with",
        )
        facts.add_row("rehearsal", f"{result['people']:,} people of {data['column']}, {rounds}")
        facts.add_row("population", f"{family}; fitted to the column without privacy: {truth}")
    each = f"ε = {result['epsilon']:g}" if result["mu"] is None else f"μ = {result['mu']:g}"
    facts.add_row(
        "each report",
        f"{each} by itself; {result['mechanism']}, one of {result['answers']} answers",
    )
    far = _far(result["parameters"])
    if data is not None and far > _MISFIT:
        facts.add_row(
            "caution",
            f"the private answer is {far:.0f} sd from the fit: the family may not suit the column",
        )
    console.print(facts)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("truth" if data is None else "fit", "mean", "sd", "limit"):
        table.add_column(heading, justify="right")
    table.add_column("90% interval")
    table.add_column("95% interval")
    for name, known in result["parameters"].items():
        digits = _digits(known["sd"])
        ends = [
            f"{low:,.{digits}f} to {high:,.{digits}f}"
            for low, high in (known["interval_90"], known["interval_95"])
        ]
        table.add_row(
            name,
            *(f"{known[part]:,.{digits}f}" for part in ("truth", "mean", "sd", "limit_sd")),
            *ends,
        )
    console.print(table)
    console.print()
    foot = Table.grid(padding=(0, 2))
    foot.add_column(style="bold")
    foot.add_column()
    foot.add_row(
        "limit", "the least sd that as many reports to this mechanism's best query could give"
    )
    foot.add_row("queries", f"{result['distinct_queries']:,} distinct ones")
    foot.add_row(
        "particles",
        f"{result['effective_sample_size']:,.0f} effective of {result['particles']:,}",
    )
    console.print(foot)


def _far(parameters: dict[str, Any]) -> float:
    """Return how many posterior sd lie between the mean and the fit, at most."""
    gaps = (abs(known["mean"] - known["truth"]) / known["sd"] for known in parameters.values())
    return float(max(gaps))


def _digits(sd: float) -> int:
    """Return how many decimals show an sd to two digits."""
    return 3 if not sd > 0 else min(max(1 - math.floor(math.log10(sd)), 0), 12)
