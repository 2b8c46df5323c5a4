"""What a statistic gives on all resamples at once is what it gives on each of them."""

from dataclasses import replace

import numpy as np
import pytest

from confidp import LogisticERM, Mean, Quantile, Ratio
from confidp.central.resampling import MultiplicityExceeded, Sampling, multiplicity, resamples
from confidp.central.statistics.mean import resampled_sums
from confidp.central.statistics.statistic import (
    Batched,
    SmoothBatched,
    resample,
    resample_smooth,
)

N = 400
ROWS = np.random.default_rng(1).random((N, 3))
BATCHED = [
    Mean((0, 1)),
    Mean((-5, 1e9), resolution=0.5),
    Mean((0, 1), resolution=1e-12),  # beyond 32 bits
    Mean(((0, 1), (0, 2), (0.2, 0.5))),
    Ratio(((0, 1), (0, 1)), floor=0.1),
    Ratio(((0, 1), (0, 1)), floor=0.499),  # which about half of the resamples fall under
]
QUANTILES = [Quantile(0.5, (0, 1)), Quantile([0.1, 0.5, 0.95], (0, 1), resolution=0.1)]


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
@pytest.mark.parametrize("statistic", QUANTILES, ids=repr)
@pytest.mark.parametrize("beta", [0.01, 0.2])
def test_quantiles_and_their_sensitivity_are_the_same_too(statistic, sampling, beta):
    assert isinstance(statistic, SmoothBatched)
    fitted, records = prepared(statistic, 1)
    sets = resamples(N, 150, 40, sampling, np.random.default_rng(3))
    near = fitted.value(records)
    quick, slow = (resample_smooth(fitted, records, s, near, beta) for s in (sets, list(sets)))
    assert np.array_equal(quick.values, slow.values)
    assert quick.smooth_sensitivity == pytest.approx(slow.smooth_sensitivity, rel=1e-12)
    assert quick.multiplicity == slow.multiplicity == max(map(multiplicity, sets))


@pytest.mark.parametrize("run", [resample, lambda *given: resample_smooth(*given, 0.1)])
def test_a_multiplicity_beyond_the_bound_is_bottom(run):
    statistic = Mean((0, 1)) if run is resample else Quantile(0.5, (0, 1))
    fitted, records = prepared(statistic, 1)
    sets = resamples(N, 150, 40, Sampling.WITH_REPLACEMENT, np.random.default_rng(4))
    largest = max(map(multiplicity, sets))
    run(fitted, records, replace(sets, bound=largest), fitted.value(records))
    with pytest.raises(MultiplicityExceeded):
        run(fitted, records, replace(sets, bound=largest - 1), fitted.value(records))


@pytest.mark.parametrize("m", [200, 255, 256, 3000])
def test_multiplicities_that_no_byte_can_hold_are_exact(m):
    # One record, drawn m times.
    sets = resamples(1, m, 2, Sampling.WITH_REPLACEMENT, np.random.default_rng(5))
    totals, kappa = resampled_sums(np.array([[7]]), sets)
    assert totals.tolist() == [[7 * m], [7 * m]]
    assert kappa == m


@pytest.mark.parametrize("sampling", Sampling)
def test_all_refits_together_are_as_near_as_one_by_one(sampling):
    rng = np.random.default_rng(20)
    rows = np.column_stack([rng.normal(size=(400, 3)), rng.random(400) < 0.4])
    statistic = LogisticERM(0.05).for_shape(400, 4)
    records = statistic.encode(rows)
    sets = resamples(400, 100, 30, sampling, rng)
    near = statistic.value(records)
    quick, slow = (resample(statistic, records, s, near) for s in (sets, list(sets)))
    apart = np.linalg.norm(quick.values - slow.values, axis=1)
    assert apart.max() <= 2 * statistic.rounding(100)
    assert quick.multiplicity == slow.multiplicity


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
