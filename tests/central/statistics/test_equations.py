"""Equations in means: their roots, their gradients, and the range of their solutions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confidp import Correlation, Ratio, StandardDeviation, Variance

UNIT = ((0.0, 1.0), (0.0, 1.0))
CASES = [
    (Variance((0, 2)).equation, [0.3], 0.3),
    (StandardDeviation((0, 2), 0.1).equation, [0.25], 0.5),
    (Ratio(((-1, 1), (0, 2)), 0.1).equation, [0.6, 1.5], 0.4),
    (Correlation(UNIT, (0.1, 0.1)).equation, [0.04, 0.09, 0.03], 0.5),
]


@pytest.mark.parametrize(("equation", "moments", "expected"), CASES)
def test_the_root_is_the_statistic_and_closes_the_gap(equation, moments, expected):
    m = np.array(moments)
    assert equation.root(m) == pytest.approx(expected)
    assert equation.gap(expected, m) == pytest.approx(0, abs=1e-15)
    assert equation.gap(expected - 0.01, m) > 0 > equation.gap(expected + 0.01, m)


@pytest.mark.parametrize(("equation", "moments", "expected"), CASES)
def test_the_gradient_is_the_gaps(equation, moments, expected):
    m, step = np.array(moments), 1e-6
    for theta in (expected, 0.9 * expected):
        for j, slope in enumerate(equation.gradient(theta, m)):
            shift = step * np.eye(len(m))[j]
            rise = equation.gap(theta, m + shift) - equation.gap(theta, m - shift)
            assert rise / (2 * step) == pytest.approx(slope, abs=1e-6)


@given(st.floats(-1, 1), st.floats(0.1, 2))
def test_no_ratio_lies_outside_of_its_limits(x, y):
    low, high = Ratio(((-1, 1), (0, 2)), 0.1).equation.limits
    assert low <= x / y <= high
    assert (low, high) == (-10, 10)


def test_limits_are_the_largest_spreads_of_bounded_values_and_floors():
    assert Variance((0, 4)).equation.limits == (0, 4)  # half the records at either bound
    assert StandardDeviation((0, 4), 0.5).equation.limits == (0.5, 2)
    assert StandardDeviation((0, 4), 3).equation.limits == (3, 3)
    assert Ratio(((2, 3), (1, 4)), 1).equation.limits == (0.5, 3)


def test_floors_hold_where_a_noisy_variance_is_under_them():
    equation = Correlation(UNIT, (0.1, 0.2)).equation
    assert equation.root(np.array([-1.0, 0.01, 0.01])) == pytest.approx(0.5)
    assert np.isfinite(equation.gradient(0.5, np.array([-1.0, -1.0, 0.0]))).all()
    assert StandardDeviation((0, 1), 0.1).equation.root(np.array([-1.0])) == 0
