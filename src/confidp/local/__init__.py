"""The local half: learning from people who never hand over their data.

What runs on a person's device, a query in and a report out, is imported at once and needs the
standard library only. What runs at the collector needs NumPy and SciPy and is imported when first
named.
"""

from importlib import import_module
from typing import Any

from confidp.local.channel import Channel
from confidp.local.mechanisms import (
    from_probabilities,
    mirrored_pair,
    response,
    sign_response,
    toss,
    truncated_gaussian,
    truncated_laplace,
)
from confidp.local.query import Query, Report
from confidp.local.vector import VectorQuery, VectorReport

# The collector's side: each name's module in this folder.
_AT_THE_COLLECTOR: dict[str, str] = {
    "compare": "comparison",
    "Comparison": "comparison",
    "best_channel": "staircase",
    "BestChannel": "staircase",
    "rehearse": "simulation",
    "Drawn": "simulation",
    "Rows": "simulation",
    "TruncatedLaplaceDensity": "continuous",
    "best_interval": "continuous",
    "Collector": "collector",
    "ComponentwiseCollector": "componentwise",
    "COptimal": "information",
    "Design": "information",
    "Diagonal": "information",
    "GaussianResponse": "kinds",
    "Response": "kinds",
    "TruncatedGaussian": "kinds",
    "TruncatedLaplace": "kinds",
    "a_optimal": "information",
    "best_cells": "design",
    "best_knots": "design",
    "d_optimal": "information",
    "fisher_information": "information",
    "Exponential": "population",
    "Gamma": "population",
    "Laplace": "population",
    "LogNormal": "population",
    "LogNormalPrior": "population",
    "Logistic": "population",
    "Normal": "population",
    "NormalPrior": "population",
    "RootInverseGammaPrior": "population",
    "ScipyFamily": "population",
    "StudentT": "population",
    "Population": "population",
    "Prior": "population",
    "Mirrored": "mirrored",
    "Posterior": "posterior",
    "QuantileCollector": "sign_quantile",
    "StochasticGradient": "stochastic_gradient",
    "quantile_limit": "sign_quantile",
}

__all__ = [
    "Channel",
    "Query",
    "Report",
    "VectorQuery",
    "VectorReport",
    "from_probabilities",
    "mirrored_pair",
    "response",
    "sign_response",
    "toss",
    "truncated_gaussian",
    "truncated_laplace",
]


def __getattr__(name: str) -> Any:
    """Import a name of the collector's side when it is first asked for."""
    if name not in _AT_THE_COLLECTOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_AT_THE_COLLECTOR[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return every public name, whether imported yet or not."""
    return sorted({*globals(), *__all__, *_AT_THE_COLLECTOR})
