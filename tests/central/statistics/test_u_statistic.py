"""U-statistics of a user's kernel: contained, balanced, and no further apart than they say."""

import json
import math
import warnings
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly
from confidp.central.statistics.u_statistic import UStatistic, design
from confidp.errors import InvalidArgument, InvalidType

FALSE_ALARM = 1e-6


def distance(x, y):
    return np.abs(x - y)


def median_of_three(x, y, z):
    return sorted([x, y, z])[1]


def u_statistic(kernel, n, order=2, columns=1, **settings):
    given = {"bounds": (0, 1), "kernel_range": (0, 1)} | settings
    return UStatistic(kernel, order, **given).for_shape(n, columns)


def value(statistic, rows):
    """U itself, from rows, as an exact fraction."""
    rows = np.asarray(rows, dtype=float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    return Fraction(statistic.value(statistic.encode(rows))[0]) + statistic.origin[0]


# -- The design -------------------------------------------------------------------------------

DESIGNS = [(5, 2, 1), (7, 2, 2), (9, 3, 4), (50, 1, None), (100, 2, 7), (101, 3, 5), (300, 5, 3)]


@pytest.mark.parametrize(("n", "order", "rounds"), DESIGNS)
def test_every_position_is_in_the_same_share_of_the_tuples(n, order, rounds):
    tuples = design(n, order, rounds)
    appearances = np.bincount(tuples.ravel(), minlength=n)
    assert set(appearances.tolist()) == {len(tuples) * order // n}
    assert Fraction(int(appearances.max()), len(tuples)) == Fraction(order, n)
    if rounds:
        assert len(tuples) == rounds * n
    for one in tuples.tolist():
        assert len(set(one)) == order  # so no position counts twice in a tuple


@pytest.mark.parametrize(("n", "order"), [(2, 2), (3, 3), (5, 2), (6, 3), (8, 1)])
def test_a_small_design_is_all_tuples(n, order):
    everything = [list(t) for t in combinations(range(n), order)]
    for rounds in (None, 50):
        assert design(n, order, rounds).tolist() == everything


def test_the_design_is_fixed_and_public():
    first = design(400, 2, 3).copy()
    design.cache_clear()
    np.random.default_rng().integers(9)
    assert np.array_equal(design(400, 2, 3), first)
    with pytest.raises(ValueError, match="read-only"):
        design(400, 2, 3)[0, 0] = 1


def test_random_tuples_instead_would_exceed_the_sensitivity_of_all_of_them():
    # Why the design is balanced: what an unbalanced one of the same size would need.
    n, order, rounds = 400, 2, 3
    unbalanced = np.random.default_rng(0).integers(0, n, (rounds * n, order))
    appearances = np.bincount(unbalanced.ravel(), minlength=n)
    assert appearances.max() / len(unbalanced) > 1.5 * order / n


def test_resamples_have_as_many_tuples_a_record_as_the_data():
    statistic = u_statistic(distance, 2000, max_tuples=100_000, vectorized=True)
    assert statistic.rounds == 50
    assert len(design(2000, 2, statistic.rounds)) == 100_000
    assert len(design(264, 2, statistic.rounds)) == 50 * 264
    assert len(design(60, 2, statistic.rounds)) == math.comb(60, 2)
    assert u_statistic(distance, 400).rounds is None  # 79,800 pairs
    assert u_statistic(distance, 400, max_tuples=1).rounds == 1


# -- The sensitivity --------------------------------------------------------------------------


def any_large(*xs):
    return float(max(xs) > 0.5)


@pytest.mark.parametrize(("n", "order", "max_tuples"),
                         [(2, 2, 9), (5, 2, 99), (6, 3, 99), (9, 1, 99), (40, 2, 40), (41, 3, 200),
                          (100, 4, 1)])  # fmt: skip
def test_the_sensitivity_is_attained_at_every_record_complete_or_not(n, order, max_tuples):
    statistic = u_statistic(any_large, n, order, max_tuples=max_tuples)
    stated = Fraction(order, n)
    assert statistic.sensitivity(n) == stated
    base = value(statistic, np.zeros(n))
    for i in range(n):
        moved = value(statistic, np.arange(n) == i)
        assert abs(abs(moved - base) - stated) <= 2 * statistic.rounding(n)


HOSTILE = {
    "in range": lambda x, y: abs(x - y),
    "far out of range": lambda x, y: 1e300 * (x - y),
    "not symmetric": lambda x, y: math.sin(9 * x + 40 * y),
    "raises on some": lambda x, y: 1 / (x - y),
    "never a number": lambda x, y: "many",
    "sometimes not a number": lambda x, y: math.log(x - 0.3) if y > 0.5 else y,
    "jumps": lambda x, y: float(hash((round(x, 1), round(y, 2))) % 2),
}


@pytest.mark.parametrize("max_tuples", [99, 5])
@pytest.mark.parametrize("kernel", HOSTILE.values(), ids=HOSTILE)
def test_no_neighbours_are_further_apart_than_the_sensitivity(kernel, max_tuples):
    rng = np.random.default_rng(6)
    for n in (2, 3, 5, 8):
        statistic = u_statistic(kernel, n, max_tuples=max_tuples)
        most = statistic.sensitivity(n) + 2 * statistic.rounding(n)
        for _ in range(60):
            rows = rng.choice([0.0, 0.2, 0.31, 0.5, 0.77, 1.0, 9.0], n)
            other = rows.copy()
            other[rng.integers(n)] = rng.choice([0.0, 0.25, 0.5, 1.0, -7.0])
            assert abs(value(statistic, rows) - value(statistic, other)) <= most


def raises_on_a_high_value(x, y):
    if np.max(x) > 0.9:
        raise RuntimeError(f"record {x}")
    return np.abs(x - y)


def test_a_vectorized_kernel_that_raises_spoils_only_the_tuples_that_make_it_raise():
    rows = np.random.default_rng(7).uniform(0, 0.8, 30)
    spoiled = np.where(np.arange(30) == 4, 0.95, rows)
    values = {}
    for vectorized in (False, True):
        statistic = u_statistic(raises_on_a_high_value, 30, vectorized=vectorized)
        values[vectorized] = value(statistic, rows), value(statistic, spoiled)
        most = statistic.sensitivity(30) + 2 * statistic.rounding(30)
        assert abs(values[vectorized][0] - values[vectorized][1]) <= most
    assert values[True] == values[False]


# -- The value --------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("rows", [[0.25, 0.75], [0.5] * 6, [0, 0, 1, 1, 0.5], [0, 1] * 8])
def test_it_is_the_mean_over_all_pairs_exactly(rows, vectorized):
    statistic = u_statistic(distance, len(rows), vectorized=vectorized)
    terms = [abs(Fraction(x) - Fraction(y)) for x, y in combinations(rows, 2)]
    assert value(statistic, rows) == float(sum(terms) / len(terms))


def test_an_order_of_one_is_a_mean_and_of_three_a_mean_over_triples():
    rows = [0.5, 0.125, 0.25, 1.0, 0.25]
    assert value(u_statistic(lambda x: x * x, 5, order=1), rows) == Fraction(np.square(rows).mean())
    triples = [Fraction(median_of_three(*t)) for t in combinations(rows, 3)]
    assert value(u_statistic(median_of_three, 5, order=3), rows) == float(sum(triples) / 10)


@pytest.mark.parametrize("vectorized", [False, True])
def test_records_of_several_columns_come_as_arrays(vectorized):
    def dot(x, y):
        return (x * y).sum(axis=-1)

    rows = np.array([[0.5, 1.0], [1.0, 0.25], [0.0, 9.0]])
    settings = {"bounds": ((0, 1), (0, 2)), "kernel_range": (0, 5), "vectorized": vectorized}
    statistic = u_statistic(dot, 3, columns=2, **settings)
    assert float(value(statistic, rows)) == pytest.approx((0.75 + 2.0 + 0.5) / 3, abs=1e-8)


def test_an_incomplete_one_estimates_the_same_number():
    rows = np.sort(np.random.default_rng(9).uniform(size=3000))  # the order shouldn't matter
    statistic = u_statistic(distance, 3000, max_tuples=60_000, vectorized=True)
    assert abs(float(value(statistic, rows)) - 1 / 3) < 6 * math.sqrt(4 / 45 / 4 / 3000 + 1e-6)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda x, y: 1 / 0, 0.25),
        (lambda x, y: math.nan, 0.25),
        (lambda x, y: None, 0.25),
        (lambda x, y: "many", 0.25),
        (lambda x, y: [0.5, 0.5], 0.25),
        (lambda x, y: 1j, 0.25),
        (lambda x, y: {}, 0.25),
        (lambda x, y: -math.inf, 0.25),
        (lambda x, y: 10**400, 0.25),
        (lambda x, y: 1e9, 0.75),
        (lambda x, y: math.inf, 0.75),
        (lambda x, y: 0.5, 0.5),
        (lambda x, y: np.float32(0.5), 0.5),
        (lambda x, y: Fraction(1, 2), 0.5),
        (lambda x, y: np.array([[0.5]]), 0.5),
        (lambda x, y: True, 0.75),
    ],
)
def test_whatever_a_kernel_returns_counts_as_a_number_in_its_range(kernel, expected, vectorized):
    settings = {"kernel_range": (0.25, 0.75), "vectorized": vectorized}
    assert value(u_statistic(kernel, 4, **settings), [0.1, 0.2, 0.3, 0.4]) == expected


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("vectorized", [False, True])
def test_a_kernel_that_writes_to_its_arguments_changes_nothing(vectorized, columns):
    def vandal(x, y):
        x += 1  # a float is changed in place by nobody; an array would be
        return 0.5

    rows = np.full((4, columns), 0.25)
    statistic = u_statistic(vandal, 4, columns=columns, vectorized=vectorized)
    records = statistic.encode(rows)
    first, again = statistic.value(records), statistic.value(records)
    assert first.tolist() == again.tolist()
    assert records.tolist() == rows.tolist()


def test_a_batch_that_was_written_to_before_it_failed_is_not_used_again():
    def spreads_its_largest(x, y):
        x[:] = x.max()
        if len(x) > 1:
            raise RuntimeError
        return x

    statistic = u_statistic(spreads_its_largest, 9, vectorized=True)
    moved = value(statistic, np.arange(9) == 4) - value(statistic, np.zeros(9))
    assert abs(moved) <= statistic.sensitivity(9) + 2 * statistic.rounding(9)


@pytest.mark.parametrize("vectorized", [False, True])
def test_no_warning_of_the_kernel_gets_out(vectorized):
    def noisy(x, y):
        warnings.warn(f"record {x}", stacklevel=1)
        return np.sqrt(x - y) / np.float64(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value(u_statistic(noisy, 4, vectorized=vectorized), [0.1, 0.9, 0.3, 0.4])
    assert not caught


def test_the_kernel_sees_only_records_that_were_clipped_to_the_bounds():
    seen = set()
    value(u_statistic(lambda x, y: seen.update([x, y]) or 0.0, 3), [-math.inf, 0.5, 1e300])
    assert seen == {0.0, 0.5, 1.0}


# -- Settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "name"),
    [
        ({"kernel": 3}, InvalidType, "kernel"),
        ({"order": 0}, InvalidArgument, "order"),
        ({"order": 2.0}, InvalidType, "order"),
        ({"order": True}, InvalidType, "order"),
        ({"bounds": (1, 0)}, InvalidArgument, "bounds"),
        ({"bounds": None}, InvalidType, "bounds"),
        ({"bounds": ((0, 1), (0, 1))}, InvalidArgument, "bounds"),
        ({"kernel_range": (0, 0)}, InvalidArgument, "kernel_range"),
        ({"kernel_range": (0, math.inf)}, InvalidArgument, "kernel_range"),
        ({"kernel_range": 1}, InvalidType, "kernel_range"),
        ({"degenerate": 0}, InvalidType, "degenerate"),
        ({"max_tuples": 0}, InvalidArgument, "max_tuples"),
        ({"max_tuples": 1e5}, InvalidType, "max_tuples"),
        ({"degenerate": True, "max_tuples": 44}, InvalidArgument, "max_tuples"),
        ({"order": 11}, InvalidArgument, "n and resample_size"),
    ],
)
def test_bad_settings_are_refused_before_any_data(settings, error, name):
    given = {"kernel": distance, "order": 2, "bounds": (0, 1), "kernel_range": (0, 1)} | settings
    with pytest.raises(error, match=rf"^{name} must ") as caught:
        UStatistic(**given).for_shape(10, 1)
    assert "\n" not in str(caught.value)


def test_a_resample_smaller_than_the_order_is_refused():
    statistic = u_statistic(median_of_three, 10, order=3)
    for stated in (statistic.sensitivity, statistic.rounding):
        assert stated(3) > 0
        with pytest.raises(InvalidArgument, match="resample_size must be at least 3"):
            stated(2)


def test_it_is_mean_like_and_has_no_smooth_sensitivity():
    for order in (2, 3):
        statistic = u_statistic(any_large, 10, order=order)
        assert isinstance(statistic, MeanLike)
        assert not isinstance(statistic, SmoothFriendly)  # so CR-SS refuses it before any data


def test_a_degenerate_one_has_the_faster_rate_and_says_so():
    plain, degenerate = (u_statistic(distance, 9, degenerate=known) for known in (False, True))
    assert plain.scale(100) == 10
    assert degenerate.scale(100) == 100
    assert "kernel is degenerate" in " ".join(degenerate.assumes)
    assert plain.assumes[0].startswith("the bounds come from public knowledge")


def test_its_settings_are_json_and_hold_no_kernel():
    described = u_statistic(distance, 9, name="spread").describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == {
        "statistic": "spread",
        "bounds": [[0.0, 1.0]],
        "resolution": None,
        "order": 2,
        "kernel_range": [0.0, 1.0],
        "degenerate": False,
        "max_tuples": 100_000,
    }


@pytest.mark.parametrize("max_tuples", [1200, 200_000])
def test_cr_gs_covers_a_known_parameter_complete_or_not(max_tuples):
    rng, level, sets, n, covered = np.random.default_rng(41), 0.9, 60, 600, 0
    settings = {"max_tuples": max_tuples, "vectorized": True}
    statistic = UStatistic(distance, 2, (0, 1), (0, 1), **settings)
    for _ in range(sets):
        region = confidence_region(
            rng.uniform(size=n),
            statistic,
            budget=GDP(1000.0),
            confidence_level=level,
            method=CRGS("without_replacement", resample_size=40),
            n_resamples=200,
            rng=rng,
        )
        covered += region.contains([1 / 3])
        assert region.radius < 0.1
    # √(1 − m/n) and B = 200 cost under 0.05 here.
    assert binomtest(covered, sets, level - 0.05, "less").pvalue > FALSE_ALARM
