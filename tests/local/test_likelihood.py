"""The pooled likelihood against the sum over single reports, in each of the ways it is computed."""

import math

import mpmath
import numpy as np
import pytest

from confidp.local import likelihood
from confidp.local.design import Design, TruncatedLaplace, answer_probabilities, randomised_response
from confidp.local.likelihood import Likelihood, log_likelihood
from confidp.local.population import Gamma, Normal

SIGN = Design.of([0.0], [[3, 1], [1, 3]])
EXACT = Design.of([1.0], np.eye(2))
RNG = np.random.default_rng(1)
THETA = Normal().sample_prior(50, RNG)


def laplace(low, width=3.0, epsilon=1.0):
    return Design.of(*TruncatedLaplace(epsilon).build((low, low + width)))


def some(design, rng, n):
    return tuple(rng.multinomial(n, np.full(design.answers, 1 / design.answers)).tolist())


def response(cuts, epsilon):
    return Design.of(cuts, randomised_response(len(cuts) + 1, epsilon))


KINDS = {
    "one report": {laplace(-1.0): tuple(int(y == 7) for y in range(33))},
    "an answer nobody gave": {SIGN: (4, 0), response([-3.0, 3.0], 1.0): (0, 5, 0)},
    "full": {laplace(low): some(laplace(low), RNG, 5000) for low in (-30.0, 0.0, 0.5, 99.0)},
    "sparse": {laplace(low): some(laplace(low), RNG, 2) for low in np.arange(-8.0, 8.0, 0.5)},
    "two matrices": {response([c], 0.5): (1, 2) for c in (-9.0, 0.0, 9.0)}
    | {response([c, c + 1], 0.5): (0, 3, 1) for c in (-9.0, 0.0, 9.0)},
    "steep": {EXACT: (1, 2), response([-1.0, 5.0], 16.0): (1, 0, 3)},
    "no report": {},
}
KINDS["all of them"] = {design: seen for kind in KINDS.values() for design, seen in kind.items()}


def one_by_one(population, theta, counts):
    total = np.zeros(len(theta))
    for design, seen in counts.items():
        chances = answer_probabilities(population, theta, design)
        for y, times in enumerate(seen):
            if times:
                total += times * np.log(chances[:, y])
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_sum_over_single_reports(kind):
    with np.errstate(divide="ignore"):
        expected = one_by_one(Normal(), THETA, KINDS[kind])
    assert log_likelihood(Normal(), THETA, KINDS[kind]) == pytest.approx(expected, rel=1e-12)


def test_the_kinds_above_are_computed_in_different_ways():
    ways = {kind: Likelihood(Normal(), counts) for kind, counts in KINDS.items()}
    assert ways["full"]._dense
    assert ways["full"]._sparse is None
    assert ways["sparse"]._sparse is not None
    assert not ways["sparse"]._dense
    assert len(ways["two matrices"]._dense) == 2
    assert len(ways["steep"]._steep) == 2


def test_other_families_too():
    theta = Gamma().sample_prior(50, np.random.default_rng(2))
    counts = {
        laplace(0.5): KINDS["one report"][laplace(-1.0)],
        response([1.0, 4.0], 2.0): (3, 1, 2),
    }
    expected = one_by_one(Gamma(), theta, counts)
    assert log_likelihood(Gamma(), theta, counts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("block", [1, 120, 10_000])
def test_blocks_dont_change_it(monkeypatch, block):
    whole = log_likelihood(Normal(), THETA, KINDS["all of them"])
    monkeypatch.setattr(likelihood, "_BLOCK", block)
    monkeypatch.setattr(likelihood, "_LEAST", 1)
    assert log_likelihood(Normal(), THETA, KINDS["all of them"]) == pytest.approx(whole, rel=1e-13)


def test_the_order_of_queries_doesnt_change_it():
    counts = KINDS["all of them"]
    backwards = dict(reversed(counts.items()))
    forth = log_likelihood(Normal(), THETA, counts)
    assert log_likelihood(Normal(), THETA, backwards) == pytest.approx(forth, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 12.0, 20.0])
@mpmath.workdps(40)
def test_far_cells_keep_their_digits(epsilon):
    """Eight and forty standard deviations off, to 1e-9: by parts below ε = 13, by tails above."""
    theta = np.array([[-8.0, 1.0], [40.0, 1.0]])
    design = response([0.0, 1.0], epsilon)
    for y in range(3):
        seen = tuple(int(y == answer) for answer in range(3))
        found = log_likelihood(Normal(), theta, {design: seen})
        for row, (mean, _) in zip(found, theta, strict=True):
            below = [mpmath.ncdf(c - mean) for c in (0, 1)]
            cells = [below[0], below[1] - below[0], mpmath.ncdf(mean - 1)]
            chance = sum(p * q for p, q in zip(cells, design.probabilities()[:, y], strict=True))
            assert row == pytest.approx(float(mpmath.log(chance)), rel=1e-9)


def test_it_is_minus_infinity_but_never_nan():
    theta = np.array([[0.0, 1.0], [np.nan, 1.0], [0.0, np.nan], [1e308, 1e-300], [-1e300, 1.0]])
    for counts in (KINDS["full"], KINDS["sparse"], KINDS["steep"], {SIGN: (0, 1)}):
        found = log_likelihood(Normal(), theta, counts)
        assert not np.isnan(found).any()
        assert (found[1:3] == -math.inf).all()
        assert math.isfinite(found[0])


@pytest.mark.parametrize("kind", KINDS)
def test_one_query_alone_is_arranged_otherwise_and_comes_out_the_same(kind):
    counts = KINDS[kind]
    each = sum(log_likelihood(Normal(), THETA, {query: seen}) for query, seen in counts.items())
    assert each == pytest.approx(log_likelihood(Normal(), THETA, counts), rel=1e-10)
