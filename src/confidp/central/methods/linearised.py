"""Linearised resampling: an M-estimator's region from resampled gradients at a private point.

Not from the paper: noise-aware CR-GS with the estimator replaced by one Newton step, so that a
resample costs a mean of gradients, and noise is scaled by the Hessian instead of by λ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import chdtri

from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.methods.newton_step import (
    Floats,
    NewtonStep,
    Step,
    Whole,
    budget,
    planned_shares,
    symmetric_root,
)
from confidp.central.resampling import Indices, Resampling, Sampling, resamples
from confidp.central.statistics.m_estimator import SLACK, Linearisable
from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidArgument, integer
from confidp.privacy.guarantees import GDP
from confidp.privacy.noise import GaussianMechanism, lattice_delta, to_float
from confidp.randomness import Randomness

_MOST_DRAWS, _NUMBERS = 256, 2**23  # draws of the noises for each resample; numbers in all


@dataclass(frozen=True, slots=True)
class Linearised:
    """A ball for an M-estimator, from half-sample gradients after a private Newton step.

    With μ² divided into four shares by a public rule (`planned_shares`):

    - θ̃₀, H̃ and the center θ̃₁: as in `PrivateSandwich`;
    - pivots w_i = c·H̃⁻¹(ḡ_S − ḡ), where ḡ_S and ḡ are mean gradients at θ̃₀ of m records and of
      all, and c = √(m/n)/√(1 − m/n);
    - radius Q + s_r Z₁ for Q = inf{q ≥ 0 : (1/B) Σ_i P(‖w_i + N^½Z‖ ≤ q + s_r Z₁) ≥ 1 − α}, N
      the public covariance of the privacy noise in the center.

    Parameters
    ----------
    resample_size
        m, from 1 to n − 1, drawn without replacement; n/2 by default, where noise is least.

    Notes
    -----
    **Privacy** (``docs/linearised.md``). Indices are fixed, and θ̃₀ and H̃ already public when pivots
    are formed. A record is in S or not, so ḡ_S − ḡ moves by at most 2G·max(1/m − 1/n, 1/n), each
    w_i by c‖H̃⁻¹‖ times that, and Q by no more than the w_i do (`NoiseAwarePlan`). Four Gaussian
    mechanisms compose to μ. ∎

    **Coverage** is asymptotic in n, as `PrivateSandwich`'s, which adds less noise: this one is for
    when the sample's own law is to be seen, not a normal's.
    """

    resample_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse a size that isn't a whole number of at least 1."""
        if self.resample_size is not None:
            size = integer("resample_size", self.resample_size, least=1)
            object.__setattr__(self, "resample_size", size)

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattices."""
        return False

    def plan(self, statistic: Statistic, request: Request) -> LinearisedPlan:
        """Choose m, shares and noise scales."""
        if not isinstance(statistic, Linearisable):
            need = "an M-estimator with bounded gradients and Hessians"
            raise unsuitable("Linearised", need, statistic)
        n, d = request.n, statistic.dimension
        if n < 2:
            raise InvalidArgument(f"data must have at least 2 rows to resample, not {n}")
        resampling = Resampling.choose(
            n, request.n_resamples, Sampling.WITHOUT_REPLACEMENT, self.resample_size or n // 2
        )
        quantile = float(chdtri(d, 1 - request.confidence_level))
        gradient = (2 * statistic.lipschitz / (n * request.mu)) ** 2
        other = gradient * max(1 - (d - 1) / quantile, 0.1)
        s_0, s_h, s_g, last = planned_shares(statistic, request, other)
        return LinearisedPlan(
            statistic=statistic,
            request=request,
            newton=NewtonStep.choose(statistic, request, (s_0, s_h, s_g)),
            resampling=resampling,
            radius_mu=budget(request.mu, last),
        )


@dataclass(frozen=True, slots=True)
class LinearisedPlan:
    """Linearised resampling with every public setting chosen but what H̃ gives."""

    statistic: Linearisable
    request: Request
    newton: NewtonStep
    resampling: Resampling
    radius_mu: float

    @property
    def cost(self) -> GDP:
        """μ, and the lattices' δ₀ for each number released."""
        radius = GDP(self.radius_mu, lattice_delta(self.radius_mu))
        return GDP(self.request.mu, (self.newton.cost + radius).delta)

    @property
    def name(self) -> str:
        """For people."""
        return "linearised resampling"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large enough for resampling to work, and the first private estimate close enough "
            "to the truth for one Newton step",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings, noise scales, and how μ² was divided; the radius noise comes with the rest."""
        newton = self.newton
        parts = (newton.start.mu, newton.hessian.mu, newton.gradient.mu, self.radius_mu)
        return {
            **self.resampling.public,
            **newton.public,
            "budget_shares": [round((mu / self.request.mu) ** 2, 4) for mu in parts],
        }

    @property
    def rate(self) -> float:
        """c, which takes a half-sample's error to one of n records."""
        n, m = self.resampling.n, self.resampling.size
        return math.sqrt(m / n) / math.sqrt(1 - m / n)

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw indices, take the step, and release the radius."""
        r = self.resampling
        sets = resamples(r.n, r.size, r.n_resamples, r.sampling, randomness.indices)
        return self.release_on(records, sets, randomness)

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Take the step, and release the radius for given index sets, each without repetitions."""
        step, gradients = self.newton.release(records, randomness)
        mechanism, nominal = self.radius_mechanism(step)
        radius = self.radius(step, self.pivots(gradients, sets), nominal)
        (noisy,) = mechanism.release([Fraction(radius)], randomness)
        return Released(
            tuple(step.center.tolist()),
            max(to_float(noisy), 0.0),
            {**step.public, "radius_noise": mechanism.scale},
        )

    def pivots(self, gradients: Whole, sets: Iterable[Indices]) -> Floats:
        """Return c·(ḡ_S − ḡ) for each index set, of shape (B, d). **Private**."""
        unit = float(self.newton.gradients.step)  # sums are exact whole numbers
        mean = gradients.sum(axis=0) * (unit / len(gradients))
        sums = np.array([gradients[indices].sum(axis=0) for indices in sets])
        pivots: Floats = (sums * (unit / self.resampling.size) - mean) * self.rate
        return pivots

    def pivot_sensitivity(self) -> Fraction:
        """Return the most that one record moves ḡ_S − ḡ, roundings included."""
        n, m = self.resampling.n, self.resampling.size
        mean = self.newton.gradients
        share = max(Fraction(1, m) - Fraction(1, n), Fraction(1, n))
        return 2 * mean.longest * share + 2 * mean.rounding

    def radius_mechanism(self, step: Step) -> tuple[GaussianMechanism, float]:
        """Return the radius's mechanism, and the scale s_r that Q is calibrated to."""
        rate = Fraction(self.rate) * Fraction(SLACK)
        sensitivity = rate * Fraction(step.inverse_norm) * self.pivot_sensitivity()
        nominal = to_float(sensitivity / Fraction(self.radius_mu))
        raised = sensitivity + 2 * Fraction(self.float_error(step) + 2.0**-40 * nominal)
        return GaussianMechanism(raised, self.radius_mu), nominal

    def float_error(self, step: Step) -> float:
        """Return a bound on the float error of any ‖w_i + N^½z‖, for entries |z| ≤ 8.

        The sums of d terms in a product and in a norm err by a relative (d + 8)·2^-52 of
        √d·(‖H̃⁻¹‖·2cG + 8√d·‖N^½‖), in Frobenius norms; the bound is several times that.
        """
        d = self.statistic.dimension
        reach = self.rate * float(np.linalg.norm(step.inverse)) * self.statistic.lipschitz
        return 2.0**-44 * d * d * (reach + float(np.linalg.norm(symmetric_root(step.noise))))

    def radius(self, step: Step, pivots: Floats, radius_noise: float) -> float:
        """Return Q: an order statistic of ‖w_i + N^½z‖ − s_r z₁ over fixed draws. **Private**.

        For each draw that moves by no more than w_i does.
        """
        count, d = pivots.shape
        draws = max(1, min(_MOST_DRAWS, _NUMBERS // (count * d)))
        rng = np.random.default_rng(20261130)  # public and fixed: a part of the method
        noise = rng.standard_normal((count, draws, d)) @ symmetric_root(step.noise).T
        moved = (pivots @ step.inverse)[:, None, :] + noise
        excess = np.sqrt((moved**2).sum(axis=2))
        excess -= radius_noise * rng.standard_normal((count, draws))
        rank = math.ceil(Fraction(repr(self.request.confidence_level)) * excess.size)
        return max(float(np.partition(excess.ravel(), rank - 1)[rank - 1]), 0.0)
