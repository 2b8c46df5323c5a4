"""Algorithm 1: what it asks, that each report is private, and that it learns."""

import math

import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument
from confidp.local.continuous import TruncatedLaplaceDensity
from confidp.local.published.adaptive import fixed, learn, scaled
from confidp.local.published.marginal import MarginalSMC
from confidp.local.published.model import Reports, normal
from confidp.local.published.smc import LatentSMC
from local.published.common import FALSE_ALARM


class Remembers:
    """A sampler that keeps the reports and draws the θ it was told to."""

    def __init__(self, thetas):
        self.thetas = thetas

    def start(self, rng):
        return ()

    def draw(self, state, rng):
        return np.array(self.thetas[len(state) % len(self.thetas)])

    def update(self, state, report, rng):
        return (*state, report)


def noise_of(people, epsilon, seed):
    """Reports' distance to the end at which all people are, in units of their scale."""
    steps = learn(people, epsilon, fixed(-1, 1), Remembers([(0, 1)]), np.random.default_rng(seed))
    values = np.array([step.report.values[0] for step in steps])
    return (values - np.clip(people, -1, 1)) * epsilon / 2


def has_laplace_noise(seed=1, n=2000):
    """By the Kolmogorov–Smirnov test, at 1e-6."""
    return (
        stats.kstest(noise_of(np.full(n, 9.0), 2.0, seed), stats.laplace.cdf).pvalue > FALSE_ALARM
    )


def least_epsilon(epsilon, seed=2, n=4000):
    """Bound ε from below by reports of two people at either end; too high once in 10⁶ times.

    The likelihood ratio is largest above r, so that is the one set looked at.
    """
    above = [
        int((noise_of(np.full(n, x), epsilon, seed + i) * 2 / epsilon + end > 1).sum())
        for i, (x, end) in enumerate([(9.0, 1), (-9.0, -1)])
    ]
    low = stats.beta.ppf(FALSE_ALARM / 2, above[0], n - above[0] + 1)
    high = stats.beta.isf(FALSE_ALARM / 2, above[1] + 1, n - above[1])
    return math.log(low / high)


def authors_sampler(self, x, rng):
    """Their Laplace sampler takes a standard deviation where callers pass a scale."""
    clipped = np.clip(np.asarray(x, dtype=np.float64), self.low, self.high)
    return clipped + rng.laplace(0.0, self.scale / math.sqrt(2), clipped.shape)


def test_reports_have_laplace_noise_and_the_authors_have_not(monkeypatch):
    assert has_laplace_noise()
    monkeypatch.setattr(TruncatedLaplaceDensity, "sample", authors_sampler)
    assert not has_laplace_noise()


def test_an_attack_finds_no_more_than_epsilon_and_finds_more_in_the_authors(monkeypatch):
    assert 0.6 < least_epsilon(1.0) <= 1.0
    monkeypatch.setattr(TruncatedLaplaceDensity, "sample", authors_sampler)
    assert least_epsilon(1.0) > 1.0  # the truth is √2


def test_the_interval_is_placed_at_the_drawn_theta():
    thetas = [(50.0, 3.0), (20.0, 0.5)]
    rng = np.random.default_rng(3)
    steps = list(learn([1.0] * 4, 5.0, scaled(-0.5, 2.0), Remembers(thetas), rng))
    ends = [(step.report.low[0], step.report.high[0]) for step in steps]
    assert ends == [(48.5, 56.0), (19.75, 21.0)] * 2
    assert [len(step.state) for step in steps] == [1, 2, 3, 4]


def test_the_first_interval_is_from_the_prior_not_from_data():
    sampler = MarginalSMC(n_particles=50)
    firsts = [
        next(learn([x], 5.0, scaled(-1, 1), sampler, np.random.default_rng(4))).report
        for x in (-1e6, 1e6)
    ]
    assert firsts[0].low[0] == firsts[1].low[0]
    assert firsts[0].values[0] != firsts[1].values[0]


@pytest.mark.parametrize("sampler", [LatentSMC(normal(), 300), MarginalSMC(n_particles=300)])
def test_either_sampler_learns(sampler):
    rng = np.random.default_rng(5)
    people = rng.normal(50, 3, 80)
    steps = list(learn(people, 10.0, scaled(-1.2, 1.2), sampler, rng))
    mean = steps[-1].state.mean
    # At this seed; the posterior's deviations are about 0.4 and 0.4.
    assert abs(mean[0] - 50) < 2
    assert abs(mean[1] - 3) < 2
    assert isinstance(steps[-1].state.reports, Reports)
    assert len(steps[-1].state.reports) == 80
    assert steps[-1].report.high[0] - steps[-1].report.low[0] < 15  # it was 2.4σ of the prior's


def test_bad_input_is_refused():
    with pytest.raises(InvalidArgument, match="a must be below b"):
        scaled(1, 1)
    with pytest.raises(InvalidArgument, match="low must be below high"):
        fixed(1, 0)
    with pytest.raises(InvalidArgument, match="epsilon"):
        next(learn([0.0], 0.0, fixed(0, 1), Remembers([(0, 1)]), np.random.default_rng(6)))
