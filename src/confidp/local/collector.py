"""The collector: asks, gathers reports, and knows the posterior. It never sees a value.

The loop is `query` → on the person's device `query.privatize(x)` → `add` → `posterior`. Each
report is private by itself, whatever was asked before, so queries may adapt to earlier reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from confidp.errors import InvalidType, integer
from confidp.local import posterior as smc
from confidp.local import state
from confidp.local.asking import (
    chosen_criterion,
    chosen_mechanism,
    chosen_policy,
    criterion_from_dict,
    criterion_to_dict,
    from_dict,
    next_query,
    to_dict,
)
from confidp.local.design import Criterion, Design, Mechanism
from confidp.local.inbox import Inbox
from confidp.local.population import Population, as_population
from confidp.local.posterior import Posterior
from confidp.local.query import Query, Report
from confidp.randomness import Randomness, Seed


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
        (needs ε), "truncated-gaussian" (needs μ), or a value such as `Response(3, 1.0)` or
        `Mirrored(TruncatedLaplace(1.0))`, of which a coin chooses one query a round.
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
        self._policy = chosen_policy(policy)
        self._criterion = chosen_criterion(criterion, population)
        self._round_size = integer("round_size", round_size, least=1)
        self._rng = Randomness.of(rng).indices
        self._mechanism = chosen_mechanism(mechanism, epsilon, mu, population, self._criterion)
        self._posterior = smc.start(population, n_particles, self._rng)
        self._inbox = Inbox[Query, Report](Report)
        self._designs: dict[str, Design] = {}
        self._current: Query | None = None
        self._left = 0

    def __repr__(self) -> str:
        """Return the settings and how much has come in."""
        return (
            f"Collector({self._posterior.population}, {self._mechanism}, policy={self._policy!r}, "
            f"reports={self._posterior.diagnostics.reports}, queries={len(self.queries)})"
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
        return self._inbox.queries

    def query(self) -> Query:
        """Return the query for the next person: the best one at the policy's θ.

        Cut points lie on a public grid, so that as θ settles the same few queries come again.
        """
        if self._current is None or self._left == 0:
            self._current = self._ask(
                next_query(
                    self._posterior, self._mechanism, self._criterion, self._policy, self._rng
                )
            )
            self._left = self._round_size
        self._left -= 1
        return self._current

    def _ask(self, query: Query) -> Query:
        if query.id not in self._designs:
            self._designs[query.id] = Design.of(query.cuts, query.channel.weights)
        return self._inbox.ask(query)

    def add(self, report: Report) -> None:
        """Take one report in.

        Raises
        ------
        InvalidType, InvalidArgument
            Where it isn't a report, answers no query of this collector, has an answer the query
            doesn't offer, or was added before. Nothing changes then.
        """
        query = self._inbox.asked_by(report)
        counts = [0] * query.channel.outputs
        counts[report.value] = 1
        self._posterior = smc.update(self._posterior, self._designs[query.id], counts, self._rng)
        self._inbox.accept(report)

    def add_counts(self, query: Query, counts: Sequence[int]) -> None:
        """Take many reports to one query in at once: `counts[y]` people answered y.

        Whoever counted them has to leave duplicates out. Refused as in `add`.
        """
        if not isinstance(query, Query):
            raise InvalidType(f"query must be a Query, not {type(query).__name__}")
        design = self._designs[self._inbox.known(query.id).id]
        self._posterior = smc.update(self._posterior, design, counts, self._rng)

    def save(self, path: str | Path) -> None:
        """Write everything to one file, so that a loaded collector goes on as if never stopped."""
        header, arrays = state.posterior_to_arrays(self._posterior)
        settings = {
            "policy": self._policy,
            "round_size": self._round_size,
            "mechanism": to_dict(self._mechanism),
            "criterion": criterion_to_dict(self._criterion),
            "current": self._current.id if self._current else None,
            "left": self._left,
        }
        content = {
            "posterior": header,
            "generator": self._rng.bit_generator.state,
            "collector": settings,
        }
        state.write_arrays(path, content, arrays | self._inbox.to_arrays())

    @classmethod
    def load(cls, path: str | Path) -> Collector:
        """Return the collector that `save` wrote. Nothing in the file is executed."""
        header, arrays = state.read_arrays(path)
        with state.reading(path):
            return cls._from(header, arrays)

    @classmethod
    def _from(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Collector:
        settings = header["collector"]
        self = cls.__new__(cls)
        self._posterior = state.posterior_from_arrays(header["posterior"], arrays)
        self._rng = state.generator(header["generator"])
        self._policy = chosen_policy(settings["policy"])
        self._round_size = integer("round_size", settings["round_size"], least=1)
        self._mechanism = from_dict(settings["mechanism"])
        self._criterion = criterion_from_dict(settings["criterion"], self._posterior.population)
        self._inbox = Inbox[Query, Report](Report)
        self._inbox.read(arrays, Query)
        self._designs = {}
        for query in self._inbox.queries:
            self._ask(query)
        current = settings["current"]
        self._current = None if current is None else self._inbox.known(current)
        self._left = integer("left", settings["left"], least=0)
        return self
