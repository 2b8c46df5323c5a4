"""M-estimators: minimisers of a regularised mean loss, such as ridge logistic regression."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from confidp.central.grid import check_bounds
from confidp.central.statistics.u_pairs import bounds_of, for_columns
from confidp.errors import ConfidpError, InvalidArgument, InvalidType, integer, real

Floats = NDArray[np.float64]

UNIT = 2.0**-52  # twice the largest relative error of one float operation
SLACK = 1 + 2.0**-40  # over the float error of a norm of up to 10,000 numbers
_NEWTON_STEPS, _CUTS = 50, 400  # the latter times (d + 1)²


class _MEstimator:
    """What M-estimators share: sensitivity, solver, rounding."""

    __slots__ = ()
    regularization: float
    lipschitz: float
    dimension: int

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """Zero."""
        return (Fraction(0),) * self.dimension

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the target is, first of all."""
        return (
            "the target is the regularised minimiser in the population: of the mean loss of "
            f"clipped rows plus {self.regularization:g}/2 times the squared norm",
            "bounds, norms and thresholds come from public knowledge, not from this data set",
        )

    def value(self, records: Floats, near: Floats | None = None) -> Floats:
        """Return the minimiser; 0 where a user's functions fail."""
        zero = np.zeros(self.dimension)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return self._minimise(records, zero if near is None else near)
        except Exception:  # whatever it is, it may depend on the data
            return zero

    def sensitivity(self, n: int) -> Fraction:
        """Return 2G/(λn)."""
        return 2 * Fraction(self.lipschitz) / (Fraction(self.regularization) * n)

    def rounding(self, n: int) -> Fraction:
        """Return (t + e)/(λ − b), a bound on the distance to the exact minimiser y⋆.

        Let the gradient as computed at y be within e + b‖y − y⋆‖ of ∇F(y). The solver stops where
        it is at most t in norm, so λ‖y − y⋆‖ ≤ ‖∇F(y)‖ ≤ t + e + b‖y − y⋆‖.
        """
        error, growth = self._gradient_error(n)
        bound = (self._tolerance(n) + error) / (self.regularization - growth)
        return Fraction(bound * SLACK**2)

    def scale(self, n: int) -> float:
        """Return √n."""
        return math.sqrt(n)

    @property
    def _reach(self) -> float:
        """A bound on ‖y⋆‖: λy⋆ is a mean of gradients."""
        return self.lipschitz / self.regularization

    def _tolerance(self, n: int) -> float:
        """Return t: 2^-13 of λΔ_n, or four times what floats can resolve."""
        return max(2.0**-12 * self.lipschitz / n, 4 * self._gradient_error(n)[0])

    def _gradient_error(self, n: int) -> tuple[float, float]:
        """Return e and b of `rounding`."""
        raise NotImplementedError

    def _gradient(self, y: Floats, records: Floats) -> Floats:
        """Return the gradient of the mean loss at y."""
        raise NotImplementedError

    def _hessian(self, y: Floats, records: Floats) -> Floats:
        """Return the Hessian of the mean loss at y: only the speed depends on it."""
        raise NotImplementedError

    def _minimise(self, records: Floats, start: Floats) -> Floats:
        """Return a point where ∇F as computed is at most the tolerance.

        Damped Newton: a step is halved until F still falls at its end (so it fell along all of it,
        being convex), or ‖∇F‖ is half the least so far. The second happens a bounded number of
        times, and in between F falls by amounts bounded below: this ends. Where that takes long
        (tiny λ, kinks), or floats can't solve for a step, `_cut` takes over.
        """
        tolerance, ridge = self._tolerance(len(records)), self.regularization
        records = records.view()
        records.flags.writeable = False

        def gradient(y: Floats) -> Floats:
            return self._gradient(y, records) + ridge * y

        y, slope = start, gradient(start)
        least = _norm(slope)
        for _ in range(_NEWTON_STEPS):
            if _norm(slope) <= tolerance:
                return y
            hessian = self._hessian(y, records) + ridge * np.eye(self.dimension)
            try:
                step = np.linalg.solve(hessian, -slope)
            except np.linalg.LinAlgError:
                break
            for halvings in range(50):
                further = y + 0.5**halvings * step
                there = gradient(further)
                if there @ step <= 0 or _norm(there) <= least / 2:
                    break
            y, slope = further, there
            least = min(least, _norm(slope))
        return _cut(gradient, self._reach, self.dimension, tolerance)


@dataclass(frozen=True, slots=True)
class ERM(_MEstimator):
    """A regularised M-estimator of your own: argmin_y (1/N) Σ ℓ(y; x_i) + (λ/2)‖y‖².

    **The guarantee is as good as what you state**: for every record x inside `bounds`, ℓ(·; x) is
    convex, differentiable and G-Lipschitz, and `gradient` as computed is within 2^-36·G of its
    gradient, for ‖y‖ up to G/λ; curvatures of up to 10^5·λ allow that. The target is the
    *regularised* minimiser, which λ pulls towards 0. Where a function raises or doesn't return what
    is asked, or ℓ has a kink at the minimiser, the value counts as 0, silently.

    Parameters
    ----------
    regularization
        λ.
    gradient
        Takes y of shape (d,) and (N, columns) records; returns ∇ℓ(y; x_i), of shape (N, d).
    hessian
        Takes the same; returns the mean of the records' Hessians, of shape (d, d). It makes the
        search fast; the guarantee doesn't rest on it.
    lipschitz
        G, a bound on ‖∇ℓ(y; x)‖₂ for all y and all x inside `bounds`.
    bounds
        Public bounds that records are clipped to: one pair, or a pair for each column.
    dimension
        d.
    name
        For results and the audit trail.

    Notes
    -----
    **Sensitivity** 2G/(λN) (the paper, section 4 (ii); Chaudhuri, Monteleoni and Sarwate 2011,
    lemma 7). Let F and F′ be the objectives of neighbours, x and x′ the records they differ in, y
    and y′ their minimisers. ∇F(y′) = ∇F(y′) − ∇F′(y′) = (∇ℓ(y′; x) − ∇ℓ(y′; x′))/N, at most 2G/N in
    norm. F is λ-strongly convex, so λ‖y′ − y‖² ≤ (∇F(y′) − ∇F(y))·(y′ − y) ≤ ‖∇F(y′)‖‖y′ − y‖. ∎

    Examples
    --------
    A location that outliers sway less than a mean, with ℓ = √(1 + (y − x)²):

    >>> location = ERM(
    ...     0.1,
    ...     gradient=lambda y, x: (y - x) / np.sqrt(1 + (y - x) ** 2),
    ...     hessian=lambda y, x: np.mean((1 + (y - x) ** 2) ** -1.5, keepdims=True),
    ...     lipschitz=1,
    ...     bounds=(0, 10),
    ... )
    >>> location.value(np.array([[1.0], [2.0], [3.0], [10.0]])).round(2)
    array([2.09])
    >>> float(location.sensitivity(100))
    0.19999...
    """

    regularization: float
    gradient: Callable[[Floats, Floats], Floats]
    hessian: Callable[[Floats, Floats], Floats]
    lipschitz: float
    bounds: Any
    dimension: int = 1
    name: str = "M-estimator"

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        for role in ("regularization", "lipschitz"):
            object.__setattr__(self, role, moderate(role, getattr(self, role)))
        for role in ("gradient", "hessian"):
            if not callable(given := getattr(self, role)):
                raise InvalidType(f"{role} must be callable, not {type(given).__name__}")
        object.__setattr__(self, "bounds", bounds_of(self.bounds))
        integer("dimension", self.dimension, least=1)

    def for_shape(self, n: int, columns: int) -> Self:
        """Give each column its bounds, and try both functions on made-up rows."""
        pairs, d = for_columns(self.bounds, columns), self.dimension
        rows = np.tile([lower / 2 + upper / 2 for lower, upper in pairs], (d + 1, 1))
        for role, shape in (("gradient", (d + 1, d)), ("hessian", (d, d))):
            try:
                found: Any = np.shape(getattr(self, role)(np.zeros(d), rows.copy()))
            except Exception as error:
                found = type(error).__name__
            if found != shape:
                raise InvalidArgument(
                    f"{role} must return an array of shape {shape} for {d + 1} rows, not {found}"
                )
        return replace(self, bounds=pairs)

    def encode(self, rows: Floats) -> Floats:
        """Clip every column to its bounds."""
        lower, upper = np.array(self.bounds).T
        return np.clip(rows, lower, upper)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "regularization": self.regularization,
            "lipschitz": self.lipschitz,
        }

    def _gradient_error(self, n: int) -> tuple[float, float]:
        """What is stated of each gradient; n + 1 roundings of their mean; λy and its addition."""
        error = (2.0**-36 + UNIT * (n + 4)) * self.lipschitz
        return error, UNIT * self.regularization

    def _gradient(self, y: Floats, records: Floats) -> Floats:
        gradients = np.asarray(self.gradient(y.copy(), records), dtype=np.float64)
        mean: Floats = gradients.reshape(len(records), self.dimension).mean(axis=0)
        return mean

    def _hessian(self, y: Floats, records: Floats) -> Floats:
        hessian = np.asarray(self.hessian(y.copy(), records), dtype=np.float64)
        return hessian.reshape(self.dimension, self.dimension)


class _LinearERM(_MEstimator):
    """M-estimators with loss φ(z·y, o): z the features and perhaps a 1, o the outcome."""

    __slots__ = ()
    feature_norm: float
    intercept: bool
    _curvature: ClassVar[float]  # a bound on φ″

    @property
    def bounds(self) -> None:
        """None: features are scaled down to a ball, not clipped to a box."""
        return None

    def encode(self, rows: Floats) -> Floats:
        """Return (z, o) for each row; an infinite feature counts as 1e300."""
        features = np.clip(rows[:, :-1], -1e300, 1e300)
        largest = np.maximum(np.abs(features).max(axis=1, keepdims=True), 1e-300)
        norm = np.linalg.norm(features / largest, axis=1, keepdims=True)
        far = largest * norm > self.feature_norm
        scaled = features / largest * (self.feature_norm / np.maximum(norm, 1.0))
        ones = np.ones((len(rows), int(self.intercept)))
        return np.hstack([np.where(far, scaled, features), ones, self._outcome(rows[:, -1:])])

    @property
    def _row_norm(self) -> float:
        """A bound on ‖z‖ with the float error of `encode`."""
        return math.hypot(self.feature_norm, self.intercept) * SLACK

    @property
    def _largest_outcome(self) -> float:
        return 1.0

    @property
    def _loss_at_zero(self) -> float:
        raise NotImplementedError

    @property
    def _reach(self) -> float:
        """G/λ, or √(2·loss(0)/λ) if that is less: F(y⋆) ≤ F(0)."""
        by_loss = math.sqrt(2 * self._loss_at_zero / self.regularization)
        return min(self.lipschitz / self.regularization, by_loss)

    def _outcome(self, column: Floats) -> Floats:
        raise NotImplementedError

    def _derivatives(self, y: Floats, records: Floats) -> tuple[Floats, Floats]:
        """Return φ′ and φ″ in its first argument, for each record."""
        raise NotImplementedError

    def _gradient_error(self, n: int) -> tuple[float, float]:
        """Roundings: n + 1 of the mean and up to 16 of φ′, relative to G; d + 2 of z·y and o.

        The latter are felt through φ″, in a gradient along z; ‖y‖ ≤ `_reach` + ‖y − y⋆‖.
        """
        each = UNIT * (self.dimension + 2) * self._curvature * self._row_norm
        error = UNIT * (n + 20) * self.lipschitz
        error += each * (self._row_norm * self._reach + self._largest_outcome)
        return error, each * self._row_norm + UNIT * self.regularization

    def _gradient(self, y: Floats, records: Floats) -> Floats:
        gradient: Floats = self._derivatives(y, records)[0] @ records[:, :-1] / len(records)
        return gradient

    def _hessian(self, y: Floats, records: Floats) -> Floats:
        z = records[:, :-1]
        hessian: Floats = (z * self._derivatives(y, records)[1][:, None]).T @ z / len(records)
        return hessian

    def _check(self) -> None:
        """Refuse settings out of range, or with curvatures too far apart for floats to solve."""
        object.__setattr__(self, "feature_norm", moderate("feature_norm", self.feature_norm))
        if not isinstance(self.intercept, bool):
            raise InvalidType(f"intercept must be a bool, not {type(self.intercept).__name__}")
        least = 2.0**-40 * self._curvature * self._row_norm**2
        ridge = moderate("regularization", self.regularization, least, 1e60)
        object.__setattr__(self, "regularization", ridge)
        integer("dimension", self.dimension, least=1)

    def _dimension_for(self, columns: int) -> int:
        if not 2 <= columns <= 1000:
            raise InvalidArgument(
                f"data must have 2 to 1000 columns, features and then the outcome, not {columns}"
            )
        return columns - 1 + self.intercept


@dataclass(frozen=True, slots=True)
class LogisticERM(_LinearERM):
    """Ridge logistic regression: argmin_y (1/N) Σ ln(1 + e^(−o_i z_i·y)) + (λ/2)‖y‖².

    z is a row's features, scaled down (never up) to an ℓ2 norm of at most `feature_norm`, and a 1
    if there is an intercept, whose coefficient comes last and is regularised too. The last column
    is the outcome: o = 1 where it is above ½ and −1 elsewhere, which does for 0 and 1, −1 and 1,
    and booleans. The target is the *regularised* minimiser in the population.

    Parameters
    ----------
    regularization
        λ, at least 2^-42 of the largest ‖z‖².
    feature_norm
        Public: choose units in which most rows lie inside.
    intercept
        Whether to fit one.
    dimension
        Set from the data's columns.

    Notes
    -----
    **Sensitivity** 2G/(λN), as for `ERM`, with G = max‖z‖: the gradient is −o·z/(1 + e^(o z·y)), no
    longer than z. Small λ come near it: where the other records leave a direction flat, two that
    are fitted badly can pull there in opposite ways, with nearly G each.

    Examples
    --------
    >>> rows = np.array([[3.0, 4.0, 1.0], [0.0, 0.5, 0.0]])
    >>> ridge = LogisticERM(0.1, intercept=False).for_shape(n=2, columns=3)
    >>> ridge.value(ridge.encode(rows)).round(3)
    array([1.015, 0.078])
    >>> float(ridge.sensitivity(1000))
    0.02...
    """

    regularization: float
    feature_norm: float = 1.0
    intercept: bool = True
    dimension: int = 1
    lipschitz: float = field(init=False, repr=False, compare=False)

    _curvature: ClassVar[float] = 0.25

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        self._check()
        object.__setattr__(self, "lipschitz", self._row_norm)

    def for_shape(self, n: int, columns: int) -> Self:
        """Set the dimension: a coefficient for each feature, and the intercept."""
        return replace(self, dimension=self._dimension_for(columns))

    def pivot_sensitivity(self, n: int, m: int, kappa: int) -> Fraction:
        """Return (2G/λ)·max(κ/m, 1/n), which is less than κΔ_m + Δ_n.

        Take a record's loss out of both objectives, and then put another's in. Either step moves
        θ(D) by (p/n)H⁻¹ o·z and θ(D[S]) by (cp′/m)K⁻¹ o·z, up to one sign for both, where H and K
        are averages of Hessians, at least λI, p and p′ lie in [0, 1], and c ≤ κ. The difference of
        two positive semidefinite matrices is no larger than the larger one: a step moves
        θ(D[S]) − θ(D) by at most max(κ/m, 1/n)·G/λ. ∎
        """
        return n * self.sensitivity(n) * max(Fraction(kappa, m), Fraction(1, n))

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": "logistic regression",
            "regularization": self.regularization,
            "feature_norm": self.feature_norm,
            "intercept": self.intercept,
        }

    @property
    def _loss_at_zero(self) -> float:
        return math.log(2)

    def _outcome(self, column: Floats) -> Floats:
        return np.where(column > 0.5, 1.0, -1.0)

    def _derivatives(self, y: Floats, records: Floats) -> tuple[Floats, Floats]:
        z, o = records[:, :-1], records[:, -1]
        wrong = expit(-o * (z @ y))
        return -o * wrong, wrong * (1 - wrong)


@dataclass(frozen=True, slots=True)
class HuberERM(_LinearERM):
    """Ridge Huber regression: argmin_y (1/N) Σ h(o_i − z_i·y) + (λ/2)‖y‖².

    h(r) = r²/2 for |r| ≤ c, and c|r| − c²/2 beyond. z is as for `LogisticERM`; the outcome o is the
    last column, clipped. The intercept is regularised too: choose units in which 0 is a middling
    outcome. The target is the *regularised* minimiser in the population.

    Parameters
    ----------
    regularization
        λ, at least 2^-40 of the largest ‖z‖².
    threshold
        c, public, in the outcome's units: larger residuals pull no harder.
    outcome_bounds
        Public bounds ``(lower, upper)`` that outcomes are clipped to.
    feature_norm, intercept, dimension
        As for `LogisticERM`.

    Notes
    -----
    **Sensitivity** 2G/(λN), as for `ERM`, with G = c·max‖z‖: the gradient is −max(−c, min(r, c))·z.
    It is attained by a record whose z is the only one that isn't 0, and whose outcome goes from
    far above to far below.

    Examples
    --------
    >>> rows = np.array([[1.0, 10.0], [-1.0, -10.0]])
    >>> huber = HuberERM(0.1, threshold=2, outcome_bounds=(-5, 5)).for_shape(n=2, columns=2)
    >>> huber.value(huber.encode(rows)).round(3)
    array([4.545, 0.   ])
    >>> float(huber.sensitivity(1000))
    0.05...
    """

    regularization: float
    threshold: float
    outcome_bounds: Any
    feature_norm: float = 1.0
    intercept: bool = True
    dimension: int = 1
    lipschitz: float = field(init=False, repr=False, compare=False)

    _curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse bad settings at once."""
        self._check()
        object.__setattr__(self, "threshold", moderate("threshold", self.threshold))
        try:
            pair = check_bounds(self.outcome_bounds)
        except ConfidpError as error:  # "bounds must …"
            raise type(error)(f"outcome_{error}") from None
        for bound in pair:
            real("outcome_bounds", bound, "within ±1e30", lambda x: abs(x) <= 1e30)
        object.__setattr__(self, "outcome_bounds", pair)
        object.__setattr__(self, "lipschitz", self.threshold * self._row_norm * SLACK)

    def for_shape(self, n: int, columns: int) -> Self:
        """Set the dimension: a coefficient for each feature, and the intercept."""
        return replace(self, dimension=self._dimension_for(columns))

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": "Huber regression",
            "regularization": self.regularization,
            "threshold": self.threshold,
            "outcome_bounds": list(self.outcome_bounds),
            "feature_norm": self.feature_norm,
            "intercept": self.intercept,
        }

    @property
    def _largest_outcome(self) -> float:
        lower, upper = self.outcome_bounds
        return float(max(-lower, upper))

    @property
    def _loss_at_zero(self) -> float:
        return self.threshold * self._largest_outcome

    def _outcome(self, column: Floats) -> Floats:
        lower, upper = self.outcome_bounds
        return np.clip(column, float(lower), float(upper))

    def _derivatives(self, y: Floats, records: Floats) -> tuple[Floats, Floats]:
        residual = records[:, -1] - records[:, :-1] @ y
        inside = np.abs(residual) <= self.threshold
        return -np.clip(residual, -self.threshold, self.threshold), inside.astype(np.float64)


def _cut(gradient: Callable[[Floats], Floats], reach: float, d: int, tolerance: float) -> Floats:
    """Return a point where ‖gradient‖ ≤ tolerance: the ellipsoid method, which can't stall.

    The minimiser y⋆ stays in an ellipsoid c + B·(unit ball): the gradient g at c says that
    g·(y⋆ − c) ≤ 0, and the smallest ellipsoid around that half is smaller by a factor e^(-1/(2k+2))
    or less. Let gradients be L-Lipschitz. When the volume is under that of a ball of radius
    r = tolerance/L around y⋆, a point y of that ball was cut off, at a c with F(c) ≤ F(y) ≤ F(y⋆) +
    Lr²/2, where ‖g‖ ≤ √(2L(F(c) − F(y⋆))) ≤ tolerance: after at most 2d(k+1)·ln(reach/r) steps.
    """
    k = max(d, 2)  # in one dimension the formula for two holds
    c, B = np.zeros(d), reach * np.eye(d)
    for _ in range(_CUTS * (d + 1) ** 2):
        g = gradient(c)
        size = _norm(g)
        if size <= tolerance:
            return c
        if not math.isfinite(size):
            break
        v = B.T @ g
        v /= _norm(v)
        c = c - B @ v / (k + 1)
        B = k / math.sqrt(k * k - 1) * (B - (1 - math.sqrt((k - 1) / (k + 1))) * np.outer(B @ v, v))
    raise ArithmeticError("these aren't the gradients of a convex loss with a few kinks at most")


def _norm(vector: Floats) -> float:
    return float(np.linalg.norm(vector))


def moderate(name: str, value: Any, least: float = 1e-30, most: float = 1e30) -> float:
    """Return a float whose squares and products neither overflow nor vanish, or raise."""
    return real(name, value, f"from {least:.3g} to {most:.3g}", lambda x: least <= x <= most)
