"""CR-SS: the algorithm as printed, its sensitivities attacked, its settings checked."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confidp import CRGS, CRSS, GDP, ApproxDP, Custom, Mean, Median, confidence_region
from confidp.central.methods.cr_ss import CRSSPlan
from confidp.central.methods.method import Request
from confidp.central.resampling import multiplicity
from confidp.errors import ConfidpError, InvalidArgument, InvalidType
from confidp.randomness import Randomness

SAMPLINGS = ["with_replacement", "without_replacement"]
Published = partial(CRSS, calibration="published")


def plan_for(n, *, mu=8.0, delta=1e-6, n_resamples=500, method=None, statistic=None) -> CRSSPlan:
    statistic = (statistic or Median(bounds=(-1, 1))).for_shape(n, 1)
    request = Request(n, mu, 0.9, n_resamples, delta)
    return (method or Published()).plan(statistic, request)


def test_beta_is_equation_6s():
    plan = plan_for(2000, method=Published("with_replacement"))
    kappa = 8
    expected = 8 / (2 * kappa) / (4 * math.sqrt(math.log(500 / (1e-6 / 2000))))
    assert plan.beta == pytest.approx(expected)
    assert plan.center.beta == plan.beta
    assert plan.radius.beta == kappa * plan.beta


@given(
    st.floats(1e-3, 100),
    st.floats(1e-12, 0.5),
    st.tuples(*[st.floats(0.01, 100)] * 4),
)
@settings(deadline=None)
def test_the_parts_compose_to_no_more_than_the_budget(mu, delta, shares):
    plan = plan_for(100, mu=mu, delta=delta, method=Published(shares=shares))
    parts = [plan.center.mu_bound, plan.center.mu_value, plan.radius.mu_bound, plan.radius.mu_value]
    total = sum(Fraction(part) ** 2 for part in parts)
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -50) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert plan.cost.delta <= delta


def test_as_published_every_part_gets_half_of_mu():
    plan = plan_for(100)
    for part in (plan.center, plan.radius):
        assert part.mu_bound == part.mu_value == 4.0
        assert part.delta == pytest.approx(5e-7, rel=1e-12)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_what_is_released_is_the_algorithms(sampling):
    rng = np.random.default_rng(3)
    data = rng.uniform(-1, 1, size=(300, 1))
    plan = plan_for(300, method=Published(sampling), n_resamples=50)
    median = plan.statistic
    records = median.encode(data)
    sets = [rng.integers(0, 300, plan.resampling.size) for _ in range(50)]
    pivot = plan.pivot(records, sets)

    estimate = median.value(records)[0]
    distances = sorted(abs(median.value(records[s])[0] - estimate) for s in sets)
    smooth = max(median.smooth_sensitivity(records[s], plan.beta) for s in sets)
    own = median.smooth_sensitivity(records, plan.beta)
    kappa = plan.resampling.multiplicity
    geometric = sum(math.exp(q * plan.beta) for q in range(kappa))
    assert float(plan.units.fractions(pivot.estimate)[0]) == pytest.approx(estimate)
    assert float(pivot.distance * plan.units.step) == pytest.approx(distances[44])
    assert pivot.center_bound == pytest.approx(own, rel=1e-6)
    assert pivot.radius_bound == pytest.approx(smooth * geometric + own, rel=1e-6)


@st.composite
def neighbours(draw):
    n = draw(st.integers(3, 14))
    with_replacement = draw(st.booleans())
    m = draw(st.integers(1, n if with_replacement else n - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    beta = draw(st.sampled_from([0.01, 0.2, 1.0]))
    points = rng.choice([0.0, 1.0, 0.5, 0.25, 0.5 + 2**-20], size=n + 1)
    data = points[:n, None].copy()
    other = data.copy()
    other[rng.integers(n)] = points[n]
    method = Published(SAMPLINGS[0] if with_replacement else SAMPLINGS[1], m, beta=beta)
    plan = plan_for(n, method=method, n_resamples=4, statistic=Median(bounds=(0, 1)))
    sets = []
    while len(sets) < 4:
        indices = rng.integers(0, n, m) if with_replacement else rng.permutation(n)[:m]
        if multiplicity(indices) <= plan.resampling.multiplicity:
            sets.append(indices)
    return plan, data, other, sets


@given(neighbours())
@settings(deadline=None, max_examples=300)
def test_no_neighbours_move_the_pivots_beyond_their_bounds_or_the_bounds_beyond_smoothness(case):
    plan, data, other, sets = case
    first, second = (plan.pivot(plan.statistic.encode(rows), sets) for rows in (data, other))
    step, slack = float(plan.units.step), 1 + 1e-11
    moved = abs(int(first.estimate[0]) - int(second.estimate[0])) * step
    assert moved <= min(first.center_bound, second.center_bound) * slack
    widened = abs(first.distance - second.distance) * step
    assert widened <= min(first.radius_bound, second.radius_bound) * slack
    kappa = plan.resampling.multiplicity
    for ratio, beta in (
        (first.center_bound / second.center_bound, plan.beta),
        (first.radius_bound / second.radius_bound, kappa * plan.beta),
    ):
        assert abs(math.log(ratio)) <= beta + 1e-11


def test_an_approximate_budget_is_kept_with_half_of_its_delta_for_the_method():
    region = confidence_region(
        np.random.default_rng(0).uniform(-1, 1, 300),
        Median(bounds=(-1, 1)),
        budget=ApproxDP(2.0, 1e-6),
        method=CRSS(),
        n_resamples=20,
        rng=1,
    )
    assert region.spent.delta == pytest.approx(5e-7, rel=1e-6)
    assert 1.99 < region.spent.epsilon(1e-6) <= 2.0


def test_auto_takes_cr_ss_where_there_is_only_a_smooth_sensitivity():
    region = confidence_region(
        np.random.default_rng(0).uniform(-1, 1, 300),
        Custom(
            np.median,
            None,
            bounds=(-1, 1),
            smooth_sensitivity=lambda x, beta: 2.0,  # the range: smooth, if not small
            precision=1e-9,
        ),
        budget=GDP(4.0, 1e-6),
        n_resamples=20,
    )
    assert region.method.startswith("CR-SS (noise-aware")
    assert "smooth" in region.public["reason"]
    assert region.spent.delta <= 1e-6


def test_bottom_is_everything():
    plan = plan_for(100, method=Published("with_replacement", 20))
    object.__setattr__(plan.resampling, "multiplicity", 1)
    ball = plan.release(plan.statistic.encode(np.zeros((100, 1))), Randomness.of(1))
    assert math.isinf(ball.radius)


def test_a_budget_without_delta_is_refused():
    with pytest.raises(InvalidArgument, match="delta above"):
        confidence_region(np.zeros(10), Median(bounds=(0, 1)), budget=GDP(1.0), method=CRSS())


def test_a_statistic_without_the_sensitivity_a_method_needs_is_refused():
    with pytest.raises(InvalidType, match="smooth sensitivity, and mean has none"):
        confidence_region(np.zeros(10), Mean(bounds=(0, 1)), budget=GDP(1.0, 1e-6), method=CRSS())
    with pytest.raises(InvalidType, match="global sensitivity, and median has none"):
        confidence_region(np.zeros(10), Median(bounds=(0, 1)), budget=GDP(1.0, 1e-6), method=CRGS())


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"beta": 0}, "beta"),
        ({"beta": math.nan}, "beta"),
        ({"shares": (1, 1)}, "shares"),
        ({"shares": (1, 1, 1, 0)}, "shares"),
        ({"shares": 1.0}, "shares"),
        ({"sampling": "jackknife"}, "sampling"),
        ({"calibration": "wishful"}, "calibration"),
    ],
)
def test_settings_out_of_range_are_refused_at_once(changed, name):
    with pytest.raises(ConfidpError, match=name):
        CRSS(**changed)
