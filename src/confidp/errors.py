"""Every error confidp raises on purpose, and the checks of public arguments that raise them.

The tree::

    ConfidpError
    ├── InvalidArgument (ValueError)     a value out of range, a file of the wrong shape
    │   └── MissingValues                missing values where the caller declared none
    ├── InvalidType (TypeError)          a value of the wrong type
    ├── BudgetExhausted (ValueError)     a charge that a ledger refuses
    ├── LedgerError (OSError)            a ledger file that can't be opened, read or written
    └── StateError (OSError)             the same of a collector's or posterior's file

A message is one line: the argument, its value where that is public, and what is allowed. No
message holds a value taken from private data, or a count of such values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

_LONGEST = 60  # characters of a value that a message shows


class ConfidpError(Exception):
    """The root of the tree: catch this to catch every error confidp raises on purpose."""


class InvalidArgument(ConfidpError, ValueError):
    """A value is out of its range."""


class MissingValues(InvalidArgument):
    """The data have missing values although the caller declared that there are none.

    For the curator's eyes only: whether it is raised depends on private data.
    """


class InvalidType(ConfidpError, TypeError):
    """A value has the wrong type."""


class BudgetExhausted(ConfidpError, ValueError):
    """A ledger refuses a charge that would exceed its total."""


class LedgerError(ConfidpError, OSError):
    """A ledger file can't be opened, read or written."""


class StateError(ConfidpError, OSError):
    """A file that a collector or a posterior is kept in can't be opened, read or written."""


def real(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    """Return `value` as a finite float for which `holds` is true, or raise naming `allowed`.

    Examples
    --------
    >>> real("mu", 1, "above 0", lambda mu: mu > 0)
    1.0
    >>> real("mu", float("nan"), "above 0", lambda mu: mu > 0)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: mu must be a finite number above 0, not nan
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidType(f"{name} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except Exception:  # whatever its type raises: a subclass may do anything
        raise InvalidType(f"{name} must be a number") from None
    if not (math.isfinite(number) and holds(number)):
        raise InvalidArgument(f"{name} must be a finite number {allowed}, not {number:g}")
    return number


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int that is at least `least` and at most `most`, or raise.

    Examples
    --------
    >>> integer("n_resamples", 0, least=1)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: n_resamples must be a whole number of at least 1, not 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidType(f"{name} must be a whole number, not {type(value).__name__}")
    try:
        number = int(value)
    except Exception:
        raise InvalidType(f"{name} must be a whole number") from None
    if number < least:
        allowed = f"a whole number of at least {least}"
        raise InvalidArgument(f"{name} must be {allowed}, not {shown(number)}")
    if most is not None and number > most:
        allowed = f"a whole number of at most {most}"
        raise InvalidArgument(f"{name} must be {allowed}, not {shown(number)}")
    return number


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return one of the strings `allowed`, or raise.

    Examples
    --------
    >>> choice("shape", "cube", ("ball", "box"))
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: shape must be one of ball, box, not 'cube'
    """
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        raise InvalidArgument(f"{name} must be one of {', '.join(names)}, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a public value as a message may show it: one line, short, whatever it is.

    Examples
    --------
    >>> shown([1, 2]), shown(-(10**5000)), shown("x" * 1000)
    ('[1, 2]', 'a value of type int', "'xxx...")
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # ten thousand digits, or a type whose repr raises
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def level(value: Any) -> float:
    """Return a confidence level in (0, 1), or raise; 95 is refused, with the likely meaning.

    Examples
    --------
    >>> level(95)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: confidence_level must be ... in (0, 1), such as 0.95, not 95
    """
    return real("confidence_level", value, "in (0, 1), such as 0.95", lambda x: 0 < x < 1)
