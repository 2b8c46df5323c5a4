"""Online learning with adaptive truncation (Algorithm 1): Thompson sampling over intervals.

For each person: draw θ from the posterior so far, ask for a report truncated to the interval that
would be best were θ true, and take the report in.

Every report is ε-DP by itself, as a mechanism on real numbers (proof: `TruncatedLaplaceDensity`),
for whatever interval; the interval depends on earlier reports only, and each person reports once.
So what the stream of reports tells of any one person is ε-DP (Proposition 1). *Proof*: the joint
density of the reports is a product over t of p(y_t | x_t, y_{1:t−1}); changing one x_t changes that
one factor, by e^ε at most. ∎ The reports drawn here, in floating point and from a seed, are not:
people are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from confidp.errors import InvalidArgument
from confidp.local.continuous import TruncatedLaplaceDensity
from confidp.local.published.model import Array, Reports

State = TypeVar("State")
Choice: TypeAlias = Callable[[Array], tuple[float, float]]  # from θ to an interval


class Sampler(Protocol[State]):
    """A posterior sampler: `LatentSMC`, as published, or `MarginalSMC`."""

    def start(self, rng: np.random.Generator) -> State:
        """Return the posterior given no report."""

    def draw(self, state: State, rng: np.random.Generator) -> Array:
        """Return one θ from it."""

    def update(self, state: State, report: Reports, rng: np.random.Generator) -> State:
        """Return the posterior given one more report."""


@dataclass(frozen=True, slots=True)
class Step(Generic[State]):
    """One person's report, and what is known after it."""

    report: Reports
    state: State


def learn(
    people: Iterable[float],
    epsilon: float,
    choose: Choice,
    sampler: Sampler[State],
    rng: np.random.Generator,
) -> Iterator[Step[State]]:
    """Yield a step for each simulated person.

    Parameters
    ----------
    people
        Their values. Simulated ones only: see above.
    epsilon
        Of every report.
    choose
        `scaled(a, b)`, `fixed(l, r)`, or any function from θ to an interval.
    sampler
        Keeps the posterior.

    Examples
    --------
    >>> from confidp.local.published.marginal import MarginalSMC
    >>> rng = np.random.default_rng(1)
    >>> people = rng.normal(50, 3, 300)
    >>> for step in learn(people, 10.0, scaled(-1.2, 1.2), MarginalSMC(n_particles=200), rng):
    ...     pass
    >>> bool(abs(step.state.mean[0] - 50) < 1)
    True
    """
    state = sampler.start(rng)
    for x in people:
        low, high = choose(sampler.draw(state, rng))  # explore, then exploit
        mechanism = TruncatedLaplaceDensity(low, high, epsilon)
        report = Reports.of(mechanism.sample([x], rng), low, high, mechanism.epsilon)
        state = sampler.update(state, report, rng)
        yield Step(report, state)


def scaled(a: float, b: float) -> Choice:
    """Choose [μ + σa, μ + σb]: equation 12."""
    if not a < b:
        raise InvalidArgument("a must be below b")
    return lambda theta: (float(theta[0] + theta[1] * a), float(theta[0] + theta[1] * b))


def fixed(low: float, high: float) -> Choice:
    """Choose one interval for all, whatever θ: the paper's non-adaptive methods."""
    if not low < high:
        raise InvalidArgument("low must be below high")
    return lambda _: (low, high)
