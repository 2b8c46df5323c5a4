"""The search for one end of a quantile's interval: what to ask, where, and what to believe.

`RankInversion` proves why its end is valid whatever is asked; here is what makes it narrow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from confidp.privacy.guarantees import sqrt_down
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Ask:
    """Noisy counts at one scale: at most `count` of them.

    One is believed to be under the threshold if it is so by `margin` of its scales.
    """

    mechanism: GaussianMechanism
    count: int
    margin: float


# The last scales as multiples of the finest, how often each is asked, and the margin. Found by a
# random search on a straight line of counts; validity doesn't depend on them.
_LAST = (
    (1.0, 2, 0.0), (1.0, 1, 0.3), (1.0, 1, 0.8), (1.4, 1, 1.5),
    (2.0, 1, 2.0), (2.8, 1, 2.5), (4.0, 2, 3.0),
)  # fmt: skip
_RATIO, _ASKS, _MARGIN = 2.0, 3, 4.0  # of the scales before those
_CLEAR = 2.0  # standard deviations from the threshold at which a bisection takes its side
_TEACHES = 0.5  # a count is worth asking if what is known is vaguer than half its scale
_LEAST_CHANCE = 0.25  # of being believed: no gambling on far points
_COARSE_SHARE = 0.25  # of the budget, at most, for the coarsest scale


@lru_cache(maxsize=64)  # of public settings
def choose_asks(n: int, q: float, budget: Fraction, cells: int) -> tuple[Ask, ...]:
    """Return what may be asked, from coarse to fine, with Σ count/σ² ≤ `budget` in all.

    A coarsest scale of a sixth of the rarer side believes counts of 0 and of n, so that empty range
    costs nothing finer.
    """
    coarsest = max(n * min(q, 1 - q) / 6, 1.0)
    bisection = (cells + 1).bit_length()  # the grid needs no more
    affordable = math.floor(_COARSE_SHARE * float(budget) * coarsest**2)
    first = min(bisection, max(affordable, 4))

    def ladder(finest: float) -> list[tuple[float, int, float]]:
        scales = [(finest * times, count, margin) for times, count, margin in _LAST]
        scale = scales[-1][0] * _RATIO
        while scale < coarsest / 1.5:
            scales.append((scale, _ASKS, _MARGIN))
            scale *= _RATIO
        scales = [s for s in scales if s[0] < coarsest or s[0] == finest]
        return [(max(coarsest, finest), first, _MARGIN), *reversed(scales)]

    def price(finest: float) -> float:
        return sum(count / scale**2 for scale, count, _ in ladder(finest))

    low, high = 1e-9, 20 * math.sqrt(first / float(budget)) + coarsest
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= budget else (middle, high)
    chosen = ladder(high)
    # Rounded so that the whole stays within the budget.
    wanted = sum(count / Fraction(scale) ** 2 for scale, count, _ in chosen)
    shrink = min(Fraction(1), budget / wanted)
    return tuple(
        Ask(GaussianMechanism(Fraction(1), sqrt_down(shrink / Fraction(scale) ** 2)), count, margin)
        for scale, count, margin in chosen
    )


@lru_cache(maxsize=64)  # of public settings
def threshold(n: int, q: float, miss: float, asks: tuple[Ask, ...]) -> float:
    """Return the largest t at which a point above the quantile is believed with `miss` at most.

    The chance is 1 − E Π Φ((N − t)/σ + a)^count over all asks, N ~ Binomial(n, q).
    """
    # Twelve standard deviations hold all but 1e-30; what is left out counts as a miss.
    reach = 12 * math.sqrt(n * q * (1 - q)) + 40
    counts = np.arange(max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach)) + 1)
    weights = binom.pmf(counts, n, q)
    left_out = float(binom.cdf(counts[0] - 1, n, q))

    def missed(t: float) -> float:
        log_safe = np.zeros(len(counts))
        for ask in asks:
            log_safe += ask.count * log_ndtr((counts - t) / ask.mechanism.scale + ask.margin)
        return left_out + float(-(weights * np.expm1(log_safe)).sum())

    widest = max(ask.mechanism.scale for ask in asks)
    low, high = -60.0 * widest - n, float(n)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) <= miss else (low, middle)
    return low - 2.0**-20 - 1e-9 * n  # for the lattice's rounding of noise, and floats


@dataclass(frozen=True, slots=True)
class Sketch:
    """What the answers so far say of the counts C(x) = #{X < x}: post-processing, so public.

    Points in order, each with an estimate of its count and that estimate's variance; between them
    counts are taken to rise evenly, more or less.
    """

    n: int
    points: tuple[tuple[int, float, float], ...]

    @classmethod
    def blank(cls, n: int, top: int) -> Sketch:
        """Return what is known beforehand: C(0) = 0 and C(top) = n."""
        return cls(n, ((0, 0.0, 0.0), (top, float(n), 0.0)))

    def reflected(self) -> Sketch:
        """Return the same of top − X, whose records below x are those of X at or above top − x."""
        top = self.points[-1][0]
        turned = ((top - x, self.n - count, var) for x, count, var in reversed(self.points))
        return Sketch(self.n, tuple(turned))

    def expect(self, x: float) -> tuple[float, float]:
        """Return the expected C(x) and its variance."""
        i = bisect_right(self.points, x, key=lambda point: point[0]) - 1
        i = min(i, len(self.points) - 2)
        (left, below, var), (right, above, other) = self.points[i : i + 2]
        u = (x - left) / (right - left)
        rise = max(above - below, 0.0)
        return below + rise * u, (1 - u) ** 2 * var + u**2 * other + self.strays(rise, u)

    def strays(self, rise: Any, u: Any) -> Any:
        """Return the variance of C around the straight line, u of the way through a rise of D.

        As a smooth curve it leaves the line by 1.5·√(D/n)·D·u(1 − u), more or less, and by chance
        with variance D·u(1 − u), as a binomial does. Floats or arrays.
        """
        middle = u * (1 - u)
        return rise * middle + (1.5 * rise * middle) ** 2 * rise / self.n

    def learn(self, x: int, answer: float, noise: float) -> Sketch:
        """Return the sketch after a noisy count: combined with what was expected at its point.

        Vaguer points that can't be told apart from the new one are dropped: it holds what they
        taught, and a slope between the two would be noise.
        """
        expected, var = self.expect(x)
        gain = var / (var + noise**2)
        count = min(max(expected + gain * (answer - expected), 0.0), float(self.n))
        var *= noise**2 / (var + noise**2)
        kept = [
            (at, c, v)
            for at, c, v in self.points
            if at != x and (v <= var or (c - count) * (1 if at > x else -1) >= 3 * math.sqrt(v))
        ]
        return Sketch(self.n, tuple(sorted([*kept, (x, count, var)])))

    def quantile(self, rank: float) -> float:
        """Return the x at which the expected count reaches `rank`."""
        at, counts, _ = zip(*self.points, strict=True)
        rising = np.maximum.accumulate(counts)
        return float(np.interp(rank, rising, at))


def search(
    below: Callable[[int], int],
    asks: tuple[Ask, ...],
    t: float,
    sketch: Sketch,
    randomness: Randomness,
) -> tuple[int, Sketch]:
    """Return the largest point believed to have at most t records below it, and what was learnt.

    `below` is the private count of records below a grid integer. At the coarsest scale it bisects;
    from then on it asks where the expected rise of the end is largest: the chance of being
    believed, times how far up. A scale that would teach little is passed over.
    """
    top = sketch.points[-1][0]
    low, first, last = 0, 0, top  # the end so far, and the bisection's bracket
    for k, ask in enumerate(asks):
        noise = ask.mechanism.scale
        for _ in range(ask.count):
            if k == 0:
                first, last = _halve(sketch, first, last, t)
            x = (first + last) // 2 if k == 0 else _most_promising(sketch, low, t, ask)
            if not low < x < top or (k == 0 and x == first):
                break
            if ask.margin > 0 and sketch.expect(x)[1] < (_TEACHES * noise) ** 2:
                break
            (exact,) = ask.mechanism.release([Fraction(below(x))], randomness)
            sketch = sketch.learn(x, float(exact), noise)
            if exact <= t - ask.margin * noise:
                low = x
    return low, sketch


def _halve(sketch: Sketch, first: int, last: int, t: float) -> tuple[int, int]:
    """Halve the bracket as long as the answers so far are clear about its middle.

    Where they aren't, the middle is asked, again if need be.
    """
    while last - first > 1:
        middle = (first + last) // 2
        expected, var = sketch.expect(middle)
        if abs(expected - t) <= _CLEAR * math.sqrt(var):
            break
        first, last = (middle, last) if expected < t else (first, middle)
    return first, last


_FRACTIONS = np.linspace(0, 1, 34)[1:-1]


def _most_promising(sketch: Sketch, low: int, t: float, ask: Ask) -> int:
    """Return the point above `low` with the largest expected rise at that ask."""
    at, counts, variances = np.array(sketch.points, dtype=np.float64).T
    first = int(np.searchsorted(at, low, side="right")) - 1  # the segment that low lies in
    left, right = at[first:-1, None], at[first + 1 :, None]
    start = np.maximum(left, low)
    x = start + (right - start) * _FRACTIONS
    u = (x - left) / (right - left)
    rise = np.maximum(np.diff(counts[first:]), 0.0)[:, None]
    expected = counts[first:-1, None] + rise * u
    var = (1 - u) ** 2 * variances[first:-1, None] + u**2 * variances[first + 1 :, None]
    var += sketch.strays(rise, u)
    noise = ask.mechanism.scale
    chance = ndtr((t - ask.margin * noise - expected) / np.sqrt(var + noise**2))
    chance[chance < min(_LEAST_CHANCE, chance.max())] = 0.0
    return round(float(x.flat[int(np.argmax(chance * (x - low)))]))
