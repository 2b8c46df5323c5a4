"""The short version of Table 3: the script's own code on fewer data sets."""

import pytest
from papers.one_shot_private_confidence_regions.table_3 import (
    EXPERIMENTS,
    METHODS,
    printed,
    run_cell,
)
from scipy.stats import binomtest, norm

FALSE_ALARM = 1e-6
N, DATA_SETS = 2000, 60


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_lengths_are_those_printed_and_coverage_is_compatible(experiment, method):
    cell = run_cell(experiment, N, method, DATA_SETS)
    coverage, length = printed()[experiment, N, method]
    assert len(cell.lengths) == DATA_SETS
    # Within 3% of the printed length, plus this run's own Monte Carlo error.
    slack = norm.isf(FALSE_ALARM / 2) * cell.length_error
    assert abs(cell.lengths.mean() - length) <= 0.03 * length + slack
    # The printed coverage itself is of 400 data sets: allow it its own error too.
    assert binomtest(cell.covered, DATA_SETS, coverage - 0.03).pvalue > FALSE_ALARM
