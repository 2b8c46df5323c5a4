"""Queries and reports: what a person is asked, and the randomised answer that leaves the device.

A query is public: cut points, a channel over the cells between them, and a claim of privacy that
anyone can check. It is checked whenever one is made or read, so a device never answers a query
whose claim is false. A report holds the answer and no more.

This is what runs on a person's device. This module, `channel` and `mechanisms` import the standard
library and `confidp.errors` only. (Importing them by way of the package still runs
`confidp/__init__`, which loads NumPy; a device without it can take these files by themselves.)

The guarantee is for one answer: who answers twice has spent twice. A device keeps its report and
sends the same one again when asked again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from bisect import bisect_left
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NoReturn

from confidp.errors import InvalidArgument, InvalidType, real
from confidp.local.channel import MAX_OUTPUTS, Channel

QUERY_FORMAT, REPORT_FORMAT = "confidp.query", "confidp.report"
VERSION = 1
MAX_QUERY_TEXT = 1 << 20  # characters; the largest query takes about 400,000
MAX_REPORT_TEXT = 1 << 10

_QUERY_KEYS = {"format", "version", "id", "cuts", "weights", "epsilon", "mu"}
_REPORT_KEYS = {"format", "version", "query_id", "value", "report_id"}


@dataclass(frozen=True, slots=True)
class Report:
    """One randomised answer: all that leaves a device.

    Parameters
    ----------
    query_id
        Which query it answers.
    value
        The channel's output, counted from 0.
    report_id
        128 random bits that make a duplicate recognisable and say nothing else.

    Examples
    --------
    >>> report = Report("ab" * 32, 1, "cd" * 16)
    >>> Report.from_json(report.to_json()) == report
    True
    """

    query_id: str
    value: int
    report_id: str

    def __post_init__(self) -> None:
        """Refuse what no device sends."""
        hexadecimal("query_id", self.query_id, 64)
        hexadecimal("report_id", self.report_id, 32)
        object.__setattr__(self, "value", output(self.value))

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return canonical({"format": REPORT_FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that `to_json` wrote, or raise."""
        content = parsed(text, REPORT_FORMAT, _REPORT_KEYS, MAX_REPORT_TEXT)
        return cls(content["query_id"], content["value"], content["report_id"])


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A public question with its proof of privacy: which cell is your value in, roughly?

    Parameters
    ----------
    cuts
        Finite and increasing. The cells between them are (−∞, c₁], (c₁, c₂], …, (cₖ, ∞): the
        chance of a cell is a difference of P(X ≤ c), for discrete data too.
    channel
        One row a cell.
    epsilon, mu
        The claims, one at least: ε-DP, μ-GDP, for any two values of the person. Checked here.
    id
        The SHA-256 of all that: the same question has the same id everywhere.

    Examples
    --------
    >>> query = Query([0.0], Channel([[3 << 30, 1 << 30], [1 << 30, 3 << 30]]), epsilon=1.1)
    >>> query
    Query(id='d73c…', cells=2, outputs=2, epsilon=1.1, mu=None)
    >>> query.cell(-0.3), query.cell(0.3)
    (0, 1)
    >>> report = query.privatize(0.3, epsilon_limit=2.0)
    >>> report.query_id == query.id, report.value in (0, 1)
    (True, True)
    >>> Query.from_json(query.to_json()) == query
    True
    >>> Query(query.cuts, query.channel, epsilon=1.0)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: epsilon = 1 is less than the channel's 1.0986...
    """

    cuts: tuple[float, ...]
    channel: Channel
    epsilon: float | None = None
    mu: float | None = None
    id: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse cuts that don't fit, and a claim that isn't true of the channel."""
        if not isinstance(self.channel, Channel):
            raise InvalidType(f"channel must be a Channel, not {type(self.channel).__name__}")
        object.__setattr__(self, "cuts", _cuts(self.cuts, self.channel.cells))
        if self.epsilon is None and self.mu is None:
            raise InvalidArgument("a query must claim epsilon or mu")
        for name in ("epsilon", "mu"):
            claim = getattr(self, name)
            if claim is not None:
                claim = real(name, claim, "above 0", lambda x: x > 0)
                object.__setattr__(self, name, claim)
        if self.epsilon is not None and not self.channel.epsilon_at_most(self.epsilon):
            least = self.channel.least_epsilon()
            raise InvalidArgument(f"epsilon = {self.epsilon:g} is less than the channel's {least}")
        if self.mu is not None and not self.channel.satisfies_gdp(self.mu):
            raise InvalidArgument(f"mu = {self.mu:g} is less than the channel's")
        digest = hashlib.sha256(canonical(self._content()).encode()).hexdigest()
        object.__setattr__(self, "id", digest)

    def __repr__(self) -> str:
        """Return the start of the id, the shape and the claims."""
        return (
            f"Query(id='{self.id[:4]}…', cells={self.channel.cells}, "
            f"outputs={self.channel.outputs}, epsilon={self.epsilon}, mu={self.mu})"
        )

    def cell(self, x: float) -> int:
        """Return the number of cuts below x, its cell counted from 0. Private, as x is."""
        return bisect_left(self.cuts, _value(x))

    def privatize(
        self, x: float, *, epsilon_limit: float | None = None, mu_limit: float | None = None
    ) -> Report:
        """Return a report on x, on the person's own device.

        Parameters
        ----------
        x
            Any number; infinities are in the end cells. Anything else is refused with the same
            words whatever it is.
        epsilon_limit, mu_limit
            What this device allows. A query whose channel is not within them is refused before x
            is looked at. It is the channel that counts, not what the query claims of it.
        """
        if epsilon_limit is not None and not self.channel.epsilon_at_most(epsilon_limit):
            limit = f"epsilon_limit = {float(epsilon_limit):g}"
            raise InvalidArgument(f"the query's epsilon is above {limit}")
        if mu_limit is not None and not self.channel.satisfies_gdp(mu_limit):
            raise InvalidArgument(f"the query's mu is above mu_limit = {float(mu_limit):g}")
        return Report(self.id, self.channel.draw(self.cell(x)), secrets.token_hex(16))

    def to_json(self) -> str:
        """Return the query as one JSON object."""
        return canonical(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Query:
        """Return the query that `to_json` wrote, its claims checked anew, or raise.

        Refused are keys too many or too few, other types, another format or a newer version, an
        id that isn't that of the content, and claims that aren't true.
        """
        return cls.from_dict(parsed(text, QUERY_FORMAT, _QUERY_KEYS, MAX_QUERY_TEXT))

    def check(self, report: Report) -> None:
        """Raise unless the report is one of the answers that this query offers."""
        if not isinstance(report, Report):
            raise InvalidType(f"report must be a Report, not {type(report).__name__}")
        if report.query_id != self.id:
            raise InvalidArgument("report must answer this query")
        if report.value >= self.channel.outputs:
            raise InvalidArgument(f"report must have a value from 0 to {self.channel.outputs - 1}")

    def to_dict(self) -> dict[str, Any]:
        """Return the query's content with its id, JSON-ready."""
        return {**self._content(), "id": self.id}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Query:
        """Return the query that `to_dict` wrote, refused as by `from_json`."""
        content = checked_content(content, QUERY_FORMAT, _QUERY_KEYS)
        cuts = _list("cuts", content["cuts"])
        rows = (_list("weights", row) for row in _list("weights", content["weights"]))
        query = cls(cuts, Channel(tuple(rows)), content["epsilon"], content["mu"])
        if content["id"] != query.id:
            raise InvalidArgument("the query's id is not that of its content: it was changed")
        return query

    def _content(self) -> dict[str, Any]:
        return {
            "format": QUERY_FORMAT,
            "version": VERSION,
            "cuts": self.cuts,
            "weights": self.channel.weights,
            "epsilon": self.epsilon,
            "mu": self.mu,
        }


def output(value: Any) -> int:
    """Return an output's number, or raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidType(f"value must be a whole number, not {type(value).__name__}")
    number = int(value)
    if not 0 <= number < MAX_OUTPUTS:
        raise InvalidArgument(f"value must be in 0 to {MAX_OUTPUTS - 1}")
    return number


def _value(x: Any) -> float | int:
    """Return x as a number that compares exactly with a cut.

    One error for everything else, which tells nothing of x, not even its type.
    """
    try:
        if isinstance(x, bool) or not isinstance(x, Real):
            number = math.nan
        else:
            number = int(x) if isinstance(x, Integral) else float(x)
    except OverflowError:  # a fraction beyond the largest float
        number = math.inf if x > 0 else -math.inf
    except Exception:  # what a strange number's conversion complains of may be its value
        number = math.nan
    if number != number:  # not math.isnan, which fails on the largest whole numbers
        raise InvalidArgument("x must be a real number, and not NaN")
    return number


def _cuts(cuts: Any, cells: int) -> tuple[float, ...]:
    try:
        cuts = tuple(cuts)
    except Exception:  # whatever its type raises
        raise InvalidType("cuts must be a sequence of numbers") from None
    if len(cuts) != cells - 1:
        raise InvalidArgument(
            f"cuts must be one fewer than the channel's cells, {cells - 1}, not {len(cuts)}"
        )
    # + 0.0: the cut −0.0 is the cut 0.0.
    numbers = tuple(real("cuts", cut, "each", lambda _: True) + 0.0 for cut in cuts)
    if any(left >= right for left, right in pairwise(numbers)):
        raise InvalidArgument("cuts must be increasing")
    return numbers


def canonical(content: dict[str, Any]) -> str:
    """Return one text for equal contents: keys sorted, no spaces, shortest decimals."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parsed(text: Any, kind: str, keys: set[str], longest: int) -> dict[str, Any]:
    """Return a JSON object with exactly these keys, of this kind and of this version."""
    if not isinstance(text, str):
        raise InvalidType(f"text must be a str, not {type(text).__name__}")
    if len(text) > longest:
        raise InvalidArgument(f"text must have at most {longest} characters, not {len(text)}")
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):
        raise InvalidArgument("text must be JSON") from None
    return checked_content(content, kind, keys)


def checked_content(content: Any, kind: str, keys: set[str]) -> dict[str, Any]:
    """Return an object if it has exactly these keys, this kind and this version."""
    if not isinstance(content, dict) or content.get("format") != kind:
        raise InvalidArgument(f'text must be a JSON object whose format is "{kind}"')
    version = content.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidArgument("version must be a whole number of at least 1")
    if version > VERSION:
        raise InvalidArgument(f"version must be {VERSION}: a newer confidp wrote this")
    if set(content) != keys:
        raise InvalidArgument(f"text must have exactly the keys {', '.join(sorted(keys))}")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise InvalidArgument("text must not have a key twice")
    return content


def _no_constant(_: str) -> NoReturn:
    raise InvalidArgument("text must not have NaN or infinite numbers")


def _list(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InvalidType(f"{name} must be a list, not {type(value).__name__}")
    return tuple(value)


def hexadecimal(name: str, value: Any, digits: int) -> None:
    """Raise unless the value is so many hexadecimal digits."""
    if not isinstance(value, str):
        raise InvalidType(f"{name} must be a str, not {type(value).__name__}")
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
        raise InvalidArgument(f"{name} must be {digits} hexadecimal digits")
