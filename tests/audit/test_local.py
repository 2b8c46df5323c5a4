"""Attacks on local reports: no answer tells more than its query claims.

Two audits. The exact one compares every two cells in whole numbers, and would be enough if draws
followed the weights. The empirical one doesn't trust that: it draws from the real sampler for two
cells and bounds ε from below by the frequencies of the outputs. Both are run on broken copies.
"""

import math
import secrets
from collections import Counter
from fractions import Fraction
from itertools import permutations
from unittest.mock import patch

import pytest
from scipy import stats

from confidp.errors import InvalidArgument
from confidp.local import channel as channel_module
from confidp.local.channel import TOTAL, Channel, exp_down
from confidp.local.componentwise import ComponentwiseCollector
from confidp.local.mechanisms import (
    mirrored_pair,
    response,
    sign_response,
    toss,
    truncated_gaussian,
    truncated_laplace,
)
from confidp.local.population import Normal
from confidp.local.query import Query
from confidp.local.sign_quantile import QuantileCollector
from confidp.local.vector import VectorQuery, split_epsilon

FALSE_ALARM = 1e-6
DRAWS = 40_000


def epsilon_lower_bound(answer, x, neighbour):
    """Bound ε from below by draws for two values; too high at most once in a million times.

    Half of them choose the set of outputs and the direction, the other half measure its two
    chances, with exact binomial bounds.
    """
    half = DRAWS // 2
    learnt, measured = (
        [Counter(answer(value) for _ in range(half)) for value in (x, neighbour)] for _ in range(2)
    )
    best = 0.0, {None}, 0
    for first, counts in enumerate((learnt, learnt[::-1])):
        ranked = sorted(
            counts[0] | counts[1], key=lambda y: -(counts[0][y] + 1) / (counts[1][y] + 1)
        )
        for size in range(1, len(ranked)):
            a, b = (sum(c[y] for y in ranked[:size]) for c in counts)
            # Standard errors off the log ratio: few counts are a poor bet.
            score = math.log((a + 1) / (b + 1)) - 5 * math.sqrt(1 / (a + 1) + 1 / (b + 1))
            best = max(best, (score, frozenset(ranked[:size]), first), key=lambda b: b[0])
    _, chosen, first = best
    hits, other_hits = (
        sum(counts[y] for y in chosen) for counts in (measured[first], measured[1 - first])
    )
    level = FALSE_ALARM / 2
    low = stats.beta.ppf(level, hits, half - hits + 1) if hits else 0.0
    high = stats.beta.isf(level, other_hits + 1, half - other_hits) if other_hits < half else 1.0
    return math.log(low / high) if low > high else 0.0


def exceeds(channel, epsilon):
    """Whether two cells have a ratio above e^ε somewhere, by an independent bound of e^ε."""
    above = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))  # exp is off by an ulp at most
    return any(
        Fraction(p, r) > above
        for a, b in permutations(channel.weights, 2)
        for p, r in zip(a, b, strict=True)
    )


def unchecked(query, channel):
    """A broken copy: the query with another channel, past the check that refuses it."""
    broken = Query(query.cuts, query.channel, query.epsilon, query.mu)
    object.__setattr__(broken, "channel", channel)
    return broken


QUERIES = {
    "sign": (lambda e: sign_response(0.0, e), 0.9),
    "response": (lambda e: response((-1.0, 1.0), e), 0.9),
    "wide response": (lambda e: response(range(7), e), 0.85),
    "laplace": (lambda e: truncated_laplace(-1.0, 1.0, e, steps=16), 0.9),
    "mirror": (lambda e: mirrored_pair(truncated_laplace(-1.0, 1.0, e, 16), 3.0)[1], 0.9),
}
ENDS = -100.0, 100.0


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("mechanism", QUERIES)
def test_answers_leak_no_more_than_epsilon_and_nearly_that_much(mechanism, epsilon):
    make, share = QUERIES[mechanism]
    query = make(epsilon)
    assert not exceeds(query.channel, epsilon)
    bound = epsilon_lower_bound(lambda x: query.privatize(x).value, *ENDS)
    assert bound <= epsilon
    assert bound > share * epsilon - 0.15


def mirrored_leak(choose=lambda pair, x: toss(pair)) -> float:
    """Attack one of a mirrored pair and the coin that chose it."""
    pair = mirrored_pair(truncated_laplace(0.2, 2.0, 1.0, steps=16), 0.0)

    def answer(x):
        query = choose(pair, x)
        return query is pair[0], query.privatize(x).value

    return epsilon_lower_bound(answer, *ENDS)


def test_one_of_a_mirrored_pair_leaks_no_more_even_with_the_coin_known():
    assert 0.7 < mirrored_leak() <= 1.0


def sign_quantile_leak() -> float:
    """Attack what a quantile's collector asks, on both sides of its cut."""
    query = QuantileCollector(0.5, bounds=(0.0, 100.0), epsilon=1.0).query()
    assert ENDS[0] < query.cuts[0] < ENDS[1]
    return epsilon_lower_bound(lambda x: query.privatize(x).value, *ENDS)


def test_a_sign_for_a_quantile_leaks_no_more_than_epsilon_and_nearly_that_much():
    assert 0.75 < sign_quantile_leak() <= 1.0


def componentwise_leak() -> float:
    """Attack what a collector of two components asks, with both moved as far as they go."""
    query = ComponentwiseCollector([Normal(), Normal()], epsilon=2.0, rng=7).query()
    return epsilon_lower_bound(lambda x: query.privatize(x).values, (-1e6,) * 2, (1e6,) * 2)


def test_a_vector_by_component_leaks_no_more_than_epsilon_and_a_good_part_of_it():
    assert 0.5 < componentwise_leak() <= 2.0


def gaussian_leak() -> float:
    """Every threshold's two error rates, with exact bounds: μ ≥ Φ⁻¹(1 − α) − Φ⁻¹(β)."""
    query = truncated_gaussian(-1.0, 1.0, 1.0, steps=16, outputs=32)
    counts = [Counter(query.privatize(x).value for _ in range(DRAWS)) for x in ENDS]
    level = FALSE_ALARM / (2 * 31)
    bounds = []
    for threshold in range(1, 32):
        false_positives = sum(n for y, n in counts[0].items() if y >= threshold)
        false_negatives = sum(n for y, n in counts[1].items() if y < threshold)
        alpha, beta = (
            stats.beta.isf(level, k + 1, DRAWS - k) if k < DRAWS else 1.0
            for k in (false_positives, false_negatives)
        )
        bounds.append(stats.norm.isf(alpha) - stats.norm.ppf(beta))
    return float(max(bounds))


def test_a_gaussian_answer_is_within_the_curve_of_mu():
    assert 0.85 < gaussian_leak() <= 1.0


VECTOR_ENDS = (-100.0, -100.0), (100.0, 100.0)


def split(epsilon):
    return tuple(sign_response(0.0, part) for part in split_epsilon(epsilon, (1.0, 1.0)))


def past_its_check(query, queries):
    """A broken copy: a vector query with other queries than its claim is of."""
    broken = VectorQuery(query.dimension, query.components, query.queries, query.epsilon)
    object.__setattr__(broken, "queries", queries)
    return broken


def vector_leak(query=None, ends=VECTOR_ENDS) -> float:
    query = query or VectorQuery(2, (0, 1), split(2.0), 2.0)
    return epsilon_lower_bound(lambda x: query.privatize(x).values, *ends)


def test_all_answers_of_a_vector_together_leak_no_more_than_epsilon_and_nearly_that_much():
    assert 1.7 < vector_leak() <= 2.0


def one_component_leak() -> float:
    queries = [VectorQuery(2, (j,), (sign_response(0.0, 2.0),), 2.0) for j in (0, 1)]

    def answer(x):
        query = queries[secrets.randbits(1)]
        return query.components, query.privatize(x).values

    return epsilon_lower_bound(answer, *VECTOR_ENDS)


def test_one_component_with_the_whole_epsilon_leaks_no_more_even_with_the_choice_known():
    assert 1.7 < one_component_leak() <= 2.0


# Broken copies.


def whole_epsilon_each():
    """A vector query whose every component has the whole claim."""
    return past_its_check(VectorQuery(2, (0, 1), split(2.0), 2.0), (sign_response(0.0, 2.0),) * 2)


def test_the_whole_epsilon_for_every_component_is_caught_by_the_check_and_by_draws():
    shipped = whole_epsilon_each()
    with pytest.raises(InvalidArgument, match="queries together"):
        VectorQuery(2, (0, 1), shipped.queries, 2.0)
    with pytest.raises(InvalidArgument, match="epsilon_limit"):
        shipped.privatize(VECTOR_ENDS[0], epsilon_limit=2.0)
    assert vector_leak(shipped) > 2.0


def one_random_number_leak() -> float:
    """Answers that lie together tell more than their shares, though each channel is as claimed."""
    secret, drawn = channel_module.secrets.randbits, []

    def shared(bits):
        drawn.append(secret(bits) if len(drawn) % 2 == 0 else drawn[-1])
        return drawn[-1]

    with patch.object(channel_module.secrets, "randbits", shared):
        return vector_leak(ends=((-100.0, 100.0), (100.0, 100.0)))


def test_one_random_number_for_all_components_is_caught_by_draws_alone():
    assert one_random_number_leak() > 2.0


def looks(pair, x):
    """A coin that looks at the value half of the time."""
    return pair[x > 0] if secrets.randbits(1) else toss(pair)


def test_a_coin_that_looks_at_the_value_is_caught():
    assert mirrored_leak(looks) > 1.0


def root_two_too_small():
    """The published code's error, a standard deviation where the scale belongs, and no error."""
    honest = truncated_laplace(-1.0, 1.0, 2.0, steps=16)
    broken = truncated_laplace(-1.0, 1.0, 2.0 * math.sqrt(2), steps=16)
    return unchecked(honest, broken.channel), honest, broken


def report_leak(query) -> float:
    return epsilon_lower_bound(lambda x: query.privatize(x).value, *ENDS)


def test_noise_too_small_by_root_two_is_caught_by_both_audits():
    shipped, honest, broken = root_two_too_small()
    assert exceeds(broken.channel, 2.0)
    with pytest.raises(InvalidArgument, match="epsilon = 2 is less"):
        Query(honest.cuts, broken.channel, epsilon=2.0)
    assert report_leak(shipped) > 2.0


def one_weight_off(mechanism: str, excess: int) -> Channel:
    """The least weight of the tightest column, lower by what its rounding left and `excess`."""
    channel = QUERIES[mechanism][0](1.0).channel
    rows = [list(row) for row in channel.weights]
    columns = list(zip(*rows, strict=True))
    y = max(range(len(columns)), key=lambda y: Fraction(max(columns[y]), min(columns[y])))
    j = columns[y].index(min(columns[y]))
    spare = next(k for k in range(len(columns)) if k != y)
    allowed = math.floor(min(columns[y]) - max(columns[y]) / exp_down(1.0))
    assert allowed <= 64  # out of four thousand million
    rows[j][y] -= allowed + excess
    rows[j][spare] += allowed + excess
    return Channel(tuple(map(tuple, rows)))


def largest_log_ratio(channel: Channel) -> float:
    """The exact comparison: ε of a channel's weights, to within 1e-15."""
    columns = zip(*channel.weights, strict=True)
    return math.log(max(Fraction(max(column), min(column)) for column in columns))


def weight_off_leak() -> float:
    """Draws from a sign whose one weight is off by a sixteenth of all."""
    return report_leak(unchecked(sign_response(0.0, 1.0), one_weight_off("sign", TOTAL // 16)))


def test_a_weight_off_by_a_sixteenth_is_caught_by_draws_alone():
    assert weight_off_leak() > 1.0


@pytest.mark.parametrize("mechanism", QUERIES)
def test_one_weight_beyond_epsilon_is_caught(mechanism):
    query = QUERIES[mechanism][0](1.0)
    Query(query.cuts, one_weight_off(mechanism, 0), epsilon=1.0)
    with pytest.raises(InvalidArgument, match="epsilon = 1 is less"):
        Query(query.cuts, one_weight_off(mechanism, 1), epsilon=1.0)
    assert largest_log_ratio(one_weight_off(mechanism, 2**12)) > 1.0


def short_of_a_bit_leak() -> float:
    """Only the empirical audit can see that 31 random bits were taken for 32."""
    secret = channel_module.secrets.randbits
    with patch.object(channel_module.secrets, "randbits", lambda bits: secret(bits - 1)):
        return report_leak(sign_response(0.0, 1.0))


def test_a_sampler_that_ignores_its_weights_is_caught_by_draws_alone():
    assert sign_response(0.0, 1.0).channel.epsilon_at_most(1.0)
    assert short_of_a_bit_leak() > 1.0


def cell_leak() -> float:
    """A device that answers with the cell."""
    return epsilon_lower_bound(sign_response(0.0, 2.0).cell, *ENDS)


def test_a_device_that_answers_with_the_cell_is_caught():
    assert cell_leak() > 2.0


def test_a_channel_whose_middle_rows_leak_is_caught_though_its_end_rows_are_equal():
    flat, leaky = (TOTAL // 2, TOTAL // 2), (TOTAL // 8, TOTAL - TOTAL // 8)
    channel = Channel((flat, leaky, leaky[::-1], flat))
    assert exceeds(channel, 1.9)
    assert not exceeds(channel, 1.95)  # ln 7 = 1.9459
    with pytest.raises(InvalidArgument, match="less than the channel's"):
        Query((0.0, 1.0, 2.0), channel, epsilon=1.9)
    with pytest.raises(InvalidArgument, match="less than the channel's"):
        Query((0.0, 1.0, 2.0), channel, mu=2.3)  # 2Φ⁻¹(7/8) = 2.3007
