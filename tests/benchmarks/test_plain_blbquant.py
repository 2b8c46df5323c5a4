"""The plain BLBQuant is the same algorithm as ours: its intervals are alike."""

import math

import numpy as np
import pytest
from plain_blbquant import plain_blbquant
from scipy.stats import ks_2samp

from confidp import BLBQuant, Mean, Median
from confidp.central.methods.method import Request
from confidp.randomness import Randomness

N, LEVEL, RUNS, FALSE_ALARM = 600, 0.9, 25, 1e-6 / 4  # four comparisons


@pytest.mark.parametrize(("statistic", "median"), [(Mean((-1, 1)), False), (Median((-1, 1)), True)])
def test_centers_and_radii_have_the_law_of_ours(statistic, median):
    data = np.random.default_rng(1).uniform(-1, 1, N)
    one = statistic.for_shape(N, 1)
    records = one.encode(data[:, None])
    plan = BLBQuant(grid_step=1 / N).plan(one, Request(N, 8.0, LEVEL, 100))
    epsilon = plan.search.epsilon
    rng = np.random.default_rng(2)
    plain = [plain_blbquant(data, median, epsilon, LEVEL, 100, 1 / N, rng) for _ in range(RUNS)]
    ours = [plan.release(records, Randomness.of(seed)) for seed in range(RUNS)]
    centers, radii = zip(*plain, strict=True)
    assert ks_2samp(radii, [release.radius for release in ours]).pvalue > FALSE_ALARM
    assert ks_2samp(centers, [release.center[0] for release in ours]).pvalue > FALSE_ALARM


def test_the_radius_is_infinite_where_none_is_enough():
    rng = np.random.default_rng(3)
    data = rng.uniform(-1, 1, N)
    # No share is above 1, and noise at this epsilon doesn't matter.
    center, radius = plain_blbquant(data, False, 1e4, 1.0, 20, 0.01, rng)
    assert (center, radius) == (pytest.approx(data.mean(), abs=1e-3), math.inf)
