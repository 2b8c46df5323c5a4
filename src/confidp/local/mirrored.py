"""Mirrored pairs as a design: one of two queries by a fair public coin.

One interval beside the median sees the location or the scale badly; it and its mirror image
together see both. The information of a report is then the mean of the two queries'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confidp.errors import InvalidArgument, InvalidType
from confidp.local import mechanisms
from confidp.local.kinds import Mechanism, as_mechanism
from confidp.local.query import Query
from confidp.privacy.guarantees import numbers

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mechanism above a centre, or its mirror image below it, by a fair public coin.

    The knots are the centre, then the mechanism's own. With a truncated Laplace the pair tells a
    location and a scale four times as much as one interval at ε = 1, twice as much at ε = 2, and
    no more at ε = 5; three-ary randomised response beats both.

    *Proof* of privacy: the coin is tossed without looking at the value, so a report's chance
    given the coin is that of one of the two queries, each of which proves its own claim; a mirror
    image has the same ratios and trade-off curves (`mechanisms.mirrored_pair`). ∎

    Parameters
    ----------
    mechanism
        What is mirrored, such as `TruncatedLaplace(1.0)` or `Response(2, 1.0)`.

    Examples
    --------
    >>> from confidp.local.design import TruncatedLaplace, best_knots
    >>> from confidp.local.population import Normal
    >>> pair = Mirrored(TruncatedLaplace(1.0))
    >>> best = best_knots(Normal(), (0.0, 1.0), pair)
    >>> round(best.loss, 1), round(best_knots(Normal(), (0.0, 1.0), pair.mechanism).loss, 1)
    (41.6, 170.3)
    >>> [query.cell(50.0) for query in pair.queries((50.0, 52.0, 54.0))]
    [0, 32]
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        """Refuse what can't be mirrored."""
        if isinstance(as_mechanism(self.mechanism), Mirrored):
            raise InvalidType("mechanism must be one that is not mirrored")

    @property
    def n_knots(self) -> int:
        """One more than the mechanism's: the centre is the first."""
        return 1 + self.mechanism.n_knots

    def build(self, knots: tuple[float, ...]) -> tuple[Array, Array]:
        """Return the cut points of both, and the chances of (coin, answer) in the cells between.

        The information of that one channel is the mean of the two queries'.
        """
        cuts, matrix = self.mechanism.build(knots[1:])
        cells = len(matrix)
        above = np.concatenate([np.repeat(matrix[:1], cells - 1, axis=0), matrix])
        both = np.hstack([above, above[::-1, ::-1]]) / 2
        return np.concatenate([2 * knots[0] - cuts[::-1], cuts]), both

    def queries(self, knots: tuple[float, ...]) -> tuple[Query, ...]:
        """Return the two queries, each with its proof; a fair coin chooses."""
        points = numbers("knots", knots)
        if points.shape != (self.n_knots,):
            raise InvalidArgument(f"knots must be {self.n_knots} numbers, the centre first")
        centre, *own = points.tolist()
        (above,) = self.mechanism.queries(tuple(own))
        return mechanisms.mirrored_pair(above, centre)
