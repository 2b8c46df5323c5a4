"""Dette-Graw: the printed algorithm, and numerical accounting against known answers and a peer."""

import math

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from confidp import GDP, ApproxDP, Custom, Ledger, Mean, Median, confidence_region
from confidp.central.methods import hidden_resamples
from confidp.central.methods.dette_graw import DetteGraw, DetteGrawPlan
from confidp.central.methods.hidden_resamples import (
    _gdp_profile,
    _Losses,
    _resample_profile,
    largest_ratio,
    likely_square_sum,
)
from confidp.central.methods.method import Request
from confidp.errors import BudgetExhausted, ConfidpError
from confidp.randomness import Randomness

FALSE_ALARM = 1e-6
ASYMPTOTIC = DetteGraw("asymptotic", acknowledge_unproved=True)


def plan_for(statistic, n=2000, *, mu=8.0, delta=1e-6, n_resamples=500, method=None):
    request = Request(n, mu, 0.9, n_resamples, delta)
    plan: DetteGrawPlan = (method or DetteGraw()).plan(statistic.for_shape(n, 1), request)
    return plan


# ---- The algorithm


def test_as_published_m_is_4_and_the_noise_is_a_126th_of_the_sensitivity():
    plan = plan_for(Mean((0, 1)), method=ASYMPTOTIC)
    assert plan.resample_size == 4
    assert plan.resample.mu == pytest.approx(126.5, abs=0.1)
    assert plan.resample.scale == pytest.approx(0.25 / 126.5, rel=1e-3)
    assert plan.center.scale == pytest.approx(math.sqrt(2) / 8 / 2000, rel=1e-9)


@pytest.mark.parametrize(("level", "low", "high"), [(0.9, 5, 95), (0.8, 10, 90), (0.999, 1, 100)])
def test_the_interval_reflects_order_statistics_of_the_noisy_pivots(level, low, high):
    # An enormous budget: no noise is left, and the same indices can be drawn again.
    rng = np.random.default_rng(1)
    data = rng.uniform(2, 5, 400)
    statistic = Mean((2, 5)).for_shape(400, 1)
    plan = ASYMPTOTIC.plan(statistic, Request(400, 1e7, level, 100))
    records = statistic.encode(data[:, None])
    ball = plan.release(records, Randomness.of(4))
    indices = Randomness.of(4).indices
    m = plan.resample_size
    assert m == 4
    sets = [indices.choice(400, size=m) for _ in range(100)]
    pivots = np.sort([data[s].mean() - data.mean() for s in sets])
    ends = data.mean() - math.sqrt(m / 400) * pivots[[high - 1, low - 1]]
    assert ball.center[0] - ball.radius == pytest.approx(ends[0], abs=1e-5)
    assert ball.center[0] + ball.radius == pytest.approx(ends[1], abs=1e-5)
    assert ball.public["estimate"] == pytest.approx(data.mean(), abs=1e-5)


PRINTED = [  # name, draw, statistic, truth, printed length and coverage
    ("bernoulli", lambda rng: (rng.random(2000) < 0.05) * 1.0, Mean((0, 1)), 0.05, 0.01139, 0.66),
    ("uniform", lambda rng: rng.uniform(-1, 1, 2000), Mean((-1, 1)), 0.0, 0.04254, 0.91),
]


@pytest.mark.parametrize(("name", "draw", "statistic", "truth", "length", "coverage"), PRINTED)
def test_asymptotic_accounting_gives_the_printed_lengths(
    name, draw, statistic, truth, length, coverage
):
    rng = np.random.default_rng([2026, len(name)])
    lengths, covered, runs = [], 0, 40
    for _ in range(runs):
        region = confidence_region(
            draw(rng), statistic, budget=GDP(8.0), confidence_level=0.9, n_resamples=500,
            method=ASYMPTOTIC, rng=rng,
        )  # fmt: skip
        lengths.append(2 * region.radius)
        covered += region.contains(truth)
    slack = stats.norm.isf(FALSE_ALARM / 2) * np.std(lengths) / math.sqrt(runs)
    assert abs(np.mean(lengths) - length) <= 0.02 * length + slack
    assert stats.binomtest(covered, runs, coverage).pvalue > FALSE_ALARM


def test_numerical_accounting_covers_at_mu_8():
    rng = np.random.default_rng(3)
    covered = sum(
        confidence_region(
            rng.uniform(-1, 1, 2000), Mean((-1, 1)), budget=GDP(8.0, 1e-6), confidence_level=0.9,
            n_resamples=500, method=DetteGraw(), rng=rng,
        ).contains(0.0)
        for _ in range(60)
    )  # fmt: skip
    assert stats.binomtest(covered, 60, 0.88, "less").pvalue > FALSE_ALARM


def test_it_works_for_any_mean_like_statistic():
    variance = Custom(lambda x: x.var(), lambda n: 1 / n, (0, 1), name="variance")
    data = np.random.default_rng(1).random(500)
    region = confidence_region(
        data, variance, budget=GDP(8.0, 1e-6), method=DetteGraw(), n_resamples=20, rng=1
    )
    assert region.contains(1 / 12)


# ---- What it claims


def test_asymptotic_accounting_must_be_asked_for_twice_and_says_what_it_is():
    assert DetteGraw().accounting == "numerical"
    with pytest.raises(ConfidpError, match="acknowledge_unproved"):
        DetteGraw("asymptotic")
    plan = plan_for(Mean((0, 1)), method=ASYMPTOTIC)
    assert plan.assumes[0].startswith("WARNING")
    assert "NOT 8-GDP" in plan.name


def test_asymptotic_accounting_reports_and_charges_what_is_proved(tmp_path):
    data = np.random.default_rng(1).random(2000)
    region = confidence_region(
        data, Mean((0, 1)), budget=GDP(8.0), method=ASYMPTOTIC, n_resamples=500, rng=1
    )
    assert region.spent.mu == pytest.approx(math.sqrt(32 + 14 * 126.5**2), rel=1e-3)
    ledger = Ledger.create(tmp_path / "l", GDP(100.0, 1e-3))
    with pytest.raises(BudgetExhausted):
        confidence_region(
            data, Mean((0, 1)), budget=GDP(8.0), method=ASYMPTOTIC, n_resamples=500, ledger=ledger
        )
    assert ledger.spent is None


def test_numerical_accounting_spends_the_budget_and_no_more(tmp_path):
    data = np.random.default_rng(1).random(400)
    ledger = Ledger.create(tmp_path / "l", GDP(9.0, 1e-3))
    region = confidence_region(
        data, Mean((0, 1)), budget=GDP(8.0, 1e-6), method=DetteGraw(), n_resamples=50, ledger=ledger
    )
    assert region.private
    assert region.spent == ledger.spent == GDP(8.0, 1e-6)
    epsilon = ApproxDP(2.0, 1e-5)
    region = confidence_region(
        data, Mean((0, 1)), budget=epsilon, method=DetteGraw(), n_resamples=50, rng=1
    )
    assert region.spent.epsilon(1e-5) <= 2.0


def test_the_plan_takes_the_noise_that_its_accounting_says():
    plan = plan_for(Mean((0, 1)))
    half = 8 / math.sqrt(2)
    assert plan.resample.mu == pytest.approx(largest_ratio(2000, 4, 500, 8.0, half, 1e-6), rel=0.01)
    assert plan.resample.scale == pytest.approx(0.25 / plan.resample.mu, rel=1e-3)
    assert plan.center.mu == pytest.approx(half)


def test_the_lattices_share_is_taken_out_of_delta():
    plan = plan_for(Mean((0, 1)))
    assert 0 < plan.lattices < 1e-6 * plan.request.delta
    with pytest.raises(ConfidpError, match="delta"):
        plan_for(Mean((0, 1)), delta=1e-19)
    with pytest.raises(ConfidpError, match="delta"):
        plan_for(Mean((0, 1)), delta=0.0)


@pytest.mark.parametrize("settings_", [{"accounting": "clt"}, {"acknowledge_unproved": 1}])
def test_settings_out_of_range_are_refused_at_once(settings_):
    with pytest.raises(ConfidpError, match=next(iter(settings_))):
        DetteGraw(**settings_)


def test_what_does_not_suit_is_refused():
    for statistic, columns in ((Mean((0, 1)), 2), (Median((0, 1)), 1)):
        with pytest.raises(ConfidpError, match="method must suit"):
            DetteGraw().plan(statistic.for_shape(50, columns), Request(50, 1.0, 0.9, 9, 1e-6))
    with pytest.raises(ConfidpError, match="n_resamples"):
        plan_for(Mean((0, 1)), n_resamples=1)
    with pytest.raises(ConfidpError, match="mu"):
        plan_for(Mean((0, 1)), mu=1000.0)


# ---- Numerical accounting


def test_composed_gaussian_profiles_are_gaussian_again():
    step, mu, times, once = 2e-3, 0.3, 25, 2.0
    epsilons = step * np.arange(20_001)
    losses = _Losses.below(_gdp_profile(mu, epsilons, 1e-10), step)
    center = _Losses.below(_gdp_profile(once, epsilons, 1e-10), step)
    total = math.sqrt(times * mu**2 + once**2)
    composed = losses.composed(times, center, total)
    exact = _gdp_profile(total, epsilons, 0.0)
    assert np.all(composed >= exact)
    assert np.all(composed <= exact + 2e-6)


@pytest.mark.parametrize(("n", "m", "ratio"), [(20, 3, 2.0), (2000, 4, 3.8), (5, 5, 0.5)])
def test_the_dots_are_connected_above_the_profile(n, m, ratio):
    step = 1e-2
    epsilons = step * np.arange(4001)
    profile = _resample_profile(n, m, ratio, epsilons)
    losses = _Losses.below(profile, step)
    mirrored = losses.masses[1:] * np.exp(-epsilons[1:])
    assert losses.masses.sum() + mirrored.sum() + losses.infinite == pytest.approx(1, abs=1e-12)
    for k in (0, 1, 7, 300):
        above = losses.masses[k + 1 :] * -np.expm1(epsilons[k] - epsilons[k + 1 :])
        assert above.sum() + losses.infinite == pytest.approx(profile[k], rel=1e-9)
    between = epsilons[:-1] + step / 3
    chord = profile[:-1] + np.diff(profile) * np.expm1(step / 3) / np.expm1(step)
    assert np.all(chord >= _resample_profile(n, m, ratio, between) - 1e-15)


@pytest.mark.parametrize("others", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("n", "m", "ratio"), [(8, 3, 2.0), (3, 2, 1.0)])
def test_no_mean_of_a_hidden_resample_exceeds_its_profile(n, m, ratio, others):
    # All other records are alike; one says 0 or 1. Noise has deviation 1, a copy moves by `ratio`.
    p = stats.binom.pmf(np.arange(m + 1), m, 1 / n)

    def density(x, record):
        means = ratio * np.arange(m + 1) * (record - others)
        return float(np.dot(p, stats.norm.pdf(x - means)))

    for epsilon in (0.0, 0.1, 0.5, 2.0):
        (bound,) = _resample_profile(n, m, ratio, np.array([epsilon]))
        for one, two in ((0.0, 1.0), (1.0, 0.0)):
            exact, _ = integrate.quad(
                lambda x, one=one, two=two, e=epsilon: max(
                    density(x, one) - math.exp(e) * density(x, two), 0.0
                ),
                -12,
                12 + m * ratio,
                limit=400,
            )
            assert exact <= bound + 1e-7


def test_the_whole_composition_agrees_with_dp_accounting():
    n, m, n_resamples, mu, ratio = 2000, 4, 500, 2.0, 1.9
    step, points = 5e-3, 8000
    epsilons = step * np.arange(points + 1)

    def whole(profile):  # both signs of ε, as dp_accounting takes it
        negative = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * profile[:0:-1]
        grid = np.arange(-points, points + 1)
        deltas = np.clip(np.concatenate([negative, profile]), 0, 1)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, deltas)
        return pmf.to_dense_pmf()

    one = _resample_profile(n, m, ratio, epsilons)
    center = _gdp_profile(mu / math.sqrt(2), epsilons, 0.0)
    peer = whole(one).self_compose(n_resamples, 1e-13).compose(whole(center))
    ours = _Losses.below(one, step).composed(n_resamples, _Losses.below(center, step), mu)
    for k in (0, 100, 400, 1000, 2000):
        assert ours[k] == pytest.approx(peer.get_delta_for_epsilon(epsilons[k]), abs=2e-8)


def revealed(n, m, n_resamples, center, ratio, epsilons):
    """Return the profile when the indices are known: a mixture of Gaussian ones, in closed form."""
    squares = np.zeros(200)
    squares[np.arange(m + 1) ** 2] = stats.binom.pmf(np.arange(m + 1), m, 1 / n)
    law = np.eye(1, 200)[0]
    for _ in range(n_resamples):
        law = np.convolve(law, squares)[:200]
    profiles = [_gdp_profile(math.hypot(center, ratio * math.sqrt(t)), epsilons, 0.0)
                for t in range(60)]  # fmt: skip
    return sum(w * d for w, d in zip(law, profiles, strict=False)) + law[60:].sum()


def test_hiding_the_indices_helps_and_the_answer_is_nearly_the_largest():
    n, m, n_resamples, mu, delta = 200, 4, 50, 1.0, 1e-5
    center = mu / math.sqrt(2)
    ratio = largest_ratio(n, m, n_resamples, mu, center, delta)
    epsilons = np.linspace(0, 12, 3000)
    allowed = _gdp_profile(mu, epsilons, 0.0) + delta
    assert np.any(revealed(n, m, n_resamples, center, ratio, epsilons) > allowed)
    assert np.all(revealed(n, m, n_resamples, center, ratio / 3, epsilons) <= allowed)
    # A finer grid finds hardly more.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hidden_resamples, "_POINTS", 2**17)
        finer = largest_ratio.__wrapped__(n, m, n_resamples, mu, center, delta)
    assert ratio * 0.99 < finer < ratio * 1.02


def test_where_losses_are_many_and_small_it_comes_to_the_central_limit():
    # At μ = 0.02 the CLT holds: B resamples hit with chance η make √B·η·√(e^{r²} − 1).
    n, m, n_resamples, mu = 2000, 4, 500, 0.02
    ratio = largest_ratio(n, m, n_resamples, mu, mu / math.sqrt(2), 1e-6)
    hit = 1 - (1 - 1 / n) ** m
    limit = math.sqrt(n_resamples) * hit * math.sqrt(math.expm1(ratio**2))
    assert 0.9 * mu / math.sqrt(2) < limit < 1.02 * mu / math.sqrt(2)


@given(st.floats(0.05, 0.95), st.floats(1e-6, 1e-2))
@settings(max_examples=30)
def test_a_profile_within_delta_of_gdps_means_gdp_within_delta(alpha, delta):
    # The docstring's equivalence, on a pair that is exactly (μ, δ)-GDP: δ of it reveals all.
    mu, gammas = 1.3, np.exp(np.linspace(-12, 12, 4001))
    profile = np.where(
        gammas >= 1,
        _gdp_profile(mu, np.log(np.maximum(gammas, 1)), 0.0),
        1 - gammas + gammas * _gdp_profile(mu, -np.log(np.minimum(gammas, 1)), 0.0),
    )
    least = max(np.max(1 - gammas * alpha - (profile + delta)), 0.0)
    assert least <= GDP(mu, delta).tradeoff(alpha) + 1e-12
    assert least >= GDP(mu, delta).tradeoff(alpha) - 1e-4


@pytest.mark.parametrize(("n", "m", "n_resamples"), [(2000, 4, 500), (30, 3, 10), (50, 1, 500)])
def test_the_likely_square_sum_is_exceeded_as_rarely_as_it_says(n, m, n_resamples):
    rng = np.random.default_rng(5)
    drawn = (rng.binomial(m, 1 / n, size=(20_000, n_resamples)) ** 2).sum(axis=1)
    bound = likely_square_sum(n, m, n_resamples, 0.01)
    beyond, at_least = int((drawn > bound).sum()), int((drawn >= bound).sum())
    assert stats.binomtest(beyond, 20_000, 0.01, "greater").pvalue > FALSE_ALARM
    assert stats.binomtest(at_least, 20_000, 0.01, "less").pvalue > FALSE_ALARM
