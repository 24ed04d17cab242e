"""The exact Mann-Whitney test: whether repeats of one run lie above those of another.

H. B. Mann and D. R. Whitney, On a test of whether one of two random variables is stochastically
larger than the other, Annals of Mathematical Statistics 18 (1947). It asks for ranks alone, so
that one repeat that something held up weighs no more than any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb, floor, sqrt
from statistics import NormalDist

EXACT = 20  # repeats of either up to which orders are counted; the normal distribution for more


def chance_above(low: Sequence[float], high: Sequence[float]) -> float:
    """How likely repeats of one and the same thing show `high` above `low` as clearly as these.

    One-sided; ties count half and are rounded in favour of no difference.
    """
    beaten = sum((a > b) + 0.5 * (a == b) for a in low for b in high)  # the statistic U
    if max(len(low), len(high)) > EXACT:
        pairs = len(low) * len(high)
        deviation = sqrt(pairs * (len(low) + len(high) + 1) / 12)
        return NormalDist(pairs / 2, deviation).cdf(beaten + 0.5)
    orders = comb(len(low) + len(high), len(low))
    return sum(_orders(len(low), len(high), u) for u in range(floor(beaten + 0.5) + 1)) / orders


@cache
def _orders(m: int, n: int, u: int) -> int:
    """In how many orders of m and n values exactly u pairs are reversed: the last value is one of
    the n, or one of the m and then above all n."""
    if u < 0:
        return 0
    if m == 0 or n == 0:
        return int(u == 0)
    return _orders(m - 1, n, u - n) + _orders(m, n - 1, u)
