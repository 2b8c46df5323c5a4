"""The table of speeds: how a ratio is made, and every part of the script at a small size."""

import csv

import comparison
import pytest
import speed
from comparison import Comparison, row_of
from papers.one_shot_private_confidence_regions.cells import make_method


@pytest.fixture
def spend(monkeypatch):
    """Make runs that take so many seconds by a clock of their own."""
    now = [0.0]
    monkeypatch.setattr(comparison, "clock", lambda: now[0])

    def run(seconds, result=None):
        def side():
            now[0] += seconds.pop(0) if isinstance(seconds, list) else seconds
            return result

        return side

    return run


def test_a_ratio_is_of_median_times_after_a_run_that_isnt_timed(spend):
    ours, other = spend([99.0, 1.0, 30.0, 2.0]), spend([99.0, 4.0, 4.0, 0.0])
    measured = Comparison("a", "b", 1, ours, other, repeats=3).measure()
    assert (measured.ours, measured.other, measured.ratio) == (2, 4, 0.5)


def test_the_other_side_may_be_a_number_of_seconds(spend):
    assert Comparison("a", "5 seconds", 1, spend(2.0), 5.0, repeats=3).measure().ratio == 0.4


def test_a_ratio_at_equal_accuracy_counts_the_time_that_the_same_error_takes(spend):
    def errors(ours, other):
        assert (ours, other) == (["mine"] * 3, ["theirs"] * 3)
        return 0.1, 0.2

    sides = spend(3.0, "mine"), spend(6.0, "theirs")
    measured = Comparison("a", "b", 1, *sides, repeats=3, errors=errors).measure()
    assert measured.ratio == pytest.approx(3 / (6 * 4))
    assert "0.100 and 0.200" in measured.note


def test_a_missing_peer_is_said_and_nothing_runs(monkeypatch):
    def run():
        raise AssertionError

    monkeypatch.setitem(comparison.PEERS, "no_such_module", "some-package")
    row = row_of(Comparison("a", "b", 1, run, run, needs="no_such_module"), "versions")
    assert row["note"] == "not run: some-package isn't installed (`make bench` installs it)"
    assert row["time_ratio"] == row["seconds"] == row["seconds_beside"] == ""


# Fresh processes and 300 fits would take most of the time.
PARTS = set(speed.PARTS) - {"imports", "regressions", "billions"}  # the slow ones


@pytest.fixture
def small(monkeypatch):
    for name, value in {
        "N": 2000, "B": 50, "MILLION": 2000, "PEOPLE": 20, "PARTICLES": 50, "QUERIES": 3, "RUNS": 2,
    }.items():  # fmt: skip
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(
        Comparison, "__post_init__", lambda c: object.__setattr__(c, "repeats", 1), raising=False
    )


def test_every_part_runs(small, tmp_path):
    out = tmp_path / "speed.csv"
    speed.main(["--out", str(out), "--only", *PARTS])
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len({(row["work"], row["beside"]) for row in rows}) == len(rows) == 25
    for row in rows:
        missing = row["note"].startswith("not run")
        assert missing or float(row["time_ratio"]) > 0
        assert missing or float(row["seconds"]) > 0


def test_blbquant_is_timed_with_the_papers_settings(small, monkeypatch):
    released = []
    monkeypatch.setattr(speed, "BLBQuant", lambda **given: released.append(given) or method)
    method, _, _ = make_method("uniform_mean", speed.N, "blbquant")
    list(speed.competitors(speed.np.random.default_rng(1)))
    assert [type(method)(**given) for given in released] == [method]
