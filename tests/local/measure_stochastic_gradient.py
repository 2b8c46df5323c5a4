"""`StochasticGradient` on the paper's experiment, in long: N(50, 10), beside the limit.

`python tests/local/measure_stochastic_gradient.py [runs] [people]`: root mean square error of both
parameters together over √(10·tr F⁻¹/n), how often the nominal 95% intervals cover, and the time.
"""

import sys
import time
from bisect import bisect_left
from itertools import product

import numpy as np

from confidp.local.design import best_knots
from confidp.local.population import Normal
from confidp.local.query import Report
from confidp.local.stochastic_gradient import StochasticGradient

TRUTH = np.array([50.0, 10**0.5])
STARTS = {"the prior's middle": None, "(-1000, 0.1)": (-1000.0, 0.1), "(0, 1000)": (0.0, 1000.0)}


def answer(query, x, uniform, number):
    """What `query.privatize` does, but seeded."""
    row = np.cumsum(query.channel.weights[bisect_left(query.cuts, x)])
    value = int(np.searchsorted(row, uniform * 2**32, side="right"))
    return Report(query.id, value, f"{number:032x}")


def stream(epsilon, people, start, seed):
    """Return the collector after one run of the experiment."""
    rng = np.random.default_rng([seed, 23])
    values, uniforms = rng.normal(*TRUTH, people), rng.random(people)
    collector = StochasticGradient(Normal(), epsilon=epsilon, start=start)
    for i in range(people):
        collector.add(answer(collector.query(), values[i], uniforms[i], i))
    return collector


def limit(collector, people):
    """Return the least root mean square error of both parameters together."""
    loss = best_knots(Normal(), (0.0, 1.0), collector.mechanism).loss
    return (10 * loss / people) ** 0.5


def main(runs="30", people="1000"):
    n = int(people)
    for (name, start), epsilon in product(STARTS.items(), (1.0, 2.0, 5.0)):
        began = time.process_time()
        done = [stream(epsilon, n, start, seed) for seed in range(int(runs))]
        took = (time.process_time() - began) / int(runs) / n
        errors = np.array([run.estimate - TRUTH for run in done])
        ends = np.array([run.interval(0.95) for run in done])
        covered = ((ends[..., 0] <= TRUTH) & (ends[..., 1] >= TRUTH)).mean(axis=0)
        error = float(np.sqrt((errors**2).sum(axis=1).mean()))
        print(
            f"{name:18} ε={epsilon:g} n={n:5}: error {error:6.3f}, "
            f"{error / limit(done[0], n):.2f} of the limit; covers {covered.round(2)}; "
            f"{took * 1e6:.0f} µs a report",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
