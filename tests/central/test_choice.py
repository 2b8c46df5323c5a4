"""`method="auto"`: the narrowest method that is established for the statistic, with its reason."""

import numpy as np
import pytest

from confidp import (
    CRGS,
    GDP,
    AveragedSGD,
    ClippedMean,
    Correlation,
    Custom,
    FiniteUStatistic,
    GiniMeanDifference,
    HuberERM,
    KendallTau,
    LogisticERM,
    Mean,
    Median,
    ProductKernel,
    Quantile,
    Ratio,
    StandardDeviation,
    UStatistic,
    Variance,
    confidence_region,
)

N = 60
UNIT = (0.0, 1.0)
CR_GS = "CR-GS (noise-aware, without replacement)"
EXPECTED = {
    "a mean": (Mean(UNIT), 1, "private variance"),
    "a vector of means": (Mean((UNIT, UNIT)), 2, "private variance (box)"),
    "a median": (Median(UNIT), 1, "rank inversion"),
    "several quantiles": (Quantile([0.1, 0.9], UNIT), 1, "rank inversion"),
    "a variance": (Variance(UNIT), 1, "delta method"),
    "a standard deviation": (StandardDeviation(UNIT, 0.1), 1, "delta method"),
    "a ratio": (Ratio((UNIT, UNIT), floor=0.5), 2, "delta method"),
    "a correlation": (Correlation((UNIT, UNIT), (0.1, 0.1)), 2, "delta method"),
    "a logistic regression": (LogisticERM(0.1), 2, "private sandwich (ball)"),
    "a Huber regression": (HuberERM(0.1, 1, (0, 1)), 2, "private sandwich (ball)"),
    "averaged SGD": (AveragedSGD.logistic(0.1), 2, CR_GS),
    "clipped means": (ClippedMean(1.0), 2, "private variance (box)"),
    "a mean difference": (GiniMeanDifference(UNIT), 1, "private variance"),
    "a rank correlation": (KendallTau((UNIT, UNIT), 0.1), 2, "private variance"),
    "a user's statistic": (Custom(np.mean, lambda n: 1 / n, UNIT), 1, CR_GS),
    "a product kernel": (ProductKernel(UNIT), 1, "private variance"),
    "a user's kernel": (UStatistic(max, 2, UNIT, UNIT), 1, "private variance"),
    "a kernel on few points": (FiniteUStatistic(max, [0, 1]), 1, "private variance"),
    "a user's degenerate kernel": (
        UStatistic(lambda x, y: x * y, 2, (-1, 1), (-1, 1), degenerate=True), 1, CR_GS
    ),
    "a degenerate one": (
        ProductKernel((-1, 1), degenerate=True), 1, "CR-SS (noise-aware, half-centred)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPECTED)
def test_auto_takes_the_narrowest_established_method_and_says_why(case):
    statistic, columns, expected = EXPECTED[case]
    rows = np.random.default_rng(1).random((N, columns))
    rows[:, -1] = (
        np.round(rows[:, -1]) if "logistic" in case or case == "averaged SGD" else rows[:, -1]
    )
    region = confidence_region(
        rows, statistic, budget=GDP(8.0, 1e-6), n_resamples=20, confidence_level=0.9, rng=2
    )
    assert region.method.startswith(expected)
    assert region.public["reason"].startswith("auto: ")
    assert region.public["counts_noise"]


def test_a_method_of_ones_own_choice_is_said_to_be_so():
    region = confidence_region(
        np.zeros(N), Mean(UNIT), budget=GDP(1.0), n_resamples=20, method=CRGS(), rng=1
    )
    assert region.public["reason"] == "chosen by the caller"
