"""Linearised resampling: pivots, their sensitivity attacked, the radius's equation, coverage."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from confidp import GDP, HuberERM, LogisticERM, Mean, confidence_region
from confidp.central.methods.linearised import Linearised
from confidp.central.methods.method import Request
from confidp.errors import ConfidpError, InvalidType
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6


def plan_for(statistic, n, *, columns=3, mu=1.0, level=0.9, n_resamples=20, size=None):
    request = Request(n, mu, level, n_resamples)
    return Linearised(size).plan(statistic.for_shape(n, columns), request)


def population(n, rng):
    x = rng.uniform(-0.7, 0.7, size=(n, 2))
    return np.column_stack([x, rng.random(n) < 1 / (1 + np.exp(-2 * x.sum(axis=1)))])


def step_at(plan, y, hessian):
    """A public step: whatever came out before the radius."""
    return plan.newton.step(y, hessian, np.zeros(len(y)))


def test_pivots_are_scaled_half_sample_means_of_gradients_less_the_whole():
    plan = plan_for(LogisticERM(0.05, intercept=False), 60, size=20)
    records = plan.statistic.encode(population(60, np.random.default_rng(1)))
    y = np.array([0.4, -0.2])
    gradients = plan.newton.encoded_gradients(y, records)
    indices = np.arange(5, 25)
    (pivot,) = plan.pivots(gradients, [indices])
    z, o = records[:, :2], records[:, 2]
    g = (-o / (1 + np.exp(o * (z @ y))))[:, None] * z
    expected = (g[indices].mean(axis=0) - g.mean(axis=0)) * math.sqrt(20 / 40)
    assert pivot == pytest.approx(expected, abs=1e-11)


@given(st.integers(0, 2**32), st.integers(2, 12), st.booleans())
@settings(deadline=None, max_examples=60)
def test_no_neighbours_move_pivots_or_radius_by_more_than_the_noise_allows_for(seed, n, huber):
    rng = np.random.default_rng(seed)
    statistic = HuberERM(0.1, 0.5, (-9, 9)) if huber else LogisticERM(0.1, intercept=False)
    plan = plan_for(statistic, n, size=int(rng.integers(1, n)), n_resamples=5)
    d = plan.statistic.dimension
    rows = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-1, 3, (n, 3))
    other = rows.copy()
    other[0] = rng.choice([-1e3, 0.0, 1e3], 3) if seed % 2 else -rows[0]
    y = rng.normal(size=d) * 10.0 ** rng.integers(-2, 2)
    step = step_at(plan, y, np.cov(rng.normal(size=(d, 9))))
    sets = [rng.permutation(n)[: plan.resampling.size] for _ in range(5)]
    mechanism, nominal = plan.radius_mechanism(step)
    pivots = [
        plan.pivots(plan.newton.encoded_gradients(y, plan.statistic.encode(x)), sets)
        for x in (rows, other)
    ]
    bound = float(plan.pivot_sensitivity()) * plan.rate
    assert np.linalg.norm(pivots[0] - pivots[1], axis=1).max() <= bound * (1 + 1e-9)
    radii = [Fraction(plan.radius(step, pivot, nominal)) for pivot in pivots]
    assert abs(radii[0] - radii[1]) <= mechanism.sensitivity


@pytest.mark.parametrize(("size", "held"), [(3, True), (8, False)])
def test_the_pivots_sensitivity_is_attained(size, held):
    # In the resample where m is under n/2, out of it where m is over.
    n, y = 10, np.zeros(2)
    plan = plan_for(HuberERM(0.1, 1.0, (-1000, 1000), intercept=False), n, size=size)
    rows, found = np.zeros((n, 3)), []
    indices = np.arange(size) if held else np.arange(1, size + 1)
    for outcome in (1000.0, -1000.0):
        rows[0] = [1.0, 0.0, outcome]
        gradients = plan.newton.encoded_gradients(y, plan.statistic.encode(rows))
        found.append(plan.pivots(gradients, [indices])[0])
    moved = np.linalg.norm(found[0] - found[1])
    assert moved == pytest.approx(float(plan.pivot_sensitivity()) * plan.rate, rel=1e-9)
    assert float(plan.pivot_sensitivity()) == pytest.approx(2 * max(1 / size - 1 / n, 1 / n))


def test_the_radius_solves_its_equation():
    plan = plan_for(LogisticERM(0.05, intercept=False), 1000, mu=0.3, n_resamples=400)
    rng = np.random.default_rng(2)
    step = step_at(plan, np.array([0.1, 0.2]), np.diag([0.05, 0.2]))
    pivots = 0.02 * rng.normal(size=(400, 2))
    s_r = 0.03
    q = plan.radius(step, pivots, s_r)
    z = rng.multivariate_normal(np.zeros(2), step.noise, (400, 200))
    norms = np.linalg.norm((pivots @ step.inverse)[:, None] + z, axis=2)
    share = np.mean(norms <= q + s_r * rng.normal(size=(400, 200)))
    assert share == pytest.approx(0.9, abs=0.005)  # 80,000 and 102,400 draws: 0.0015 a deviation
    without = plan.radius(step, pivots, 1e-12)
    assert without < q


def test_the_radius_noise_follows_the_released_hessian():
    plan = plan_for(LogisticERM(0.05, intercept=False), 1000)
    flat, steep = (
        plan.radius_mechanism(step_at(plan, np.zeros(2), h * np.eye(2)))[0] for h in (0.0, 0.2)
    )
    assert flat.scale / steep.scale == pytest.approx(0.25 / 0.05, rel=1e-6)
    assert float(flat.sensitivity) == pytest.approx(2 / 1000 / 0.05, rel=1e-6)


@given(st.floats(1e-2, 1e3), st.integers(2, 10**6))
@settings(deadline=None, max_examples=60)
def test_the_four_parts_compose_to_no_more_than_the_budget(mu, n):
    plan = plan_for(LogisticERM(0.05), n, mu=mu)
    newton = plan.newton
    parts = (newton.start.mu, newton.hessian.mu, newton.gradient.mu, plan.radius_mu)
    total = sum(Fraction(part) ** 2 for part in parts)
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -40) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    each = [lattice_delta(part, size) for part, size in zip(parts, (3, 6, 3, 1), strict=True)]
    assert plan.cost.delta == pytest.approx(sum(each), rel=1e-9)


def test_draws_are_fewer_where_there_are_many_numbers(monkeypatch):
    plan = plan_for(LogisticERM(0.05, intercept=False), 100)
    step = step_at(plan, np.zeros(2), 0.1 * np.eye(2))
    pivots = np.random.default_rng(3).normal(size=(50, 2)) * 0.1
    many = plan.radius(step, pivots, 0.1)
    monkeypatch.setattr("confidp.central.methods.linearised._NUMBERS", 50 * 2 * 40)
    assert plan.radius(step, pivots, 0.1) == pytest.approx(many, rel=0.1)


@pytest.mark.parametrize(
    ("statistic", "mu"),
    [
        (LogisticERM(0.05, intercept=False), 0.5),
        (LogisticERM(0.05, intercept=False), 8.0),
        (HuberERM(0.05, 0.3, (0, 1), intercept=False), 1.0),
    ],
)
def test_it_covers_the_populations_regularised_minimiser(statistic, mu):
    fitted = statistic.for_shape(500_000, 3)
    target = fitted.value(fitted.encode(population(500_000, np.random.default_rng(4))))
    rng, runs, covered = np.random.default_rng(5), 100, 0
    for _ in range(runs):
        region = confidence_region(
            population(1000, rng),
            statistic,
            budget=GDP(mu),
            confidence_level=0.9,
            method=Linearised(),
            n_resamples=100,
            rng=rng,
        )
        covered += region.contains(target)
    assert region.method == "linearised resampling"
    assert region.public["newton_step"]
    assert binomtest(covered, runs, 0.87, "less").pvalue > FALSE_ALARM


def test_with_no_noise_to_speak_of_it_is_the_resampling_radius_of_one_step():
    plan = plan_for(LogisticERM(0.05), 500, mu=1e7, n_resamples=300)
    records = plan.statistic.encode(population(500, np.random.default_rng(6)))
    rng = np.random.default_rng(8)
    sets = [rng.choice(500, 250, replace=False) for _ in range(300)]
    released = plan.release_on(records, sets, Randomness.of(7))
    whole = plan.statistic.value(records)
    distances = [np.linalg.norm(plan.statistic.value(records[s]) - whole) for s in sets]
    assert released.center == pytest.approx(whole, abs=1e-5)
    assert released.radius == pytest.approx(np.quantile(distances, 0.9), rel=0.1)


def test_what_can_not_be_used_is_refused():
    with pytest.raises(InvalidType, match="Linearised needs an M-estimator with bounded"):
        confidence_region(np.zeros(9), Mean((0, 1)), budget=GDP(1.0), method=Linearised())
    for size in (0, -1, 2.5, True):
        with pytest.raises(ConfidpError, match="resample_size"):
            Linearised(size)
    for n, size in ((1, None), (10, 10), (10, 11)):
        with pytest.raises(ConfidpError, match=r"rows to resample|resample_size"):
            plan_for(LogisticERM(0.05), n, size=size)


@pytest.mark.parametrize("mu", [1e-3, 1.0, 1e3])
def test_whatever_the_noise_a_region_comes_out(mu):
    for statistic in (LogisticERM(0.05), LogisticERM(1e-9), HuberERM(1e3, 1e-3, (0, 1))):
        plan = plan_for(statistic, 30, mu=mu)
        plan = replace(plan, request=replace(plan.request, n_resamples=3))
        released = plan.release(plan.statistic.encode(np.zeros((30, 3))), Randomness.of(9))
        assert math.isfinite(released.radius)
        assert released.radius >= 0
