"""Mechanisms: each is what its name says, and no more revealing than it claims."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confidp.errors import InvalidArgument, InvalidType
from confidp.local import mechanisms
from confidp.local.channel import EPSILON_CAP, TOTAL, Channel, exp_down
from confidp.local.mechanisms import (
    from_probabilities,
    mirrored_pair,
    response,
    sign_response,
    toss,
    truncated_gaussian,
    truncated_laplace,
)
from confidp.local.query import Query

EPSILONS = [1e-4, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 22.0]
PURE = {
    "response": lambda epsilon: response((-1.0, 1.0), epsilon),
    "wide response": lambda epsilon: response(range(15), epsilon),
    "sign": lambda epsilon: sign_response(0.0, epsilon),
    "laplace": lambda epsilon: truncated_laplace(-1.0, 2.0, epsilon),
    "coarse laplace": lambda epsilon: truncated_laplace(-1.0, 2.0, epsilon, steps=1),
    "fine laplace": lambda epsilon: truncated_laplace(-1.0, 2.0, epsilon, steps=100),
    "mirror": lambda epsilon: mirrored_pair(truncated_laplace(1.0, 2.0, epsilon), 0.0)[1],
}


def probabilities(query):
    return np.array(query.channel.weights) / TOTAL


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mechanism", PURE)
def test_epsilon_is_claimed_kept_and_used(mechanism, epsilon):
    query = PURE[mechanism](epsilon)
    assert query.epsilon == epsilon
    assert query.channel.epsilon_at_most(epsilon)
    # What rounding costs: a few units of 2^-32 on the smallest weight of the two.
    lost = 1 - query.channel.least_epsilon() / epsilon
    assert lost < (0.03 if epsilon > 20 else 1e-3 if epsilon < 0.01 else 1e-4)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, EPSILON_CAP), st.integers(1, 40), st.integers(1, 40))
def test_no_epsilon_is_exceeded(epsilon, steps, cuts):
    for query in (truncated_laplace(0.0, 1.0, epsilon, steps), response(range(cuts), epsilon)):
        assert query.channel.epsilon_at_most(epsilon)


@pytest.mark.parametrize("cells", [2, 3, 4, 16])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 15.0])
def test_response_has_the_textbook_chances_and_the_least_weights_there_are(cells, epsilon):
    query = response(range(cells - 1), epsilon)
    other = 1 / (math.exp(epsilon) + cells - 1)
    expected = np.full((cells, cells), other) + np.eye(cells) * (math.exp(epsilon) - 1) * other
    np.testing.assert_allclose(probabilities(query), expected, atol=cells / TOTAL)
    least = math.ceil(TOTAL / (exp_down(epsilon) + cells - 1))
    assert {w for row in query.channel.weights for w in row} == {
        least,
        TOTAL - (cells - 1) * least,
    }


def test_sign_response_is_binary_response():
    assert sign_response(3.0, 1.0) == response((3.0,), 1.0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_laplace_has_the_clipped_chances_of_a_two_sided_geometric_law(epsilon):
    steps = 8
    query = truncated_laplace(0.0, 4.0, epsilon, steps)
    noise = np.arange(-4000, 4001)
    law = stats.dlaplace(epsilon / steps).pmf(noise)
    for j, row in enumerate(probabilities(query)):
        landed = np.clip(j + noise, 0, steps)
        expected = np.bincount(landed, law, minlength=steps + 1)
        np.testing.assert_allclose(row, expected, atol=2 * (steps + 1) / TOTAL)


def test_laplace_noise_has_the_scale_and_not_the_standard_deviation_of_its_parameter():
    """The published code is √2 off: E|noise| is the scale, (high − low)/ε."""
    steps, epsilon = 100, 20.0
    query = truncated_laplace(-1.0, 1.0, epsilon, steps)
    middle = probabilities(query)[steps // 2]
    assert np.abs(np.arange(steps + 1) - steps // 2) @ middle * (2 / steps) == pytest.approx(
        2 / epsilon, rel=0.01
    )


def test_the_grid_clips_and_rounds_to_the_nearest_point():
    query = truncated_laplace(10.0, 14.0, 1.0, steps=4)
    assert query.cuts == (10.5, 11.5, 12.5, 13.5)
    assert [query.cell(x) for x in (-5, 10, 10.4, 10.6, 12, 14, 99)] == [0, 0, 0, 1, 2, 4, 4]
    assert truncated_laplace(-1e308, 1e308, 1.0, steps=2).cuts == (-5e307, 5e307)


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 2.0, 5.0, 8.0])
def test_gaussian_is_claimed_kept_and_used(mu):
    query = truncated_gaussian(0.0, 1.0, mu, steps=16, outputs=48)
    assert query.mu == mu
    assert query.epsilon is None
    assert query.channel.satisfies_gdp(mu)
    assert not query.channel.satisfies_gdp(0.9999 * mu)
    # The noise that rounding takes.
    assert not query.channel.epsilon_at_most(mu)


def test_gaussian_has_the_chances_of_its_bins():
    mu, steps, outputs = 2.0, 4, 10
    query = truncated_gaussian(1.0, 3.0, mu, steps, outputs)
    assert query.cuts == (1.25, 1.75, 2.25, 2.75)
    s = 2.0 / mu
    edges = np.linspace(1 - 3 * s, 3 + 3 * s, outputs + 1)
    edges[[0, -1]] = -np.inf, np.inf
    for point, row in zip(np.linspace(1, 3, steps + 1), probabilities(query), strict=True):
        np.testing.assert_allclose(row, np.diff(stats.norm(point, s).cdf(edges)), atol=1e-7)


def test_gaussian_with_the_noise_of_a_larger_mu_is_refused():
    rows = mechanisms._gaussian_rows(1.001, 16, 48)
    with pytest.raises(InvalidArgument, match="mu = 1 is less"):
        Query(tuple(range(16)), Channel.from_probabilities(rows), mu=1.0)


def test_gaussian_rounded_without_more_noise_may_exceed_its_mu():
    """Why the noise grows by a little until the check passes."""
    rows = mechanisms._gaussian_rows(0.1, 32, 64)
    assert not Channel.from_probabilities(rows).satisfies_gdp(0.1)


def nearest(rows):
    """Round to the nearest whole number, and mend the sum in the largest: the careless way."""
    weights = [[round(p * TOTAL) for p in row] for row in rows]
    for row in weights:
        row[row.index(max(row))] += TOTAL - sum(row)
    return Channel(tuple(map(tuple, weights)))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0])
def test_laplace_rounded_to_the_nearest_exceeds_its_epsilon(epsilon):
    exceeded = []
    for steps in range(4, 40):
        shrink = math.exp(-epsilon / steps)
        ends = [shrink**j / (1 + shrink) for j in range(steps + 1)]
        inner = (1 - shrink) / (1 + shrink)
        rows = [
            [ends[j], *(inner * shrink ** abs(j - y) for y in range(1, steps)), ends[steps - j]]
            for j in range(steps + 1)
        ]
        exceeded.append(not nearest(rows).epsilon_at_most(epsilon))
        assert Channel.from_probabilities(rows, epsilon).epsilon_at_most(epsilon)
    assert sum(exceeded) > 10


def test_mirroring_reflects_values_and_answers():
    query = from_probabilities(
        (51.0, 53.0), [[0.5, 0.2, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2]], epsilon=1
    )
    same, mirror = mirrored_pair(query, 50.0)
    assert same is query
    assert mirror.cuts == (47.0, 49.0)
    np.testing.assert_array_equal(probabilities(mirror), probabilities(query)[::-1, ::-1])
    assert (mirror.epsilon, mirror.mu) == (query.epsilon, query.mu)
    assert mirrored_pair(mirror, 50.0)[1] == query
    gaussian = truncated_gaussian(51.0, 53.0, 1.0, steps=4, outputs=9)
    assert mirrored_pair(gaussian, 50.0)[1].channel.satisfies_gdp(1.0)


def test_the_coin_is_fair_public_and_the_operating_systems(monkeypatch):
    """With a false-alarm rate of 1e-6."""
    pair = mirrored_pair(sign_response(1.0, 1.0), 0.0)
    heads = sum(toss(pair) is pair[1] for _ in range(4000))
    assert stats.binomtest(heads, 4000).pvalue > 1e-6
    asked = []
    monkeypatch.setattr(mechanisms.secrets, "randbits", lambda bits: asked.append(bits) or 1)
    assert toss(pair) is pair[1]
    assert asked == [1]


def test_ones_own_channel():
    rows = [[0.6, 0.25, 0.15], [0.3, 0.4, 0.3]]
    query = from_probabilities([1.5], rows, epsilon=math.log(2) + 1e-12, mu=0.9)
    np.testing.assert_allclose(probabilities(query), rows, atol=1e-9)
    assert from_probabilities([1.5], rows, mu=0.9).epsilon is None
    for claims, message in [
        ({"epsilon": 0.69}, "must satisfy epsilon"),
        ({"epsilon": 1.0, "mu": 0.3}, "mu = 0.3 is less"),
        ({"mu": 0.3}, "mu = 0.3 is less"),
        ({}, "must claim"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            from_probabilities([1.5], rows, **claims)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 22.01, 1e9, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda epsilon: response([0.0], epsilon),
        lambda epsilon: sign_response(0.0, epsilon),
        lambda epsilon: truncated_laplace(0.0, 1.0, epsilon),
    ],
)
def test_epsilon_is_above_zero_and_at_most_22(make, epsilon):
    with pytest.raises((InvalidArgument, InvalidType), match="epsilon must be"):
        make(epsilon)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: truncated_laplace(1.0, 1.0, 1.0), "high must be"),
        (lambda: truncated_laplace(1.0, 0.0, 1.0), "high must be"),
        (lambda: truncated_laplace(-math.inf, 0.0, 1.0), "low must be"),
        (lambda: truncated_laplace(0.0, math.nan, 1.0), "high must be"),
        (lambda: truncated_laplace(0.0, 1.0, 1.0, steps=0), "steps must be"),
        (lambda: truncated_laplace(0.0, 1.0, 1.0, steps=2.5), "steps must be"),
        (lambda: truncated_laplace(0.0, 1.0, 1.0, steps=181), "steps must be at most 180"),
        (lambda: truncated_laplace(1.0, 1.0 + 1e-15, 1.0), "steps must be fewer"),
        (lambda: truncated_gaussian(0.0, 1.0, 0.0), "mu must be"),
        (lambda: truncated_gaussian(0.0, 1.0, 8.1), "mu must be"),
        (lambda: truncated_gaussian(0.0, 1.0, 1.0, outputs=1), "outputs must be"),
        (lambda: truncated_gaussian(0.0, 1.0, 1.0, outputs=1025), "outputs must be"),
        (lambda: truncated_gaussian(0.0, 1.0, 1.0, steps=150, outputs=200), "fewer for a claim"),
        (lambda: truncated_gaussian(0.0, 1.0, 1e-6), "mu = 1e-06 is too small"),
        (lambda: response([], 1.0), "2 to 256 rows"),
        (lambda: response([2.0, 1.0], 1.0), "increasing"),
        (lambda: response(range(256), 1.0), "at most 255"),
        (lambda: response([math.nan], 1.0), "cuts must be"),
        (lambda: mirrored_pair("query", 0.0), "must be a Query"),
        (lambda: mirrored_pair(sign_response(0.0, 1.0), math.nan), "center must be"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, message):
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        make()


def test_the_grid_s_points_are_evenly_spaced():
    cuts = truncated_laplace(-2.0, 3.0, 1.0, steps=50).cuts
    np.testing.assert_allclose([b - a for a, b in pairwise(cuts)], 0.1)
