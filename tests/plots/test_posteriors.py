"""The picture of learning: what is drawn is what was known and asked."""

import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from confidp.errors import InvalidArgument
from confidp.local.simulation import Round
from confidp.plots.posteriors import plot_posteriors

PARAMETERS = ("mu", "sigma")


@pytest.fixture
def rounds():
    """Forty rounds whose intervals shrink; the first knows nothing."""
    found = []
    for i in range(1, 41):
        width = 1e6 if i == 1 else 10 / i
        spread = width * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        mean = np.array([50.0, 3.0])
        cuts = (-1e9, 1e9) if i == 1 else (48.0, 52.0 + i / 100)
        found.append(Round(10 * i, cuts, mean, mean[:, None] + spread))
    return found


def test_there_is_a_panel_for_each_parameter_and_one_for_the_cuts(rounds):
    figure = plot_posteriors(rounds, PARAMETERS, (50.5, 2.9), xlabel="so many people")
    mu, sigma, cuts = figure.axes
    assert [axes.get_ylabel() for axes in (mu, sigma)] == ["mu", "sigma"]
    assert "cut points" in cuts.get_ylabel()
    assert "so many people" in cuts.get_xlabel()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        *("90% interval", "50% interval", "mean", "truth"),
    ]


def test_bands_are_the_quantiles_and_the_lines_the_mean_and_the_truth(rounds):
    mu = plot_posteriors(rounds, PARAMETERS, (50.5, 2.9)).axes[0]
    outer, inner = mu.collections
    at_end = [c.get_paths()[0].vertices for c in (outer, inner)]
    last = rounds[-1].quantiles[0]
    for vertices, (low, high) in zip(at_end, ((last[0], last[-1]), (last[1], last[-2]))):  # noqa: B905
        ends = vertices[vertices[:, 0] == 400][:, 1]
        assert (ends.min(), ends.max()) == pytest.approx((low, high))
    mean, truth = mu.lines
    assert mean.get_xdata().tolist() == [r.reports for r in rounds]
    assert set(mean.get_ydata()) == {50.0}
    assert set(truth.get_ydata()) == {50.5}
    assert truth.get_linestyle() == "--"


def test_without_a_truth_no_line_is_drawn_for_it(rounds):
    figure = plot_posteriors(rounds, PARAMETERS)
    assert [len(axes.lines) for axes in figure.axes[:2]] == [1, 1]


def test_it_is_grey_and_its_greys_stay_apart(rounds):
    axes = plot_posteriors(rounds, PARAMETERS, (50.5, 2.9)).axes[0]
    colours = [tuple(c.get_facecolor()[0][:3]) for c in axes.collections]
    colours += [to_rgb(line.get_color()) for line in axes.lines]
    assert all(max(c) == min(c) for c in colours)
    outer, inner, line, _ = (c[0] for c in colours)
    assert 1 > outer > inner + 0.15 > line + 0.3


def test_the_first_rounds_dont_set_the_scale_and_the_truth_is_always_in_sight(rounds):
    mu, _, cuts = plot_posteriors(rounds, PARAMETERS, (120.0, 2.9)).axes
    low, high = mu.get_ylim()
    assert 0 < low < 50 < 120 < high < 150
    assert -100 < cuts.get_ylim()[0] < 48 < 52 < cuts.get_ylim()[1] < 100


def test_every_rounds_cuts_are_dots_until_there_are_too_many(rounds):
    cuts = plot_posteriors(rounds, PARAMETERS).axes[-1]
    assert len(cuts.lines) == 40
    assert cuts.lines[-1].get_ydata().tolist() == [48.0, 52.4]
    assert cuts.lines[-1].get_xdata().tolist() == [400, 400]
    assert len(plot_posteriors(rounds * 10, PARAMETERS).axes[-1].lines) == 150


def test_one_round_of_one_parameter_is_drawn(tmp_path):
    only = [Round(5, (1.0,), np.array([2.0]), np.array([[1.0, 1.5, 2.0, 2.5, 3.0]]))]
    plot_posteriors(only, ("$scale",), (2.0,), xlabel="a $ b").savefig(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_no_rounds_are_refused():
    with pytest.raises(InvalidArgument, match="at least one round"):
        plot_posteriors([], PARAMETERS)


def test_pyplot_keeps_no_state(rounds):
    plot_posteriors(rounds, PARAMETERS)
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )
