"""The latent-variable SMC has the exact posterior, whatever its moves; a wrong start has not.

With exact weights and kernels, Ẑ·(φ̂ − φ) has mean 0 for any number of particles, where Ẑ is the
estimated evidence and φ̂ a particle mean (Del Moral 2004). So independent runs give a t-test without
a bias to allow for; each test below has false-alarm rate 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument, InvalidType
from confidp.local.population import LogNormalPrior, Normal
from confidp.local.published.marginal import log_likelihood
from confidp.local.published.model import Reports, logistic, normal
from confidp.local.published.smc import (
    LatentSMC,
    State,
    gibbs,
    metropolis,
    move_latents,
    systematic,
)
from local.published import common
from local.published.common import FALSE_ALARM, LOGISTIC, NORMAL, REPORTS, is_zero


@pytest.fixture(scope="module")
def exact_normal():
    theta, log_prior = common.grid(NORMAL)
    return common.posterior(theta, log_prior, log_likelihood(theta, REPORTS))


def errors(sampler, reports, exact, runs, seed, start=None):
    """Ẑ/Z − 1 and (Ẑ/Z)(φ̂ − φ) of independent runs: all have mean 0 if the sampler is right."""
    evidence, _, expected = exact
    rows = []
    for rng in np.random.default_rng(seed).spawn(runs):
        state, first = sampler.start(rng), 0
        if start is not None:
            state, first = start(reports[slice(0, 1)], rng), 1
        for t in range(first, len(reports)):
            state = sampler.update(state, reports[slice(t, t + 1)], rng)
        ratio = math.exp(state.log_evidence - evidence)
        found = common.moments(state.theta).mean(axis=0)
        rows.append([ratio - 1, *(ratio * (found - expected))])
    return np.array(rows)


def test_the_closed_form_is_the_integral_over_latent_values():
    theta = np.array([[50.0, 3.0], [44.0, 0.5], [55.0, 20.0]])
    summed = common.by_summing(theta, REPORTS, stats.norm.pdf, reach=12, nodes=100_001)
    assert np.allclose(summed, log_likelihood(theta, REPORTS), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("move", "subset"),
    [(gibbs, None), (metropolis, None), (gibbs, 3)],
    ids=["Gibbs", "Metropolis", "Gibbs, three of x"],
)
def test_runs_have_the_exact_evidence_and_posterior(exact_normal, move, subset):
    sampler = LatentSMC(normal(NORMAL), 120, move, subset)
    assert is_zero(errors(sampler, REPORTS, exact_normal, 150, 1), checks=3)


def test_a_family_without_gibbs_moves_has_the_exact_posterior_too():
    reports = REPORTS[slice(0, 5)]
    theta, log_prior = common.grid(LOGISTIC, points=40)
    summed = common.by_summing(theta, reports, stats.logistic.pdf, reach=40, nodes=1001)
    exact = common.posterior(theta, log_prior, summed)
    sampler = LatentSMC(logistic(LOGISTIC), 100)
    assert is_zero(errors(sampler, reports, exact, 150, 2))


def test_particles_started_at_the_first_report_are_caught(exact_normal):
    # The authors' code starts at μ = x = y₁, σ = 1; it is given the exact evidence of y₁ here.
    theta, log_prior = common.grid(NORMAL)
    evidence = common.posterior(theta, log_prior, log_likelihood(theta, REPORTS[slice(0, 1)]))[0]
    sampler = LatentSMC(normal(NORMAL), 120)

    def start(report, rng):
        at = np.full((120, 1), report.values[0])
        theta = np.concatenate([at, np.ones((120, 1))], axis=1)
        x = at.copy()
        move_latents(sampler.model, theta, x, report, rng)
        return State(gibbs(sampler.model, theta, x, rng), x, report, evidence)

    assert not is_zero(errors(sampler, REPORTS, exact_normal, 150, 3, start))


def test_latent_moves_reach_the_distribution_of_x_given_theta_and_y():
    rng, n, theta = np.random.default_rng(4), 10_000, np.array([50.0, 3.0])
    for near in (46.0, 50.0, 53.0):
        report = Reports.of([near], 48, 52, 5.0)
        x = theta[0] + theta[1] * rng.standard_normal((n, 1))
        for _ in range(12):
            move_latents(normal(), np.tile(theta, (n, 1)), x, report, rng)
        nodes = np.linspace(20, 80, 60_001)
        weights = stats.norm.pdf(nodes, *theta) * np.exp(-report.misfit(nodes[:, None])[:, 0])
        weights /= weights.sum()
        features = [x - 50, (x - 50) ** 2, np.abs(x - near)]
        truth = [(nodes - 50), (nodes - 50) ** 2, np.abs(nodes - near)]
        assert is_zero(np.hstack(features) - np.array([weights @ f for f in truth]), checks=3)


def test_gibbs_moves_keep_the_joint_distribution_of_theta_and_x():
    rng, n = np.random.default_rng(5), 40_000
    theta = NORMAL.sample_prior(n, rng)
    x = theta[:, :1] + theta[:, 1:] * rng.standard_normal((n, 2))
    moved = gibbs(normal(NORMAL), theta, x, rng)
    assert is_zero(common.moments(moved) - common.moments(theta))
    inside = ((x - moved[:, :1]) / moved[:, 1:]) ** 2 - ((x - theta[:, :1]) / theta[:, 1:]) ** 2
    assert is_zero(inside)


def test_a_move_of_a_subset_leaves_the_other_values():
    sampler, rng = LatentSMC(normal(NORMAL), 50, subset=2), np.random.default_rng(5)
    state = sampler.start(rng)
    for t in range(len(REPORTS)):
        state = sampler.update(state, REPORTS[slice(t, t + 1)], rng)
    after = sampler.update(state, REPORTS[slice(0, 1)], rng)
    # Resampling copies rows, so what stayed is what has no value that wasn't there before.
    stayed = [set(after.x[:, t]) <= set(state.x[:, t]) for t in range(len(REPORTS))]
    assert len(REPORTS) - 2 <= sum(stayed) < len(REPORTS) + 1


def test_systematic_resampling_is_unbiased_and_never_off_by_one():
    rng, weights = np.random.default_rng(6), np.array([0.0, 0.31, 0.02, 0.0, 0.67, 0.0])
    counts = np.array([np.bincount(systematic(weights, rng), minlength=6) for _ in range(4000)])
    expected = 6 * weights
    assert (np.abs(counts - expected) < 1).all()
    z = (counts.mean(axis=0) - expected)[[1, 2, 4]] / (counts.std(axis=0)[[1, 2, 4]] / 4000**0.5)
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 6)


def test_a_report_far_off_loses_no_particle_to_infinities():
    sampler, rng = LatentSMC(normal(), 100), np.random.default_rng(7)
    state = sampler.update(sampler.start(rng), Reports.of([1e9], 0, 1e-3, 1.0), rng)
    assert np.isfinite(state.theta).all()
    assert math.isfinite(state.log_evidence)


def test_bad_input_is_refused():
    with pytest.raises(InvalidType, match="gibbs must have a Normal"):
        LatentSMC(logistic(), move_theta=gibbs)
    with pytest.raises(InvalidType, match="gibbs must have a Normal"):
        LatentSMC(normal(Normal(sigma=LogNormalPrior())), move_theta=gibbs)
    with pytest.raises(InvalidArgument, match="n_particles"):
        LatentSMC(normal(), 1)
    with pytest.raises(InvalidArgument, match="subset"):
        LatentSMC(normal(), subset=0)
    sampler, rng = LatentSMC(normal(), 10), np.random.default_rng(8)
    with pytest.raises(InvalidArgument, match="one report, not 6"):
        sampler.update(sampler.start(rng), REPORTS, rng)
    for low, high, y, epsilon in ((1, 1, 0, 1), (2, 1, 0, 1), (0, 1, math.nan, 1), (0, 1, 0, 0)):
        with pytest.raises(InvalidArgument):
            Reports.of([y], low, high, epsilon)
    with pytest.raises(InvalidArgument, match="one epsilon"):
        REPORTS + Reports.of([0.0], 0, 1, 1.0)
    with pytest.raises(InvalidType, match="Normal"):
        normal(LOGISTIC)
    with pytest.raises(InvalidType, match="Logistic"):
        logistic(NORMAL)
