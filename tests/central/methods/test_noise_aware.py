"""Noise-aware CR-GS: the probability it calibrates to, its sensitivity attacked, its coverage."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, kstest, norm

from confidp import (
    CRGS,
    GDP,
    Custom,
    Mean,
    ProductKernel,
    StandardDeviation,
    UStatistic,
    confidence_region,
)
from confidp.central.methods import noise_aware
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware import NoiseAwarePlan, covered
from confidp.central.resampling import multiplicity
from confidp.errors import ConfidpError
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
SAMPLINGS = ["with_replacement", "without_replacement"]
SIDES = ["two-sided", "greater", "less"]


def plan_for(
    statistic, n, *, columns=1, mu=1.0, level=0.9, n_resamples=50, side="two-sided", **settings
):
    request = Request(n, mu, level, n_resamples, alternative=side)
    plan = CRGS(**settings).plan(statistic.for_shape(n, columns), request)
    assert isinstance(plan, NoiseAwarePlan)
    return plan


def exactly_covered(size: float, q: float, center_noise: float) -> mpmath.mpf:
    """Return E[P(|w + s_c Z| ≤ q + Z₁ | Z₁)] by quadrature with 30 digits."""
    with mpmath.workdps(30):
        w, q, c = mpmath.mpf(size), mpmath.mpf(q), mpmath.mpf(center_noise)

        def given_noise(z):
            reach = q + z
            if reach <= 0:
                return mpmath.mpf(0)
            inside = mpmath.ncdf((reach - w) / c) - mpmath.ncdf((-reach - w) / c)
            return inside * mpmath.npdf(z)

        # The integrand turns within a few c of these points.
        points = {-q, w - q, -w - q, mpmath.mpf(0)}
        turns = sorted({p + s * c for p in points for s in (-12, -2, 0, 2, 12)} | {-12, -4, 4, 12})
        inside = [t for t in turns if -12 <= t <= 12]
        return mpmath.quad(given_noise, inside)


@pytest.mark.parametrize("center_noise", [0.0011, 0.1, 1.0, 3.0, 900.0])
@pytest.mark.parametrize(
    ("size", "q"),
    [
        (0.0, 1.0), (2.0, 1.0), (1.5, 1.5), (5.0, 0.0), (40, 43), (3.5, 3.0),
        (5.0, 3.0), (5.1, 3.0),
        (5.6, 15.0), (5.0, 20.4),  # at a center noise of 3 the second is nearly sure, and just not
    ],
)  # fmt: skip
def test_the_covered_probability_is_right_to_1e_13(size, q, center_noise):
    expected = exactly_covered(size, q, center_noise)
    found = float(covered(np.array([float(size)]), float(q), center_noise)[0])
    assert abs(mpmath.mpf(found) - expected) < noise_aware._CDF_ERROR


@given(
    st.lists(st.floats(0, 1e4), min_size=1, max_size=30),
    st.lists(st.floats(-1, 1), min_size=30, max_size=30),
    st.floats(0.01, 100),
    st.sampled_from([0.5, 0.9, 0.95]),
)
@example([2.2250738585e-313], [1.0], 1.0, 0.5)  # whose squares underflow
@settings(deadline=None)
def test_the_radius_moves_by_no_more_than_its_pivots(size, moves, center_noise, level):
    size = np.array(size)
    moved = np.abs(size + np.array(moves)[: len(size)])  # each by at most 1
    for radius in (
        lambda s: noise_aware._least_radius(s, center_noise, level),
        lambda s: noise_aware._radius_by_draws(s, center_noise, level, dimension=3),
    ):
        assert abs(radius(size) - radius(moved)) <= 1 + 2 * noise_aware._ERROR


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30),
    st.lists(st.floats(-1, 1), min_size=30, max_size=30),
    st.floats(1e-6, 1e6),
    st.sampled_from([0.01, 0.5, 0.9, 0.95]),
    st.sampled_from(SIDES[1:]),
)
@settings(deadline=None)
def test_one_sided_q_moves_by_no_more_than_its_pivots_whatever_its_sign(
    pivots, moves, center_noise, level, side
):
    pivots = np.array(pivots)[:, None]
    moved = pivots + np.array(moves)[: len(pivots), None]
    first, second = (
        noise_aware.calibrated_reach(w, center_noise, 1.0, level, side) for w in (pivots, moved)
    )
    assert abs(first - second) <= 1 + 2 * noise_aware._ERROR


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("shift", [-5.0, 0.0, 5.0])
def test_one_sided_q_solves_its_equation(level, shift):
    pivots = np.random.default_rng(7).normal(shift, 2.0, (500, 1))
    for side, sign in (("greater", 1), ("less", -1)):
        q = noise_aware.calibrated_reach(pivots, 1.5, 0.5, level, side)
        share = norm.cdf((q - sign * pivots) / math.hypot(1.5, 0.5)).mean()
        assert share == pytest.approx(level, abs=1e-5)  # the ramp is 1e-7 for each noise scale
    # Pivots all far to one side: Q follows them below 0, where a radius would stop.
    assert noise_aware.calibrated_reach(pivots - 50, 1.5, 0.5, level, "greater") < -30


def test_a_gap_at_the_level_does_not_break_the_one_sided_bound():
    pivots = np.array([-1e8] * 90 + [1e8] * 10)[:, None]
    ends = [
        noise_aware.calibrated_reach(w, 1.0, 1.0, 0.9, "greater")
        for w in (pivots, pivots + np.sign(-pivots))
    ]
    assert abs(ends[0] - ends[1]) <= 1 + 2 * noise_aware._ERROR
    far = np.array([[1e300], [-1e300]])
    for level in (0.1, 0.9):
        assert math.isfinite(noise_aware.calibrated_reach(far, 1.0, 1e-200, level, "less"))


def test_a_distribution_with_a_gap_at_the_level_does_not_break_the_bound():
    # Exactly 1 − α of the pivots small and the rest huge: without the ramp a flat stretch of the
    # probability would let rounding decide where between the two the radius lies.
    size = np.array([0.0] * 90 + [1e8] * 10)
    moved = size + np.where(size == 0, 1.0, -1.0)
    radii = [noise_aware._least_radius(s, 1.0, 0.9) for s in (size, moved)]
    assert abs(radii[0] - radii[1]) <= 1 + 2 * noise_aware._ERROR


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_both_forms_agree_and_solve_the_equation(dimension):
    rng = np.random.default_rng(1)
    size = np.sqrt(rng.chisquare(dimension, 2000)) * 3
    by_draws = noise_aware._radius_by_draws(size, 1.5, 0.9, dimension)
    z, z1 = rng.standard_normal((2000, 100, dimension)), rng.standard_normal((2000, 100))
    z[:, :, 0] = size[:, None] + 1.5 * z[:, :, 0]
    z[:, :, 1:] *= 1.5
    share = np.mean(np.linalg.norm(z, axis=2) <= by_draws + z1)
    assert share == pytest.approx(0.9, abs=0.005)
    if dimension == 1:
        assert noise_aware._least_radius(size, 1.5, 0.9) == pytest.approx(by_draws, rel=0.01)


@st.composite
def neighbours(draw):
    n = draw(st.integers(2, 12))
    columns = draw(st.integers(1, 3))
    with_replacement = draw(st.booleans())
    m = draw(st.integers(1, n if with_replacement else n - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bounds = draw(st.sampled_from([(0.0, 1.0), (1e9, 1e9 + 1), (-1e-7, 1e-7)]))
    points = bounds[0] + rng.choice([0.0, 1.0, 1 / 3], (n + 1, columns)) * (bounds[1] - bounds[0])
    other = points[:n].copy()
    other[rng.integers(n)] = points[n]
    side = draw(st.sampled_from(SIDES if columns == 1 else SIDES[:1]))
    plan = plan_for(
        Mean(bounds), n, columns=columns, n_resamples=5, resample_size=m, side=side,
        sampling=SAMPLINGS[0] if with_replacement else SAMPLINGS[1],
    )  # fmt: skip
    sets = [rng.integers(0, n, m) if with_replacement else rng.permutation(n)[:m] for _ in range(5)]
    return plan, points[:n], other, sets


@given(neighbours())
@settings(deadline=None, max_examples=200)
def test_no_neighbours_move_the_radius_by_more_than_the_noise_allows_for(case):
    plan, data, other, sets = case
    kappa = max(map(multiplicity, sets))
    mechanism, nominal = plan.radius_mechanism(kappa)
    radii, drawn = [], set()
    for rows in (data, other):
        _, pivots, found = plan.pivots(plan.statistic.encode(rows), sets)
        radii.append(Fraction(plan.radius(pivots, nominal)))
        drawn.add(found)
    assert abs(radii[0] - radii[1]) <= mechanism.sensitivity
    assert len(drawn) == 1
    assert drawn.pop() <= kappa


def test_the_tight_pivot_sensitivity_of_a_mean_is_attained():
    n, m = 10, 5
    mean = Mean((0, 1)).for_shape(n, 1)
    zeros, one = np.zeros((n, 1)), np.zeros((n, 1))
    one[0] = 1.0
    for indices, kappa in (
        (np.arange(5), 1),
        (np.array([0, 0, 0, 1, 2]), 3),
        (np.arange(5, 10), 1),
    ):
        first, second = (
            mean.value(mean.encode(r)[indices]) - mean.value(mean.encode(r)) for r in (zeros, one)
        )
        bound = mean.pivot_sensitivity(n, m, kappa)
        moved = abs(float(second[0] - first[0]))
        assert moved <= float(bound) + 1e-12
        if indices[0] == 0:
            assert moved == pytest.approx(float(bound))
    half = mean.pivot_sensitivity(n, m, 1)
    assert half == Fraction(1, n)  # a third of Δ_m + Δ_n


@pytest.mark.parametrize("columns", [1, 3])
def test_a_region_is_never_smaller_than_the_noise_of_its_center_asks_for(columns):
    """At n = 100 and μ = 0.1 both noises exceed what sampling adds: often Q̃ is below the least."""
    x, noise = np.random.default_rng(3).random((100, columns)), Randomness.of(5)
    plan = plan_for(Mean((0, 1)), 100, columns=columns, mu=0.1, n_resamples=20)
    records = plan.statistic.encode(x)
    radii = np.array([plan.release(records, noise).radius for _ in range(200)])
    least = plan.center.scale * math.sqrt(chi2.ppf(0.9, columns))
    assert radii.min() == pytest.approx(least)
    assert 5 <= (radii < least * (1 + 1e-9)).sum() <= 100
    enough = plan_for(Mean((0, 1)), 100, columns=columns, mu=50.0, n_resamples=20)
    assert enough.release(records, noise).radius > 3 * enough.center.scale


def test_half_samples_are_the_default_and_the_finite_population_is_corrected_for():
    plan = plan_for(Mean((0, 1)), 1000)
    assert plan.public["resample_size"] == 500
    assert plan.rate == pytest.approx(1.0)  # √(1/2)/√(1 − 1/2)
    other = plan_for(Mean((0, 1)), 1000, sampling="with_replacement")
    assert other.rate == pytest.approx(math.sqrt(0.5))


def test_statistics_with_another_rate_get_neither():
    faster = Custom(lambda x: float(x.mean()) ** 2, lambda n: 2 / n, (0, 1), scale=float)
    plan = plan_for(faster, 1000)
    assert plan.public["resample_size"] == math.ceil(1000 / math.log(1000))
    assert plan.rate == plan.resampling.size / 1000


@pytest.mark.parametrize(
    ("columns", "mu", "sampling"),
    [
        (1, 0.5, SAMPLINGS[1]),
        (1, 0.5, SAMPLINGS[0]),
        (1, 8.0, SAMPLINGS[1]),
        (4, 0.5, SAMPLINGS[1]),
    ],
)
def test_it_covers_at_budgets_where_the_published_radius_does_not(columns, mu, sampling):
    rng = np.random.default_rng(3)
    covered_sets = 0
    for _ in range(200):
        region = confidence_region(
            rng.uniform(-1, 1, (1000, columns)),
            Mean((-1, 1)),
            budget=GDP(mu),
            confidence_level=0.9,
            method=CRGS(sampling),
            n_resamples=300,
            rng=rng,
        )
        covered_sets += region.contains(np.zeros(columns))
    assert binomtest(covered_sets, 200, 0.89, "less").pvalue > FALSE_ALARM
    assert region.caution is None


@pytest.mark.parametrize("mu", [0.25, 8.0])
@pytest.mark.parametrize("side", SIDES[1:])
def test_one_sided_bounds_cover_as_often_as_they_say_and_no_more(side, mu):
    rng, data_sets = np.random.default_rng(8), 200
    covered_sets = 0
    for _ in range(data_sets):
        region = confidence_region(
            rng.uniform(-1, 1, 500),
            Mean((-1, 1)),
            budget=GDP(mu),
            confidence_level=0.9,
            alternative=side,
            method=CRGS(),
            n_resamples=300,
            rng=rng,
        )
        covered_sets += region.contains(0.0)
        low, high = region.interval
        assert (high if side == "greater" else low) == (1.0 if side == "greater" else -1.0)
        assert low <= high
    assert binomtest(covered_sets, data_sets, 0.89, "less").pvalue > FALSE_ALARM
    assert binomtest(covered_sets, data_sets, 0.91, "greater").pvalue > FALSE_ALARM


@pytest.mark.parametrize("side", SIDES[1:])
def test_a_one_sided_end_has_the_noise_of_center_and_radius_and_no_clipping(side):
    # Constant pivots: L = θ̂ + s_c Z − Q − s_r Z₁ with Q known.
    plan = plan_for(Custom(lambda x: 3.0, lambda n: 1 / n, (0, 5)), 400, side=side)
    records = plan.statistic.encode(np.full((400, 1), 3.0))
    _, nominal = plan.radius_mechanism(1)
    s_c, sign = plan.center.scale, -1 if side == "greater" else 1
    q = norm.ppf(0.9) * math.hypot(s_c, nominal)
    ends = []
    for seed in range(600):
        ball = plan.release_on(records, [np.arange(200)], Randomness.of(seed))
        low, high = ball.box[0]
        ends.append((low if side == "greater" else high) - 3.0 - sign * q)
        assert (high if side == "greater" else low) in (math.inf, -math.inf)
    assert kstest(np.array(ends) / math.hypot(s_c, nominal), "norm").pvalue > FALSE_ALARM


def test_the_other_end_is_what_is_known_of_the_parameter():
    known = noise_aware.parameter_bounds
    assert known(Mean((2, 5))) == (2.0, 5.0)
    kernel = UStatistic(lambda x, y: abs(x - y), 2, (0, 9), kernel_range=(0, 9))
    assert known(kernel) == (0.0, 9.0)
    assert known(ProductKernel((-3, 2))) == (0.0, 9.0)
    assert known(ProductKernel((2, 3))) == (4.0, 9.0)
    assert known(StandardDeviation((0, 1), 0.1)) == (-math.inf, math.inf)


def test_an_end_beyond_what_is_known_is_pulled_back_to_it():
    region = confidence_region(
        np.ones(50), Mean((0, 1)), budget=GDP(0.01), method=CRGS(), alternative="greater",
        n_resamples=5, rng=1, confidence_level=0.001,
    )  # fmt: skip
    assert region.interval == (1.0, 1.0)


def test_one_sided_is_for_one_dimension_and_not_for_the_published_radius():
    rows = np.zeros((20, 2))
    with pytest.raises(ConfidpError, match="alternative must be 'two-sided' in 2 dimensions"):
        confidence_region(rows, Mean((0, 1)), budget=GDP(1.0), method=CRGS(), alternative="greater")
    with pytest.raises(ConfidpError, match="alternative must be 'two-sided'"):
        confidence_region(
            rows[:, 0],
            Mean((0, 1)),
            budget=GDP(1.0),
            method=CRGS(calibration="published"),
            alternative="less",
        )


def test_auto_takes_it_for_mean_like_statistics_without_a_narrower_method():
    region = confidence_region(
        np.random.default_rng(4).random(500),
        Custom(np.mean, lambda n: 1 / n, (0, 1)),
        budget=GDP(2.0),
        n_resamples=100,
    )
    assert region.method == "CR-GS (noise-aware, without replacement)"
    assert region.public["counts_noise"]


def test_an_extreme_ratio_of_the_noises_falls_back_on_draws():
    # Δ_m is a million times Δ_n.
    steep = Custom(lambda x: 0.0, lambda n: n**-3.0, (0, 1))
    plan = plan_for(steep, 5000, resample_size=50)
    _, nominal = plan.radius_mechanism(1)
    assert plan.center.scale / nominal < noise_aware._LEAST_RATIO
    rng = np.random.default_rng(5)
    ball = plan.release(plan.statistic.encode(rng.random((5000, 1))), noise_aware.Randomness.of(6))
    assert math.isfinite(ball.radius)


def test_sizes_beyond_every_scale_are_clipped_and_do_not_overflow():
    plan = plan_for(Mean((0, 1)), 100)
    _, nominal = plan.radius_mechanism(1)
    # The ramp reaches the level at 9e6 noise scales: as far as a radius can go in one dimension.
    assert plan.radius(np.full((50, 1), 1e300), nominal) > 8e6 * nominal
    assert plan.radius(np.full((50, 1), 1e300), 1e-200) == noise_aware._CAP * 1e-200
    assert plan.radius(np.zeros((50, 1)), nominal) < 10 * nominal


def test_another_calibration_is_refused():
    with pytest.raises(ConfidpError, match="calibration"):
        CRGS(calibration="wishful")


@pytest.mark.parametrize("side", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300, 1e9])
def test_no_pivot_whatever_it_is_makes_an_error(side, odd):
    # After the charge an error would tell of the data.
    for share in (0.01, 0.5, 1.0):
        pivots = np.random.default_rng(5).normal(size=(300, 1))
        pivots[: int(share * 300)] = odd
        for center_noise in (0.01, 1.0, 500.0):
            reach = noise_aware.calibrated_reach(pivots, center_noise, 1.0, 0.9, side)
            assert abs(reach) <= 2.0**30
