"""Priors: a distribution for each parameter, and whether the parameter is positive.

A positive parameter moves in its logarithm, so a prior says which kind it is for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, real

Array = NDArray[np.float64]


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
        keep(self, mean=real("mean", self.mean, "of any size", lambda _: True))
        keep(self, sd=above_zero("sd", self.sd))

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
        keep(self, shape=above_zero("shape", self.shape))
        keep(self, scale=above_zero("scale", self.scale))

    def log_density(self, x: Array) -> Array:
        """Return the log density of σ: that of σ² times the Jacobian 2σ."""
        constant = math.log(2) + self.shape * math.log(self.scale) - math.lgamma(self.shape)
        return np.asarray(constant - (2 * self.shape + 1) * np.log(x) - self.scale / x / x)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return independent draws."""
        return np.sqrt(self.scale / rng.gamma(self.shape, 1.0, size))


# What the families assume unless told. The first two are the paper's.
ANYWHERE = NormalPrior()
PAPERS_SCALE = RootInverseGammaPrior()
ANY_SIZE = LogNormalPrior()

PRIORS: dict[str, type[Any]] = {
    prior.__name__: prior for prior in (NormalPrior, LogNormalPrior, RootInverseGammaPrior)
}


def needs_positive(name: str, prior: Prior) -> None:
    """Raise where a positive parameter has a prior on the whole line."""
    if not prior.positive:
        raise InvalidArgument(f"{name} must have a prior on positive numbers, not {prior}")
