"""Options that commands share."""

from __future__ import annotations

from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP, ApproxDP


def budget(mu: float | None, epsilon: float | None, delta: float | None) -> GDP | ApproxDP:
    """Return the budget that `--mu`, or `--epsilon` with `--delta`, names.

    `--delta` with `--mu` is for methods that need a δ of their own.
    """
    if mu is not None and epsilon is None:
        return GDP(mu, 0.0 if delta is None else delta)
    if mu is None and epsilon is not None and delta is not None:
        return ApproxDP(epsilon, delta)
    raise InvalidArgument("a budget must be given: either --mu, or --epsilon and --delta")
