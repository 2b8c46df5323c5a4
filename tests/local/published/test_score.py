"""Algorithm 4 against the closed form; false-alarm rate 1e-6 a test."""

import math

import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument
from confidp.local.continuous import TruncatedLaplaceDensity
from confidp.local.published.model import LatentModel, Reports, logistic, normal
from confidp.local.published.score import fisher_information, score, simulate
from local.published.common import FALSE_ALARM, is_zero

THETA = np.array([50.0, 3.0])
REPORTS = Reports.of([41.0, 48.0, 49.5, 50.0, 51.0, 58.0], 47, 52, 4.0)


def test_scores_are_those_of_the_closed_form():
    exact = TruncatedLaplaceDensity(47, 52, 4.0).score(REPORTS.values, *THETA).T
    runs = [
        score(normal(), THETA, REPORTS, 10_000, rng) for rng in np.random.default_rng(1).spawn(30)
    ]
    # A ratio of means has a bias of about 1/10 000; the error of 30 runs is 20 times that.
    assert is_zero((np.array(runs) - exact).reshape(30, -1))


def test_a_wrong_gradient_is_caught():
    model = normal()
    wrong = LatentModel(model.population, model.draw, model.log_density, lambda z: -1.05 * z)
    exact = TruncatedLaplaceDensity(47, 52, 4.0).score(REPORTS.values, *THETA).T
    runs = [score(wrong, THETA, REPORTS, 10_000, rng) for rng in np.random.default_rng(1).spawn(30)]
    assert not is_zero((np.array(runs) - exact).reshape(30, -1))


@pytest.mark.parametrize("model", [normal(), logistic()])
def test_gradients_are_derivatives_of_the_log_density(model):
    x, step = np.array([40.0, 49.0, 50.0, 56.0]), 1e-5

    def log_density(mu, sigma):
        return model.log_density((x - mu) / sigma) - math.log(sigma)

    mu, sigma = THETA
    by_mu = (log_density(mu + step, sigma) - log_density(mu - step, sigma)) / (2 * step)
    by_sigma = (log_density(mu, sigma + step) - log_density(mu, sigma - step)) / (2 * step)
    assert np.allclose(model.gradient(THETA, x), [by_mu, by_sigma], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_the_information_is_the_closed_form_s(epsilon):
    low, high = -0.8, 1.1
    exact = TruncatedLaplaceDensity(low, high, epsilon).fisher_information(0.0, 1.0)
    standard, runs = np.array([0.0, 1.0]), []
    for rng in np.random.default_rng(2).spawn(25):
        found = fisher_information(
            normal(), standard, low, high, epsilon, rng, n_reports=500, n_samples=1000
        )
        runs.append(found[np.triu_indices(2)])
    errors = np.array(runs) - exact[np.triu_indices(2)]
    spread = errors.std(axis=0, ddof=1) / math.sqrt(len(runs))
    # A score's Monte Carlo variance, about (1, 2)/n_samples, adds to the diagonal.
    bias = np.array([1, 0, 2]) / 1000
    allowed = stats.t.isf(FALSE_ALARM / 6, len(runs) - 1) * spread + 0.02 * exact[0, 0]
    assert (np.abs(errors.mean(axis=0) - bias) < allowed).all()


def test_simulated_reports_have_the_stated_scale_and_the_authors_have_not():
    def noise(divisor):
        rng = np.random.default_rng(3)
        reports = simulate(normal(), np.array([900.0, 1.0]), -1, 1, 2.0, 20_000, rng)  # all at 1
        return (reports.values - 1) / divisor

    # |Laplace(b)| is exponential of mean b = 1: standard error 1/√20 000 of the mean.
    def is_right(values):
        error = abs(np.abs(values).mean() - 1) * math.sqrt(len(values))
        return error < stats.norm.isf(FALSE_ALARM / 2)

    assert is_right(noise(1.0))
    assert not is_right(noise(math.sqrt(2)))


def test_bad_input_is_refused():
    rng = np.random.default_rng(4)
    with pytest.raises(InvalidArgument, match="n_samples"):
        score(normal(), THETA, REPORTS, 0, rng)
    with pytest.raises(InvalidArgument, match="n_reports"):
        simulate(normal(), THETA, 0, 1, 1.0, 0, rng)
