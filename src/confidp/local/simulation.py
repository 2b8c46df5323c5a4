"""Rehearse a collection: simulated people answer a collector's queries, and the posterior is kept.

A planning tool. Answers are drawn with a NumPy generator, so that a run can be repeated: whoever
has its seed can take the randomness off, and nobody's data should be collected this way. A device
draws with `Query.privatize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from confidp.errors import InvalidArgument, InvalidType, integer, shown
from confidp.local.channel import TOTAL
from confidp.local.collector import Collector
from confidp.local.information import Array, Design, answer_probabilities
from confidp.local.population import Population, as_population
from confidp.local.query import Query
from confidp.local.state import check_generator
from confidp.privacy.guarantees import numbers

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # posterior quantiles kept: the 50% and 90% intervals
_FIT_CELLS = 400


class People(Protocol):
    """Those who are asked, each once."""

    def answer(self, query: Query, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many of the next `count` people give each answer."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """People whose values are independent draws from a family at a known θ.

    A query's answers are then multinomial, so a round of any size takes one draw.

    Examples
    --------
    >>> from confidp.local import mechanisms
    >>> from confidp.local.population import Normal
    >>> people = Drawn(Normal(), np.array([50.0, 3.0]))
    >>> people.answer(mechanisms.response([50.0], 1.0), 10**6, np.random.default_rng(1))
    array([499701, 500299])
    """

    population: Population
    theta: Array

    def __post_init__(self) -> None:
        """Check the parameters."""
        theta = as_population(self.population).check(self.theta)
        object.__setattr__(self, "theta", theta)

    def answer(self, query: Query, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many of the next `count` people give each answer."""
        count = _checked(query, count, rng)
        design = Design.of(query.cuts, query.channel.weights)
        chances = answer_probabilities(self.population, self.theta[None, :], design)[0]
        return np.asarray(rng.multinomial(count, chances / chances.sum()))


@dataclass(slots=True)
class Rows:
    """People whose values are real ones, asked in the order given. NOT private: see the module.

    Examples
    --------
    >>> from confidp.local import mechanisms
    >>> people = Rows(np.array([1.0, 2.0, 9.0]))
    >>> people.answer(mechanisms.response([5.0], 22.0), 2, np.random.default_rng(1))
    array([2, 0])
    >>> people.answer(mechanisms.response([5.0], 22.0), 2, np.random.default_rng(1))
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: count must be at most 1, the people left, not 2
    """

    values: Array = field(repr=False)
    asked: int = 0

    def __post_init__(self) -> None:
        """Check that they are numbers; which of them isn't stays unsaid."""
        self.values = numbers("values", self.values)
        if self.values.ndim != 1 or np.isnan(self.values).any():
            raise InvalidArgument("values must be a list of numbers, none of them missing")
        self.asked = integer("asked", self.asked, least=0, most=len(self.values))

    def answer(self, query: Query, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many of the next `count` people give each answer; nobody is asked twice."""
        count, left = _checked(query, count, rng), len(self.values) - self.asked
        if count > left:
            raise InvalidArgument(
                f"count must be at most {left}, the people left, not {shown(count)}"
            )
        x = self.values[self.asked : self.asked + count]
        self.asked += count
        weights = np.array(query.channel.weights)
        cells = np.searchsorted(np.array(query.cuts), x, side="left")
        # As on a device: the first answer whose cumulative weight exceeds a uniform whole number.
        uniform = rng.integers(TOTAL, size=count)
        answers = (np.cumsum(weights, axis=1)[cells] <= uniform[:, None]).sum(axis=1)
        return np.bincount(answers, minlength=weights.shape[1])


@dataclass(frozen=True, slots=True)
class Round:
    """What was asked in one round, and what was known after it.

    Attributes
    ----------
    reports
        How many people had answered by its end.
    cuts
        The query's cut points.
    mean
        The posterior mean of each of d parameters.
    quantiles
        d × 5 posterior quantiles, at `LEVELS`.
    """

    reports: int
    cuts: tuple[float, ...]
    mean: Array = field(repr=False)
    quantiles: Array = field(repr=False)


def rehearse(
    collector: Collector,
    people: People,
    count: int,
    round_size: int,
    rng: np.random.Generator,
) -> Iterator[Round]:
    """Ask `count` people in rounds, each round one query, and yield what is known after each.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> collector = Collector(Normal(), epsilon=2.0, rng=1)
    >>> people = Drawn(Normal(), np.array([50.0, 3.0]))
    >>> *_, last = rehearse(collector, people, 2000, 100, np.random.default_rng(1))
    >>> last.reports, bool(abs(last.mean[0] - 50) < 1)
    (2000, True)
    """
    if not isinstance(collector, Collector):
        raise InvalidType(f"collector must be a Collector, not {type(collector).__name__}")
    if isinstance(people, type) or not callable(getattr(people, "answer", None)):
        raise InvalidType(f"people must be Drawn or Rows, not {type(people).__name__}")
    count = integer("count", count, least=1)
    round_size = integer("round_size", round_size, least=1)
    check_generator(rng)
    return _rounds(collector, people, count, round_size, rng)


def _rounds(
    collector: Collector, people: People, count: int, round_size: int, rng: np.random.Generator
) -> Iterator[Round]:
    for start in range(0, count, round_size):
        asked = min(round_size, count - start)
        query = collector.query()
        collector.add_counts(query, people.answer(query, asked, rng).tolist())
        posterior = collector.posterior
        yield Round(start + asked, query.cuts, posterior.mean, posterior.quantiles(LEVELS))


def _checked(query: Query, count: int, rng: np.random.Generator) -> int:
    if not isinstance(query, Query):
        raise InvalidType(f"query must be a Query, not {type(query).__name__}")
    check_generator(rng)
    return integer("count", count, least=0, most=2**62)


def fit(population: Population, values: ArrayLike) -> Array:
    """Return the family's best fit to values that are seen, without privacy: what θ would be.

    Maximum likelihood over the cells between some hundred quantiles of the values.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> x = np.random.default_rng(1).normal(50, 3, 10_000)
    >>> fit(Normal(), x).round(1)
    array([50.,  3.])
    """
    x = np.asarray(values, dtype=np.float64)
    cuts = np.unique(np.quantile(x, np.linspace(0, 1, _FIT_CELLS + 1)[1:-1]))
    counts = np.bincount(np.searchsorted(cuts, x, side="left"), minlength=len(cuts) + 1)

    def losses(z: Array) -> Array:
        chances = population.cells(population.natural(z), cuts)[:, counts > 0]
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(-np.log(chances) @ counts[counts > 0], 1e300))

    guesses = population.unconstrained(population.guesses(cuts))
    first = guesses[np.argmin(losses(guesses))]
    options = {"xatol": 1e-8, "fatol": 1e-8, "maxiter": 4000}
    found = optimize.minimize(
        lambda z: float(losses(z[None, :])[0]), first, method="Nelder-Mead", options=options
    )
    return population.natural(found.x)
