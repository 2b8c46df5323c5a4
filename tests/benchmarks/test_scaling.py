"""Times and memory against size: every kind of point, a process of its own, resuming, drawing."""

import csv

import matplotlib.image
import pytest
import scaling
from scaling import Point


def test_sizes_are_even_on_a_logarithmic_axis():
    assert scaling.steps(1000, 10**6) == [1000, 10_000, 100_000, 10**6]
    assert scaling.steps(10, 1000, 2) == [10, 32, 100, 316, 1000]
    assert scaling.steps(50, 700) == [50, 500, 700]


def test_everything_is_measured_once_and_drawn(tmp_path, monkeypatch):
    measured = []

    def here(point):
        measured.append(point)
        return scaling.measure(point)

    monkeypatch.setattr(scaling, "in_its_own_process", here)
    monkeypatch.setattr(scaling, "ENOUGH", 0.0)
    monkeypatch.setattr(scaling, "N", 1000)
    monkeypatch.setattr(scaling, "MOST", 1)
    for _ in range(2):
        scaling.main(["--out", str(tmp_path), "--largest", "150"])
    assert len(measured) == len(set(measured)) == len(list(scaling.points(150)))
    with (tmp_path / "scaling.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["series"] for row in rows} == {*scaling.METHODS, scaling.REPORTS, scaling.QUERIES}
    assert {row["panel"] for row in rows} == set(scaling.PANELS)
    assert all(float(row["cpu_seconds"]) > 0 for row in rows)
    pixels = matplotlib.image.imread(tmp_path / "scaling.png")
    assert pixels.min() < 0.2
    # Only greys: nothing to lose in print.
    assert pixels[..., :3].max(axis=-1) == pytest.approx(pixels[..., :3].min(axis=-1), abs=0.02)


def test_memory_is_that_of_the_work_and_its_data():
    found = scaling.in_its_own_process(Point("n", "mean, default", 2_000_000))
    assert 15 < found["added_mb"] < 300
    assert found["cpu_seconds"] > 0


def test_names_of_lines_that_end_together_are_apart():
    placed = scaling.spread([(10, 1.0, "a"), (10, 1.01, "b"), (10, 50.0, "c"), (1e6, 1.0, "d")])
    heights = {name: height for _, _, height, name in placed}
    assert heights["b"] / heights["a"] >= 1.5
    assert (heights["a"], heights["c"], heights["d"]) == (1.0, 50.0, 1.0)
