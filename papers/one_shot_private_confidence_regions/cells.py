"""A cell of Tables 3 and 4: a population, n, μ and a method, over many data sets.

Settings are the paper's: B = 500, N_mc = 100, level 0.90, m = ⌈n/ln n⌉, ρ = 1/n, δ = 1e-6; for the
median with replacement level 0.91. All methods of a population and n see the same data sets.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import binomtest

import confidp as cdp

SEED = 20261130
LEVEL, N_RESAMPLES, DELTA = 0.90, 500, 1e-6
LEAST_DATA_SETS = 40  # before a cell may stop for want of time

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Experiment:
    """A population, what is estimated, and the truth.

    `bounded` is the statistic as methods see it that need a global sensitivity.
    """

    draw: Callable[[np.random.Generator, int], Numbers]
    statistic: Any
    bounded: Any
    truth: float
    published: type  # the paper's algorithm for it
    own: tuple[str, ...]  # the calibrated methods for it
    printed: str = ""  # the printed experiment it stands beside, if it isn't its namesake


def _sample_median(rows: Numbers) -> float:
    rank = math.ceil(len(rows) / 2) - 1
    return float(np.partition(rows[:, 0], rank)[rank])


def _bounded_median(half: float) -> Any:
    """Return the median on [−half, half], whose sensitivity for Dette and Graw is the range."""
    return cdp.Custom(_sample_median, lambda _: 2 * half, bounds=(-half, half), name="median")


_BERNOULLI, _UNIFORM = cdp.Mean((0, 1)), cdp.Mean((-1, 1))
_PRODUCT = cdp.ProductKernel((-0.5, 0.5), degenerate=True)
_FOR_MEANS = ("private_variance", "cr_aware")
_FOR_MEDIANS = ("rank_inversion", "cr_aware")

EXPERIMENTS = {
    "bernoulli_mean": Experiment(
        lambda rng, n: (rng.random(n) < 0.05).astype(np.float64),
        _BERNOULLI, _BERNOULLI, 0.05, cdp.CRGS, _FOR_MEANS,
    ),
    "uniform_mean": Experiment(
        lambda rng, n: rng.uniform(-1, 1, n), _UNIFORM, _UNIFORM, 0.0, cdp.CRGS, _FOR_MEANS
    ),
    "median": Experiment(
        lambda rng, n: rng.uniform(-1, 1, n),
        cdp.Median((-1, 1)), _bounded_median(1), 0.0, cdp.CRSS, _FOR_MEDIANS,
    ),
    # What Table 4a seems to have been made from, by its lengths (README).
    "median_normal": Experiment(
        lambda rng, n: np.clip(rng.standard_normal(n), -0.5, 0.5),
        cdp.Median((-0.5, 0.5)), _bounded_median(0.5), 0.0, cdp.CRSS, _FOR_MEDIANS, "median",
    ),
    "degenerate_u": Experiment(
        lambda rng, n: rng.uniform(-0.5, 0.5, n),
        _PRODUCT, _PRODUCT, 0.0, cdp.CRSS, ("half_centred", "cr_aware"),
    ),
}  # fmt: skip
PAPER = ("cr_wr", "cr_wor")
PRINTED_COMPETITORS = ("blbquant", "dette_graw")
COMPETITORS = (*PRINTED_COMPETITORS, "dette_graw_sound", "ssvhl25")
NAMES = {
    "blbquant": "BLBQuant",
    "dette_graw": "Dette–Graw, as published: NOT private",
    "cr_wr": "CR, with replacement",
    "cr_wor": "CR, without",
    "cr_aware": "CR, noise-aware",
    "private_variance": "private variance",
    "rank_inversion": "rank inversion",
    "half_centred": "half-centred",
    "dette_graw_sound": "Dette–Graw, sound accounting",
    "ssvhl25": "SSVHL25, our reading",
    "non_private": "not private",
}


@dataclass
class PlannedOnce:
    """A method whose plan, which is public, is made once for all data sets of a cell."""

    method: Any
    plans: dict[Any, Any] = field(default_factory=dict)

    @property
    def uses_delta(self) -> bool:
        uses: bool = self.method.uses_delta
        return uses

    def plan(self, statistic: Any, request: Any) -> Any:
        if request not in self.plans:
            self.plans[request] = self.method.plan(statistic, request)
        return self.plans[request]


def methods_for(experiment: str) -> tuple[str, ...]:
    """Return the private methods that are run on a population, the paper's first."""
    return (*PAPER, *EXPERIMENTS[experiment].own, *COMPETITORS)


def make_method(experiment: str, n: int, name: str) -> tuple[Any, Any, float]:
    """Return a method, the statistic it is run on, and the level it is asked for."""
    setting = EXPERIMENTS[experiment]
    plain, bounded = setting.statistic, setting.bounded
    match name:
        case "cr_wr":
            # The paper keeps 0.01 for ⊥ in this one place.
            level = 0.91 if experiment.startswith("median") else LEVEL
            return setting.published("with_replacement", calibration="published"), plain, level
        case "cr_wor":
            return setting.published("without_replacement", calibration="published"), plain, LEVEL
        case "cr_aware":
            return setting.published(), plain, LEVEL
        case "private_variance":
            return cdp.PrivateVariance(), plain, LEVEL
        case "rank_inversion":
            return cdp.RankInversion(), plain, LEVEL
        case "half_centred":
            return cdp.HalfCentred(), plain, LEVEL
        case "blbquant":
            return cdp.BLBQuant(inner_resamples=100, grid_step=1 / n), plain, LEVEL
        case "dette_graw":
            unproved = cdp.DetteGraw("asymptotic", acknowledge_unproved=True)
            return unproved, bounded, LEVEL
        case "dette_graw_sound":
            return PlannedOnce(cdp.DetteGraw()), bounded, LEVEL
        case "ssvhl25":
            return PlannedOnce(cdp.SSVHL25()), bounded, LEVEL
    raise ValueError(f"unknown method: {name}")


def non_private(experiment: str, data: Numbers) -> tuple[float, float]:
    """Return the textbook interval on the same data: what no private one can be asked to beat.

    Student's t; order statistics; for the degenerate kernel U ± c·s²/n, with c the 0.9-quantile of
    |χ²₁ − 1|, its limit law.
    """
    n = len(data)
    if experiment.startswith("median"):
        rank = int(stats.binom.ppf((1 - LEVEL) / 2, n, 0.5))
        low, high = np.partition(data, [rank - 1, n - rank])[[rank - 1, n - rank]]
        return float(low), float(high)
    if experiment == "degenerate_u":
        middle = (data.sum() ** 2 - (data**2).sum()) / (n * (n - 1))
        reach = (stats.chi2.ppf(LEVEL, 1) - 1) * data.var(ddof=1) / n
    else:
        middle = data.mean()
        reach = stats.t.ppf((1 + LEVEL) / 2, n - 1) * data.std(ddof=1) / math.sqrt(n)
    return float(middle - reach), float(middle + reach)


@dataclass(frozen=True)
class Cell:
    """What one population, size, budget and method gave."""

    covered: NDArray[np.bool_]  # one a data set; a region that is everything covers
    lengths: Numbers  # of the regions that are finite
    cpu_ms: float  # a region's mean processor time, the first aside: it may load or plan

    @property
    def data_sets(self) -> int:
        return len(self.covered)

    @property
    def coverage_interval(self) -> tuple[float, float]:
        """Exact 95% binomial interval (Clopper and Pearson) of the coverage."""
        count = int(self.covered.sum())
        exact = binomtest(count, self.data_sets).proportion_ci(0.95, method="exact")
        return float(exact.low), float(exact.high)

    @property
    def length_error(self) -> float:
        """Standard error of the mean length."""
        if len(self.lengths) < 2:
            return math.nan
        return float(self.lengths.std(ddof=1) / math.sqrt(len(self.lengths)))


def data_set(experiment: str, n: int, i: int) -> Numbers:
    """Return the i-th data set, the same for every method and budget."""
    rng = np.random.default_rng([SEED, zlib.crc32(experiment.encode()), n, i])
    return EXPERIMENTS[experiment].draw(rng, n)


def run_cell(
    experiment: str,
    n: int,
    mu: float,
    method: str,
    data_sets: int,
    seconds: float = math.inf,
    n_resamples: int = N_RESAMPLES,
) -> Cell:
    """Run one cell; after so many seconds of processor time it stops, with 40 data sets at least.

    Its seeds are its own, so cells can run in any order, and fewer data sets are the first ones.
    """
    truth = EXPERIMENTS[experiment].truth
    key = zlib.crc32(f"{experiment} {method} {mu:g}".encode())
    chosen = None if method == "non_private" else make_method(experiment, n, method)
    covered, lengths = [], []
    seconds_each: list[float] = []
    for i in range(data_sets):
        if i >= LEAST_DATA_SETS and sum(seconds_each) > seconds:
            break
        data = data_set(experiment, n, i)
        started = time.process_time()
        if chosen is None:
            low, high = non_private(experiment, data)
            hit, length = low < truth < high, high - low
        else:
            region = cdp.confidence_region(
                data,
                chosen[1],
                budget=cdp.GDP(mu, DELTA),
                confidence_level=chosen[2],
                method=chosen[0],
                n_resamples=n_resamples,
                rng=np.random.default_rng([SEED, key, n, i]),
            )
            hit, length = region.contains(truth), 2 * region.radius
        seconds_each.append(time.process_time() - started)
        covered.append(hit)
        if math.isfinite(length):
            lengths.append(length)
    cpu_ms = 1000 * float(np.mean(seconds_each[1:] or seconds_each))
    return Cell(np.array(covered, dtype=bool), np.array(lengths), cpu_ms)
