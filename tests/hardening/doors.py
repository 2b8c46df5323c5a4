"""Every public door of the library with arguments that are right, for tests to spoil one by one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import confidp as cdp
from confidp import local
from confidp.local.vector import VectorQuery, VectorReport

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
    "PrivateVariance": method(cdp.PrivateVariance, MEAN, center_share=0.5, shape="box"),
    "PrivateSandwich": method(cdp.PrivateSandwich, LOGISTIC, 2, shape="ball"),
    "Linearised": method(cdp.Linearised, LOGISTIC, 2, resample_size=10),
}  # fmt: skip


def contains(theta: Any) -> Any:
    return REGION.contains(theta)


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
    "contains": Door(contains, {"theta": 2.0}),
    "from_dict": Door(cdp.ConfidenceRegion.from_dict, {"fields": REGION.to_dict()}),
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


# --- local ---

SIGN = local.sign_response(0.0, 1.0)
VECTOR = VectorQuery(2, (0,), (SIGN,), 1.0)
VECTOR_REPORT = VECTOR.privatize([0.3, 0.2], epsilon_limit=2.0)
REPORT = SIGN.privatize(0.3)


def collected(kind: Any, report: Any = None) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        collector = kind(**arguments)
        collector.query()
        return collector

    return call


def mechanism(kind: Any, knots: Any) -> Callable[..., Any]:
    return lambda knots=knots, **arguments: kind(**arguments).queries(knots)


def criterion(kind: Any) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        return local.Collector(
            local.Normal(), epsilon=1.0, criterion=kind(**arguments), n_particles=20, rng=1
        ).query()

    return call


def population(kind: Any) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        return local.Collector(kind(**arguments), epsilon=1.0, n_particles=20, rng=1).query()

    return call


@cache
def collector() -> Any:
    made = local.Collector(local.Normal(), epsilon=1.0, n_particles=20, rng=1)
    made.query()
    return made


FOLDER = Path(tempfile.mkdtemp())


@cache
def others() -> tuple[Any, ...]:
    made = (
        local.ComponentwiseCollector(
            [local.Normal(), local.Normal()], epsilon=1.0, n_particles=20, rng=1
        ),
        local.QuantileCollector(0.5, bounds=(0, 1), epsilon=1.0),
        local.StochasticGradient(local.Exponential(), epsilon=1.0, rng=1),
    )
    for each in made:
        each.query()
    return made


PRIOR = local.NormalPrior()
POSITIVE = local.LogNormalPrior()
NORMAL_THETA = (0.0, 1.0)
DESIGN = local.Design.of((0.0,), [[0.75, 0.25], [0.25, 0.75]])
PAIR = local.mirrored_pair(SIGN, 1.0)

LOCAL = {
    "Channel": Door(local.Channel, {"weights": SIGN.channel.weights}),
    "Channel.from_probabilities": Door(
        local.Channel.from_probabilities, {"rows": [[0.6, 0.4], [0.4, 0.6]], "epsilon": 1.0}
    ),
    "Channel.epsilon_at_most": Door(SIGN.channel.epsilon_at_most, {"epsilon": 1.0}),
    "Channel.satisfies_gdp": Door(SIGN.channel.satisfies_gdp, {"mu": 1.0}),
    "Channel.draw": Door(SIGN.channel.draw, {"cell": 0}),
    "Query": Door(
        local.Query, {"cuts": (0.0,), "channel": SIGN.channel, "epsilon": 1.0, "mu": None}
    ),
    "Query.cell": Door(SIGN.cell, {"x": 0.3}),
    "Query.privatize": Door(
        SIGN.privatize, {"x": 0.3, "epsilon_limit": 2.0, "mu_limit": None}
    ),
    "Query.from_json": Door(local.Query.from_json, {"text": SIGN.to_json()}),
    "Query.from_dict": Door(
        local.Query.from_dict, {"content": json.loads(json.dumps(SIGN.to_dict()))}
    ),
    "Query.check": Door(SIGN.check, {"report": REPORT}),
    "Report": Door(
        local.Report,
        {"query_id": REPORT.query_id, "value": 0, "report_id": REPORT.report_id},
    ),
    "Report.from_json": Door(local.Report.from_json, {"text": REPORT.to_json()}),
    "VectorQuery": Door(
        VectorQuery, {"dimension": 2, "components": (0,), "queries": (SIGN,), "epsilon": 1.0}
    ),
    "VectorQuery.epsilon_at_most": Door(VECTOR.epsilon_at_most, {"epsilon": 1.0}),
    "VectorQuery.privatize": Door(VECTOR.privatize, {"x": [0.3, 0.2], "epsilon_limit": 2.0}),
    "VectorQuery.check": Door(VECTOR.check, {"report": VECTOR_REPORT}),
    "VectorQuery.from_json": Door(VectorQuery.from_json, {"text": VECTOR.to_json()}),
    "VectorReport": Door(
        VectorReport,
        {
            "query_id": VECTOR_REPORT.query_id, "values": (0,),
            "report_id": VECTOR_REPORT.report_id,
        },
    ),
    "VectorReport.from_json": Door(VectorReport.from_json, {"text": VECTOR_REPORT.to_json()}),
    "from_probabilities": Door(
        local.from_probabilities,
        {"cuts": (0.0,), "rows": [[0.6, 0.4], [0.4, 0.6]], "epsilon": 1.0, "mu": None},
    ),
    "mirrored_pair": Door(local.mirrored_pair, {"query": SIGN, "center": 1.0}),
    "response": Door(local.response, {"cuts": (0.0, 1.0), "epsilon": 1.0}),
    "sign_response": Door(local.sign_response, {"cut": 0.0, "epsilon": 1.0}),
    "toss": Door(local.toss, {"pair": PAIR}),
    "truncated_gaussian": Door(
        local.truncated_gaussian,
        {"low": 0.0, "high": 1.0, "mu": 1.0, "steps": 4, "outputs": 8},
    ),
    "truncated_laplace": Door(
        local.truncated_laplace, {"low": 0.0, "high": 1.0, "epsilon": 1.0, "steps": 4}
    ),
    "Collector": Door(
        collected(local.Collector),
        {
            "population": local.Normal(), "epsilon": 1.0, "mu": None, "mechanism": "response",
            "policy": "thompson", "criterion": "A", "round_size": 1, "n_particles": 20, "rng": 1,
        },
    ),
    "Collector.add": Door(lambda report: collector().add(report), {"report": REPORT}),
    "Collector.add_counts": Door(
        lambda query, counts: collector().add_counts(query, counts),
        {"query": SIGN, "counts": [1, 2]},
    ),
    "Collector.load": Door(local.Collector.load, {"path": "/nonexistent"}),
    "Collector.save": Door(lambda path: collector().save(path), {"path": FOLDER / "saved"}),
    "ComponentwiseCollector": Door(
        collected(local.ComponentwiseCollector),
        {
            "populations": [local.Normal(), local.Exponential()], "epsilon": 1.0,
            "assignment": "one", "shares": None, "mechanism": "response", "policy": "thompson",
            "criterion": "A", "round_size": 1, "n_particles": 20, "rng": 1,
        },
    ),
    "ComponentwiseCollector.add": Door(
        lambda report: others()[0].add(report), {"report": VECTOR_REPORT}
    ),
    "ComponentwiseCollector.load": Door(
        local.ComponentwiseCollector.load, {"path": "/nonexistent"}
    ),
    "QuantileCollector": Door(
        collected(local.QuantileCollector),
        {"q": 0.5, "bounds": (0, 1), "epsilon": 1.0, "cells": 64},
    ),
    "QuantileCollector.add": Door(lambda report: others()[1].add(report), {"report": REPORT}),
    "QuantileCollector.interval": Door(
        lambda confidence_level: others()[1].interval(confidence_level),
        {"confidence_level": 0.9},
    ),
    "QuantileCollector.load": Door(local.QuantileCollector.load, {"path": "/nonexistent"}),
    "StochasticGradient": Door(
        collected(local.StochasticGradient),
        {
            "population": local.Exponential(), "epsilon": 1.0, "mu": None,
            "mechanism": "response", "criterion": "A", "start": None, "rng": 1,
        },
    ),
    "StochasticGradient.add": Door(lambda report: others()[2].add(report), {"report": REPORT}),
    "StochasticGradient.interval": Door(
        lambda confidence_level: others()[2].interval(confidence_level),
        {"confidence_level": 0.9},
    ),
    "StochasticGradient.load": Door(local.StochasticGradient.load, {"path": "/nonexistent"}),
    "COptimal": Door(criterion(local.COptimal), {"direction": (1.0, 0.0)}),
    "Diagonal": Door(criterion(local.Diagonal), {"weights": (1.0, 0.0)}),
    "Design.of": Door(
        local.Design.of, {"cuts": (0.0,), "weights": [[0.75, 0.25], [0.25, 0.75]]}
    ),
    "GaussianResponse": Door(
        mechanism(local.GaussianResponse, (0.0,)), {"cells": 2, "mu": 1.0, "knots": (0.0,)}
    ),
    "Response": Door(
        mechanism(local.Response, (0.0,)), {"cells": 2, "epsilon": 1.0, "knots": (0.0,)}
    ),
    "TruncatedGaussian": Door(
        mechanism(local.TruncatedGaussian, (0.0, 1.0)),
        {"mu": 1.0, "steps": 4, "outputs": 8, "knots": (0.0, 1.0)},
    ),
    "TruncatedLaplace": Door(
        mechanism(local.TruncatedLaplace, (0.0, 1.0)),
        {"epsilon": 1.0, "steps": 4, "knots": (0.0, 1.0)},
    ),
    "Mirrored": Door(
        mechanism(local.Mirrored, (0.0, 1.0)),
        {"mechanism": local.TruncatedLaplace(1.0), "knots": (0.0, 1.0)},
    ),
    "best_cells": Door(
        local.best_cells,
        {
            "population": local.Normal(), "criterion": local.a_optimal, "epsilon": 1.0,
            "mu": None, "theta": NORMAL_THETA,
        },
    ),
    "best_knots": Door(
        local.best_knots,
        {
            "population": local.Normal(), "theta": NORMAL_THETA,
            "mechanism": local.Response(2, 1.0), "criterion": local.a_optimal,
        },
    ),
    "fisher_information": Door(
        local.fisher_information,
        {"population": local.Normal(), "theta": NORMAL_THETA, "design": DESIGN},
    ),
    "Exponential": Door(population(local.Exponential), {"scale": POSITIVE}),
    "Normal": Door(population(local.Normal), {"mu": PRIOR, "sigma": POSITIVE}),
    "StudentT": Door(
        population(local.StudentT), {"df": 5.0, "location": PRIOR, "scale": POSITIVE}
    ),
    "ScipyFamily": Door(
        population(local.ScipyFamily),
        {"name": "expon", "unknown": {"scale": POSITIVE}, "held": {}},
    ),
    "NormalPrior": Door(
        lambda **a: population(local.Normal)(mu=local.NormalPrior(**a)), {"mean": 0.0, "sd": 1.0}
    ),
    "LogNormalPrior": Door(
        lambda **a: population(local.Exponential)(scale=local.LogNormalPrior(**a)),
        {"mean": 0.0, "sd": 1.0},
    ),
    "RootInverseGammaPrior": Door(
        lambda **a: population(local.Normal)(sigma=local.RootInverseGammaPrior(**a)),
        {"shape": 1.0, "scale": 1.0},
    ),
    "Posterior.interval": Door(
        lambda confidence_level: collector().posterior.interval(confidence_level),
        {"confidence_level": 0.9},
    ),
    "Posterior.quantiles": Door(
        lambda levels: collector().posterior.quantiles(levels), {"levels": [0.5]}
    ),
    "Posterior.draw": Door(
        lambda rng: collector().posterior.draw(rng), {"rng": np.random.default_rng(1)}
    ),
    "quantile_limit": Door(
        local.quantile_limit, {"q": 0.5, "epsilon": 1.0, "density": 1.0, "people": 100}
    ),
}  # fmt: skip
