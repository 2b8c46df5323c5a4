"""The best intervals (equations 12 and 13), and why the printed ones differ.

::

    python papers/online_bayes_adaptive_truncation/intervals.py [--samples 2000]

Writes intervals.csv: where F₁₁ has its peak, exactly and on the paper's grid of step 0.06, by
Algorithm 4 on that grid, and what the authors' code maximises instead. Its Laplace sampler takes a
standard deviation where the caller passes a scale b, so reports have scale b/√2, while the score
assumes b: its expectation is ∫ p_{b/√2}(y) score_b(y)² dy.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from confidp.local.continuous import TruncatedLaplaceDensity, best_interval
from confidp.local.design import Diagonal
from confidp.local.published.interval import Search, search, symmetric_grid
from confidp.local.published.model import normal
from confidp.local.published.score import fisher_information

Array = NDArray[np.float64]
HERE = Path(__file__).parent
PRINTED = {1.0: 0.06, 2.0: 0.12, 5.0: 0.54, 10.0: 0.96}
SEED = 20230119


def exact(epsilon: float, a: float, b: float) -> Array:
    """Return the information of a report truncated to [a, b]."""
    return TruncatedLaplaceDensity(a, b, epsilon).fisher_information(0.0, 1.0)


def authors(epsilon: float, a: float, b: float) -> Array:
    """Return what their code estimates: squared scores for scale s, of reports with scale s/√2."""
    assumed = TruncatedLaplaceDensity(a, b, epsilon)
    real = TruncatedLaplaceDensity(a, b, epsilon * 2**0.5)
    tail = np.linspace(0, 30 * real.scale, 1001)
    y = np.concatenate([a - tail[::-1], np.linspace(a, b, 501), b + tail])
    score = assumed.score(y, 0.0, 1.0)
    density = np.exp(real.log_density(y, 0.0, 1.0))
    return np.asarray(np.trapezoid(score[:, None] * score[None, :] * density, y, axis=2))


def by_simulation(epsilon: float, samples: int, reports: int = 1000) -> Search:
    """Search the paper's grid with Algorithm 4, one seed for all intervals."""

    def information(a: float, b: float) -> Array:
        rng = np.random.default_rng([SEED, int(epsilon)])
        theta = np.array([0.0, 1.0])
        return fisher_information(
            normal(), theta, a, b, epsilon, rng, n_reports=reports, n_samples=samples
        )

    return search(information, Diagonal((1.0, 0.0)), symmetric_grid(51))


def row(epsilon: float, samples: int) -> dict[str, object]:
    """Return a line of intervals.csv."""
    score = Diagonal((1.0, 0.0))
    peak = best_interval(epsilon)
    on_grid = search(lambda a, b: exact(epsilon, a, b), score, symmetric_grid(51))
    mistaken = search(lambda a, b: authors(epsilon, a, b), score, symmetric_grid(51))
    printed = PRINTED[epsilon]
    at_peak, at_printed = exact(epsilon, *peak), exact(epsilon, -printed, printed)
    ratio = authors(epsilon, -printed, printed)[0, 0] / -mistaken.loss
    return {
        "epsilon": f"{epsilon:g}",
        "printed": printed,
        "exact_peak": f"{peak[1]:.4f}",
        "exact_on_grid": f"{on_grid.b:.2f}",
        "algorithm_4_on_grid": f"{by_simulation(epsilon, samples).b:.2f}",
        "authors_objective_on_grid": f"{mistaken.b:.2f}",
        "printed_share_of_authors_peak": f"{ratio:.5f}",
        "F11_at_peak": f"{at_peak[0, 0]:.4g}",
        "F22_at_peak": f"{at_peak[1, 1]:.4g}",
        "F11_at_printed": f"{at_printed[0, 0]:.4g}",
        "F22_at_printed": f"{at_printed[1, 1]:.4g}",
        "samples": samples,
        "seed": SEED,
    }


def main() -> None:
    """Write intervals.csv anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000, help="of Algorithm 4; paper: 10000")
    samples = parser.parse_args().samples
    rows = [row(epsilon, samples) for epsilon in PRINTED]
    with (HERE / "intervals.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
