"""Reports on which the samplers are compared, and their exact posterior by plain quadrature."""

import math

import numpy as np
from scipy import stats

from confidp.local.population import Logistic, Normal, NormalPrior, RootInverseGammaPrior
from confidp.local.published.model import Reports

FALSE_ALARM = 1e-6
# Narrow priors: the evidence then varies less from run to run, and tests see more.
NORMAL = Normal(NormalPrior(50, 3), RootInverseGammaPrior(4, 30))
LOGISTIC = Logistic(NormalPrior(50, 3), RootInverseGammaPrior(4, 10))
REPORTS = Reports.of(
    [57.1, 49.1, 53.2, 46.0, 50.4, 55.5],
    low=[49, 46, 48, 49, 47, 49],
    high=[53, 54, 54, 52, 53, 55],
    epsilon=5.0,
)


def grid(population, points=90):
    """Return θ on a grid that holds all of the posterior, and log prior plus log area."""
    axes = [np.linspace(36, 64, points), np.linspace(math.log(0.25), math.log(30), points)]
    z = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    area = math.prod(axis[1] - axis[0] for axis in axes)
    return population.natural(z), population.log_prior(z) + math.log(area)


def by_summing(theta, reports, density, reach, nodes):
    """Return log p(y | θ), the integral over x done by the trapezoid rule: no closed form."""
    z = np.linspace(-reach, reach, nodes)
    weights = density(z) * (z[1] - z[0])
    logs = np.zeros(len(theta))
    for t in range(len(reports)):
        one = reports[slice(t, t + 1)]
        kernels = np.exp(-one.misfit(theta[:, :1] + theta[:, 1:] * z)) / (2 * one.scale)
        logs += np.log(kernels @ weights)
    return logs


def moments(theta):
    """Return what is compared: μ, σ, and the squares that say how spread they are."""
    mu, sigma = theta[..., 0], theta[..., 1]
    return np.stack([mu - 50, np.log(sigma), (mu - 50) ** 2, np.log(sigma) ** 2], axis=-1)


def posterior(theta, log_prior, log_likelihood):
    """Return the log evidence, the weights on the grid, and the mean of the moments."""
    logs = log_prior + log_likelihood
    evidence = float(np.logaddexp.reduce(logs))
    weights = np.exp(logs - evidence)
    return evidence, weights, weights @ moments(theta)


def is_zero(samples, checks=1):
    """Whether independent samples of a row each have mean 0, by t-tests.

    Wrong with a probability of FALSE_ALARM at most over all columns and `checks` such questions.
    """
    rows = np.asarray(samples)
    n, columns = rows.shape
    t = rows.mean(axis=0) / (rows.std(axis=0, ddof=1) / math.sqrt(n))
    return bool(np.abs(t).max() < stats.t.isf(FALSE_ALARM / (2 * columns * checks), n - 1))
