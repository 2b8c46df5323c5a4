"""Bad input: any value for any argument works, or is refused in one line before any charge.

Every argument of every door is spoilt by every nasty value in turn, then pairs of arguments by
pairs of values that Hypothesis chooses. Doors that take a second get a fixed sample of the values.
"""

from __future__ import annotations

import inspect
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import confidp as cdp
from confidp import ConfidpError, Ledger, local
from confidp.cli.main import main
from confidp.privacy import ledger as ledger_module
from hardening.doors import GENERAL, METHODS, STATISTICS, Door, ledger_doors
from hardening.local_doors import LOCAL
from hardening.nasty import NASTY

DOORS = {**GENERAL, **STATISTICS, **METHODS, **LOCAL}
LONG = "has a message that isn't one short line"
BEFORE = "raises another error than a ConfidpError"
LONGEST = 1000  # characters of a message
SLOW_SECONDS = 60  # far above what any call takes, far below a hang

# Sampled, one value in so many: each call takes 10 ms to 3 s.
SAMPLED = {
    "Collector": 2, "COptimal": 4, "Diagonal": 4, "best_cells": 2, "best_channel": 4,
    "best_interval": 4, "compare": 10, "Normal, asked": 40,
}  # fmt: skip

# Public names with arguments that aren't doors, and why.
HOOKS = {
    # Called by the library, in its loops, with what it has checked: of a statistic, a method,
    "encode", "for_shape", "in_order", "resampled", "resampled_smooth", "rounding", "scale",
    "sensitivity", "pivot_sensitivity", "smooth_sensitivity", "value", "exact", "ranks",
    "gradients", "hessians", "plan", "has_jackknife", "jackknife", "jackknife_sensitivity",
    "partner_sums",
    # a mechanism, a prior and a family.
    "build", "sample", "log_density", "cdf", "cells", "coarse", "gradient", "guesses", "place",
    "log_jacobian", "log_prior", "natural", "sample_prior", "snap", "spread", "tails",
    "unconstrained",
}  # fmt: skip
# Made by the library: what reads one from a file checks it.
RESULTS = {"BestChannel", "Comparison", "ConfidenceRegion", "Design", "Ledger", "Posterior"}
# To inherit from, or to catch.
TYPES = {
    "Population", "Prior", "BudgetExhausted", "ConfidpError", "InvalidArgument", "LedgerError",
    "StateError",
}  # fmt: skip


class Counted:
    """Stands in for a ledger: refuses what isn't JSON, and counts."""

    def __init__(self) -> None:
        self.charges = 0

    def charge(self, cost: Any, query: Any) -> int:
        ledger_module._json("query", query)
        self.charges += 1
        return 1


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some nasty values are names, and files are made there."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def paper() -> Any:
    """Make every charge a count."""
    counted = Counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "charge", lambda self, cost, query: counted.charge(cost, query))
        patch.setattr(Ledger, "record", lambda self, number, released: None)
        yield counted


def stop(*_: Any) -> None:
    raise TimeoutError("takes too long")


def problem(door: Door, spoilt: dict[str, Any], paper: Counted | None = None) -> str | None:
    """Call a door and return what is wrong with how it answers, or None."""
    if paper is not None:
        paper.charges = 0
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS)
    try:
        door.call(**{**door.arguments, **spoilt})
    except ConfidpError as error:
        message = str(error)
        if "\n" in message or len(message) > LONGEST:
            return LONG
        if paper is not None and paper.charges:
            return f"charged before it refused: {message}"
    except Exception as error:
        charged = paper is not None and paper.charges
        if isinstance(error, TimeoutError):
            return "hangs"
        return f"charged, then {type(error).__name__}" if charged else BEFORE
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def values_for(name: str, argument: str) -> list[str]:
    every = SAMPLED.get(name, 1)
    return [v for v in NASTY if crc32(f"{name} {argument} {v}".encode()) % every == 0]


@pytest.mark.parametrize("name", DOORS)
def test_every_door_opens_to_what_is_right(name: str, paper: Counted) -> None:
    DOORS[name].call(**DOORS[name].arguments)


@pytest.mark.parametrize("name", DOORS)
def test_any_value_for_any_argument_works_or_is_refused_before_a_charge(
    name: str, paper: Counted
) -> None:
    door, problems = DOORS[name], []
    for argument in door.arguments:
        for label in values_for(name, argument):
            found = problem(door, {argument: NASTY[label]()}, paper)
            if found:
                problems.append(f"{argument} = {label} {found}")
    assert problems == []


@settings(
    max_examples=150, derandomize=True, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    st.sampled_from([name for name in DOORS if name not in SAMPLED]),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(sorted(NASTY))), min_size=2, max_size=3),
)
def test_any_values_for_several_arguments_work_or_are_refused(
    paper: Counted, name: str, choices: list[tuple[int, str]]
) -> None:
    door = DOORS[name]
    arguments = list(door.arguments)
    spoilt = {arguments[i % len(arguments)]: NASTY[label]() for i, label in choices}
    assert problem(door, spoilt, paper) is None


def test_a_ledger_refuses_any_bad_value_and_keeps_its_charges(tmp_path: Any) -> None:
    doors, problems = ledger_doors(tmp_path), []
    ledger = Ledger.open(tmp_path / "a.ledger")
    for name, door in doors.items():
        for argument in door.arguments:
            for label, make in NASTY.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    found = problem(door, {argument: make()})
                if found:
                    problems.append(f"{name} {argument} = {label} {found}")
    assert problems == []
    assert all(entry.cost.mu == 1e-3 for entry in ledger.entries())


def callables() -> Iterator[str]:
    """Yield every public function, class, and method of a public class, that has arguments."""
    at_the_collector = [name for name in dir(local) if name in local._AT_THE_COLLECTOR]
    for module, names in ((cdp, cdp.__all__), (local, [*local.__all__, *at_the_collector])):
        for name in names:
            thing = getattr(module, name)
            if name not in RESULTS | TYPES and inspect.signature(thing).parameters:
                yield name
            if not inspect.isclass(thing) or name in TYPES:
                continue
            for method, found in inspect.getmembers_static(thing):
                function = getattr(found, "__func__", found)
                if method.startswith("_") or method in HOOKS or not inspect.isfunction(function):
                    continue
                if set(inspect.signature(function).parameters) - {"self", "cls"}:
                    yield f"{name}.{method}"


def test_every_public_name_with_arguments_is_a_door(tmp_path: Path) -> None:
    missing = set(callables()) - set(DOORS) - set(ledger_doors(tmp_path))
    assert sorted(missing) == []


def test_every_argument_of_every_door_has_its_values() -> None:
    # Of the plan, not of what was tried: workers each try a part of it.
    planned = {
        (name, argument): len(values_for(name, argument))
        for name in DOORS
        for argument in DOORS[name].arguments
    }
    print(f"\n{sum(planned.values())} inputs for {len(planned)} arguments of {len(DOORS)} doors")
    assert sum(planned.values()) > 20_000
    full = {key: count for key, count in planned.items() if key[0] not in SAMPLED}
    assert set(full.values()) == {len(NASTY)}


# --- the command line ---

WORDS = [
    "", " ", "canary", "nan", "inf", "-inf", "1e400", "-1", "0", "-0", "1", "0.5", "1e-400", "0x10",
    "1_000", "1,000", "½", "１", "9" * 5000, "a\nb", "\x1b[31m", "%s {} $HOME", "-", "--", "--json",
    "/", "/dev/null", "/nonexistent/x.png", "none", "auto", "mean", "\udcff", "[1]", "None",
]  # fmt: skip
COMMANDS = {
    "interval": [
        "t.csv", "--column", "a", "--bounds", "0", "1", "--mu", "1", "--level", "0.9", "--missing",
        "0.5", "--resolution", "0.25", "--resamples", "10", "--statistic", "mean", "--method",
        "auto", "--ledger", "a.ledger",
    ],
    "ledger": ["b.ledger", "--create", "--mu", "1"],
    "ledger --show": ["a.ledger", "--show", "1"],
}  # fmt: skip
SLOW_COMMANDS = {
    "simulate": [
        "--population", "normal", "--truth", "50", "3.162", "--epsilon", "1", "--people", "3",
        "--seed", "1",
    ],
    "design": ["--population", "normal", "--epsilon", "1"],
}  # fmt: skip


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["confidp", *words])
        with pytest.raises(SystemExit) as left:
            main()
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def spoilt_commands(commands: dict[str, list[str]], every: int) -> list[list[str]]:
    made = []
    for name, words in commands.items():
        for at, word in enumerate(words):
            if word.startswith("--"):
                continue
            for nasty in WORDS:
                if crc32(f"{name} {at} {nasty}".encode("utf-8", "replace")) % every == 0:
                    made.append([name.split()[0], *words[:at], nasty, *words[at + 1 :]])
    return made


@pytest.mark.parametrize(("commands", "every"), [(COMMANDS, 2), (SLOW_COMMANDS, 12)])
def test_any_word_on_the_command_line_works_or_is_one_line_on_stderr_with_code_2(
    commands: dict[str, list[str]],
    every: int,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a\n" + "0.25\n0.5\n" * 30)
    Ledger.create("a.ledger", _large())
    problems = []
    for words in spoilt_commands(commands, every):
        (tmp_path / "b.ledger").unlink(missing_ok=True)
        before = len(Ledger.open("a.ledger").entries())
        code, out, err = run(words, capsys)
        charged = len(Ledger.open("a.ledger").entries()) - before
        fine = code == 0 or (
            code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1
            and not charged
        )  # fmt: skip
        if not fine or "Traceback" in err:
            problems.append((words, code, err[-200:], charged))
    assert problems == []


def _large() -> Any:
    from confidp import GDP

    return GDP(1e6)
