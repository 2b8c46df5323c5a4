"""Finite channels: who reports what with which probability, and the exact proof that it is private.

A channel is a matrix Q over cells and outputs: a person in cell j reports y with probability
Q[j, y]. Its rows are whole numbers that sum to 2^32, so privacy is a comparison of whole numbers
and sampling is one 32-bit integer from the operating system: no rounding anywhere for an attacker
to use. What isn't rational, e^ε and Φ, is enclosed between rationals by series with proofs.

Part of what runs on a person's device: the standard library and `confidp.errors` are all it needs.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations
from numbers import Integral
from statistics import NormalDist
from typing import Any, TypeAlias

from confidp.errors import ConfidpError, InvalidArgument, InvalidType, integer, real

BITS = 32
TOTAL = 1 << BITS  # what every row sums to
EPSILON_CAP = 22.0  # weights of at least 1 in 2^32 make a ratio of at most 2^32, and e^22 < 2^32
MAX_CELLS, MAX_OUTPUTS, MAX_WEIGHTS = 256, 1024, 1 << 15  # a device has to check them all
MAX_GDP_STEPS = 1 << 20  # cells² × outputs: about three seconds

Weights: TypeAlias = tuple[tuple[int, ...], ...]

_ONE = 1 << 160  # the unit of the series' fixed point
_QUANTILE_UNIT = 1 << 60
_COARSE_BITS = 10
# 1/√(2π) lies between these.
_DENSITY_LOW = Fraction(39894228040143267793994605993438186847, 10**38)
_DENSITY_HIGH = Fraction(39894228040143267793994605993438186848, 10**38)


@dataclass(frozen=True, slots=True, repr=False)
class Channel:
    """A row-stochastic matrix over cells and outputs, as whole numbers out of 2^32.

    Parameters
    ----------
    weights
        One row a cell, in order, each of which sums to 2^32. A column is either positive
        throughout or zero throughout: a zero beside a non-zero would be an infinite ratio.

    Examples
    --------
    >>> channel = Channel([[3 << 30, 1 << 30], [1 << 30, 3 << 30]])
    >>> channel
    Channel(cells=2, outputs=2)
    >>> channel.epsilon_at_most(1.09), channel.epsilon_at_most(1.1)  # ln 3 = 1.0986
    (False, True)
    >>> channel.draw(0) in (0, 1)
    True
    """

    weights: Weights

    def __post_init__(self) -> None:
        """Refuse what isn't a matrix of probabilities, or is too large to check."""
        object.__setattr__(self, "weights", _checked(self.weights))

    def __repr__(self) -> str:
        """Return the shape: the weights may be thousands."""
        return f"Channel(cells={self.cells}, outputs={self.outputs})"

    @classmethod
    def from_probabilities(
        cls, rows: Sequence[Sequence[float]], epsilon: float | None = None
    ) -> Channel:
        """Return the channel of these probabilities, rounded so that `epsilon` holds exactly.

        Small weights are rounded up, and what that adds is taken from the row's largest. No
        weight ends up below 1 unless its whole column is 0. With E the rational lower bound of
        e^ε, column y gets the range [w, ⌊E w⌋], with w its least probability rounded up (the
        largest w gives way where they sum to over 2^32). No weight leaves its range, so any two
        of a column have a ratio of at most E ≤ e^ε.

        Parameters
        ----------
        rows
            One a cell, in order, each summing to 1 to within 1e-9.
        epsilon
            What the probabilities satisfy up to a relative 1e-9: more than that is refused, not
            mended. None rounds without a range.

        Examples
        --------
        >>> Channel.from_probabilities([[0.7, 0.3], [0.3, 0.7]], math.log(7 / 3)).weights
        ((3006477107, 1288490189), (1288490189, 3006477107))
        """
        if epsilon is not None:
            epsilon = real("epsilon", epsilon, "of at least 0", lambda x: x >= 0)
        try:
            exact = [[_probability(p) for p in row] for row in rows]
        except ConfidpError:
            raise
        except Exception:
            raise InvalidType("rows must be rows of numbers") from None
        if not exact or not exact[0] or any(len(row) != len(exact[0]) for row in exact):
            raise InvalidArgument("rows must be equally long, and not empty")
        if any(abs(sum(row, Fraction(-1))) > Fraction(1, 10**9) for row in exact):
            raise InvalidArgument("rows must sum to 1")
        ranges = _ranges(list(zip(*exact, strict=True)), epsilon)
        return cls(tuple(_rounded(row, ranges) for row in exact))

    @property
    def cells(self) -> int:
        """How many cells there are: one row each."""
        return len(self.weights)

    @property
    def outputs(self) -> int:
        """How many outputs there are: one column each."""
        return len(self.weights[0])

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of two weights in a column: e to the power of the least ε, exactly."""
        columns = zip(*self.weights, strict=True)
        ratios: list[Fraction] = [Fraction(max(c), min(c)) for c in columns if c[0]]
        return max(ratios)

    def epsilon_at_most(self, epsilon: float) -> bool:
        """Return whether the channel is ε-DP, certainly.

        A channel is ε-DP if and only if Q[j, y] ≤ e^ε Q[j′, y] for all j, j′ and y (sum over the
        y of a set). The largest ratio is compared with `exp_down`, so True is a proof, and False
        may be wrong only where the ratio is within a relative 2^-150 of e^ε.
        """
        epsilon = real("epsilon", epsilon, "of at least 0", lambda x: x >= 0)
        return self.ratio <= exp_down(epsilon)

    def least_epsilon(self) -> float:
        """Return the least ε for which the channel is ε-DP, rounded up to a float.

        Examples
        --------
        >>> Channel([[3 << 30, 1 << 30], [1 << 30, 3 << 30]]).least_epsilon()
        1.098612288668...
        """
        epsilon = math.log1p(float(self.ratio - 1))  # a few units in the last place off
        while epsilon > 0.0 and self.epsilon_at_most(math.nextafter(epsilon, 0.0)):
            epsilon = math.nextafter(epsilon, 0.0)
        while not self.epsilon_at_most(epsilon):
            epsilon = math.nextafter(epsilon, math.inf)
        return epsilon

    def satisfies_gdp(self, mu: float) -> bool:
        """Return whether the channel is μ-GDP, certainly.

        Let P and R be two rows and T their trade-off curve, the least false-negative rate at each
        false-positive rate α. By Neyman and Pearson it is piecewise linear, with vertices
        (P(S), 1 − R(S)) where S holds the outputs with the largest ratios R/P, one more each time.
        The channel is μ-GDP if T ≥ G_μ for all rows. It is enough to compare at the vertices of
        T: between two of them T is their chord, and G_μ is convex, so it lies below its own
        chord, which lies below that of T if its ends do. Outputs of equal ratio add points on a
        segment, which is harmless. Swapping P and R swaps α and β at every vertex, and G_μ is its
        own inverse, so each pair is read once.

        At a vertex, β ≥ G_μ(α) = Φ(−Φ⁻¹(α) − μ) says −Φ⁻¹(α) − Φ⁻¹(β) ≤ μ. Both terms are
        rounded up by less than 1e-13 and certainly not down (`_quantile_up`), so True is a proof.

        Examples
        --------
        >>> channel = Channel([[3 << 30, 1 << 30], [1 << 30, 3 << 30]])
        >>> channel.satisfies_gdp(1.348), channel.satisfies_gdp(1.349)  # 2Φ⁻¹(3/4) = 1.34898
        (False, True)
        """
        mu = real("mu", mu, "above 0", lambda x: x > 0)
        if self.cells**2 * self.outputs > MAX_GDP_STEPS:
            raise InvalidArgument(
                f"weights must be fewer for a claim of mu: cells² times outputs at most "
                f"{MAX_GDP_STEPS}, not {self.cells**2 * self.outputs}"
            )
        return _is_gdp(self.weights, mu)

    def draw(self, cell: int) -> int:
        """Return a random output for someone in `cell`, with exactly the channel's probabilities.

        Of the 2^32 equally likely integers of the operating system, row[y] lie in the y-th
        interval of the cumulative weights.
        """
        cell = integer("cell", cell, least=0, most=self.cells - 1)
        cumulative = list(accumulate(self.weights[cell]))
        return bisect_right(cumulative, secrets.randbits(BITS))


@lru_cache(maxsize=256)
def exp_down(epsilon: float) -> Fraction:
    """Return a rational that is certainly at most e^ε, by less than a relative 2^-150.

    For ε above 23 it is that of 23, which exceeds every ratio of two weights. It never falls as ε
    grows.

    Examples
    --------
    >>> float(exp_down(1.0))
    2.718281828459045
    """
    return _series(Fraction(min(epsilon, 23.0)), odd=False)[0]


def _series(x: Fraction, odd: bool) -> tuple[Fraction, Fraction]:
    """Enclose Σ xⁿ/(d₁ ⋯ dₙ) for x ≥ 0, with dₙ = n, or 2n + 1 if `odd`.

    Each term is the last times x/dₙ. All are positive, so rounding every one down and leaving out
    the rest gives a lower bound. Rounding up gives an upper bound once the rest is added: where
    x/dₙ ≤ ½ from some n on, the rest is at most the last term.
    """
    low = high = low_sum = high_sum = _ONE
    n = 0
    while True:
        n += 1
        divisor = x.denominator * (2 * n + 1 if odd else n)
        low = low * x.numerator // divisor
        high = -(-high * x.numerator // divisor)
        low_sum += low
        high_sum += high
        if low == 0 and 2 * x.numerator <= divisor:
            return Fraction(low_sum, _ONE), Fraction(high_sum + high, _ONE)


def _normal_area(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose Φ(x) − ½ for x ≥ 0.

    It is φ(x) Σ x^(2n+1)/(1·3 ⋯ (2n+1)): both sides are 0 at 0, and the sum s satisfies
    s′ = 1 + x s, so (φ s)′ = φ.
    """
    odd_low, odd_high = _series(x * x, odd=True)
    exp_low, exp_high = _series(x * x / 2, odd=False)
    return x * odd_low / exp_high * _DENSITY_LOW, x * odd_high / exp_low * _DENSITY_HIGH


@lru_cache(maxsize=1 << 15)
def _quantile_up(weight: int) -> int:
    """Return an a, in units of 2^-60, that is certainly at least −Φ⁻¹(weight/2^32).

    That is Φ(−a) ≤ weight/2^32. The guess may come from anywhere; only what is proved is returned.
    """
    chance = Fraction(weight, TOTAL)
    guess = round(-NormalDist().inv_cdf(weight / TOTAL) * _QUANTILE_UNIT)
    margin = 1 << 14  # 2^-46
    while True:
        a = Fraction(guess + margin, _QUANTILE_UNIT)
        low, high = _normal_area(abs(a))
        if (Fraction(1, 2) - low if a >= 0 else Fraction(1, 2) + high) <= chance:
            return guess + margin
        margin *= 2


def _coarse(weight: int) -> int:
    """Round a chance down, to ten bits of it or of what it lacks to 1: few values, one price."""
    if 2 * weight <= TOTAL:
        shift = max(weight.bit_length() - _COARSE_BITS, 0)
        return weight >> shift << shift
    lacking = TOTAL - weight
    shift = max(lacking.bit_length() - _COARSE_BITS, 0)
    return TOTAL - (-(-lacking >> shift) << shift)


@lru_cache(maxsize=256)
def _is_gdp(weights: Weights, mu: float) -> bool:
    limit = math.floor(Fraction(mu) * _QUANTILE_UNIT)

    def below(alpha: int, beta: int) -> bool:
        # −Φ⁻¹ falls, so a chance rounded down gives an upper bound: nearly always good enough.
        if _quantile_up(_coarse(alpha)) + _quantile_up(_coarse(beta)) <= limit:
            return True
        return _quantile_up(alpha) + _quantile_up(beta) <= limit

    return all(
        below(alpha, beta) for rows in _pairs(weights) for alpha, beta in _inner_vertices(*rows)
    )


def _pairs(weights: Weights) -> Iterable[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return every two rows, the most distant first: where a claim fails, it fails soon."""
    pairs = sorted(combinations(range(len(weights)), 2), key=lambda pair: pair[0] - pair[1])
    return ((weights[i], weights[j]) for i, j in pairs)


def _inner_vertices(null: tuple[int, ...], other: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the trade-off curve's vertices (α, β), but for (0, 1) and (1, 0), out of 2^32.

    Those two are on every G_μ.
    """
    # Two ratios of weights that differ at all differ by 2^-64, so whole parts sort them exactly.
    columns = sorted(((r << 2 * BITS) // p, p, r) for p, r in zip(null, other, strict=True) if p)
    alpha, beta = 0, TOTAL
    for _, p, r in reversed(columns[1:]):
        alpha += p
        beta -= r
        yield alpha, beta


def _checked(rows: Any) -> Weights:
    try:
        rows = tuple(tuple(row) for row in rows)
    except Exception:  # whatever its type raises
        raise InvalidType("weights must be rows of whole numbers") from None
    outputs = len(rows[0]) if rows else 0
    if not (2 <= len(rows) <= MAX_CELLS and 1 <= outputs <= MAX_OUTPUTS):
        raise InvalidArgument(
            f"weights must have 2 to {MAX_CELLS} rows and at most {MAX_OUTPUTS} columns, "
            f"not {len(rows)} and {outputs}"
        )
    if any(len(row) != outputs for row in rows):
        raise InvalidArgument("weights must be equally long rows")
    if len(rows) * outputs > MAX_WEIGHTS:
        raise InvalidArgument(f"weights must be at most {MAX_WEIGHTS}, not {len(rows) * outputs}")
    if any(isinstance(w, bool) or not isinstance(w, Integral) for row in rows for w in row):
        raise InvalidType("weights must be whole numbers")
    weights = tuple(tuple(int(w) for w in row) for row in rows)
    if any(sum(row) != TOTAL for row in weights) or any(min(row) < 0 for row in weights):
        raise InvalidArgument("weights must be at least 0 and sum to 2^32 in every row")
    if any(min(column) == 0 < max(column) for column in zip(*weights, strict=True)):
        raise InvalidArgument("weights must not be 0 beside others that aren't in a column")
    return weights


def _probability(value: float) -> Fraction:
    return Fraction(real("rows", value, "in [0, 1]", lambda p: 0 <= p <= 1))


def _ranges(columns: list[tuple[Fraction, ...]], epsilon: float | None) -> list[tuple[int, int]]:
    """Return the least and the largest weight that each column may hold."""
    lows = [max(math.ceil(min(c) * TOTAL), 1) if max(c) else 0 for c in columns]
    # Rows that are all but equal leave no room for rounding every column up.
    lows[lows.index(max(lows))] -= max(sum(lows) - TOTAL, 0)
    if epsilon is None:
        return [(low, TOTAL if low else 0) for low in lows]
    bound = exp_down(epsilon)
    if any(max(c) > min(c) * bound * (1 + Fraction(1, 10**9)) for c in columns):
        raise InvalidArgument(f"rows must satisfy epsilon = {epsilon:g}, but a column does not")
    return [(low, math.floor(low * bound)) for low in lows]


def _rounded(row: list[Fraction], ranges: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return a row of weights that sum to 2^32, each in its range and near its probability."""
    weights = [
        min(max(math.ceil(p * TOTAL), low), high)
        for p, (low, high) in zip(row, ranges, strict=True)
    ]
    excess = sum(weights) - TOTAL
    for y in sorted(range(len(row)), key=lambda y: -weights[y]):  # stable: the largest first
        low, high = ranges[y]
        moved = min(max(weights[y] - excess, low), high)
        excess -= weights[y] - moved
        weights[y] = moved
    if excess:
        raise InvalidArgument("epsilon is too small for so many outputs: weights are out of 2^32")
    return tuple(weights)
