"""Private sandwich: a noisy Newton step, and a region from a noisy covariance of gradients.

Not from the paper: for an M-estimator it does what private variance does for a mean. No resampling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, gammainc, ndtri
from scipy.stats import qmc

from confidp.central.methods.method import (
    Released,
    Request,
    box_around,
    ellipsoid_around,
    unsuitable,
)
from confidp.central.methods.newton_step import (
    ROOT_TWO,
    BoundedMean,
    Floats,
    NewtonStep,
    Step,
    Whole,
    budget,
    chunks,
    floats,
    planned_shares,
    symmetric_root,
    symmetric_to_vector,
    vector_to_symmetric,
)
from confidp.central.statistics.m_estimator import Linearisable
from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import choice
from confidp.privacy.guarantees import GDP
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

SHAPES = ("ball", "ellipsoid", "box")
_DIRECTIONS = 12  # 2^12 fixed directions, in each of which a normal's probability is exact


@dataclass(frozen=True, slots=True)
class PrivateSandwich:
    """A normal region for an M-estimator, from a private Newton step and a private sandwich.

    With μ² divided into four shares by a public rule (`planned_shares`):

    - θ̃₀: the minimiser plus noise; H̃: the Hessian at θ̃₀ plus noise; center θ̃₁: one Newton step
      from θ̃₀ with a noisy gradient;
    - Ṽ: the gradients' covariance at θ̃₀ plus noise;
    - a region for N(θ̃₁, Σ), Σ = H̃⁻¹(Ṽ/n + K)H̃⁻¹, with K the public covariance of what the step
      adds; widened by the second-order effect of the noise in Ṽ. Where a step would add more than
      it takes away, the center is θ̃₀, and its own noise stands for the step's.

    Parameters
    ----------
    shape
        ``"ball"``; ``"ellipsoid"``, the smallest volume; ``"box"``: an interval for each
        coefficient, all of them right at once.

    Notes
    -----
    **Privacy** (``docs/linearised.md``). Four Gaussian mechanisms, each with a public budget and a
    sensitivity that holds whatever the earlier ones released. With ‖g_i‖ ≤ G, the mean of the g_i
    moves by at most 2G/n in ℓ2, and that of the g_i g_iᵀ by √2·G²/n in Frobenius norm: two positive
    semidefinite matrices have an inner product of at least 0. The rest is post-processing. ∎

    **Coverage** is asymptotic in n: it rests on a normal law of the mean gradient and on the first
    order of a Newton step. Whether θ̃₀ was close enough for that is public: `remainder` in the
    result's `public`, and its `caution`.
    """

    shape: str = "ball"

    def __post_init__(self) -> None:
        """Refuse an unknown shape."""
        choice("shape", self.shape, SHAPES)

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattices."""
        return False

    def plan(self, statistic: Statistic, request: Request) -> PrivateSandwichPlan:
        """Choose shares and noise scales."""
        if not isinstance(statistic, Linearisable):
            need = "an M-estimator with bounded gradients and Hessians"
            raise unsuitable("PrivateSandwich", need, statistic)
        n, d = request.n, statistic.dimension
        other = covariance_penalty(statistic, request)
        s_0, s_h, s_g, last = planned_shares(statistic, request, other)
        squares = BoundedMean(n, d * (d + 1) // 2, statistic.lipschitz**2)
        sensitivity = ROOT_TWO * squares.longest / n + squares.rounding
        return PrivateSandwichPlan(
            statistic=statistic,
            request=request,
            newton=NewtonStep.choose(statistic, request, (s_0, s_h, s_g)),
            covariance=GaussianMechanism(sensitivity, budget(request.mu, last), squares.size),
            shape=self.shape,
        )


def covariance_penalty(statistic: Linearisable, request: Request) -> float:
    """Return what Ṽ's noise is predicted to add to a coordinate's squared error: `other`.

    The widening (q + 2 − d)/4·ρ² of `ball`, for a mean square of gradients of G²/4.
    """
    n, mu, d = request.n, request.mu, statistic.dimension
    center = (2 * statistic.lipschitz / (n * mu)) ** 2
    variance = statistic.lipschitz**2 / (4 * d * n) + center
    noise = math.sqrt(2) * statistic.lipschitz**2 / (n * mu) / n
    quantile = float(chdtri(d, 1 - request.confidence_level))
    return (quantile + 2 - d) / 4 * noise**2 / (d * variance)


@dataclass(frozen=True, slots=True)
class PrivateSandwichPlan:
    """A private sandwich with every public setting chosen."""

    statistic: Linearisable
    request: Request
    newton: NewtonStep
    covariance: GaussianMechanism
    shape: str

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' δ₀ for each number released."""
        return GDP(self.request.mu, (self.newton.cost + self.covariance.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return f"private sandwich ({self.shape})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for the mean gradient to be close to normal, and the first private "
            "estimate close enough to the truth for one Newton step",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Noise scales, and how μ² was divided."""
        parts = (self.newton.start, self.newton.hessian, self.newton.gradient, self.covariance)
        square = self.request.mu**2
        return {
            **self.newton.public,
            "covariance_noise": self.covariance.scale,
            "budget_shares": [round(part.mu**2 / square, 4) for part in parts],
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Take the step, release the gradients' covariance, and make the region."""
        step, gradients = self.newton.release(records, randomness)
        squares = self.squares(gradients)
        noisy = floats(self.covariance.release(squares, randomness))
        return self.region(step, vector_to_symmetric(noisy, self.statistic.dimension))

    def squares(self, gradients: Whole) -> list[Fraction]:
        """Return the mean of g gᵀ over all records, as a vector. **Private**."""
        d, unit = self.statistic.dimension, float(self.newton.gradients.step)
        mean = BoundedMean(len(gradients), self.covariance.dimension, self.statistic.lipschitz**2)
        total = np.zeros(self.covariance.dimension, dtype=np.int64)
        for part in chunks(gradients, d * d):
            g = part * unit
            total += mean.encode(symmetric_to_vector(g[:, :, None] * g[:, None, :])).sum(axis=0)
        return mean.of(total)

    def region(self, step: Step, square: Floats) -> Released:
        """Make the region of what was released: post-processing."""
        n, A = self.request.n, step.inverse
        slope = -self.statistic.regularization * step.center  # the mean gradient, at the minimum
        values, vectors = np.linalg.eigh(square - np.outer(slope, slope))
        values = np.clip(values, 0.0, self.statistic.lipschitz**2)
        spread = A @ (vectors * np.sqrt(values / n))
        sigma = spread @ spread.T + step.noise
        level, noise = self.request.confidence_level, self.covariance.scale / n
        public = step.public
        center = tuple(step.center.tolist())
        if self.shape == "ellipsoid":
            return ellipsoid_around(center, ellipsoid(sigma, A, noise, level), public)
        if self.shape == "box":
            reach = box(sigma, A, noise, level)
            sides = [(c - r, c + r) for c, r in zip(center, reach.tolist(), strict=True)]
            return box_around(center, sides, public)
        return Released(center, ball(sigma, A, noise, level), public)


def ball(sigma: Floats, A: Floats, noise: float, level: float) -> float:
    """Return r with P(‖N(0, Σ)‖ ≤ r) = `level`, widened for noise in Σ.

    With u uniform on the sphere and s = uᵀΣu, the probability is E F(r²/s), F the distribution of
    χ²_d. Σ's estimate is off by A E A, with E an isotropic symmetric matrix of scale `noise`. That
    moves r² by a relative ρZ, to first order: the mean of uᵀAEAu/s with weights f(t)t, t = r²/s.
    Coverage falls by the second-order term ½ρ²·r⁴·κ′(r²), κ the density of ‖N(0, Σ)‖², and a factor
    1 − ½ρ²·r²κ′/κ on r² puts it back: 1 + ρ²(t + 2 − d)/4 in weighted mean. For d = 1 this is
    private variance's (t² + 1)/4.

    Examples
    --------
    >>> one = np.eye(1)
    >>> round(ball(4 * one, one, 0.0, 0.95), 4)  # 2·1.96
    3.9199
    """
    d = len(sigma)
    u = directions(d)
    s = ((u @ sigma) * u).sum(axis=1)
    s = np.maximum(s, 1e-12 * s.max())  # rounding can leave less than nothing
    square = _solve(s, level, d)
    t = square / s
    weight = t ** (d / 2) * np.exp(-t / 2)
    weight /= weight.sum()
    derivative = (u * (weight / s)[:, None]).T @ u
    rho = noise * float(np.linalg.norm(A @ derivative @ A))
    widened = 1 + rho**2 * float(weight @ (t + 2 - d)) / 4
    return math.sqrt(square * max(widened, 1.0))


def ellipsoid(sigma: Floats, A: Floats, noise: float, level: float) -> Floats:
    """Return the matrix of {xᵀ Σ⁻¹ x < q}, q = χ²_d's quantile, widened for noise in Σ.

    For whitened noise W, xᵀΣ̂⁻¹x/xᵀΣ⁻¹x is 1 − uᵀWu + uᵀW²u to second order, in the direction u. So
    q needs the factor 1 + E uᵀW²u + (q − 2 − d)/4·E(uᵀWu)².

    Examples
    --------
    >>> ellipsoid(4 * np.eye(1), np.eye(1), 0.0, 0.95).round(2)  # (2·1.96)²
    array([[15.37]])
    """
    d = len(sigma)
    quantile = float(chdtri(d, 1 - level))
    whitened = A @ np.linalg.solve(sigma, A)  # similar to Bᵀ B of W = B E Bᵀ
    trace, squared = float(np.trace(whitened)), float(np.trace(whitened @ whitened))
    mean_square = noise**2 * (squared + trace**2) / 2 / d  # E tr W²/d
    along = noise**2 * (squared + trace**2 + squared) / (d * (d + 2))  # (2 E tr W² + E(tr W)²)/…
    return sigma * quantile * (1 + mean_square + (quantile - 2 - d) / 4 * along)


def box(sigma: Floats, A: Floats, noise: float, level: float) -> Floats:
    """Return each coordinate's reach b·σ_j with P(all |x_j| ≤ b·σ_j) = `level`, widened for noise.

    Each by its own relative noise ρ_j in σ_j², by private variance's factor 1 + ρ_j²(b² + 1)/4.

    Examples
    --------
    >>> box(np.diag([1.0, 100.0]), np.eye(2), 0.0, 0.95).round(2)
    array([ 2.24, 22.36])
    """
    d = len(sigma)
    variance = np.diag(sigma)
    deviation = np.sqrt(variance)
    x = directions(d) @ symmetric_root(sigma / np.outer(deviation, deviation))
    square = _solve((x**2).max(axis=1), level, d)
    rho = noise * (A**2).sum(axis=1) / variance
    reach: Floats = np.sqrt(square * variance * (1 + rho**2 * (square + 1) / 4))
    return reach


@lru_cache(maxsize=8)
def directions(dimension: int) -> Floats:
    """Return fixed points that fill the unit sphere evenly, of shape (4096, d)."""
    if dimension == 1:
        return np.ones((1, 1))
    if dimension == 2:
        angle = (np.arange(2**_DIRECTIONS) + 0.5) * (2 * math.pi / 2**_DIRECTIONS)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    cells = qmc.Sobol(dimension, scramble=False).random_base2(_DIRECTIONS)
    normal = ndtri(cells + 0.5 ** (_DIRECTIONS + 1))
    unit: Floats = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    unit.setflags(write=False)
    return unit


def _solve(s: Floats, level: float, d: int) -> float:
    """Return x with mean F(x/s) = `level`."""
    quantile = float(chdtri(d, 1 - level))
    low, high = quantile * float(s.min()), quantile * float(s.max())

    def short(x: float) -> float:
        return float(gammainc(d / 2, x / (2 * s)).mean()) - level

    if high <= low * (1 + 1e-12):  # a sphere: rounding could hide the change of sign
        return high
    return float(brentq(short, low * (1 - 1e-9), high * (1 + 1e-9), rtol=1e-12))
