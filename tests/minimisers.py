"""M-estimators to try: data that upset solvers, exact minimisers, and a search for neighbours."""

import mpmath
import numpy as np

from confidp.central.statistics.m_estimator import ERM
from confidp.central.statistics.regression import HuberERM, LogisticERM


def named(part):
    """A test's name for a statistic, or a tuple that begins with one."""
    part = part[0] if isinstance(part, tuple) else part
    return f"{type(part).__name__}-{part.regularization:g}" if hasattr(part, "lipschitz") else None


def location(regularization=0.1, bounds=(-100, 100), **changes):
    """A generic ERM: ℓ = √(1 + ‖y − x‖²), so G = 1, in d dimensions."""

    def gradient(y, x):
        return (y - x) / np.sqrt(1 + ((y - x) ** 2).sum(axis=1, keepdims=True))

    def hessian(y, x):
        r, s = y - x, 1 + ((y - x) ** 2).sum(axis=1)
        outer = np.einsum("n,ni,nj->ij", s**-1.5, r, r)
        return (np.eye(len(y)) * (s**-0.5).sum() - outer) / len(x)

    settings = {"gradient": gradient, "hessian": hessian, "lipschitz": 1.0, "bounds": bounds}
    return ERM(regularization, **(settings | changes))


def ready(statistic, rows):
    """The statistic for the rows' shape, and the encoded records."""
    statistic = statistic.for_shape(*rows.shape)
    return statistic, statistic.encode(rows)


def objective(statistic, records, y, exp=np.exp, sqrt=np.sqrt, log1p=np.log1p):
    """F(y), written down again, without a look at the code."""
    z, o = records[:, :-1], records[:, -1]
    if isinstance(statistic, LogisticERM):
        margin = o * (z @ y)
        loss = np.maximum(-margin, 0) + log1p(exp(-np.abs(margin)))
    elif isinstance(statistic, HuberERM):
        r, c = np.abs(o - z @ y), statistic.threshold
        loss = np.where(r <= c, r**2 / 2, c * r - c**2 / 2)
    else:
        loss = sqrt(1 + ((y - records) ** 2).sum(axis=1))
    return loss.mean() + statistic.regularization / 2 * (y @ y)


def exact_gradient(statistic, records, y):
    """∇F(y) to 50 digits, for a list of mpmath numbers y."""
    d = len(y)
    total = [mpmath.mpf(0)] * d
    for record in records.tolist():
        z, o = ([mpmath.mpf(x) for x in record[:-1]], mpmath.mpf(record[-1]))
        if isinstance(statistic, ERM):
            r = [a - mpmath.mpf(b) for a, b in zip(y, record, strict=True)]
            s = mpmath.sqrt(1 + mpmath.fsum(a * a for a in r))
            each = [a / s for a in r]
        else:
            t = mpmath.fdot(z, y)
            if isinstance(statistic, LogisticERM):
                slope = -o / (1 + mpmath.exp(o * t))
            else:
                c = mpmath.mpf(statistic.threshold)
                slope = -max(-c, min(o - t, c))
            each = [slope * a for a in z]
        total = [a + b for a, b in zip(total, each, strict=True)]
    ridge = mpmath.mpf(statistic.regularization)
    return [a / len(records) + ridge * b for a, b in zip(total, y, strict=True)]


def distance_to_exact(statistic, records, value):
    """‖value − y⋆‖ with y⋆ to some 20 digits more than float: Newton on the exact gradient."""
    with mpmath.workdps(50):
        y = [mpmath.mpf(x) for x in value.tolist()]
        for _ in range(60):
            g = exact_gradient(statistic, records, y)
            if mpmath.norm(g) <= mpmath.mpf(10) ** -30 * statistic.lipschitz:
                break  # within 1e-30·G/λ of y⋆, by strong convexity
            h = statistic._hessian(np.array(y, dtype=float), records)
            h = mpmath.matrix(h.tolist()) + mpmath.mpf(statistic.regularization) * mpmath.eye(
                len(y)
            )
            step = mpmath.lu_solve(h, mpmath.matrix(g))
            y = [a - b for a, b in zip(y, step, strict=True)]
        else:
            raise AssertionError("the reference did not converge")
        return float(
            mpmath.norm([a - mpmath.mpf(b) for a, b in zip(y, value.tolist(), strict=True)])
        )


def data(kind, n, p, rng):
    """Rows that upset solvers: (n, p) features of norm about 1 and an outcome of about ±1."""
    x = rng.normal(size=(n, p))
    outcome = rng.choice([-1.0, 1.0], n)
    if kind == "all equal":
        x[:], outcome[:] = x[0], 1.0
    elif kind == "separable":
        outcome = np.sign(x[:, 0])
    elif kind == "collinear":
        x = np.outer(rng.normal(size=n), x[0])
    elif kind == "nearly collinear":
        x = x[:1] + 1e-7 * x
    elif kind == "all scales":
        x *= 10.0 ** rng.uniform(-12, 0, size=(1, p))
    elif kind == "one row":
        x[1:] = 0.0
    elif kind == "axes":
        x = np.eye(p)[rng.integers(p, size=n)]
    elif kind == "zero":
        x[:], outcome[:] = 0.0, 0.0
    elif kind == "huge":
        x *= 1e200
        outcome *= np.inf
    return np.column_stack([x, outcome])


KINDS = [
    "normal",
    "all equal",
    "separable",
    "collinear",
    "nearly collinear",
    "all scales",
    "one row",
    "axes",
    "zero",
    "huge",
]
# (statistic, by what features and by what outcomes are multiplied)
STATISTICS = [
    (LogisticERM(0.05), 1, 1),
    (LogisticERM(1e-6, intercept=False), 1, 1),
    (LogisticERM(1e-6, feature_norm=100.0), 100, 1),
    (LogisticERM(1.0, feature_norm=1e6), 1e6, 1),
    (LogisticERM(1e20), 1, 1),
    (LogisticERM(1e-20, feature_norm=1e-9, intercept=False), 1e-9, 1),
    (HuberERM(0.05, 1.0, (-2, 2)), 1, 1),
    (HuberERM(1e-6, 0.01, (-1, 3), intercept=False), 1, 1),
    (HuberERM(1e-6, 5000.0, (0, 30_000), feature_norm=10), 10, 1e4),
    (HuberERM(1.0, 1e-3, (-1e3, 1e3), feature_norm=1e5), 1e5, 1e3),
    (HuberERM(0.1, 1e9, (-1e9, 1e9), feature_norm=1e-3), 1e-3, 1e9),
    (location(0.1, dimension=4), 1, 1),
    (location(1e-6, dimension=4), 50, 50),
]


def scaled(case, kind, n, rng):
    statistic, feature, outcome = case
    rows = data(kind, n, 3, rng) * np.array([feature] * 3 + [outcome])
    return ready(statistic, rows)


def ratio(statistic, shared, first, second):
    """How far two neighbours' values are apart, in sensitivities."""
    moved = []
    for row in (first, second):
        fitted, records = ready(statistic, np.vstack([shared, row]))
        moved.append(fitted.value(records))
    n = len(shared) + 1
    distance = np.linalg.norm(moved[0] - moved[1])
    assert distance <= fitted.sensitivity(n) + 2 * fitted.rounding(n)
    return distance / float(fitted.sensitivity(n))


def attacked(statistic, columns, n, scale, rng, restarts=6, steps=60):
    """The largest ratio found: random and extreme neighbours, then coordinate ascent."""

    def draw(size):
        rows = rng.normal(size=size) * 10.0 ** rng.choice([-1, 0, 2])
        rows[..., -1] = rng.choice([-9.0, 9.0, 0.0], size[:-1]) if rng.random() < 0.7 else 0.3
        return rows * scale

    best = 0.0
    for _ in range(restarts):
        shared = (
            np.tile(draw((1, columns)), (n - 1, 1))
            if rng.random() < 0.5
            else draw((n - 1, columns))
        )
        pair = draw((2, columns))
        if rng.random() < 0.5:
            pair[1] = -pair[0]
        here = ratio(statistic, shared, *pair)
        for _ in range(steps):  # move a coordinate of one of the two, or of all that they share
            trial, rest = pair.copy(), shared.copy()
            who, column = rng.integers(3), rng.integers(columns)
            change = rng.normal() * scale * 10.0 ** rng.choice([-1, 0, 1])
            if who == 2:
                rest[:, column] += change
            else:
                trial[who, column] += change
            there = ratio(statistic, rest, *trial)
            if there > here:
                here, pair, shared = there, trial, rest
        best = max(best, here)
    return best
