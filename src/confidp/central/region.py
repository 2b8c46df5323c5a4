"""The public result: a private confidence region. It holds no private value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confidp.errors import InvalidArgument, choice, level, real
from confidp.privacy.guarantees import GDP, numbers

ALTERNATIVES = ("two-sided", "less", "greater")


@dataclass(frozen=True, slots=True)
class ConfidenceRegion:
    """A region that covers the population's parameter with about `confidence_level`.

    A ball around `center`, unless `box` or `ellipsoid` says otherwise.

    Attributes
    ----------
    center
        The private estimate, one number for each coordinate.
    radius
        In the units of the data; an interval's half-width, a one-sided bound's distance from the
        center, half a box's widest side, an ellipsoid's longest semi-axis. Infinite where the
        method returned ⊥.
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
    alternative
        "two-sided"; "greater" for a lower bound and "less" for an upper bound, whose other end is
        the parameter's own public bound.
    box
        (low, high) of each coordinate, where the region is a box: all coordinates at once.
    ellipsoid
        A positive definite matrix A of shape (d, d), where the region is
        {θ: (θ − center)ᵀ A⁻¹ (θ − center) < 1}.
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
    alternative: str = "two-sided"
    box: tuple[tuple[float, float], ...] | None = None
    ellipsoid: tuple[tuple[float, ...], ...] | None = None

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
        if self.box is not None:
            return self.box
        if math.isinf(self.radius):
            return ((-math.inf, math.inf),) * self.dimension
        reach = [self.radius] * self.dimension
        if self.ellipsoid is not None:
            reach = [math.sqrt(row[j]) for j, row in enumerate(self.ellipsoid)]
        return tuple((c - r, c + r) for c, r in zip(self.center, reach, strict=True))

    @property
    def decimals(self) -> int:
        """How many decimals show the radius to three significant digits: more is noise."""
        if not 0 < self.radius < math.inf:
            return 6
        return max(0, 2 - math.floor(math.log10(self.radius)))

    @property
    def caution(self) -> str | None:
        """A word where the privacy noise makes the region wide or its level doubtful, or None.

        A Gaussian error in an interval's end of a fifth of its half-width costs about 0.02 of
        coverage at level 0.9 (the second-order term, r²z³φ(z) with r = 1/5), and more beyond.
        """
        if self.public.get("newton_step") is False:
            return (
                "the budget is too small for a Newton step at this number of rows: the region is "
                "around a first estimate, and wide. A larger budget, more rows or a larger "
                "regularization help."
            )
        if self.public.get("counts_noise"):
            share = self.noise_share
            if share is None or not share > 1 / 2:
                return None
            return (
                f"privacy noise makes {share:.0%} of this interval's squared width, which it "
                "counts: a larger budget or more rows narrow it"
            )
        noises = [self.public.get(key) or 0.0 for key in ("center_noise", "radius_noise")]
        if max(noises) <= self.radius / 5:
            return None
        return (
            "the privacy noise is not small beside this interval's width, which this method "
            "doesn't count: it covers less often than it says. A larger budget or more rows help."
        )

    @property
    def noise_share(self) -> float | None:
        """About what share of a squared width is due to privacy noise; None where not known.

        Known of a two-sided interval around a noisy estimate, and of a quantile's from noisy
        counts: there it is that of the variance of a count at the finest scale.

        Examples
        --------
        >>> public = {"counts_noise": True, "center_noise": 0.3}
        >>> at_half = ConfidenceRegion((2.5,), 0.6, 0.9, GDP(1.0), True, "CR-GS", {}, (), public)
        >>> round(at_half.noise_share, 3)
        0.676
        >>> print(at_half.caution)
        privacy noise makes 68% of this interval's squared width, which it counts: ...
        """
        share = self.public.get("noise_share")
        noise = self.public.get("center_noise")
        around = self.dimension == 1 and self.alternative == "two-sided" and self.box is None
        if share is None and isinstance(noise, float) and around and 0 < self.radius < math.inf:
            z = NormalDist().inv_cdf((1 + self.confidence_level) / 2)
            share = min((z * noise / self.radius) ** 2, 1.0)
        return share if isinstance(share, float) else None

    @property
    def shape(self) -> str:
        """Which kind of set it is: "ball", "box" or "ellipsoid"."""
        if self.box is not None:
            return "box"
        return "ball" if self.ellipsoid is None else "ellipsoid"

    @property
    def in_words(self) -> str:
        """The region without its center, for people."""
        digits = self.decimals
        if self.dimension == 1:
            low, high = self.interval
            if self.alternative == "greater":
                return f"lower bound: {low:,.{digits}f}"
            if self.alternative == "less":
                return f"upper bound: {high:,.{digits}f}"
            return f"interval: {low:,.{digits}f} to {high:,.{digits}f}"
        if self.box is not None:
            sides = " x ".join(f"{low:,.{digits}f} to {high:,.{digits}f}" for low, high in self.box)
            return f"box: {sides}"
        if self.ellipsoid is not None:
            return f"ellipsoid: longest semi-axis {self.radius:,.{digits}f}"
        return f"region: radius {self.radius:,.{digits}f}"

    def __str__(self) -> str:
        """Return the answer for people.

        Examples
        --------
        >>> print(ConfidenceRegion((2.5,), 0.5, 0.95, GDP(1.0), True, "CR-GS", {}, (), {}))
        2.500 (95% interval: 2.000 to 3.000)
        """
        level = f"{100 * self.confidence_level:.6g}%"
        if math.isinf(self.radius) and self.box is None:
            answer = "no result (⊥)"
        elif self.dimension == 1:
            answer = f"{self.center[0]:,.{self.decimals}f} ({level} {self.in_words})"
        else:
            center = ", ".join(f"{c:,.{self.decimals}f}" for c in self.center)
            answer = f"({center}) ({level} {self.in_words})"
        return answer if self.private else f"NOT PRIVATE: {answer}"

    def contains(self, theta: ArrayLike) -> bool:
        """Whether `theta` lies inside: ‖theta − center‖₂ < radius for a ball."""
        point = numbers("theta", theta).reshape(-1)
        if point.size != self.dimension:
            raise InvalidArgument(f"theta must have {self.dimension} coordinates, not {point.size}")
        if self.box is not None:
            sides = zip(point.tolist(), self.box, strict=True)
            return all(low <= x <= high for x, (low, high) in sides)
        if math.isinf(self.radius):
            return True
        if self.ellipsoid is not None:
            with np.errstate(all="ignore"):  # what overflows is outside
                off = point - np.array(self.center)
                return bool(off @ np.linalg.solve(np.array(self.ellipsoid), off) < 1)
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
            "alternative": self.alternative,
            "shape": self.shape,
            "ellipsoid": None if self.ellipsoid is None else [list(row) for row in self.ellipsoid],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ConfidenceRegion:
        """Return the region that `to_dict` wrote, such as one kept in a ledger.

        Whatever it didn't write is refused: what is read has to be written the same again.
        """
        try:
            box = fields["intervals"] if fields["shape"] == "box" else None
            rows = fields["ellipsoid"]
            region = cls(
                center=tuple(math.nan if c is None else _number(c) for c in fields["center"]),
                radius=math.inf if fields["radius"] is None else _number(fields["radius"]),
                confidence_level=level(fields["confidence_level"]),
                spent=GDP(**fields["spent"]),
                private=fields["private"],
                method=fields["method"],
                statistic=dict(fields["statistic"]),
                assumes=tuple(fields["assumes"]),
                public=dict(fields["public"]),
                alternative=choice("alternative", fields["alternative"], ALTERNATIVES),
                box=None if box is None else tuple(map(_side, box)),
                ellipsoid=None if rows is None else tuple(tuple(map(_number, r)) for r in rows),
            )
            if _makes_sense(region) and region.to_dict() == dict(fields):
                return region
        except Exception:  # whatever a value's type raises
            pass
        raise InvalidArgument("fields must be what ConfidenceRegion.to_dict returns")


def _makes_sense(region: ConfidenceRegion) -> bool:
    """Whether types and sizes, of which `to_dict` says nothing, are a region's."""
    texts = (region.method, *region.assumes, *region.statistic, *region.public)
    return (
        isinstance(region.private, bool)
        and all(isinstance(text, str) for text in texts)
        and region.dimension > 0
        and region.radius >= 0
        and _is_box(region)
        and _is_ellipsoid(region)
    )


def _is_box(region: ConfidenceRegion) -> bool:
    box = region.box
    return box is None or (len(box) == region.dimension and all(low <= high for low, high in box))


def _is_ellipsoid(region: ConfidenceRegion) -> bool:
    if region.ellipsoid is None:
        return True
    matrix = np.array(region.ellipsoid)
    if matrix.shape != (region.dimension,) * 2 or region.box is not None:
        return False
    symmetric = np.allclose(matrix, matrix.T, rtol=1e-6, atol=0)
    return symmetric and bool(np.linalg.eigvalsh(matrix).min() > 0)


def _side(ends: Sequence[float | None]) -> tuple[float, float]:
    low, high = ends
    return -math.inf if low is None else _number(low), math.inf if high is None else _number(high)


def _number(x: float) -> float:
    return real("fields", x, "", lambda _: True)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
