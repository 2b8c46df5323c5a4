"""`confidp simulate`: a rehearsal whose answers are those of the library."""

import json
import re

import numpy as np
import polars as pl
import pytest

from confidp.cli.options import MECHANISMS
from confidp.cli.population import mechanism_of, population_of
from confidp.local.collector import Collector
from confidp.local.population import FAMILIES, Normal, NormalPrior, ScipyFamily
from confidp.local.priors import LogNormalPrior
from confidp.local.simulation import Drawn, rehearse

CANARY = "canary-90210"
NORMAL = ["--population", "normal", "--epsilon", "2"]
QUICK = [*NORMAL, "--truth", "50", "3.162", "--people", "400", "--particles", "100"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a table of 900 people."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {"x": rng.normal(50, 3, 900), "odd": rng.exponential(1.0, 900) ** 3, "text": [CANARY] * 900}
    )
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "holes.csv").write_text("x\n1\n\n\n3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def words(text):
    return " ".join(text.split())


def test_people_see_the_estimate_beside_the_truth_and_the_limit(run):
    code, out, err = run("simulate", *QUICK, "--seed", "7")
    assert (code, err) == (0, "")  # no progress where stderr isn't a terminal
    text = words(out)
    for part in (
        "rehearsal 400 simulated people, in rounds of 4",
        "population normal, mu = 50, sigma = 3.162",
        "each report ε = 2 by itself; response, one of 3 answers",
        "truth mean sd limit 90% interval 95% interval",
        "effective of 100",
    ):
        assert part in text
    assert re.search(r"mu 50\.00 \d+\.\d\d 0\.\d\d 0\.\d\d [\d.]+ to [\d.]+ [\d.]+ to", text)
    assert re.search(r"queries \d+ distinct", text)
    assert "NOT PRIVATE" not in out


def test_programs_get_one_json_object_with_what_the_library_finds(run):
    code, out, err = run("simulate", *QUICK, "--seed", "7", "--round", "50", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    written = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    rng = np.random.default_rng(7)
    collector = Collector(Normal(), epsilon=2.0, n_particles=100, rng=rng)
    people = Drawn(Normal(), np.array([50.0, 3.162]))
    list(rehearse(collector, people, 400, 50, rng))
    posterior, known = collector.posterior, written["parameters"]
    assert [known[name]["mean"] for name in ("mu", "sigma")] == posterior.mean.tolist()
    assert [known[name]["sd"] for name in ("mu", "sigma")] == posterior.sd.tolist()
    assert known["sigma"]["interval_90"] == posterior.interval(0.9)[1].tolist()
    assert known["mu"]["interval_95"] == posterior.interval(0.95)[0].tolist()
    assert written["distinct_queries"] == len(collector.queries)
    assert written["effective_sample_size"] == posterior.effective_sample_size
    assert written["private"] is False
    assert (written["people"], written["round"], written["seed"]) == (400, 50, 7)
    # The limit: σ²/n of 3-ary response's F⁻¹, whose trace is 5.73 for σ = 1 at ε = 2.
    limit = sum(known[name]["limit_sd"] ** 2 for name in ("mu", "sigma"))
    assert limit == pytest.approx(5.73 * 3.162**2 / 400, rel=2e-3)


def test_a_seed_makes_a_run_reproducible_and_none_doesnt(run):
    seeded = [run("simulate", *QUICK, "--seed", s, "--json")[1] for s in (1, 1, 2)]
    assert seeded[0] == seeded[1] != seeded[2]
    assert run("simulate", *QUICK, "--json")[1] != run("simulate", *QUICK, "--json")[1]


def test_a_real_column_is_a_rehearsal_that_is_not_private(run):
    code, out, err = run(
        "simulate", *NORMAL, "--data", "t.csv", "--column", "x", "--seed", "3", "--particles", "200"
    )
    assert (code, err) == (0, "")
    assert out.startswith("NOT PRIVATE  towards whoever runs this")
    text = words(out)
    assert "rehearsal 900 people of x, in rounds of 9" in text
    assert re.search(
        r"fitted to the column without privacy: mu = (49\.|50\.)\d+, sigma = [23]", text
    )
    assert "fit mean sd limit" in text
    assert "caution" not in text


def test_a_family_that_doesnt_suit_the_column_is_cautioned_about(run):
    code, out, _ = run(
        "simulate", "--population", "normal", "--epsilon", "8", "--data", "t.parquet",
        "--column", "odd", "--seed", "3", "--people", "800",
    )  # fmt: skip
    assert code == 0
    assert "the family may not suit the column" in words(out)


def test_every_mechanism_and_policy_is_reached(run):
    for name in MECHANISMS:
        budget = ["--mu", "1"] if "gaussian" in name else ["--epsilon", "2"]
        code, out, err = run(
            "simulate", "--population", "normal", *budget, "--truth", "-5", "2", "--people", "60",
            "--particles", "50", "--mechanism", name, "--policy", "mean", "--json",
        )  # fmt: skip
        assert (code, err) == (0, "")
        written = json.loads(out)
        answers = {"laplace": 33, "gaussian": 64}.get(name.partition("-")[2], 3)
        assert (written["mechanism"], written["answers"]) == (name, answers)
        assert written["policy"] == "mean"
    assert type(mechanism_of("mirrored-laplace", 1.0, None)).__name__ == "Mirrored"


FAMILY_NAMES = {
    "normal": ([], "50 3"), "student-t": ([("df", 4.0)], "50 3"), "logistic": ([], "50 3"),
    "laplace": ([], "50 3"), "log-normal": ([], "2 1"), "exponential": ([], "2"),
    "gamma": ([], "2 3"), "scipy.weibull_min": ([], "2 3"),
}  # fmt: skip


def test_every_family_of_the_library_has_a_name_here():
    named = {type(population_of(name, hold, [])) for name, (hold, _) in FAMILY_NAMES.items()}
    assert named == set(FAMILIES.values())


@pytest.mark.parametrize("name", ["student-t", "exponential", "scipy.weibull_min"])
def test_a_family_takes_its_parameters_in_order(run, name):
    hold, truth = FAMILY_NAMES[name]
    held = [word for pair in hold for word in ("--hold", *pair)]
    code, out, err = run(
        "simulate", "--population", name, *held, "--epsilon", "2", "--truth", *truth.split(),
        "--people", "100", "--round", "50", "--particles", "50", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    known = json.loads(out)["parameters"]
    assert list(known) == list(population_of(name, hold, []).parameters)
    assert [part["truth"] for part in known.values()] == [float(word) for word in truth.split()]


def test_guesses_become_priors():
    family = population_of("normal", [], [("mu", 40.0, 20.0), ("sigma", 10.0, 2.0)])
    assert family == Normal(NormalPrior(40, 20), LogNormalPrior(np.log(10), np.log(2)))
    weibull = population_of("scipy.weibull_min", [("c", 1.5)], [("loc", 3.0, 1.0)])
    assert isinstance(weibull, ScipyFamily)
    assert weibull.parameters == ("scale", "loc")
    assert weibull.priors[1] == NormalPrior(3, 1)
    assert weibull.held == {"c": 1.5}


def test_a_plot_is_drawn_after_the_result(run, folder, monkeypatch):
    code, out, err = run("simulate", *QUICK, "--plot", "p.png")
    assert (code, err) == (0, "")
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    def crash(*arguments, **settings):
        raise OSError("disk full: secret")

    monkeypatch.setattr("confidp.plots.posteriors.plot_posteriors", crash)
    code, out, err = run("simulate", *QUICK, "--plot", "p.png", "--json")
    assert code not in (0, 2)
    assert json.loads(out)["people"] == 400
    assert "secret" not in err


def test_progress_is_shown_on_a_terminal_only(run, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    code, out, err = run("simulate", *QUICK, "--json")
    assert code == 0
    json.loads(out)
    assert "asking" in err


DATA = ["--data", "t.csv", "--column", "x"]
BAD = [
    ([], "Missing option '--population'"),
    (["--population", "normal", "--truth", "0", "1"], "give exactly one of epsilon and mu"),
    ([*QUICK, "--mu", "1"], "give exactly one of epsilon and mu"),
    (NORMAL, "give either --truth, or --data and --column"),
    ([*QUICK, *DATA], "give either --truth"),
    ([*NORMAL, "--data", "t.csv"], "give either --truth"),
    ([*QUICK, "--column", "x"], "give either --truth"),
    ([*NORMAL, "--truth", "50"], "--truth must be mu sigma, not 1 numbers"),
    ([*NORMAL, "--truth", "1", "2", "3"], "--truth must be mu sigma, not 3 numbers"),
    ([*NORMAL, "--truth"], "--truth must be mu sigma, not 0 numbers"),
    ([*NORMAL, "--truth", "50", "-1"], "sigma must be"),
    ([*NORMAL, "--truth", "nan", "1"], "mu must be"),
    ([*NORMAL, "--truth", "fifty"], "(fifty)"),
    (["--population", "bell", "--epsilon", "1"], "--population must be"),
    (["--population", "scipy.bell", "--epsilon", "1"], "a continuous family of SciPy, not 'bell'"),
    (["--population", "scipy-family", "--epsilon", "1"], "--population must be"),
    (["--population", "student-t", "--epsilon", "1"], "--hold must name df"),
    ([*QUICK, "--hold", "df", "4"], "--hold must name nothing"),
    ([*QUICK, "--prior", "scale", "1", "2"], "--prior must name one of mu, sigma"),
    ([*QUICK, "--prior", "sigma", "-1", "2"], "--prior sigma must be"),
    ([*QUICK, "--prior", "sigma", "1", "1"], "--prior sigma's factor must be"),
    ([*QUICK, "--prior", "mu", "1", "0"], "sd must be"),
    ([*QUICK, *["--prior", "mu", "1", "1"] * 2], "--prior must name each parameter once"),
    ([*QUICK, "--criterion", "E"], "--criterion must be A, D or one of mu, sigma"),
    ([*QUICK, "--people", "0"], "--people must be"),
    ([*QUICK, "--round", "0"], "--round must be"),
    ([*QUICK, "--particles", "1"], "n_particles must be"),
    ([*QUICK, "--seed", "-1"], "--seed must be"),
    ([*QUICK, "--mechanism", "magic"], "'--mechanism'"),
    ([*QUICK, "--mechanism", "truncated-gaussian"], "must come with --mu"),
    ([*QUICK, "--policy", "magic"], "'--policy'"),
    ([*QUICK, "--plot", "p.exe"], "--plot must end in"),
    ([*QUICK, "--plot", "nowhere/p.png"], "--plot must be in a folder"),
    ([*NORMAL, "--data", "none.csv", "--column", "x"], "file 'none.csv' doesn't exist"),
    ([*NORMAL, "--data", "t.csv", "--column", "y"], "column 'y' is not in the first line of t.csv"),
    ([*NORMAL, "--data", "t.csv", "--column", "text"], "data have missing"),
    ([*NORMAL, "--data", "t.parquet", "--column", "text"], "must be numbers"),
    ([*NORMAL, "--data", "holes.csv", "--column", "x"], "data have missing"),
    ([*NORMAL, *DATA, "--people", "901"], "--people must be at most 900"),
    (["--population", "normal", "--truth", "0", "1", "--epsilon", "23"], "epsilon must be"),
    (["--population", "normal", "--truth", "0", "1", "--mu", "0"], "mu must be"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[f"{b[1]}" for b in BAD])
def test_bad_input_is_one_line_on_stderr_with_exit_code_2(run, folder, arguments, message):
    code, out, err = run("simulate", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: .*\n", err)
    assert message in err
    assert CANARY not in err
    assert not list(folder.glob("p.*"))
