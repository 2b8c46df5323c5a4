"""A user's own statistic: contained whatever it does, and refused where it can't be private."""

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from confidp.central.release import confidence_region
from confidp.central.statistics.custom import Custom
from confidp.errors import InvalidArgument, InvalidType
from confidp.privacy.guarantees import GDP

ROWS = np.array([[0.5], [0.25], [9.0]])


def one_over(n):
    return 1 / n


def custom(function, sensitivity=one_over, **settings):
    return Custom(function, sensitivity, **({"bounds": (0, 1)} | settings)).for_shape(3, 1)


def fail(records):
    raise RuntimeError(f"record {records[0]}")


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (np.mean, [1.75 / 3]),
        (lambda x: int(x.max()), [1.0]),
        (lambda x: np.float32(0.5), [0.5]),
        (lambda x: np.array(0.5), [0.5]),
        (lambda x: np.array([[0.5]]), [0.5]),
        (lambda x: [0.5], [0.5]),
        (lambda x: True, [1.0]),
        (lambda x: Fraction(1, 2), [0.5]),
    ],
)
def test_a_number_of_any_kind_is_a_value(function, value):
    statistic = custom(function)
    result = statistic.value(statistic.encode(ROWS))
    assert result.dtype == np.float64
    assert result.tolist() == value


@pytest.mark.parametrize(
    "function",
    [
        fail,
        lambda x: 1 / 0,
        lambda x: x[10],
        lambda x: math.nan,
        lambda x: -math.inf,
        lambda x: None,
        lambda x: "many",
        lambda x: {},
        lambda x: [],
        lambda x: [0.1, 0.2],
        lambda x: x,
        lambda x: [[1], [1, 2]],
        lambda x: 10**400,
        lambda x: 1j,
    ],
)
def test_whatever_else_happens_the_value_is_0_and_nothing_is_raised(function):
    statistic = custom(function)
    assert statistic.value(statistic.encode(ROWS)).tolist() == [0.0]


def test_one_bad_coordinate_makes_the_whole_vector_0():
    statistic = custom(lambda x: [1.0, math.nan], dimension=2)
    assert statistic.value(ROWS).tolist() == [0.0, 0.0]
    assert len(statistic.origin) == 2


def test_the_function_sees_only_records_that_were_clipped_to_the_bounds():
    seen = []
    statistic = custom(lambda x: seen.append(x.copy()) or 0.0)
    statistic.value(statistic.encode(np.array([[math.inf], [-math.inf], [0.5], [7.0]])))
    assert seen[0].tolist() == [[1.0], [0.0], [0.5], [1.0]]
    assert ROWS[2, 0] == 9.0


@pytest.mark.parametrize("stated", [0, 0.0, -1, math.nan, math.inf, 10**400, Fraction(-1, 2)])
@pytest.mark.parametrize("role", ["sensitivity", "scale"])
def test_a_sensitivity_or_scale_that_is_not_above_0_is_refused(role, stated):
    with pytest.raises(InvalidArgument, match=rf"^{role} must be a finite number "):
        custom(np.mean, **{role: lambda n: stated})


@pytest.mark.parametrize("stated", [None, "0.1", True, np.array(0.1)], ids=repr)
def test_a_sensitivity_that_is_not_a_number_is_refused_by_name(stated):
    with pytest.raises(InvalidType, match=r"^sensitivity must be a number"):
        custom(np.mean, lambda n: stated)


@pytest.mark.parametrize(
    "stated",
    [
        1,
        np.float64(0.1),
        Fraction(1, 10),
        np.float32(0.1),
        1e-250,
    ],
)
def test_any_number_of_at_least_1e_minus_250_is_a_sensitivity_that_a_release_can_use(stated):
    statistic = Custom(np.mean, lambda n: stated, bounds=(0, 1))
    region = confidence_region(ROWS, statistic, budget=GDP(1.0), n_resamples=5, rng=7)
    assert math.isfinite(region.radius)


@pytest.mark.parametrize("role", ["function", "sensitivity", "scale"])
def test_a_role_that_is_not_callable_is_refused(role):
    with pytest.raises(InvalidType, match=rf"^{role} must be callable"):
        Custom(**({"function": np.mean, "sensitivity": one_over, "bounds": (0, 1)} | {role: 1}))


@pytest.mark.parametrize(
    ("settings", "error", "name"),
    [
        ({"bounds": (1, 0)}, InvalidArgument, "bounds"),
        ({"bounds": None}, InvalidType, "bounds"),
        ({"dimension": 0}, InvalidArgument, "dimension"),
        ({"dimension": 1.0}, InvalidType, "dimension"),
    ],
)
def test_bad_settings_are_refused_at_once(settings, error, name):
    with pytest.raises(error, match=rf"^{name} must "):
        custom(np.mean, **settings)


def sort_in_place(records):
    records.sort(axis=0)
    return records[0, 0]


def test_a_function_that_changes_its_input_does_not_change_the_records():
    # Else one record's change could move many rows, and resamples would differ in many records.
    statistic = custom(sort_in_place)
    records = statistic.encode(ROWS)
    assert statistic.value(records).tolist() == [0.25]
    assert records.tolist() == [[0.5], [0.25], [1.0]]


@pytest.mark.parametrize(
    "function", [lambda x: (x - x).sum() / np.float64(0), lambda x: 1j * x.sum(axis=0)]
)
def test_no_warning_of_the_function_or_its_result_gets_out(function):
    statistic = custom(function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        statistic.value(statistic.encode(ROWS))
    assert not caught


def test_its_settings_are_json():
    statistic = custom(np.mean, name="share")
    assert json.loads(json.dumps(statistic.describe())) == {
        "statistic": "share",
        "bounds": [[0.0, 1.0]],
        "resolution": None,
    }
