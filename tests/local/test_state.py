"""A posterior as a value: resampling, summaries, and files that go on exactly."""

import json
import math
import pickle

import numpy as np
import pytest

from confidp.errors import InvalidArgument
from confidp.local import posterior as smc
from confidp.local.design import Design, TruncatedLaplace, answer_probabilities, randomised_response
from confidp.local.population import Exponential, Normal, StudentT
from confidp.local.posterior import start, update
from confidp.local.state import (
    effective,
    load,
    log_sum,
    read_arrays,
    save,
    systematic,
    write_arrays,
)

SIGN = Design.of([0.0], [[3, 1], [1, 3]])
TRUTH = np.array([[50.0, math.sqrt(10.0)]])


def batches(seed, kinds):
    """A few queries with some hundred reports each."""
    rng, found = np.random.default_rng(seed), []
    for kind in kinds:
        low, high = 50 + rng.normal() - 2.0, 52 + rng.normal()
        if kind == "response":
            design = Design.of([low, high], randomised_response(3, 1.0))
        else:
            design = Design.of(*TruncatedLaplace(1.0).build((low, high)))
        chances = answer_probabilities(Normal(), TRUTH, design)[0]
        found.append((design, rng.multinomial(500, chances / chances.sum()).tolist()))
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_systematic_resampling_keeps_counts_within_one_and_never_runs_off_the_end(n):
    rng = np.random.default_rng(18)
    for _ in range(200):
        weights = rng.exponential(size=n) ** 4
        weights *= rng.choice([0.999, 1.0, 1.001]) / weights.sum()  # sums below and above 1
        for offset in (0.0, rng.random(), math.nextafter(1, 0)):
            picked = systematic(weights, offset)
            times = np.bincount(picked, minlength=n)
            assert len(picked) == n
            assert (np.abs(times - n * weights / weights.sum()) < 1 + 1e-6).all()
    weights = np.array([0.5, 0.5, 0.0])
    assert systematic(weights, math.nextafter(1, 0), 1).tolist() == [1]  # never one of 0


def test_summaries_are_weighted():
    rng = np.random.default_rng(19)
    state = start(Normal(), 4000, rng)
    state = update(state, Design.of([-40.0], randomised_response(2, 8)), [0, 1], rng)
    assert state.effective_sample_size < 3000
    theta, weights = state.theta[:, 0], state.weights
    assert state.mean[0] == pytest.approx(np.average(theta, weights=weights))
    assert state.sd[0] == pytest.approx(np.sqrt(np.cov(theta, aweights=weights, ddof=0)))
    low, high = state.interval(0.9)[0]
    assert weights[theta < low].sum() == pytest.approx(0.05, abs=2e-3)
    assert weights[theta > high].sum() == pytest.approx(0.05, abs=2e-3)
    assert state.samples.shape == (4000, 2)
    assert (state.samples[:, 0] > -41).mean() > 0.97
    draws = np.array([state.draw(rng)[0] for _ in range(400)])
    assert (draws > -41).mean() > 0.95


def test_a_posterior_is_a_value():
    rng = np.random.default_rng(20)
    prior = start(Normal(), 100, rng)
    kept = prior.particles.copy(), prior.log_weights.copy()
    update(prior, SIGN, [10**6, 0], rng)
    assert np.array_equal(prior.particles, kept[0])
    assert np.array_equal(prior.log_weights, kept[1])
    assert prior.counts == {}
    with pytest.raises(ValueError, match="read-only"):
        prior.particles[0, 0] = 1.0
    assert pickle.loads(pickle.dumps(prior)).particles.tolist() == prior.particles.tolist()
    assert update(prior, SIGN, [0, 0], rng) is prior


def test_a_saved_run_goes_on_exactly(tmp_path):
    kinds = ["response", "laplace", "laplace", "response", "laplace", "response"]
    counts = batches(8, kinds)
    rng = np.random.default_rng(23)
    state = start(Normal(), 500, rng)
    for design, seen in counts[:3]:
        state = update(state, design, seen, rng)
    save(tmp_path / "run", state, rng)
    again, resumed = load(tmp_path / "run")
    assert again.counts == state.counts
    assert again.population == state.population
    assert again.diagnostics == state.diagnostics
    for design, seen in counts[3:]:
        state = update(state, design, seen, rng)
        again = update(again, design, seen, resumed)
    assert np.array_equal(state.particles, again.particles)
    assert np.array_equal(state.log_weights, again.log_weights)
    assert state.log_evidence == again.log_evidence
    assert rng.random() == resumed.random()


def test_a_prior_can_be_saved(tmp_path):
    rng = np.random.default_rng(24)
    save(tmp_path / "run", start(Exponential(), 10, rng), rng)
    assert load(tmp_path / "run")[0].counts == {}


def test_a_damaged_or_hostile_file_is_refused(tmp_path):
    path, rng = tmp_path / "run", np.random.default_rng(25)
    save(path, start(Normal(), 10, rng), rng)
    whole = path.read_bytes()
    header, arrays = read_arrays(path)
    for content in (b"", b"nonsense", whole[:200], pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(InvalidArgument, match="is not a saved posterior"):
            load(path)
    with path.open("wb") as file:  # object arrays would be unpickled
        np.savez(file, header=np.array([{}], dtype=object))
    with pytest.raises(InvalidArgument):
        load(path)
    for broken in (
        {"particles": arrays["particles"] * np.nan},
        {"log_weights": arrays["log_weights"] + 1},
        {"log_weights": arrays["log_weights"][1:]},
        {"shapes": np.array([[1, 2]])},
    ):
        write_arrays(path, header, arrays | broken)
        with pytest.raises(InvalidArgument):
            load(path)
    header["generator"]["bit_generator"] = "os"
    write_arrays(path, json.loads(json.dumps(header)), arrays)
    with pytest.raises(InvalidArgument):
        load(path)


def test_files_are_reached_through_the_posterior_module_too():
    for name in ("load", "save", "read_arrays", "write_arrays", "reading", "generator"):
        assert name in smc.__all__
        assert getattr(smc, name).__module__ == "confidp.local.state"
    assert smc.Posterior.__module__ == smc.Diagnostics.__module__ == "confidp.local.state"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path, rng = tmp_path / "run", np.random.default_rng(30)
    state = start(StudentT(4), 20, rng)
    save(path, state, rng)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_arrays(path, {"not": {"json"}}, {})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    assert load(path)[0].population == StudentT(4)


def test_effective_sizes_and_sums_in_log_space():
    weights = np.array([0.5, 0.25, 0.25])
    for shift in (0.0, -1e5, 1e5):
        assert effective(np.log(weights) + shift) == pytest.approx(1 / (weights @ weights))
        assert log_sum(np.log(weights) + shift) == pytest.approx(shift, abs=1e-9)
    assert effective(np.array([-np.inf, -1e9, -np.inf])) == 1
    assert effective(np.full(3, -np.inf)) == 0
