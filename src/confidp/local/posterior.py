"""The online posterior: particles on θ, reweighted by each report, renewed when few are left.

Iterated batch importance sampling (Chopin 2002). A report's probability is a finite sum over
cells, exact for every family with a CDF, so nothing latent is sampled. Reports to the same query
pool into counts, which are sufficient: the cost of a move depends on the number of distinct
queries, not of reports.

A batch is added in steps, as powers φ of its likelihood that rise from 0 to 1: each step is the
longest that keeps half of the effective sample size. One report is nearly always one step; a
billion at once take some dozens, and the particles follow.

Where few effective particles are left, new ones take their place (`rejuvenation.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from confidp.errors import InvalidArgument, integer
from confidp.local.design import Design
from confidp.local.likelihood import Counts, Likelihood, log_likelihood
from confidp.local.population import Population, as_population
from confidp.local.rejuvenation import Cloud, Target, Weighted, importance, rejuvenate
from confidp.local.state import (
    Diagnostics,
    Posterior,
    checked,
    effective,
    generator,
    load,
    posterior_from_arrays,
    posterior_to_arrays,
    read_arrays,
    reading,
    save,
    summed,
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
_RESAMPLE = 1 / 2  # new particles below this share of effective ones
_STEP = 1 / 2  # a step keeps at least this share of the effective sample size
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
    seen = ((query, checked(query, counts)) for query, counts in batch.items())
    new = {query: counts for query, counts in seen if any(counts)}
    if not new:
        return posterior
    population, marks = posterior.population, posterior.diagnostics
    likelihood = Likelihood(population, new)
    cloud = Cloud(posterior.particles, likelihood(posterior.theta), None)
    now = Weighted(cloud, posterior.log_weights, posterior.log_evidence)
    if not np.isfinite(cloud.fresh[np.isfinite(now.log_weights)]).any():
        raise InvalidArgument("counts have probability 0 under every particle")
    target, done, steps = Target(population, posterior.counts, likelihood), 0.0, 0
    while done < 1:
        step = _longest_step(now.log_weights, now.cloud.fresh, 1 - done)
        raised = now.log_weights + step * now.cloud.fresh
        gain, particles_left = summed(raised)
        now = Weighted(now.cloud, raised - gain, now.log_evidence + gain)
        done, steps = (1.0 if step >= 1 - done else done + step), steps + 1
        if particles_left < _RESAMPLE * len(raised):
            now, marks = rejuvenate(now, target, done, marks, rng)
    pooled = dict(posterior.counts)
    for query, counts in new.items():
        before = pooled.get(query, (0,) * query.answers)
        pooled[query] = tuple(a + b for a, b in zip(before, counts, strict=True))
    fresh_reports = sum(map(sum, new.values()))
    marks = replace(marks, reports=marks.reports + fresh_reports, steps=marks.steps + steps)
    found = _posterior(population, now, pooled, marks)
    return _rescued(found, rng) if fresh_reports >= _BATCH else found


def _longest_step(log_weights: Array, fresh: Array, room: float) -> float:
    """Return the largest power, up to `room`, that leaves enough effective particles.

    Particles under which the batch is impossible are lost at any power, so "enough" is counted
    among the others. Bisection of the logarithm: the power may be 1e-12.
    """
    possible = np.isfinite(fresh)
    alive = log_weights if possible.all() else np.where(possible, log_weights, -np.inf)
    enough = _STEP * effective(alive)
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
    target = Target(population, {}, Likelihood(population, posterior.counts))

    def density(z: Array) -> Array:
        return target.base(z) + target.fresh(z)

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
    elsewhere = importance(target, 1.0, mode, root, n, _WIDE_TAILS, rng)
    if not elsewhere.log_evidence > posterior.log_evidence + _MISSED:
        return posterior
    marks = replace(posterior.diagnostics, restarts=posterior.diagnostics.restarts + 1)
    if effective(elsewhere.log_weights) < _RESAMPLE * n:
        elsewhere, marks = rejuvenate(elsewhere, target, 1.0, marks, rng)
    return _posterior(population, elsewhere, posterior.counts, marks)


def _posterior(
    population: Population, now: Weighted, counts: Counts, marks: Diagnostics
) -> Posterior:
    particles = now.cloud.particles
    return Posterior(population, particles, now.log_weights, counts, now.log_evidence, marks)


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
