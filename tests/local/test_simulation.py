"""Rehearsals: people answer with the channel's chances, once each, and θ is learnt."""

import numpy as np
import pytest
from scipy import stats

from confidp.errors import InvalidArgument
from confidp.local import mechanisms
from confidp.local.collector import Collector
from confidp.local.population import Gamma, LogNormal, Normal
from confidp.local.simulation import LEVELS, Drawn, Rows, fit, rehearse

FALSE_ALARMS = 1e-6
QUERY = mechanisms.response([-1.0, 0.5], 1.0)


def test_rows_answer_with_the_chances_of_their_cells():
    """A χ² test for each cell and seed; false alarms: 1e-6 in all."""
    rng = np.random.default_rng(1)
    chances = np.array(QUERY.channel.weights) / 2**32
    for x, cell in ((-1.0, 0), (-0.99, 1), (0.5, 1), (0.51, 2)):  # a cut belongs to the cell below
        counts = Rows(np.full(200_000, x)).answer(QUERY, 200_000, rng)
        found = stats.chisquare(counts, 200_000 * chances[cell])
        assert found.pvalue > FALSE_ALARMS / 4


def test_drawn_people_answer_as_rows_drawn_from_the_family_do():
    """A χ² test of homogeneity of 200,000 people each; false alarms: 1e-6."""
    rng = np.random.default_rng(2)
    rows = Rows(rng.normal(0.3, 2.0, 200_000)).answer(QUERY, 200_000, rng)
    drawn = Drawn(Normal(), np.array([0.3, 2.0])).answer(QUERY, 200_000, rng)
    assert rows.sum() == drawn.sum() == 200_000
    assert stats.chi2_contingency([rows, drawn]).pvalue > FALSE_ALARMS


def test_nobody_is_asked_twice():
    query = mechanisms.response([0.0], 22.0)  # all but without privacy: answers tell the values
    rng = np.random.default_rng(3)
    people = Rows(np.array([-1.0] * 3 + [1.0] * 5))
    assert people.answer(query, 3, rng).tolist() == [3, 0]
    assert people.answer(query, 5, rng).tolist() == [0, 5]
    with pytest.raises(InvalidArgument, match="count must be at most 0"):
        people.answer(query, 1, rng)


def test_a_rehearsal_asks_everyone_once_in_rounds_of_one_query():
    collector = Collector(Normal(), epsilon=2.0, n_particles=200, rng=1)
    people = Rows(np.random.default_rng(4).normal(50, 3, 1050))
    rounds = list(rehearse(collector, people, 1050, 100, np.random.default_rng(5)))
    assert [r.reports for r in rounds] == [*range(100, 1001, 100), 1050]
    assert people.asked == 1050
    assert sum(sum(c) for c in collector.posterior.counts.values()) == 1050
    last = rounds[-1]
    assert last.mean == pytest.approx(collector.posterior.mean)
    assert last.quantiles == pytest.approx(collector.posterior.quantiles(LEVELS))
    assert {r.cuts for r in rounds} == {query.cuts for query in collector.queries}


def test_intervals_of_rehearsals_cover_the_truth_as_often_as_they_say():
    """20 runs of two 90% intervals; fewer than 23 of 40 cover with probability 1e-7 if right."""
    truth, covered = np.array([50.0, 3.0]), 0
    for seed in range(20):
        collector = Collector(Normal(), epsilon=2.0, n_particles=300, rng=seed)
        people = Drawn(Normal(), truth)
        *_, last = rehearse(collector, people, 600, 60, np.random.default_rng(1000 + seed))
        low, high = last.quantiles[:, 0], last.quantiles[:, -1]
        covered += int(((low <= truth) & (truth <= high)).sum())
    assert covered >= 23
    assert stats.binom.cdf(22, 40, 0.9) < FALSE_ALARMS


@pytest.mark.parametrize(
    ("family", "theta", "draw"),
    [
        (Normal(), (50.0, 3.0), lambda rng: rng.normal(50, 3, 20_000)),
        (Normal(), (5e6, 3.0), lambda rng: rng.normal(5e6, 3, 20_000)),  # far from the prior
        (LogNormal(), (9.0, 1.2), lambda rng: rng.lognormal(9, 1.2, 20_000)),
        (Gamma(), (2.0, 5.0), lambda rng: rng.gamma(2, 5, 20_000)),
    ],
)
def test_a_fit_without_privacy_is_near_the_truth(family, theta, draw):
    assert fit(family, draw(np.random.default_rng(6))) == pytest.approx(theta, rel=0.05)


@pytest.mark.parametrize(("count", "size"), [(0, 1), (10, 0), (10, -1)])
def test_rounds_and_people_are_at_least_one(count, size):
    collector = Collector(Normal(), epsilon=2.0, n_particles=20, rng=1)
    people = Drawn(Normal(), np.array([0.0, 1.0]))
    with pytest.raises(InvalidArgument, match="must be a whole number of at least 1"):
        list(rehearse(collector, people, count, size, np.random.default_rng(1)))
