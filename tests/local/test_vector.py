"""Vector queries: losses add up, one claim covers them, and a device needs no NumPy."""

import ast
import json
import math
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import confidp
from confidp.errors import InvalidArgument, InvalidType
from confidp.local.mechanisms import response, sign_response, truncated_gaussian
from confidp.local.query import Report
from confidp.local.vector import VectorQuery, VectorReport, split_epsilon

SOURCE = Path(confidp.__file__).parent
PAIR = (sign_response(0.0, 0.5), response((1.0, 2.0), 0.5))
QUERY = VectorQuery(3, (0, 2), PAIR, 1.0)


def edited(**changes):
    return json.dumps(json.loads(QUERY.to_json()) | changes)


def test_a_claim_is_true_exactly_where_the_ratios_product_is_within_it():
    product = PAIR[0].channel.ratio * PAIR[1].channel.ratio
    least = math.log(product)
    assert 0.99 < least <= 1.0  # both queries use their share all but whole
    VectorQuery(2, (0, 1), PAIR, least + 1e-14)
    with pytest.raises(InvalidArgument, match="queries together"):
        VectorQuery(2, (0, 1), PAIR, least - 1e-14)


def test_a_claim_of_one_share_for_two_answers_is_refused():
    for epsilon in (0.5, 0.75, 0.99):
        with pytest.raises(InvalidArgument, match="queries together"):
            VectorQuery(2, (0, 1), PAIR, epsilon)


def test_a_query_that_claims_mu_alone_is_held_to_its_channels_ratio():
    gaussian = truncated_gaussian(0.0, 1.0, 1.0, steps=2, outputs=8)
    with pytest.raises(InvalidArgument, match="queries together"):
        VectorQuery(1, (0,), (gaussian,), 1.0)
    VectorQuery(1, (0,), (gaussian,), gaussian.channel.least_epsilon())


def test_answers_are_to_the_components_asked_in_order():
    query = sign_response(0.0, 22.0)
    asked = (0, 2)
    sure = object.__new__(VectorQuery)  # a claim of 44 is refused, so past the check
    for name, value in (("dimension", 3), ("components", asked), ("queries", (query, query))):
        object.__setattr__(sure, name, value)
    object.__setattr__(sure, "id", "00" * 32)
    # Each answer is wrong with a chance of 3e-10.
    assert sure.privatize([1.0, float("nan"), -1.0]).values == (1, 0)
    assert sure.privatize((-1.0, None, 1.0)).values == (0, 1)
    assert sure.privatize(np.array([5.0, 0.0, 5.0])).values == (1, 1)


def test_a_limit_counts_all_answers_together():
    QUERY.privatize([0.0, 0.0, 0.0], epsilon_limit=1.0)
    with pytest.raises(InvalidArgument, match="above epsilon_limit"):
        QUERY.privatize("not looked at", epsilon_limit=0.9)


def test_what_is_no_vector_of_numbers_is_refused_with_the_same_words():
    messages = set()
    for bad in ([1.0, 2.0, float("nan")], ["secret", 2.0, 3.0], [1.0, 2.0, None], [True, 2, 3]):
        with pytest.raises(InvalidArgument) as caught:
            QUERY.privatize(bad)
        messages.add(str(caught.value))
    assert messages == {"x must be a real number, and not NaN"}
    for short in ([], [1.0], [1.0] * 4):
        with pytest.raises(InvalidArgument, match="x must be 3 numbers"):
            QUERY.privatize(short)
    for other in (None, 1.0, {"secret": 1}, {1.0, 2.0, 3.0}, np.float64(3), iter([1.0, 2.0, 3.0])):
        with pytest.raises(InvalidType, match="x must be a sequence of 3 numbers") as caught:
            QUERY.privatize(other)
        assert caught.value.__cause__ is None


def test_queries_and_reports_survive_json():
    again = VectorQuery.from_json(QUERY.to_json())
    assert again == QUERY
    assert again.id == QUERY.id
    report = QUERY.privatize([1.0, 2.0, 3.0])
    assert VectorReport.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        edited(epsilon=0.9),
        edited(epsilon=2.0),
        edited(components=[0, 1]),
        edited(components=[2, 0]),
        edited(components=[0, 3]),
        edited(dimension=2),
        edited(queries=[json.loads(PAIR[0].to_json())]),
        edited(queries=[json.loads(PAIR[0].to_json())] * 2),
        edited(queries=[{}, {}]),
        edited(id="00" * 32),
        edited(version=2),
        edited(more=1),
        PAIR[0].to_json(),
    ],
)
def test_altered_queries_are_refused(text):
    with pytest.raises(InvalidArgument):
        VectorQuery.from_json(text)


def test_a_part_whose_claim_is_false_is_refused():
    part = json.loads(PAIR[0].to_json()) | {"epsilon": 0.1}
    with pytest.raises(InvalidArgument, match="less than the channel's"):
        VectorQuery.from_json(edited(queries=[part, json.loads(PAIR[1].to_json())]))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"dimension": 0}, InvalidArgument),
        ({"dimension": 1025}, InvalidArgument),
        ({"components": ()}, InvalidArgument),
        ({"components": (0, 0)}, InvalidArgument),
        ({"components": (-1, 0)}, InvalidArgument),
        ({"components": 3}, InvalidType),
        ({"queries": PAIR[:1]}, InvalidArgument),
        ({"queries": (PAIR[0], None)}, InvalidType),
        ({"epsilon": 0.0}, InvalidArgument),
        ({"epsilon": 23.0}, InvalidArgument),
        ({"epsilon": "1"}, InvalidType),
    ],
)
def test_settings_out_of_range_are_refused(changes, error):
    good = {"dimension": 3, "components": (0, 2), "queries": PAIR, "epsilon": 1.0}
    with pytest.raises(error):
        VectorQuery(**(good | changes))


def test_reports_that_no_device_sends_are_refused():
    for values, error in (((), InvalidArgument), ((-1,), InvalidArgument), ((1.5,), InvalidType)):
        with pytest.raises(error):
            VectorReport("00" * 32, values, "00" * 16)
    with pytest.raises(InvalidType):
        VectorReport("00" * 32, 1, "00" * 16)
    with pytest.raises(InvalidArgument):
        VectorReport("00" * 31, (1,), "00" * 16)


def test_a_query_knows_its_answers():
    report = QUERY.privatize([1.0, 2.0, 3.0])
    QUERY.check(report)
    for values in ((0,), (0, 0, 0), (2, 0), (0, 3)):
        with pytest.raises(InvalidArgument):
            QUERY.check(VectorReport(QUERY.id, values, "00" * 16))
    with pytest.raises(InvalidArgument):
        QUERY.check(VectorReport("00" * 32, (0, 0), "00" * 16))
    with pytest.raises(InvalidArgument):
        PAIR[0].check(Report("00" * 32, 0, "00" * 16))


def test_a_repr_holds_no_weights():
    assert len(repr(QUERY)) < 120


@given(
    st.floats(1e-3, 22.0),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20),
)
def test_shares_never_exceed_the_whole(epsilon, shares):
    parts = split_epsilon(epsilon, shares)
    assert sum(map(Fraction, parts)) <= Fraction(epsilon)
    assert sum(parts) == pytest.approx(epsilon, rel=1e-12)
    assert np.allclose(np.array(parts) / epsilon, np.array(shares) / sum(shares), rtol=1e-12)


def test_nearest_rounding_would_exceed_it():
    assert sum(map(Fraction, [1.0 / 49.0 * 1.0] * 49)) != 1
    assert any(sum(map(Fraction, [1.0 / d] * d)) > 1 for d in range(2, 50))
    assert all(sum(map(Fraction, split_epsilon(1.0, [1.0] * d))) <= 1 for d in range(2, 50))


def test_a_device_answers_a_vector_query_without_numpy_or_the_collector():
    """The package's own face loads NumPy, so an empty one stands in for it."""
    script = f"""
        import sys, types
        sys.modules |= dict.fromkeys(("numpy", "scipy", "matplotlib", "polars"))  # unimportable
        package = types.ModuleType("confidp")
        package.__path__ = [{str(SOURCE)!r}]
        sys.modules["confidp"] = package
        from confidp.local.vector import VectorQuery
        query = VectorQuery.from_json(sys.stdin.read())
        print(query.privatize([1.0, 2.0, 3.0], epsilon_limit=1.0).to_json())
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
    QUERY.check(VectorReport.from_json(report))
    assert set(ast.literal_eval(modules)) == {
        "confidp.errors",
        "confidp.local",
        *(f"confidp.local.{name}" for name in ("channel", "query", "mechanisms", "vector")),
    }
