"""Several components, each with its own population: one posterior for each, one guarantee for all.

A person's value is a vector. Either they answer one component, chosen at random and publicly,
with the whole ε ("one"), or all of them, each with its share of ε ("split"). Small ε tell
disproportionately little: at ε ≤ 1 a report's information is about proportional to ε², so a
d-th of the people at ε know more than all of them at ε/d.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, choice, integer
from confidp.local import posterior as smc
from confidp.local import state
from confidp.local.asking import (
    checked_epsilon,
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
from confidp.local.vector import MAX_COMPONENTS, VectorQuery, VectorReport, split_epsilon
from confidp.privacy.guarantees import numbers
from confidp.randomness import Randomness, Seed

_ASSIGNMENTS = ("one", "split")


class ComponentwiseCollector:
    """Learns each component's parameters from private reports on vectors.

    Every report is ε-DP for any two vectors of the person, whatever their components have to do
    with each other (`VectorQuery` has the proof). The posteriors are for each component by
    itself: dependence between components is neither assumed nor learnt.

    Parameters
    ----------
    populations
        One family with its prior for each component.
    epsilon
        What every report guarantees, all of its answers together: above 0, at most 22.
    assignment
        "one": each person answers one component with the whole ε. "split": all, with shares of it.
        At the information limit of two normals, a component's summed variances per report are
        42, 11.5, 3.8 and 3.2 with "one" at ε = 1, 2, 5 and 10, and 90, 21, 4.1 and 1.9 with
        "split". So "one" is the default, and "split" is better from about ε = 5.5 on (three
        components: 6.5, five: 8).
    shares
        Public, in proportion: the chance that a component is asked ("one"), or its part of ε
        ("split"). Equal unless told.
    mechanism
        "response" or "truncated-laplace", as for `Collector`.
    policy, criterion, round_size, n_particles, rng
        As for `Collector`, the criterion being that of each component.

    Examples
    --------
    >>> from confidp.local.population import Exponential, Normal
    >>> collector = ComponentwiseCollector([Normal(), Exponential()], epsilon=1.0, rng=7)
    >>> report = collector.query().privatize([50.0, 3.0], epsilon_limit=1.0)
    >>> collector.add(report)
    >>> sum(posterior.diagnostics.reports for posterior in collector.posteriors)
    1
    >>> collector.add(report)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: report has been added before
    """

    def __init__(
        self,
        populations: Sequence[Population],
        *,
        epsilon: float,
        assignment: str = "one",
        shares: Sequence[float] | None = None,
        mechanism: str = "response",
        policy: str = "thompson",
        criterion: str | Criterion = "A",
        round_size: int = 1,
        n_particles: int = 1000,
        rng: Seed = None,
    ) -> None:
        if not isinstance(populations, list | tuple):
            kind = type(populations).__name__
            raise InvalidType(f"populations must be a list of populations, not {kind}")
        if not 1 <= len(populations) <= MAX_COMPONENTS:
            raise InvalidArgument(f"populations must be 1 to {MAX_COMPONENTS}")
        families = [as_population(population) for population in populations]
        self._epsilon = checked_epsilon(epsilon)
        self._assignment = _assignment(assignment)
        self._shares = _shares(shares, len(families))
        self._policy = chosen_policy(policy)
        for family in families:
            self._criterion = chosen_criterion(criterion, family)
        self._round_size = integer("round_size", round_size, least=1)
        if not isinstance(mechanism, str):
            raise InvalidType("mechanism must be a name: each component has its own ε")
        whole = (self._epsilon,) * len(families)
        parts = split_epsilon(self._epsilon, self._shares) if assignment == "split" else whole
        self._mechanisms: tuple[Mechanism, ...] = tuple(
            chosen_mechanism(mechanism, part, None, family, self._criterion)
            for family, part in zip(families, parts, strict=True)
        )
        self._rng = Randomness.of(rng).indices
        self._posteriors = tuple(smc.start(f, n_particles, self._rng) for f in families)
        self._inbox = Inbox[VectorQuery, VectorReport](VectorReport)
        self._current: VectorQuery | None = None
        self._left = 0

    def __repr__(self) -> str:
        """Return the settings and how much has come in."""
        return (
            f"ComponentwiseCollector({len(self._posteriors)} components, "
            f"epsilon={self._epsilon:g}, assignment={self._assignment!r})"
        )

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """Each component's posterior given every report so far."""
        return self._posteriors

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The kind of query asked of each component."""
        return self._mechanisms

    @property
    def queries(self) -> tuple[VectorQuery, ...]:
        """Every distinct query asked so far."""
        return self._inbox.queries

    def query(self) -> VectorQuery:
        """Return the query for the next person: which components, and the best query of each."""
        if self._current is None or self._left == 0:
            self._current = self._inbox.ask(self._next())
            self._left = self._round_size
        self._left -= 1
        return self._current

    def _next(self) -> VectorQuery:
        d = len(self._posteriors)
        chances = np.array(self._shares) / sum(self._shares)
        one = self._assignment == "one"
        asked = (int(self._rng.choice(d, p=chances)),) if one else tuple(range(d))
        queries = tuple(
            next_query(
                self._posteriors[j], self._mechanisms[j], self._criterion, self._policy, self._rng
            )
            for j in asked
        )
        return VectorQuery(d, asked, queries, self._epsilon)

    def add(self, report: VectorReport) -> None:
        """Take one report in: every component it answers, or none.

        Raises
        ------
        InvalidType, InvalidArgument
            Where it isn't a vector report, answers no query of this collector, has an answer the
            query doesn't offer, or was added before. Nothing changes then.
        """
        query = self._inbox.asked_by(report)
        updated = list(self._posteriors)
        for j, asked, value in zip(query.components, query.queries, report.values, strict=True):
            counts = [0] * asked.channel.outputs
            counts[value] = 1
            design = Design.of(asked.cuts, asked.channel.weights)
            updated[j] = smc.update(updated[j], design, counts, self._rng)
        self._posteriors = tuple(updated)
        self._inbox.accept(report)

    def save(self, path: str | Path) -> None:
        """Write everything to one file, so that a loaded collector goes on as if never stopped."""
        arrays: dict[str, NDArray[Any]] = self._inbox.to_arrays()
        headers = []
        for j, posterior in enumerate(self._posteriors):
            header, parts = state.posterior_to_arrays(posterior)
            headers.append(header)
            arrays |= {f"{j}.{name}": array for name, array in parts.items()}
        settings = {
            "epsilon": self._epsilon,
            "assignment": self._assignment,
            "shares": self._shares,
            "policy": self._policy,
            "round_size": self._round_size,
            "mechanisms": [to_dict(mechanism) for mechanism in self._mechanisms],
            "criterion": criterion_to_dict(self._criterion),
            "current": self._current.id if self._current else None,
            "left": self._left,
        }
        content = {
            "posteriors": headers,
            "generator": self._rng.bit_generator.state,
            "componentwise": settings,
        }
        state.write_arrays(path, content, arrays)

    @classmethod
    def load(cls, path: str | Path) -> ComponentwiseCollector:
        """Return the collector that `save` wrote. Nothing in the file is executed."""
        header, arrays = state.read_arrays(path)
        with state.reading(path):
            return cls._from(header, arrays)

    @classmethod
    def _from(
        cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> ComponentwiseCollector:
        settings = header["componentwise"]
        self = cls.__new__(cls)
        posteriors = []
        for j, part in enumerate(header["posteriors"]):
            start = f"{j}."
            own = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
            posteriors.append(state.posterior_from_arrays(part, own))
        self._posteriors = tuple(posteriors)
        self._epsilon = checked_epsilon(settings["epsilon"])
        self._assignment = _assignment(settings["assignment"])
        self._shares = _shares(settings["shares"], len(posteriors))
        self._policy = chosen_policy(settings["policy"])
        for posterior in posteriors:
            self._criterion = criterion_from_dict(settings["criterion"], posterior.population)
        self._round_size = integer("round_size", settings["round_size"], least=1)
        self._mechanisms = tuple(from_dict(mechanism) for mechanism in settings["mechanisms"])
        self._rng = state.generator(header["generator"])
        self._inbox = Inbox[VectorQuery, VectorReport](VectorReport)
        self._inbox.read(arrays, VectorQuery)
        current = settings["current"]
        self._current = None if current is None else self._inbox.known(current)
        self._left = integer("left", settings["left"], least=0)
        return self


def _assignment(chosen: str) -> str:
    return choice("assignment", chosen, _ASSIGNMENTS)


def _shares(shares: Sequence[float] | None, d: int) -> tuple[float, ...]:
    if shares is None:
        return (1.0,) * d
    chosen = numbers("shares", shares)
    if chosen.shape != (d,):
        raise InvalidArgument(f"shares must be {d} numbers, one for each component")
    if not ((chosen >= 1e-100) & (chosen <= 1e100)).all():  # so that their sum is a float
        raise InvalidArgument("shares must be from 1e-100 to 1e100")
    return tuple(chosen.tolist())
