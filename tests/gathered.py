"""Reports to a few queries, and their exact posterior by quadrature."""

import math

import numpy as np

from confidp.local.design import (
    Design,
    TruncatedLaplace,
    answer_probabilities,
    randomised_response,
)
from confidp.local.population import Normal
from confidp.local.posterior import log_likelihood

TRUTH = np.array([[50.0, math.sqrt(10.0)]])


def around(epsilon, rng, mechanism="response"):
    """A query whose place is about right: three answers, or a grid of 33."""
    middle = 50 + rng.normal()
    half = 0.7 * math.sqrt(10) * math.exp(0.3 * rng.normal())
    if mechanism == "response":
        return Design.of([middle - half, middle + half], randomised_response(3, epsilon))
    return Design.of(*TruncatedLaplace(epsilon).build((middle - 2 * half, middle + 2 * half)))


def gather(seed, epsilon, n, queries, mechanism="response", truth=TRUTH):
    """Counts of n reports to a few queries around the truth."""
    rng, counts = np.random.default_rng(seed), {}
    for _ in range(queries):
        design = around(epsilon, rng, mechanism)
        chances = answer_probabilities(Normal(), truth, design)[0]
        counts[design] = rng.multinomial(n // queries, chances / chances.sum()).tolist()
    return counts


def quadrature(population, counts, near, points=120, width=8):
    """The exact mean, sd and log evidence, on a grid around particles that say where to look."""
    middle, sd = near.mean(axis=0), near.std(axis=0)
    axes = [
        np.linspace(m - width * s, m + width * s, points) for m, s in zip(middle, sd, strict=True)
    ]
    mesh = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    theta = population.natural(mesh)
    # `test_likelihood` has it equal to the sum over single reports.
    logs = population.log_prior(mesh) + log_likelihood(population, theta, counts)
    weights = np.exp(logs - logs.max())
    area = math.prod(axis[1] - axis[0] for axis in axes)
    evidence = logs.max() + math.log(weights.sum() * area)
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2), evidence
