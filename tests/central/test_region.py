"""The public result: it says where the parameter is, and survives JSON."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from confidp import Mean, Median, confidence_region
from confidp.central.region import ConfidenceRegion
from confidp.errors import InvalidArgument
from confidp.privacy.guarantees import GDP


def region(center=(2.5,), radius=0.5, private=True, **public):
    return ConfidenceRegion(
        center=center,
        radius=radius,
        confidence_level=0.95,
        spent=GDP(1.0, 1e-25),
        private=private,
        method="CR-GS",
        statistic={"statistic": "mean", "bounds": [[0.0, 1.0]]},
        assumes=("rows are independent",),
        public={"n": 100, **public},
    )


BOTTOM = region((math.nan,), math.inf)
REGIONS = [
    region(),
    region((-1e300,), 0.0),
    region((0.0, 1.0, -2.0), 2.0),
    region(private=False, reason="because", multiplicity_bound=None),
    BOTTOM,
    region((math.nan,) * 2, math.inf),
]


def test_in_one_dimension_the_interval_is_center_plus_minus_radius():
    assert region().interval == (2.0, 3.0)
    assert region().intervals == ((2.0, 3.0),)
    assert region((-1.0,), 0.0).interval == (-1.0, -1.0)


def test_in_more_dimensions_there_is_a_box_and_no_interval():
    ball = region((0.0, 1.0), 2.0)
    assert ball.dimension == 2
    assert ball.intervals == ((-2.0, 2.0), (-1.0, 3.0))
    with pytest.raises(InvalidArgument, match=r"^interval .* use intervals$"):
        _ = ball.interval


def test_it_contains_the_points_of_the_open_ball():
    assert region().contains(2.9)
    assert region().contains([2.9])
    assert region().contains(np.array(2.1))
    assert not region().contains(3.0)
    assert not region(radius=0.0).contains(2.5)
    ball = region((0.0, 1.0), 2.0)
    assert ball.contains((1.4, 2.4))
    assert not ball.contains((1.9, 2.9))  # inside the box, outside the ball


@pytest.mark.parametrize(
    ("n", "mu", "told"), [(100, 0.1, True), (100, 8.0, False), (5000, 0.1, False), (5000, 1, False)]
)
def test_an_interval_says_when_most_of_its_width_is_privacy_noise(n, mu, told):
    """By its own public numbers: σ² of the mean or of the count beside what sampling adds."""
    x = np.random.default_rng(1).random(n)
    for statistic, sampling in ((Mean((0, 1)), 1 / 12 / n), (Median((0, 1)), n / 4)):
        found = confidence_region(
            x, statistic, budget=GDP(mu), confidence_level=0.9, rng=np.random.default_rng(2)
        )
        noise = found.public.get("center_noise") or found.public["count_noise"][-1]
        exact = noise**2 / (noise**2 + sampling)
        assert found.noise_share == pytest.approx(exact, abs=0.1)
        assert (found.caution is not None) == told == (exact > 1 / 2)
        assert ConfidenceRegion.from_dict(found.to_dict()).caution == found.caution


def test_of_a_bound_or_of_more_dimensions_no_share_is_known():
    loud = {"counts_noise": True, "center_noise": 100.0}
    assert region(**loud).noise_share == 1.0
    assert replace(region(**loud), alternative="less").noise_share is None
    assert region((0.0, 1.0), 2.0, **loud).noise_share is None
    assert region(counts_noise=True, center_noise=math.nan).caution is None


@pytest.mark.parametrize("theta", [(1, 2), [], [[1], [2]]])
def test_a_point_of_another_dimension_is_refused(theta):
    with pytest.raises(InvalidArgument, match=r"^theta must have 1 coordinates"):
        region().contains(theta)


def test_no_result_is_the_whole_line_and_contains_everything():
    assert BOTTOM.interval == (-math.inf, math.inf)
    assert BOTTOM.contains(1e308)
    written = BOTTOM.to_dict()
    assert written["center"] == [None]
    assert written["radius"] is None
    assert written["intervals"] == [[None, None]]
    read = ConfidenceRegion.from_dict(written)
    assert math.isinf(read.radius)
    assert math.isnan(read.center[0])


@pytest.mark.parametrize("before", REGIONS, ids=str)
def test_json_brings_back_an_equal_region(before):
    text = json.dumps(before.to_dict(), allow_nan=False)
    after = ConfidenceRegion.from_dict(json.loads(text))
    assert after.to_dict() == before.to_dict()
    assert after.private is before.private
    if not math.isinf(before.radius):  # a NaN is equal to nothing
        assert after == before


@pytest.mark.parametrize("private", [True, False])
def test_people_and_programs_are_told_when_it_is_not_private(private):
    result = region(private=private)
    assert ("NOT PRIVATE" in str(result)) is not private
    assert result.to_dict()["private"] is private
    assert f"private={private}" in repr(result)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        5,
        "region",
        [],
        {},
        {**region().to_dict(), "center": 5},
        {**region().to_dict(), "center": ["low"]},
        {**region().to_dict(), "center": [10**400]},
        {**region().to_dict(), "radius": "wide"},
        {**region().to_dict(), "spent": {"mu": -1.0, "delta": 0.0}},
        {**region().to_dict(), "spent": {"mu": math.nan}},
        {**region().to_dict(), "spent": {"epsilon": 1.0}},
        {**region().to_dict(), "spent": 1.0},
        {**region().to_dict(), "statistic": "mean"},
        {**region().to_dict(), "public": 1},
        {key: value for key, value in region().to_dict().items() if key != "private"},
    ],
    ids=lambda fields: type(fields).__name__,
)
def test_what_it_did_not_write_is_refused(fields):
    with pytest.raises(InvalidArgument, match=r"^fields must be what ConfidenceRegion\.to_dict"):
        ConfidenceRegion.from_dict(fields)


BOX = replace(region((0.5, 2.0), 2.0), box=((0.0, 1.0), (0.0, 4.0)))
ELLIPSOID = replace(region((1.0, -1.0), 3.0), ellipsoid=((9.0, 3.0), (3.0, 4.0)))
BELOW = replace(region((2.0,), 1.0), alternative="less", box=((0.0, 2.5),))


def test_a_box_contains_its_sides_and_nothing_beyond():
    assert BOX.intervals == ((0.0, 1.0), (0.0, 4.0))
    assert BOX.contains((0.0, 4.0))
    assert not BOX.contains((-1e-9, 2.0))
    assert not BOX.contains((0.5, 4.1))
    assert BOX.shape == "box"


def test_an_ellipsoid_lies_in_its_box_and_touches_every_side():
    (low, high), (lower, upper) = ELLIPSOID.intervals
    assert (low, high, lower, upper) == (-2.0, 4.0, -3.0, 1.0)
    # The point where it touches the first side is c + A e_1/√A_11.
    touching = np.array([9.0, 3.0]) / 3
    assert ELLIPSOID.contains(np.array(ELLIPSOID.center) + 0.999 * touching)
    assert not ELLIPSOID.contains(np.array(ELLIPSOID.center) + 1.001 * touching)
    assert not ELLIPSOID.contains((1.0 + 2.9, -1.0 - 1.9))  # a corner of the box
    assert ELLIPSOID.shape == "ellipsoid"


def test_a_one_sided_bound_is_said_to_be_one():
    assert str(BELOW) == "2.00 (95% upper bound: 2.50)"
    assert str(replace(BELOW, alternative="greater", box=((1.5, 4.0),))).endswith("bound: 1.50)")
    assert BELOW.contains(0.0)
    assert not BELOW.contains(2.6)


@pytest.mark.parametrize("shaped", [BOX, ELLIPSOID, BELOW], ids=["box", "ellipsoid", "one-sided"])
def test_every_shape_survives_json(shaped):
    text = json.dumps(shaped.to_dict(), allow_nan=False)
    assert ConfidenceRegion.from_dict(json.loads(text)) == shaped
    assert str(shaped)
