"""Sums of whole numbers, and of their products, exact however large they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confidp.central.compiled import if_loaded

_BLOCK = 2**15


def exact_dot(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """Return Σ a_i b_i of integers under 2^62 in size, however large the sum.

    Summed as it is where that fits in 63 bits. Where single products do, their high and low halves
    are summed apart, block by block, which stays near the processor. Else both are cut into limbs
    of so few bits that no sum of products leaves 63 bits.

    Examples
    --------
    >>> exact_dot(np.array([2**61, -1]), np.array([2**61, 2**61])) == 2**122 - 2**61
    True
    """
    largest = _largest(a) * _largest(b)
    if largest * len(a) < 2**63:
        return int(a @ b)
    if largest < 2**63:
        high = low = 0
        for start in range(0, len(a), _BLOCK):
            products = a[start : start + _BLOCK] * b[start : start + _BLOCK]
            high += int((products >> 32).sum())  # rounds down, so that the low half has no sign
            low += int((products & 0xFFFFFFFF).sum())
        return (high << 32) + low
    width = (62 - len(a).bit_length()) // 2
    right = _limbs(b, width)
    return sum(
        int(x @ y) << width * (i + j)
        for i, x in enumerate(_limbs(a, width))
        for j, y in enumerate(right)
    )


def exact_sum(a: NDArray[np.int64]) -> int:
    """Return Σ a_i of integers under 2^62 in size, however large the sum.

    Examples
    --------
    >>> exact_sum(np.array([2**61] * 5)) == 5 * 2**61
    True
    """
    if _largest(a) * len(a) < 2**63:
        return int(a.sum())
    return exact_dot(a, np.ones_like(a))


def exact_sums(x: NDArray[np.int64], y: NDArray[np.int64]) -> tuple[int, int, int]:
    """Return Σx_i, Σy_i and Σx_i·y_i of integers under 2^62 in size, however large. **Private**.

    Examples
    --------
    >>> exact_sums(np.array([2**61, -1]), np.array([2**61, 5]))
    (2305843009213693951, 2305843009213693957, 5316911983139663491615228241121378299)
    """
    if kernels := if_loaded():
        first, second, high, low, bits = kernels.product_sums(x, y)
        if bits < 2**31:
            return first, second, (high << 32) + low
    total = exact_sum(x)
    return total, total if y is x else exact_sum(y), exact_dot(x, y)


def power_sums(x: NDArray[np.int64]) -> tuple[int, int, int, int]:
    """Return Σx, Σx², Σx³ and Σx⁴ of integers under 2^62 in size. **Private**.

    Quick where squares fit in 62 bits.

    Examples
    --------
    >>> power_sums(np.array([1, -2])), power_sums(np.array([2**40]))[3] == 2**160
    ((-1, 5, -7, 17), True)
    """
    if _largest(x) < 2**31:
        squares = x * x
        return exact_sum(x), exact_sum(squares), exact_dot(squares, x), exact_dot(squares, squares)
    each = x.tolist()
    first, second, third, fourth = (sum(k**p for k in each) for p in (1, 2, 3, 4))
    return first, second, third, fourth


def _largest(a: NDArray[np.int64]) -> int:
    return max(int(a.max()), -int(a.min()))


def _limbs(a: NDArray[np.int64], width: int) -> list[NDArray[np.int64]]:
    """Return a's limbs: Σ_i limb_i·2^(width·i) = a, each at most 2^width in size."""
    limbs = []
    while np.abs(a).max() >= 1 << width:
        limbs.append(a & ((1 << width) - 1))
        a = a >> width  # rounds down, so that the last limb carries the sign
    return [*limbs, a]
