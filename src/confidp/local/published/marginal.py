"""The paper's loop with the exact likelihood: particles on θ alone (Chopin 2002).

Not in the paper, which calls the likelihood intractable; for a normal it has a closed form
(`Reports.log_density`). It has the posterior of `smc` with no latent values, so that reports cost
O(N) each and O(N·t) at the few moves. It serves as the oracle, and for runs that `smc` would take
hours for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from confidp.errors import integer
from confidp.local.population import Normal
from confidp.local.published.model import Array, Reports
from confidp.local.published.smc import systematic

_RESAMPLE = 1 / 2  # resample and move below this share of effective particles
_SIZES = (1.7, 0.8)  # of the random-walk moves, in posterior standard deviations: far, then near
_ROWS = 1 << 17  # numbers in flight


@dataclass(frozen=True, slots=True)
class State:
    """Weighted particles on unconstrained coordinates (μ, log σ) given t reports."""

    z: Array = field(repr=False)
    log_weights: Array = field(repr=False)
    reports: Reports | None = field(repr=False)
    log_evidence: float
    theta: Array = field(repr=False)

    @property
    def weights(self) -> Array:
        """The particles' weights, which sum to 1."""
        return np.exp(self.log_weights)

    @property
    def mean(self) -> Array:
        """The posterior mean of each parameter."""
        return np.asarray(self.weights @ self.theta)


@dataclass(frozen=True, slots=True)
class MarginalSMC:
    """The sampler: its settings here, reports in the calls.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> sampler = MarginalSMC(n_particles=500)
    >>> state = sampler.start(rng)
    >>> for y in (49.0, 52.0, 50.5):
    ...     state = sampler.update(state, Reports.of([y], low=40, high=60, epsilon=10.0), rng)
    >>> bool(45 < state.mean[0] < 55)
    True
    """

    population: Normal = field(default_factory=Normal)
    n_particles: int = 1000

    def __post_init__(self) -> None:
        """Check the settings."""
        integer("n_particles", self.n_particles, least=2)

    def start(self, rng: np.random.Generator) -> State:
        """Return particles from the prior: the posterior given no report."""
        n = self.n_particles
        z = self.population.unconstrained(self.population.sample_prior(n, rng))
        return State(z, np.full(n, -math.log(n)), None, 0.0, self.population.natural(z))

    def draw(self, state: State, rng: np.random.Generator) -> Array:
        """Return one θ drawn from the posterior, for Thompson sampling."""
        return np.asarray(state.theta[rng.choice(len(state.theta), p=state.weights)])

    def update(self, state: State, report: Reports, rng: np.random.Generator) -> State:
        """Return the particles given one more report, or a few."""
        fresh = log_likelihood(state.theta, report)
        raised = state.log_weights + fresh
        top = float(raised.max())
        gain = top + math.log(float(np.exp(raised - top).sum()))
        log_weights = raised - gain
        weights, n = np.exp(log_weights), len(fresh)
        reports = report if state.reports is None else state.reports + report
        z = state.z
        if 1 / float(weights @ weights) < _RESAMPLE * n:
            z = self._move(z, weights, reports, rng)
            log_weights = np.full(n, -math.log(n))
        theta = self.population.natural(z)
        return State(z, log_weights, reports, state.log_evidence + gain, theta)

    def _move(self, z: Array, weights: Array, reports: Reports, rng: np.random.Generator) -> Array:
        """Resample, then random-walk Metropolis with the weighted particles' covariance."""
        centred = z - weights @ z
        values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred)
        root = vectors * np.sqrt(np.maximum(values, 1e-10 * values[-1] + 1e-20))
        z = z[systematic(weights, rng)]

        def log_density(at: Array) -> Array:
            fit = log_likelihood(self.population.natural(at), reports)
            return np.asarray(fit + self.population.log_prior(at))

        density = log_density(z)
        for size in _SIZES:
            proposal = z + size * rng.standard_normal(z.shape) @ root.T
            proposed = log_density(proposal)
            taken = proposed - density > -rng.standard_exponential(len(z))
            z = np.where(taken[:, None], proposal, z)
            density = np.where(taken, proposed, density)
        return z


def log_likelihood(theta: Array, reports: Reports) -> Array:
    """Return Σ log p(y | θ) at each of N θ.

    Examples
    --------
    >>> reports = Reports.of([50.0, 51.0], low=40, high=60, epsilon=10.0)
    >>> log_likelihood(np.array([[50.0, 3.0], [70.0, 3.0]]), reports).round(2)
    array([ -4.58, -12.27])
    """
    sums = np.zeros(len(theta))
    block = max(1, _ROWS // len(theta))
    for start in range(0, len(reports), block):
        sums += reports[slice(start, start + block)].log_density(theta).sum(axis=1)
    return sums
