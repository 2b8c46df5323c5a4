"""What an interval must add for the noise in its own estimated variance, and how to share a budget.

Private variance and the delta method publish an estimate with an error of variance T and of which T
is itself known with noise only. An interval made from a noisy T̃ covers too rarely: these are the
smallest additions to T̃ that put the coverage back to second order, for intervals and ellipsoids.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import fdtri, stdtrit

from confidp.central.methods.method import Request

_TYPICAL_SD = 0.1  # of the range: what the share of the budget is best for
_LEAST_SHARE, _MOST_SHARE = Fraction(1, 5), Fraction(49, 50)


def student_t(request: Request, intervals: int = 1) -> float:
    """Return the t quantile for `intervals` that shall hold all at once.

    Two-sided ones by Šidák's inequality, which holds for normal errors of any correlation, and
    one-sided ones by Bonferroni's. At least 0: a one-sided interval at a level under 0.5 has 0.5.

    Examples
    --------
    >>> student_t(Request(200, 1.0, 0.95, 1))
    1.97195...
    """
    level = request.confidence_level
    if request.alternative == "two-sided":
        # Of log and expm1, so that no level is lost next to 1.
        tail = -math.expm1(math.log(level) / intervals) / 2
    else:
        tail = (1 - level) / intervals
    return max(-float(stdtrit(request.n - 1, tail)), 0.0)


def hotelling(request: Request, dimension: int) -> float:
    """Return Hotelling's quantile d(n − 1)/(n − d) F for d means of n records."""
    n, d = request.n, dimension
    f = float(fdtri(d, n - d, request.confidence_level))
    return d * (n - 1) / (n - d) * f


def center_share(request: Request, dimension: int, factor: float) -> Fraction:
    """Return the part of μ² for the center, the rest being for its variance: public.

    With A = R²/(nμ)² and c the share, the interval's squared half-width is about t² times
    σ²/n + A/c + factor·A²μ²/((1 − c)T), T = σ²/n + A: least at c = 1/(1 + √q),
    q = factor·μ²/(1 + nμ²σ²/R²). σ/R isn't known; 1/10 is taken. `factor` is (t² + 1)/4 for
    intervals; in d dimensions each column has μ/√d.

    Examples
    --------
    >>> [round(float(center_share(Request(2000, mu, 0.9, 1), 1, 0.93)), 2) for mu in (0.1, 1, 8)]
    [0.92, 0.83, 0.82]
    """
    square = request.mu * request.mu / dimension
    q = factor * square / (1 + request.n * square * _TYPICAL_SD**2)
    share = Fraction(1 / (1 + math.sqrt(q)))
    return min(max(share, _LEAST_SHARE), _MOST_SHARE)


def total_variance(estimate: float, noise: float, least: float, t: float) -> float:
    """Return the variance to build ``t·√`` on, from an estimate with Gaussian noise.

    Parameters
    ----------
    estimate
        T̃ = T + D Z, in which T is the variance of the interval's center; it may be negative.
    noise
        D, public.
    least
        What T can't be under: the privacy noise's own variance.
    t
        The normal or Student's t quantile.

    Returns
    -------
    float
        The larger of `least` and w = (T̃ + √(T̃² + (t² + 1)D²))/2, the root of
        w = T̃ + (t² + 1)/4 · D²/w.

    Notes
    -----
    An interval from T̃ = T(1 + rZ), r = D/T, covers E f(rZ), f(x) = 2Φ(t√(1 + x)) − 1 (two-sided;
    Φ(t√(1 + x)) one-sided). f″(0)/f′(0) = −(t² + 1)/2 in both cases, so to second order adding
    (t² + 1)/4 · r²T = (t² + 1)/4 · D²/T to T̃ puts back what is lost. T isn't known; with w itself
    in its place the sum is a quadratic equation, whose positive root is smooth in T̃ and doesn't
    blow up where T̃ is near 0 or under it. Not only to second order: quadrature finds that with
    normal errors it covers at least 1 − α for every T ≥ `least` ≥ 0, every D, and levels from 0.5
    to 0.999, one- and two-sided (``tests/central/methods/test_estimated_variance.py``).

    Examples
    --------
    >>> total_variance(4.0, 0.0, 1.0, 2.0), total_variance(0.0, 1.0, 0.0, 0.0)
    (4.0, 0.5)
    """
    return max((estimate + math.hypot(estimate, math.sqrt(t * t + 1) * noise)) / 2, least)


def total_covariance(
    estimate: NDArray[np.float64], noise: float, least: float, quantile: float
) -> NDArray[np.float64]:
    """Return the matrix W for {x: xᵀW⁻¹x < quantile}, from a covariance with Gaussian noise.

    Parameters
    ----------
    estimate
        T̃ = T + E of shape (d, d), E symmetric with N(0, D²) on the diagonal and N(0, D²/2) off
        it, so that uᵀEu ~ N(0, D²) for every unit vector u.
    noise
        D, public.
    least
        A lower bound of T's eigenvalues, at least 0.
    quantile
        χ²_d's, or Hotelling's.

    Notes
    -----
    W = T̃ + κ·D²(W⁻¹ + tr(W⁻¹)I)/2, `total_variance` for d = 1: the same argument, made for a
    normal vector z with covariance T. Write G = T^(−½)ET^(−½) and z = T^½·√Q·u, Q ~ χ²_d and u
    uniform on the sphere. Then zᵀT̃⁻¹z = Q(1 − uᵀGu + uᵀG²u) to second order, and with f the
    density of χ²_d, q f′(q)/f(q) = d/2 − 1 − q/2, P(zᵀT̃⁻¹z ≤ q) falls short of 1 − α by

        q f(q)·{E uᵀG²u + E(uᵀGu)²·(q − d − 2)/4},
        E uᵀG²u = E tr G²/d,  E(uᵀGu)² = (2E tr G² + E(tr G)²)/(d(d + 2)).

    Adding a matrix V to T̃ puts back q f(q)·tr(T⁻¹V)/d. The choice V = κ·E[ET⁻¹E], which is
    κ·D²(T⁻¹ + tr(T⁻¹)I)/2, widens each direction by about what it lacks itself; tr(T⁻¹V) is
    κ·E tr G², so κ = 1 + (2 + ρ)(q − d − 2)/(4(d + 2)) with ρ = E(tr G)²/E tr G², between 2/(d + 1)
    (T a multiple of I) and 1 (T nearly singular). The larger κ of both ends is taken. As before, W
    stands for T. W has T̃'s eigenvectors; given s = tr(W⁻¹) its eigenvalues solve quadratic
    equations, and s is the root of a decreasing function. Eigenvalues under `least` are raised to
    it, as is the case with T: W is positive definite whatever the noise.

    Examples
    --------
    >>> total_covariance(np.diag([4.0, 1.0]), 0.0, 0.5, 4.6)
    array([[4., 0.],
           [0., 1.]])
    """
    d = len(estimate)
    values, vectors = np.linalg.eigh(estimate)
    unit = max(float(np.abs(values).max()), noise, least)  # so that no square under- or overflows
    half = _kappa(quantile, d) * (noise / unit) ** 2 / 2

    def eigenvalues(trace: float) -> NDArray[np.float64]:
        shifted = values / unit + half * trace
        root = np.sqrt(shifted**2 + 4 * half)
        # The same root twice: each form loses nothing on its side of 0.
        below = 2 * half / (root + np.abs(shifted))
        solved: NDArray[np.float64] = np.where(shifted > 0, (shifted + root) / 2, below)
        return solved

    if half > 0:
        most = float(np.sum(1 / eigenvalues(0.0)))  # tr(W⁻¹) falls as s grows: s is between
        least_trace = float(np.sum(1 / eigenvalues(most)))
        trace = brentq(lambda s: float(np.sum(1 / eigenvalues(s))) - s, least_trace, most)
        values = eigenvalues(trace) * unit
    matrix: NDArray[np.float64] = (vectors * np.maximum(values, least)) @ vectors.T
    return (matrix + matrix.T) / 2


def _kappa(quantile: float, d: int) -> float:
    excess = (quantile - d - 2) / (4 * (d + 2))
    return max(1 + (2 + rho) * excess for rho in (2 / (d + 1), 1.0))
