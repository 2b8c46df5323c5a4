"""The search for the ends of a quantile's interval: what to ask, where, and what to believe.

`RankInversion` proves why its ends are valid whatever is asked; here is what makes them narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import binom

from confidp.central.methods.noisy_counts import NoisyCounts, price
from confidp.central.methods.rank_sketch import Line, Model, Sketch, Steps
from confidp.privacy.guarantees import sqrt_down
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Ask:
    """Noisy counts at one scale, one for each end, all together: at most `times` times.

    One is believed to be under the threshold if it is so by `margin` of its scales.
    """

    counts: NoisyCounts
    times: int
    margin: float

    @property
    def noise(self) -> float:
        """The scale."""
        return self.counts.noise


# The last scales as multiples of the finest, how often each is asked, and the margin. Found by a
# random search on a straight line of counts; validity doesn't depend on them.
_LAST = (
    (1.0, 2, 0.0), (1.0, 1, 0.3), (1.0, 1, 0.8), (1.4, 1, 1.5),
    (2.0, 1, 2.0), (2.8, 1, 2.5), (4.0, 2, 3.0),
)  # fmt: skip
_RATIO, _ASKS, _MARGIN = 2.0, 3, 5.0  # of the scales before those: to learn by, so no gambling
_CLEAR = 2.0  # standard deviations from the threshold at which a bisection takes its side
_TEACHES = 0.5  # a count is worth asking if what is known is vaguer than half its scale
_COARSE_SHARE = 0.25  # of the budget, at most, for the coarsest scale


@lru_cache(maxsize=64)  # of public settings
def choose_asks(n: int, q: float, budget: Fraction, cells: int, ends: int) -> tuple[Ask, ...]:
    """Return what may be asked, from coarse to fine, with Σ times·μ_k² ≤ `budget` in all.

    A coarsest scale of a sixth of the rarer side believes counts of 0 and of n, so that empty range
    costs nothing finer.
    """
    precision = budget / price(ends)  # Σ times/σ² of a count that the budget buys
    coarsest = max(n * min(q, 1 - q) / 6, 1.0)
    bisection = (cells + 1).bit_length()  # the grid needs no more
    affordable = math.floor(_COARSE_SHARE * float(precision) * coarsest**2)
    first = min(bisection, max(affordable, 4))

    def ladder(finest: float) -> list[tuple[float, int, float]]:
        scales = [(finest * times, count, margin) for times, count, margin in _LAST]
        scale = scales[-1][0] * _RATIO
        while scale < coarsest / 1.5:
            scales.append((scale, _ASKS, _MARGIN))
            scale *= _RATIO
        scales = [s for s in scales if s[0] < coarsest or s[0] == finest]
        return [(max(coarsest, finest), first, _MARGIN), *reversed(scales)]

    def needed(finest: float) -> float:
        return sum(count / scale**2 for scale, count, _ in ladder(finest))

    low, high = 1e-9, 20 * math.sqrt(first / float(precision)) + coarsest
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle) <= precision else (middle, high)
    chosen = ladder(high)
    # Rounded so that the whole stays within the budget.
    wanted = sum(count / Fraction(scale) ** 2 for scale, count, _ in chosen)
    shrink = min(Fraction(1), precision / wanted) * price(ends)
    return tuple(
        Ask(NoisyCounts(sqrt_down(shrink / Fraction(scale) ** 2), ends), count, margin)
        for scale, count, margin in chosen
    )


@lru_cache(maxsize=64)  # of public settings
def threshold(n: int, q: float, miss: float, asks: tuple[Ask, ...]) -> float:
    """Return the largest t at which a point above the quantile is believed with `miss` at most.

    The chance is 1 − E Π Φ((N − t)/σ + a)^times over all asks, N ~ Binomial(n, q).
    """
    # Twelve standard deviations hold all but 1e-30; what is left out counts as a miss.
    reach = 12 * math.sqrt(n * q * (1 - q)) + 40
    counts = np.arange(max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach)) + 1)
    weights = binom.pmf(counts, n, q)
    left_out = float(binom.cdf(counts[0] - 1, n, q))

    def missed(t: float) -> float:
        log_safe = np.zeros(len(counts))
        for ask in asks:
            log_safe += ask.times * log_ndtr((counts - t) / ask.noise + ask.margin)
        return left_out + float(-(weights * np.expm1(log_safe)).sum())

    widest = max(ask.noise for ask in asks)
    low, high = -60.0 * widest - n, float(n)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) <= miss else (low, middle)
    return low - 2.0**-20 - 1e-9 * n  # for the lattice's rounding of noise, and floats


@dataclass(frozen=True, slots=True)
class View:
    """What is known, as one end sees it: an upper end sees reflected data."""

    sketch: Sketch
    line: Line | None


@dataclass(frozen=True, slots=True)
class End:
    """An end, and how far the search for it has come.

    It is the largest point believed to have at most `threshold` records below it. An upper end is
    that of reflected data.
    """

    threshold: float
    upper: bool = False
    low: int = 0  # the end so far
    line_lead: float = 0.0  # over the sketch: the logarithm of what they gave the answers
    steps_lead: float = 0.0

    def view(self, sketch: Sketch) -> View:
        """Return what is known as the end sees it."""
        own = sketch.reflected() if self.upper else sketch
        return View(own, Line.through(own, self.threshold))

    def point(self, view: View, ask: Ask, *, bisecting: bool) -> int | None:
        """Return where to ask, None where nothing is worth asking at that scale.

        At the coarsest scale it bisects; from then on it asks where the expected rise of the end is
        largest, by the model that has foretold the answers best, or by the sketch where that one
        has nothing to ask.
        """
        for model in [view.sketch] if bisecting else self._by_lead(view):
            if bisecting:
                x = _unclear(view.sketch, self.threshold)
            else:
                x = model.most_promising(self.low, self._target(ask), ask.noise)
            # Without a margin an answer may move the end, whatever it teaches.
            teaches = ask.margin == 0 or model.expect(x)[1] >= (_TEACHES * ask.noise) ** 2
            if self.low < x < view.sketch.top and teaches:
                return x
        return None

    def _by_lead(self, view: View) -> list[Model]:
        """Return the models that foretell better than the sketch, best first, and the sketch."""
        models: list[Model] = [view.sketch]
        if self.steps_lead > 0:
            models = [Steps(view.sketch), view.sketch]
        if view.line is not None and self.line_lead >= max(self.steps_lead, 0):
            models = [view.line, *models]
        return models

    def after(self, view: View, ask: Ask, x: int, answer: Fraction) -> End:
        """Return the end after an answer: where it is, and how the models did."""
        told = x, float(answer), ask.noise
        plain = view.sketch.log_density(*told)
        steps = Steps(view.sketch).log_density(*told) - plain
        line = view.line.log_density(*told) - plain if view.line is not None else 0.0
        return replace(
            self,
            low=x if told[1] <= self._target(ask) else self.low,
            line_lead=self.line_lead + line,
            steps_lead=self.steps_lead + steps,
        )

    def _target(self, ask: Ask) -> float:
        """Return up to which answer a point is believed to lie below the end."""
        return self.threshold - ask.margin * ask.noise


def search(
    below: Callable[[int], int],
    ends: tuple[End, ...],
    asks: tuple[Ask, ...],
    sketch: Sketch,
    randomness: Randomness,
) -> tuple[tuple[End, ...], Sketch]:
    """Return the ends as far as they were found, and what was learnt.

    `below` is the private count of records below a grid integer. A round asks for one count for
    each end, together. Where an end has nothing to ask, another's count is taken twice and used
    once.
    """
    n, top = sketch.n, sketch.top
    for k, ask in enumerate(asks):
        for _ in range(ask.times):
            views = [end.view(sketch) for end in ends]
            points = [
                end.point(view, ask, bisecting=k == 0)
                for end, view in zip(ends, views, strict=True)
            ]
            places = [
                top - x if end.upper and x is not None else x
                for end, x in zip(ends, points, strict=True)
            ]
            asked = [place for place in places if place is not None]
            if not asked:
                break
            filled = [asked[0] if place is None else place for place in places]
            rising = sorted(range(len(filled)), key=filled.__getitem__)
            released = ask.counts.release([below(filled[i]) for i in rising], randomness)
            answers = [answer for _, answer in sorted(zip(rising, released, strict=True))]
            moved = []
            for end, view, x, place, answer in zip(
                ends, views, points, places, answers, strict=True
            ):
                if x is None or place is None:
                    moved.append(end)
                    continue
                moved.append(end.after(view, ask, x, n - answer if end.upper else answer))
                sketch = sketch.learn(place, float(answer), ask.noise)
            ends = tuple(moved)
    return ends, sketch


def _unclear(sketch: Sketch, t: float) -> int:
    """Return the first point of a bisection at which the answers so far aren't clear."""
    first, last = 0, sketch.top
    while last - first > 1:
        middle = (first + last) // 2
        expected, var = sketch.expect(middle)
        if abs(expected - t) <= _CLEAR * math.sqrt(var):
            return middle
        first, last = (middle, last) if expected < t else (first, middle)
    return first
