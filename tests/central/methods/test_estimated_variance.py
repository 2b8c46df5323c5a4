"""The rules for a noisy variance: what they solve, and the coverage that they keep."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binomtest

from confidp.central.methods.estimated_variance import (
    center_share,
    hotelling,
    student_t,
    total_covariance,
    total_variance,
)
from confidp.central.methods.method import Request

FALSE_ALARM = 1e-6
Z = np.linspace(-9, 9, 1501)
WEIGHTS = stats.norm.pdf(Z) / stats.norm.pdf(Z).sum()


def coverage(t, variance, least, two_sided):
    """Integrate over the noise in T̃, of deviation 1, for T = variance + least."""
    total = variance + least
    built = np.array([total_variance(total + z, 1.0, least, t) for z in Z])
    below = stats.norm.cdf(t * np.sqrt(built / total))
    return float(WEIGHTS @ (2 * below - 1 if two_sided else below))


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99, 0.999])
def test_with_normal_errors_it_covers_at_least_what_it_says_however_large_the_noise(
    level, two_sided
):
    t = stats.norm.isf((1 - level) / 2 if two_sided else 1 - level)
    variances = (0, 0.03, 0.1, 0.3, 1, 2, 3, 5, 10, 30, 100)
    for variance, least in itertools.product(variances, (0, 0.01, 0.3, 1, 3, 30)):
        if variance + least > 0:
            assert coverage(t, variance, least, two_sided) >= level - 1e-9


def test_it_isnt_much_wider_than_it_need_be():
    t = stats.norm.isf(0.05)
    # At noise of a third of T it covers within 0.005 of the level, of a tenth within 0.0001.
    assert coverage(t, 3.0, 0.0, True) < 0.905
    assert coverage(t, 10.0, 0.0, True) < 0.9001


def test_the_total_variance_is_the_root_of_its_equation():
    for estimate, noise, t in itertools.product((-3.0, 0.0, 0.5, 40.0), (0.1, 2.0), (0.0, 1.7)):
        w = total_variance(estimate, noise, 0.0, t)
        assert w > 0
        assert w == pytest.approx(estimate + (t * t + 1) / 4 * noise**2 / w)


def test_it_is_the_estimate_without_noise_and_never_under_the_least():
    assert total_variance(2.5, 0.0, 1.0, 1.7) == 2.5
    assert total_variance(-9.0, 0.5, 1.0, 1.7) == 1.0


def test_in_one_dimension_the_matrix_rule_is_the_scalar_one():
    for estimate, noise, t in itertools.product((-3.0, 0.0, 0.5, 40.0), (0.1, 2.0), (0.6, 1.7)):
        matrix = total_covariance(np.array([[estimate]]), noise, 0.01, t * t)
        assert matrix[0, 0] == pytest.approx(total_variance(estimate, noise, 0.01, t))


def test_the_matrix_rule_solves_its_equation():
    rng = np.random.default_rng(1)
    for d in (2, 3, 6):
        root = rng.standard_normal((d, d))
        estimate, noise = (root + root.T) / 2, 0.3  # with negative eigenvalues
        quantile = stats.chi2.isf(0.1, d)
        w = total_covariance(estimate, noise, 0.0, quantile)
        inverse = np.linalg.inv(w)
        kappa = max(
            1 + (2 + rho) * (quantile - d - 2) / (4 * (d + 2)) for rho in (2 / (d + 1), 1.0)
        )
        added = kappa * noise**2 / 2 * (inverse + np.trace(inverse) * np.eye(d))
        np.testing.assert_allclose(w, estimate + added, atol=1e-8)
        assert np.linalg.eigvalsh(w).min() > 0


def test_no_noise_leaves_the_matrix_but_for_the_least_eigenvalue():
    w = total_covariance(np.array([[2.0, 1.0], [1.0, 2.0]]), 0.0, 1.5, 4.6)
    np.testing.assert_allclose(np.linalg.eigvalsh(w), [1.5, 3.0])


@pytest.mark.parametrize("spectrum", [(1.0, 1.0, 1.0), (1.0, 10.0, 100.0)])
def test_an_ellipsoid_from_a_noisy_covariance_covers(spectrum):
    rng = np.random.default_rng(2)
    d, noise, runs, level = 3, 0.45, 2000, 0.9
    quantile = stats.chi2.ppf(level, d)
    covered = plain = 0
    for _ in range(runs):
        root = rng.standard_normal((d, d)) * noise / math.sqrt(2)
        estimate = np.diag(spectrum) + (root + root.T) / math.sqrt(2)
        x = rng.standard_normal(d) * np.sqrt(spectrum)
        w = total_covariance(estimate, noise, 0.0, quantile)
        covered += x @ np.linalg.solve(w, x) < quantile
        clipped = total_covariance(estimate, 0.0, 0.05, quantile)
        plain += x @ np.linalg.solve(clipped, x) < quantile
    assert binomtest(covered, runs, level, "less").pvalue > FALSE_ALARM
    assert binomtest(plain, runs, level, "less").pvalue < FALSE_ALARM  # what it mends
    assert covered / runs < 0.96


def test_quantiles_are_simultaneous():
    request = Request(31, 1.0, 0.9, 1)
    assert student_t(request) == pytest.approx(stats.t.isf(0.05, 30))
    assert student_t(request, 4) == pytest.approx(stats.t.isf((1 - 0.9**0.25) / 2, 30))
    bound = Request(31, 1.0, 0.9, 1, alternative="less")
    assert student_t(bound, 4) == pytest.approx(stats.t.isf(0.1 / 4, 30))
    assert student_t(Request(31, 1.0, 0.2, 1, alternative="less")) == 0.0
    assert hotelling(request, 1) == pytest.approx(stats.t.isf(0.05, 30) ** 2)
    assert hotelling(request, 3) == pytest.approx(3 * 30 / 28 * stats.f.ppf(0.9, 3, 28))


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("d", [1, 4])
def test_the_share_is_the_best_for_a_deviation_of_a_tenth_of_the_range(mu, d):
    n, factor = 500, 0.9
    a = d / (n * mu) ** 2  # with R = 1
    total = 0.01 / n + a

    def half_width_squared(c):
        return 0.01 / n + a / c + factor * a * a * mu * mu / d / ((1 - c) * total)

    best = float(center_share(Request(n, mu, 0.9, 1), d, factor))
    assert half_width_squared(best) <= half_width_squared(best * 0.98)
    assert half_width_squared(best) <= half_width_squared(1 - (1 - best) * 0.98)


def test_the_share_leaves_both_parts_something():
    for mu in (1e-200, 1e9):
        for factor in (1e-3, 1e9):
            assert 0.1 < center_share(Request(100, mu, 0.9, 1), 1, factor) < 0.99
