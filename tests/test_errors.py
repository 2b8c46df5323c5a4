"""Checks of public arguments: what they return, and one short line where they refuse."""

import math
from fractions import Fraction

import numpy as np
import pytest

from confidp.errors import InvalidArgument, InvalidType, choice, integer, real, shown
from hardening.nasty import NASTY, Raises, RaisingFloat


def test_what_holds_becomes_a_plain_number():
    assert type(real("x", np.float32(0.5), "", lambda _: True)) is float
    assert real("x", Fraction(1, 4), "", lambda _: True) == 0.25
    assert type(integer("n", np.int8(3), least=1)) is int
    assert integer("n", 3, least=1, most=3) == 3


@pytest.mark.parametrize("value", [RaisingFloat(1.0), Raises(), "1", None, 1j, True])
def test_what_is_no_number_is_an_invalid_type_whatever_it_raises(value):
    with pytest.raises(InvalidType, match=r"^x must be a number"):
        real("x", value, "", lambda _: True)


@pytest.mark.parametrize(
    ("value", "found"),
    [(0, "0"), (4, "4"), pytest.param(10**5000, "a value of type int", id="long")],
)
def test_a_whole_number_out_of_range_is_refused_however_long(value, found):
    with pytest.raises(InvalidArgument, match=f"not {found}$"):
        integer("n", value, least=1, most=3)


@pytest.mark.parametrize("value", ["cube", "", None, 1, ["ball"], np.array("ball"), Raises()])
def test_a_choice_is_one_of_the_strings(value):
    with pytest.raises(InvalidArgument, match=r"^shape must be one of ball, box, not "):
        choice("shape", value, ("ball", "box"))
    assert choice("shape", "box", ("ball", "box")) == "box"


@pytest.mark.parametrize("label", NASTY)
def test_anything_is_shown_in_one_short_line(label):
    text = shown(NASTY[label]())
    assert "\n" not in text
    assert len(text) < 80


@pytest.mark.parametrize("value", [math.nan, math.inf, pytest.param(10**400, id="huge"), -1.0])
def test_what_is_out_of_range_is_an_invalid_argument(value):
    with pytest.raises(InvalidArgument, match=r"^x must be a finite number above 0, not "):
        real("x", value, "above 0", lambda x: x > 0)
