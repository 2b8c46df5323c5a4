"""Attacks on rank inversion: the whole transcript of noisy counts leaks no more than μ says.

Person 0 says the least in one data set and the most in the other, so that every count that either
search asks for differs by 1; the attacker sees every answer, not only the interval.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from audit.harness import score_lower_bound
from confidp import Quantile
from confidp.central.methods.method import Request
from confidp.central.methods.noisy_counts import NoisyCounts
from confidp.central.methods.rank_inversion import RankInversion
from confidp.central.methods.rank_search import search
from confidp.central.methods.rank_sketch import Sketch
from confidp.randomness import Randomness

SEED, N, MU, RUNS = 20261130, 60, 2.0, 300


@dataclass
class Recorder:
    """Noisy counts that note the answers to what was asked, three numbers for two counts."""

    counts: NoisyCounts
    log: list = field(default_factory=list)

    @property
    def noise(self):
        return self.counts.noise

    def release(self, counts, randomness):
        answers = self.counts.release(counts, randomness)
        self.log.append((np.array([float(a) for a in answers]), self.noise))
        return answers


def leak(change=lambda counts: counts, moves=1, runs=RUNS, seed=None, q=0.5):
    """Attack all answers, where person 0 moves a count by `moves`."""
    source = Randomness.of(seed)
    statistic = Quantile(q, (0, 1), resolution=2**-6).for_shape(N, 1)
    plan = RankInversion().plan(statistic, Request(N, MU, 0.9, 1))
    others = np.sort(np.random.default_rng(1).integers(0, 65, N - 1))

    def transcript(person):
        def run():
            log, asked = [], []
            asks = tuple(
                replace(ask, counts=Recorder(change(ask.counts), log)) for ask in plan.asks
            )

            def below(x):
                asked.append(int((others < x).sum()))
                return asked[-1] + moves * int(person < x)

            search(below, plan.ends, asks, Sketch.blank(N, 65), source)
            bases = np.array(asked).reshape(-1, 2)
            # The best test of two answers, of variance s² and correlation ½, both moved by 1.
            return sum(
                (answers - base - 0.5).sum() / (1.5 * s**2)
                for (answers, s), base in zip(log, bases, strict=True)
            )

        return run

    return score_lower_bound(transcript(64), transcript(0), runs)


def quieter(times):
    """Counts as noisy as if their sensitivity were so many times less."""

    def change(counts):
        mechanism = replace(counts.mechanism, sensitivity=counts.mechanism.sensitivity / times)
        changed = replace(counts)
        object.__setattr__(changed, "mechanism", mechanism)
        return changed

    return change


@pytest.mark.parametrize("q", [0.5, 0.95])
def test_every_answer_together_leaks_no_more_than_mu_and_a_good_part_of_it(q):
    assert MU / 8 < leak(q=q) <= MU  # 1.0 ± 0.13


def test_a_third_of_the_noise_is_caught():
    assert leak(quieter(3), runs=250, seed=SEED) > MU  # 2.8: hardly any errors
