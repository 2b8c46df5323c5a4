"""CR-GS calibrated for its own noise: nominal coverage where the published region falls short.

The same two releases as Algorithm 2, at the same price, but of a radius that counts both noises and
the finite population, from resamples of n/2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, owens_t

from confidp.central.methods.method import Released, Request
from confidp.central.pivots import Units
from confidp.central.resampling import Indices, Resampling, Sampling, multiplicity, resamples
from confidp.central.statistics.statistic import MeanLike, Records, pivot_sensitivity
from confidp.privacy.guarantees import GDP
from confidp.privacy.noise import GaussianMechanism, lattice_delta, to_float
from confidp.randomness import Randomness

_CAP = 2.0**30  # the radius is clipped to so many of its noise scales: never in practice
_RAMP = 1e-7  # added to the probability for each noise scale of radius: a least slope
_CDF_ERROR = 1e-13  # of `covered`, in floats
_ERROR = _CDF_ERROR / _RAMP + 2.0**-19  # of the radius, in noise scales
_LEAST_RATIO = 1e-3  # of the two noise scales, within which Owen's T is that exact
_DRAWS = 256  # of both noises for each resample, in d > 1


@dataclass(frozen=True, slots=True)
class NoiseAwarePlan:
    """Noise-aware CR-GS with every public setting chosen but κ, which the drawn indices give.

    With pivots w_i = c(θ*_i − θ̂), c = (τ_m/τ_n)/√(1 − m/n) without replacement (τ_m/τ_n with), and
    the public noise scales s_c of the center and s_r of the radius, it releases Q + s_r Z₁ for

        Q = inf{q ≥ 0 : (1/B) Σ_i P(‖w_i + s_c Z_d‖ ≤ q + s_r Z₁) ≥ 1 − α},

    so that the region around θ̂ + s_c Z_d covers 1 − α with both noises counted.

    Notes
    -----
    **Privacy.** Fix the indices: the guarantee holds for each set of them, so κ may be the
    multiplicity that was drawn, and there is no ⊥. If every w_i moves by at most s in norm, then
    ‖w_i′ + s_c Z‖ ≤ ‖w_i + s_c Z‖ + s, so the probability at q + s is at least what it was at q,
    and Q moves by at most s: the sensitivity that CR-GS's own quantile has. With it both releases
    are Gaussian mechanisms at μ/√2. s = c·(κΔ_m + Δ_n), or less where the statistic knows its
    pivots (`pivot_sensitivity`). ∎

    **Floats.** Clipping ‖w_i‖ at 2^31 s_r and Q at 2^30 s_r doesn't widen differences, and bounds
    what relative errors can do. In one dimension the probability is a bivariate normal's, by Owen's
    T, to 1e-13; adding 1e-7·q/s_r to it keeps the argument above and gives a least slope, so that Q
    is off by at most 1e-6·s_r (and at most 1e7·s_r large, which no data come near). In d dimensions
    it is an average over fixed draws of both noises: then Q is an order statistic of
    ‖w_i + s_c z‖ − s_r z₁, for which the argument holds draw by draw. The sensitivity is raised by
    twice 3e-6·s_r.
    """

    statistic: MeanLike
    request: Request
    resampling: Resampling
    units: Units
    center: GaussianMechanism
    rate: float  # c

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' (d+1)·δ₀."""
        return GDP(self.request.mu, lattice_delta(self.center.mu, self.center.dimension + 1))

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-GS (noise-aware, {self.resampling.sampling.replace('_', ' ')})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for resampling to work: coverage is asymptotic, though it counts "
            "the privacy noise",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; κ and the radius noise come with the release."""
        return {
            **self.resampling.public,
            "failure_probability": None,
            "center_noise": self.center.scale,
            "counts_noise": True,
        }

    def radius_mechanism(self, kappa: int) -> tuple[GaussianMechanism, float]:
        """Return the radius's mechanism, and the scale s_r that Q is calibrated to."""
        n, m = self.request.n, self.resampling.size
        dimension = self.center.dimension
        errors = sum(self.statistic.rounding(size) + self.units.error(dimension) for size in (n, m))
        pivot = pivot_sensitivity(self.statistic, n, m, kappa) + 2 * errors
        sensitivity = Fraction(self.rate) * pivot
        nominal = to_float(sensitivity / Fraction(self.center.mu))
        raised = sensitivity + 2 * Fraction(_ERROR) * Fraction(nominal)
        return GaussianMechanism(raised, self.center.mu), nominal

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw indices, compute, and release center and radius."""
        r = self.resampling
        sets = resamples(r.n, r.size, r.n_resamples, r.sampling, randomness.indices)
        return self.release_on(records, sets, randomness)

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Release center and radius for given index sets."""
        estimate, pivots, kappa = self.pivots(records, sets)
        mechanism, nominal = self.radius_mechanism(kappa)
        radius = self.radius(pivots, nominal)
        center = self.center.release(self.units.fractions(estimate), randomness)
        (noisy,) = mechanism.release([Fraction(radius)], randomness)
        return Released(
            tuple(to_float(x + o) for x, o in zip(center, self.statistic.origin, strict=True)),
            max(to_float(noisy), 0.0),
            {"multiplicity_bound": kappa, "radius_noise": mechanism.scale},
        )

    def pivots(
        self, records: Records, sets: Iterable[Indices]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return θ̂ in whole units, all w_i of shape (B, d), and the multiplicity. **Private**."""
        value, points = self.statistic.value, self.units.points
        full = value(records)
        estimate = points(full)
        without = self.resampling.sampling is Sampling.WITHOUT_REPLACEMENT
        kappa, moved = 1, []
        for indices in sets:
            moved.append(points(value(records[indices], near=full)) - estimate)
            kappa = kappa if without else max(kappa, multiplicity(indices))
        step = float(self.units.step) * self.rate
        return estimate, np.array(moved, dtype=np.float64) * step, kappa

    def radius(self, pivots: NDArray[np.float64], radius_noise: float) -> float:
        """Return Q for pivots w_i, to within 3e-6 of `radius_noise`. **Private**."""
        # In units of s_r, so that no square under- or overflows; only the size matters.
        with np.errstate(over="ignore"):
            size = np.sqrt(((pivots / radius_noise) ** 2).sum(axis=1))
        size = np.minimum(size, 2 * _CAP)
        center_noise = self.center.scale / radius_noise
        level = self.request.confidence_level
        if self.center.dimension == 1 and _LEAST_RATIO < center_noise < 1 / _LEAST_RATIO:
            return _least_radius(size, center_noise, level) * radius_noise
        return _radius_by_draws(size, center_noise, level, self.center.dimension) * radius_noise


def _least_radius(size: NDArray[np.float64], center_noise: float, level: float) -> float:
    """Bisect for the least q at which the covered share, with its ramp, reaches the level."""
    low, high = 0.0, _CAP
    for _ in range(60):  # to 2^-30
        q = (low + high) / 2
        if float(covered(size, q, center_noise).mean()) + _RAMP * q >= level:
            high = q
        else:
            low = q
    return high


def covered(size: NDArray[np.float64], q: float, center_noise: float) -> NDArray[np.float64]:
    """Return P(|w + s_c Z| ≤ q + Z₁) for each |w| in `size`, s_r being 1.

    The event is w + s_c Z − Z₁ ≤ q and −w − s_c Z − Z₁ ≤ q: a bivariate normal's probability, with
    deviations s = √(s_c² + 1) and correlation (1 − s_c²)/s², by Owen's T.

    Examples
    --------
    >>> covered(np.array([0.0]), 196.0, 100.0).round(4)
    array([0.95])
    """
    square = center_noise**2 + 1
    rho = (1 - center_noise) * (1 + center_noise) / square
    root = 2 * center_noise / square  # √(1 − ρ²)
    h, k = ((q + sign * size) / math.sqrt(square) for sign in (-1, 1))
    h, k = (np.where(x == 0, 1e-300, x) for x in (h, k))  # Owen's T takes the limit from there
    with np.errstate(over="ignore"):
        first = owens_t(h, (k / h - rho) / root)
        second = owens_t(k, (h / k - rho) / root)
    opposite = np.where(h * k < 0, 0.5, 0.0)
    joint: NDArray[np.float64] = (ndtr(h) + ndtr(k)) / 2 - first - second - opposite
    return joint


def _radius_by_draws(
    size: NDArray[np.float64], center_noise: float, level: float, dimension: int
) -> float:
    """Return the order statistic of ‖w_i + s_c z‖ − z₁ over fixed draws, at least 0.

    ‖w + s_c z‖ has the law that it has for w along the first axis, whose norm moves by no more
    than w does: so sizes are enough.
    """
    rng = np.random.default_rng(20261130)  # public and fixed: a part of the method
    shape = (len(size), _DRAWS)
    along = size[:, None] + center_noise * rng.standard_normal(shape)
    across = np.sqrt(rng.chisquare(dimension - 1, shape)) if dimension > 1 else np.zeros(shape)
    excess = np.hypot(along, center_noise * across) - rng.standard_normal(shape)
    rank = math.ceil(Fraction(repr(level)) * excess.size)
    found = float(np.partition(excess.ravel(), rank - 1)[rank - 1])
    return min(max(found, 0.0), _CAP)
