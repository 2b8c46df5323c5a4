"""The private covariance: its sensitivity by search, and the ellipsoid's coverage."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from confidp import GDP, ConfidpError, Mean, PrivateVariance, confidence_region
from confidp.central import kernels
from confidp.central.methods.method import Request
from confidp.central.methods.private_covariance import (
    CovarianceMechanism,
    unit_covariance,
    unit_means,
)
from confidp.central.statistics import exact
from confidp.errors import InvalidArgument
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
UNIT = (0.0, 1.0)


def ellipsoid_plan(n, *, bounds, mu=1.0, level=0.9, share=None):
    statistic = Mean(bounds).for_shape(n, len(bounds))
    return PrivateVariance(share, "ellipsoid").plan(statistic, Request(n, mu, level, 1))


def frobenius_squared(rows, other, cells):
    d = len(cells)
    return sum(
        (unit_covariance(rows, cells, j, k) - unit_covariance(other, cells, j, k)) ** 2
        for j, k in itertools.product(range(d), repeat=2)
    )


@pytest.mark.parametrize("most", [3, 2**31 - 1, 2**31, 2**45, 2**62 - 1])
@pytest.mark.parametrize("compiled", [True, False])
def test_moments_are_exact_fractions(monkeypatch, most, compiled):
    loops = kernels if compiled else None
    monkeypatch.setattr(exact, "if_loaded", lambda: loops)
    n, cells = 50, (most, 7)
    rows = np.random.default_rng(1).integers(-most, most + 1, size=(n, 2))
    rows[0] = most, -most
    x, y = (column.tolist() for column in rows.T)
    assert unit_means(rows, cells) == [Fraction(sum(x), n * most), Fraction(sum(y), n * 7)]
    for a, j in ((x, 0), (y, 1)):
        for b, k in ((x, 0), (y, 1)):
            centred = sum((n * u - sum(a)) * (n * v - sum(b)) for u, v in zip(a, b, strict=True))
            expected = Fraction(centred, n * n * (n - 1) * cells[j] * cells[k])
            assert unit_covariance(rows, cells, j, k) == expected


@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(1, 4))
@settings(deadline=None, max_examples=100)
def test_no_neighbours_move_the_covariance_by_more_than_d_over_n(seed, n, d):
    rng = np.random.default_rng(seed)
    cells = tuple(int(c) for c in rng.integers(1, 5, d))
    corners = rng.integers(2, size=(n, d)) * np.array(cells)
    rows = np.where(rng.random((n, 1)) < 0.7, corners, rng.integers(0, np.array(cells) + 1, (n, d)))
    other = rows.copy()
    other[0] = rng.integers(2, size=d) * np.array(cells)
    assert frobenius_squared(rows, other, cells) <= Fraction(d, n) ** 2


@pytest.mark.parametrize("d", [1, 2, 5])
def test_its_sensitivity_is_attained_from_corner_to_corner(d):
    n, cells = 20, (7,) * d
    rows = np.zeros((n, d), dtype=np.int64)
    other = rows.copy()
    other[3] = 7
    assert frobenius_squared(rows, other, cells) == Fraction(d, n) ** 2
    plan = ellipsoid_plan(n, bounds=(UNIT,) * max(d, 2))
    assert plan.spread.sensitivity == Fraction(max(d, 2), n)
    assert plan.center.sensitivity**2 >= Fraction(max(d, 2), n * n)


def test_means_and_covariances_are_exact():
    rng = np.random.default_rng(1)
    records = rng.integers(0, 2**60, size=(50, 2))  # far beyond what int64 sums hold
    cells = (2**60, 2**59)
    scaled = records / np.array(cells)
    means = [float(m) for m in unit_means(records, cells)]
    np.testing.assert_allclose(means, scaled.mean(axis=0), rtol=1e-12)
    entries = [[float(unit_covariance(records, cells, j, k)) for k in (0, 1)] for j in (0, 1)]
    np.testing.assert_allclose(entries, np.cov(scaled.T), rtol=1e-9)
    shifted = records - records.min(axis=0)
    assert unit_covariance(records, cells, 0, 1) == unit_covariance(shifted, cells, 0, 1)


def test_the_noise_is_the_same_in_every_direction_and_as_large_as_stated():
    mechanism = CovarianceMechanism(Fraction(3, 100), 3, mu=2.0)
    assert mechanism.scale == pytest.approx(3 / 100 / 2.0)
    records = np.zeros((100, 3), dtype=np.int64)
    randomness = Randomness.of(5)
    drawn = np.array([mechanism.release(records, (1, 1, 1), randomness) for _ in range(800)])
    for u in np.array([[1, 0, 0], [1, 1, 0], [1, -2, 3]]) / np.sqrt([[1], [2], [14]]):
        along = np.einsum("i,nij,j->n", u, drawn, u) / mechanism.scale
        # n·s² of standard normals is χ²_n.
        tail = stats.chi2.cdf((along**2).sum(), 800)
        assert FALSE_ALARM / 2 < tail < 1 - FALSE_ALARM / 2
    np.testing.assert_array_equal(drawn, drawn.transpose(0, 2, 1))


def test_with_no_noise_to_speak_of_it_is_hotellings_ellipsoid():
    rows = np.random.default_rng(2).uniform(size=(60, 3)) * np.array([1, 10, 100])
    bounds = ((0, 1), (0, 10), (0, 100))
    method = PrivateVariance(shape="ellipsoid")
    region = confidence_region(
        rows, Mean(bounds), budget=GDP(1e7), method=method, confidence_level=0.9, rng=1
    )
    quantile = 3 * 59 / 57 * stats.f.ppf(0.9, 3, 57)
    np.testing.assert_allclose(region.center, rows.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(region.ellipsoid, quantile * np.cov(rows.T) / 60, rtol=1e-4)
    np.testing.assert_allclose(region.public["covariance"], np.cov(rows.T), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mu", [0.2, 1.0])
def test_it_covers_where_both_noises_matter(mu):
    rng = np.random.default_rng(3)
    covered, runs = 0, 150
    for _ in range(runs):
        common = rng.uniform(-1, 1, size=(300, 1))
        rows = (2 * common + rng.uniform(-1, 1, size=(300, 2))) / 3 * np.array([1, 50])
        region = confidence_region(
            rows,
            Mean(((-1, 1), (-50, 50))),
            budget=GDP(mu),
            confidence_level=0.9,
            method=PrivateVariance(shape="ellipsoid"),
            rng=rng,
        )
        covered += region.contains([0, 0])
    assert region.shape == "ellipsoid"
    assert binomtest(covered, runs, 0.9, "less").pvalue > FALSE_ALARM
    assert covered < 0.97 * runs


@given(st.floats(1e-3, 1e3), st.integers(2, 6))
def test_its_parts_compose_to_no_more_than_the_budget(mu, d):
    plan = ellipsoid_plan(50, bounds=(UNIT,) * d, mu=mu)
    total = Fraction(plan.center.mu) ** 2 + Fraction(plan.spread.mu) ** 2
    assert Fraction(mu) ** 2 * (1 - Fraction(2) ** -50) <= total <= Fraction(mu) ** 2
    assert plan.cost.mu == mu
    assert plan.cost.delta >= plan.center.cost.delta + plan.spread.cost.delta


def test_constant_columns_give_a_region_that_holds_them():
    rows = np.full((500, 2), 0.5)
    region = confidence_region(
        rows, Mean(UNIT), budget=GDP(1.0), method=PrivateVariance(shape="ellipsoid"), rng=4
    )
    assert region.contains([0.5, 0.5])
    assert region.radius < 0.05


def test_what_it_cant_do_is_refused():
    method = PrivateVariance(shape="ellipsoid")
    with pytest.raises(InvalidArgument, match="n must be at least 4"):
        confidence_region(np.zeros((3, 2)), Mean(UNIT), budget=GDP(1.0), method=method)
    with pytest.raises(ConfidpError, match="alternative must be 'two-sided'"):
        confidence_region(
            np.zeros((9, 2)), Mean(UNIT), budget=GDP(1.0), method=method, alternative="less"
        )
    with pytest.raises(InvalidArgument, match="shape must be one of box, ellipsoid"):
        PrivateVariance(shape="ball")
