"""confidp: what a private data set says about its population, with honest uncertainty."""

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
from confidp.errors import BudgetExhausted, ConfidpError, InvalidArgument, LedgerError
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
    "UStatistic",
    "Variance",
    "WilcoxonSignedRank",
    "confidence_region",
]
