"""What the door needs of a method: a public plan with its cost, then one release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidType
from confidp.privacy.guarantees import GDP
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, all of it public.

    `delta` is for methods that need one beside the noise lattice's; the others spend none of it.
    """

    n: int
    mu: float
    confidence_level: float
    n_resamples: int
    delta: float = 0.0


@dataclass(frozen=True, slots=True)
class Ball:
    """What a method releases: a center and a radius, in the units of the data.

    `public` holds what else came out and is public, such as a noise scale that was itself released.
    """

    center: tuple[float, ...]
    radius: float
    public: Mapping[str, Any] = field(default_factory=dict)


def bottom(dimension: int) -> Ball:
    """Return ⊥: nothing was learnt, so the region is everything."""
    return Ball((math.nan,) * dimension, math.inf)


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

    def release(self, records: Records, randomness: Randomness) -> Ball:
        """Compute, add noise, and return what may be published. This spends `cost`."""


class Method(Protocol):
    """A way to make a private confidence region."""

    @property
    def uses_delta(self) -> bool:
        """Whether it needs a δ in its request."""

    def plan(self, statistic: Statistic, request: Request) -> Plan:
        """Choose every public setting, or raise if the request can't be met."""
