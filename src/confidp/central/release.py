"""The one door of the central half: `confidence_region`."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

from confidp.central.data import as_rows, check_missing, fill_missing
from confidp.central.methods.cr_gs import CRGS
from confidp.central.methods.cr_ss import CRSS
from confidp.central.methods.delta_method import DeltaMethod, HasEquation
from confidp.central.methods.half_centred import HalfCentred
from confidp.central.methods.method import Method, Plan, Request
from confidp.central.methods.private_sandwich import PrivateSandwich
from confidp.central.methods.private_variance import PrivateVariance
from confidp.central.methods.rank_inversion import RankInversion
from confidp.central.region import ALTERNATIVES, ConfidenceRegion
from confidp.central.statistics.jackknife import Jackknifed
from confidp.central.statistics.m_estimator import Linearisable
from confidp.central.statistics.mean import Mean
from confidp.central.statistics.quantile import Quantile
from confidp.central.statistics.statistic import MeanLike, SmoothFriendly, Statistic
from confidp.central.statistics.u_smooth import ProductKernel
from confidp.errors import InvalidArgument, InvalidType, choice, integer, level, shown
from confidp.privacy.guarantees import GDP, ApproxDP
from confidp.privacy.ledger import Ledger
from confidp.randomness import Randomness, Seed

MOST_RESAMPLES = 1_000_000  # more would take days, after the charge
_ONE_ROW = "one row is one person, and rows are independent draws from the population"


def confidence_region(
    data: Any,
    statistic: Statistic,
    *,
    budget: GDP | ApproxDP,
    confidence_level: float = 0.95,
    alternative: str = "two-sided",
    method: Method | str = "auto",
    n_resamples: int = 1000,
    missing: float | str = "none",
    ledger: Ledger | str | PathLike[str] | None = None,
    rng: Seed = None,
    label: str | None = None,
) -> ConfidenceRegion:
    """Release a private confidence region for a parameter of the population.

    Parameters
    ----------
    data
        One row a person: numbers of shape (n,) or (n, d), or a pandas, Polars or Arrow column or
        table. n is public.
    statistic
        What to estimate, such as ``Mean(bounds=(0, 100))``.
    budget
        ``GDP(mu)`` or ``ApproxDP(epsilon, delta)``.
    confidence_level
        The nominal coverage, in (0, 1).
    alternative
        ``"two-sided"``; ``"greater"`` for a lower bound, ``"less"`` for an upper bound. The other
        end is then the statistic's public bound, or infinite where it has none.
    method
        ``"auto"`` or a method, such as ``CRGS("with_replacement")``.
    n_resamples
        B, from 1 to a million. Privacy's price doesn't grow with it without replacement, and
        logarithmically with.
    missing
        ``"none"`` declares that there are no missing values; a number inside the bounds stands in
        for them.
    ledger
        A ledger, or its path: it is charged before any noise is drawn, and keeps the result.
    rng
        None for operating-system noise. A seed or generator makes the run reproducible **and its
        result not private**, which the result says; no ledger goes with it.
    label
        A public name of the data for the ledger, such as a file and a column.

    Returns
    -------
    ConfidenceRegion
        Public: a center, a radius or another shape, what was spent, and what the coverage rests on.

    Raises
    ------
    InvalidArgument, InvalidType
        Before anything is computed or charged.
    MissingValues
        For the curator's eyes; nothing is charged.
    BudgetExhausted
        If the ledger can't afford it; nothing is computed.

    Notes
    -----
    The unit of privacy is one row. The release is (μ, δ)-GDP for data sets that differ in one row,
    with μ and δ in ``region.spent``; each method proves it. δ there is the noise lattice's own,
    about 1e-25 (``docs/lattice_noise.md``).

    Examples
    --------
    >>> import numpy as np
    >>> wages = np.random.default_rng(0).uniform(0, 30_000, size=2000)
    >>> region = confidence_region(wages, Mean(bounds=(0, 30_000)), budget=GDP(1.0), rng=7)
    >>> region.interval
    (14..., 15...)
    >>> region.spent
    GDP(mu=1.0, delta=4.0...e-26)
    """
    if not isinstance(budget, GDP | ApproxDP):
        raise InvalidType(f"budget must be a GDP or an ApproxDP, not {type(budget).__name__}")
    if isinstance(statistic, type) or not hasattr(statistic, "for_shape"):
        raise InvalidType(
            f"statistic must be one, such as Mean(bounds), not {type(statistic).__name__}"
        )
    confidence_level = level(confidence_level)
    n_resamples = integer("n_resamples", n_resamples, least=1, most=MOST_RESAMPLES)
    alternative = choice("alternative", alternative, ALTERNATIVES)
    _check_method(method)
    randomness = Randomness.of(rng)
    if ledger is not None and not randomness.private:
        raise InvalidArgument("rng must be None with a ledger: a seeded run isn't private")
    if isinstance(ledger, str | PathLike):
        ledger = Ledger.open(ledger)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidType(f"ledger must be a Ledger or its path, not {type(ledger).__name__}")

    rows = as_rows(data)
    n, columns = rows.shape
    statistic = statistic.for_shape(n, columns)
    chosen, reason = _choose(method, statistic, n, budget)
    if alternative != "two-sided" and not getattr(chosen, "one_sided", False):
        raise InvalidArgument(
            f"alternative must be 'two-sided' with {type(chosen).__name__}, not {alternative!r}"
        )
    request = Request(n, 1.0, confidence_level, n_resamples, alternative=alternative)
    plan = _plan(chosen, statistic, request, budget)
    rows = fill_missing(rows, check_missing(missing, statistic.bounds))

    # Whatever could fail in a user's own code does so before the charge.
    described = statistic.describe()
    assumes = (_ONE_ROW, *statistic.assumes, *plan.assumes)
    public = dict(plan.public)
    entry = None
    if ledger is not None:
        query = {
            "data": label,
            **described,
            "method": plan.name,
            "confidence_level": confidence_level,
            "alternative": alternative,
            "n": n,
        }
        import opendp.prelude  # noqa: F401 - if it can't draw noise here, nothing is charged

        entry = ledger.charge(plan.cost, query)
    released = plan.release(statistic.encode(rows), randomness)
    region = ConfidenceRegion(
        center=released.center,
        radius=released.radius,
        confidence_level=confidence_level,
        spent=plan.cost,
        private=randomness.private,
        method=plan.name,
        statistic=described,
        assumes=assumes,
        public={**public, **released.public, "reason": reason},
        alternative=alternative,
        box=released.box,
        ellipsoid=released.ellipsoid,
    )
    if ledger is not None and entry is not None:
        ledger.record(entry, region.to_dict())
    return region


def _check_method(method: Method | str) -> None:
    if isinstance(method, str):
        if method != "auto":
            raise InvalidArgument(f"method must be 'auto' or a method object, not {shown(method)}")
    elif isinstance(method, type) or not hasattr(method, "plan"):
        raise InvalidType(f"method must be 'auto' or a method, not {type(method).__name__}")


def _choose(
    method: Method | str, statistic: Statistic, n: int, budget: GDP | ApproxDP
) -> tuple[Method, str]:
    """Return the method and the public reason for it."""
    if not isinstance(method, str):
        return method, "chosen by the caller"
    if isinstance(statistic, Mean):
        return PrivateVariance(), "auto: the narrowest for means, and it counts the privacy noise"
    if isinstance(statistic, HasEquation):
        return DeltaMethod(), "auto: the narrowest for a smooth function of means; counts the noise"
    if isinstance(statistic, Quantile):
        return RankInversion(), "auto: for a quantile its coverage holds for every distribution"
    if isinstance(statistic, Linearisable):
        return PrivateSandwich(), "auto: one private Newton step and a sandwich; counts the noise"
    if not isinstance(statistic, MeanLike):
        return CRSS(), "auto: only the statistic's smooth sensitivity is small"
    if (
        isinstance(statistic, ProductKernel)
        and statistic.degenerate
        and n >= 4
        and budget.delta > 0
    ):
        return HalfCentred(), "auto: at rate n, known to be degenerate; counts the noise"
    if isinstance(statistic, Jackknifed) and statistic.has_jackknife(n):
        return PrivateVariance(), "auto: the narrowest for U-statistics; counts the privacy noise"
    faster = statistic.scale(4 * n) > 3 * statistic.scale(n)  # τ_n = n, not √n
    if faster and isinstance(statistic, SmoothFriendly) and budget.delta > 0:
        return CRSS(), "auto: at rate n only the statistic's smooth sensitivity is small enough"
    return CRGS(), "auto: the statistic has a small global sensitivity; counts the noise"


def _plan(method: Method, statistic: Statistic, request: Request, budget: GDP | ApproxDP) -> Plan:
    """Plan for the μ and δ that `budget` buys.

    Of an ApproxDP's δ the method gets half if it needs one, then the noise lattice its share, and
    the rest sets μ.
    """
    if isinstance(budget, GDP):
        return method.plan(statistic, replace(request, mu=budget.mu, delta=budget.delta))
    own = budget.delta / 2 if method.uses_delta else 0.0
    # The lattice's δ grows with μ, so that of the whole δ's μ is enough for the smaller one.
    spent = method.plan(statistic, replace(request, mu=budget.to_gdp().mu, delta=own)).cost.delta
    if budget.delta <= spent:
        raise InvalidArgument(
            f"delta must be above the noise lattice's {spent:.1e}, not {budget.delta:g}"
        )
    mu = ApproxDP(budget.epsilon, budget.delta - spent).to_gdp().mu
    return method.plan(statistic, replace(request, mu=mu, delta=own))
