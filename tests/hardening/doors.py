"""Every public door of the central half with arguments that are right, for tests to spoil."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import confidp as cdp

SEED = 20261130
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Door:
    """A public callable, and what it is rightly called with."""

    call: Callable[..., Any]
    arguments: Arguments


@cache
def rows(columns: int = 1, n: int = 40) -> np.ndarray:
    values = np.random.default_rng(SEED).random((n, columns))
    values.flags.writeable = False
    return values


def region_of(statistic: Any, columns: int = 1, **settings: Any) -> Any:
    """Release once, charging a ledger (which the test has replaced by a counter)."""
    settings = {
        "budget": cdp.GDP(1.0, 1e-6),
        "n_resamples": 20,
        "ledger": settings.pop("ledger", PAPER),
        **settings,
    }
    data = settings.pop("data", rows(columns))
    return cdp.confidence_region(data, statistic, **settings)


# A ledger that is only a value: `charge` and `record` are replaced by a counter in the test.
PAPER = cdp.Ledger(Path("/nonexistent/paper"), cdp.GDP(1.0), "one row is one person")


def statistic(kind: Callable[..., Any], columns: int, method: Any = "auto", **good: Any) -> Door:
    def call(**arguments: Any) -> Any:
        return region_of(kind(**arguments), columns, method=method)

    return Door(call, good)


def method(kind: Callable[..., Any], of: Any, columns: int = 1, **good: Any) -> Door:
    settings = {"budget": cdp.GDP(8.0, 1e-6)}  # enough for every method to have a plan

    def call(**arguments: Any) -> Any:
        return region_of(of, columns, method=kind(**arguments), **settings)

    return Door(call, good)


def half_square(x: Any, y: Any) -> Any:
    return (x - y) ** 2 / 2


def gradient(theta: Any, records: Any) -> Any:
    return theta - records


def step_gradient(theta: Any, row: Any) -> Any:
    return [a - b for a, b in zip(theta, row, strict=True)]


def hessian(theta: Any, records: Any) -> Any:
    return np.eye(len(theta))


def equal(x: Any, y: Any) -> float:
    return float(x == y)


def reciprocal(n: int) -> float:
    return 1 / n


UNIT = (0.0, 1.0)
MEAN = cdp.Mean(UNIT)
REGION = cdp.ConfidenceRegion(
    (2.5,), 0.5, 0.95, cdp.GDP(1.0, 1e-25), True, "CR-GS", {"statistic": "mean"}, (), {"n": 100}
)
LOGISTIC = cdp.LogisticERM(1.0)

STATISTICS = {
    "Mean": statistic(cdp.Mean, 1, bounds=UNIT, resolution=0.25, name="x", assumes=("a",)),
    "Median": statistic(cdp.Median, 1, bounds=UNIT, resolution=0.25),
    "Quantile": statistic(cdp.Quantile, 1, q=0.25, bounds=UNIT, resolution=0.25),
    "Variance": statistic(cdp.Variance, 1, bounds=UNIT, resolution=0.25),
    "StandardDeviation": statistic(
        cdp.StandardDeviation, 1, bounds=UNIT, floor=0.1, resolution=0.25
    ),
    "Ratio": statistic(cdp.Ratio, 2, bounds=(UNIT, UNIT), floor=0.1, resolution=0.25),
    "Correlation": statistic(
        cdp.Correlation, 2, bounds=(UNIT, UNIT), floors=(0.1, 0.1), resolution=0.25
    ),
    "GiniMeanDifference": statistic(cdp.GiniMeanDifference, 1, bounds=UNIT, resolution=0.25),
    "KendallTau": statistic(cdp.KendallTau, 2, bounds=UNIT, resolution=0.25),
    "WilcoxonSignedRank": statistic(
        cdp.WilcoxonSignedRank, 1, bounds=(-1.0, 1.0), resolution=0.25
    ),
    "ProductKernel": statistic(
        cdp.ProductKernel, 1, bounds=UNIT, resolution=0.25, degenerate=False
    ),
    "ClippedMean": statistic(cdp.ClippedMean, 1, proxy=0.5, center=0.0),
    "Custom": statistic(
        cdp.Custom, 1, function=np.mean, sensitivity=reciprocal, bounds=UNIT,
        scale=np.sqrt, dimension=1, name="x", smooth_sensitivity=None, precision=0.0,
    ),
    "UStatistic": statistic(
        cdp.UStatistic, 1, kernel=half_square, order=2, bounds=UNIT, kernel_range=(0, 0.5),
        degenerate=False, max_tuples=50, vectorized=False, name="x",
    ),
    "FiniteUStatistic": statistic(
        cdp.FiniteUStatistic, 1, kernel=equal, support=(0, 1), degenerate=False, name="x"
    ),
    "ERM": statistic(
        cdp.ERM, 1, regularization=1.0, gradient=gradient, hessian=hessian, lipschitz=2.0,
        bounds=(-1.0, 1.0), dimension=1, name="x",
    ),
    "LogisticERM": statistic(
        cdp.LogisticERM, 2, regularization=1.0, feature_norm=1.0, intercept=True
    ),
    "HuberERM": statistic(
        cdp.HuberERM, 2, regularization=1.0, threshold=1.0, outcome_bounds=UNIT,
        feature_norm=1.0, intercept=True,
    ),
    "AveragedSGD": statistic(
        cdp.AveragedSGD, 1, gradient=step_gradient, lipschitz=2.0, strong_convexity=1.0,
        smoothness=1.0, radius=1.0, bounds=UNIT, center=(0.0,), exponent=0.6, step=None,
        shift=None, name="x",
    ),
    "AveragedSGD.logistic": statistic(
        cdp.AveragedSGD.logistic, 2, regularization=1.0, feature_norm=1.0, intercept=True,
        radius=1.0, exponent=0.6,
    ),
}  # fmt: skip

METHODS = {
    "CRGS": method(
        cdp.CRGS, MEAN, sampling="without_replacement", resample_size=10,
        failure_probability=None, calibration="noise-aware",
    ),
    "CRGS, with": method(
        cdp.CRGS, MEAN, sampling="with_replacement", resample_size=10,
        failure_probability=0.01, calibration="published",
    ),
    "CRSS": method(
        cdp.CRSS, cdp.Median(UNIT), sampling="without_replacement", resample_size=10,
        failure_probability=None, beta=None, shares=(1, 1, 1, 1), calibration="noise-aware",
    ),
    "CRSS, published": method(
        cdp.CRSS, cdp.Median(UNIT), sampling="with_replacement", resample_size=10,
        failure_probability=0.01, beta=0.1, shares=None, calibration="published",
    ),
    "BLBQuant": method(
        cdp.BLBQuant, MEAN, inner_resamples=5, grid_step=0.1, largest_radius=1.0
    ),
    "DetteGraw": method(
        cdp.DetteGraw, MEAN, accounting="numerical", acknowledge_unproved=False
    ),
    "SSVHL25": method(cdp.SSVHL25, MEAN, resample_size=10),
    "PrivateVariance": method(
        cdp.PrivateVariance, cdp.GiniMeanDifference(UNIT), center_share=0.5, shape="box"
    ),
    "PrivateSandwich": method(cdp.PrivateSandwich, LOGISTIC, 2, shape="ball"),
    "Linearised": method(cdp.Linearised, LOGISTIC, 2, resample_size=10),
}  # fmt: skip


ELLIPSOID = replace(REGION, center=(2.5, 1.0), ellipsoid=((2.0, 1.0), (1.0, 3.0)))
BOX = replace(REGION, center=(2.5, 1.0), box=((2.0, 3.0), (0.5, math.inf)))


GENERAL = {
    "confidence_region": Door(
        cdp.confidence_region,
        {
            "data": rows(), "statistic": MEAN, "budget": cdp.GDP(1.0), "confidence_level": 0.9,
            "alternative": "two-sided", "method": "auto", "n_resamples": 20, "missing": "none",
            "ledger": PAPER, "rng": None, "label": "x",
        },
    ),
    "confidence_region, seeded": Door(
        partial(cdp.confidence_region, n_resamples=20),
        {
            "data": rows(), "statistic": MEAN, "budget": cdp.ApproxDP(1.0, 1e-6),
            "method": cdp.CRGS(), "rng": 1, "missing": 0.5,
        },
    ),
    "GDP": Door(cdp.GDP, {"mu": 1.0, "delta": 1e-6}),
    "GDP.epsilon": Door(cdp.GDP(1.0).epsilon, {"delta": 1e-6}),
    "GDP.approx_delta": Door(cdp.GDP(1.0).approx_delta, {"epsilon": 1.0}),
    "GDP.tradeoff": Door(cdp.GDP(1.0).tradeoff, {"alpha": 0.05}),
    "GDP.from_approx_dp": Door(cdp.GDP.from_approx_dp, {"epsilon": 1.0, "delta": 1e-6}),
    "ApproxDP": Door(cdp.ApproxDP, {"epsilon": 1.0, "delta": 1e-6}),
    "ConfidenceRegion.contains": Door(REGION.contains, {"theta": 2.0}),
    "ConfidenceRegion.contains, a box": Door(BOX.contains, {"theta": (2.0, 1.0)}),
    "ConfidenceRegion.contains, an ellipsoid": Door(ELLIPSOID.contains, {"theta": (2.0, 1.0)}),
    "ConfidenceRegion.from_dict": Door(
        cdp.ConfidenceRegion.from_dict, {"fields": REGION.to_dict()}
    ),
    "ClippedMean.bias": Door(cdp.ClippedMean(1.0).bias, {"n": 10}),
}  # fmt: skip
for _key in REGION.to_dict():

    def _changed(value: Any, _key: str = _key) -> Any:
        region = cdp.ConfidenceRegion.from_dict({**REGION.to_dict(), _key: value})
        return region.to_dict(), str(region), repr(region), region.contains([0.0]), region.caution

    GENERAL[f"from_dict[{_key}]"] = Door(_changed, {"value": REGION.to_dict()[_key]})


NEW = "a new path"


def ledger_doors(folder: Path) -> dict[str, Door]:
    """Doors of a real ledger, which the test doesn't replace."""
    ledger = cdp.Ledger.create(folder / "a.ledger", cdp.GDP(1e6))
    counter = iter(range(10**6))

    def create(path: Any, total: Any, unit: Any) -> Any:
        path = folder / f"{next(counter)}" if path is NEW else path
        return cdp.Ledger.create(path, total, unit=unit)

    return {
        "Ledger.create": Door(
            create, {"path": NEW, "total": cdp.GDP(1.0), "unit": "one household"}
        ),
        "Ledger.open": Door(cdp.Ledger.open, {"path": folder / "a.ledger"}),
        "Ledger.charge": Door(ledger.charge, {"cost": cdp.GDP(1e-3), "query": {"a": 1}}),
        "Ledger.charge, a value": Door(
            lambda value: ledger.charge(cdp.GDP(1e-3), {"a": value}), {"value": 1}
        ),
        "Ledger.record": Door(ledger.record, {"number": 1, "released": {"a": 1}}),
        "Ledger.entry": Door(ledger.entry, {"number": 1}),
    }
