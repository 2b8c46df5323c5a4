"""The ledger: exact sums, atomic charges, and the filter's theorem under a simulated adversary."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

from confidp.errors import BudgetExhausted, InvalidArgument, InvalidType, LedgerError
from confidp.privacy import ledger as ledger_module
from confidp.privacy.guarantees import GDP
from confidp.privacy.ledger import DEFAULT_DELTA, Entry, Ledger

QUERY = {"statistic": "mean", "bounds": [0, 30_000]}
LEAST = 5e-324  # the least positive double


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "a.ledger", GDP(1.0))


def sums(ledger: Ledger) -> tuple[Fraction, Fraction]:
    """Σμ² and Σδ of all charges, by another way than the ledger's."""
    costs = [entry.cost for entry in ledger.entries()]
    return sum(Fraction(c.mu) ** 2 for c in costs), sum(Fraction(c.delta) for c in costs)


def sql(path: Path, statement: str, *parameters: object) -> list[tuple]:
    """Run one statement on the file behind the ledger's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return db.execute(statement, parameters).fetchall()


def fill(ledger: Ledger, costs: list[GDP]) -> None:
    """Insert many charges at once, unchecked: one by one they would take a minute."""
    first = len(ledger.entries()) + 1
    with closing(sqlite3.connect(ledger.path)) as db, db:
        rows = [(i, "then", c.mu, c.delta, "{}") for i, c in enumerate(costs, first)]
        db.executemany("INSERT INTO charge VALUES (?, ?, ?, ?, ?, NULL)", rows)
        seals = list(db.execute("SELECT digest FROM seal ORDER BY number"))
        ((seal,),) = seals[-1:]
        for row in rows:
            seal = ledger_module._seal(seal, row)
            db.execute("INSERT INTO seal VALUES (?, ?)", (row[0], seal))


def script(body: str, *arguments: object) -> subprocess.Popen[str]:
    """Start another Python, with the ledger imported, on `body`."""
    head = (
        "import os, random, resource, signal, sys, time\n"
        "from pathlib import Path\n"
        "from confidp.errors import BudgetExhausted, LedgerError\n"
        "from confidp.privacy.guarantees import GDP\n"
        "from confidp.privacy.ledger import Ledger\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + body, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        # One thread, so that the scripts may fork.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )


def outcome(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return out.splitlines()


# --- a ledger's life ---


def test_a_charge_is_kept_with_its_query_its_cost_and_its_result(ledger: Ledger) -> None:
    number = ledger.charge(GDP(0.5, 1e-24), QUERY)
    ledger.record(number, {"interval": [1.5, 2.5]})
    [entry] = Ledger.open(ledger.path).entries()
    assert entry == Entry(1, entry.when, GDP(0.5, 1e-24), QUERY, {"interval": [1.5, 2.5]})
    assert entry.when.endswith("+00:00")
    assert len(entry.when) == len("2026-01-01T00:00:00+00:00")


def test_an_opened_ledger_equals_the_created_one(tmp_path: Path) -> None:
    made = Ledger.create(tmp_path / "ü %#?.db", GDP(0.1, 1e-7), unit="one row is one household")
    assert Ledger.open(made.path) == made
    assert made.unit == "one row is one household"


def test_a_total_without_delta_gets_the_default(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.total == GDP(1.0, DEFAULT_DELTA)
    assert ledger.unit == "one row is one person"
    assert Ledger.create(tmp_path / "b", GDP(1.0, 0.25)).total == GDP(1.0, 0.25)


def test_a_fresh_ledger_has_spent_nothing_and_has_all_left(ledger: Ledger) -> None:
    assert ledger.spent is None
    assert ledger.remaining == ledger.total
    assert ledger.entries() == ()


def test_a_past_result_shown_again_costs_nothing(ledger: Ledger) -> None:
    ledger.record(ledger.charge(GDP(0.5), QUERY), {"center": 3.25})
    before = ledger.path.read_bytes()
    for _ in range(3):
        assert ledger.entry(1).released == {"center": 3.25}
    assert ledger.path.read_bytes() == before


def test_a_charge_without_a_result_says_so(ledger: Ledger) -> None:
    ledger.charge(GDP(0.5), QUERY)
    assert ledger.entry(1).released is None


def test_a_result_is_recorded_once(ledger: Ledger) -> None:
    number = ledger.charge(GDP(0.5), QUERY)
    ledger.record(number, {"center": 1})
    with pytest.raises(InvalidArgument, match="charge 1 has its result already"):
        ledger.record(number, {"center": 2})
    assert ledger.entry(1).released == {"center": 1}


@pytest.mark.parametrize("number", [2, 10**30])
def test_an_unknown_number_is_refused(ledger: Ledger, number: int) -> None:
    ledger.charge(GDP(0.5), QUERY)
    with pytest.raises(InvalidArgument, match=f"not {number}"):
        ledger.record(number, {})
    with pytest.raises(InvalidArgument, match=f"not {number}"):
        ledger.entry(number)


@pytest.mark.parametrize(("number", "error"), [(0, InvalidArgument), ("1", InvalidType)])
def test_a_number_is_a_whole_number_from_1(ledger: Ledger, number: int, error: type) -> None:
    with pytest.raises(error, match="number must be"):
        ledger.entry(number)


def test_a_clock_going_backwards_does_no_harm(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for year in (2030, 2020, 1999):
        monkeypatch.setattr(ledger_module, "_now", lambda y=year: f"{y}-01-01T00:00:00+00:00")
        ledger.charge(GDP(0.5), {"year": year})
    assert [(e.number, e.query["year"], e.when[:4]) for e in ledger.entries()] == [
        (1, 2030, "2030"),
        (2, 2020, "2020"),
        (3, 1999, "1999"),
    ]
    assert ledger.remaining == GDP(0.5, DEFAULT_DELTA)


def test_repr_shows_the_path_and_the_total_only(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a", GDP(1.0), unit="one household")
    ledger.record(ledger.charge(GDP(0.5), {"secret": "tuna"}), {"center": 41})
    assert repr(ledger) == f"Ledger(path={ledger.path!r}, total=GDP(mu=1.0, delta=1e-09))"


def test_a_change_of_directory_does_not_move_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create("a.ledger", GDP(1.0))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert ledger.charge(GDP(0.5), QUERY) == 1


def test_everything_is_in_one_file(ledger: Ledger) -> None:
    ledger.charge(GDP(0.5), QUERY)
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


# --- what is refused ---


def test_a_refusal_names_what_remains_and_writes_nothing(ledger: Ledger) -> None:
    ledger.charge(GDP(0.5, 2.0**-31), QUERY)
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExhausted) as caught:
        ledger.charge(GDP(0.875), {"secret": "tuna"})
    left = ledger.remaining
    assert left is not None
    message = str(caught.value)
    assert f"remains: mu = {left.mu}, delta = {left.delta}" in message
    assert "\n" not in message
    assert "tuna" not in message
    assert ledger.path.read_bytes() == before


def test_what_remains_may_be_charged_and_then_nothing_more(ledger: Ledger) -> None:
    rng = random.Random(5)
    for _ in range(20):
        ledger.charge(GDP(rng.uniform(0.01, 0.2), rng.uniform(0, 4e-11)), QUERY)
    left = ledger.remaining
    assert left is not None
    ledger.charge(left, QUERY)
    with pytest.raises(BudgetExhausted):
        ledger.charge(left, QUERY)
    spent = ledger.spent
    assert spent is not None
    assert spent.mu <= 1.0
    assert Fraction(spent.mu) ** 2 >= sums(ledger)[0]
    assert Fraction(spent.delta) >= sums(ledger)[1]


def test_a_used_up_ledger_says_that_nothing_remains(ledger: Ledger) -> None:
    ledger.charge(GDP(1.0), QUERY)
    assert ledger.remaining is None
    assert ledger.spent == GDP(1.0)
    with pytest.raises(BudgetExhausted, match=r"remains: mu = 0.0, delta = 1e-09"):
        ledger.charge(GDP(LEAST), QUERY)


def test_delta_is_capped_too(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a", GDP(1.0, 2.0**-20))
    for _ in range(4):
        ledger.charge(GDP(0.01, 2.0**-22), QUERY)
    with pytest.raises(BudgetExhausted, match=r"delta = 0.0$"):
        ledger.charge(GDP(0.01, LEAST), QUERY)
    left = ledger.remaining
    assert left is not None
    assert left.delta == 0.0
    assert left.mu > 0.99
    assert ledger.charge(GDP(0.01), QUERY) == 5


@pytest.mark.parametrize("cost", [0.5, (0.5, 0.0), None, "0.5"])
def test_a_cost_is_a_gdp(ledger: Ledger, cost: GDP, tmp_path: Path) -> None:
    with pytest.raises(InvalidType, match="cost must be a GDP"):
        ledger.charge(cost, QUERY)
    with pytest.raises(InvalidType, match="total must be a GDP"):
        Ledger.create(tmp_path / "b", cost)
    assert not (tmp_path / "b").exists()


NOT_JSON = [
    ({"a": {1, 2}}, InvalidType),
    ({"a": np.int64(1)}, InvalidType),
    ({(1, 2): 3}, InvalidType),
    ([1, 2], InvalidType),
    (None, InvalidType),
    ({"a": float("nan")}, InvalidArgument),
    ({"a": float("inf")}, InvalidArgument),
]
LOOP: dict[str, object] = {}
LOOP["a"] = LOOP


@pytest.mark.parametrize(("bad", "error"), [*NOT_JSON, (LOOP, InvalidArgument)])
def test_what_is_not_json_is_refused_before_the_charge(
    ledger: Ledger, bad: dict, error: type
) -> None:
    with pytest.raises(error, match=r"^query must") as caught:
        ledger.charge(GDP(0.5), bad)
    assert "\n" not in str(caught.value)
    assert ledger.entries() == ()
    ledger.charge(GDP(0.5), QUERY)
    with pytest.raises(error, match=r"^released must"):
        ledger.record(1, bad)
    assert ledger.entry(1).released is None


@pytest.mark.parametrize("unit", ["", " ", "two\nlines", "\ud800"])
def test_a_unit_is_one_line_of_text(tmp_path: Path, unit: str) -> None:
    with pytest.raises(InvalidArgument, match="unit must be one line"):
        Ledger.create(tmp_path / "a", GDP(1.0), unit=unit)
    with pytest.raises(InvalidType, match="unit must be a str"):
        Ledger.create(tmp_path / "a", GDP(1.0), unit=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="path must be a path"):
        Ledger.open(3)  # type: ignore[arg-type]


# --- exact sums ---


def test_ten_thousand_small_charges_stop_exactly_where_fractions_say(ledger: Ledger) -> None:
    # The double 0.01 is a little above 1/100: 9,999 fit in GDP(1.0), and not 10,000.
    fits = int(1 / Fraction(0.01) ** 2)
    assert fits == 9_999
    fill(ledger, [GDP(0.01)] * (fits - 1))
    assert ledger.charge(GDP(0.01), QUERY) == fits
    with pytest.raises(BudgetExhausted):
        ledger.charge(GDP(0.01), QUERY)
    left = ledger.remaining
    assert left is not None
    assert Fraction(left.mu) ** 2 <= 1 - sums(ledger)[0]
    assert Fraction(np.nextafter(left.mu, 2)) ** 2 > 1 - sums(ledger)[0]


def test_dyadic_charges_fit_to_the_last(ledger: Ledger) -> None:
    fill(ledger, [GDP(2.0**-7)] * (2**14 - 1))
    assert ledger.remaining == GDP(2.0**-7, DEFAULT_DELTA)
    assert ledger.charge(GDP(2.0**-7), QUERY) == 2**14
    assert ledger.remaining is None


def test_charges_below_the_last_bit_of_the_sum_are_counted(tmp_path: Path) -> None:
    # Σμ² = 1 − 2^-60, which 2^14 charges of μ² = 2^-74 make 1. A running sum of doubles is 1 from
    # the start, and stays 1 for ever.
    ledger = Ledger.create(tmp_path / "a", GDP(1.0, 2.0**-1))
    fill(ledger, [GDP(2.0**-k) for k in range(1, 31) for _ in range(3)])  # Σμ² = 1 − 2^-60
    fill(ledger, [GDP(2.0**-37)] * (2**14 - 1))
    assert sums(ledger)[0] == 1 - Fraction(1, 2**74)
    assert ledger.remaining == GDP(2.0**-37, 0.5)
    with pytest.raises(BudgetExhausted):
        ledger.charge(GDP(np.nextafter(2.0**-37, 1)), QUERY)
    ledger.charge(GDP(2.0**-37, 0.5 - 2.0**-54), QUERY)
    assert ledger.remaining is None
    with pytest.raises(BudgetExhausted):
        ledger.charge(GDP(1e-200), QUERY)


@pytest.mark.parametrize("mu", [LEAST, 1e-200, 1e-9, 1e9, 1.7e308])
def test_totals_at_the_ends_of_the_double_range_work(tmp_path: Path, mu: float) -> None:
    ledger = Ledger.create(tmp_path / "a", GDP(mu))
    ledger.charge(GDP(mu / 2 or mu), QUERY)
    assert ledger.spent == GDP(mu / 2 or mu)
    left = ledger.remaining
    if mu == LEAST:
        assert left is None
    else:
        assert left is not None
        assert left.mu == pytest.approx(0.75**0.5 * mu, rel=1e-12)
        ledger.charge(left, QUERY)


@pytest.mark.parametrize("seed", range(8))
def test_adaptively_chosen_charges_never_exceed_the_total(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    total = GDP(rng.uniform(0.1, 8), 10 ** rng.uniform(-12, -1))
    ledger = Ledger.create(tmp_path / "a", total)
    mu_squared = delta = Fraction(0)
    for _ in range(60):
        left = ledger.remaining
        if left is None:
            break
        # Near what remains, one double beside it, or anything down to the least double.
        mu = rng.choice(
            [left.mu * rng.random(), left.mu, np.nextafter(left.mu, 9), 10 ** rng.uniform(-323, 1)]
        )
        d = rng.choice([0.0, left.delta * rng.random(), left.delta / 3, left.delta * 1.001])
        cost = GDP(max(mu, LEAST), d)
        new = mu_squared + Fraction(cost.mu) ** 2, delta + Fraction(cost.delta)
        if new[0] <= Fraction(total.mu) ** 2 and new[1] <= Fraction(total.delta):
            ledger.charge(cost, QUERY)
            mu_squared, delta = new
        else:
            with pytest.raises(BudgetExhausted):
                ledger.charge(cost, QUERY)
        assert sums(ledger) == (mu_squared, delta)
    assert mu_squared > 0


# --- many processes, and their deaths ---


def test_ten_processes_at_once_spend_exactly_the_total(ledger: Ledger) -> None:
    body = """
ledger, go = Ledger.open(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for i in range(20):
    try:
        print(ledger.charge(GDP(0.125), {"process": os.getpid(), "i": i}))
    except BudgetExhausted:
        print("refused")
"""
    # As much as one of their charges, in parts, so that reading all charges takes a while.
    fill(ledger, [GDP(2.0**-8)] * 2**10)
    go = ledger.path.parent / "go"
    processes = [script(body, ledger.path, go) for _ in range(10)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    lines = [line for process in processes for line in outcome(process)]
    assert sorted(int(line) for line in lines if line != "refused") == [
        2**10 + i for i in range(1, 64)
    ]
    assert len(lines) == 200
    assert sums(ledger)[0] == 1
    assert ledger.remaining is None


def test_of_processes_that_create_one_ledger_at_once_one_wins(tmp_path: Path) -> None:
    body = """
folder = Path(sys.argv[1])
for turn in range(25):
    start = time.monotonic() + 0.01
    children = []
    for mu in (1, 2, 3, 4):
        pid = os.fork()
        if not pid:
            time.sleep(max(start - time.monotonic(), 0))
            try:
                Ledger.create(folder / f"{turn}", GDP(mu))
                os._exit(mu)
            except LedgerError:
                os._exit(0)
            except BaseException:
                os._exit(9)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    [winner] = [code for code in codes if code]
    assert Ledger.open(folder / f"{turn}").total.mu == winner
    print("ok")
"""
    assert outcome(script(body, tmp_path)) == ["ok"] * 25


def test_kill_9_loses_no_charge_that_returned_and_leaves_no_half_charge(tmp_path: Path) -> None:
    # Queries of a million characters, so that many kills fall between two of the pages written.
    body = """
rng, query, counts = random.Random(11), {"pad": "x" * 1_000_000}, [0, 0, 0]
for turn in range(40):
    path = Path(sys.argv[1], f"{turn}.ledger")
    ledger = Ledger.create(path, GDP(4.0))
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        while True:
            number = ledger.charge(GDP(0.5), query)
            os.write(write, b"%d\\n" % number)
    os.close(write)
    with open(read, "rb") as pipe:
        printed = [pipe.readline()]
        start = time.monotonic()
        printed += [pipe.readline() for _ in range(rng.randint(1, 3))]
        time.sleep(rng.uniform(0, 2) * (time.monotonic() - start) / (len(printed) - 1))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        printed = [int(line) for line in printed + pipe.readlines()]
    counts[0] += Path(f"{path}-journal").exists()
    entries = Ledger.open(path).entries()
    numbers = [entry.number for entry in entries]
    assert numbers == list(range(1, len(numbers) + 1))
    # At most one more than was printed: committed, and killed before it could be.
    assert printed in (numbers, numbers[:-1])
    assert all(entry.query == query and entry.cost == GDP(0.5) for entry in entries)
    assert ledger.spent.mu >= 0.5 * len(numbers) ** 0.5
    counts[1] += len(printed)
    counts[2] += len(numbers) - len(printed)
    path.unlink()
print(*counts)
"""
    [line] = outcome(script(body, tmp_path))
    assert int(line.split()[1]) >= 80


def test_kill_9_while_creating_leaves_a_whole_ledger_or_none(tmp_path: Path) -> None:
    body = """
folder, rng, counts = Path(sys.argv[1]), random.Random(12), [0, 0, 0]
start = time.monotonic()
Ledger.create(folder / "first", GDP(1.0))
usual = time.monotonic() - start
for turn in range(60):
    path = folder / f"{turn}"
    pid = os.fork()
    if not pid:
        Ledger.create(path, GDP(1.0))
        os._exit(0)
    time.sleep(rng.uniform(0, 2) * usual)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not path.exists():
        counts[0] += 1
        continue
    try:
        assert Ledger.open(path).charge(GDP(1.0), {}) == 1
        counts[2] += 1
    except LedgerError:
        counts[1] += 1
print(*counts)
"""
    [line] = outcome(script(body, tmp_path))
    assert sum(map(int, line.split())) == 60


# --- the audit trail only grows ---


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charge",
        "DELETE FROM charge WHERE number = 2",
        "UPDATE charge SET mu = 0.001",
        "UPDATE charge SET mu = 0.001, released = '{}' WHERE number = 2",
        "UPDATE OR IGNORE charge SET delta = 0 , released = '{}' WHERE number = 2",
        "UPDATE charge SET query = '{}', released = '{}' WHERE number = 2",
        "UPDATE charge SET at = 'never', released = '{}' WHERE number = 2",
        "UPDATE OR REPLACE charge SET number = 1, released = '{}' WHERE number = 2",
        "UPDATE charge SET released = '{}' WHERE number = 1",
        "UPDATE charge SET released = NULL WHERE number = 1",
        "INSERT OR REPLACE INTO charge VALUES (1, '', 0.001, 0, '{}', NULL)",
        "INSERT OR REPLACE INTO charge VALUES (-1, '', 0.001, 0, '{}', NULL)",
        "INSERT INTO charge VALUES (3, '', -0.5, 0, '{}', NULL)",
        "INSERT INTO charge VALUES (3, '', 'much', 0, '{}', NULL)",
        "INSERT INTO charge VALUES (3, '', 9e999, 0, '{}', NULL)",
        "INSERT INTO charge VALUES (3, '', 0.5, 1, '{}', NULL)",
        "UPDATE total SET mu = 100",
        "DELETE FROM total",
        "INSERT OR REPLACE INTO total VALUES (1, 100, 0.5, '')",
        "INSERT INTO total VALUES (2, 100, 0.5, '')",
        "UPDATE seal SET digest = ''",
        "DELETE FROM seal WHERE number = 2",
        "INSERT INTO seal VALUES (7, '')",
        "INSERT OR REPLACE INTO seal VALUES (1, '')",
    ],
)
def test_sql_that_would_rewrite_history_is_refused(ledger: Ledger, statement: str) -> None:
    ledger.record(ledger.charge(GDP(0.5, 1e-12), QUERY), {"center": 1})
    ledger.charge(GDP(0.25, 1e-12), QUERY)
    before = ledger.entries()
    with pytest.raises(sqlite3.IntegrityError):
        sql(ledger.path, statement)
    assert Ledger.open(ledger.path).entries() == before


# --- files that can't be used ---


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("mu,delta\n0.5,0\n" * 1000)


def folder(path: Path) -> None:
    path.mkdir()


def foreign(path: Path) -> None:
    sql(path, "CREATE TABLE charge (number, mu)")


def foreign_in_wal(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE charge (number, mu)")


def truncated(path: Path) -> None:
    whole(path)
    path.write_bytes(path.read_bytes()[:-5000])


def cut_in_the_header(path: Path) -> None:
    whole(path)
    path.write_bytes(path.read_bytes()[:60])


def overwritten(path: Path) -> None:
    whole(path)
    data = path.read_bytes()
    path.write_bytes(data[:-4096] + bytes(range(256)) * 16)


def newer(path: Path) -> None:
    whole(path)
    sql(path, "PRAGMA user_version = 2")


def without_rules(path: Path) -> None:
    whole(path)
    sql(path, "DROP TRIGGER charge_delete")


def without_total(path: Path) -> None:
    whole(path)
    [(rule,)] = sql(path, "SELECT sql FROM sqlite_master WHERE name = 'total_delete'")
    sql(path, "DROP TRIGGER total_delete")
    sql(path, "DELETE FROM total")
    sql(path, rule)


def whole(path: Path) -> None:
    ledger = Ledger.create(path, GDP(1.0))
    for _ in range(3):
        ledger.charge(GDP(0.25), {"pad": "x" * 5000})


BAD_FILES: list[tuple[Callable[[Path], None], str]] = [
    (lambda path: None, "unable to open database file"),
    (folder, "unable to open database file"),
    (empty, "is not a confidp ledger"),
    (text, "file is not a database"),
    (foreign, "is not a confidp ledger"),
    (foreign_in_wal, "is not a confidp ledger"),
    (truncated, "malformed"),
    (cut_in_the_header, "malformed|not a database|not a confidp ledger"),
    (overwritten, "corrupt|malformed"),
    (newer, "was made by a newer version of confidp"),
    (without_rules, "rules of the ledger .* have been altered"),
    (without_total, "is corrupt"),
]


@pytest.mark.parametrize(("make", "why"), BAD_FILES, ids=lambda x: getattr(x, "__name__", ""))
def test_a_file_that_is_no_ledger_is_refused_in_one_line(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "a"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError, match=why) as caught:
        Ledger.open(path)
    assert "\n" not in str(caught.value)
    assert before == (path.read_bytes() if path.is_file() else None)


def test_what_is_there_already_is_never_overwritten(tmp_path: Path) -> None:
    for i, (make, _) in enumerate(BAD_FILES[1:]):
        make(tmp_path / str(i))
        before = None if make is folder else (tmp_path / str(i)).read_bytes()
        with pytest.raises(LedgerError, match="File exists"):
            Ledger.create(tmp_path / str(i), GDP(1.0))
        assert before is None or (tmp_path / str(i)).read_bytes() == before


def test_a_ledger_that_fails_to_be_made_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LedgerError, match="No such file or directory"):
        Ledger.create(tmp_path / "missing" / "a", GDP(1.0))
    monkeypatch.setattr(ledger_module, "_SCHEMA", (*ledger_module._SCHEMA, "CREATE NONSENSE"))
    with pytest.raises(LedgerError, match="syntax error"):
        Ledger.create(tmp_path / "a", GDP(1.0))
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_vanished_is_not_made_anew(ledger: Ledger) -> None:
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="unable to open"):
        ledger.charge(GDP(0.5), QUERY)
    assert not ledger.path.exists()


def test_a_locked_ledger_is_an_error_after_the_wait(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.remaining == ledger.total  # readers needn't wait for a writer
        with pytest.raises(LedgerError, match="database is locked"):
            ledger.charge(GDP(0.5), QUERY)
    # A reader holds up the commit itself.
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM total").fetchall()
        with pytest.raises(LedgerError, match="database is locked"):
            ledger.charge(GDP(0.5), QUERY)
    assert ledger.entries() == ()
    assert ledger.charge(GDP(0.5), QUERY) == 1


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_read_only_ledger_can_be_read_and_not_charged(open_folder: Path) -> None:
    ledger = Ledger.create(open_folder / "a", GDP(1.0))
    ledger.charge(GDP(0.5), QUERY)
    ledger.path.chmod(0o444)
    body = """
if os.geteuid() == 0:  # root may write anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ledger = Ledger.open(sys.argv[1])
print(len(ledger.entries()))
try:
    ledger.charge(GDP(0.5), {})
except LedgerError as error:
    print(error)
"""
    count, message = outcome(script(body, ledger.path))
    assert count == "1"
    assert message.endswith("attempt to write a readonly database")
    assert len(ledger.entries()) == 1


def test_a_full_disk_is_an_error_and_charges_nothing(ledger: Ledger) -> None:
    body = """
ledger = Ledger.open(sys.argv[1])
ledger.charge(GDP(0.25), {})
size = os.path.getsize(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    ledger.charge(GDP(0.5), {"pad": "x" * 100_000})
except LedgerError as error:
    print(error)
"""
    [message] = outcome(script(body, ledger.path))
    assert "can't be used: " in message
    assert [entry.number for entry in Ledger.open(ledger.path).entries()] == [1]
    assert ledger.charge(GDP(0.5), QUERY) == 2


def test_a_ledger_switched_to_wal_goes_back_to_one_file(ledger: Ledger) -> None:
    assert sql(ledger.path, "PRAGMA journal_mode = WAL") == [("wal",)]
    ledger.charge(GDP(0.5), QUERY)
    assert sql(ledger.path, "PRAGMA journal_mode") == [("delete",)]
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


# --- the theorem, attacked ---
#
# Rounds are N(bμ_i, 1), the worst μ_i-GDP mechanisms, which with probability δ_i give b = 1 away.
# An adversary picks (μ_i², δ_i) from the outputs so far; the transcript's exact log-likelihood
# ratio, Σ(μ_i x_i − μ_i²/2), or ∞ where b was given away, is thresholded. Total: μ = 1, δ = 0.05.

Array = NDArray[np.float64]
Adversary = Callable[[Array, Array, Array], tuple[Array, Array]]
DELTA = 0.05


def doubles_down(score: Array, last: Array, ask: Array) -> tuple[Array, Array]:
    """Ask twice as much after a favourable output, half as much after another."""
    return np.where(last > 0, 2 * ask, ask / 2), np.where(last > 0, 0.0, DELTA / 4)


def stops_when_ahead(score: Array, last: Array, ask: Array) -> tuple[Array, Array]:
    """Spend until the evidence is good enough."""
    return np.where(score > 0.5, 0.0, 0.2), np.where(score > 0.5, 0.0, DELTA / 3)


def bets_the_rest(score: Array, last: Array, ask: Array) -> tuple[Array, Array]:
    """Sip, and take all that is left as soon as the evidence is undecided."""
    undecided = np.abs(score) < 0.2
    return np.where(undecided, 1.0, 0.05), np.where(undecided, DELTA, 0.0)


ADVERSARIES: list[Adversary] = [doubles_down, stops_when_ahead, bets_the_rest]


def scores(
    adversary: Adversary,
    b: int,
    rng: np.random.Generator,
    runs: int,
    most: float = 1.0,
    most_delta: float = DELTA,
    overshoot: bool = False,
    refund: bool = False,
) -> Array:
    """Draw the log-likelihood ratios of transcripts.

    The defaults are the filter. It is broken by another total; by `overshoot`, which checks what
    was spent before and not the new charge; by `refund`, which takes unlucky rounds off the bill.
    """
    spent, spent_delta, score, last = np.zeros((4, runs))
    ask = np.full(runs, 0.1)
    given_away = np.zeros(runs, dtype=bool)
    for _ in range(12):
        ask, ask_delta = adversary(score, last, ask)
        left = np.where(spent < most, np.inf if overshoot else most - spent, 0.0)
        granted = np.minimum(ask, left)
        granted_delta = np.minimum(ask_delta, most_delta - spent_delta)
        mu = np.sqrt(granted)
        last = np.where(mu > 0, b * mu + rng.standard_normal(runs), 0.0)
        score = score + mu * last - granted / 2
        given_away |= (rng.random(runs) < granted_delta) & (b == 1)
        spent = spent + np.where(last < 0, 0.0, granted) if refund else spent + granted
        spent_delta = spent_delta + granted_delta
    return np.where(given_away, np.inf, score)


def leaks(adversary: Adversary, seed: int, **broken: float) -> bool:
    """Whether T ≥ max(G_1 − δ, 0) is refuted; false alarms have probability 1e-6 at most.

    Of two exact binomial bounds for each of 13 thresholds and 3 adversaries.
    """
    runs, thresholds = 200_000, np.linspace(-1.5, 1.5, 13)
    slip = 1e-6 / (2 * len(thresholds) * len(ADVERSARIES))
    rng = np.random.default_rng(seed)
    null, alternative = (scores(adversary, b, rng, runs, **broken) for b in (0, 1))
    for t in thresholds:
        wrong = np.array([np.sum(null > t), np.sum(alternative <= t)])
        alpha_up, miss_up = beta.ppf(1 - slip, wrong + 1, runs - wrong)  # Clopper and Pearson
        if miss_up < norm.cdf(-norm.ppf(alpha_up) - 1) - DELTA:
            return True
    return False


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_no_adaptive_adversary_beats_the_filter(adversary: Adversary) -> None:
    assert not leaks(adversary, seed=1)


@pytest.mark.parametrize(
    "broken",
    [{"most": 2.0}, {"overshoot": True}, {"refund": True}, {"most_delta": 5 * DELTA}],
    ids=lambda broken: next(iter(broken)),
)
def test_the_attack_sees_a_broken_filter(broken: dict[str, float]) -> None:
    assert any(leaks(adversary, seed=2, **broken) for adversary in ADVERSARIES)
