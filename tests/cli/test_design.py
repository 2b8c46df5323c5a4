"""`confidp design`: the best query, what a report tells, and how many people it takes."""

import json
import math
import re

import pytest

NORMAL = ["--population", "normal", "--epsilon", "1", "--no-bound"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def words(text):
    return " ".join(text.split())


def test_people_get_the_best_cuts_the_table_and_the_people_needed(run):
    code, out, err = run("design", *NORMAL, "--at", "50", "2", "--se", "0.1")
    assert (code, err) == (0, "")
    text = words(out)
    assert "population normal, mu = 50, sigma = 2" in text
    assert re.search(r"best to ask 3-ary response; cuts at 48\.59\d*, 51\.40\d*", text)
    # tr F⁻¹ is 21.07 for σ = 1; people: the larger of the two variances, over 0.1².
    assert re.search(r"3-ary response 84\.28 [\d.]+ [\d.]+ [\d.]+ 4,6\d\d ", text)
    assert "no privacy 6 " in text
    assert "for a standard error of 0.1 or less in each parameter" in text
    assert "bound" not in text


def test_the_bound_is_printed_with_what_it_says(run):
    code, out, err = run("design", "--population", "exponential", "--epsilon", "1")
    assert (code, err) == (0, "")
    text = words(out)
    assert "best found of all channels" in text
    found = re.search(r"no ε-DP channel that sees a value through (\d+) cells has a loss .*", text)
    assert 80 <= int(found[1]) <= 85
    below, best = re.search(r"below ([\d.]+); the best found has ([\d.]+)", text).groups()
    assert float(below) <= float(best) <= 1.003 * float(below)


def test_programs_get_one_json_object_and_nothing_else(run):
    code, out, err = run("design", *NORMAL, "--criterion", "mu", "--se", "0.5", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    written = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    first = written["mechanisms"][0]
    assert written["at"] == [0.0, 1.0]
    assert written["parameters"] == ["mu", "sigma"]
    assert written["best_found"] is None
    assert first["loss"] == pytest.approx(first["variances"][0])
    assert first["people"] == [math.ceil(v / 0.25) for v in first["variances"]]
    assert written["no_privacy"]["trace"] == pytest.approx(1.5, rel=1e-3)
    losses = [told["loss"] for told in written["mechanisms"]]
    assert losses == sorted(losses)


def test_criteria_change_what_is_best(run):
    cuts = {}
    for criterion in ("A", "mu"):
        _, out, _ = run("design", *NORMAL, "--criterion", criterion, "--json")
        cuts[criterion] = json.loads(out)["mechanisms"][0]["knots"][-1]
    assert len({round(cut, 2) for cut in cuts.values()}) == 2
    assert cuts["A"] == pytest.approx(0.70, abs=5e-3)


def test_under_gdp_there_is_no_bound(run):
    code, out, err = run("design", "--population", "exponential", "--mu", "1", "--json")
    assert (code, err) == (0, "")
    written = json.loads(out)
    assert written["best_found"] is None
    assert "truncated Gaussian" in {told["mechanism"] for told in written["mechanisms"]}


def test_a_plot_is_drawn(run, folder):
    code, out, err = run("design", *NORMAL, "--plot", "p.svg")
    assert (code, err) == (0, "")
    assert "best to ask" in out
    assert (folder / "p.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--population'"),
        (["--population", "normal"], "give exactly one of epsilon and mu"),
        ([*NORMAL, "--mu", "1"], "give exactly one of epsilon and mu"),
        ([*NORMAL, "--at", "1"], "--at must be mu sigma"),
        ([*NORMAL, "--at", "1", "0"], "sigma must be"),
        ([*NORMAL, "--se", "0"], "--se must be"),
        ([*NORMAL, "--se", "inf"], "--se must be"),
        ([*NORMAL, "--criterion", "B"], "--criterion must be"),
        ([*NORMAL, "--plot", "p.exe"], "--plot must end in"),
        (["--population", "bell", "--epsilon", "1"], "--population must be"),
    ],
)
def test_bad_input_is_one_line_on_stderr_with_exit_code_2(run, folder, arguments, message):
    code, out, err = run("design", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .*\n", err)
    assert message in err
    assert not list(folder.glob("p.*"))
