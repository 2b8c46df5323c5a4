"""What is asked next, and of which kind: mechanisms, criteria and policies by name or as values.

Names are for the outermost door; below it everything is a value. A value can be written as the
name of its kind and its settings, and read back from a list of known kinds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, choice, real, shown
from confidp.local.channel import EPSILON_CAP
from confidp.local.design import (
    COptimal,
    Criterion,
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
from confidp.local.information import check_criterion
from confidp.local.kinds import as_mechanism
from confidp.local.mechanisms import MU_CAP
from confidp.local.mirrored import Mirrored
from confidp.local.population import Population
from confidp.local.posterior import Posterior
from confidp.local.query import Query

POLICIES = ("thompson", "mean")
_CRITERIA: dict[str, Criterion] = {"A": a_optimal, "D": d_optimal}
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Response,
        GaussianResponse,
        TruncatedLaplace,
        TruncatedGaussian,
        Mirrored,
        COptimal,
        Diagonal,
    )
}


def query_at(
    population: Population,
    theta: NDArray[np.float64],
    mechanism: Mechanism,
    criterion: Criterion,
    rng: np.random.Generator,
) -> Query:
    """Return the query that is best at θ, on the family's public grid of cut points.

    Of a mirrored pair it is one of the two, by a coin from `rng`.
    """
    knots = tuple(place_best(population, theta, mechanism, criterion).tolist())
    return by_coin(mechanism.queries(knots), rng)


def by_coin(queries: tuple[Query, ...], rng: np.random.Generator) -> Query:
    """Return one of the queries. The coin is public, so it needs no secret randomness."""
    return queries[rng.integers(len(queries))] if len(queries) > 1 else queries[0]


def next_query(
    posterior: Posterior,
    mechanism: Mechanism,
    criterion: Criterion,
    policy: str,
    rng: np.random.Generator,
) -> Query:
    """Return the best query at a draw from the posterior ("thompson") or in its middle ("mean")."""
    theta = posterior.draw(rng) if policy == "thompson" else posterior.middle
    return query_at(posterior.population, theta, mechanism, criterion, rng)


def chosen_policy(chosen: str) -> str:
    """Return a known policy, or raise."""
    return choice("policy", chosen, POLICIES)


def chosen_mechanism(
    chosen: str | Mechanism,
    epsilon: float | None,
    mu: float | None,
    population: Population,
    criterion: Criterion,
) -> Mechanism:
    """Return the mechanism of that name at exactly one of ε and μ, or a value as it is."""
    if not isinstance(chosen, str):
        if epsilon is not None or mu is not None:
            raise InvalidArgument("epsilon and mu belong to the mechanism where it is a value")
        return as_mechanism(chosen)
    if (epsilon is None) == (mu is None):
        raise InvalidArgument("give exactly one of epsilon and mu")
    if epsilon is not None:
        epsilon = checked_epsilon(epsilon)
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
        f"with mu, not {shown(chosen)} with {'mu' if epsilon is None else 'epsilon'}"
    )


def checked_epsilon(epsilon: float) -> float:
    """Return an ε that weights of 1 in 2^32 can keep, or raise."""
    allowed = f"above 0 and at most {EPSILON_CAP:g}"
    return real("epsilon", epsilon, allowed, lambda e: 0 < e <= EPSILON_CAP)


def chosen_criterion(chosen: str | Criterion, population: Population) -> Criterion:
    """Return the criterion of that name, or a function as it is, once tried."""
    if isinstance(chosen, str):
        if chosen not in _CRITERIA:
            raise InvalidArgument(f"criterion must be 'A', 'D' or a function, not {shown(chosen)}")
        return _CRITERIA[chosen]
    return check_criterion(chosen, len(population.parameters))


def criterion_to_dict(criterion: Criterion) -> str | dict[str, Any]:
    """Return a criterion's name, or its kind and settings: JSON-ready."""
    names = [name for name, known in _CRITERIA.items() if known is criterion]
    return names[0] if names else to_dict(criterion)


def criterion_from_dict(content: str | Mapping[str, Any], population: Population) -> Criterion:
    """Return the criterion that `criterion_to_dict` wrote."""
    found = content if isinstance(content, str) else from_dict(content)
    return chosen_criterion(found, population)


def to_dict(value: Any) -> dict[str, Any]:
    """Return a mechanism or criterion as the name of its kind and its settings: JSON-ready.

    Examples
    --------
    >>> to_dict(Mirrored(TruncatedLaplace(1.0)))
    {'kind': 'Mirrored', 'mechanism': {'kind': 'TruncatedLaplace', 'epsilon': 1.0, 'steps': 32}}
    """
    kind = type(value).__name__
    if not is_dataclass(value) or type(value) is not _KINDS.get(kind):
        raise InvalidArgument(f"save knows confidp's mechanisms and criteria only, not {kind}")
    settings = {field.name: getattr(value, field.name) for field in fields(value)}
    return {
        "kind": kind,
        **{name: to_dict(s) if is_dataclass(s) else s for name, s in settings.items()},
    }


def from_dict(content: Mapping[str, Any]) -> Any:
    """Return the value that `to_dict` wrote.

    Examples
    --------
    >>> from_dict(to_dict(Mirrored(Response(2, 1.0)))) == Mirrored(Response(2, 1.0))
    True
    """
    settings = {
        name: from_dict(s) if isinstance(s, dict) else tuple(s) if isinstance(s, list) else s
        for name, s in json.loads(json.dumps(content)).items()
        if name != "kind"
    }
    return _KINDS[content["kind"]](**settings)
