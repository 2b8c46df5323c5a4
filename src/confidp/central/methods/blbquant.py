"""BLBQuant: a bag of little bootstraps whose coverage is searched in private.

Chadha, Duchi and Kuditipudi (2024), "Resampling methods for private statistical inference", arXiv
2402.07131, as a method to compare with: each block of the data says how far resampled private
estimates stray from its own value, and a noisy median over blocks decides which radius is enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confidp.central.methods.method import Released, Request
from confidp.central.methods.private_estimators import PrivateEstimator, private_estimator
from confidp.central.statistics.statistic import Records, Statistic
from confidp.errors import InvalidArgument, integer, real
from confidp.privacy.conversions import pure_dp_of_mu
from confidp.privacy.guarantees import GDP, sqrt_down
from confidp.privacy.noise import to_float
from confidp.privacy.pure_dp import AboveThreshold
from confidp.randomness import Randomness


@dataclass(frozen=True, slots=True)
class BLBQuant:
    """BLBQuant: θ̃ ± t̂/√n, with θ̃ at ε_p and t̂ by AboveThreshold at ε_c.

    1. Shuffle the data and cut them into s = ⌈10 ln n/ε_c⌉ blocks of ⌊n/s⌋.
    2. In block i with value θ_i, draw resamples of size **n** and estimate θ on each as the final
       release would, at ε_p; p_i(t) is the share of these θ* with √n|θ_i − θ*| ≤ t.
    3. On a public grid of t, with ρ ~ Laplace(2/ε_c) drawn once and ν_t ~ Laplace(4/ε_c): t̂ is the
       first t where the ⌊s/2 + ρ + ν_t⌋-th smallest of the p_i(t) exceeds 1 − α. Under rank 1 that
       is 0, above rank s it is 1.
    4. Release θ̃ at ε_p: a mean-like statistic with Laplace noise, a quantile by the exponential
       mechanism on the gaps between values, with η = ε_p/2.

    Half of μ² goes to each of ε_p and ε_c, at the ε whose worst mechanism is (μ/√2)-GDP: 6.06 each
    for μ = 8.

    Parameters
    ----------
    inner_resamples
        Resamples in a block, 100 as in the paper's experiments; ``n_resamples`` isn't used.
    grid_step, largest_radius
        Radii t/√n that are tried: ``grid_step`` times 1, 2, … up to ``largest_radius``, in the
        units of the data. By default the range over n, up to the range; published is 1/n.

    Notes
    -----
    **Privacy.** The shuffle, the resamples and the simulated noise don't depend on the data and are
    drawn for each block by itself, so fix them. One record is in one block at most and so moves one
    curve p_i. The k-th smallest of s exceeds 1 − α exactly if fewer than k do not; hence, with
    c(t) = #{i : p_i(t) ≤ 1 − α}, step 3 stops where −c(t) + ν_t ≥ 1 − s/2 − ρ. One record moves
    c(t) by at most 1, and −ρ has ρ's law, so that is `AboveThreshold` (Dwork and Roth 2014, theorem
    3.23): ε_c-DP. θ̃ is ε_p-DP. Pure ε-DP is GDP at μ = 2Φ⁻¹(e^ε/(1+e^ε)), and the two compose to
    μ. ∎ The simulated noise needs no secure source: it isn't what protects anything, and the proof
    holds for every value of it. There is no δ.

    The authors' public code draws ρ anew at every t, which that theorem doesn't cover.

    Examples
    --------
    >>> from confidp import GDP, Mean, confidence_region
    >>> data = np.random.default_rng(0).uniform(-1, 1, size=2000)
    >>> region = confidence_region(
    ...     data, Mean(bounds=(-1, 1)), budget=GDP(8.0), method=BLBQuant(), rng=7
    ... )
    >>> region.public["epsilon_each"], region.public["blocks"]
    (6.05..., 13)
    >>> region.radius
    0.02...
    """

    inner_resamples: int = 100
    grid_step: float | None = None
    largest_radius: float | None = None

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        inner = integer("inner_resamples", self.inner_resamples, least=1, most=10**6)
        object.__setattr__(self, "inner_resamples", inner)
        for name in ("grid_step", "largest_radius"):
            if (given := getattr(self, name)) is not None:
                checked = real(name, given, "in [1e-120, 1e120]", lambda x: 1e-120 <= x <= 1e120)
                object.__setattr__(self, name, checked)

    @property
    def uses_delta(self) -> bool:
        """No: its parts are pure ε-DP."""
        return False

    def plan(self, statistic: Statistic, request: Request) -> BLBQuantPlan:
        """Split the budget, choose the blocks and the grid."""
        epsilon = pure_dp_of_mu(sqrt_down(Fraction(request.mu) ** 2 / 2))
        if 10 * math.log(request.n) > epsilon * (request.n // 2):
            raise InvalidArgument(
                f"budget must be larger, or the data: at mu = {request.mu:g} BLBQuant cuts "
                f"{request.n} rows into more blocks than it can give 2 rows each"
            )
        blocks = math.ceil(10 * math.log(request.n) / epsilon)
        estimator = private_estimator(statistic, request.n, epsilon)
        step = Fraction(self.grid_step) if self.grid_step else estimator.step
        largest = Fraction(self.largest_radius or estimator.step * request.n)
        return BLBQuantPlan(
            statistic=statistic,
            request=request,
            estimator=estimator,
            search=AboveThreshold(epsilon),
            blocks=blocks,
            inner_resamples=self.inner_resamples,
            step=float(step),
            n_steps=math.ceil(largest / step),
        )


@dataclass(frozen=True, slots=True)
class BLBQuantPlan:
    """BLBQuant with every public setting chosen."""

    statistic: Statistic
    request: Request
    estimator: PrivateEstimator
    search: AboveThreshold
    blocks: int
    inner_resamples: int
    step: float
    n_steps: int

    @property
    def cost(self) -> GDP:
        """μ, with no δ."""
        return GDP(self.request.mu)

    @property
    def name(self) -> str:
        """For people."""
        return "BLBQuant"

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the stated coverage rests on."""
        return (
            f"n is large, and so is a block of {self.request.n // self.blocks} rows: coverage is "
            "asymptotic in both",
        )

    @property
    def public(self) -> Mapping[str, Any]:
        """Settings and noise, in the units of the data."""
        return {
            "n": self.request.n,
            "blocks": self.blocks,
            "inner_resamples": self.inner_resamples,
            "epsilon_each": self.search.epsilon,
            "grid_step": self.step,
            "largest_radius": self.step * self.n_steps,
            **self.estimator.public,
        }

    def release(self, records: Records, randomness: Randomness) -> Released:
        """Release the estimate and the radius; the radius is infinite where the grid ends first."""
        center = self.estimator.release(records, randomness) + self.statistic.origin[0]
        enough = self.enough(records, randomness.indices)
        stop = self.search.first(
            (-int((enough > k).sum()) for k in range(1, self.n_steps + 1)),
            1 - Fraction(self.blocks, 2),
            randomness,
        )
        radius = math.inf if stop is None else (stop + 1) * self.step
        return Released((to_float(center),), radius)

    def enough(self, records: Records, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return for each block the first k with p_i > 1 − α at radius k·step: **private**."""
        size = self.request.n // self.blocks
        order = rng.permutation(self.request.n)[: size * self.blocks].reshape(self.blocks, size)
        # A generator for each block: what one block draws can't depend on another's records.
        return np.array(
            [
                self._enough(records[rows], own)
                for rows, own in zip(order, rng.spawn(self.blocks), strict=True)
            ]
        )

    def _enough(self, block: Records, rng: np.random.Generator) -> float:
        n, size = self.request.n, len(block)
        counts = rng.multinomial(n, np.full(size, 1 / size), size=self.inner_resamples)
        strays = np.abs(
            self.estimator.simulate(block, counts, rng) - self.statistic.value(block)[0]
        )
        level = Fraction(repr(self.request.confidence_level))
        rank = math.floor(level * self.inner_resamples) + 1  # so many within: a share over 1 − α
        return float(np.ceil(np.partition(strays, rank - 1)[rank - 1] / self.step))
