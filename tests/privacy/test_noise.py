"""Noise: its scale, its lattice, its distribution, and the bound on the lattice's δ₀."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confidp.errors import ConfidpError, InvalidArgument
from confidp.privacy.noise import (
    LARGEST_MU,
    LATTICE_BITS,
    GaussianMechanism,
    lattice_delta,
    to_float,
)
from confidp.randomness import Randomness

OS = Randomness.of(None)
FALSE_ALARM = 1e-6

sensitivities = st.builds(
    lambda bits, odd: Fraction(odd) * Fraction(2) ** bits,
    st.integers(-900, 900),
    st.integers(1, 2**60),
)
mus = st.floats(1e-12, LARGEST_MU)


@given(sensitivities, mus, st.integers(1, 50))
def test_the_scale_covers_the_sensitivity_and_the_rounding_to_the_lattice(delta, mu, dimension):
    mechanism = GaussianMechanism(delta, mu, dimension)
    unit = Fraction(2) ** mechanism.exponent
    # (Δ + √d units)/μ ≤ scale, squared to stay rational.
    slack = Fraction(mechanism.lattice_scale) * unit * Fraction(mu) - delta
    assert slack > 0
    assert slack**2 >= dimension * unit**2


@given(sensitivities, mus)
def test_the_scale_is_no_more_than_it_must_be(delta, mu):
    mechanism = GaussianMechanism(delta, mu)
    scale = Fraction(mechanism.lattice_scale) * Fraction(2) ** mechanism.exponent
    # One lattice unit, 2^-44 of Δ/μ, on top of Δ; and a float's rounding.
    assert scale <= (delta / Fraction(mu)) * (1 + Fraction(2) ** -50) + Fraction(
        2
    ) ** mechanism.exponent * (1 / Fraction(mu)) * (1 + Fraction(2) ** -50)


@given(sensitivities, mus, st.integers(1, 50))
def test_the_lattice_is_as_fine_as_the_proof_needs(delta, mu, dimension):
    assert GaussianMechanism(delta, mu, dimension).lattice_scale >= 2**LATTICE_BITS


@given(mus, st.integers(1, 1000))
def test_the_cost_is_mu_and_the_lattices_delta_for_each_coordinate(mu, dimension):
    cost = GaussianMechanism(Fraction(1), mu, dimension).cost
    assert cost.mu == mu
    assert cost.delta == lattice_delta(mu, dimension) > dimension * lattice_delta(mu) * 0.999


@pytest.mark.parametrize("mu", [1e-3, 0.25, 1.0, 8.0, 50.0, 1e6, LARGEST_MU])
def test_the_stated_delta_is_not_below_the_proofs(mu):
    with mpmath.workdps(60):
        s, z = mpmath.mpf(2) ** LATTICE_BITS, mpmath.mpf(mu) + 11
        proved = (
            mpmath.expm1(z**2 / (24 * s**2))
            + 2 * mpmath.ncdf(mpmath.mpf("-10.99"))
            + (1 + 1 / (2 * s)) ** 2 / (24 * s**2)
        )
        assert proved <= lattice_delta(mu) <= 1.05 * proved


def exact_delta(scale: int, shift: int) -> mpmath.mpf:
    """Return sup_α G_{v/s}(α) − T(P_0, P_1)(α) for discrete Gaussians, by Neyman-Pearson.

    The worst test rejects for k ≥ t: both curves are compared at P_0's own false-positive rates,
    where T is exact; between them T is linear and G convex, so the gap is largest there.
    """
    with mpmath.workdps(50):
        mu = mpmath.mpf(shift) / scale
        reach = int((mu + 14) * scale)
        mass = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2)) for k in range(reach + 1)]
        total = 2 * mpmath.fsum(mass) - mass[0]
        upper = [mpmath.mpf(0)]  # upper[i] = P(k ≥ reach + 1 − i), for k ≥ 0
        for weight in reversed(mass):
            upper.append(upper[-1] + weight / total)

        def tail(t: int) -> mpmath.mpf:  # P_0(k ≥ t)
            if t > reach:
                return mpmath.mpf(0)
            return upper[reach + 1 - t] if t >= 0 else 1 - tail(1 - t)

        worst = mpmath.mpf(0)
        for t in range(-5 * scale, int((mu + 5) * scale), max(scale // 4, 1)):
            alpha, missed = tail(t), 1 - tail(t - shift)
            quantile = -mpmath.sqrt(2) * mpmath.erfinv(2 * alpha - 1)
            worst = max(worst, mpmath.ncdf(quantile - mu) - missed)
        return worst


@pytest.mark.parametrize(("scale", "shift"), [(4, 4), (8, 4), (8, 32), (16, 16), (32, 8)])
def test_the_proofs_bound_holds_where_the_lattice_is_coarse_enough_to_see(scale, shift):
    mu = shift / scale
    bound = 1.01 * ((mu + 11) ** 2 + 1) / (24 * scale**2) + 2 * stats.norm.cdf(-10.99)
    exact = float(exact_delta(scale, shift))
    assert exact <= bound
    assert exact > 0  # the lattice isn't free: a bound of 0 would fail


@given(st.fractions(-1000, 1000), st.integers(0, 2**32))
@settings(max_examples=50)
def test_every_release_lies_on_the_lattice(value, seed):
    mechanism = GaussianMechanism(Fraction(1, 3), 0.7)
    (noisy,) = mechanism.release([value], Randomness.of(seed))
    assert (noisy / Fraction(2) ** mechanism.exponent).denominator == 1


def test_the_low_bits_of_a_private_release_carry_nothing():
    # A value off the lattice must not shift which lattice points appear: parity is a fair coin.
    mechanism = GaussianMechanism(Fraction(1, 3), 1.0, dimension=4000)
    unit = Fraction(2) ** mechanism.exponent
    for value in (Fraction(0), Fraction(1, 3), Fraction(10**6, 7)):
        noisy = mechanism.release([value] * 4000, OS)
        for bit in (0, 1, 5):
            ones = sum(int(x / unit) >> bit & 1 for x in noisy)
            assert stats.binomtest(ones, 4000).pvalue > FALSE_ALARM


@pytest.mark.parametrize("randomness", [OS, Randomness.of(11)], ids=["exact", "seeded"])
def test_noise_is_normal_with_the_stated_scale(randomness):
    draws = 20_000
    mechanism = GaussianMechanism(Fraction(3), 0.5, dimension=draws)
    noisy = mechanism.release([Fraction(10)] * draws, randomness)
    z = np.array([float(x - 10) for x in noisy]) / mechanism.scale
    assert stats.kstest(z, "norm").pvalue > FALSE_ALARM
    # A scale off by √2, the classic slip, is far outside this interval for the variance.
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws) / draws
    assert low < np.mean(z**2) < high
    assert not low < np.mean(z**2) * 2 < high
    assert not low < np.mean(z**2) / 2 < high


def test_coordinates_get_independent_noise():
    draws = 20_000
    mechanism = GaussianMechanism(Fraction(1), 1.0, dimension=draws)
    z = np.array([float(x) for x in mechanism.release([Fraction(0)] * draws, OS)])
    assert len(set(z.tolist())) == draws
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(
        draws
    )


def test_values_beyond_64_bits_are_released_exactly_on_the_lattice():
    mechanism = GaussianMechanism(Fraction(1), 1e6)
    far = Fraction(2) ** 200
    (noisy,) = mechanism.release([far], OS)
    assert abs(noisy - far) < 40 * Fraction(mechanism.scale)


def test_private_noise_differs_from_run_to_run_and_seeded_noise_does_not():
    mechanism = GaussianMechanism(Fraction(1), 1.0)
    zero = [Fraction(0)]
    assert mechanism.release(zero, OS) != mechanism.release(zero, OS)
    seeded = [mechanism.release(zero, Randomness.of(5)) for _ in range(2)]
    assert seeded[0] == seeded[1]


@pytest.mark.parametrize("mu", [0, -1, float("nan"), float("inf"), 2 * LARGEST_MU, "1", None, True])
def test_a_mu_outside_the_proof_is_refused(mu):
    with pytest.raises(ConfidpError, match="mu"):
        GaussianMechanism(Fraction(1), mu)


def test_a_sensitivity_of_zero_and_a_wrong_dimension_are_refused():
    with pytest.raises(ValueError, match="sensitivity"):
        GaussianMechanism(Fraction(0), 1.0)
    with pytest.raises(ValueError, match="entries"):
        GaussianMechanism(Fraction(1), 1.0, dimension=2).release([Fraction(0)], OS)


def test_huge_and_tiny_scales_do_not_overflow():
    assert math.isinf(to_float(Fraction(10) ** 400))
    assert to_float(-(Fraction(10) ** 400)) == -math.inf
    for sensitivity in (Fraction(10) ** 300, Fraction(1, 10**300)):
        mechanism = GaussianMechanism(sensitivity, 1e-9)
        assert mechanism.release([Fraction(0)], OS)


@pytest.mark.parametrize("sensitivity", [1, Fraction(1, 3), 10**20])  # the last on a coarse lattice
def test_steps_of_whole_numbers_are_those_of_fractions(sensitivity):
    mechanism = GaussianMechanism(Fraction(sensitivity), 0.7, 3)
    values = [5, -(10**18) - 1, 0]
    steps = mechanism.release_steps(values, Randomness.of(3))
    assert steps == mechanism.release_steps([Fraction(x) for x in values], Randomness.of(3))
    released = mechanism.release([Fraction(x) for x in values], Randomness.of(3))
    assert released == tuple(step * mechanism.unit for step in steps)
    noise = [float(x - value) / mechanism.scale for x, value in zip(released, values, strict=True)]
    assert 0 < max(map(abs, noise)) < 6


def test_a_budget_whose_noise_no_float_holds_is_refused():
    with pytest.raises(InvalidArgument, match="mu must be larger"):
        GaussianMechanism(Fraction(1, 1000), mu=5e-324, dimension=2)
