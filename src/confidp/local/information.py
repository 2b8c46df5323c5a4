"""What a report tells: Fisher information of a query's answers, and criteria that judge it.

A report's information on θ is a finite sum, F = Σ_y ∇p(y) ∇p(y)ᵀ / p(y). A criterion turns F
into a loss: less is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confidp.errors import ConfidpError, InvalidArgument, InvalidType
from confidp.local.population import Population, as_population
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]
Weights = tuple[tuple[float, ...], ...]  # one row for each cell, one column for each answer
Criterion: TypeAlias = Callable[[Array], float]  # the loss of a d × d information: less is better

_SUM = 1e-9  # how far two rows' sums may be apart
_FLAT = 1e-12  # a reciprocal condition number below which information is taken as singular


@dataclass(frozen=True, slots=True)
class Design:
    """All that a likelihood needs of a query: cut points, and weights of answers in each cell.

    Rows of weights have the same sum, and are probabilities once divided by it.
    """

    cuts: tuple[float, ...]
    weights: Weights
    _hash: int = field(init=False, repr=False, compare=False)  # of thousands of numbers: once

    def __post_init__(self) -> None:
        """Remember the hash."""
        object.__setattr__(self, "_hash", hash((self.cuts, self.weights)))

    def __hash__(self) -> int:
        """Return the hash of both."""
        return self._hash

    @classmethod
    def of(cls, cuts: ArrayLike, weights: ArrayLike) -> Design:
        """Check cut points and weights, and return them hashable.

        Examples
        --------
        >>> Design.of([0.0], [[3, 1], [1, 3]])
        Design(cuts=(0.0,), weights=((3.0, 1.0), (1.0, 3.0)))
        """
        points, matrix = numbers("cuts", cuts), numbers("weights", weights)
        if points.ndim != 1 or not np.isfinite(points).all() or (points[1:] <= points[:-1]).any():
            raise InvalidArgument("cuts must be finite and increasing")
        if matrix.ndim != 2 or len(matrix) != len(points) + 1:
            raise InvalidArgument(f"weights must have {len(points) + 1} rows, one for each cell")
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            raise InvalidArgument("weights must be finite numbers of at least 0")
        totals = matrix.sum(axis=1)
        if not (totals > 0).all() or np.ptp(totals) > _SUM * totals[0]:
            raise InvalidArgument("weights must have rows of the same sum, above 0")
        return cls(tuple(points.tolist()), tuple(map(tuple, matrix.tolist())))

    @property
    def answers(self) -> int:
        """How many answers a report may have."""
        return len(self.weights[0])

    def probabilities(self) -> Array:
        """Return the probability of each answer in each cell."""
        matrix = np.array(self.weights)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def answer_probabilities(population: Population, theta: Array, design: Design) -> Array:
    """Return the probability of each answer under each θ: an N × answers array.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> design = Design.of([0.0], [[3, 1], [1, 3]])
    >>> answer_probabilities(Normal(), np.array([[0.0, 1.0], [99.0, 1.0]]), design)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    cells = population.cells(theta, np.array(design.cuts))
    return np.asarray(cells @ design.probabilities())


def fisher_information(
    population: Population, theta: Sequence[float] | Array, design: Design
) -> Array:
    """Return one report's information on θ, d × d: Σ_y ∇p(y) ∇p(y)ᵀ / p(y).

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> sign = Design.of([0.0], [[math.e, 1.0], [1.0, math.e]])  # at ε = 1
    >>> information = fisher_information(Normal(), [0.0, 1.0], sign)
    >>> math.isclose(information[0, 0], 2 / math.pi * math.tanh(0.5) ** 2)
    True
    """
    point = as_population(population).check(theta)
    if not isinstance(design, Design):
        raise InvalidType(f"design must be a Design, not {type(design).__name__}")
    return information_at(population, point, np.array(design.cuts), design.probabilities())


def information_at(population: Population, theta: Array, cuts: Array, matrix: Array) -> Array:
    """Return the information without checking anything: a search calls it often."""
    chances = (population.cells(theta[None, :], cuts) @ matrix)[0]
    slopes = population.gradient(theta, cuts) @ matrix
    possible = chances > 0  # an impossible answer tells nothing, and its slope is 0
    scaled = slopes[:, possible] / np.sqrt(chances[possible])
    return np.asarray(scaled @ scaled.T)


def a_optimal(information: Array) -> float:
    """Return the trace of F⁻¹: the summed variances at the limit; ∞ where F is singular."""
    inverse = _inverse(information)
    return math.inf if inverse is None else float(np.trace(inverse))


def d_optimal(information: Array) -> float:
    """Return −log det F: twice the logarithm of the limiting ellipse's size, up to a constant."""
    if _inverse(information) is None:
        return math.inf
    return -float(np.linalg.slogdet(information)[1])


@dataclass(frozen=True, slots=True)
class COptimal:
    """The variance cᵀF⁻¹c of one combination of parameters."""

    direction: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the direction."""
        object.__setattr__(self, "direction", _direction("direction", self.direction))

    def __call__(self, information: Array) -> float:
        """Return the loss."""
        inverse, c = _inverse(information), np.array(self.direction)
        return math.inf if inverse is None else float(c @ inverse @ c)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """−Σ wᵢ Fᵢᵢ. The paper's F₁₁ is Diagonal((1, 0)), its trace Diagonal((1, 1)).

    It may leave a parameter unseen: as F₁₁ grows, F₂₂ goes to 0.
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the weights."""
        object.__setattr__(self, "weights", _direction("weights", self.weights))

    def __call__(self, information: Array) -> float:
        """Return the loss."""
        return -float(np.array(self.weights) @ np.diagonal(information))


def check_criterion(criterion: Any, d: int) -> Criterion:
    """Return a criterion of d parameters, or raise: it is tried on the identity.

    Examples
    --------
    >>> check_criterion(COptimal((1.0, 0.0)), 3)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: criterion must take an information matrix of 3 parameters...
    """
    if isinstance(criterion, type) or not callable(criterion):
        raise InvalidType(f"criterion must be a function, not {type(criterion).__name__}")
    try:
        hash(criterion)  # what is solved for is kept by it
        loss = criterion(np.eye(d))
    except ConfidpError:
        raise
    except Exception as error:  # its traceback is the user's to see
        kind = type(error).__name__
        raise InvalidArgument(
            f"criterion must take an information matrix of {d} parameters, but raised {kind}"
        ) from error
    number = numbers("criterion's loss", loss)
    if number.ndim or np.isnan(number):
        raise InvalidArgument("criterion must return one number, and not NaN")
    known: Criterion = criterion
    return known


def _direction(name: str, values: ArrayLike) -> tuple[float, ...]:
    vector = numbers(name, values)
    if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
        raise InvalidArgument(f"{name} must be one finite number a parameter, not all of them 0")
    return tuple(vector.tolist())


def _inverse(information: Array) -> Array | None:
    """Return F⁻¹, or None where F is singular; F is scaled first, so units don't matter."""
    try:
        if np.ndim(information) != 2:
            raise ValueError("it isn't a matrix")
        with np.errstate(all="ignore"):
            scale = np.sqrt(np.diagonal(information))
            if not (np.isfinite(scale).all() and (scale > 0).all()):
                return None
            values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
            if not values[0] > _FLAT * values[-1]:
                return None
            return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))
    except Exception as error:  # not looked at before: a search calls this often
        raise InvalidType("information must be a square array of finite numbers") from error
