"""Laplace noise, AboveThreshold and the exponential mechanism: laws, exactness, attacks, refusals.

Laws are tested with chi-square and Kolmogorov-Smirnov tests at 1e-6. Attacks bound ε from below by
exact binomial intervals, at 1e-6 over everything they look at: on the real noise, where that is
the false-alarm rate, and with a fixed seed where the attack must find something.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from confidp import GDP
from confidp.errors import ConfidpError
from confidp.privacy import pure_dp
from confidp.privacy.guarantees import pure_dp_to_gdp
from confidp.privacy.noise import secret_indices
from confidp.privacy.pure_dp import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerLaplaceMechanism,
    LaplaceMechanism,
)
from confidp.randomness import Randomness

OS = Randomness.of(None)
SEED = 20261130
FALSE_ALARM = 1e-6
SOURCES = pytest.mark.parametrize("source", [None, 11], ids=["exact", "seeded"])


def fits(drawn, chances) -> bool:
    """Whether counts of outcomes fit their chances, those expected under 10 times lumped."""
    counts, total, cells, rest = Counter(drawn), len(drawn), [], [0.0, 0.0]
    for outcome, chance in chances.items():
        if total * chance >= 10:
            cells.append((counts[outcome], total * chance))
        else:
            rest = [rest[0] + counts[outcome], rest[1] + total * chance]
    stray = total - sum(counts[outcome] for outcome in chances)
    cells.append((rest[0] + stray, total - sum(expected for _, expected in cells)))
    observed, expected = map(np.array, zip(*cells, strict=True))
    if expected[-1] < 1e-9:  # nothing is left over
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return bool(stats.chi2.sf(statistic, len(observed) - 1) > FALSE_ALARM)


def epsilon_lower_bound(outputs, others, events) -> float:
    """Return a lower bound on ε: P(event) ≤ e^ε P′(event), in both orders, for each event."""
    level = FALSE_ALARM / (4 * len(events))
    best, n = -math.inf, len(outputs)
    for event in events:
        first, second = (sum(map(event, sample)) for sample in (outputs, others))
        for more, fewer in ((first, second), (second, first)):
            low = stats.beta.ppf(level, more, n - more + 1) if more else 0.0
            high = stats.beta.ppf(1 - level, fewer + 1, n - fewer) if fewer < n else 1.0
            best = max(best, math.log(low / high) if low else -math.inf)
    return best


def discrete_laplace(scale: float, reach: int) -> dict[int, float]:
    q = math.exp(-1 / scale)
    return {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach + 1)}


# ---- Laplace


@SOURCES
@pytest.mark.parametrize("epsilon", [3.0, 0.5, 0.1])
def test_integer_noise_is_discrete_laplace(epsilon, source):
    mechanism = IntegerLaplaceMechanism(1, epsilon)
    randomness = Randomness.of(source)
    drawn = pure_dp._laplace_noise(mechanism.scale, 20_000, randomness)
    assert fits(drawn, discrete_laplace(1 / epsilon, 200))
    assert not fits(drawn, discrete_laplace(1.1 / epsilon, 200))


@SOURCES
def test_lattice_noise_is_laplace_and_its_mean_size_is_the_scale(source):
    mechanism, draws = LaplaceMechanism(Fraction(3), 0.5), 20_000
    steps = pure_dp._laplace_noise(mechanism.steps.scale, draws, Randomness.of(source))
    z = np.array([float(k * mechanism.unit) for k in steps]) / mechanism.scale
    assert mechanism.scale == pytest.approx(6.0, rel=1e-12)
    assert stats.kstest(z, "laplace").pvalue > FALSE_ALARM
    # |z| is exponential: its sum is a gamma variable. A slip of √2 is far outside.
    low, high = stats.gamma.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws) / draws
    assert low < np.mean(np.abs(z)) < high
    assert not low < np.mean(np.abs(z)) * math.sqrt(2) < high
    assert not low < np.mean(np.abs(z)) / math.sqrt(2) < high


@SOURCES
def test_a_release_is_the_value_plus_noise_on_the_lattice(source):
    mechanism = LaplaceMechanism(Fraction(1, 3), 1.0)
    randomness, value = Randomness.of(source), Fraction(10**25, 7)
    for _ in range(20):
        noisy = mechanism.release(value, randomness)
        assert (noisy / mechanism.unit).denominator == 1
        assert abs(noisy - value) < 60 * Fraction(mechanism.scale)
        assert abs(IntegerLaplaceMechanism(2, 1.0).release(10**30, randomness) - 10**30) < 120


sensitivities = st.builds(
    lambda bits, odd: Fraction(odd) * Fraction(2) ** bits,
    st.integers(-900, 900),
    st.integers(1, 2**60),
)
epsilons = st.floats(1e-12, 1e6)


@given(sensitivities, epsilons, st.fractions(-(2**50), 2**50), st.fractions(-1, 1))
def test_no_neighbours_are_further_apart_on_the_lattice_than_the_noise_allows(
    delta, epsilon, place, share
):
    mechanism = LaplaceMechanism(delta, epsilon)
    value = place * mechanism.unit
    steps = (round(x / mechanism.unit) for x in (value, value + share * delta))
    assert abs(next(steps) - next(steps)) <= mechanism.steps.sensitivity
    # Pure ε-DP, with no rounding left out: shift / scale ≤ ε.
    moved = Fraction(mechanism.steps.sensitivity)
    assert moved <= Fraction(mechanism.steps.scale) * Fraction(epsilon)
    # No more noise than that takes: a lattice step, and a float's rounding.
    ideal = delta / Fraction(epsilon)
    more = Fraction(mechanism.steps.scale) * mechanism.unit - ideal
    assert more <= (ideal + mechanism.unit / Fraction(epsilon)) * Fraction(1, 2**50) + (
        mechanism.unit / Fraction(epsilon)
    )
    assert mechanism.steps.scale >= 2**44


def test_halves_on_the_lattice_round_apart_and_are_allowed_for():
    unit = LaplaceMechanism(Fraction(1), 1.0).unit
    assert round(Fraction(1, 2)) == 0
    assert round(Fraction(3, 2)) == 2  # a value moved by one step can move by two when rounded
    assert LaplaceMechanism(unit * 2**60, 1.0).steps.sensitivity > LaplaceMechanism(
        unit * 2**60, 1.0
    ).sensitivity / (LaplaceMechanism(unit * 2**60, 1.0).unit)


@pytest.mark.parametrize(("shift", "epsilon"), [(1, 0.1), (1, 1.0), (3, 1.0), (1, 4.0), (40, 2.0)])
def test_the_gdp_cost_of_integer_noise_covers_its_exact_trade_off_curve(shift, epsilon):
    mechanism = IntegerLaplaceMechanism(shift, epsilon)
    q = math.exp(-1 / mechanism.scale)

    def tail(t):  # P(noise ≥ t)
        return q**t / (1 + q) if t >= 1 else 1 - q ** (1 - t) / (1 + q)

    worst = -math.inf
    for t in range(-60, shift + 60):  # the best tests; between them the curve is straight
        alpha, power = tail(t), tail(t - shift)
        worst = max(worst, GDP(mechanism.cost.mu).tradeoff(alpha) - (1 - power))
    assert worst <= 1e-15
    assert mechanism.cost.mu <= pure_dp_to_gdp(epsilon).mu
    # Not far from the least μ that covers it.
    less = GDP(0.9 * mechanism.cost.mu)
    assert any(less.tradeoff(tail(t)) > 1 - tail(t - shift) + 1e-9 for t in range(-60, shift + 60))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_attack_on_laplace_noise_finds_nearly_epsilon_and_no_more(epsilon):
    def leak(mechanism, seed=SEED, runs=2500):
        source = Randomness.of(seed)
        values = [
            [float(mechanism.release(Fraction(v), source)) for _ in range(runs)] for v in (0, 1)
        ]
        events = [lambda x, t=t: x > t for t in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)]
        return epsilon_lower_bound(*values, events)

    mechanism = LaplaceMechanism(Fraction(1), epsilon)
    assert leak(mechanism, seed=None) <= epsilon
    assert 0.3 * epsilon < leak(mechanism) <= epsilon
    assert leak(LaplaceMechanism(Fraction(1, 2), epsilon)) > epsilon  # half the noise
    assert leak(LaplaceMechanism(Fraction(1), 2 * epsilon)) > epsilon


def test_a_draw_that_64_bits_cut_off_goes_on_as_the_law_does(monkeypatch):
    monkeypatch.setattr(pure_dp, "_EDGE", 8)
    drawn = pure_dp._laplace_noise(4.0, 4000, OS)
    assert max(drawn) > 16
    assert fits(drawn, discrete_laplace(4.0, 100))
    assert not fits([max(min(z, 8), -8) for z in drawn], discrete_laplace(4.0, 100))


def test_opendps_sampler_saturates_far_out_and_is_mended():
    # Scale 2^50 is the largest: P(|noise| ≥ 2^62) = e^-4096, and what is beyond isn't lost.
    assert pure_dp._EDGE < 2**63 - 1
    assert pure_dp._LARGEST_SCALE * 4096 <= pure_dp._EDGE


def test_private_noise_differs_from_run_to_run_and_seeded_noise_does_not():
    mechanism = LaplaceMechanism(Fraction(1), 1.0)
    assert mechanism.release(Fraction(0), OS) != mechanism.release(Fraction(0), OS)
    seeded = {mechanism.release(Fraction(0), Randomness.of(5)) for _ in range(2)}
    assert len(seeded) == 1


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-20, "1", None, True])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    for make in (
        lambda: LaplaceMechanism(Fraction(1), epsilon),
        lambda: IntegerLaplaceMechanism(1, epsilon),
        lambda: AboveThreshold(epsilon),
    ):
        with pytest.raises(ConfidpError, match="epsilon"):
            make()


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5])
def test_a_sensitivity_out_of_range_is_refused(sensitivity):
    with pytest.raises((ConfidpError, ValueError), match="sensitivity"):
        IntegerLaplaceMechanism(sensitivity, 1.0)
    if sensitivity <= 0:
        with pytest.raises(ValueError, match="sensitivity"):
            LaplaceMechanism(Fraction(sensitivity), 1.0)


# ---- AboveThreshold


@SOURCES
def test_above_threshold_is_dwork_and_roths(source):
    numbers, threshold, epsilon, runs = [-3, -1, 0, -1, 1, 2], Fraction(1, 2), 2.0, 3000
    rng = np.random.default_rng(3)
    rho = rng.laplace(0, 2 / epsilon, size=(400_000, 1))
    nu = rng.laplace(0, 4 / epsilon, size=(400_000, len(numbers)))
    reached = np.array(numbers) + nu >= float(threshold) + rho
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), -1)
    chances = {k: float(np.mean(first == k)) for k in range(-1, len(numbers))}
    search, randomness = AboveThreshold(epsilon), Randomness.of(source)
    found = [search.first(numbers, threshold, randomness) for _ in range(runs)]
    found = [-1 if k is None else k for k in found]
    assert fits(found, chances)
    # Twice the noise, or half of it, would not fit.
    assert not fits(found, {k: float(np.mean(first[:200_000] == k)) ** 2 for k in chances})


def above_threshold_leak(search: AboveThreshold, move: int = 1, seed=SEED) -> float:
    """Attack a bad pair of streams: ten numbers move up and the last one, which tells, down."""
    source = Randomness.of(seed)
    low, high = [0] * 10 + [2 * move], [move] * 10 + [move]
    samples = [[search.first(f, move, source) for _ in range(2500)] for f in (low, high)]
    return epsilon_lower_bound(*samples, [lambda k: k == 10])


def test_above_threshold_leaks_no_more_than_epsilon_however_long_the_stream():
    assert above_threshold_leak(AboveThreshold(4.0), seed=None) <= 4.0
    assert 1.2 < above_threshold_leak(AboveThreshold(4.0)) <= 4.0


def test_above_threshold_with_too_little_noise_or_too_large_moves_is_caught():
    assert above_threshold_leak(AboveThreshold(4.0)) > 1.0  # a claim of 1
    assert above_threshold_leak(AboveThreshold(1.0), move=4) > 1.0


def test_above_threshold_stops_at_once_and_reads_no_further():
    def numbers():
        yield 10**6
        raise AssertionError("read on")

    assert AboveThreshold(1.0).first(numbers(), 0, OS) == 0
    assert AboveThreshold(1.0).first([], 0, OS) is None
    assert AboveThreshold(1.0).first([-(10**6)] * 50, 0, OS) is None


# ---- The exponential mechanism


@given(st.floats(1e-3, 50.0))
def test_weights_fall_and_no_faster_than_eta_says(eta):
    weights = pure_dp._weights(eta, 300)
    with mpmath.workdps(120):
        factor = mpmath.exp(mpmath.mpf(eta))
        for w, v in pairwise(weights):
            assert w >= v >= 1
            assert v * factor >= w
    assert len(weights) < 3 or weights[1] <= weights[0] * math.exp(-eta) * (1 + 1e-12) + 1


@SOURCES
def test_the_exponential_mechanism_draws_points_with_the_stated_chances(source):
    eta, penalties, lengths = 0.7, [2, 0, 0, 1, 5], [3, 1, 0, 10, 4]
    weights = {
        (run, place): math.exp(-eta * penalty)
        for run, (penalty, length) in enumerate(zip(penalties, lengths, strict=True))
        for place in range(length)
    }
    total = sum(weights.values())
    mechanism, randomness = ExponentialMechanism(eta), Randomness.of(source)
    drawn = [mechanism.release(penalties, lengths, randomness) for _ in range(20_000)]
    assert fits(drawn, {point: w / total for point, w in weights.items()})


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.data(), st.floats(0.01, 5.0))
def test_chances_of_neighbours_lie_in_one_window_of_two_eta(penalties, data, eta):
    moves = data.draw(st.lists(st.integers(-1, 1), min_size=8, max_size=8))
    others = [max(p + m, 0) for p, m in zip(penalties, moves, strict=False)]
    w = pure_dp._weights(eta, 10)
    w += [w[-1]] * 11
    sums = [Fraction(sum(w[p] for p in ps)) for ps in (penalties, others)]
    ratios = [(w[p] / sums[0]) / (w[o] / sums[1]) for p, o in zip(penalties, others, strict=True)]
    assert math.log(max(ratios) / min(ratios)) <= 2 * eta * (1 + 1e-12)
    assert math.log(max(*ratios, *(1 / r for r in ratios))) <= 2 * eta * (1 + 1e-12)


@pytest.mark.parametrize("eta", [1e-3, 0.1, 0.5, 1.0, 3.0, 10.0])
def test_a_window_of_two_eta_is_within_the_stated_gdp(eta):
    # The docstring's curve: logit(power) ≤ logit(α) + 2η, against G_μ.
    mu = ExponentialMechanism(eta).cost.mu
    y = np.linspace(-30, 30, 20_001)
    miss = expit(-(y + 2 * eta))
    curve = GDP(mu).tradeoff(expit(y))
    assert np.all(curve <= miss * (1 + 1e-9) + 1e-300)
    assert logit(expit(-eta)) == pytest.approx(-eta)
    touches = GDP(mu).tradeoff(float(expit(-eta)))
    assert touches == pytest.approx(float(expit(-eta)), rel=1e-9)  # attained at y = −η


def test_an_attack_on_the_exponential_mechanism_finds_its_two_eta_and_no_more():
    # One point gets better and forty get worse: its chance moves by nearly 2η.
    def leak(eta, seed=SEED, runs=25_000):
        mechanism, source = ExponentialMechanism(eta), Randomness.of(seed)
        few, many = [1, 0], [0, 1]
        samples = [
            [mechanism.release(p, [1, 40], source)[0] for _ in range(runs)] for p in (few, many)
        ]
        return epsilon_lower_bound(*samples, [lambda run: run == 0])

    assert leak(0.5, seed=None) <= 1.0
    assert 0.4 < leak(0.5) <= 1.0
    assert leak(1.0) > 1.0


def test_every_whole_number_below_the_sum_of_weights_has_its_own_point(monkeypatch):
    # With weights 3 and 1 and every draw in turn: as many draws for a point as its weight.
    draws = iter(range(3 * 2 + 1 * 3))
    monkeypatch.setattr(pure_dp, "_weights", lambda eta, most: [3, 1])
    monkeypatch.setattr(pure_dp, "_below", lambda total, randomness: next(draws))
    mechanism = ExponentialMechanism(1.0)
    drawn = [mechanism.release([1, 0, 5], [2, 2, 1], OS) for _ in range(9)]
    assert Counter(drawn) == {(0, 0): 1, (0, 1): 1, (1, 0): 3, (1, 1): 3, (2, 0): 1}


def test_an_eta_out_of_range_is_refused():
    for eta in (0, -1, math.nan, "1"):
        with pytest.raises(ConfidpError, match="eta"):
            ExponentialMechanism(eta)


# ---- Secret indices


@SOURCES
@pytest.mark.parametrize("replace", [True, False])
def test_secret_indices_are_uniform(replace, source):
    randomness = Randomness.of(source)
    drawn = [secret_indices(7, 3, replace, randomness) for _ in range(5000)]
    for place in range(3):
        assert fits([int(s[place]) for s in drawn], dict.fromkeys(range(7), 1 / 7))
    repeats = sum(len(set(s.tolist())) < 3 for s in drawn)
    assert (repeats > 0) == replace


def test_secret_indices_of_private_runs_cannot_be_had_from_numpys_generator():
    state = np.random.default_rng(1)
    private = Randomness(state, None)
    before = state.bit_generator.state
    drawn = {tuple(secret_indices(10**6, 3, True, private)) for _ in range(20)}
    assert len(drawn) == 20
    assert state.bit_generator.state == before
