"""Fisher information, criteria, best cuts: section 3's table recomputed."""

import math

import numpy as np
import pytest

from confidp.errors import InvalidArgument
from confidp.local.design import (
    COptimal,
    Design,
    Diagonal,
    GaussianResponse,
    Response,
    TruncatedGaussian,
    TruncatedLaplace,
    a_optimal,
    answer_probabilities,
    best_cells,
    best_knots,
    d_optimal,
    fisher_information,
    place_best,
    randomised_response,
    response_epsilon,
)
from confidp.local.population import (
    Exponential,
    Gamma,
    Laplace,
    Logistic,
    LogNormal,
    LogNormalPrior,
    Normal,
    ScipyFamily,
    StudentT,
)

STANDARD = (0.0, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "trace", "cut"),
    [(0.5, 89.7, 0.68), (1, 21.07, 0.70), (2, 5.73, 0.78), (5, 2.42, 0.99), (10, 2.28, 1.03)],
)
def test_three_answers_reach_the_tables_trace(epsilon, trace, cut):
    best = best_knots(Normal(), STANDARD, Response(3, epsilon))
    assert best.loss == pytest.approx(trace, abs=5e-3 if trace < 50 else 5e-2)
    assert best.knots == pytest.approx((-cut, cut), abs=5e-3)


@pytest.mark.parametrize(("epsilon", "trace"), [(5, 2.11), (10, 1.94)])
def test_four_answers_reach_the_tables_trace(epsilon, trace):
    loss = best_knots(Normal(), STANDARD, Response(4, epsilon)).loss
    assert loss == pytest.approx(trace, abs=5e-3)


@pytest.mark.parametrize(
    ("epsilon", "trace", "paper"),
    [(0.5, 1210, None), (1, 170.5, 0.071), (2, 28.3, 0.223), (5, 4.85, 0.728), (10, 2.43, 1.224)],
)
def test_truncated_laplace_reaches_the_tables_trace_and_interval(epsilon, trace, paper):
    assert best_knots(Normal(), STANDARD, TruncatedLaplace(epsilon)).loss == pytest.approx(
        trace, rel=6e-3
    )
    if paper:
        first = best_knots(Normal(), STANDARD, TruncatedLaplace(epsilon), Diagonal((1.0, 0.0)))
        assert first.knots == pytest.approx((-paper, paper), abs=2.5e-3)


def test_the_papers_score_loses_sight_of_the_scale():
    mechanism = TruncatedLaplace(1.0)
    knots = best_knots(Normal(), STANDARD, mechanism, Diagonal((1.0, 0.0))).knots
    information = fisher_information(Normal(), STANDARD, Design.of(*mechanism.build(knots)))
    assert information[0, 0] == pytest.approx(0.109, abs=5e-4)
    assert information[1, 1] == pytest.approx(5e-5, rel=0.1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 5.0])
def test_sign_response_has_the_known_information_on_a_location(epsilon):
    known = 2 / math.pi * math.tanh(epsilon / 2) ** 2
    design = Design.of([0.0], randomised_response(2, epsilon))
    assert fisher_information(Normal(), STANDARD, design)[0, 0] == pytest.approx(known)
    best = best_knots(Normal(), STANDARD, Response(2, epsilon), Diagonal((1.0, 0.0)))
    assert best.loss == pytest.approx(-known)
    assert best.knots[0] == pytest.approx(0, abs=1e-3)


def test_no_privacy_and_many_cells_approach_the_full_information():
    design = Design.of(np.linspace(-5, 5, 400), np.eye(401))
    assert a_optimal(fisher_information(Normal(), STANDARD, design)) == pytest.approx(1.5, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "theta"),
    [
        (Normal(), (1.0, 2.0)),
        (StudentT(3), (1.0, 2.0)),
        (Logistic(), (1.0, 2.0)),
        (Laplace(), (1.1, 2.0)),
        (LogNormal(), (0.2, 0.5)),
        (Exponential(), (2.0,)),
        (Gamma(), (2.0, 1.5)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_information_is_the_mean_square_of_the_score(family, theta):
    design = Design.of([0.5, 1.5, 3.0], randomised_response(4, 1.5))
    point, step = np.array(theta), 1e-5
    p = answer_probabilities(family, point[None, :], design)[0]
    scores = []
    for i in range(len(theta)):
        shift = np.zeros(len(theta))
        shift[i] = step
        up, down = answer_probabilities(family, np.stack([point + shift, point - shift]), design)
        scores.append((np.log(up) - np.log(down)) / (2 * step))
    expected = np.einsum("iy,jy,y->ij", scores, scores, p)
    assert fisher_information(family, theta, design) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_information_never_exceeds_what_privacy_leaves():
    """Merging two answers is processing: it can only lose information."""
    matrix = randomised_response(3, 1.0)
    merged = np.stack([matrix[:, 0] + matrix[:, 1], matrix[:, 2]], axis=1)
    full = fisher_information(Normal(), STANDARD, Design.of([-0.7, 0.7], matrix))
    less = fisher_information(Normal(), STANDARD, Design.of([-0.7, 0.7], merged))
    assert np.linalg.eigvalsh(full - less).min() > -1e-12


def test_criteria():
    information = np.array([[4.0, 1.0], [1.0, 2.0]])
    inverse = np.linalg.inv(information)
    assert a_optimal(information) == pytest.approx(np.trace(inverse))
    assert d_optimal(information) == pytest.approx(-math.log(7))
    assert COptimal((1.0, 2.0))(information) == pytest.approx([1, 2] @ inverse @ [1, 2])
    assert Diagonal((1.0, 0.0))(information) == -4
    assert Diagonal((1.0, 1.0))(information) == -6
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    for criterion in (a_optimal, d_optimal, COptimal((1.0, 0.0))):
        assert criterion(singular) == math.inf
        assert criterion(np.zeros((2, 2))) == math.inf
    # Units don't matter: a scale of 1e-9 beside a location of 1 is not singular.
    units = np.diag([1.0, 1e-9])
    assert a_optimal(units @ information @ units) == pytest.approx(1e18 * inverse[1, 1])


def test_two_answers_cant_tell_two_parameters():
    with pytest.raises(InvalidArgument, match="tell too little of"):
        best_knots(Normal(), STANDARD, Response(2, 1.0))


@pytest.mark.parametrize("criterion", [a_optimal, d_optimal, COptimal((0.0, 1.0))])
def test_no_small_move_of_the_best_cuts_is_better(criterion):
    mechanism = Response(4, 3.0)
    best = best_knots(Logistic(), STANDARD, mechanism, criterion)
    for i in range(3):
        for move in (-0.02, 0.02):
            knots = list(best.knots)
            knots[i] += move
            design = Design.of(*mechanism.build(tuple(knots)))
            loss = criterion(fisher_information(Logistic(), STANDARD, design))
            assert loss >= best.loss * (1 - 1e-9) - 1e-9


def test_more_cells_pay_where_privacy_is_weak():
    assert [best_cells(Normal(), epsilon=e).cells for e in (0.5, 1.0, 2.0, 5.0)] == [3, 3, 3, 8]
    # At ε = 5 that is the best that a linear programme found over all channels.
    assert best_knots(Normal(), STANDARD, best_cells(Normal(), epsilon=5.0)).loss < 1.915
    assert best_cells(Exponential(), epsilon=1.0).cells == 2


@pytest.mark.parametrize("family", [Normal(), LogNormal(), Laplace()])
def test_moved_cuts_are_as_good_as_those_solved_for(family):
    theta, mechanism = np.array([1.0, 0.3]), Response(3, 1.0)
    placed = place_best(family, theta, mechanism)
    loss = a_optimal(fisher_information(family, theta, Design.of(*mechanism.build(tuple(placed)))))
    assert loss <= 1.02 * best_knots(family, theta, mechanism).loss


@pytest.mark.parametrize(
    ("family", "theta"),
    [(LogNormal(), (9.0, 1.2)), (Normal(), (5e4, 20.0)), (Exponential(), (1e5,))],
)
def test_cuts_solved_for_far_from_the_standard_are_no_worse_than_moved_ones(family, theta):
    mechanism, point = Response(3, 2.0), np.array(theta)
    standard = best_knots(family, family.standard, mechanism)
    moved = family.place(point, np.array(standard.knots))
    loss = a_optimal(fisher_information(family, theta, Design.of(*mechanism.build(tuple(moved)))))
    assert best_knots(family, theta, mechanism).loss <= loss * (1 + 1e-6)


def test_families_without_a_standard_are_solved_on_a_coarse_grid_of_theta():
    weibull = ScipyFamily("weibull_min", {"c": LogNormalPrior(), "scale": LogNormalPrior()})
    for family, theta in ((Gamma(), [2.1, 3.3]), (weibull, [1.4, 3.3])):
        mechanism = Response(3, 2.0)
        placed = place_best(family, np.array(theta), mechanism)
        design = Design.of(*mechanism.build(tuple(placed)))
        loss = a_optimal(fisher_information(family, theta, design))
        assert loss <= 1.1 * best_knots(family, theta, mechanism).loss
        assert np.array_equal(placed, place_best(family, np.array(theta) * 1.0001, mechanism))


def test_cuts_stay_apart_where_the_spread_is_below_a_floats_resolution():
    placed = place_best(Normal(), np.array([1e9, 1e-12]), Response(3, 1.0))
    assert placed[0] < placed[1]


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("cells", [2, 3, 8])
def test_gaussian_response_is_proved_and_not_wasteful(mu, cells):
    channel = GaussianResponse(cells, mu).queries(tuple(range(cells - 1)))[0].channel
    assert channel.satisfies_gdp(mu)
    assert not channel.satisfies_gdp(mu * (1 - 1e-6))
    assert response_epsilon(mu, 2) == pytest.approx(
        2 * math.atanh(math.erf(mu / 2 / math.sqrt(2))), rel=1e-5
    )


@pytest.mark.parametrize(
    "mechanism",
    [Response(3, 1.0), GaussianResponse(3, 1.0), TruncatedLaplace(1.0), TruncatedGaussian(1.0)],
)
def test_what_is_designed_is_what_is_asked(mechanism):
    knots = (-1.5, 2.0)
    (query,), (cuts, matrix) = mechanism.queries(knots), mechanism.build(knots)
    assert query.cuts == pytest.approx(tuple(cuts))
    assert np.array(query.channel.weights) / 2**32 == pytest.approx(matrix, abs=1e-9)


@pytest.mark.parametrize(
    ("cuts", "weights"),
    [
        ([0.0], [[1, 0]]),
        ([0.0], [[1, 0], [1, 1]]),
        ([0.0], [[1, -1], [0, 0]]),
        ([0.0], [[0, 0], [0, 0]]),
        ([0.0], [[np.nan, 1], [1, 1]]),
        ([np.nan], [[1, 1], [1, 1]]),
        ([1.0, 0.0], np.eye(3)),
        ([0.0, 0.0], np.eye(3)),
    ],
)
def test_designs_that_make_no_sense_are_refused(cuts, weights):
    with pytest.raises(InvalidArgument):
        Design.of(cuts, weights)
