"""Results for people who needn't know statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from confidp.central.region import ConfidenceRegion
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP
from confidp.privacy.ledger import Ledger

SHOWN_DELTA = 1e-6  # at which an ε is shown beside μ
_FALSE_ALARMS = 0.05


def print_region(region: ConfidenceRegion, of: str, ledger: Ledger | None = None) -> None:
    """Print a one-dimensional region: the answer, what it means, costs and assumes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", max_width=34, overflow="fold")  # whatever the column's name
    table.add_column()
    if not region.private:
        table.add_row("NOT PRIVATE", "a seeded run: whoever knows the seed can remove the noise")
    name = region.statistic["statistic"]
    if math.isinf(region.radius) and region.box is None:
        table.add_row(
            f"{name} of {of}",
            "no result: the resampling failed (⊥), by chance, whatever the data",
        )
    else:
        _add_answer(table, region, name, of)
    if region.caution is not None:
        table.add_row("caution", region.caution)
    table.add_row("what it cost", _cost(region.spent))
    if ledger is not None:
        table.add_row("what remains", remaining(ledger))
    table.add_row("how", _how(region))
    for heading, line in zip(
        ["what it assumes"] + [""] * len(region.assumes), region.assumes, strict=False
    ):
        table.add_row(heading, f"• {line}")
    console_for_people().print(table)


def _add_answer(table: Table, region: ConfidenceRegion, name: str, of: str) -> None:
    digits = region.decimals
    level = f"{100 * region.confidence_level:.6g}%"
    rows = f"the population that these {region.public['n']:,} rows were drawn from."
    if region.dimension == 1:
        words, _, answer = region.in_words.partition(": ")
        table.add_row(f"{name} of {of}", f"{region.center[0]:,.{digits}f}")
        table.add_row(f"{level} {words}", answer)
        made = (
            "intervals made this way contain"
            if words == "interval"
            else f"{words}s like it hold for"
        )
        meaning = f"about {level} of {made} the {name} of {rows}"
    else:
        names = [part.strip() for part in name.split(",")]
        for each, center, (low, high) in zip(names, region.center, region.intervals, strict=True):
            table.add_row(
                f"{each} of {of}",
                f"{center:,.{digits}f}  ({level} interval, of all at once: {low:,.{digits}f} to "
                f"{high:,.{digits}f})",
            )
        meaning = f"about {level} of the time all intervals together contain those of {rows}"
    table.add_row("what it means", f"Where the assumptions below hold, {meaning}")
    if "note" in region.public:
        table.add_row("note", str(region.public["note"]))


def print_ledger(ledger: Ledger) -> None:
    """Print what was spent, on what, and what remains."""
    console = console_for_people()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("no.", "when (UTC)", "what", "μ", "result"):
        table.add_column(heading, justify="right" if heading in ("no.", "μ") else "left")
    for entry in ledger.entries():
        query = entry.query
        what = f"{query.get('statistic', '?')} of {query.get('data') or 'unnamed data'}"
        table.add_row(
            str(entry.number), entry.when, Text(what), f"{entry.cost.mu:.4g}",
            Text(_result(entry.released)),
        )  # fmt: skip
    if table.row_count:
        console.print(table)
    else:
        console.print("nothing spent yet")
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_row("total", guarantee(ledger.total))
    facts.add_row("spent", guarantee(ledger.spent))
    facts.add_row("remaining", remaining(ledger))
    facts.add_row("unit", ledger.unit)
    console.print(facts)


def guarantee(cost: GDP | None) -> str:
    """Return μ, and the ε it comes to."""
    if cost is None:
        return "μ = 0"
    delta = float(f"{max(SHOWN_DELTA, 2 * cost.delta):.0e}")  # no more digits than are shown
    if delta >= 1:
        return f"μ = {cost.mu:.4g}, δ = {cost.delta:.3g}"
    power = f"{delta:.0e}".replace("e-0", "e-")
    return f"μ = {cost.mu:.4g}  (ε = {cost.epsilon(delta):.3g} at δ = {power})"


def remaining(ledger: Ledger) -> str:
    """Return what one more release may cost."""
    left = ledger.remaining
    return "nothing: the budget is exhausted" if left is None else guarantee(left)


def _cost(spent: GDP) -> str:
    power = 1 - float(spent.tradeoff(_FALSE_ALARMS))
    return (
        f"{guarantee(spent)} for each row. Someone who knows every other row, and accepts "
        f"{_FALSE_ALARMS:.0%} false alarms, recognises what the last row says at most {power:.0%} "
        f"of the time ({_FALSE_ALARMS:.0%} by guessing)."
    )


def _how(region: ConfidenceRegion) -> str:
    public = region.public
    if "center_noise" not in public:
        return region.method
    if not isinstance(public["center_noise"], float):
        return region.method
    noise = f"{region.method}; privacy noise of {public['center_noise']:.3g} on the estimate"
    if "radius_noise" in public:
        return f"{noise} and {public['radius_noise']:.3g} on the interval's half-width"
    return f"{noise}, which the interval counts"


def _result(released: Mapping[str, Any] | None) -> str:
    if released is None:
        return "charged; no result recorded"
    try:
        return str(ConfidenceRegion.from_dict(released))
    except InvalidArgument:
        return "recorded, but not a region"


def console_for_people() -> Console:
    """Return a console that prints words as they are."""
    # No markup: a column may be called "income [usd]".
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
