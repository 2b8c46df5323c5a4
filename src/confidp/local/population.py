"""Every family and prior in one place, and the way back from a saved one.

A new family is a file beside `location_scale` and one line of `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confidp.errors import InvalidArgument
from confidp.local.family import Array, Population, as_population, cells_between
from confidp.local.location_scale import Laplace, Logistic, LogNormal, Normal, StudentT
from confidp.local.positive import Exponential, Gamma
from confidp.local.priors import (
    PRIORS,
    LogNormalPrior,
    NormalPrior,
    Prior,
    RootInverseGammaPrior,
)
from confidp.local.scipy_family import ScipyFamily

__all__ = [
    "FAMILIES",
    "PRIORS",
    "Array",
    "Exponential",
    "Gamma",
    "Laplace",
    "LogNormal",
    "LogNormalPrior",
    "Logistic",
    "Normal",
    "NormalPrior",
    "Population",
    "Prior",
    "RootInverseGammaPrior",
    "ScipyFamily",
    "StudentT",
    "as_population",
    "cells_between",
    "population_from_dict",
]

FAMILIES: dict[str, type[Population]] = {
    family.__name__: family
    for family in (
        Normal,
        StudentT,
        Logistic,
        Laplace,
        LogNormal,
        Exponential,
        Gamma,
        ScipyFamily,
    )
}


def population_from_dict(fields: Mapping[str, Any]) -> Population:
    """Return the population that `to_dict` wrote; it takes its family's name from a list.

    Examples
    --------
    >>> population_from_dict(StudentT(4).to_dict()) == StudentT(4)
    True
    """
    try:
        settings = {k: v for k, v in fields.items() if k not in ("family", "priors")}
        priors = {}
        for name, prior in fields["priors"].items():
            values = {k: v for k, v in prior.items() if k != "prior"}
            priors[name] = PRIORS[prior["prior"]](**values)
        family = FAMILIES[fields["family"]]
        if family is ScipyFamily:
            return ScipyFamily(unknown=priors, **settings)
        return family(**settings, **priors)
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"fields must be what to_dict of a population wrote: {error}"
        ) from None
