"""Averaged stochastic gradient descent, one pass (the paper, appendix H.1)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import mul
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confidp.central.grid import is_list
from confidp.central.statistics.m_estimator import SLACK, UNIT, moderate
from confidp.central.statistics.regression import LogisticERM
from confidp.central.statistics.u_pairs import bounds_of, for_columns
from confidp.errors import InvalidArgument, InvalidType, real

Floats = NDArray[np.float64]
Gradient = Callable[[list[float], list[float]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class AveragedSGD:
    """The average of w_1, …, w_N: one pass of w_t = Π(w_{t−1} − η_t ∇ℓ(w_{t−1}; x_π(t))).

    η_t = c(t + t0)^−a, and Π projects onto a public ball K around w_0. The order π is a fixed
    pseudo-random permutation that depends on N alone: the proof holds for every fixed one, so it
    needs no secrecy, and rows that come sorted don't bias the pass.

    **The guarantee is as good as what you state**: for every w in K and every record x inside
    `bounds`, λI ⪯ ∇²ℓ(w; x) ⪯ LI and ‖∇ℓ(w; x)‖ ≤ G (condition 16), and `gradient` as computed is
    within 2^-36·G. Where it raises or doesn't return d finite numbers, the value counts as 0,
    silently. For logistic regression all is proved: see `AveragedSGD.logistic`.

    Parameters
    ----------
    gradient
        Takes w and one record, plain lists of floats; returns ∇ℓ(w; x), d numbers. It is called
        once a record, so keep it to plain Python: NumPy is slow on a handful of numbers.
    lipschitz, strong_convexity, smoothness
        G, λ, L.
    radius
        Of K.
    bounds
        Public bounds that records are clipped to: one pair, or a pair for each column.
    center
        w_0, d numbers, none over 100 radii: farther off, floats are too coarse for the ball.
    exponent
        a, in (1/2, 1). With 2/3 the two remainders of Fact H.2 shrink alike, as N^(−1/6): slowly.
    step, shift
        c and t0 ≥ 1. By default t0 is just over 2aL/λ and c just under t0^a/L, the longest steps.
    name
        For results and the audit trail.

    Notes
    -----
    **Conditions (18)** need checking at t = 0 only: η_t falls in t, so η_0 ≤ 1/L gives η_t ≤ 1/L;
    1/η_{t+1} − 1/η_t = ((t+1+t0)^a − (t+t0)^a)/c falls in t too, x^a being concave. So c must lie
    between 2((t0+1)^a − t0^a)/λ and t0^a/L. (t0+1)^a − t0^a ≤ a·t0^(a−1): there is such a c for
    t0 ≥ 2aL/λ.

    **Sensitivity** (lemma H.1). Let neighbours differ in the record of time j. Their paths agree
    before j, part by at most 2Gη_j then, and close by a factor 1 − λη_t at each t > j: all
    eigenvalues of I − η_t∇²ℓ lie in [0, 1 − λη_t], and Π widens no gap. So the averages differ by
    at most (2G/N)·η_j A_j, with A_N = 1 and A_j = 1 + (1 − λη_{j+1})A_{j+1}. Δ_N is the largest of
    these: public numbers. It is at most the paper's 4G/(λN), since A_j ≤ 2/(λη_j) by induction:
    A_j ≤ 1 + (1 − λη_{j+1})·2/(λη_{j+1}) = 2/(λη_{j+1}) − 1 ≤ 2/(λη_j) by (18). ∎

    Examples
    --------
    A mean, with ℓ = (w − x)²/2:

    >>> mean = AveragedSGD(
    ...     lambda w, x: [w[0] - x[0]],
    ...     lipschitz=2, strong_convexity=1, smoothness=1, radius=1, bounds=(-1, 1),
    ... ).for_shape(n=4, columns=1)
    >>> mean.value(np.array([[0.5], [0.5], [0.5], [0.5]])).round(2)
    array([0.47])
    """

    gradient: Gradient
    lipschitz: float
    strong_convexity: float
    smoothness: float
    radius: float
    bounds: Any
    center: Sequence[float] = (0.0,)
    exponent: float = 2 / 3
    step: float | None = None
    shift: float | None = None
    name: str = "averaged SGD"

    def __post_init__(self) -> None:
        """Refuse bad settings, and constants that break conditions (16) to (18)."""
        if not callable(self.gradient):
            raise InvalidType(f"gradient must be callable, not {type(self.gradient).__name__}")
        for role in ("lipschitz", "strong_convexity", "smoothness", "radius"):
            object.__setattr__(self, role, moderate(role, getattr(self, role)))
        G, most, curvature = self.lipschitz, self.smoothness, self.strong_convexity
        real("strong_convexity", curvature, "up to the smoothness", lambda x: x <= most)
        # Gradients at opposite ends of the ball differ by 2λ·radius or more, and by 2G or less.
        real("lipschitz", G * SLACK, "of at least λ·radius", lambda x: x >= curvature * self.radius)
        object.__setattr__(self, "bounds", self._pairs())
        if not is_list(self.center) or not len(self.center):
            raise InvalidType("center must be a sequence of numbers, such as (0.0, 0.0)")
        far = 100 * self.radius
        center = tuple(
            real("center", x, f"within ±{far:g}", lambda x: abs(x) <= far) for x in self.center
        )
        object.__setattr__(self, "center", center)
        self._schedule()

    def _pairs(self) -> tuple[tuple[float, float], ...] | None:
        return bounds_of(self.bounds)

    def _schedule(self) -> None:
        """Choose the step sizes, or check conditions (18) for those given."""
        a = real("exponent", self.exponent, "in (1/2, 1)", lambda x: 1 / 2 < x < 1)
        shift, step = self.shift, self.step
        if shift is None:
            shift = math.floor(2 * a * self.smoothness / self.strong_convexity) + 2.0
        shift = real("shift", shift, "from 1 to 1e12", lambda x: 1 <= x <= 1e12)
        most = shift**a / self.smoothness
        least = 2 * shift**a * math.expm1(a * math.log1p(1 / shift)) / self.strong_convexity
        if least > most:
            raise InvalidArgument(
                f"shift must be larger, not {shift:g}: with it no step meets condition (18)"
            )
        if step is None:
            step = max(least, most / SLACK)
        step = real("step", step, f"from {least!r} to {most!r}", lambda c: least <= c <= most)
        for role, chosen in (("exponent", a), ("shift", shift), ("step", step)):
            object.__setattr__(self, role, chosen)

    @classmethod
    def logistic(
        cls,
        regularization: float,
        feature_norm: float = 1.0,
        intercept: bool = True,
        radius: float | None = None,
        exponent: float = 2 / 3,
    ) -> AveragedSGD:
        """Return SGD for ridge logistic regression, its constants proved.

        Data and parameters are as for `LogisticERM`, and so is the target, if `radius` holds it:
        the default √(2·ln 2/λ) does, since λ‖y⋆‖²/2 < F(y⋆) ≤ F(0) = ln 2. K is around 0.

        With R = max‖z‖ and p = 1/(1 + e^(o z·w)), the gradient is λw − p·o z and the Hessian
        λI + p(1−p)zzᵀ: between λ and L = λ + R²/4, and G = R + λ·radius. Only *differences* of two
        records' gradients count in the sensitivity, and λw cancels in them: there G is R.

        Examples
        --------
        >>> sgd = AveragedSGD.logistic(0.1, intercept=False).for_shape(n=1000, columns=3)
        >>> 2 / (0.1 * 1000) < sgd.sensitivity(1000) <= 4 / (0.1 * 1000)
        True
        """
        model = LogisticERM(regularization, feature_norm, intercept)
        ridge, norm = model.regularization, model.lipschitz
        if radius is None:
            radius = math.sqrt(2 * math.log(2) / ridge)
        return _LogisticSGD(
            gradient=_ridge_logistic(ridge),
            lipschitz=(norm + ridge * moderate("radius", radius)) * SLACK,
            strong_convexity=ridge,
            smoothness=(ridge + norm**2 / 4) * SLACK,
            radius=radius,
            bounds=None,
            exponent=exponent,
            name="logistic regression by averaged SGD",
            model=model,
        )

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """Zero."""
        return (Fraction(0),) * len(self.center)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the target is, and that SGD is slow to near its limit law."""
        return (
            "the target is the minimiser of the population's mean loss over clipped rows (with its "
            "regularisation, if any), and it lies well inside the ball",
            "bounds, norms and the ball come from public knowledge, and the stated constants hold",
            "n is so large that the pass has forgotten its start: averaged SGD nears its limit law "
            "slowly",
        )

    def for_shape(self, n: int, columns: int) -> Self:
        """Give each column its bounds, and try the gradient: (16) must hold on made-up rows."""
        pairs = for_columns(self.bounds, columns)
        for made_up in (min, max, lambda pair: pair[0] / 2 + pair[1] / 2):
            row = [made_up(pair) for pair in pairs]
            for axis in range(len(self.center)):
                self._try(row, axis)
        return replace(self, bounds=pairs)

    def _try(self, row: list[float], axis: int) -> None:
        """Refuse a gradient that breaks condition (16) on that axis of the ball."""
        ends = [list(self.center), list(self.center)]
        ends[0][axis] -= self.radius / SLACK
        ends[1][axis] += self.radius / SLACK
        try:
            first, second = (list(map(float, self.gradient(end, list(row)))) for end in ends)
            apart = math.dist(first, second) / math.dist(*ends)
            size = max(math.hypot(*first), math.hypot(*second))
        except Exception as error:
            found = type(error).__name__
            raise InvalidArgument(f"gradient must work on one row, not raise {found}") from None
        if len(first) != len(self.center):
            raise InvalidArgument(f"gradient must return {len(self.center)} numbers, as in center")
        for role, bound, tried in (
            ("lipschitz", self.lipschitz, size),
            ("smoothness", self.smoothness, apart),
            ("strong_convexity", -self.strong_convexity, -apart),
        ):
            if not tried <= bound + abs(bound) * 1e-9:
                raise InvalidArgument(
                    f"{role} must be such that condition (16) holds, not {abs(bound):g}: "
                    f"a row and a point were found with {abs(tried):g}"
                )

    def encode(self, rows: Floats) -> Floats:
        """Clip every column to its bounds."""
        lower, upper = np.array(self.bounds).T
        return np.clip(rows, lower, upper)

    def value(self, records: Floats, near: Floats | None = None) -> Floats:
        """Return the average of one pass, from w_0: `near` doesn't matter."""
        n, d = len(records), len(self.center)
        order = np.random.default_rng(n).permutation(n)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                path = np.array(self._path(records[order].tolist()), dtype=np.float64)
            value: Floats = path.reshape(n, d).mean(axis=0)
        except Exception:  # whatever it is, it may depend on the data
            return np.zeros(d)
        return value if np.isfinite(value).all() else np.zeros(d)

    def _path(self, rows: list[list[float]]) -> list[list[float]]:
        """Return w_1, …, w_N: plain floats, several times as fast as NumPy for small d."""
        gradient, project = self.gradient, self._project
        w, path = list(self.center), []
        for row, eta in zip(rows, self._steps(len(rows)), strict=True):
            w = project([a - eta * g for a, g in zip(w, gradient(w, row), strict=True)])
            path.append(w)
        return path

    def _project(self, w: list[float]) -> list[float]:
        """Return the nearest point of K, less a margin that float errors can't lead out of."""
        distance, inner = math.dist(w, self.center), self.radius / SLACK
        if distance <= inner:
            return w
        return [b + (a - b) * (inner / distance) for a, b in zip(w, self.center, strict=True)]

    def _steps(self, n: int) -> list[float]:
        """Return η_1, …, η_n."""
        assert self.step is not None
        assert self.shift is not None
        steps: list[float] = (
            self.step * (np.arange(1, n + 1) + self.shift) ** -self.exponent
        ).tolist()
        return steps

    def sensitivity(self, n: int) -> float:
        """Return (2G/n)·max_j η_j A_j, rounded up."""
        return 2 * self._parting / n * self._longest_memory(n) * SLACK

    def _longest_memory(self, n: int) -> float:
        """Return max_j η_j A_j, with 8 roundings a step."""
        longest = memory = 0.0  # (1 − λη_{j+1})A_{j+1}, backwards from j = n
        for eta in reversed(self._steps(n)):
            longest = max(longest, eta * (1 + memory))
            memory = max(1 - self.strong_convexity * eta, 0.0) * (1 + memory)
        return longest * (1 + 4 * n * UNIT)

    def rounding(self, n: int) -> Fraction:
        """Return how far float errors can take the average.

        An error of ε_j at time j moves it by ε_j A_j/n or less, as a changed record does; summed
        over j, by max_j (ε_j/η_j)·η_jA_j. ε_j is η_j times the gradient's error, and up to d + 16
        roundings of numbers of size ‖w‖ + η_j G. The mean itself has n + 1.
        """
        size = math.hypot(*self.center) + self.radius
        each = size / self._steps(n)[-1] + self.lipschitz
        error = self._gradient_error + UNIT * (len(self.center) + 16) * each
        return Fraction((error * self._longest_memory(n) + UNIT * n * size) * SLACK)

    @property
    def _parting(self) -> float:
        """Half of the most that two records' gradients differ by at one point: G or less."""
        return self.lipschitz

    @property
    def _gradient_error(self) -> float:
        return 2.0**-36 * self.lipschitz

    def scale(self, n: int) -> float:
        """Return √n."""
        return math.sqrt(n)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds or ()],
            "lipschitz": self.lipschitz,
            "strong_convexity": self.strong_convexity,
            "smoothness": self.smoothness,
            "radius": self.radius,
            "center": list(self.center),
            "schedule": [self.step, self.shift, self.exponent],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogisticSGD(AveragedSGD):
    """Made by `AveragedSGD.logistic`; its records are o·z."""

    model: LogisticERM

    def _pairs(self) -> None:
        return None

    def for_shape(self, n: int, columns: int) -> Self:
        model = self.model.for_shape(n, columns)
        return replace(self, model=model, center=(0.0,) * model.dimension)

    def encode(self, rows: Floats) -> Floats:
        records = self.model.encode(rows)
        return records[:, :-1] * records[:, -1:]

    def _path(self, rows: list[list[float]]) -> list[list[float]]:
        """Do the same with gradient and step in one, in two thirds of the time."""
        exp, inner, ridge = math.exp, self.radius / SLACK, self.strong_convexity
        w, path = list(self.center), []
        for z, eta in zip(rows, self._steps(len(rows)), strict=True):
            push = eta / (1 + exp(min(sum(map(mul, w, z)), 700.0)))
            keep = 1 - eta * ridge
            w = [keep * a + push * b for a, b in zip(w, z, strict=True)]
            if math.hypot(*w) > inner:
                w = self._project(w)
            path.append(w)
        return path

    def describe(self) -> dict[str, Any]:
        own = AveragedSGD.describe(self)
        return {**own, **self.model.describe(), "statistic": self.name}

    @property
    def _parting(self) -> float:
        return self.model.lipschitz

    @property
    def _gradient_error(self) -> float:
        """Roundings: d + 2 of z·w, felt through p′ ≤ 1/4; 16 of p; 4 of λw and the difference."""
        norm, d = self.model.lipschitz, len(self.center)
        return UNIT * norm * ((d + 2) * norm * self.radius / 4 + 16) + 4 * UNIT * self.lipschitz


def _ridge_logistic(ridge: float) -> Gradient:
    """Return the gradient of ln(1 + e^(−z·w)) + (ridge/2)‖w‖²."""

    def gradient(w: list[float], z: list[float]) -> list[float]:
        p = 1 / (1 + math.exp(min(sum(map(mul, w, z)), 700.0)))
        return [ridge * a - p * b for a, b in zip(w, z, strict=True)]

    return gradient
