"""What was asked and what has come in: how a collector tells a good report from any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType


class AnyReport(Protocol):
    """A `Report` or a `VectorReport`."""

    @property
    def query_id(self) -> str:
        """Which query it answers."""

    @property
    def report_id(self) -> str:
        """128 random bits, in hexadecimal digits."""


class AnyQuery(Protocol):
    """A `Query` or a `VectorQuery`."""

    @property
    def id(self) -> str:
        """The digest of its content."""

    def check(self, report: Any) -> None:
        """Raise unless the report is one of the answers that this query offers."""

    def to_json(self) -> str:
        """Return it as one JSON object."""


R = TypeVar("R", bound=AnyReport)
Q = TypeVar("Q", bound=AnyQuery)


class Inbox(Generic[Q, R]):
    """Every distinct query asked, and the ids of every report taken in.

    Examples
    --------
    >>> from confidp.local.mechanisms import sign_response
    >>> from confidp.local.query import Query, Report
    >>> inbox = Inbox[Query, Report](Report)
    >>> report = inbox.ask(sign_response(0.0, 1.0)).privatize(0.3)
    >>> inbox.asked_by(report).epsilon
    1.0
    >>> inbox.accept(report)
    >>> inbox.asked_by(report)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: report has been added before
    """

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind
        self._asked: dict[str, Q] = {}
        self._seen: set[str] = set()

    @property
    def queries(self) -> tuple[Q, ...]:
        """Every distinct query asked so far."""
        return tuple(self._asked.values())

    def ask(self, query: Q) -> Q:
        """Remember a query and return it, the same object for the same question."""
        return self._asked.setdefault(query.id, query)

    def known(self, query_id: str) -> Q:
        """Return the query of that id, or raise where none was asked."""
        if query_id not in self._asked:
            raise InvalidArgument("report must answer a query that this collector asked")
        return self._asked[query_id]

    def asked_by(self, report: R) -> Q:
        """Return the query that a report answers. Nothing changes.

        Raises
        ------
        InvalidType, InvalidArgument
            Where it isn't a report, answers no query of this collector, has an answer the query
            doesn't offer, or was added before.
        """
        if not isinstance(report, self._kind):
            wanted = self._kind.__name__
            raise InvalidType(f"report must be a {wanted}, not {type(report).__name__}")
        query = self.known(report.query_id)
        query.check(report)
        if report.report_id in self._seen:
            raise InvalidArgument("report has been added before")
        return query

    def accept(self, report: R) -> None:
        """Remember that a report was taken in."""
        self._seen.add(report.report_id)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the queries as lines of JSON and the reports' ids as bytes."""
        asked = "\n".join(query.to_json() for query in self._asked.values())
        seen = bytes.fromhex("".join(sorted(self._seen)))
        return {
            "asked": np.frombuffer(asked.encode(), dtype=np.uint8),
            "seen": np.frombuffer(seen, dtype=np.uint8),
        }

    def read(self, arrays: Mapping[str, NDArray[Any]], query: Any) -> None:
        """Take in what `to_arrays` wrote; `query` is the class whose `from_json` checks a line."""
        for line in arrays["asked"].tobytes().decode().splitlines():
            self.ask(query.from_json(line))
        seen = arrays["seen"].tobytes().hex()
        self._seen |= {seen[i : i + 32] for i in range(0, len(seen), 32)}
