"""Queries and reports: what a device accepts, answers, refuses and lets out."""

import ast
import json
import math
import pickle
import re
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import suppress
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import confidp
from confidp import local
from confidp.errors import ConfidpError, InvalidArgument, InvalidType
from confidp.local.channel import TOTAL, Channel
from confidp.local.mechanisms import response, truncated_gaussian, truncated_laplace
from confidp.local.query import MAX_QUERY_TEXT, Query, Report

SOURCE = Path(confidp.__file__).parent
DEVICE = ("channel", "query", "mechanisms", "vector", "__init__")
QUARTER = TOTAL // 4
COIN = Channel(((3 * QUARTER, QUARTER), (QUARTER, 3 * QUARTER)))
QUERY = response((-1.0, 0.0, 2.5), 1.0)


def edited(query, **changes):
    return json.dumps(json.loads(query.to_json()) | changes)


@st.composite
def queries(draw):
    cuts = draw(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8, unique=True))
    cuts = sorted({cut + 0.0 for cut in cuts})
    return response(cuts, draw(st.floats(0.01, 22.0)))


# The device needs the standard library only.


@pytest.mark.parametrize("module", DEVICE)
def test_a_device_module_imports_the_standard_library_errors_and_its_like(module):
    names = set()
    for node in ast.walk(ast.parse((SOURCE / "local" / f"{module}.py").read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names.add(node.module)
    allowed = {"confidp.errors", *(f"confidp.local.{name}" for name in DEVICE)}
    for name in names:
        assert name in allowed or name.split(".")[0] in sys.stdlib_module_names, name


def test_a_device_answers_without_numpy_or_the_collector():
    """The package's own face loads NumPy, so an empty one stands in for it."""
    script = f"""
        import sys, types
        sys.modules |= dict.fromkeys(("numpy", "scipy", "matplotlib", "polars"))  # unimportable
        package = types.ModuleType("confidp")
        package.__path__ = [{str(SOURCE)!r}]
        sys.modules["confidp"] = package
        from confidp.local.query import Query
        report = Query.from_json(sys.stdin.read()).privatize(1.0, epsilon_limit=1.0)
        print(report.to_json())
        print(sorted(name for name in sys.modules if name.startswith("confidp.")))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=QUERY.to_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    report, modules = done.stdout.splitlines()
    assert Report.from_json(report).query_id == QUERY.id
    assert set(ast.literal_eval(modules)) == {
        "confidp.errors",
        "confidp.local",
        *(f"confidp.local.{name}" for name in DEVICE[:4]),
    }


def test_the_collectors_names_are_imported_when_first_named(monkeypatch):
    monkeypatch.setitem(local._AT_THE_COLLECTOR, "MAX_CELLS", "channel")
    monkeypatch.delitem(vars(local), "MAX_CELLS", raising=False)
    assert "MAX_CELLS" in dir(local)
    assert "MAX_CELLS" not in vars(local)
    assert local.MAX_CELLS == 256
    monkeypatch.delitem(vars(local), "MAX_CELLS")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        local.Nonsense  # noqa: B018


@pytest.mark.parametrize("name", local.__all__)
def test_every_exported_name_is_there_and_documented(name):
    assert len((getattr(local, name).__doc__ or "").split()) > 5


# Cells.


def test_a_value_on_a_cut_belongs_below_it_as_in_a_distribution_function():
    assert [QUERY.cell(x) for x in (-2, -1.0, -0.5, 0, -0.0, 1e-300, 2.5, 3)] == [
        *[0, 0, 1, 1, 1],
        *[2, 2, 3],
    ]


@pytest.mark.parametrize(
    ("x", "cell"),
    [
        (math.inf, 3),
        (-math.inf, 0),
        (10**400, 3),
        (-(10**400), 0),
        (Fraction(10**400), 3),
        (Fraction(-(10**400)), 0),
        (Fraction(-1, 2), 1),
        (np.float32(2.5), 2),
        (np.float64(2.5), 2),
        (np.int64(3), 3),
        (np.uint8(0), 1),
    ],
)
def test_any_number_has_a_cell(x, cell):
    assert QUERY.cell(x) == cell
    assert 0 <= QUERY.privatize(x).value < 4


def test_whole_numbers_and_cuts_are_compared_exactly():
    query = response((2.0**53,), 1.0)
    assert query.cell(2**53 + 1) == 1  # as a float it would be 2^53
    assert response((0.1,), 1.0).cell(np.float32(0.1)) == 1  # 0.1 as float32 is above 0.1


class Strange(float):
    def __float__(self):
        raise ValueError("the value is 42")


@pytest.mark.parametrize(
    "x",
    [
        *[math.nan, np.nan, np.float32("nan"), None, "42", b"42", True, np.True_, 42j],
        *[[42.0], (42,), np.array(42.0), Decimal(42), Decimal("nan"), object(), Strange(42)],
    ],
)
def test_what_is_no_number_is_refused_in_words_that_never_differ(x):
    with pytest.raises(InvalidArgument) as refusal:
        QUERY.privatize(x)
    assert type(refusal.value) is InvalidArgument
    assert str(refusal.value) == "x must be a real number, and not NaN"
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


# Answers.


def test_a_report_names_its_query_and_is_unlike_every_other():
    reports = [QUERY.privatize(0.5) for _ in range(1000)]
    assert {report.query_id for report in reports} == {QUERY.id}
    assert len({report.report_id for report in reports}) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", report.report_id) for report in reports)


def test_answers_have_the_frequencies_of_the_cells_row():
    """χ², with a false-alarm rate of 1e-6 over the four cells."""
    n = 20_000
    for cell, x in enumerate((-5.0, -0.5, 1.0, 5.0)):
        counts = Counter(QUERY.privatize(x).value for _ in range(n))
        expected = np.array(QUERY.channel.weights[cell]) / TOTAL * n
        assert stats.chisquare([counts[y] for y in range(4)], expected).pvalue > 1e-6 / 4


def test_a_device_refuses_a_query_above_its_limit_before_it_looks_at_the_value():
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError("looked at")

    with pytest.raises(InvalidArgument, match=r"epsilon_limit = 0\.99"):
        QUERY.privatize(Untouchable(), epsilon_limit=0.99)
    with pytest.raises(InvalidArgument, match=r"mu_limit = 0\.5"):
        QUERY.privatize(Untouchable(), mu_limit=0.5)
    assert QUERY.privatize(0.0, epsilon_limit=1.0, mu_limit=1.3).value in range(4)
    with pytest.raises(InvalidArgument, match="epsilon must be"):
        QUERY.privatize(0.0, epsilon_limit=-1.0)


def test_the_limit_is_for_the_channel_whatever_the_query_claims_of_it():
    modest = Query((0.0,), COIN, epsilon=20.0)
    assert modest.privatize(1.0, epsilon_limit=1.1).value in (0, 1)
    gaussian = truncated_gaussian(0, 1, 1.0, steps=4, outputs=8)
    with pytest.raises(InvalidArgument, match="epsilon_limit"):
        gaussian.privatize(0.5, epsilon_limit=1.0)


# What a query is.


@pytest.mark.parametrize(
    ("cuts", "claims", "message"),
    [
        ((0.0,), {}, "must claim"),
        ((0.0,), {"epsilon": 1.0}, "less than the channel's 1.0986"),
        ((0.0,), {"mu": 1.3}, "mu = 1.3 is less"),
        ((0.0,), {"epsilon": 2.0, "mu": 1.3}, "mu = 1.3 is less"),
        ((0.0,), {"epsilon": 1.0, "mu": 2.0}, "epsilon = 1 is less"),
        ((0.0,), {"epsilon": 0.0}, "epsilon must be"),
        ((0.0,), {"epsilon": math.inf}, "epsilon must be"),
        ((0.0,), {"epsilon": math.nan}, "epsilon must be"),
        ((0.0,), {"epsilon": "2"}, "epsilon must be"),
        ((0.0,), {"mu": True}, "mu must be"),
        ((), {"epsilon": 2.0}, "one fewer"),
        ((0.0, 1.0), {"epsilon": 2.0}, "one fewer"),
        ((math.nan,), {"epsilon": 2.0}, "cuts must be"),
        ((math.inf,), {"epsilon": 2.0}, "cuts must be"),
        (("0",), {"epsilon": 2.0}, "cuts must be"),
        (0.0, {"epsilon": 2.0}, "cuts must be"),
    ],
)
def test_a_query_that_can_not_be_or_lies_is_refused(cuts, claims, message):
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        Query(cuts, COIN, **claims)


@pytest.mark.parametrize("cuts", [(1.0, 0.0), (0.0, 0.0), (-0.0, 0.0)])
def test_cuts_must_increase(cuts):
    with pytest.raises(InvalidArgument, match="increasing"):
        Query(cuts, response((0, 1), 1.0).channel, epsilon=1.0)


def test_a_query_needs_a_channel():
    with pytest.raises(InvalidType, match="must be a Channel"):
        Query((0.0,), COIN.weights, epsilon=2.0)


def test_the_id_is_that_of_the_content():
    same = Query([np.float32(0)], COIN, epsilon=2)
    assert same.id == Query((-0.0,), COIN, 2.0).id
    assert same == Query((0.0,), COIN, 2.0)
    others = [
        Query((1e-300,), COIN, 2.0),
        Query((0.0,), COIN, math.nextafter(2.0, 3.0)),
        Query((0.0,), COIN, 2.0, 2.0),
        Query((0.0,), COIN, mu=2.0),
        Query((0.0,), Channel(((3 * QUARTER - 1, QUARTER + 1), (QUARTER, 3 * QUARTER))), 2.0),
    ]
    assert len({same.id, *(other.id for other in others)}) == 6
    assert re.fullmatch("[0-9a-f]{64}", same.id)


def test_a_query_and_a_report_can_not_be_changed():
    for thing, name in ((QUERY, "cuts"), (QUERY, "id"), (QUERY.privatize(0.0), "value")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, 0)
    assert pickle.loads(pickle.dumps(QUERY)) == QUERY


def test_a_repr_is_short_and_public():
    text = repr(truncated_laplace(0, 1, 1.0))
    assert len(text) < 100
    assert text.startswith("Query(id='")


# JSON.


@given(queries(), st.floats(allow_nan=False))
def test_a_query_and_its_report_survive_json(query, x):
    read = Query.from_json(query.to_json())
    assert read == query
    assert read.id == query.id
    assert read.to_json() == query.to_json()
    report = read.privatize(x)
    assert Report.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    "query",
    [
        truncated_laplace(0.1, 0.7, 0.3),
        truncated_gaussian(-3, 3, 0.5, steps=6, outputs=12),
        Query((5e-324,), COIN, 2.0, 3.0),
    ],
)
def test_every_kind_of_query_survives_json(query):
    assert Query.from_json(query.to_json()) == query
    # Keys in any order, with spaces, and whole numbers without a point, as JavaScript writes.
    text = re.sub(r"\b(\d+)\.0\b", r"\1", query.to_json())
    loose = json.dumps(dict(reversed(json.loads(text).items())), indent=2)
    assert Query.from_json(loose) == query


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be JSON"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ('{"version": ' + "9" * 5000 + "}", "must be JSON"),
        ("null", "JSON object"),
        ("[]", "JSON object"),
        ("{}", "JSON object"),
        ('{"format": "confidp.query", "format": "confidp.query"}', "key twice"),
        ('{"epsilon": NaN}', "NaN"),
        ('{"epsilon": -Infinity}', "NaN"),
        (" " * (MAX_QUERY_TEXT + 1), "at most 1048576 characters"),
        (edited(QUERY, format="confidp.report"), "format"),
        (edited(QUERY, version=2), "newer confidp"),
        (edited(QUERY, version=2, surprise=1), "newer confidp"),
        (edited(QUERY, version=0), "version must be"),
        (edited(QUERY, version=1.0), "version must be"),
        (edited(QUERY, version=True), "version must be"),
        (edited(QUERY, surprise=1), "exactly the keys"),
        ('{"format": "confidp.query", "version": 1}', "exactly the keys"),
        (edited(QUERY, id="0" * 64), "not that of its content"),
        (edited(QUERY, id=None), "not that of its content"),
        (edited(QUERY, id=QUERY.id.upper()), "not that of its content"),
        (edited(QUERY, cuts=[-1.0, 0.0, 2.6]), "not that of its content"),
        (edited(QUERY, epsilon=1.5), "not that of its content"),
        (edited(QUERY, mu=3.0), "not that of its content"),
        (edited(QUERY, epsilon=0.9), "less than the channel's"),
        (edited(QUERY, mu=0.5), "less than the channel's"),
        (edited(QUERY, epsilon=None), "must claim"),
        (edited(QUERY, epsilon="1"), "epsilon must be"),
        (edited(QUERY, epsilon=10**400), "epsilon must be"),
        (edited(QUERY, cuts="abc"), "must be a list"),
        (edited(QUERY, cuts={"a": 1, "b": 2, "c": 3}), "must be a list"),
        (edited(QUERY, cuts=[None] * 3), "cuts must be"),
        (edited(QUERY, cuts=[1, 2, True]), "cuts must be"),
        (edited(QUERY, cuts=[[1], 2, 3]), "cuts must be"),
        (edited(QUERY, weights=None), "must be a list"),
        (edited(QUERY, weights=["abcd"] * 4), "must be a list"),
        (edited(QUERY, weights=[[QUARTER * 1.0] * 4] * 4), "whole numbers"),
        (edited(QUERY, weights=[[10**4000, QUARTER]] * 4), "sum to"),
        (edited(QUERY, weights=[[1] * 2000] * 4), "1024 columns"),
        (edited(QUERY, weights=[[TOTAL]] * 10_000), "256 rows"),
    ],
)
def test_a_text_that_is_no_sound_query_is_refused(text, message):
    with pytest.raises((InvalidArgument, InvalidType), match=message) as refusal:
        Query.from_json(text)
    assert len(str(refusal.value)) < 300
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", [None, b"{}", 1, {}])
def test_only_text_is_read(text):
    for kind in (Query, Report):
        with pytest.raises(InvalidType, match="must be a str"):
            kind.from_json(text)


def test_one_weight_moved_beyond_epsilon_is_refused_even_with_the_right_id():
    first, *rest = QUERY.channel.weights
    bad = ((first[0] + 1, first[1] - 1, *first[2:]), *rest)
    forged = Query(QUERY.cuts, Channel(bad), epsilon=1.1)
    text = edited(forged, epsilon=1.0)
    with pytest.raises(InvalidArgument, match="epsilon = 1 is less"):
        Query.from_json(text)
    harmless = ((first[0] - 1, first[1] + 1, *first[2:]), *rest)
    assert Query(QUERY.cuts, Channel(harmless), epsilon=1.0).id != QUERY.id
    with pytest.raises(InvalidArgument, match="was changed"):
        Query.from_json(edited(QUERY, weights=harmless))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_corrupted_query_is_refused_or_the_same(data):
    """One to three characters replaced, removed or put in, anywhere."""
    text = QUERY.to_json()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        gone = data.draw(st.integers(0, 2))
        put = data.draw(st.text('0123456789abcdef"[]{},:.eE+- nulNI\x00é', max_size=2))
        text = text[:at] + put + text[at + gone :]
    try:
        read = Query.from_json(text)
    except ConfidpError:
        return
    assert read == QUERY


@given(st.text(max_size=200))
def test_any_other_text_is_refused(text):
    for kind in (Query, Report):
        with pytest.raises(ConfidpError):
            kind.from_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(st.sampled_from(sorted(json.loads(QUERY.to_json()))), json_values)
def test_any_other_value_under_any_key_is_refused_or_the_same(key, value):
    with suppress(ConfidpError):
        assert Query.from_json(edited(QUERY, **{key: value})) == QUERY


GOOD = {"query_id": "ab" * 32, "value": 0, "report_id": "cd" * 16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_id": "ab"}, "query_id must be 64"),
        ({"query_id": "AB" * 32}, "query_id must be 64"),
        ({"query_id": "ab" * 32 + "\n"}, "query_id must be 64"),
        ({"query_id": 1}, "query_id must be a str"),
        ({"report_id": "cd" * 15}, "report_id must be 32"),
        ({"report_id": None}, "report_id must be a str"),
        ({"value": -1}, "value must be in 0 to 1023"),
        ({"value": 1024}, "value must be in 0 to 1023"),
        ({"value": 0.0}, "value must be a whole number"),
        ({"value": True}, "value must be a whole number"),
        ({"value": None}, "value must be a whole number"),
        ({"x": 1}, "exactly the keys"),
        ({"version": 2}, "newer"),
        ({"format": "confidp.query"}, "format"),
    ],
)
def test_a_report_no_device_sends_is_refused(changes, message):
    text = json.dumps(json.loads(Report(**GOOD).to_json()) | changes)
    with pytest.raises((InvalidArgument, InvalidType), match=message):
        Report.from_json(text)


def test_a_report_is_small():
    report = Report("ab" * 32, np.int64(1023), "cd" * 16)
    assert type(report.value) is int
    assert len(report.to_json()) < 250
    with pytest.raises(InvalidArgument, match="at most 1024 characters"):
        Report.from_json(report.to_json() + " " * 1024)
