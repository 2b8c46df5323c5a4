"""Priors: a distribution for each parameter, and whether the parameter is positive.

A positive parameter moves in its logarithm, so a prior says which kind it is for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, real, shown

Array = NDArray[np.float64]

LOG_LIMIT = 300.0  # a positive parameter stays in e^±300, whose ratios and squares are finite
_FARTHEST = math.exp(LOG_LIMIT)


def above_zero(name: str, value: float) -> float:
    """Return a number above 0, or raise."""
    return real(name, value, "above 0", lambda x: x > 0)


def keep(value: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass, once they have been checked."""
    for name, kept in fields.items():
        object.__setattr__(value, name, kept)


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
        keep(self, mean=real("mean", self.mean, "of any size", lambda _: True))
        keep(self, sd=above_zero("sd", self.sd))

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
        """Return independent draws, moved to ±e^300 where they are beyond."""
        return np.clip(rng.normal(self.mean, self.sd, size), -_FARTHEST, _FARTHEST)


@dataclass(frozen=True, slots=True)
class LogNormalPrior:
    """A positive parameter whose logarithm is N(mean, sd²)."""

    mean: float = 0.0
    sd: float = 3.0
    positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        keep(self, mean=real("mean", self.mean, "of any size", lambda _: True))
        keep(self, sd=above_zero("sd", self.sd))

    def log_density(self, x: Array) -> Array:
        """Return the log density, of the parameter and not of its logarithm."""
        log_x = np.log(x)
        return np.asarray(NormalPrior(self.mean, self.sd).log_density(log_x) - log_x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws, moved to e^±300 where they are beyond."""
        return np.exp(np.clip(rng.normal(self.mean, self.sd, size), -LOG_LIMIT, LOG_LIMIT))


@dataclass(frozen=True, slots=True)
class RootInverseGammaPrior:
    """A scale σ whose square is inverse gamma: σ² ~ IG(shape, scale), as in the paper."""

    shape: float = 1.0
    scale: float = 1.0
    positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        allowed = "above 0 and at most 1e300"
        keep(self, shape=real("shape", self.shape, allowed, lambda x: 0 < x <= 1e300))
        keep(self, scale=above_zero("scale", self.scale))

    def log_density(self, x: Array) -> Array:
        """Return the log density of σ: that of σ² times the Jacobian 2σ."""
        constant = math.log(2) + self.shape * math.log(self.scale) - math.lgamma(self.shape)
        return np.asarray(constant - (2 * self.shape + 1) * np.log(x) - self.scale / x / x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws, moved to e^±300 where they are beyond."""
        with np.errstate(all="ignore"):
            draws = np.sqrt(self.scale / rng.gamma(self.shape, 1.0, size))
        return np.clip(draws, 1 / _FARTHEST, _FARTHEST)


# What the families assume unless told. The first two are the paper's.
ANYWHERE = NormalPrior()
PAPERS_SCALE = RootInverseGammaPrior()
ANY_SIZE = LogNormalPrior()

PRIORS: dict[str, type[Any]] = {
    prior.__name__: prior for prior in (NormalPrior, LogNormalPrior, RootInverseGammaPrior)
}


def check_prior(name: str, prior: Any, positive: bool = False) -> None:
    """Raise where it isn't a prior, or is one on the whole line for a positive parameter.

    Examples
    --------
    >>> check_prior("sigma", NormalPrior(), positive=True)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: sigma must have a prior on positive numbers, not NormalPrior...
    """
    try:
        hash(prior)  # what is solved for a family is kept by its priors
        draws = callable(prior.log_density) and callable(prior.sample)
        is_prior = draws and isinstance(prior.positive, bool) and not isinstance(prior, type)
    except Exception:  # whatever its type raises
        is_prior = False
    if not is_prior:
        kind = type(prior).__name__
        raise InvalidType(f"{name} must be a prior such as NormalPrior(), not {kind}")
    if positive and not prior.positive:
        raise InvalidArgument(f"{name} must have a prior on positive numbers, not {shown(prior)}")
