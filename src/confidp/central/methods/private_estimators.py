"""ε-DP point estimates with simulations of themselves: what BLBQuant asks of a statistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import Grid
from confidp.central.methods.method import unsuitable
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.statistic import MeanLike, Records, Statistic, sensitivity_at
from confidp.privacy.pure_dp import ExponentialMechanism, LaplaceMechanism
from confidp.randomness import Randomness

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


class PrivateEstimator(Protocol):
    """An ε-DP estimate of θ on n records, and a simulation of it on resamples."""

    @property
    def step(self) -> Fraction:
        """A natural step of the estimate: the range over n."""

    @property
    def public(self) -> Mapping[str, Any]:
        """Its noise, JSON-ready."""

    def release(self, records: Records, randomness: Randomness) -> Fraction:
        """Return a private estimate of θ(records) − origin. This spends ε."""

    def simulate(self, block: Records, counts: Counts, rng: np.random.Generator) -> Numbers:
        """Return such an estimate for each resample, given how often it holds each record.

        Not a release: its noise is only a part of a function of the block.
        """


@runtime_checkable
class OrderStatistic(Statistic, Protocol):
    """A quantile of whole numbers from 0 to ``grid.cells``."""

    grid: Grid

    def ranks(self, n: int, /) -> tuple[int, ...]:
        """Return h of each coordinate, where the quantile is the h-th smallest of n."""


def private_estimator(statistic: Statistic, n: int, epsilon: float) -> PrivateEstimator:
    """Return the ε-DP estimator for what the statistic offers: a sensitivity, or ranks."""
    if len(statistic.origin) == 1:
        if isinstance(statistic, MeanLike):
            step = sensitivity_at(n, statistic.sensitivity)
            moved = step + 2 * statistic.rounding(n)
            return _WithLaplaceNoise(statistic, step, LaplaceMechanism(moved, epsilon))
        if isinstance(statistic, OrderStatistic):
            (rank,) = statistic.ranks(n)
            return _OnGaps(statistic.grid, rank, n, ExponentialMechanism(epsilon / 2))
    raise unsuitable("BLBQuant", "one dimension, and a global sensitivity or ranks,", statistic)


@dataclass(frozen=True, slots=True)
class _WithLaplaceNoise:
    """θ + Laplace(Δ_n/ε): ε-DP."""

    statistic: MeanLike
    step: Fraction
    mechanism: LaplaceMechanism

    @property
    def public(self) -> Mapping[str, Any]:
        return {"laplace_scale": self.mechanism.scale}

    def release(self, records: Records, randomness: Randomness) -> Fraction:
        return self.mechanism.release(Fraction(float(self.statistic.value(records)[0])), randomness)

    def simulate(self, block: Records, counts: Counts, rng: np.random.Generator) -> Numbers:
        if isinstance(self.statistic, Mean):  # linear: no resample needs to be written out
            step = float(self.statistic.grids[0].step)
            values = step * ((counts @ block[:, 0]) / counts[0].sum())
        else:
            values = np.array(
                [self.statistic.value(np.repeat(block, count, axis=0))[0] for count in counts]
            )
        noisy: Numbers = values + rng.laplace(0.0, self.mechanism.scale, size=len(counts))
        return noisy


@dataclass(frozen=True, slots=True)
class _OnGaps:
    """A grid point x with chance ∝ e^{−(ε/2)·penalty}: its ranks' distance from h.

    The ranks of x are those from #{X < x} to #{X ≤ x}. One record moves both by at most 1, and so
    the penalty: `ExponentialMechanism` at η = ε/2 is ε-DP. Points between two values share one.
    """

    grid: Grid
    rank: int
    n: int
    mechanism: ExponentialMechanism

    @property
    def step(self) -> Fraction:
        return self.grid.range / self.n

    @property
    def public(self) -> Mapping[str, Any]:
        return {"rank_eta": self.mechanism.eta}

    def release(self, records: Records, randomness: Randomness) -> Fraction:
        values, counts = np.unique(records, return_counts=True)
        starts, lengths = self._runs(values)
        penalties = self._penalties(counts[None, :])[0]
        run, place = self.mechanism.release(penalties.tolist(), lengths.tolist(), randomness)
        return (int(starts[run]) + place) * self.grid.step

    def simulate(self, block: Records, counts: Counts, rng: np.random.Generator) -> Numbers:
        order = np.argsort(block)
        values, first = np.unique(block[order], return_index=True)
        starts, lengths = self._runs(values)
        penalties = self._penalties(np.add.reduceat(counts[:, order], first, axis=1))
        with np.errstate(divide="ignore"):  # an empty gap has weight 0
            log_weights = np.log(lengths) - self.mechanism.eta * penalties
        # The largest of log-weights plus Gumbel noise is at each with its own chance.
        run = np.argmax(log_weights + rng.gumbel(size=log_weights.shape), axis=1)
        points: Numbers = float(self.grid.step) * (starts[run] + rng.integers(0, lengths[run]))
        return points

    def _runs(self, values: Counts) -> tuple[Counts, Counts]:
        """Return first point and length of: the gap before a value, the value, …, the last gap."""
        edges = np.concatenate([[-1], values, [self.grid.cells + 1]])
        starts, lengths = np.empty((2, 2 * len(values) + 1), dtype=np.int64)
        starts[0::2], starts[1::2] = edges[:-1] + 1, values
        lengths[0::2], lengths[1::2] = np.diff(edges) - 1, 1
        return starts, lengths

    def _penalties(self, counts: Counts) -> Counts:
        """Return each run's penalty, for counts of the values in each resample."""
        above = np.cumsum(counts, axis=1)
        below = above - counts
        penalties = np.empty((len(counts), 2 * counts.shape[1] + 1), dtype=np.int64)
        penalties[:, 0] = self.rank
        penalties[:, 2::2] = np.abs(above - self.rank)
        penalties[:, 1::2] = np.maximum(np.maximum(below - self.rank, self.rank - above), 0)
        return penalties
