"""New particles for degenerate ones: redrawn where that works, else resampled and moved.

Particles are *redrawn* by importance sampling from a Student t with their own mean and covariance,
at quasi-random points. Nothing of the old cloud's Monte Carlo error is left then, but for where to
look: errors fall about as 1/N in few dimensions, not as 1/√N, and the evidence is estimated anew.
It costs the likelihood once at each point.

Where the target is no bell the weights come out too uneven. Then particles are resampled, and moved
by Metropolis and Hastings: by independent draws from the same Student t, and where few of those are
accepted, by a random walk. What costs is the likelihood at every particle, so it is kept beside
them: each sweep computes it once, for the proposals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, gammaln, ndtri

from confidp.local.likelihood import Counts, Likelihood
from confidp.local.population import Population
from confidp.local.state import Diagnostics, effective, log_sum, systematic

Array = NDArray[np.float64]

_TAILS = 8  # degrees of freedom of proposals: 0.92 are accepted where the target is normal
_EVEN = 0.6  # share of effective particles from which redrawn ones are taken
_LOST = 0.5  # log evidence below what it was that says redrawn ones have missed some of the mass
_REFRESHED = 0.8  # move until this share of particles is replaced by independent draws,
_ACCEPTED = 2.0  # or has walked this often on average
_MOVES = 12  # but no longer than this
_USEFUL = 0.4  # acceptance below which independent draws give way to a walk
_TARGET = 0.3  # acceptance the walk's size is adapted to


class Target:
    """The log density that particles have while a batch is added, in its two parts."""

    def __init__(self, population: Population, old: Counts, new: Likelihood) -> None:
        self._population, self._counts, self._new = population, old, new
        self._old: Likelihood | None = None  # arranged when first needed: most reports move nobody

    def base(self, z: Array) -> Array:
        """Return the log density without the batch, up to the same constant everywhere.

        That is log p(θ) + log p(old reports | θ), so of its exponential the integral is their
        evidence.
        """
        if self._old is None:
            self._old = Likelihood(self._population, self._counts)
        return self._population.log_prior(z) + self._old(self._population.natural(z))

    def fresh(self, z: Array) -> Array:
        """Return the batch's log-likelihood."""
        return self._new(self._population.natural(z))

    def cloud(self, z: Array) -> Cloud:
        """Return particles with both parts."""
        return Cloud(z, self.fresh(z), self.base(z))


@dataclass(frozen=True, slots=True)
class Cloud:
    """N particles, and what is known of the density at each."""

    particles: Array
    fresh: Array  # the batch's log-likelihood
    base: Array | None  # the log density without the batch; None: not computed

    def pick(self, index: NDArray[np.intp]) -> Cloud:
        """Return some of them."""
        base = None if self.base is None else self.base[index]
        return Cloud(self.particles[index], self.fresh[index], base)


@dataclass(frozen=True, slots=True)
class Weighted:
    """Particles with the logarithms of weights that sum to 1, and the log evidence."""

    cloud: Cloud
    log_weights: Array
    log_evidence: float


def rejuvenate(
    now: Weighted, target: Target, power: float, marks: Diagnostics, rng: np.random.Generator
) -> tuple[Weighted, Diagnostics]:
    """Return new particles for base + power·fresh, the density that the weighted ones are for."""
    n = len(now.log_weights)
    middle, root = moments(now.cloud.particles, now.log_weights)
    redrawn = importance(target, power, middle, root, n, _TAILS, rng)
    even = effective(redrawn.log_weights) >= _EVEN * n
    if even and redrawn.log_evidence > now.log_evidence - _LOST:
        done = replace(marks, resamplings=marks.resamplings + 1, redraws=marks.redraws + 1)
        return redrawn, done
    return move(now, target, power, marks, rng)


def importance(
    target: Target,
    power: float,
    middle: Array,
    root: Array,
    n: int,
    tails: int,
    rng: np.random.Generator,
) -> Weighted:
    """Return n draws from a Student t, weighted to have the density base + power·fresh.

    Points are those of a scrambled Halton sequence: each is uniform, so the estimate of the
    evidence is unbiased given where is looked. No weight is above 0 where the density isn't.
    """
    from scipy.stats import qmc  # slow to import

    d = len(middle)
    # By a seed of its own: given a generator it would draw on what saving one doesn't keep.
    points = qmc.Halton(d + 1, rng=int(rng.integers(2**63)))
    uniform = points.random(n).clip(2.0**-53, 1 - 2.0**-53)
    noise = ndtri(uniform[:, :d]) / np.sqrt(chdtri(tails, uniform[:, d:]) / tails)
    cloud = target.cloud(middle + noise @ root.T)
    log_proposal = (
        gammaln((tails + d) / 2)
        - gammaln(tails / 2)
        - d / 2 * math.log(tails * math.pi)
        - np.linalg.slogdet(root)[1]
        + _log_t(noise, tails)
    )
    assert cloud.base is not None
    with np.errstate(invalid="ignore"):
        log_weights = cloud.base + power * cloud.fresh - log_proposal
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    if not np.isfinite(log_weights).any():
        return Weighted(cloud, np.full(n, -np.inf), -math.inf)
    total = log_sum(log_weights)
    return Weighted(cloud, log_weights - total, total - math.log(n))


def move(
    now: Weighted, target: Target, power: float, marks: Diagnostics, rng: np.random.Generator
) -> tuple[Weighted, Diagnostics]:
    """Resample, then Metropolis and Hastings until particles have moved often enough.

    Every sweep leaves the density base + power·fresh as it is. Returns particles of equal weight.
    """
    n, d = now.cloud.particles.shape
    middle, root = moments(now.cloud.particles, now.log_weights)
    picked = systematic(np.exp(now.log_weights), rng.random())
    cloud = now.cloud.pick(picked)
    z, fresh, base = cloud.particles, cloud.fresh, cloud.base
    if base is None:
        _, first, copies = np.unique(picked, return_index=True, return_inverse=True)
        base = target.base(z[first])[copies]  # once for each particle, not for each copy
    size, stale, walked, accepted, moves = marks.size, 1.0, 0.0, 0.0, 0
    independent = True
    while stale > 1 - _REFRESHED and walked < _ACCEPTED and moves < _MOVES:
        noise = rng.standard_normal((n, d))
        if independent:
            noise /= np.sqrt(rng.chisquare(_TAILS, (n, 1)) / _TAILS)
            proposal = middle + noise @ root.T
            standard = (z - middle) @ np.linalg.inv(root).T
            correction = _log_t(standard, _TAILS) - _log_t(noise, _TAILS)
        else:
            proposal = z + size * 2.38 / math.sqrt(d) * noise @ root.T
            correction = np.zeros(n)
        new_base, new_fresh = target.base(proposal), target.fresh(proposal)
        with np.errstate(invalid="ignore"):
            gain = new_base + power * new_fresh - (base + power * fresh) + correction
            taken = -rng.standard_exponential(n) < gain  # a NaN is a refusal
        z = np.where(taken[:, None], proposal, z)
        base = np.where(taken, new_base, base)
        fresh = np.where(taken, new_fresh, fresh)
        rate = float(taken.mean())
        accepted, moves = accepted + rate, moves + 1
        if independent:
            stale *= 1 - rate
            independent = rate >= _USEFUL
        else:
            walked += rate
            size = min(max(size * math.exp(rate - _TARGET), 1e-3), 4.0)
    marks = replace(
        marks,
        resamplings=marks.resamplings + 1,
        moves=marks.moves + moves,
        acceptance=accepted / moves,
        size=size,
    )
    even = np.full(n, -math.log(n))
    return Weighted(Cloud(z, fresh, base), even, now.log_evidence), marks


def _log_t(noise: Array, tails: int) -> Array:
    """Return a standard Student t's log density, up to a constant, at each row."""
    d = noise.shape[1]
    with np.errstate(over="ignore"):
        return np.asarray(-(tails + d) / 2 * np.log1p((noise**2).sum(axis=1) / tails))


def moments(particles: Array, log_weights: Array) -> tuple[Array, Array]:
    """Return the weighted mean and a root of the weighted covariance, never singular.

    Where hardly any particle has weight the whole cloud's stand in, too wide rather than too
    narrow: few proposals are accepted then, and the walk's size adapts downwards.
    """
    n, d = particles.shape
    few = effective(log_weights) < 2 * (d + 1)
    weights = np.full(n, 1 / n) if few else np.exp(log_weights)
    middle = weights @ particles
    centred = particles - middle
    values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred)
    least = max(1e-10 * float(values[-1]), (1e-12 * (1 + float(np.abs(middle).max()))) ** 2)
    return middle, np.asarray(vectors * np.sqrt(np.maximum(values, least)))
