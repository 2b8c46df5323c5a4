"""Sound accounting for B noisy estimates on hidden resamples drawn with replacement.

A mechanism releases one Gaussian mechanism, μ_c-GDP, and B estimates on S_1, …, S_B, each of m
indices out of n with replacement, with normal noise of deviation Δ_m/r; the indices stay hidden.
`largest_ratio` finds the largest r for which all of it is proved to be (μ, δ)-GDP.

**One resample.** Let p_k be the Binomial(m, 1/n) chance that the differing record is in it k times,
η = 1 − p_0, δ_k(ε) the profile of kr-GDP, and E_γ(P, Q) = sup_A P(A) − γQ(A). For neighbours in
either order and ε′ ≥ 0, with e^{ε′} = 1 + η(e^ε − 1) and β = e^{ε′−ε},

    E_{e^{ε′}} ≤ H(ε′) := Σ_{k≥1} p_k δ_k(ε)          (Balle, Barthe and Gaboardi 2018, theorem 10).

*Proof.* Write the laws as (1−η)ω_0 + ηω_1 and (1−η)ω_0 + ηω_1′, with ω_0 given k = 0. Their E is
η·E_{e^ε}(ω_1, (1−β)ω_0 + βω_1′) identically (advanced joint convexity: (1−η)(e^{ε′} − 1) is what
ηe^ε(1−β) takes), at most η times the same mixture of E(ω_1, ω_0) and E(ω_1, ω_1′). Couple a
resample with k copies to one where they are other records, drawn at random, or the copies of the
other neighbour: the two differ in k records, so the normals' means by at most kΔ_m, and E is
jointly convex. ∎

**Composition.** Neighbours may swap, so H bounds both orders. Take its values at ε_j = jh and
connect them by straight lines in e^ε (Doroshenko and others 2022, "Connect the dots"): an upper
bound for every convex profile under H, and itself the profile of a pair of discrete laws on the
losses −Jh, …, Jh, ∞. As both orders share it, the mass at −jh is e^{−jh} times that at jh, and what
is left lies at 0. Dominating pairs compose (Zhu, Dong and Wang 2022, theorem 10): B times this
pair, and once that of μ_c-GDP, by Fourier transform.

**From the profile to GDP.** If E_{e^ε} ≤ δ_μ(ε) + δ for all ε ≥ 0 in both orders, T ≥ G_μ − δ.
*Proof.* For γ < 1, E_γ(Q, P) = 1 − γ + γE_{1/γ}(P, Q), so the same holds for every γ > 0, with γδ.
A test of P against Q with error rates (a, b) has E_γ(Q, P) ≥ 1 − b − γa, so
b ≥ sup_γ (1 − γa − E_γ(Q, P)) ≥ sup_γ (1 − γa − E_γ(N(μ, 1), N(0, 1))) − δ = G_μ(a) − δ, the last
because G_μ is convex and so the supremum of its tangents. ∎ (The converse holds too.)

**Roundings, all upwards.** The check on [ε_j, ε_{j+1}] takes the profile at the left end and δ_μ at
the right, where each is at its largest and least. Losses over Jh count as infinite: one step's
exactly, a sum's by Chernoff's bound; whatever wraps around adds. H is raised by a relative 1e-10.
Fourier transforms of length M are taken to be off by 8u·log₂M in ℓ2 norm (u = 2^-53; Higham 2002,
theorem 24.2, has under 7), which moves δ by at most (B+2)·8u·log₂M·√M: 2e-9 for B = 500, and that
is added; the masses' own rounding is a tenth of it.

**Noise lattices.** Each number is within δ₀ of a Gaussian mechanism given the indices, which raises
H by ηδ₀. A loss that is infinite with a chance of ηδ₀/(1−H) ≤ 2δ₀ pays for that, as long as η ≤ ⅔.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats
from scipy.signal import lfilter
from scipy.special import log_ndtr

from confidp.errors import InvalidArgument
from confidp.privacy.conversions import epsilon_of_gdp

Numbers = NDArray[np.float64]

LARGEST_MU = 256.0  # beyond it the grid of losses is too coarse to be of use
_POINTS = 2**15  # J
_SAFETY = 1e-10
_ORDERS = np.geomspace(0.01, 1.0, 12)  # tried in Chernoff's bound, in units of ½ + 6/μ


@lru_cache(maxsize=256)  # public numbers only
def largest_ratio(
    n: int, m: int, n_resamples: int, mu: float, center_mu: float, delta: float
) -> float:
    """Return the largest r, up to a relative 2^-8, for which all is (μ, δ)-GDP.

    Examples
    --------
    >>> largest_ratio(2000, 4, 500, 8.0, 8 / 2**0.5, 1e-6)
    3.7...
    """
    step = max(4 * epsilon_of_gdp(mu, delta / 1000), mu) / _POINTS
    epsilons: Numbers = step * np.arange(_POINTS + 1, dtype=np.float64)
    allowed = np.append(_gdp_profile(mu, epsilons, -_SAFETY)[1:], 0.0) + delta
    center = _Losses.below(_gdp_profile(center_mu, epsilons, _SAFETY), step)

    def holds(ratio: float) -> bool:
        one = _Losses.below(_resample_profile(n, m, ratio, epsilons), step)
        return bool(np.all(one.composed(n_resamples, center, mu) <= allowed))

    low, high = 0.0, center_mu
    while holds(high):
        low, high = high, 2 * high
    while high - low > high / 256:
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
        if high < center_mu / 1024:
            raise InvalidArgument(
                f"budget must have a larger delta than {delta:g}: with {n_resamples} resamples "
                f"numerical accounting can't vouch for it"
            )
    return low


def likely_square_sum(n: int, m: int, n_resamples: int, chance: float) -> int:
    """Return the least T² for which ΣK_b² > T² has at most that chance.

    K_b ~ Binomial(m, 1/n) is how often a given record is in the b-th resample.

    Examples
    --------
    >>> likely_square_sum(2000, 4, 500, 1e-9)
    14
    """
    most = 1024 + 4 * math.ceil(n_resamples * m / n)
    squares = np.zeros(most)
    times = np.arange(min(m + 1, math.isqrt(most - 1) + 1))
    squares[times**2] = stats.binom.pmf(times, m, 1 / n)
    total, power, left = np.eye(1, most)[0], squares, n_resamples
    while left:  # the sum's law, by repeated squaring: all terms are positive
        if left % 2:
            total = np.convolve(total, power)[:most]
        power, left = np.convolve(power, power)[:most], left // 2
    beyond = 1 - np.cumsum(total) + 1e-12
    enough = np.flatnonzero(beyond <= chance)
    return int(enough[0]) if len(enough) else (n_resamples * m) ** 2


def _gdp_profile(mu: float, epsilons: Numbers, margin: float) -> Numbers:
    """Return δ_μ(ε), raised by a relative `margin` of its larger term."""
    larger = np.exp(log_ndtr(mu / 2 - epsilons / mu))
    smaller = np.exp(epsilons + log_ndtr(-mu / 2 - epsilons / mu))
    profile: Numbers = np.clip(larger * (1 + margin) - smaller, 0.0, 1.0)
    return profile


def _resample_profile(n: int, m: int, ratio: float, epsilons: Numbers) -> Numbers:
    """Return H at `epsilons`, rounded up."""
    hit = -math.expm1(m * math.log1p(-1 / n))
    amplified = epsilons + np.log1p((1 - hit) / hit * -np.expm1(-epsilons))
    times = stats.binom(m, 1 / n)
    most = next(k for k in range(1, m + 1) if k == m or times.sf(k) < 1e-18)
    total = np.full_like(epsilons, times.sf(most))
    for k in range(1, most + 1):
        total += times.pmf(k) * _gdp_profile(k * ratio, amplified, _SAFETY)
    return np.minimum(total * (1 + _SAFETY), 1.0)


@dataclass(frozen=True, slots=True)
class _Losses:
    """A symmetric privacy-loss law: masses at 0, h, …, Jh and at infinity."""

    step: float
    masses: Numbers
    infinite: float

    @classmethod
    def below(cls, profile: Numbers, step: float) -> _Losses:
        """Connect the dots of a profile at 0, h, …, Jh."""
        falls = -np.diff(profile)
        masses = falls / -math.expm1(-step)
        masses[:-1] -= falls[1:] / math.expm1(step)
        masses = np.maximum(masses, 0.0)
        mirrored = masses * np.exp(-step * np.arange(1, len(profile)))
        infinite = float(profile[-1])
        rest = max(1 - infinite - float(np.sum(masses + mirrored)), 0.0)
        return cls(step, np.append(rest, masses), infinite)

    def composed(self, times: int, once: _Losses, mu: float) -> Numbers:
        """Return δ at 0, h, …, Jh for `times` such losses and one of `once`, rounded up."""
        count = len(self.masses)
        length = fft.next_fast_len(2 * count - 1, real=True)
        spectrum = fft.rfft(self._around(length)) ** times * fft.rfft(once._around(length))
        masses = np.maximum(fft.irfft(spectrum, length)[:count], 0.0)
        above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
        decay = math.exp(-self.step)
        weighted = lfilter([0.0, decay], [1.0, -decay], masses[::-1])[::-1]  # Σ e^{ε−loss}
        infinite = -math.expm1(times * math.log1p(-self.infinite) + math.log1p(-once.infinite))
        reach = (count - 1) * self.step
        beyond = min(
            times * self._log_moment(t) + once._log_moment(t) - t * reach
            for t in _ORDERS * (0.5 + 6 / mu)
        )
        rounding = (times + 2) * 2.0**-50 * math.log2(length) * math.sqrt(length)
        total: Numbers = above - weighted + infinite + math.exp(min(beyond, 0.0)) + rounding
        return total

    def _around(self, length: int) -> Numbers:
        """Return the masses on a circle, losses below 0 at its end."""
        circle = np.zeros(length)
        circle[: len(self.masses)] = self.masses
        losses = self.step * np.arange(1, len(self.masses))
        circle[length - len(losses) :] = (self.masses[1:] * np.exp(-losses))[::-1]
        return circle

    def _log_moment(self, t: float) -> float:
        """Return log E e^{t·loss} over the finite losses."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses)
        losses = self.step * np.arange(len(self.masses))
        terms = np.concatenate([logs + t * losses, logs[1:] - (1 + t) * losses[1:]])
        return float(terms.max() + np.log(np.sum(np.exp(terms - terms.max()))))
