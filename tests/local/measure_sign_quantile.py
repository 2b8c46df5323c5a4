"""Coverage and width of `QuantileCollector`, in long.

Coverage: `python tests/local/measure_sign_quantile.py coverage [streams] [people] [populations]`:
how many streams' 95% interval ever missed the quantile at one of 20 looks, and at the last one,
for the first so many populations.
Width: `... width [streams] [people] [populations]`: the 95% interval and the estimate's root mean
square error, beside the limit for smooth data.
"""

import sys
from itertools import product

import numpy as np
from scipy import optimize, stats

from confidp.local.query import Report
from confidp.local.sign_quantile import QuantileCollector, quantile_limit

BOUNDS = (0.0, 100.0)
EPSILONS = (0.5, 1.0, 2.0, 5.0)
ATOMS, CHANCES = np.array([10.0, 30.0, 50.0, 90.0]), np.array([0.2, 0.2, 0.2, 0.4])


def clusters(rng, n):
    return np.where(rng.random(n) < 0.4, rng.normal(20, 2, n), rng.normal(80, 2, n))


def clusters_cdf(x):
    return 0.4 * stats.norm.cdf(x, 20, 2) + 0.6 * stats.norm.cdf(x, 80, 2)


# A name, the level, how to draw n values, and the true quantile.
POPULATIONS = {
    "normal, median": (0.5, lambda rng, n: rng.normal(50, 10**0.5, n), 50.0),
    "atoms, 0.4": (0.4, lambda rng, n: rng.choice(ATOMS, n, p=CHANCES), 30.0),
    "two clusters, median": (
        0.5,
        clusters,
        float(optimize.brentq(lambda x: clusters_cdf(x) - 0.5, 60, 100)),
    ),
    "exponential, 0.9": (0.9, lambda rng, n: rng.exponential(10, n), 10 * np.log(10)),
    "atoms, median": (0.5, lambda rng, n: rng.choice(ATOMS, n, p=CHANCES), 50.0),
}


def answer(query, x, uniform, number):
    """What `query.privatize` does, but seeded."""
    first = query.channel.weights[0 if x <= query.cuts[0] else 1][0]
    return Report(query.id, int(uniform * 2**32 >= first), f"{number:032x}")


def stream(name, epsilon, people, seed, looks=(), cells=256):
    """Return the collector after a stream, and its intervals at the looks."""
    q, draw, _ = POPULATIONS[name]
    rng = np.random.default_rng([seed, 17])
    values, uniforms = draw(rng, people), rng.random(people)
    collector = QuantileCollector(q, bounds=BOUNDS, epsilon=epsilon, cells=cells)
    intervals = []
    for i in range(people):
        collector.add(answer(collector.query(), values[i], uniforms[i], i))
        if i + 1 in looks:
            intervals.append(collector.interval(0.95))
    return collector, intervals


def misses(name, epsilon, streams, people):
    """Return how many streams ever missed, and how many did at the end."""
    truth = POPULATIONS[name][2]
    looks = set(np.linspace(people / 20, people, 20).astype(int).tolist())
    found = np.zeros(2, dtype=int)
    for seed in range(streams):
        _, intervals = stream(name, epsilon, people, seed, looks)
        missed = [not low < truth <= high for low, high in intervals]
        found += [any(missed), missed[-1]]
    return found


def main(kind="coverage", streams="400", people="250", populations="3"):
    for name, epsilon in product(list(POPULATIONS)[: int(populations)], EPSILONS):
        if kind == "coverage":
            ever, last = misses(name, epsilon, int(streams), int(people))
            print(f"{name:22} ε={epsilon:3}: of {streams} ever {ever}, last {last}", flush=True)
            continue
        q, _, truth = POPULATIONS[name]
        n = int(people)
        runs = [stream(name, epsilon, n, s, cells=1024)[0] for s in range(int(streams))]
        width = np.mean([np.diff(run.interval(0.95)) for run in runs])
        error = np.sqrt(np.mean([(run.estimate - truth) ** 2 for run in runs]))
        text = f"{name:22} ε={epsilon:3} n={n}: width {width:6.2f}, error {error:5.2f}"
        if name == "normal, median":
            limit = quantile_limit(q, epsilon, stats.norm.pdf(0) / 10**0.5, n)
            text += f", limit {limit:.3f}: {width / limit / 3.92:.2f} and {error / limit:.2f}"
        print(text, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
