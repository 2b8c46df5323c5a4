"""The smooth sensitivity of a U-statistic, and the product kernel, which has it in closed form.

Let h be a symmetric kernel of order r, P_i(x) the average of h(x, x_J) over all J of r − 1 records
other than i, and

    A(D) = (r/n) · max_i sup_{x,x′} |P_i(x′) − P_i(x)|,
    Λ    = (r/n) · (r−1)/(n−1) · sup |h(x′, y, w) − h(x, y, w) − h(x′, y′, w) + h(x, y′, w)|,
    GS   = (r/n) · sup |h(x′, y, w) − h(x, y, w)|,

the suprema over single records x, x′, y, y′ and over r − 2 of them in w.

**Theorem.** SS_β(D) = max_{k≥0} e^{−βk} min{GS, A(D) + kΛ} is a β-smooth upper bound on the local
sensitivity of U.

**Proof.** A share r/n of all tuples holds record i, so replacing x_i by x′ changes U by
(r/n)(P_i(x′) − P_i(x_i)): at most A(D), and at most GS as an average of such differences. k = 0
gives min{GS, A(D)} ≤ SS_β(D). Now replace record k by z, from D to D′. For i ≠ k a share
(r−1)/(n−1) of all J holds k, and there h(x′, x_J) − h(x, x_J) moves by no more than the supremum in
Λ; for i = k nothing moves. So A(D) ≤ A(D′) + Λ. With f_k = min{GS, A + kΛ} this says
f_k(D) ≤ f_{k+1}(D′), whence
SS_β(D) = max_k e^{−βk} f_k(D) ≤ e^β max_k e^{−β(k+1)} f_{k+1}(D′) ≤ e^β SS_β(D′). ∎

For a degenerate kernel A is of order n^{−3/2} on typical data, and GS of order 1/n. A maximum over
k ≤ k⋆ plus a constant isn't smooth. The constants of the paper's appendix H aren't used: they
contradict one another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from confidp.central.resampling import IndexSets
from confidp.central.statistics.exact import exact_dot, power_sums
from confidp.central.statistics.mean import (
    PUBLIC_BOUNDS,
    Moments,
    resample_by_moments,
    resampled_sums,
)
from confidp.central.statistics.quantile import resampled_ranks
from confidp.central.statistics.statistic import Resampled, ResampledSmooth
from confidp.central.statistics.u_pairs import (
    NOT_DEGENERATE,
    PairStatistic,
    check_size,
)
from confidp.errors import InvalidType, real

_UP = 1 + 2.0**-43  # the float error of `smooth_bound` is a relative 2^-45 at most


def smooth_bound(at_zero: Fraction, slope: Fraction, cap: Fraction, beta: float) -> float:
    """Return max_{k≥0} e^{−βk} min{cap, at_zero + k·slope}, rounded up by at most 2^-42 of it.

    The function of a real k is log-concave: it rises to where the bracket meets the cap or its
    slope is β times itself, whichever comes first, and falls from there. So the best whole k is
    next to that point.

    Examples
    --------
    >>> smooth_bound(Fraction(0), Fraction(1), Fraction(100), beta=0.1)  # at k = 10
    3.678794411...
    """
    beta = real("beta", beta, "in (0, 100]", lambda x: 0 < x <= 100)
    if at_zero >= cap:
        return float(cap) * _UP
    turn = min((cap - at_zero) / slope, 1 / Fraction(beta) - at_zero / slope)
    below = math.floor(max(turn, Fraction(0)))
    return _UP * max(
        float(min(cap, at_zero + k * slope)) * math.exp(-beta * k) for k in (below, below + 1)
    )


@dataclass(frozen=True, slots=True)
class ProductKernel(PairStatistic):
    """The mean of x·y over pairs of records, which estimates (E X)².

    Parameters
    ----------
    bounds
        ``(lower, upper)``, from public knowledge.
    resolution
        The data's public step; by default 2^-30 of the range.
    degenerate
        Whether it is **known** that E X = 0, as of residuals or contrasts. Then the error is of
        order 1/n, and so is the interval: if E X isn't 0 after all, it covers far too rarely.

    Notes
    -----
    On [a, b], with R = b − a and S = Σx: U = (S² − Σx²)/(n(n − 1)). In the terms of the module's
    theorem P_i(x) = x(S − x_i)/(n − 1), and the two suprema over h are R² and R·max(|a|, |b|), so

        A = 2R·max(|S − x_min|, |S − x_max|)/(n(n−1)),  Λ = 2R²/(n(n−1)),  GS = 2R·max(|a|, |b|)/n.

    GS is attained: n − 1 records at the bound of larger size, and one that moves across.

    Examples
    --------
    >>> product = ProductKernel(bounds=(-2, 2), resolution=1, degenerate=True)
    >>> records = product.encode(np.array([[-1.0], [0.0], [2.0]]))
    >>> product.value(records)  # (1 − 5)/(3·2)
    array([-0.66666667])
    >>> product.sensitivity(3)
    Fraction(16, 3)
    >>> product.smooth_sensitivity(records, beta=2.0)  # k = 0: 8·2/(3·2)
    2.66666666...
    """

    degenerate: bool = False

    name: ClassVar[str] = "product kernel"

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        PairStatistic.__post_init__(self)
        check_degenerate(self.degenerate)

    @property
    def reach(self) -> Fraction:
        """R·max(|a|, |b|)."""
        grid = self.grids[0]
        return grid.range * max(abs(grid.lower), abs(grid.lower + grid.range))

    @property
    def kernel_range(self) -> tuple[Fraction, Fraction]:
        """The least and the largest product of two numbers inside the bounds."""
        lower, upper = self.grids[0].lower, self.grids[0].lower + self.grids[0].range
        corners = (lower**2, lower * upper, upper**2)
        return min(corners), max(corners)

    def has_jackknife(self, n: int) -> bool:
        """Return whether there are three records, and E X isn't known to be 0."""
        return n >= 3 and not self.degenerate

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """The least x² inside the bounds, so that far-off bounds cost no precision."""
        grid = self.grids[0]
        upper = grid.lower + grid.range
        return (Fraction(0) if grid.lower <= 0 <= upper else min(grid.lower**2, upper**2),)

    @property
    def parameter_bounds(self) -> tuple[float, float]:
        """The least and the greatest (E X)²."""
        grid = self.grids[0]
        ends = (grid.lower**2, (grid.lower + grid.range) ** 2)
        return float(self.origin[0]), float(max(ends))

    @property
    def assumes(self) -> tuple[str, ...]:
        """That E X = 0, or that it isn't."""
        return (PUBLIC_BOUNDS, known_degenerate("E X = 0") if self.degenerate else NOT_DEGENERATE)

    def exact(self, records: NDArray[np.int64]) -> Fraction:
        """Return (S² − Σx²)/(n(n − 1)), from Σk and Σk² of x = lower + k·step."""
        k = records[:, 0]
        return self._from(Moments(len(k), [int(k.sum())], [exact_dot(k, k)]))

    def partner_sums(self, records: NDArray[np.int64]) -> tuple[Fraction, Fraction]:
        """Return those of D_i = x_i(S_1 − x_i), with S_p = Σx^p: from Σk^p."""
        k, lower, step = records[:, 0], self.grids[0].lower, self.grids[0].step
        powers = (len(k), *power_sums(k))
        s1, s2, s3, s4 = (
            sum(
                (math.comb(p, j) * lower ** (p - j) * step**j * powers[j] for j in range(p + 1)),
                Fraction(0),
            )
            for p in (1, 2, 3, 4)
        )
        return s1**2 - s2, s1**2 * s2 - 2 * s1 * s3 + s4

    def _from(self, moments: Moments) -> Fraction:
        n, (total,), (products,) = moments.size, moments.sums, moments.products
        lower, step = self.grids[0].lower, self.grids[0].step
        squares = n * lower**2 + 2 * lower * step * total + step**2 * products
        return ((n * lower + step * total) ** 2 - squares) / (n * (n - 1))

    def resampled(
        self, records: NDArray[np.int64], sets: IndexSets, near: NDArray[np.float64]
    ) -> Resampled:
        """Return the values on resamples, the same to the last bit."""
        check_size(sets.size, 2)

        def value(moments: Moments) -> Fraction:
            return self._from(moments) - self.origin[0]

        return resample_by_moments(self, value, [(0, 0)], records, sets, near)

    def smooth_sensitivity(self, records: NDArray[np.int64], beta: float) -> float:
        """Return SS_β, rounded up by at most a relative 2^-42."""
        k = records[:, 0]
        check_size(len(k), 2)
        return self._smooth_from(len(k), int(k.sum()), (int(k.min()), int(k.max())), beta)

    def resampled_smooth(
        self, records: NDArray[np.int64], sets: IndexSets, beta: float
    ) -> ResampledSmooth:
        """Return values and SS_β on the data and on resamples."""
        quick = self.resampled(records, sets, np.zeros(1))
        totals, _ = resampled_sums(records, sets)
        extremes = resampled_ranks(records[:, 0], [1, sets.size], self.grids[0].cells, sets)
        largest = max(
            self._smooth_from(sets.size, total, (low, high), beta)
            for (total,), (low, high) in zip(totals.tolist(), extremes.tolist(), strict=True)
        )
        own = self.smooth_sensitivity(records, beta)
        return ResampledSmooth(self.value(records), own, quick.values, largest, quick.multiplicity)

    def _smooth_from(self, n: int, k_sum: int, k_extremes: tuple[int, int], beta: float) -> float:
        grid = self.grids[0]
        total = n * grid.lower + grid.step * k_sum
        extremes = [grid.lower + grid.step * k for k in k_extremes]
        per_pair = Fraction(2, n * (n - 1))
        return smooth_bound(
            at_zero=per_pair * grid.range * max(abs(total - x) for x in extremes),
            slope=per_pair * grid.range**2,
            cap=self.sensitivity(n),
            beta=beta,
        )

    def scale(self, n: int) -> float:
        """Return √n, or n when degenerate."""
        return float(n) if self.degenerate else math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {**PairStatistic.describe(self), "degenerate": self.degenerate}


def check_degenerate(degenerate: object) -> None:
    """Refuse what isn't a bool."""
    if not isinstance(degenerate, bool):
        raise InvalidType(f"degenerate must be True or False, not {type(degenerate).__name__}")


def known_degenerate(condition: str) -> str:
    """Return the assumption that the caller made, for people."""
    return (
        f"the kernel is degenerate on this population: {condition}; where that isn't so, the "
        f"interval is far too short"
    )
