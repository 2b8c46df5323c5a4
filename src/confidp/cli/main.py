"""The `confidp` command: errors are one line on stderr, with exit code 2.

A command's module, and what it needs, is imported when that command is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from confidp.errors import ConfidpError

# Each in the module of its name, and the first line of its help: so that help needs no import.
COMMANDS = {
    "design": "Print the best query for a population, and what a report by each mechanism tells.",
    "interval": (
        "Print a private confidence interval for the population that FILE's rows were drawn from."
    ),
    "ledger": "Print what was spent of ledger L, on what, and what remains.",
    "simulate": (
        "Rehearse learning a population from private reports, on people who are simulated."
    ),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"confidp.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="confidp")
@click.pass_context
def cli(context: click.Context) -> None:
    """Say what a private data set says about its population, with honest uncertainty."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # no μ in ASCII: a result that is paid for stays
    try:
        sys.exit(cli.main(prog_name="confidp", standalone_mode=False))
    except click.exceptions.Abort:
        code, message = 130, "stopped"
    except click.ClickException as error:
        code, message = 2, error.format_message()
    except ConfidpError as error:
        code, message = 2, str(error)
    except Exception as error:
        # Its message could quote private values; its type can't.
        code, message = 70, f"internal error ({type(error).__name__}); please report it"
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
