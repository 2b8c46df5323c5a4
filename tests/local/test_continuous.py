"""The continuous truncated Laplace mechanism against quadrature in 60 digits, and the paper.

Statistical thresholds are named where they are used.
"""

import math
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from confidp.errors import InvalidArgument, InvalidType
from confidp.local import mechanisms
from confidp.local.continuous import PAPER_SCORE, TruncatedLaplaceDensity, best_interval
from confidp.local.design import (
    Design,
    TruncatedLaplace,
    a_optimal,
    answer_probabilities,
    fisher_information,
)
from confidp.local.population import Normal

DIGITS = 40  # the density inside is e^-50 of that at an end, or more


@mpmath.workdps(DIGITS)
def exact_log_density(density, y, mean, sd):
    """log ∫ φ(x) k(clip(x), y) dx: both clipped tails exactly, the inside by quadrature."""
    low, high, y, mean, sd = map(mpmath.mpf, (density.low, density.high, y, mean, sd))
    b = (high - low) / mpmath.mpf(density.epsilon)
    clipped = min(max(y, low), high)
    beyond = abs(y - clipped)  # its factor is left out: quadrature stops at an absolute error

    def kernel(x):
        return mpmath.exp((beyond - abs(y - x)) / b)

    total = mpmath.ncdf((low - mean) / sd) * kernel(low)
    total += mpmath.ncdf((mean - high) / sd) * kernel(high)
    near = (mean + sd * i for i in (-20, -8, -4, -2, 0, 2, 4, 8, 20))
    even = (low + (high - low) * i / 4 for i in range(5))
    points = {clipped, *even, *(min(max(x, low), high) for x in near)}
    total += mpmath.quad(lambda x: mpmath.npdf(x, mean, sd) * kernel(x), sorted(points))
    return float(mpmath.log(total) - beyond / b - mpmath.log(2 * b))


SETTINGS = [(0.2, 0.3), (0.2, -40.0), (-5.0, 0.9), (80.0, 0.0)]  # mean, y


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("sd", [1e-3, 0.5, 30.0, 1e4])
def test_log_density_is_quadrature_to_1e_10_at_extreme_settings(epsilon, sd):
    """σ from 5e-4 to 5e3 of r − l, means 40 widths off, y 20 widths off."""
    density = TruncatedLaplaceDensity(-1.0, 1.0, epsilon)
    for mean, y in SETTINGS:
        exact = exact_log_density(density, y, mean, sd)
        # A relative 1e-10 of the density is 1e-10 absolute of its logarithm.
        assert float(density.log_density(y, mean, sd)) == pytest.approx(exact, rel=0, abs=1e-10)


def test_the_setting_that_cancelled_in_a_plain_closed_form():
    """ε = 50, σ = 1000, r − l = 2: σ²/2b² is 3e8, and cancels against logΔΦ."""
    density = TruncatedLaplaceDensity(-1.0, 1.0, 50.0)
    for y in (-1.0, -0.3, 0.0, 0.999):
        exact = exact_log_density(density, y, 3.0, 1000.0)
        assert float(density.log_density(y, 3.0, 1000.0)) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize(
    ("epsilon", "mean", "sd"), [(0.5, 0.0, 1.0), (5.0, 3.0, 0.1), (20.0, 0.3, 40.0)]
)
def test_density_has_mass_one(epsilon, mean, sd):
    density = TruncatedLaplaceDensity(-1.0, 2.0, epsilon)
    inside = integrate.quad(
        lambda y: np.exp(density.log_density(y, mean, sd)), -1, 2, points=[0.1, 0.3, 0.5], limit=200
    )[0]
    outside = density.scale * np.exp(density.log_density([-1.0, 2.0], mean, sd)).sum()
    assert inside + outside == pytest.approx(1, abs=1e-9)


def test_arguments_broadcast_and_particles_agree_with_one_at_a_time():
    density = TruncatedLaplaceDensity(-1.0, 1.0, 2.0)
    y, means, sds = np.array([[-3.0], [0.1]]), np.array([-4.0, 0.0, 9.0]), np.array([0.1, 1.0, 7.0])
    together = density.log_density(y, means, sds)
    assert together.shape == (2, 3)
    for i, j in product(range(2), range(3)):
        assert together[i, j] == density.log_density(y[i, 0], means[j], sds[j])
    assert density.log_density(0.5, 0.0, 1.0).shape == ()
    assert density.score(y, means, sds).shape == (2, 2, 3)


def test_a_refused_theta_has_density_0_and_nothing_is_nan():
    density = TruncatedLaplaceDensity(-1.0, 1.0, 2.0)
    means = np.array([0.0, 0.0, np.nan, np.inf, 0.0, 0.0])
    sds = np.array([0.0, -1.0, 1.0, 1.0, np.inf, np.nan])
    assert (density.log_density(0.0, means, sds) == -np.inf).all()
    extremes = np.array([1e-300, 1e-20, 1.0, 1e20, 1e150])
    for mean, y in product((-1e300, -1.0, 0.0, 1e10), (-1e9, -1.0, 0.0, 1.0, 1e9)):
        found = density.log_density(y, mean, extremes)
        assert np.isfinite(found).all(), (mean, y)
    assert density.log_density(np.inf, 0.0, 1.0) == -np.inf


def test_far_off_particles_prefer_the_side_where_the_report_is():
    """No flat region and no NaN: what σ ≫ r − l and clipped exponents did to others."""
    density = TruncatedLaplaceDensity(49.9, 50.1, 1.0)
    near, far = density.log_density(51.0, np.array([60.0, 40.0]), np.array([3.0, 3.0]))
    assert near - far == pytest.approx(1.0, abs=0.01)  # ε: the one all above, the other all below
    wide = density.log_density(50.0, 50.0, np.array([10.0, 1e3, 1e6]))
    assert np.ptp(wide) < 0.02


@pytest.mark.parametrize(
    ("y", "mean", "sd"),
    [(0.3, 0.2, 0.5), (-0.9, 0.2, 2.0), (5.0, 0.2, 0.5), (-7.0, 3.0, 1.0), (1.0, -2.0, 0.7)],
)
def test_score_is_the_derivative(y, mean, sd):
    density = TruncatedLaplaceDensity(-1.0, 1.0, 3.0)
    step = 1e-5
    for i, (d_mean, d_sd) in enumerate(((step, 0.0), (0.0, step))):
        above = density.log_density(y, mean + d_mean, sd + d_sd)
        below = density.log_density(y, mean - d_mean, sd - d_sd)
        slope = (above - below) / (2 * step)
        assert density.score(y, mean, sd)[i] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "mean", "sd"), [(0.5, 0.0, 1.0), (1.0, 1.0, 0.02), (30.0, -3.0, 1.5)]
)
def test_fisher_information_is_that_of_adaptive_quadrature(epsilon, mean, sd):
    density = TruncatedLaplaceDensity(-1.5, 2.0, epsilon)

    def product_of_scores(y, i, j):
        score = density.score(y, mean, sd)
        return np.exp(density.log_density(y, mean, sd)) * score[i] * score[j]

    b = density.scale
    # Corners at the ends, and what is beyond 40 scales weighs e^-40.
    panels = [
        -1.5 - 40 * b,
        -1.5,
        *np.clip(mean + sd * np.arange(-6, 7, 2), -1.5, 2),
        2,
        2 + 40 * b,
    ]
    found = density.fisher_information(mean, sd)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        parts = [
            integrate.quad(product_of_scores, low, high, args=(i, j), limit=200, epsabs=1e-13)[0]
            for low, high in pairwise(panels)
            if low < high
        ]
        assert found[i, j] == pytest.approx(math.fsum(parts), rel=1e-7, abs=1e-10)
    assert found[0, 1] == found[1, 0]


PAPER = [(1.0, 0.071), (2.0, 0.223), (5.0, 0.728), (10.0, 1.224)]


@pytest.mark.parametrize(("epsilon", "half"), PAPER)
def test_the_papers_score_peaks_at_these_intervals(epsilon, half):
    """With noise of scale (r − l)/ε. The paper's code, with √2 less, has .06, .12, .54, .96."""
    low, high = best_interval(epsilon)
    assert (low, high) == pytest.approx((-half, half), abs=5.1e-4)
    peak = TruncatedLaplaceDensity(low, high, epsilon).fisher_information(0, 1)[0, 0]
    for change in (-0.05, 0.05):  # of either end
        for ends in ((low + change, high), (low, high + change)):
            other = TruncatedLaplaceDensity(*ends, epsilon).fisher_information(0, 1)
            assert other[0, 0] < peak


def test_the_papers_score_cannot_see_the_scale():
    interval = best_interval(1.0, PAPER_SCORE)
    information = TruncatedLaplaceDensity(*interval, 1.0).fisher_information(0, 1)
    assert information[0, 0] == pytest.approx(0.109, abs=5e-4)
    assert information[1, 1] == pytest.approx(5e-5, abs=5e-6)


@pytest.mark.parametrize(("epsilon", "trace"), [(0.5, 1210), (1, 170.5), (2, 28.32), (10, 2.425)])
def test_the_best_trace(epsilon, trace):
    interval = best_interval(epsilon, a_optimal)
    information = TruncatedLaplaceDensity(*interval, epsilon).fisher_information(0, 1)
    assert np.trace(np.linalg.inv(information)) == pytest.approx(trace, rel=2e-3)


def test_the_finite_channel_approaches_it_as_steps_squared():
    """Fisher information and the chance of an end; both errors fall by 4 as steps double."""
    low, high, epsilon = -0.5, 1.2, 2.0
    density = TruncatedLaplaceDensity(low, high, epsilon)
    exact = density.fisher_information(0, 1)
    gaps, chances = [], []
    for steps in (8, 16, 32, 64):
        cuts, matrix = TruncatedLaplace(epsilon, steps).build((low, high))
        design = Design.of(cuts, matrix)
        gaps.append(np.abs(fisher_information(Normal(), (0.0, 1.0), design) - exact).max())
        # The first answer is what lands below half a step above the low end.
        edge = low + (high - low) / steps / 2
        inside = integrate.quad(lambda y: np.exp(density.log_density(y, 0.0, 1.0)), low, edge)[0]
        below = density.scale * np.exp(density.log_density(low, 0.0, 1.0)) + inside
        first = answer_probabilities(Normal(), np.array([[0.0, 1.0]]), design)[0, 0]
        chances.append(abs(first - below))
    for errors in (gaps, chances):
        ratios = np.array(errors[:-1]) / np.array(errors[1:])
        assert ratios == pytest.approx([4, 4, 4], rel=0.1)
    assert gaps[-1] < 4e-4 * exact.max()


def test_the_channel_offered_to_people_is_the_grid_of_this_mechanism():
    query = mechanisms.truncated_laplace(-0.5, 1.2, 2.0, steps=16)
    cuts, matrix = TruncatedLaplace(2.0, 16).build((-0.5, 1.2))
    assert query.cuts == pytest.approx(cuts)
    assert np.array(query.channel.weights) / 2**32 == pytest.approx(matrix, abs=1e-9)


def test_the_kernel_is_epsilon_dp():
    """Log densities of one report differ by ε between the most distant values, and never more."""
    density = TruncatedLaplaceDensity(-1.0, 2.0, 1.3)
    y, x = np.linspace(-30, 30, 401), np.array([-1e9, -1.0, 0.3, 2.0, 50.0])
    losses = np.ptp(density.log_kernel(y[:, None], x), axis=1)
    assert losses.max() == pytest.approx(1.3, rel=1e-12)
    mass = integrate.quad(lambda y: np.exp(density.log_kernel(y, 0.3)), -40, 40, points=[0.3])[0]
    assert mass == pytest.approx(1, abs=1e-6)


def privacy_loss_bound(sample, n, rng):
    """A lower bound on ε from how often reports fall below the low end, false at most 1e-6."""
    counts = [int((sample(np.full(n, x), rng) <= -1.0).sum()) for x in (-5.0, 5.0)]
    low = stats.beta.ppf(5e-7, counts[0], n - counts[0] + 1)
    high = stats.beta.isf(5e-7, counts[1] + 1, n - counts[1])
    return math.log(low / high)


def test_an_audit_of_the_sampler_catches_noise_that_is_root_two_too_small():
    density, rng = TruncatedLaplaceDensity(-1.0, 1.0, 1.0), np.random.default_rng(1)
    assert 0.9 < privacy_loss_bound(density.sample, 100_000, rng) <= 1.0

    def published_code(x, rng):  # its Laplace sampler takes a standard deviation for a scale
        return np.clip(x, -1, 1) + rng.laplace(0, density.scale / math.sqrt(2), len(x))

    assert privacy_loss_bound(published_code, 100_000, rng) > 1.3


def test_samples_have_the_density():
    """Kolmogorov and Smirnov, at a false-alarm rate of 1e-6."""
    density, rng = TruncatedLaplaceDensity(49.0, 52.0, 4.0), np.random.default_rng(2)
    y = density.sample(rng.normal(50.5, 1.0, 50_000), rng)
    grid = np.linspace(40, 61, 6001)
    middles = (grid[1:] + grid[:-1]) / 2
    mass = np.exp(density.log_density(middles, 50.5, 1.0)) * np.diff(grid)
    cdf = np.concatenate([[0.0], np.cumsum(mass)])
    assert cdf[-1] == pytest.approx(1, abs=1e-4)
    result = stats.kstest(y, lambda t: np.interp(t, grid, cdf))
    assert result.pvalue > 1e-6
    assert "NOT private" in density.sample.__doc__


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((1.0, 1.0, 1.0), "high"),
        ((2.0, 1.0, 1.0), "high"),
        ((0.0, 1.0, 0.0), "epsilon"),
        ((math.nan, 1.0, 1.0), "low"),
        ((-1e308, 1e308, 1.0), "scale"),
    ],
)
def test_settings_are_checked(arguments, name):
    with pytest.raises(InvalidArgument, match=name):
        TruncatedLaplaceDensity(*arguments)
    with pytest.raises(InvalidType):
        TruncatedLaplaceDensity("0", 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="sd"):
        TruncatedLaplaceDensity(0.0, 1.0, 1.0).fisher_information(0.0, 0.0)
    with pytest.raises(InvalidArgument, match="criterion"):
        best_interval(1.0, lambda information: math.inf)
