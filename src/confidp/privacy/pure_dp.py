"""Mechanisms with ε-DP and no δ: Laplace noise, the sparse vector and the exponential mechanism.

A number is rounded to a lattice 2^k·Z, as in `noise`, and whole numbers of OpenDP's exact discrete
Laplace are added there; the exponential mechanism is exact in whole numbers. Both get their entropy
from the operating system.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

from confidp.errors import integer, real
from confidp.privacy.conversions import mu_of_laplace, mu_of_pure_dp
from confidp.privacy.guarantees import GDP, float_up
from confidp.privacy.noise import lattice_exponent, to_float
from confidp.randomness import Randomness

_LARGEST_SCALE = 2.0**50  # of integer noise: OpenDP's 64 bits are 2^13 such scales
_EDGE = 2**62  # integer noise this large may have been cut off at 64 bits
_WEIGHT_BITS = 256  # the exponential mechanism's largest weight is 2^256


@dataclass(frozen=True, slots=True)
class IntegerLaplaceMechanism:
    """Releases whole numbers, such as counts, with ε-DP: exact, and without any δ.

    The noise has P(k) ∝ e^{−|k|/s}, with s = `sensitivity`/ε rounded up to a float.

    Parameters
    ----------
    sensitivity
        The most that the number moves between neighbours.
    epsilon
        Above 0; `sensitivity`/ε is at most 2^50.

    Notes
    -----
    **Privacy.** Shifting the noise by `sensitivity` changes each probability by a factor of at most
    e^{sensitivity/s} ≤ e^ε: ε-DP. As GDP it costs the Laplace mechanism's μ at ε + 1/(4s²), or that
    of the worst ε-DP mechanism if this is less. Proof: with q = e^{−1/s} and a shift of v ≥ 1, the
    best tests reject k ≥ t (Neyman and Pearson). For 0 ≤ t ≤ v + 1 their error rates are
    q^t/(1+q) and q^{v+1−t}/(1+q), points of the hyperbola αβ = q^{v+1}/(1+q)² = e^{−ε′}/4 with
    ε′ = v/s + 2 ln cosh(1/2s) ≤ ε + 1/(4s²), on which the trade-off curve of Laplace noise at ε′
    lies from α = e^{−ε′}/2 on, and under which it stays elsewhere. Between these points and on to
    (0, 1) and (1, 0) ours is made of chords, the last two of slope e^{v/s} and e^{−v/s}; theirs is
    convex, so it lies below. ∎

    Examples
    --------
    >>> mechanism = IntegerLaplaceMechanism(1, epsilon=0.5)
    >>> mechanism.scale
    2.0
    >>> mechanism.release(100, Randomness.of(7))
    101
    """

    sensitivity: int
    epsilon: float
    scale: float = field(init=False)  # s, which is also E|noise|, up to a relative 1/s²

    def __post_init__(self) -> None:
        """Refuse what can't be drawn."""
        integer("sensitivity", self.sensitivity, least=1)
        least = self.sensitivity / _LARGEST_SCALE
        allowed = f"of at least {least:.3g}"
        epsilon = real("epsilon", self.epsilon, allowed, lambda x: x >= least)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "scale", float_up(self.sensitivity / Fraction(epsilon)))

    @property
    def cost(self) -> GDP:
        """What one release costs, as GDP; `epsilon` is what it costs in ε-DP."""
        more = float_up(Fraction(self.epsilon) + 1 / (4 * Fraction(self.scale) ** 2))
        worst = mu_of_pure_dp(self.epsilon)
        return GDP(min(mu_of_laplace(more), worst) if math.isfinite(more) else worst)

    def release(self, value: int, randomness: Randomness) -> int:
        """Return `value` plus noise. This spends `epsilon`: charge it first."""
        return value + _laplace_noise(self.scale, 1, randomness)[0]


@dataclass(frozen=True, slots=True)
class LaplaceMechanism:
    """Releases a number of any size with ε-DP, on a lattice: exact, and without any δ.

    Parameters
    ----------
    sensitivity
        The most that the value **as computed** moves between neighbours.
    epsilon
        Above 0.

    Notes
    -----
    **Privacy.** The value is rounded to a lattice 2^k·Z, where neighbours lie at most
    ⌊sensitivity/2^k⌋ + 1 steps apart; there it is an `IntegerLaplaceMechanism`. Its scale is 2^44
    steps or more, so that this rounding costs a relative 2^-44/ε of noise.

    Examples
    --------
    >>> mechanism = LaplaceMechanism(Fraction(1, 1000), epsilon=0.5)
    >>> mechanism.scale
    0.0020000000...
    >>> mechanism.cost
    GDP(mu=0.561...)
    >>> float(mechanism.release(Fraction(1, 2), Randomness.of(7)))
    0.50...
    """

    sensitivity: Fraction
    epsilon: float
    exponent: int = field(init=False)  # the lattice is 2^exponent times the integers
    steps: IntegerLaplaceMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Choose the lattice."""
        epsilon = real("epsilon", self.epsilon, "above 0", lambda x: x > 0)
        if not self.sensitivity > 0:
            raise ValueError("sensitivity must be above 0")
        object.__setattr__(self, "exponent", lattice_exponent(self.sensitivity / Fraction(epsilon)))
        moved = math.floor(self.sensitivity / self.unit) + 1
        object.__setattr__(self, "steps", IntegerLaplaceMechanism(moved, epsilon))

    @property
    def unit(self) -> Fraction:
        """The lattice's step."""
        return Fraction(2) ** self.exponent

    @property
    def scale(self) -> float:
        """The noise's scale, E|noise|, in the value's own units: √2 less than its deviation."""
        return to_float(Fraction(self.steps.scale) * self.unit)

    @property
    def cost(self) -> GDP:
        """What one release costs, as GDP; `epsilon` is what it costs in ε-DP."""
        return self.steps.cost

    def release(self, value: Fraction, randomness: Randomness) -> Fraction:
        """Return `value` plus noise. This spends `epsilon`: charge it first."""
        return self.steps.release(round(value / self.unit), randomness) * self.unit


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Finds the first of a stream of private whole numbers that reaches a threshold, for one ε.

    With ρ ~ Laplace(2/ε) drawn once and ν_k ~ Laplace(4/ε) for each number f_k: the first k with
    f_k + ν_k ≥ threshold + ρ (Dwork and Roth 2014, algorithm 1).

    Parameters
    ----------
    epsilon
        At least 2^-40.

    Notes
    -----
    **Privacy** (their theorem 3.23), if neighbours move each f_k by at most 1: ε-DP, however long
    the stream. Fix ν_1, …, ν_{k−1}. The output is k if g < threshold + ρ ≤ f_k + ν_k, where g is
    the largest f_j + ν_j before. A neighbour moves g and f_k by at most 1, so that moving ρ by at
    most 1 and ν_k by at most 2 along takes its event to this one, at a factor of at most e^{ε/2}
    each. Where nothing reaches the threshold, ρ alone moves. ∎ One ρ answers for every "not yet"
    at once; drawn anew for each k, it would be paid for at each k, and the proof fails. Noise is on
    a lattice of whole fractions 1/2^j, which holds the moves by 1 and 2: nothing is rounded.

    Examples
    --------
    >>> AboveThreshold(epsilon=4.0).first(range(-50, 50), 0, Randomness.of(7))
    51
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an ε for which 1 isn't on the lattice."""
        epsilon = real("epsilon", self.epsilon, "of at least 2^-40", lambda x: x >= 2.0**-40)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def cost(self) -> GDP:
        """What one search costs, as GDP."""
        return GDP(mu_of_pure_dp(self.epsilon))

    def first(
        self, numbers: Iterable[int], threshold: Fraction | int, randomness: Randomness
    ) -> int | None:
        """Return the index of the first to reach `threshold`, or None. This spends `epsilon`."""
        steps = 2 ** max(-lattice_exponent(2 / Fraction(self.epsilon)), 0)  # to a whole number
        once = IntegerLaplaceMechanism(steps, self.epsilon / 2)
        each = IntegerLaplaceMechanism(2 * steps, self.epsilon / 2)
        bar = Fraction(threshold) * steps + once.release(0, randomness)
        noise = _stream(each.scale, randomness)
        for index, number in enumerate(numbers):
            if number * steps + next(noise) >= bar:
                return index
        return None


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """Picks one of many points, each with a chance proportional to e^{−η·penalty}: exact.

    Parameters
    ----------
    eta
        η, above 0.

    Notes
    -----
    **Privacy**, if neighbours move each point's penalty by at most 1: 2η-DP, and μ-GDP for
    μ = 2Φ⁻¹(e^η/(1+e^η)), that of randomised response at η. Weights are whole numbers w_0 = 2^256,
    w_{d+1} = ⌈w_d·r⌉ with r ≥ e^{−η}, so w_d ≥ w_{d+1} ≥ e^{−η}w_d: rounding only flattens the law.
    A neighbour multiplies a point's weight, and the sum of all, by e^{±η} at most, so its chances
    change by factors within one window [x e^{−2η}, x], x ≤ e^{2η}: 2η-DP. A test with
    false-positive rate α has power π ≤ xα and 1 − π ≥ x e^{−2η}(1 − α): logit π ≤ logit α + 2η.
    With g = Φ⁻¹∘logit⁻¹, the claim is g(y + 2η) − g(y) ≤ 2g(η), and it holds since g′ is even and
    falls in |y|. For in terms of u = g(y) ≥ 0, 1/g′ = φ(u)/(Φ(u)Φ(−u)), whose logarithm has the
    derivative F/(1 − D²), with D = 2Φ(u) − 1 and F = 4φD − u(1 − D²). F is 0 at 0 and at infinity,
    and between them F′ = 8φ² − 1 + D² is first positive, then negative: it ends at 0, and
    F″ = 4φ(D − 4uφ) is first negative, then positive. ∎

    Examples
    --------
    >>> mechanism = ExponentialMechanism(eta=1.0)
    >>> mechanism.release([2, 0, 3], lengths=[10, 5, 10], randomness=Randomness.of(7))
    (1, 3)
    """

    eta: float

    def __post_init__(self) -> None:
        """Refuse an η that isn't above 0."""
        object.__setattr__(self, "eta", real("eta", self.eta, "above 0", lambda x: x > 0))

    @property
    def epsilon(self) -> float:
        """What one release costs in ε-DP: 2η."""
        return 2 * self.eta

    @property
    def cost(self) -> GDP:
        """What one release costs, as GDP."""
        return GDP(mu_of_pure_dp(self.eta))

    def release(
        self, penalties: Sequence[int], lengths: Sequence[int], randomness: Randomness
    ) -> tuple[int, int]:
        """Return a run of points and the place in it, both counted from 0. This spends `cost`.

        The point is what may be published: how the points fall into runs is private.

        Parameters
        ----------
        penalties
            Of each run of points with a common penalty: whole numbers of at least 0.
        lengths
            How many points each run has: at least 0.
        """
        decay = _weights(self.eta, max(penalties))
        weights = [decay[min(penalty, len(decay) - 1)] for penalty in penalties]
        ends = list(accumulate(w * n for w, n in zip(weights, lengths, strict=True)))
        drawn = _below(ends[-1], randomness)
        run = bisect_right(ends, drawn)
        return run, (drawn - (ends[run - 1] if run else 0)) // weights[run]


def _laplace_noise(scale: float, size: int, randomness: Randomness) -> list[int]:
    """Return `size` draws of P(k) ∝ e^{−|k|/scale}."""
    if randomness.noise is not None:
        chance = -math.expm1(-1 / scale)  # the difference of two geometric numbers
        first, second = randomness.noise.geometric(chance, size=(2, size)).tolist()
        return [x - y for x, y in zip(first, second, strict=True)]
    draws = _exact_laplace(scale)([0] * size)
    return [z if abs(z) < _EDGE else _continued(z, scale, randomness) for z in draws]


def _continued(cut_off: int, scale: float, randomness: Randomness) -> int:
    """Go on from ±2^62, where 64 bits may have cut a draw off: the law has no memory."""
    while (more := _laplace_noise(scale, 1, randomness)[0]) < 0:
        pass
    return _EDGE + more if cut_off > 0 else -_EDGE - more


def _stream(scale: float, randomness: Randomness) -> Iterator[int]:
    while True:
        yield from _laplace_noise(scale, 16, randomness)  # a batch: calls cost more than draws


@lru_cache(maxsize=128)
def _exact_laplace(scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's exact discrete Laplace."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    metric: Any = dp.l1_distance(T="i64")
    sampler: Callable[[list[int]], list[int]] = dp.m.make_laplace(domain, metric, scale=scale)
    return sampler


def _weights(eta: float, most: int) -> list[int]:
    """Return w_0, …, w_most, or up to where they stop falling."""
    above = math.nextafter(math.nextafter(math.exp(-eta), 1.0), 1.0)  # exp is off by an ulp at most
    numerator, denominator = above.as_integer_ratio()
    weights = [2**_WEIGHT_BITS]
    for _ in range(most):
        weights.append(-(-weights[-1] * numerator // denominator))
        if weights[-1] == weights[-2]:
            break
    return weights


def _below(total: int, randomness: Randomness) -> int:
    """Return a uniform whole number in [0, `total`)."""
    if randomness.noise is None:
        return secrets.randbelow(total)
    bits = total.bit_length()
    while True:
        drawn = int.from_bytes(randomness.noise.bytes(bits // 8 + 1)) >> (8 - bits % 8)
        if drawn < total:
            return drawn
