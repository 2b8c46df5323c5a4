"""MHAAR keeps the exact posterior, finds it, and refreshes its latent values after a rejection."""

import math

import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument
from confidp.local.published import mhaar as module
from confidp.local.published.marginal import log_likelihood
from confidp.local.published.mhaar import choose, mhaar, step
from confidp.local.published.model import Reports, normal
from local.published import common
from local.published.common import FALSE_ALARM, NORMAL, REPORTS, is_zero

MODEL = normal(NORMAL)
WALK = np.array([1.5, 6.0])


@pytest.fixture(scope="module")
def exact():
    theta, log_prior = common.grid(NORMAL)
    return theta, *common.posterior(theta, log_prior, log_likelihood(theta, REPORTS))


def exact_latents(theta, reports, rng):
    """Draw z given θ and y: from the prior, kept with probability e^(−misfit above the least)."""
    z, open_ = np.zeros(len(reports)), np.ones(len(reports), dtype=bool)
    least = reports.misfit(reports.values)
    while open_.any():
        proposal = rng.standard_normal(len(reports))
        kept = least - reports.misfit(theta[0] + theta[1] * proposal)
        taken = open_ & (kept > -rng.standard_exponential(len(reports)))
        z[taken], open_ = proposal[taken], open_ & ~taken
    return z


def stays(kernel, exact, seed, chains=1500, steps=4):
    """Whether chains started from exact draws of (θ, z) still have the exact moments of θ."""
    theta, _, weights, expected = exact
    rng = np.random.default_rng(seed)
    ends = []
    for start in rng.choice(len(theta), chains, p=weights / weights.sum()):
        at, z = theta[start], exact_latents(theta[start], REPORTS, rng)
        for _ in range(steps):
            at, z, _ = kernel(MODEL, REPORTS, at, z, WALK * rng.standard_normal(2), 5, rng)
        ends.append(at)
    return is_zero(common.moments(np.array(ends)) - expected)


def test_exact_draws_stay_exact(exact):
    assert stays(step, exact, 1)


def test_a_ratio_without_the_prior_is_caught(exact, monkeypatch):
    monkeypatch.setattr(module, "_log_prior", lambda model, theta: 0.0)
    assert not stays(step, exact, 2)


def test_chains_find_the_exact_posterior_from_their_own_start(exact):
    chains = [
        mhaar(MODEL, REPORTS, rng, n_iterations=1200, n_copies=5)
        for rng in np.random.default_rng(4).spawn(10)
    ]
    # The last half, so that each chain is many independent draws long.
    found = np.array([common.moments(chain.theta[600:]).mean(axis=0) for chain in chains])
    assert is_zero(found - exact[3])
    acceptance = [chain.accepted[600:].mean() for chain in chains]
    assert 0.05 < np.mean(acceptance) < 0.2  # adapted to 0.1


def refreshes(kernel, seed, n=4000):
    """Whether z has its conditional distribution after many refused proposals, from z = 0.

    All reports are the same, so their z are independent draws; the truth is a sum over z.
    """
    reports, theta = Reports.of(np.full(n, 54.0), 48, 53, 3.0), np.array([50.0, 3.0])
    z, rng = np.zeros(n), np.random.default_rng(seed)
    for _ in range(12):
        impossible = np.array([0.0, -100.0])
        theta, z, taken = kernel(MODEL, reports, theta, z, impossible, 5, rng)
        assert not taken
    nodes = np.linspace(-9, 9, 20_001)
    one = reports[slice(0, 1)]
    weights = np.exp(-one.misfit((50 + 3 * nodes)[:, None])[:, 0]) * stats.norm.pdf(nodes)
    mean = weights @ nodes / weights.sum()
    error = max(z.std(ddof=1), 1e-9) / math.sqrt(n)
    return abs(z.mean() - mean) / error < stats.norm.isf(FALSE_ALARM / 2)


def never_refreshing(model, reports, theta, z, walk, n_copies, rng):
    """The authors' code: z is drawn anew only where θ moves."""
    moved, fresh, taken = step(model, reports, theta, z, walk, n_copies, rng)
    return moved, fresh if taken else z, taken


def test_rejections_refresh_the_latent_values():
    assert refreshes(step, 5)


def test_leaving_them_on_rejection_is_caught_although_it_keeps_the_posterior(exact):
    assert not refreshes(never_refreshing, 5)
    assert stays(never_refreshing, exact, 6)  # slower, not wrong


def test_latent_values_chosen_without_their_weights_are_caught(monkeypatch):
    monkeypatch.setattr(
        module, "choose", lambda copies, weights, rng: choose(copies, np.ones_like(weights), rng)
    )
    assert not refreshes(step, 3)


def test_the_weights_are_those_of_the_theta_that_is_returned(monkeypatch):
    seen = []
    monkeypatch.setattr(
        module, "choose", lambda copies, weights, rng: seen.append((copies, weights)) or copies[0]
    )
    rng, theta, z, moved = np.random.default_rng(9), np.array([50.0, 3.0]), np.zeros(6), []
    for _ in range(40):
        theta, z, taken = step(MODEL, REPORTS, theta, z, WALK * rng.standard_normal(2), 4, rng)
        copies, weights = seen[-1]
        misfit = REPORTS.misfit(theta[0] + theta[1] * copies)
        assert np.allclose(weights / weights[0], np.exp(misfit[0] - misfit))
        moved.append(taken)
    assert 0 < sum(moved) < 40


def test_choices_have_their_weights():
    rng, n = np.random.default_rng(7), 40_000
    copies = np.tile(np.arange(4.0)[:, None], n)
    weights = np.tile(np.array([1.0, 0.0, 5.0, 2.0])[:, None], n)
    seen = np.bincount(choose(copies, weights, rng).astype(int), minlength=4)
    assert seen[1] == 0
    assert stats.chisquare(seen[[0, 2, 3]], n * np.array([1, 5, 2]) / 8).pvalue > FALSE_ALARM


def test_bad_input_is_refused():
    rng = np.random.default_rng(8)
    with pytest.raises(InvalidArgument, match="n_iterations"):
        mhaar(MODEL, REPORTS, rng, n_iterations=0)
    with pytest.raises(InvalidArgument, match="n_copies"):
        mhaar(MODEL, REPORTS, rng, n_copies=1)
    with pytest.raises(InvalidArgument, match="at least 2"):
        mhaar(MODEL, REPORTS[slice(0, 1)], rng)
