"""Populations, criteria and mechanisms from words on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from confidp.errors import InvalidArgument, real
from confidp.local.information import COptimal, Criterion, a_optimal, d_optimal
from confidp.local.kinds import Mechanism, TruncatedGaussian, TruncatedLaplace
from confidp.local.mirrored import Mirrored
from confidp.local.population import FAMILIES, Population, ScipyFamily
from confidp.local.priors import PRIORS, LogNormalPrior, NormalPrior, Prior

_PRIORS = tuple(PRIORS.values())
_SCIPY = "scipy."

Held = Sequence[tuple[str, float]]
Guesses = Sequence[tuple[str, float, float]]


def population_of(name: str, hold: Held, guesses: Guesses) -> Population:
    """Return the family of that name, with what is known of it and guesses as priors.

    Examples
    --------
    >>> population_of("student-t", [("df", 4.0)], [("location", 50.0, 10.0)]).parameters
    ('location', 'scale')
    """
    known = _once("--hold", [(n, v) for n, v in hold])
    spread = _once("--prior", [(n, (g, s)) for n, g, s in guesses])
    if name.startswith(_SCIPY):
        return _scipy(name.removeprefix(_SCIPY), known, spread)
    families = {_dashed(family): kind for family, kind in FAMILIES.items()}
    kind = families.get(name)
    if kind is None or kind is ScipyFamily:
        listed = ", ".join(sorted(set(families) - {_dashed(ScipyFamily.__name__)}))
        raise InvalidArgument(
            f"--population must be {listed}, or scipy. and a family, not {name!r}"
        )
    needed = {f.name for f in fields(kind) if not isinstance(f.default, _PRIORS)}  # type: ignore[arg-type]
    if set(known) != needed:
        listed = ", ".join(sorted(needed)) or "nothing"
        raise InvalidArgument(f"--hold must name {listed} for --population {name}")
    plain = kind(**known)
    return kind(**known, **_priors(plain, spread))


def _scipy(
    name: str, known: Mapping[str, float], spread: Mapping[str, tuple[float, float]]
) -> Population:
    from scipy import stats

    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous):
        raise InvalidArgument(f"--population must be a continuous family of SciPy, not {name!r}")
    shapes = [s.strip() for s in family.shapes.split(",")] if family.shapes else []
    unknown: dict[str, Prior] = {
        parameter: LogNormalPrior() for parameter in [*shapes, "scale"] if parameter not in known
    }
    if "loc" in spread:
        unknown["loc"] = NormalPrior()
    return ScipyFamily(name, unknown | _priors(ScipyFamily(name, unknown, known), spread), known)


def _priors(population: Population, spread: Mapping[str, tuple[float, float]]) -> dict[str, Prior]:
    """Return priors that hold the guesses: normal, or log-normal for a positive parameter."""
    positive = {
        name: prior.positive
        for name, prior in zip(population.parameters, population.priors, strict=True)
    }
    priors: dict[str, Prior] = {}
    for name, (guess, off) in spread.items():
        _known_parameter("--prior", population, name)
        if positive[name]:
            real(f"--prior {name}", guess, "above 0", lambda x: x > 0)
            real(f"--prior {name}'s factor", off, "above 1", lambda x: x > 1)
            priors[name] = LogNormalPrior(math.log(guess), math.log(off))
        else:
            priors[name] = NormalPrior(guess, off)
    return priors


def criterion_of(name: str, population: Population) -> Criterion:
    """Return A- or D-optimality, or the variance of the parameter of that name."""
    if name in ("A", "D"):
        return a_optimal if name == "A" else d_optimal
    if name not in population.parameters:
        listed = ", ".join(population.parameters)
        raise InvalidArgument(f"--criterion must be A, D or one of {listed}, not {name!r}")
    return COptimal(tuple(float(name == parameter) for parameter in population.parameters))


def mechanism_of(name: str, epsilon: float | None, mu: float | None) -> str | Mechanism:
    """Return a mechanism as `Collector` takes it: "response", or a value."""
    if name == "response":
        return name
    mirrored, _, kind = name.partition("-")
    if kind == "laplace" and epsilon is not None:
        mechanism: Mechanism = TruncatedLaplace(epsilon)
    elif kind == "gaussian" and mu is not None:
        mechanism = TruncatedGaussian(mu)
    else:
        raise InvalidArgument(
            f"--mechanism {name} must come with {'--epsilon' if kind == 'laplace' else '--mu'}"
        )
    return Mirrored(mechanism) if mirrored == "mirrored" else mechanism


def theta_of(option: str, population: Population, values: Sequence[float]) -> list[float]:
    """Return one θ, checked, or raise naming the option and the family's parameters."""
    if len(values) != len(population.parameters):
        wanted = " ".join(population.parameters)
        raise InvalidArgument(f"{option} must be {wanted}, not {len(values)} numbers")
    return [float(value) for value in population.check(values)]


def named(population: Population, theta: Sequence[float]) -> str:
    """Return θ in words, such as "mu = 50, sigma = 3"."""
    pairs = zip(population.parameters, theta, strict=True)
    return ", ".join(f"{name} = {value:.6g}" for name, value in pairs)


def _known_parameter(option: str, population: Population, name: str) -> None:
    if name not in population.parameters:
        listed = ", ".join(population.parameters)
        raise InvalidArgument(f"{option} must name one of {listed}, not {name!r}")


def _once(option: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidArgument(f"{option} must name each parameter once")
    return found


def _dashed(name: str) -> str:
    """Return student-t for StudentT."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
