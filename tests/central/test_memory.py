"""Memory stays flat in B: no B × m array is ever made."""

import tracemalloc

import numpy as np
import pytest

from confidp import CRGS, GDP, Mean, confidence_region

N = 50_000
DATA = np.random.default_rng(1).random(N)


def peak(sampling: str, n_resamples: int) -> int:
    tracemalloc.start()
    try:
        confidence_region(
            DATA,
            Mean(bounds=(0, 1)),
            budget=GDP(1.0),
            method=CRGS(sampling, calibration="published"),
            n_resamples=n_resamples,
            rng=1,
        )
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sampling", ["with_replacement", "without_replacement"])
def test_from_100_to_10_000_resamples_the_peak_grows_by_under_50_megabytes(sampling):
    growth = peak(sampling, 10_000) - peak(sampling, 100)
    assert growth < 50e6  # a B × m array of indices would take 370 MB
