"""Nothing leaks: all but the released numbers is the same for data sets that differ in a record.

Two data sets, the same seed, and noise that a test replaces by fixed numbers: then a region may
differ in what is computed from the data, and in nothing else: not in its keys, types, public facts,
warnings, log lines, exit codes, or errors. Where even the numbers are made equal, everything a
user can see is the same byte for byte.
"""

from __future__ import annotations

import io
import json
import logging
import pickle
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import confidp as cdp
from confidp.cli.main import main
from confidp.plots.regions import plot_intervals
from hardening.doors import METHODS, STATISTICS, rows

SEED = 20261130
N = 40
CANARY = 0.7312598417  # a record's value, to be looked for in all that comes out


def neighbours(columns: int) -> list[np.ndarray]:
    """Return data sets of one shape: any rows, a neighbour, all equal, infinite, tiny."""
    first = rows(columns, N)
    other = first.copy()
    other[3] = CANARY
    huge = np.where(np.arange(N)[:, None] % 2, np.inf, -np.inf) * np.ones((N, columns))
    return [first, other, np.full((N, columns), 0.5), huge, first * 5e-324]


COLUMNS = {"Ratio": 2, "Correlation": 2, "KendallTau": 2, "LogisticERM": 2, "HuberERM": 2,
           "AveragedSGD.logistic": 2, "PrivateSandwich": 2, "Linearised": 2}  # fmt: skip


def shape_of(value: Any) -> Any:
    """Return a value with every float replaced by its type."""
    if isinstance(value, dict):
        return {key: shape_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shape_of(inner) for inner in value]
    return "a number" if isinstance(value, float) or value is None else value


def seen(name: str, data: np.ndarray) -> tuple[Any, ...]:
    """Run a door on data with a fixed seed and return everything but the numbers."""
    door = {**STATISTICS, **METHODS}[name]
    released: list[cdp.ConfidenceRegion] = []

    def region_of(of: Any, columns: int = 1, **settings: Any) -> cdp.ConfidenceRegion:
        settings = {"budget": cdp.GDP(8.0, 1e-6), **settings}
        released.append(
            cdp.confidence_region(data, of, n_resamples=20, rng=SEED, missing="none", **settings)
        )
        return released[0]

    logged, out, err = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            warnings.catch_warnings(record=True) as warned,
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            warnings.simplefilter("always")
            patch.setattr("hardening.doors.region_of", region_of)
            try:
                door.call(**door.arguments)
                result = shape_of(public_part(released[0].to_dict()))
            except cdp.ConfidpError as error:
                result = repr(error)
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [str(w.message) for w in warned]
    return result, lines, logged.getvalue(), out.getvalue(), err.getvalue()


# What a method finds out privately and says: which branch its released numbers led to.
BY_RELEASED_NUMBERS = ("note", "newton_step", "ends")


def public_part(fields: dict[str, Any]) -> dict[str, Any]:
    public = {k: v for k, v in fields["public"].items() if k not in BY_RELEASED_NUMBERS}
    return {**fields, "public": public}


@pytest.mark.parametrize("name", [*STATISTICS, *METHODS])
def test_all_but_the_numbers_is_the_same_whatever_the_data(name: str) -> None:
    first, *others = (seen(name, data) for data in neighbours(COLUMNS.get(name, 1)))
    assert first[1:] == ([], "", "", "")
    for other in others:
        assert other == first


@pytest.fixture
def made_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what a default mean releases by fixed numbers."""
    from confidp.privacy.noise import GaussianMechanism

    def release(self: Any, values: Any, *_: Any) -> Any:
        return [type(value)(0) + self.sensitivity for value in values]

    monkeypatch.setattr(GaussianMechanism, "release", release)


def everything(data: np.ndarray, folder: Path) -> list[Any]:
    region = cdp.confidence_region(data, cdp.Mean((0, 1)), budget=cdp.GDP(1.0), rng=SEED)
    picture = folder / "p.svg"
    plot_intervals({"a": region}).savefig(picture, metadata={"Date": None})
    return [
        repr(region),
        str(region),
        json.dumps(region.to_dict()),
        region.caution,
        region.in_words,
        pickle.dumps(region),
        picture.stat().st_size,
    ]


def test_region_json_pickle_and_picture_hold_only_what_was_released(
    made_equal: None, tmp_path: Path
) -> None:
    first, other = neighbours(1)[:2]
    assert everything(first, tmp_path) == everything(other, tmp_path)


def command(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["confidp", *words])
        with pytest.raises(SystemExit) as left:
            main()
    return (left.value.code, *capsys.readouterr())


def files(folder: Path) -> list[Path]:
    """Return a file and neighbours: another number, a huge one, an infinity, one with a comma."""
    made = []
    for i, value in enumerate(["0.25", str(CANARY), "1e300", "-inf", '"1"']):
        path = folder / str(i) / "t.csv"
        path.parent.mkdir()
        path.write_text("a,b\n" + "0.25,x\n" * (N - 1) + f"{value},{CANARY}\n")
        made.append(path)
    return made


@pytest.mark.parametrize("json_wanted", [True, False])
def test_the_command_prints_the_same_for_neighbouring_files(
    made_equal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], json_wanted: bool
) -> None:
    more = ["--json"] if json_wanted else []
    printed = {
        command(
            ["interval", str(f), "--column", "a", "--bounds", "0", "1", "--mu", "1", *more], capsys
        )
        for f in files(tmp_path)
    }
    assert len(printed) == 1
    ((code, out, err),) = printed
    assert (code or 0, err) == (0, "")
    assert out


BAD = [
    ["--column", "c"],
    ["--column", "a", "--level", "95"],
    ["--column", "a", "--bounds", "1", "0"],
    ["--column", "a", "--resolution", "0.3"],
    ["--column", "a", "--missing", "7"],
    ["--column", "a", "--statistic", "quantile"],
    ["--column", "a", "--ledger", "none.ledger"],
    ["--column", "a", "--method", "cr-ss"],
]


@pytest.mark.parametrize("words", BAD, ids=lambda words: " ".join(words[2:]))
def test_a_refusal_is_the_same_for_neighbouring_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    printed = set()
    for file in files(tmp_path):
        code, out, err = command(
            ["interval", str(file), "--bounds", "0", "1", "--mu", "1", *words], capsys
        )
        printed.add((code, out, err.replace(str(file), "F")))
        assert str(CANARY) not in err
    assert len(printed) == 1
    ((code, out, err),) = printed
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_errors_by_data_are_the_named_ones_and_quote_nothing() -> None:
    """`MissingValues`, and a list or object column that holds something other than numbers."""
    mean, budget = cdp.Mean((0, 1)), cdp.GDP(1.0)
    for bad in ([CANARY, None], [CANARY, np.nan]):
        with pytest.raises(cdp.ConfidpError, match="missing or non-numeric") as caught:
            cdp.confidence_region(bad, mean, budget=budget)
        assert str(CANARY) not in str(caught.value)
    with pytest.raises(cdp.ConfidpError, match="data must be numbers") as caught:
        cdp.confidence_region([CANARY, "canary"], mean, budget=budget)
    assert "canary" not in str(caught.value)
    # With a stand-in, missing or not makes no difference to what is said.
    said = {
        str(shape_of(cdp.confidence_region(d, mean, budget=budget, rng=1, missing=0.5).to_dict()))
        for d in ([0.5] * N, [0.5] * (N - 1) + [np.nan], [None] * N)
    }
    assert len(said) == 1
