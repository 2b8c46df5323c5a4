"""What the door needs of a method: a public plan with its cost, then one release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confidp.central.statistics.statistic import Records, Statistic
from confidp.privacy.guarantees import GDP
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, all of it public."""

    n: int
    mu: float
    confidence_level: float
    n_resamples: int


@dataclass(frozen=True, slots=True)
class Ball:
    """What a method releases: a center and a radius, in the units of the data."""

    center: tuple[float, ...]
    radius: float


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
        """What the stated coverage rests on, for people."""

    @property
    def public(self) -> Mapping[str, Any]:
        """The settings and noise scales, JSON-ready."""

    def release(self, records: Records, randomness: Randomness) -> Ball:
        """Compute, add noise, and return what may be published. This spends `cost`."""


class Method(Protocol):
    """A way to make a private confidence region."""

    def plan(self, statistic: Statistic, request: Request) -> Plan:
        """Choose every public setting, or raise if the request can't be met."""
