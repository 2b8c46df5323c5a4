"""What the door needs of a method: a public plan with its cost, then one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidType
from confidp.privacy.guarantees import GDP
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, all of it public.

    `delta` is for methods that need one beside the noise lattice's; the others spend none of it.
    `alternative` is "two-sided", "greater" (a lower bound) or "less" (an upper bound).
    """

    n: int
    mu: float
    confidence_level: float
    n_resamples: int
    delta: float = 0.0
    alternative: str = "two-sided"


@dataclass(frozen=True, slots=True)
class Released:
    """What a method releases, in the units of the data: a ball, a box or an ellipsoid.

    A ball of `radius` around `center`, unless `box` or `ellipsoid` is given (`ConfidenceRegion`);
    `box_around` and `ellipsoid_around` make those. `public` holds what else came out and is public,
    such as a noise scale that was itself released.
    """

    center: tuple[float, ...]
    radius: float
    public: Mapping[str, Any] = field(default_factory=dict)
    box: tuple[tuple[float, float], ...] | None = None
    ellipsoid: tuple[tuple[float, ...], ...] | None = None


def bottom(dimension: int) -> Released:
    """Return ⊥: nothing was learnt, so the region is everything."""
    return Released((math.nan,) * dimension, math.inf)


def box_around(
    center: Sequence[float],
    box: Sequence[tuple[float, float]],
    public: Mapping[str, Any] | None = None,
) -> Released:
    """Return a box, whose radius is half its widest side."""
    sides = tuple((float(low), float(high)) for low, high in box)
    radius = max(high / 2 - low / 2 for low, high in sides)
    return Released(tuple(map(float, center)), radius, public or {}, box=sides)


def bound_beside(
    center: float,
    side: tuple[float, float],
    alternative: str,
    public: Mapping[str, Any] | None = None,
) -> Released:
    """Return a one-sided interval, whose radius is the center's distance from its own end."""
    radius = abs(center - side[alternative == "less"])
    return Released((center,), radius, public or {}, box=(side,))


def ellipsoid_around(
    center: Sequence[float], matrix: NDArray[np.float64], public: Mapping[str, Any] | None = None
) -> Released:
    """Return {θ: (θ − c)ᵀ A⁻¹ (θ − c) < 1} for a positive definite A: longest semi-axis √λ_max."""
    radius = math.sqrt(float(np.linalg.eigvalsh(matrix)[-1]))
    rows = tuple(tuple(map(float, row)) for row in matrix)
    return Released(tuple(map(float, center)), radius, public or {}, ellipsoid=rows)


def unsuitable(method: str, need: str, statistic: Statistic) -> InvalidType:
    """Return the error for a statistic that lacks what a method needs."""
    return InvalidType(
        f"method must suit the statistic: {method} needs {need}, "
        f"and {statistic.describe()['statistic']} has none"
    )


class Plan(Protocol):
    """A method fitted to a request: everything that can be known before the data are touched."""

    @property
    def cost(self) -> GDP:
        """What `release` will cost: charged before it is called."""

    @property
    def name(self) -> str:
        """The method and its variant, for people."""

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on besides the statistic, for people."""

    @property
    def public(self) -> Mapping[str, Any]:
        """The settings and noise scales, JSON-ready."""

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Compute, add noise, and return what may be published. This spends `cost`."""


class Method(Protocol):
    """A way to make a private confidence region.

    One that can make one-sided intervals says so with an attribute `one_sided`, True.
    """

    @property
    def uses_delta(self) -> bool:
        """Whether it needs a δ in its request."""

    def plan(self, statistic: Statistic, request: Request) -> Plan:
        """Choose every public setting, or raise if the request can't be met."""
