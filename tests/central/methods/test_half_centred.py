"""Half-centred resampling: its pivots, their sensitivity by brute force, its law, its coverage."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from confidp import GDP, Mean, ProductKernel, confidence_region
from confidp.central.methods.half_centred import HalfCentred, HalfCentredPlan, twice_centred
from confidp.central.methods.method import Request
from confidp.central.resampling import Sampling, resamples
from confidp.errors import ConfidpError, InvalidArgument, InvalidType

FALSE_ALARM = 1e-6


def plan_for(n, *, mu=1.0, delta=1e-6, n_resamples=50, bounds=(-1, 1), resolution=None):
    kernel = ProductKernel(bounds, resolution, degenerate=True).for_shape(n, 1)
    return HalfCentred().plan(kernel, Request(n, mu, 0.9, n_resamples, delta))


@pytest.mark.parametrize("n", [10, 11])
def test_the_pivots_are_the_stated_ones(n):
    rng = np.random.default_rng(1)
    x, m = rng.uniform(2, 5, n), n // 2
    plan = plan_for(n, bounds=(2, 5))
    records = plan.statistic.encode(x[:, None])
    sets = list(resamples(2 * m, m, 20, Sampling.WITHOUT_REPLACEMENT, rng))
    private = plan.pivots(records, twice_centred(records, sets))
    centred = np.array([x[s].sum() - x[: 2 * m].sum() / 2 for s in sets])
    expected = (2 * centred**2 - ((x - x.mean()) ** 2).sum() / 2) / (n * (m - 1))
    assert private.pivots[:, 0] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    r, beta = 3.0, plan.radius.beta
    at = r * (2 * np.abs(centred).max() + r)
    stated = max(
        math.exp(-beta * k) * min(r**2 * (m + 1), at + k * r**2) / (n * (m - 1)) for k in range(99)
    )
    assert private.radius_bound == pytest.approx(stated, rel=1e-6)
    own = plan.statistic.smooth_sensitivity(records, plan.center.beta)
    assert private.center_bound == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 2)])
@pytest.mark.parametrize("n", [4, 5])
def test_over_all_data_sets_the_bound_holds_and_is_smooth(n, bounds):
    # Rows keep their order, so every row of every data set of a grid of three is replaced.
    plan, m = plan_for(n, mu=100.0, bounds=bounds, resolution=1), n // 2
    sets = [np.array(s) for s in combinations(range(2 * m), m)][:4]
    beta = plan.radius.beta
    found = {}
    for data in product(range(3), repeat=n):
        records = np.array(data)[:, None]
        private = plan.pivots(records, twice_centred(records, sets))
        found[data] = private.pivots[:, 0], private.radius_bound
    tightest = 0.0
    for data, (pivots, bound) in found.items():
        for position, value in product(range(n), range(3)):
            other = (*data[:position], value, *data[position + 1 :])
            moved = np.abs(pivots - found[other][0]).max()
            assert moved <= bound * (1 + 1e-9)
            assert bound <= math.exp(beta) * found[other][1] * (1 + 1e-9)
            tightest = max(tightest, moved / bound)
    assert tightest > 0.6  # no far-off bound


@given(st.integers(4, 40), st.integers(0, 2**32), st.floats(0.01, 100))
@settings(deadline=None, max_examples=100)
def test_no_single_half_moves_beyond_the_bound_on_its_own_local_sensitivity(n, seed, far):
    # The bracket at k = 0, R(2|T| + R)/(n(m − 1)), half by half and on a fine grid.
    rng, m = np.random.default_rng(seed), n // 2
    plan = plan_for(n, bounds=(-far, 3 * far))
    r = 4 * far
    x = rng.choice([-far, 3 * far, 0.3 * far], (n + 1, 1), p=[0.45, 0.45, 0.1])
    other = x[:n].copy()
    other[rng.integers(n)] = x[n]
    sets = list(resamples(2 * m, m, 5, Sampling.WITHOUT_REPLACEMENT, rng))
    pivots, twice = [], []
    for rows in (x[:n], other):
        records = plan.statistic.encode(rows)
        twice.append(twice_centred(records, sets))
        pivots.append(plan.pivots(records, twice[-1]).pivots[:, 0])
    step = float(plan.statistic.grids[0].step)
    smaller = np.minimum(*np.abs(np.array(twice, dtype=float))) * step
    allowed = r * (smaller + r) / (n * (m - 1))
    assert (np.abs(pivots[0] - pivots[1]) <= allowed * (1 + 1e-9)).all()
    assert np.abs(np.array(twice[0]) - np.array(twice[1])).max() * step <= r * (1 + 1e-9)


def test_its_pivots_have_the_law_of_the_error_and_plain_pivots_have_not():
    # n·θ̂/σ² is about Z² − 1: the 0.9 quantile of |Z² − 1| is that of a χ² less 1.
    n, rng = 2000, np.random.default_rng(2)
    plan = plan_for(n, n_resamples=4000)
    ratios = []
    for _ in range(5):
        x = rng.uniform(-1, 1, (n, 1))
        records = plan.statistic.encode(x)
        sets = resamples(n, n // 2, 4000, Sampling.WITHOUT_REPLACEMENT, rng)
        pivots = plan.pivots(records, twice_centred(records, sets)).pivots[:, 0]
        ratios.append(np.quantile(np.abs(pivots), 0.9) * n / x.var())
    assert np.mean(ratios) == pytest.approx(chi2.isf(0.1, 1) - 1, rel=0.05)


@pytest.mark.parametrize("mu", [1.0, 8.0])
def test_it_covers_where_the_kernel_is_degenerate(mu):
    n, rng, data_sets = 1000, np.random.default_rng(3), 150
    covered, radii = 0, []
    for _ in range(data_sets):
        region = confidence_region(
            rng.uniform(-0.5, 0.5, n),
            ProductKernel((-0.5, 0.5), degenerate=True),
            budget=GDP(mu, 1e-6),
            confidence_level=0.9,
            method=HalfCentred(),
            n_resamples=200,
            rng=rng,
        )
        covered += region.contains(0.0)
        radii.append(region.radius)
    assert binomtest(covered, data_sets, 0.88, "less").pvalue > FALSE_ALARM
    non_private = (chi2.isf(0.1, 1) - 1) / 12 / n
    assert np.mean(radii) < (2.6 if mu == 1.0 else 1.15) * non_private


def test_it_does_not_cover_where_the_kernel_is_not_and_says_so_with_what_does():
    n, rng, covered, by_mean = 2000, np.random.default_rng(4), 0, 0
    for _ in range(60):
        x = rng.uniform(-0.45, 0.55, n)  # E X = 0.05
        region = confidence_region(
            x,
            ProductKernel((-0.6, 0.6), degenerate=True),
            budget=GDP(8.0, 1e-6),
            confidence_level=0.9,
            method=HalfCentred(),
            n_resamples=100,
            rng=rng,
        )
        covered += region.contains(0.05**2)
        low, high = confidence_region(
            x, Mean((-0.6, 0.6)), budget=GDP(8.0), confidence_level=0.9, rng=rng
        ).interval
        least = 0.0 if low < 0 < high else min(low**2, high**2)
        by_mean += least <= 0.05**2 <= max(low**2, high**2)
    assert binomtest(covered, 60, 0.6, "less").pvalue < FALSE_ALARM
    assert binomtest(by_mean, 60, 0.89, "less").pvalue > FALSE_ALARM
    said = " ".join(region.assumes)
    assert "E X = 0 exactly" in said
    assert "square the ends of Mean" in said
    assert "ProductKernel(bounds) by CRGS()" in said


@given(st.floats(1e-3, 1e4), st.floats(1e-12, 0.5), st.integers(4, 10**6))
@settings(deadline=None)
def test_the_parts_compose_to_the_budget_and_a_part_has_its_least_noise(mu, delta, n):
    plan = plan_for(n, mu=mu, delta=delta)
    parts = [plan.center.mu_bound, plan.center.mu_value, plan.radius.mu_bound, plan.radius.mu_value]
    total = sum(Fraction(part) ** 2 for part in parts)
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -45) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert plan.cost.delta <= delta
    for part, share in ((plan.center, 0.4), (plan.radius, 0.6)):
        assert part.mu_bound**2 + part.mu_value**2 == pytest.approx(share * mu**2)
        assert part.beta <= 1 / math.sqrt(n) * (1 + 1e-12)
        if part.beta < 0.999 / math.sqrt(n):
            assert part.log_inflation == pytest.approx(1.0, rel=1e-6)
        else:
            assert part.log_inflation <= 1 + 1e-6
            used = part.mu_bound**2 / (share * mu**2)
            scale = part.log_inflation * math.sqrt(used)

            def noise(x, scale=scale):
                return scale / math.sqrt(x) - math.log1p(-x) / 2

            assert noise(used) <= min(noise(used * 0.99), noise(min(used * 1.01, 0.999))) + 1e-9


def test_lower_and_upper_bounds_end_at_what_a_square_can_be():
    x = np.random.default_rng(5).uniform(-0.5, 0.5, 400)
    kernel = ProductKernel((-0.5, 1), degenerate=True)
    for side, end in (("greater", 1.0), ("less", 0.0)):
        region = confidence_region(
            x,
            kernel,
            budget=GDP(8.0, 1e-6),
            method=HalfCentred(),
            n_resamples=50,
            alternative=side,
        )
        low, high = region.interval
        assert low <= high
        assert (high if side == "greater" else low) == end


@pytest.mark.parametrize(
    ("statistic", "budget", "error", "says"),
    [
        (Mean((0, 1)), GDP(1.0, 1e-6), InvalidType, "a product kernel, and mean has none"),
        (ProductKernel((0, 1)), GDP(1.0, 1e-6), InvalidArgument, "degenerate=True.*CRGS"),
        (ProductKernel((-1, 1), degenerate=True), GDP(1.0), InvalidArgument, "delta above"),
    ],
)
def test_what_it_cannot_do_is_refused(statistic, budget, error, says):
    with pytest.raises(error, match=says):
        confidence_region(np.zeros(10), statistic, budget=budget, method=HalfCentred())


def test_too_few_records_are_refused():
    with pytest.raises(ConfidpError, match="n must be at least 4"):
        plan_for(3)
    assert isinstance(plan_for(4), HalfCentredPlan)
