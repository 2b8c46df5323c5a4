"""The search for one end of a quantile's interval: what to ask, where, and what to believe.

`RankInversion` proves why its end is valid whatever is asked; here is what makes it narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import binom

from confidp.central.methods.rank_sketch import Line, Model, Sketch
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
    noise: float = field(init=False)  # the scale

    def __post_init__(self) -> None:
        """Keep the scale, which is exact arithmetic to work out."""
        object.__setattr__(self, "noise", self.mechanism.scale)


# The last scales as multiples of the finest, how often each is asked, and the margin. Found by a
# random search on a straight line of counts; validity doesn't depend on them.
_LAST = (
    (1.0, 2, 0.0), (1.0, 1, 0.3), (1.0, 1, 0.8), (1.4, 1, 1.5),
    (2.0, 1, 2.0), (2.8, 1, 2.5), (4.0, 2, 3.0),
)  # fmt: skip
_RATIO, _ASKS, _MARGIN = 2.0, 3, 5.0  # of the scales before those: to learn by, so no gambling
_CLEAR = 2.0  # standard deviations from the threshold at which a bisection takes its side
_TEACHES = 0.5  # a count is worth asking if what is known is vaguer than half its scale
_SURPRISE = 100.0  # squared standard deviations, at most, that one answer counts for
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
            log_safe += ask.count * log_ndtr((counts - t) / ask.noise + ask.margin)
        return left_out + float(-(weights * np.expm1(log_safe)).sum())

    widest = max(ask.noise for ask in asks)
    low, high = -60.0 * widest - n, float(n)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) <= miss else (low, middle)
    return low - 2.0**-20 - 1e-9 * n  # for the lattice's rounding of noise, and floats


def search(
    below: Callable[[int], int],
    asks: tuple[Ask, ...],
    t: float,
    sketch: Sketch,
    randomness: Randomness,
) -> tuple[int, Sketch]:
    """Return the largest point believed to have at most t records below it, and what was learnt.

    `below` is the private count of records below a grid integer. At the coarsest scale it bisects;
    from then on it asks where the expected rise of the end is largest, by the model that has
    foretold the answers better. A scale that would teach little is passed over.
    """
    low, first, last = 0, 0, sketch.top  # the end so far, and the bisection's bracket
    lead = 0.0  # of the line over the sketch: the logarithm of what they gave the answers
    places: list[tuple[Model, int]]
    for k, ask in enumerate(asks):
        for _ in range(ask.count):
            line, target = Line.through(sketch, t), t - ask.margin * ask.noise
            if k == 0:
                first, last = _halve(sketch, first, last, t)
                places = [(sketch, (first + last) // 2)] if last - first > 1 else []
            else:
                models: list[Model] = [sketch] if line is None or lead < 0 else [line, sketch]
                places = [(m, m.most_promising(low, target, ask.noise)) for m in models]
            x = next((x for m, x in places if low < x < sketch.top and _teaches(m, x, ask)), None)
            if x is None:
                break
            (exact,) = ask.mechanism.release([Fraction(below(x))], randomness)
            answer = float(exact)
            if line is not None:
                lead += _likelihood(line, x, answer, ask) - _likelihood(sketch, x, answer, ask)
            sketch = sketch.learn(x, answer, ask.noise)
            if exact <= target:
                low = x
    return low, sketch


def _teaches(model: Model, x: int, ask: Ask) -> bool:
    """Tell whether a count would teach something; one without a margin may move the end anyway."""
    return ask.margin == 0 or model.expect(x)[1] >= (_TEACHES * ask.noise) ** 2


def _likelihood(model: Model, x: int, answer: float, ask: Ask) -> float:
    """Return the log-density that the model gives an answer, less a constant."""
    expected, var = model.expect(x)
    var += ask.noise**2
    return -(math.log(var) + min((answer - expected) ** 2 / var, _SURPRISE)) / 2


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
