"""CR-SS for quantiles, resampled by rank: no resample is drawn, and less noise is needed.

Not from the paper. A resample's quantile is one of the data's own order statistics, at a rank that
depends on no data. So ranks are drawn instead of resamples, and what one record can move is a gap
of all n records, not of a resample's m. Proofs in full: ``docs/noise_aware.md``, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.method import Released
from confidp.central.methods.noise_aware_smooth import SmoothPivots, SmoothPlan, release_with_bounds
from confidp.central.resampling import Resampling, Sampling
from confidp.central.statistics.quantile import Quantile
from confidp.central.statistics.statistic import Records
from confidp.randomness import Randomness

Ranks = NDArray[np.int64]  # (B, d), from 1 to n: a row is a resample, a column a quantile


def draw_ranks(resampling: Resampling, at: Sequence[int], rng: np.random.Generator) -> Ranks:
    """Return the ranks, among all n records, of the `at`-th smallest of m drawn ones; B times.

    Give every record a uniform number and put them in order. With replacement m numbers are drawn,
    and number U falls on record ⌈nU⌉. Without, m of n numbers are the set's: its h-th smallest has
    h − 1 of the set's before it, and as many others as lie below U. U_(h) for several h has
    Dirichlet gaps.

    Examples
    --------
    >>> halves = Resampling.choose(1000, 5, Sampling.WITHOUT_REPLACEMENT, size=500)
    >>> draw_ranks(halves, [250], np.random.default_rng(0)).ravel().tolist()
    [493, 498, 487, 502, 489]
    """
    n, m, b = resampling.n, resampling.size, resampling.n_resamples
    gaps = rng.standard_gamma(np.diff([0, *at, m + 1]), (b, len(at) + 1))
    below = np.cumsum(gaps, axis=1)
    uniforms = below[:, :-1] / below[:, -1:]
    if resampling.sampling is Sampling.WITH_REPLACEMENT:
        ranks = np.ceil(n * uniforms).astype(np.int64)
    else:
        ranks, others, before = np.empty((b, len(at)), np.int64), np.zeros(b, np.int64), 0.0
        for column, (h, u) in enumerate(zip(at, uniforms.T, strict=True)):
            share = np.clip((u - before) / np.maximum(1 - before, 1e-300), 0, 1)
            others += rng.binomial(n - m - others, share)
            ranks[:, column], before = h + others, u
    return np.clip(ranks, 1, n)  # a float of 0 would be rank 0


@dataclass(frozen=True, slots=True)
class RankResamplingPlan(SmoothPlan):
    """Noise-aware CR-SS for quantiles with every public setting chosen.

    Pivots are those of `NoiseAwareSmoothPlan`, w_i = c(θ*_i − θ̂), of the same law: θ*_i = x_(R_i)
    and θ̂ = x_(h), or vectors of them. With SS_β^(r) the smallest β-smooth bound on how far x_(r)
    of all n records moves (`Quantile`), S_c = SS_{β_c}^(h) and

        S_r = c·max_i ‖(max{SS_β^(R_ij), SS_β^(h_j)})_j‖₂.

    Notes
    -----
    **Privacy.** Fix the ranks: the guarantee holds for any, and they depend on no data, so nobody
    need keep them secret. A record that becomes larger moves every order statistic up, x_(r) to
    x_(r+1) at most; one that becomes smaller moves every one down. So x_(R) and x_(h) move in the
    same direction, and their difference by no more than the one that moves more: each w_ij by at
    most c·max{SS^(R_ij), SS^(h_j)}. Maxima and norms of β-smooth bounds are β-smooth. That is what
    `release_with_bounds` asks for. ∎ No record counts twice, so there is no κ.

    **Noise.** Resamples as sets have S_r = c(κ gaps of m records + one of n) instead. And c is
    √(m/(n − m)), while S_r hardly depends on m: a smaller m needs less noise, but looks at a wider
    part of the distribution. m is n/4 by default.

    **Floats.** Order statistics are whole steps of the grid, so θ̂ is exact, and pivots are right to
    a relative 2^-52, for which Q's own error allows (``docs/noise_aware.md``, section 6). Both
    bounds get a small constant, which keeps them smooth: on equal records they underflow to 0.
    """

    statistic: Quantile

    @property
    def name(self) -> str:
        """For people."""
        return f"CR-SS (noise-aware, {self.resampling.sampling.replace('_', ' ')}, by rank)"

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; the noise scales come with the release."""
        return {
            **self.resampling.public,
            "multiplicity_bound": 1,
            "failure_probability": None,
            "beta": self.radius.beta,
            "counts_noise": True,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw ranks, look them up, and release."""
        at = self.statistic.ranks(self.resampling.size)
        ranks = draw_ranks(self.resampling, at, randomness.indices)
        return self.release_at(records, ranks, randomness)

    def release_at(self, records: Records, ranks: Ranks, randomness: Randomness) -> Released:
        """Release for given ranks."""
        private = self.pivots(records, ranks)
        return release_with_bounds(
            private, self.center, self.radius, self.statistic, self.request, randomness
        )

    def pivots(self, records: Records, ranks: Ranks) -> SmoothPivots:
        """Return what is released, before any noise: **private**."""
        from confidp.central import kernels

        own = np.array(self.statistic.ranks(self.resampling.n))
        order = self.statistic.in_order(records)
        step = float(self.statistic.grid.step)
        scale, least = step * self.rate, float(self.statistic.rounding(self.resampling.n))
        center = kernels.largest_smooth(order, own[None][:0], own, self.center.beta)
        radius = kernels.largest_smooth(order, ranks, own, self.radius.beta)
        return SmoothPivots(
            estimate=[int(x) * self.statistic.grid.step for x in order[own]],
            pivots=(order[ranks] - order[own]).astype(np.float64) * scale,
            # A constant keeps a bound smooth, and one that underflows above 0.
            center_bound=center * step + least,
            radius_bound=radius * scale + self.rate * least,
        )
