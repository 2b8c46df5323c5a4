"""The headline claim: what privacy costs, against B, n and m; noise scales are public, so exactly.

Four panels, in units of the non-private interval:

- noise against B: what is added to a mean's resampling quantile (CR-GS), or to each resample and
  so to the quantile's spread (Dette–Graw, SSVHL25), both with accounting that is proved;
- width against B: of intervals that count their noise;
- noise against n, beside the rates of the paper's Table 1, for all three estimands;
- noise against m at n = 50,000.

For means nothing is simulated; a median's and a U-statistic's noise depend on the data, and are
averages over a few data sets. Some widths are simulated too, to check the formulas::

    python -m papers.one_shot_private_confidence_regions.overhead [--data-sets 10] [--out DIR]

Writes overhead.csv; `figures.py` draws it.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import confidp as cdp
from confidp.central.methods.cr_gs import CRGSPlan
from confidp.central.methods.dette_graw import DetteGrawPlan
from confidp.central.methods.method import Request
from confidp.central.methods.noise_aware import NoiseAwarePlan, calibrated_reach
from confidp.central.methods.ssvhl25 import SSVHL25Plan
from confidp.central.resampling import Resampling, Sampling
from papers.one_shot_private_confidence_regions.cells import (
    DELTA,
    EXPERIMENTS,
    LEVEL,
    N_RESAMPLES,
    SEED,
    data_set,
    non_private,
    run_cell,
)
from papers.one_shot_private_confidence_regions.tables import SIZES, VERSIONS

HERE = Path(__file__).parent
N_OF_B, MU_OF_B = 50_000, 1.0  # of the panels against B
LARGE_N, LARGE_MU = 50_000, 8.0  # of the panels against n (up to) and m: the paper's
MANY_B = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
SIMULATED_B = (50, 500, 5000)
Z = float(stats.norm.ppf((1 + LEVEL) / 2))
DEVIATION = 1 / math.sqrt(3)  # of Uniform[−1, 1]
MEAN = EXPERIMENTS["uniform_mean"].statistic
WITH, WITHOUT = Sampling.WITH_REPLACEMENT, Sampling.WITHOUT_REPLACEMENT


@dataclass(frozen=True)
class Point:
    """One number of a panel: `y` in units of the non-private radius (or width)."""

    panel: str
    series: str
    x: int
    y: float
    data_sets: int = 0  # 0 where it is computed from public scales


def plan(method: Any, n: int, mu: float, n_resamples: int) -> Any:
    """Return a method's public plan for the mean of n numbers on [−1, 1]."""
    return method.plan(MEAN.for_shape(n, 1), Request(n, mu, LEVEL, n_resamples, DELTA))


def published_noise(
    sampling: Sampling, n: int, mu: float, n_resamples: int, m: int | None = None
) -> float:
    """Return σ_priv = σ/τ_n of published CR-GS, over the non-private radius zσ_X/√n."""
    method = cdp.CRGS(sampling, m, calibration="published")
    chosen: CRGSPlan = plan(method, n, mu, n_resamples)
    return float(chosen.public["radius_noise"]) / (Z * DEVIATION / math.sqrt(n))


@cache
def dette_graw(n: int, mu: float, n_resamples: int) -> tuple[float, float]:
    """Return noise and width of Dette–Graw with sound accounting, over the non-private ones.

    Pivots taken to the scale of θ̂ have variance (m/n)(σ_X²/m + s²), s being the noise on each.
    """
    chosen: DetteGrawPlan = plan(cdp.DetteGraw(), n, mu, n_resamples)
    added = math.sqrt(chosen.resample_size) * chosen.resample.scale / DEVIATION
    return added / Z, math.hypot(1.0, added)


@cache
def ssvhl25(n: int, mu: float, n_resamples: int) -> tuple[float, float]:
    """Return noise and width of SSVHL25 (our reading), over the non-private ones."""
    chosen: SSVHL25Plan = plan(cdp.SSVHL25(), n, mu, n_resamples)
    m = chosen.resample_size
    added = math.sqrt(m / (1 - m / n)) * chosen.estimator.scale / DEVIATION
    return added / Z, math.hypot(1.0, added)


def noise_aware_width(sampling: Sampling, n: int, mu: float, n_resamples: int) -> float:
    """Return the width of noise-aware CR-GS for normal pivots, over the non-private one.

    With replacement κ is what was drawn; here it is its bound κ⋆, so this is an upper bound.
    """
    chosen: NoiseAwarePlan = plan(cdp.CRGS(sampling), n, mu, n_resamples)
    _, radius_noise = chosen.radius_mechanism(chosen.resampling.multiplicity)
    error = DEVIATION / math.sqrt(n)
    pivots = error * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    return calibrated_reach(pivots, chosen.center.scale, radius_noise, LEVEL) / (Z * error)


def smooth_noise(
    experiment: str, sampling: Sampling, n: int, mu: float, data_sets: int
) -> float:  # fmt: skip
    """Return a mean σ_priv of published CR-SS over the mean non-private radius."""
    noise, radius = 0.0, 0.0
    for i in range(data_sets):
        data = data_set(experiment, n, i)
        region = cdp.confidence_region(
            data,
            EXPERIMENTS[experiment].statistic,
            budget=cdp.GDP(mu, DELTA),
            confidence_level=LEVEL,
            method=cdp.CRSS(sampling, calibration="published"),
            n_resamples=N_RESAMPLES,
            rng=np.random.default_rng([SEED, n, i]),
        )
        low, high = non_private(experiment, data)
        noise += region.public["radius_noise"]
        radius += (high - low) / 2
    return noise / radius


def median_bound(sampling: Sampling, n: int, mu: float) -> float:
    """Return theorem 5.6's bound on a median's σ_priv, with lemma 6.1's Γ, over the radius.

    σ_priv ≤ (2τ_m/(τ_n μ))(κ⋆e²Γ_m + eΓ_n) with Γ_N = 6K_N/(Nλ) + C/N³ and
    K_N = (ln((u − ℓ)/C) + 3 ln N)/β, λ = ½ being the density. C = u − ℓ.
    """
    r = Resampling.choose(n, N_RESAMPLES, sampling)
    log_term = math.log(N_RESAMPLES / (DELTA * r.failure_probability))
    beta = mu / (2 * r.multiplicity) * min(1.0, 1 / (4 * math.sqrt(log_term)))

    def gamma(size: int) -> float:
        return 6 * 3 * math.log(size) / beta / (size * 0.5) + 2 / size**3

    part = r.multiplicity * math.e**2 * gamma(r.size) + math.e * gamma(n)
    radius = Z / math.sqrt(n)  # an order statistic's: z/(2 f √n), f = ½
    return 2 * math.sqrt(r.size / n) / mu * part / radius


def against_b(data_sets: int) -> Iterator[Point]:
    """Yield both panels against B."""
    n, mu = N_OF_B, MU_OF_B
    for b in MANY_B:
        for sampling in (WITH, WITHOUT):
            name = f"CR-GS {sampling.replace('_', ' ')}"
            yield Point("noise against B", name, b, published_noise(sampling, n, mu, b))
            width = noise_aware_width(sampling, n, mu, b)
            yield Point("width against B", name, b, width)
        for name, both in (("Dette–Graw", dette_graw), ("SSVHL25", ssvhl25)):
            noise, width = both(n, mu, b)
            yield Point("noise against B", name, b, noise)
            yield Point("width against B", name, b, width)
    floor = run_cell("uniform_mean", n, math.inf, "non_private", data_sets).lengths.mean()
    for b in SIMULATED_B:
        for method, name in (
            ("cr_aware", "CR-GS without replacement"),
            ("dette_graw_sound", "Dette–Graw"),
            ("ssvhl25", "SSVHL25"),
        ):
            cell = run_cell("uniform_mean", n, mu, method, data_sets, n_resamples=b)
            yield Point("width against B", name, b, float(cell.lengths.mean() / floor), data_sets)


def against_n_and_m(data_sets: int) -> Iterator[Point]:
    """Yield the panels against n and m."""
    mu = LARGE_MU
    for n in SIZES:
        for sampling in (WITH, WITHOUT):
            name = sampling.replace("_", " ")
            noise = published_noise(sampling, n, mu, N_RESAMPLES)
            yield Point("noise against n", f"mean, {name}", n, noise)
            bound = median_bound(sampling, n, mu)
            yield Point("bound against n", f"median, {name}", n, bound)
            for experiment, estimand in (("median", "median"), ("degenerate_u", "degenerate U")):
                noise = smooth_noise(experiment, sampling, n, mu, data_sets)
                yield Point("noise against n", f"{estimand}, {name}", n, noise, data_sets)
    n = LARGE_N
    for m in (round(n ** (k / 20)) for k in range(8, 20)):
        for sampling in (WITH, WITHOUT):
            noise = published_noise(sampling, n, mu, N_RESAMPLES, m)
            yield Point("noise against m", sampling.replace("_", " "), m, noise)
        chosen: NoiseAwarePlan = plan(cdp.CRGS(WITHOUT, m), n, mu, N_RESAMPLES)
        _, tight = chosen.radius_mechanism(1)
        scaled = tight / (Z * DEVIATION / math.sqrt(n))
        yield Point("noise against m", "without, tight and for a finite population", m, scaled)


def multiplicity(n: int, m: int | None = None, n_resamples: int = N_RESAMPLES) -> int:
    """Return κ⋆ with replacement."""
    return Resampling.choose(n, n_resamples, WITH, m).multiplicity


def write(points: Sequence[Point], path: Path, data_sets: int) -> None:
    """Write all points, with where they come from."""
    command = (
        f"python -m papers.one_shot_private_confidence_regions.overhead --data-sets {data_sets}"
    )
    with path.open("w", newline="") as out:
        names = [*asdict(points[0]), "seed", "versions", "command"]
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        for point in points:
            row = asdict(point) | {"y": f"{point.y:.5g}"}
            writer.writerow(row | {"seed": SEED, "versions": VERSIONS, "command": command})


def read(path: Path) -> list[Point]:
    """Return all points."""
    with path.open() as lines:
        return [
            Point(r["panel"], r["series"], int(r["x"]), float(r["y"]), int(r["data_sets"]))
            for r in csv.DictReader(lines)
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute and write overhead.csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=10)
    parser.add_argument("--out", type=Path, default=HERE)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    points = [*against_b(given.data_sets), *against_n_and_m(given.data_sets)]
    write(points, given.out / "overhead.csv", given.data_sets)


if __name__ == "__main__":
    main()
