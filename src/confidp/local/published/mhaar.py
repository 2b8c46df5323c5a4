"""MHAAR for the posterior of a batch: Metropolis–Hastings with averaged acceptance ratios.

Andrieu, Yıldırım, Doucet and Chopin (2020), section 3, on x_i = μ + σ z_i. The state is θ and one z
for each report. An iteration adds N − 1 fresh copies of every z, proposes θ′, and accepts it by
the ratio of the prior times Π_i (1/N) Σ_k exp(−misfit_i(θ, z_ik)): likelihoods averaged over the
copies. Then each z_i is drawn anew among its copies, with their weights under the θ that is
current, *whether θ′ was accepted or not*.

It keeps the posterior: given θ and the set of copies, which one is "the" z has those weights as its
conditional distribution, so the last draw is a Gibbs step, and the acceptance is that of (θ, set)
with the choice summed out. (Leaving z alone on rejection keeps the posterior too, but z then only
moves as often as θ does.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from confidp.errors import InvalidArgument, integer
from confidp.local.published.model import Array, LatentModel, Reports

_TARGET = 0.1  # acceptance the walk's sizes are adapted to
_DECAY = 0.6  # their gain is m^−0.6
_FIXED = 0.1  # the share of iterations before they are adapted


@dataclass(frozen=True, slots=True)
class Chain:
    """What the chain visited.

    Attributes
    ----------
    theta
        M × 2 states, (μ, σ).
    accepted
        M booleans.
    sizes
        The walk's final sizes, for μ and for σ².
    """

    theta: Array = field(repr=False)
    accepted: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(repr=False)
    sizes: tuple[float, float]

    @property
    def mean(self) -> Array:
        """The paper's estimate: the mean over the last fifth."""
        return np.asarray(self.theta[-max(1, len(self.theta) // 5) :].mean(axis=0))


def mhaar(
    model: LatentModel,
    reports: Reports,
    rng: np.random.Generator,
    *,
    n_iterations: int = 100_000,
    n_copies: int = 20,
) -> Chain:
    """Return a chain for the posterior of θ given all reports.

    It starts at the reports' mean and the variance that noise doesn't explain. The random walk on
    (μ, σ²) has sizes whose logarithms are adapted, in turns, to an acceptance of 0.1.

    Examples
    --------
    >>> from confidp.local.published.model import normal
    >>> from confidp.local.published.score import simulate
    >>> rng = np.random.default_rng(1)
    >>> reports = simulate(normal(), np.array([50.0, 3.0]), 40, 60, 20.0, 100, rng)
    >>> chain = mhaar(normal(), reports, rng, n_iterations=1000)
    >>> chain.theta.shape, bool(48 < chain.mean[0] < 52)
    ((1000, 2), True)
    """
    count = integer("n_iterations", n_iterations, least=1)
    copies = integer("n_copies", n_copies, least=2)
    n = len(reports)
    if n < 2:
        raise InvalidArgument("reports must be at least 2")
    values = reports.values
    noise = float(2 * (reports.scale**2).mean())
    theta = np.array([values.mean(), math.sqrt(max(0.01, float(values.var(ddof=1)) - noise))])
    z = model.draw(rng, (n,))
    sizes, rates = [10 / math.sqrt(n), 20 / math.sqrt(n)], [0.0, 0.0]
    visited, accepted = np.empty((count, 2)), np.empty(count, dtype=np.bool_)
    for m in range(1, count + 1):
        walk = np.array(sizes) * rng.standard_normal(2)
        theta, z, taken = step(model, reports, theta, z, walk, copies, rng)
        visited[m - 1], accepted[m - 1] = theta, taken
        gain, turn = m**-_DECAY, m % 2
        rates[turn] += gain * (taken - rates[turn])
        if m > _FIXED * count:
            sizes[turn] *= math.exp(gain * (rates[turn] - _TARGET))
    return Chain(visited, accepted, (sizes[0], sizes[1]))


def step(
    model: LatentModel,
    reports: Reports,
    theta: Array,
    z: Array,
    walk: Array,
    n_copies: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, bool]:
    """Return θ, z and whether θ moved, after one iteration whose proposal is (μ, σ²) + walk."""
    n = len(reports)
    copies = np.concatenate([z[None, :], model.draw(rng, (n_copies - 1, n))])
    mu, variance = theta[0] + walk[0], theta[1] ** 2 + walk[1]
    weights, taken = _weights(reports, theta, copies), False
    if variance > 0:
        proposal = np.array([mu, math.sqrt(variance)])
        proposed = _weights(reports, proposal, copies)
        log_ratio = float(np.log(proposed.mean(axis=0) / weights.mean(axis=0)).sum())
        log_ratio += _log_prior(model, proposal) - _log_prior(model, theta)
        taken = bool(log_ratio > -rng.standard_exponential())
        if taken:
            theta, weights = proposal, proposed
    return theta, choose(copies, weights, rng), taken


def choose(copies: Array, weights: Array, rng: np.random.Generator) -> Array:
    """Return one copy of each z, drawn with its weights: columns of N."""
    sums = np.cumsum(weights, axis=0)
    chosen = (sums < rng.random(sums.shape[1]) * sums[-1]).sum(axis=0)
    return np.asarray(copies[np.minimum(chosen, len(copies) - 1), np.arange(copies.shape[1])])


def _weights(reports: Reports, theta: Array, copies: Array) -> Array:
    """Return exp(−misfit) relative to each report's best, which is 1: from e^−ε to 1, N × n.

    The best value is y clipped, whatever θ, so both sides of a ratio leave out the same factor.
    """
    x = theta[0] + theta[1] * copies
    return np.exp(reports.misfit(reports.values) - reports.misfit(x))


def _log_prior(model: LatentModel, theta: Array) -> float:
    """Return the log prior density of (μ, σ²), on which the walk is symmetric."""
    mu, sigma = model.population.priors
    densities = mu.log_density(theta[:1]) + sigma.log_density(theta[1:])
    return float(densities[0]) - math.log(2 * theta[1])
