"""The jackknife's variance of a U-statistic, and how far one record can move it.

Let U be the mean of a kernel h of r records, h ∈ [a, a + R], over all r-tuples or over a balanced
design of them, in which every record is in equally many. Let q_i be the mean of h over the tuples
that hold record i (Sen's structural components, 1960); their mean is U. Leaving record i out moves
a complete U by r(q_i − U)/(n − r), so the jackknife's estimate of its variance is V/n with

    V = r²(n − 1)/(n − r)² · f,  f = Σ_i (q_i − U)².

For a mean, r = 1, V is the sample variance. E V/n is never under the variance of U (Efron and
Stein, 1981), and V is consistent where U isn't degenerate. In an incomplete U the q_i vary more by
half of what its own design adds to its variance, so that V errs to the safe side.

**Theorem.** Replacing one of n records moves f by at most (2r − 1)R². Where r = 2 and all pairs are
taken, by at most R²(n + 1)/(n − 1).

So V of all pairs moves by 4R²(n + 1)/(n − 2)², about (2R)²/n, where U moves by 2R/n at most: it is
as cheap to release as the variance of a mean of numbers that range over 2R. By brute force f moves
by R²(n − 2)²/(n(n − 1)) at most for n from 4 to 6, attained by h ≡ 0 that becomes 1 beside one
record; so nothing is lost to first order. ``docs/private_variance.md``, section 5, has the proof.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, runtime_checkable

from confidp.central.statistics.statistic import Records, Statistic

Pair = tuple[Fraction, Fraction]


@runtime_checkable
class Jackknifed(Statistic, Protocol):
    """A statistic with an exact jackknife variance that one record moves little."""

    def has_jackknife(self, n: int, /) -> bool:
        """Return whether V tells the error of n records: not for a degenerate kernel."""

    def jackknife(self, records: Records, /) -> Pair:
        """Return θ − origin and V. Exact, and **private**."""

    def jackknife_sensitivity(self, n: int, /) -> Pair:
        """Return the most that one record moves θ, and the most that it moves V."""


def jackknife_from(
    n: int, order: int, partners: int, total: Fraction | int, squares: Fraction | int
) -> Pair:
    """Return U and V, from Σ D_i and Σ D_i². **Private**.

    D_i is the sum of h over the tuples that hold record i, of which there are `partners`.

    Examples
    --------
    >>> jackknife_from(3, 1, 1, 1 + 2 + 6, 1 + 4 + 36)  # a mean of 1, 2, 6 and its variance
    (Fraction(3, 1), Fraction(7, 1))
    """
    spread = (Fraction(squares) - Fraction(total) ** 2 / n) / partners**2
    weight = Fraction(order * order * (n - 1), (n - order) ** 2)
    return Fraction(total) / (n * partners), weight * spread


def spread_sensitivity(n: int, order: int, diameter: Fraction, all_pairs: bool) -> Fraction:
    """Return the most that one record moves V, by the module's theorem.

    Examples
    --------
    >>> float(spread_sensitivity(1000, 2, Fraction(1), all_pairs=True))  # (2R)²/n is 0.004
    0.00402...
    """
    moved = Fraction(n + 1, n - 1) if all_pairs and order == 2 else Fraction(2 * order - 1)
    return Fraction(order * order * (n - 1), (n - order) ** 2) * moved * diameter**2
