"""Means, and their variances for next to nothing: what private variance releases of a mean.

Scale a column to [0, 1]. Its variance is m(1 − m) − w with m = E X and w = E X(1 − X), and a record
that moves X far moves X(1 − X) little. So both are released together with all of the budget: m with
the noise that it would have alone, w with 0.3003 of that. (That a second moment can come along for
free is due to Kalinin, Upadhyay and Lampert, 2025; this is the sharp constant for bounded numbers.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.estimated_variance import total_variance
from confidp.central.methods.method import Released, Request, box_around
from confidp.central.methods.private_covariance import ROOT_2
from confidp.central.statistics.exact import exact_sums
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import Records
from confidp.privacy.guarantees import GDP, sqrt_up
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

_BEYOND = 1e200  # times the range squared: noise with which floats can't go on
BULGE = Fraction(3003, 10_000)  # β, at least φ^(−5/2) = 0.30028…


def moments_mechanism(n: int, dimension: int, mu: float) -> GaussianMechanism:
    """Return the mechanism for the means of x and x(1 − x)/β of d columns scaled to [0, 1].

    **Claim.** Replacing one of n records moves all 2d means by at most √d/n in ℓ2: no more than the
    d means of x alone. **Proof.** Let a record go from x to y > x in one column, a = y − x and
    s = x + y, which is between a and 2 − a. Then (x, x(1 − x)/β) moves by a·(1, (1 − s)/β), whose
    square a² + a²(1 − s)²/β² ≤ a² + a²(1 − a)²/β² is at most 1 if β² ≥ a²(1 − a)/(1 + a). The right
    side is largest where a² + a = 1, at a = 1/φ, and is φ⁻⁵ = (5√5 − 11)/2 < 0.09017 < 0.3003²
    there. Columns add their squares. ∎ From 0 to 1 attains it, and so nearly does 0 to 1/φ.

    Examples
    --------
    >>> moments_mechanism(1000, 1, mu=0.5).scale, GaussianMechanism(Fraction(1, 1000), 0.5).scale
    (0.00200000000000..., 0.00200000000000...)
    """
    return GaussianMechanism(Fraction(sqrt_up(Fraction(dimension))) / n, mu, 2 * dimension)


def bulging_means(records: Records, cells: Sequence[int]) -> list[Fraction]:
    """Return the means of x, and then those of x(1 − x)/β, of columns over `cells`. **Private**.

    Examples
    --------
    >>> import numpy as np
    >>> bulging_means(np.array([[0], [1], [2], [1]]), (2,))  # ½, and ⅛/β
    [Fraction(1, 2), Fraction(1250, 3003)]
    """
    means, bulges = [], []
    for column, c in zip(records.T, cells, strict=True):
        total, _, squares = exact_sums(column, column)
        means.append(Fraction(total, len(records) * c))
        bulges.append(Fraction(c * total - squares, len(records) * c * c) / BULGE)
    return means + bulges


@dataclass(frozen=True, slots=True)
class JointCovariance:
    """Releases the means of d columns scaled to [0, 1], and their covariance, with μ-GDP.

    With z = x − ½: the means of z, and those of z_j² and √2·z_jz_k over β, whose ℓ2 norm is
    Frobenius's, all with noise ν = √d/(nμ). β is √(d/2), and 0.3003 for one column. So the
    covariance, of which M̃ − z̃z̃ᵀ + ν²I is an estimate without bias but for n/(n − 1), has in
    direction u the noise βν, and −2(uᵀz)(uᵀZ)ν of the means' own Z.

    **Privacy.** One record moves all of it by at most √d/n. With k the move of z, h the middle
    between its old and new place and j-th entries |k_j|, |h_j| ≤ (1 − |k_j|)/2, zzᵀ moves by
    hkᵀ + khᵀ, whose squared norm 2‖h‖²‖k‖² + 2(h·k)² is at most (AB + C²)/2 with A = Σk_j²,
    B = Σ(1 − |k_j|)², C = Σ|k_j|(1 − |k_j|). A + 2C + B = d, so 2C ≤ d − A and
    AB + C² ≤ A(d − A) + C² ≤ A(d − A) + (d − A)² = d(d − A). Hence n² times the squared move is at
    most A + (AB + C²)/(2β²) ≤ A + (d − A) = d. ∎ √2 is rounded down and β up. One column has the
    proof of `moments_mechanism`: z² is ¼ − x(1 − x).

    Examples
    --------
    >>> JointCovariance(1000, 2, mu=0.5).mechanism.scale
    0.002828427124...
    """

    n: int
    dimension: int
    mu: float
    mechanism: GaussianMechanism = field(init=False)
    beta: Fraction = field(init=False)

    def __post_init__(self) -> None:
        """Calibrate."""
        d = self.dimension
        sensitivity = Fraction(sqrt_up(Fraction(d))) / self.n
        entries = d + d * (d + 1) // 2
        object.__setattr__(self, "mechanism", GaussianMechanism(sensitivity, self.mu, entries))
        beta = BULGE if d == 1 else Fraction(sqrt_up(Fraction(d, 2)))
        object.__setattr__(self, "beta", beta)

    @property
    def scale(self) -> float:
        """ν."""
        return self.mechanism.scale

    @property
    def cost(self) -> GDP:
        """What one release costs."""
        return self.mechanism.cost

    def exact(self, records: Records, cells: Sequence[int]) -> list[Fraction]:
        """Return what is released, before noise, of columns over `cells`. **Private**."""
        n, d, half = len(records), len(cells), Fraction(1, 2)
        pairs = [(j, k) for j in range(d) for k in range(j, d)]
        sums = {(j, k): exact_sums(records[:, j], records[:, k]) for j, k in pairs}
        means = [Fraction(sums[j, j][0], n * cells[j]) for j in range(d)]
        products = [
            Fraction(sums[j, k][2], n * cells[j] * cells[k])
            - half * (means[j] + means[k])
            + half**2
            for j, k in pairs
        ]
        weights = self._weights()
        return [m - half for m in means] + [p * w for p, w in zip(products, weights, strict=True)]

    def release(
        self, records: Records, cells: Sequence[int], randomness: Randomness
    ) -> tuple[list[Fraction], NDArray[np.float64]]:
        """Return the noisy means of x, and the noisy covariance (n − 1)."""
        d, n = self.dimension, self.n
        noisy = self.mechanism.release(self.exact(records, cells), randomness)
        z, rest = noisy[:d], [m / w for m, w in zip(noisy[d:], self._weights(), strict=True)]
        nu = Fraction(self.mechanism.lattice_scale) * self.mechanism.unit
        covariance = np.empty((d, d))
        pairs = [(j, k) for j in range(d) for k in range(j, d)]
        for (j, k), m in zip(pairs, rest, strict=True):
            entry = m - z[j] * z[k] + (nu * nu if j == k else 0)
            covariance[j, k] = covariance[k, j] = to_float(entry * n / (n - 1))
        return [m + Fraction(1, 2) for m in z], covariance

    def _weights(self) -> list[Fraction]:
        d = self.dimension
        return [(1 if j == k else ROOT_2) / self.beta for j in range(d) for k in range(j, d)]


@dataclass(frozen=True, slots=True)
class JointMoments:
    """What a mean and a variance released together say of a mean: post-processing.

    All is for n numbers scaled to [0, 1], or their combination uᵀX with ‖u‖ = 1 of columns so
    scaled: ``mechanism`` released both, t is the quantile, and the second moment has `own` times
    the mean's noise. `tilt` is 1 − 2x̃, or uᵀ(1 − 2x̃): what of the mean's noise is in the variance.
    `extra` is what else is known to be in the variance of the center.

    Notes
    -----
    With ν the noise scale, the variance of each x̃ − θ is T = σ²/n + ν² (and `extra`). σ² is
    estimated without bias by s̃² = (x̃(1 − x̃) + ν² − βw̃)·n/(n − 1), whose noise has two parts
    to first order: (1 − 2x̄)ν from x̃, and βν of its own. `half_width` counts both.

    The first part is a part of the center's own error as well, to a share p = ν²/T of its variance.
    For what of T̃'s noise goes along with the error E, T̃ = T(1 + rE/√T), a two-sided interval
    |E| ≤ t√T̃ is one between the roots of a quadratic, and loses φ(t)·t³(t² − 1)r²/4 of coverage
    to second order; for what doesn't go along, φ(t)·t(t² + 1)r²/4, which is what `total_variance`
    puts back. So that part counts (t² − 1)t²/(t² + 1) times, at least once, to the share p.

    A one-sided bound feels it to first order: given E, T̃ is off by p(1 − 2x̃)E/n on average. What
    counts is E at the bound itself, so T̃ is put right for that E, and the wider of the two bounds,
    before and after, is taken. With normal errors both kinds cover 1 − α but for 0.003, by
    simulation over σ, x̄, μ and levels (``tests/central/methods/test_joint_moments.py``).
    """

    n: int
    mechanism: GaussianMechanism
    t: float
    own: float = float(BULGE)

    def variance(self, mean: Fraction, bulge: Fraction) -> float:
        """Return s̃², which may be negative, from what was released."""
        n, nu = self.n, Fraction(self.mechanism.lattice_scale) * self.mechanism.unit
        return to_float((mean * (1 - mean) + nu * nu - bulge) * n / (n - 1))

    def deviation(self, tilt: float, variance: float, extra: float = 0.0) -> float:
        """Return √w: of the center, in a two-sided interval."""
        nu, t = self.mechanism.scale, self.t
        more = max(t * t * (t * t - 1) / (t * t + 1), 1.0)
        share = self._own_share(variance, extra)
        noise = nu * math.sqrt(self.own**2 + tilt**2 * (1 - share + share * more))
        return math.sqrt(self._total(variance, noise, extra))

    def half_width(self, tilt: float, variance: float, extra: float = 0.0) -> float:
        """Return the half-width of a two-sided interval."""
        return self.t * self.deviation(tilt, variance, extra)

    def bound_width(self, tilt: float, variance: float, above: bool, extra: float = 0.0) -> float:
        """Return a one-sided bound's distance from the center."""
        nu, t = self.mechanism.scale, self.t
        noise = nu * math.hypot(self.own, tilt)
        plain = t * math.sqrt(self._total(variance, noise, extra))
        # An error E = x̃ − θ is h where a lower bound is missed, and −h for an upper one.
        error = -plain if above else plain
        put_right = variance - self._own_share(variance, extra) * tilt * error
        return max(plain, t * math.sqrt(self._total(put_right, noise, extra)))

    def _own_share(self, variance: float, extra: float) -> float:
        """Return p, the share of the noise in the variance of the center."""
        nu = self.mechanism.scale
        return nu * nu / (max(variance, 0.0) / self.n + nu * nu + extra)

    def _total(self, variance: float, noise: float, extra: float) -> float:
        n, least = self.n, self.mechanism.scale * self.mechanism.scale + extra
        if least > _BEYOND:
            return math.inf
        return total_variance(variance / n + least, noise / n, least, self.t)


@dataclass(frozen=True, slots=True)
class JointMomentsPlan:
    """Intervals for means with the noise scale chosen, for columns scaled to [0, 1]."""

    statistic: Mean
    request: Request
    mechanism: GaussianMechanism
    t: float

    @property
    def cost(self) -> GDP:
        """μ, and the lattice's 2d·δ₀."""
        return GDP(self.request.mu, self.mechanism.cost.delta)

    @property
    def name(self) -> str:
        """For people."""
        return "private variance" if len(self.statistic.grids) == 1 else "private variance (box)"

    @property
    def joint(self) -> JointMoments:
        """What will be said of each column."""
        return JointMoments(self.request.n, self.mechanism, self.t)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (NORMAL,)

    @property
    def public(self) -> Mapping[str, Any]:
        """n and the noise scales, in the units of the data; of variances, what they are at most."""
        ranges = [to_float(grid.range) for grid in self.statistic.grids]
        most = self.mechanism.scale * math.hypot(1, float(BULGE))
        return {
            "n": self.request.n,
            "center_noise": one_or_all([self.mechanism.scale * r for r in ranges]),
            "variance_noise": one_or_all([most * r * r for r in ranges]),
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release both moments of all columns, and make the intervals."""
        grids, joint = self.statistic.grids, self.joint
        d, ranges = len(grids), [to_float(grid.range) for grid in grids]
        exact = bulging_means(records, [grid.cells for grid in grids])
        noisy = self.mechanism.release(exact, randomness)
        tilts = [1 - 2 * min(max(to_float(m), 0.0), 1.0) for m in noisy[:d]]
        variances = [
            joint.variance(m, w * BULGE) for m, w in zip(noisy[:d], noisy[d:], strict=True)
        ]
        center = [to_float(g.lower + g.range * m) for g, m in zip(grids, noisy[:d], strict=True)]
        public = {
            "variance": one_or_all([r * r * v for r, v in zip(ranges, variances, strict=True)])
        }
        alternative = self.request.alternative
        if alternative == "two-sided":
            reach = [
                r * joint.half_width(b, v) for r, b, v in zip(ranges, tilts, variances, strict=True)
            ]
            if d == 1:
                return Released(tuple(center), reach[0], public)
            sides = [(c - h, c + h) for c, h in zip(center, reach, strict=True)]
            return box_around(center, sides, public)
        reach = [
            r * joint.bound_width(b, v, above=alternative == "less")
            for r, b, v in zip(ranges, tilts, variances, strict=True)
        ]
        columns = zip(center, reach, self.statistic.bounds, strict=True)
        box = tuple(one_sided(c, h, bounds, alternative) for c, h, bounds in columns)
        return Released(tuple(center), max(reach), public, box=box)


NORMAL = (
    "n is large enough for the estimate to be close to normal: on very skewed data a few hundred "
    "rows are not, with privacy or without"
)


def one_sided(
    center: float, reach: float, bounds: tuple[float, float], alternative: str
) -> tuple[float, float]:
    """Return a one-sided interval, up to the bound: a parameter can't be outside of its bounds."""
    lower, upper = bounds
    if alternative == "greater":
        return min(center - reach, upper), upper
    return lower, max(center + reach, lower)


def one_or_all(numbers: list[float]) -> float | list[float]:
    """Return a single number as it is."""
    return numbers[0] if len(numbers) == 1 else numbers
