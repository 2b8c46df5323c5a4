"""Attacks on rank inversion: the whole transcript of noisy counts leaks no more than μ says.

Person 0 says the least in one data set and the most in the other, so that every count that either
search asks for differs by 1; the attacker sees every answer, not only the interval.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from audit.harness import mu_lower_bound
from confidp import Median
from confidp.central.methods.method import Request
from confidp.central.methods.rank_inversion import RankInversion
from confidp.central.methods.rank_search import search
from confidp.central.methods.rank_sketch import Sketch
from confidp.privacy.noise import GaussianMechanism
from confidp.randomness import Randomness

N, MU, RUNS, OS = 60, 2.0, 1000, Randomness.of(None)


@dataclass
class Recorder:
    """A mechanism that notes its answers, each against what it would be without person 0."""

    mechanism: GaussianMechanism
    log: list = field(default_factory=list)

    @property
    def scale(self):
        return self.mechanism.scale

    def release(self, value, randomness):
        (answer,) = self.mechanism.release(value, randomness)
        self.log.append((float(answer), self.scale))
        return (answer,)


def leak(change=lambda mechanism: mechanism):
    statistic = Median((0, 1), resolution=2**-6).for_shape(N, 1)
    plan = RankInversion().plan(statistic, Request(N, MU, 0.9, 1))
    others = np.sort(np.random.default_rng(1).integers(0, 65, N - 1))

    def transcript(person):
        def run():
            scores = []
            sketch = Sketch.blank(N, 65)
            for end in plan.ends:
                log, asked = [], []
                asks = tuple(
                    replace(ask, mechanism=Recorder(change(ask.mechanism), log)) for ask in end.asks
                )
                rest = 64 - others if end.upper else others
                own = 64 - person if end.upper else person

                def below(x, rest=rest, own=own, asked=asked):
                    asked.append(int((rest < x).sum()))
                    return asked[-1] + int(own < x)

                known = sketch.reflected() if end.upper else sketch
                _, known = search(below, asks, end.threshold, known, OS)
                sketch = known.reflected() if end.upper else known
                answers = zip(log, asked, strict=True)
                scores.append(sum((answer - base - 0.5) / s**2 for (answer, s), base in answers))
            return np.array(scores)

        return run

    return mu_lower_bound(transcript(64), transcript(0), RUNS)


def test_every_answer_together_leaks_no_more_than_mu_and_a_good_part_of_it():
    assert MU / 4 < leak() <= MU


def test_a_third_of_the_noise_is_caught():
    assert leak(lambda m: replace(m, sensitivity=m.sensitivity / 3)) > MU
