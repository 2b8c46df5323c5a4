"""The online posterior's work, and the same work by `particles` (Chopin's IBIS), with its errors.

Reports are those of the paper's experiment as `local_calibration.stream` has them: everybody gets a
query of their own, at a draw from the posterior so far. Both samplers are then given the same
reports in the same order, the same prior (mu ~ N(0, 10⁴), sigma² ~ IG(1, 1), moved in mu and
log sigma²) and the same probability of each report; an error is against quadrature.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from unittest.mock import patch

import local_calibration as paper
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from confidp.local.design import Design, Mechanism, answer_probabilities, best_knots
from confidp.local.posterior import Posterior, log_likelihood, start, update

Array: TypeAlias = NDArray[np.float64]
Report: TypeAlias = tuple[Design, int]  # a query, and which of its answers came
Moments: TypeAlias = tuple[Array, Array]  # posterior mean and sd of mu and sigma
# Whether it is waste-free, and states of a chain: its defaults, and what needs least time here.
IBIS = {"waste-free, chains of 10": (True, 10), "not waste-free, chains of 4": (False, 4)}


def stream_reports(name: str, epsilon: float, people: int, seed: int) -> list[Report]:
    """Return the reports of one stream of the paper's experiment, in their order."""
    study, reports = paper.STUDIES[name], []

    def kept(posterior: Posterior, query: Design, counts: list[int], rng: Any) -> Posterior:
        reports.append((query, counts.index(1)))
        return update(posterior, query, counts, rng)

    with patch.object(paper, "update", kept):
        rng = np.random.default_rng(seed)
        paper.stream(study.mechanism(epsilon), study.criterion, people, rng)
    return reports


def by_confidp(reports: Sequence[Report], particles: int, seed: int) -> Posterior:
    """Return the posterior after the reports, one by one."""
    rng = np.random.default_rng(seed)
    posterior = start(paper.POPULATION, particles, rng)
    for query, answer in reports:
        counts = [int(y == answer) for y in range(query.answers)]
        posterior = update(posterior, query, counts, rng)
    return posterior


def model(reports: Sequence[Report]) -> Any:
    """Return prior and likelihood as a model of `particles`, or raise ImportError.

    A report has p(y) = Σ_j P(cell j) Q[j, y], summed by parts so that one normal CDF at each cut
    point is all it takes. What doesn't depend on θ is computed here, once.
    """
    samplers = importlib.import_module("particles.smc_samplers")
    laws = importlib.import_module("particles.distributions")

    def arranged(query: Design, answer: int) -> tuple[Array, Array, float]:
        column = query.probabilities()[:, answer]
        return np.array(query.cuts), -np.diff(column), float(column[-1])

    def log_density(self: Any, theta: Any, t: int) -> Array:
        cuts, slopes, last = self.data[t]
        sd = np.exp(theta["log_variance"] / 2)[:, None]
        return np.asarray(np.log(last + ndtr((cuts - theta["mu"][:, None]) / sd) @ slopes))

    of_one_report = type("Reports", (samplers.StaticModel,), {"logpyt": log_density})
    prior = {
        "mu": laws.Normal(scale=100.0),
        "log_variance": laws.LogD(laws.InvGamma(a=1.0, b=1.0)),
    }
    return of_one_report([arranged(*report) for report in reports], laws.StructDist(prior))


def by_ibis(model: Any, particles: int, kind: str, seed: int) -> Any:
    """Return IBIS after its last report; waste-free, every state of a chain is a particle."""
    core, samplers = map(importlib.import_module, ("particles", "particles.smc_samplers"))
    wastefree, chain = IBIS[kind]
    np.random.seed(seed)  # noqa: NPY002  # what it draws from
    algorithm = samplers.IBIS(model, wastefree=wastefree, len_chain=chain)
    chains = particles // chain if wastefree else particles
    sampler = core.SMC(fk=algorithm, N=chains, ESSrmin=0.5)
    sampler.run()
    return sampler


def moments_of_ibis(sampler: Any) -> Moments:
    """Return the mean and sd of mu and sigma under its weighted particles."""
    theta = sampler.X.theta
    values = np.stack([theta["mu"], np.exp(theta["log_variance"] / 2)], axis=1)
    mean = sampler.W @ values
    return mean, np.sqrt(sampler.W @ (values - mean) ** 2)


def moments_of_ours(posterior: Posterior) -> Moments:
    """Return the same of ours."""
    return posterior.mean, posterior.sd


def exact(posterior: Posterior, points: int = 60, width: float = 8.0) -> Moments:
    """Return mean and sd by quadrature, on a grid so many sd around the particles."""
    population, near = posterior.population, posterior.particles
    middle = posterior.weights @ near
    sd = np.sqrt(posterior.weights @ (near - middle) ** 2)
    axes = [
        np.linspace(m - width * s, m + width * s, points) for m, s in zip(middle, sd, strict=True)
    ]
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    theta = population.natural(mesh)
    logs = population.log_prior(mesh) + log_likelihood(population, theta, posterior.counts)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def errors(truth: Moments, *sides: Sequence[Moments]) -> tuple[float, ...]:
    """Return each side's error over its runs.

    That is the root mean square of what its means are off, in sd, and its sds' logarithms.
    """
    mean, sd = truth
    off = [[np.concatenate([(m - mean) / sd, np.log(s / sd)]) for m, s in runs] for runs in sides]
    return tuple(float(np.sqrt(np.mean(np.square(side)))) for side in off)


def pooled(
    mechanism: Mechanism, reports: int, queries: int, rng: np.random.Generator
) -> Mapping[Design, list[int]]:
    """Return counts of so many reports, evenly to so many queries around the truth."""
    counts: dict[Design, list[int]] = {}
    best = np.array(best_knots(paper.POPULATION, (0.0, 1.0), mechanism).knots)
    place, scale = paper.TRUTH
    while len(counts) < queries:
        middle, size = place + rng.normal(), scale * math.exp(0.1 * rng.normal())
        query = Design.of(*mechanism.build(tuple((middle + size * best).tolist())))
        chances = answer_probabilities(paper.POPULATION, paper.TRUTH[None, :], query)[0]
        counts[query] = rng.multinomial(reports // queries, chances / chances.sum()).tolist()
    return counts
