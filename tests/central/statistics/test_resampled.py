"""What a statistic gives on all resamples at once is what it gives on each of them."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from confidp import (
    ERM,
    Correlation,
    GiniMeanDifference,
    HuberERM,
    KendallTau,
    LogisticERM,
    Mean,
    ProductKernel,
    Quantile,
    Ratio,
    StandardDeviation,
    Variance,
    WilcoxonSignedRank,
)
from confidp.central.compiled import if_loaded
from confidp.central.resampling import MultiplicityExceeded, Sampling, multiplicity, resamples
from confidp.central.statistics import u_kernels
from confidp.central.statistics.statistic import (
    Batched,
    SmoothBatched,
    resample,
    resample_smooth,
)
from minimisers import distance_to_exact, exact_gradient, location, named, ready

N = 400
ROWS = np.random.default_rng(1).random((N, 3))
BATCHED = [
    Mean((0, 1)),
    Mean((-5, 1e9), resolution=0.5),
    Mean((0, 1), resolution=1e-12),  # beyond 32 bits
    Mean(((0, 1), (0, 2), (0.2, 0.5))),
    Ratio(((0, 1), (0, 1)), floor=0.1),
    Ratio(((0, 1), (0, 1)), floor=0.499),  # which about half of the resamples fall under
    StandardDeviation((0, 1), floor=0.1),
    StandardDeviation((0, 1), floor=0.289),
    StandardDeviation((0, 0.8), floor=0.1, resolution=1e-12),
    Correlation(((0, 1), (-1, 1)), floors=(0.1, 0.288)),
    Correlation(((0, 1), (0, 0.9)), floors=(0.1, 0.1), resolution=1e-10),
    Variance((0, 1)),
    GiniMeanDifference((0, 1)),
    GiniMeanDifference((0, 1), resolution=0.25),  # with many ties
    WilcoxonSignedRank((-1, 1), resolution=0.25),
    KendallTau((0, 1)),
    KendallTau((0, 1), resolution=0.25),
    Variance((-3, 2.0**31 - 4), resolution=1),  # products just fit
    Variance((-4, 2.0**31 - 4), resolution=1),  # and just don't
    Variance((0, 1), resolution=1e-14),
    ProductKernel((-0.4, 1)),
    ProductKernel((-0.5, 1), resolution=1e-13, degenerate=True),
]
SMOOTH = [
    Quantile(0.5, (0, 1)),
    Quantile([0.1, 0.5, 0.95], (0, 1), resolution=0.1),
    ProductKernel((-0.4, 1)),
    ProductKernel((-0.5, 1), resolution=1e-13, degenerate=True),
]
REFITTED = [LogisticERM(0.05), HuberERM(0.05, 0.4, (-1, 1)), location(bounds=(-9, 9))]


def prepared(statistic, columns):
    fitted = statistic.for_shape(N, columns)
    return fitted, fitted.encode(ROWS[:, :columns])


def columns_of(statistic):
    return len(getattr(statistic, "grids", [0]))


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("statistic", BATCHED, ids=repr)
def test_all_at_once_is_one_by_one_to_the_last_bit(statistic, sampling):
    assert isinstance(statistic, Batched)
    fitted, records = prepared(statistic, columns_of(statistic))
    sets = resamples(N, 150, 40, sampling, np.random.default_rng(2))
    near = fitted.value(records)
    quick, slow = (resample(fitted, records, s, near) for s in (sets, list(sets)))
    assert np.array_equal(quick.values, slow.values)
    assert quick.values.shape == (40, len(near))
    assert quick.multiplicity == slow.multiplicity == max(map(multiplicity, sets))


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("statistic", SMOOTH, ids=repr)
@pytest.mark.parametrize("beta", [0.01, 0.2])
def test_values_and_their_smooth_sensitivity_are_the_same_too(statistic, sampling, beta):
    assert isinstance(statistic, SmoothBatched)
    fitted, records = prepared(statistic, 1)
    sets = resamples(N, 150, 40, sampling, np.random.default_rng(3))
    quick, slow = (resample_smooth(fitted, records, s, beta) for s in (sets, list(sets)))
    assert np.array_equal(quick.values, slow.values)
    assert quick.largest_sensitivity == pytest.approx(slow.largest_sensitivity, rel=1e-12)
    assert np.array_equal(quick.value, fitted.value(records))
    assert quick.sensitivity == fitted.smooth_sensitivity(records, beta)
    assert slow.sensitivity == quick.sensitivity
    assert quick.multiplicity == slow.multiplicity == max(map(multiplicity, sets))


@pytest.mark.parametrize("run", [resample, lambda *given: resample_smooth(*given[:3], 0.1)])
def test_a_multiplicity_beyond_the_bound_is_bottom(run):
    statistic = Mean((0, 1)) if run is resample else Quantile(0.5, (0, 1))
    fitted, records = prepared(statistic, 1)
    sets = resamples(N, 150, 40, Sampling.WITH_REPLACEMENT, np.random.default_rng(4))
    largest = max(map(multiplicity, sets))
    run(fitted, records, replace(sets, bound=largest), fitted.value(records))
    with pytest.raises(MultiplicityExceeded):
        run(fitted, records, replace(sets, bound=largest - 1), fitted.value(records))


def problem(statistic):
    rng = np.random.default_rng(20)
    rows = np.column_stack([rng.normal(size=(400, 3)), rng.random(400) < 0.4])
    if isinstance(statistic, ERM):
        rows = rows[:, :1]
    return ready(statistic, rows)


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("statistic", REFITTED, ids=named)
def test_all_refits_together_are_as_near_as_one_by_one(statistic, sampling):
    statistic, records = problem(statistic)
    sets = resamples(400, 100, 30, sampling, np.random.default_rng(20))
    near = statistic.value(records)
    quick, slow = (resample(statistic, records, s, near) for s in (sets, list(sets)))
    apart = np.linalg.norm(quick.values - slow.values, axis=1)
    assert apart.max() <= 2 * statistic.rounding(100)
    assert quick.multiplicity == slow.multiplicity
    for value, indices in zip(quick.values[:3], sets, strict=False):
        assert distance_to_exact(statistic, records[indices], value) <= statistic.rounding(100)


@pytest.mark.parametrize("statistic", REFITTED, ids=named)
@pytest.mark.parametrize("size", [0.0, 1.0, 100.0])
def test_gradients_on_resamples_are_as_exact_as_stated(statistic, size):
    statistic, records = problem(statistic)
    rng = np.random.default_rng(21)
    near = statistic.value(records)
    gradient_of = statistic._resampled_gradients(records, near, 25)
    error, growth = statistic._gradient_error(25)
    for indices in resamples(400, 25, 2, Sampling.WITH_REPLACEMENT, rng):
        gradient, sample = gradient_of(indices), records[indices]
        for y in (near, near.copy(), near + size * rng.normal(size=len(near))):
            with mpmath.workdps(50), np.errstate(over="ignore"):
                exact = exact_gradient(statistic, sample, [mpmath.mpf(a) for a in y.tolist()])
            computed = gradient(y) + statistic.regularization * y
            apart = np.linalg.norm(computed - np.array(exact, dtype=float))
            assert apart <= error + growth * (np.linalg.norm(y) + statistic._reach)


def test_refits_that_the_whole_datas_hessian_leads_astray_are_found_all_the_same():
    # The data are flat around their minimiser, resamples are not.
    rng = np.random.default_rng(21)
    rows = np.column_stack([rng.normal(size=(60, 2)) * 5, rng.random(60) < 0.5])
    statistic = LogisticERM(1e-3, feature_norm=20.0).for_shape(60, 3)
    records = statistic.encode(rows)
    sets = resamples(60, 6, 40, Sampling.WITH_REPLACEMENT, rng)
    far = statistic.value(records) + 30.0
    together = statistic.resampled(records, sets, far).values
    for indices, value in zip(sets, together, strict=True):
        exact = statistic.value(records[indices])
        assert np.linalg.norm(value - exact) <= 2 * statistic.rounding(6)


@pytest.mark.parametrize("spread", [1, 5, 10**6])
def test_kendalls_tau_is_the_same_without_the_compiled_loops(spread, monkeypatch):
    tau = KendallTau((0, spread), resolution=1).for_shape(200, 2)
    records = np.random.default_rng(21).integers(0, spread + 1, size=(200, 2))
    assert if_loaded() is not None
    compiled = tau.exact(records)
    monkeypatch.setattr(u_kernels, "if_loaded", lambda: None)
    assert tau.exact(records) == compiled
