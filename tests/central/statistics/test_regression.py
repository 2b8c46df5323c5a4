"""Regressions: records become bounded features, and no neighbours move the fit too far."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from confidp.central.statistics.m_estimator import Linearisable
from confidp.central.statistics.regression import HuberERM, LogisticERM
from minimisers import STATISTICS, location, named, objective, ratio, ready, scaled

# --- The value ------------------------------------------------------------------------------------


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs an 80-bit long double")
@pytest.mark.parametrize("case", [STATISTICS[0], STATISTICS[2], STATISTICS[6]], ids=named)
def test_the_rounding_holds_for_many_records(case):
    n = 300_000
    statistic, records = scaled(case, "normal", n, np.random.default_rng(3))
    value = statistic.value(records)
    z, o = records[:, :-1].astype(np.longdouble), records[:, -1].astype(np.longdouble)
    t = z @ value.astype(np.longdouble)
    if isinstance(statistic, LogisticERM):
        slopes = -o / (1 + np.exp(o * t))
    else:
        slopes = -np.clip(o - t, -statistic.threshold, statistic.threshold)
    gradient = slopes @ z / n + np.longdouble(statistic.regularization) * value
    distance = float(np.linalg.norm(gradient)) / statistic.regularization  # at most
    assert distance <= statistic.rounding(n)


# --- The sensitivity ------------------------------------------------------------------------------


def test_hubers_sensitivity_is_attained():
    statistic = HuberERM(0.1, threshold=2.0, outcome_bounds=(-1000, 1000), intercept=False)
    for n in (1, 10):
        shared = np.zeros((n - 1, 2))
        assert ratio(statistic, shared, [1.0, 1000.0], [1.0, -1000.0]) > 1 - 1e-3


def test_the_logistic_sensitivity_is_approached_for_small_regularisation():
    # All others push along the first axis, and leave the second one flat.
    regularization, n, angle = 1e-4, 100_000, math.acos(0.36)
    shared = np.tile([-1.0, 0.0, 1.0], (n - 1, 1))
    first, second = ([math.cos(angle), s * math.sin(angle), 1.0] for s in (1, -1))
    statistic = LogisticERM(regularization, intercept=False)
    assert ratio(statistic, shared, first, second) > 0.85


@pytest.mark.parametrize("regularization", [1e-4, 0.05, 10.0])
def test_logistic_pivots_move_by_no_more_than_their_own_sensitivity(regularization):
    rng, best = np.random.default_rng(11), 0.0
    for trial in range(200):
        n = int(rng.integers(2, 30))
        rows = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-1, 3)
        if trial % 2:  # all push along the first axis, and leave the second one flat
            rows[:] = [-1.0, 0.0, 1.0]
            rows[0] = [0.4, 5.0, 1.0]
        other = rows.copy()
        other[0] = rng.normal(size=3) * 10 if trial % 3 else rows[0] * [1, -1, 1]
        m = int(rng.integers(1, n + 1))
        indices = rng.integers(0, n, m)
        indices[: rng.integers(m + 1)] = 0
        kappa = int(np.bincount(indices).max())
        statistic, records = ready(LogisticERM(regularization, intercept=False), rows)
        others = statistic.encode(other)
        pivots = [statistic.value(x[indices]) - statistic.value(x) for x in (records, others)]
        moved = np.linalg.norm(pivots[0] - pivots[1])
        bound = statistic.pivot_sensitivity(n, m, kappa)
        assert bound < kappa * statistic.sensitivity(m) + statistic.sensitivity(n)
        assert moved <= bound + 2 * (statistic.rounding(n) + statistic.rounding(m))
        best = max(best, moved / float(bound))
    assert best > {1e-4: 0.0, 0.05: 0.1, 10.0: 0.4}[regularization]


def test_the_logistic_pivots_sensitivity_is_approached():
    # The second axis is flat in the resample, and curved by the records outside.
    n, m = 100_000, 50_000
    rows = np.array([[-1.0, 0.0, 1.0]] * m + [[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]] * (m // 2))
    pivots = []
    for sign in (1, -1):
        rows[0] = [0.36, sign * math.sqrt(1 - 0.36**2), 1.0]
        statistic, records = ready(LogisticERM(2e-4, intercept=False), rows)
        pivots.append(statistic.value(records[:m]) - statistic.value(records))
    moved = np.linalg.norm(pivots[0] - pivots[1])
    assert 0.8 < moved / float(statistic.pivot_sensitivity(n, m, 1)) < 1


# --- Gradients and Hessians ----------------------------------------------------------------------


@pytest.mark.parametrize("case", STATISTICS[:1] + STATISTICS[6:7], ids=named)
def test_gradients_and_hessians_are_the_losss_derivatives(case):
    statistic, records = scaled(case, "normal", 50, np.random.default_rng(12))
    y, h, d = np.full(statistic.dimension, 0.3), 1e-6, statistic.dimension
    steps = h * np.eye(d)
    slope = [
        (objective(statistic, records, y + e) - objective(statistic, records, y - e)) / (2 * h)
        for e in steps
    ]
    found = statistic.gradients(y, records).mean(axis=0) + statistic.regularization * y
    assert found == pytest.approx(slope, abs=1e-7)
    gradients = [statistic.gradients(y + e, records) for e in (*steps, *-steps)]
    expected = np.stack([(gradients[j] - gradients[j + d]) / (2 * h) for j in range(d)], axis=2)
    assert statistic.hessians(y, records) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("case", STATISTICS[:11], ids=named)
def test_each_record_stays_within_the_bounds_that_it_states(case):
    rng = np.random.default_rng(13)
    for kind in ("normal", "separable", "huge"):
        statistic, records = scaled(case, kind, 100, rng)
        for size in (0.0, 1.0, 100.0):
            y = size * rng.normal(size=statistic.dimension)
            gradients, hessians = statistic.gradients(y, records), statistic.hessians(y, records)
            assert np.linalg.norm(gradients, axis=1).max() <= statistic.lipschitz
            norms = np.linalg.norm(hessians, axis=(1, 2))
            assert norms.max() <= statistic.hessian_norm
            assert np.linalg.eigvalsh(hessians).min() >= -(2.0**-48) * statistic.hessian_norm


@pytest.mark.parametrize("case", STATISTICS[:1] + STATISTICS[6:7], ids=named)
def test_a_records_gradient_and_hessian_are_the_same_bits_wherever_it_is(case):
    rng = np.random.default_rng(14)
    statistic, records = scaled(case, "normal", 301, rng)
    y, order = rng.normal(size=statistic.dimension), rng.permutation(301)
    for of_each in (statistic.gradients, statistic.hessians):
        whole = of_each(y, records)
        assert np.array_equal(of_each(y, records[order]), whole[order])
        assert np.array_equal(of_each(y, np.asfortranarray(records)), whole)
        assert np.array_equal(np.concatenate([of_each(y, r[None]) for r in records]), whole)


def test_logistic_hessians_change_by_no_more_than_stated_and_nearly_that_much():
    statistic, records = ready(LogisticERM(0.1, intercept=False), np.array([[1.0, 1.0]]))
    points = np.linspace(-4, 4, 4001)
    hessians = np.array([statistic.hessians(np.array([y]), records)[0, 0, 0] for y in points])
    steepest = np.abs(np.diff(hessians) / np.diff(points)).max()
    assert 0.999 * statistic.hessian_change < steepest <= statistic.hessian_change


def test_regressions_can_be_linearised_and_a_users_erm_can_not():
    assert isinstance(LogisticERM(0.1), Linearisable)
    assert isinstance(HuberERM(0.1, 1, (0, 1)), Linearisable)
    assert not isinstance(location(), Linearisable)


# --- Records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statistic", [LogisticERM(1.0, 2.0), HuberERM(1.0, 1, (-3, 4), 2.0, False)], ids=named
)
def test_encoding_is_a_fixed_function_of_each_record(statistic):
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(400, 6)) * 10.0 ** rng.uniform(-320, 308, size=(400, 1))
    rows[rng.random(rows.shape) < 0.1] = np.inf
    rows[rng.random(rows.shape) < 0.1] = -np.inf
    rows[rng.random(rows.shape) < 0.1] = 5e-324
    statistic, records = ready(statistic, rows)
    alone = np.vstack([statistic.encode(row[None]) for row in rows])
    assert np.array_equal(records, alone)
    assert np.array_equal(statistic.encode(np.asfortranarray(rows)), alone)
    order = rng.permutation(400)
    assert np.array_equal(statistic.encode(rows[order]), records[order])
    z = records[:, :-1]
    assert np.isfinite(records).all()
    assert np.linalg.norm(z, axis=1).max() <= statistic._row_norm


def test_features_are_scaled_down_and_never_up():
    rows = np.array([[3.0, 4.0, 1], [0.3, 0.4, 1], [0, 0, 1], [np.inf, 7, 1], [-np.inf, np.inf, 1]])
    _, records = ready(LogisticERM(1.0, intercept=False), rows)
    half = math.sqrt(0.5)
    expected = [[0.6, 0.8], [0.3, 0.4], [0, 0], [1, 0], [-half, half]]
    assert records[:, :2] == pytest.approx(np.array(expected), abs=1e-15)
    assert records[1:3, :2].tolist() == expected[1:3]
    _, with_one = ready(LogisticERM(1.0), rows)
    assert with_one[:, 2].tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("outcome", "label"),
    [(0, -1), (1, 1), (-1, -1), (0.5, -1), (0.51, 1), (math.inf, 1), (-math.inf, -1), (7, 1)],
)
def test_labels_are_plus_above_a_half_and_minus_elsewhere(outcome, label):
    _, records = ready(LogisticERM(1.0), np.array([[0.5, outcome]]))
    assert records[0, -1] == label


def test_settings_may_be_numbers_of_any_kind():
    half = np.float32(0.5)
    for statistic, plain in (
        (LogisticERM(half, np.int64(2)), LogisticERM(0.5, 2.0)),
        (HuberERM(Fraction(1, 2), half, [np.int64(0), 1], 2), HuberERM(0.5, 0.5, (0, 1), 2.0)),
    ):
        assert statistic == plain
        assert json.dumps(statistic.describe()) == json.dumps(plain.describe())
        assert statistic.sensitivity(10) == plain.sensitivity(10)
        assert statistic.rounding(10) == plain.rounding(10)


def test_the_dimension_is_that_of_the_features_and_the_intercept():
    assert LogisticERM(1.0).for_shape(9, 4).dimension == 4
    assert HuberERM(1.0, 1, (0, 1), intercept=False).for_shape(9, 4).dimension == 3
