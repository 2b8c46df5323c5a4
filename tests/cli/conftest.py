"""What tests of commands share."""

import sys

import pytest

from confidp.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `confidp` in this process; return its exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["confidp", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return (caught.value.code or 0, *capsys.readouterr())

    return call
