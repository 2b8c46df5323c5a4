"""Coverage of CR-GS where its theorem promises it: m small beside n, noise small beside both."""

import numpy as np
import pytest
from scipy.stats import binomtest

from confidp import CRGS, GDP, Mean, confidence_region

FALSE_ALARM = 1e-6
LEVEL, DATA_SETS, N = 0.9, 150, 1000


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("sampling", ["with_replacement", "without_replacement"])
def test_with_little_noise_the_region_covers_what_it_says(columns, sampling):
    rng = np.random.default_rng(17)
    covered = 0
    for _ in range(DATA_SETS):
        region = confidence_region(
            rng.uniform(-1, 1, size=(N, columns)),
            Mean(bounds=(-1, 1)),
            budget=GDP(1000.0),
            confidence_level=LEVEL,
            method=CRGS(sampling, resample_size=50, calibration="published"),
            n_resamples=300,
            rng=rng,
        )
        covered += region.contains(np.zeros(columns))
    # √(1 − m/n) and B = 300 cost less than 0.02 here.
    assert binomtest(covered, DATA_SETS, LEVEL - 0.02, "less").pvalue > FALSE_ALARM
    assert binomtest(covered, DATA_SETS, LEVEL + 0.02, "greater").pvalue > FALSE_ALARM
