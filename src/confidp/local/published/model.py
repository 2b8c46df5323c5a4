"""What the published algorithms share: reports, and families whose values can be drawn.

The mechanism is Y = clip(X, l, r) + Laplace(b) with b = (r − l)/ε. Given X, a report's log density
is −log 2b − |y − clip(x)|/b; the second term is the misfit, and all that the algorithms need of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confidp.errors import InvalidArgument, InvalidType, real
from confidp.local.continuous import TruncatedLaplaceDensity
from confidp.local.population import Logistic, Normal, Population

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reports:
    """What t people sent, and to which queries: three vectors of t numbers, and their one ε.

    Each is ε-DP by itself, as a mechanism on real numbers: see `TruncatedLaplaceDensity`.

    Examples
    --------
    >>> reports = Reports.of([0.5, 2.0], low=-1, high=1, epsilon=1.0)
    >>> len(reports), reports.scale, reports.misfit(np.array([[0.0, 3.0]]))
    (2, array([2., 2.]), array([[0.25, 0.5 ]]))
    """

    values: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    epsilon: float

    @classmethod
    def of(cls, values: ArrayLike, low: ArrayLike, high: ArrayLike, epsilon: float) -> Reports:
        """Check and return reports; an end that is one number is that of all of them.

        Raises
        ------
        InvalidArgument
            Where a number isn't finite, a low end isn't below its high end, or ε isn't above 0.
        """
        positive = real("epsilon", epsilon, "above 0", lambda e: e > 0)
        parts = (np.asarray(part, dtype=np.float64) for part in (values, low, high))
        y, left, right = (np.array(part) for part in np.broadcast_arrays(*parts))
        if y.ndim != 1 or not all(np.isfinite(part).all() for part in (y, left, right)):
            raise InvalidArgument("reports must be vectors of finite numbers")
        if not (left < right).all():
            raise InvalidArgument("low must be below high")
        return cls(y, left, right, positive)

    @property
    def scale(self) -> Array:
        """The noise's scale b of each report: its standard deviation is √2·b."""
        return np.asarray((self.high - self.low) / self.epsilon)

    def __len__(self) -> int:
        """Return t."""
        return len(self.values)

    def __add__(self, other: Reports) -> Reports:
        """Return these reports, then the others."""
        if self.epsilon != other.epsilon:
            raise InvalidArgument("reports must have one epsilon")
        return Reports(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
            self.epsilon,
        )

    def __getitem__(self, index: slice | NDArray[np.intp]) -> Reports:
        """Return some of the reports."""
        return Reports(self.values[index], self.low[index], self.high[index], self.epsilon)

    def misfit(self, x: Array) -> Array:
        """Return |y − clip(x)|/b for an N × t array of values."""
        gap = np.maximum(x, self.low)
        np.minimum(gap, self.high, out=gap)
        gap -= self.values
        np.abs(gap, out=gap)
        gap /= self.scale
        return gap

    def log_density(self, theta: Array) -> Array:
        """Return log p(y | θ) under N(μ, σ²), without latent values: N × t.

        The closed form on [0, 1], moved: reports, means and deviations are taken in units of
        their own interval.

        Examples
        --------
        >>> from confidp.local.continuous import TruncatedLaplaceDensity
        >>> one = TruncatedLaplaceDensity(49.0, 51.0, 1.0).log_density(52.5, 50.0, 3.0)
        >>> same = Reports.of([52.5], 49, 51, 1.0).log_density(np.array([[50.0, 3.0]]))
        >>> bool(np.isclose(one, same[0, 0]))
        True
        """
        width = self.high - self.low
        y, mu = (self.values - self.low) / width, (theta[:, :1] - self.low) / width
        standard = TruncatedLaplaceDensity(0.0, 1.0, self.epsilon)
        return standard.log_density(y, mu, theta[:, 1:] / width) - np.log(width)


@dataclass(frozen=True, slots=True)
class LatentModel:
    """A family of location and scale with a prior, x = μ + σz, whose values can be drawn.

    Attributes
    ----------
    population
        The family and the prior of θ = (location, scale).
    draw
        Independent values of z, in a shape.
    log_density
        log f(z) up to a constant.
    slope
        Its derivative.
    """

    population: Population
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array] = field(repr=False)
    log_density: Callable[[Array], Array] = field(repr=False)
    slope: Callable[[Array], Array] = field(repr=False)

    def gradient(self, theta: Array, x: Array) -> tuple[Array, Array]:
        """Return ∂ log p_θ(x)/∂μ and ∂ log p_θ(x)/∂σ, each in the shape of x.

        Examples
        --------
        >>> by_mu, by_sigma = normal().gradient(np.array([1.0, 2.0]), np.array([5.0]))
        >>> by_mu, by_sigma  # (x − μ)/σ² and (x − μ)²/σ³ − 1/σ
        (array([1.]), array([1.5]))
        """
        mu, sigma = theta
        z = (x - mu) / sigma
        psi = self.slope(z)
        return -psi / sigma, -(1 + z * psi) / sigma


def normal(population: Normal | None = None) -> LatentModel:
    """Return the paper's model: N(μ, σ²), with its priors unless told."""
    chosen = Normal() if population is None else population
    if not isinstance(chosen, Normal):
        raise InvalidType(f"population must be a Normal, not {type(chosen).__name__}")
    return LatentModel(
        chosen, lambda rng, shape: rng.standard_normal(shape), lambda z: -0.5 * z * z, lambda z: -z
    )


def logistic(population: Logistic | None = None) -> LatentModel:
    """Return the logistic family: one without Gibbs moves, so θ moves by Metropolis."""
    chosen = Logistic() if population is None else population
    if not isinstance(chosen, Logistic):
        raise InvalidType(f"population must be a Logistic, not {type(chosen).__name__}")
    return LatentModel(
        chosen,
        lambda rng, shape: rng.logistic(size=shape),
        lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z))),
        lambda z: -np.tanh(z / 2),
    )
