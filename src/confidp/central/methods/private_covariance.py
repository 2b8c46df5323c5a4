"""A private covariance matrix, and the ellipsoid for a vector of means that it makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.estimated_variance import center_share, hotelling, total_covariance
from confidp.central.methods.method import Released, Request, ellipsoid_around
from confidp.central.statistics.exact import exact_sum, exact_sums
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import Records
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP, sqrt_down, sqrt_up
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

ROOT_2 = Fraction(math.isqrt(2 << 128), 1 << 64)  # √2, rounded down


def means_mechanism(n: int, dimension: int, mu: float) -> GaussianMechanism:
    """Return the mechanism for d means of columns scaled to [0, 1].

    A replacement moves each by at most 1/n, and all at once from one corner to the opposite one:
    the ℓ2-sensitivity is √d/n, rounded up.
    """
    return GaussianMechanism(Fraction(sqrt_up(Fraction(dimension))) / n, mu, dimension)


def unit_means(records: Records, cells: Sequence[int]) -> list[Fraction]:
    """Return the means of columns of whole numbers, divided by `cells`. **Private**."""
    columns = zip(records.T, cells, strict=True)
    return [Fraction(exact_sum(column), len(records) * c) for column, c in columns]


def unit_covariance(records: Records, cells: Sequence[int], j: int, k: int) -> Fraction:
    """Return entry (j, k) of the covariance (n − 1) of columns divided by `cells`. **Private**.

    Examples
    --------
    >>> unit_covariance(np.array([[0, 2], [1, 0], [2, 4]]), (2, 4), 0, 1)
    Fraction(1, 8)
    """
    n = len(records)
    first, second, products = exact_sums(records[:, j], records[:, k])
    return Fraction(n * products - first * second, n * (n - 1) * cells[j] * cells[k])


@dataclass(frozen=True, slots=True)
class CovarianceMechanism:
    """Releases the sample covariance (n − 1) of d scaled columns, with μ-GDP.

    The noise E is symmetric with uᵀEu ~ N(0, `scale`²) for every unit vector u: deviation `scale`
    on the diagonal, and `scale`/√2 off it.

    Parameters
    ----------
    sensitivity
        In the Frobenius norm. For columns scaled to [0, 1] it is d/n, exact and attained
        (``docs/private_variance.md``, section 2).
    dimension
        d.
    mu
        In (0, 2^30].

    Notes
    -----
    The mechanism releases the diagonal and √2 times what is above it, whose ℓ2 norm is the
    Frobenius norm (√2 rounded down, so no more than it). Entries are exact fractions.

    Examples
    --------
    >>> CovarianceMechanism(Fraction(2, 1000), dimension=2, mu=0.5).scale
    0.004000000000...
    """

    sensitivity: Fraction
    dimension: int
    mu: float
    mechanism: GaussianMechanism = field(init=False)

    def __post_init__(self) -> None:
        """Calibrate."""
        entries = self.dimension * (self.dimension + 1) // 2
        mechanism = GaussianMechanism(self.sensitivity, self.mu, entries)
        object.__setattr__(self, "mechanism", mechanism)

    @property
    def cost(self) -> GDP:
        """μ, and the lattice's δ."""
        return self.mechanism.cost

    @property
    def scale(self) -> float:
        """The deviation of uᵀEu for every unit vector u."""
        return self.mechanism.scale

    def release(
        self, records: Records, cells: Sequence[int], randomness: Randomness
    ) -> NDArray[np.float64]:
        """Return the noisy (d, d) matrix, which may have negative eigenvalues. This spends μ."""
        places = [(j, k) for j in range(self.dimension) for k in range(j + 1)]
        weights = [Fraction(1) if j == k else ROOT_2 for j, k in places]
        entries = [
            w * unit_covariance(records, cells, j, k)
            for w, (j, k) in zip(weights, places, strict=True)
        ]
        released = self.mechanism.release(entries, randomness)
        matrix = np.empty((self.dimension, self.dimension))
        for w, (j, k), entry in zip(weights, places, released, strict=True):
            matrix[j, k] = matrix[k, j] = to_float(entry / w)
        return matrix


def plan_ellipsoid(statistic: Mean, request: Request, share: float | None) -> PrivateCovariancePlan:
    """Choose both noise scales."""
    n, d = request.n, len(statistic.grids)
    if n <= d + 1:
        raise InvalidArgument(
            f"n must be at least {d + 2} for an ellipsoid in {d} dimensions, not {n}"
        )
    quantile = hotelling(request, d)
    center = center_share(request, d, (quantile + d) / 4) if share is None else Fraction(share)
    mu_squared = Fraction(request.mu) ** 2
    return PrivateCovariancePlan(
        statistic=statistic,
        request=request,
        center=means_mechanism(n, d, sqrt_down(center * mu_squared)),
        spread=CovarianceMechanism(Fraction(d, n), d, sqrt_down((1 - center) * mu_squared)),
        quantile=quantile,
    )


@dataclass(frozen=True, slots=True)
class PrivateCovariancePlan:
    """An ellipsoid from noisy means and a noisy covariance, with both noise scales chosen.

    In columns scaled to [0, 1], with μ_c² + μ_v² = μ²:

    - center x̃ = x̄ + ν Z_d, ν = √d/(nμ_c);
    - covariance S̃ = S + E, E's deviation ω = d/(nμ_v) in every direction;
    - region {θ: (θ − x̃)ᵀ W⁻¹ (θ − x̃) < q}, with q = d(n − 1)/(n − d)·F_{d, n−d}(1 − α),
      Hotelling's, and W what `total_covariance` makes of S̃/n + ν²I.

    Notes
    -----
    **Privacy.** Two Gaussian mechanisms at μ_c and μ_v, with the sensitivities √d/n
    (`means_mechanism`) and d/n (`CovarianceMechanism`); the rest is post-processing. ∎ The lattices
    add (d + d(d+1)/2)·δ₀ to δ.

    **Coverage.** x̃ − θ is close to normal with covariance Σ/n + ν²I. Hotelling's quantile counts
    what the sample covariance lacks, and `total_covariance` counts E to second order.
    """

    statistic: Mean
    request: Request
    center: GaussianMechanism
    spread: CovarianceMechanism
    quantile: float

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' δ."""
        return GDP(self.request.mu, (self.center.cost + self.spread.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return "private covariance (ellipsoid)"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for the means to be close to jointly normal: on very skewed data a "
            "few hundred rows are not, with privacy or without",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """n and the noise scales, in the units of the data and of their square."""
        ranges = [to_float(grid.range) for grid in self.statistic.grids]
        return {
            "n": self.request.n,
            "center_noise": [self.center.scale * r for r in ranges],
            "variance_noise": [self.spread.scale * r * r for r in ranges],
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release means and covariance, and make the ellipsoid."""
        grids = self.statistic.grids
        cells = [grid.cells for grid in grids]
        means = self.center.release(unit_means(records, cells), randomness)
        covariance = self.spread.release(records, cells, randomness)
        ranges = np.array([to_float(grid.range) for grid in grids])
        scaling = np.outer(ranges, ranges)
        return ellipsoid_around(
            [to_float(g.lower + g.range * m) for g, m in zip(grids, means, strict=True)],
            self.matrix(covariance) * scaling,
            {"covariance": (covariance * scaling).tolist()},
        )

    def matrix(self, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return q·W for a released covariance, in scaled columns: post-processing."""
        n, least = self.request.n, self.center.scale**2
        estimate = covariance / n + least * np.eye(len(covariance))
        noise = self.spread.scale / n
        return self.quantile * total_covariance(estimate, noise, least, self.quantile)
