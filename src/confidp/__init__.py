"""confidp: what a private data set says about its population, with honest uncertainty.

A public name is imported when it is first asked for, so that `import confidp` is quick, and
`confidp.local` on a person's device needs the standard library only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confidp.central.methods.blbquant import BLBQuant
    from confidp.central.methods.cr_gs import CRGS
    from confidp.central.methods.cr_ss import CRSS
    from confidp.central.methods.delta_method import DeltaMethod
    from confidp.central.methods.dette_graw import DetteGraw
    from confidp.central.methods.half_centred import HalfCentred
    from confidp.central.methods.linearised import Linearised
    from confidp.central.methods.private_sandwich import PrivateSandwich
    from confidp.central.methods.private_variance import PrivateVariance
    from confidp.central.methods.rank_inversion import RankInversion
    from confidp.central.methods.ssvhl25 import SSVHL25
    from confidp.central.region import ConfidenceRegion
    from confidp.central.release import confidence_region
    from confidp.central.statistics.clipped_mean import ClippedMean
    from confidp.central.statistics.custom import Custom
    from confidp.central.statistics.m_estimator import ERM
    from confidp.central.statistics.mean import Mean
    from confidp.central.statistics.moments import Correlation, Ratio, StandardDeviation
    from confidp.central.statistics.quantile import Median, Quantile
    from confidp.central.statistics.regression import HuberERM, LogisticERM
    from confidp.central.statistics.sgd import AveragedSGD
    from confidp.central.statistics.u_finite import FiniteUStatistic
    from confidp.central.statistics.u_kernels import (
        GiniMeanDifference,
        KendallTau,
        Variance,
        WilcoxonSignedRank,
    )
    from confidp.central.statistics.u_smooth import ProductKernel
    from confidp.central.statistics.u_statistic import UStatistic
    from confidp.errors import (
        BudgetExhausted,
        ConfidpError,
        InvalidArgument,
        LedgerError,
        StateError,
    )
    from confidp.privacy.guarantees import GDP, ApproxDP
    from confidp.privacy.ledger import Ledger

__version__ = "0.1.0"

__all__ = [
    "CRGS",
    "CRSS",
    "ERM",
    "GDP",
    "SSVHL25",
    "ApproxDP",
    "AveragedSGD",
    "BLBQuant",
    "BudgetExhausted",
    "ClippedMean",
    "ConfidenceRegion",
    "ConfidpError",
    "Correlation",
    "Custom",
    "DeltaMethod",
    "DetteGraw",
    "FiniteUStatistic",
    "GiniMeanDifference",
    "HalfCentred",
    "HuberERM",
    "InvalidArgument",
    "KendallTau",
    "Ledger",
    "LedgerError",
    "Linearised",
    "LogisticERM",
    "Mean",
    "Median",
    "PrivateSandwich",
    "PrivateVariance",
    "ProductKernel",
    "Quantile",
    "RankInversion",
    "Ratio",
    "StandardDeviation",
    "StateError",
    "UStatistic",
    "Variance",
    "WilcoxonSignedRank",
    "confidence_region",
]

# Each public name's module.
_HOMES: dict[str, str] = {
    "CRGS": "central.methods.cr_gs",
    "CRSS": "central.methods.cr_ss",
    "ERM": "central.statistics.m_estimator",
    "GDP": "privacy.guarantees",
    "SSVHL25": "central.methods.ssvhl25",
    "ApproxDP": "privacy.guarantees",
    "AveragedSGD": "central.statistics.sgd",
    "BLBQuant": "central.methods.blbquant",
    "BudgetExhausted": "errors",
    "ClippedMean": "central.statistics.clipped_mean",
    "ConfidenceRegion": "central.region",
    "ConfidpError": "errors",
    "Correlation": "central.statistics.moments",
    "Custom": "central.statistics.custom",
    "DeltaMethod": "central.methods.delta_method",
    "DetteGraw": "central.methods.dette_graw",
    "FiniteUStatistic": "central.statistics.u_finite",
    "GiniMeanDifference": "central.statistics.u_kernels",
    "HalfCentred": "central.methods.half_centred",
    "HuberERM": "central.statistics.regression",
    "InvalidArgument": "errors",
    "KendallTau": "central.statistics.u_kernels",
    "Ledger": "privacy.ledger",
    "LedgerError": "errors",
    "Linearised": "central.methods.linearised",
    "LogisticERM": "central.statistics.regression",
    "Mean": "central.statistics.mean",
    "Median": "central.statistics.quantile",
    "PrivateSandwich": "central.methods.private_sandwich",
    "PrivateVariance": "central.methods.private_variance",
    "ProductKernel": "central.statistics.u_smooth",
    "Quantile": "central.statistics.quantile",
    "RankInversion": "central.methods.rank_inversion",
    "Ratio": "central.statistics.moments",
    "StandardDeviation": "central.statistics.moments",
    "StateError": "errors",
    "UStatistic": "central.statistics.u_statistic",
    "Variance": "central.statistics.u_kernels",
    "WilcoxonSignedRank": "central.statistics.u_kernels",
    "confidence_region": "central.release",
}

if not TYPE_CHECKING:  # else a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return every public name, whether imported yet or not."""
    return sorted({*globals(), *__all__})
