"""Mirrored pairs: the mean of two informations, a fair coin, and what can't be mirrored."""

import math
from collections import Counter

import numpy as np
import pytest

from confidp.errors import InvalidType
from confidp.local.asking import from_dict, query_at, to_dict
from confidp.local.design import (
    Design,
    Response,
    TruncatedGaussian,
    TruncatedLaplace,
    a_optimal,
    best_knots,
    fisher_information,
)
from confidp.local.mirrored import Mirrored
from confidp.local.population import Logistic, Normal

THETA = (50.0, 3.0)
INNER = [TruncatedLaplace(1.0, steps=8), TruncatedGaussian(1.0, 8, 16), Response(2, 1.0)]


def information(query):
    return fisher_information(Normal(), THETA, Design.of(query.cuts, query.channel.weights))


@pytest.mark.parametrize("inner", INNER)
def test_information_is_the_mean_of_the_two(inner):
    pair = Mirrored(inner)
    knots = (50.5, 52.0, 54.0)[: pair.n_knots]
    built = fisher_information(Normal(), THETA, Design.of(*pair.build(knots)))
    mean = sum(information(query) for query in pair.queries(knots)) / 2
    assert np.allclose(built, mean, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("inner", INNER)
def test_the_built_channel_is_half_of_either_query_in_every_cell(inner):
    pair = Mirrored(inner)
    knots = (50.5, 52.0, 54.0)[: pair.n_knots]
    cuts, matrix = pair.build(knots)
    middles = np.concatenate([[cuts[0] - 1], (cuts[1:] + cuts[:-1]) / 2, [cuts[-1] + 1]])
    for x, row in zip(middles, matrix, strict=True):
        rows = [query.channel.weights[query.cell(float(x))] for query in pair.queries(knots)]
        assert np.allclose(row, np.concatenate(rows) / 2**33, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("epsilon", "printed"), [(0.5, 143.0), (1.0, 41.7), (2.0, 13.9)])
def test_losses_are_those_of_a_search_by_hand_and_far_below_one_intervals(epsilon, printed):
    inner = TruncatedLaplace(epsilon)
    found = best_knots(Normal(), (0.0, 1.0), Mirrored(inner)).loss
    assert found == pytest.approx(printed, rel=4e-3)
    assert found < 0.5 * best_knots(Normal(), (0.0, 1.0), inner).loss


@pytest.mark.parametrize("inner", INNER)
def test_both_queries_claim_what_the_mechanism_does(inner):
    for query in Mirrored(inner).queries((0.0, 1.0, 2.0)[: 1 + inner.n_knots]):
        assert query.epsilon == getattr(inner, "epsilon", None)
        assert query.mu == getattr(inner, "mu", None)


def test_the_mirror_image_is_about_the_centre():
    query, mirror = Mirrored(Response(3, 1.0)).queries((10.0, 11.0, 14.0))
    assert (query.cuts, mirror.cuts) == ((11.0, 14.0), (6.0, 9.0))
    assert query.channel.weights[0] == mirror.channel.weights[2][::-1]


def test_the_coin_is_fair():
    """4,000 tosses are within 2,000 ± 155 but once in a million times: 4.9 deviations."""
    pair = Mirrored(Response(2, 1.0))
    rng = np.random.default_rng(3)

    def ask():
        return query_at(Logistic(), np.array([0.0, 1.0]), pair, a_optimal, rng)

    counts = Counter(ask().id for _ in range(4000))
    assert len(counts) == 2
    assert abs(min(counts.values()) - 2000) < 4.9 * math.sqrt(1000)


def test_narrow_intervals_stay_on_a_public_grid():
    """An interval of 0.07 σ is finer than a quarter of σ, and still few queries are asked."""
    rng = np.random.default_rng(4)
    pair = Mirrored(TruncatedLaplace(1.0, steps=4))
    asked = {
        query_at(Normal(), np.array([50 + 0.2 * z, 3.0]), pair, a_optimal, rng).id
        for z in rng.standard_normal(400)
    }
    assert len(asked) < 60


@pytest.mark.parametrize("inner", INNER)
def test_written_and_read_back(inner):
    assert from_dict(to_dict(Mirrored(inner))) == Mirrored(inner)


def test_what_cannot_be_mirrored_is_refused():
    for inner in (None, "response", 1.0, Mirrored(Response(2, 1.0))):
        with pytest.raises(InvalidType, match="mechanism must be"):
            Mirrored(inner)
