"""Each command is imported when it is used, and help says the same as its own."""

import subprocess
import sys
from importlib import import_module

import pytest

from confidp.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_says_of_a_command_is_the_first_line_of_its_own(name):
    command = getattr(import_module(f"confidp.cli.{name}"), name)
    assert command.help.splitlines()[0] == COMMANDS[name]
    assert command.name == name
    assert cli.get_command(None, name) is command


def test_there_is_no_other_command():
    assert cli.get_command(None, "main") is None
    assert cli.list_commands(None) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import confidp", {"numpy", "scipy", "numba", "opendp", "narwhals", "sqlite3"}),
        ("import confidp.local", {"numpy", "scipy", "numba", "opendp"}),
        ("import confidp.cli.main", {"numpy", "scipy", "numba", "rich", "polars", "matplotlib"}),
        ("from confidp import confidence_region", {"numba", "polars", "matplotlib", "rich"}),
    ],
)
def test_what_is_heavy_is_imported_only_where_it_is_used(code, heavy):
    program = f"import sys; {code}; print(*(m for m in {heavy!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []
