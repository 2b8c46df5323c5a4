"""Equations 12 and 13: the best interval on a grid, by Monte Carlo and exactly."""

import numpy as np
import pytest

from confidp.errors import InvalidArgument
from confidp.local.continuous import TruncatedLaplaceDensity, best_interval
from confidp.local.design import Diagonal, a_optimal
from confidp.local.published.interval import full_grid, search, symmetric_grid
from confidp.local.published.model import normal
from confidp.local.published.score import fisher_information

F11 = Diagonal((1.0, 0.0))


def exact(epsilon):
    return lambda a, b: TruncatedLaplaceDensity(a, b, epsilon).fisher_information(0.0, 1.0)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 5.0, 10.0])
def test_the_best_of_the_paper_s_grid_is_next_to_the_exact_peak(epsilon):
    found = search(exact(epsilon), F11, symmetric_grid(51))
    assert abs(found.b - best_interval(epsilon)[1]) <= 0.06
    assert found.loss == found.losses.min() == -exact(epsilon)(found.a, found.b)[0, 0]


def test_the_monte_carlo_search_finds_nearly_the_best_score():
    def simulated(a, b):
        rng = np.random.default_rng(1)  # the same numbers for every interval
        return fisher_information(
            normal(), np.array([0.0, 1.0]), a, b, 5.0, rng, n_reports=400, n_samples=400
        )

    found = search(simulated, F11, symmetric_grid(21))
    best = exact(5.0)(*best_interval(5.0))[0, 0]
    # The score is flat at its peak: 0.9 of it is kept by intervals from ±0.37 to ±1.3.
    assert exact(5.0)(found.a, found.b)[0, 0] > 0.9 * best


def test_asymmetric_intervals_tell_no_more_of_the_mean():
    full = search(exact(5.0), F11, full_grid(25))
    assert (full.a, full.b) == pytest.approx((-0.75, 0.75))


def test_the_paper_s_score_loses_sight_of_sigma():
    information = exact(1.0)(*best_interval(1.0))
    assert information[0, 0] == pytest.approx(0.109, abs=5e-4)
    assert information[1, 1] == pytest.approx(5.2e-5, abs=5e-7)
    wider = search(exact(1.0), a_optimal, full_grid(25))
    assert wider.b - wider.a > 1
    assert exact(1.0)(wider.a, wider.b)[1, 1] > 100 * information[1, 1]


def test_grids_hold_what_the_paper_says():
    assert symmetric_grid(51).shape == (50, 2)
    assert full_grid(50).shape == (50 * 49 // 2, 2)
    assert (full_grid(50)[:, 0] < full_grid(50)[:, 1]).all()
    assert np.allclose(symmetric_grid(51)[:2, 1], [0.06, 0.12])


def test_bad_input_is_refused():
    for intervals in ([], [1.0, 2.0], [[1.0, 2.0, 3.0]]):
        with pytest.raises(InvalidArgument, match="rows of"):
            search(exact(1.0), F11, intervals)
