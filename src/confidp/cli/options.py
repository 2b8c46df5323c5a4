"""Options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP, ApproxDP

MECHANISMS = (
    "response",
    "truncated-laplace",
    "mirrored-laplace",
    "truncated-gaussian",
    "mirrored-gaussian",
)
_PICTURES = (".png", ".pdf", ".svg")


def budget(mu: float | None, epsilon: float | None, delta: float | None) -> GDP | ApproxDP:
    """Return the budget that `--mu`, or `--epsilon` with `--delta`, names.

    `--delta` with `--mu` is for methods that need a δ of their own.
    """
    if mu is not None and epsilon is None:
        return GDP(mu, 0.0 if delta is None else delta)
    if mu is None and epsilon is not None and delta is not None:
        return ApproxDP(epsilon, delta)
    raise InvalidArgument("a budget must be given: either --mu, or --epsilon and --delta")


def picture(plot: Path | None) -> Path | None:
    """Return where to draw, or raise before anything is spent on what can't be drawn."""
    if plot is None:
        return None
    if plot.suffix.lower() not in _PICTURES:
        raise InvalidArgument(f"--plot must end in .png, .pdf or .svg, not {plot.name!r}")
    if not plot.resolve().parent.is_dir():
        raise InvalidArgument(f"--plot must be in a folder that exists, not {str(plot)!r}")
    if plot.is_dir() or not os.access(plot.resolve().parent, os.W_OK):
        raise InvalidArgument(f"--plot must be a file that can be written, not {str(plot)!r}")
    return plot


class Numbers(click.ParamType):  # type: ignore[type-arg]  # not generic in older Clicks
    """One or more numbers, such as "50 3.162": the value of an option of a `ManyNumbers`."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(word) for word in str(value).split())
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers.", param, ctx)


class ManyNumbers(click.Command):
    """A command whose options of type `Numbers` take as many numbers as follow them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the numbers that follow such an option into one word."""
        names = {name for p in self.params if isinstance(p.type, Numbers) for name in p.opts}
        words: list[str] = []
        joining = False
        for arg in args:
            if joining and _is_number(arg):
                words[-1] = f"{words[-1]} {arg}".strip()
                continue
            joining = arg in names
            words += [arg, ""] if joining else [arg]
        return super().parse_args(ctx, words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def local_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which population is asked, and what every report guarantees."""
    options = [
        click.option(
            "--population",
            required=True,
            metavar="FAMILY",
            help="normal, student-t, logistic, laplace, log-normal, exponential, gamma, or a "
            "family of SciPy such as scipy.weibull_min, whose shapes and scale are unknown.",
        ),
        click.option(
            "--hold",
            nargs=2,
            type=(str, float),
            multiple=True,
            metavar="NAME VALUE",
            help="What is known beforehand: df of a student-t, parameters of a SciPy family.",
        ),
        click.option(
            "--prior",
            nargs=3,
            type=(str, float, float),
            multiple=True,
            metavar="NAME GUESS SPREAD",
            help="A guess at a parameter, and how far off it may be: a standard deviation, or for "
            "a positive parameter a factor.",
        ),
        click.option("--epsilon", type=float, metavar="E", help="Every report is ε-DP by itself,"),
        click.option("--mu", type=float, metavar="MU", help="or μ-GDP: one of the two."),
        click.option(
            "--criterion",
            default="A",
            show_default=True,
            metavar="A|D|NAME",
            help="What queries are best for: the summed variances, the joint ellipse's size, or "
            "the variance of one parameter.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
