"""`confidp design`: which question to ask, what a report tells, and how many people it takes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from confidp.cli.options import ManyNumbers, Numbers, local_options, picture
from confidp.errors import real


@click.command(cls=ManyNumbers)
@local_options
@click.option(
    "--at",
    type=Numbers(),
    metavar="θ...",
    help="Where the population is thought to be.  [default: the standard one, or the prior's "
    "middle]",
)
@click.option("--se", type=float, metavar="S", help="People needed for this standard error.")
@click.option("--no-bound", is_flag=True, help="Leave out the bound, which takes seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="P.png", help="Draw a picture.")
def design(
    population: str,
    hold: tuple[tuple[str, float], ...],
    prior: tuple[tuple[str, float, float], ...],
    epsilon: float | None,
    mu: float | None,
    criterion: str,
    at: tuple[float, ...] | None,
    se: float | None,
    no_bound: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print the best query for a population, and what a report by each mechanism tells.

    \b
    Examples:
      confidp design --population normal --epsilon 1
      confidp design --population normal --epsilon 1 --at 50 3.162 --se 0.1
    """
    # Heavy imports, and only what this command needs.
    from confidp.cli import population as words
    from confidp.local.comparison import compare, guarantee

    family = words.population_of(population, hold, prior)
    goal = words.criterion_of(criterion, family)
    epsilon, mu = guarantee(epsilon, mu)
    theta = None if at is None else words.theta_of("--at", family, at)
    if se is not None:
        real("--se", se, "above 0", lambda x: x > 0)
    picture(plot)
    found = compare(
        family, theta, epsilon=epsilon, mu=mu, criterion=goal, cells=0 if no_bound else 80
    )
    result = _as_dict(found, population, family, epsilon, mu, criterion, se)
    if as_json:
        click.echo(json.dumps(result))
    else:
        _print(result, words.named(family, found.theta))
    if plot is not None:  # after the result is safe
        from confidp.plots.designs import plot_comparison

        each = f"ε = {epsilon:g}" if epsilon is not None else f"μ = {mu:g}"
        label = f"{population}, {words.named(family, found.theta)}; one report at {each}"
        plot_comparison(found, family.parameters, xlabel=label).savefig(plot, dpi=200)


def _as_dict(
    found: Any,
    population: str,
    family: Any,
    epsilon: float | None,
    mu: float | None,
    criterion: str,
    se: float | None,
) -> dict[str, Any]:
    def told(told: Any) -> dict[str, Any]:
        return {
            "mechanism": told.name,
            "knots": list(told.knots),
            "information": told.information.tolist(),
            "trace": _finite(told.trace),
            "log_det": _finite(told.log_det),
            "loss": _finite(told.loss),
            "variances": [_finite(v) for v in told.variances.tolist()],
            "people": None if se is None else list(told.people(se)),
        }

    best = found.best_told
    return {
        "population": population,
        "family": family.to_dict(),
        "parameters": list(family.parameters),
        "at": list(found.theta),
        "epsilon": epsilon,
        "mu": mu,
        "criterion": criterion,
        "standard_error": se,
        "mechanisms": [told(one) for one in found.mechanisms],
        "best_found": None
        if found.best is None
        else {**told(best), "bound": found.best.bound, "cells": len(found.best.design.weights)},
        "no_privacy": told(found.no_privacy),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(result: dict[str, Any], theta: str) -> None:
    """Print the best query, then every mechanism beside the bound."""
    from rich.table import Table

    from confidp.cli.output import console_for_people

    console, first, best = console_for_people(), result["mechanisms"][0], result["best_found"]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column()
    facts.add_row("population", f"{result['population']}, {theta}")
    each = f"ε = {result['epsilon']:g}" if result["mu"] is None else f"μ = {result['mu']:g}"
    facts.add_row("each report", f"{each} by itself")
    facts.add_row("best to ask", f"{first['mechanism']}; {_placed(first)}")
    console.print(facts)
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("one report by")
    names = result["parameters"]
    for heading in ("tr F⁻¹", "D", *(f"sd of {name}" for name in names)):
        table.add_column(heading, justify="right")
    if result["standard_error"] is not None:
        table.add_column("people", justify="right")
    rows = [*result["mechanisms"]]
    if best is not None:
        rows.append({**best, "mechanism": "best found of all channels"})
    for row in [*rows, result["no_privacy"]]:
        cells = [_number(row["trace"]), _number(row["log_det"])]
        cells += [_number(None if v is None else math.sqrt(v)) for v in row["variances"]]
        if row["people"] is not None:
            cells.append(_people(row["people"]))
        table.add_row(row["mechanism"], *cells)
    console.print(table)
    console.print()
    foot = Table.grid(padding=(0, 2))
    foot.add_column(style="bold")
    foot.add_column()
    foot.add_row("tr F⁻¹, D", "summed variances, −log det F: of one report, less is better")
    if result["standard_error"] is not None:
        wanted = f"for a standard error of {result['standard_error']:g} or less in each parameter"
        foot.add_row("people", f"how many it takes, at the limit, {wanted}")
    if best is not None:
        foot.add_row(
            "bound",
            f"no ε-DP channel that sees a value through {best['cells']} cells has a loss "
            f"({_loss(result['criterion'])}) below {best['bound']:.4g}; the best found has "
            f"{best['loss']:.4g}",
        )
    console.print(foot)


def _placed(told: dict[str, Any]) -> str:
    knots = ", ".join(f"{knot:.5g}" for knot in told["knots"])
    if told["mechanism"].startswith("mirrored"):
        return f"centre and interval {knots}"
    return f"{'cuts at' if 'response' in told['mechanism'] else 'interval'} {knots}"


def _loss(criterion: str) -> str:
    return {"A": "tr F⁻¹", "D": "D"}.get(criterion, f"variance of {criterion}")


def _number(value: float | None) -> str:
    return "∞" if value is None else f"{value:,.4g}"


def _people(counts: list[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return f"{max(known):,}" if len(known) == len(counts) else "∞"
