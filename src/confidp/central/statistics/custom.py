"""A user's own statistic, with the sensitivity they can prove for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confidp.central.grid import check_bounds
from confidp.errors import InvalidArgument, InvalidType, integer


@dataclass(frozen=True, slots=True)
class Custom:
    """A statistic of your own: `function` with global sensitivity ``sensitivity(n)``.

    **The guarantee is as good as the sensitivity you state.** It must bound the ℓ2 change of
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
        Takes N; returns the bound, above 0.
    bounds
        Public bounds ``(lower, upper)`` that every column is clipped to.
    scale
        Takes N; returns τ_N. √N by default.
    dimension
        How many numbers `function` returns.
    name
        For results and the audit trail.

    Examples
    --------
    >>> spread = Custom(lambda x: x.var(ddof=1), lambda n: 1 / n, bounds=(0, 1), name="variance")
    >>> spread.value(np.array([[0.0], [1.0]]))
    array([0.5])
    """

    function: Callable[[NDArray[np.float64]], ArrayLike]
    sensitivity: Callable[[int], float | Fraction]
    bounds: Any
    scale: Callable[[int], float] = math.sqrt
    dimension: int = 1
    name: str = "custom"

    def __post_init__(self) -> None:
        """Refuse what isn't callable, and bad bounds."""
        for role in ("function", "sensitivity", "scale"):
            if not callable(given := getattr(self, role)):
                raise InvalidType(f"{role} must be callable, not {type(given).__name__}")
        object.__setattr__(self, "bounds", (check_bounds(self.bounds),))
        integer("dimension", self.dimension, least=1)

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
        """Check the stated sensitivity and scale at n; any number of columns will do."""
        for role in ("sensitivity", "scale"):
            stated = float(getattr(self, role)(n))
            if not 0 < stated < math.inf:
                raise InvalidArgument(
                    f"{role} must return a finite number above 0, not {stated:g}, for n = {n}"
                )
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
        try:
            value = np.asarray(self.function(records), dtype=np.float64).reshape(self.dimension)
        except Exception:  # whatever it is, it may depend on the data
            return np.zeros(self.dimension)
        return value if np.isfinite(value).all() else np.zeros(self.dimension)

    def rounding(self, n: int) -> Fraction:
        """Return 0: the stated sensitivity is for the function as computed."""
        return Fraction(0)

    def describe(self) -> dict[str, Any]:
        """Return the name and settings."""
        return {
            "statistic": self.name,
            "bounds": [list(pair) for pair in self.bounds],
            "resolution": None,
        }
