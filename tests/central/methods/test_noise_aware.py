"""Noise-aware CR-GS: the probability it calibrates to, its sensitivity attacked, its coverage."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from confidp import CRGS, GDP, Custom, Mean, StandardDeviation, confidence_region
from confidp.central.methods import noise_aware
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware import NoiseAwarePlan, covered
from confidp.central.resampling import multiplicity
from confidp.errors import ConfidpError

FALSE_ALARM = 1e-6
SAMPLINGS = ["with_replacement", "without_replacement"]


def plan_for(statistic, n, *, columns=1, mu=1.0, level=0.9, n_resamples=50, **settings):
    request = Request(n=n, mu=mu, confidence_level=level, n_resamples=n_resamples)
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
@pytest.mark.parametrize(("size", "q"), [(0.0, 1.0), (2.0, 1.0), (1.5, 1.5), (5.0, 0.0), (40, 43)])
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
@settings(deadline=None)
def test_the_radius_moves_by_no_more_than_its_pivots(size, moves, center_noise, level):
    size = np.array(size)
    moved = np.abs(size + np.array(moves)[: len(size)])  # each by at most 1
    for radius in (
        lambda s: noise_aware._least_radius(s, center_noise, level),
        lambda s: noise_aware._radius_by_draws(s, center_noise, level, dimension=3),
    ):
        assert abs(radius(size) - radius(moved)) <= 1 + 2 * noise_aware._ERROR


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
    plan = plan_for(
        Mean(bounds), n, columns=columns, n_resamples=5, resample_size=m,
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


def test_auto_takes_it_for_mean_like_statistics_other_than_a_mean():
    region = confidence_region(
        np.random.default_rng(4).random(500),
        StandardDeviation((0, 1), 0.1),
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
