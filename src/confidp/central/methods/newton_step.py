"""One noisy Newton step of an M-estimator: what the linearised methods share.

A first point, a Hessian and a gradient at that point are released, and the step is made of these
alone. `docs/linearised.md` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from confidp.central.methods.method import Request
from confidp.central.statistics.m_estimator import SLACK, Linearisable
from confidp.central.statistics.statistic import Records
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import GaussianMechanism, to_float
from confidp.randomness import Randomness

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

ROOT_TWO = Fraction(math.nextafter(math.sqrt(2), 2.0))  # rounded up
_STEP_BITS = 44  # of a record's numbers, in steps of their bound
_LEAST_SHARE = 0.01
_CHUNK = 2**20  # numbers held at once


@dataclass(frozen=True, slots=True)
class BoundedMean:
    """The exact mean of n vectors of `size` numbers, each at most `bound` long in ℓ2.

    Longer vectors are scaled down, entries rounded to whole steps of a power of two of at most
    2^-43 of the bound (coarser from n = 2^17 on), and sums are whole numbers.

    Examples
    --------
    >>> mean = BoundedMean(n=2, size=2, bound=1.0)
    >>> vectors = np.array([[0.5, 0.0], [3.0, 4.0]])  # the second counts as (0.6, 0.8)
    >>> [round(float(x), 6) for x in mean.of(mean.encode(vectors).sum(axis=0))]
    [0.55, 0.4]
    """

    n: int
    size: int
    bound: float

    @property
    def step(self) -> Fraction:
        """So that the sum of all n stays under 2^62."""
        bits = min(_STEP_BITS, 61 - self.n.bit_length())
        return Fraction(2) ** (math.frexp(self.bound)[1] - bits)

    @property
    def longest(self) -> Fraction:
        """The bound with the float error of a norm: what an encoded vector, unrounded, is within.

        A sum of k squares, its root, a quotient and a product: a relative (k + 8)·2^-53 at most.
        """
        return Fraction(self.bound) * (1 + (self.size + 8) * Fraction(2) ** -52)

    @property
    def rounding(self) -> Fraction:
        """What rounding adds to the ℓ2 sensitivity of a mean: 4√k steps, with k = `size`.

        The two replaced vectors are rounded by half a step in each entry, which is √k/n steps in
        the mean. The float errors of a record's own numbers are far under a step, but they may
        depend on the layout of memory: then they take any entry of any record to the next step,
        which is √k steps in the mean, and as much again is left for other float errors.
        """
        root = math.isqrt(self.size - 1) + 1
        return 4 * root * self.step

    def encode(self, vectors: Floats) -> Whole:
        """Return whole steps, of shape (N, size). Each row is a function of its own vector.

        One without a finite norm counts as 0.
        """
        with np.errstate(all="ignore"):
            norm = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
            vectors = vectors * np.minimum(self.bound / np.maximum(norm, 1e-300), 1.0)
            vectors = np.where(np.isfinite(norm), vectors, 0.0)
        return np.rint(vectors / float(self.step)).astype(np.int64)

    def of(self, total: Whole) -> list[Fraction]:
        """Return the mean that a sum over all n makes."""
        return [int(x) * self.step / self.n for x in total]


def symmetric_to_vector(matrices: Floats) -> Floats:
    """Return (N, d(d+1)/2) numbers with the Frobenius norms of (N, d, d) symmetric matrices.

    Examples
    --------
    >>> symmetric_to_vector(np.array([[[1.0, 2.0], [2.0, 3.0]]])).round(3)
    array([[1.   , 2.828, 3.   ]])
    """
    i, j = np.triu_indices(matrices.shape[-1])
    vectors: Floats = matrices[:, i, j] * np.where(i == j, 1.0, math.sqrt(2))
    return vectors


def vector_to_symmetric(vector: Floats, dimension: int) -> Floats:
    """Return the symmetric matrix that `symmetric_to_vector` made."""
    i, j = np.triu_indices(dimension)
    matrix = np.zeros((dimension, dimension))
    matrix[i, j] = matrix[j, i] = vector / np.where(i == j, 1.0, math.sqrt(2))
    return matrix


def chunks(records: Records, size: int) -> Iterator[Records]:
    """Yield the records in pieces that make at most a million numbers of `size` a record."""
    rows = max(1, _CHUNK // size)
    for first in range(0, len(records), rows):
        yield records[first : first + rows]


@dataclass(frozen=True, slots=True)
class Step:
    """What one noisy Newton step released, and what follows from it: public.

    Attributes
    ----------
    start
        θ̃₀.
    slope
        The mean gradient at θ̃₀ as released, without λ.
    inverse
        H̃⁻¹ of the released Hessian, λ included, whose eigenvalues were raised to λ. Symmetric.
    center
        θ̃₁ = θ̃₀ − H̃⁻¹ g̃; or θ̃₀, where a step is expected to add more than θ̃₀'s own noise.
    noise
        Covariance that privacy adds to the center: θ̃₀'s own; or H̃⁻¹KH̃⁻¹, with K that of the
        gradient's noise, of E·(θ̃₀ − θ) with E the Hessian's noise, and ϱ²/q for the remainder.
    remainder
        ϱ·‖H̃⁻¹‖, about the most that the step's second order can have moved θ̃₁.
    taken
        Whether the center is θ̃₁.
    """

    start: Floats
    slope: Floats
    inverse: Floats
    center: Floats
    noise: Floats
    remainder: float
    taken: bool

    @property
    def public(self) -> Mapping[str, Any]:
        """What the result shows of it."""
        return {"newton_step": self.taken, "remainder": self.remainder}

    @property
    def inverse_norm(self) -> float:
        """‖H̃⁻¹‖₂, rounded up."""
        return float(np.linalg.norm(self.inverse, 2)) * SLACK


@dataclass(frozen=True, slots=True)
class NewtonStep:
    """The three releases of a noisy Newton step, calibrated."""

    statistic: Linearisable
    request: Request
    start: GaussianMechanism
    hessian: GaussianMechanism
    gradient: GaussianMechanism

    @classmethod
    def choose(
        cls, statistic: Linearisable, request: Request, shares: tuple[float, float, float]
    ) -> NewtonStep:
        """Calibrate for `shares` of μ² to θ̃₀, Hessian and gradient."""
        n, d = request.n, statistic.dimension
        first, second, third = (budget(request.mu, share) for share in shares)
        start = Fraction(statistic.sensitivity(n)) + 2 * statistic.rounding(n)
        hessians = BoundedMean(n, d * (d + 1) // 2, statistic.hessian_norm)
        hessian = ROOT_TWO * hessians.longest / n + hessians.rounding
        gradients = BoundedMean(n, d, statistic.lipschitz)
        gradient = 2 * gradients.longest / n + gradients.rounding
        return cls(
            statistic,
            request,
            GaussianMechanism(start, first, d),
            GaussianMechanism(hessian, second, hessians.size),
            GaussianMechanism(gradient, third, d),
        )

    @property
    def cost(self) -> GDP:
        """Of the three together."""
        return self.start.cost + self.hessian.cost + self.gradient.cost

    @property
    def gradients(self) -> BoundedMean:
        """How gradients are averaged."""
        return BoundedMean(self.request.n, self.statistic.dimension, self.statistic.lipschitz)

    @property
    def hessians(self) -> BoundedMean:
        """How Hessians are averaged."""
        return BoundedMean(self.request.n, self.hessian.dimension, self.statistic.hessian_norm)

    @property
    def public(self) -> Mapping[str, Any]:
        """The noise scales: of θ̃₀, of the Hessian and of the gradient."""
        return {
            "n": self.request.n,
            "start_noise": self.start.scale,
            "hessian_noise": self.hessian.scale,
            "gradient_noise": self.gradient.scale,
            "counts_noise": True,
        }

    def encoded_gradients(self, y: Floats, records: Records) -> Whole:
        """Return each record's gradient at y, in whole steps. **Private**."""
        statistic, mean = self.statistic, self.gradients
        with np.errstate(all="ignore"):
            return np.concatenate(
                [
                    mean.encode(statistic.gradients(y, part))
                    for part in chunks(records, statistic.dimension)
                ]
            )

    def release(self, records: Records, randomness: Randomness) -> tuple[Step, Whole]:
        """Release the three; return the step, and the **private** gradients at its start."""
        statistic, d = self.statistic, self.statistic.dimension
        value = [Fraction(x) for x in np.nan_to_num(statistic.value(records)).tolist()]
        start = floats(self.start.release(value, randomness))
        total = np.zeros(self.hessian.dimension, dtype=np.int64)
        for part in chunks(records, d * d):
            with np.errstate(all="ignore"):
                vectors = symmetric_to_vector(statistic.hessians(start, part))
            total += self.hessians.encode(vectors).sum(axis=0)
        curvature = floats(self.hessian.release(self.hessians.of(total), randomness))
        gradients = self.encoded_gradients(start, records)
        mean = self.gradients.of(gradients.sum(axis=0))
        slope = floats(self.gradient.release(mean, randomness))
        return self.step(start, vector_to_symmetric(curvature, d), slope), gradients

    def step(self, start: Floats, curvature: Floats, slope: Floats) -> Step:
        """Make the step of what was released: post-processing."""
        ridge, d = self.statistic.regularization, self.statistic.dimension
        values, vectors = np.linalg.eigh(curvature)
        largest = self.statistic.hessian_norm  # an average of Hessians lies between
        values = np.clip(values, 0.0, largest) + ridge
        inverse: Floats = (vectors / values) @ vectors.T
        inverse = (inverse + inverse.T) / 2
        moved = -inverse @ (slope + ridge * start)
        # Whether to step is decided without a look at `moved`, which is large where θ̃₀ is far off.
        own = self.start.scale**2 * np.eye(d)
        expected, _ = self.added(np.full(d, self.start.scale))
        taken = bool(np.trace(inverse @ expected @ inverse) <= np.trace(own))
        added, remainder = self.added(moved)
        spread = inverse @ symmetric_root(added)
        return Step(
            start=start,
            slope=slope,
            inverse=inverse,
            center=start + moved if taken else start,
            noise=spread @ spread.T if taken else own,
            remainder=remainder / float(values[0]) if taken else 0.0,
            taken=taken,
        )

    def added(self, moved: Floats) -> tuple[Floats, float]:
        """Return K, what a step by δ adds to a gradient's covariance, and ϱ = M‖δ‖²/2."""
        d, size = len(moved), float(moved @ moved)
        # E has the isotropic law on symmetric matrices, so Cov(Eδ) = (‖δ‖²I + δδᵀ)·ν²/2.
        crossed = self.hessian.scale**2 / 2 * (size * np.eye(d) + np.outer(moved, moved))
        # A remainder of at most ϱ in norm counts as a normal vector that stays within it as surely.
        remainder = float(self.statistic.hessian_change / 2 * size)
        quantile = float(chdtri(d, 1 - self.request.confidence_level))
        return (self.gradient.scale**2 + remainder**2 / quantile) * np.eye(d) + crossed, remainder


def planned_shares(
    statistic: Linearisable, request: Request, other: float
) -> tuple[float, float, float, float]:
    """Return the shares of μ² for θ̃₀, Hessian, gradient and the radius's own release.

    Public: they minimise what the privacy noise is predicted to add to the squared error of a
    coordinate, in a gradient's units and with e = 2G/(nμ) the gradient's noise at the whole budget,

        e²/s_g + h²·t(d+1)/(2d)/(s_0 s_h) + (M t/2)²/(q s_0²) + `other`/s_r,

    where t = d(e/λ)² is the squared noise of θ̃₀ at the whole budget, h = √2·C/(nμ) the Hessian's
    (C its bound), M t/2 the remainder of a Newton step (M how fast Hessians change), and q the
    quantile of χ²_d. It is convex in the logarithms; a damped fixed point of its stationary
    equations finds it.

    Examples
    --------
    >>> from confidp.central.statistics.regression import LogisticERM
    >>> ridge = LogisticERM(0.05, intercept=False).for_shape(20_000, 6)
    >>> request = Request(n=20_000, mu=0.5, confidence_level=0.9, n_resamples=1)
    >>> [round(s, 2) for s in planned_shares(ridge, request, 1e-9)]
    [0.04, 0.01, 0.82, 0.13]
    """
    d, n, mu = statistic.dimension, request.n, request.mu
    e = 2 * statistic.lipschitz / (n * mu)
    start = d * (e / statistic.regularization) ** 2
    hessian = (math.sqrt(2) * statistic.hessian_norm / (n * mu)) ** 2
    crossed = hessian * start * (d + 1) / (2 * d)
    remainder = (statistic.hessian_change * start / 2) ** 2
    remainder /= float(chdtri(d, 1 - request.confidence_level))
    shares = np.full(4, 0.25)
    for _ in range(200):
        s_0, s_h, s_g, s_r = shares.tolist()
        cross = crossed / (s_0 * s_h)
        parts = np.array([cross + 2 * remainder / s_0**2, cross, e**2 / s_g, other / s_r])
        shares = np.sqrt(shares * parts / parts.sum())
        shares = np.maximum(shares / shares.sum(), _LEAST_SHARE)
        shares /= shares.sum()
    s_0, s_h, s_g, s_r = (shares * (1 - 2.0**-50)).tolist()  # to at most 1 in exact arithmetic
    return s_0, s_h, s_g, s_r


def symmetric_root(matrix: Floats) -> Floats:
    """Return the symmetric square root of a matrix that is positive semidefinite but for rounding.

    Examples
    --------
    >>> symmetric_root(np.diag([4.0, 9.0])).round(6).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    return root


def budget(mu: float, share: float) -> float:
    """Return √share·μ, rounded down."""
    return sqrt_down(Fraction(share) * Fraction(mu) ** 2)


def floats(values: tuple[Fraction, ...]) -> Floats:
    """Return released numbers as an array."""
    return np.array([to_float(x) for x in values])
