"""Floating point: releases lie on public lattices, integer sums hold, sensitivities are true.

A release that isn't a whole multiple of a public step could tell of its input through its low
bits. Sensitivities are attacked by a search over data at the ends of the bounds, beside them, and
at values where floats cancel, underflow or round.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import confidp as cdp
from confidp.central.methods.method import Request
from confidp.privacy import noise
from confidp.randomness import Randomness
from hardening.doors import gradient, hessian

SEED = 20261130

# --- the released numbers are lattice points ---

UNIT = (0.0, 1.0)
CENTERS = {
    "mean": (cdp.Mean(UNIT), "auto", 1),
    "mean, odd bounds": (cdp.Mean((0.1, 0.7)), "auto", 1),
    "means": (cdp.Mean(UNIT), "auto", 3),
    "ellipsoid": (cdp.Mean(UNIT), cdp.PrivateVariance(shape="ellipsoid"), 2),
    "CR-GS": (cdp.Mean(UNIT), cdp.CRGS(), 1),
    "CR-GS, published": (cdp.Mean(UNIT), cdp.CRGS("with_replacement", calibration="published"), 1),
    "CR-SS": (cdp.Median(UNIT), cdp.CRSS(calibration="published"), 1),
    "variance": (cdp.Variance(UNIT), cdp.CRGS(), 1),
    "Huber": (cdp.HuberERM(1.0, 1.0, UNIT), "auto", 2),
    "linearised": (cdp.LogisticERM(1.0), cdp.Linearised(), 2),
    "ratio": (cdp.Ratio((UNIT, UNIT), 0.1), "auto", 2),
    "deviation": (cdp.StandardDeviation(UNIT, 0.1), "auto", 1),
    "Dette-Graw": (cdp.Mean(UNIT), cdp.DetteGraw(), 1),
    "SSVHL25": (cdp.Mean(UNIT), cdp.SSVHL25(), 1),
}


@pytest.mark.parametrize("name", CENTERS)
def test_every_released_number_comes_from_a_lattice_point(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data enter a region only through mechanisms whose outputs are whole multiples of a step.

    So the region made of the recorded outputs has to be the region itself, whatever the data: the
    second run has other data, and gets the first one's outputs.
    """
    statistic, method, columns = CENTERS[name]
    recorded: list[tuple[Any, ...]] = []
    honest = noise.GaussianMechanism.release

    def record(self: Any, values: Any, *more: Any) -> Any:
        out = honest(self, values, *more)
        assert all(isinstance(x, Fraction) for x in out)
        for x in out:  # a multiple of the mechanism's public step
            assert (x / lattice(self)).denominator == 1
        recorded.append(tuple(out))
        return out

    monkeypatch.setattr(noise.GaussianMechanism, "release", record)
    rng = np.random.default_rng(SEED)

    def run(data: np.ndarray) -> cdp.ConfidenceRegion:
        return cdp.confidence_region(
            data, statistic, budget=cdp.GDP(8.0, 1e-6), method=method, n_resamples=30, rng=1
        )

    first = run(rng.random((200, columns)))
    assert recorded
    replay = iter(list(recorded))
    monkeypatch.setattr(noise.GaussianMechanism, "release", lambda *_: list(next(replay)))
    again = run(np.clip(rng.random((200, columns)) * 0.9, 0, 1))
    assert again.to_dict() == first.to_dict()


def lattice(mechanism: Any) -> Fraction:
    return Fraction(mechanism.unit)


# --- integer sums at the extremes of width ---


@pytest.mark.parametrize("n", [2, 3, 1000])
def test_sums_of_the_finest_grid_are_exact_or_refused(n: int) -> None:
    for bits in (30, 40, 51, 52):
        mean = cdp.Mean((0, 2.0**bits), resolution=1)
        rows = np.full((n, 1), 2.0**bits)
        rows[0] = 2.0**bits - 1
        exact = (Fraction(2) ** bits * n - 1) / n
        try:
            fitted = mean.for_shape(n, 1)
        except cdp.InvalidArgument:
            assert n * 2**bits >= 2**62
            continue
        value = fitted.value(fitted.encode(rows))[0]
        assert abs(Fraction(value) - exact) <= fitted.rounding(n)


def test_the_widest_bounds_give_finite_regions() -> None:
    for bounds in ((-1e120, 1e120), (1e119, 1e120), (0, 1e-119), (1e9, 1e9 + 1)):
        rows = np.linspace(*bounds, 50)
        region = cdp.confidence_region(rows, cdp.Mean(bounds), budget=cdp.GDP(1.0), rng=SEED)
        assert all(map(math.isfinite, (*region.center, region.radius)))
        assert region.radius > 0


# --- sensitivities by search ---


def bits_of(low: float, high: float, rng: np.random.Generator) -> list[float]:
    """Return values at which floats go wrong, inside and outside of the bounds."""
    inside = rng.uniform(low, high, 3).tolist()
    near = [math.nextafter(low, math.inf), math.nextafter(high, -math.inf), (low + high) / 2]
    return [low, high, *near, *inside, 5e-324, -5e-324, 1e-300, 1e300, -math.inf, math.inf, 0.0]


CASES = {
    "mean": (cdp.Mean(UNIT), [UNIT]),
    "mean, huge offset": (cdp.Mean((1e9, 1e9 + 1)), [(1e9, 1e9 + 1)]),
    "mean, tiny range": (cdp.Mean((0.1, 0.1 + 1e-9)), [(0.1, 0.1 + 1e-9)]),
    "mean, denormal range": (cdp.Mean((0, 1e-119)), [(0, 1e-119)]),
    "mean, wide": (cdp.Mean((-1e120, 1e120)), [(-1e120, 1e120)]),
    "means": (cdp.Mean((UNIT, (-3, 7))), [UNIT, (-3, 7)]),
    "variance": (cdp.Variance(UNIT), [UNIT]),
    "variance, huge offset": (cdp.Variance((1e12, 1e12 + 1)), [(1e12, 1e12 + 1)]),
    "variance, wide": (cdp.Variance((-1e60, 1e60)), [(-1e60, 1e60)]),
    "Gini": (cdp.GiniMeanDifference((1e9, 1e9 + 1)), [(1e9, 1e9 + 1)]),
    "deviation": (cdp.StandardDeviation(UNIT, 0.01), [UNIT]),
    "deviation, huge offset": (cdp.StandardDeviation((1e9, 1e9 + 1), 1e-3), [(1e9, 1e9 + 1)]),
    "ratio": (cdp.Ratio((UNIT, UNIT), 0.01), [UNIT, UNIT]),
    "ratio, signs": (cdp.Ratio(((-5, 5), (-1, 1)), 1e-3), [(-5, 5), (-1, 1)]),
    "ratio, huge offset": (
        cdp.Ratio(((1e9, 1e9 + 1), (1e9, 1e9 + 1)), 1e9), [(1e9, 1e9 + 1)] * 2
    ),
    "correlation": (cdp.Correlation((UNIT, UNIT), (0.01, 0.3)), [UNIT, UNIT]),
    "correlation, offsets": (
        cdp.Correlation(((1e9, 1e9 + 1), (-1e9, 1 - 1e9)), (0.1, 0.1)),
        [(1e9, 1e9 + 1), (-1e9, 1 - 1e9)],
    ),
    "Kendall": (cdp.KendallTau(UNIT), [UNIT, UNIT]),
    "logistic": (cdp.LogisticERM(0.1), [(-1, 1), (-1, 1)]),
    "logistic, strong": (cdp.LogisticERM(100.0), [(-1, 1), (-1, 1)]),
    "Huber": (cdp.HuberERM(0.1, 1.0, (-1e3, 1e3)), [(-1, 1), (-1e3, 1e3)]),
    "ERM": (cdp.ERM(0.5, gradient, hessian, 2.0, (-1, 1)), [(-1, 1)]),
    "SGD": (cdp.AveragedSGD.logistic(0.5), [(-1, 1), (-1, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_adversarial_record_moves_a_statistic_by_more_than_its_sensitivity(name: str) -> None:
    """Replace a record of base data (equal, two-valued, random) by every awkward one."""
    statistic, bounds = CASES[name]
    rng, worst = np.random.default_rng(SEED), Fraction(0)
    for n in (3, 8):
        fitted = statistic.for_shape(n, len(bounds))
        allowed = Fraction(fitted.sensitivity(n)) + 2 * fitted.rounding(n)
        pools = [bits_of(*pair, rng) for pair in bounds]
        for base in ("low", "high", "middle", "ends", "any"):
            rows = np.empty((n, len(bounds)))
            for j, (low, high) in enumerate(bounds):
                mixed = [low, high] * n
                rows[:, j] = {
                    "low": [low] * n,
                    "high": [high] * n,
                    "middle": [low + (high - low) / 2] * n,
                    "ends": mixed[j : n + j],
                    "any": rng.uniform(low, high, n),
                }[base]
            values = []
            for _ in range(30):
                other = rows.copy()
                other[rng.integers(n)] = [rng.choice(pool) for pool in pools]
                values.append(fitted.value(fitted.encode(other)))
            values.append(fitted.value(fitted.encode(rows)))
            assert np.isfinite(values).all()
            for value in values[:-1]:
                gap = [Fraction(float(a)) - Fraction(float(b)) for a, b in
                       zip(value, values[-1], strict=True)]  # fmt: skip
                square = sum((g * g for g in gap), Fraction(0))
                assert square <= allowed**2
                worst = max(worst, square / allowed**2)
    assert worst > 0


@pytest.mark.parametrize(
    ("kind", "name", "factor"),
    [
        (cdp.Mean, "mean", 0.99),
        (cdp.Mean, "mean, huge offset", 0.99),
        (cdp.Variance, "variance, huge offset", 0.99),
        (cdp.KendallTau, "Kendall", 0.99),
        (cdp.HuberERM, "Huber", 0.5),
        (cdp.StandardDeviation, "deviation", 0.01),
    ],
)
def test_the_search_sees_a_sensitivity_that_is_too_small(
    kind: Any, name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = kind.sensitivity
    monkeypatch.setattr(
        kind, "sensitivity", lambda self, n: Fraction(honest(self, n)) * Fraction(factor)
    )
    with pytest.raises(AssertionError, match=r"Fraction.* <= .*Fraction"):
        test_no_adversarial_record_moves_a_statistic_by_more_than_its_sensitivity(name)


def test_a_mechanisms_output_has_no_more_bits_than_its_lattice() -> None:
    """Inputs that differ below the step give outputs on the same lattice: nothing below it."""
    mechanism = noise.GaussianMechanism(Fraction(1, 3), 1.0)
    source = Randomness.of(SEED)
    steps = {
        (
            mechanism.release([Fraction(1, 3) + Fraction(k, 3**50)], source)[0] / lattice(mechanism)
        ).denominator
        for k in range(100)
    }
    assert steps == {1}


def test_a_plan_knows_its_scales_before_it_sees_data() -> None:
    plan = cdp.CRGS().plan(cdp.Mean(UNIT).for_shape(100, 1), Request(100, 1.0, 0.9, 20))
    assert plan.cost.mu <= 1.0
