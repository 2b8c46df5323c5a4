"""What can fail without any data does so before the charge: imports, compiling, users' settings."""

from __future__ import annotations

import math
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

import confidp as cdp
from confidp.central import kernels, resampling
from confidp.central.methods.method import Request
from confidp.central.resampling import Resampling, Sampling
from confidp.privacy import noise, pure_dp
from hardening.doors import METHODS, STATISTICS, UNIT, Door, method, region_of, rows

RELEASES = {
    **METHODS,
    **STATISTICS,
    "HalfCentred": method(cdp.HalfCentred, cdp.ProductKernel(UNIT, degenerate=True)),
    "RankInversion": method(cdp.RankInversion, cdp.Median(UNIT)),
    "DeltaMethod": method(cdp.DeltaMethod, cdp.Variance(UNIT)),
}
# Those that draw index sets need the compiled loops.
RESAMPLE = {
    "CRGS", "CRGS, with", "CRSS", "CRSS, published", "HalfCentred", "Linearised", "Custom",
}  # fmt: skip


class Missing(MetaPathFinder):
    """Stands before every other finder, and fails to import one module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, *_: Any) -> None:
        if name == self.name:
            raise ImportError(f"no {name} here")


@pytest.fixture
def charges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Make every charge an entry of a list."""
    made: list[Any] = []
    monkeypatch.setattr(cdp.Ledger, "charge", lambda self, cost, query: made.append(cost) or 1)
    monkeypatch.setattr(cdp.Ledger, "record", lambda self, number, released: None)
    return made


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget a module that was imported, and let it not be imported again."""
    package, _, child = name.rpartition(".")
    monkeypatch.delattr(sys.modules[package], child)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(name), *sys.meta_path])


def opened(door: Door) -> BaseException | None:
    try:
        door.call(**door.arguments)
    except ImportError as error:
        return error
    return None


@pytest.mark.parametrize("name", RELEASES)
def test_without_the_compiled_loops_nothing_is_charged(
    name: str, charges: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(kernels.__name__, monkeypatch)
    failed = opened(RELEASES[name])
    assert (failed is None) == (len(charges) == 1)
    assert failed is not None or name not in RESAMPLE


@pytest.mark.parametrize("name", RELEASES)
def test_without_what_draws_the_noise_nothing_is_charged(
    name: str, charges: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import opendp.prelude

    noise._exact_sampler.cache_clear()
    pure_dp._exact_laplace.cache_clear()
    without(opendp.prelude.__name__, monkeypatch)
    assert isinstance(opened(RELEASES[name]), ImportError)
    assert charges == []


def test_the_compiled_loops_are_loaded_by_a_plan_that_resamples_and_by_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(kernels.__name__, monkeypatch)
    request = Request(100, 1.0, 0.9, 50)
    cdp.PrivateVariance().plan(cdp.Mean(UNIT), request)
    with pytest.raises(ImportError, match="no confidp"):
        cdp.CRGS().plan(cdp.Mean(UNIT), request)


def test_more_records_than_draws_can_tell_apart_are_refused_by_the_plan() -> None:
    resampling.ready(2**31)
    with pytest.raises(cdp.InvalidArgument, match=r"n must be at most 2\^31"):
        Resampling.choose(2**31 + 1, 10, Sampling.WITHOUT_REPLACEMENT)
    statistic = cdp.ProductKernel(UNIT, degenerate=True)
    with pytest.raises(cdp.InvalidArgument, match=r"n must be at most 2\^31"):
        cdp.HalfCentred().plan(statistic, Request(2**31 + 1, 1.0, 0.9, 10, delta=1e-6))


def fails_below(n: int) -> Any:
    def function(size: int) -> float:
        if size < n:
            raise KeyError(size)
        return size**0.5

    return function


def smooth(records: Any, beta: float) -> float:
    return 1.0


ASK_A_SCALE = [
    cdp.CRGS(resample_size=10), cdp.CRGS(resample_size=10, calibration="published"),
    cdp.CRSS(resample_size=10), cdp.CRSS(resample_size=10, calibration="published"),
    cdp.DetteGraw(), cdp.SSVHL25(),
]  # fmt: skip
ASK_A_SENSITIVITY = [ASK_A_SCALE[0], ASK_A_SCALE[1], cdp.DetteGraw(), cdp.SSVHL25()]


@pytest.mark.parametrize(
    ("role", "chosen"),
    [*(("scale", m) for m in ASK_A_SCALE), *(("sensitivity", m) for m in ASK_A_SENSITIVITY)],
)
def test_a_users_function_of_n_that_fails_for_resamples_fails_before_the_charge(
    role: str, chosen: Any, charges: list[Any]
) -> None:
    def release(**functions: Any) -> Any:
        statistic = cdp.Custom(
            lambda x: x.mean(), bounds=UNIT, smooth_sensitivity=smooth, precision=1e-12,
            **{"sensitivity": lambda n: 1 / n, "scale": lambda n: n**0.5} | functions,
        )  # fmt: skip
        return region_of(statistic, budget=cdp.GDP(8.0, 1e-6), method=chosen)

    with pytest.raises(cdp.InvalidArgument) as caught:
        release(**{role: fails_below(len(rows()))})
    assert str(caught.value) == f"{role} must be a function of N, but raised KeyError"
    assert isinstance(caught.value.__cause__, KeyError)  # so that its writer sees where
    assert charges == []
    release()
    assert len(charges) == 1


@pytest.mark.parametrize("stated", [0.0, -1.0, 1e-151, 1e151, math.nan, math.inf, "1", None])
def test_a_users_scale_is_a_number_whose_ratios_are_finite(stated: Any) -> None:
    statistic = cdp.Custom(lambda x: x.mean(), lambda n: 1 / n, UNIT, scale=lambda n: stated)
    with pytest.raises(cdp.ConfidpError, match="scale must be"):
        statistic.for_shape(10, 1)
