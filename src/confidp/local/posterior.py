"""The online posterior: particles on θ, reweighted by each report, moved when they degenerate.

Iterated batch importance sampling (Chopin 2002). A report's probability is a finite sum over
cells, exact for every family with a CDF, so nothing latent is sampled. Reports to the same query
pool into counts, which are sufficient: the cost of a move depends on the number of distinct
queries, not of reports.

A batch is added in steps, as powers φ of its likelihood that rise from 0 to 1: each step is the
longest that keeps half of the effective sample size. One report is nearly always one step; a
billion at once take some dozens, and the particles follow.

What costs is the likelihood at every particle, so it is kept beside them: each sweep of moves
computes it once, for the proposals. Proposals are drawn from a Student t with the particles' own
mean and covariance, and where few of those are accepted, by a random walk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from confidp.errors import InvalidArgument, integer
from confidp.local.design import Design
from confidp.local.likelihood import Counts, Likelihood, log_likelihood
from confidp.local.population import Population, as_population
from confidp.local.state import (
    Diagnostics,
    Posterior,
    checked,
    effective,
    generator,
    load,
    log_sum,
    posterior_from_arrays,
    posterior_to_arrays,
    read_arrays,
    reading,
    save,
    systematic,
    write_arrays,
)

__all__ = [
    "Counts",
    "Diagnostics",
    "Posterior",
    "generator",
    "load",
    "log_likelihood",
    "posterior_from_arrays",
    "posterior_to_arrays",
    "read_arrays",
    "reading",
    "save",
    "start",
    "update",
    "update_many",
    "write_arrays",
]

Array = NDArray[np.float64]

_MOST_PARTICLES = 10**7  # some gigabytes
_RESAMPLE = 1 / 2  # resample and move below this share of effective particles
_STEP = 1 / 2  # a step keeps at least this share of the effective sample size
_REFRESHED = 0.8  # move until this share of particles is replaced by independent draws,
_ACCEPTED = 2.0  # or has walked this often on average
_MOVES = 12  # but no longer than this
_USEFUL = 0.4  # acceptance below which independent draws give way to a walk
_TARGET = 0.3  # acceptance the walk's size is adapted to
_TAILS = 8  # degrees of freedom of proposals: 0.92 are accepted where the target is normal
_BATCH = 100  # reports at once after which the posterior is looked for elsewhere too
_MISSED = 3.0  # how much log evidence elsewhere shows that particles have missed the posterior
_WIDE_TAILS = 5  # degrees of freedom of the draws there


def start(population: Population, n_particles: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior given no report: the prior.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> rng = np.random.default_rng(1)
    >>> prior = start(Normal(), 1000, rng)
    >>> after = update(prior, Design.of([0.0], [[3, 1], [1, 3]]), [0, 10**6], rng)
    >>> bool(after.mean[0] > 50), after.diagnostics.reports
    (True, 1000000)
    """
    n = integer("n_particles", n_particles, least=2, most=_MOST_PARTICLES)
    particles = as_population(population).unconstrained(population.sample_prior(n, rng))
    log_weights = np.full(n, -math.log(n))
    return Posterior(population, particles, log_weights, {}, 0.0, Diagnostics())


def update(
    posterior: Posterior, query: Design, counts: Sequence[int], rng: np.random.Generator
) -> Posterior:
    """Return the posterior given more reports to one query: `counts[y]` answers y.

    One report and a batch of a billion go through the same door, and the order of reports doesn't
    matter beyond Monte Carlo error.
    """
    return update_many(posterior, {query: counts}, rng)


def update_many(
    posterior: Posterior, batch: Mapping[Design, Sequence[int]], rng: np.random.Generator
) -> Posterior:
    """Return the posterior given more reports, to any number of queries.

    Raises
    ------
    InvalidArgument
        Where counts aren't whole numbers of at least 0, one for each answer, or where no particle
        gives the reports a probability above 0, which no private channel allows.
    """
    new = {query: checked(query, counts) for query, counts in batch.items()}
    new = {query: counts for query, counts in new.items() if any(counts)}
    if not new:
        return posterior
    population, marks = posterior.population, posterior.diagnostics
    log_weights, evidence = posterior.log_weights, posterior.log_evidence
    likelihood = Likelihood(population, new)
    cloud = _Cloud(posterior.particles, likelihood(posterior.theta), None)
    if not np.isfinite(cloud.fresh[np.isfinite(log_weights)]).any():
        raise InvalidArgument("counts have probability 0 under every particle")
    target, done = _Target(population, posterior.counts, likelihood), 0.0
    while done < 1:
        step = _longest_step(log_weights, cloud.fresh, 1 - done)
        raised = log_weights + step * cloud.fresh
        gain = log_sum(raised)
        evidence, log_weights = evidence + gain, raised - gain
        done = 1.0 if step >= 1 - done else done + step
        marks = replace(marks, steps=marks.steps + 1)
        if effective(log_weights) < _RESAMPLE * len(log_weights):
            cloud, marks = _move(cloud, log_weights, target, done, marks, rng)
            log_weights = np.full(len(log_weights), -math.log(len(log_weights)))
    pooled = dict(posterior.counts)
    for query, counts in new.items():
        before = pooled.get(query, (0,) * query.answers)
        pooled[query] = tuple(a + b for a, b in zip(before, counts, strict=True))
    fresh_reports = sum(map(sum, new.values()))
    marks = replace(marks, reports=marks.reports + fresh_reports)
    found = Posterior(population, cloud.particles, log_weights, pooled, evidence, marks)
    return _rescued(found, rng) if fresh_reports >= _BATCH else found


@dataclass(frozen=True, slots=True)
class _Cloud:
    """N particles, and what is known of the density at each."""

    particles: Array
    fresh: Array  # the batch's log-likelihood
    base: Array | None  # the log density without the batch, up to a constant; None: not computed

    def pick(self, index: NDArray[np.intp]) -> _Cloud:
        base = None if self.base is None else self.base[index]
        return _Cloud(self.particles[index], self.fresh[index], base)


class _Target:
    """The log density that particles have while a batch is added, in its two parts."""

    def __init__(self, population: Population, old: Counts, new: Likelihood) -> None:
        self._population, self._counts, self._new = population, old, new
        self._old: Likelihood | None = None  # arranged when first needed: most reports move nobody

    def base(self, z: Array) -> Array:
        """Return the log density without the batch, up to a constant."""
        if self._old is None:
            self._old = Likelihood(self._population, self._counts)
        return self._population.log_prior(z) + self._old(self._population.natural(z))

    def fresh(self, z: Array) -> Array:
        """Return the batch's log-likelihood."""
        return self._new(self._population.natural(z))

    def at(self, z: Array) -> tuple[Array, Array]:
        """Return both parts."""
        return self.base(z), self.fresh(z)


def _move(
    cloud: _Cloud,
    log_weights: Array,
    target: _Target,
    power: float,
    marks: Diagnostics,
    rng: np.random.Generator,
) -> tuple[_Cloud, Diagnostics]:
    """Resample, then Metropolis and Hastings until particles have moved often enough.

    Every sweep leaves the density base + power·fresh as it is. Returns particles of equal weight.
    """
    n, d = cloud.particles.shape
    middle, root = _moments(cloud.particles, log_weights)
    picked = systematic(np.exp(log_weights), rng.random())
    cloud = cloud.pick(picked)
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
            correction = _log_t((z - middle) @ np.linalg.inv(root).T) - _log_t(noise)
        else:
            proposal = z + size * 2.38 / math.sqrt(d) * noise @ root.T
            correction = np.zeros(n)
        new_base, new_fresh = target.at(proposal)
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
    return _Cloud(z, fresh, base), marks


def _log_t(noise: Array) -> Array:
    """Return a standard Student t's log density, up to a constant, at each row."""
    d = noise.shape[1]
    with np.errstate(over="ignore"):
        return np.asarray(-(_TAILS + d) / 2 * np.log1p((noise**2).sum(axis=1) / _TAILS))


def _moments(particles: Array, log_weights: Array) -> tuple[Array, Array]:
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


def _longest_step(log_weights: Array, fresh: Array, room: float) -> float:
    """Return the largest power, up to `room`, that leaves enough effective particles.

    Particles under which the batch is impossible are lost at any power, so "enough" is counted
    among the others. Bisection of the logarithm: the power may be 1e-12.
    """
    alive = effective(np.where(np.isfinite(fresh), log_weights, -np.inf))
    enough = _STEP * alive
    if effective(log_weights + room * fresh) >= enough:
        return room
    low, high = -80.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2
        if effective(log_weights + room * math.exp(middle) * fresh) >= enough:
            low = middle
        else:
            high = middle
    return room * math.exp(low)


def _rescued(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """Return the posterior, restarted at its mode if the particles have missed most of it.

    Where every particle is so far from the truth that its likelihood is flat, nothing draws it
    there. So after a batch the mode is sought from elsewhere too, and importance sampling from a
    Student t around it gives a second estimate of the evidence. Both are consistent: if this one
    is much the larger, it has found mass that the particles don't have, and takes their place.
    """
    population, n = posterior.population, len(posterior.log_weights)
    target = _Target(population, {}, Likelihood(population, posterior.counts))

    def density(z: Array) -> Array:
        return np.asarray(sum(target.at(z)))

    cuts = np.unique([c for design in posterior.counts for c in design.cuts])
    guesses = population.unconstrained(population.guesses(cuts))
    cloud = np.concatenate([posterior.particles, guesses])
    order = np.argsort(density(cloud))[::-1]
    starts = [cloud[order[0]]]
    if order[0] < n and (order >= n).any():
        starts.append(cloud[order[order >= n][0]])  # the best guess too

    def loss(z: Array) -> float:
        return -float(np.maximum(density(z[None, :])[0], -1e300))

    options = {"xatol": 1e-9, "fatol": 1e-3, "maxiter": 2000}
    searches = [optimize.minimize(loss, z, method="Nelder-Mead", options=options) for z in starts]
    mode = np.asarray(min(searches, key=lambda search: search.fun).x)
    root = _curvature_root(loss, mode)
    d, tails = len(mode), _WIDE_TAILS
    noise = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(tails, (n, 1)) / tails)
    z = mode + noise @ root.T
    log_proposal = (
        math.lgamma((tails + d) / 2)
        - math.lgamma(tails / 2)
        - d / 2 * math.log(tails * math.pi)
        - math.log(abs(float(np.linalg.det(root))))
        - (tails + d) / 2 * np.log1p((noise**2).sum(axis=1) / tails)
    )
    base, fresh = target.at(z)
    log_weights = base + fresh - log_proposal
    if not np.isfinite(log_weights).any():
        return posterior
    total = log_sum(log_weights)
    evidence = total - math.log(n)
    if not evidence > posterior.log_evidence + _MISSED:
        return posterior
    log_weights, marks = log_weights - total, posterior.diagnostics
    marks = replace(marks, restarts=marks.restarts + 1)
    if effective(log_weights) < _RESAMPLE * n:
        moved, marks = _move(_Cloud(z, fresh, base), log_weights, target, 1.0, marks, rng)
        z, log_weights = moved.particles, np.full(n, -math.log(n))
    return Posterior(population, z, log_weights, posterior.counts, evidence, marks)


def _curvature_root(loss: Callable[[Array], float], mode: Array) -> Array:
    """Return a root of the inverse Hessian at a mode, by differences as wide as the density."""
    d, least = len(mode), loss(mode)
    widths = np.full(d, 1.0)
    for i in range(d):
        for _ in range(80):  # until the loss rises by about 1
            shift = np.eye(d)[i] * widths[i]
            rise = (loss(mode + shift) + loss(mode - shift)) / 2 - least
            if 0.1 < rise < 2:
                break
            widths[i] *= 0.5 if rise >= 2 else 1.7
    hessian = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            a, b = np.eye(d)[i] * widths[i], np.eye(d)[j] * widths[j]
            corners = loss(mode + a + b) + loss(mode - a - b)
            crossed = loss(mode + a - b) + loss(mode - a + b)
            hessian[i, j] = (corners - crossed) / 4  # in units of the widths
    hessian = np.where(np.isfinite(hessian), hessian, 0.0)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return np.asarray(widths[:, None] * vectors / np.sqrt(np.maximum(values, 1e-2)))
