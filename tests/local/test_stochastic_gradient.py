"""Stochastic gradients: from near and far starts to the limit, with honest standard errors."""

import math
from bisect import bisect_left

import numpy as np
import pytest

from confidp.errors import InvalidArgument, InvalidType
from confidp.local.design import (
    COptimal,
    Design,
    Response,
    TruncatedLaplace,
    answer_probabilities,
    best_knots,
    fisher_information,
)
from confidp.local.mechanisms import response
from confidp.local.mirrored import Mirrored
from confidp.local.population import Exponential, Gamma, Normal
from confidp.local.query import Report
from confidp.local.stochastic_gradient import StochasticGradient

TRUTH = np.array([50.0, math.sqrt(10.0)])


def report(query, x, rng, number):
    """What `query.privatize` does, but seeded."""
    row = np.cumsum(query.channel.weights[bisect_left(query.cuts, x)])
    value = int(np.searchsorted(row, rng.integers(2**32), side="right"))
    return Report(query.id, value, f"{number:032x}")


def stream(collector, values, rng, first=0):
    for i, x in enumerate(values):
        collector.add(report(collector.query(), x, rng, first + i))
    return collector


def state(collector):
    return (
        collector._z.tolist(),
        collector.interval().tolist(),
        (collector.reports, collector._calm, collector._length),
        (collector._before.reports, collector._block.reports),
        collector.queries,
        collector._rng.bit_generator.state,
        set(collector._inbox._seen),
    )


@pytest.mark.parametrize("population", [Normal(), Exponential(), Gamma()])
def test_the_gradient_is_that_of_the_log_likelihood(population):
    collector = StochasticGradient(population, mechanism=Response(4, 2.0))
    query = collector.query()
    design = Design.of(query.cuts, query.channel.weights)
    d = len(collector._z)
    for value in range(design.answers):
        numerical = []
        for shift in 1e-5 * np.eye(d):
            both = population.natural(np.stack([collector._z + shift, collector._z - shift]))
            chances = answer_probabilities(population, both, design)[:, value]
            numerical.append(np.log(chances[0] / chances[1]) / 2e-5)
        assert np.allclose(collector._gradient(design, value), numerical, rtol=1e-6, atol=1e-9)


def test_a_report_is_a_one_step_estimate_weighted_by_its_information():
    collector = StochasticGradient(Normal(), epsilon=2.0, start=TRUTH)
    before, query = collector._z.copy(), collector.query()
    design = Design.of(query.cuts, query.channel.weights)
    scale = np.array([1.0, TRUTH[1]])
    information = fisher_information(Normal(), TRUTH, design) * np.outer(scale, scale)
    gradient = collector._gradient(design, 0)
    collector.add(Report(query.id, 0, "00" * 16))
    one_step = before + np.linalg.solve(information, gradient)
    assert np.allclose(Normal().unconstrained(collector.estimate), one_step)
    errors = np.sqrt(np.diagonal(np.linalg.inv(information))) * [1.0, collector.estimate[1]]
    assert np.allclose(collector.standard_error, errors)


@pytest.mark.parametrize(
    "start", [None, (-1000.0, 0.1), (0.0, 1000.0)], ids=["prior", "narrow", "wide"]
)
def test_every_start_arrives(start):
    """At ε = 5 and n = 800 the squared error over its limit is about χ²₂/2, twice it on the way.

    χ²₂ is above 27.7 with a chance of 1e-6: a root of 3.7 limits, times √2.
    """
    rng = np.random.default_rng(2)
    collector = StochasticGradient(Normal(), epsilon=5.0, start=start)
    stream(collector, rng.normal(*TRUTH, 800), rng)
    loss = best_knots(Normal(), (0.0, 1.0), collector.mechanism).loss
    limit = math.sqrt(10 * loss / 800)
    assert np.linalg.norm(collector.estimate - TRUTH) < 5.3 * limit
    assert np.linalg.norm(collector.standard_error) < 2 * limit
    assert (np.abs(collector.estimate - TRUTH) < 6 * collector.standard_error).all()


def test_from_a_good_start_the_standard_error_is_the_limit():
    rng = np.random.default_rng(3)
    collector = StochasticGradient(Normal(), epsilon=5.0, start=TRUTH)
    stream(collector, rng.normal(*TRUTH, 800), rng)
    loss = best_knots(Normal(), (0.0, 1.0), collector.mechanism).loss
    limit = math.sqrt(10 * loss / 800)
    assert np.linalg.norm(collector.standard_error) == pytest.approx(limit, rel=0.15)
    low, high = collector.interval(0.999999).T
    assert (low < TRUTH).all()
    assert (high > TRUTH).all()


@pytest.mark.parametrize(
    ("population", "settings", "truth", "draw"),
    [
        (Exponential(), {"epsilon": 3.0}, [4.0], lambda rng, n: rng.exponential(4, n)),
        (Normal(), {"mu": 2.0}, TRUTH, lambda rng, n: rng.normal(*TRUTH, n)),
        (
            Normal(),
            {"mechanism": Mirrored(Response(2, 4.0))},
            TRUTH,
            lambda rng, n: rng.normal(*TRUTH, n),
        ),
    ],
    ids=["exponential", "mu", "mirrored"],
)
def test_other_families_and_mechanisms_are_learnt(population, settings, truth, draw):
    rng = np.random.default_rng(4)
    collector = StochasticGradient(population, rng=4, **settings)
    stream(collector, draw(rng, 600), rng)
    assert (np.abs(collector.estimate - truth) < 6 * collector.standard_error).all()
    assert (collector.standard_error < np.array(truth) / 4).all()


def test_before_the_first_report_it_knows_its_start_and_nothing_more():
    collector = StochasticGradient(Normal(), epsilon=1.0, start=(3.0, 2.0))
    assert np.allclose(collector.estimate, (3.0, 2.0))
    assert np.isinf(collector.standard_error).all()
    assert np.allclose(StochasticGradient(Normal(), epsilon=1.0).estimate, Normal().middle())


def test_a_step_is_at_most_a_spread_or_a_factor_of_e_and_would_be_longer():
    rng = np.random.default_rng(5)
    collector = StochasticGradient(Normal(), epsilon=12.0, start=(0.0, 1.0))
    moved = []
    for i in range(20):
        before = collector._z.copy()
        collector.add(report(collector.query(), 1e9, rng, i))
        moved.append(np.abs(collector._z - before) / [math.exp(before[1]), 1.0])
    assert np.max(moved) == pytest.approx(1)


def test_blocks_that_disagree_make_steps_large_again():
    """At ε = 1 from (−1000, 0.1) in 700 reports, where σ would be 32 else; the limit is 0.55."""
    rng = np.random.default_rng(9)
    collector = StochasticGradient(Normal(), epsilon=1.0, start=(-1000.0, 0.1))
    stream(collector, rng.normal(*TRUTH, 700), rng)
    assert collector._calm < collector.reports
    assert np.linalg.norm(collector.estimate - TRUTH) < 5


def test_wrong_duplicate_and_foreign_reports_change_nothing():
    rng = np.random.default_rng(6)
    collector = stream(StochasticGradient(Normal(), epsilon=1.0), [50.0] * 3, rng)
    query = collector.query()
    good = report(query, 50.0, rng, 7)
    collector.add(good)
    before = state(collector)
    for bad in (
        good,
        Report(query.id, 0, good.report_id),
        Report(query.id, query.channel.outputs, "ab" * 16),
        response([1.234], 1.0).privatize(1.0),
    ):
        with pytest.raises(InvalidArgument):
            collector.add(bad)
        assert state(collector) == before
    for bad in (None, good.to_json(), query):
        with pytest.raises(InvalidType):
            collector.add(bad)
        assert state(collector) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 2.0},
        {"mechanism": TruncatedLaplace(2.0, steps=8), "criterion": COptimal((1.0, 0.0))},
        {"mechanism": Mirrored(Response(2, 2.0)), "rng": 3},
    ],
)
def test_a_loaded_collector_goes_on_exactly(tmp_path, settings):
    rng = np.random.default_rng(7)
    collector = stream(StochasticGradient(Normal(), **settings), rng.normal(*TRUTH, 40), rng)
    collector.save(tmp_path / "run")
    again = StochasticGradient.load(tmp_path / "run")
    assert state(again) == state(collector)
    for one in (collector, again):
        rng = np.random.default_rng(8)
        stream(one, rng.normal(*TRUTH, 40), rng, first=40)
    assert state(again) == state(collector)
    with pytest.raises(InvalidArgument, match="added before"):
        again.add(report(again.queries[0], 50.0, rng, 3))


def test_a_file_that_is_no_collectors_is_refused(tmp_path):
    path = tmp_path / "run"
    path.write_bytes(b"no")
    with pytest.raises(InvalidArgument):
        StochasticGradient.load(path)
    collector = StochasticGradient(Normal(), epsilon=1.0)
    collector._z = np.array([math.nan, 0.0])
    collector.save(path)
    with pytest.raises(InvalidArgument, match="z must be finite"):
        StochasticGradient.load(path)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, InvalidArgument),
        ({"epsilon": 0.0}, InvalidArgument),
        ({"epsilon": 1.0, "start": (0.0, -1.0)}, InvalidArgument),
        ({"epsilon": 1.0, "start": (0.0,)}, InvalidArgument),
        ({"epsilon": 1.0, "criterion": "E"}, InvalidArgument),
        ({"mechanism": 3}, InvalidType),
    ],
)
def test_settings_out_of_range_are_refused(settings, error):
    with pytest.raises(error):
        StochasticGradient(Normal(), **settings)
