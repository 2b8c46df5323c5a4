"""Randomness: private by default, reproducible on request, never shared."""

import numpy as np
import pytest

from confidp.errors import InvalidArgument, InvalidType
from confidp.randomness import Randomness


def draws(randomness):
    return randomness.indices.integers(0, 2**62, 4).tolist()


def test_without_a_seed_noise_comes_from_the_operating_system():
    randomness = Randomness.of(None)
    assert randomness.noise is None
    assert randomness.private
    assert draws(randomness) != draws(Randomness.of(None))


@pytest.mark.parametrize(
    "make", [lambda: 3, lambda: np.int64(3), lambda: np.random.SeedSequence(3)]
)
def test_a_seed_reproduces_and_is_not_private(make):
    first, second = Randomness.of(make()), Randomness.of(make())
    assert not first.private
    assert draws(first) == draws(second)


def test_indices_and_noise_are_different_streams():
    randomness = Randomness.of(3)
    assert randomness.noise is not None
    assert draws(randomness) != randomness.noise.integers(0, 2**62, 4).tolist()


def test_one_generator_never_serves_two_calls_with_the_same_noise():
    generator = np.random.default_rng(3)
    assert draws(Randomness.of(generator)) != draws(Randomness.of(generator))


@pytest.mark.parametrize("rng", ["7", 1.5, True, [1], np.random.RandomState(1)])
def test_what_is_no_seed_is_refused(rng):
    with pytest.raises(InvalidType, match="rng"):
        Randomness.of(rng)


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidArgument, match="rng"):
        Randomness.of(-1)


def test_its_repr_tells_nothing_of_the_generators():
    assert repr(Randomness.of(7)) == "Randomness()"
