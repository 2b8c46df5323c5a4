"""Learning a normal population from one-bit-a-person reports, in a picture: docs/local_run.png.

The people are simulated and the run is seeded, so that the picture can be drawn again. Nothing
here is anyone's data.
"""

from pathlib import Path

import numpy as np

from confidp.local import Collector, Normal
from confidp.local.simulation import Drawn, rehearse
from confidp.plots.posteriors import plot_posteriors

PICTURE = Path(__file__).parent.parent / "docs" / "local_run.png"
SEED = 20261130
TRUTH = (50.0, 10**0.5)  # the paper's population: variance 10
EPSILON, PEOPLE, ROUND = 1.0, 3000, 10


def main() -> None:
    """Ask 3,000 simulated people at ε = 1 and draw what is known after each round."""
    population = Normal()
    collector = Collector(population, epsilon=EPSILON, rng=SEED)
    people = Drawn(population, np.array(TRUTH))
    rounds = list(rehearse(collector, people, PEOPLE, ROUND, np.random.default_rng(SEED)))
    for name, mean, sd in zip(
        population.parameters, collector.posterior.mean, collector.posterior.sd, strict=True
    ):
        print(f"{name}: {mean:.2f} ± {sd:.2f}")
    figure = plot_posteriors(
        rounds,
        population.parameters,
        TRUTH,
        xlabel=f"simulated people, one report each at ε = {EPSILON:g}, seed {SEED}",
    )
    figure.savefig(PICTURE, dpi=160)


if __name__ == "__main__":
    main()
