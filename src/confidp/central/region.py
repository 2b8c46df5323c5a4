"""The public result: a private confidence region. It holds no private value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP


@dataclass(frozen=True, slots=True)
class ConfidenceRegion:
    """A ball that covers the population's parameter with about `confidence_level`.

    Attributes
    ----------
    center
        The private estimate, one number for each coordinate.
    radius
        In the units of the data; an interval's half-width. Infinite where the method returned ⊥.
    confidence_level
        The nominal coverage.
    spent
        What the release cost, the noise lattice's δ included.
    private
        False for a seeded run, whose noise anyone with the seed can take off.
    method
        The name of the method and of its variant.
    statistic
        The statistic's name and settings.
    assumes
        What the stated coverage rests on, for people.
    public
        n, m, B, κ, the noise scales, and why this method.
    """

    center: tuple[float, ...]
    radius: float
    confidence_level: float
    spent: GDP
    private: bool
    method: str
    statistic: Mapping[str, Any]
    assumes: tuple[str, ...]
    public: Mapping[str, Any]

    @property
    def dimension(self) -> int:
        """How many coordinates the parameter has."""
        return len(self.center)

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high), in one dimension."""
        if self.dimension != 1:
            raise InvalidArgument(
                f"interval is for one dimension, this region has {self.dimension}: use intervals"
            )
        return self.intervals[0]

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """(low, high) of the smallest box around the region, for each coordinate."""
        if math.isinf(self.radius):
            return ((-math.inf, math.inf),) * self.dimension
        return tuple((c - self.radius, c + self.radius) for c in self.center)

    @property
    def decimals(self) -> int:
        """How many decimals show the radius to three significant digits: more is noise."""
        if not 0 < self.radius < math.inf:
            return 6
        return max(0, 2 - math.floor(math.log10(self.radius)))

    @property
    def caution(self) -> str | None:
        """A word where the privacy noise makes the stated level doubtful, from public numbers.

        A Gaussian error in an interval's end of a fifth of its half-width costs about 0.02 of
        coverage at level 0.9 (the second-order term, r²z³φ(z) with r = 1/5), and more beyond.
        """
        if self.public.get("counts_noise"):
            return None
        noises = [self.public.get(key) or 0.0 for key in ("center_noise", "radius_noise")]
        if max(noises) <= self.radius / 5:
            return None
        return (
            "the privacy noise is not small beside this interval's width, which this method "
            "doesn't count: it covers less often than it says. A larger budget or more rows help."
        )

    def __str__(self) -> str:
        """Return the answer for people.

        Examples
        --------
        >>> print(ConfidenceRegion((2.5,), 0.5, 0.95, GDP(1.0), True, "CR-GS", {}, (), {}))
        2.500 (95% interval: 2.000 to 3.000)
        """
        level = f"{100 * self.confidence_level:.6g}%"
        if math.isinf(self.radius):
            answer = "no result (⊥)"
        elif self.dimension == 1:
            (low, high), digits = self.interval, self.decimals
            answer = (
                f"{self.center[0]:,.{digits}f} ({level} interval: {low:,.{digits}f} to "
                f"{high:,.{digits}f})"
            )
        else:
            center = ", ".join(f"{c:,.{self.decimals}f}" for c in self.center)
            answer = f"({center}) ({level} region: radius {self.radius:,.{self.decimals}f})"
        return answer if self.private else f"NOT PRIVATE: {answer}"

    def contains(self, theta: ArrayLike) -> bool:
        """Whether `theta` lies inside: ‖theta − center‖₂ < radius."""
        point = np.asarray(theta, dtype=np.float64).reshape(-1)
        if point.size != self.dimension:
            raise InvalidArgument(f"theta must have {self.dimension} coordinates, not {point.size}")
        if math.isinf(self.radius):
            return True
        return math.dist(point.tolist(), self.center) < self.radius

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready: numbers that aren't finite become None.

        Examples
        --------
        >>> region = ConfidenceRegion((2.5,), 0.5, 0.95, GDP(1.0, 1e-25), True, "CR-GS",
        ...                           {"statistic": "mean"}, (), {"n": 100})
        >>> region.to_dict()["intervals"]
        [[2.0, 3.0]]
        >>> ConfidenceRegion.from_dict(region.to_dict()) == region
        True
        """
        return {
            "center": [_finite(c) for c in self.center],
            "radius": _finite(self.radius),
            "intervals": [[_finite(low), _finite(high)] for low, high in self.intervals],
            "confidence_level": self.confidence_level,
            "spent": {"mu": self.spent.mu, "delta": self.spent.delta},
            "private": self.private,
            "method": self.method,
            "statistic": dict(self.statistic),
            "assumes": list(self.assumes),
            "public": {
                key: _finite(value) if isinstance(value, float) else value
                for key, value in self.public.items()
            },
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ConfidenceRegion:
        """Return the region that `to_dict` wrote, such as one kept in a ledger."""
        try:
            return cls(
                center=tuple(math.nan if c is None else float(c) for c in fields["center"]),
                radius=math.inf if fields["radius"] is None else float(fields["radius"]),
                confidence_level=float(fields["confidence_level"]),
                spent=GDP(**fields["spent"]),
                private=bool(fields["private"]),
                method=str(fields["method"]),
                statistic=dict(fields["statistic"]),
                assumes=tuple(fields["assumes"]),
                public=dict(fields["public"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise InvalidArgument("fields must be what ConfidenceRegion.to_dict returns") from None


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
