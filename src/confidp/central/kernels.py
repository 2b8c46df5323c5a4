"""The compiled loops of resampling: a set is drawn, and what it points to is used at once.

Imported when first needed, since Numba takes half a second to import. Each kernel has a plain NumPy
twin in ``tests/central/test_kernels.py``. There is one thread: results depend on the seed alone.
One file, because Numba's cache doesn't notice that a function of another one has changed.

**Draws.** Set b has the key ``word(seed, b)``, and its t-th word is ``word(key, t)``, where
``word(s, t)`` is the t-th output of SplitMix64 from state s (Steele, Lea and Flood 2014). A word
gives two draws, of its high 32 bits and then of its low ones. Draw r becomes ⌊r·k/2^32⌋ below k,
and is passed over where r·k mod 2^32 < 2^32 mod k: so each value has equally many r (Lemire 2019).
Indices depend on no data and need no secrecy.

**Without replacement** a set is a bit for each record (`draw_subset`), so that sums and order
statistics are counts of bits, 64 records at a time. **With replacement** the places of a set are
first shared out among blocks of records, and then drawn within each (`share_out`, `draw_block`): a
block is small enough to stay near the processor.
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
Bits = NDArray[np.uint64]  # a word for 64 records, from its lowest bit
Counts = NDArray[np.uint8]

CHUNK = 128  # draws at a time: as a loop without branches, which processors do several at once
BLOCK = 8192  # records at most
FEW = 16  # of a search's rows, when what they can reach is worth a closer look
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_6, _27, _30, _31, _32, _56, _63 = (np.uint64(k) for k in (6, 27, 30, 31, 32, 56, 63))
_1, _2, _4, _LOW, _RANGE = (np.uint64(k) for k in (1, 2, 4, 0xFFFFFFFF, 2**32))
_ODD, _PAIRS, _NIBBLES, _BYTES = (np.uint64((2**64 - 1) // k) for k in (3, 5, 17, 255))


def _compiled(*signatures: Any, **options: Any) -> Callable[[_F], _F]:
    """Compile at import, or load what was compiled at an earlier one."""
    decorate: Any = numba.njit(list(signatures), cache=True, **options)
    return cast(Callable[[_F], _F], decorate)


@_compiled("uint64(uint64, uint64)")
def word(state: Any, t: Any) -> Any:
    """Return the t-th output of SplitMix64, for t = 0, 1, …."""
    z = state + (t + _1) * _GAMMA
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


_stats: Any = getattr(word, "stats", None)
if _stats and _stats.cache_misses and sys.stderr.isatty():
    print("confidp: compiling its loops, once after installing …", file=sys.stderr, flush=True)


@_compiled("int64(uint64)")
def ones(x: Any) -> Any:
    """Return how many bits of a word are 1."""
    x = x - ((x >> _1) & _ODD)
    x = (x & _PAIRS) + ((x >> _2) & _PAIRS)
    x = (x + (x >> _4)) & _NIBBLES
    return np.int64((x * _BYTES) >> _56)


@_compiled("int64(uint64, int64, uint64, uint32[::1])")
def draw_chunk(key: Any, first: int, k: Any, out: Draws) -> int:
    """Fill `out` with draws below k from the key's words `first` and on; return how many count.

    If one of them may have to be passed over, which is rare, each is looked at by itself, and those
    that count come first.
    """
    suspects = 0
    for r in range(len(out) // 2):
        w = word(key, np.uint64(first + r))
        high, low = (w >> _32) * k, (w & _LOW) * k
        out[2 * r], out[2 * r + 1] = high >> _32, low >> _32
        suspects += ((high & _LOW) < k) | ((low & _LOW) < k)
    if suspects == 0:
        return len(out)
    kept = 0
    for r in range(len(out)):
        w = word(key, np.uint64(first + r // 2))
        product = (w >> _32 if r % 2 == 0 else w & _LOW) * k
        if (product & _LOW) >= (_RANGE - k) % k:
            out[kept] = product >> _32
            kept += 1
    return kept


@_compiled("UniTuple(int64, 2)(int64, int64)")
def near_share(n: int, m: int) -> tuple[int, int]:
    """Return j and s so that `draw_subset` does least if each record is in with chance s/2^j.

    In units of a draw: words at a tenth, and draws for E max(±X, 0) where X is normal with the mean
    and variance of how many there are too many, each 1/(share of those that will do) times.
    """
    best, least = (0, 0), m * n / (n - m)
    for planes in range(1, 17):
        for share in ((m << planes) // n, (m << planes) // n + 1):
            p = share / 2.0**planes
            if 0 < p < 1 and share % 2 == 1:
                extra = n * p - m
                spread = np.sqrt(extra**2 + 0.64 * n * p * (1 - p))
                draws = (spread + extra) / 2 * n / m + (spread - extra) / 2 * n / (n - m)
                if planes * n / 640 + draws < least:
                    best, least = (planes, share), planes * n / 640 + draws
    return best


@_compiled("void(uint64, int64, int64, int64, int64, uint64[::1], uint32[::1])")
def draw_subset(
    key: Any, n: int, m: int, planes: int, share: int, bits: Bits, chunk: Draws
) -> None:
    """Set the bits of the key's m of n records, without replacement; m < n.

    First each record is in with chance share/2^planes, by itself: with as many random bits as that
    has digits, from the last to the first. Given how many those are, they are a uniform set; so it
    stays one as records are drawn that go in, or out, until there are m. Only how much work that is
    depends on the share.
    """
    words = len(bits)
    bits[:] = 0
    for plane in range(planes):
        first = np.uint64(plane * words)
        if share >> plane & 1:
            for w in range(words):
                bits[w] |= word(key, first + np.uint64(w))
        else:
            for w in range(words):
                bits[w] &= word(key, first + np.uint64(w))
    if n % 64:
        bits[-1] &= (_1 << np.uint64(n % 64)) - _1
    held = 0
    for w in range(words):
        held += ones(bits[w])
    wanted, missing = np.uint64(held < m), abs(m - held)
    at = planes * words
    while missing > 0:
        size = min(len(chunk), 2 * missing)
        kept = draw_chunk(key, at, np.uint64(n), chunk[:size])
        at += size // 2
        for r in range(kept):
            at_word, bit = np.int64(chunk[r]) >> 6, np.uint64(chunk[r]) & _63
            if (bits[at_word] >> bit & _1) != wanted and missing > 0:
                bits[at_word] ^= _1 << bit
                missing -= 1


@_compiled("int64(int64)")
def blocks(n: int) -> int:
    """Return how many blocks n records are in: the first power of 2 that makes them small.

    Block q of K has the records ⌊qn/K⌋ to ⌊(q + 1)n/K⌋ − 1.
    """
    k = 1
    while n > k * BLOCK:
        k *= 2
    return k


@_compiled("UniTuple(int64, 2)(uint64, int64, int64, int64, int64)")
def binomial(key: Any, first: int, trials: int, part: int, whole: int) -> tuple[int, int]:
    """Return how many of `trials` uniform numbers are below part/whole, and the next unused word.

    Digit by digit, from the key's words `first` and on: where a number's bit is that of part/whole
    the next will decide, and few are left after some. It is exact.
    """
    below, undecided, at = 0, trials, first
    while undecided > 0 and part > 0:
        part *= 2
        digit = part >= whole
        part -= whole if digit else 0
        ups, full = 0, undecided // 64
        for w in range(full):
            ups += ones(word(key, np.uint64(at + w)))
        at += full
        if undecided % 64:
            mask = (_1 << np.uint64(undecided % 64)) - _1
            ups += ones(word(key, np.uint64(at)) & mask)
            at += 1
        if digit:
            below += undecided - ups
            undecided = ups
        else:
            undecided -= ups
    return below, at


@_compiled("void(uint64, int64, int64, int64[::1])")
def share_out(key: Any, n: int, m: int, counts: Integers) -> None:
    """Share m places of a set with replacement out among blocks, by halving: multinomially.

    With the words of ``word(key, K)``, K the number of blocks.
    """
    k, at = len(counts), 0
    own = word(key, np.uint64(k))
    counts[0] = m
    step = k
    while step > 1:
        half = step // 2
        for q in range(0, k, step):
            low, middle, high = q * n // k, (q + half) * n // k, (q + step) * n // k
            below, at = binomial(own, at, counts[q], middle - low, high - low)
            counts[q], counts[q + half] = below, counts[q] - below
        step = half


@_compiled("void(uint64, int64, int64, int64, uint32[::1])")
def draw_block(key: Any, q: int, size: int, count: int, out: Draws) -> None:
    """Put the `count` draws of the key's block q, below `size`, into `out`, which has a place more.

    With the words of ``word(key, q)``.
    """
    own = word(key, np.uint64(q))
    done, at = 0, 0
    while done < count:
        wanted = (count - done + 1) // 2 * 2
        done += draw_chunk(own, at, np.uint64(size), out[done : done + wanted])
        at += wanted // 2


@_compiled("void(uint64, int64, int64, int64[::1])")
def draw_indices(key: Any, n: int, m: int, out: Integers) -> None:
    """Put the m indices of the key's set with replacement into `out`."""
    k, done = blocks(n), 0
    counts, drawn = np.zeros(k, np.int64), np.empty(m + 1, np.uint32)
    share_out(key, n, m, counts)
    for q in range(k):
        low, high = q * n // k, (q + 1) * n // k
        draw_block(key, q, high - low, counts[q], drawn)
        for r in range(counts[q]):
            out[done + r] = low + np.int64(drawn[r])
        done += counts[q]


@_compiled("uint8(uint8[::1])")
def largest(counts: Any) -> Any:
    """Return the largest of them, several at once."""
    most = np.uint8(0)
    for count in counts:
        most = max(most, count)
    return most


@_compiled("void(int64[:], int64, uint64[:,::1])")
def slices(column: Integers, lowest: int, out: Bits) -> None:
    """Put bit p of each value, less the lowest, into row p of `out`."""
    n, values = len(column), np.empty(64, np.uint64)
    for w in range(out.shape[1]):
        values[:] = 0
        for t in range(min(64, n - 64 * w)):
            values[t] = np.uint64(column[64 * w + t] - lowest)
        for p in range(out.shape[0]):
            held, shift = np.uint64(0), np.uint64(p)
            for t in range(64):
                held |= (values[t] >> shift & _1) << np.uint64(t)
            out[p, w] = held


@_compiled("int64[:,::1](int64[:,:], uint64, int64, int64)")
def subset_sums(records: Integers, seed: Any, n_sets: int, m: int) -> Integers:
    """Return the column sums of each set without replacement, exact if they fit in 63 bits.

    Σ x = m·lowest + Σ_p 2^p·#{records in the set with bit p of x − lowest}.
    """
    n, d = records.shape
    words = (n + 63) // 64
    lowest, used = np.empty(d, np.int64), np.zeros(d + 1, np.int64)  # rows of each column
    for j in range(d):
        lowest[j] = records[:, j].min()
        spread, used[j + 1] = np.uint64(records[:, j].max() - lowest[j]), used[j]
        while spread > 0:
            spread, used[j + 1] = spread >> _1, used[j + 1] + 1
    sliced = np.empty((used[d], words), np.uint64)
    for j in range(d):
        slices(records[:, j], lowest[j], sliced[used[j] : used[j + 1]])
    planes, share = near_share(n, m)
    bits, chunk = np.empty(words, np.uint64), np.empty(CHUNK, np.uint32)
    totals = np.empty((n_sets, d), np.int64)
    for b in range(n_sets):
        draw_subset(word(seed, np.uint64(b)), n, m, planes, share, bits, chunk)
        for j in range(d):
            total = np.int64(m) * lowest[j]
            for p in range(used[j], used[j + 1]):
                held = np.int64(0)
                for w in range(words):
                    held += ones(bits[w] & sliced[p, w])
                total += held << (p - used[j])
            totals[b, j] = total
    return totals


@_compiled(
    "Tuple((int64[:,::1], int64))(int64[:,::1], uint64, int64, int64)",
    "Tuple((int64[:,::1], int64))(uint32[:,::1], uint64, int64, int64)",
)
def multiset_sums(
    columns: Integers | Draws, seed: Any, n_sets: int, m: int
) -> tuple[Integers, int]:
    """Return the column sums of each set with replacement, and the largest multiplicity.

    Sums are exact if m records' fit in 63 bits; m is at most n. Block by block, not set by set.
    """
    d, n = columns.shape
    k = blocks(n)
    totals, counts = np.zeros((n_sets, d), np.int64), np.empty((n_sets, k), np.int64)
    for b in range(n_sets):
        share_out(word(seed, np.uint64(b)), n, m, counts[b])
    drawn, kappa = np.empty(m + 1, np.uint32), np.uint8(1)
    for q in range(k):
        low, high = q * n // k, (q + 1) * n // k
        times = np.zeros(high - low, np.uint8)  # with m ≤ n, 256 times has a chance below 1e-490
        for b in range(n_sets):
            draw_block(word(seed, np.uint64(b)), q, high - low, counts[b, q], drawn)
            chosen, column, total = drawn[: counts[b, q]], columns[0, low:high], np.int64(0)
            times[:] = 0
            for i in chosen:  # counts, and sums the first column while at it
                times[i] += np.uint8(1)
                total += np.int64(column[i])
            totals[b, 0] += total
            kappa = max(kappa, largest(times))
            for j in range(1, d):
                column, total = columns[j, low:high], np.int64(0)
                for i in chosen:
                    total += np.int64(column[i])
                totals[b, j] += total
    return totals, int(kappa)


@_compiled("float64[::1](int64, float64)")
def gap_weights(size: int, beta: float) -> Floats:
    """Return e^{−β(t−1)} for t = 0, …, size − 1."""
    weights: Floats = np.exp(-beta * (np.arange(size) - 1.0))
    return weights


@_compiled(
    "float64(float64[::1], float64[::1], float64[::1], float64)",
    "float64(int64[:], int64[::1], float64[::1], float64)",
    fastmath={"nnan", "nsz"},
)
def largest_weighted_gap(
    left: Floats | Integers, right: Floats | Integers, weights: Floats, least: float
) -> float:
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


@_compiled("Tuple((boolean, int64))(float64, int64, boolean, int64, float64, int64)")
def next_width(
    found: float, width: int, whole: bool, cells: int, beta: float, n: int
) -> tuple[bool, int]:
    """Return whether a search among `width` ranks has all that matters, and how many to take next.

    Further away weights are under e^(−β·width), which can't beat what was found; or it was `whole`.
    """
    enough = n + 1
    if found > 0:
        enough = int(min(1.05 * np.log(cells / found) / beta, enough)) + 1
    if np.exp(-beta * width) * cells <= found or whole:
        return True, max(enough, 16)
    return False, max(min(2 * width, enough), width + 1)


@_compiled("float64(int64[::1], int64[:,:], int64[::1], float64)")
def largest_smooth(order: Integers, ranks: Integers, own: Integers, beta: float) -> float:
    """Return the largest ‖(max{SS^(r_j), SS^(own_j)})_j‖₂ over rows r of `ranks`, in steps.

    Of no rows that of `own` alone.

    SS^(r) is the smallest β-smooth bound on how far the r-th smallest moves. `order` is the sorted
    data with the lowest and the highest value they can have put at 0 and n + 1.
    """
    n, cells, most = len(order) - 2, order[-1] - order[0], 0.0
    falling = order[::-1]
    widths, weights = np.full(len(own), 64), gap_weights(0, beta)
    of_own = np.zeros(len(own))
    for b in range(-1, len(ranks)):  # first its own ranks'
        squares = 0.0
        for j in range(len(own)):
            r = own[j] if b < 0 else ranks[b, j]
            # All that is under this can't matter.
            least = of_own[j]
            if b >= 0 and j == len(own) - 1:
                least = max(least, np.sqrt(max(most - squares, 0.0)))
            while True:
                width = widths[j]
                down, up = min(width, r), min(width, n + 1 - r)
                if len(weights) < down + up + 1:
                    weights = gap_weights(down + up + 1, beta)
                left, right = falling[n + 1 - r :][: down + 1], order[r:][: up + 1]
                found = largest_weighted_gap(left, right, weights, least)
                done, widths[j] = next_width(
                    found, width, down < width and up < width, cells, beta, n
                )
                if done:
                    break
            squares += found**2
            if b < 0:
                of_own[j] = found
        most = max(most, squares)
    return float(np.sqrt(most))


@_compiled("Tuple((uint32[::1], int64[::1]))(int64[::1], int64)")
def by_value(values: Integers, most: int) -> tuple[Draws, Integers]:
    """Return what sorts values from 0 to `most`, ties in their order, and the sorted values.

    By digits of 11 bits, from the last to the first: six times as fast as NumPy.
    """
    n, shift = len(values), 0
    order, ordered = np.arange(n).astype(np.uint32), values.copy()
    next_order, next_ordered = np.empty(n, np.uint32), np.empty(n, np.int64)
    while shift < 63 and most >> shift > 0:
        heads, before = np.zeros(2048, np.int64), 0
        for value in ordered:
            heads[(value >> shift) & 2047] += 1
        for digit in range(2048):  # from counts to where each begins
            heads[digit], before = before, before + heads[digit]
        for i in range(n):
            digit = (ordered[i] >> shift) & 2047
            at = heads[digit]
            heads[digit] = at + 1
            next_ordered[at], next_order[at] = ordered[i], order[i]
        ordered, next_ordered = next_ordered, ordered
        order, next_order = next_order, order
        shift += 11
    return order, ordered


@_compiled("int64(uint64[::1], uint32[::1], int64)", "int64(uint8[::1], uint32[::1], int64)")
def times(held: Bits | Counts, order: Draws, at: int) -> Any:
    """Return how often a set has the record at a place of the sorted data.

    `held` is a bit for each record, or a count for each place; `order` has the places' records.
    """
    if held.itemsize == 8:
        i = order[at]
        return np.int64(held[i >> 6] >> (np.uint64(i) & _63) & _1)
    return np.int64(held[at])


@_compiled("int64(uint64[::1], uint64[::1], int64)", "int64(uint8[::1], uint64[::1], int64)")
def times_before(held: Bits | Counts, mask: Bits, at: int) -> Any:
    """Return how often a set has records before a place, whose bits are in the mask."""
    total = np.int64(0)
    if held.itemsize == 8:
        for w in range(len(mask)):
            total += ones(held[w] & mask[w])
    else:
        for count in held[:at]:
            total += np.int64(count)
    return total


@_compiled("uint64(uint64[::1], int64)", "uint64(uint8[::1], int64)")
def held_at(held: Bits | Counts, first: int) -> Any:
    """Return a word: which of the 64 places from `first` on are held at all."""
    part, found = held[first : first + 64], np.uint64(0)
    if len(part) == 64:  # as a loop of known length
        for t in range(64):
            found |= np.uint64(part[t] != 0) << np.uint64(t)
    else:
        for t in range(len(part)):
            found |= np.uint64(part[t] != 0) << np.uint64(t)
    return found


@_compiled("uint64(uint64)")
def highest(x: Any) -> Any:
    """Return the highest bit of a word, by itself."""
    for shift in (1, 2, 4, 8, 16, 32):
        x |= x >> np.uint64(shift)
    return x ^ (x >> _1)


@_compiled(
    "void(uint64[::1], uint32[::1], int64[::1], int64, int64, int64, float64, float64[::1])",
    "void(uint8[::1], uint32[::1], int64[::1], int64, int64, int64, float64, float64[::1])",
)
def collect(
    held: Bits | Counts, order: Draws, ordered: Integers,
    at: int, step: int, skip: int, beyond: float, out: Floats,
) -> None:  # fmt: skip
    """Fill `out` with a set's values from a place of the sorted data, up or down, after `skip`.

    With `beyond` where there are no more.
    """
    kept = -skip
    while kept < len(out) and 0 <= at < len(order):
        if held.itemsize == 8:
            out[max(kept, 0)] = ordered[at]  # whether it is held or not, which can't be foreseen
            kept += times(held, order, at)
            at += step
            continue
        first = at if step > 0 else max(at - 63, 0)
        places = held_at(held, first)
        if step < 0:
            places &= ~np.uint64(0) >> np.uint64(63 - (at - first))
        while places != 0 and kept < len(out):
            place = places & (~places + _1) if step > 0 else highest(places)
            places ^= place
            here = first + ones(place - _1)
            count = times(held, order, here)
            out[max(kept, 0)] = ordered[here]
            kept += count
            if count > 1:
                out[max(kept - count, 0) : max(kept, 0)] = ordered[here]
        at = first + 64 if step > 0 else first - 1
    out[max(kept, 0) :] = beyond


@_compiled("uint64[:,::1](uint32[::1], int64[::1])")
def masks_before(order: Draws, places: Integers) -> Bits:
    """Return a mask for each place of the sorted data: the bits of the records before it."""
    masks = np.zeros((len(places), (len(order) + 63) // 64), np.uint64)
    for q in range(len(places)):
        for i in order[: places[q]]:
            masks[q, i >> 6] |= _1 << (np.uint64(i) & _63)
    return masks


_ONE_SET = (
    "UniTuple(float64, 2)({}[::1], uint64[:,::1], uint32[::1], int64[::1], int64, int64[::1],"
    "int64[::1], int64, float64, float64, float64[::1], float64, int64[::1])"
)


@_compiled(_ONE_SET.format("uint64"), _ONE_SET.format("uint8"))
def set_quantiles(
    held: Bits | Counts, masks: Bits, order: Draws, ordered: Integers, cells: int,
    at_ranks: Integers, anchors: Integers, m: int, beta: float, wide: float, weights: Floats,
    most: float, out: Integers,
) -> tuple[float, float]:  # fmt: skip
    """Put a set's order statistics into `out`; return a sum of squares, and the search's width.

    The squares are of smooth sensitivities, in steps. A sum that isn't more than `most` may be less
    than it should. β = 0 leaves sensitivities out.

    An order statistic is looked for from its anchor, the place where one expects it. From it on,
    values are collected as far as they matter: beyond `width` ranks, e^(−β·width) is so small that
    nothing does (`Quantile`). It starts from `wide`, the last set's, and grows where that isn't so.
    """
    n, width, squares = len(order), int(wide), 0.0
    for q in range(len(at_ranks)):
        h, at = at_ranks[q], anchors[q]
        below = times_before(held, masks[q], at)
        while below >= h:
            at -= 1
            below -= times(held, order, at)
        here = times(held, order, at)
        while below + here < h:
            below += here
            at += 1
            here = times(held, order, at)
        out[q] = ordered[at]
        if beta == 0:
            continue
        least = 0.0
        if q == len(at_ranks) - 1:  # this set's sum can only matter if it is the largest
            least = np.sqrt(max(most - squares, 0.0))
        while True:
            down, up = min(width, h), min(width, m + 1 - h)  # ranks 0 and m + 1 are the bounds
            left, right = np.empty(down + 1), np.empty(up + 1)
            collect(held, order, ordered, at, -1, below + here - h, 0.0, left)
            collect(held, order, ordered, at, 1, h - 1 - below, float(cells), right)
            if len(weights) < down + up + 1:
                weights = gap_weights(down + up + 1, beta)
            found = largest_weighted_gap(left, right, weights, least)
            done, width = next_width(
                found, width, down < width and up < width, cells, beta, max(n, m)
            )
            if done:
                squares += found**2 if found > least else 0.0
                break
    return squares, float(width)


_RESULT = "Tuple((int64[:,::1], float64{}))"
_ARGUMENTS = "(uint32[::1], int64[::1], int64, int64[::1], uint64, int64, int64, float64)"


@_compiled(_RESULT.format("") + _ARGUMENTS)
def subset_quantiles(
    order: Draws, ordered: Integers, cells: int, at_ranks: Integers,
    seed: Any, n_sets: int, m: int, beta: float,
) -> tuple[Integers, float]:  # fmt: skip
    """Return order statistics of sets without replacement, and the largest smooth sensitivity.

    A sensitivity is the root of the sum of squares over `at_ranks`, in steps. `order` sorts the
    records, `ordered` has them sorted, whole numbers from 0 to `cells`, and `at_ranks` the ranks
    that are wanted, from 1 to m and rising. `beta` 0 leaves sensitivities out.
    """
    n, most, width = len(order), 0.0, 64.0
    values, anchors = np.empty((n_sets, len(at_ranks)), np.int64), at_ranks * n // (m + 1)
    masks, weights = masks_before(order, anchors), gap_weights(0, beta)
    planes, share = near_share(n, m)
    bits, chunk = np.empty((n + 63) // 64, np.uint64), np.empty(CHUNK, np.uint32)
    for b in range(n_sets):
        draw_subset(word(seed, np.uint64(b)), n, m, planes, share, bits, chunk)
        squares, width = set_quantiles(
            bits, masks, order, ordered, cells, at_ranks, anchors, m, beta, width, weights, most,
            values[b],
        )  # fmt: skip
        most = max(most, squares)
        if len(weights) < 2 * width + 1:
            weights = gap_weights(int(2 * width) + 1, beta)
    return values, np.sqrt(most)


@_compiled(_RESULT.format(", int64") + _ARGUMENTS)
def multiset_quantiles(
    order: Draws, ordered: Integers, cells: int, at_ranks: Integers,
    seed: Any, n_sets: int, m: int, beta: float,
) -> tuple[Integers, float, int]:  # fmt: skip
    """Return the same of sets with replacement, and the largest multiplicity."""
    n, most, width = len(order), 0.0, 64.0
    values, anchors = np.empty((n_sets, len(at_ranks)), np.int64), at_ranks * n // (m + 1)
    masks, weights = np.empty((len(at_ranks), 0), np.uint64), gap_weights(0, beta)
    held, kappa, k = np.empty(n, np.uint8), np.uint8(1), blocks(n)
    counts, drawn = np.empty(k, np.int64), np.empty(m + 1, np.uint32)
    places = np.empty(n, np.uint32)
    places[order] = np.arange(n).astype(np.uint32)
    for b in range(n_sets):
        key = word(seed, np.uint64(b))
        held[:] = 0
        share_out(key, n, m, counts)
        for q in range(k):
            low, high = q * n // k, (q + 1) * n // k
            draw_block(key, q, high - low, counts[q], drawn)
            for i in drawn[: counts[q]]:
                held[places[low + np.int64(i)]] += np.uint8(1)
        kappa = max(kappa, largest(held))
        squares, width = set_quantiles(
            held, masks, order, ordered, cells, at_ranks, anchors, m, beta, width, weights, most,
            values[b],
        )  # fmt: skip
        most = max(most, squares)
        if len(weights) < 2 * width + 1:
            weights = gap_weights(int(2 * width) + 1, beta)
    return values, np.sqrt(most), int(kappa)


@_compiled("UniTuple(int64, 2)(int64[:])")
def inversions(values: Integers) -> tuple[int, int]:
    """Return #{i < j: values_i > values_j} and #{i < j: values_i = values_j}, by merging.

    Whatever is taken from a right half is under all that is left of its left half.
    """
    n, found, ties, width = len(values), 0, 0, 1
    ordered, merged = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)  # with a place beyond
    ordered[:n] = values
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):  # without a branch, which couldn't be foreseen
                left = (i < middle) & ((j >= high) | (ordered[i] <= ordered[j]))
                merged[k] = ordered[i] if left else ordered[j]
                found += 0 if left else middle - i
                i += left
                j += not left
        ordered, merged = merged, ordered
        width *= 2
    run = 0
    for k in range(1, n):
        run = run + 1 if ordered[k] == ordered[k - 1] else 0
        ties += run
    return found, ties


@_compiled("int64[:](int64[:])")
def smaller_before(ranks: Integers) -> Integers:
    """Return #{j < i: ranks_j < ranks_i} for each i, for ranks in 0, …, len − 1.

    In a Fenwick tree of how often each rank came.
    """
    n = len(ranks)
    came, found = np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        k = ranks[i]
        while k > 0:
            found[i] += came[k]
            k -= k & -k
        k = ranks[i] + 1
        while k <= n:
            came[k] += 1
            k += k & -k
    return found


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
