"""The picture of mechanisms side by side."""

import numpy as np
import pytest

from confidp.local.comparison import Comparison, Told
from confidp.plots.designs import plot_comparison


def test_each_mechanism_is_a_row_with_a_mark_for_each_parameter():
    told = (
        Told("good", (), np.diag([0.04, 0.25]), 0.0),
        Told("blind", (), np.diag([0.01, 0.0]), 0.0),
    )
    full = Told("no privacy", (), np.eye(2), 2.0)
    figure = plot_comparison(Comparison((0.0, 1.0), told, None, full), ("mu", "sigma"), "here")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "blind", "no privacy"]
    mu, sigma = axes.lines
    assert mu.get_xdata() == pytest.approx([5.0, 1.0])  # of a blind one nothing is drawn
    assert sigma.get_xdata() == pytest.approx([2.0, 1.0])
    assert mu.get_ydata().tolist() == [0, 2]
    assert "here" in axes.get_xlabel()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mu", "sigma"]
    assert mu.get_markerfacecolor() != sigma.get_markerfacecolor()
