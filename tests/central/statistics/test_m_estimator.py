"""M-estimators: the right minimiser whatever the data, and no neighbours too far apart."""

import json
import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics import m_estimator
from confidp.central.statistics.m_estimator import ERM
from confidp.central.statistics.regression import HuberERM, LogisticERM
from confidp.central.statistics.statistic import MeanLike
from confidp.errors import ConfidpError, InvalidArgument, InvalidType


def named(part):
    """A test's name for a statistic, or a tuple that begins with one."""
    part = part[0] if isinstance(part, tuple) else part
    return f"{type(part).__name__}-{part.regularization:g}" if hasattr(part, "lipschitz") else None


def location(regularization=0.1, bounds=(-100, 100), **changes):
    """A generic ERM: ℓ = √(1 + ‖y − x‖²), so G = 1, in d dimensions."""

    def gradient(y, x):
        return (y - x) / np.sqrt(1 + ((y - x) ** 2).sum(axis=1, keepdims=True))

    def hessian(y, x):
        r, s = y - x, 1 + ((y - x) ** 2).sum(axis=1)
        outer = np.einsum("n,ni,nj->ij", s**-1.5, r, r)
        return (np.eye(len(y)) * (s**-0.5).sum() - outer) / len(x)

    settings = {"gradient": gradient, "hessian": hessian, "lipschitz": 1.0, "bounds": bounds}
    return ERM(regularization, **(settings | changes))


def ready(statistic, rows):
    """The statistic for the rows' shape, and the encoded records."""
    statistic = statistic.for_shape(*rows.shape)
    return statistic, statistic.encode(rows)


def objective(statistic, records, y, exp=np.exp, sqrt=np.sqrt, log1p=np.log1p):
    """F(y), written down again, without a look at the code."""
    z, o = records[:, :-1], records[:, -1]
    if isinstance(statistic, LogisticERM):
        margin = o * (z @ y)
        loss = np.maximum(-margin, 0) + log1p(exp(-np.abs(margin)))
    elif isinstance(statistic, HuberERM):
        r, c = np.abs(o - z @ y), statistic.threshold
        loss = np.where(r <= c, r**2 / 2, c * r - c**2 / 2)
    else:
        loss = sqrt(1 + ((y - records) ** 2).sum(axis=1))
    return loss.mean() + statistic.regularization / 2 * (y @ y)


def exact_gradient(statistic, records, y):
    """∇F(y) to 50 digits, for a list of mpmath numbers y."""
    d = len(y)
    total = [mpmath.mpf(0)] * d
    for record in records.tolist():
        z, o = ([mpmath.mpf(x) for x in record[:-1]], mpmath.mpf(record[-1]))
        if isinstance(statistic, ERM):
            r = [a - mpmath.mpf(b) for a, b in zip(y, record, strict=True)]
            s = mpmath.sqrt(1 + mpmath.fsum(a * a for a in r))
            each = [a / s for a in r]
        else:
            t = mpmath.fdot(z, y)
            if isinstance(statistic, LogisticERM):
                slope = -o / (1 + mpmath.exp(o * t))
            else:
                c = mpmath.mpf(statistic.threshold)
                slope = -max(-c, min(o - t, c))
            each = [slope * a for a in z]
        total = [a + b for a, b in zip(total, each, strict=True)]
    ridge = mpmath.mpf(statistic.regularization)
    return [a / len(records) + ridge * b for a, b in zip(total, y, strict=True)]


def distance_to_exact(statistic, records, value):
    """‖value − y⋆‖ with y⋆ to some 20 digits more than float: Newton on the exact gradient."""
    with mpmath.workdps(50):
        y = [mpmath.mpf(x) for x in value.tolist()]
        for _ in range(60):
            g = exact_gradient(statistic, records, y)
            if mpmath.norm(g) <= mpmath.mpf(10) ** -30 * statistic.lipschitz:
                break  # within 1e-30·G/λ of y⋆, by strong convexity
            h = statistic._hessian(np.array(y, dtype=float), records)
            h = mpmath.matrix(h.tolist()) + mpmath.mpf(statistic.regularization) * mpmath.eye(
                len(y)
            )
            step = mpmath.lu_solve(h, mpmath.matrix(g))
            y = [a - b for a, b in zip(y, step, strict=True)]
        else:
            raise AssertionError("the reference did not converge")
        return float(
            mpmath.norm([a - mpmath.mpf(b) for a, b in zip(y, value.tolist(), strict=True)])
        )


def data(kind, n, p, rng):
    """Rows that upset solvers: (n, p) features of norm about 1 and an outcome of about ±1."""
    x = rng.normal(size=(n, p))
    outcome = rng.choice([-1.0, 1.0], n)
    if kind == "all equal":
        x[:], outcome[:] = x[0], 1.0
    elif kind == "separable":
        outcome = np.sign(x[:, 0])
    elif kind == "collinear":
        x = np.outer(rng.normal(size=n), x[0])
    elif kind == "nearly collinear":
        x = x[:1] + 1e-7 * x
    elif kind == "all scales":
        x *= 10.0 ** rng.uniform(-12, 0, size=(1, p))
    elif kind == "one row":
        x[1:] = 0.0
    elif kind == "axes":
        x = np.eye(p)[rng.integers(p, size=n)]
    elif kind == "zero":
        x[:], outcome[:] = 0.0, 0.0
    elif kind == "huge":
        x *= 1e200
        outcome *= np.inf
    return np.column_stack([x, outcome])


KINDS = [
    "normal",
    "all equal",
    "separable",
    "collinear",
    "nearly collinear",
    "all scales",
    "one row",
    "axes",
    "zero",
    "huge",
]
# (statistic, by what features and by what outcomes are multiplied)
STATISTICS = [
    (LogisticERM(0.05), 1, 1),
    (LogisticERM(1e-6, intercept=False), 1, 1),
    (LogisticERM(1e-6, feature_norm=100.0), 100, 1),
    (LogisticERM(1.0, feature_norm=1e6), 1e6, 1),
    (LogisticERM(1e20), 1, 1),
    (LogisticERM(1e-20, feature_norm=1e-9, intercept=False), 1e-9, 1),
    (HuberERM(0.05, 1.0, (-2, 2)), 1, 1),
    (HuberERM(1e-6, 0.01, (-1, 3), intercept=False), 1, 1),
    (HuberERM(1e-6, 5000.0, (0, 30_000), feature_norm=10), 10, 1e4),
    (HuberERM(1.0, 1e-3, (-1e3, 1e3), feature_norm=1e5), 1e5, 1e3),
    (HuberERM(0.1, 1e9, (-1e9, 1e9), feature_norm=1e-3), 1e-3, 1e9),
    (location(0.1, dimension=4), 1, 1),
    (location(1e-6, dimension=4), 50, 50),
]


def scaled(case, kind, n, rng):
    statistic, feature, outcome = case
    rows = data(kind, n, 3, rng) * np.array([feature] * 3 + [outcome])
    return ready(statistic, rows)


# --- The value -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", STATISTICS[:1] + STATISTICS[6:7] + STATISTICS[11:12], ids=named)
def test_it_is_the_minimiser_that_another_optimiser_finds(case):
    rng = np.random.default_rng(1)
    for kind in KINDS[:8]:
        statistic, records = scaled(case, kind, 200, rng)
        found = minimize(
            lambda y: objective(statistic, records, y),  # noqa: B023
            np.zeros(statistic.dimension),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 20_000, "maxfev": 20_000},
        )
        value = statistic.value(records)
        assert np.linalg.norm(value - found.x) < 1e-5
        assert objective(statistic, records, value) <= found.fun + 1e-12


@pytest.mark.parametrize("case", STATISTICS, ids=named)
@pytest.mark.parametrize("newton", [True, False])
def test_it_is_within_its_rounding_of_the_exact_minimiser_whatever_the_data(
    case, newton, monkeypatch
):
    if not newton:  # the fallback alone must do
        monkeypatch.setattr(m_estimator, "_NEWTON_STEPS", 0)
    rng = np.random.default_rng(2)
    for kind in KINDS:
        for n in (1, 2, 25):
            statistic, records = scaled(case, kind, n, rng)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                value = statistic.value(records)
            assert distance_to_exact(statistic, records, value) <= statistic.rounding(n)


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


@pytest.mark.parametrize("n", [1, 100, 10_000, 1_000_000])
@pytest.mark.parametrize(
    "statistic",
    [LogisticERM(0.05), LogisticERM(1e-6), HuberERM(0.05, 1, (-9, 9)), location()],
    ids=named,
)
def test_the_rounding_is_small_beside_the_sensitivity(statistic, n):
    assert 0 < statistic.rounding(n) <= statistic.sensitivity(n) / 1000


@pytest.mark.parametrize("case", STATISTICS, ids=named)
def test_a_start_nearby_or_far_off_changes_the_value_by_less_than_its_rounding(case):
    rng = np.random.default_rng(4)
    for kind in KINDS:
        statistic, records = scaled(case, kind, 60, rng)
        cold = statistic.value(records)
        reach = statistic.lipschitz / statistic.regularization
        far = rng.normal(size=statistic.dimension) * reach
        for start in (statistic.value(records[:40]), cold, cold + 1e-3 * far, far, 1e3 * far):
            warm = statistic.value(records, near=start)
            assert np.linalg.norm(warm - cold) <= statistic.rounding(60)


def test_a_false_or_failing_hessian_costs_time_only():
    rows = np.random.default_rng(5).normal(size=(50, 2))
    right = location(dimension=2).value(rows)
    for wrong in (
        lambda y, x: 0 * np.eye(2),
        lambda y, x: -9 * np.eye(2),
        lambda y, x: [[0, 9]] * 2,
    ):
        statistic = location(dimension=2, hessian=wrong)
        assert np.linalg.norm(statistic.value(rows) - right) <= 2 * statistic.rounding(50)


# --- The sensitivity -----------------------------------------------------------------------------


def ratio(statistic, shared, first, second):
    """How far two neighbours' values are apart, in sensitivities."""
    moved = []
    for row in (first, second):
        fitted, records = ready(statistic, np.vstack([shared, row]))
        moved.append(fitted.value(records))
    n = len(shared) + 1
    distance = np.linalg.norm(moved[0] - moved[1])
    assert distance <= fitted.sensitivity(n) + 2 * fitted.rounding(n)
    return distance / float(fitted.sensitivity(n))


def attacked(statistic, columns, n, scale, rng, restarts=6, steps=60):
    """The largest ratio found: random and extreme neighbours, then coordinate ascent."""

    def draw(size):
        rows = rng.normal(size=size) * 10.0 ** rng.choice([-1, 0, 2])
        rows[..., -1] = rng.choice([-9.0, 9.0, 0.0], size[:-1]) if rng.random() < 0.7 else 0.3
        return rows * scale

    best = 0.0
    for _ in range(restarts):
        shared = (
            np.tile(draw((1, columns)), (n - 1, 1))
            if rng.random() < 0.5
            else draw((n - 1, columns))
        )
        pair = draw((2, columns))
        if rng.random() < 0.5:
            pair[1] = -pair[0]
        here = ratio(statistic, shared, *pair)
        for _ in range(steps):  # move a coordinate of one of the two, or of all that they share
            trial, rest = pair.copy(), shared.copy()
            who, column = rng.integers(3), rng.integers(columns)
            change = rng.normal() * scale * 10.0 ** rng.choice([-1, 0, 1])
            if who == 2:
                rest[:, column] += change
            else:
                trial[who, column] += change
            there = ratio(statistic, rest, *trial)
            if there > here:
                here, pair, shared = there, trial, rest
        best = max(best, here)
    return best


# What the search reaches at n = 1, 2, 5 and 40, of at most 1.
@pytest.mark.parametrize(
    ("statistic", "columns", "scale", "reached"),
    [
        (LogisticERM(0.05), 3, 1, [0.07, 0.14, 0.26, 0.43]),
        (LogisticERM(1e-3, intercept=False), 3, 1, [0.01, 0.03, 0.07, 0.2]),
        (LogisticERM(1e5, feature_norm=1e3), 2, 1e3, [0.16, 0.22, 0.32, 0.44]),
        (HuberERM(0.05, 1.0, (-5, 5)), 3, 1, [0.16, 0.48, 0.69, 0.85]),
        (HuberERM(10.0, 0.1, (-5, 5), intercept=False), 2, 1, [0.999] * 4),
        (location(0.05, dimension=2), 2, 10, [0.999] * 4),
        (location(10.0, dimension=1), 1, 10, [0.999] * 4),
    ],
    ids=named,
)
def test_no_neighbours_found_by_search_exceed_the_sensitivity(statistic, columns, scale, reached):
    for n, least in zip((1, 2, 5, 40), reached, strict=True):
        found = attacked(statistic, columns, n, scale, np.random.default_rng(6))
        assert least < found < 1 + 1e-3


def test_hubers_sensitivity_is_attained():
    statistic = HuberERM(0.1, threshold=2.0, outcome_bounds=(-1000, 1000), intercept=False)
    for n in (1, 10):
        shared = np.zeros((n - 1, 2))
        assert ratio(statistic, shared, [1.0, 1000.0], [1.0, -1000.0]) > 1 - 1e-3


def test_a_generic_erms_sensitivity_is_approached():
    assert ratio(location(0.1), np.zeros((0, 1)), [100.0], [-100.0]) > 0.99


def test_the_logistic_sensitivity_is_approached_for_small_regularisation():
    # All others push along the first axis, and leave the second one flat.
    regularization, n, angle = 1e-4, 100_000, math.acos(0.36)
    shared = np.tile([-1.0, 0.0, 1.0], (n - 1, 1))
    first, second = ([math.cos(angle), s * math.sin(angle), 1.0] for s in (1, -1))
    statistic = LogisticERM(regularization, intercept=False)
    assert ratio(statistic, shared, first, second) > 0.85


def test_the_sensitivity_is_2g_over_lambda_n_rounded_up():
    for statistic, G in (
        (LogisticERM(0.1, 3.0, intercept=False), 3.0),
        (LogisticERM(0.1), math.sqrt(2)),
        (HuberERM(0.1, 2.0, (0, 1), 3.0), 2 * math.sqrt(10)),
        (location(0.1), 1.0),
    ):
        for n in (1, 7, 10**6):
            exact = 2 * G / (statistic.regularization * n)
            assert exact * (1 - 1e-15) <= statistic.sensitivity(n) <= exact * (1 + 1e-11)


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


# --- Records -------------------------------------------------------------------------------------


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


def test_outcomes_and_columns_are_clipped_before_anything_is_computed():
    def value(statistic, outlier):
        statistic, records = ready(statistic, np.array([[0.5, 0.1], [0.2, outlier]]))
        return statistic.value(records).tolist()

    for statistic in (HuberERM(0.1, 1, (-2, 3)), location(bounds=((-1, 1), (-2, 3)), dimension=2)):
        assert value(statistic, 3.0) == value(statistic, 1e9) == value(statistic, math.inf)
        assert value(statistic, 3.0) != value(statistic, 0.9)


def test_what_functions_see_is_clipped_and_can_not_be_changed():
    seen = []

    def gradient(y, x):
        seen.append(x.copy())
        x[:] = 0
        return y - x

    statistic = location()
    spy = location(gradient=lambda y, x: gradient(y, x))
    _, records = ready(statistic, np.array([[1e9], [-1e9], [3.0]]))
    assert spy.value(records).tolist() == [0.0]
    assert seen[0].ravel().tolist() == records.ravel().tolist() == [100.0, -100.0, 3.0]


# --- Contained and refused -----------------------------------------------------------------------


def fail(y, x):
    raise RuntimeError(f"record {x[0]}")


@pytest.mark.parametrize("role", ["gradient", "hessian"])
@pytest.mark.parametrize(
    "function",
    [
        fail,
        lambda y, x: np.full((len(x), 1), math.nan),
        lambda y, x: np.log(x - x) * np.inf,
        lambda y, x: np.zeros((7, 7)),
        lambda y, x: "many",
        lambda y, x: None,
        lambda y, x: 1j,
        lambda y, x: 1 / 0,
    ],
)
def test_whatever_a_function_does_nothing_gets_out(role, function):
    statistic = location(**{role: function})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = statistic.value(np.array([[1.0], [2.0], [4.0]]))
    assert not caught
    assert value.shape == (1,)
    assert np.isfinite(value).all()
    if role == "gradient":
        assert value.tolist() == [0.0]


def test_a_kink_at_the_minimiser_ends_at_0():
    # F falls before −0.5 and rises after it, so that no point can be certified.
    kinked = location(gradient=lambda y, x: np.where(y + 0 * x < -0.5, -1.0, 1.0))
    assert kinked.value(np.ones((3, 1))).tolist() == [0.0]


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: LogisticERM(0), InvalidArgument, "regularization"),
        (lambda: LogisticERM(-1.0), InvalidArgument, "regularization"),
        (lambda: LogisticERM(math.nan), InvalidArgument, "regularization"),
        (lambda: LogisticERM("0.1"), InvalidType, "regularization"),
        (lambda: LogisticERM(1e-14), InvalidArgument, "regularization"),
        (lambda: LogisticERM(1.0, feature_norm=1e9), InvalidArgument, "regularization"),
        (lambda: LogisticERM(1.0, feature_norm=0), InvalidArgument, "feature_norm"),
        (lambda: LogisticERM(1.0, feature_norm=math.inf), InvalidArgument, "feature_norm"),
        (lambda: LogisticERM(1.0, intercept=1), InvalidType, "intercept"),
        (lambda: HuberERM(1.0, 0, (0, 1)), InvalidArgument, "threshold"),
        (lambda: HuberERM(1.0, True, (0, 1)), InvalidType, "threshold"),
        (lambda: HuberERM(1.0, 1, (1, 0)), InvalidArgument, "outcome_bounds"),
        (lambda: HuberERM(1.0, 1, (0, 1e40)), InvalidArgument, "outcome_bounds"),
        (lambda: HuberERM(1.0, 1, 5), InvalidType, "outcome_bounds"),
        (lambda: HuberERM(0, 1, (0, 1)), InvalidArgument, "regularization"),
        (lambda: location(0), InvalidArgument, "regularization"),
        (lambda: location(lipschitz=math.inf), InvalidArgument, "lipschitz"),
        (lambda: location(lipschitz=None), InvalidType, "lipschitz"),
        (lambda: location(bounds=(3, 2)), InvalidArgument, "bounds"),
        (lambda: location(bounds=((0, 1), 5)), InvalidType, "bounds"),
        (lambda: location(bounds=None), InvalidType, "bounds"),
        (lambda: location(bounds=np.array(5)), InvalidType, "bounds"),
        (lambda: location(bounds={0, 1}), InvalidType, "bounds"),
        (lambda: location(gradient=None), InvalidType, "gradient"),
        (lambda: location(hessian=1), InvalidType, "hessian"),
        (lambda: location(dimension=0), InvalidArgument, "dimension"),
        (lambda: location(bounds=((0, 1), (0, 1))).for_shape(9, 3), InvalidArgument, "bounds"),
        (lambda: location(gradient=fail).for_shape(9, 1), InvalidArgument, "gradient"),
        (lambda: location(hessian=lambda y, x: x).for_shape(9, 1), InvalidArgument, "hessian"),
        (lambda: LogisticERM(1.0).for_shape(9, 1), InvalidArgument, "data"),
        (lambda: HuberERM(1.0, 1, (0, 1)).for_shape(9, 1001), InvalidArgument, "data"),
    ],
)
def test_what_can_not_be_used_is_refused_before_data_by_name(make, error, name):
    with pytest.raises(error, match=rf"^{name} must ") as caught:
        make()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ConfidpError)


@pytest.mark.parametrize(("statistic", "columns"), [(s, 4) for s, _, _ in STATISTICS], ids=named)
def test_it_is_mean_like_and_its_settings_are_json(statistic, columns):
    statistic = statistic.for_shape(10, columns)
    assert isinstance(statistic, MeanLike)
    assert statistic.origin == (0,) * statistic.dimension
    assert statistic.scale(100) == 10
    assert "regularised minimiser in the population" in statistic.assumes[0]
    described = statistic.describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert statistic.for_shape(10, columns) == statistic


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


# --- Through the door ----------------------------------------------------------------------------

POPULATION = np.random.default_rng(8).normal(size=(2000, 3)) / 2
POPULATION[:, 2] = POPULATION[:, 0] + np.random.default_rng(9).normal(size=2000) / 2 > 0.1


@pytest.mark.parametrize(
    "statistic",
    [LogisticERM(0.1, 1.0), HuberERM(0.1, 0.5, (0, 1), 1.0), location(0.1, dimension=3)],
    ids=named,
)
def test_the_region_covers_the_regularised_minimiser_of_the_population(statistic):
    # Rows are draws from a table, so its own minimiser is the target.
    fitted, records = ready(statistic, POPULATION)
    target, rng, runs, covered = fitted.value(records), np.random.default_rng(10), 30, 0
    for _ in range(runs):
        region = confidence_region(
            POPULATION[rng.integers(0, 2000, 1000)],
            statistic,
            budget=GDP(8.0),
            confidence_level=0.9,
            method=CRGS(),
            n_resamples=100,
            rng=rng,
        )
        covered += region.contains(target)
    # B = 100 and n = 1000 take 0.9 to no less than 0.85; false-alarm rate 1e-6.
    assert binom.ppf(5e-7, runs, 0.85) <= covered <= binom.isf(5e-7, runs, 0.95)
