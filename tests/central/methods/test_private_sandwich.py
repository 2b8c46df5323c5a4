"""Private sandwich: its regions' probabilities, what noise adds to them, privacy, and coverage."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import ERM, GDP, HuberERM, LogisticERM, Mean, confidence_region
from confidp.central.methods.method import Request
from confidp.central.methods.newton_step import vector_to_symmetric
from confidp.central.methods.private_sandwich import (
    SHAPES,
    PrivateSandwich,
    ball,
    box,
    directions,
    ellipsoid,
)
from confidp.errors import ConfidpError, InvalidType
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
SKEWED = {
    1: np.array([[4.0]]),
    2: np.array([[1.0, 0.9], [0.9, 1.0]]),
    3: np.diag([1.0, 0.1, 0.01]),
    6: np.diag([9.0, 1.0, 1.0, 1.0, 0.01, 0.01]) + 0.3,
}


def plan_for(statistic, n, *, columns=3, mu=1.0, level=0.9, shape="ball"):
    return PrivateSandwich(shape).plan(statistic.for_shape(n, columns), Request(n, mu, level, 1))


def inside(shape, sigma, A, noise, level, x):
    """Which rows of x the region around 0 for an estimate `sigma` holds."""
    if shape == "ball":
        return np.linalg.norm(x, axis=1) < ball(sigma, A, noise, level)
    if shape == "box":
        return (np.abs(x) < box(sigma, A, noise, level)).all(axis=1)
    matrix = ellipsoid(sigma, A, noise, level)
    return (x * np.linalg.solve(matrix, x.T).T).sum(axis=1) < 1


# --- Regions for a known covariance --------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", SKEWED)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_a_region_has_the_probability_that_it_says(shape, d, level):
    sigma, runs = SKEWED[d], 100_000
    x = np.random.default_rng(1).multivariate_normal(np.zeros(d), sigma, runs)
    held = inside(shape, sigma, np.eye(d), 0.0, level, x).mean()
    # The fixed directions may be off by 0.0015; false-alarm rate 1e-6: 4.9 deviations.
    assert abs(held - level) < 0.0015 + 4.9 * math.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_round_normals_have_the_chi_square_quantile_as_radius(d):
    radius = ball(4 * np.eye(d), np.eye(d), 0.0, 0.95)
    assert radius == pytest.approx(2 * math.sqrt(stats.chi2.ppf(0.95, d)), rel=1e-9)
    assert ellipsoid(np.eye(d), np.eye(d), 0.0, 0.95)[0, 0] == pytest.approx(
        stats.chi2.ppf(0.95, d), rel=1e-9
    )


def test_directions_are_unit_vectors_without_a_preference():
    for d in (2, 3, 6):
        u = directions(d)
        assert np.linalg.norm(u, axis=1) == pytest.approx(1.0)
        assert u.mean(axis=0) == pytest.approx(np.zeros(d), abs=0.005)
        assert u.T @ u / len(u) == pytest.approx(np.eye(d) / d, abs=0.005)


# --- Noise in the covariance ---------------------------------------------------------------------


def test_in_one_dimension_the_widening_is_private_variances():
    sigma, noise, z = np.array([[4.0]]), 0.8, stats.norm.ppf(0.95)
    widened = 1 + (noise / 4) ** 2 * (z * z + 1) / 4
    expected = 2 * z * math.sqrt(widened)
    assert ball(sigma, np.eye(1), noise, 0.9) == pytest.approx(expected, rel=1e-9)
    assert box(sigma, np.eye(1), noise, 0.9)[0] == pytest.approx(expected, rel=1e-9)
    assert math.sqrt(ellipsoid(sigma, np.eye(1), noise, 0.9)[0, 0]) == pytest.approx(expected)


@pytest.mark.parametrize(("shape", "loss"), [("ball", 0.0), ("ellipsoid", 0.005), ("box", 0.003)])
def test_the_widening_keeps_coverage_that_noise_would_lose(shape, loss):
    rng, d, noise, level = np.random.default_rng(2), 3, 0.1, 0.9
    truth = np.diag([1.0, 0.8, 0.5])
    x = rng.multivariate_normal(np.zeros(d), truth, 20_000)
    exact = inside(shape, truth, np.eye(d), 0.0, level, x).mean()
    kept, lost = [], []
    for z in rng.normal(size=(50, 6)):
        for sign in (1, -1):  # in pairs, so that the first order drops out
            estimate = truth + sign * noise * vector_to_symmetric(z, d)
            kept.append(inside(shape, estimate, np.eye(d), noise, level, x).mean() - exact)
            lost.append(inside(shape, estimate, np.eye(d), 0.0, level, x).mean() - exact)
    pairs = np.array(kept).reshape(-1, 2).mean(axis=1)
    assert np.mean(lost) <= -loss
    assert pairs.mean() >= -4.9 * pairs.std() / math.sqrt(len(pairs))  # false-alarm rate 1e-6


def test_noise_is_taken_through_the_inverse_hessian():
    A = np.diag([2.0, 0.5])
    sigma = A @ np.eye(2) @ A
    # Relative noise of each variance is that of the gradient's own covariance.
    assert box(sigma, A, 0.3, 0.9) == pytest.approx([2, 0.5] * box(np.eye(2), np.eye(2), 0.3, 0.9))
    assert ellipsoid(sigma, A, 0.3, 0.9) == pytest.approx(
        A @ ellipsoid(np.eye(2), np.eye(2), 0.3, 0.9) @ A
    )
    assert ball(4 * np.eye(2), 2 * np.eye(2), 0.3, 0.9) == pytest.approx(
        2 * ball(np.eye(2), np.eye(2), 0.3, 0.9)
    )


# --- Privacy -------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 12), st.booleans())
@settings(deadline=None, max_examples=60)
def test_no_neighbours_move_the_squares_by_more_than_the_noise_allows_for(seed, n, huber):
    rng = np.random.default_rng(seed)
    statistic = HuberERM(0.1, 0.5, (-9, 9)) if huber else LogisticERM(0.1, intercept=False)
    plan = plan_for(statistic, n)
    rows = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-1, 3, (n, 3))
    other = rows.copy()
    other[0] = rng.choice([-1e3, 0.0, 1e3], 3) if seed % 2 else -rows[0]
    y = rng.normal(size=plan.statistic.dimension) * 10.0 ** rng.integers(-2, 6)
    first, second = (
        plan.squares(plan.newton.encoded_gradients(y, plan.statistic.encode(x)))
        for x in (rows, other)
    )
    moved = sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
    assert moved <= plan.covariance.sensitivity**2


def test_the_squares_sensitivity_is_attained():
    n, y = 10, np.zeros(2)
    plan = plan_for(HuberERM(0.1, 1.0, (-1000, 1000), intercept=False), n)
    rows, found = np.zeros((n, 3)), []
    for axis in (0, 1):  # orthogonal, and of full length
        rows[0] = [axis == 0, axis == 1, 1000.0]
        found.append(plan.squares(plan.newton.encoded_gradients(y, plan.statistic.encode(rows))))
    moved = sum((a - b) ** 2 for a, b in zip(*found, strict=True))
    assert moved >= plan.covariance.sensitivity**2 * (1 - Fraction(1, 2**30))
    assert float(plan.covariance.sensitivity) == pytest.approx(math.sqrt(2) / n)


@given(st.floats(1e-2, 1e3), st.integers(2, 10**6), st.floats(1e-4, 10.0))
@settings(deadline=None, max_examples=60)
def test_the_four_parts_compose_to_no_more_than_the_budget(mu, n, regularization):
    plan = plan_for(LogisticERM(regularization), n, mu=mu)
    newton = plan.newton
    parts = (newton.start, newton.hessian, newton.gradient, plan.covariance)
    total = sum(Fraction(part.mu) ** 2 for part in parts)
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -40) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert sum(plan.public["budget_shares"]) == pytest.approx(1, abs=3e-4)


def test_every_number_released_is_charged_for():
    plan = plan_for(LogisticERM(0.05, intercept=False), 1000, columns=4)  # 3 + 6 + 3 + 6 numbers
    newton = plan.newton
    parts = (newton.start, newton.hessian, newton.gradient, plan.covariance)
    each = [lattice_delta(part.mu, size) for part, size in zip(parts, (3, 6, 3, 6), strict=True)]
    assert plan.cost.delta == pytest.approx(sum(each), rel=1e-9)


# --- Against the classical sandwich, and coverage ------------------------------------------------


def population(n, rng, d=2):
    x = rng.standard_normal((n, d))
    x *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(x, axis=1, keepdims=True)
    return np.column_stack([x, rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))])


def sandwich(statistic, records):
    """Minimiser and classical covariance, written down again."""
    y, n = statistic.value(records), len(records)
    g = statistic.gradients(y, records)
    ridge = statistic.regularization * np.eye(len(y))
    A = np.linalg.inv(statistic.hessians(y, records).mean(axis=0) + ridge)
    return y, A @ np.cov(g.T, bias=True) @ A / n


@pytest.mark.parametrize("statistic", [LogisticERM(0.05), HuberERM(0.05, 0.3, (0, 1))])
def test_with_no_noise_to_speak_of_it_is_the_classical_sandwich(statistic):
    data = population(500, np.random.default_rng(3))
    fitted = statistic.for_shape(500, 3)
    y, covariance = sandwich(fitted, fitted.encode(data))
    region = confidence_region(
        data, statistic, budget=GDP(1e7), method=PrivateSandwich("ellipsoid"), rng=4
    )
    assert region.center == pytest.approx(y, abs=1e-5)
    expected = covariance * stats.chi2.ppf(0.95, 3)
    assert np.array(region.ellipsoid) == pytest.approx(expected, abs=1e-3 * expected.max())
    assert region.public["newton_step"]


TRUTH = {}


def truth(statistic):
    """The population's minimiser, to some 0.002: a twentieth of the radii here."""
    if statistic not in TRUTH:
        fitted = statistic.for_shape(500_000, 3)
        data = population(500_000, np.random.default_rng(5))
        TRUTH[statistic] = fitted.value(fitted.encode(data))
    return TRUTH[statistic]


@pytest.mark.parametrize(
    ("statistic", "shape", "mu"),
    [
        (LogisticERM(0.05, intercept=False), "ball", 0.5),
        (LogisticERM(0.05, intercept=False), "ellipsoid", 0.5),
        (LogisticERM(0.05, intercept=False), "box", 0.5),
        (LogisticERM(0.05, intercept=False), "ball", 8.0),
        (HuberERM(0.05, 0.3, (0, 1), intercept=False), "ball", 0.5),
        (LogisticERM(1e-3, intercept=False), "ball", 0.5),  # where no step can be taken
    ],
)
def test_it_covers_the_populations_regularised_minimiser(statistic, shape, mu):
    rng, runs, covered = np.random.default_rng(6), 100, 0
    for _ in range(runs):
        region = confidence_region(
            population(2000, rng),
            statistic,
            budget=GDP(mu),
            confidence_level=0.9,
            method=PrivateSandwich(shape),
            rng=rng,
        )
        covered += region.contains(truth(statistic))
    assert region.shape == shape
    assert region.public["newton_step"] == (statistic.regularization > 0.01)
    assert binomtest(covered, runs, 0.88, "less").pvalue > FALSE_ALARM


def test_a_ball_is_little_wider_than_without_privacy():
    rng, n = np.random.default_rng(7), 20_000
    data, statistic = population(n, rng, d=5), LogisticERM(0.05, intercept=False)
    fitted = statistic.for_shape(n, 6)
    _, covariance = sandwich(fitted, fitted.encode(data))
    region = confidence_region(
        data, statistic, budget=GDP(0.5), confidence_level=0.9, method=PrivateSandwich(), rng=rng
    )
    assert region.radius < 1.15 * ball(covariance, np.eye(5), 0.0, 0.9)


# --- Refused and robust --------------------------------------------------------------------------


def test_statistics_without_bounded_hessians_are_refused():
    erm = ERM(0.1, lambda y, x: y - x, lambda y, x: np.eye(1), lipschitz=1, bounds=(0, 1))
    for statistic in (erm, Mean((0, 1))):
        with pytest.raises(InvalidType, match="PrivateSandwich needs an M-estimator with bounded"):
            confidence_region(
                np.zeros(9), statistic, budget=GDP(1.0), method=PrivateSandwich(), rng=1
            )


@pytest.mark.parametrize("shape", ["sphere", None, 3])
def test_an_unknown_shape_is_refused(shape):
    with pytest.raises(ConfidpError, match="shape must be one of ball, ellipsoid, box"):
        PrivateSandwich(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 5, 300])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 1e3])
def test_whatever_the_noise_a_region_comes_out(shape, n, mu):
    data = np.zeros((n, 3)) if n == 5 else population(n, np.random.default_rng(8))
    for statistic in (LogisticERM(0.05), LogisticERM(1e-9), HuberERM(1e3, 1e-3, (0, 1))):
        plan = plan_for(statistic, n, mu=mu, shape=shape)
        released = plan.release(plan.statistic.encode(data), Randomness.of(9))
        assert math.isfinite(released.radius)
        assert released.radius > 0
