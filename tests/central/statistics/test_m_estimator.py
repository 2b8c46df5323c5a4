"""M-estimators: the right minimiser whatever the data, and no neighbours too far apart."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics import m_estimator
from confidp.central.statistics.regression import HuberERM, LogisticERM
from confidp.central.statistics.statistic import MeanLike
from confidp.errors import ConfidpError, InvalidArgument, InvalidType
from minimisers import (
    KINDS,
    STATISTICS,
    attacked,
    distance_to_exact,
    location,
    named,
    objective,
    ratio,
    ready,
    scaled,
)

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


def test_a_generic_erms_sensitivity_is_approached():
    assert ratio(location(0.1), np.zeros((0, 1)), [100.0], [-100.0]) > 0.99


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


# --- Records -------------------------------------------------------------------------------------


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
