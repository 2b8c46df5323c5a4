"""Vector queries: several components of one person's value, with one guarantee for all of them.

A vector query asks some components, each by its own query. A person's answers are drawn
independently, so their privacy losses add. The claim on their sum is checked whenever a vector
query is made or read, as a `Query`'s is.

Part of what runs on a person's device: the standard library and `confidp.errors` are all it needs.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from confidp.errors import InvalidArgument, InvalidType, integer, real
from confidp.local.channel import EPSILON_CAP, exp_down
from confidp.local.query import VERSION, Query, canonical, hexadecimal, output, parsed

QUERY_FORMAT, REPORT_FORMAT = "confidp.vector-query", "confidp.vector-report"
MAX_COMPONENTS = 1024
MAX_QUERY_TEXT = 1 << 22
MAX_REPORT_TEXT = 1 << 14

_QUERY_KEYS = {"format", "version", "id", "dimension", "components", "queries", "epsilon"}
_REPORT_KEYS = {"format", "version", "query_id", "values", "report_id"}


@dataclass(frozen=True, slots=True)
class VectorReport:
    """One person's randomised answers: all that leaves a device.

    Parameters
    ----------
    query_id
        Which vector query they answer.
    values
        One output for each component asked, in order.
    report_id
        128 random bits that make a duplicate recognisable and say nothing else.

    Examples
    --------
    >>> report = VectorReport("ab" * 32, (1, 0), "cd" * 16)
    >>> VectorReport.from_json(report.to_json()) == report
    True
    """

    query_id: str
    values: tuple[int, ...]
    report_id: str

    def __post_init__(self) -> None:
        """Refuse what no device sends."""
        hexadecimal("query_id", self.query_id, 64)
        hexadecimal("report_id", self.report_id, 32)
        if not isinstance(self.values, list | tuple):
            raise InvalidType(f"values must be a list, not {type(self.values).__name__}")
        if not 1 <= len(self.values) <= MAX_COMPONENTS:
            raise InvalidArgument(f"values must be 1 to {MAX_COMPONENTS} numbers")
        object.__setattr__(self, "values", tuple(output(value) for value in self.values))

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return canonical({"format": REPORT_FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> VectorReport:
        """Return the report that `to_json` wrote, or raise."""
        content = parsed(text, REPORT_FORMAT, _REPORT_KEYS, MAX_REPORT_TEXT)
        return cls(content["query_id"], content["values"], content["report_id"])


@dataclass(frozen=True, slots=True, repr=False)
class VectorQuery:
    """A public question on some components of a vector, with its proof of privacy.

    *Proof*: answers are independent given x, so the chance of a report is a product of one
    channel's weights for each component asked, and changes by a factor of at most Π rⱼ between
    any two vectors, where rⱼ is a channel's largest ratio of two weights in a column. The claim
    is accepted only where Π rⱼ, an exact fraction, is at most a rational lower bound of e^ε. ∎

    Parameters
    ----------
    dimension
        How many components a person's value has.
    components
        Which are asked: increasing, counted from 0.
    queries
        One for each of them. Their own claims are checked, and their sum is free to be more than
        `epsilon` where their channels are better than they claim.
    epsilon
        The claim for all together: above 0, at most 22.
    id
        The SHA-256 of all that.

    Examples
    --------
    >>> from confidp.local.mechanisms import sign_response
    >>> query = VectorQuery(2, (0, 1), (sign_response(0.0, 0.5), sign_response(9.0, 0.5)), 1.0)
    >>> query
    VectorQuery(id='...', components=(0, 1) of 2, epsilon=1.0)
    >>> report = query.privatize([0.3, 12.0], epsilon_limit=1.0)
    >>> report.query_id == query.id, len(report.values)
    (True, 2)
    >>> VectorQuery.from_json(query.to_json()) == query
    True
    >>> VectorQuery(2, (0, 1), query.queries, epsilon=0.9)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: epsilon = 0.9 is less than that of the queries together
    """

    dimension: int
    components: tuple[int, ...]
    queries: tuple[Query, ...]
    epsilon: float
    id: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse components that don't fit, and a claim that isn't true of the channels."""
        for name in ("components", "queries"):
            if not isinstance(getattr(self, name), list | tuple):
                kind = type(getattr(self, name)).__name__
                raise InvalidType(f"{name} must be a list, not {kind}")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "dimension", integer("dimension", self.dimension, least=1))
        if self.dimension > MAX_COMPONENTS:
            raise InvalidArgument(f"dimension must be at most {MAX_COMPONENTS}")
        asked = tuple(integer("components", j, least=0) for j in self.components)
        object.__setattr__(self, "components", asked)
        if not asked or asked[-1] >= self.dimension or any(a >= b for a, b in pairwise(asked)):
            raise InvalidArgument(
                f"components must be at least one of 0 to {self.dimension - 1}, increasing"
            )
        if len(self.queries) != len(asked):
            raise InvalidArgument(f"queries must be {len(asked)}, one for each component asked")
        if not all(isinstance(query, Query) for query in self.queries):
            raise InvalidType("queries must each be a Query")
        allowed = f"above 0 and at most {EPSILON_CAP:g}"
        epsilon = real("epsilon", self.epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP)
        object.__setattr__(self, "epsilon", epsilon)
        if not self.epsilon_at_most(epsilon):
            raise InvalidArgument(
                f"epsilon = {epsilon:g} is less than that of the queries together"
            )
        digest = hashlib.sha256(canonical(self._content()).encode()).hexdigest()
        object.__setattr__(self, "id", digest)

    def __repr__(self) -> str:
        """Return the start of the id, what is asked and the claim."""
        return (
            f"VectorQuery(id='{self.id[:4]}…', components={self.components} of {self.dimension}, "
            f"epsilon={self.epsilon})"
        )

    def epsilon_at_most(self, epsilon: float) -> bool:
        """Return whether all answers together are ε-DP, certainly, by the channels alone."""
        epsilon = real("epsilon", epsilon, "of at least 0", lambda e: e >= 0)
        ratios = (query.channel.ratio for query in self.queries)
        # exp_down stops growing at ε = 23, so for larger limits this refuses more than it must.
        return math.prod(ratios, start=Fraction(1)) <= exp_down(epsilon)

    def privatize(self, x: Sequence[float], *, epsilon_limit: float | None = None) -> VectorReport:
        """Return a report on the components asked, on the person's own device.

        Parameters
        ----------
        x
            The person's values, one for each of the `dimension` components; those not asked are
            not looked at. Anything that isn't a number is refused with the same words.
        epsilon_limit
            What this device allows for all answers together. A query whose channels are not
            within it is refused before x is looked at.
        """
        if epsilon_limit is not None and not self.epsilon_at_most(epsilon_limit):
            limit = f"epsilon_limit = {float(epsilon_limit):g}"
            raise InvalidArgument(f"the query's epsilon is above {limit}")
        try:
            length, answers = len(x), [x[j] for j in self.components if j < len(x)]
        except Exception:  # what a strange sequence complains of may be its values
            raise InvalidType(f"x must be a sequence of {self.dimension} numbers") from None
        if length != self.dimension:
            raise InvalidArgument(f"x must be {self.dimension} numbers")
        asked = list(zip(self.queries, answers, strict=True))
        cells = [query.cell(answer) for query, answer in asked]  # all are read before any is sent
        values = tuple(
            query.channel.draw(cell) for query, cell in zip(self.queries, cells, strict=True)
        )
        return VectorReport(self.id, values, secrets.token_hex(16))

    def check(self, report: VectorReport) -> None:
        """Raise unless the report is one of the answers that this query offers."""
        if not isinstance(report, VectorReport):
            raise InvalidType(f"report must be a VectorReport, not {type(report).__name__}")
        if report.query_id != self.id:
            raise InvalidArgument("report must answer this query")
        if len(report.values) != len(self.queries):
            raise InvalidArgument(f"report must have {len(self.queries)} values")
        for query, value in zip(self.queries, report.values, strict=True):
            if value >= query.channel.outputs:
                raise InvalidArgument(
                    f"report must have values from 0 to {query.channel.outputs - 1}"
                )

    def to_json(self) -> str:
        """Return the query as one JSON object."""
        return canonical({**self._content(), "id": self.id})

    @classmethod
    def from_json(cls, text: str) -> VectorQuery:
        """Return the query that `to_json` wrote, every claim checked anew, or raise."""
        content = parsed(text, QUERY_FORMAT, _QUERY_KEYS, MAX_QUERY_TEXT)
        if not isinstance(content["queries"], list):
            raise InvalidType(f"queries must be a list, not {type(content['queries']).__name__}")
        queries = tuple(Query.from_dict(query) for query in content["queries"])
        query = cls(content["dimension"], content["components"], queries, content["epsilon"])
        if content["id"] != query.id:
            raise InvalidArgument("the query's id is not that of its content: it was changed")
        return query

    def _content(self) -> dict[str, Any]:
        return {
            "format": QUERY_FORMAT,
            "version": VERSION,
            "dimension": self.dimension,
            "components": self.components,
            "queries": [query.to_dict() for query in self.queries],
            "epsilon": self.epsilon,
        }


def split_epsilon(epsilon: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Return εⱼ in proportion to the shares, with Σ εⱼ ≤ ε exactly and not only as rounded.

    *Proof*: each is ε·shareⱼ/Σ shares as a fraction, rounded down to a float, and fractions are
    added without rounding. ∎

    Examples
    --------
    >>> split_epsilon(1.0, [1, 1, 1])
    (0.333333..., 0.333333..., 0.333333...)
    >>> sum(map(Fraction, split_epsilon(1.0, [1, 1, 1, 2, 5]))) <= 1
    True
    """
    fractions = [Fraction(real("shares", share, "above 0", lambda s: s > 0)) for share in shares]
    parts = [Fraction(epsilon) * share / sum(fractions) for share in fractions]
    return tuple(_float_down(part) for part in parts)


def _float_down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)
