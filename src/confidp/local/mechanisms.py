"""Mechanisms: the queries worth asking, each with its proof.

All end in `Channel.from_probabilities`, whose rounding keeps ε exactly, and in `Query`, which
checks the claim in whole numbers. The proofs here say why the check never fails.

Part of what runs on a person's device: the standard library and `confidp.errors` are all it needs.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from itertools import pairwise

from confidp.errors import InvalidArgument, InvalidType, integer, real, shown
from confidp.local.channel import EPSILON_CAP, MAX_CELLS, MAX_OUTPUTS, MAX_WEIGHTS, Channel
from confidp.local.query import Query

MU_CAP = 8.0  # above, a person's value is told all but surely: G_8(0.01) is 7e-9


def response(cuts: Sequence[float], epsilon: float) -> Query:
    """Return k-ary randomised response over the cells between the cuts.

    The true cell is reported with e^ε times the chance of any other. *Proof*: with k cells, every
    chance is e^ε/(e^ε + k − 1) or 1/(e^ε + k − 1), so two of them have a ratio of at most e^ε. As
    weights: the others' is w = ⌈2^32/(e^ε + k − 1)⌉, so the true cell's 2^32 − (k − 1)w is at most
    e^ε w. ∎

    Examples
    --------
    >>> query = response([40.0, 60.0], epsilon=1.0)
    >>> query.channel.weights[0]
    (2474403178, 910282059, 910282059)
    >>> query.channel.least_epsilon() <= 1.0
    True
    """
    epsilon = _epsilon(epsilon)
    cuts = _points(cuts)
    cells = len(cuts) + 1
    other = 1.0 / (math.exp(epsilon) + cells - 1)
    # 1 − (k − 1)·other would cancel where e^ε is small beside k.
    true = math.exp(epsilon) * other
    rows = [[true if y == j else other for y in range(cells)] for j in range(cells)]
    return Query(cuts, Channel.from_probabilities(rows, epsilon), epsilon=epsilon)


def sign_response(cut: float, epsilon: float) -> Query:
    """Return binary randomised response to "is your value above the cut?".

    *Proof*: it is `response` with two cells. At the median it is optimal for a location alone
    where ε is small (Kalinin and Steinberger 2024).

    Examples
    --------
    >>> sign_response(50.0, epsilon=1.0).channel.weights
    ((3139872686, 1155094610), (1155094610, 3139872686))
    """
    return response((cut,), epsilon)


def truncated_laplace(low: float, high: float, epsilon: float, steps: int = 32) -> Query:
    """Return the truncated Laplace mechanism on a grid of [low, high].

    A value is clipped to [low, high], rounded to one of the grid's `steps` + 1 points and moved
    by a whole number N of steps with P(N = n) ∝ e^{−ε|n|/steps}; what lands beyond an end is
    reported as that end. This loses nothing: beyond an end the chances of any two points keep one
    ratio.

    *Proof*: two grid points are at most `steps` apart, so |n| differs by at most `steps` and the
    chances of a landing place by a factor of at most e^ε. Merging landing places is
    post-processing. ∎

    Parameters
    ----------
    low, high
        The truncation: the paper's l and r.
    epsilon
        Above 0, at most 22.
    steps
        How fine the grid is. It tells slightly more than the continuous mechanism, by a part that
        falls as 1/steps².

    Examples
    --------
    >>> query = truncated_laplace(40.0, 60.0, epsilon=1.0)
    >>> query
    Query(id='...', cells=33, outputs=33, epsilon=1.0, mu=None)
    >>> query.cuts[0], query.cuts[-1]
    (40.3125, 59.6875)
    """
    epsilon = _epsilon(epsilon)
    cuts = _grid_cuts(low, high, steps)
    shrink = math.exp(-epsilon / steps)
    peak = -math.expm1(-epsilon / steps) / (1.0 + shrink)

    def chance(distance: int, at_end: bool) -> float:
        # At an end: the sum of all beyond.
        return math.exp(-epsilon * distance / steps) * (1.0 / (1.0 + shrink) if at_end else peak)

    places = range(steps + 1)
    rows = [[chance(abs(j - y), y in (0, steps)) for y in places] for j in places]
    return Query(cuts, Channel.from_probabilities(rows, epsilon), epsilon=epsilon)


def truncated_gaussian(
    low: float, high: float, mu: float, steps: int = 32, outputs: int = 64
) -> Query:
    """Return the truncated Gaussian mechanism on a grid of [low, high]: μ-GDP, not ε-DP.

    A value is clipped and rounded as for `truncated_laplace`, and Gaussian noise of standard
    deviation s = (high − low)/μ is added. What is reported is the bin it lands in: `outputs` bins
    from low − 3s to high + 3s, the end ones unbounded.

    *Proof*: grid points are at most μ standard deviations apart, so the noisy value is μ-GDP, and
    binning is post-processing. That is of the unrounded chances. Rounding them, small ones up, may
    exceed it by about 2^-32, so the noise grows by a relative 2^-32, then twice that and so on
    until `Channel.satisfies_gdp` proves the claim. ∎

    Parameters
    ----------
    low, high
        The truncation.
    mu
        Above 0, at most 8.
    steps, outputs
        How fine the grid of values and that of outputs is.

    Examples
    --------
    >>> truncated_gaussian(40.0, 60.0, mu=1.0, steps=8, outputs=16)
    Query(id='...', cells=9, outputs=16, epsilon=None, mu=1.0)
    """
    mu = real("mu", mu, f"above 0 and at most {MU_CAP:g}", lambda x: 0 < x <= MU_CAP)
    cuts = _grid_cuts(low, high, steps)
    outputs = integer("outputs", outputs, least=2)
    if outputs > MAX_OUTPUTS or outputs * (steps + 1) > MAX_WEIGHTS:
        raise InvalidArgument(
            f"outputs must be at most {min(MAX_OUTPUTS, MAX_WEIGHTS // (steps + 1))} "
            f"for {steps} steps, not {shown(outputs)}"
        )
    for more in (0.0, *(math.ldexp(1.0, k) for k in range(-32, -8))):
        apart = mu * (1.0 - more)
        channel = Channel.from_probabilities(_gaussian_rows(apart, steps, outputs))
        if channel.satisfies_gdp(mu):
            return Query(cuts, channel, mu=mu)
    raise InvalidArgument(f"mu = {mu:g} is too small for so many outputs: weights are out of 2^32")


def _gaussian_rows(apart: float, steps: int, outputs: int) -> list[list[float]]:
    """Return the bins' chances, in units of the noise, where the interval is `apart` wide."""
    width = (apart + 6.0) / outputs
    edges = [-math.inf, *(y * width - 3.0 for y in range(1, outputs)), math.inf]
    rows = []
    for j in range(steps + 1):
        at = apart * j / steps
        rows.append([_normal_between(a - at, b - at) for a, b in pairwise(edges)])
    return rows


def _normal_between(a: float, b: float) -> float:
    """Return Φ(b) − Φ(a) for a ≤ b, without cancelling in the upper tail."""
    if a > 0.0:
        a, b = -b, -a
    return 0.5 * (math.erfc(-b / math.sqrt(2.0)) - math.erfc(-a / math.sqrt(2.0)))


def from_probabilities(
    cuts: Sequence[float],
    rows: Sequence[Sequence[float]],
    *,
    epsilon: float | None = None,
    mu: float | None = None,
) -> Query:
    """Return a query with a channel of your own.

    *Proof*: none is taken on trust. Rounding keeps ε exactly (`Channel.from_probabilities`), and
    `Query` refuses claims that aren't true of the rounded channel. A μ that the probabilities
    meet without room may be exceeded by rounding: leave a relative 1e-8.

    Examples
    --------
    >>> from_probabilities([0.0], [[0.7, 0.3], [0.4, 0.6]], epsilon=0.7)
    Query(id='...', cells=2, outputs=2, epsilon=0.7, mu=None)
    >>> from_probabilities([0.0], [[0.7, 0.3], [0.4, 0.6]], epsilon=0.6)
    Traceback (most recent call last):
    confidp.errors.InvalidArgument: rows must satisfy epsilon = 0.6, but a column does not
    """
    if epsilon is not None:
        epsilon = _epsilon(epsilon)
    channel = Channel.from_probabilities(rows, epsilon)
    return Query(_points(cuts), channel, epsilon=epsilon, mu=mu)


def mirrored_pair(query: Query, center: float) -> tuple[Query, Query]:
    """Return a query and its mirror image about the center; each person gets one by `toss`.

    One query of an interval beside the center sees the location or the scale badly; the two
    together see both. *Proof*: the mirror image has the same rows and columns in reverse, so the
    same ratios and the same trade-off curves; the coin is fair, public and tossed without looking
    at the value, so each person's report is as private as either query. ∎

    Examples
    --------
    >>> query, mirror = mirrored_pair(truncated_laplace(52.0, 60.0, epsilon=1.0), center=50.0)
    >>> query.cuts[0], mirror.cuts[-1]
    (52.125, 47.875)
    >>> toss((query, mirror)) in (query, mirror)
    True
    """
    if not isinstance(query, Query):
        raise InvalidType(f"query must be a Query, not {type(query).__name__}")
    center = real("center", center, "of any size", lambda _: True)
    cuts = tuple(2.0 * center - cut for cut in reversed(query.cuts))
    channel = Channel(tuple(row[::-1] for row in reversed(query.channel.weights)))
    return query, Query(cuts, channel, epsilon=query.epsilon, mu=query.mu)


def toss(pair: tuple[Query, Query]) -> Query:
    """Return one of the two by a fair coin. The coin is public: the report names its query."""
    if not isinstance(pair, tuple | list) or [type(q) for q in pair] != [Query, Query]:
        raise InvalidType("pair must be two queries")
    return pair[secrets.randbits(1)]


def _points(cuts: Sequence[float]) -> tuple[float, ...]:
    """Return cut points as a tuple; `Query` checks each of them."""
    try:
        count = len(cuts)
    except Exception:
        raise InvalidType("cuts must be a sequence of numbers") from None
    if count >= MAX_CELLS:
        raise InvalidArgument(f"cuts must be at most {MAX_CELLS - 1}, not {count}")
    return tuple(cuts)


def _epsilon(epsilon: float) -> float:
    return real(
        "epsilon",
        epsilon,
        f"above 0 and at most {EPSILON_CAP:g} (chances are in units of 2^-32)",
        lambda x: 0 < x <= EPSILON_CAP,
    )


def _grid_cuts(low: float, high: float, steps: int) -> tuple[float, ...]:
    """Return the middles between the grid's points, where rounding to the nearest one changes."""
    low = real("low", low, "of any size", lambda _: True)
    high = real("high", high, f"above low = {low:g}", lambda x: x > low)
    steps = integer("steps", steps, least=1)
    if (steps + 1) ** 2 > MAX_WEIGHTS:
        most = math.isqrt(MAX_WEIGHTS) - 1
        raise InvalidArgument(f"steps must be at most {most}, not {shown(steps)}")
    shares = [(2 * k + 1) / (2 * steps) for k in range(steps)]
    # Not low + share·(high − low), which overflows where the two are far apart.
    cuts = tuple(low * (1.0 - share) + high * share for share in shares)
    if any(a >= b for a, b in pairwise(cuts)):
        raise InvalidArgument(f"steps must be fewer for low and high so close, not {steps}")
    return cuts
