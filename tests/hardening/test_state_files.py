"""State files: what is damaged, edited, newer or another's is refused; nothing is unpickled.

A file that is whole resumes exactly; a save that is killed leaves the old file or the new one.
"""

from __future__ import annotations

import ast
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import confidp as cdp
from confidp import ConfidpError, local
from confidp.local import state

SEED = 20261130
SOURCE = Path(cdp.__file__).parent


def collector() -> Any:
    return local.Collector(local.Normal(), epsilon=1.0, n_particles=50, rng=7)


def componentwise() -> Any:
    families = [local.Normal(), local.Exponential()]
    return local.ComponentwiseCollector(families, epsilon=1.0, n_particles=50, rng=7)


def quantile() -> Any:
    return local.QuantileCollector(0.5, bounds=(0, 100), epsilon=1.0, cells=64)


def gradient() -> Any:
    return local.StochasticGradient(local.Exponential(), epsilon=1.0, rng=7)


KINDS: dict[str, Callable[[], Any]] = {
    "Collector": collector,
    "ComponentwiseCollector": componentwise,
    "QuantileCollector": quantile,
    "StochasticGradient": gradient,
}


def some_reports(made: Any, count: int = 6) -> Any:
    value = [40.0, 2.0] if isinstance(made, local.ComponentwiseCollector) else 40.0
    for _ in range(count):
        made.add(made.query().privatize(value, epsilon_limit=2.0))
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    paths = {}
    for name, make in KINDS.items():
        paths[name] = folder / name
        some_reports(make()).save(paths[name])
    return paths


def load(name: str, path: Path) -> Any:
    return getattr(local, name).load(path)


def content(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_collector_goes_on_exactly(
    name: str, saved: dict[str, Path], tmp_path: Path
) -> None:
    first, second = load(name, saved[name]), load(name, saved[name])
    for made in (first, second):
        made.save(tmp_path / "again")
        again = content(tmp_path / "again")
        before = content(saved[name])
        assert set(again) == set(before)
        assert all(np.array_equal(again[key], before[key]) for key in before)
    assert first.query().to_json() == second.query().to_json()


@pytest.mark.parametrize("name", KINDS)
def test_the_file_of_another_kind_is_refused(name: str, saved: dict[str, Path]) -> None:
    for other in set(KINDS) - {name}:
        with pytest.raises(ConfidpError):
            load(other, saved[name])


@pytest.mark.parametrize("name", KINDS)
def test_a_cut_flipped_or_foreign_file_is_refused_or_whole(
    name: str, saved: dict[str, Path], tmp_path: Path
) -> None:
    rng, whole, path = random.Random(SEED), saved[name].read_bytes(), tmp_path / "bad"
    refused = 0
    for turn in range(60):
        data = bytearray(whole)
        at = rng.randrange(len(data))
        if turn % 3 == 0:
            del data[at:]
        elif turn % 3 == 1:
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at : at + 40] = rng.randbytes(40)
        path.write_bytes(data)
        try:
            load(name, path)
        except ConfidpError:
            refused += 1
    assert refused >= 50  # zip's own checksums see the damage
    for foreign in (b"", b"PK", b"\x80\x04\x95", b"a,b\n1,2\n", b"\x93NUMPY"):
        path.write_bytes(foreign)
        with pytest.raises(ConfidpError):
            load(name, path)


EDITS: list[Any] = [None, -1, 0, 1e308, "x", [], {}, [[]], True, float("nan"), 10**30]


def spoilt(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one leaf, chosen at random, replaced or left out."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: spoilt(value[key], rng)}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], spoilt(value[at], rng), *value[at + 1 :]]
    return rng.choice(EDITS)


def write(path: Path, arrays: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize("name", KINDS)
def test_an_edited_header_is_refused_or_makes_a_collector_that_works(
    name: str, saved: dict[str, Path], tmp_path: Path
) -> None:
    rng, arrays, path = random.Random(SEED), content(saved[name]), tmp_path / "edited"
    header = json.loads(arrays["header"].tobytes())
    refused = 0
    for _ in range(80):
        edited = json.dumps(spoilt(header, rng)).encode()
        write(path, {**arrays, "header": np.frombuffer(edited, dtype=np.uint8)})
        try:
            load(name, path)
        except ConfidpError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
    assert refused >= 20


@pytest.mark.parametrize("name", KINDS)
def test_an_edited_array_is_refused_or_makes_a_collector_that_works(
    name: str, saved: dict[str, Path], tmp_path: Path
) -> None:
    arrays, path = content(saved[name]), tmp_path / "edited"
    bad: list[Any] = [np.zeros(0), np.zeros((2, 2, 2)), np.array("x"), np.array([np.nan]),
                      np.array([1j]), np.array([-1]), np.full(1000, 255, np.uint8)]  # fmt: skip
    for key in arrays:
        for value in bad:
            write(path, {**arrays, key: value})
            try:
                load(name, path)
            except ConfidpError as error:
                assert "\n" not in str(error)  # noqa: PT017
        write(path, {k: v for k, v in arrays.items() if k != key})
        with pytest.raises(ConfidpError):
            load(name, path)


@pytest.mark.parametrize("name", KINDS)
def test_no_file_is_unpickled(name: str, saved: dict[str, Path], tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "exploded"),)

    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb()
    for key in content(saved[name]):
        write(tmp_path / "bomb", {**content(saved[name]), key: bomb})
        with pytest.raises(ConfidpError):
            load(name, tmp_path / "bomb")
    with zipfile.ZipFile(tmp_path / "zip", "w") as file:
        file.writestr("header.npy", b"\x80\x04N.")
    with pytest.raises(ConfidpError):
        load(name, tmp_path / "zip")
    assert not (tmp_path / "exploded").exists()


def test_no_module_unpickles_or_evaluates_anything() -> None:
    forbidden = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not forbidden & {name.split(".")[0] for name in names}, file
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                assert called not in ("eval", "exec", "compile", "__import__"), file
                for keyword in node.keywords:
                    if keyword.arg == "allow_pickle":
                        assert isinstance(keyword.value, ast.Constant), file
                        assert keyword.value.value is False, file


def test_a_save_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "state"
    some_reports(quantile()).save(path)
    body = """
import os, random, signal, sys, time
from confidp import local
path, rng = sys.argv[1], random.Random(1)
for turn in range(20):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        made = local.QuantileCollector.load(path)
        while True:
            made.add(made.query().privatize(40.0, epsilon_limit=2.0))
            made.save(path)
            os.write(write, b".")
    os.close(write)
    os.read(read, 1)  # it is at it
    time.sleep(rng.uniform(0, 0.02))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    made = local.QuantileCollector.load(path)
    print(len(made._inbox._seen), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", body, path],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    seen = [6, *map(int, done.stdout.split())]
    assert len(seen) == 21
    assert all(a < b for a, b in pairwise(seen))  # what was saved is never lost


@pytest.mark.parametrize("step", ["savez", "fsync"])
def test_a_save_that_fails_half_way_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "state"
    made = some_reports(quantile())
    made.save(path)
    before, inode = path.read_bytes(), path.stat().st_ino

    def full(file: Any, **_: Any) -> None:
        if step == "savez":
            file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(state.np if step == "savez" else state.os, step, full)
        with pytest.raises(OSError, match="No space"):
            some_reports(made).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    made.save(path)
    assert path.stat().st_ino != inode  # another file in its place, whole at once


@pytest.mark.parametrize(
    "name", ["no/such/folder/state", "folder", ".", "", "/", "a\0b", "x" * 300, "/proc/state"]
)
def test_a_save_that_can_not_be_is_one_clear_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(cdp.ConfidpError, match="can't be written: ") as caught:
        quantile().save(name)
    assert isinstance(caught.value, OSError)
    assert str(caught.value).startswith(repr(str(Path(name))[-300:]))
    assert "\n" not in str(caught.value)
    assert [(p.name, list(p.iterdir())) for p in tmp_path.iterdir()] == [("folder", [])]


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    for kind in (local.Collector, local.QuantileCollector, local.StochasticGradient):
        with pytest.raises(cdp.ConfidpError, match="state' can't be read: No such file") as caught:
            kind.load(tmp_path / "state")
        assert isinstance(caught.value, OSError)


# --- regions ---

REGION = cdp.ConfidenceRegion(
    (2.5, 1.0), 0.5, 0.95, cdp.GDP(1.0, 1e-25), True, "CR-GS",
    {"statistic": "mean", "bounds": [[0.0, 1.0]]}, ("a", "b"), {"n": 100, "center_noise": 0.1},
)  # fmt: skip


def test_any_edit_of_a_region_is_refused_or_is_another_region() -> None:
    rng, whole = random.Random(SEED), REGION.to_dict()
    refused = 0
    for _ in range(2000):
        edited = spoilt(json.loads(json.dumps(whole)), rng)
        try:
            region = cdp.ConfidenceRegion.from_dict(edited)
        except cdp.InvalidArgument as error:
            refused += 1
            assert str(error) == "fields must be what ConfidenceRegion.to_dict returns"  # noqa: PT017
        else:
            assert region.to_dict() == edited
            assert str(region)
            assert region.contains([0.0] * region.dimension) in (True, False)
    assert refused > 1000


@pytest.mark.parametrize(
    "edit",
    [
        {"version": 2},  # a key of a later version
        {"alternative": "both"},
        {"shape": "simplex"},
        {"private": 1},
        {"private": "yes"},
        {"center": [1.0]},  # the intervals are still those of two coordinates
        {"intervals": [[0.0, 1.0]]},
        {"intervals": [[2.0, 3.0], [0.5, 1.0]]},
        {"radius": -0.5},
        {"confidence_level": 95},
        {"ellipsoid": [[1.0, 2.0], [2.0, 1.0]], "shape": "ellipsoid"},  # indefinite
        {"ellipsoid": [[1.0]], "shape": "ellipsoid"},
        {"assumes": "ab"},
        {"method": 3},
    ],
    ids=str,
)
def test_a_region_that_contradicts_itself_is_refused(edit: dict[str, Any]) -> None:
    with pytest.raises(cdp.InvalidArgument, match=r"^fields must be"):
        cdp.ConfidenceRegion.from_dict({**REGION.to_dict(), **edit})
