"""The clipped mean: bounds from n alone, and a bias that its bound covers."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from confidp import GDP, ClippedMean, confidence_region
from confidp.errors import ConfidpError


def test_the_bounds_depend_on_n_alone():
    ((lower, upper),) = ClippedMean(2.0, center=10.0).for_shape(1000, 1).bounds
    assert (lower + upper) / 2 == pytest.approx(10)
    assert (upper - lower) / 2 == pytest.approx(2 * math.sqrt(2 * math.log(1000)))


@pytest.mark.parametrize("n", [50, 1000, 10**6])
def test_the_bias_bound_covers_the_bias_of_a_normal_population_off_center(n):
    # N(a, s²) with proxy s + a: the worst case that the docstring allows.
    a, s = 0.5, 1.0
    statistic = ClippedMean(proxy=s + a)
    ((lower, upper),) = statistic.for_shape(n, 1).bounds
    beyond, _ = integrate.quad(lambda x: (x - upper) * stats.norm.pdf(x, a, s), upper, np.inf)
    below, _ = integrate.quad(lambda x: (lower - x) * stats.norm.pdf(x, a, s), -np.inf, lower)
    assert abs(beyond - below) <= statistic.bias(n)
    assert statistic.bias(n) < s / math.sqrt(n) / 2


def test_an_interval_for_unbounded_data_says_what_it_assumes():
    data = np.random.default_rng(1).normal(3.0, 1.0, 4000)
    region = confidence_region(
        data, ClippedMean(4.0), budget=GDP(20.0), confidence_level=0.999, rng=2
    )
    assert region.contains(3.0)
    assert region.statistic["statistic"] == "clipped mean"
    assert any("sub-Gaussian" in line for line in region.assumes)


def test_vectors_are_clipped_column_by_column():
    assert len(ClippedMean(1.0).for_shape(100, 3).bounds) == 3


@pytest.mark.parametrize("proxy", [0, -1, math.nan, math.inf, "1", None])
def test_a_bad_proxy_is_refused(proxy):
    with pytest.raises(ConfidpError, match="proxy"):
        ClippedMean(proxy)
