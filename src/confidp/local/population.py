"""What the collector assumes of the population: families by their CDF, with a prior.

The likelihood of a report needs the probability of each cell between cut points and nothing else,
so a family is a CDF with both tails, named parameters and a prior for each. Particles are N rows
of d parameters; they move in unconstrained coordinates, where a positive parameter is its
logarithm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from confidp.errors import InvalidArgument, InvalidType, real

Array = NDArray[np.float64]

_LOG_LIMIT = 300.0  # a positive parameter stays in e^±300, whose ratios and squares are finite
_GRID = 4  # cut points lie on a grid of at least this many steps in the population's spread
_STENCIL = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # central differences of sixth order
_STEP = 1e-3  # relative: truncation 1e-18 against rounding 1e-13


def _above_zero(name: str, value: float) -> float:
    return real(name, value, "above 0", lambda x: x > 0)


def _keep(value: Any, **fields: Any) -> None:
    for name, kept in fields.items():
        object.__setattr__(value, name, kept)


def _needs_positive(name: str, prior: Prior) -> None:
    if not prior.positive:
        raise InvalidArgument(f"{name} must have a prior on positive numbers, not {prior}")


class Prior(Protocol):
    """A distribution of one parameter, and whether the parameter is positive."""

    positive: ClassVar[bool]

    def log_density(self, x: Array) -> Array:
        """Return the log density at each `x` of the support."""

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws."""


@dataclass(frozen=True, slots=True)
class NormalPrior:
    """A parameter anywhere on the line: N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 100.0
    positive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        _keep(self, mean=real("mean", self.mean, "of any size", lambda _: True))
        _keep(self, sd=_above_zero("sd", self.sd))

    def log_density(self, x: Array) -> Array:
        """Return the log density.

        Examples
        --------
        >>> NormalPrior(0, 1).log_density(np.array([0.0])).round(4)
        array([-0.9189])
        """
        z = (x - self.mean) / self.sd
        return np.asarray(-0.5 * z * z - math.log(self.sd * math.sqrt(2 * math.pi)))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws."""
        return rng.normal(self.mean, self.sd, size)


@dataclass(frozen=True, slots=True)
class LogNormalPrior:
    """A positive parameter whose logarithm is N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 3.0
    positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        _keep(self, mean=real("mean", self.mean, "of any size", lambda _: True))
        _keep(self, sd=_above_zero("sd", self.sd))

    def log_density(self, x: Array) -> Array:
        """Return the log density, of the parameter and not of its logarithm."""
        log_x = np.log(x)
        return np.asarray(NormalPrior(self.mean, self.sd).log_density(log_x) - log_x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws."""
        return np.exp(rng.normal(self.mean, self.sd, size))


@dataclass(frozen=True, slots=True)
class RootInverseGammaPrior:
    """A scale σ whose square is inverse gamma: σ² ~ IG(shape, scale), as in the paper."""

    shape: float = 1.0
    scale: float = 1.0
    positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        _keep(self, shape=_above_zero("shape", self.shape))
        _keep(self, scale=_above_zero("scale", self.scale))

    def log_density(self, x: Array) -> Array:
        """Return the log density of σ: that of σ² times the Jacobian 2σ."""
        constant = math.log(2) + self.shape * math.log(self.scale) - math.lgamma(self.shape)
        return np.asarray(constant - (2 * self.shape + 1) * np.log(x) - self.scale / x / x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws."""
        return np.sqrt(self.scale / rng.gamma(self.shape, 1.0, size))


PRIORS: dict[str, type[Any]] = {
    prior.__name__: prior for prior in (NormalPrior, LogNormalPrior, RootInverseGammaPrior)
}


class Population(ABC):
    """A one-dimensional family with a prior; the parameter vector θ is a row of N × d arrays."""

    __slots__ = ()

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of θ's coordinates."""

    @property
    @abstractmethod
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""

    @abstractmethod
    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each, either accurate where it is small."""

    @abstractmethod
    def spread(self, theta: Array) -> float:
        """Return about one standard deviation of X, for one θ."""

    @property
    def positive(self) -> bool:
        """Whether all values are positive: their cut points are then sought in logarithms."""
        return False

    @property
    def standard(self) -> tuple[float, ...] | None:
        """The θ at which designs are solved once for all θ; None where there is no such θ."""
        return None

    def cdf(self, theta: Array, cuts: Array) -> Array:
        """Return P(X ≤ c) alone, N × k."""
        return self.tails(theta, cuts)[0]

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points that are right at `standard` to where they are right at `theta`."""
        return cuts

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a public grid, so that nearby θ ask the same question.

        A step is a power of two, and a quarter to an eighth of the spread: rounding to it costs
        half a hundredth of the information at most.
        """
        step = 2.0 ** math.floor(math.log2(self.spread(theta) / _GRID))
        return np.asarray(np.rint(cuts / step) * step)

    def coarse(self, theta: Array) -> Array:
        """Return a θ nearby out of few: to half a quarter octave, or an eighth of the spread."""
        octaves = np.rint(4 * np.log2(np.abs(theta) + 1e-300)) / 4
        step = 2.0 ** math.floor(math.log2(self.spread(theta))) / 4
        positive = [prior.positive for prior in self.priors]
        return np.where(positive, np.exp2(octaves), np.rint(theta / step) * step)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivatives of the cell probabilities at one θ: d rows, k + 1 columns."""
        d = len(theta)
        spread = self.spread(theta)
        steps = [
            _STEP * (float(value) if prior.positive else spread)
            for value, prior in zip(theta, self.priors, strict=True)
        ]
        multiples, weights = np.array(_STENCIL).T
        shifts = np.multiply.outer(multiples, np.diag(steps))  # stencil × d × d
        both = np.concatenate([theta + shifts, theta - shifts]).reshape(-1, d)
        above, below = self.cells(both, cuts).reshape(2, len(multiples), d, len(cuts) + 1)
        slopes = np.tensordot(weights, above - below, axes=1)
        return np.asarray(slopes / np.array(steps)[:, None])

    def cells(self, theta: Array, cuts: Array) -> Array:
        """Return the probability of each of the k + 1 cells: an N × (k + 1) array, never NaN.

        The error is 1e-16 of a cell's nearer tail, so cells far out keep their digits on both
        sides. A θ that the family refuses has probability 0 in every cell.

        Examples
        --------
        >>> print(Normal().cells(np.array([[0.0, 1.0]]), np.array([-30.0, 0.0, 30.0])))
        [[4.90671393e-198 5.00000000e-001 5.00000000e-001 4.90671393e-198]]
        """
        return cells_between(*self.tails(theta, cuts))

    def natural(self, z: Array) -> Array:
        """Return θ from unconstrained coordinates.

        Examples
        --------
        >>> Normal().natural(np.array([[3.0, 0.0]]))
        array([[3., 1.]])
        """
        theta = np.array(z, dtype=np.float64)
        for i, prior in enumerate(self.priors):
            if prior.positive:
                theta[..., i] = np.exp(np.clip(theta[..., i], -_LOG_LIMIT, _LOG_LIMIT))
        return theta

    def unconstrained(self, theta: ArrayLike) -> Array:
        """Return coordinates on the whole line, the inverse of `natural`."""
        z = np.array(theta, dtype=np.float64)
        for i, prior in enumerate(self.priors):
            if prior.positive:
                z[..., i] = np.log(z[..., i])
        return z

    def log_jacobian(self, z: Array) -> Array:
        """Return log |dθ/dz| for each row: the sum of the logarithmic coordinates."""
        positive = [i for i, prior in enumerate(self.priors) if prior.positive]
        return np.asarray(z[..., positive].sum(axis=-1))

    def log_prior(self, z: Array) -> Array:
        """Return the log prior density of unconstrained coordinates, −∞ where not finite.

        Also −∞ where a logarithm is beyond the limit that `natural` clips to: clipped parameters
        with a Jacobian that goes on growing would make the density grow for ever.
        """
        theta = self.natural(z)
        with np.errstate(all="ignore"):
            total = self.log_jacobian(z)
            for i, prior in enumerate(self.priors):
                total = total + prior.log_density(theta[..., i])
        logarithms = z[..., [prior.positive for prior in self.priors]]
        inside = np.isfinite(z).all(axis=-1) & (np.abs(logarithms) <= _LOG_LIMIT).all(axis=-1)
        return np.where(inside & ~np.isnan(total), total, -np.inf)

    def sample_prior(self, size: int, rng: np.random.Generator) -> Array:
        """Return `size` draws of θ."""
        return np.stack([prior.sample(size, rng) for prior in self.priors], axis=1)

    def guesses(self, cuts: Array) -> Array:
        """Return rows of θ that may put people near the cut points: the prior's, unless better."""
        return self.sample_prior(1000, np.random.default_rng(0))

    def middle(self) -> Array:
        """Return a θ in the middle of the prior: each parameter's median, by a fixed sample."""
        return np.asarray(np.median(self.sample_prior(10_001, np.random.default_rng(0)), axis=0))

    def check(self, theta: Sequence[float] | Array) -> Array:
        """Return one θ as an array, or raise naming the parameter that is out of range."""
        point = np.asarray(theta, dtype=np.float64).reshape(-1)
        if len(point) != len(self.parameters):
            names = ", ".join(self.parameters)
            raise InvalidArgument(f"theta must be ({names}), not {len(point)} numbers")
        for name, prior, value in zip(self.parameters, self.priors, point, strict=True):
            if prior.positive:
                _above_zero(name, float(value))
            else:
                real(name, float(value), "of any size", lambda _: True)
        return point

    def to_dict(self) -> dict[str, Any]:
        """Return the family, its settings and priors, JSON-ready."""
        priors = {
            name: {"prior": type(prior).__name__, **asdict(prior)}  # type: ignore[call-overload]
            for name, prior in zip(self.parameters, self.priors, strict=True)
        }
        return {"family": type(self).__name__, **self._settings(), "priors": priors}

    def _settings(self) -> dict[str, Any]:
        return {}


def cells_between(cdf: Array, sf: Array) -> Array:
    """Return cell probabilities from both tails at the cut points, along the last axis.

    A cell that starts above the median is a difference of upper tails, the others of lower ones.
    """
    shape = (*cdf.shape[:-1], 1)
    zeros, ones = np.zeros(shape), np.ones(shape)
    low = np.concatenate([zeros, cdf], axis=-1)
    high = np.concatenate([cdf, ones], axis=-1)
    above = np.concatenate([ones, sf], axis=-1)
    beyond = np.concatenate([sf, zeros], axis=-1)
    cells = np.maximum(np.where(low > 0.5, above - beyond, high - low), 0.0)
    refused = np.isnan(cells).any(axis=-1, keepdims=True)
    return np.where(refused, 0.0, cells)


class _LocationScale(Population):
    """X = location + scale·Z with Z standard, and symmetric: P(Z > z) = P(Z ≤ −z)."""

    __slots__ = ()

    @abstractmethod
    def _cdf(self, z: Array) -> Array: ...

    @abstractmethod
    def _density(self, z: Array) -> Array: ...

    def _line(self, cuts: Array) -> Array:
        """Return cut points on the line where the family is one of location and scale."""
        return cuts

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = self._standardised(theta, cuts)
            return self._cdf(z), self._cdf(-z)

    def cdf(self, theta: Array, cuts: Array) -> Array:
        """Return P(X ≤ c) alone, N × k."""
        with np.errstate(all="ignore"):
            return self._cdf(self._standardised(theta, cuts))

    def _standardised(self, theta: Array, cuts: Array) -> Array:
        # An overflow is a cut point at infinity, which is right.
        return np.asarray((self._line(cuts)[None, :] - theta[:, :1]) / theta[:, 1:])

    def spread(self, theta: Array) -> float:
        """Return the scale."""
        return float(theta[1])

    @property
    def standard(self) -> tuple[float, ...] | None:
        """Location 0 and scale 1."""
        return (0.0, 1.0)

    def guesses(self, cuts: Array) -> Array:
        """Return locations at cut points, with scales from far below their range to above it."""
        line = self._line(cuts)
        line = line[np.isfinite(line)]
        if not len(line):
            return np.zeros((0, 2))
        places = line[np.unique(np.linspace(0, len(line) - 1, 60).astype(int))]
        extent = float(np.ptp(line)) or 1.0
        scales = extent * 2.0 ** np.arange(-8, 4)
        return np.stack([g.ravel() for g in np.meshgrid(places, scales)], axis=1)

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points from the standard distribution to θ's."""
        return np.asarray(theta[0] + theta[1] * cuts)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivatives of the cell probabilities: −f/σ and −z·f/σ at each end."""
        with np.errstate(all="ignore"):
            z = (self._line(cuts) - theta[0]) / theta[1]
            density = self._density(z) / theta[1]
            ends = np.stack([-density, np.where(density > 0, -z * density, 0.0)])
        return np.diff(ends, axis=1, prepend=0.0, append=0.0)


@dataclass(frozen=True, slots=True)
class Normal(_LocationScale):
    """N(mu, sigma²), with the paper's priors: mu ~ N(0, 10⁴), sigma² ~ IG(1, 1).

    Examples
    --------
    >>> Normal().cells(np.array([[50.0, 3.0]]), np.array([47.0, 53.0])).round(4)
    array([[0.1587, 0.6827, 0.1587]])
    """

    mu: Prior = NormalPrior()
    sigma: Prior = RootInverseGammaPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("sigma", self.sigma)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Mean and standard deviation."""
        return ("mu", "sigma")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.mu, self.sigma)

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.ndtr(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


@dataclass(frozen=True, slots=True)
class StudentT(_LocationScale):
    """Student's t with known degrees of freedom, moved and scaled.

    Examples
    --------
    >>> StudentT(1).cells(np.array([[0.0, 1.0]]), np.array([0.0, 1.0]))
    array([[0.5 , 0.25, 0.25]])
    """

    df: float
    location: Prior = NormalPrior()
    scale: Prior = RootInverseGammaPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _keep(self, df=_above_zero("df", self.df))
        _needs_positive("scale", self.scale)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Location and scale."""
        return ("location", "scale")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.location, self.scale)

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.stdtr(self.df, z))

    def _density(self, z: Array) -> Array:
        return np.asarray(stats.t.pdf(z, self.df))

    def _settings(self) -> dict[str, Any]:
        return {"df": self.df}


@dataclass(frozen=True, slots=True)
class Logistic(_LocationScale):
    """The logistic distribution."""

    location: Prior = NormalPrior()
    scale: Prior = RootInverseGammaPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("scale", self.scale)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Location and scale."""
        return ("location", "scale")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.location, self.scale)

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.expit(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(special.expit(z) * special.expit(-z))


@dataclass(frozen=True, slots=True)
class Laplace(_LocationScale):
    """The Laplace distribution; its scale is the mean distance from the location."""

    location: Prior = NormalPrior()
    scale: Prior = RootInverseGammaPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("scale", self.scale)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Location and scale."""
        return ("location", "scale")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.location, self.scale)

    def _cdf(self, z: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z > 0, 1 - tail, tail))

    def _density(self, z: Array) -> Array:
        return np.asarray(0.5 * np.exp(-np.abs(z)))


@dataclass(frozen=True, slots=True)
class LogNormal(_LocationScale):
    """Positive values whose logarithm is N(mu, sigma²)."""

    mu: Prior = NormalPrior(0.0, 10.0)
    sigma: Prior = RootInverseGammaPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("sigma", self.sigma)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Mean and standard deviation of the logarithm."""
        return ("mu", "sigma")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.mu, self.sigma)

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def _cdf(self, z: Array) -> Array:
        return np.asarray(special.ndtr(z))

    def _density(self, z: Array) -> Array:
        return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))

    def _line(self, cuts: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(cuts, 0.0)))

    def place(self, theta: Array, cuts: Array) -> Array:
        """Move cut points from the standard log-normal to θ's: exponentials of a line."""
        line = theta[0] + theta[1] * self._line(cuts)
        return np.asarray(np.exp(np.clip(line, -_LOG_LIMIT, _LOG_LIMIT)))

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return _snap_logarithm(cuts, float(theta[1]))


@dataclass(frozen=True, slots=True)
class Exponential(Population):
    """Positive values with mean `scale`.

    Examples
    --------
    >>> Exponential().cells(np.array([[2.0]]), np.array([-1.0, 2 * np.log(2)])).round(3)
    array([[0. , 0.5, 0.5]])
    """

    scale: Prior = LogNormalPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("scale", self.scale)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The mean."""
        return ("scale",)

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Its prior."""
        return (self.scale,)

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = np.maximum(cuts, 0.0)[None, :] / theta
            return -np.expm1(-z), np.exp(-z)

    def spread(self, theta: Array) -> float:
        """Return the scale."""
        return float(theta[0])

    @property
    def standard(self) -> tuple[float, ...] | None:
        """Scale 1."""
        return (1.0,)

    def place(self, theta: Array, cuts: Array) -> Array:
        """Scale cut points."""
        return np.asarray(theta[0] * cuts)

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return _snap_logarithm(cuts, 1.0)

    def gradient(self, theta: Array, cuts: Array) -> Array:
        """Return the derivative of the cell probabilities: −z·e^−z/σ at each end."""
        z = np.maximum(cuts, 0.0) / theta[0]
        return np.diff((-z * np.exp(-z) / theta[0])[None, :], axis=1, prepend=0.0, append=0.0)


@dataclass(frozen=True, slots=True)
class Gamma(Population):
    """Positive values with density proportional to x^(shape−1)·e^(−x/scale)."""

    shape: Prior = LogNormalPrior(0.0, 1.5)
    scale: Prior = LogNormalPrior()

    def __post_init__(self) -> None:
        """Check the settings."""
        _needs_positive("shape", self.shape)
        _needs_positive("scale", self.scale)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Shape and scale."""
        return ("shape", "scale")

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return (self.shape, self.scale)

    @property
    def positive(self) -> bool:
        """True."""
        return True

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        with np.errstate(all="ignore"):
            z = np.maximum(cuts, 0.0)[None, :] / theta[:, 1:]
            shape = theta[:, :1]
            return special.gammainc(shape, z), special.gammaincc(shape, z)

    def spread(self, theta: Array) -> float:
        """Return the standard deviation."""
        return float(math.sqrt(theta[0]) * theta[1])

    def snap(self, theta: Array, cuts: Array) -> Array:
        """Move cut points to a grid that is even in their logarithms."""
        return _snap_logarithm(cuts, 1 / math.sqrt(float(theta[0])))


@dataclass(frozen=True, slots=True)
class ScipyFamily(Population):
    """Any continuous distribution of SciPy: some parameters unknown, the others held.

    Parameters
    ----------
    name
        The distribution's name in `scipy.stats`.
    unknown
        From a parameter's name (a shape, `loc` or `scale`) to its prior.
    held
        From a parameter's name to its known value; `loc` is 0 and `scale` 1 unless told.

    Examples
    --------
    >>> weibull = ScipyFamily("weibull_min", {"c": LogNormalPrior(), "scale": LogNormalPrior()})
    >>> weibull.parameters
    ('c', 'scale')
    >>> weibull.cells(np.array([[1.0, 2.0], [-1.0, 2.0]]), np.array([2.0])).round(3)
    array([[0.632, 0.368],
           [0.   , 0.   ]])
    """

    name: str
    unknown: Mapping[str, Prior] = field(hash=False)
    held: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the settings."""
        family = getattr(stats, self.name, None) if isinstance(self.name, str) else None
        if not isinstance(family, stats.rv_continuous):
            raise InvalidArgument(f"name must be a continuous family of scipy.stats: {self.name!r}")
        shapes = {s.strip() for s in family.shapes.split(",")} if family.shapes else set()
        given = [*self.unknown, *self.held]
        if len(set(given)) < len(given) or not shapes <= set(given) <= shapes | {"loc", "scale"}:
            allowed = ", ".join([*sorted(shapes), "loc", "scale"])
            raise InvalidArgument(
                f"unknown and held must name each of {allowed} once (loc and scale may be left "
                f"out), not {', '.join(map(repr, given))}"
            )
        if not self.unknown:
            raise InvalidArgument("unknown must name at least one parameter")
        held = {k: real(k, v, "of any size", lambda _: True) for k, v in self.held.items()}
        _keep(self, unknown=dict(self.unknown), held=held)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The unknown ones, in the order given."""
        return tuple(self.unknown)

    @property
    def priors(self) -> tuple[Prior, ...]:
        """One prior for each parameter."""
        return tuple(self.unknown.values())

    def tails(self, theta: Array, cuts: Array) -> tuple[Array, Array]:
        """Return P(X ≤ c) and P(X > c), N × k each."""
        family, arguments = self._at(theta)
        with np.errstate(all="ignore"):
            below, above = family.cdf(cuts, **arguments), family.sf(cuts, **arguments)
        return np.asarray(below, dtype=np.float64), np.asarray(above, dtype=np.float64)

    def spread(self, theta: Array) -> float:
        """Return the distance between quartiles, on the scale of a normal's deviation."""
        family, arguments = self._at(theta[None, :])
        with np.errstate(all="ignore"):
            low, high = (float(family.ppf(q, **arguments)[0, 0]) for q in (0.25, 0.75))
        width = (high - low) / 1.349
        return width if math.isfinite(width) and width > 0 else 1.0

    def _at(self, theta: Array) -> tuple[Any, dict[str, Any]]:
        columns = {name: theta[:, i : i + 1] for i, name in enumerate(self.unknown)}
        return getattr(stats, self.name), {**columns, **self.held}

    def _settings(self) -> dict[str, Any]:
        return {"name": self.name, "held": dict(self.held)}


FAMILIES: dict[str, type[Population]] = {
    family.__name__: family
    for family in (
        Normal,
        StudentT,
        Logistic,
        Laplace,
        LogNormal,
        Exponential,
        Gamma,
        ScipyFamily,
    )
}


def population_from_dict(fields: Mapping[str, Any]) -> Population:
    """Return the population that `to_dict` wrote; it takes its family's name from a list.

    Examples
    --------
    >>> population_from_dict(StudentT(4).to_dict()) == StudentT(4)
    True
    """
    try:
        settings = {k: v for k, v in fields.items() if k not in ("family", "priors")}
        priors = {}
        for name, prior in fields["priors"].items():
            values = {k: v for k, v in prior.items() if k != "prior"}
            priors[name] = PRIORS[prior["prior"]](**values)
        family = FAMILIES[fields["family"]]
        if family is ScipyFamily:
            return ScipyFamily(unknown=priors, **settings)
        return family(**settings, **priors)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"fields must be what to_dict of a population wrote: {error}"
        ) from None


def as_population(value: Any) -> Population:
    """Return `value` if it is a population, or raise."""
    if not isinstance(value, Population):
        raise InvalidType(f"population must be one such as Normal(), not {type(value).__name__}")
    return value


def _snap_logarithm(cuts: Array, relative: float) -> Array:
    step = 2.0 ** math.floor(math.log2(relative / _GRID))
    with np.errstate(divide="ignore"):
        lines = np.rint(np.log2(np.maximum(cuts, 0.0)) / step) * step
    return np.exp2(lines)
