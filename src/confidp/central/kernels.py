"""The compiled loops of resampling: a set is drawn, and what it points to is used at once.

Imported when first needed, since Numba takes half a second to import. Each kernel has a plain NumPy
twin in ``tests/central/test_kernels.py``. There is one thread: results depend on the seed alone.

**Draws.** Set b has the key ``word(seed, b)``, and its t-th word is ``word(key, t)``, where
``word(s, t)`` is the t-th output of SplitMix64 from state s (Steele, Lea and Flood 2014). A word
gives two draws, of its high 32 bits and then of its low ones. Draw r becomes ⌊r·k/2^32⌋ below k,
and is passed over where r·k mod 2^32 < 2^32 mod k: so each value has equally many r (Lemire 2019).
Indices depend on no data and need no secrecy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_F = TypeVar("_F", bound=Callable[..., Any])
Draws = NDArray[np.uint32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = NDArray[np.int32]

CHUNK = 1024  # draws at a time: as a loop without branches, which processors do several at once
MOST_COUNTED = 255  # in a byte, which keeps counts near the processor
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = (np.uint64(k) for k in (27, 30, 31, 32))
_ONE, _LOW, _RANGE = np.uint64(1), np.uint64(0xFFFFFFFF), np.uint64(2**32)


def _compiled(*signatures: str, **options: Any) -> Callable[[_F], _F]:
    """Compile at import, or load what was compiled at an earlier one."""
    decorate: Any = numba.njit(list(signatures), cache=True, **options)
    return cast(Callable[[_F], _F], decorate)


@_compiled("uint64(uint64, uint64)")
def word(state: Any, t: Any) -> Any:
    """Return the t-th output of SplitMix64, for t = 0, 1, …."""
    z = state + (t + _ONE) * _GAMMA
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


_stats: Any = getattr(word, "stats", None)
if _stats and _stats.cache_misses and sys.stderr.isatty():
    print("confidp: compiling its loops, once after installing …", file=sys.stderr, flush=True)


@_compiled("int64(uint64, int64, uint64, uint64, uint32[::1])")
def draw_chunk(key: Any, first: int, most: Any, fewer: Any, out: Draws) -> int:
    """Fill `out` with draws from the key's words `first` and on; return how many of them count.

    Draw number i is below most − i·fewer, with `fewer` 0 or 1. If one of them may have to be passed
    over, which is rare, each is looked at by itself, and those that count come first.
    """
    suspects = 0
    for r in range(len(out) // 2):
        w = word(key, np.uint64(first + r))
        k = most - np.uint64(2 * r) * fewer
        high, low = (w >> _32) * k, (w & _LOW) * (k - fewer)
        out[2 * r], out[2 * r + 1] = high >> _32, low >> _32
        suspects += ((high & _LOW) < k) | ((low & _LOW) < k)
    if suspects == 0:
        return len(out)
    kept = 0
    for r in range(len(out)):
        w = word(key, np.uint64(first + r // 2))
        k = most - np.uint64(kept) * fewer
        product = (w >> _32 if r % 2 == 0 else w & _LOW) * k
        if (product & _LOW) >= (_RANGE - k) % k:
            out[kept] = product >> _32
            kept += 1
    return kept


@_compiled("void(uint64, int64, int64, boolean, uint32[::1], uint32[::1])")
def draw_set(key: Any, n: int, m: int, replace: bool, order: Draws, chunk: Draws) -> None:
    """Put the m indices below n of the key's set into the first places of `order`.

    Without replacement `order` holds 0, …, n − 1, in whatever order: a partial Fisher–Yates shuffle
    makes a random subset of any. With replacement what it holds doesn't matter.
    """
    done, words = 0, 0
    while done < m:
        if replace:
            count = draw_chunk(key, words, np.uint64(n), np.uint64(0), chunk)
            words += len(chunk) // 2
            count = min(count, m - done)
            order[done : done + count] = chunk[:count]
        else:
            size = min(len(chunk), (m - done + 1) // 2 * 2)  # m < n: the last is below 1 or more
            count = draw_chunk(key, words, np.uint64(n - done), _ONE, chunk[:size])
            words += size // 2
            count = min(count, m - done)
            for r in range(count):
                i, j = done + r, done + r + np.int64(chunk[r])
                order[i], order[j] = order[j], order[i]
        done += count


@_compiled(
    "Tuple((int64[:,::1], int64))(int64[:,::1], uint64, int64, int64, boolean)",
    "Tuple((int64[:,::1], int64))(uint32[:,::1], uint64, int64, int64, boolean)",
)
def sums(
    records: Integers | Draws, seed: Any, n_sets: int, m: int, replace: bool
) -> tuple[Integers, int]:
    """Return each set's column sums, and the largest multiplicity.

    Sums are exact if m records' fit in 63 bits. A multiplicity of `MOST_COUNTED` means that or
    more.
    """
    n, d = records.shape
    totals = np.zeros((n_sets, d), np.int64)
    order, chunk = np.arange(max(n, m)).astype(np.uint32), np.empty(CHUNK, np.uint32)
    counts, kappa = np.zeros(n if replace else 0, np.uint8), np.uint8(1)
    for b in range(n_sets):
        draw_set(word(seed, np.uint64(b)), n, m, replace, order, chunk)
        chosen, total = order[:m], np.int64(0)
        if replace:  # counts, and sums the first column while at it
            counts[:] = 0
            for i in chosen:
                total += np.int64(records[i, 0])
                count = np.uint8(counts[i] + (counts[i] < MOST_COUNTED))
                counts[i] = count
                kappa = max(kappa, count)
            totals[b, 0] = total
        for j in range(1 if replace else 0, d):
            total = np.int64(0)
            for i in chosen:
                total += np.int64(records[i, j])
            totals[b, j] = total
    return totals, int(kappa)


@_compiled("float64[::1](int64, float64)")
def gap_weights(size: int, beta: float) -> Floats:
    """Return e^{−β(t−1)} for t = 0, …, size − 1."""
    weights: Floats = np.exp(-beta * (np.arange(size) - 1.0))
    return weights


@_compiled("float64(float64[::1], float64[::1], float64[::1])", fastmath={"nnan", "nsz"})
def largest_weighted_gap(left: Floats, right: Floats, weights: Floats) -> float:
    """Return max (right[j] − left[i])·weights[i + j], for falling `left` and rising `right`.

    With weights w^(i+j), 0 < w ≤ 1, a further i never asks for a further j: the gains
    (right[j′] − left[i])/(right[j] − left[i]) of going on from j to j′ shrink as left[i] falls. So
    the best j of the middle i halves what is left to search on both of its sides.
    """
    best = 0.0
    stack = np.empty((128, 4), np.int64)
    stack[0, 0], stack[0, 1] = 0, len(left)
    stack[0, 2], stack[0, 3] = 0, len(right) - 1
    depth = 1
    while depth:
        depth -= 1
        first, last = stack[depth, 0], stack[depth, 1]
        lowest, highest = stack[depth, 2], stack[depth, 3]
        if first >= last or (right[highest] - left[last - 1]) * weights[first + lowest] <= best:
            continue  # none there, or none that is larger
        i = (first + last) // 2
        found, at = -1.0, lowest
        for j in range(lowest, highest + 1):  # without NaN several at once: hence `fastmath`
            value = (right[j] - left[i]) * weights[i + j]
            found = value if value > found else found
        while at < highest and (right[at] - left[i]) * weights[i + at] < found:
            at += 1
        best = max(best, found)
        stack[depth, 0], stack[depth, 1] = first, i
        stack[depth, 2], stack[depth, 3] = at, highest
        stack[depth + 1, 0], stack[depth + 1, 1] = i + 1, last
        stack[depth + 1, 2], stack[depth + 1, 3] = lowest, at
        depth += 2
    return best


@_compiled("int64(int64[::1], int32[::1], int64, int64, int64, int64, float64[::1])")
def walk(
    ordered: Integers, counts: Counts, at: int, used: int, way: int, end: int, out: Floats
) -> int:
    """Fill `out` with a resample's values in order from place `at` on, up or down (`way` ±1).

    Of the value at `at` itself, `used` copies are left. After the last one comes `end`, a bound,
    once. Return how many were written.
    """
    written, place, copies, size = 0, at, used, len(out)
    while True:
        # Most places have no copy or one: both without a branch, which couldn't be foreseen.
        out[written] = ordered[place]
        for _ in range(copies - 1):
            written += 1
            if written == size:
                return size
            out[written] = ordered[place]
        written += copies > 0
        if written == size:
            return size
        place += way
        if place < 0 or place >= len(ordered):
            out[written] = end
            return written + 1
        copies = int(counts[place])


@_compiled(
    "Tuple((float64, int64))(int64[::1], int32[::1], int64, int64, float64, int64,"
    " int64, float64[::1])"
)
def smooth_gap(
    ordered: Integers,
    counts: Counts,
    at: int,
    below: int,
    beta: float,
    cells: int,
    width: int,
    weights: Floats,
) -> tuple[float, int]:
    """Return a quantile's smooth sensitivity in steps, on the resample that `counts` tells.

    The quantile is at place `at`; `below` of its copies there, itself included, come before or at
    its rank. The window of `width` ranks on both sides grows until nothing outside of it can
    matter (`Quantile`). `weights` are `gap_weights`, or too few of them. Also return about what
    width was needed, to start from on similar data.
    """
    most = len(ordered) + 1
    while True:
        left, right = np.empty(width + 1), np.empty(width + 1)
        down = walk(ordered, counts, at, below, -1, 0, left)
        up = walk(ordered, counts, at, int(counts[at]) - below + 1, 1, cells, right)
        if len(weights) < down + up - 1:
            weights = gap_weights(down + up - 1, beta)
        found = largest_weighted_gap(left[:down], right[:up], weights)
        enough = most
        if found > 0:
            enough = int(min(1.05 * np.log(cells / found) / beta, most)) + 1
        if np.exp(-beta * width) * cells <= found or (down <= width and up <= width):
            return found, max(enough, 64)
        width = max(min(2 * width, enough), width + 1)


@_compiled(
    "Tuple((int64[:,::1], float64[:,::1], int64))"
    "(uint32[::1], int64[::1], int64, int64[::1], uint64, int64, int64, boolean, float64)"
)
def quantiles(
    ranks: Draws, ordered: Integers, cells: int, at_ranks: Integers,
    seed: Any, n_sets: int, m: int, replace: bool, beta: float,
) -> tuple[Integers, Floats, int]:  # fmt: skip
    """Return each set's order statistics, their smooth sensitivities, and the multiplicity.

    Without a sort for each set: its records are counted by their place in the sorted data.
    `ranks` has each record's place, `ordered` the sorted data, from 0 to `cells`, and `at_ranks`
    the ranks that are wanted, from 1 to m and rising. `beta` 0 leaves the sensitivities out.
    """
    n = len(ordered)
    values = np.zeros((n_sets, len(at_ranks)), np.int64)
    smooth = np.zeros((n_sets, len(at_ranks)), np.float64)
    order, chunk = np.arange(max(n, m)).astype(np.uint32), np.empty(CHUNK, np.uint32)
    counts, kappa = np.zeros(n, np.int32), 1
    block, width, weights = 256, 64, gap_weights(0, beta)
    for b in range(n_sets):
        draw_set(word(seed, np.uint64(b)), n, m, replace, order, chunk)
        counts[:] = 0
        for i in order[:m]:
            counts[ranks[i]] += np.int32(1)
            kappa = max(kappa, int(counts[ranks[i]]))
        place, before = 0, 0  # `before` records of the set have places below `place`
        for q in range(len(at_ranks)):
            h = at_ranks[q]
            while place + block <= n:  # whole blocks first
                inside = 0
                for count in counts[place : place + block]:
                    inside += int(count)
                if before + inside >= h:
                    break
                before += inside
                place += block
            while before + int(counts[place]) < h:
                before += int(counts[place])
                place += 1
            values[b, q] = ordered[place]
            if beta > 0:
                if len(weights) < 2 * width + 1:
                    weights = gap_weights(2 * width + 1, beta)
                smooth[b, q], width = smooth_gap(
                    ordered, counts, place, h - before, beta, cells, width, weights
                )
    return values, smooth, kappa
