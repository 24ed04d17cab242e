"""Which setting to take, so that a repeat confirms it, and why.

Of all settings that are not shown to cost more than MARGIN above the cheapest the smallest is
recommended. Shown is what a sign test of the rounds says: in each round the price of one setting
is compared with that of another, so that a machine that slows down slows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from ..spread import Spread
from .choice import Measured, Prices, fastest, in_turn, one_waits, slowest
from .model import Law, has_cores

MARGIN = 0.10  # what a larger setting must save, as a share of the price, to be worth it
LEVEL = 0.10  # of the sign test


@dataclass(frozen=True)
class Advice:
    """The recommendation."""

    chosen: Measured
    cheapest: Measured  # by the medians
    excess: Spread  # what the chosen costs above it, round by round, as a share

    @property
    def by_noise(self) -> bool:
        """Whether noise alone keeps it from being shown to cost more."""
        return self.excess.median > MARGIN


def excess(one: Measured, other: Measured, prices: Prices) -> Spread:
    """What a million steps by `one` cost above those by `other`, as a share, round by round."""
    costs = [Spread.of([prices.million(point) for point in each.points]) for each in (one, other)]
    return in_turn(*costs).map(lambda times: times - 1)


def shown_dearer(above: Spread) -> bool:
    """Whether a sign test shows that a setting costs more than MARGIN above another: would it in
    half of all rounds, so many were rare."""
    dearer, rounds = sum(share > MARGIN for share in above.samples), above.repeats
    chance = sum(comb(rounds, k) for k in range(dearer, rounds + 1)) / 2**rounds
    return chance <= LEVEL


def advise(measured: Sequence[Measured], prices: Prices) -> Advice:
    """The smallest setting that is not shown to cost more: fewest replicas, then environments."""
    cheapest = _cheapest(measured, prices)
    above = {each: excess(each, cheapest, prices) for each in measured}
    within = [each for each in measured if not shown_dearer(above[each])]
    chosen = min(within, key=lambda each: each.size)
    return Advice(chosen, cheapest, above[chosen])


def undecided(measured: Sequence[Measured], prices: Prices) -> list[Measured]:
    """Which settings more repeats could decide about: those that seem to cost more than MARGIN
    above the cheapest, with noise that says they may not, and what they are compared with."""
    cheapest = _cheapest(measured, prices)
    smallest = min(
        (m for m in measured if excess(m, cheapest, prices).median <= MARGIN), key=lambda m: m.size
    )
    open_ = [
        each
        for each in measured
        if each.size < smallest.size and not shown_dearer(excess(each, cheapest, prices))
    ]
    return list(dict.fromkeys([*open_, smallest, cheapest])) if open_ else []


def candidates(measured: Sequence[Measured], cores: int, *, waits: bool) -> list[Measured]:
    """Those that may be recommended: where cores are what is short, more replicas than cores only
    take time from one another, and from other work; all where there is none else."""
    waits = waits and one_waits(measured)
    return [
        each for each in measured if has_cores(each.replicas, each.cores.median, cores, waits=waits)
    ] or list(measured)


def _cheapest(measured: Sequence[Measured], prices: Prices) -> Measured:
    return min(measured, key=lambda each: prices.million(each.point))


# ---- in words ------------------------------------------------------------------------------


def reason(advice: Advice, measured: Sequence[Measured], law: Law, prices: Prices) -> str:
    """Why, in one sentence: what it gains over one replica, what one more would, and how sure
    that is."""
    chosen, first = advice.chosen, slowest(measured)
    text = _replicas(chosen.replicas)
    if chosen.replicas > first.replicas:
        text += (
            f": {_times(in_turn(chosen.speed, first.speed))} faster than "
            f"{_replicas(first.replicas)} for {_times(in_turn(chosen.cost, first.cost))} the core "
            "time per step"
        )
    told = [text, _next(chosen, measured, law, prices)]
    if advice.cheapest is not chosen:
        why = "which these repeats do not tell from" if advice.by_noise else "within"
        told.append(
            f"its price is {_percent(advice.excess)} above the lowest, of "
            f"{_replicas(advice.cheapest.replicas)} of {advice.cheapest.envs}, {why} the margin of "
            f"{100 * MARGIN:.0f} %"
        )
    return "; ".join(told)


def _next(chosen: Measured, measured: Sequence[Measured], law: Law, prices: Prices) -> str:
    """What the next number of replicas buys, measured or else predicted."""
    more = sorted({each.replicas for each in measured if each.replicas > chosen.replicas})
    if more:
        then = fastest(measured, more[0])
        gain = in_turn(then.speed, chosen.speed).map(lambda times: times - 1)
        saves = excess(then, chosen, prices).map(lambda share: -share)
        worth = "saves" if saves.median > 0 else "adds"
        saved = saves if saves.median > 0 else saves.map(lambda share: -share)
        return (
            f"{_replicas(more[0])} buy {_percent(gain)} for "
            f"{_times(in_turn(then.cost, chosen.cost))} and that {worth} {_percent(saved)} of the "
            "price"
        )
    following = chosen.replicas + 1
    gain = Spread.of([law.speed(following) / law.speed(chosen.replicas) - 1])
    return f"one more is predicted to buy {_percent(gain)} where it has a core of its own"


def _times(spread: Spread) -> str:
    low, middle, high = (f"{value:.2g}" for value in (spread.min, spread.median, spread.max))
    return f"{middle}× ({low} … {high})"


def _percent(spread: Spread) -> str:
    low, middle, high = (f"{100 * x:.0f}" for x in (spread.min, spread.median, spread.max))
    return f"{middle} %" if spread.repeats == 1 else f"{middle} % ({low} … {high})"


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
