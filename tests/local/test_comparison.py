"""Mechanisms side by side: the table of what a report tells, and what people it takes."""

import math

import numpy as np
import pytest

from confidp.errors import InvalidArgument, InvalidType
from confidp.local.comparison import Told, compare
from confidp.local.information import COptimal, Diagonal, a_optimal, d_optimal
from confidp.local.population import Exponential, LogNormalPrior, Normal, ScipyFamily

STANDARD = (0.0, 1.0)


def by_name(comparison):
    return {told.name: told for told in comparison.mechanisms}


# tr F⁻¹ for σ = 1 at the true θ, as printed beside the mechanisms' description; None: not there.
TABLE = [
    # ε, truncated Laplace, its mirrored pair, 3-ary response, 4-ary response, best found
    (0.5, 1210, 143, 89.7, None, 86.6),
    (1.0, 170.5, 41.7, 21.1, None, 21.1),
    (2.0, 28.3, 13.9, 5.73, None, 5.73),
    (5.0, 4.85, None, 2.42, 2.11, 1.91),
    (10.0, 2.43, None, 2.28, 1.94, 1.53),
]


@pytest.mark.parametrize(("epsilon", "laplace", "mirrored", "three", "four", "most"), TABLE)
def test_the_table_of_traces_is_reproduced(epsilon, laplace, mirrored, three, four, most):
    """Within 1%: the table has three digits, and its best found another partition."""
    found = compare(Normal(), STANDARD, epsilon=epsilon, cells=40 if epsilon < 10 else 60)
    told = by_name(found)
    assert told["truncated Laplace"].trace == pytest.approx(laplace, rel=0.01)
    assert told["3-ary response"].trace == pytest.approx(three, rel=0.01)
    if mirrored is not None:
        assert told["mirrored truncated Laplace"].trace == pytest.approx(mirrored, rel=0.01)
    if four is not None:
        assert told["4-ary response"].trace == pytest.approx(four, rel=0.01)
    assert found.best.loss == pytest.approx(most, rel=0.01)
    assert found.best.bound == pytest.approx(found.best.loss, rel=2.1e-3)
    assert all(one.loss >= found.best.loss * (1 - 2e-3) for one in found.mechanisms)
    losses = [one.loss for one in found.mechanisms]
    assert losses == sorted(losses)
    assert found.no_privacy.trace == pytest.approx(1.5, rel=1e-3)


def test_for_a_location_alone_two_answers_are_compared_too():
    found = compare(Normal(), STANDARD, epsilon=1.0, criterion=Diagonal((1.0, 0.0)), cells=0)
    best = found.mechanisms[0]
    assert best.name == "2-ary response"
    assert -best.loss == pytest.approx(2 / math.pi * math.tanh(0.5) ** 2)
    assert best.trace == math.inf
    assert best.people(0.1) == (None, None)
    assert found.best is None
    assert found.best_told is None


def test_under_gdp_gaussian_mechanisms_are_compared_without_a_bound():
    found = compare(Normal(), STANDARD, mu=1.0)
    assert {"3-ary response", "truncated Gaussian", "mirrored truncated Gaussian"} <= set(
        by_name(found)
    )
    assert found.best is None
    assert all(told.loss > found.no_privacy.loss for told in found.mechanisms)


@pytest.mark.parametrize("criterion", [a_optimal, d_optimal, COptimal((0.0, 1.0))])
def test_each_mechanism_is_judged_by_the_criterion_it_was_placed_by(criterion):
    found = compare(Normal(), STANDARD, epsilon=2.0, criterion=criterion, cells=0)
    for told in (*found.mechanisms, found.no_privacy):
        assert criterion(told.information) == pytest.approx(told.loss, rel=1e-9)


def test_people_grow_with_the_variance_and_with_precision_squared():
    told = Told("x", (), np.array([[4.0, 1.0], [1.0, 2.0]]), 0.0)
    assert told.variances == pytest.approx([2 / 7, 4 / 7])
    assert told.trace == pytest.approx(6 / 7)
    assert told.log_det == pytest.approx(-math.log(7))
    assert told.people(0.1) == (29, 58)
    assert told.people(0.01) == (2858, 5715)
    assert told.people(10.0) == (1, 1)


def test_theta_is_the_familys_standard_or_the_middle_of_its_prior():
    assert compare(Exponential(), epsilon=1.0, cells=0).theta == (1.0,)
    known = ScipyFamily("expon", {"scale": LogNormalPrior(2.0, 0.1)})
    found = compare(known, epsilon=1.0, cells=0)
    assert found.theta[0] == pytest.approx(math.exp(2), rel=0.01)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({}, InvalidArgument, "exactly one"),
        ({"epsilon": 1.0, "mu": 1.0}, InvalidArgument, "exactly one"),
        ({"epsilon": 0.0}, InvalidArgument, "epsilon must be"),
        ({"mu": 9.0}, InvalidArgument, "mu must be"),
        ({"mu": "1"}, InvalidType, "mu must be"),
        ({"epsilon": 1.0, "cells": -1}, InvalidArgument, "cells must be"),
        ({"epsilon": 1.0, "theta": (0.0, 0.0)}, InvalidArgument, "sigma must be"),
        ({"epsilon": 1.0, "theta": (0.0,)}, InvalidArgument, "theta must be"),
    ],
)
def test_bad_arguments_are_refused(changed, error, message):
    with pytest.raises(error, match=message):
        compare(Normal(), **changed)


@pytest.mark.parametrize("wanted", [0.0, -1.0, math.nan, math.inf])
def test_a_standard_error_must_be_above_0(wanted):
    with pytest.raises(InvalidArgument, match="standard_error must be"):
        Told("x", (), np.eye(2), 2.0).people(wanted)
