"""Regularised regressions with bounded features: ridge logistic, and Huber's."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from confidp.central.grid import check_bounds
from confidp.central.resampling import Indices
from confidp.central.statistics.m_estimator import (
    SLACK,
    UNIT,
    Floats,
    Gradient,
    MEstimator,
    moderate,
)
from confidp.errors import ConfidpError, InvalidArgument, InvalidType, integer, real


class _LinearERM(MEstimator):
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
    @abstractmethod
    def _loss_at_zero(self) -> float:
        """The largest loss of a record at y = 0."""

    @property
    def _reach(self) -> float:
        """G/λ, or √(2·loss(0)/λ) if that is less: F(y⋆) ≤ F(0)."""
        by_loss = math.sqrt(2 * self._loss_at_zero / self.regularization)
        return min(self.lipschitz / self.regularization, by_loss)

    @property
    def hessian_norm(self) -> float:
        """max φ″·‖z‖²: a record's Hessian is φ″·z zᵀ, and φ″ at least 0."""
        return self._curvature * self._row_norm**2

    def gradients(self, y: Floats, records: Floats) -> Floats:
        """Return φ′·z for each record."""
        slopes = self._derivatives(_one_by_one(records[:, :-1], y), records)[0]
        gradients: Floats = slopes[:, None] * records[:, :-1]
        return gradients

    def hessians(self, y: Floats, records: Floats) -> Floats:
        """Return φ″·z zᵀ for each record."""
        z = records[:, :-1]
        weighted = self._derivatives(_one_by_one(z, y), records)[1][:, None] * z
        hessians: Floats = weighted[:, :, None] * z[:, None, :]
        return hessians

    @abstractmethod
    def _outcome(self, column: Floats) -> Floats:
        """Return outcomes as the loss takes them: a fixed function of each, within bounds."""

    @abstractmethod
    def _derivatives(self, product: Floats, records: Floats) -> tuple[Floats, Floats]:
        """Return φ′ and φ″ in its first argument, for each record, given its z·y."""

    def _gradient_error(self, n: int) -> tuple[float, float]:
        """Roundings: n + 1 of the mean and up to 16 of φ′, relative to G; d + 2 of z·y and o.

        The latter are felt through φ″, in a gradient along z; ‖y‖ ≤ `_reach` + ‖y − y⋆‖.
        """
        each = UNIT * (self.dimension + 2) * self._curvature * self._row_norm
        error = UNIT * (n + 20) * self.lipschitz
        error += each * (self._row_norm * self._reach + self._largest_outcome)
        return error, each * self._row_norm + UNIT * self.regularization

    def _gradient(self, y: Floats, records: Floats) -> Floats:
        z = records[:, :-1]
        gradient: Floats = self._derivatives(z @ y, records)[0] @ z / len(records)
        return gradient

    def _hessian(self, y: Floats, records: Floats) -> Floats:
        z = records[:, :-1]
        hessian: Floats = (z * self._derivatives(z @ y, records)[1][:, None]).T @ z / len(records)
        return hessian

    def _resampled_gradients(
        self, records: Floats, near: Floats, m: int
    ) -> Callable[[Indices], Gradient]:
        """Write a record's loss as φ(r·p), with a row r and p = y, or (y, 1) for longer rows.

        Rows are made once and taken into the same memory for each resample; φ′ at `near`, where
        each search starts, is computed once for all records.
        """
        rows, d = self._rows(records), self.dimension
        tail = np.ones(rows.shape[1] - d)
        sample, slopes = np.empty((m, rows.shape[1])), np.empty(m)
        at_near = rows @ np.append(near, tail)
        self._to_slopes(at_near)

        def gradient_of(indices: Indices) -> Gradient:
            rows.take(indices, axis=0, out=sample, mode="clip")  # quick; there's none to clip

            def gradient(y: Floats) -> Floats:
                if y is near:
                    at_near.take(indices, out=slopes, mode="clip")
                else:
                    np.dot(sample, np.append(y, tail), out=slopes)
                    self._to_slopes(slopes)
                mean: Floats = (slopes @ sample)[:d] / m
                return mean

            return gradient

        return gradient_of

    @abstractmethod
    def _rows(self, records: Floats) -> Floats:
        """Return r for each record."""

    @abstractmethod
    def _to_slopes(self, products: Floats) -> None:
        """Put φ′ in the place of each r·p, as exact as `_derivatives`."""

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


def _one_by_one(z: Floats, y: Floats) -> Floats:
    """Return z·y for each row, to the same last bit wherever the row is.

    A library's product may add in an order that depends on place and memory, and where φ″ jumps, as
    Huber's does, a last bit could decide on a whole Hessian.
    """
    product = np.zeros(len(z))
    for column, coefficient in zip(z.T, y, strict=True):
        product += column * coefficient
    return product


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
    def hessian_change(self) -> float:
        """max|φ‴|·‖z‖³, with |φ‴| = p(1 − p)|1 − 2p| ≤ 1/(6√3)."""
        return self._row_norm**3 / (6 * math.sqrt(3))

    @property
    def _loss_at_zero(self) -> float:
        return math.log(2)

    def _outcome(self, column: Floats) -> Floats:
        return np.where(column > 0.5, 1.0, -1.0)

    def _derivatives(self, product: Floats, records: Floats) -> tuple[Floats, Floats]:
        o = records[:, -1]
        wrong = expit(-o * product)
        return -o * wrong, wrong * (1 - wrong)

    def _rows(self, records: Floats) -> Floats:
        return records[:, -1:] * records[:, :-1]

    def _to_slopes(self, products: Floats) -> None:
        np.exp(products, out=products)  # an infinity gives 0
        products += 1
        np.divide(-1.0, products, out=products)


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
    def hessian_change(self) -> float:
        """‖z‖³/c: φ″ falls from 1 to 0 at ±c, and on average over residuals about as a slope."""
        return self._row_norm**3 / self.threshold

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

    def _derivatives(self, product: Floats, records: Floats) -> tuple[Floats, Floats]:
        residual = records[:, -1] - product
        inside = np.abs(residual) <= self.threshold
        return -np.clip(residual, -self.threshold, self.threshold), inside.astype(np.float64)

    def _rows(self, records: Floats) -> Floats:
        return np.hstack([records[:, :-1], -records[:, -1:]])

    def _to_slopes(self, products: Floats) -> None:
        np.clip(products, -self.threshold, self.threshold, out=products)
