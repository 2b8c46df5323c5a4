"""What is known after some reports: weighted particles, their summaries, and saving them.

A posterior is a value. Files hold plain arrays and JSON, so that reading one executes nothing.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType, StateError, integer, level
from confidp.local.design import Design
from confidp.local.likelihood import Counts
from confidp.local.population import Population, population_from_dict
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]

_LARGEST = 2**53  # counts are exact as floats
_SUM = 1e-9  # how far weights may be from a sum of 1


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How the sampler fared: sums since the start, and the last moves' acceptance."""

    reports: int = 0
    steps: int = 0
    resamplings: int = 0
    restarts: int = 0
    moves: int = 0
    acceptance: float = math.nan
    size: float = 1.0  # of the random walk, in units of 2.38/√d
    redraws: int = 0  # of the resamplings, those by importance sampling


@dataclass(frozen=True, slots=True)
class Posterior:
    """Weighted particles for θ given every report so far; a value, never changed in place.

    Attributes
    ----------
    population
        The family and prior.
    particles
        N × d unconstrained coordinates.
    log_weights
        N logarithms of weights that sum to 1.
    counts
        From a query to how often each of its answers came.
    log_evidence
        The estimated log probability of the reports, in their order, under the prior.
    diagnostics
        Steps, resamplings, moves and acceptance.
    """

    population: Population
    particles: Array = field(repr=False)
    log_weights: Array = field(repr=False)
    counts: Counts = field(repr=False)
    log_evidence: float
    diagnostics: Diagnostics

    def __post_init__(self) -> None:
        """Lock the arrays."""
        for array in (self.particles, self.log_weights):
            array.flags.writeable = False

    @property
    def theta(self) -> Array:
        """The particles as parameters: N × d."""
        return self.population.natural(self.particles)

    @property
    def weights(self) -> Array:
        """The particles' weights, which sum to 1."""
        return np.exp(self.log_weights)

    @property
    def effective_sample_size(self) -> float:
        """1 / Σ w²: how many equally weighted particles these are worth."""
        return effective(self.log_weights)

    @property
    def mean(self) -> Array:
        """The posterior mean of each parameter."""
        return np.asarray(self.weights @ self.theta)

    @property
    def sd(self) -> Array:
        """The posterior standard deviation of each parameter."""
        theta, weights = self.theta, self.weights
        return np.asarray(np.sqrt(weights @ (theta - weights @ theta) ** 2))

    @property
    def middle(self) -> Array:
        """The mean in unconstrained coordinates: steady even where the tails of θ are heavy."""
        return self.population.natural(self.weights @ self.particles)

    @property
    def samples(self) -> Array:
        """N equally weighted θ; the same ones at every look."""
        return self.theta[systematic(self.weights, 0.5)]

    def interval(self, confidence_level: float = 0.95) -> Array:
        """Return the equal-tailed credible interval of each parameter: d rows of (low, high)."""
        tail = (1 - level(confidence_level)) / 2
        return self.quantiles([tail, 1 - tail])

    def quantiles(self, levels: Sequence[float]) -> Array:
        """Return weighted quantiles of each parameter, between particles by interpolation."""
        wanted = numbers("levels", levels)
        if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise InvalidArgument("levels must be a list of numbers in [0, 1]")
        theta, weights = self.theta, self.weights
        rows = []
        for column in theta.T:
            order = np.argsort(column, kind="stable")
            sorted_weights = weights[order]
            middles = np.cumsum(sorted_weights) - sorted_weights / 2
            rows.append(np.interp(wanted, middles, column[order]))
        return np.stack(rows)

    def draw(self, rng: np.random.Generator) -> Array:
        """Return one θ drawn from the posterior, for Thompson sampling."""
        check_generator(rng)
        return np.asarray(self.theta[systematic(self.weights, rng.random(), 1)[0]])


def save(path: str | Path, posterior: Posterior, rng: np.random.Generator) -> None:
    """Write a posterior and its generator, so that a resumed run goes on as if never stopped."""
    header, arrays = posterior_to_arrays(posterior)
    write_arrays(path, {"posterior": header, "generator": rng.bit_generator.state}, arrays)


def load(path: str | Path) -> tuple[Posterior, np.random.Generator]:
    """Return what `save` wrote. Plain arrays and JSON: nothing in the file is executed."""
    header, arrays = read_arrays(path)
    with reading(path):
        return posterior_from_arrays(header["posterior"], arrays), generator(header["generator"])


def posterior_to_arrays(posterior: Posterior) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a posterior as a JSON-ready header and named arrays."""
    queries = list(posterior.counts)
    header = {
        "population": posterior.population.to_dict(),
        "log_evidence": posterior.log_evidence,
        "diagnostics": asdict(posterior.diagnostics),
    }
    arrays = {
        "particles": posterior.particles,
        "log_weights": posterior.log_weights,
        "shapes": np.array([(len(q.cuts), q.answers) for q in queries]).reshape(-1, 2),
        "cuts": np.array([c for q in queries for c in q.cuts]),
        "weights": np.array([w for q in queries for row in q.weights for w in row]),
        "counts": np.array([c for q in queries for c in posterior.counts[q]], dtype=np.int64),
    }
    return header, arrays


def posterior_from_arrays(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Posterior:
    """Return the posterior that `posterior_to_arrays` took apart, checked."""
    population = population_from_dict(header["population"])
    particles, log_weights = arrays["particles"], arrays["log_weights"]
    if particles.ndim != 2 or particles.shape != (len(log_weights), len(population.parameters)):
        raise InvalidArgument("particles must be one row of parameters for each weight")
    if not np.isfinite(particles).all() or not abs(log_sum(log_weights)) < _SUM:
        raise InvalidArgument("particles must be finite, and their weights must sum to 1")
    cuts, weights, tallies = (iter(arrays[name]) for name in ("cuts", "weights", "counts"))
    counts = {}
    for k, answers in arrays["shapes"].tolist():
        points = [next(cuts) for _ in range(k)]
        query = Design.of(points, [[next(weights) for _ in range(answers)] for _ in range(k + 1)])
        counts[query] = checked(query, [int(next(tallies)) for _ in range(answers)])
    marks = Diagnostics(**header["diagnostics"])
    evidence = float(header["log_evidence"])
    return Posterior(population, particles, log_weights, counts, evidence, marks)


def write_arrays(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays and a JSON header to one .npz file, whole or not at all."""
    target = _path(path)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    partial = None
    try:
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        with partial.open("wb") as file:
            np.savez(file, header=text, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except (OSError, ValueError) as error:  # a ValueError where it is no file's name
        reason = error.strerror if isinstance(error, OSError) else "not a file's name"
        raise StateError(f"{_named(target)} can't be written: {reason}") from None
    finally:
        with suppress(OSError, ValueError):
            if partial is not None:
                partial.unlink(missing_ok=True)


def read_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and arrays that `write_arrays` wrote, without unpickling anything."""
    with (
        reading(path),
        Path(path).open("rb") as stream,  # ours to close: NumPy leaves it open where it fails
        np.load(stream, allow_pickle=False) as file,
    ):
        arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        return dict(header), arrays


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in a saved state."""
    if state["bit_generator"] not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise InvalidArgument("generator must be one of NumPy's")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what a damaged file makes fail into one error that names it."""
    named = _named(_path(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as a complex number taken for a real one
            yield
    except (FileNotFoundError, PermissionError) as error:
        raise StateError(f"{named} can't be read: {error.strerror}") from None
    except Exception as error:  # whatever NumPy, zipfile or JSON make of a damaged file
        reason = str(error) if isinstance(error, InvalidArgument) else type(error).__name__
        message = f"{named} is not a saved posterior or is damaged: {reason}"
        raise InvalidArgument(message) from None


def _path(path: Any) -> Path:
    try:
        return Path(path)
    except Exception:  # whatever its type raises
        raise InvalidType(f"path must be a path, not {type(path).__name__}") from None


def _named(path: Path) -> str:
    return repr(str(path)[-300:])


def check_generator(rng: Any) -> None:
    """Raise unless it is a NumPy generator."""
    if not isinstance(rng, np.random.Generator):
        raise InvalidType(f"rng must be a numpy Generator, not {type(rng).__name__}")


def systematic(weights: Array, offset: float, count: int | None = None) -> NDArray[np.intp]:
    """Return indices of a systematic sample of `count` particles, one for each unless told."""
    total = np.cumsum(weights)
    count = len(weights) if count is None else count
    # Positions are below 1 and the last sum is made exactly 1, so no index runs off the end.
    sums = np.minimum(total / total[-1], 1.0)
    positions = (offset + np.arange(count)) / count
    found = np.searchsorted(sums, positions, side="right")
    last = int(np.flatnonzero(weights)[-1])  # positions may round up to 1
    return np.asarray(np.minimum(found, last))


def effective(log_weights: Array) -> float:
    """Return (Σ w)² / Σ w², for weights that needn't sum to 1; 0 where all are 0."""
    top = float(log_weights.max())
    if not math.isfinite(top):
        return 0.0
    weights = np.exp(log_weights - top)
    return float(weights.sum() ** 2 / (weights @ weights))


def log_sum(log_weights: Array) -> float:
    """Return log Σ w."""
    top = float(log_weights.max())
    return top + math.log(float(np.exp(log_weights - top).sum()))


def summed(log_weights: Array) -> tuple[float, float]:
    """Return log Σ w and (Σ w)² / Σ w², of weights that aren't all 0."""
    top = float(log_weights.max())
    weights = np.exp(log_weights - top)
    total = float(weights.sum())
    return top + math.log(total), total**2 / float(weights @ weights)


def checked(query: Design, counts: Any) -> tuple[int, ...]:
    """Return counts as whole numbers, one for each of the query's answers, or raise."""
    if not isinstance(query, Design):
        raise InvalidType(f"query must be a Design, not {type(query).__name__}")
    if not isinstance(counts, list | tuple) and not (
        isinstance(counts, np.ndarray) and counts.ndim == 1
    ):
        raise InvalidType(f"counts must be a list of numbers, not {type(counts).__name__}")
    # Plain ints, as nearly all are, need no asking what they are.
    values = tuple(
        c if type(c) is int and c >= 0 else integer("counts", c, least=0) for c in counts
    )
    if len(values) != query.answers:
        raise InvalidArgument(f"counts must have {query.answers} numbers, not {len(values)}")
    if sum(values) > _LARGEST:
        raise InvalidArgument("counts must have a sum of at most 2^53")
    return values
