"""PTR-GDP: the printed formulas, the chance that its bound falls short, and its cost."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from confidp.central.methods.ptr_gdp import PTRGDP
from confidp.errors import ConfidpError
from confidp.privacy.noise import lattice_delta
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
OS = Randomness.of(None)


def test_the_bound_is_lognormal_as_printed():
    ptr = PTRGDP(beta=0.5, mu_bound=2.0, mu_value=1.0, delta=1e-3)
    logs = np.log([ptr.release_bound(3.0, OS) for _ in range(4000)])
    shift = math.log(3.0) + 0.25 * stats.norm.isf(1e-3)
    assert stats.kstest((logs - shift) / 0.25, "norm").pvalue > FALSE_ALARM


def test_the_bound_falls_short_of_the_sensitivity_with_probability_delta():
    ptr = PTRGDP(beta=0.5, mu_bound=1.0, mu_value=1.0, delta=0.05)
    short = sum(ptr.release_bound(3.0, OS) < 3.0 for _ in range(4000))
    assert stats.binomtest(short, 4000, 0.05).pvalue > FALSE_ALARM


def test_the_value_has_noise_of_bound_over_mu():
    ptr = PTRGDP(beta=0.1, mu_bound=1.0, mu_value=0.5, delta=1e-3, dimension=2)
    scaled = []
    for _ in range(2000):
        value, bound = ptr.release([Fraction(1), Fraction(-4)], 0.25, OS)
        scaled += [float(value[0] - 1) / bound * 0.5, float(value[1] + 4) / bound * 0.5]
    assert stats.kstest(scaled, "norm").pvalue > FALSE_ALARM


def test_the_cost_is_that_of_the_lemma_and_three_lattices():
    cost = PTRGDP(beta=0.1, mu_bound=0.75, mu_value=1.0, delta=1e-9, dimension=2).cost
    assert cost.mu == 1.25
    assert 1e-9 < cost.delta <= 1e-9 + 3 * lattice_delta(1.0) + 1e-24


@pytest.mark.parametrize("smooth", [1e-320, 1e-250, 1.0, 1e250])
def test_no_sensitivity_overflows(smooth):
    ptr = PTRGDP(beta=5.0, mu_bound=0.1, mu_value=0.1, delta=1e-300)
    (value,), bound = ptr.release([Fraction(0)], smooth, OS)
    assert 0 < bound < math.inf
    assert value.denominator > 0


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"beta": 0}, "beta"),
        ({"beta": math.inf}, "beta"),
        ({"delta": 0}, "delta"),
        ({"delta": 0.6}, "delta"),
        ({"mu_bound": 0}, "mu"),
    ],
)
def test_parameters_out_of_range_are_refused(changed, name):
    with pytest.raises(ConfidpError, match=name):
        PTRGDP(**{"beta": 0.1, "mu_bound": 1.0, "mu_value": 1.0, "delta": 1e-6, **changed})
