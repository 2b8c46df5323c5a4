"""The privacy ledger: what the releases of one data set have cost, in one SQLite file.

A release is charged before its noise is drawn. The analyst chooses each charge after seeing earlier
results, so a ledger is a *privacy filter*:

**Theorem.** Let each mechanism and its (μ_i, δ_i) be chosen after seeing all earlier outputs, the
mechanism being (μ_i, δ_i)-GDP whatever those were. If Σμ_i² ≤ μ² and Σδ_i ≤ δ on every path, the
whole transcript is (μ, δ)-GDP.

*Proof* (in full: ``docs/privacy_filter.md``; for δ = 0 due to Smith and Thakurta 2022, arXiv
2210.17520). Fix neighbours D, D′, put b = 0 for D and b = 1 for D′, and let X ~ N(bμ, 1). With
fresh Z ~ N(0, 1) and r² = μ² − μ_1², X_1 = (μ_1 X + rZ)/μ and X_2 = (rX − μ_1 Z)/μ are independent,
N(bμ_1, 1) and N(br, 1). By Blackwell's theorem a random map of X_1 makes the first output, and X_2
is a start for the others within r²: by induction the transcript is a random map of X, so T ≥ G_μ.
For δ > 0, proposition 5.1 of the paper has laws R_i with T(M_i(D), R_i) ≥ G_{μ_i} and
TV(M_i(D′), R_i) ≤ δ_i: the transcript they make has T ≥ G_μ with that of D, and couples with that
of D′ but for probability E Σδ_i ≤ δ. Proposition 5.1 back: (μ, δ)-GDP. D and D′ may swap. ∎

The two sums are exact: a double is a whole multiple of 2^-1074, so that they are sums of integers,
and no number of small charges drifts past the total. Shown as doubles, what is spent is rounded up
and what remains is rounded down. Only the total is a guarantee for what was released: a path that
spent less did so after looking.

SQLite notices a file that is cut off or put together wrongly, but not a bit that flips inside a
number, so total and charges are *sealed*: each has a SHA-256 digest of itself and the seal before.
It is checked whenever a ledger is read, and finds damage, not forgery: whoever may write the file
can write another. Results, which cost nothing, aren't sealed.

A crash after a charge loses that budget and leaks nothing. A recorded result shown again is
post-processing and costs nothing. Nothing private is stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from confidp.errors import (
    BudgetExhausted,
    InvalidArgument,
    InvalidType,
    LedgerError,
    integer,
    shown,
)
from confidp.privacy.guarantees import GDP, float_down, float_up

DEFAULT_DELTA = 1e-9  # for a total that names none; a release's lattice noise costs about 1e-24

_APPLICATION_ID = 0x6364706C  # "cdpl", in the file's header
_VERSION = 1
_BUSY_SECONDS = 60.0
_LONGEST_PATH = 300  # characters of it, or of a reason, that a message shows
_UNITS = 1 << 1074  # the least positive double is 1/_UNITS, and divides every other


def _rule(event: str, table: str, when: str, why: str) -> str:
    return (
        f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table} WHEN {when}"
        f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
    )


_NEXT = "SELECT coalesce(max(number), 0) + 1 FROM charge"
_NEXT_SEAL = "SELECT coalesce(max(number), -1) + 1 FROM seal"
_NOT_FILLED = """OLD.released IS NOT NULL OR NEW.released IS NULL
    OR (NEW.number, NEW.at, NEW.mu, NEW.delta, NEW.query)
    IS NOT (OLD.number, OLD.at, OLD.mu, OLD.delta, OLD.query)"""
# The INSERT rules are needed because REPLACE deletes a row without firing a DELETE trigger.
_SCHEMA = (
    """CREATE TABLE total (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        mu REAL NOT NULL CHECK (mu > 0 AND mu < 9e999),
        delta REAL NOT NULL CHECK (delta > 0 AND delta < 1),
        unit TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE charge (
        number INTEGER PRIMARY KEY CHECK (number > 0),
        at TEXT NOT NULL,
        mu REAL NOT NULL CHECK (mu > 0 AND mu < 9e999),
        delta REAL NOT NULL CHECK (delta >= 0 AND delta < 1),
        query TEXT NOT NULL,
        released TEXT
    ) STRICT""",
    """CREATE TABLE seal (
        number INTEGER PRIMARY KEY,
        digest TEXT NOT NULL
    ) STRICT""",
    _rule("INSERT", "total", "EXISTS (SELECT 1 FROM total)", "the total is set once"),
    _rule("UPDATE", "total", "1", "the total never changes"),
    _rule("DELETE", "total", "1", "the total never changes"),
    _rule("INSERT", "charge", f"NEW.number IS NOT ({_NEXT})", "charges are numbered 1, 2, 3, ..."),
    _rule("UPDATE", "charge", _NOT_FILLED, "a charge only gains its result, once"),
    _rule("DELETE", "charge", "1", "charges are never deleted"),
    _rule("INSERT", "seal", f"NEW.number IS NOT ({_NEXT_SEAL})", "seals are numbered 0, 1, 2, ..."),
    _rule("UPDATE", "seal", "1", "a seal never changes"),
    _rule("DELETE", "seal", "1", "seals are never deleted"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge in the audit trail; public values only."""

    number: int
    when: str
    """UTC, ISO 8601, by this computer's clock; the order of charges is that of `number`."""
    cost: GDP
    query: Mapping[str, Any]
    released: Mapping[str, Any] | None
    """None: charged, but no result was recorded, as when the process was killed in between."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The privacy ledger of one data set: a total that its releases together can't exceed.

    Make one with `Ledger.create` or `Ledger.open`. It holds no connection and no state but the
    file's, so that any process or thread may use it. Keep one for a data set, and never restore an
    old copy: it has forgotten what was spent since. A ``-journal`` file beside it after a crash is
    part of it, and goes away at the next use.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(Path(folder.name) / "survey.ledger", GDP(1.0))
    >>> ledger.charge(GDP(0.5), {"statistic": "mean", "column": "age"})
    1
    >>> ledger.record(1, {"interval": [41.2, 43.9]})
    >>> ledger.remaining
    GDP(mu=0.866..., delta=1e-09)
    >>> ledger.charge(GDP(0.9), {"statistic": "median", "column": "age"})
    Traceback (most recent call last):
    confidp.errors.BudgetExhausted: a charge of mu = 0.9, delta = 0.0 exceeds what remains: ...
    >>> Ledger.open(ledger.path).entry(1).released
    {'interval': [41.2, 43.9]}
    >>> folder.cleanup()
    """

    path: Path
    total: GDP
    unit: str = field(repr=False)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], total: GDP, *, unit: str = "one row is one person"
    ) -> Ledger:
        """Make a new ledger file; refuse a path where there is anything already.

        Parameters
        ----------
        path
            Where.
        total
            What all releases together may cost. δ = 0 becomes `DEFAULT_DELTA`.
        unit
            Whose privacy the total protects, in one line.
        """
        path = _absolute(path)
        if not isinstance(total, GDP):
            raise InvalidType(f"total must be a GDP, not {type(total).__name__}")
        if not isinstance(unit, str):
            raise InvalidType(f"unit must be a str, not {type(unit).__name__}")
        if not unit.strip() or not unit.isprintable():
            raise InvalidArgument(f"unit must be one line of text, not {unit!r}")
        total = GDP(total.mu, total.delta or DEFAULT_DELTA)
        try:
            path.touch(exist_ok=False)  # of two processes at once, one succeeds
        except OSError as error:
            raise LedgerError(f"can't make the ledger {_named(path)}: {error.strerror}") from error
        try:
            # One transaction: after a crash the file is empty, and `open` refuses it, or complete.
            with _transaction(path, "BEGIN IMMEDIATE", new=True) as db:
                for statement in _SCHEMA:
                    db.execute(statement)
                row = (total.mu, total.delta, unit)
                db.execute("INSERT INTO total VALUES (1, ?, ?, ?)", row)
                db.execute("INSERT INTO seal VALUES (0, ?)", (_seal("", row),))
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            # An empty file can't have been charged by anybody, so that it is safe to remove.
            if path.exists() and path.stat().st_size == 0:
                path.unlink()
            raise
        return cls(path, total, unit)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open a ledger file, checking that it is one and that it is whole."""
        path = _absolute(path)
        with _transaction(path, "BEGIN") as db:
            found = db.execute("PRAGMA integrity_check").fetchall()
            if found != [("ok",)]:
                raise LedgerError(f"the ledger {_named(path)} is corrupt")
            (mu, delta, unit), _, _ = _read(db)
        return cls(path, GDP(mu, delta), unit)

    @property
    def spent(self) -> GDP | None:
        """The sum of all charges, rounded up, or None: a bill. The guarantee is the total."""
        with _transaction(self.path, "BEGIN") as db:
            mu_squared, delta = _sums(_read(db)[1])
        if mu_squared == 0:
            return None
        root = math.isqrt(mu_squared - 1) + 1
        return GDP(float_up(Fraction(root, _UNITS)), float_up(Fraction(delta, _UNITS)))

    @property
    def remaining(self) -> GDP | None:
        """The most that one further charge may cost, rounded down; None where its μ is 0.

        Where its δ is 0 no release of this package fits any more: each costs a δ above 0.
        """
        with _transaction(self.path, "BEGIN") as db:
            mu, delta = _rounded_down(*_left(*_read(db)[:2]))
        return GDP(mu, delta) if mu > 0 else None

    def charge(self, cost: GDP, query: Mapping[str, Any]) -> int:
        """Spend `cost` before the noise is drawn; return the number of the charge.

        When this returns, the charge is on disk. When it raises `BudgetExhausted`, nothing was
        written. When it raises `LedgerError`, nothing may be released: whether the charge was
        written is then unknown.

        Parameters
        ----------
        cost
            A bound on the mechanism's cost, whatever happened before.
        query
            What is asked, for the audit trail: public, JSON values.
        """
        if not isinstance(cost, GDP):
            raise InvalidType(f"cost must be a GDP, not {type(cost).__name__}")
        text = _json("query", query)
        # IMMEDIATE: nobody else can write between the sums that are read here and the COMMIT.
        with _transaction(self.path, "BEGIN IMMEDIATE") as db:
            total, charges, seal = _read(db)
            mu_squared, delta = _left(total, charges)
            if _units(cost.mu) ** 2 > mu_squared or _units(cost.delta) > delta:
                mu_left, delta_left = _rounded_down(mu_squared, delta)
                raise BudgetExhausted(
                    f"a charge of mu = {cost.mu}, delta = {cost.delta} exceeds what remains: "
                    f"mu = {mu_left}, delta = {delta_left}"
                )
            number: int = db.execute(_NEXT).fetchone()[0]
            row = (number, _now(), cost.mu, cost.delta, text)
            db.execute("INSERT INTO charge VALUES (?, ?, ?, ?, ?, NULL)", row)
            db.execute("INSERT INTO seal VALUES (?, ?)", (number, _seal(seal, row)))
        return number

    def record(self, number: int, released: Mapping[str, Any]) -> None:
        """Attach to a charge, once, the public result that it paid for: JSON values."""
        text = _json("released", released)
        with _transaction(self.path, "BEGIN IMMEDIATE") as db:
            entry = _entry(db, number)
            if entry.released is not None:
                raise InvalidArgument(f"charge {entry.number} has its result already")
            db.execute("UPDATE charge SET released = ? WHERE number = ?", (text, entry.number))

    def entries(self) -> tuple[Entry, ...]:
        """Return every charge, in order."""
        with _transaction(self.path, "BEGIN") as db:
            _read(db)
            return tuple(map(_as_entry, db.execute("SELECT * FROM charge ORDER BY number")))

    def entry(self, number: int) -> Entry:
        """Return one charge; showing its result again costs nothing."""
        with _transaction(self.path, "BEGIN") as db:
            _read(db)
            return _entry(db, number)


@contextmanager
def _transaction(path: Path, begin: str, new: bool = False) -> Iterator[sqlite3.Connection]:
    """One operation: its own connection, which never crosses a fork or a thread, to a ledger."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise LedgerError(f"a ledger needs SQLite 3.37, not {sqlite3.sqlite_version}")
    uri = f"{path.as_uri()}?mode=rw"  # not "rwc": a file that has vanished isn't made anew
    try:
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        with closing(db):
            if not new:
                _recognise(db, path)  # first, for the next line may change the file
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute("PRAGMA fullfsync = ON")  # macOS: its plain fsync doesn't reach the disk
            db.execute(begin)
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
        reason = " ".join(str(error).split())[:_LONGEST_PATH]  # it may quote the file's own rules
        raise LedgerError(f"the ledger {_named(path)} can't be used: {reason}") from error


def _recognise(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise LedgerError(f"{_named(path)} is not a confidp ledger")
    if version > _VERSION:
        raise LedgerError(f"the ledger {_named(path)} was made by a newer version of confidp")
    schema = db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    if {sql for (sql,) in schema} != set(_SCHEMA):
        raise LedgerError(f"the rules of the ledger {_named(path)} have been altered")


def _units(value: float) -> int:
    """Return a double in units of 2^-1074: exact."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_UNITS // denominator)


_Total = tuple[float, float, str]  # mu, delta, unit
_Charge = tuple[int, str, float, float, str]  # number, at, mu, delta, query


def _read(db: sqlite3.Connection) -> tuple[_Total, list[_Charge], str]:
    """Return the total, the charges and the last seal, all seals checked."""
    totals = db.execute("SELECT mu, delta, unit FROM total").fetchall()
    charges = db.execute(
        "SELECT number, at, mu, delta, query FROM charge ORDER BY number"
    ).fetchall()
    seal, seals = "", []
    for row in (*totals, *charges):
        seal = _seal(seal, row)
        seals.append((seal,))
    found = db.execute("SELECT digest FROM seal ORDER BY number").fetchall()
    if len(totals) != 1 or found != seals:
        raise sqlite3.DatabaseError("it is corrupt: total and charges aren't as they were sealed")
    return totals[0], charges, seal


def _seal(previous: str, row: _Total | _Charge) -> str:
    """Return the digest of a row and the seal before it; a float's repr is exact."""
    return hashlib.sha256(json.dumps([previous, *row]).encode()).hexdigest()


def _sums(charges: list[_Charge]) -> tuple[int, int]:
    """Return Σμ² in units of 2^-2148 and Σδ in units of 2^-1074: exact."""
    mu_squared = sum(_units(mu) ** 2 for _, _, mu, _, _ in charges)
    return mu_squared, sum(_units(delta) for _, _, _, delta, _ in charges)


def _left(total: _Total, charges: list[_Charge]) -> tuple[int, int]:
    mu_squared, delta = _sums(charges)
    return _units(total[0]) ** 2 - mu_squared, _units(total[1]) - delta


def _rounded_down(mu_squared: int, delta: int) -> tuple[float, float]:
    mu = Fraction(math.isqrt(max(mu_squared, 0)), _UNITS)
    # abs: a negative zero would look odd in a message.
    return abs(float_down(mu)), abs(float_down(Fraction(max(delta, 0), _UNITS)))


def _entry(db: sqlite3.Connection, number: int) -> Entry:
    number = integer("number", number, least=1)
    key = min(number, 2**63 - 1)  # SQLite's largest integer
    row = db.execute("SELECT * FROM charge WHERE number = ?", (key,)).fetchone()
    if row is None:
        raise InvalidArgument(f"number must be that of a charge, not {shown(number)}")
    return _as_entry(row)


def _as_entry(row: tuple[Any, ...]) -> Entry:
    number, when, mu, delta, query, released = row
    result = None if released is None else json.loads(released)
    return Entry(number, when, GDP(mu, delta), json.loads(query), result)


def _json(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise InvalidType(f"{name} must be a mapping, not {type(value).__name__}")
    try:
        return json.dumps(dict(value), allow_nan=False)
    except TypeError as error:
        raise InvalidType(f"{name} must hold JSON values: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} must hold JSON values: {error}") from error


def _absolute(path: str | os.PathLike[str]) -> Path:
    """Return the path from the root: a later change of directory must not move the ledger."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidType(f"path must be a path, not {type(path).__name__}")
    try:
        os.fsencode(path)
        absolute = Path(path).absolute()
    except Exception:  # not text, or text that no file system can encode
        raise InvalidArgument("path must be text that a file can be named by") from None
    if "\0" in str(absolute):
        raise InvalidArgument("path must be text without a NUL")
    return absolute


def _named(path: Path) -> str:
    """Return a path as a message may show it, the end of a long one."""
    text = str(path)
    return repr(text if len(text) <= _LONGEST_PATH else f"...{text[-_LONGEST_PATH:]}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
