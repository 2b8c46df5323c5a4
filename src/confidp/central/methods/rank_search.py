"""The search for the ends of a quantile's interval: what to ask, where, and what to believe.

`RankInversion` proves why its ends are valid whatever is asked; here is what makes them narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom

from confidp.central.methods.noisy_counts import NoisyCounts, price
from confidp.central.methods.rank_sketch import Line, Model, Sketch, Steps
from confidp.privacy.guarantees import sqrt_down
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Ask:
    """Noisy counts at one scale, one for each end, all together: at most `times` times.

    One is believed to be under the threshold if it is so by `margin` of its scales. Scouts look for
    where the data are, and not for the threshold.
    """

    counts: NoisyCounts
    times: int
    margin: float
    scouts: bool = False

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
_SCOUTS_TEACH = 0.25  # a quarter for scouts: an unlucky answer of theirs would mislead all others
_COARSE_SHARE = 0.25  # of the budget, at most, for the coarsest scale
_COARSE_ASKS = 4  # at least at that scale, if no scouts went before
_SCOUTS_SCALE, _SCOUTS_SHARE = 1 / 12, 0.04  # of n, and of the budget at most
_SIDE = 1 / 3  # of the data lie on either side of what counts as their bulk
_CORE = 3.0  # times the width of the bulk, within which places are about evenly apart


@lru_cache(maxsize=64)  # of public settings
def choose_asks(n: int, q: float, budget: Fraction, cells: int, ends: int) -> tuple[Ask, ...]:
    """Return what may be asked, from coarse to fine, with Σ times·μ_k² ≤ `budget` in all.

    A coarsest scale of a sixth of the rarer side believes counts of 0 and of n, so that empty range
    costs nothing finer. Where that side is small, a bisection at its scale can't be afforded, and
    the range may be mostly empty: scouts look for the bulk of the data first, with noise of n/12.
    """
    precision = budget / price(ends)  # Σ times/σ² of a count that the budget buys
    coarsest = max(n * min(q, 1 - q) / 6, 1.0)
    bisection = (cells + 1).bit_length()  # the grid needs no more

    def affordable(share: float, scale: float) -> int:
        return min(bisection, math.floor(share * float(precision) * scale**2))

    sent = affordable(_SCOUTS_SHARE, n * _SCOUTS_SCALE)
    scouts = [(n * _SCOUTS_SCALE, sent, _MARGIN)] if sent else []
    least = min(bisection, 1 if scouts else _COARSE_ASKS)
    first = max(affordable(_COARSE_SHARE, coarsest), least)

    def ladder(finest: float) -> list[tuple[float, int, float]]:
        scales = [(finest * times, count, margin) for times, count, margin in _LAST]
        scale = scales[-1][0] * _RATIO
        while scale < coarsest / 1.5:
            scales.append((scale, _ASKS, _MARGIN))
            scale *= _RATIO
        scales = [s for s in scales if s[0] < coarsest or s[0] == finest]
        return [(max(coarsest, finest), first, _MARGIN), *reversed(scales)]

    def needed(finest: float) -> float:
        return sum(count / scale**2 for scale, count, _ in [*scouts, *ladder(finest)])

    low, high = 1e-9, 20 * math.sqrt(first / float(precision)) + coarsest
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle) <= precision else (middle, high)
    chosen = [*scouts, *ladder(high)]
    # Rounded so that the whole stays within the budget.
    wanted = sum(count / Fraction(scale) ** 2 for scale, count, _ in chosen)
    shrink = min(Fraction(1), precision / wanted) * price(ends)
    mechanisms = (NoisyCounts(sqrt_down(shrink / Fraction(s) ** 2), ends) for s, _, _ in chosen)
    return tuple(
        Ask(counts, times, margin, scouts=k < len(scouts))
        for k, (counts, (_, times, margin)) in enumerate(zip(mechanisms, chosen, strict=True))
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

    low, high = -60.0 * max(ask.noise for ask in asks) - n, float(n)
    t = high
    if missed(high) > miss:
        t = float(
            brentq(
                lambda t: missed(t) - miss, low, high, xtol=2.0**-30, rtol=2.0**-50, maxiter=10_000
            )
        )
    return t - 2.0**-20 - 1e-9 * n  # for the lattice's rounding of noise, and floats


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a search sees the grid's points 0, …, `top`: at the places 0, …, top.

    Points are evenly apart around the middle, and beyond `scale` ever closer to each other, as
    asinh((x − middle)/scale) is. Any rising scale has the same quantiles; but how far a tail may
    reach is a matter of how many times the width of the bulk, not of how far the bounds are.
    """

    top: int
    middle: float = 0.0
    scale: float = math.inf

    @classmethod
    def around(cls, sketch: Sketch) -> Axis:
        """Return the axis for the bulk of the data, as far as it is known."""
        low, high = (sketch.quantile(share * sketch.n) for share in (_SIDE, 1 - _SIDE))
        return cls(sketch.top, (low + high) / 2, max(_CORE * (high - low), 1.0))

    def point(self, place: int) -> int:
        """Return the point at a place: they rise together, from 0 to top."""
        if self.scale == math.inf or place in (0, self.top):
            return place
        first, last = self._asinh(0), self._asinh(self.top)
        x = self.middle + self.scale * math.sinh(first + (last - first) * place / self.top)
        return min(max(round(x), 1), self.top - 1)

    def place(self, point: int) -> int:
        """Return the place of a point, or one next to it."""
        if self.scale == math.inf or point in (0, self.top):
            return point
        first, last = self._asinh(0), self._asinh(self.top)
        share = (self._asinh(point) - first) / (last - first)
        return min(max(round(share * self.top), 1), self.top - 1)

    def reflected(self, move: Callable[[int], int], x: int) -> int:
        """Return what `point` or `place` is on reflected data."""
        return self.top - move(self.top - x)

    def _asinh(self, point: int) -> float:
        return math.asinh((point - self.middle) / self.scale)


def _by_places(sketch: Sketch, axis: Axis) -> Sketch:
    """Return what the same answers say by an axis's places."""
    moved = Sketch.blank(sketch.n, sketch.top)
    for x, answer, var in sketch.answers[len(moved.answers) :]:
        moved = moved.learn(axis.place(x), answer, math.sqrt(var))
    return moved


@dataclass(frozen=True, slots=True)
class View:
    """What is known, as one end sees it, by places: an upper end sees reflected data."""

    sketch: Sketch
    line: Line | None
    low: int  # the end so far


@dataclass(frozen=True, slots=True)
class End:
    """An end, and how far the search for it has come.

    It is the largest point believed to have at most `threshold` records below it. An upper end is
    that of reflected data. `low` is a point, whatever places the search goes by.
    """

    threshold: float
    upper: bool = False
    low: int = 0  # the end so far
    line_lead: float = 0.0  # over the sketch: the logarithm of what they gave the answers
    steps_lead: float = 0.0

    def view(self, sketch: Sketch, axis: Axis, ask: Ask) -> View:
        """Return what is known as the end sees it; scouts need no line."""
        own = sketch.reflected() if self.upper else sketch
        low = axis.reflected(axis.place, self.low) if self.upper else axis.place(self.low)
        return View(own, None if ask.scouts else Line.through(own, self.threshold), low)

    def point(self, view: View, ask: Ask, aims: Sequence[float]) -> int | None:
        """Return where to ask, None where nothing is worth asking at that scale.

        By bisection for one of the `aims`, which are counts; without any it asks where the expected
        rise of the end is largest, by the model that has foretold the answers best, or by the
        sketch where that one has nothing to ask.
        """
        sketch, least = view.sketch, 0 if ask.scouts else view.low
        vague = (_SCOUTS_TEACH if ask.scouts else _TEACHES) * ask.noise
        promising = (
            (model, model.most_promising(view.low, self._target(ask), ask.noise))
            for model in self._by_lead(view)
        )
        for model, x in ((sketch, _unclear(sketch, aim)) for aim in aims) if aims else promising:
            # Without a margin an answer may move the end, whatever it teaches.
            teaches = ask.margin == 0 or model.expect(x)[1] >= vague**2
            if least < x < sketch.top and teaches:
                return x
        return None

    def aims(self, ask: Ask, n: int, turn: int) -> Sequence[float]:
        """Return for which counts to bisect: scouts for both sides of the bulk, in turn."""
        if ask.scouts:
            sides = n * _SIDE, n * (1 - _SIDE)
            return sides[::-1] if turn % 2 else sides
        return (self.threshold,)

    def _by_lead(self, view: View) -> list[Model]:
        """Return the models that foretell better than the sketch, best first, and the sketch."""
        models: list[Model] = [view.sketch]
        if self.steps_lead > 0:
            models = [Steps(view.sketch), view.sketch]
        if view.line is not None and self.line_lead >= max(self.steps_lead, 0):
            models = [view.line, *models]
        return models

    def after(self, view: View, ask: Ask, x: int, axis: Axis, answer: Fraction) -> End:
        """Return the end after an answer: where it is, and how the models did.

        What scouts are told is no test of models, which will go by other places.
        """
        told = x, float(answer), ask.noise
        point = axis.reflected(axis.point, x) if self.upper else axis.point(x)
        moved = replace(self, low=max(point, self.low)) if told[1] <= self._target(ask) else self
        if ask.scouts:
            return moved
        plain = view.sketch.log_density(*told)
        steps = Steps(view.sketch).log_density(*told) - plain
        line = view.line.log_density(*told) - plain if view.line is not None else 0.0
        return replace(moved, line_lead=self.line_lead + line, steps_lead=self.steps_lead + steps)

    def _target(self, ask: Ask) -> float:
        """Return up to which answer a point is believed to lie below the end."""
        return self.threshold - ask.margin * ask.noise


def search(
    below: Callable[[int], int],
    ends: tuple[End, ...],
    asks: tuple[Ask, ...],
    sketch: Sketch,
    randomness: Randomness,
) -> tuple[tuple[End, ...], Callable[[float], int]]:
    """Return the ends as far as they were found, and at which point to expect a count of records.

    `below` is the private count of records below a grid integer. A round asks for one count for
    each end, together. Where an end has nothing to ask, another's count is taken twice and used
    once. After scouts it goes by places on an `Axis` instead of points.
    """
    n, top, axis = sketch.n, sketch.top, Axis(sketch.top)
    coarsest = next(ask for ask in asks if not ask.scouts)
    for ask in asks:
        if ask is coarsest and ask is not asks[0]:
            axis = Axis.around(sketch)
            sketch = _by_places(sketch, axis)
        for turn in range(ask.times):
            views = [end.view(sketch, axis, ask) for end in ends]
            bisecting = ask.scouts or ask is coarsest
            own = [
                end.point(view, ask, end.aims(ask, n, turn) if bisecting else ())
                for end, view in zip(ends, views, strict=True)
            ]
            places = [
                top - x if end.upper and x is not None else x
                for end, x in zip(ends, own, strict=True)
            ]
            asked = [place for place in places if place is not None]
            if not asked:
                break
            filled = [asked[0] if place is None else place for place in places]
            points = [axis.point(place) for place in filled]
            # By points, not by places, which may be rounded: privacy needs the order.
            rising = sorted(range(len(points)), key=points.__getitem__)
            released = ask.counts.release([below(points[i]) for i in rising], randomness)
            answers = [answer for _, answer in sorted(zip(rising, released, strict=True))]
            moved = []
            for end, view, x, place, answer in zip(ends, views, own, places, answers, strict=True):
                if x is None or place is None:
                    moved.append(end)
                    continue
                own_answer = n - answer if end.upper else answer
                moved.append(end.after(view, ask, x, axis, own_answer))
                sketch = sketch.learn(place, float(answer), ask.noise)
            ends = tuple(moved)
    return ends, lambda count: axis.point(round(sketch.quantile(count)))


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
