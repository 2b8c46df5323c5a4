"""M-estimators: minimisers of a regularised mean loss, such as ridge logistic regression."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from confidp.central.resampling import IndexSets, Indices
from confidp.central.statistics.statistic import MeanLike, Records, Resampled, multiplicity_in
from confidp.central.statistics.u_pairs import bounds_of, for_columns
from confidp.errors import InvalidArgument, InvalidType, integer, real

Floats = NDArray[np.float64]
Gradient = Callable[[Floats], Floats]

UNIT = 2.0**-52  # twice the largest relative error of one float operation
SLACK = 1 + 2.0**-40  # over the float error of a norm of up to 10,000 numbers
_NEWTON_STEPS, _CUTS = 50, 400  # the latter times (d + 1)²
_CHORDS = 12  # steps with the whole data's Hessian


@runtime_checkable
class Linearisable(MeanLike, Protocol):
    """An M-estimator that also shows each record's gradient and Hessian, both bounded.

    What the methods that take a Newton step need. Neither may depend on other records: row i of the
    result is a function of row i and y alone, wherever it stands (where there is no jump, last bits
    are allowed for). Gradients beyond `lipschitz` and Hessians beyond
    `hessian_norm` are scaled down by the methods, so that privacy doesn't rest on these two.
    """

    @property
    def dimension(self) -> int:
        """d."""

    @property
    def regularization(self) -> float:
        """λ."""

    @property
    def lipschitz(self) -> float:
        """G, a bound on the ℓ2 norm of a record's gradient."""

    @property
    def hessian_norm(self) -> float:
        """A bound on the Frobenius norm of a record's Hessian, without λ."""

    @property
    def hessian_change(self) -> float:
        """About how much a Hessian moves at most for each unit that y moves: to plan and warn."""

    def gradients(self, y: Floats, records: Records) -> Floats:
        """Return ∇ℓ(y; x_i) for each of N records, of shape (N, d)."""

    def hessians(self, y: Floats, records: Records) -> Floats:
        """Return ∇²ℓ(y; x_i) of shape (N, d, d), positive semidefinite up to 2^-48 of the bound."""


class MEstimator(ABC):
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

    def resampled(self, records: Floats, sets: IndexSets, near: Floats) -> Resampled:
        """Return the minimisers on resamples, each as near to its exact one as `value`'s.

        A resample's Hessian is close to that of the data, and much dearer than its gradient: so
        steps are taken with the latter, and Newton's own only where those don't converge.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inverse = self._inverse_hessian(near, records)
            gradient_of = self._resampled_gradients(records, near, sets.size)
            tolerance = self._tolerance(sets.size)
            values, kappa = [], 1
            for indices in sets:
                found = self._by_chords(gradient_of(indices), near, inverse, tolerance)
                values.append(self.value(records[indices], near) if found is None else found)
                kappa = max(kappa, multiplicity_in(indices, sets))
        return Resampled(np.array(values), kappa)

    def _inverse_hessian(self, y: Floats, records: Floats) -> Floats:
        """Return the inverse of ∇²F(y), or 0 where a user's function fails: see `value`."""
        try:
            whole = self._hessian(y, records) + self.regularization * np.eye(self.dimension)
            return np.linalg.inv(whole).astype(np.float64)
        except Exception:
            return np.zeros((self.dimension, self.dimension))

    def _by_chords(
        self, gradient: Gradient, start: Floats, inverse: Floats, tolerance: float
    ) -> Floats | None:
        """Return a point where ∇F as computed is at most the tolerance, or None."""
        y, least = start, math.inf
        try:
            for _ in range(_CHORDS):
                slope = gradient(y) + self.regularization * y
                size = _norm(slope)
                if size <= tolerance:
                    return y
                if not size <= least / 2:
                    return None
                y, least = y - inverse @ slope, size
        except Exception:
            return None
        return None

    def _resampled_gradients(
        self, records: Floats, near: Floats, m: int
    ) -> Callable[[Indices], Gradient]:
        """Return what takes m indices to the gradient of those records' mean loss.

        Which holds until the next are taken: memory may be shared. `near` is where each search
        starts.
        """

        def gradient_of(indices: Indices) -> Gradient:
            sample = records[indices]
            sample.flags.writeable = False
            return lambda y: self._gradient(y, sample)

        return gradient_of

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

    @abstractmethod
    def _gradient_error(self, n: int) -> tuple[float, float]:
        """Return e and b of `rounding`."""

    @abstractmethod
    def _gradient(self, y: Floats, records: Floats) -> Floats:
        """Return the gradient of the mean loss at y."""

    @abstractmethod
    def _hessian(self, y: Floats, records: Floats) -> Floats:
        """Return the Hessian of the mean loss at y: only the speed depends on it."""

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
class ERM(MEstimator):
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
        dimension = integer("dimension", self.dimension, least=1, most=1000)
        object.__setattr__(self, "dimension", dimension)
        if not isinstance(self.name, str):
            raise InvalidType(f"name must be a str, not {type(self.name).__name__}")

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


def _cut(gradient: Gradient, reach: float, d: int, tolerance: float) -> Floats:
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
