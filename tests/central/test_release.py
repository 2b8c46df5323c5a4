"""The one door: what is refused, in what order things happen, and what a result says of itself."""

import dataclasses
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from confidp.central.methods.cr_gs import CRGS
from confidp.central.region import ConfidenceRegion
from confidp.central.release import confidence_region
from confidp.central.resampling import IndexSets, MultiplicityExceeded
from confidp.central.statistics.custom import Custom
from confidp.central.statistics.mean import Mean
from confidp.errors import BudgetExhausted, InvalidArgument, InvalidType, LedgerError, MissingValues
from confidp.privacy.guarantees import GDP, ApproxDP
from confidp.privacy.ledger import Ledger
from confidp.privacy.noise import lattice_delta

VALUES = np.random.default_rng(0).integers(0, 101, 200).astype(float)
MEAN = Mean((0, 100), 1)
MU_1 = GDP(1.0)
NAN = math.nan


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "a.ledger", GDP(2.0))


@pytest.fixture
def touched(monkeypatch):
    """What was done with records, in order."""
    log = []

    def recording(name, original):
        def record(*given, **named):
            log.append(name)
            return original(*given, **named)

        return record

    for kind in (Mean, Custom):
        for name in ("encode", "value"):
            monkeypatch.setattr(kind, name, recording(name, getattr(kind, name)))
    return log


def release(data=VALUES, statistic=MEAN, budget=MU_1, **settings):
    return confidence_region(data, statistic, budget=budget, **({"n_resamples": 20} | settings))


BAD = [
    ("data", None, InvalidArgument),
    ("data", [], InvalidArgument),
    ("data", [5.0], InvalidArgument),
    ("data", "wages", InvalidType),
    ("data", {"a": [1, 2]}, InvalidType),
    ("data", ["1", "2"], InvalidType),
    ("data", [1j, 2], InvalidType),
    ("data", [[1], [2, 3]], InvalidArgument),
    ("data", np.zeros((2, 2, 2)), InvalidArgument),
    ("data", pd.Series(["1", "2"]), InvalidType),
    ("data", pl.Series([True, None]), MissingValues),
    ("data", [1.0, None, 3.0], MissingValues),
    ("statistic", "mean", InvalidType),
    ("statistic", None, InvalidType),
    ("budget", None, InvalidType),
    ("budget", 1.0, InvalidType),
    ("budget", GDP, InvalidType),
    ("mu", GDP(2.0**31), InvalidArgument),
    ("mu", GDP(5e-324), InvalidArgument),
    ("delta", ApproxDP(1.0, 1e-30), InvalidArgument),
    ("confidence_level", 0, InvalidArgument),
    ("confidence_level", 1, InvalidArgument),
    ("confidence_level", 95, InvalidArgument),
    ("confidence_level", -0.1, InvalidArgument),
    ("confidence_level", NAN, InvalidArgument),
    ("confidence_level", math.inf, InvalidArgument),
    ("confidence_level", "0.95", InvalidType),
    ("confidence_level", None, InvalidType),
    ("confidence_level", True, InvalidType),
    ("n_resamples", 0, InvalidArgument),
    ("n_resamples", -1, InvalidArgument),
    ("n_resamples", 1.5, InvalidType),
    ("n_resamples", NAN, InvalidType),
    ("n_resamples", "10", InvalidType),
    ("n_resamples", True, InvalidType),
    ("method", "bootstrap", InvalidArgument),
    ("method", None, InvalidType),
    ("method", 5, InvalidType),
    ("resample_size", CRGS(resample_size=200), InvalidArgument),
    ("resample_size", CRGS("with_replacement", resample_size=201), InvalidArgument),
    ("missing", "mean", InvalidArgument),
    ("missing", NAN, InvalidArgument),
    ("missing", math.inf, InvalidArgument),
    ("missing", -1, InvalidArgument),
    ("missing", 101, InvalidArgument),
    ("missing", None, InvalidType),
    ("missing", True, InvalidType),
    ("rng", 7, InvalidArgument),  # with a ledger
    ("rng", -1, InvalidArgument),
    ("rng", "7", InvalidType),
    ("rng", 1.5, InvalidType),
    ("rng", True, InvalidType),
]
ARGUMENT = {"mu": "budget", "delta": "budget", "resample_size": "method"}


@pytest.mark.parametrize(
    ("name", "value", "error"), BAD, ids=[f"{name}-{value!r:.30}" for name, value, _ in BAD]
)
def test_bad_input_is_one_line_that_names_it_before_anything_is_computed_or_charged(
    name, value, error, ledger, touched
):
    given = {"ledger": ledger, ARGUMENT.get(name, name): value}
    with pytest.raises(error) as caught:
        release(**given)
    message = str(caught.value)
    assert message.startswith(name)
    assert "\n" not in message
    assert touched == []
    assert ledger.spent is None
    assert ledger.entries() == ()


@pytest.mark.parametrize(
    ("statistic", "name"),
    [
        (Mean([(0, 1), (0, 1)]), "bounds"),
        (Mean((0, 2.0**52), 1), "resolution"),
        (Custom(np.mean, lambda n: -1.0, bounds=(0, 1)), "sensitivity"),
        (Custom(np.mean, lambda n: 1.0, bounds=(0, 1), scale=lambda n: NAN), "scale"),
    ],
    ids=["bounds", "resolution", "sensitivity", "scale"],
)
def test_a_statistic_that_does_not_fit_the_public_shape_is_refused_too(
    statistic, name, ledger, touched
):
    with pytest.raises(InvalidArgument, match=rf"^{name} must "):
        release(np.zeros(2000), statistic, ledger=ledger)
    assert touched == []
    assert ledger.entries() == ()


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: GDP(0), InvalidArgument, "mu"),
        (lambda: GDP(-1), InvalidArgument, "mu"),
        (lambda: GDP(NAN), InvalidArgument, "mu"),
        (lambda: GDP(math.inf), InvalidArgument, "mu"),
        (lambda: GDP(True), InvalidType, "mu"),
        (lambda: GDP("1"), InvalidType, "mu"),
        (lambda: GDP(1.0, 1.0), InvalidArgument, "delta"),
        (lambda: GDP(1.0, -1e-9), InvalidArgument, "delta"),
        (lambda: ApproxDP(-1.0, 1e-6), InvalidArgument, "epsilon"),
        (lambda: ApproxDP(math.inf, 1e-6), InvalidArgument, "epsilon"),
        (lambda: ApproxDP(1.0, 0.0), InvalidArgument, "delta"),
        (lambda: ApproxDP(1.0, NAN), InvalidArgument, "delta"),
        (lambda: CRGS("bootstrap"), InvalidArgument, "sampling"),
        (lambda: CRGS(resample_size=0), InvalidArgument, "resample_size"),
        (lambda: CRGS(resample_size=1.5), InvalidType, "resample_size"),
        (lambda: CRGS(failure_probability=0.0), InvalidArgument, "failure_probability"),
        (lambda: CRGS(failure_probability=1.0), InvalidArgument, "failure_probability"),
        (lambda: CRGS(failure_probability=NAN), InvalidArgument, "failure_probability"),
    ],
)
def test_budgets_and_methods_refuse_bad_settings_when_they_are_made(make, error, name):
    with pytest.raises(error, match=rf"^{name} must ") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_ledger_that_cannot_be_opened_is_refused(tmp_path, touched):
    with pytest.raises(LedgerError):
        release(ledger=tmp_path / "none.ledger")
    (tmp_path / "text").write_text("not a ledger")
    with pytest.raises(LedgerError):
        release(ledger=str(tmp_path / "text"))
    assert touched == []
    assert not (tmp_path / "none.ledger").exists()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"ledger": 5}, "ledger"),
        ({"statistic": Mean}, "statistic"),
        ({"method": CRGS}, "method"),
    ],
    ids=["ledger", "statistic", "method"],
)
def test_a_class_or_number_in_the_place_of_an_object_is_refused_by_name(given, name):
    with pytest.raises(InvalidType, match=rf"^{name} must "):
        release(**given)


def test_a_label_that_is_not_json_is_refused_before_anything_is_charged(ledger, touched):
    with pytest.raises(InvalidType, match="must hold JSON values"):
        release(ledger=ledger, label=object())
    assert touched == []
    assert ledger.entries() == ()


def test_a_sensitivity_that_is_bad_at_the_resample_size_is_refused(ledger):
    statistic = Custom(np.mean, lambda n: 1 / n if n == 200 else -1 / n, bounds=(0, 1))
    with pytest.raises(InvalidArgument, match=r"^sensitivity must "):
        release(VALUES, statistic, ledger=ledger)
    assert ledger.entries() == ()


def test_a_noise_scale_beyond_the_largest_float_loses_no_charged_result(ledger):
    region = release(statistic=Mean((-1e120, 1e120)), budget=GDP(1e-250), ledger=ledger)
    json.dumps(region.to_dict(), allow_nan=False)
    assert ledger.entry(1).released is not None


def test_a_seeded_run_is_reproducible_and_not_private():
    first, second, other = release(rng=7), release(rng=7), release(rng=8)
    assert first == second
    assert first.center != other.center
    assert first.private is other.private is False
    assert first.to_dict()["private"] is False
    assert "NOT PRIVATE" in str(first)


def test_an_unseeded_run_is_private_and_never_the_same():
    first, second = release(), release()
    assert first.private is second.private is True
    assert first.center != second.center
    assert first.radius != second.radius
    assert "NOT PRIVATE" not in str(first)


def test_one_seed_serves_any_statistic_but_one_generator_gives_each_call_its_own_noise():
    for statistic in (MEAN, Mean((0, 200)), Custom(np.median, lambda n: 100.0, bounds=(0, 100))):
        assert release(statistic=statistic, rng=7) == release(statistic=statistic, rng=7)
        assert not release(statistic=statistic, rng=7).private
    generator = np.random.default_rng(7)
    first, second = release(rng=generator), release(rng=generator)
    assert first.center != second.center
    assert first.private is second.private is False


def test_the_ledger_is_charged_before_the_noise_is_drawn(ledger, monkeypatch):
    spent = []

    def crash(*arguments):
        spent.append(ledger.spent)
        raise RuntimeError("power cut")

    monkeypatch.setattr("confidp.privacy.noise._noise", crash)
    with pytest.raises(RuntimeError, match="power cut"):
        release(ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.released is None
    assert spent == [entry.cost]
    assert ledger.spent.mu >= 1.0


def test_the_ledger_is_charged_before_the_records_are_touched(ledger, touched, monkeypatch):
    charge = Ledger.charge

    def charging(*given):
        touched.append("charge")
        return charge(*given)

    monkeypatch.setattr(Ledger, "charge", charging)
    release(ledger=ledger, n_resamples=2, method=CRGS())
    assert touched == ["charge", "encode", "value"]


def test_an_exhausted_ledger_names_what_remains_and_nothing_is_computed(ledger, touched):
    ledger.charge(GDP(1.9), {"statistic": "other"})
    with pytest.raises(BudgetExhausted, match=r"remains: mu = 0\.62") as caught:
        release(ledger=ledger)
    assert "\n" not in str(caught.value)
    assert touched == []
    assert len(ledger.entries()) == 1


def test_the_ledger_keeps_the_region_and_gives_it_back_equal(ledger):
    region = release(ledger=str(ledger.path), label="survey: wages")
    entry = ledger.entry(1)
    assert ConfidenceRegion.from_dict(entry.released) == region
    assert entry.cost == region.spent
    assert entry.query["data"] == "survey: wages"
    assert entry.query["n"] == len(VALUES)
    assert entry.query["bounds"] == [[0.0, 100.0]]


def exceeded(sets, largest):
    raise MultiplicityExceeded


def test_no_result_is_charged_and_kept_in_the_ledger_too(ledger, monkeypatch):
    monkeypatch.setattr(IndexSets, "check", exceeded)
    region = release(method=CRGS("with_replacement", calibration="published"), ledger=ledger)
    assert region.interval == (-math.inf, math.inf)
    assert region.contains(1e300)
    assert ledger.spent.mu >= 1.0
    assert math.isinf(ConfidenceRegion.from_dict(ledger.entry(1).released).radius)


@pytest.mark.parametrize("mu", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("columns", [1, 3])
def test_spent_is_the_budget_and_the_lattice_delta_of_both_parts(mu, columns):
    data = np.column_stack([VALUES] * columns)
    spent = release(data, budget=GDP(mu), rng=7, method=CRGS()).spent
    half = mu / math.sqrt(2)
    parts = GDP(half, lattice_delta(half, columns)) + GDP(half, lattice_delta(half, 1))
    assert spent.mu == mu
    assert spent.delta == pytest.approx(parts.delta, rel=1e-12, abs=0)
    assert 0 < spent.delta < 1e-24


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-24, 1e-9, 1e-6, 0.5])
def test_an_approximate_budget_covers_the_lattice_and_wastes_little(epsilon, delta):
    spent = release(budget=ApproxDP(epsilon, delta), rng=7).spent
    assert spent.delta > 0
    assert spent.approx_delta(epsilon) <= delta
    assert spent.epsilon(delta) <= epsilon
    assert spent.approx_delta(epsilon) >= delta * (1 - 1e-5)


@pytest.mark.parametrize(
    "data",
    [
        np.array([0.0, 1.0]),  # n = 2
        np.full(50, 7.0),
        np.full(50, 0.0),
        np.full(50, 1e9),  # all beyond the bounds
        np.array([3.0] * 40 + list(range(10))),
        np.column_stack([np.full(50, 7.0), np.arange(50.0)]),
    ],
    ids=["n = 2", "equal", "at a bound", "beyond", "duplicates", "two columns"],
)
@pytest.mark.parametrize("n_resamples", [1, 2, 50])
@pytest.mark.parametrize("sampling", ["with_replacement", "without_replacement"])
def test_degenerate_data_give_finite_ordered_intervals(data, n_resamples, sampling):
    method = CRGS(sampling, resample_size=1 if len(data) == 2 else None)
    region = release(data, rng=7, n_resamples=n_resamples, method=method)
    for low, high in region.intervals:
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert low <= high


def test_a_statistic_that_always_fails_is_0_with_noise_and_raises_nothing():
    statistic = Custom(lambda x: 1 / 0, lambda n: 1 / n, bounds=(0, 100))
    assert abs(release(statistic=statistic, budget=GDP(8.0), rng=7).center[0]) < 0.01


def test_an_outlier_beyond_the_bounds_changes_nothing():
    inside, outside = VALUES.copy(), VALUES.copy()
    inside[3], outside[3] = 100.0, 1e300
    assert release(inside, rng=7) == release(outside, rng=7)


def test_what_stands_in_for_missing_values_does_not_show():
    holes = VALUES.copy()
    holes[[3, 5]] = NAN
    filled = np.where(np.isnan(holes), 50.0, holes)
    assert release(holes, rng=7, missing=50) == release(filled, rng=7)
    assert release(filled, rng=7, missing=50) == release(filled, rng=7)


@pytest.mark.parametrize(
    "data",
    [
        VALUES.astype(int).tolist(),
        tuple(VALUES),
        [Decimal(int(x)) for x in VALUES],
        VALUES.astype(np.uint8),
        VALUES.astype(np.float32)[:, None],
        np.asfortranarray(VALUES[:, None]),
        np.repeat(VALUES, 2)[::2],
        np.ma.array(VALUES),
        pd.Series(VALUES),
        pd.Series(VALUES, dtype="Int64"),
        pd.DataFrame({"x": VALUES}),
        pl.Series(VALUES),
        pl.Series(VALUES).cast(pl.Int16),
        pl.DataFrame({"x": VALUES}),
        pa.array(VALUES),
        pa.chunked_array([VALUES[:7], VALUES[7:]]),
        pa.table({"x": VALUES}),
    ],
    ids=lambda data: type(data).__module__,
)
def test_the_same_numbers_in_any_container_give_the_same_region(data):
    assert release(data, rng=7) == release(VALUES, rng=7)


def test_the_error_for_missing_values_is_the_same_whichever_and_however_many(ledger, touched):
    messages = set()
    for rows in ([0], [199], range(100), range(200)):
        data = VALUES.copy()
        data[list(rows)] = NAN
        with pytest.raises(MissingValues) as caught:
            release(data, ledger=ledger)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert touched == []
    assert ledger.entries() == ()


def test_only_what_is_released_depends_on_the_data(ledger, capfd, recwarn):
    data = [VALUES, np.full(200, 100.0), np.where(np.arange(200) == 3, 1e300, 0.0)]
    said, entries = set(), set()
    for values in data:
        region = release(values, rng=7)
        settings = {k: v for k, v in region.public.items() if k != "variance"}  # it is released
        public = dataclasses.replace(region, center=(0.0,), radius=1.0, public=settings)
        said.add((repr(public), str(public), json.dumps(public.to_dict())))
        release(values, budget=GDP(0.5), ledger=ledger)
        entries.add(json.dumps([ledger.entries()[-1].query, ledger.entries()[-1].cost.delta]))
    assert len(said) == len(entries) == 1
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_nothing_that_is_printed_or_written_holds_a_record(ledger):
    data = VALUES.copy()
    data[5] = 73.125  # a value of its own, between whole numbers
    statistic = Mean((0, 100))
    region = release(data, statistic, ledger=ledger)
    told = [repr(region), str(region), json.dumps(region.to_dict()), repr(statistic)]
    told += [repr(ledger), repr(ledger.entries())]
    assert not any("73.125" in text for text in told)
    assert b"73.125" not in ledger.path.read_bytes()
