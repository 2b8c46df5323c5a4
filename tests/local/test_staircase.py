"""The most any ε-DP channel can tell: the bound is true, tight, and found."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from confidp.errors import InvalidArgument
from confidp.local import staircase
from confidp.local.design import best_knots, quantiles
from confidp.local.information import (
    COptimal,
    Design,
    Diagonal,
    a_optimal,
    d_optimal,
    fisher_information,
    information_at,
)
from confidp.local.kinds import Response, randomised_response
from confidp.local.population import (
    Exponential,
    Gamma,
    LogNormal,
    LogNormalPrior,
    Normal,
    ScipyFamily,
    StudentT,
)
from confidp.local.staircase import best_channel

STANDARD = (0.0, 1.0)


def every_staircase(epsilon, cells):
    """All 2^k staircase columns, as rows."""
    return math.exp(epsilon) ** np.array(list(itertools.product([0, 1], repeat=cells)))


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize(
    ("family", "theta", "weights"),
    [
        (Normal(), STANDARD, (1.0, 0.0)),
        (Normal(), STANDARD, (1.0, 1.0)),
        (LogNormal(), (9.0, 1.2), (0.5, 1.0)),
        (Exponential(), (2.0,), (1.0,)),
    ],
)
def test_a_linear_criterion_reaches_the_optimum_over_every_staircase_column(
    family, theta, weights, epsilon
):
    """With some 9 cells there are 512 columns, so the whole linear programme can be solved."""
    found = best_channel(family, theta, epsilon, Diagonal(weights), cells=7, tolerance=1e-4)
    point, cuts = np.array(theta), np.array(found.design.cuts)
    chances, slopes = family.cells(point[None, :], cuts)[0], family.gradient(point, cuts)
    columns = every_staircase(epsilon, len(chances))
    told = columns @ slopes.T
    values = (told**2 @ np.array(weights)) / (columns @ chances)
    whole = optimize.linprog(-values, A_eq=columns.T, b_eq=np.ones(len(chances)))
    assert found.loss == pytest.approx(whole.fun, rel=2e-4)
    assert found.bound <= whole.fun * (1 - 1e-9)  # both are negative
    assert found.bound == pytest.approx(whole.fun, rel=2e-4)


@pytest.mark.parametrize("criterion", [a_optimal, d_optimal, COptimal((0.0, 1.0))])
@pytest.mark.parametrize("epsilon", [1.5])
def test_no_mixture_of_staircase_columns_passes_the_bound(criterion, epsilon):
    """Vertices of the polytope of all channels on some 10 cells, in random directions."""
    found = best_channel(Normal(), STANDARD, epsilon, criterion, cells=7)
    point, cuts = np.array(STANDARD), np.array(found.design.cuts)
    cells = len(cuts) + 1
    columns = every_staircase(epsilon, cells)
    rng = np.random.default_rng(5)
    best = math.inf
    for _ in range(20):
        channel = optimize.linprog(
            rng.standard_normal(len(columns)), A_eq=columns.T, b_eq=np.ones(cells)
        )
        matrix = (columns * channel.x[:, None]).T
        best = min(best, criterion(information_at(Normal(), point, cuts, matrix)))
    assert best >= found.bound
    assert found.loss >= found.bound
    if not isinstance(criterion, COptimal):  # whose best channel may not tell the other parameter
        unit = 2 if criterion is d_optimal else found.loss
        assert found.loss - found.bound <= 2e-3 * unit


@pytest.mark.parametrize("criterion", [a_optimal, d_optimal, Diagonal((1.0, 0.0))])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_channel_found_is_private_and_tells_what_it_says(criterion, epsilon):
    found = best_channel(Normal(), (50.0, 3.0), epsilon, criterion, cells=24)
    matrix = found.design.probabilities()
    assert matrix.sum(axis=1) == pytest.approx(np.ones(len(matrix)))
    assert (matrix.max(axis=0) / matrix.min(axis=0)).max() <= math.exp(epsilon) * (1 + 1e-6)
    information = fisher_information(Normal(), (50.0, 3.0), found.design)
    assert information == pytest.approx(found.information, rel=1e-6, abs=1e-9)
    assert criterion(information) == pytest.approx(found.loss, rel=1e-6)


def test_no_response_with_the_partitions_cuts_passes_the_bound():
    for epsilon in (1.0, 3.0):
        found = best_channel(Normal(), STANDARD, epsilon, cells=16)
        for k in (2, 3, 4):
            matrix = randomised_response(k + 1, epsilon)
            for knots in itertools.combinations(found.design.cuts[2:-2:2], k):
                loss = a_optimal(fisher_information(Normal(), STANDARD, Design.of(knots, matrix)))
                assert loss >= found.bound


@pytest.mark.parametrize(("epsilon", "most"), [(0.5, 0.0382), (1, 0.136), (2, 0.369)])
def test_for_a_location_alone_sign_response_is_proved_best_where_epsilon_is_small(epsilon, most):
    found = best_channel(Normal(), STANDARD, epsilon, Diagonal((1.0, 0.0)), cells=40)
    known = 2 / math.pi * math.tanh(epsilon / 2) ** 2
    assert known == pytest.approx(most, abs=5e-4)
    assert -found.loss == pytest.approx(known, rel=2e-3)
    assert -found.bound <= known * 1.002


@pytest.mark.parametrize(("epsilon", "most"), [(5, 0.855), (10, 0.992)])
def test_for_a_location_alone_more_answers_pay_where_epsilon_is_large(epsilon, most):
    """Tolerance 1%: 40 cells here, 80 in the notes' table."""
    found = best_channel(Normal(), STANDARD, epsilon, Diagonal((1.0, 0.0)), cells=40)
    assert -found.loss == pytest.approx(most, rel=0.01)
    assert -found.loss > 1.3 * 2 / math.pi * math.tanh(epsilon / 2) ** 2


def test_three_ary_response_is_proved_best_at_epsilon_1_on_its_partition():
    found = best_channel(Normal(), STANDARD, 1.0, cells=40)
    response = best_knots(Normal(), STANDARD, Response(3, 1.0)).loss
    assert found.loss <= response * (1 + 1e-9)
    assert response <= found.bound * 1.002


def test_units_move_the_bound_as_they_move_the_loss():
    standard = best_channel(Normal(), STANDARD, 2.0, cells=20)
    moved = best_channel(Normal(), (1e4, 1e-3), 2.0, cells=20)
    assert moved.loss == pytest.approx(1e-6 * standard.loss, rel=4e-3)
    assert moved.bound <= moved.loss


@pytest.mark.parametrize("shifts", [0, 1, 8])
@pytest.mark.parametrize("seed", range(6))
def test_any_prices_prove_a_bound_and_in_full_the_least_one(monkeypatch, seed, shifts):
    """Over all 256 patterns of 8 cells; seed 5 has slopes in one direction only."""
    monkeypatch.setattr(staircase, "_SHIFTS", shifts)
    rng, epsilon = np.random.default_rng(seed), 0.5 + seed
    chances = rng.dirichlet(np.ones(8))
    v = rng.standard_normal((8, 2)) * chances[:, None] * ([1, 0] if seed == 5 else 1)
    prices = rng.uniform(-0.5, 1.0, 8)
    programme = staircase._Programme(chances, v, math.exp(epsilon))
    columns = every_staircase(epsilon, 8)
    over = ((columns @ v) ** 2).sum(axis=1) / (columns @ chances) - columns @ (prices * chances)
    least = prices @ chances + (over / (columns @ chances)).max()
    bound, _ = staircase._price(programme, v, prices)
    assert bound >= least - 1e-13
    if shifts == 8:
        assert bound <= least + 1e-6


@pytest.mark.parametrize(
    "criterion", [a_optimal, d_optimal, COptimal((1.0, -2.0)), Diagonal((1.0, 0.3))]
)
def test_gains_are_gradients(criterion):
    information, step = np.array([[2.0, 0.5], [0.5, 0.7]]), 1e-6
    gain = staircase._gain(criterion, information)
    for change in (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])):
        up, down = criterion(information + step * change), criterion(information - step * change)
        assert np.trace(gain @ change) == pytest.approx((down - up) / (2 * step), rel=1e-6)


@pytest.mark.parametrize(
    ("family", "theta", "isf"),
    [
        (Normal(), (5.0, 2.0), stats.norm(5, 2).isf),
        (StudentT(1), (-3.0, 2.0), stats.cauchy(-3, 2).isf),
        (LogNormal(), (9.0, 1.2), stats.lognorm(1.2, scale=math.exp(9)).isf),
        (Gamma(), (0.4, 7.0), stats.gamma(0.4, scale=7).isf),
        (Exponential(), (3.0,), stats.expon(scale=3).isf),
    ],
)
def test_quantiles_are_those_of_the_family(family, theta, isf):
    scores = np.array([-4.0, -1.0, 0.0, 0.5, 3.0, 9.0])  # the last is 1 − 1e-19
    assert quantiles(family, np.array(theta), scores) == pytest.approx(
        isf(stats.norm.sf(scores)), rel=1e-6
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 23.0}, "epsilon must be"),
        ({"criterion": lambda information: 0.0}, "criterion must be"),
        ({"criterion": Diagonal((1.0, -1.0))}, "criterion must be"),
        ({"cells": 1}, "cells must be"),
        ({"cells": 161}, "cells must be at most 160"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"theta": (0.0, -1.0)}, "sigma must be"),
    ],
)
def test_bad_arguments_are_refused(changed, message):
    arguments = {"theta": STANDARD, "epsilon": 1.0, "criterion": a_optimal} | changed
    with pytest.raises(InvalidArgument, match=message):
        best_channel(Normal(), **arguments)


def test_three_parameters_have_no_bound():
    prior = LogNormalPrior()
    family = ScipyFamily("exponweib", {"a": prior, "c": prior, "scale": prior})
    with pytest.raises(InvalidArgument, match="two directions"):
        best_channel(family, (1.0, 1.5, 2.0), 2.0, cells=10)
