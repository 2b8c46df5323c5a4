"""CR-SS: confidence regions via smooth sensitivity (the paper, Algorithm 4), as published or not.

For statistics such as quantiles, whose worst-case sensitivity is large and whose sensitivity on
most data is small. Noise is added once to the center and once to a resampling quantile, each by
PTR-GDP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confidp.central.methods.cr_gs import PublishedPlan
from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.methods.noise_aware import check_alternative, half_samples, pivot_rate
from confidp.central.methods.noise_aware_smooth import NoiseAwareSmoothPlan
from confidp.central.methods.ptr_gdp import PTRGDP, beta_for, half_delta
from confidp.central.methods.rank_resampling import RankResamplingPlan
from confidp.central.pivots import Point, Units, quantile_distance
from confidp.central.resampling import Indices, Resampling, Sampling, check_settings
from confidp.central.statistics.quantile import Quantile
from confidp.central.statistics.statistic import (
    Records,
    SmoothFriendly,
    Statistic,
    resample_smooth,
)
from confidp.errors import InvalidType, choice, real
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.randomness import Randomness

_INFLATION = 0.5  # t of the noise-aware calibration: a median's interval changes little around it
_EQUAL = (1.0, 1.0, 1.0, 1.0)
_SHARES = {"noise-aware": (1.0, 1.0, 2.0, 2.0), "published": _EQUAL}


@dataclass(frozen=True, slots=True)
class CRSS:
    """Algorithm 4 (CR-SS): two calls of PTR-GDP, for the center and for the resampling quantile.

    With SS_β a β-smooth bound on the local sensitivity of θ, κ⋆ the multiplicity bound (1 without
    replacement) and Q the ⌈(1−α)B⌉-th smallest τ_m‖θ*_i − θ̂‖₂:

    - ``s(D) = max_i SS_β(D[S_i])·(e^{κ⋆β} − 1)/(e^β − 1) + SS_β(D)``;
    - center: PTR-GDP of θ̂ with β; scaled radius: PTR-GDP of Q with κ⋆β and τ_m s(D), clipped at 0;
    - each at (μ/√2, δ/2), with μ/2 for its bound and μ/2 for its value.

    Parameters
    ----------
    sampling, resample_size, failure_probability
        As for `CRGS`.
        m is n/2 by default for ``"noise-aware"``, and n/4 for its quantiles.
    beta
        The smoothness parameter, for the center and, times κ, for the radius. By default as
        published equation 6's β = (μ/2κ⋆)·min{1, 1/(4√ln(B/(δρ)))}; noise-aware, for each of the
        two the β that makes its bound e^½ of the smooth sensitivity on average, 1 at most.
    shares
        How μ² is divided among the center's bound, the center's value, the radius's bound and its
        value: four numbers above 0. By default 1 : 1 : 2 : 2 noise-aware, but equal for quantiles,
        and as published. δ is halved.
    calibration
        ``"published"``: Algorithm 4. ``"noise-aware"``: the same four releases at the same price in
        another order, with a radius that counts both noises (`NoiseAwareSmoothPlan`); in one
        dimension also one-sided. A quantile's resamples are then drawn as ranks, which takes a
        third of the noise or less (`RankResamplingPlan`).

    Notes
    -----
    It needs δ above 0: ``GDP(mu, delta)``, or ``ApproxDP``, half of whose δ it takes.

    **Privacy** (lemma 5.5, theorem 5.6). Fix the indices. D[S_i] and D′[S_i] differ in at most κ⋆
    records, so by telescoping over them θ*_i moves by at most SS_β(D[S_i])(1 + e^β + … +
    e^{(κ⋆−1)β}), and Q by at most τ_m s(D). In the same way s(D) ≤ e^{κ⋆β} s(D′): τ_m s is
    κ⋆β-smooth for Q. Two PTR-GDP calls compose (proposition 5.3), and ⊥ depends on the indices
    alone. ∎ The noise lattices' (d+3)·δ₀ is taken out of δ. Float errors enter the sensitivities as
    constants, which keep a bound smooth.

    **Coverage** is asymptotic, and as published doesn't count the privacy noise, nor the √(1 − m/n)
    by which resamples without replacement spread less.
    """

    sampling: str = Sampling.WITHOUT_REPLACEMENT
    resample_size: int | None = None
    failure_probability: float | None = None
    beta: float | None = None
    shares: tuple[float, float, float, float] | None = None
    calibration: str = "noise-aware"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        sampling, size = check_settings(self.sampling, self.resample_size, self.failure_probability)
        object.__setattr__(self, "sampling", sampling)
        object.__setattr__(self, "resample_size", size)
        if self.beta is not None:
            beta = real("beta", self.beta, "in (0, 100]", lambda x: 0 < x <= 100)
            object.__setattr__(self, "beta", beta)
        choice("calibration", self.calibration, _SHARES)
        if self.shares is not None:
            if not isinstance(self.shares, tuple | list) or len(self.shares) != 4:
                raise InvalidType("shares must be four numbers above 0")
            shares = tuple(real("shares", s, "above 0", lambda x: x > 0) for s in self.shares)
            object.__setattr__(self, "shares", shares)

    @property
    def uses_delta(self) -> bool:
        """Yes: PTR-GDP's bounds fall short with probability δ."""
        return True

    @property
    def one_sided(self) -> bool:
        """Whether it can make one-sided intervals, in one dimension."""
        return self.calibration == "noise-aware"

    def plan(
        self, statistic: Statistic, request: Request
    ) -> CRSSPlan | NoiseAwareSmoothPlan | RankResamplingPlan:
        """Choose m, κ⋆, β and the parts of the budget."""
        if not isinstance(statistic, SmoothFriendly):
            raise unsuitable("CR-SS", "a smooth sensitivity", statistic)
        n, dimension = request.n, len(statistic.origin)
        check_alternative(request.alternative, dimension)
        aware = self.calibration == "noise-aware"
        # A subclass may have sensitivities of its own.
        by_rank = statistic if aware and type(statistic) is Quantile else None
        size = self.resample_size
        if size is None and aware:
            size = max(n // 4, 1) if by_rank else half_samples(statistic, n)
        resampling = Resampling.choose(
            n, request.n_resamples, Sampling(self.sampling), size, self.failure_probability
        )
        kappa = 1 if by_rank else resampling.multiplicity
        delta = half_delta("CR-SS", request.mu, request.delta, dimension)
        shares = self.shares or (_EQUAL if by_rank else _SHARES[self.calibration])
        total = sum(map(Fraction, shares))
        mus = [sqrt_down(Fraction(request.mu) ** 2 * Fraction(s) / total) for s in shares]
        units = Units.below(statistic.rounding(n))
        if aware:
            betas = (min(1.0, beta_for(_INFLATION, mu, delta)) for mu in (mus[0], mus[2]))
            of_center, of_radius = (self.beta or beta for beta in betas)
            each = self.beta or of_radius / kappa
            center = PTRGDP(of_center, mus[0], mus[1], delta, dimension)
            radius = PTRGDP(kappa * each, mus[2], mus[3], delta)
            rate = pivot_rate(statistic, resampling)
            if by_rank:
                return RankResamplingPlan(request, resampling, center, radius, rate, by_rank)
            return NoiseAwareSmoothPlan(
                request, resampling, center, radius, rate, statistic, units, each
            )
        beta = self.beta or _published_beta(request, resampling)
        return CRSSPlan(
            statistic=statistic,
            request=request,
            resampling=resampling,
            units=units,
            rate=statistic.scale(resampling.size) / statistic.scale(n),
            beta=beta,
            center=PTRGDP(beta, mus[0], mus[1], delta, dimension),
            radius=PTRGDP(kappa * beta, mus[2], mus[3], delta),
        )


def _published_beta(request: Request, resampling: Resampling) -> float:
    """Return equation 6's β."""
    log_term = (
        math.log(request.n_resamples)
        - math.log(request.delta)
        - math.log(resampling.failure_probability)
    )
    slack = min(1.0, 1 / (4 * math.sqrt(log_term)))
    return request.mu / (2 * resampling.multiplicity) * slack


@dataclass(frozen=True, slots=True)
class CRSSPlan(PublishedPlan):
    """CR-SS with every public setting chosen."""

    statistic: SmoothFriendly
    beta: float
    center: PTRGDP
    radius: PTRGDP  # of the distance itself: Q/τ_m

    @property
    def cost(self) -> GDP:
        """(μ, δ), the lattices included."""
        return GDP(self.request.mu, (self.center.cost + self.radius.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-SS (published, {self.resampling.sampling.replace('_', ' ')})"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "n is large: coverage is asymptotic and doesn't count the privacy noise, so it falls "
            "short where that noise is not small beside the width",
            "the smooth sensitivity is small on data like these; else the interval is wide",
            "the statistic has a limit law at its rate: for a quantile, a density near it that "
            "isn't small, and no heavy ties",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; the noise scales come with the release."""
        return {**self.resampling.public, "beta": self.beta}

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Run Algorithm 4 on given index sets, none of which may exceed the multiplicity bound."""
        pivot = self.pivot(records, sets)
        center, center_bound = self.center.release(
            self.units.fractions(pivot.estimate), pivot.center_bound, randomness
        )
        (radius,), radius_bound = self.radius.release(
            [pivot.distance * self.units.step], pivot.radius_bound, randomness
        )
        public = {
            "center_noise": center_bound / self.center.mu_value,
            "radius_noise": radius_bound / self.radius.mu_value * self.rate,
        }
        return self.ball(center, radius, public)

    def pivot(self, records: Records, sets: Iterable[Indices]) -> SmoothPivot:
        """Return what is released, before any noise: **private**."""
        statistic, beta, points = self.statistic, self.beta, self.units.points
        resampled = resample_smooth(statistic, records, sets, beta)
        estimate, own = points(resampled.value), resampled.sensitivity
        # Constants: what computing and rounding can add to a move, of the value and of Q.
        dimension = self.center.dimension
        error_n = statistic.rounding(self.resampling.n) + self.units.error(dimension)
        error_m = statistic.rounding(self.resampling.size) + self.units.error(dimension)
        telescoped = math.expm1(self.resampling.multiplicity * beta) / math.expm1(beta)
        return SmoothPivot(
            estimate=estimate,
            distance=quantile_distance(
                points(resampled.values), estimate, self.request.confidence_level
            ),
            center_bound=own + 2 * float(error_n),
            radius_bound=resampled.largest_sensitivity * telescoped + own
            + 2 * float(error_n + error_m + self.units.step),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmoothPivot:
    """θ̂ and Q/τ_m in whole units, with their smooth sensitivities. Private."""

    estimate: Point
    distance: int
    center_bound: float
    radius_bound: float
