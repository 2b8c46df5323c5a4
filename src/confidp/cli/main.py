"""The `confidp` command: errors are one line on stderr, with exit code 2."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from confidp.cli.design import design
from confidp.cli.interval import interval
from confidp.cli.ledger import ledger
from confidp.cli.simulate import simulate
from confidp.errors import ConfidpError


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="confidp")
@click.pass_context
def cli(context: click.Context) -> None:
    """Say what a private data set says about its population, with honest uncertainty."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.add_command(interval)
cli.add_command(ledger)
cli.add_command(simulate)
cli.add_command(design)


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
