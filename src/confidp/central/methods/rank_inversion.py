"""Rank inversion: distribution-free intervals for quantiles, from noisy counts.

Not from the paper: a quantile's interval needs no resampling. Its lower end is a grid point of
which a noisy count says that few enough records lie below it; its upper end is the same on
reflected data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from confidp.central.methods.method import (
    Released,
    Request,
    bound_beside,
    box_around,
    unsuitable,
)
from confidp.central.methods.rank_search import Ask, End, choose_asks, search, threshold
from confidp.central.methods.rank_sketch import Sketch
from confidp.central.statistics.quantile import Quantile
from confidp.central.statistics.statistic import Records, Statistic
from confidp.privacy.guarantees import GDP, float_up
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class RankInversion:
    """Intervals for quantiles whose coverage holds for every n and every distribution.

    With θ the q-quantile of the population on the grid and N = #{X ≤ θ}, N is stochastically at
    least Binomial(n, q). If a grid point x lies above θ, then #{X < x} ≥ N. So a point with
    #{X < x} + noise ≤ t, for a t that N + noise is at most with a small probability only, is a
    valid lower end. A search asks for noisy counts to find a large such point; all of them that
    could wrongly be believed count towards that probability.

    Several quantiles are covered at once (a box): all of their ends are asked for together, and
    share the error evenly; a one-sided bound has all of it for its one end.

    Notes
    -----
    **How it asks.** First scouts look for the bulk of the data, at 4% of the budget or less; the
    rest of the search goes by a scale on which points far from the bulk are closer to each other.
    Then it asks coarsely, by bisection, and at finer and finer scales, each time where the answers
    so far promise the largest rise of the end (``rank_search.py``), by whichever of three models of
    the counts has foretold them best (``rank_sketch.py``). So bounds that are far too wide cost
    little (``benchmarks/choices.csv``), if there are many more records beyond the quantile than the
    noise of a count: n·min(q, 1 − q)·μ over 15 or so.

    **Privacy.** All ends ask for a count each, together: `NoisyCounts` proves a round μ_k-GDP, at
    less noise than counts one by one. What is asked next depends on earlier answers, but Σ μ_k²
    never exceeds μ²: the privacy filter (``docs/privacy_filter.md``) makes the whole μ-GDP. ∎ Every
    number released adds the lattice's δ₀. Counts are integers: there is no float error.

    **Coverage**, at least 1 − α for all e ends at once, exactly. Let asks at scale σ_k number at
    most c_k, and be believed to be under t at t − a_k σ_k (a is 0 at the finest, 2 to 5 at others).
    A lower end lies above θ only if some ask at a point above θ was believed:
    #{X < x} + σ_k Z ≤ t − a_k σ_k, hence N + σ_k Z ≤ t − a_k σ_k. Points are chosen by the answers
    of earlier rounds and each round's noise is fresh, so the probability is at most that of this
    for some of c_k independent Z at each k,

        1 − E Π_k Φ((N − t)/σ_k + a_k)^{c_k},  N ~ Binomial(n, q),

    which decreases in N; t is the largest at which it is at most α/e. The lattice's rounding of
    noise (2^-44) is allowed for by lowering t by 2^-20. The upper end is the lower end for −X and
    1 − q. Ties and atoms are covered: nothing was assumed of the distribution. Intervals are half a
    grid step wider at both ends, for the rounding to the grid. Where all ends are right, larger
    quantiles lie higher, so an end that another one beats gives way to it. ∎
    """

    @property
    def uses_delta(self) -> bool:
        """No: pure GDP but for the lattice."""
        return False

    @property
    def one_sided(self) -> bool:
        """Whether there are one-sided bounds: yes."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> RankInversionPlan:
        """Choose the noise scales, how often each is asked, and the thresholds."""
        if not isinstance(statistic, Quantile):
            raise unsuitable("RankInversion", "quantiles of one column", statistic)
        sides = {"greater": (False,), "less": (True,)}.get(request.alternative, (False, True))
        wanted = [(q, upper) for q in statistic.qs for upper in sides]
        rarest = min(statistic.qs, key=lambda q: min(q, 1 - q))
        budget, cells = Fraction(request.mu) ** 2, statistic.grid.cells
        asks = choose_asks(request.n, rarest, budget, cells, len(wanted))
        miss = (1 - request.confidence_level) / len(wanted)
        ends = tuple(
            End(threshold(request.n, 1 - q if upper else q, miss, asks), upper)
            for q, upper in wanted
        )
        return RankInversionPlan(statistic, request, ends, asks)


@dataclass(frozen=True, slots=True)
class RankInversionPlan:
    """Rank inversion with every public setting chosen."""

    statistic: Quantile
    request: Request
    ends: tuple[End, ...]  # of each quantile in turn: the lower and the upper, or one of them
    asks: tuple[Ask, ...]

    @property
    def cost(self) -> GDP:
        """μ, and the lattice's δ₀ for every number that may be released."""
        lattices = sum(ask.times * Fraction(ask.counts.cost.delta) for ask in self.asks)
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
        """n, and the scales of noise on each count, from coarse to fine.

        At the finest, noise has the share σ²/(σ² + nq(1 − q)) of the variance of a count.
        """
        n, finest = self.request.n, self.asks[-1].noise
        rarest = min(q * (1 - q) for q in self.statistic.qs)
        return {
            "n": n,
            "noise_share": finest**2 / (finest**2 + n * rarest),
            "count_noise": [ask.noise for ask in self.asks],
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Search for every end, and turn them into intervals."""
        grid, ordered = self.statistic.grid, np.sort(records)
        sketch = Sketch.blank(self.request.n, grid.cells + 1)
        ends, expected = search(
            lambda x: int(np.searchsorted(ordered, x, side="left")),
            self.ends, self.asks, sketch, randomness,
        )  # fmt: skip
        low = dict.fromkeys(self.statistic.qs, 0)
        high = dict.fromkeys(self.statistic.qs, grid.cells)
        each = len(ends) // len(self.statistic.qs)
        for end, q in zip(ends, (q for q in self.statistic.qs for _ in range(each)), strict=True):
            if end.upper:
                high[q] = grid.cells - end.low
            else:
                low[q] = end.low
        rising = list(accumulate((low[q] for q in self.statistic.qs), max))
        falling = list(accumulate((high[q] for q in reversed(self.statistic.qs)), min))[::-1]
        # The two may cross, if rarely.
        box = [(min(pair), max(pair)) for pair in zip(rising, falling, strict=True)]
        return self._released(box, expected)

    def _released(self, box: list[tuple[int, int]], expected: Callable[[float], int]) -> Released:
        grid, request = self.statistic.grid, self.request
        half = grid.step / 2
        if request.alternative == "two-sided" and len(box) == 1:
            ((low, high),) = box
            middle = grid.lower + grid.step * Fraction(low + high, 2)
            return Released((float(middle),), float_up(grid.step * Fraction(high - low + 1, 2)))
        # At a public bound there is nothing to widen for.
        lower, upper, step = grid.lower, grid.lower + grid.range, grid.step
        sides = [
            (max(lower, lower + step * low - half), min(upper, lower + step * high + half))
            for low, high in box
        ]
        estimates = [expected(q * request.n) for q in self.statistic.qs]
        center = [
            float(lower + step * Fraction(min(max(at, low), high)))
            for at, (low, high) in zip(estimates, box, strict=True)
        ]
        floats = [(float(a), float(b)) for a, b in sides]
        if request.alternative == "two-sided" or len(box) > 1:
            return box_around(center, floats)
        return bound_beside(center[0], floats[0], request.alternative)
