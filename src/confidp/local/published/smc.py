"""Latent-variable sequential Monte Carlo (Algorithm 2), rejuvenated by Algorithm 3.

N particles (θ, x_1, …, x_t): each new report adds a value x_t ~ P_θ to every particle, which is
weighted by the report's density given x_t; particles are resampled, and then moved by Markov
kernels that keep the posterior of θ and all x given the reports. Moving all of x at each step
costs N·t, so n reports cost O(N n²); moving a random subset costs less and mixes more slowly.

With exact weights and kernels the product of mean weights is an unbiased estimate of the evidence
for any N, and so is its product with a particle mean: the tests rest on that.

Memory is two N × t arrays of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, integer
from confidp.local.population import Normal, NormalPrior, RootInverseGammaPrior
from confidp.local.published.model import Array, LatentModel, Reports

_WALK = 3.0  # the random walk's size, in units of σ
_STEP = 2.4  # the same for θ, in units of a posterior standard deviation given x
_BLOCK = 1 << 15  # numbers in flight while latent values move: what a cache holds

ThetaMove: TypeAlias = Callable[[LatentModel, Array, Array, np.random.Generator], Array]


@dataclass(frozen=True, slots=True)
class State:
    """Equally weighted particles given t reports; a value, never changed in place.

    Attributes
    ----------
    theta
        N × 2 parameters.
    x
        N × t latent values.
    reports
        The t reports; None at the start.
    log_evidence
        The estimated log density of the reports, in their order.
    """

    theta: Array = field(repr=False)
    x: Array = field(repr=False)
    reports: Reports | None = field(repr=False)
    log_evidence: float

    @property
    def mean(self) -> Array:
        """The posterior mean of each parameter."""
        return np.asarray(self.theta.mean(axis=0))


@dataclass(frozen=True, slots=True)
class LatentSMC:
    """The paper's sampler: its settings here, reports in the calls.

    Parameters
    ----------
    model
        The family and prior.
    n_particles
        N.
    move_theta
        `gibbs`, for a normal with the paper's kinds of prior, or `metropolis`, for all.
    subset
        How many of the t latent values move at each step, drawn anew; all of them unless told.

    Examples
    --------
    >>> from confidp.local.published.model import normal
    >>> rng = np.random.default_rng(1)
    >>> smc = LatentSMC(normal(), n_particles=500)
    >>> state = smc.start(rng)
    >>> for y in (49.0, 52.0, 50.5):
    ...     state = smc.update(state, Reports.of([y], low=40, high=60, epsilon=10.0), rng)
    >>> state.x.shape, bool(45 < state.mean[0] < 55)
    ((500, 3), True)
    """

    model: LatentModel
    n_particles: int = 1000
    move_theta: ThetaMove | None = None
    subset: int | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        integer("n_particles", self.n_particles, least=2)
        if self.subset is not None:
            integer("subset", self.subset, least=1)
        if self.move_theta is gibbs:
            _conjugate(self.model)

    def start(self, rng: np.random.Generator) -> State:
        """Return particles from the prior: the posterior given no report."""
        theta = self.model.population.sample_prior(self.n_particles, rng)
        return State(theta, np.empty((self.n_particles, 0)), None, 0.0)

    def draw(self, state: State, rng: np.random.Generator) -> Array:
        """Return one θ drawn from the posterior, for Thompson sampling."""
        return np.asarray(state.theta[rng.integers(len(state.theta))])

    def update(self, state: State, report: Reports, rng: np.random.Generator) -> State:
        """Return the particles given one more report: Algorithm 2."""
        if len(report) != 1:
            raise InvalidArgument(f"report must be one report, not {len(report)}")
        theta, model = state.theta, self.model
        n, t = state.x.shape
        # Propagate: a new latent value from each particle's own population.
        new = theta[:, 0] + theta[:, 1] * model.draw(rng, (n,))
        # Weight by the report's density given that value.
        log_weights = -report.misfit(new[:, None])[:, 0]
        top = float(log_weights.max())
        weights = np.exp(log_weights - top)
        gain = top + math.log(weights.mean()) - math.log(2 * float(report.scale[0]))
        # Resample.
        chosen = systematic(weights, rng)
        theta = theta[chosen]
        x = np.empty((n, t + 1))
        x[:, :t] = state.x[chosen]
        x[:, t] = new[chosen]
        # Rejuvenate.
        reports = report if state.reports is None else state.reports + report
        if self.subset is None or self.subset >= t + 1:
            move_latents(model, theta, x, reports, rng)
        else:
            moved = rng.choice(t + 1, self.subset, replace=False)
            some = x[:, moved]
            move_latents(model, theta, some, reports[moved], rng)
            x[:, moved] = some
        move_theta = self.move_theta or _best_move(model)
        theta = move_theta(model, theta, x, rng)
        return State(theta, x, reports, state.log_evidence + gain)


def systematic(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return indices of a systematic resample: each index i comes N·wᵢ times, up or down to whole.

    Examples
    --------
    >>> systematic(np.array([1.0, 0.0, 3.0, 0.0]), np.random.default_rng(1))
    array([0, 2, 2, 2])
    """
    sums = np.cumsum(weights)
    positions = (rng.random() + np.arange(len(weights))) * (sums[-1] / len(weights))
    last = int(np.flatnonzero(weights)[-1])  # a position may round up to the sum
    return np.asarray(np.minimum(np.searchsorted(sums, positions, side="right"), last))


def move_latents(
    model: LatentModel, theta: Array, x: Array, reports: Reports, rng: np.random.Generator
) -> None:
    """Move every latent value, in place: Algorithm 3, first half.

    Two Metropolis moves that keep p(x | θ, y) ∝ p_θ(x)·exp(−misfit): a random walk of size 3σ, and
    an independent proposal from P_θ, whose ratio is the misfits' alone.
    """
    n, t = x.shape
    rows = max(1, _BLOCK // max(t, 1))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        mu, sigma, old = theta[part, :1], theta[part, 1:], x[part]

        z, misfit = (old - mu) / sigma, reports.misfit(old)
        step = z + _WALK * rng.standard_normal(z.shape)
        new = mu + sigma * step
        proposed = reports.misfit(new)
        gain = misfit - proposed + model.log_density(step) - model.log_density(z)
        taken = gain > -rng.standard_exponential(z.shape)
        old, misfit = np.where(taken, new, old), np.where(taken, proposed, misfit)

        new = mu + sigma * model.draw(rng, z.shape)
        gain = misfit - reports.misfit(new)
        x[part] = np.where(gain > -rng.standard_exponential(z.shape), new, old)


def gibbs(model: LatentModel, theta: Array, x: Array, rng: np.random.Generator) -> Array:
    """Return θ drawn anew given x: μ given σ² (normal), then σ² given μ (inverse gamma)."""
    mean, variance, shape, scale = _conjugate(model)
    n, t = x.shape
    inverse = 1 / theta[:, 1] ** 2
    precision = 1 / variance + t * inverse
    centre = (mean / variance + x.sum(axis=1) * inverse) / precision
    mu = centre + rng.standard_normal(n) / np.sqrt(precision)
    squares = np.einsum("it,it->i", x - mu[:, None], x - mu[:, None])
    sigma = np.sqrt((scale + squares / 2) / rng.gamma(shape + t / 2, size=n))
    return np.stack([mu, sigma], axis=1)


def metropolis(model: LatentModel, theta: Array, x: Array, rng: np.random.Generator) -> Array:
    """Return θ moved given x by a random walk on μ, then one on log σ: Algorithm 3, second half.

    The walks' sizes, 2.4σ/√t and 2.4/√(2t), are about those that suit p(θ | x_{1:t}). Each depends
    on what its own move leaves as it is, so both are symmetric.
    """
    n, t = x.shape
    population = model.population
    point = population.unconstrained(theta)

    def log_density(z: Array) -> Array:
        at = population.natural(z)
        standardised = (x - at[:, :1]) / at[:, 1:]
        fit = model.log_density(standardised).sum(axis=1) - t * np.log(at[:, 1])
        return np.asarray(fit + population.log_prior(z))

    current = log_density(point)
    for column, size in ((0, _STEP / math.sqrt(t)), (1, _STEP / math.sqrt(2 * t))):
        proposal = point.copy()
        unit = np.exp(point[:, 1]) if column == 0 else 1.0
        proposal[:, column] += size * unit * rng.standard_normal(n)
        proposed = log_density(proposal)
        taken = proposed - current > -rng.standard_exponential(n)
        point = np.where(taken[:, None], proposal, point)
        current = np.where(taken, proposed, current)
    return population.natural(point)


def _best_move(model: LatentModel) -> ThetaMove:
    """Return Gibbs where the prior allows it."""
    try:
        _conjugate(model)
    except (InvalidType, InvalidArgument):
        return metropolis
    return gibbs


def _conjugate(model: LatentModel) -> tuple[float, float, float, float]:
    """Return the prior's mean, variance, shape and scale, or refuse a model without Gibbs moves."""
    population = model.population
    if isinstance(population, Normal):
        mu, sigma = population.priors
        if isinstance(mu, NormalPrior) and isinstance(sigma, RootInverseGammaPrior):
            return mu.mean, mu.sd**2, sigma.shape, sigma.scale
    raise InvalidType(
        "gibbs must have a Normal with a NormalPrior and a RootInverseGammaPrior; "
        "use metropolis for others"
    )
