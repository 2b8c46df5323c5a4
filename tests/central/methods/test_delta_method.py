"""The delta method: how far records move what it releases, and the intervals that it makes."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import (
    GDP,
    Correlation,
    Mean,
    Ratio,
    StandardDeviation,
    Variance,
    confidence_region,
)
from confidp.central.methods.delta_method import DIAMETER, NOT_CLEAR, SPREAD, DeltaMethod, Measured
from confidp.central.methods.joint_moments import JointMoments
from confidp.central.methods.method import Request
from confidp.central.methods.private_covariance import unit_covariance, unit_means
from confidp.errors import InvalidArgument, InvalidType
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
UNIT = ((0.0, 1.0), (0.0, 1.0))
STATISTICS = [
    Variance((0, 1)),
    StandardDeviation((-3, 5), 0.1),
    Ratio(((-1, 1), (0, 2)), 0.2),
    Correlation(UNIT, (0.1, 0.1)),
]


def plan_for(statistic, n, *, mu=1.0, level=0.9, alternative="two-sided"):
    fitted = statistic.for_shape(n, len(statistic.grids))
    return DeltaMethod().plan(fitted, Request(n, mu, level, 1, alternative=alternative))


def region_of(rows, statistic, *, mu=1e6, level=0.9, alternative="two-sided", rng=1):
    return confidence_region(
        rows,
        statistic,
        budget=GDP(mu),
        confidence_level=level,
        alternative=alternative,
        method=DeltaMethod(),
        rng=rng,
    )


@given(st.integers(0, 2**32), st.sampled_from(STATISTICS), st.integers(2, 12))
@settings(deadline=None, max_examples=100)
def test_no_neighbours_move_moments_or_covariance_by_more_than_the_noise_allows_for(
    seed, statistic, n
):
    rng = np.random.default_rng(seed)
    lower, upper = np.array(statistic.bounds).T
    d = len(lower)
    kind = rng.random((n, 1)) < 0.6
    rows = np.where(kind, rng.choice([0.0, 1.0], (n, d)), rng.random((n, d)))
    other = rows.copy()
    other[0] = rng.choice([0.0, 1.0, 0.5], d)
    plan = plan_for(statistic, n, mu=3.0)
    # The same noise, so the same released centers, on both: the law given the centers is compared.
    features = [
        plan.features(statistic.encode(lower + (upper - lower) * r), Randomness.of(int(seed)))
        for r in (rows, other)
    ]
    if plan.probe is not None:
        second = statistic.encode(lower + (upper - lower) * other)
        features[1] = _with_centers(plan, features[0], second)
    first, second = features
    assert first.cells == second.cells
    k = len(first.cells)
    if plan.spread is None:  # means and covariance at once
        assert k < 3
        means = [plan.center.exact(f.rows, f.cells) for f in features]
        moved = sum((a - b) ** 2 for a, b in zip(*means, strict=True))
        assert moved <= plan.center.mechanism.sensitivity**2
        return
    means = [unit_means(f.rows, f.cells) for f in features]
    moved = sum((a - b) ** 2 for a, b in zip(*means, strict=True))
    assert moved <= plan.center.sensitivity**2
    moved = sum(
        (unit_covariance(first.rows, first.cells, i, j)
         - unit_covariance(second.rows, second.cells, i, j)) ** 2
        for i, j in itertools.product(range(k), repeat=2)
    )  # fmt: skip
    assert moved <= plan.spread.sensitivity**2


class _Fixed:
    """Stands in for the centers' mechanism: releases given centers."""

    scale = 0.0

    def __init__(self, centers):
        self.centers = centers

    def release(self, value, randomness):
        return self.centers


def _with_centers(plan, features, records):
    grids = plan.equation.grids
    centers = [
        Fraction(c - float(g.lower)) / g.range for c, g in zip(features.centers, grids, strict=True)
    ]
    return replace(plan, probe=_Fixed(centers)).features(records, Randomness.of(0))


def test_the_sizes_of_three_products_are_those_proved():
    grid = np.linspace(-1, 1, 21)
    u, v = (axis.ravel() for axis in np.meshgrid(grid, grid))
    points = np.stack([u * u, v * v, u * v], axis=1) / 2
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert distances.max() == pytest.approx(1)  # attained
    assert DIAMETER == 1
    assert Fraction(3, 2) <= SPREAD**2
    worst = 0.0
    rng = np.random.default_rng(1)
    for m in points[rng.integers(len(points), size=300)]:
        a, b = (points[rng.integers(len(points), size=2000)] - m for _ in range(2))
        squares = (a * a).sum(1) ** 2 + (b * b).sum(1) ** 2 - 2 * (a * b).sum(1) ** 2
        worst = max(worst, squares.max())
    assert 0.5 < worst <= SPREAD**2


@given(st.floats(1e-3, 1e3), st.sampled_from(STATISTICS))
def test_its_parts_compose_to_no_more_than_the_budget(mu, statistic):
    plan = plan_for(statistic, 50, mu=mu)
    parts = [part for part in (plan.center, plan.spread, plan.probe) if part is not None]
    total = sum(Fraction(part.mu) ** 2 for part in parts)
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -49) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert plan.cost.delta >= sum(part.cost.delta for part in parts)


def test_with_no_noise_to_speak_of_intervals_are_the_textbooks():
    rng = np.random.default_rng(2)
    rows = rng.uniform(size=(300, 2))
    rows[:, 1] = (rows[:, 0] + rows[:, 1]) / 2
    x = rows[:, 0]
    t = stats.t.isf(0.05, 299)

    squares = (x - x.mean()) ** 2
    reach = t * squares.std(ddof=1) / math.sqrt(300)
    s2 = x.var(ddof=1)
    expected = (s2 - reach, s2 + reach)
    assert region_of(x, Variance((0, 1))).interval == pytest.approx(expected, rel=1e-4)
    roots = tuple(math.sqrt(end) for end in expected)
    assert region_of(x, StandardDeviation((0, 1), 0.1)).interval == pytest.approx(roots, rel=1e-4)

    # Fieller: (x̄ − θȳ)² = t²(s_x² − 2θc + θ²s_y²)/n.
    (a, c), (_, b) = np.cov(rows.T) * t * t / 300
    mean_x, mean_y = rows.mean(axis=0)
    ends = np.sort(np.roots([mean_y**2 - b, 2 * (c - mean_x * mean_y), mean_x**2 - a]))
    ratio = region_of(rows, Ratio(UNIT, 0.1))
    assert ratio.interval == pytest.approx(tuple(ends), rel=1e-4)
    assert ratio.center == pytest.approx((mean_x / mean_y,), rel=1e-4)

    z = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    r = np.corrcoef(rows.T)[0, 1]
    influence = z[:, 0] * z[:, 1] - r / 2 * (z**2).sum(axis=1)
    region = region_of(rows, Correlation(UNIT, (0.1, 0.1)))
    assert region.center == pytest.approx((r,), rel=1e-4)
    assert region.radius == pytest.approx(t * influence.std(ddof=1) / math.sqrt(300), rel=0.02)


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_one_sided_bounds_are_ends_of_a_wider_interval(statistic):
    rng = np.random.default_rng(3)
    lower, upper = np.array(statistic.bounds).T
    rows = lower + (upper - lower) * rng.uniform(0.2, 1, size=(500, len(lower)))
    both = region_of(rows, statistic, level=0.8).interval
    low, high = statistic.equation.limits
    greater = region_of(rows, statistic, level=0.9, alternative="greater").interval
    less = region_of(rows, statistic, level=0.9, alternative="less").interval
    # Up to the noise, whose shares depend a little on the level.
    assert greater == pytest.approx((both[0], high), rel=1e-3, abs=1e-3)
    assert less == pytest.approx((low, both[1]), rel=1e-3, abs=1e-3)


def draw_uniform(rng, n):
    return rng.random((n, 1))


def draw_clicks(rng, n):
    shown = rng.random(n) < 0.5
    return np.stack([shown * (rng.random(n) < 0.3), shown], axis=1).astype(float)


def draw_pair(rng, n):
    x = rng.random((n, 2))
    x[:, 1] = (x[:, 0] + x[:, 1]) / 2
    return x


@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize(
    ("statistic", "draw", "truth"),
    [
        (Variance((0, 1)), draw_uniform, 1 / 12),
        (StandardDeviation((-1, 2), 0.1), draw_uniform, 12**-0.5),
        (Ratio(UNIT, 0.1), draw_clicks, 0.3),
        (Correlation(UNIT, (0.1, 0.1)), draw_pair, 0.5**0.5),
    ],
    ids=["variance", "sd", "ratio", "correlation"],
)
def test_it_covers_where_the_noise_matters(statistic, draw, truth, mu):
    rng = np.random.default_rng(4)
    regions = [region_of(draw(rng, 500), statistic, mu=mu, rng=rng) for _ in range(120)]
    covered = sum(region.contains(truth) for region in regions)
    assert binomtest(covered, 120, 0.9, "less").pvalue > FALSE_ALARM


def test_the_center_of_a_spread_isnt_biased_by_the_noise_in_the_mean():
    # Few rows and a small budget: the centers' noise is a sixth of the range.
    rng, n = np.random.default_rng(5), 60
    plan = plan_for(Variance((0, 1)), n, mu=0.2)
    data = np.tile([0.25, 0.75], n // 2)[:, None]  # s² = n/(n−1)/16
    found, noise = [], []
    for _ in range(800):
        released = plan.release(plan_records(plan, data), Randomness.of(rng))
        found.append(released.public["moments"][0])
        noise.append(plan.probe.scale)
    z = (np.mean(found) - n / (n - 1) / 16) / (np.std(found) / math.sqrt(len(found)))
    assert noise[0] > 0.1
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)
    # Not taking off the mean's noise would be seen.
    assert noise[0] ** 2 > 6 * np.std(found) / math.sqrt(len(found))


def plan_records(plan, rows):
    return np.stack([g.encode(c) for g, c in zip(plan.equation.grids, rows.T, strict=True)], axis=1)


@pytest.mark.parametrize(
    ("statistic", "rows"),
    [
        (Ratio(UNIT, 0.001), np.tile([0.0, 0.01], (200, 1))),
        (Correlation(UNIT, (0.001, 0.001)), np.full((200, 2), 0.5)),
    ],
    ids=["ratio", "correlation"],
)
def test_where_it_would_divide_by_noise_it_says_so_and_excludes_nothing(statistic, rows):
    region = region_of(rows, statistic, mu=0.1)
    assert region.public["note"] == NOT_CLEAR
    assert region.interval == statistic.equation.limits
    rich = region_of(np.random.default_rng(6).uniform(size=(2000, 2)), statistic, mu=50.0)
    assert "note" not in rich.public
    assert rich.radius < 0.2


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_constant_data_give_a_finite_interval_with_a_spread_of_almost_nothing(value):
    low, high = region_of(np.full(1000, value), Variance((0, 1)), mu=1.0).interval
    assert low == 0.0
    assert high < 0.02
    floored = region_of(np.full(1000, value), StandardDeviation((0, 1), 0.05), mu=1.0)
    assert floored.interval[0] == 0.05


def test_far_off_bounds_and_fine_grids_cost_nothing():
    rng = np.random.default_rng(7)
    ages = rng.uniform(0, 1, size=400)
    near = region_of(ages, Variance((0, 1)))
    far = region_of(ages + 10_000, Variance((10_000, 10_001)))
    assert far.interval == pytest.approx(near.interval, rel=1e-5)
    fine = region_of(ages * 2**40, Variance((0, 2**40), resolution=1))
    expected = tuple(end * 2.0**80 for end in near.interval)
    assert fine.interval == pytest.approx(expected, rel=1e-5)


def test_other_statistics_and_extreme_bounds_are_refused():
    with pytest.raises(InvalidType, match="DeltaMethod needs a smooth function of means"):
        region_of(np.zeros(9), Mean((0, 1)))
    with pytest.raises(InvalidArgument, match="1e-60 and 1e60 apart"):
        region_of(np.zeros(9), Variance((0, 1e90)))


def test_rows_stay_out_of_the_repr():
    plan = plan_for(Variance((0, 7)), 3)
    features = plan.features(np.array([[123456789], [5], [6]]), Randomness.of(1))
    assert "rows" not in repr(features)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(
    "statistic", [StandardDeviation((0, 8), 0.1), Ratio(((0, 1), (0, 2)), 0.2)]
)
def test_an_end_is_as_far_as_the_joint_moments_reach(statistic, alternative):
    plan = plan_for(statistic, 300, mu=0.5, alternative=alternative)
    k = plan.center.dimension
    covariance = np.array([[0.05]]) if k == 1 else np.array([[0.06, 0.02], [0.02, 0.08]])
    measured = Measured(
        moments=np.array([4.0]) if k == 1 else np.array([0.3, 1.2]),
        covariance=covariance,
        units=np.array([16.0]) if k == 1 else np.array([1.0, 2.0]),
        tilts=np.array([0.5]) if k == 1 else np.array([0.4, -0.2]),
        extra=np.array([0.3]) if k == 1 else np.zeros(2),
        centers=None,
    )
    released = plan.invert(measured)
    joint = JointMoments(300, plan.center.mechanism, plan.t, float(plan.center.beta))
    ((left, right),) = released.box
    ends = {"two-sided": (left, right), "greater": (left,), "less": (right,)}[alternative]
    for theta in ends:
        gradient = plan.equation.gradient(theta, measured.moments)
        b = gradient * measured.units
        u = b / np.linalg.norm(b)
        tilt, variance = float(u @ measured.tilts), float(u @ covariance @ u)
        extra = float(gradient**2 @ measured.extra / (b @ b))
        gap = plan.equation.gap(theta, measured.moments)
        reach = (
            joint.half_width(tilt, variance, extra)
            if alternative == "two-sided"
            else joint.bound_width(tilt, variance, alternative == "less", extra)
        )
        assert abs(gap) == pytest.approx(np.linalg.norm(b) * reach, rel=1e-6)
        assert (gap > 0) == (theta < released.center[0])


def test_what_is_measured_has_the_tilts_of_its_means():
    rows = np.random.default_rng(1).random((50, 2)) * [0.4, 1.0]
    statistic = Ratio(((0, 1), (0, 1)), 0.2)
    plan = plan_for(statistic, 50, mu=1e7)
    measured = plan.measure(statistic.encode(rows), Randomness.of(1))
    np.testing.assert_allclose(measured.tilts, 1 - 2 * rows.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(measured.moments, rows.mean(axis=0), atol=1e-5)
