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

CHUNK = 1024  # draws at a time: as a loop without branches, which processors do several at once
FEW = 16  # of a search's rows, when what they can reach is worth a closer look
MOST_COUNTED = 255  # in a byte, which keeps counts near the processor
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = (np.uint64(k) for k in (27, 30, 31, 32))
_ONE, _LOW, _RANGE = np.uint64(1), np.uint64(0xFFFFFFFF), np.uint64(2**32)


def _compiled(*signatures: Any, **options: Any) -> Callable[[_F], _F]:
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


@_compiled(
    "void(uint64, int64, uint32[::1], uint32[::1])",
    "void(uint64, int64, int64[::1], uint32[::1])",
)
def shuffle(key: Any, m: int, items: Draws | Integers, chunk: Draws) -> None:
    """Put the key's m of n `items`, without replacement, into the first places: m < n.

    A partial Fisher–Yates shuffle, which makes a random subset of any order.
    """
    done, words = 0, 0
    while done < m:
        size = min(len(chunk), (m - done + 1) // 2 * 2)  # m < n: the last is below 1 or more
        count = draw_chunk(key, words, np.uint64(len(items) - done), _ONE, chunk[:size])
        words += size // 2
        count = min(count, m - done)
        for r in range(count):
            i, j = done + r, done + r + np.int64(chunk[r])
            items[i], items[j] = items[j], items[i]
        done += count


@_compiled("void(uint64, int64, int64, boolean, uint32[::1], uint32[::1])")
def draw_set(key: Any, n: int, m: int, replace: bool, order: Draws, chunk: Draws) -> None:
    """Put the m indices below n of the key's set into the first places of `order`.

    Without replacement `order` holds 0, …, n − 1, in whatever order. With replacement what it holds
    doesn't matter, and it has a place more than m.
    """
    if not replace:
        shuffle(key, m, order[:n], chunk)
        return
    done, words = 0, 0
    while done < m:
        size = min(len(chunk), (m - done + 1) // 2 * 2)
        done += draw_chunk(key, words, np.uint64(n), np.uint64(0), order[done : done + size])
        words += size // 2


@_compiled("uint8(uint8[::1])")
def largest(counts: Any) -> Any:
    """Return the largest of them, several at once."""
    most = np.uint8(0)
    for count in counts:
        most = max(most, count)
    return most


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
    totals, chunk = np.zeros((n_sets, d), np.int64), np.empty(CHUNK, np.uint32)
    if d == 1 and not replace:  # quicker: no indices, the records themselves are shuffled
        column = records[:, 0].copy()
        for b in range(n_sets):
            shuffle(word(seed, np.uint64(b)), m, column, chunk)
            total = np.int64(0)
            for x in column[:m]:
                total += np.int64(x)
            totals[b, 0] = total
        return totals, 1
    order = np.arange(max(n, m + 1)).astype(np.uint32)
    counts, kappa = np.zeros(n if replace else 0, np.uint8), np.uint8(1)
    for b in range(n_sets):
        draw_set(word(seed, np.uint64(b)), n, m, replace, order, chunk)
        chosen = order[:m]
        if replace:  # counts, and sums the first column while at it: both wait for memory
            counts[:] = 0
            total = np.int64(0)
            for i in chosen:
                counts[i] += np.uint8(counts[i] < MOST_COUNTED)
                total += np.int64(records[i, 0])
            totals[b, 0] = total
            kappa = max(kappa, largest(counts))
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


@_compiled("float64(float64[::1], float64[::1], float64[::1], float64)", fastmath={"nnan", "nsz"})
def largest_weighted_gap(left: Floats, right: Floats, weights: Floats, least: float) -> float:
    """Return max (right[j] − left[i])·weights[i + j], for falling `left` and rising `right`.

    Or `least` if that is more, which spares the search most of its work.

    With weights w^(i+j), 0 < w ≤ 1, a further i never asks for a further j: the gains
    (right[j′] − left[i])/(right[j] − left[i]) of going on from j to j′ shrink as left[i] falls. So
    the best j of the middle i halves what is left to search on both of its sides.
    """
    best = least
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
        if 1 < last - first <= FEW:  # a closer look, at the best that any of these i could do
            found = -1.0
            for j in range(lowest, highest + 1):
                value = (right[j] - left[last - 1]) * weights[first + j]
                found = value if value > found else found
            if found <= best:
                continue
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


@_compiled("void(uint32[::1], uint32[::1], int64)")
def radix_sort(keys: Draws, spare: Draws, bits: int) -> None:
    """Sort keys below 2^(2·bits), by their low half and then by their high half."""
    heads, mask = np.zeros((2, 1 << bits), np.int64), (1 << bits) - 1
    for k in keys:
        heads[0, k & mask] += 1
        heads[1, k >> bits] += 1
    for half in range(2):  # from counts to where each begins
        before = 0
        for v in range(1 << bits):
            heads[half, v], before = before, before + heads[half, v]
    for k in keys:
        spare[heads[0, k & mask]] = k
        heads[0, k & mask] += 1
    for k in spare[: len(keys)]:
        keys[heads[1, k >> bits]] = k
        heads[1, k >> bits] += 1


@_compiled("Tuple((uint32[::1], int64))(uint32[::1], int64[::1], int64, int64, int64, uint32[::1])")
def between(
    keys: Draws, held: Integers, bits: int, first: int, last: int, out: Draws
) -> tuple[Draws, int]:
    """Return the `first`-th to `last`-th smallest keys, and how many are smaller than all of them.

    In any order, with whatever has the same high half as one of them. `held` counts keys by their
    high half; `out` has the place for all.
    """
    low, before = 0, 0
    while before + held[low] < first:
        before += held[low]
        low += 1
    high, within = low, before + held[low]
    while within < last:
        high += 1
        within += held[high]
    kept = 0
    for k in keys:  # without a branch, which couldn't be foreseen
        out[kept] = k
        kept += (low <= k >> bits) & (k >> bits <= high)
    return out[:kept], before


@_compiled(
    "Tuple((int64[:,::1], float64, int64))"
    "(uint32[::1], int64[::1], int64, int64[::1], uint64, int64, int64, boolean, float64)"
)
def quantiles(
    ranks: Draws, ordered: Integers, cells: int, at_ranks: Integers,
    seed: Any, n_sets: int, m: int, replace: bool, beta: float,
) -> tuple[Integers, float, int]:  # fmt: skip
    """Return each set's order statistics, the largest smooth sensitivity, and the multiplicity.

    A sensitivity is the root of the sum of squares over `at_ranks`, in steps; multiplicities are as
    in `sums`. `ranks` has each record's place in `ordered`, the sorted data, from 0 to `cells`, and
    `at_ranks` the ranks that are wanted, from 1 to m and rising. `beta` 0 leaves sensitivities out.

    Of a set's places only those are sorted that have ranks within `width` of a wanted one; beyond,
    e^(−β·width) is so small that nothing matters (`Quantile`). The width is the last set's, which
    grows where that isn't so.
    """
    n, bits = len(ordered), 1
    while n > 1 << (2 * bits):
        bits += 1
    values = np.zeros((n_sets, len(at_ranks)), np.int64)
    order, chunk = np.arange(max(n, m + 1)).astype(np.uint32), np.empty(CHUNK, np.uint32)
    keys, near, spare = np.empty(m, np.uint32), np.empty(m, np.uint32), np.empty(m, np.uint32)
    counts, kappa = np.zeros(n if replace else 0, np.uint8), np.uint8(1)
    width, weights, most = 64 if beta > 0 else 0, gap_weights(0, beta), 0.0
    for b in range(n_sets):
        draw_set(word(seed, np.uint64(b)), n, m, replace, order, chunk)
        held, squares = np.zeros(1 << bits, np.int64), 0.0
        counts[:] = 0
        for r in range(m):
            i = order[r]
            keys[r] = ranks[i]
            held[keys[r] >> bits] += 1
            if replace:
                counts[i] += np.uint8(counts[i] < MOST_COUNTED)
        kappa = max(kappa, largest(counts))
        for q in range(len(at_ranks)):
            h, least = at_ranks[q], 0.0
            if q == len(at_ranks) - 1:  # this set's sum can only matter if it is the largest
                least = np.sqrt(max(most - squares, 0.0))
            while True:
                down, up = min(width, h), min(width, m + 1 - h)  # ranks 0 and m + 1 are the bounds
                first, last = max(h - down, 1), min(h + up, m)
                places, before = between(keys[:m], held, bits, first, last, near)
                radix_sort(places, spare, bits)
                at = h - before - 1
                values[b, q] = ordered[places[at]]
                if beta == 0:
                    break
                left, right = np.zeros(down + 1), np.full(up + 1, float(cells))
                for t in range(h - first + 1):
                    left[t] = ordered[places[at - t]]
                for t in range(last - h + 1):
                    right[t] = ordered[places[at + t]]
                if len(weights) < down + up + 1:
                    weights = gap_weights(down + up + 1, beta)
                found = largest_weighted_gap(left, right, weights, least)
                enough = max(n, m) + 1
                if found > 0:
                    enough = int(min(1.05 * np.log(cells / found) / beta, enough)) + 1
                if np.exp(-beta * width) * cells <= found or (down < width and up < width):
                    width = max(enough, 64)
                    squares += found**2 if found > least else 0.0
                    break
                width = max(min(2 * width, enough), width + 1)
        most = max(most, squares)
    return values, np.sqrt(most), int(kappa)


def _encoding(values: Any, out: Any) -> Any:
    real = numba.float64
    return numba.void(values, real, real, real, out)


@_compiled(
    _encoding(numba.types.Array(numba.float64, 1, "C", readonly=True), numba.int64[::1]),
    _encoding(numba.types.Array(numba.float64, 1, "A", readonly=True), numba.int64[:]),
    error_model="numpy",
)
def encode(values: Floats, lower: float, step: float, most: float, out: Integers) -> None:
    """Put (value − lower)/step, rounded half to even and clipped to 0, …, `most`, into `out`."""
    for i in range(len(values)):
        steps = np.rint((values[i] - lower) / step)
        steps = steps if steps > 0.0 else 0.0  # NaN too
        out[i] = np.int64(steps if steps < most else most)


@_compiled("UniTuple(int64, 5)(int64[::1], int64[::1])", "UniTuple(int64, 5)(int64[:], int64[:])")
def product_sums(x: Integers, y: Integers) -> tuple[int, int, int, int, int]:
    """Return Σx_i, Σy_i, and Σx_i·y_i = 2^32·high + low as its two halves; and every bit in use.

    All are exact if those bits are under 2^31, and there are fewer than 2^31 integers.
    """
    first = second = high = low = bits = 0
    for i in range(len(x)):
        a, b = int(x[i]), int(y[i])
        first, second = first + a, second + b
        high, low = high + (a * b >> 32), low + (a * b & 0xFFFFFFFF)
        bits |= (a ^ (a >> 63)) | (b ^ (b >> 63))
    return first, second, high, low, bits
