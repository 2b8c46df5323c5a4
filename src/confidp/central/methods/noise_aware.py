"""CR-GS calibrated for its own noise: nominal coverage where the published region falls short.

The same two releases as Algorithm 2, at the same price, but of a radius that counts both noises and
the finite population, from resamples of n/2. Proofs in full: ``docs/noise_aware.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr, owens_t

from confidp.central.methods.method import Released, Request, bound_beside
from confidp.central.pivots import Units
from confidp.central.resampling import Indices, Resampling, Sampling, resamples
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import (
    MeanLike,
    Records,
    Statistic,
    pivot_sensitivity,
    resample,
)
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP
from confidp.privacy.noise import GaussianMechanism, lattice_delta, to_float
from confidp.randomness import Randomness

_CAP = 2.0**30  # the radius is clipped to so many of its noise scales: never in practice
_RAMP = 1e-7  # added to the probability for each noise scale of radius: a least slope
_CDF_ERROR = 1e-13  # of `covered`, in floats
_ERROR = _CDF_ERROR / _RAMP + 2.0**-19  # of the radius, in noise scales
_SURE = 8.0  # deviations that a normal stays under but for 1e-15
_LEAST_RATIO = 1e-3  # of the two noise scales, within which Owen's T is that exact
_DRAWS = 256  # of both noises for each resample, in d > 1


@dataclass(frozen=True, slots=True)
class NoiseAwarePlan:
    """Noise-aware CR-GS with every public setting chosen but κ, which the drawn indices give.

    With pivots w_i = c(θ*_i − θ̂), c = (τ_m/τ_n)/√(1 − m/n) without replacement (τ_m/τ_n with), and
    the public noise scales s_c of the center and s_r of the radius, it releases Q + s_r Z₁ for

        Q = inf{q ≥ 0 : (1/B) Σ_i P(‖w_i + s_c Z_d‖ ≤ q + s_r Z₁) ≥ 1 − α},

    so that the region around θ̂ + s_c Z_d covers 1 − α with both noises counted. A two-sided region
    is no smaller than the one for s_c Z_d alone (`region_around`), which adds coverage where s_r is
    large beside s_c and θ's own spread: up to 0.08 at level 0.9, at up to 6% of the mean width.

    In one dimension a lower bound is θ̂ + s_c Z − (Q + s_r Z₁), for the least real Q, negative or
    not, with (1/B) Σ_i P(w_i + s_c Z ≤ Q + s_r Z₁) ≥ 1 − α: it covers if and only if
    θ̂ − θ + s_c Z ≤ Q + s_r Z₁, and θ̂ − θ has about the law of the w_i. An upper bound is its
    mirror image.

    Notes
    -----
    **Privacy.** Fix the indices: the guarantee holds for each set of them, so κ may be the
    multiplicity that was drawn, and there is no ⊥. If every w_i moves by at most s in norm, then
    ‖w_i′ + s_c Z‖ ≤ ‖w_i + s_c Z‖ + s, so the probability at q + s is at least what it was at q,
    and Q moves by at most s: the sensitivity that CR-GS's own quantile has. With it both releases
    are Gaussian mechanisms at μ/√2. s = c·(κΔ_m + Δ_n), or less where the statistic knows its
    pivots (`pivot_sensitivity`). One-sided, w_i′ ≤ w_i + s does the same, whatever Q's sign. ∎

    **Floats.** Clipping ‖w_i‖ at 2^31 s_r and Q at 2^30 s_r doesn't widen differences, and bounds
    what relative errors can do. In one dimension the probability is a bivariate normal's, by Owen's
    T, to 1e-13 (one-sided a single normal's); adding 1e-7·q/s_r to it keeps the argument above and
    gives a least slope, so that Q is off by at most 1e-6·s_r (and at most 1e7·s_r large, which no
    data come near). In d dimensions it is an average over fixed draws of both noises: then Q is an
    order statistic of ‖w_i + s_c z‖ − s_r z₁, for which the argument holds draw by draw. The
    sensitivity is raised by twice 3e-6·s_r.
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
        return reach_mechanism(Fraction(self.rate) * pivot, self.center.mu)

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
        center = self.center.release(self.units.fractions(estimate), randomness)
        (reach,) = mechanism.release([Fraction(self.radius(pivots, nominal))], randomness)
        public = {"multiplicity_bound": kappa, "radius_noise": mechanism.scale}
        noise, request = self.center.scale, self.request
        return region_around(center, reach, noise, self.statistic, request, public)

    def pivots(
        self, records: Records, sets: Iterable[Indices]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return θ̂ in whole units, all w_i of shape (B, d), and the multiplicity. **Private**."""
        points = self.units.points
        full = self.statistic.value(records)
        estimate = points(full)
        resampled = resample(self.statistic, records, sets, near=full)
        moved = points(resampled.values) - estimate
        step = float(self.units.step) * self.rate
        return estimate, moved.astype(np.float64) * step, resampled.multiplicity

    def radius(self, pivots: NDArray[np.float64], radius_noise: float) -> float:
        """Return Q for pivots w_i, to within 3e-6 of `radius_noise`. **Private**."""
        level, alternative = self.request.confidence_level, self.request.alternative
        return calibrated_reach(pivots, self.center.scale, radius_noise, level, alternative)


def half_samples(statistic: Statistic, n: int) -> int | None:
    """Return n/2 where τ_n is √n, for which no resample size gives less noise; else None."""
    return n // 2 if _is_root_n(statistic, n) else None


def pivot_rate(statistic: Statistic, resampling: Resampling) -> float:
    """Return c, which takes θ*_i − θ̂ to the scale of θ̂ − θ.

    τ_m/τ_n; over √(1 − m/n) without replacement, since m of n spread by that much less than m of a
    population do. Where τ_n isn't √n the limit isn't normal, and no factor mends it.
    """
    n, m = resampling.n, resampling.size
    rate = statistic.scale(m) / statistic.scale(n)
    if resampling.sampling is Sampling.WITHOUT_REPLACEMENT and _is_root_n(statistic, n):
        rate /= math.sqrt(1 - m / n)
    return rate


def _is_root_n(statistic: Statistic, n: int) -> bool:
    return math.isclose(statistic.scale(4 * n), 2 * statistic.scale(n))


def reach_mechanism(sensitivity: Fraction, mu: float) -> tuple[GaussianMechanism, float]:
    """Return the mechanism for Q, and the scale s_r that Q is calibrated to: public both.

    `sensitivity` is what every w_i moves by at most, as computed; Q's own float error is added.
    """
    nominal = to_float(sensitivity / Fraction(mu))
    return GaussianMechanism(sensitivity + 2 * Fraction(_ERROR) * Fraction(nominal), mu), nominal


def region_around(
    center: Sequence[Fraction],
    reach: Fraction,
    center_noise: float,
    statistic: Statistic,
    request: Request,
    public: Mapping[str, Any],
) -> Released:
    """Return the ball around the noisy θ̂ − origin, or one end and the parameter's own bound.

    A ball is at least what the center's noise alone asks for: a smaller one would cover less often
    than it says where θ̂ − θ is symmetric, and one of radius 0 never.
    """
    points = [x + o for x, o in zip(center, statistic.origin, strict=True)]
    level, alternative = request.confidence_level, request.alternative
    if alternative == "two-sided":
        least = center_noise * math.sqrt(chdtri(len(points), 1 - level))
        return Released(tuple(map(to_float, points)), max(to_float(reach), least), public)
    least, most = parameter_bounds(statistic)
    if alternative == "greater":
        side = (min(to_float(points[0] - reach), most), most)
    else:
        side = (least, max(to_float(points[0] + reach), least))
    return bound_beside(to_float(points[0]), side, alternative, public)


def check_alternative(alternative: str, dimension: int) -> None:
    """Refuse one-sided intervals for a vector."""
    if alternative != "two-sided" and dimension != 1:
        raise InvalidArgument(
            f"alternative must be 'two-sided' in {dimension} dimensions, not {alternative!r}"
        )


def parameter_bounds(statistic: Statistic) -> tuple[float, float]:
    """Return what is publicly known to hold a one-dimensional parameter: (−∞, ∞) if nothing is.

    A mean's data bounds, a user's range of a kernel, or the statistic's own `parameter_bounds`.

    Examples
    --------
    >>> parameter_bounds(Mean(bounds=(0, 100)))
    (0.0, 100.0)
    """
    own = getattr(statistic, "parameter_bounds", getattr(statistic, "kernel_range", None))
    if own is None and isinstance(statistic, Mean):
        (own,) = statistic.bounds
    low, high = own or (-math.inf, math.inf)
    return float(low), float(high)


def calibrated_reach(
    pivots: NDArray[np.float64],
    center_noise: float,
    radius_noise: float,
    level: float,
    alternative: str = "two-sided",
) -> float:
    """Return Q, to within 3e-6 of `radius_noise`. **Private**.

    Parameters
    ----------
    pivots
        w_i, of shape (B, d), in the units of both noises.
    center_noise, radius_noise
        s_c and s_r, public.
    level
        1 − α.
    alternative
        "greater" and "less" in one dimension only.

    Examples
    --------
    >>> pivots = np.random.default_rng(0).normal(size=(5000, 1))
    >>> calibrated_reach(pivots, 1.0, 0.5, 0.9)  # about 1.645·√(1 + 1 + 1/4)
    2.46...
    >>> calibrated_reach(pivots, 1.0, 0.5, 0.9, "greater")  # 1.282·√(1 + 1 + 1/4)
    1.919...
    """
    # In units of s_r, so that no square under- or overflows; two-sided only the size matters.
    with np.errstate(over="ignore"):
        scaled = np.where(np.isnan(pivots), np.inf, pivots / radius_noise)  # none: but no error
        size = np.minimum(np.sqrt((scaled**2).sum(axis=1)), 2 * _CAP)
    ratio = center_noise / radius_noise
    if alternative != "two-sided":
        signed = np.clip(scaled[:, 0], -2 * _CAP, 2 * _CAP)
        return _least_end(signed if alternative == "greater" else -signed, ratio, level) * (
            radius_noise
        )
    dimension = pivots.shape[1]
    if dimension == 1 and _LEAST_RATIO < ratio < 1 / _LEAST_RATIO:
        return _least_radius(size, ratio, level) * radius_noise
    return _radius_by_draws(size, ratio, level, dimension) * radius_noise


def _least_radius(size: NDArray[np.float64], center_noise: float, level: float) -> float:
    """Return the least q ≥ 0 at which the covered share, with its ramp, reaches the level."""

    def share(q: float) -> float:
        return float(covered(size, q, center_noise).mean())

    noise = math.sqrt(chdtri(1, 1 - level)) * math.hypot(center_noise, 1.0)
    return _least_at(share, level, math.hypot(float(np.quantile(size, level)), noise), 0.0)


def _least_end(signed: NDArray[np.float64], center_noise: float, level: float) -> float:
    """Return the least real q with mean P(w + s_c Z ≤ q + Z₁), ramp added, at the level."""
    deviation = math.hypot(center_noise, 1.0)

    def share(q: float) -> float:
        return float(ndtr((q - signed) / deviation).mean())

    return _least_at(share, level, float(np.quantile(signed, level)), -_CAP)


def _least_at(share: Callable[[float], float], level: float, guess: float, least: float) -> float:
    """Return the least q from `least` to the cap at which a share, with its ramp, is the level.

    To 2^-30 and 4 units in the last place, that is 2^-19 in all, of what floats make of the share.
    """

    def excess(q: float) -> float:
        return share(q) + _RAMP * q - level

    low = high = min(max(guess, least), _CAP)
    step = 1 + abs(guess) / 8
    if excess(low) < 0:
        while excess(high := min(low + step, _CAP)) < 0:  # at the cap the ramp alone is above it
            low, step = high, 4 * step
    else:
        while excess(low := max(high - step, least)) >= 0:
            if low == least:
                return least
            high, step = low, 4 * step
    # It needs a dozen steps. An error for want of more would tell of the data.
    return float(brentq(excess, low, high, xtol=2.0**-31, rtol=2.0**-50, maxiter=10_000))


def covered(size: NDArray[np.float64], q: float, center_noise: float) -> NDArray[np.float64]:
    """Return P(|w + s_c Z| ≤ q + Z₁) for each |w| in `size`, s_r being 1.

    The event is w + s_c Z − Z₁ ≤ q and −w − s_c Z − Z₁ ≤ q: a bivariate normal's probability, with
    deviations s = √(s_c² + 1) and correlation (1 − s_c²)/s², by Owen's T. Where the second is sure
    but for 1e-15, it is the first's.

    Examples
    --------
    >>> covered(np.array([0.0]), 196.0, 100.0).round(4)
    array([0.95])
    """
    square = center_noise**2 + 1
    rho = (1 - center_noise) * (1 + center_noise) / square
    root = 2 * center_noise / square  # √(1 − ρ²)
    h, k = ((q + sign * size) / math.sqrt(square) for sign in (-1, 1))
    joint: NDArray[np.float64] = ndtr(h)
    unsure = k < _SURE
    if unsure.any():
        # Owen's T takes the limit from there.
        h, k = (np.where(x == 0, 1e-300, x) for x in (h[unsure], k[unsure]))
        with np.errstate(over="ignore"):
            first = owens_t(h, (k / h - rho) / root)
            second = owens_t(k, (h / k - rho) / root)
        opposite = np.where((h < 0) != (k < 0), 0.5, 0.0)  # h·k may underflow
        joint[unsure] = (ndtr(h) + ndtr(k)) / 2 - first - second - opposite
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
