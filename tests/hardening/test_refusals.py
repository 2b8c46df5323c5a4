"""What is refused says why, and what is near it but right is not refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import confidp as cdp
from confidp import local
from confidp.errors import InvalidType
from confidp.local.family import LOG_LIMIT
from confidp.local.information import check_criterion
from confidp.local.population import PRIORS
from confidp.privacy.guarantees import numbers
from hardening.doors import region_of
from hardening.local_doors import DENSITY, DRAWN, NORMAL_THETA, RNG, SIGN, collector

REFUSED = (cdp.InvalidArgument, InvalidType)


@dataclass(frozen=True)
class OwnPrior:
    positive: ClassVar[bool] = False

    def log_density(self, x: Any) -> Any:
        return -0.5 * x * x

    def sample(self, size: int, rng: np.random.Generator) -> Any:
        return rng.normal(size=size)


class UnhashablePrior(OwnPrior):
    __hash__: ClassVar[None] = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (1, 1.0), (np.float32(0.5), 0.5), ([1, 0.5], [1.0, 0.5]), (Fraction(1, 4), 0.25),
        ([Fraction(1, 4), 10**400], [0.25, math.inf]), (-(10**400), -math.inf),
        (np.longdouble("1e4000"), math.inf), (np.zeros((0, 2)), np.zeros((0, 2))),
    ],
)  # fmt: skip
def test_numbers_of_any_type_become_floats(given: Any, made: Any) -> None:
    found = numbers("x", given)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.array(made))


@pytest.mark.parametrize(
    "given",
    [
        "1", [1, "2"], True, [True], [True, Fraction(1, 2)], 1j, None, [None, 1.0],
        np.ma.array([1.0], mask=[True]), np.ma.masked, np.array("2026-01-01", dtype="M8[D]"),
        np.zeros(2, dtype=[("a", float)]),
    ],
)  # fmt: skip
def test_what_isnt_numbers_is_not_made_numbers(given: Any) -> None:
    with pytest.raises(InvalidType, match="x must be a number or an array of numbers"):
        numbers("x", given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cdp.Mean((0, 1), resolution=Fraction(1, 3)), "not 0.333333 for bounds 0 to 1"),
        (lambda: cdp.KendallTau((0, 1)).sensitivity(-(10**5000)), "not a value of type int"),
        (lambda: local.Normal(mu="0"), "mu must be a prior such as NormalPrior"),
        (lambda: local.Normal(mu=local.NormalPrior), "mu must be a prior such as NormalPrior"),
        (lambda: local.Normal(mu=UnhashablePrior()), "mu must be a prior such as NormalPrior"),
        (lambda: local.Gamma(scale=local.NormalPrior()), "scale must have a prior on positive"),
        (lambda: local.ScipyFamily("norm", {"loc": 1.0}), "loc must be a prior"),
        (lambda: local.ScipyFamily("norm", ["loc"]), "unknown must be a dict"),
        (lambda: local.ScipyFamily("norm", {1: local.NormalPrior()}), "dicts from parameters'"),
        (lambda: local.StudentT(0.09), "df must be"),
        (lambda: local.Normal().check((0.0, math.exp(302))), "sigma must be"),
        (lambda: local.Normal().check((0.0, math.exp(-302))), "sigma must be"),
        (lambda: local.Normal().check((-math.exp(302), 1.0)), "mu must be"),
        (lambda: local.Response(1, 1.0), "cells must be"),
        (lambda: local.Response(3, 23.0), "epsilon must be"),
        (lambda: local.TruncatedGaussian(8.1), "mu must be"),
        (lambda: local.TruncatedLaplace(1.0, steps=181), "steps must be"),
        (lambda: local.TruncatedLaplace(1.0).queries((1.0, 0.0)), "the lower one first"),
        (lambda: local.TruncatedLaplace(1.0).queries((0.0, math.inf)), "two finite ends"),
        (lambda: local.Mirrored(local.TruncatedLaplace), "mechanism must be one such as"),
        (lambda: local.Mirrored(local.Mirrored(local.Response(3, 1.0))), "not mirrored"),
        (lambda: local.Mirrored(local.Response(3, 1.0)).queries((0.0, 1.0)), "knots must be 3"),
        (lambda: local.COptimal((0.0, 0.0)), "not all of them 0"),
        (lambda: local.COptimal((1.0, math.inf)), "finite number a parameter"),
        (lambda: local.Diagonal(1.0), "finite number a parameter"),
        (lambda: local.a_optimal([1.0]), "information must be a square array"),
        (lambda: local.d_optimal(np.ones((2, 3))), "information must be a square array"),
        (lambda: local.best_interval(101.0), "epsilon must be"),
        (lambda: local.compare(local.Normal(), epsilon=1.0, cells=1), "0 or at least 2"),
        (
            lambda: local.best_channel(local.Normal(), NORMAL_THETA, 22.0, cells=6, tolerance=0.1),
            "linear programme failed",
        ),
        (lambda: local.best_channel(local.Normal(), (0.0, 1e-130), 1.0, cells=6), "another unit"),
        (lambda: local.best_channel(local.Normal(), (0.0, 1e120), 1.0, cells=6), "another unit"),
        (lambda: DENSITY.score(np.ones(2), np.ones(3), 1.0), "y, mean, sd must have shapes that"),
        (lambda: local.QuantileCollector(0.5, bounds=(0, 1), epsilon=1e-11), "epsilon must be la"),
        (lambda: collector().posterior.quantiles([1.01]), "levels must be"),
        (lambda: collector().posterior.quantiles([math.nan]), "levels must be"),
        (lambda: collector().posterior.draw(7), "rng must be a numpy Generator"),
        (lambda: collector().add_counts(collector().queries[0], {1: 1}), "counts must be a list"),
        (lambda: DRAWN.answer("query", 1, RNG), "query must be a Query"),
        (lambda: DRAWN.answer(SIGN, -1, RNG), "count must be"),
        (lambda: local.Rows([1.0, math.nan]), "none of them missing"),
        (lambda: local.Rows([1.0], asked=2), "asked must be"),
        (lambda: local.Rows([[1.0]]), "values must be a list"),
        (lambda: local.rehearse(collector(), DRAWN, 1, 1, 7), "rng must be a numpy Generator"),
        (lambda: local.rehearse(collector(), DRAWN, 0, 1, RNG), "count must be"),
        (lambda: local.rehearse(collector(), local.Drawn, 1, 1, RNG), "people must be"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(REFUSED, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_resample_size_of_any_length_is_refused_in_few_words() -> None:
    for sampling in ("with_replacement", "without_replacement"):
        method = cdp.CRGS(sampling, resample_size=10**5000)
        with pytest.raises(cdp.InvalidArgument, match="not a value of type int"):
            region_of(cdp.Mean((0, 1)), method=method)


# --- criteria ---


def trace(information: Any) -> float:
    return -float(np.trace(information))


class Unhashable:
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __call__(self, information: Any) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        (local.COptimal((1.0, 0.0, 0.0)), "2 parameters, but raised ValueError"),
        (local.Diagonal((1.0,)), "2 parameters, but raised ValueError"),
        (lambda information: information[5], "2 parameters, but raised IndexError"),
        (Unhashable(), "2 parameters, but raised TypeError"),
        (lambda information: math.nan, "one number, and not NaN"),
        (lambda information: information, "one number, and not NaN"),
        (lambda information: "1", "criterion's loss must be a number"),
        (float, "criterion must be a function, not type"),
        (None, "criterion must be a function, not NoneType"),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda c: check_criterion(c, 2),
        lambda c: local.Collector(local.Normal(), epsilon=1.0, criterion=c, n_particles=20),
        lambda c: local.StochasticGradient(local.Normal(), epsilon=1.0, criterion=c),
        lambda c: local.ComponentwiseCollector([local.Normal()], epsilon=1.0, criterion=c),
        lambda c: local.best_knots(local.Normal(), NORMAL_THETA, local.Response(3, 1.0), c),
        lambda c: local.best_cells(local.Normal(), c, epsilon=1.0),
        lambda c: local.best_interval(1.0, c),
        lambda c: local.compare(local.Normal(), epsilon=1.0, criterion=c),
        lambda c: local.best_channel(local.Normal(), NORMAL_THETA, 1.0, c),
    ],
)
def test_a_criterion_is_tried_before_any_search(ask: Any, criterion: Any, message: str) -> None:
    with pytest.raises(REFUSED, match=message):
        ask(criterion)


def test_a_criterion_of_ones_own_may_be_infinite_and_of_any_number() -> None:
    assert check_criterion(trace, 2) is trace
    assert check_criterion(lambda information: np.float32(1), 1)(np.eye(1)) == 1
    assert check_criterion(lambda information: math.inf, 1)(np.eye(1)) == math.inf


def test_settings_are_kept_as_what_compares_and_hashes() -> None:
    assert local.Diagonal([1, 0]) == local.Diagonal((1.0, 0.0))
    assert hash(local.COptimal(np.array([1, 0]))) == hash(local.COptimal((1.0, 0.0)))
    assert local.Response(np.int64(3), 1) == local.Response(3, 1.0)
    assert type(local.Response(np.int64(3), 1).cells) is int


# --- priors and parameters ---


@pytest.mark.parametrize(
    "prior",
    [
        local.LogNormalPrior(0.0, 1e308), local.LogNormalPrior(1e308, 1.0),
        local.RootInverseGammaPrior(1e-300, 1.0), local.RootInverseGammaPrior(1e300, 1e308),
        local.RootInverseGammaPrior(1.0, 5e-324), local.NormalPrior(1e308, 1e308),
    ],
)  # fmt: skip
def test_draws_of_any_prior_are_parameters_that_can_be_worked_with(prior: Any) -> None:
    draws = prior.sample(100, np.random.default_rng(1))
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() <= math.exp(LOG_LIMIT) * (1 + 1e-12)
    assert not prior.positive or draws.min() >= math.exp(-LOG_LIMIT) * (1 - 1e-12)


def test_draws_that_are_near_enough_are_left_as_they_are() -> None:
    rng, again = np.random.default_rng(1), np.random.default_rng(1)
    assert np.array_equal(local.NormalPrior().sample(9, rng), again.normal(0.0, 100.0, 9))
    assert np.array_equal(local.LogNormalPrior().sample(9, rng), np.exp(again.normal(0, 3.0, 9)))


def test_a_parameter_at_the_limit_of_what_a_chain_may_reach_is_accepted() -> None:
    limit = math.exp(LOG_LIMIT)
    local.Normal().check((limit, limit))
    local.Normal().check((-limit, 1 / limit))


def test_a_prior_of_ones_own_works_but_is_not_saved(tmp_path: Any) -> None:
    assert OwnPrior.__name__ not in PRIORS
    own = local.Collector(local.Normal(mu=OwnPrior()), epsilon=1.0, n_particles=20, rng=1)
    own.add(own.query().privatize(0.3))
    with pytest.raises(cdp.InvalidArgument, match="confidp's priors only, not OwnPrior"):
        own.save(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


# --- answers at the ends ---


def test_the_narrowest_interval_of_an_estimate_without_reports_is_the_whole_line() -> None:
    gradient = local.StochasticGradient(local.Normal(), epsilon=1.0)
    for level in (5e-324, 0.5, 0.999):
        (low, high), (least, most) = gradient.interval(level)
        assert (low, high) == (-math.inf, math.inf)
        assert least <= math.exp(-LOG_LIMIT) * 1.001
        assert most >= math.exp(LOG_LIMIT) / 1.001


def test_people_beyond_a_float_are_no_number_of_people() -> None:
    told = local.compare(local.Normal(), epsilon=1.0, cells=0).mechanisms[0]
    assert told.people(1e-300) == (None, None)
    assert told.people(1e308) == (1, 1)
    assert told.people(0.1) == tuple(math.ceil(v / 0.01) for v in told.variances)


def test_a_quantiles_limit_needs_no_large_epsilon() -> None:
    for epsilon in (1.0, 1e-9, 1e-300):
        limit = local.quantile_limit(0.5, epsilon, 1.0, 100)
        assert limit * math.tanh(epsilon / 2) == pytest.approx(0.05, rel=1e-9)
    assert local.quantile_limit(0.5, 5e-324, 1.0, 100) == math.inf


@pytest.mark.parametrize("theta", [(1e308, -1e308), (math.inf, 0.0), (1e200, 1e200)])
def test_what_overflows_is_outside_an_ellipsoid(theta: Any) -> None:
    region = cdp.ConfidenceRegion(
        (2.5, 1.0), 2.0, 0.95, cdp.GDP(1.0), True, "a", {}, (), {}, ellipsoid=((2, 1), (1, 3))
    )
    assert region.contains((2.5, 1.0))
    assert not region.contains(theta)
