"""Quantiles: the right order statistic, and a smooth sensitivity that is the smallest one."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import local_sensitivities, smallest_smooth_bound, violations
from confidp import Median, Quantile
from confidp.errors import ConfidpError, InvalidArgument

BETAS = [0.1, 0.5, 2.0]


def on_grid(q: float, points: int) -> Quantile:
    return Quantile(q, bounds=(0, points - 1), resolution=1)


@pytest.mark.parametrize(
    ("q", "n", "rank"),
    [(0.5, 5, 3), (0.5, 6, 3), (0.1, 10, 1), (0.07, 100, 7), (0.99, 100, 99), (1e-9, 4, 1)],
)
def test_the_value_is_the_order_statistic_of_rank_qn_rounded_up(q, n, rank):
    statistic = Quantile(q, bounds=(1, n), resolution=1)
    rows = np.random.default_rng(1).permutation(np.arange(1.0, n + 1))[:, None]
    assert statistic.ranks(n) == (rank,)
    value = statistic.value(statistic.encode(rows))[0] + float(statistic.origin[0])
    assert value == rank


def test_the_median_is_the_half_quantile():
    assert Median((0, 9), resolution=1) == Quantile(0.5, (0, 9), resolution=1)
    assert Median((0, 9)).describe()["statistic"] == "median"


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize(("q", "n"), [(0.5, 4), (0.5, 5), (0.2, 5), (0.9, 5), (0.5, 2), (0.01, 4)])
def test_the_smooth_sensitivity_is_the_smallest_smooth_bound_on_all_small_data_sets(q, n, beta):
    points = 5
    statistic = on_grid(q, points)
    local = local_sensitivities(lambda x: statistic.value(x)[0], points, n)
    for data, smallest in smallest_smooth_bound(local, beta).items():
        assert statistic.smooth_sensitivity(np.array(data), beta) == pytest.approx(smallest)


@pytest.mark.parametrize("beta", BETAS)
def test_it_bounds_the_local_sensitivity_and_moves_by_at_most_e_to_the_beta(beta):
    points, n = 5, 5
    statistic = on_grid(0.5, points)
    local = local_sensitivities(lambda x: statistic.value(x)[0], points, n)
    bound = lambda x: statistic.smooth_sensitivity(x, beta)  # noqa: E731
    assert violations(bound, local, beta, points) == (0, 0)


def padded(data, index, points):
    return 0 if index < 1 else points - 1 if index > len(data) else int(np.sort(data)[index - 1])


def printed_lemma(beta, points, q=0.5):
    """Lemma 6.1's bound, x_(h+k⋆+1) − x_(h−k⋆−1) + C/n³, with C the range and k⋆ = 0."""

    def bound(data):
        h, n = on_grid(q, points).ranks(len(data))[0], len(data)
        return padded(data, h + 1, points) - padded(data, h - 1, points) + (points - 1) / n**3

    return bound


def printed_maximum(beta, points, k_star=1, q=0.5):
    """max over k ≤ k⋆ of e^{−βk}A_k, plus C/n³."""

    def bound(data):
        h, n = on_grid(q, points).ranks(len(data))[0], len(data)
        at = lambda k: max(  # noqa: E731
            padded(data, h + t, points) - padded(data, h + t - k - 1, points) for t in range(k + 2)
        )
        return max(math.exp(-beta * k) * at(k) for k in range(k_star + 1)) + (points - 1) / n**3

    return bound


@pytest.mark.parametrize("wrong", [printed_lemma, printed_maximum])
def test_the_two_printed_forms_fail_the_same_check(wrong):
    points, n, beta = 6, 6, 0.19
    statistic = on_grid(0.5, points)
    local = local_sensitivities(lambda x: statistic.value(x)[0], points, n)
    under, rough = violations(wrong(beta, points), local, beta, points)
    assert under == 0
    assert rough > 0


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(2, 400),
    q=st.sampled_from([0.01, 0.1, 0.5, 0.9, 0.99]),
    beta=st.floats(1e-3, 3.0),
    atoms=st.booleans(),
)
@settings(deadline=None)
def test_the_growing_window_misses_nothing(seed, n, q, beta, atoms):
    rng = np.random.default_rng(seed)
    statistic = Quantile(q, bounds=(0, 1), resolution=2**-20)
    values = rng.choice([0.0, 0.3, 1.0], n) if atoms else rng.random(n) ** 3
    records = statistic.encode(values[:, None])
    h, cells = statistic.ranks(n)[0], statistic.grid.cells
    x = np.concatenate([[0], np.sort(records), [cells]])
    everything = max(
        math.exp(-beta * (j - i - 1)) * (x[j] - x[i])
        for i in range(h + 1)
        for j in range(max(h, i + 1), n + 2)
    )
    found = statistic.smooth_sensitivity(records, beta)
    assert found == pytest.approx(everything * 2**-20, rel=1e-12, abs=0)


def test_with_all_data_equal_it_is_small_but_not_zero_unless_it_underflows():
    statistic = Median((0, 1))
    records = statistic.encode(np.full((100, 1), 0.5))
    assert 0 < statistic.smooth_sensitivity(records, 0.5) < 1e-10
    assert statistic.smooth_sensitivity(np.repeat(records, 1000), 1.0) == 0.0  # e^−50,000
    assert statistic.rounding(100) > 0  # what keeps noise above 0 then


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"q": 0, "bounds": (0, 1)}, "q"),
        ({"q": 1.0, "bounds": (0, 1)}, "q"),
        ({"q": 50, "bounds": (0, 1)}, "q"),
        ({"q": math.nan, "bounds": (0, 1)}, "q"),
        ({"q": "0.5", "bounds": (0, 1)}, "q"),
        ({"q": 0.5, "bounds": (1, 0)}, "bounds"),
        ({"q": 0.5, "bounds": None}, "bounds"),
        ({"q": 0.5, "bounds": (0, 1), "resolution": 0.3}, "resolution"),
    ],
)
def test_bad_settings_are_refused_at_once(settings, name):
    with pytest.raises(ConfidpError, match=name):
        Quantile(**settings)


def test_two_columns_are_refused():
    with pytest.raises(InvalidArgument, match="one column"):
        Median((0, 1)).for_shape(10, 2)


def test_the_bound_for_several_quantiles_is_smooth_and_bounds_the_move_of_all_of_them():
    several = Quantile([0.3, 0.7], bounds=(0, 3), resolution=1)
    grid = [several.encode(np.array(d, dtype=float)[:, None]) for d in product(range(4), repeat=4)]
    found = {tuple(d): several.smooth_sensitivity(d, 0.5) for d in grid}
    for data, bound in found.items():
        for i, new in product(range(4), range(4)):
            other = (*data[:i], new, *data[i + 1 :])
            moved = several.value(np.array(data)) - several.value(np.array(other))
            assert np.linalg.norm(moved) <= bound * (1 + 1e-12)
            assert bound <= math.exp(0.5) * found[other] * (1 + 1e-12)
