"""The continuous truncated Laplace mechanism, and what a report by it tells of a normal population.

Y = clip(X, l, r) + Laplace(b) with b = (r − l)/ε: the mechanism of the paper on adaptive
truncation. With X ~ N(μ, σ²) the density of Y is known in closed form. The product answers through
finite channels (`mechanisms.truncated_laplace`), whose sampling is exact; this one serves to
reproduce the paper, and to check them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from confidp.errors import InvalidArgument, real
from confidp.local.information import Criterion, Diagonal, check_criterion
from confidp.local.state import check_generator
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]

PAPER_SCORE = Diagonal((1.0, 0.0))  # F₁₁, the score of the paper's experiments

_ROOT2 = math.sqrt(2.0)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_HALF_WIDTHS = np.geomspace(0.02, 8.0, 9)  # where the search for an interval starts
_CENTRES = np.linspace(-3.0, 3.0, 7)


@dataclass(frozen=True, slots=True)
class TruncatedLaplaceDensity:
    """Y = clip(X, low, high) + Laplace((high − low)/epsilon), for X ~ N(mean, sd²).

    ε-DP as a mechanism on real numbers. *Proof*: two values clipped to [l, r] are at most r − l
    apart, so |y − clip(x)| differs by at most r − l, and densities by a factor of at most
    e^((r − l)/b) = e^ε. ∎ In floating point it is not: see `sample`.

    Parameters
    ----------
    low, high
        The truncation, l < r.
    epsilon
        Above 0.

    Examples
    --------
    >>> density = TruncatedLaplaceDensity(49.0, 51.0, epsilon=1.0)
    >>> density.scale
    2.0
    >>> means, sds = np.array([50.0, 60.0]), np.array([3.0, 3.0])  # two particles
    >>> density.log_density(52.5, means, sds).round(4)
    array([-2.5363, -2.1367])
    """

    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        """Check the settings."""
        low = real("low", self.low, "of any size", lambda _: True)
        high = real("high", self.high, f"above low = {low:g}", lambda x: x > low)
        epsilon = real("epsilon", self.epsilon, "above 0", lambda x: x > 0)
        for name, kept in (("low", low), ("high", high), ("epsilon", epsilon)):
            object.__setattr__(self, name, kept)
        real("scale", self.scale, "above 0", lambda x: x > 0)

    @property
    def scale(self) -> float:
        """The Laplace noise's scale b = (high − low)/epsilon: its standard deviation is √2·b."""
        return (self.high - self.low) / self.epsilon

    def sample(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report for each value. For simulation only: NOT private on a device.

        The noise is floating-point Laplace from a seeded generator: its low bits tell values
        apart (Mironov 2012), and who knows the seed can take it off. A device draws through
        `Query.privatize`.
        """
        check_generator(rng)
        clipped = np.clip(numbers("x", x), self.low, self.high)
        return np.asarray(clipped + rng.laplace(0.0, self.scale, clipped.shape))

    def log_density(self, y: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return log p(y | mean, sd); arguments broadcast. −∞, never NaN, for a refused θ.

        Four positive terms are added: X below l, X above r, X between l and y, X between y and r
        (`_terms`). The error is a few 1e-16 of what is returned or of 1 + ε, whichever is more.

        Parameters
        ----------
        y
            Reports, in the unit of x.
        mean, sd
            Of X. Where sd isn't above 0, or either isn't finite, the density is 0.
        """
        y, mean, sd = _broadcast(y=y, mean=mean, sd=sd)
        with np.errstate(all="ignore"):
            logs = np.logaddexp.reduce(self._terms(y, mean, sd))
        return np.asarray(np.where(_refused(mean, sd), -np.inf, logs))

    def log_kernel(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return log p(y | x), the noise's log density at y − clip(x); arguments broadcast."""
        y, x = _broadcast(y=y, x=x)
        distance = np.abs(y - np.clip(x, self.low, self.high))
        return np.asarray(-distance / self.scale - math.log(2 * self.scale))

    def score(self, y: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> Array:
        """Return ∇ log p(y | mean, sd) in (mean, sd): two rows, over the broadcast arguments.

        With k(x) the noise's density at y − clip(x), and X = μ + σZ, ∂p/∂μ = E k′(X) and
        ∂p/∂σ = E Z k′(X), where k′ = ±k/b inside [l, r] and 0 outside. So with A and B the inner
        terms, ∂p/∂μ = (A − B)/b. The second is taken by parts, E Z h(Z) = E h′(Z) plus ends:
        b·∂p/∂σ = (A + B)σ/b − [2φ(z_c) − φ(z_l)e^(−(c − l)/b) − φ(z_r)e^(−(r − c)/b)]/2b. The
        difference cancels as σ/b grows: 1e-16·σ/b is lost of it.
        """
        y, mean, sd = _broadcast(y=y, mean=mean, sd=sd)
        b, c = self.scale, np.clip(y, self.low, self.high)
        with np.errstate(all="ignore"):
            terms = self._terms(y, mean, sd)
            total = np.logaddexp.reduce(terms)
            left, right = np.exp(terms[2:] - total)

            def end(x: Array | float) -> Array:
                z = (x - mean) / sd
                log_kernel = -np.abs(y - x) / b - math.log(2 * b)
                return np.asarray(np.exp(log_kernel - z * z / 2 - total) / math.sqrt(2 * math.pi))

            ends = 2 * end(c) - end(self.low) - end(self.high)
            return np.stack([(left - right) / b, ((left + right) * sd / b - ends) / b])

    def fisher_information(self, mean: float, sd: float) -> Array:
        """Return one report's information on (mean, sd): 2 × 2.

        Beyond l and r the score doesn't depend on y, so only [l, r] needs quadrature: 20 Gauss
        points on each of many panels, no wider than b, nor than σ near the mean.

        Examples
        --------
        >>> narrow = TruncatedLaplaceDensity(-0.071, 0.071, epsilon=1.0)
        >>> information = narrow.fisher_information(0.0, 1.0)  # sees nothing of the scale
        >>> round(float(information[0, 0]), 3), round(float(information[1, 1]), 6)
        (0.109, 5.2e-05)
        """
        mean = real("mean", mean, "of any size", lambda _: True)
        sd = real("sd", sd, "above 0", lambda x: x > 0)
        ends = np.array([self.low, self.high])
        panels = np.linspace(self.low, self.high, 2 + math.ceil(min(self.epsilon, 1e4)))
        with np.errstate(over="ignore"):
            near = np.clip(mean + sd * np.arange(-12.0, 13.0), self.low, self.high)
        edges = np.unique(np.concatenate([panels, near]))
        halves = np.diff(edges)[:, None] / 2
        y = np.concatenate([(edges[:-1, None] + halves * (1 + _NODES)).ravel(), ends])
        # What lies beyond an end weighs ∫ e^(−t/b) dt = b of the density there.
        weights = np.concatenate([(halves * _WEIGHTS).ravel(), [self.scale] * 2])
        root = np.sqrt(weights * np.exp(self.log_density(y, mean, sd))) * self.score(y, mean, sd)
        return np.asarray(root @ root.T)

    def _terms(self, y: Array, mean: Array, sd: Array) -> Array:
        """Return the logs of p's four terms: X ≤ l, X ≥ r, l < X < c, c < X < r.

        c is y clipped to [l, r], and all are computed at c: beyond it p falls as e^(−|y − c|/b).
        """
        b, c = self.scale, np.clip(y, self.low, self.high)
        below, above = (c - self.low) / b, (self.high - c) / b
        z_low, z, z_high = ((x - mean) / sd for x in (self.low, c, self.high))
        terms = np.stack(
            [
                special.log_ndtr(z_low) - below,
                special.log_ndtr(-z_high) - above,
                _log_tilted(z_low, z, sd / b, below),
                _log_tilted(-z_high, -z, sd / b, above),
            ]
        )
        return np.asarray(terms - np.abs(y - c) / b - math.log(2 * b))


def _broadcast(**arguments: ArrayLike) -> list[Array]:
    arrays = [numbers(name, values) for name, values in arguments.items()]
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(arguments)
        raise InvalidArgument(f"{shapes} must have shapes that broadcast") from None


def _log_tilted(far: Array, near: Array, s: Array, gap: Array) -> Array:
    """Return log ∫ φ(z) e^(−s(near − z)) dz from far to near, where gap = s(near − far).

    It is e^(s(s/2 − near)) [Φ(near − s) − Φ(far − s)], whose factors overflow and cancel where s
    is large. With Φ(t) = e^(−t²/2) erfcx(−t/√2)/2, an end's part is
    e^(−z²/2 − s(near − z)) erfcx((s − z)/√2)/2, with nothing large in it. Both ends left of s
    (lower tails) or both right of it (upper tails) are a difference of two such parts, neither
    of which exceeds p; on two sides of s, a sum of two error functions.
    """
    left, right = (near - s) / _ROOT2, (far - s) / _ROOT2
    upper = right >= 0

    def part(z: Array, t: Array, apart: Array | float) -> Array:
        return np.asarray(np.log(special.erfcx(np.abs(t)) / 2) - z * z / 2 - apart)

    at_near, at_far = part(near, left, 0.0), part(far, right, gap)
    larger, smaller = np.where(upper, at_far, at_near), np.where(upper, at_near, at_far)
    difference = larger + np.log(-np.expm1(np.minimum(smaller - larger, 0.0)))
    straddling = s * (s / 2 - near) + np.log((special.erf(left) - special.erf(right)) / 2)
    found = np.where((right < 0) & (left > 0), straddling, difference)
    return np.asarray(np.where((gap > 0) & ~np.isnan(found), found, -np.inf))


def _refused(mean: ArrayLike, sd: ArrayLike) -> NDArray[np.bool_]:
    usable = np.isfinite(mean) & np.isfinite(sd) & (np.asarray(sd) > 0)
    return np.asarray(~usable)


def best_interval(epsilon: float, criterion: Criterion = PAPER_SCORE) -> tuple[float, float]:
    """Return the (a, b) with the least loss for N(0, 1): the paper's equations 12 and 13.

    For N(μ, σ²) the interval is [μ + σa, μ + σb]. The paper's score is F₁₁, which has its maximum
    at intervals ±b; other criteria may prefer one that lies beside the mean, or its mirror image.

    Examples
    --------
    >>> [round(best_interval(epsilon)[1], 3) for epsilon in (1.0, 2.0, 5.0, 10.0)]
    [0.071, 0.223, 0.728, 1.224]
    """
    epsilon = real("epsilon", epsilon, "above 0 and at most 100", lambda x: 0 < x <= 100)
    check_criterion(criterion, 2)

    def loss(x: Array) -> float:
        half = math.exp(min(max(float(x[1]), -12.0), 6.0))
        interval = TruncatedLaplaceDensity(float(x[0]) - half, float(x[0]) + half, epsilon)
        return criterion(interval.fisher_information(0.0, 1.0))

    starts = [np.array([centre, math.log(half)]) for centre in _CENTRES for half in _HALF_WIDTHS]
    start = min(starts, key=loss)
    least = loss(start)
    if not math.isfinite(least):
        raise InvalidArgument("criterion must be finite for some interval")
    unit = abs(least) or 1.0

    def scaled(x: Array) -> float:
        return min(loss(x) / unit, 1e9)

    options = {"xatol": 1e-8, "fatol": 1e-14, "maxiter": 1000}
    found = optimize.minimize(scaled, start, method="Nelder-Mead", options=options).x
    half = math.exp(float(found[1]))
    return float(found[0]) - half, float(found[0]) + half
