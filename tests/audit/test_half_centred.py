"""An attack on half-centred resampling: all that it releases leaks no more than (μ, δ) says.

Everyone says the most, or person 0 the least: the statistic moves by about all it can. δ is 1e-6
here and the rates that are measured are thousands of times larger, so a lower bound on μ that
ignores δ is off by less than 0.001.
"""

from dataclasses import replace

import numpy as np

from audit.harness import mu_lower_bound
from confidp import HalfCentred, ProductKernel
from confidp.central.methods.method import Request
from confidp.central.methods.ptr_gdp import PTRGDP
from confidp.randomness import Randomness

N, MU, DELTA, RUNS, SLACK = 40, 2.0, 1e-6, 800, 1e-3
OS = Randomness.of(None)
STATISTIC = ProductKernel((-1, 1), resolution=1, degenerate=True).for_shape(N, 1)
PLAN = HalfCentred().plan(STATISTIC, Request(N, MU, 0.9, 5, DELTA))


def leak(plan=PLAN, times=1):
    everyone = np.ones((N, 1))
    other = everyone.copy()
    other[0] = -1

    def released(rows):
        records = STATISTIC.encode(rows)

        def run():
            out = plan.release(records, OS)
            noises = np.log([out.public["center_noise"], out.public["radius_noise"]])
            return np.array([out.center[0], out.radius, *noises])

        return run

    return mu_lower_bound(released(everyone), released(other), RUNS * times)


def with_budget(ptr: PTRGDP, times: float) -> PTRGDP:
    """The same bound and value with so much more μ each: so much less noise."""
    return PTRGDP(ptr.beta, ptr.mu_bound * times, ptr.mu_value * times, ptr.delta)


def test_all_it_releases_leaks_no_more_than_mu_and_a_good_part_of_it():
    assert 0.1 < leak(times=2) <= MU + SLACK


def test_an_eighth_of_the_noise_on_the_center_is_caught():
    assert leak(replace(PLAN, center=with_budget(PLAN.center, 8))) > MU
