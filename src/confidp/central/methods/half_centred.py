"""Half-centred resampling: an interval for a degenerate product kernel, at its rate of 1/n.

Where E X = 0, U = (S² − Σx²)/(n(n−1)) is quadratic in S = Σx, and U on resamples of m records minus
U has another law: its S is centred at (m/n)·Σx instead of 0. Signed sums over two halves of the
data are centred at 0, and have S's law. Proofs in full: ``docs/noise_aware.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from confidp.central.methods.method import Released, Request, unsuitable
from confidp.central.methods.noise_aware_smooth import SmoothPivots, release_with_bounds
from confidp.central.methods.ptr_gdp import PTRGDP, half_delta
from confidp.central.pivots import Units
from confidp.central.resampling import IndexSets, Indices, Sampling, ready, resamples
from confidp.central.statistics.exact import exact_dot
from confidp.central.statistics.mean import resampled_sums
from confidp.central.statistics.statistic import Records, Statistic
from confidp.central.statistics.u_smooth import ProductKernel, smooth_bound
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.randomness import Randomness

_CENTER_SHARE = Fraction(2, 5)  # of μ²: 0.3 to 0.5 give widths within 4% of each other


@dataclass(frozen=True, slots=True)
class HalfCentred:
    """CR-SS for ``ProductKernel(degenerate=True)``, with half-centred pivots.

    With m = ⌊n/2⌋, S a random half of the first 2m records, T = Σ_S x − ½Σ_{i≤2m} x and
    V = Σ(x − x̄)² over all n, the pivots are

        w = (2T² − ½V)/(n(m − 1)),

    and center and radius are released as by noise-aware CR-SS (`release_with_bounds`).

    Notes
    -----
    2T = Σ±x over two random halves has mean 0 and variance V·(1 + O(1/n)) whatever the data, as S
    has under E X = 0. So w has about the law of (S² − Σx²)/n², that of U. A ball around a single
    half-sample's U would be centred at S/2.

    **Sensitivity.** On [a, b], with R = b − a, one record's replacement moves any w by at most

        A = R(2|T| + R)/(n(m − 1)),

    and 2|T| by at most R. |2T| ≤ mR always. So with Λ = R²/(n(m − 1)), and A at the largest |T|
    drawn, S_β = max_k e^{−βk} min{R²(m + 1)/(n(m − 1)), A + kΛ} is a smooth bound (`smooth_bound`).

    *Proof.* x → x + d, |d| ≤ R, moves T by e·d with e = ±½, or 0 for the last record of an odd n,
    and V by 2d(x − x̄) + d² − d²/n. For e = ±½ the numerator moves by
    ±2Td + d²/2 − d(x − x̄) − d²/2 + d²/(2n) = ±2Td − d(x − x̄ − d/(2n)), and x̄ + d/(2n), the middle
    of the old and the new mean, lies in [a, b] as x does: |d|(2|T| + R) at most. For e = 0 it moves
    by −d(x + d/2 − x̄ − d/(2n)), at most |d|R. ∎ Smoothness is the argument of `u_smooth`.

    **Budget.** β = 1/√n for both bounds, beyond which they hardly fall, or where that is smaller
    the β that makes a bound e times its smooth sensitivity on average. Two fifths of μ² go to the
    center. Each part gives its bound the share x of its μ² that makes the noise of its value least:
    e^{βΦ⁻¹(1−δ′)/√(xμ²)}/√(1 − x).

    **Coverage** needs degeneracy, which no interval here can check.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> residuals = rng.uniform(-0.5, 0.5, size=2000)
    >>> from confidp import confidence_region
    >>> confidence_region(
    ...     residuals, ProductKernel((-0.5, 0.5), degenerate=True), budget=GDP(1.0, 1e-6),
    ...     method=HalfCentred(), confidence_level=0.9, rng=7
    ... ).interval
    (-8.4...e-05, 0.00015...)
    """

    @property
    def uses_delta(self) -> bool:
        """Yes: PTR-GDP's bounds fall short with probability δ."""
        return True

    @property
    def one_sided(self) -> bool:
        """Yes."""
        return True

    def plan(self, statistic: Statistic, request: Request) -> HalfCentredPlan:
        """Choose both smoothness parameters and the parts of the budget."""
        if not isinstance(statistic, ProductKernel):
            raise unsuitable("half-centred resampling", "a product kernel", statistic)
        if not statistic.degenerate:
            raise InvalidArgument(
                "statistic must be ProductKernel(..., degenerate=True) for half-centred "
                "resampling, which covers only where E X = 0 is known: else use CRGS()"
            )
        if request.n < 4:
            raise InvalidArgument(f"n must be at least 4, for pairs in each half, not {request.n}")
        ready(request.n)
        delta = half_delta("half-centred resampling", request.mu, request.delta, dimension=1)
        shares = (_CENTER_SHARE, 1 - _CENTER_SHARE)
        center, radius = (
            _least_noise(share * Fraction(request.mu) ** 2, request.n, delta) for share in shares
        )
        return HalfCentredPlan(statistic, request, center, radius)


def _least_noise(mu_squared: Fraction, n: int, delta: float) -> PTRGDP:
    """Return PTR-GDP whose value has the least noise at β = 1/√n, or at a smaller β for t = 1.

    With x of μ² for the bound and a = βΦ⁻¹(1−δ′)/μ the noise is proportional to e^{a/√x}/√(1 − x),
    which is least where a(1 − x) = x^{3/2}.
    """
    margin = -float(ndtri(delta))
    a = margin / math.sqrt(n * float(mu_squared))
    # There t = a/√x reaches 1 at x = ½, for a = 1/√2: for a larger a, β falls with μ instead.
    share = float(brentq(lambda x: a * (1 - x) - x**1.5, 0.0, 1.0)) if a < math.sqrt(0.5) else 0.5
    mu_bound = sqrt_down(mu_squared * Fraction(share))
    mu_value = sqrt_down(mu_squared * (1 - Fraction(share)))
    return PTRGDP(min(1 / math.sqrt(n), mu_bound / margin), mu_bound, mu_value, delta)


@dataclass(frozen=True, slots=True)
class HalfCentredPlan:
    """Half-centred resampling with every public setting chosen."""

    statistic: ProductKernel
    request: Request
    center: PTRGDP
    radius: PTRGDP

    @property
    def cost(self) -> GDP:
        """(μ, δ), the lattices included."""
        return GDP(self.request.mu, (self.center.cost + self.radius.cost).delta)

    @property
    def name(self) -> str:
        """For people."""
        return "CR-SS (noise-aware, half-centred)"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            "E X = 0 exactly, which makes (E X)² itself 0: what the interval tells is whether data "
            "agree with that. At E X of a tenth of a standard deviation and n = 2000 it covers "
            "(E X)² about one time in five",
            "where E X may not be 0, square the ends of Mean(bounds)'s interval instead, the lower "
            "being 0 if they differ in sign; far from 0 use ProductKernel(bounds) by CRGS()",
            "n is large enough for resampling to work: coverage is asymptotic, though it counts "
            "the privacy noise",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings; the noise scales come with the release."""
        return {
            "n": self.request.n,
            "resample_size": self.half,
            "n_resamples": self.request.n_resamples,
            "sampling": str(Sampling.WITHOUT_REPLACEMENT),
            "beta": self.radius.beta,
            "counts_noise": True,
        }

    @property
    def half(self) -> int:
        """m = ⌊n/2⌋."""
        return self.request.n // 2

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Draw halves of the first 2m records, compute, and release."""
        m, b = self.half, self.request.n_resamples
        sets = resamples(2 * m, m, b, Sampling.WITHOUT_REPLACEMENT, randomness.indices)
        return self.release_on(records, sets, randomness)

    def release_on(
        self, records: Records, sets: Iterable[Indices], randomness: Randomness
    ) -> Released:
        """Release for given halves."""
        twice = twice_centred(records, sets)
        private = self.pivots(records, twice)
        return release_with_bounds(
            private, self.center, self.radius, self.statistic, self.request, randomness
        )

    def pivots(self, records: Records, twice: list[int]) -> SmoothPivots:
        """Return what is released for each half's 2T, before any noise: **private**."""
        statistic, n, m = self.statistic, self.request.n, self.half
        grid, k = statistic.grids[0], records[:, 0]
        n_v = n * exact_dot(k, k) - int(k.sum()) ** 2  # nV, in whole steps squared
        unit = float(grid.step**2 / (2 * n**2 * (m - 1)))
        pivots = np.array([float(n * t**2 - n_v) for t in twice])[:, None] * unit
        r, largest = grid.range, grid.step * max(abs(t) for t in twice)
        radius_bound = smooth_bound(
            at_zero=r * (largest + r) / (n * (m - 1)),
            slope=r**2 / (n * (m - 1)),
            cap=r**2 * (m + 1) / (n * (m - 1)),
            beta=self.radius.beta,
        )
        units = Units.below(statistic.rounding(n))
        error = statistic.rounding(n) + units.error(1)
        own = statistic.smooth_sensitivity(records, self.center.beta)
        return SmoothPivots(
            estimate=units.fractions(units.points(statistic.value(records))),
            pivots=pivots,
            center_bound=own + 2 * float(error),
            radius_bound=radius_bound,
        )


def twice_centred(records: Records, sets: Iterable[Indices]) -> list[int]:
    """Return 2T of each half, in whole steps: the lower bound cancels. **Private**.

    Examples
    --------
    >>> records = np.array([[1], [2], [4], [8], [99]])
    >>> twice_centred(records, [np.array([0, 3])])  # 1 + 8 − (2 + 4); the fifth is in no half
    [3]
    """
    k = records[:, 0]
    total = int(k[: len(k) // 2 * 2].sum())
    if isinstance(sets, IndexSets):
        sums, _ = resampled_sums(records[: sets.n], sets)
        return [2 * s - total for s in sums[:, 0].tolist()]
    return [2 * int(k[indices].sum()) - total for indices in sets]
