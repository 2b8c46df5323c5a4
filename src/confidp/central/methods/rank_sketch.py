"""What noisy counts say of all counts: three models of the same answers, by which to ask on.

`Sketch` takes the records between two answers to be spread evenly, more or less. `Line` takes them
to be spread evenly for a while around one count: far closer on smooth data, of which it averages
all answers nearby, and wrong at gaps and atoms. `Steps` takes all records between two answers to be
at one place: right at the edges of gaps, which it halves its way to. `search` goes by the one that
has foretold the answers best. All are post-processing of private answers, so public; no guarantee
depends on them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

_LEAST_CHANCE = 0.25  # of being believed: no gambling on far points
_OUTLIER = 3.0  # standard deviations at which a line ends
_SURPRISE = 100.0  # squared standard deviations, at most, that one answer counts for
_REACH = 3.0  # standard deviations over the count of interest to which a line is searched
_SURELY = 8.0  # standard deviations over the target, of a count that no answer can be believed at
_FRACTIONS = np.linspace(0, 1, 34)[1:-1]

Numbers = NDArray[np.float64]
Point = tuple[int, float, float]  # where, a count and its variance


class Model(Protocol):
    """What is expected of C(x) = #{X < x}."""

    def expect(self, x: float) -> tuple[float, float]:
        """Return the expected C(x) and its variance."""

    def log_density(self, x: float, answer: float, noise: float) -> float:
        """Return the logarithm of the density of a noisy count, up to a constant."""

    def most_promising(self, low: int, target: float, noise: float) -> int:
        """Return the point above `low` with the largest expected rise.

        That is the chance that a count with that noise is `target` at most, times how far up.
        """


def _log_normal(answer: float, expected: float, var: float) -> float:
    return -(math.log(var) + min((answer - expected) ** 2 / var, _SURPRISE)) / 2


@dataclass(frozen=True, slots=True)
class Sketch:
    """The answers so far, and what they say of the counts point by point.

    `points` lie in order, each with an estimate of its count and that estimate's variance; between
    them counts are taken to rise evenly, more or less. `answers` are points, noisy counts and
    noise variances as they came.
    """

    n: int
    points: tuple[Point, ...]
    answers: tuple[Point, ...]

    @classmethod
    def blank(cls, n: int, top: int) -> Sketch:
        """Return what is known beforehand: C(0) = 0 and C(top) = n."""
        known = ((0, 0.0, 0.0), (top, float(n), 0.0))
        return cls(n, known, known)

    @property
    def top(self) -> int:
        """The last point, with all records below it."""
        return self.points[-1][0]

    def reflected(self) -> Sketch:
        """Return the same of top − X, whose records below x are those of X at or above top − x."""
        top, n = self.top, self.n
        points = tuple([(top - x, n - count, var) for x, count, var in reversed(self.points)])
        answers = tuple([(top - x, n - count, var) for x, count, var in reversed(self.answers)])
        return Sketch(n, points, answers)

    def expect(self, x: float) -> tuple[float, float]:
        """Return the expected C(x) and its variance."""
        i = bisect_right(self.points, (x, math.inf)) - 1
        i = min(i, len(self.points) - 2)
        (left, below, var), (right, above, other) = self.points[i : i + 2]
        u = (x - left) / (right - left)
        rise = max(above - below, 0.0)
        return below + rise * u, (1 - u) ** 2 * var + u**2 * other + self._strays(rise, u)

    def log_density(self, x: float, answer: float, noise: float) -> float:
        """Return the logarithm of the density of a noisy count, up to a constant."""
        expected, var = self.expect(x)
        return _log_normal(answer, expected, var + noise**2)

    def _strays(self, rise: Any, u: Any) -> Any:
        """Return the variance of C around the straight line, u of the way through a rise of D.

        As a smooth curve it leaves the line by 1.5·√(D/n)·D·u(1 − u), more or less, and by chance
        with variance D·u(1 − u), as a binomial does. Floats or arrays.
        """
        middle = u * (1 - u)
        return rise * middle + (1.5 * rise * middle) ** 2 * rise / self.n

    def learn(self, x: int, answer: float, noise: float) -> Sketch:
        """Return the sketch after a noisy count: combined with what was expected at its point.

        Points twice as vague that can't be told apart from the new one are dropped: it holds what
        they taught, and a slope between the two would be noise. Others stay, as brackets.
        """
        expected, var = self.expect(x)
        gain = var / (var + noise**2)
        count = min(max(expected + gain * (answer - expected), 0.0), float(self.n))
        var *= noise**2 / (var + noise**2)
        kept = [
            (at, c, v)
            for at, c, v in self.points
            if at != x and (v <= 4 * var or (c - count) * (1 if at > x else -1) >= math.sqrt(v))
        ]
        points = tuple(sorted([*kept, (x, count, var)]))
        return Sketch(self.n, points, (*self.answers, (x, answer, noise**2)))

    def quantile(self, rank: float) -> float:
        """Return the x at which the expected count reaches `rank`."""
        at, counts, _ = zip(*self.points, strict=True)
        rising = np.maximum.accumulate(counts)
        return float(np.interp(rank, rising, at))

    def within_reach(self, low: int, target: float, noise: float) -> list[Point]:
        """Return the point at or before `low`, and on to one whose count is surely over target."""
        first = bisect_right(self.points, (low, math.inf)) - 1
        found = list(self.points[first : first + 1])
        for point in self.points[first + 1 :]:
            found.append(point)
            if point[1] - target > _SURELY * math.sqrt(point[2] + noise**2):
                break
        return found

    def most_promising(self, low: int, target: float, noise: float) -> int:
        """Return the point above `low` with the largest expected rise."""
        at, counts, variances = _columns(self.within_reach(low, target, noise))
        left, right = at[:-1], at[1:]
        start = np.maximum(left, low)
        x = start + (right - start) * _FRACTIONS
        u = (x - left) / (right - left)
        rise = np.maximum(np.diff(counts, axis=0), 0.0)
        expected = counts[:-1] + rise * u
        var = (1 - u) ** 2 * variances[:-1] + u**2 * variances[1:]
        var += self._strays(rise, u)
        return _best(x, low, expected, var + noise**2, target)


@dataclass(frozen=True, slots=True)
class Steps:
    """Between two points of a sketch all records are at one place, anywhere: an atom or an edge."""

    sketch: Sketch

    def _between(self, x: float) -> tuple[float, float, float, float, float]:
        points = self.sketch.points
        i = min(bisect_right(points, (x, math.inf)) - 1, len(points) - 2)
        (left, below, var), (right, above, other) = points[i : i + 2]
        return (x - left) / (right - left), below, var, above, other

    def expect(self, x: float) -> tuple[float, float]:
        """Return the expected C(x) and its variance."""
        u, below, var, above, other = self._between(x)
        spread = u * (1 - u) * (above - below) ** 2
        return below + u * (above - below), (1 - u) * var + u * other + spread

    def log_density(self, x: float, answer: float, noise: float) -> float:
        """Return the logarithm of the density of a noisy count, up to a constant."""
        u, below, var, above, other = self._between(x)
        one = _log_normal(answer, below, var + noise**2)
        two = _log_normal(answer, above, other + noise**2)
        return float(np.logaddexp(one + math.log(1 - u + 1e-9), two + math.log(u + 1e-9)))

    def most_promising(self, low: int, target: float, noise: float) -> int:
        """Return the point above `low` with the largest expected rise."""
        at, counts, variances = _columns(self.sketch.within_reach(low, target, noise))
        believed = ndtr((target - counts) / np.sqrt(variances + noise**2))
        left, right = at[:-1], at[1:]
        start = np.maximum(left, low)
        x = start + (right - start) * _FRACTIONS
        u = (x - left) / (right - left)
        chance = (1 - u) * believed[:-1] + u * believed[1:]
        return _largest(x, low, chance)


def _columns(points: list[Point]) -> Numbers:
    """Return x, counts and variances as columns."""
    return np.array(points, dtype=np.float64).T[:, :, None]


def _best(x: Numbers, low: int, expected: Numbers, var: Numbers, target: float) -> int:
    """Return the x with the largest chance of an answer of at most `target` times x − low."""
    return _largest(x, low, ndtr((target - expected) / np.sqrt(var)))


def _largest(x: Numbers, low: int, chance: Numbers) -> int:
    chance[chance < min(_LEAST_CHANCE, chance.max())] = 0.0
    return round(float(x.flat[int(np.argmax(chance * (x - low)))]))


@dataclass(frozen=True, slots=True)
class Line:
    """C(x) ≈ t + a + b·(x − near) around the point at which C reaches t, by least squares.

    D counts away from t a smooth C leaves its tangent by D·√(D/n), more or less, and by chance with
    variance D: both are added to the variance of an answer there.
    """

    n: int
    t: float
    near: float
    a: float
    b: float
    var_a: float
    cov: float
    var_b: float
    left: float  # the last answer on the line before one that isn't, if there is one
    right: float

    @classmethod
    def through(cls, sketch: Sketch, t: float) -> Line | None:
        """Return the line through the answers nearest to where the sketch reaches t.

        Answers are taken from there outwards on either side, as far as they are no outliers to the
        line through those before. None if it doesn't rise, or goes through fewer than three.
        """
        n, near = sketch.n, sketch.quantile(t)
        left, right = -math.inf, math.inf  # the nearest outliers
        first = last = 0.0  # the furthest answers on the line
        s = sx = sxx = sy = sxy = 0.0  # sums of weights, and of weights times x, x², y, xy
        used = 0
        told = [(abs(at - near), at - near, answer - t, var) for at, answer, var in sketch.answers]
        told.sort()
        for _, x, y, noise_var in told:
            if not left < x < right:
                continue
            away = -y if y < 0 else y
            var = noise_var + (away + away * away * away / n) + 1e-9  # as `_leaves`, inlined
            if used >= 2 and (spread := s * sxx - sx * sx) > 0:
                gap = y - (sy * sxx - sxy * sx + (s * sxy - sx * sy) * x) / spread
                doubt = (sxx - 2 * x * sx + x * x * s) / spread
                if gap * gap > _OUTLIER**2 * (var + doubt):
                    if x < 0:
                        left = x
                    else:
                        right = x
                    continue
            weight = 1 / var
            s += weight
            sx += weight * x
            sxx += weight * x * x
            sy += weight * y
            sxy += weight * x * y
            if x < first:
                first = x
            elif x > last:
                last = x
            used += 1
        spread = s * sxx - sx * sx
        if used < 3 or not spread > 0 or not s * sxy > sx * sy:
            return None
        a, b = (sy * sxx - sxy * sx) / spread, (s * sxy - sx * sy) / spread
        ends = (
            (-math.inf if left == -math.inf else first),
            (math.inf if right == math.inf else last),
        )
        return cls(n, t, near, a, b, sxx / spread, -sx / spread, s / spread, *ends)

    def expect(self, x: float) -> tuple[float, float]:
        """Return the expected C(x) and its variance."""
        away, var = self._at(x - self.near)
        return self.t + away, var

    def log_density(self, x: float, answer: float, noise: float) -> float:
        """Return the logarithm of the density of a noisy count, up to a constant."""
        expected, var = self.expect(x)
        return _log_normal(answer, expected, var + noise**2)

    def _at(self, x: Any) -> Any:
        """Return the expected count less t at near + x, and its variance. Floats or arrays."""
        away = self.a + self.b * x
        var = self.var_a + 2 * self.cov * x + self.var_b * x * x
        return away, var + _leaves(abs(away), self.n)

    def most_promising(self, low: int, target: float, noise: float) -> int:
        """Return the point above `low` with the largest expected rise, `low` if there is none."""
        spread = math.sqrt(self.var_a + noise**2)
        last = (_REACH * spread - self.a) / self.b
        first = (target - self.t - self.a - 8 * spread) / self.b  # surely believed
        first, last = max(first, self.left, low - self.near), min(last, self.right)
        if not first < last:
            return low
        x = np.linspace(first, last, 50)[1:]
        away, var = self._at(x)
        return _best(self.near + x, low, self.t + away, var + noise**2, target)


def _leaves(away: Any, n: int) -> Any:
    """Return the variance of C around its tangent, so many counts away from where they touch."""
    return away + away * away * away / n
