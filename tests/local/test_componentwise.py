"""Components together: atomic refusals, resuming, who is asked what, and errors at the limit."""

import math
from bisect import bisect_left
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from confidp.errors import InvalidArgument, InvalidType
from confidp.local import posterior as smc
from confidp.local.channel import exp_down
from confidp.local.componentwise import ComponentwiseCollector
from confidp.local.mechanisms import sign_response
from confidp.local.population import Exponential, Normal
from confidp.local.vector import VectorQuery, VectorReport

TRUTH = ((50.0, 3.0), (4.0,))
FAMILIES = [Normal(), Exponential()]


def report(query, x, rng, number):
    """What `query.privatize` does, but seeded."""
    values = []
    for j, asked in zip(query.components, query.queries, strict=True):
        row = np.cumsum(asked.channel.weights[bisect_left(asked.cuts, x[j])])
        values.append(int(np.searchsorted(row, rng.integers(2**32), side="right")))
    return VectorReport(query.id, tuple(values), f"{number:032x}")


def people(n, rng):
    return np.column_stack([rng.normal(*TRUTH[0], n), rng.exponential(*TRUTH[1], n)])


def stream(collector, values, rng, first=0):
    for i, x in enumerate(values):
        collector.add(report(collector.query(), x, rng, first + i))


def state(collector):
    return (
        [
            (p.particles.tolist(), p.log_weights.tolist(), dict(p.counts), p.log_evidence)
            for p in collector.posteriors
        ],
        collector.queries,
        collector._rng.bit_generator.state,
        set(collector._inbox._seen),
        (collector._current, collector._left),
    )


def small(**settings):
    settings = {"epsilon": 2.0, "n_particles": 100, "rng": 1} | settings
    return ComponentwiseCollector(FAMILIES, **settings)


@pytest.mark.parametrize("assignment", ["one", "split"])
def test_a_report_made_on_a_device_is_taken_in(assignment):
    collector = small(assignment=assignment)
    query = collector.query()
    collector.add(query.privatize([50.0, 4.0], epsilon_limit=2.0))
    learnt = [p.diagnostics.reports for p in collector.posteriors]
    assert learnt == [int(j in query.components) for j in range(2)]
    assert sum(learnt) == (1 if assignment == "one" else 2)


@pytest.mark.parametrize("assignment", ["one", "split"])
@pytest.mark.parametrize("shares", [None, (1.0, 3.0)])
def test_every_query_keeps_the_whole_epsilon_in_exact_fractions(assignment, shares):
    rng = np.random.default_rng(2)
    collector = small(assignment=assignment, shares=shares)
    stream(collector, people(20, rng), rng)
    for query in collector.queries:
        ratios = math.prod((q.channel.ratio for q in query.queries), start=Fraction(1))
        assert ratios <= exp_down(2.0)
        assert ratios > exp_down(1.99)  # and uses it


def test_shares_are_parts_of_epsilon_when_split():
    collector = small(assignment="split", shares=(1.0, 3.0))
    assert [mechanism.epsilon for mechanism in collector.mechanisms] == [0.5, 1.5]


def test_shares_are_chances_when_one_is_asked():
    """Of 400, about 300: within 4.9 deviations of 8.7 but once in a million times."""
    collector = small(shares=(1.0, 3.0))
    asked = Counter(collector.query().components for _ in range(400))
    assert set(asked) == {(0,), (1,)}
    assert abs(asked[(1,)] - 300) < 4.9 * math.sqrt(75)
    assert [mechanism.epsilon for mechanism in collector.mechanisms] == [2.0, 2.0]


def test_wrong_duplicate_and_foreign_reports_change_nothing():
    collector = small(assignment="split")
    query = collector.query()
    good = report(query, (50.0, 4.0), np.random.default_rng(1), 7)
    collector.add(good)
    before = state(collector)
    fresh = "ab" * 16
    foreign = VectorQuery(2, (0, 1), (sign_response(0.0, 1.0), sign_response(1.0, 1.0)), 2.0)
    outputs = [q.channel.outputs for q in query.queries]
    wrong = [
        good,
        VectorReport(query.id, (0, 0), good.report_id),
        foreign.privatize([1.0, 1.0]),
        VectorReport(query.id, (0,), fresh),
        VectorReport(query.id, (0, 0, 0), fresh),
        VectorReport(query.id, (0, outputs[1]), fresh),
        VectorReport(query.id, (outputs[0], 0), fresh),
    ]
    for bad in wrong:
        with pytest.raises(InvalidArgument):
            collector.add(bad)
        assert state(collector) == before
    for bad in (None, good.to_json(), query, query.queries[0].privatize(50.0)):
        with pytest.raises(InvalidType):
            collector.add(bad)
        assert state(collector) == before


def test_a_failure_at_the_second_component_undoes_the_first(monkeypatch):
    collector = small(assignment="split")
    good = report(collector.query(), (50.0, 4.0), np.random.default_rng(1), 7)
    before = state(collector)
    update = smc.update
    with monkeypatch.context() as patch:
        patch.setattr(
            "confidp.local.componentwise.smc.update",
            lambda posterior, *rest: (
                1 / 0 if posterior.population == Exponential() else update(posterior, *rest)
            ),
        )
        with pytest.raises(ZeroDivisionError):
            collector.add(good)
    assert state(collector) == before
    collector.add(good)
    assert [p.diagnostics.reports for p in collector.posteriors] == [1, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"assignment": "one"},
        {"assignment": "split", "shares": (2.0, 1.0), "round_size": 3, "policy": "mean"},
        {"mechanism": "truncated-laplace", "criterion": "D"},
    ],
)
def test_a_loaded_collector_goes_on_exactly(tmp_path, settings):
    rng = np.random.default_rng(3)
    collector = small(**settings)
    stream(collector, people(10, rng), rng)
    collector.save(tmp_path / "run")
    again = ComponentwiseCollector.load(tmp_path / "run")
    assert state(again) == state(collector)
    assert again.mechanisms == collector.mechanisms
    values = people(10, rng)
    stream(collector, values, np.random.default_rng(4), first=10)
    stream(again, values, np.random.default_rng(4), first=10)
    assert state(again) == state(collector)
    with pytest.raises(InvalidArgument, match="added before"):
        again.add(report(again.queries[0], (50.0, 4.0), rng, 3))


def test_rounds_share_a_query():
    collector = small(assignment="split", round_size=3)
    ids = [collector.query().id for _ in range(9)]
    assert [ids.count(i) for i in dict.fromkeys(ids)] == [3, 3, 3]


def test_both_assignments_are_near_their_limits():
    """Two normals at ε = 2, whose limits are 11.5 and 21.1 a report.

    Squared errors over their limit are about χ² with 8 degrees of freedom, of unequal weights: at
    equal ones 6 times the mean is exceeded with a chance of 5e-8.
    """
    losses = {"one": 11.47, "split": 21.07}
    for assignment, loss in losses.items():
        errors = []
        for seed in range(2):
            rng = np.random.default_rng([seed, 6])
            collector = ComponentwiseCollector(
                [Normal(), Normal()], epsilon=2.0, assignment=assignment, n_particles=200, rng=seed
            )
            values = np.column_stack([rng.normal(50, 3, 300), rng.normal(-20, 3, 300)])
            stream(collector, values, rng)
            means = np.array([posterior.mean for posterior in collector.posteriors])
            errors.append(np.square(means - [(50.0, 3.0), (-20.0, 3.0)]).sum())
        assert np.mean(errors) < 6 * 2 * 9 * loss / 300


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"epsilon": 0.0}, InvalidArgument),
        ({"epsilon": 23.0}, InvalidArgument),
        ({"epsilon": "1"}, InvalidType),
        ({"assignment": "all"}, InvalidArgument),
        ({"shares": (1.0,)}, InvalidArgument),
        ({"shares": (1.0, 0.0)}, InvalidArgument),
        ({"shares": (1.0, "1")}, InvalidType),
        ({"mechanism": "truncated-gaussian"}, InvalidArgument),
        ({"mechanism": None}, InvalidType),
        ({"policy": "greedy"}, InvalidArgument),
        ({"round_size": 0}, InvalidArgument),
    ],
)
def test_settings_out_of_range_are_refused(settings, error):
    with pytest.raises(error):
        small(**settings)


def test_populations_that_are_none_are_refused():
    with pytest.raises(InvalidType):
        ComponentwiseCollector(Normal(), epsilon=1.0)
    with pytest.raises(InvalidType):
        ComponentwiseCollector([Normal(), "normal"], epsilon=1.0)
    with pytest.raises(InvalidArgument):
        ComponentwiseCollector([], epsilon=1.0)


def test_a_file_that_is_no_collectors_is_refused(tmp_path):
    (tmp_path / "run").write_bytes(b"no")
    with pytest.raises(InvalidArgument):
        ComponentwiseCollector.load(tmp_path / "run")
