"""The mean of unbounded sub-Gaussian data, clipped where that costs next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from confidp.central.statistics.mean import Mean
from confidp.errors import integer, real


@dataclass(frozen=True, slots=True)
class ClippedMean:
    """The mean of sub-Gaussian values, clipped to ``center ± proxy·√(2 ln n)``.

    For values without bounds, of which one knows, publicly, that they are sub-Gaussian around
    `center`: P(|X − center| > t) ≤ 2exp(−t²/(2·proxy²)) for all t. A normal population whose mean
    lies within a of `center` and whose deviation is at most s will do with proxy = s + a.

    Parameters
    ----------
    proxy
        The sub-Gaussian deviation, above 0.
    center
        0 by default.

    Notes
    -----
    **Bias.** Clipping at c = proxy·√(2 ln n) moves the population mean by at most
    E(|X − center| − c)₊ ≤ ∫_c^∞ 2e^{−t²/2·proxy²} dt ≤ (2·proxy²/c)·e^{−c²/2·proxy²} =
    2·proxy/(n√(2 ln n)), which is 1/√n of a standard error or less. The paper clips at
    proxy·√(ln n) (section 4 (i)), where the same bound is of the order of the standard error.

    **Sensitivity.** That of the mean on these bounds, which depend on n alone.

    Examples
    --------
    >>> ClippedMean(proxy=15, center=100).for_shape(n=1000, columns=1).bounds
    ((44.24..., 155.75...),)
    """

    proxy: float
    center: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        proxy = real("proxy", self.proxy, "in (0, 1e200]", lambda x: 0 < x <= 1e200)
        center = real("center", self.center, "within ±1e200", lambda x: abs(x) <= 1e200)
        object.__setattr__(self, "proxy", proxy)
        object.__setattr__(self, "center", center)

    def bias(self, n: int) -> float:
        """Return the bound on how far clipping moves the population mean."""
        n = integer("n", n, least=2, most=2**63)
        return 2 * self.proxy / (n * math.sqrt(2 * math.log(n)))

    def for_shape(self, n: int, columns: int) -> Mean:
        """Return the mean on the bounds that n gives."""
        bias = f"{self.bias(n):.2g}"
        reach = self.proxy * math.sqrt(2 * math.log(n))
        mean = Mean(
            (self.center - reach, self.center + reach),
            name="clipped mean",
            assumes=(
                f"values are sub-Gaussian around {self.center:g} with deviation {self.proxy:g}, "
                f"from public knowledge; clipping then moves the mean by at most {bias}",
            ),
        )
        return mean.for_shape(n, columns)
