"""One noisy Newton step: exact bounded means, sensitivities attacked, and the law of its error."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confidp import HuberERM, LogisticERM
from confidp.central.methods.method import Request
from confidp.central.methods.newton_step import (
    BoundedMean,
    NewtonStep,
    planned_shares,
    symmetric_to_vector,
    vector_to_symmetric,
)
from confidp.randomness import Randomness

REGRESSIONS = [
    LogisticERM(0.05, intercept=False),
    LogisticERM(1e-3, feature_norm=20.0),
    HuberERM(0.1, 1.0, (-1000, 1000), intercept=False),
    HuberERM(5.0, 0.01, (-1, 3), feature_norm=3.0),
]


def step_for(statistic, n, *, columns=3, mu=1.0, level=0.9, shares=(0.3, 0.3, 0.3)):
    fitted = statistic.for_shape(n, columns)
    return NewtonStep.choose(fitted, Request(n, mu, level, 1), shares)


def means(step, y, records):
    """The mean Hessian, as a vector, and the mean gradient at y, exact as they are released."""
    hessians = step.hessians.encode(symmetric_to_vector(step.statistic.hessians(y, records)))
    gradients = step.encoded_gradients(y, records)
    return step.hessians.of(hessians.sum(axis=0)), step.gradients.of(gradients.sum(axis=0))


def squared(first, second):
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


# --- Bounded means -------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([1e-9, 0.3, 1.0, 7e5]))
@settings(deadline=None, max_examples=50)
def test_encoded_vectors_are_within_their_bound_and_near_what_they_were(seed, size, bound):
    rng = np.random.default_rng(seed)
    mean = BoundedMean(100, size, bound)
    vectors = rng.normal(size=(10, size)) * bound * 10.0 ** rng.integers(-3, 3, (10, 1))
    unrounded = mean.longest + mean.step * (math.isqrt(size) + 1) / 2
    for vector, whole in zip(vectors, mean.encode(vectors).tolist(), strict=True):
        exact = [int(x) * mean.step for x in whole]
        assert sum(x * x for x in exact) <= unrounded**2
        if np.linalg.norm(vector) < bound:
            error = max(abs(a - Fraction(b)) for a, b in zip(exact, vector.tolist(), strict=True))
            assert error <= mean.step


def test_each_encoded_vector_is_a_function_of_its_own_and_one_that_is_no_number_counts_as_0():
    mean = BoundedMean(6, 2, 1.0)
    vectors = np.array([[0.3, 0.1], [3, 4], [math.nan, 1], [math.inf, 0], [1e200, 0], [0, 0]])
    encoded = mean.encode(vectors)
    alone = np.vstack([mean.encode(v[None]) for v in vectors])
    assert np.array_equal(encoded, alone)
    assert encoded[2:].tolist() == [[0, 0]] * 4
    assert encoded[1] * float(mean.step) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("n", [1, 1000, 2**17, 10**9])
def test_sums_over_all_records_stay_inside_64_bits(n):
    mean = BoundedMean(n, 1, 1.9999)
    largest = int(mean.encode(np.array([[9.0]]))[0, 0])
    assert largest * n < 2**62
    assert largest > 2**28  # and still fine enough


def test_symmetric_matrices_become_vectors_of_the_same_norm_and_back():
    rng = np.random.default_rng(1)
    matrices = rng.normal(size=(5, 4, 4))
    matrices = matrices + matrices.transpose(0, 2, 1)
    vectors = symmetric_to_vector(matrices)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.linalg.norm(matrices, axis=(1, 2)))
    assert vector_to_symmetric(vectors[3], 4) == pytest.approx(matrices[3])


# --- Sensitivities -------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from(REGRESSIONS), st.integers(1, 12))
@settings(deadline=None, max_examples=100)
def test_no_neighbours_move_any_of_the_three_by_more_than_its_noise_allows_for(seed, statistic, n):
    rng = np.random.default_rng(seed)
    step = step_for(statistic, n)
    d = step.statistic.dimension
    rows = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-1, 4, (n, 3))
    other = rows.copy()
    other[0] = rng.choice([-1e3, 0.0, 1e3], 3) if seed % 2 else -rows[0]
    y = rng.normal(size=d) * 10.0 ** rng.integers(-2, 6)  # whatever θ̃₀ came out
    records = [step.statistic.encode(x) for x in (rows, other)]
    pairs = list(zip(*(means(step, y, x) for x in records), strict=True))
    for mechanism, (first, second) in zip((step.hessian, step.gradient), pairs, strict=True):
        assert squared(first, second) <= mechanism.sensitivity**2
    starts = [[Fraction(v) for v in step.statistic.value(x).tolist()] for x in records]
    assert squared(*starts) <= step.start.sensitivity**2


def test_the_gradients_and_the_hessians_sensitivities_are_attained():
    n, y = 10, np.zeros(2)
    step = step_for(HuberERM(0.1, 1.0, (-1000, 1000), intercept=False), n)
    rows = np.zeros((n, 3))
    found = []
    for outcome in (1000.0, -1000.0):
        rows[0] = [1.0, 0.0, outcome]
        found.append(means(step, y, step.statistic.encode(rows))[1])
    assert squared(*found) >= step.gradient.sensitivity**2 * (1 - Fraction(1, 2**30))
    step = step_for(LogisticERM(0.1, intercept=False), n)
    found = []
    for axis in (0, 1):  # orthogonal features, each with the largest curvature
        rows[0] = [axis == 0, axis == 1, 1.0]
        found.append(means(step, y, step.statistic.encode(rows))[0])
    assert squared(*found) >= step.hessian.sensitivity**2 * (1 - Fraction(1, 2**30))
    assert float(step.hessian.sensitivity) == pytest.approx(math.sqrt(2) / (4 * n))


def test_a_gradient_longer_than_stated_is_scaled_down_and_breaks_nothing():
    class Liar(LogisticERM):
        def gradients(self, y, records):
            return 1e6 * LogisticERM.gradients(self, y, records)

    step = step_for(Liar(0.1, intercept=False), 5)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(5, 3))
    other = np.vstack([-10 * rows[:1], rows[1:]])
    first, second = (means(step, np.ones(2), step.statistic.encode(x))[1] for x in (rows, other))
    assert squared(first, second) <= step.gradient.sensitivity**2


# --- The budget ----------------------------------------------------------------------------------

SETTINGS = [
    (LogisticERM(0.05, intercept=False), 500, 0.25),
    (LogisticERM(0.05), 20_000, 8.0),
    (LogisticERM(1e-4), 2000, 0.5),
    (HuberERM(0.05, 0.1, (0, 1)), 2000, 1.0),
]


@pytest.mark.parametrize(("statistic", "n", "mu"), SETTINGS)
def test_the_parts_compose_to_no_more_than_the_budget(statistic, n, mu):
    fitted = statistic.for_shape(n, 4)
    shares = planned_shares(fitted, Request(n, mu, 0.9, 1), 1e-6)
    assert sum(map(Fraction, shares)) <= 1
    assert sum(shares) > 1 - 1e-12
    step = NewtonStep.choose(fitted, Request(n, mu, 0.9, 1), shares[:3])
    total = sum(Fraction(part.mu) ** 2 for part in (step.start, step.hessian, step.gradient))
    assert total <= Fraction(mu) ** 2 * (1 - Fraction(shares[3]))


@pytest.mark.parametrize(("statistic", "n", "mu"), SETTINGS)
def test_the_shares_minimise_what_is_predicted(statistic, n, mu):
    statistic = statistic.for_shape(n, 4)
    d, other = statistic.dimension, 1e-6
    e = 2 * statistic.lipschitz / (n * mu)
    t = d * (e / statistic.regularization) ** 2
    h = math.sqrt(2) * statistic.hessian_norm / (n * mu)
    quantile = {3: 6.2514, 4: 7.7794}[d]  # of χ²_d at 0.9

    def predicted(s):
        cross = h * h * t * (d + 1) / (2 * d) / (s[0] * s[1])
        remainder = (statistic.hessian_change * t / 2 / s[0]) ** 2 / quantile
        return cross + remainder + e * e / s[2] + other / s[3]

    shares = np.array(planned_shares(statistic, Request(n, mu, 0.9, 1), other))
    best = predicted(shares)
    rng = np.random.default_rng(3)
    for _ in range(500):
        moved = shares * np.exp(rng.normal(size=4) * rng.choice([0.02, 0.3]))
        moved = np.maximum(moved / moved.sum(), 0.01)
        assert predicted(moved / moved.sum()) > best * 0.995
    assert shares.min() > 0.0096


# --- The step ------------------------------------------------------------------------------------


def population(n, rng):
    x = rng.uniform(-0.7, 0.7, size=(n, 2))
    return np.column_stack([x, rng.random(n) < 1 / (1 + np.exp(-2 * x.sum(axis=1)))])


def test_with_no_noise_to_speak_of_it_ends_at_the_minimiser():
    step = step_for(LogisticERM(0.05), 400, mu=1e8)
    records = step.statistic.encode(population(400, np.random.default_rng(4)))
    released, _ = step.release(records, Randomness.of(None))
    minimiser = step.statistic.value(records)
    hessian = step.statistic._hessian(minimiser, records) + 0.05 * np.eye(3)
    assert released.taken
    assert released.center == pytest.approx(minimiser, abs=1e-6)
    assert released.inverse == pytest.approx(np.linalg.inv(hessian), abs=1e-5)
    assert released.remainder < 1e-9


def test_eigenvalues_are_raised_to_lambda_and_cut_at_the_largest_possible():
    step = step_for(LogisticERM(0.05, intercept=False), 400)
    hessian = np.array([[-3.0, 0.0], [0.0, 9.0]])
    inverse = step.step(np.zeros(2), hessian, np.zeros(2)).inverse
    assert np.linalg.eigvalsh(np.linalg.inv(inverse)) == pytest.approx([0.05, 0.30])


def test_the_covariance_counts_gradient_noise_hessian_noise_and_remainder():
    shares = (0.3, 5e-4, 0.6)  # so that the Hessian's noise shows
    step = step_for(LogisticERM(0.05, intercept=False), 400, shares=shares)
    d, moved = 2, np.array([0.3, -0.1])
    hessian, start = np.diag([0.1, 0.2]), np.array([0.5, 0.2])
    hessian_in = hessian + 0.05 * np.eye(d)
    slope = -hessian_in @ moved - 0.05 * start
    released = step.step(start, hessian, slope)
    assert released.taken
    assert released.center == pytest.approx(start + moved)
    rho = step.statistic.hessian_change / 2 * (moved @ moved)
    assert released.remainder == pytest.approx(rho / 0.15)
    draws = np.random.default_rng(5).normal(size=(20_000, d * (d + 1) // 2))
    errors = np.array([vector_to_symmetric(z, d) for z in draws]) @ moved
    expected = step.hessian.scale**2 * np.cov(errors.T)  # to about 1% in 20,000 draws
    expected += (step.gradient.scale**2 + rho**2 / 4.6052) * np.eye(d)
    added = hessian_in @ released.noise @ hessian_in
    assert added == pytest.approx(expected, rel=0.05, abs=0.02 * expected.max())


def test_no_step_is_taken_where_it_would_add_more_than_it_takes_away():
    tiny = step_for(LogisticERM(1e-4, intercept=False), 500, mu=0.5)
    records = tiny.statistic.encode(population(500, np.random.default_rng(6)))
    released, _ = tiny.release(records, Randomness.of(7))
    assert not released.taken
    assert released.center.tolist() == released.start.tolist()
    assert released.remainder == 0
    assert released.noise == pytest.approx(tiny.start.scale**2 * np.eye(2))


@pytest.mark.parametrize("size", [1, 7, 400])
def test_records_are_taken_in_pieces_that_change_nothing(size, monkeypatch):
    step = step_for(LogisticERM(0.05), 400)
    records = step.statistic.encode(population(400, np.random.default_rng(8)))
    whole, gradients = step.release(records, Randomness.of(9))
    monkeypatch.setattr("confidp.central.methods.newton_step._CHUNK", size * 9)
    pieces, others = step.release(records, Randomness.of(9))
    assert pieces.center == pytest.approx(whole.center, rel=1e-9)
    assert np.abs(gradients - others).max() <= 1  # a float's last bit can reach the next step
