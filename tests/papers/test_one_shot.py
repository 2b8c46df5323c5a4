"""The short version of the one-shot paper: the scripts' own code on fewer data sets."""

import csv
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from papers.one_shot_private_confidence_regions import cells, figures, overhead, tables
from papers.one_shot_private_confidence_regions.cells import EXPERIMENTS, Cell, run_cell
from papers.one_shot_private_confidence_regions.tables import Task, printed
from scipy.stats import binomtest, norm

from confidp.central.methods.method import Request

FALSE_ALARM = 1e-6
Z = norm.isf(FALSE_ALARM / 2)
N = 2000

# Population, method, data sets, and how far the mean length may be from print.
AS_PRINTED = [
    *((e, m, 30, 0.03) for e in ("bernoulli_mean", "uniform_mean") for m in ("cr_wr", "cr_wor")),
    *((e, "dette_graw", 20, 0.03) for e in ("bernoulli_mean", "uniform_mean")),
    *((e, "blbquant", 20, 0.06) for e in ("bernoulli_mean", "uniform_mean")),
    # Table 4a says Uniform[−1, 1]; its lengths are those of another population (README).
    *(("median_normal", m, 20, 0.03) for m in ("dette_graw", "cr_wor")),
]


@pytest.mark.parametrize(("experiment", "method", "data_sets", "allowed"), AS_PRINTED)
def test_lengths_are_those_printed_and_coverage_is_compatible(
    experiment, method, data_sets, allowed
):
    cell = run_cell(experiment, N, 8.0, method, data_sets)
    paper = printed()[experiment, N, method]
    assert len(cell.lengths) == data_sets
    # Within a share of the printed length, plus this run's own Monte Carlo error.
    off = abs(cell.lengths.mean() - paper["mean_length"])
    assert off <= allowed * paper["mean_length"] + Z * cell.length_error
    # The printed coverage itself is of 400 data sets: allow it its own error too.
    count = int(cell.covered.sum())
    assert binomtest(count, data_sets, paper["coverage"] - 0.03).pvalue > FALSE_ALARM


def test_table_4a_is_not_of_the_population_it_names():
    cell = run_cell("median", N, 8.0, "dette_graw", 20)
    length = printed()["median", N, "dette_graw"]["mean_length"]
    assert cell.lengths.mean() > 1.2 * length + Z * cell.length_error


@pytest.mark.parametrize("experiment", ["uniform_mean", "degenerate_u"])
def test_calibrated_methods_cover_at_small_budgets(experiment):
    for method in ("private_variance", "half_centred"):
        if method in EXPERIMENTS[experiment].own:
            cell = run_cell(experiment, N, 0.5, method, 60)
            assert binomtest(int(cell.covered.sum()), 60, 0.88).pvalue > FALSE_ALARM
            floor = run_cell(experiment, N, math.inf, "non_private", 60)
            assert floor.lengths.mean() < cell.lengths.mean() < 4 * floor.lengths.mean()


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_non_private_interval_covers(experiment):
    cell = run_cell(experiment, N, math.inf, "non_private", 1500)
    assert binomtest(int(cell.covered.sum()), 1500, 0.9).pvalue > FALSE_ALARM


def test_every_method_of_the_tables_gives_a_region():
    for experiment in EXPERIMENTS:
        for method in cells.methods_for(experiment):
            cell = run_cell(experiment, 1000, 8.0, method, 1, n_resamples=20)
            assert len(cell.lengths) == 1


def test_settings_are_the_paper_s():
    levels = {e: cells.make_method(e, N, "cr_wr")[2] for e in EXPERIMENTS}
    assert levels == {e: 0.91 if "median" in e else 0.90 for e in EXPERIMENTS}
    for experiment in EXPERIMENTS:
        method, statistic, level = cells.make_method(experiment, N, "blbquant")
        request = Request(N, 8.0, level, 500, 1e-6)
        public = method.plan(statistic.for_shape(N, 1), request).public
        assert (public["blocks"], public["inner_resamples"], public["grid_step"]) == (
            13,
            100,
            1 / N,
        )
        method, statistic, level = cells.make_method(experiment, N, "cr_wr")
        public = method.plan(statistic.for_shape(N, 1), request).public
        assert public["resample_size"] == math.ceil(N / math.log(N)) == 264
        assert public["failure_probability"] == 1 / N
    assert EXPERIMENTS["median"].bounded.sensitivity(N) == 2
    assert EXPERIMENTS["median"].bounded.value(np.array([[5.0], [1], [3], [2]])) == 2
    assert (cells.N_RESAMPLES, cells.LEVEL, cells.DELTA) == (500, 0.9, 1e-6)


def test_cells_share_data_sets_and_can_be_repeated():
    first, again = (run_cell("median", 200, 8.0, "rank_inversion", 3) for _ in range(2))
    assert (first.lengths == again.lengths).all()
    assert (cells.data_set("median", 200, 1) == cells.data_set("median", 200, 1)).all()
    assert (cells.data_set("median", 200, 1) != cells.data_set("median", 200, 2)).any()


def test_a_cell_that_takes_too_long_stops_at_forty():
    cell = run_cell("uniform_mean", 100, 8.0, "private_variance", 100, seconds=0)
    whole = run_cell("uniform_mean", 100, 8.0, "private_variance", 100)
    assert (cell.data_sets, whole.data_sets) == (40, 100)
    assert (cell.lengths == whole.lengths[:40]).all()


def test_coverage_intervals_are_clopper_and_pearson_s():
    # The ends are where 9 of 10 or more, and 9 or fewer, have probability 0.025.
    cell = Cell(np.arange(10) > 0, np.ones(10), 1.0)
    low, high = cell.coverage_interval
    assert 10 * low**9 * (1 - low) + low**10 == pytest.approx(0.025, abs=1e-6)
    assert 1 - high**10 == pytest.approx(0.025, abs=1e-6)


def test_tables_resume_where_they_stopped(tmp_path, monkeypatch):
    calls = []

    def fake(experiment, n, mu, method, data_sets, seconds):
        calls.append((experiment, n, mu, method, data_sets))
        return Cell(np.ones(data_sets, dtype=bool), np.full(data_sets, 0.1), 1.0)

    monkeypatch.setattr(tables, "run_cell", fake)
    out = tmp_path / "new" / "tables.csv"
    command = ["--n", "2000", "--mu", "8", "0.5", "--out", str(out)]
    tables.main(command)
    # 8 methods at two budgets, and one row without privacy, for each population.
    assert len(calls) == len(set(calls)) == 5 * (2 * 8 + 1)
    tables.main(command)
    assert len(calls) == 85
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:20] + lines[21:]))
    tables.main(command)
    assert len(calls) == 86
    assert calls[-1] == calls[19]
    tables.main([*command, "--experiments", "median", "--data-sets", "500"])
    assert len(calls) == 86 + 17
    assert {int(row["data_sets"]) for row in tables.read(out).values()} == {400, 500}
    row = tables.read(out)["bernoulli_mean", 2000, 8.0, "cr_wr"]
    assert float(row["length_ratio"]) == pytest.approx(0.1 / 0.01592, rel=1e-3)
    assert tables.read(out)["bernoulli_mean", 2000, 0.5, "cr_wr"]["length_ratio"] == ""


def test_rows_appended_at_once_stay_whole(tmp_path):
    out = tmp_path / "tables.csv"
    tables.append(out, {"a": 0, "b": "x" * 300})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: tables.append(out, {"a": i, "b": "x" * 300}), range(1, 200)))
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert sorted(int(row["a"]) for row in rows) == list(range(200))
    assert {len(row["b"]) for row in rows} == {300}


def test_what_tells_most_for_its_time_comes_first():
    found = tables.tasks(EXPERIMENTS, tables.SIZES, tables.BUDGETS, cells.NAMES, 400, 1.0)
    # 8 methods at 5 budgets, and one row without privacy, for 5 populations and 6 sizes.
    assert len({task.key for task in found}) == len(found) == 5 * 6 * (8 * 5 + 1)
    assert {t.n for t in found[:20]} == {2000}
    assert {t.mu for t in found[:20]} >= {8.0, 0.25}
    assert {t.method for t in found[-100:]} <= set(cells.COMPETITORS)


def test_noise_of_cr_gs_does_not_grow_with_b_and_that_of_noisy_resamples_does():
    n, mu, ends = overhead.N_OF_B, overhead.MU_OF_B, (50, 5000)
    for sampling, most in ((overhead.WITHOUT, 0.0), (overhead.WITH, 0.05)):
        least, largest = (overhead.published_noise(sampling, n, mu, b) for b in ends)
        assert 0 <= math.log(largest / least) / math.log(100) <= most
    for method, between in ((overhead.ssvhl25, (0.45, 0.55)), (overhead.dette_graw, (0.3, 0.5))):
        least, largest = (method(n, mu, b)[0] for b in ends)
        assert between[0] < math.log(largest / least) / math.log(100) < between[1]


def test_published_noise_is_that_of_the_theorem():
    n, m, mu, b = 5000, 700, 2.0, 500
    kappa = overhead.multiplicity(n, m, b)
    for sampling, times in ((overhead.WITH, kappa), (overhead.WITHOUT, 1)):
        # σ/τ_n = √2·√(m/n)·(κΔ_m + Δ_n)/μ, over z/√(3n).
        noise = math.sqrt(2 * m / n) * (times * 2 / m + 2 / n) / mu
        radius = norm.ppf(0.95) / math.sqrt(3 * n)
        found = overhead.published_noise(sampling, n, mu, b, m)
        assert found == pytest.approx(noise / radius, rel=1e-6)


def test_widths_computed_are_widths_simulated():
    n, mu, b, data_sets = 2000, 1.0, 200, 30
    floor = run_cell("uniform_mean", n, math.inf, "non_private", data_sets).lengths.mean()
    for method, computed in (
        ("dette_graw_sound", overhead.dette_graw(n, mu, b)[1]),
        ("ssvhl25", overhead.ssvhl25(n, mu, b)[1]),
    ):
        cell = run_cell("uniform_mean", n, mu, method, data_sets, n_resamples=b)
        # 2% for quantiles of 200 resamples, which are of their own bias.
        slack = 0.02 * computed + Z * cell.length_error / floor
        assert abs(cell.lengths.mean() / floor - computed) < slack, method


def test_the_noise_aware_width_covers_with_both_noises():
    n, mu, draws = 2000, 0.5, 400_000
    rng = np.random.default_rng(0)
    error = 1 / math.sqrt(3 * n)
    # The published center noise is √2·(2/n)/μ; at m = n/2 the pivots move by 2/n as well.
    noise = math.sqrt(2) * 2 / n / mu
    reach = overhead.noise_aware_width(overhead.WITHOUT, n, mu, 500) * norm.ppf(0.95) * error
    off = np.abs(rng.normal(0, math.hypot(error, noise), draws))
    covered = int((off <= reach + noise * rng.standard_normal(draws)).sum())
    assert binomtest(covered, draws, 0.9).pvalue > FALSE_ALARM


def test_figures_and_tables_are_drawn_from_what_there_is(tmp_path):
    task = Task("median", 2000, 8.0, "rank_inversion", 2, 1.0)
    for method in ("rank_inversion", "cr_wr", "cr_wor"):
        tables.append(tmp_path / "tables.csv", tables.run(Task("median", 2000, 8.0, method, 2, 1)))
    tables.append(
        tmp_path / "tables.csv", tables.run(Task("median", 2000, math.inf, "non_private", 2, 1))
    )
    points = [
        overhead.Point(panel, series, x, float(x))
        for panel in ("noise against B", "width against B")
        for series in figures.LINES
        for x in (50, 500)
    ]
    for series in ("with replacement", "without replacement"):
        points += [overhead.Point("noise against m", series, x, 1 / 8) for x in (50, 500)]
        points += [overhead.Point("noise against n", f"mean, {series}", n, 1 / 8) for n in (2, 3)]
    overhead.write(points, tmp_path / "overhead.csv", 1)
    assert overhead.read(tmp_path / "overhead.csv") == points
    readme = tmp_path / "README.md"
    readme.write_text("before\n" + "\n".join(figures.MARKS) + "\nafter\n")
    written = {path.name for path in figures.draw(tmp_path)}
    assert written == {"README.md", "figure_1.png", "overhead.png"}
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    row = tables.read(tmp_path / "tables.csv")[task.key]
    width = float(row["mean_length"]) / float(
        tables.read(tmp_path / "tables.csv")["median", 2000, math.inf, "non_private"]["mean_length"]
    )
    assert f"| {float(row['coverage']):.2f} at {width:.3g} × (2) |" in text
    readme.unlink()
    assert figures.put(tmp_path, "alone").read_text() == "alone\n"
