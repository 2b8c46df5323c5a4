"""Averaged SGD: the pass as printed, conditions (16) to (18), and no neighbours too far apart."""

import json
import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

from confidp import CRGS, GDP, confidence_region
from confidp.central.statistics.m_estimator import SLACK
from confidp.central.statistics.sgd import AveragedSGD
from confidp.central.statistics.statistic import MeanLike
from confidp.errors import ConfidpError, InvalidArgument, InvalidType


def named(part):
    """A test's name for a statistic."""
    return f"{part.name}-{part.radius:g}" if isinstance(part, AveragedSGD) else None


def quadratic(**changes):
    """ℓ = ‖w‖²·λ/2 − x·w: steps are linear, so bounds on them are attained."""
    ridge = changes.get("strong_convexity", 0.1) or 0.1
    constants = {
        "gradient": lambda w, x: [ridge * a - b for a, b in zip(w, x, strict=True)],
        "strong_convexity": ridge,
        "smoothness": ridge,
        "radius": 0.1 / ridge,
        "lipschitz": 1.1,
        "bounds": (-1, 1),
    }
    return AveragedSGD(**(constants | changes))


def ready(statistic, rows):
    statistic = statistic.for_shape(*rows.shape)
    return statistic, statistic.encode(rows)


def classified(n, seed=0, p=2):
    """Rows for a logistic regression."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) / 2
    return np.column_stack([x, x[:, 0] + rng.logistic(size=n) / 3 > 0.1])


def exact_average(statistic, records):
    """The average of the pass in 50 digits, from equation (17) as printed."""
    n = len(records)
    order = np.random.default_rng(n).permutation(n)
    logistic = statistic.describe()["statistic"].startswith("logistic")
    ridge = mpmath.mpf(statistic.strong_convexity)
    with mpmath.workdps(50):
        radius = mpmath.mpf(statistic.radius / SLACK)  # the margin kept for float errors
        w = center = [mpmath.mpf(x) for x in statistic.center]
        total = [mpmath.mpf(0)] * len(w)
        for t, i in enumerate(order.tolist(), start=1):
            eta = mpmath.mpf(statistic._steps(n)[t - 1])
            assert float(eta) == pytest.approx(
                statistic.step * (t + statistic.shift) ** -statistic.exponent, rel=1e-14
            )
            x = [mpmath.mpf(v) for v in records[i].tolist()]
            push = 1 / (1 + mpmath.exp(mpmath.fdot(w, x))) if logistic else 1
            w = [a - eta * (ridge * a - push * b) for a, b in zip(w, x, strict=True)]
            away = [a - b for a, b in zip(w, center, strict=True)]
            if mpmath.norm(away) > radius:
                w = [b + a * radius / mpmath.norm(away) for a, b in zip(away, center, strict=True)]
            total = [a + b for a, b in zip(total, w, strict=True)]
        return [a / n for a in total]


# --- The value -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statistic",
    [
        AveragedSGD.logistic(0.1),
        AveragedSGD.logistic(1e-4, feature_norm=10.0),
        AveragedSGD.logistic(0.1, radius=0.05, intercept=False),
        quadratic(center=(0.0, 0.0, 0.0), lipschitz=2.0),
        quadratic(center=(0.02, 0.01, -0.02), radius=0.3, lipschitz=2.0),
    ],
    ids=named,
)
def test_it_is_the_average_of_the_printed_pass_up_to_its_rounding(statistic):
    for n in (1, 2, 60):
        rows = classified(n, seed=n) * [30, 30, 1]
        fitted, records = ready(statistic, rows)
        value, exact = fitted.value(records), exact_average(fitted, records)
        error = math.hypot(*(float(a - b) for a, b in zip(exact, value.tolist(), strict=True)))
        assert error <= fitted.rounding(n)


def test_logistic_passes_do_what_the_gradient_says():
    for radius in (None, 0.3):
        fitted, records = ready(AveragedSGD.logistic(0.05, radius=radius), classified(500))
        own, general = (
            np.mean(path(fitted, records.tolist()), axis=0)
            for path in (type(fitted)._path, AveragedSGD._path)
        )
        assert np.linalg.norm(own - general) <= fitted.rounding(500)


def test_it_nears_the_minimiser_that_another_optimiser_finds():
    rows = classified(30_000)
    fitted, records = ready(AveragedSGD.logistic(0.1), rows)

    def objective(w):
        return np.logaddexp(0, -records @ w).mean() + 0.05 * w @ w

    found = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    assert np.linalg.norm(fitted.value(records) - found.x) < 0.03 < np.linalg.norm(found.x) / 10


def test_the_order_depends_on_n_alone_and_sorted_rows_do_no_harm():
    rows = classified(2000)
    fitted, records = ready(AveragedSGD.logistic(0.1), rows)
    value = fitted.value(records)
    assert value.tolist() == fitted.value(records.copy()).tolist()
    order = np.random.default_rng(2000).permutation(2000)
    by_hand = np.mean(fitted._path(records[order].tolist()), axis=0)
    assert value.tolist() == by_hand.tolist()
    by_size = records[np.argsort(records[:, 0])]
    in_order = np.mean(fitted._path(by_size.tolist()), axis=0)
    assert np.linalg.norm(fitted.value(by_size) - value) < 0.1 * np.linalg.norm(in_order - value)


def test_no_path_leaves_the_ball():
    for radius in (1e-3, 0.2):
        fitted, records = ready(AveragedSGD.logistic(0.1, radius=radius), classified(300))
        sizes = [math.hypot(*w) for w in fitted._path(records.tolist())]
        assert max(sizes) <= radius < max(sizes) * (1 + 1e-9)


@pytest.mark.parametrize("fill", [0.0, 1.0, -1.0, math.inf, -math.inf, 1e300])
def test_degenerate_data_give_finite_values_without_a_warning(fill):
    for statistic, columns in (
        (AveragedSGD.logistic(0.1), 3),
        (AveragedSGD.logistic(1e-6, feature_norm=1e3), 3),
        (quadratic(), 1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted, records = ready(statistic, np.full((50, columns), fill))
            value = fitted.value(records)
        assert np.isfinite(value).all()
        assert np.linalg.norm(value) <= fitted.radius


# --- The sensitivity -----------------------------------------------------------------------------


def ratio(statistic, rows, where, row):
    """How far two neighbours' values are apart, in sensitivities."""
    fitted, records = ready(statistic, rows)
    other = rows.copy()
    other[where] = row
    n = len(rows)
    distance = np.linalg.norm(fitted.value(records) - fitted.value(fitted.encode(other)))
    assert distance <= fitted.sensitivity(n) + 2 * float(fitted.rounding(n))
    return distance / fitted.sensitivity(n)


def attacked(statistic, columns, n, rng, restarts=8, steps=80):
    """The largest ratio found: random and extreme neighbours, then coordinate ascent."""
    best = 0.0
    for _ in range(restarts):
        rows = rng.choice([-9.0, 0.0, 9.0], size=(n, columns))
        if rng.random() < 0.5:
            rows[:] = rows[0]
        where, row = rng.integers(n), -rows[0]
        here = ratio(statistic, rows, where, row)
        for _ in range(steps):
            trial, at, new = rows.copy(), where, row.copy()
            kind, column = rng.integers(3), rng.integers(columns)
            if kind == 0:
                at = rng.integers(n)
            elif kind == 1:
                new[column] = rng.choice([-9.0, 9.0, 0.0, rng.normal()])
            else:
                trial[rng.integers(n), column] = rng.choice([-9.0, 9.0, 0.0, rng.normal()])
            there = ratio(statistic, trial, at, new)
            if there > here:
                here, rows, where, row = there, trial, at, new
        best = max(best, here)
    return best


@pytest.mark.parametrize(
    ("statistic", "columns", "reached"),
    [
        (AveragedSGD.logistic(0.05), 3, [0.4, 0.4, 0.3, 0.3]),
        (AveragedSGD.logistic(1e-3, intercept=False), 2, [0.4, 0.4, 0.4, 0.2]),
        (AveragedSGD.logistic(1.0, feature_norm=5.0, radius=0.1), 2, [0.1, 0.1, 0.1, 0.05]),
        (quadratic(), 1, [0.1, 0.1, 0.1, 0.1]),
    ],
    ids=named,
)
def test_no_neighbours_found_by_search_exceed_the_sensitivity(statistic, columns, reached):
    for n, least in zip((1, 2, 5, 40), reached, strict=True):
        found = attacked(statistic, columns, n, np.random.default_rng(1))
        assert least < found < 1 + 1e-6


def shortest(shift, exponent):
    """Steps as short as (18) allows, so that no jump reaches the edge of the ball.

    ‖∇ℓ‖ ≤ 1 + λ·radius = 1.01, of which the 1 can differ between records.
    """
    least = 2 * shift**exponent * math.expm1(exponent * math.log1p(1 / shift)) / 0.1
    return quadratic(
        lipschitz=1.01, radius=0.1, shift=shift, exponent=exponent, step=least * (1 + 1e-12)
    )


def moved_at(statistic, n, where):
    """How far the average moves, in sensitivities, as the record of that time turns around."""
    rows = np.zeros((n, 1))
    at = np.random.default_rng(n).permutation(n)[where]
    rows[at] = 1.0
    return ratio(statistic, rows, at, [-1.0])


def test_the_sensitivity_is_attained_where_steps_are_linear():
    statistic = shortest(shift=1e3, exponent=0.7)
    assert (
        0.99 < max(moved_at(statistic, 400, where) for where in range(0, 400, 9)) * 1.01 < 1 + 1e-6
    )


def test_the_papers_sensitivity_is_approached_too():
    # 1/η grows by nearly λ/2 each time, all along.
    statistic, n = shortest(shift=1e3, exponent=0.999), 50_000
    moved = moved_at(statistic, n, 0) * statistic.sensitivity(n)
    assert 0.96 < moved / (4 * 1.01 / (0.1 * n)) < 1


def test_the_logistic_sensitivity_is_approached_for_small_regularisation():
    # All others push along the first axis, and leave the second one flat.
    statistic, n = AveragedSGD.logistic(1e-3, intercept=False), 20_000
    rows = np.tile([-1.0, 0.0, 1.0], (n, 1))
    where = np.random.default_rng(n).permutation(n)[100]
    one, other = ([0.4, s * math.sqrt(1 - 0.4**2), 1.0] for s in (1, -1))
    rows[where] = one
    assert ratio(statistic, rows, where, other) > 0.75


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.floats(1e-6, 1.0),
    st.floats(0.501, 0.999),
    st.floats(1.0, 1e5),
    st.floats(0.0, 1.0),
    st.integers(1, 300),
)
def test_the_sensitivity_is_never_above_the_papers(flat, exponent, longer, between, n):
    shift = 2 * exponent / flat * longer + 1
    least = 2 * shift**exponent * math.expm1(exponent * math.log1p(1 / shift)) / flat
    step = min(max(least * (shift**exponent / least) ** between, least), shift**exponent)
    statistic = quadratic(
        strong_convexity=flat, smoothness=1.0, exponent=exponent, shift=shift, step=step
    )
    papers = 4 * statistic.lipschitz / (flat * n)
    assert 0 < statistic.sensitivity(n) <= papers * (1 + 1e-9)


def test_the_sensitivity_is_the_recursion_in_exact_numbers_rounded_up():
    fitted = AveragedSGD.logistic(0.05, intercept=False)
    for n in (1, 2, 50):
        steps = [mpmath.mpf(eta) for eta in fitted._steps(n)]
        weights = [
            mpmath.fsum(
                mpmath.fprod(1 - mpmath.mpf(0.05) * eta for eta in steps[j + 1 : t + 1])
                for t in range(j, n)
            )
            for j in range(n)
        ]
        exact = 2 * max(a * b for a, b in zip(steps, weights, strict=True)) / n
        assert exact <= fitted.sensitivity(n) <= exact * (1 + 1e-10)


@pytest.mark.parametrize(
    "statistic", [AveragedSGD.logistic(0.1), AveragedSGD.logistic(1e-3), quadratic()], ids=named
)
def test_the_rounding_is_small_beside_the_sensitivity(statistic):
    for n in (1, 1000, 300_000):
        assert 0 < statistic.rounding(n) <= statistic.sensitivity(n) / 1000


@pytest.mark.parametrize(
    "make",
    [
        lambda: AveragedSGD.logistic(0.1),
        lambda: AveragedSGD.logistic(1e-4, feature_norm=20.0, radius=3.0),
    ],
)
def test_the_logistic_constants_bound_gradients_and_curvatures(make):
    rng = np.random.default_rng(2)
    rows = classified(300) * [100, 100, 1]
    fitted, records = ready(make(), rows)
    largest = 0.0
    for _ in range(3000):
        w, v = rng.normal(size=(2, 3))
        w *= rng.choice([1, rng.random()]) * fitted.radius / np.linalg.norm(w)
        v *= 1e-4 * fitted.radius / np.linalg.norm(v)
        one, two = (records[rng.integers(300)].tolist() for _ in range(2))
        here, other, near = (
            np.array(fitted.gradient(point.tolist(), row))
            for point, row in ((w, one), (w, two), (w + v, one))
        )
        assert np.linalg.norm(here) <= fitted.lipschitz
        assert np.linalg.norm(here - other) <= 2 * fitted._parting
        largest = max(largest, np.linalg.norm(here - other) / (2 * fitted._parting))
        curved = (near - here) @ v / (v @ v)
        assert fitted.strong_convexity * (1 - 1e-6) <= curved <= fitted.smoothness * (1 + 1e-6)
    assert largest > 0.45


# --- Refused and contained -----------------------------------------------------------------------


def fail(w, x):
    raise RuntimeError(f"record {x}")


@pytest.mark.parametrize(
    "function",
    [
        fail,
        lambda w, x: [math.nan],
        lambda w, x: [math.inf],
        lambda w, x: [],
        lambda w, x: [1.0, 2.0],
        lambda w, x: None,
        lambda w, x: ["many"],
        lambda w, x: [1j],
        lambda w, x: [1 / 0],
        lambda w, x: np.log(np.array([-1.0])),
        lambda w, x: w.clear() or x,
    ],
)
def test_whatever_a_gradient_does_the_value_is_0_and_nothing_gets_out(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert quadratic(gradient=function).value(np.ones((5, 1))).tolist() == [0.0]
    assert not caught


def test_gradients_may_be_arrays_and_rows_can_not_be_changed():
    rows = np.random.default_rng(3).uniform(-1, 1, (50, 1))
    plain = quadratic().value(rows)
    arrays = quadratic(gradient=lambda w, x: 0.1 * np.array(w) - np.array(x))
    assert arrays.value(rows) == pytest.approx(plain, abs=1e-15)
    quadratic(gradient=lambda w, x: x.clear() or [0.0]).value(rows)
    assert quadratic().value(rows) == plain


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"gradient": 1}, InvalidType, "gradient"),
        ({"lipschitz": 0}, InvalidArgument, "lipschitz"),
        ({"lipschitz": math.nan}, InvalidArgument, "lipschitz"),
        ({"lipschitz": "1"}, InvalidType, "lipschitz"),
        ({"strong_convexity": 0}, InvalidArgument, "strong_convexity"),
        ({"smoothness": -1.0}, InvalidArgument, "smoothness"),
        ({"radius": math.inf}, InvalidArgument, "radius"),
        ({"bounds": (1, 0)}, InvalidArgument, "bounds"),
        ({"bounds": None}, InvalidType, "bounds"),
        ({"center": 0.0}, InvalidType, "center"),
        ({"center": ()}, InvalidType, "center"),
        ({"center": (math.nan,)}, InvalidArgument, "center"),
        ({"center": (1e9,)}, InvalidArgument, "center"),
        ({"exponent": 0.5}, InvalidArgument, "exponent"),
        ({"exponent": 1.0}, InvalidArgument, "exponent"),
        ({"shift": 0.5}, InvalidArgument, "shift"),
        # (16): λ ≤ L; and two gradients at opposite ends of the ball differ by 2λ·radius.
        ({"smoothness": 0.05}, InvalidArgument, "strong_convexity"),
        ({"radius": 20.0}, InvalidArgument, "lipschitz"),
        # (18): η_0 ≤ 1/L; 1/η grows by at most λ/2; no step can do both for a small shift.
        ({"shift": 100, "step": 10 * 100 ** (2 / 3) * 1.001}, InvalidArgument, "step"),
        (
            {"shift": 100, "step": 20 * (101 ** (2 / 3) - 100 ** (2 / 3)) * 0.999},
            InvalidArgument,
            "step",
        ),
        ({"shift": 1, "smoothness": 1.0}, InvalidArgument, "shift"),
    ],
)
def test_settings_that_break_a_condition_are_refused_at_once(changes, error, name):
    with pytest.raises(error, match=rf"^{name} must ") as caught:
        quadratic(**changes)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ConfidpError)


def test_steps_at_the_edges_of_condition_18_are_accepted():
    for step in (10 * 100 ** (2 / 3) * 0.999, 20 * (101 ** (2 / 3) - 100 ** (2 / 3)) * 1.001):
        assert quadratic(shift=100, step=step).step == step
    assert quadratic(exponent=0.9, shift=2.0).shift == 2.0


@pytest.mark.parametrize(
    ("changes", "columns", "name"),
    [
        ({"bounds": ((0, 1), (0, 1))}, 3, "bounds"),
        ({"gradient": fail}, 1, "gradient"),
        ({"gradient": lambda w, x: [0.1 * w[0], 0.0]}, 1, "gradient"),
        ({"gradient": lambda w, x: 1.0}, 1, "gradient"),
        # Made-up rows on which (16) is plainly false:
        ({"bounds": (-2, 2)}, 1, "lipschitz"),
        ({"gradient": lambda w, x: [0.2 * w[0]]}, 1, "smoothness"),
        ({"gradient": lambda w, x: [0.05 * w[0]]}, 1, "strong_convexity"),
        ({"gradient": lambda w, x: [math.nan]}, 1, "lipschitz"),
    ],
)
def test_a_gradient_that_breaks_condition_16_on_made_up_rows_is_refused(changes, columns, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} must "):
        quadratic(**changes).for_shape(100, columns)


def test_logistic_settings_are_refused_by_name():
    for settings_, name in (
        ({"regularization": 0}, "regularization"),
        ({"regularization": 0.1, "feature_norm": -1.0}, "feature_norm"),
        ({"regularization": 0.1, "radius": 0}, "radius"),
        ({"regularization": 0.1, "exponent": 2}, "exponent"),
    ):
        with pytest.raises(InvalidArgument, match=rf"^{name} must "):
            AveragedSGD.logistic(**settings_)
    with pytest.raises(InvalidArgument, match=r"^data must "):
        AveragedSGD.logistic(0.1).for_shape(100, 1)


def test_settings_may_be_numbers_of_any_kind():
    half = np.float32(0.5)
    statistic = AveragedSGD.logistic(half, np.int64(2), radius=half, exponent=np.float32(0.75))
    plain = AveragedSGD.logistic(0.5, 2.0, radius=0.5, exponent=0.75)
    assert json.dumps(statistic.describe()) == json.dumps(plain.describe())
    assert statistic.sensitivity(10) == plain.sensitivity(10)
    assert statistic.rounding(10) == plain.rounding(10)


@pytest.mark.parametrize("statistic", [AveragedSGD.logistic(0.1), quadratic()], ids=named)
def test_it_is_mean_like_and_its_settings_are_json(statistic):
    statistic = statistic.for_shape(10, 3 if statistic.bounds is None else 1)
    assert isinstance(statistic, MeanLike)
    assert statistic.origin == (0,) * len(statistic.center)
    assert statistic.scale(100) == 10
    assert statistic.assumes
    described = statistic.describe()
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_encoding_is_a_fixed_function_of_each_record_and_clips_first():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-320, 308, size=(200, 1))
    rows[rng.random(rows.shape) < 0.1] = np.inf
    for statistic in (AveragedSGD.logistic(0.1), quadratic(center=(0.0,) * 3, lipschitz=2.0)):
        fitted, records = ready(statistic, rows)
        alone = np.vstack([fitted.encode(row[None]) for row in rows])
        assert np.array_equal(records, alone)
        assert np.linalg.norm(records, axis=1).max() <= 1.8
    assert quadratic().encode(np.array([[7.0], [-math.inf], [0.3]])).tolist() == [
        [1.0],
        [-1.0],
        [0.3],
    ]


# --- Through the door ----------------------------------------------------------------------------


def test_the_region_covers_the_regularised_minimiser_of_the_population():
    # Rows are draws from a table, so its own minimiser is the target.
    table = classified(2000)
    statistic = AveragedSGD.logistic(0.5)
    _, records = ready(statistic, table)
    target = minimize(
        lambda w: np.logaddexp(0, -records @ w).mean() + 0.25 * w @ w, np.zeros(3), tol=1e-10
    ).x
    rng, runs, covered = np.random.default_rng(5), 30, 0
    for _ in range(runs):
        region = confidence_region(
            table[rng.integers(0, 2000, 1500)],
            statistic,
            budget=GDP(8.0),
            confidence_level=0.9,
            method=CRGS(resample_size=200),
            n_resamples=100,
            rng=rng,
        )
        covered += region.contains(target)
    # B = 100 and the remainder take 0.9 to no less than 0.8; false-alarm rate 1e-6.
    assert binom.ppf(5e-7, runs, 0.8) <= covered <= binom.isf(5e-7, runs, 0.95)
