"""`confidp ledger`: what was spent, on what, and what remains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from confidp.cli.options import budget as budget_of
from confidp.errors import InvalidArgument


@click.command()
@click.argument("path", metavar="L", type=click.Path(path_type=Path))
@click.option("--create", is_flag=True, help="Make a new ledger with this total budget:")
@click.option("--mu", type=float, metavar="MU", help="total μ of Gaussian DP,")
@click.option("--epsilon", type=float, metavar="E", help="or total ε,")
@click.option("--delta", type=float, metavar="D", help="with its δ.")
@click.option("--show", type=int, metavar="N", help="Show past result N again, for free.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def ledger(
    path: Path,
    create: bool,
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    show: int | None,
    as_json: bool,
) -> None:
    """Print what was spent of ledger L, on what, and what remains.

    \b
    Examples:
      confidp ledger L --create --mu 2
      confidp ledger L
    """
    from confidp import ConfidenceRegion, Ledger
    from confidp.cli.output import print_ledger, print_region

    if create and show is not None:
        raise InvalidArgument("--show must come without --create: a new ledger has no results")
    if create:
        opened = Ledger.create(path, _total(mu, epsilon, delta))
    elif (mu, epsilon, delta) != (None, None, None):
        raise InvalidArgument("--mu, --epsilon and --delta must come with --create")
    else:
        opened = Ledger.open(path)
    if show is None:
        click.echo(json.dumps(_as_dict(opened))) if as_json else print_ledger(opened)
        return
    entry = opened.entry(show)
    if entry.released is None:
        raise InvalidArgument(f"--show must name an entry with a result, and {show} has none")
    if as_json:
        click.echo(json.dumps(dict(entry.released)))
    else:
        region = ConfidenceRegion.from_dict(entry.released)
        print_region(region, of=str(entry.query.get("data")))


def _total(mu: float | None, epsilon: float | None, delta: float | None) -> Any:
    """Return the total; of a δ, a millionth goes to the noise lattices of the releases."""
    from confidp import GDP, ApproxDP

    budget = budget_of(mu, epsilon, delta)
    if isinstance(budget, GDP):
        return budget
    lattices = budget.delta / 2**20
    return GDP(ApproxDP(budget.epsilon, budget.delta - lattices).to_gdp().mu, lattices)


def _as_dict(opened: Any) -> dict[str, Any]:
    def cost(value: Any) -> dict[str, float] | None:
        return None if value is None else {"mu": value.mu, "delta": value.delta}

    return {
        "unit": opened.unit,
        "total": cost(opened.total),
        "spent": cost(opened.spent),
        "remaining": cost(opened.remaining),
        "entries": [
            {
                "number": entry.number,
                "when": entry.when,
                "cost": cost(entry.cost),
                "query": dict(entry.query),
                "released": None if entry.released is None else dict(entry.released),
            }
            for entry in opened.entries()
        ],
    }
