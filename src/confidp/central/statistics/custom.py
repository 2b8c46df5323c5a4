"""A user's own statistic, with the sensitivity they can prove for it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confidp.central.grid import check_bounds
from confidp.central.statistics.statistic import sensitivity_at, stated_at
from confidp.errors import InvalidArgument, InvalidType, integer, real

T = TypeVar("T")
_NO_BOUND = 1e250  # larger than any sensitivity


@dataclass(frozen=True, slots=True)
class Custom:
    """A statistic of your own: `function`, with a sensitivity that you can prove.

    **The guarantee is as good as what you state.** `sensitivity` must bound the ℓ2 change of
    `function`, *as computed in floats*, over all pairs of data sets of n rows inside `bounds` that
    differ in one row. Where `function` raises, or returns something that isn't `dimension` finite
    numbers, its value counts as 0, silently, since an error would tell something about the data:
    the sensitivity must hold with that convention.

    Parameters
    ----------
    function
        Takes an (N, columns) float array, clipped to `bounds`; returns a number or `dimension`
        numbers.
    sensitivity
        Takes N; returns the bound, at least 1e-250. None for a statistic that has only a smooth
        one.
    bounds
        Public bounds ``(lower, upper)`` that every column is clipped to.
    scale
        Takes N; returns τ_N, from 1e-150 to 1e150. √N by default.
    dimension
        How many numbers `function` returns.
    name
        For results and the audit trail.
    smooth_sensitivity
        Takes such an array and β; returns a β-smooth bound on the local sensitivity of `function`,
        both to a relative 1e-12. It must never fail: where it does, noise drowns everything.
    precision
        With `smooth_sensitivity`: a bound, above 0, on the float error of `function`. It is the
        least noise, so it should be small beside any sensitivity that matters.

    Examples
    --------
    >>> spread = Custom(lambda x: x.var(ddof=1), lambda n: 1 / n, bounds=(0, 1), name="variance")
    >>> spread.value(np.array([[0.0], [1.0]]))
    array([0.5])
    """

    function: Callable[[NDArray[np.float64]], ArrayLike]
    sensitivity: Callable[[int], float | Fraction] | None
    bounds: Any
    scale: Callable[[int], float] = math.sqrt
    dimension: int = 1
    name: str = "custom"
    smooth_sensitivity: Callable[[NDArray[np.float64], float], float] | None = None
    precision: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what isn't callable or out of range."""
        for role in ("function", "scale", "sensitivity", "smooth_sensitivity"):
            given = getattr(self, role)
            if not callable(given) and (given is not None or role in ("function", "scale")):
                raise InvalidType(f"{role} must be callable, not {type(given).__name__}")
        object.__setattr__(self, "scale", _checked(self.scale))
        if self.sensitivity is None and self.smooth_sensitivity is None:
            raise InvalidArgument("sensitivity must be given, or smooth_sensitivity")
        precision = real("precision", self.precision, "in [0, 1e120]", lambda x: 0 <= x <= 1e120)
        object.__setattr__(self, "precision", precision)
        if self.smooth_sensitivity is not None:
            real("precision", precision, "above 0 with a smooth_sensitivity", lambda x: x > 0)
            contained = _contained(self.smooth_sensitivity)
            object.__setattr__(self, "smooth_sensitivity", contained)
        object.__setattr__(self, "bounds", (check_bounds(self.bounds),))
        dimension = integer("dimension", self.dimension, least=1, most=10_000)
        object.__setattr__(self, "dimension", dimension)
        if not isinstance(self.name, str):
            raise InvalidType(f"name must be a str, not {type(self.name).__name__}")

    @property
    def origin(self) -> tuple[Fraction, ...]:
        """Zero."""
        return (Fraction(0),) * self.dimension

    @property
    def assumes(self) -> tuple[str, ...]:
        """What only the user can know."""
        return (
            "the bounds come from public knowledge, and the stated sensitivity holds",
            f"the scaled error of {self.name} has a limit law",
        )

    def for_shape(self, n: int, columns: int) -> Self:
        """Check what is stated, at n; any number of columns will do."""
        if self.sensitivity is not None:
            sensitivity_at(n, self.sensitivity)
        self.scale(n)
        return self

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip every column to the bounds."""
        ((lower, upper),) = self.bounds
        clipped: NDArray[np.float64] = np.clip(rows, lower, upper)
        return clipped

    def value(
        self, records: NDArray[np.float64], near: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return what `function` returns, or 0 where that isn't `dimension` finite numbers."""

        def numbers() -> NDArray[np.float64]:
            value = self.function(records.copy())
            return np.asarray(value, dtype=np.float64).reshape(self.dimension)

        value = _quietly(numbers)
        if value is None or not np.isfinite(value).all():
            return np.zeros(self.dimension)
        return value

    def rounding(self, n: int) -> Fraction:
        """Return `precision`: 0 but with a smooth sensitivity, the other being as computed."""
        return Fraction(self.precision)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": None,
        }


def _checked(scale: Callable[[int], float]) -> Callable[[int], float]:
    """Return a user's scale with what it returns checked; two of them have a finite ratio."""

    def checked(n: int) -> float:
        stated, allowed = stated_at(n, "scale", scale), "in [1e-150, 1e150] for every N"
        return real("scale", stated, allowed, lambda x: 1e-150 <= x <= 1e150)

    return checked


def _quietly(compute: Callable[[], T]) -> T | None:
    """Return what `compute` returns, or None where it raises, and let no warning out.

    Both may depend on the data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compute()
        except Exception:
            return None


def _contained(
    smooth_sensitivity: Callable[[NDArray[np.float64], float], float],
) -> Callable[[NDArray[np.float64], float], float]:
    """Return a user's smooth sensitivity made total."""

    def contained(records: NDArray[np.float64], beta: float) -> float:
        bound = _quietly(lambda: float(smooth_sensitivity(records.copy(), beta)))
        return bound if bound is not None and 0 <= bound <= _NO_BOUND else _NO_BOUND

    return contained
