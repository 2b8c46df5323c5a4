"""The online posterior: particles on θ, reweighted by each report, moved when they degenerate.

Iterated batch importance sampling (Chopin 2002). A report's probability is a finite sum over
cells, exact for every family with a CDF, so nothing latent is sampled. Reports to the same query
pool into counts, which are sufficient: the cost of a move depends on the number of distinct
queries, not of reports.

A batch is added in steps, as powers φ of its likelihood that rise from 0 to 1: each step is the
longest that keeps half of the effective sample size. One report is nearly
always one step; a billion at once take some dozens, and the particles follow.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from confidp.errors import InvalidArgument, InvalidType, integer, level
from confidp.local.design import Design
from confidp.local.population import (
    Population,
    as_population,
    population_from_dict,
)

Array = NDArray[np.float64]

_RESAMPLE = 1 / 2  # resample and move below this share of effective particles
_STEP = 1 / 2  # a step keeps at least this share of the effective sample size
_ACCEPTED = 2.0  # move until particles have moved this often on average
_MOVES = 12  # but no longer than this
_TARGET = 0.3  # acceptance the proposal's size is adapted to
_BLOCK = 1 << 21  # numbers in flight while the likelihood is computed
_LARGEST = 2**53  # counts are exact as floats
_STEEP = 1e-6
_BATCH = 100  # reports at once after which the posterior is looked for elsewhere too
_MISSED = 3.0  # how much log evidence elsewhere shows that particles have missed the posterior
_TAILS = 5  # degrees of freedom
_DENSE = 48  # distinct cut points; a sparse matrix is faster from there
_SUM = 1e-9  # how far a row of probabilities may be from 1


Counts = Mapping[Design, tuple[int, ...]]


def log_likelihood(population: Population, theta: Array, counts: Counts) -> Array:
    """Return Σ counts·log p(answer | query, θ) for each θ: a vector of N, −∞ but never NaN.

    Queries of one shape are taken together, and the CDF is computed once for each distinct cut
    point.
    """
    return _Likelihood(population, counts)(theta)


class _Likelihood:
    """Pooled counts, arranged for many evaluations: one row for each answer that was seen.

    Summed by parts, p(y) = Q[k, y] + Σ_c P(X ≤ c)·(Q[c, y] − Q[c + 1, y]): linear in the CDF at
    the distinct cut points. Its rounding is 1e-16 of the largest Q[·, y], so where another is
    1e-6 of that or less, as no channel with ε below 13 has it, cells are taken from the nearer
    tail instead.
    """

    def __init__(self, population: Population, counts: Counts) -> None:
        self._population = population
        self._steep: list[tuple[Array, Array, Array]] = []
        rows: list[tuple[tuple[float, ...], Array]] = []
        last: list[Array] = []
        seen: list[Array] = []
        for design, totals in counts.items():
            matrix, answers = design.probabilities(), np.array(totals, dtype=np.float64)
            matrix, answers = matrix[:, answers > 0], answers[answers > 0]
            if (matrix.min(axis=0) <= _STEEP * matrix.max(axis=0)).any():
                self._steep.append((np.array(design.cuts), matrix, answers))
            else:
                rows.append((design.cuts, -np.diff(matrix, axis=0)))
                last.append(matrix[-1])
                seen.append(answers)
        self._points, self._slopes = _slopes(rows)
        self._last = np.concatenate([*last, []])[:, None]
        self._seen = np.concatenate([*seen, []])

    def __call__(self, theta: Array) -> Array:
        sums = np.zeros(len(theta))
        with np.errstate(divide="ignore", invalid="ignore"):
            if len(self._seen):
                below = np.ascontiguousarray(self._population.cdf(theta, self._points).T)
                block = max(1, _BLOCK // len(theta))
                for start in range(0, len(self._seen), block):
                    part = slice(start, start + block)
                    chances = self._slopes[part] @ below
                    chances += self._last[part]
                    sums += self._seen[part] @ np.log(chances, out=chances)
            for cuts, matrix, answers in self._steep:
                sums += np.log(self._population.cells(theta, cuts) @ matrix) @ answers
        return np.where(np.isnan(sums), -np.inf, sums)


def _slopes(rows: list[tuple[tuple[float, ...], Array]]) -> tuple[Array, Any]:
    """Return the distinct cut points, and a matrix from the CDF there to each answer's chance."""
    points = np.unique([c for cuts, _ in rows for c in cuts])
    index, column, values = [], [], []
    count = 0
    for cuts, slopes in rows:
        k, answers = slopes.shape
        index.append(np.tile(np.arange(count, count + answers), k))
        column.append(np.repeat(np.searchsorted(points, cuts), answers))
        values.append(slopes.reshape(-1))
        count += answers
    if not rows:
        return points, np.zeros((0, 0))
    places = np.concatenate(index), np.concatenate(column)
    if len(points) > _DENSE:
        return points, sparse.csr_array((np.concatenate(values), places), (count, len(points)))
    dense = np.zeros((count, len(points)))
    dense[places] = np.concatenate(values)
    return points, dense


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How the sampler fared: sums since the start, and the last move's acceptance."""

    reports: int = 0
    steps: int = 0
    resamplings: int = 0
    restarts: int = 0
    moves: int = 0
    acceptance: float = math.nan
    size: float = 1.0  # of the proposal, in units of 2.38/√d


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
        return _effective(self.log_weights)

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
        return self.theta[_systematic(self.weights, 0.5)]

    def interval(self, confidence_level: float = 0.95) -> Array:
        """Return the equal-tailed credible interval of each parameter: d rows of (low, high)."""
        tail = (1 - level(confidence_level)) / 2
        return self.quantiles([tail, 1 - tail])

    def quantiles(self, levels: Sequence[float]) -> Array:
        """Return weighted quantiles of each parameter, between particles by interpolation."""
        theta, weights = self.theta, self.weights
        rows = []
        for column in theta.T:
            order = np.argsort(column, kind="stable")
            sorted_weights = weights[order]
            middles = np.cumsum(sorted_weights) - sorted_weights / 2
            rows.append(np.interp(levels, middles, column[order]))
        return np.stack(rows)

    def draw(self, rng: np.random.Generator) -> Array:
        """Return one θ drawn from the posterior, for Thompson sampling."""
        return np.asarray(self.theta[_systematic(self.weights, rng.random(), 1)[0]])


def start(population: Population, n_particles: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior given no report: the prior.

    Examples
    --------
    >>> from confidp.local.population import Normal
    >>> rng = np.random.default_rng(1)
    >>> prior = start(Normal(), 1000, rng)
    >>> after = update(prior, Design.of([0.0], [[3, 1], [1, 3]]), [0, 10**6], rng)
    >>> bool(after.mean[0] > 50), after.diagnostics.reports
    (True, 1000000)
    """
    n = integer("n_particles", n_particles, least=2)
    particles = as_population(population).unconstrained(population.sample_prior(n, rng))
    log_weights = np.full(n, -math.log(n))
    return _posterior(population, particles, log_weights, {}, 0.0, Diagnostics())


def update(
    posterior: Posterior, query: Design, counts: Sequence[int], rng: np.random.Generator
) -> Posterior:
    """Return the posterior given more reports to one query: `counts[y]` answers y.

    One report and a batch of a billion go through the same door, and the order of reports doesn't
    matter beyond Monte Carlo error.
    """
    return update_many(posterior, {query: counts}, rng)


def update_many(
    posterior: Posterior, batch: Mapping[Design, Sequence[int]], rng: np.random.Generator
) -> Posterior:
    """Return the posterior given more reports, to any number of queries.

    Raises
    ------
    InvalidArgument
        Where counts aren't whole numbers of at least 0, one for each answer, or where no particle
        gives the reports a probability above 0, which no private channel allows.
    """
    new = {query: _checked(query, counts) for query, counts in batch.items()}
    new = {query: counts for query, counts in new.items() if any(counts)}
    if not new:
        return posterior
    population, marks = posterior.population, posterior.diagnostics
    particles, log_weights = posterior.particles, posterior.log_weights
    evidence = posterior.log_evidence
    batch_likelihood, old_likelihood = _Likelihood(population, new), None
    fresh, done = batch_likelihood(posterior.theta), 0.0
    if not np.isfinite(fresh[np.isfinite(log_weights)]).any():
        raise InvalidArgument("counts have probability 0 under every particle")
    while done < 1:
        step = _longest_step(log_weights, fresh, 1 - done)
        raised = log_weights + step * fresh
        gain = _log_sum(raised)
        evidence, log_weights = evidence + gain, raised - gain
        done = 1.0 if step >= 1 - done else done + step
        marks = replace(marks, steps=marks.steps + 1)
        if _effective(log_weights) < _RESAMPLE * len(log_weights):
            old_likelihood = old_likelihood or _Likelihood(population, posterior.counts)
            target = _Target(population, old_likelihood, batch_likelihood, done)
            particles, fresh, marks = _move(particles, log_weights, target, marks, rng)
            log_weights = np.full(len(particles), -math.log(len(particles)))
    pooled = dict(posterior.counts)
    for query, counts in new.items():
        before = pooled.get(query, (0,) * query.answers)
        pooled[query] = tuple(a + b for a, b in zip(before, counts, strict=True))
    fresh_reports = sum(map(sum, new.values()))
    marks = replace(marks, reports=marks.reports + fresh_reports)
    found = _posterior(population, particles, log_weights, pooled, evidence, marks)
    return _rescued(found, rng) if fresh_reports >= _BATCH else found


def _rescued(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """Return the posterior, restarted at its mode if the particles have missed most of it.

    Where every particle is so far from the truth that its likelihood is flat, nothing draws it
    there. So after a batch the mode is sought from elsewhere too, and importance sampling from a
    Student t around it gives a second estimate of the evidence. Both are consistent: if this one
    is much the larger, it has found mass that the particles don't have, and takes their place.
    """
    population, n = posterior.population, len(posterior.log_weights)
    nothing, pooled = _Likelihood(population, {}), _Likelihood(population, posterior.counts)
    target = _Target(population, nothing, pooled, 1.0)
    cuts = np.unique([c for design in posterior.counts for c in design.cuts])
    guesses = population.unconstrained(population.guesses(cuts))
    cloud = np.concatenate([posterior.particles, guesses])
    order = np.argsort(target(cloud)[0])[::-1]
    starts = [cloud[order[0]]]
    if order[0] < n and (order >= n).any():
        starts.append(cloud[order[order >= n][0]])  # the best guess too

    def loss(z: Array) -> float:
        return -float(np.maximum(target(z[None, :])[0][0], -1e300))

    options = {"xatol": 1e-9, "fatol": 1e-3, "maxiter": 2000}
    searches = [optimize.minimize(loss, z, method="Nelder-Mead", options=options) for z in starts]
    mode = np.asarray(min(searches, key=lambda search: search.fun).x)
    root = _curvature_root(loss, mode)
    d, tails = len(mode), _TAILS
    noise = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(tails, (n, 1)) / tails)
    z = mode + noise @ root.T
    log_proposal = (
        math.lgamma((tails + d) / 2)
        - math.lgamma(tails / 2)
        - d / 2 * math.log(tails * math.pi)
        - math.log(abs(float(np.linalg.det(root))))
        - (tails + d) / 2 * np.log1p((noise**2).sum(axis=1) / tails)
    )
    log_weights = target(z)[0] - log_proposal
    if not np.isfinite(log_weights).any():
        return posterior
    total = _log_sum(log_weights)
    evidence = total - math.log(n)
    if not evidence > posterior.log_evidence + _MISSED:
        return posterior
    log_weights, marks = log_weights - total, posterior.diagnostics
    marks = replace(marks, restarts=marks.restarts + 1)
    if _effective(log_weights) < _RESAMPLE * n:
        z, _, marks = _move(z, log_weights, target, marks, rng)
        log_weights = np.full(n, -math.log(n))
    return _posterior(population, z, log_weights, posterior.counts, evidence, marks)


def _curvature_root(loss: Callable[[Array], float], mode: Array) -> Array:
    """Return a root of the inverse Hessian at a mode, by differences as wide as the density."""
    d, least = len(mode), loss(mode)
    widths = np.full(d, 1.0)
    for i in range(d):
        for _ in range(80):  # until the loss rises by about 1
            shift = np.eye(d)[i] * widths[i]
            rise = (loss(mode + shift) + loss(mode - shift)) / 2 - least
            if 0.1 < rise < 2:
                break
            widths[i] *= 0.5 if rise >= 2 else 1.7
    hessian = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            a, b = np.eye(d)[i] * widths[i], np.eye(d)[j] * widths[j]
            corners = loss(mode + a + b) + loss(mode - a - b)
            crossed = loss(mode + a - b) + loss(mode - a + b)
            hessian[i, j] = (corners - crossed) / 4  # in units of the widths
    hessian = np.where(np.isfinite(hessian), hessian, 0.0)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    return np.asarray(widths[:, None] * vectors / np.sqrt(np.maximum(values, 1e-2)))


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
    if not np.isfinite(particles).all() or not abs(_log_sum(log_weights)) < _SUM:
        raise InvalidArgument("particles must be finite, and their weights must sum to 1")
    cuts, weights, tallies = (iter(arrays[name]) for name in ("cuts", "weights", "counts"))
    counts = {}
    for k, answers in arrays["shapes"].tolist():
        points = [next(cuts) for _ in range(k)]
        query = Design.of(points, [[next(weights) for _ in range(answers)] for _ in range(k + 1)])
        counts[query] = _checked(query, [int(next(tallies)) for _ in range(answers)])
    marks = Diagnostics(**header["diagnostics"])
    evidence = float(header["log_evidence"])
    return _posterior(population, particles, log_weights, counts, evidence, marks)


def write_arrays(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays and a JSON header to one .npz file, whole or not at all."""
    target = Path(path)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            np.savez(file, header=text, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
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
    try:
        yield
    except (KeyError, TypeError, ValueError, EOFError, StopIteration, BadZipFile) as error:
        reason = str(error) if isinstance(error, InvalidArgument) else type(error).__name__
        raise InvalidArgument(f"{path} is not a saved posterior or is damaged: {reason}") from None


@dataclass(frozen=True, slots=True)
class _Target:
    """The log density the particles have while a batch is added: its likelihood to a power."""

    population: Population
    old: _Likelihood
    new: _Likelihood
    power: float

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Return the log density, up to a constant, and the batch's log-likelihood."""
        theta = self.population.natural(z)
        fresh = self.new(theta)
        return self.population.log_prior(z) + self.old(theta) + self.power * fresh, fresh


def _move(
    particles: Array,
    log_weights: Array,
    target: _Target,
    marks: Diagnostics,
    rng: np.random.Generator,
) -> tuple[Array, Array, Diagnostics]:
    """Resample, then random-walk Metropolis until particles have moved often enough.

    Returns the particles, equally weighted, the batch's log-likelihood at each, and what happened.
    """
    n, d = particles.shape
    root = _proposal_root(particles, log_weights)
    z = particles[_systematic(np.exp(log_weights), rng.random())]
    density, fresh = target(z)
    size, accepted, moves = marks.size, 0.0, 0
    while accepted < _ACCEPTED and moves < _MOVES:
        proposal = z + size * 2.38 / math.sqrt(d) * rng.standard_normal((n, d)) @ root.T
        proposed, proposed_fresh = target(proposal)
        with np.errstate(invalid="ignore"):
            taken = -rng.standard_exponential(n) < proposed - density  # a NaN is a refusal
        z = np.where(taken[:, None], proposal, z)
        density = np.where(taken, proposed, density)
        fresh = np.where(taken, proposed_fresh, fresh)
        rate = float(taken.mean())
        size = min(max(size * math.exp(rate - _TARGET), 1e-3), 4.0)
        accepted, moves = accepted + rate, moves + 1
    marks = replace(
        marks,
        resamplings=marks.resamplings + 1,
        moves=marks.moves + moves,
        acceptance=accepted / moves,
        size=size,
    )
    return z, fresh, marks


def _proposal_root(particles: Array, log_weights: Array) -> Array:
    """Return a root of the weighted covariance, never singular.

    Where hardly any particle has weight the whole cloud's covariance stands in, too wide rather
    than too narrow: the proposal's size then adapts downwards.
    """
    n, d = particles.shape
    few = _effective(log_weights) < 2 * (d + 1)
    weights = np.full(n, 1 / n) if few else np.exp(log_weights)
    middle = weights @ particles
    centred = particles - middle
    values, vectors = np.linalg.eigh((weights[:, None] * centred).T @ centred)
    least = max(1e-10 * float(values[-1]), (1e-12 * (1 + float(np.abs(middle).max()))) ** 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, least)))


def _longest_step(log_weights: Array, fresh: Array, room: float) -> float:
    """Return the largest power, up to `room`, that leaves enough effective particles.

    Particles under which the batch is impossible are lost at any power, so "enough" is counted
    among the others. Bisection of the logarithm: the power may be 1e-12.
    """
    alive = _effective(np.where(np.isfinite(fresh), log_weights, -np.inf))
    enough = _STEP * alive
    if _effective(log_weights + room * fresh) >= enough:
        return room
    low, high = -80.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2
        if _effective(log_weights + room * math.exp(middle) * fresh) >= enough:
            low = middle
        else:
            high = middle
    return room * math.exp(low)


def _systematic(weights: Array, offset: float, count: int | None = None) -> NDArray[np.intp]:
    """Return indices of a systematic sample of `count` particles, one for each unless told."""
    total = np.cumsum(weights)
    count = len(weights) if count is None else count
    # Positions are below 1 and the last sum is made exactly 1, so no index runs off the end.
    sums = np.minimum(total / total[-1], 1.0)
    positions = (offset + np.arange(count)) / count
    found = np.searchsorted(sums, positions, side="right")
    last = int(np.flatnonzero(weights)[-1])  # positions may round up to 1
    return np.asarray(np.minimum(found, last))


def _effective(log_weights: Array) -> float:
    """Return (Σ w)² / Σ w², for weights that needn't sum to 1; 0 where all are 0."""
    top = float(log_weights.max())
    if not math.isfinite(top):
        return 0.0
    weights = np.exp(log_weights - top)
    return float(weights.sum() ** 2 / (weights @ weights))


def _log_sum(log_weights: Array) -> float:
    top = float(log_weights.max())
    return top + math.log(float(np.exp(log_weights - top).sum()))


def _checked(query: Design, counts: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(query, Design):
        raise InvalidType(f"query must be a Design, not {type(query).__name__}")
    values = tuple(integer("counts", c, least=0) for c in counts)
    if len(values) != query.answers:
        raise InvalidArgument(f"counts must have {query.answers} numbers, not {len(values)}")
    if sum(values) > _LARGEST:
        raise InvalidArgument("counts must have a sum of at most 2^53")
    return values


def _posterior(
    population: Population,
    particles: Array,
    log_weights: Array,
    counts: Counts,
    log_evidence: float,
    marks: Diagnostics,
) -> Posterior:
    for array in (particles, log_weights):
        array.flags.writeable = False
    return Posterior(population, particles, log_weights, counts, log_evidence, marks)
