"""The collector: asks, gathers reports, and knows the posterior. It never sees a value.

The loop is `query` → on the person's device `query.privatize(x)` → `add` → `posterior`. Each
report is private by itself, whatever was asked before, so queries may adapt to earlier reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, integer, real
from confidp.local import posterior as smc
from confidp.local.channel import EPSILON_CAP
from confidp.local.design import (
    COptimal,
    Criterion,
    Design,
    Diagonal,
    GaussianResponse,
    Mechanism,
    Response,
    TruncatedGaussian,
    TruncatedLaplace,
    a_optimal,
    best_cells,
    d_optimal,
    place_best,
)
from confidp.local.mechanisms import MU_CAP
from confidp.local.population import Population, as_population
from confidp.local.posterior import Posterior
from confidp.local.query import Query, Report
from confidp.randomness import Randomness, Seed

_POLICIES = ("thompson", "mean")
_CRITERIA: dict[str, Criterion] = {"A": a_optimal, "D": d_optimal}
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Response,
        GaussianResponse,
        TruncatedLaplace,
        TruncatedGaussian,
        COptimal,
        Diagonal,
    )
}


class Collector:
    """Learns a population's parameters from private reports, one at a time or in counts.

    Parameters
    ----------
    population
        The family and its prior, such as `Normal()`.
    epsilon, mu
        What every report guarantees: ε-DP or μ-GDP. Exactly one, unless `mechanism` is a value
        that has its own.
    mechanism
        "response" (k-ary randomised response, at the information limit), "truncated-laplace"
        (needs ε), "truncated-gaussian" (needs μ), or a value from `design`.
    policy
        Where the next query is best: at a draw from the posterior ("thompson", as in the paper)
        or at its mean ("mean").
    criterion
        "A", "D", or a loss of the information such as `Diagonal((1.0, 0.0))`, the paper's F₁₁.
    round_size
        How many calls of `query` get the same one.
    n_particles
        More is more exact, and proportionally slower.
    rng
        A seed for particles and draws. It has no part in anyone's privacy: reports are drawn on
        the people's devices.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> collector = Collector(Normal(), epsilon=1.0, rng=7)
    >>> query = collector.query()
    >>> report = query.privatize(50.0)
    >>> collector.add(report)
    >>> collector.posterior.diagnostics.reports
    1
    >>> collector.add(report)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: report has been added before
    """

    def __init__(
        self,
        population: Population,
        *,
        epsilon: float | None = None,
        mu: float | None = None,
        mechanism: str | Mechanism = "response",
        policy: str = "thompson",
        criterion: str | Criterion = "A",
        round_size: int = 1,
        n_particles: int = 1000,
        rng: Seed = None,
    ) -> None:
        as_population(population)
        if policy not in _POLICIES:
            raise InvalidArgument(f"policy must be one of {', '.join(_POLICIES)}, not {policy!r}")
        self._policy = policy
        self._criterion = _criterion(criterion)
        self._round_size = integer("round_size", round_size, least=1)
        self._rng = Randomness.of(rng).indices
        self._mechanism = _mechanism(mechanism, epsilon, mu, population, self._criterion)
        self._posterior = smc.start(population, n_particles, self._rng)
        self._asked: dict[str, Query] = {}
        self._designs: dict[str, Design] = {}
        self._seen: set[str] = set()
        self._current: Query | None = None
        self._left = 0

    def __repr__(self) -> str:
        """Return the settings and how much has come in."""
        return (
            f"Collector({self._posterior.population}, {self._mechanism}, policy={self._policy!r}, "
            f"reports={self._posterior.diagnostics.reports}, queries={len(self._asked)})"
        )

    @property
    def posterior(self) -> Posterior:
        """The posterior given every report so far: a value that later reports don't change."""
        return self._posterior

    @property
    def mechanism(self) -> Mechanism:
        """The kind of query asked."""
        return self._mechanism

    @property
    def queries(self) -> tuple[Query, ...]:
        """Every distinct query asked so far."""
        return tuple(self._asked.values())

    def query(self) -> Query:
        """Return the query for the next person: the best one at the policy's θ.

        Cut points lie on a public grid, so that as θ settles the same few queries come again.
        """
        if self._current is None or self._left == 0:
            self._current = self._next()
            self._left = self._round_size
        self._left -= 1
        return self._current

    def _next(self) -> Query:
        state = self._posterior
        theta = state.draw(self._rng) if self._policy == "thompson" else state.middle
        knots = place_best(state.population, theta, self._mechanism, self._criterion)
        query = self._mechanism.query(tuple(knots.tolist()))
        return self._know(query)

    def _know(self, query: Query) -> Query:
        if query.id not in self._asked:
            self._asked[query.id] = query
            self._designs[query.id] = Design.of(query.cuts, query.channel.weights)
        return self._asked[query.id]

    def add(self, report: Report) -> None:
        """Take one report in.

        Raises
        ------
        InvalidType, InvalidArgument
            Where it isn't a report, answers no query of this collector, has an answer the query
            doesn't offer, or was added before. Nothing changes then.
        """
        if not isinstance(report, Report):
            raise InvalidType(f"report must be a Report, not {type(report).__name__}")
        design = self._design(report.query_id)
        if not 0 <= report.value < design.answers:
            raise InvalidArgument(f"report must have a value from 0 to {design.answers - 1}")
        if report.report_id in self._seen:
            raise InvalidArgument("report has been added before")
        counts = [0] * design.answers
        counts[report.value] = 1
        self._posterior = smc.update(self._posterior, design, counts, self._rng)
        self._seen.add(report.report_id)

    def add_counts(self, query: Query, counts: Sequence[int]) -> None:
        """Take many reports to one query in at once: `counts[y]` people answered y.

        Whoever counted them has to leave duplicates out. Refused as in `add`.
        """
        if not isinstance(query, Query):
            raise InvalidType(f"query must be a Query, not {type(query).__name__}")
        design = self._design(query.id)
        self._posterior = smc.update(self._posterior, design, counts, self._rng)

    def _design(self, query_id: str) -> Design:
        if query_id not in self._designs:
            raise InvalidArgument("report must answer a query that this collector asked")
        return self._designs[query_id]

    def save(self, path: str | Path) -> None:
        """Write everything to one file, so that a loaded collector goes on as if never stopped."""
        header, arrays = smc.posterior_to_arrays(self._posterior)
        settings = {
            "policy": self._policy,
            "round_size": self._round_size,
            "mechanism": _named(self._mechanism),
            "criterion": _criterion_name(self._criterion),
            "current": self._current.id if self._current else None,
            "left": self._left,
        }
        content = {
            "posterior": header,
            "generator": self._rng.bit_generator.state,
            "collector": settings,
        }
        asked = "\n".join(query.to_json() for query in self._asked.values())
        seen = bytes.fromhex("".join(sorted(self._seen)))
        arrays |= {
            "asked": np.frombuffer(asked.encode(), dtype=np.uint8),
            "seen": np.frombuffer(seen, dtype=np.uint8),
        }
        smc.write_arrays(path, content, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Collector:
        """Return the collector that `save` wrote. Nothing in the file is executed."""
        header, arrays = smc.read_arrays(path)
        with smc.reading(path):
            return cls._from(header, arrays)

    @classmethod
    def _from(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Collector:
        settings = header["collector"]
        self = cls.__new__(cls)
        self._posterior = smc.posterior_from_arrays(header["posterior"], arrays)
        self._rng = smc.generator(header["generator"])
        self._policy = settings["policy"]
        self._round_size = integer("round_size", settings["round_size"], least=1)
        self._mechanism = _value(settings["mechanism"])
        named = settings["criterion"]
        self._criterion = _criterion(named if isinstance(named, str) else _value(named))
        self._asked, self._designs = {}, {}
        for line in arrays["asked"].tobytes().decode().splitlines():
            self._know(Query.from_json(line))
        seen = arrays["seen"].tobytes().hex()
        self._seen = {seen[i : i + 32] for i in range(0, len(seen), 32)}
        current = settings["current"]
        self._current = None if current is None else self._asked[current]
        self._left = integer("left", settings["left"], least=0)
        return self


def _mechanism(
    chosen: str | Mechanism,
    epsilon: float | None,
    mu: float | None,
    population: Population,
    criterion: Criterion,
) -> Mechanism:
    if not isinstance(chosen, str):
        if epsilon is not None or mu is not None:
            raise InvalidArgument("epsilon and mu belong to the mechanism where it is a value")
        if not isinstance(chosen, Mechanism):
            raise InvalidType(f"mechanism must be a Mechanism, not {type(chosen).__name__}")
        return chosen
    if (epsilon is None) == (mu is None):
        raise InvalidArgument("give exactly one of epsilon and mu")
    if epsilon is not None:
        allowed = f"above 0 and at most {EPSILON_CAP:g}"
        epsilon = real("epsilon", epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP)
    if mu is not None:
        mu = real("mu", mu, f"above 0 and at most {MU_CAP:g}", lambda m: 0 < m <= MU_CAP)
    if chosen == "response":
        return best_cells(population, criterion, epsilon=epsilon, mu=mu)
    if chosen == "truncated-laplace" and epsilon is not None:
        return TruncatedLaplace(epsilon)
    if chosen == "truncated-gaussian" and mu is not None:
        return TruncatedGaussian(mu)
    raise InvalidArgument(
        "mechanism must be 'response', 'truncated-laplace' with epsilon, or 'truncated-gaussian' "
        f"with mu, not {chosen!r} with {'mu' if epsilon is None else 'epsilon'}"
    )


def _criterion(chosen: str | Criterion) -> Criterion:
    if isinstance(chosen, str):
        if chosen not in _CRITERIA:
            raise InvalidArgument(f"criterion must be 'A', 'D' or a function, not {chosen!r}")
        return _CRITERIA[chosen]
    if not callable(chosen):
        raise InvalidType(f"criterion must be a function, not {type(chosen).__name__}")
    return chosen


def _criterion_name(criterion: Criterion) -> str | dict[str, Any]:
    names = [name for name, known in _CRITERIA.items() if known is criterion]
    return names[0] if names else _named(criterion)


def _named(value: Any) -> dict[str, Any]:
    """Return a mechanism or criterion as the name of its kind and its settings."""
    if not is_dataclass(value) or type(value) is not _KINDS.get(type(value).__name__):
        raise InvalidArgument(f"save knows confidp's mechanisms and criteria only, not {value!r}")
    return {"kind": type(value).__name__, **asdict(value)}  # type: ignore[arg-type]


def _value(fields: Mapping[str, Any]) -> Any:
    settings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(json.dumps(fields)).items()
        if name != "kind"
    }
    return _KINDS[fields["kind"]](**settings)
