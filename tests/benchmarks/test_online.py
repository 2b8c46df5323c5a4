"""The stream that samplers are timed on, its exact posterior, and IBIS on the same likelihood."""

import math
from collections import Counter

import numpy as np
import online
import pytest

from confidp.local.posterior import log_likelihood

SEED = 5


@pytest.fixture(scope="module")
def reports():
    return online.stream_reports("response", 2.0, 200, SEED)


def test_reports_are_those_of_the_papers_stream(reports):
    study = online.paper.STUDIES["response"]
    rng = np.random.default_rng(SEED)
    posterior = online.paper.stream(study.mechanism(2.0), study.criterion, 200, rng)
    seen = Counter(reports)
    assert {(q, y): n for q, ns in posterior.counts.items() for y, n in enumerate(ns) if n} == seen
    assert list(dict.fromkeys(query for query, _ in reports)) == list(posterior.counts)


def test_quadrature_doesnt_depend_on_its_grid_and_is_what_particles_say(reports):
    posterior = online.by_confidp(reports, 4000, SEED)
    truth = online.exact(posterior)
    finer = online.exact(posterior, points=150, width=9)
    np.testing.assert_allclose(truth, finer, rtol=1e-4)
    # Root mean square errors of 4000 particles were 0.01 to 0.04.
    assert online.errors(truth, [online.moments_of_ours(posterior)])[0] < 0.2


def test_errors_are_in_posterior_sds():
    truth = np.array([50.0, 3.0]), np.array([0.5, 0.1])
    off = np.array([50.5, 3.0]), np.array([0.5, 0.1])
    wide = np.array([50.0, 3.0]), np.array([0.5, 0.1 * math.e])
    assert online.errors(truth, [truth], [off], [off, wide], [wide]) == pytest.approx(
        (0, 0.5, 0.5, 0.5)
    )


def test_pooled_counts_are_of_so_many_reports_and_queries():
    mechanism = online.paper.STUDIES["response"].mechanism(1.0)
    counts = online.pooled(mechanism, 10_000, 20, np.random.default_rng(1))
    assert len(counts) == 20
    assert [sum(seen) for seen in counts.values()] == [500] * 20


@pytest.mark.parametrize("name", ["response", "truncated-laplace A"])
def test_ibis_has_our_prior_and_likelihood(name):
    pytest.importorskip("particles")
    few = online.stream_reports(name, 2.0, 15, SEED)
    model = online.model(few)
    theta = model.prior.rvs(size=8)
    population = online.paper.POPULATION
    z = np.stack([theta["mu"], theta["log_variance"] / 2], axis=1)
    counts = online.by_confidp(few, 10, SEED).counts
    ours = population.log_prior(z) + log_likelihood(population, population.natural(z), counts)
    # d(log sigma²) = 2 d(log sigma)
    np.testing.assert_allclose(model.logpost(theta), ours - math.log(2), rtol=1e-9)


@pytest.mark.parametrize("kind", online.IBIS)
def test_ibis_finds_the_exact_posterior(reports, kind):
    pytest.importorskip("particles")
    truth = online.exact(online.by_confidp(reports, 1000, SEED))
    sampler = online.by_ibis(online.model(reports), 1000, kind, SEED)
    assert sampler.X.N == 1000
    # Root mean square errors were 0.03 to 0.07.
    assert online.errors(truth, [online.moments_of_ibis(sampler)])[0] < 0.4
