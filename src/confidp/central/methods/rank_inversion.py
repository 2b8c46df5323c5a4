"""Rank inversion: a distribution-free interval for a quantile, from noisy counts.

Not from the paper: a quantile's interval needs no resampling. Its lower end is a grid point of
which a noisy count says that few enough records lie below it, found by bisection; its upper end is
the same on reflected data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import binom

from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.statistics.quantile import Quantile
from confidp.central.statistics.statistic import Records, Statistic
from confidp.privacy.guarantees import GDP, float_up, sqrt_down
from confidp.privacy.noise import GaussianMechanism, lattice_delta
from confidp.randomness import Randomness

# How a bisection asks. Chosen once by simulation on uniform data (n = 2000, μ from 0.25 to 1),
# where they are within a few percent of the best of their kind; validity doesn't depend on them.
_RATIO = 2  # between one scale and the next
_ASKS = 3  # at each scale between the first and the last
_LAST_ASKS = 6
_ACCEPT = 4.0  # a coarse count must be this many scales under the threshold to be believed
_REJECT = 1.5  # and this many over it: rejecting wrongly only widens the interval


@dataclass(frozen=True, slots=True)
class RankInversion:
    """An interval for a quantile whose coverage holds for every n and every distribution.

    With θ the q-quantile of the population on the grid and N = #{X ≤ θ}, N is stochastically at
    least Binomial(n, q). If a grid point x lies above θ, then #{X < x} ≥ N. So a point with
    #{X < x} + noise ≤ t, for a t that N + noise is at most with probability α/2 only, is a valid
    lower end. A bisection finds a large such point; of all its counts that could wrongly accept,
    the smallest noise matters, and t allows for it.

    Notes
    -----
    **How it asks.** A count is asked first with coarse noise (`_asks`); it is believed if it is
    far from t (4 scales under, or 1.5 over), and asked again at half the noise if not. From then on
    the finer scale is used, at most 3 times, and the finest at most 6 times, where the bisection
    ends.

    **Privacy.** A count has sensitivity 1, so at noise scale σ it is 1/σ-GDP. Which scale is asked
    next depends on earlier answers, but Σ 1/σ² never exceeds μ²/2 on either side: the privacy
    filter (``docs/privacy_filter.md``) makes each side μ/√2-GDP, and both μ-GDP. ∎ Every answer
    adds the lattice's δ₀. Counts are integers: there is no float error.

    **Coverage**, at least 1 − α, exactly. Let asks at scale σ_k number at most c_k, and be believed
    to be under t at t − a_k σ_k (a = 4, and 0 at the finest). The lower end lies above θ only if
    some ask at a point above θ was believed: #{X < x} + σ_k Z ≤ t − a_k σ_k, hence
    N + σ_k Z ≤ t − a_k σ_k. Points are chosen by earlier answers, but each Z is fresh, so the
    probability is at most that of this for some of c_k independent Z at each k,

        1 − E Π_k Φ((N − t)/σ_k + a_k)^{c_k},  N ~ Binomial(n, q),

    which decreases in N; t is the largest at which it is at most α/2. The lattice's rounding of
    noise (2^-44) is allowed for by lowering t by 2^-20. The upper end is the lower end for −X and
    1 − q. Ties and atoms are covered: nothing was assumed of the distribution. The interval is
    half a grid step wider at both ends, for the rounding to the grid.
    """

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    def plan(self, statistic: Statistic, request: Request) -> RankInversionPlan:
        """Choose the noise scales, how often each is asked, and the two thresholds."""
        if not isinstance(statistic, Quantile):
            raise unsuitable("RankInversion", "a quantile of one column", statistic)
        levels = (statistic.grid.cells + 1).bit_length()  # a bisection of the grid needs no more
        tail = request.n * min(statistic.q, 1 - statistic.q)
        asks = _asks(request.n, tail, request.mu**2 / 2, levels)
        # Rounded so that both sides together stay within μ².
        budget = Fraction(request.mu) ** 2 / 2
        wanted = sum(count / Fraction(scale) ** 2 for scale, count in asks)
        shrink = min(Fraction(1), budget / wanted)
        mechanisms = tuple(
            (GaussianMechanism(Fraction(1), sqrt_down(shrink / Fraction(scale) ** 2)), count)
            for scale, count in asks
        )
        miss = (1 - request.confidence_level) / 2
        q = float(statistic.q)
        return RankInversionPlan(
            statistic=statistic,
            request=request,
            asks=mechanisms,
            thresholds=(
                _threshold(request.n, q, miss, mechanisms),
                _threshold(request.n, 1 - q, miss, mechanisms),
            ),
        )


Asks = tuple[tuple[GaussianMechanism, int], ...]  # coarse to fine: a mechanism, and how often


@dataclass(frozen=True, slots=True)
class RankInversionPlan:
    """Rank inversion with every public setting chosen."""

    statistic: Quantile
    request: Request
    asks: Asks
    thresholds: tuple[float, float]  # for the lower end, and for the upper on reflected data

    @property
    def cost(self) -> GDP:
        """μ, and one lattice's δ₀ for every count that may be asked."""
        lattices = sum(2 * count * Fraction(lattice_delta(m.mu)) for m, count in self.asks)
        return GDP(self.request.mu, float_up(Fraction(lattices)))

    @property
    def name(self) -> str:
        """For people."""
        return "rank inversion"

    @property
    def assumes(self) -> tuple[str, ...]:
        """Nothing of the distribution."""
        return ("nothing of the distribution: coverage holds for every n, with ties and atoms too",)

    @property
    def public(self) -> Mapping[str, Any]:
        """n, and the scales of noise on counts."""
        return {
            "n": self.request.n,
            "count_noise": [mechanism.scale for mechanism, _ in self.asks],
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Bisect for both ends."""
        grid, ordered = self.statistic.grid, np.sort(records)
        low = self.lower_end(_counter(ordered), self.thresholds[0], randomness)
        reflected = _counter(grid.cells - ordered[::-1])
        high = grid.cells - self.lower_end(reflected, self.thresholds[1], randomness)
        low, high = min(low, high), max(low, high)  # they may cross, if rarely
        middle = grid.lower + grid.step * Fraction(low + high, 2)
        half = grid.step * Fraction(high - low + 1, 2)
        return Released((float(middle),), float_up(half))

    def lower_end(
        self, below: Callable[[int], int], threshold: float, randomness: Randomness
    ) -> int:
        """Return the grid integer that the bisection ends at, for a private count of {X < x}."""
        low, high = 0, self.statistic.grid.cells + 1
        left = [count for _, count in self.asks]
        finest = len(self.asks) - 1
        scale = 0
        while high - low > 1:
            x = (low + high) // 2
            while True:
                while scale < finest and left[scale] == 0:
                    scale += 1
                if left[scale] == 0:
                    return low
                left[scale] -= 1
                mechanism = self.asks[scale][0]
                (answer,) = mechanism.release([Fraction(below(x))], randomness)
                margin = 0.0 if scale == finest else mechanism.scale
                if answer <= threshold - _ACCEPT * margin:
                    low = x
                    break
                if answer > threshold + _REJECT * margin:
                    high = x
                    break
                scale += 1
        return low


def _counter(ordered: NDArray[np.int64]) -> Callable[[int], int]:
    return lambda x: int(np.searchsorted(ordered, x, side="left"))


@lru_cache(maxsize=64)  # of public settings
def _asks(n: int, tail: float, budget: float, levels: int) -> list[tuple[float, int]]:
    """Return scales from coarse to fine and how often each may be asked, Σ count/σ² ≤ `budget`.

    A coarse scale of tail/6 believes counts of 0 and n, so that empty range costs nothing finer;
    where the budget doesn't allow that at every level, a coarser one leaves more for the rest.
    """
    coarsest = tail / 6 if tail / 6 > math.sqrt(levels / budget) else n / 8

    def ladder(finest: float) -> list[tuple[float, int]]:
        scales = [finest]
        while scales[-1] * _RATIO < coarsest:
            scales.append(scales[-1] * _RATIO)
        scales = [max(coarsest, scales[-1]), *reversed(scales[:-1])]
        if len(scales) == 1:  # so little budget that there is but one scale
            return [(scales[0], levels)]
        between = [(scale, _ASKS) for scale in scales[1:-1]]
        return [(scales[0], levels), *between, (finest, _LAST_ASKS)]

    def price(finest: float) -> float:
        return sum(count / scale**2 for scale, count in ladder(finest))

    low, high = 1e-9, 2 * math.sqrt(levels / budget) + coarsest
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= budget else (middle, high)
    return ladder(high)


@lru_cache(maxsize=64)  # of public settings
def _threshold(n: int, q: float, miss: float, asks: Asks) -> float:
    """Return the largest t at which a point above the quantile is believed with `miss` at most."""
    # Twelve standard deviations hold all but 1e-30; what is left out counts as a miss.
    reach = 12 * math.sqrt(n * q * (1 - q)) + 40
    counts = np.arange(max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach)) + 1)
    weights = binom.pmf(counts, n, q)
    left_out = float(binom.cdf(counts[0] - 1, n, q))
    finest = len(asks) - 1

    def missed(t: float) -> float:
        log_safe = np.zeros(len(counts))
        for k, (mechanism, count) in enumerate(asks):
            margin = 0.0 if k == finest else _ACCEPT
            log_safe += count * log_ndtr((counts - t) / mechanism.scale + margin)
        return left_out + float(-(weights * np.expm1(log_safe)).sum())

    widest = max(mechanism.scale for mechanism, _ in asks)
    low, high = -60.0 * widest - n, float(n)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) <= miss else (low, middle)
    return low - 2.0**-20 - 1e-9 * n
