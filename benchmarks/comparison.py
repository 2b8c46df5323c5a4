"""Two sides that are timed in turns, and the row that comes of it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

PEERS = {"particles": "particles", "sklearn": "scikit-learn"}  # a module and its package


def installed(module: str) -> bool:
    """Return whether there is such a module, without loading it."""
    return find_spec(module) is not None


def clock() -> float:
    """Return the processor time of this process and its children, which waiting doesn't add to."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Measured:
    """A row's numbers: processor seconds, their ratio, and what else there is to say."""

    ours: float
    other: float
    ratio: float
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """What is timed, and how many times the other side's time it may take: its target.

    The other side may be a number of seconds. Where runs end in estimates, `errors` says how far
    off each side's are, and a ratio is at equal accuracy: by Monte Carlo, times go as 1/error².
    """

    work: str
    beside: str
    most: float
    ours: Callable[[], Any]
    other: Callable[[], Any] | float
    repeats: int = 21
    errors: Callable[[list[Any], list[Any]], tuple[float, ...]] | None = None
    needs: str = ""  # a peer's module

    def measure(self) -> Measured:
        """Return median times and their ratio, after one untimed run of each."""
        sides = [side for side in (self.ours, self.other) if callable(side)]
        for side in sides:
            side()
        times: list[list[float]] = [[] for _ in sides]
        results: list[list[Any]] = [[] for _ in sides]
        for _ in range(self.repeats):
            for side, taken, found in zip(sides, times, results, strict=True):
                began = clock()
                result = side()
                taken.append(clock() - began)
                if self.errors is not None:
                    found.append(result)
                del result  # or freeing it would count as the other side's time
        ours = float(np.median(times[0]))
        other = float(np.median(times[1])) if callable(self.other) else self.other
        if self.errors is None:
            return Measured(ours, other, ours / other)
        mine, theirs = self.errors(results[0], results[1])
        return Measured(
            ours,
            other,
            ours * mine**2 / (other * theirs**2),
            f"at equal accuracy: errors are {mine:.3f} and {theirs:.3f} posterior sd "
            f"(root mean square of {self.repeats} runs), times as they are {ours / other:.3g}",
        )


def row_of(c: Comparison, made_with: str) -> dict[str, Any]:
    """Run one comparison and return its row, without numbers where its peer isn't installed."""
    if c.needs and not installed(c.needs):
        missing = f"not run: {PEERS[c.needs]} isn't installed (`make bench` installs it)"
        seconds, other, ratio, note = "", "", "", missing
    else:
        m = c.measure()
        seconds, other, ratio = (f"{x:.3g}" for x in (m.ours, m.other, m.ratio))
        note = m.note
    return {
        "work": c.work,
        "beside": c.beside,
        "time_ratio": ratio,
        "target_at_most": f"{c.most:.3g}",
        "repeats": c.repeats,
        "seconds": seconds,
        "seconds_beside": other,
        "note": note,
        "made_with": made_with,
    }
