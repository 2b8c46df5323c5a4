"""New particles have the density they should; redrawn ones give way to moved ones where needed.

A target here is a batch's likelihood to a power over a prior, as in a step of `update_many`, or any
density in its place.
"""

import math

import numpy as np
import pytest
from scipy import stats

from confidp.local.likelihood import Likelihood, log_likelihood
from confidp.local.population import Normal, NormalPrior
from confidp.local.posterior import start, update_many
from confidp.local.rejuvenation import (
    Cloud,
    Target,
    Weighted,
    importance,
    moments,
    move,
    rejuvenate,
)
from confidp.local.state import Diagnostics, effective
from gathered import gather, quadrature

NO_BATCH = Likelihood(Normal(), {})


def even(particles, log_evidence=0.0):
    """Particles of equal weight, without a batch."""
    n = len(particles)
    cloud = Cloud(particles, np.zeros(n), None)
    return Weighted(cloud, np.full(n, -math.log(n)), log_evidence)


def prior(population):
    """The target before any report."""
    return Target(population, {}, Likelihood(population, {}))


class Density(Target):
    """A log density of one's own."""

    def __init__(self, base, fresh=None):
        super().__init__(Normal(), {}, NO_BATCH)
        self._of_base = base
        self._of_fresh = fresh or (lambda z: np.zeros(len(z)))

    def base(self, z):
        return self._of_base(z)

    def fresh(self, z):
        return self._of_fresh(z)


def bell(middle, sds, total=1.0):
    """A normal log density with correlation 0.6 times a constant."""
    covariance = np.outer(sds, sds) * [[1, 0.6], [0.6, 1]]
    law = stats.multivariate_normal(middle, covariance)
    return lambda z: law.logpdf(z) + math.log(total)


def moments_of(found):
    weights, z = np.exp(found.log_weights), found.cloud.particles
    mean = weights @ z
    return mean, np.sqrt(weights @ (z - mean) ** 2)


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_redrawn_particles_have_the_moments_of_the_target_and_its_integral(power):
    """1000 points from a place that is off, too wide and not correlated, with ratios of 7.

    Root mean squares over 20 seeds, in sds, were at most 0.006; plain random points have 0.022 to
    0.045. At 0.015 the false-alarm rate is below 1e-12: χ² with 20 degrees over (0.015/0.006)².
    """
    base, fresh = bell([0, 0], [30, 30], 7.0), bell([1, -2], [2, 0.5])
    # The product of two normal densities is one, with precisions that add up.
    shape = np.array([[1, 0.6], [0.6, 1]])
    first, second = 900 * shape, np.outer([2, 0.5], [2, 0.5]) * shape / power
    covariance = np.linalg.inv(np.linalg.inv(first) + np.linalg.inv(second))
    mean = covariance @ np.linalg.inv(second) @ [1, -2]
    sd = np.sqrt(np.diag(covariance))
    peak = base(mean[None])[()] + power * fresh(mean[None])[()]
    integral = peak + math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1] / 2
    off = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        middle, root = mean + [0.25, -0.4] * sd, np.diag(1.2 * sd)
        found = importance(Density(base, fresh), power, middle, root, 1000, 8, rng)
        assert np.exp(found.log_weights).sum() == pytest.approx(1)
        its_mean, its_sd = moments_of(found)
        evidence = found.log_evidence - integral
        off.append([*(its_mean - mean) / sd, *np.log(its_sd / sd), evidence])
    error = np.sqrt(np.mean(np.square(off), axis=0))
    assert error.max() < 0.015


@pytest.mark.parametrize("tails", [2, 8])
def test_the_evidence_of_redrawn_particles_is_unbiased(tails):
    """Even where points are few and in the wrong place: 4000 runs of 32, mean 1 within 5 sds."""
    target = Density(bell([1.0, -2.0], [2.0, 0.5]))
    middle, root = np.array([2.5, -2.2]), np.diag([2.5, 0.7])
    ratios = np.array(
        [
            math.exp(
                importance(
                    target, 1.0, middle, root, 32, tails, np.random.default_rng(seed)
                ).log_evidence
            )
            for seed in range(4000)
        ]
    )
    error = ratios.std() / math.sqrt(len(ratios))
    assert abs(ratios.mean() - 1) < 5 * error
    assert error < 0.01


def test_particles_are_redrawn_where_the_target_is_a_bell():
    rng = np.random.default_rng(1)
    law = bell([1.0, -2.0], [2.0, 0.5], 7.0)
    now = even(
        rng.normal(size=(1000, 2)) @ [[2.2, 0.2], [0, 0.4]] + [1.3, -2.1], math.log(7.0) + 0.3
    )
    found, marks = rejuvenate(now, Density(law), 1.0, Diagnostics(), rng)
    assert (marks.resamplings, marks.redraws, marks.moves) == (1, 1, 0)
    assert effective(found.log_weights) >= 600
    assert found.log_evidence == pytest.approx(math.log(7.0), abs=0.02)  # not as before
    assert found.cloud.base == pytest.approx(law(found.cloud.particles))


def test_particles_are_moved_where_redrawn_ones_would_have_uneven_weights():
    """A ridge around a circle: no bell fits it. All particles stay on it, with equal weights."""

    def ridge(z):
        return -((np.hypot(z[:, 0], z[:, 1]) - 5) ** 2) / (2 * 0.1**2)

    rng = np.random.default_rng(2)
    turn = rng.random(1000) * 2 * math.pi
    radius = 5 + 0.1 * rng.standard_normal(1000)
    now = even(radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1), 2.0)
    found, marks = rejuvenate(now, Density(ridge), 1.0, Diagnostics(), rng)
    assert (marks.resamplings, marks.redraws) == (1, 0)
    assert marks.moves > 0
    assert found.log_weights.tolist() == [-math.log(1000)] * 1000
    assert found.log_evidence == 2.0  # within 0.1 of what is true
    assert np.abs(np.hypot(*found.cloud.particles.T) - 5).max() < 0.7


def test_particles_are_moved_where_redrawn_ones_miss_mass_that_was_there():
    """The evidence says so: it was 0.6 larger, or only 0.4."""
    rng = np.random.default_rng(3)
    target = Density(bell([1.0, -2.0], [2.0, 0.5]))
    z = rng.normal(size=(1000, 2)) @ [[2.0, 0.3], [0, 0.4]] + [1.0, -2.0]
    for log_evidence, redraws in ((0.6, 0), (0.4, 1), (-50.0, 1)):
        marks = rejuvenate(even(z, log_evidence), target, 1.0, Diagnostics(), rng)[1]
        assert marks.redraws == redraws


def test_a_density_of_zero_or_nan_has_no_weight():
    def half(z):
        inside = bell([0.0, 0.0], [1.0, 1.0])(z)
        return np.where(z[:, 0] > 0, inside, np.where(z[:, 1] > 0, -np.inf, np.nan))

    rng = np.random.default_rng(5)
    found = importance(Density(half), 1.0, np.zeros(2), np.eye(2), 1000, 8, rng)
    assert (found.log_weights[found.cloud.particles[:, 0] <= 0] == -np.inf).all()
    assert found.log_evidence == pytest.approx(math.log(0.5), abs=0.02)
    nowhere = importance(
        Density(lambda z: np.full(len(z), np.nan)), 1.0, np.zeros(2), np.eye(2), 100, 8, rng
    )
    assert nowhere.log_evidence == -math.inf
    assert effective(nowhere.log_weights) == 0


@pytest.mark.parametrize("mechanism", ["response", "truncated-laplace"])
def test_a_posterior_from_redrawn_particles_is_ten_times_as_exact_as_chance_allows(mechanism):
    """Errors against quadrature over 12 seeds, root mean square: at most 0.0033.

    1000 random points have 0.03 in a mean. Allowed is 0.01: χ² with 12 degrees over 9, 1e-17.
    """
    population, counts = Normal(NormalPrior(50, 5)), gather(2, 2, 3000, 3, mechanism)
    off = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        found = update_many(start(population, 1000, rng), counts, rng)
        assert found.diagnostics.redraws > 0
        if not off:
            mean, sd, evidence = quadrature(population, counts, found.particles, points=80)
        off.append(
            [
                *(found.mean - mean) / sd,
                *np.log(found.sd / sd),
                found.log_evidence - evidence,
            ]
        )
    error = np.sqrt(np.mean(np.square(off), axis=0))
    assert error.max() < 0.01


@pytest.mark.parametrize("known", [True, False])
def test_densities_kept_beside_particles_are_theirs_after_a_move(known):
    """Resampled, moved or left where they were: each with its own log densities."""
    rng = np.random.default_rng(27)
    old, new = gather(9, 2, 100, 2), gather(10, 2, 100, 2, "truncated-laplace")
    state = start(Normal(NormalPrior(50, 5)), 500, rng)
    target = Target(state.population, old, Likelihood(state.population, new))
    base, fresh = target.base(state.particles), target.fresh(state.particles)
    log_weights = fresh * 0.1 - np.logaddexp.reduce(fresh * 0.1)
    now = Weighted(Cloud(state.particles, fresh, base if known else None), log_weights, 0.0)
    found, marks = move(now, target, 0.1, state.diagnostics, rng)
    moved = found.cloud
    theta = state.population.natural(moved.particles)
    prior = state.population.log_prior(moved.particles)
    assert moved.fresh == pytest.approx(log_likelihood(state.population, theta, new), rel=1e-12)
    expected = prior + log_likelihood(state.population, theta, old)
    assert moved.base == pytest.approx(expected, rel=1e-12)
    kept = np.isin(moved.particles[:, 0], state.particles[:, 0])
    assert 0 < kept.sum() < 250  # some proposals were refused, and most were not
    assert found.log_weights.tolist() == [-math.log(500)] * 500
    assert marks.resamplings == 1


def test_where_hardly_any_particle_has_weight_proposals_are_as_wide_as_the_cloud():
    particles = np.random.default_rng(31).normal(3, 2, size=(1000, 2))
    weights = np.where(np.arange(1000) < 5, 0.0, -np.inf) - math.log(5)
    middle, root = moments(particles, weights)
    assert middle == pytest.approx(particles.mean(axis=0))
    assert root @ root.T == pytest.approx(np.cov(particles.T, ddof=0))
    weights = np.where(np.arange(1000) < 500, 0.0, -np.inf) - math.log(500)
    middle, root = moments(particles, weights)
    assert middle == pytest.approx(particles[:500].mean(axis=0))
    assert root @ root.T == pytest.approx(np.cov(particles[:500].T, ddof=0))


@pytest.mark.parametrize(("width", "walks"), [(1.0, False), (1e-3, True)])
def test_independent_proposals_give_way_to_a_walk_where_few_are_accepted(width, walks):
    """A cloud 1000 times as wide as what is to be sampled: its size is adapted only by walking."""
    rng = np.random.default_rng(32)
    population = Normal(NormalPrior(0, width))
    z = np.stack([rng.normal(0, 1, 1000), population.sample_prior(1000, rng)[:, 1]], axis=1)
    z[:, 1] = np.log(z[:, 1])
    found, marks = move(even(z), prior(population), 1.0, Diagnostics(), rng)
    assert (marks.size != 1.0) == walks
    assert len(np.unique(found.cloud.particles[:, 0])) > 600


def test_moves_leave_a_bell_as_it_is():
    """4000 exact draws, moved: mean and sd within 5 of their own standard deviations."""
    rng = np.random.default_rng(18)
    z = stats.multivariate_normal([1.0, -2.0], [[4, 0.6], [0.6, 0.25]]).rvs(4000, random_state=rng)
    found, _ = move(even(z), Density(bell([1.0, -2.0], [2.0, 0.5])), 1.0, Diagnostics(), rng)
    z = found.cloud.particles
    assert z.mean(axis=0) == pytest.approx([1, -2], abs=5 * 2 / math.sqrt(4000))
    assert z.std(axis=0) == pytest.approx([2, 0.5], rel=5 / math.sqrt(2 * 4000))


def test_moves_leave_the_posterior_as_it_is():
    """Moving exact draws of the prior, given nothing, gives draws of the prior."""
    rng = np.random.default_rng(16)
    state = start(Normal(), 4000, rng)
    found, marks = move(even(state.particles), prior(Normal()), 1.0, Diagnostics(), rng)
    assert marks.acceptance > 0.1
    middle = np.median(found.cloud.particles, axis=0)  # median of σ² under IG(1, 1) is 1/ln 2
    assert middle[0] == pytest.approx(0, abs=5 * 1.26 * 100 / math.sqrt(4000))
    assert middle[1] == pytest.approx(-0.5 * math.log(math.log(2)), abs=0.1)


@pytest.mark.parametrize("cloud", ["equal", "line", "few", "huge"])
def test_a_proposal_is_never_singular(cloud):
    rng = np.random.default_rng(17)
    particles = rng.normal(size=(100, 2))
    log_weights = np.full(100, -math.log(100))
    if cloud == "equal":
        particles[:] = 3.0
    if cloud == "line":
        particles[:, 1] = 2 * particles[:, 0]
    if cloud == "few":
        log_weights = np.where(np.arange(100) == 7, 0.0, -np.inf)
    if cloud == "huge":
        particles *= [1e150, 1e-10]
    middle, root = moments(particles, log_weights)
    assert np.isfinite(middle).all()
    assert np.isfinite(root).all()
    assert np.linalg.matrix_rank(root / np.abs(root).max(axis=1, keepdims=True)) == 2
