"""Any continuous distribution of SciPy as a family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from confidp.errors import InvalidArgument, InvalidType, real, shown
from confidp.local.family import Population
from confidp.local.priors import Prior, check_prior, keep

Array = NDArray[np.float64]


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
    >>> from confidp.local.priors import LogNormalPrior
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
            raise InvalidArgument(
                f"name must be a continuous family of scipy.stats, not {shown(self.name)}"
            )
        for role in ("unknown", "held"):
            if not isinstance(getattr(self, role), Mapping):
                raise InvalidType(f"{role} must be a dict from parameters' names")
        shapes = {s.strip() for s in family.shapes.split(",")} if family.shapes else set()
        given = [*self.unknown, *self.held]
        if not all(isinstance(name, str) for name in given):
            raise InvalidType("unknown and held must be dicts from parameters' names")
        if len(set(given)) < len(given) or not shapes <= set(given) <= shapes | {"loc", "scale"}:
            allowed = ", ".join([*sorted(shapes), "loc", "scale"])
            raise InvalidArgument(
                f"unknown and held must name each of {allowed} once (loc and scale may be left "
                f"out), not {shown(given)}"
            )
        if not self.unknown:
            raise InvalidArgument("unknown must name at least one parameter")
        for name, prior in self.unknown.items():
            check_prior(name, prior)
        held = {k: real(k, v, "of any size", lambda _: True) for k, v in self.held.items()}
        keep(self, unknown=dict(self.unknown), held=held)

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
