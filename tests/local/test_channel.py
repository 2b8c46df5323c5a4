"""Finite channels: the exact checks of privacy, rounding towards it, and exact sampling."""

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate, permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from confidp.errors import InvalidArgument, InvalidType
from confidp.local import channel as module
from confidp.local.channel import TOTAL, Channel, exp_down
from confidp.privacy.conversions import delta_of_gdp, mu_of_pure_dp

QUARTER = TOTAL // 4
COIN = Channel(((3 * QUARTER, QUARTER), (QUARTER, 3 * QUARTER)))


def symmetric(small):
    """Binary randomised response with `small` out of 2^32 on the wrong answer."""
    return Channel(((TOTAL - small, small), (small, TOTAL - small)))


@st.composite
def matrices(draw, largest=6):
    """Random channels: no zeros, up to six cells and outputs."""
    cells, outputs = draw(st.integers(2, largest)), draw(st.integers(2, largest))
    part = st.integers(1, 2**20) | st.integers(1, 20)
    rows = draw(
        st.lists(st.lists(part, min_size=outputs, max_size=outputs), min_size=cells, max_size=cells)
    )
    weights = [[part * TOTAL // sum(row) or 1 for part in row] for row in rows]
    return Channel(tuple((*row[:-1], row[-1] + TOTAL - sum(row)) for row in map(tuple, weights)))


# What isn't rational, between rationals.


@given(st.floats(0.0, 23.0) | st.sampled_from([0.0, 5e-324, 1e-300, 1e-17, 1.0, 22.0, 23.0]))
def test_the_bound_of_the_exponential_is_below_it_and_close(epsilon):
    with mpmath.workprec(400):
        true = mpmath.exp(mpmath.mpf(epsilon))
        bound = exp_down(epsilon)
        gap = true - mpmath.mpf(bound.numerator) / bound.denominator
        assert 0 <= gap < true * mpmath.mpf(2) ** -150


@given(st.floats(0.0, 23.0))
def test_the_bound_of_the_exponential_never_falls(epsilon):
    assert exp_down(epsilon) <= exp_down(math.nextafter(epsilon, math.inf))


def test_the_bound_of_the_exponential_covers_every_ratio_from_23_on():
    assert TOTAL < exp_down(23.0) == exp_down(1e308)


def test_the_normal_density_at_zero_is_enclosed():
    with mpmath.workdps(60):
        true = 1 / mpmath.sqrt(2 * mpmath.pi)
        low, high = (
            mpmath.mpf(x.numerator) / x.denominator
            for x in (module._DENSITY_LOW, module._DENSITY_HIGH)
        )
        assert low < true < high
        assert high - low < mpmath.mpf(10) ** -37


@given(st.floats(0.0, 49.0), st.booleans())
def test_the_series_are_enclosed_and_closely(x, odd):
    with mpmath.workprec(600):
        at = mpmath.mpf(x)
        root = mpmath.sqrt(at)
        true = mpmath.exp(at)
        if odd:  # Σ xⁿ/(1·3 ⋯ (2n+1)) by the error function
            half = mpmath.sqrt(mpmath.pi / 2) * mpmath.erf(root / mpmath.sqrt(2))
            true = half * mpmath.exp(at / 2) / root if x else mpmath.mpf(1)
        low, high = (
            mpmath.mpf(b.numerator) / b.denominator for b in module._series(Fraction(x), odd)
        )
        slack = true * mpmath.mpf(2) ** -550  # of the oracle
        assert low - slack <= true <= high + slack
        assert high - low <= true * mpmath.mpf(2) ** -145


@given(st.floats(0.0, 7.0))
def test_the_normal_area_is_enclosed(x):
    for density in (True, False):
        with mpmath.workdps(150), pytest.MonkeyPatch.context() as patch:
            true = mpmath.erf(mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            if not density:  # whose bounds are wide enough to hide an error of the series
                true *= mpmath.sqrt(2 * mpmath.pi)
                patch.setattr(module, "_DENSITY_LOW", 1)
                patch.setattr(module, "_DENSITY_HIGH", 1)
            low, high = (
                mpmath.mpf(b.numerator) / b.denominator for b in module._normal_area(Fraction(x))
            )
            assert low <= true <= high
            assert high - low <= mpmath.mpf(10) ** (-36 if density else -40)


@settings(deadline=None)
@given(st.integers(1, TOTAL - 1) | st.sampled_from([1, 2, TOTAL // 2, TOTAL - 2, TOTAL - 1]))
def test_the_normal_quantile_is_rounded_up_and_hardly(weight):
    with mpmath.workdps(60):
        a = mpmath.mpf(module._quantile_up(weight)) / 2**60
        assert mpmath.ncdf(-a) <= mpmath.mpf(weight) / TOTAL < mpmath.ncdf(-a + 1e-13)


def test_a_wrong_guess_of_the_quantile_is_mended(monkeypatch):
    class Careless:
        def inv_cdf(self, p):
            return 0.0

    right = module._quantile_up(12345)
    monkeypatch.setattr(module, "NormalDist", Careless)
    mended = module._quantile_up.__wrapped__(12345)
    assert mended >= right - 2**15


@given(st.integers(1, TOTAL - 1))
def test_a_coarse_chance_is_rounded_down_by_a_thousandth(weight):
    coarse = module._coarse(weight)
    assert 0 < coarse <= weight
    small = min(weight, TOTAL - weight)
    assert weight - coarse <= small / 256


# Pure ε.


def test_epsilon_is_exact_to_one_weight():
    # e^1 lies between these two ratios.
    small = math.ceil(TOTAL / (1 + exp_down(1.0)))
    assert symmetric(small).epsilon_at_most(1.0)
    assert not symmetric(small - 1).epsilon_at_most(1.0)


@given(matrices())
def test_epsilon_agrees_with_the_largest_log_ratio(channel):
    with mpmath.workdps(50):
        true = max(
            mpmath.log(mpmath.mpf(p) / r)
            for a, b in permutations(channel.weights, 2)
            for p, r in zip(a, b, strict=True)
        )
        least = channel.least_epsilon()
        assert true <= least
        assert least <= true * (1 + mpmath.mpf(2) ** -51)
    assert channel.epsilon_at_most(least)
    assert least == 0 or not channel.epsilon_at_most(math.nextafter(least, 0.0))


def test_the_smallest_and_the_largest_epsilon():
    assert symmetric(TOTAL // 2).least_epsilon() == 0.0
    assert symmetric(1).least_epsilon() == pytest.approx(32 * math.log(2))
    tiny = symmetric(TOTAL // 2 - 1).least_epsilon()
    assert tiny == pytest.approx(2.0**-30, rel=1e-8)
    assert symmetric(1).epsilon_at_most(1e300)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf, None, "1"])
def test_epsilon_must_be_a_number(epsilon):
    with pytest.raises((InvalidArgument, InvalidType), match="epsilon must be"):
        COIN.epsilon_at_most(epsilon)


# μ-GDP.


def hockey_sticks_are_below(channel, mu):
    """The same claim by its dual, in floats: δ(ε) ≤ δ_μ(ε) at every kink of δ, and between."""
    for null, other in permutations(np.array(channel.weights, dtype=float) / TOTAL, 2):
        kinks = np.log(other / null)
        epsilons = np.concatenate([kinks[kinks > 0], np.linspace(0.0, kinks.max() + 1e-9, 50)])
        for epsilon in epsilons[epsilons >= 0]:
            delta = np.maximum(other - math.exp(epsilon) * null, 0.0).sum()
            if delta > delta_of_gdp(mu, float(epsilon)) + 1e-15:
                return False
    return True


def least_mu(channel):
    low, high = 1e-6, 13.0
    assert channel.satisfies_gdp(high)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if channel.satisfies_gdp(middle) else (middle, high)
    return high


@settings(max_examples=20, deadline=None)
@given(matrices(4))
def test_gdp_is_never_claimed_where_a_hockey_stick_exceeds_it(channel):
    assert hockey_sticks_are_below(channel, least_mu(channel))


@settings(max_examples=20, deadline=None)
@given(matrices(4))
def test_gdp_is_exact_by_brute_force_over_all_sets_of_outputs(channel):
    def z(x):
        return -stats.norm.ppf(float(x))

    mu = 0.0
    for null, other in permutations(channel.weights, 2):
        for bits in range(1, 2**channel.outputs - 1):
            inside = [bits >> y & 1 for y in range(channel.outputs)]
            alpha = sum(w for w, chosen in zip(null, inside, strict=True) if chosen)
            beta = sum(w for w, chosen in zip(other, inside, strict=True) if not chosen)
            mu = max(mu, z(alpha / TOTAL) + z(beta / TOTAL))
    if mu > 1e-4:
        assert least_mu(channel) == pytest.approx(mu, rel=1e-7)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 15.0])
def test_binary_response_is_as_gdp_as_theory_says(epsilon):
    channel = symmetric(math.ceil(TOTAL / (1 + exp_down(epsilon))))
    mu = mu_of_pure_dp(epsilon)
    assert channel.satisfies_gdp(mu + 1e-13)
    assert not channel.satisfies_gdp(mu * (1 - 1e-6) if epsilon < 10 else mu * (1 - 1e-3))


def test_pairs_of_rows_far_from_the_ends_count():
    # Only the middle two rows differ much.
    half = TOTAL // 2
    rows = ((half, half), (3 * QUARTER, QUARTER), (QUARTER, 3 * QUARTER), (half, half))
    assert Channel(rows).satisfies_gdp(1.349)
    assert not Channel(rows).satisfies_gdp(1.348)


def test_ratios_that_floats_cannot_tell_apart_are_sorted_exactly():
    half = TOTAL // 2
    null = (half - 1, half - 2, 3)
    other = (half, half - 1, 1)
    assert half / (half - 1) == (half - 1) / (half - 2)  # as floats: the second is larger
    vertices = list(module._inner_vertices(null, other))
    assert vertices == [(half - 2, half + 1), (TOTAL - 3, 1)]


def test_a_channel_too_large_to_check_for_mu_is_refused():
    rows = tuple((TOTAL - 127, *[1] * 127) for _ in range(128))
    with pytest.raises(InvalidArgument, match="fewer for a claim of mu"):
        Channel(rows).satisfies_gdp(1.0)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf, None])
def test_mu_must_be_a_positive_number(mu):
    with pytest.raises((InvalidArgument, InvalidType), match="mu must be"):
        COIN.satisfies_gdp(mu)


# What a channel is.


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((), "2 to 256 rows"),
        (((TOTAL,),), "2 to 256 rows"),
        (((), ()), "2 to 256 rows"),
        (((TOTAL // 2, TOTAL // 2), (TOTAL,)), "equally long"),
        (((1, TOTAL - 2), (1, TOTAL - 1)), "sum to 2"),
        (((-1, TOTAL + 1), (1, TOTAL - 1)), "at least 0"),
        (((0, TOTAL), (1, TOTAL - 1)), "must not be 0 beside"),
        (((TOTAL, 0), (0, TOTAL)), "must not be 0 beside"),
        ((((1.0, TOTAL - 1.0),) * 2), "whole numbers"),
        ((((True, TOTAL - 1),) * 2), "whole numbers"),
        ((((None, TOTAL),) * 2), "whole numbers"),
        (((TOTAL, TOTAL)), "rows of whole numbers"),
        (((TOTAL,),) * 257, "2 to 256 rows"),
        (((TOTAL - 1024, *[1] * 1024),) * 2, "1024 columns"),
        (((TOTAL - 999, *[1] * 999),) * 40, "at most 32768"),
    ],
)
def test_what_is_no_channel_is_refused(weights, message):
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        Channel(weights)


def test_numpy_integers_and_columns_of_zeros_are_fine():
    channel = Channel(np.array([[1, 0, TOTAL - 1], [2, 0, TOTAL - 2]]))
    assert channel.weights == ((1, 0, TOTAL - 1), (2, 0, TOTAL - 2))
    assert type(channel.weights[0][0]) is int
    assert channel.least_epsilon() == pytest.approx(math.log(2))
    assert channel.satisfies_gdp(1.0)


def test_a_channel_can_not_be_changed_and_shows_its_shape_only():
    with pytest.raises(AttributeError):
        COIN.weights = ()
    assert repr(COIN) == "Channel(cells=2, outputs=2)"


# Rounding.


@st.composite
def private_rows(draw):
    """Rows of probabilities that are ε-DP before rounding, at their tightest."""
    epsilon = draw(st.floats(0.001, 20.0))
    cells, outputs = draw(st.integers(2, 8)), draw(st.integers(2, 8))
    column = st.lists(
        st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0]), min_size=outputs, max_size=outputs
    )
    # Unequal sums would need another factor: half of ε for the ratio, half for the sums.
    raw = np.exp(np.array([draw(column) for _ in range(cells)]) * epsilon / 2)
    rows = raw / raw.sum(axis=1, keepdims=True)
    tight = math.log((rows.max(axis=0) / rows.min(axis=0)).max())
    return rows.tolist(), max(tight, 1e-4)


@settings(deadline=None)
@given(private_rows())
def test_rounding_keeps_epsilon_exactly_and_stays_close(case):
    rows, epsilon = case
    channel = Channel.from_probabilities(rows, epsilon)
    assert channel.epsilon_at_most(epsilon)
    # A column's range is moved by at most e^ε/2^32, and a row's remainder by that for each.
    allowed = (math.exp(min(epsilon, 21.0)) + 1) * (len(rows[0]) + 1)
    assert np.abs(np.array(channel.weights) - np.array(rows) * TOTAL).max() <= allowed


def test_rounding_takes_from_the_largest_and_leaves_no_zero():
    tiny = 1e-12
    channel = Channel.from_probabilities([[1 - 2 * tiny, tiny, tiny], [0.4, 0.3, 0.3]])
    assert channel.weights[0] == (TOTAL - 2, 1, 1)
    zero_column = Channel.from_probabilities([[0.5, 0.0, 0.5], [0.25, 0.0, 0.75]], 1.0)
    assert [row[1] for row in zero_column.weights] == [0, 0]


@pytest.mark.parametrize(
    ("rows", "epsilon", "message"),
    [
        ([[0.7, 0.3], [0.3, 0.7]], 0.8472, "must satisfy epsilon"),
        ([[1.0, 0.0], [0.5, 0.5]], 22.0, "must satisfy epsilon"),
        ([[0.7, 0.2], [0.3, 0.7]], 1.0, "must sum to 1"),
        ([[0.7, 0.3], [0.3, 0.3, 0.4]], 1.0, "equally long"),
        ([], 1.0, "not empty"),
        ([[], []], 1.0, "not empty"),
        ([[1.1, -0.1], [0.5, 0.5]], 1.0, r"in \[0, 1\]"),
        ([[math.nan, 1.0], [0.5, 0.5]], 1.0, r"in \[0, 1\]"),
        ([["a", 1.0], [0.5, 0.5]], 1.0, "must be a number"),
    ],
)
def test_rows_that_can_not_be_rounded_are_refused(rows, epsilon, message):
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        Channel.from_probabilities(rows, epsilon)


def test_equal_rows_stay_equal_however_small_epsilon_is():
    channel = Channel.from_probabilities([[1 / 3, 1 / 3, 1 / 3]] * 2, 1e-12)
    assert channel.least_epsilon() == 0.0


def test_an_epsilon_that_weights_can_not_express_is_refused():
    # In units of 2^-32, every column lies between a whole number and that plus 1/3.
    least = (2**30, 2**30, 2**30, 2**30 - 1)
    rows = [[(n + (y != j) / 3) / TOTAL for y, n in enumerate(least)] for j in range(4)]
    with pytest.raises(InvalidArgument, match="epsilon is too small"):
        Channel.from_probabilities(rows, 0.34 / 2**30)
    assert Channel.from_probabilities(rows, 1.01 / 2**30).epsilon_at_most(1.01 / 2**30)


# Sampling.


@given(matrices(5), st.data())
def test_sampling_gives_every_output_exactly_its_weight(channel, data):
    """Each output's integers are an interval as long as its weight: try both ends of each."""
    cell = data.draw(st.integers(0, channel.cells - 1))
    row = channel.weights[cell]
    ends = list(accumulate(row))
    with pytest.MonkeyPatch.context() as patch:
        for y, (weight, end) in enumerate(zip(row, ends, strict=True)):
            for integer in (end - weight, end - 1):
                patch.setattr(module.secrets, "randbits", lambda bits, n=integer: n)
                assert channel.draw(cell) == y
    assert ends[-1] == TOTAL


def test_sampling_asks_the_operating_system_for_32_bits_once(monkeypatch):
    asked = []
    monkeypatch.setattr(module.secrets, "randbits", lambda bits: asked.append(bits) or 0)
    COIN.draw(0)
    assert asked == [32]


def test_a_column_of_zeros_is_never_drawn(monkeypatch):
    channel = Channel(((QUARTER, 0, 3 * QUARTER, 0),) * 2)
    for integer in (0, QUARTER - 1, QUARTER, TOTAL - 1):
        monkeypatch.setattr(module.secrets, "randbits", lambda bits, n=integer: n)
        assert channel.draw(1) == (0 if integer < QUARTER else 2)


def test_draws_have_the_frequencies_of_the_weights():
    """χ², with a false-alarm rate of 1e-6 over both rows."""
    channel = Channel.from_probabilities([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    n = 40_000
    for cell, row in enumerate(channel.weights):
        counts = Counter(channel.draw(cell) for _ in range(n))
        expected = np.array(row) / TOTAL * n
        observed = [counts[y] for y in range(channel.outputs)]
        assert stats.chisquare(observed, expected).pvalue > 1e-6 / 2
