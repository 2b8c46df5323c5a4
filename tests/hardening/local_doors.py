"""Every public door of the local half with arguments that are right, as in `doors`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from confidp import local
from confidp.local.vector import VectorQuery, VectorReport
from hardening.doors import SEED, Door

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


def mechanism(kind: Any) -> Callable[..., Any]:
    """Make a mechanism, and its query where that has room."""

    def call(**arguments: Any) -> Any:
        made = kind(**arguments)
        return made.queries(tuple(range(made.n_knots)))

    return call


def criterion(kind: Any) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        made = kind(**arguments)
        local.best_knots(local.Normal(), NORMAL_THETA, local.Response(3, 1.0), made)
        return made(np.eye(2))

    return call


def family(kind: Any) -> Callable[..., Any]:
    """Make a family, and do with it what a collector does before it asks."""

    def call(**arguments: Any) -> Any:
        made = kind(**arguments)
        theta = made.check(made.middle())
        made.cells(theta[None, :], np.array([0.5, 1.0]))
        made.log_prior(made.unconstrained(theta)[None, :])
        return made.to_dict(), hash(made), repr(made), made.spread(theta)

    return call


def asked(kind: Any) -> Callable[..., Any]:
    """Make a family, and ask somebody."""

    def call(**arguments: Any) -> Any:
        return local.Collector(kind(**arguments), epsilon=1.0, n_particles=20, rng=1).query()

    return call


def in_normal(name: str, kind: Any) -> Callable[..., Any]:
    """Make a prior, and the normal family with it."""
    return lambda **arguments: family(local.Normal)(**{name: kind(**arguments)})


@cache
def collector() -> Any:
    made = local.Collector(local.Normal(), epsilon=1.0, n_particles=20, rng=1)
    made.query()
    return made


FOLDER = Path(tempfile.mkdtemp())


FRESH, ASKED, SAVED = "a fresh report", "a query that was asked", "a file that was saved"


def added(made: Callable[[], Any], x: Any = 0.3) -> Callable[..., Any]:
    def call(report: Any) -> Any:
        return made().add(made().query().privatize(x) if report is FRESH else report)

    return call


def counted(query: Any, counts: Any) -> Any:
    return collector().add_counts(collector().queries[0] if query is ASKED else query, counts)


def loaded(made: Callable[[], Any]) -> Callable[..., Any]:
    def call(path: Any) -> Any:
        if path is SAVED:
            path = FOLDER / type(made()).__name__
            made().save(path)
        return type(made()).load(path)

    return call


@cache
def told() -> Any:
    return local.compare(local.Normal(), epsilon=1.0, cells=0).mechanisms[0]


def rows_of(values: Any, asked: Any = 0) -> Any:
    return local.Rows(values, asked).answer(SIGN, 1, np.random.default_rng(1))


def first_round(**arguments: Any) -> Any:
    return next(local.rehearse(**arguments))


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
DRAWN = local.Drawn(local.Normal(), np.array(NORMAL_THETA))
DENSITY = local.TruncatedLaplaceDensity(-1.0, 1.0, 1.0)
INFORMATION = np.array([[2.0, 0.5], [0.5, 1.0]])
RNG = np.random.default_rng(SEED)

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
    "Collector.add": Door(added(collector), {"report": FRESH}),
    "Collector.add_counts": Door(counted, {"query": ASKED, "counts": [1, 2, 3]}),
    "Collector.load": Door(loaded(collector), {"path": SAVED}),
    "Collector.save": Door(lambda path: collector().save(path), {"path": FOLDER / "saved"}),
    "ComponentwiseCollector": Door(
        collected(local.ComponentwiseCollector),
        {
            "populations": [local.Normal(), local.Exponential()], "epsilon": 1.0,
            "assignment": "one", "shares": None, "mechanism": "response", "policy": "thompson",
            "criterion": "A", "round_size": 1, "n_particles": 20, "rng": 1,
        },
    ),
    "ComponentwiseCollector.save": Door(
        lambda path: others()[0].save(path), {"path": FOLDER / "componentwise"}
    ),
    "QuantileCollector.save": Door(
        lambda path: others()[1].save(path), {"path": FOLDER / "quantile"}
    ),
    "StochasticGradient.save": Door(
        lambda path: others()[2].save(path), {"path": FOLDER / "gradient"}
    ),
    "ComponentwiseCollector.add": Door(
        added(lambda: others()[0], [0.3, 0.2]), {"report": FRESH}
    ),
    "ComponentwiseCollector.load": Door(loaded(lambda: others()[0]), {"path": SAVED}),
    "QuantileCollector": Door(
        collected(local.QuantileCollector),
        {"q": 0.5, "bounds": (0, 1), "epsilon": 1.0, "cells": 64},
    ),
    "QuantileCollector.add": Door(added(lambda: others()[1]), {"report": FRESH}),
    "QuantileCollector.interval": Door(
        lambda confidence_level: others()[1].interval(confidence_level),
        {"confidence_level": 0.9},
    ),
    "QuantileCollector.load": Door(loaded(lambda: others()[1]), {"path": SAVED}),
    "StochasticGradient": Door(
        collected(local.StochasticGradient),
        {
            "population": local.Exponential(), "epsilon": 1.0, "mu": None,
            "mechanism": "response", "criterion": "A", "start": None, "rng": 1,
        },
    ),
    "StochasticGradient.add": Door(added(lambda: others()[2]), {"report": FRESH}),
    "StochasticGradient.interval": Door(
        lambda confidence_level: others()[2].interval(confidence_level),
        {"confidence_level": 0.9},
    ),
    "StochasticGradient.load": Door(loaded(lambda: others()[2]), {"path": SAVED}),
    "COptimal": Door(criterion(local.COptimal), {"direction": (1.0, 0.0)}),
    "Diagonal": Door(criterion(local.Diagonal), {"weights": (1.0, 0.0)}),
    "Design.of": Door(
        local.Design.of, {"cuts": (0.0,), "weights": [[0.75, 0.25], [0.25, 0.75]]}
    ),
    "GaussianResponse": Door(mechanism(local.GaussianResponse), {"cells": 2, "mu": 1.0}),
    "Response": Door(mechanism(local.Response), {"cells": 2, "epsilon": 1.0}),
    "TruncatedGaussian": Door(
        mechanism(local.TruncatedGaussian), {"mu": 1.0, "steps": 4, "outputs": 8}
    ),
    "TruncatedLaplace": Door(mechanism(local.TruncatedLaplace), {"epsilon": 1.0, "steps": 4}),
    "Mirrored": Door(mechanism(local.Mirrored), {"mechanism": local.TruncatedLaplace(1.0)}),
    **{
        f"{type(made).__name__}.queries": Door(
            made.queries, {"knots": (0.0, 1.0, 2.0)[: made.n_knots]}
        )
        for made in (
            local.GaussianResponse(3, 1.0), local.Response(3, 1.0), local.TruncatedGaussian(1.0),
            local.TruncatedLaplace(1.0), local.Mirrored(local.TruncatedLaplace(1.0)),
        )
    },
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
            "mechanism": local.Response(3, 1.0), "criterion": local.a_optimal,
        },
    ),
    "fisher_information": Door(
        local.fisher_information,
        {"population": local.Normal(), "theta": NORMAL_THETA, "design": DESIGN},
    ),
    "a_optimal": Door(local.a_optimal, {"information": INFORMATION}),
    "d_optimal": Door(local.d_optimal, {"information": INFORMATION}),
    "best_channel": Door(
        local.best_channel,
        {
            "population": local.Normal(), "theta": NORMAL_THETA, "epsilon": 1.0,
            "criterion": local.a_optimal, "cells": 6, "tolerance": 0.1,
        },
    ),
    "best_interval": Door(
        local.best_interval, {"epsilon": 1.0, "criterion": local.Diagonal((1.0, 0.0))}
    ),
    "compare": Door(
        local.compare,
        {
            "population": local.Normal(), "theta": None, "epsilon": 1.0, "mu": None,
            "criterion": local.a_optimal, "cells": 0,
        },
    ),
    "compare(...).mechanisms[0].people": Door(
        lambda standard_error: told().people(standard_error), {"standard_error": 0.1}
    ),
    "rehearse": Door(
        lambda people, count, round_size, rng: first_round(
            collector=collector(), people=people, count=count, round_size=round_size, rng=rng
        ),
        {"people": DRAWN, "count": 2, "round_size": 1, "rng": RNG},
    ),
    "rehearse, by": Door(
        lambda collector: first_round(
            collector=collector, people=DRAWN, count=2, round_size=1, rng=RNG
        ),
        {"collector": local.Collector(local.Normal(), epsilon=1.0, n_particles=20, rng=1)},
    ),
    "Drawn": Door(local.Drawn, {"population": local.Normal(), "theta": NORMAL_THETA}),
    "Drawn.answer": Door(DRAWN.answer, {"query": SIGN, "count": 2, "rng": RNG}),
    "Rows": Door(rows_of, {"values": [1.0, 2.0], "asked": 0}),
    "Rows.answer": Door(
        lambda query, count, rng: local.Rows(np.ones(9)).answer(query, count, rng),
        {"query": SIGN, "count": 2, "rng": RNG},
    ),
    "TruncatedLaplaceDensity": Door(
        lambda **a: local.TruncatedLaplaceDensity(**a).log_density(0.5, 0.0, 1.0),
        {"low": 0.0, "high": 1.0, "epsilon": 1.0},
    ),
    "TruncatedLaplaceDensity.fisher_information": Door(
        DENSITY.fisher_information, {"mean": 0.0, "sd": 1.0}
    ),
    "TruncatedLaplaceDensity.log_density": Door(
        DENSITY.log_density, {"y": 0.5, "mean": 0.0, "sd": 1.0}
    ),
    "TruncatedLaplaceDensity.log_kernel": Door(DENSITY.log_kernel, {"y": 0.5, "x": 0.0}),
    "TruncatedLaplaceDensity.sample": Door(DENSITY.sample, {"x": 0.5, "rng": RNG}),
    "TruncatedLaplaceDensity.score": Door(DENSITY.score, {"y": 0.5, "mean": 0.0, "sd": 1.0}),
    "Exponential": Door(family(local.Exponential), {"scale": POSITIVE}),
    "Gamma": Door(family(local.Gamma), {"shape": POSITIVE, "scale": POSITIVE}),
    "Laplace": Door(family(local.Laplace), {"location": PRIOR, "scale": POSITIVE}),
    "Logistic": Door(family(local.Logistic), {"location": PRIOR, "scale": POSITIVE}),
    "LogNormal": Door(family(local.LogNormal), {"mu": PRIOR, "sigma": POSITIVE}),
    "Normal": Door(family(local.Normal), {"mu": PRIOR, "sigma": POSITIVE}),
    "StudentT": Door(
        family(local.StudentT), {"df": 5.0, "location": PRIOR, "scale": POSITIVE}
    ),
    "ScipyFamily": Door(
        family(local.ScipyFamily),
        {"name": "expon", "unknown": {"scale": POSITIVE}, "held": {}},
    ),
    "ScipyFamily, held": Door(
        lambda value: family(local.ScipyFamily)(
            name="expon", unknown={"scale": POSITIVE}, held={"loc": value}
        ),
        {"value": 1.0},
    ),
    **{
        f"{kind.__name__}.check": Door(kind().check, {"theta": (0.5, 1.0)[-len(kind().priors):]})
        for kind in (
            local.Exponential, local.Gamma, local.Laplace, local.Logistic, local.LogNormal,
            local.Normal,
        )
    },
    "StudentT.check": Door(local.StudentT(5.0).check, {"theta": NORMAL_THETA}),
    "ScipyFamily.check": Door(
        local.ScipyFamily("expon", {"scale": POSITIVE}).check, {"theta": (1.0,)}
    ),
    "NormalPrior": Door(in_normal("mu", local.NormalPrior), {"mean": 0.0, "sd": 1.0}),
    "LogNormalPrior": Door(
        in_normal("sigma", local.LogNormalPrior), {"mean": 0.0, "sd": 1.0}
    ),
    "RootInverseGammaPrior": Door(
        in_normal("sigma", local.RootInverseGammaPrior), {"shape": 1.0, "scale": 1.0}
    ),
    "Normal, asked": Door(
        lambda mean, sd: asked(local.Normal)(mu=local.NormalPrior(mean, sd)),
        {"mean": 0.0, "sd": 1.0},
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
