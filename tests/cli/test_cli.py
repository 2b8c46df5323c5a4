"""The command line: an answer for people, one JSON object, or one line that says what is wrong."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import confidp
from confidp import GDP, Ledger
from confidp.central.resampling import IndexSets, MultiplicityExceeded

COMMAND = Path(sys.executable).with_name("confidp")
CANARY = "canary-90210"
BOUNDS = ["--bounds", "0", "100"]
QUICK = [*BOUNDS, "--mu", "1", "--resamples", "20"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a table of 300 people."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "age": rng.integers(18, 90, 300),
            "income [usd]": rng.uniform(0, 100, 300),
            "[/x] $\\foo$ :smile:": rng.uniform(0, 100, 300),
            "n" * 120: rng.uniform(0, 100, 300),
            "text": [CANARY] * 300,
            "holes": [None, *rng.uniform(0, 100, 299)],
        }
    )
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "one.csv").write_text("age\n5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def interval(run):
    return lambda *more, file="t.csv", column="age": run(
        "interval", file, "--column", column, *QUICK, *more
    )


def words(text):
    return " ".join(text.split())


def test_the_installed_command_prints_an_interval_and_its_errors():
    good = subprocess.run(
        [COMMAND, "interval", "t.parquet", "--column", "age", *QUICK],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (good.returncode, good.stderr) == (0, "")
    assert "mean of age" in good.stdout
    bad = subprocess.run(
        [COMMAND, "interval", "t.csv", "--column", "wage", *QUICK],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    refusal = r"error: column 'wage' is not in the first line of t\.csv, .*\n"
    assert re.fullmatch(refusal, bad.stderr)


def test_an_answer_survives_a_terminal_that_has_no_greek():
    done = subprocess.run(
        [COMMAND, "interval", "t.csv", "--column", "age", *QUICK],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"95% interval" in done.stdout


def test_people_get_the_estimate_the_interval_its_meaning_cost_and_assumptions(interval):
    code, out, err = interval()
    assert (code, err) == (0, "")
    text = words(out)
    assert re.search(r"mean of age [\d.]+ 95% interval [\d.-]+ to [\d.]+", text)
    for part in (
        "what it means Where the assumptions below hold, about 95% of intervals made this way",
        "the mean of the population that these 300 rows were drawn from",
        "what it cost μ = 1 (ε = 4.89 at δ = 1e-6) for each row",
        "5% false alarms, recognises what the last row says at most 26% of the time",
        "how private variance; privacy noise of",
        "what it assumes • one row is one person",
        "the bounds come from public knowledge",
    ):
        assert part in text
    assert "NOT PRIVATE" not in out
    assert "remains" not in out


def test_programs_get_one_json_object_and_nothing_else(interval):
    code, out, err = interval("--json", "--level", "0.9")
    assert (code, err, out.count("\n")) == (0, "", 1)
    written = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    ((low, high),) = written["intervals"]
    assert low <= written["center"][0] <= high
    assert written["confidence_level"] == 0.9
    assert written["spent"]["mu"] == 1.0
    assert written["private"] is True
    assert written["statistic"] == {
        "statistic": "mean",
        "bounds": [[0.0, 100.0]],
        "resolution": None,
    }


def test_a_seeded_run_says_that_it_is_not_private(interval):
    _, out, _ = interval("--seed", 7)
    assert out.startswith("NOT PRIVATE")
    (_, first, _), (_, second, _) = interval("--seed", 7, "--json"), interval("--seed", 7, "--json")
    assert first == second
    assert json.loads(first)["private"] is False


def test_the_command_line_gives_what_the_library_gives(interval):
    _, out, _ = interval("--seed", 7, "--json", "--resolution", 1)
    region = confidp.confidence_region(
        pl.read_csv("t.csv")["age"],
        confidp.Mean((0, 100), 1),
        budget=GDP(1.0),
        n_resamples=20,
        rng=7,
    )
    assert json.loads(out) == region.to_dict()


WITH_REPLACEMENT = ["--method", "cr-gs-published", "--sampling", "with_replacement"]


def test_a_quantile_takes_a_delta_and_cautions_where_noise_is_not_small(run):
    code, out, _ = run(
        "interval", "t.csv", "--column", "age", "--bounds", "0", "100", "--mu", "1",
        "--delta", "1e-6", "--statistic", "quantile", "--q", "0.9", "--resamples", "20",
        "--method", "cr-ss-published",
    )  # fmt: skip
    assert code == 0
    assert "0.9-quantile of age" in out
    assert "CR-SS" in out
    assert "caution" in out


AGE = ("interval", "t.csv", "--column", "age", "--bounds", "0", "100", "--mu", "2")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--statistic", "variance"], ["variance of age", "95% interval", "delta method"]),
        (["--statistic", "standard-deviation", "--floor", "1"], ["standard deviation of age"]),
        (["--statistic", "mean-difference"], ["of age", "private variance"]),
        (["--alternative", "greater"], ["95% lower bound", "lower bounds like it hold"]),
        (["--alternative", "less", "--statistic", "median"], ["95% upper bound"]),
        (
            ["--statistic", "quantile", "--q", "0.9", "--q", "0.1"],
            ["0.1-quantile of age", "0.9-quantile of age", "all intervals together"],
        ),
    ],
)
def test_every_statistic_and_alternative_is_answered_in_words(run, options, words):
    code, out, err = run(*AGE, *options)
    assert code == 0, err
    plain = " ".join(out.split())
    for word in words:
        assert word in plain


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--statistic", "variance", "--q", "0.5"], "--q must come with"),
        (["--floor", "1"], "--floor must come with"),
        (["--statistic", "standard-deviation"], "--floor must come with"),
        (
            ["--statistic", "quantile", "--q", "0.1", "--q", "0.5", "--plot", "p.png"],
            "--plot draws one interval",
        ),
        (["--alternative", "less", "--method", "cr-gs-published"], "alternative must be"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run, options, complaint):
    code, out, err = run(*AGE, *options)
    assert code == 2
    assert complaint in err
    assert not out


def test_options_reach_the_release(run):
    code, out, _ = run(
        "interval", "t.csv", "--column", "holes", "--bounds", "-50", "100", "--missing", "-3.5",
        "--epsilon", "1", "--delta", "1e-6", "--method", "cr-gs-published",
        "--sampling", "with_replacement", "--resamples", "10", "--json",
    )  # fmt: skip
    assert code == 0
    written = json.loads(out)
    assert written["method"] == "CR-GS (published, with replacement)"
    assert written["public"]["n_resamples"] == 10
    assert written["statistic"]["bounds"] == [[-50.0, 100.0]]
    assert GDP(**written["spent"]).epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("column", ["income [usd]", "[/x] $\\foo$ :smile:", "n" * 120])
def test_a_column_of_any_name_is_printed_drawn_and_kept(interval, run, column):
    run("ledger", "l", "--create", "--mu", 2)
    code, out, err = interval("--plot", "p.png", "--ledger", "l", column=column)
    assert (code, err) == (0, "")
    assert column[:33] in out
    assert "what it means Where the assumptions" in words(out)
    code, out, err = run("ledger", "l")
    assert (code, err) == (0, "")
    assert column.split()[0][:20] in out


BAD = [
    ([], "Missing argument 'FILE'"),
    (["t.csv"], "Missing option '--column'"),
    (["t.csv", "--column", "age", "--mu", "1"], "Missing option '--bounds'"),
    (["none.csv", "--column", "age", *QUICK], "file 'none.csv' doesn't exist"),
    ([".", "--column", "age", *QUICK], "file must end in"),
    (["t.csv", "--column", "wage", *QUICK], "column 'wage' is not in the first line of t.csv"),
    (["t.parquet", "--column", "text", *QUICK], "column 'text' must be numbers, not text"),
    (["t.csv", "--column", "text", *QUICK], "data have missing or non-numeric values"),
    (["t.csv", "--column", "holes", *QUICK], "data have missing or non-numeric values"),
    (["one.csv", "--column", "age", *QUICK], "data must have at least 2 rows, not 1"),
    (["t.csv", "--column", "age", *BOUNDS], "a budget must be given"),
    (["t.csv", "--column", "age", *BOUNDS, "--mu", "0"], "mu must be"),
    (["t.csv", "--column", "age", *BOUNDS, "--mu", "nan"], "mu must be"),
    (["t.csv", "--column", "age", *BOUNDS, "--mu", "inf"], "mu must be"),
    (["t.csv", "--column", "age", *BOUNDS, "--mu", "one"], "'--mu': 'one' is not a valid float"),
    (["t.csv", "--column", "age", *BOUNDS, "--epsilon", "1"], "a budget must be given"),
    (["t.csv", "--column", "age", *QUICK, "--delta", "1"], "delta must be"),
    (["t.csv", "--column", "age", *QUICK, "--epsilon", "1"], "a budget must be given"),
    (["t.csv", "--column", "age", *QUICK, "--q", "0.5"], "--q must come with"),
    (["t.csv", "--column", "age", *QUICK, "--statistic", "quantile"], "--q must come with"),
    (["t.csv", "--column", "age", *QUICK, "--statistic", "median", "--method", "cr-ss"], "a delta"),
    (["t.csv", "--column", "age", *QUICK, "--sampling", "with_replacement"], "--sampling must"),
    (["t.csv", "--column", "age", *BOUNDS, "--epsilon", "1", "--delta", "0"], "delta must be"),
    (["t.csv", "--column", "age", "--bounds", "100", "0", "--mu", "1"], "bounds must be"),
    (["t.csv", "--column", "age", "--bounds", "5", "5", "--mu", "1"], "bounds must be"),
    (["t.csv", "--column", "age", "--bounds", "0", "inf", "--mu", "1"], "bounds must be"),
    (["t.csv", "--column", "age", "--bounds", "nan", "1", "--mu", "1"], "bounds must be"),
    (["t.csv", "--column", "age", "--bounds", "0", "--mu", "1"], "'--bounds'"),
    (["t.csv", "--column", "age", *QUICK, "--level", "95"], "confidence_level must be"),
    (["t.csv", "--column", "age", *QUICK, "--level", "0"], "confidence_level must be"),
    (["t.csv", "--column", "age", *QUICK, "--resolution", "7"], "resolution must divide"),
    (["t.csv", "--column", "age", *QUICK, "--resamples", "0"], "n_resamples must be"),
    (["t.csv", "--column", "age", *QUICK, "--missing", "mean"], "missing must be"),
    (["t.csv", "--column", "age", *QUICK, "--missing", "nan"], "missing must be"),
    (["t.csv", "--column", "age", *QUICK, "--missing", "101"], "missing must lie inside"),
    (["t.csv", "--column", "age", *QUICK, "--statistic", "mode"], "'--statistic'"),
    (["t.csv", "--column", "age", *QUICK, "--method", "magic"], "'--method'"),
    (["t.csv", "--column", "age", *QUICK, "--plot", "p.exe"], "--plot must end in"),
    (["t.csv", "--column", "age", *QUICK, "--plot", "nowhere/p.png"], "--plot must be in a folder"),
    (["t.csv", "--column", "age", *QUICK, "--plot", "folder.png"], "--plot must be a file"),
    (["t.csv", "--column", "age", *QUICK, "--seed", "-1"], "rng must be a seed"),
    (["t.csv", "--column", "age", *QUICK, "--seed", "7"], "rng must be None with a ledger"),
    (["t.csv", "--column", "age", *QUICK, "--shout"], "No such option '--shout'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[f"{a[3:]}" for a, _ in BAD])
def test_bad_input_is_one_line_on_stderr_with_exit_code_2_and_nothing_is_charged(
    run, folder, arguments, message
):
    (folder / "folder.png").mkdir()
    ledger = Ledger.create("l", GDP(1.0))
    code, out, err = run("interval", *arguments, "--ledger", "l")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert CANARY not in err
    assert ledger.spent is None
    assert not list(folder.glob("p.*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["ledger"], "Missing argument 'L'"),
        (["ledger", "none"], "none"),
        (["ledger", "t.csv"], "t.csv"),
        (["ledger", "l", "--create"], "a budget must be given"),
        (["ledger", "l", "--create", "--mu", "-1"], "mu must be"),
        (["ledger", "l", "--create", "--mu", "1", "--show", "1"], "--show must come without"),
        (["ledger", "there", "--create", "--mu", "1"], "there"),
        (["ledger", "there", "--mu", "1"], "must come with --create"),
        (["ledger", "there", "--show", "1"], "number must be that of a charge, not 1"),
        (["ledger", "there", "--show", "0"], "number must be"),
        (["interval", "t.csv", "--column", "age", *QUICK, "--ledger", "none"], "none"),
    ],
)
def test_bad_ledger_input_is_one_line_too_and_makes_no_file(run, folder, arguments, message):
    Ledger.create("there", GDP(1.0))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .*\n", err)
    assert message in err
    assert not (folder / "l").exists()
    assert not (folder / "none").exists()


def test_a_ledger_is_made_charged_listed_shown_and_exhausted(run, interval):
    code, out, err = run("ledger", "l", "--create", "--mu", "1.2")
    assert (code, err) == (0, "")
    assert "nothing spent yet" in out
    assert re.search(r"remaining +μ = 1\.2 ", out)

    _, before, _ = interval("--ledger", "l")
    assert re.search(r"what remains +μ = 0\.6633 ", before)

    code, out, err = run("ledger", "l")
    assert (code, err) == (0, "")
    assert "mean of t.csv: age" in words(out)
    assert re.search(r"spent +μ = 1 ", out)
    assert "one row is one person" in out

    _, shown, _ = run("ledger", "l", "--show", "1")  # for free
    result = re.search(r"95% interval +(.*\d)", before)[1]
    assert result in shown
    assert result in words(out) or result.split(" to ")[0] in out
    _, shown, _ = run("ledger", "l", "--show", "1", "--json")
    assert json.loads(shown)["statistic"]["statistic"] == "mean"

    code, out, err = interval("--ledger", "l")
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"error: a charge of mu = 1\.0, .* exceeds what remains: mu = 0\.66.*\n", err
    )

    _, out, _ = run("ledger", "l", "--json")
    listed = json.loads(out)
    assert listed["total"] == {"mu": 1.2, "delta": 1e-9}
    assert listed["spent"]["mu"] == 1.0
    assert math.isclose(listed["remaining"]["mu"], math.sqrt(0.44))
    assert [entry["number"] for entry in listed["entries"]] == [1]
    assert listed["entries"][0]["released"]["private"] is True


def test_a_ledger_may_have_a_total_in_epsilon_and_delta(run, interval):
    run("ledger", "l", "--create", "--epsilon", "1", "--delta", "1e-6")
    total = Ledger.open("l").total
    assert 0.99 < total.epsilon(1e-6) <= 1.0
    code, _, err = run(
        "interval", "t.csv", "--column", "age", *BOUNDS, "--ledger", "l",
        "--epsilon", "0.99", "--delta", "1e-6", "--resamples", "20",
    )  # fmt: skip
    assert (code, err) == (0, "")


def test_a_ledger_that_other_programs_wrote_to_is_listed(run):
    ledger = Ledger.create("l", GDP(1.0, 0.7), unit="one [/household] is one row")
    ledger.charge(GDP(0.1), {})
    ledger.charge(GDP(0.1), {"statistic": "[bold]mode", "data": None})
    ledger.record(2, {"interval": [41.2, 43.9]})
    code, out, err = run("ledger", "l")
    assert (code, err) == (0, "")
    for part in ("? of unnamed data", "[bold]mode", "no result recorded", "one [/household]"):
        assert part in words(out)
    code, out, err = run("ledger", "l", "--show", "1")
    assert (code, out) == (2, "")
    assert "has none" in err
    assert run("ledger", "l", "--show", "2", "--json")[:2] == (0, '{"interval": [41.2, 43.9]}\n')


@pytest.mark.parametrize(
    ("name", "magic"), [("p.png", b"\x89PNG\r\n\x1a\n"), ("P.PDF", b"%PDF-"), ("p.svg", b"<?xml")]
)
def test_a_plot_is_a_picture_of_the_kind_its_name_says(interval, folder, name, magic):
    code, out, err = interval("--plot", name)
    assert (code, err) == (0, "")
    assert "95% interval" in out
    assert (folder / name).read_bytes().startswith(magic)


def test_a_plot_of_no_result_is_drawn_too(interval, folder, monkeypatch):
    def exceeded(sets, largest):
        raise MultiplicityExceeded

    monkeypatch.setattr(IndexSets, "check", exceeded)
    code, out, err = interval("--plot", "p.png", *WITH_REPLACEMENT)
    assert (code, err) == (0, "")
    assert "no result" in out
    assert (folder / "p.png").exists()


@pytest.mark.parametrize(
    ("where", "charged"),
    [
        ("confidp.io.files.read_column", False),
        ("confidp.central.statistics.mean.Mean.encode", True),
        ("confidp.privacy.noise._noise", True),
    ],
)
def test_an_internal_error_says_its_type_and_never_its_message(
    interval, monkeypatch, where, charged
):
    def crash(*arguments):
        raise RuntimeError("secret 12345")

    ledger = Ledger.create("l", GDP(2.0))
    monkeypatch.setattr(where, crash)
    code, out, err = interval("--ledger", "l")
    assert code not in (0, 2)
    assert out == ""
    assert re.fullmatch(r"error: internal error \(RuntimeError\).*\n", err)
    assert "12345" not in err
    assert (ledger.spent is not None) is charged


def test_a_plot_that_fails_after_the_release_loses_no_result(interval, monkeypatch):
    def crash(*arguments):
        raise OSError("disk full: secret")

    monkeypatch.setattr("confidp.plots.regions.plot_intervals", crash)
    code, out, err = interval("--plot", "p.png", "--json")
    assert code not in (0, 2)
    assert json.loads(out)["private"] is True
    assert "secret" not in err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["interval", "--help"]])
def test_help_is_on_stdout(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: confidp")


def test_the_version_is_printed(run):
    assert run("--version")[:2] == (0, f"confidp, version {confidp.__version__}\n")
