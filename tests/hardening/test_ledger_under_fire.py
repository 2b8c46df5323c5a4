"""The ledger under fire: kills, full disks, failing statements, damaged files, many processes.

Whatever happens, no more is spent than the total, no charge that returned is forgotten, and what
can't be done is a `LedgerError` in one line. `CONFIDP_LONG=1` kills hundreds of times.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from confidp import GDP, BudgetExhausted, Ledger, LedgerError
from confidp.privacy import ledger as ledger_module

LONG = "CONFIDP_LONG" in os.environ
KILLS = 400 if LONG else 24
SEED = 20261130


def script(body: str, *arguments: object) -> list[str]:
    """Run Python on `body` in another process and return its lines."""
    head = (
        "import os, random, resource, signal, sys, time\n"
        "from pathlib import Path\n"
        "from confidp.errors import BudgetExhausted, LedgerError\n"
        "from confidp.privacy.guarantees import GDP\n"
        "from confidp.privacy.ledger import Ledger\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + body, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=True,
    )
    return done.stdout.splitlines()


def spent(ledger: Ledger) -> Fraction:
    return sum((Fraction(e.cost.mu) ** 2 for e in ledger.entries()), Fraction(0))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "a.ledger", GDP(1.0))
    for i in range(4):
        made.charge(GDP(0.25), {"i": i, "pad": "x" * 3000})
    return made


def test_kills_at_random_instants_of_many_processes_never_overspend(tmp_path: Path) -> None:
    """Four processes charge one ledger and record results until killed, again and again."""
    body = """
folder, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
total, path = 40.0, folder / "a.ledger"
Ledger.create(path, GDP(total))
returned = set()
for turn in range(kills // 4):
    read, write = os.pipe()
    children = []
    for child in range(4):
        pid = os.fork()
        if not pid:
            own = random.Random(1000 * turn + child)
            ledger = Ledger.open(path)
            for _ in range(50):
                try:
                    number = ledger.charge(GDP(own.choice([0.25, 0.5])), {"pad": "x" * 100_000})
                except BudgetExhausted:
                    break
                os.write(write, b"%d\\n" % number)
                ledger.record(number, {"center": number})
            os._exit(0)
        children.append(pid)
    os.close(write)
    with open(read, "rb") as pipe:
        lines = [pipe.readline()]  # they are at it
        for pid in children:
            time.sleep(rng.uniform(0.002, 0.04))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        returned |= {int(line) for line in lines + pipe.readlines()}
    entries = Ledger.open(path).entries()
    assert [e.number for e in entries] == list(range(1, len(entries) + 1))
    assert returned <= {e.number for e in entries}
    assert sum(e.cost.mu ** 2 for e in entries) <= total ** 2
    assert all(e.released in (None, {"center": e.number}) for e in entries)
print(len(returned), len(entries))
"""
    [line] = script(body, tmp_path, KILLS, SEED)
    returned, entries = map(int, line.split())
    if LONG:
        print(f"\n{KILLS} kills, {entries} charges of which {returned} returned")
    assert entries - KILLS <= returned <= entries  # a kill hides at most one charge
    assert returned >= KILLS // 4


def test_twenty_processes_at_once_spend_exactly_the_total(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "a.ledger", GDP(1.0))
    body = """
path = sys.argv[1]
children = []
for child in range(20):
    pid = os.fork()
    if not pid:
        got = 0
        for _ in range(4):
            try:
                Ledger.open(path).charge(GDP(0.125), {"child": child})
                got += 1
            except BudgetExhausted:
                pass
        os._exit(got)
    children.append(pid)
print(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""
    assert script(body, tmp_path / "a.ledger") == ["64"]  # of 80, 64 fit
    assert spent(Ledger.open(tmp_path / "a.ledger")) == 1


class Failing(sqlite3.Connection):
    """A connection whose n-th statement fails, as on a full or broken disk."""

    left = 10**9
    error: type[Exception] = sqlite3.OperationalError

    def execute(self, *arguments: Any) -> Any:
        Failing.left -= 1
        if Failing.left == 0:
            raise Failing.error("database or disk is full")
        return super().execute(*arguments)


def break_statement(number: int, patch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    connect = sqlite3.connect
    Failing.left, Failing.error = number, error
    patch.setattr(
        ledger_module.sqlite3, "connect", lambda *a, **k: connect(*a, factory=Failing, **k)
    )


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError, sqlite3.DatabaseError, KeyboardInterrupt, MemoryError]
)
def test_whichever_statement_fails_nothing_is_half_charged(
    ledger: Ledger, error: type[Exception]
) -> None:
    before, failed = ledger.entries(), 0
    for number in range(1, 40):
        with pytest.MonkeyPatch.context() as patch:
            break_statement(number, patch, error)
            try:
                ledger.charge(GDP(0.25), {"try": number})
            except (LedgerError, KeyboardInterrupt, MemoryError) as raised:
                failed += 1
                caught: BaseException = raised
            else:
                break
        assert isinstance(caught, LedgerError) == issubclass(error, sqlite3.Error)
        assert "\n" not in str(caught)
        assert ledger.entries() == before
    assert failed >= 8
    assert len(ledger.entries()) == len(before) + 1
    assert spent(Ledger.open(ledger.path)) == Fraction(5, 16)


def test_whichever_statement_of_a_creation_fails_there_is_no_ledger(tmp_path: Path) -> None:
    for number in range(1, 40):
        path = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            break_statement(number, patch, sqlite3.OperationalError)
            try:
                Ledger.create(path, GDP(1.0))
            except LedgerError:
                assert not path.exists()
            else:
                break
    assert Ledger.open(path).remaining is not None
    assert number > 10


def test_a_disk_that_fills_at_any_byte_charges_whole_or_not_at_all(ledger: Ledger) -> None:
    body = """
path, step = sys.argv[1], int(sys.argv[2])
def count():
    return len(Ledger.open(path).entries())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
refused = done = 0
for limit in range(0, 80_000, step):
    before = count()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        Ledger.open(path).charge(GDP(2.0 ** -6), {"pad": "x" * 9_000})
        done += 1
        extra = 1
    except LedgerError as error:
        assert "\\n" not in str(error)
        refused += 1
        extra = 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert count() - before == extra, (limit, count(), before)
print(refused, done)
"""
    [line] = script(body, ledger.path, 2_048)
    refused, done = map(int, line.split())
    assert refused > 5
    assert done > 3
    assert spent(ledger) == Fraction(1, 4) + done * Fraction(1, 2**12)


def test_a_damaged_file_gives_an_error_or_the_whole_truth(ledger: Ledger, tmp_path: Path) -> None:
    """Bytes flipped, zeroed, cut off or shuffled; SQLite's own state is never trusted."""
    rng, whole = random.Random(SEED), ledger.path.read_bytes()
    truth = ledger.entries()
    refused, message = 0, ""
    for turn in range(1000 if LONG else 250):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        match turn % 5:
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 64] = bytes(min(64, len(data) - at))
            case 2:
                del data[at:]
            case 3:
                data[at : at + 8] = rng.randbytes(min(8, len(data) - at))
            case 4:
                page = 4096 * (at // 4096)
                data[page : page + 4096] = data[:4096]
        path = tmp_path / "damaged.ledger"
        path.write_bytes(data)
        try:
            found = Ledger.open(path)
            entries = found.entries()
            # What stays readable is a charge's query or time, or a result: what was spent stands.
            assert [(e.number, e.cost) for e in entries] == [(e.number, e.cost) for e in truth]
            assert found.total == ledger.total
            assert found.remaining == ledger.remaining
        except LedgerError as error:
            refused += 1
            message = str(error)
        assert "\n" not in message
        path.unlink()
        shutil.rmtree(f"{path}-journal", ignore_errors=True)
    assert refused > 100 if not LONG else refused > 400


def test_no_flipped_bit_of_a_cost_is_believed(ledger: Ledger, tmp_path: Path) -> None:
    """SQLite believes any number: the seals don't."""
    whole = ledger.path.read_bytes()
    places = [i for i in range(len(whole) - 8) if whole[i : i + 8] == struct.pack(">d", 0.25)]
    assert len(places) == 4
    path = tmp_path / "damaged.ledger"
    for at in range(places[1], places[1] + 8):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(LedgerError, match=r"corrupt|malformed|can't be used"):
                Ledger.open(path)


def test_a_read_only_folder_is_a_ledger_error_and_charges_nothing(ledger: Ledger) -> None:
    """SQLite needs the folder, for its journal."""
    body = """
path = Path(sys.argv[1])
if os.geteuid() == 0:  # root may write anything
    os.chown(path.parent, 65534, 65534)
    os.chown(path, 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.chmod(path.parent, 0o555)
try:
    Ledger.open(path).charge(GDP(0.25), {})
except LedgerError as error:
    print(error)
os.chmod(path.parent, 0o755)
print(len(Ledger.open(path).entries()))
"""
    folder = Path("/tmp") if os.geteuid() == 0 else ledger.path.parent
    own = folder / f"confidp-{os.getpid()}"
    own.mkdir()
    try:
        shutil.copy(ledger.path, own / "a.ledger")
        message, count = script(body, own / "a.ledger")
    finally:
        shutil.rmtree(own)
    assert "can't be used" in message
    assert count == "4"


def test_the_clock_may_jump_and_the_order_of_charges_stays(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(SEED)
    for i in range(10):
        stamp = f"{rng.randrange(1, 9999):04}-01-01T00:00:00+00:00"
        monkeypatch.setattr(ledger_module, "_now", lambda stamp=stamp: stamp)
        assert ledger.charge(GDP(0.125), {}) == 5 + i
    assert [e.number for e in ledger.entries()] == list(range(1, 15))


@pytest.mark.parametrize("seed", range(10))
def test_budgets_chosen_from_earlier_outputs_never_exceed_the_total(
    tmp_path: Path, seed: int
) -> None:
    """The adversary sees every output and every refusal, and asks for what would tip the sum."""
    rng = random.Random(seed)
    ledger = Ledger.create(tmp_path / "a.ledger", GDP(1.0, 1e-6))
    sums, seen = [Fraction(0), Fraction(0)], 0.0
    for _ in range(25):
        left = ledger.remaining
        if left is None:
            break
        # Bolder the further the outputs so far have come; at the edge, one double too much.
        bold = min(1.0, abs(seen) / 3 + 0.05)
        mu = rng.choice([left.mu * bold, left.mu, left.mu * (1 + 2**-52), left.mu / 64])
        delta = rng.choice([0.0, left.delta * bold, left.delta * (1 + 2**-52), left.delta])
        try:
            ledger.charge(GDP(mu, min(delta, 0.5)), {"seen": seen})
        except BudgetExhausted:
            assert sums[0] + Fraction(mu) ** 2 > 1 or sums[1] + Fraction(delta) > Fraction(1e-6)
            continue
        sums[0] += Fraction(mu) ** 2
        sums[1] += Fraction(delta)
        seen += rng.gauss(mu * mu, mu)
        assert sums[0] <= 1
        assert sums[1] <= Fraction(1e-6)
    assert sums[0] > Fraction(1, 100)
    assert spent(ledger) == sums[0]


def test_a_sqlite_file_with_other_rules_is_no_ledger(ledger: Ledger) -> None:
    """Without its triggers a file could forget charges; so it is refused, whoever changed it."""
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER charge_update")
        db.execute("UPDATE charge SET mu = 1e-9")
    for use in (lambda: Ledger.open(ledger.path), lambda: ledger.remaining, ledger.entries):
        with pytest.raises(LedgerError, match="altered"):
            use()
