"""Particles on θ alone have the exact posterior; false-alarm rate 1e-6 a test."""

import math

import numpy as np
import pytest

from confidp.errors import InvalidArgument
from confidp.local.published import marginal
from confidp.local.published.marginal import MarginalSMC, log_likelihood
from confidp.local.published.model import Reports, normal
from confidp.local.published.score import simulate
from local.published import common
from local.published.common import NORMAL, REPORTS, is_zero


def run(sampler, reports, rng):
    state = sampler.start(rng)
    for t in range(len(reports)):
        state = sampler.update(state, reports[slice(t, t + 1)], rng)
    return state


@pytest.fixture(scope="module")
def exact():
    theta, log_prior = common.grid(NORMAL)
    return common.posterior(theta, log_prior, log_likelihood(theta, REPORTS))


def errors(exact, seed, runs=40):
    evidence, _, expected = exact
    rows = []
    for rng in np.random.default_rng(seed).spawn(runs):
        state = run(MarginalSMC(NORMAL, 500), REPORTS, rng)
        ratio = math.exp(state.log_evidence - evidence)
        found = state.weights @ common.moments(state.theta)
        rows.append([ratio - 1, *(ratio * (found - expected))])
    return np.array(rows)


def test_runs_have_the_exact_evidence_and_posterior(exact):
    assert is_zero(errors(exact, 1))


def test_moves_that_forget_the_prior_are_caught(exact, monkeypatch):
    monkeypatch.setattr(type(NORMAL), "log_prior", lambda self, z: np.zeros(len(z)))
    assert not is_zero(errors(exact, 1))


def test_a_long_run_agrees_with_quadrature():
    rng = np.random.default_rng(3)
    reports = simulate(normal(), np.array([50.0, 3.0]), 47, 53, 5.0, 200, rng)
    state = run(MarginalSMC(n_particles=1000), reports, rng)
    middle = state.weights @ state.z
    spread = np.sqrt(state.weights @ (state.z - middle) ** 2)
    axes = [np.linspace(m - 7 * s, m + 7 * s, 60) for m, s in zip(middle, spread, strict=True)]
    z = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    theta = normal().population.natural(z)
    logs = log_likelihood(theta, reports) + normal().population.log_prior(z)
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    # Over 20 seeds the error was 0.05 standard deviations; four times that is allowed.
    assert (np.abs(state.mean - mean) < 0.2 * sd).all()


def test_the_likelihood_doesn_t_depend_on_how_reports_are_blocked(monkeypatch):
    theta = NORMAL.sample_prior(7, np.random.default_rng(4))
    whole = log_likelihood(theta, REPORTS)
    monkeypatch.setattr(marginal, "_ROWS", 1)
    assert np.allclose(whole, log_likelihood(theta, REPORTS), rtol=1e-14)


def test_bad_input_is_refused():
    with pytest.raises(InvalidArgument, match="n_particles"):
        MarginalSMC(n_particles=1)
    with pytest.raises(InvalidArgument, match="finite"):
        Reports.of([math.inf], 0, 1, 1.0)
