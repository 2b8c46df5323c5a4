"""Mechanisms side by side: what a report by each tells of a population, and the most there is.

Each mechanism is placed where it loses least by the criterion, so that what is compared is the
kinds of query and not somebody's settings of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from confidp.errors import InvalidArgument, integer, real
from confidp.local.channel import EPSILON_CAP
from confidp.local.design import best_cells, best_knots, quantiles
from confidp.local.information import (
    Array,
    Criterion,
    Design,
    a_optimal,
    d_optimal,
    fisher_information,
    information_at,
)
from confidp.local.kinds import (
    GaussianResponse,
    Mechanism,
    Response,
    TruncatedGaussian,
    TruncatedLaplace,
)
from confidp.local.mechanisms import MU_CAP
from confidp.local.mirrored import Mirrored
from confidp.local.population import Population, as_population
from confidp.local.staircase import MOST_CELLS, BestChannel, best_channel

_FINE = np.linspace(-6.0, 6.0, 999)  # normal scores that stand for seeing the value itself


@dataclass(frozen=True, slots=True)
class Told:
    """What one report tells of θ, by one mechanism at its best.

    Attributes
    ----------
    name
        What it is called, such as "3-ary response".
    knots
        Where it is placed: cut points, or the ends of an interval. Empty where nothing is placed.
    information
        The d × d Fisher information of a report.
    loss
        By the criterion of the comparison.
    """

    name: str
    knots: tuple[float, ...]
    information: Array = field(repr=False)
    loss: float

    @property
    def trace(self) -> float:
        """tr F⁻¹: the sum of the parameters' variances, for one report; ∞ if F is singular."""
        return a_optimal(self.information)

    @property
    def log_det(self) -> float:
        """D, that is −log det F; ∞ if F is singular."""
        return d_optimal(self.information)

    @property
    def variances(self) -> Array:
        """Each parameter's variance for one report, the others unknown; ∞ if F is singular."""
        if math.isinf(self.trace):
            return np.full(len(self.information), math.inf)
        return np.asarray(np.diagonal(np.linalg.inv(self.information)))

    def people(self, standard_error: float) -> tuple[int | None, ...]:
        """Return how many people each parameter needs for that standard error, at the limit.

        None where no number of people is enough, or none that a float holds.

        Examples
        --------
        >>> Told("none", (), np.diag([1.0, 2.0]), 1.5).people(0.1)
        (100, 50)
        """
        wanted = real("standard_error", standard_error, "above 0", lambda x: x > 0)
        needed = [v / wanted / wanted * (1 - 1e-12) for v in self.variances.tolist()]
        return tuple(max(1, math.ceil(n)) if math.isfinite(n) else None for n in needed)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mechanisms at their best for one population and guarantee.

    Attributes
    ----------
    theta
        Where the population is.
    mechanisms
        Least loss first.
    best
        The best ε-DP channel found by linear programming, with the bound it proves; None under
        μ-GDP, whose channels are no cone of two-valued columns, and for three or more parameters.
    no_privacy
        What the value itself tells.
    """

    theta: tuple[float, ...]
    mechanisms: tuple[Told, ...]
    best: BestChannel | None
    no_privacy: Told

    @property
    def best_told(self) -> Told | None:
        """What a report by the best channel found tells."""
        if self.best is None:
            return None
        return Told("best found", (), self.best.information, self.best.loss)


def compare(
    population: Population,
    theta: Sequence[float] | Array | None = None,
    *,
    epsilon: float | None = None,
    mu: float | None = None,
    criterion: Criterion = a_optimal,
    cells: int = 80,
) -> Comparison:
    """Return what one report tells by each mechanism, at ε or at μ, and the most there is.

    Compared are k-ary randomised response with as few cells as do, with one more and with the best
    number, the truncated Laplace (or Gaussian) mechanism, and its mirrored pair.

    Parameters
    ----------
    theta
        The family's standard one unless told, or the middle of the prior where it has none.
    epsilon, mu
        Exactly one.
    criterion
        What each is placed by; see `best_channel` for those that have a bound.
    cells
        Of the bound's partition; 0 leaves it out.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> found = compare(Normal(), epsilon=1.0, cells=0)
    >>> for told in found.mechanisms:
    ...     print(f"{told.name:<28} {told.trace:.1f}")
    3-ary response               21.1
    4-ary response               25.5
    mirrored truncated Laplace   41.6
    truncated Laplace            170.3
    """
    as_population(population)
    point = population.check(population.standard or population.middle() if theta is None else theta)
    epsilon, mu = guarantee(epsilon, mu)
    if integer("cells", cells, least=0, most=MOST_CELLS) == 1:
        raise InvalidArgument("cells must be 0 or at least 2, not 1")
    told = [
        _placed(population, point, name, mechanism, criterion)
        for name, mechanism in _mechanisms(population, point, epsilon, mu, criterion)
    ]
    most = None
    if cells and epsilon is not None and len(point) <= 2:
        most = best_channel(population, point, epsilon, criterion, cells=cells)
    cuts = np.unique(quantiles(population, point, _FINE))
    full = information_at(population, point, cuts, np.eye(len(cuts) + 1))
    return Comparison(
        theta=tuple(point.tolist()),
        mechanisms=tuple(sorted((t for t in told if t is not None), key=lambda t: t.loss)),
        best=most,
        no_privacy=Told("no privacy", (), full, criterion(full)),
    )


def guarantee(epsilon: float | None, mu: float | None) -> tuple[float | None, float | None]:
    """Return exactly one of ε and μ, checked, or raise."""
    if (epsilon is None) == (mu is None):
        raise InvalidArgument("give exactly one of epsilon and mu")
    if epsilon is not None:
        allowed = f"above 0 and at most {EPSILON_CAP:g}"
        return real("epsilon", epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP), None
    return None, real("mu", mu, f"above 0 and at most {MU_CAP:g}", lambda m: 0 < m <= MU_CAP)


def _mechanisms(
    population: Population,
    point: Array,
    epsilon: float | None,
    mu: float | None,
    criterion: Criterion,
) -> Iterator[tuple[str, Mechanism]]:
    best = best_cells(population, criterion, epsilon=epsilon, mu=mu, theta=point).cells
    sizes = sorted({*range(2, len(population.parameters) + 3), best})
    if epsilon is not None:
        for k in sizes:
            yield f"{k}-ary response", Response(k, epsilon)
        yield "truncated Laplace", TruncatedLaplace(epsilon)
        yield "mirrored truncated Laplace", Mirrored(TruncatedLaplace(epsilon))
    elif mu is not None:
        for k in sizes:
            yield f"{k}-ary response", GaussianResponse(k, mu)
        yield "truncated Gaussian", TruncatedGaussian(mu)
        yield "mirrored truncated Gaussian", Mirrored(TruncatedGaussian(mu))


def _placed(
    population: Population, point: Array, name: str, mechanism: Mechanism, criterion: Criterion
) -> Told | None:
    """Return the mechanism at its best, or None where no place gives a finite loss."""
    try:
        best = best_knots(population, point, mechanism, criterion)
    except InvalidArgument:  # two answers, say, can't tell two parameters
        return None
    design = Design.of(*mechanism.build(best.knots))
    return Told(name, best.knots, fisher_information(population, point, design), best.loss)
