"""Repeats in turn: every job once, then every job again. Those around which the CPUs gave less
than they have, or lay further apart than they need (given.py), are taken again: none is ever thrown
away for what it came to itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .given import Given, watched
from .spread import Spread

T = TypeVar("T")
U = TypeVar("U")
Slot = tuple[int, int]  # round, job


@dataclass
class Repeats(Generic[T]):
    """What one job came to, round by round."""

    values: Sequence[T]
    retaken: int = 0  # repeats that were taken again
    short: set[int] = field(default_factory=set)  # rounds in which the CPUs gave less or lay apart

    def spread(self, pick: Callable[[T], Any] = lambda value: value) -> Spread:
        """Of the number that `pick` takes from each."""
        values = tuple(float(pick(value)) for value in self.values)
        return Spread(values, self.retaken, len(self.short))

    def map(self, convert: Callable[[T], U]) -> Repeats[U]:
        """The same repeats with another value each."""
        return Repeats([convert(value) for value in self.values], self.retaken, self.short)


def merged(several: Sequence[Repeats[T]], pick: Callable[[Sequence[T]], U]) -> Repeats[U]:
    """Of each of several jobs one value, picked from its repeats, as the repeats of one."""
    values = [pick(each.values) for each in several]
    short = {at for at, each in enumerate(several) if each.short}
    return Repeats(values, sum(each.retaken for each in several), short)


def repeated(
    jobs: Sequence[Callable[[int], T]],
    rounds: int,
    announce: Callable[[int], object] = lambda _: None,
) -> list[Repeats[T]]:
    """Calls each job with 0 .. rounds - 1, all of them in turn.

    Repeats between two looks, of which one found that the CPUs give less or lie apart, are taken
    again when all others have been taken; no more than as many again as there are repeats.
    announce: told how many repeats stand.
    """
    given = watched()
    waiting: deque[Slot] = deque((k, at) for k in range(rounds) for at in range(len(jobs)))
    total = len(waiting)
    found: dict[Slot, T] = {}
    notes = [Repeats[T]([]) for _ in jobs]
    stretch = _Stretch(given, notes, waiting) if given is not None else None
    while waiting or (stretch is not None and stretch.settle()):
        number, at = waiting.popleft()
        found[number, at] = jobs[at](number)
        announce(total - len(waiting))
        if stretch is not None:
            stretch.add((number, at))
    if stretch is not None:
        stretch.given.stood += stretch.trips.values()
    for at, note in enumerate(notes):
        note.values = [found[number, at] for number in range(rounds)]
    return notes


class _Stretch:
    """The repeats since the last look, and what becomes of them at the next one."""

    def __init__(self, given: Given, notes: list[Repeats[T]], waiting: deque[Slot]) -> None:
        self.given, self.notes, self.waiting = given, notes, waiting
        self.first = len(waiting)  # repeats that have not been taken at all
        self.spare = self.first if given.again else 0
        self.taken: list[Slot] = []
        self.trips: dict[Slot, float] = {}  # of repeats: the longest around them, where known
        self.kept: set[Slot] = set()  # though they should be taken again
        self.last = given.look()

    def add(self, slot: Slot) -> None:
        self.taken.append(slot)
        self.first -= 1
        if self.waiting and not self.given.due():
            return
        before, self.last = self.last, self.given.look()
        trips = [look.trip for look in (before, self.last) if look.trip is not None]
        if trips:
            self.trips |= dict.fromkeys(self.taken, max(trips))
        if not (self.given.fine(before) and self.given.fine(self.last)):
            self._doubt(self.taken)
        self.taken = []
        if self.waiting and self.first <= 0:
            self.last = self.given.wait()  # all that is left has seen a phase already

    def settle(self) -> bool:
        """Judges again what stands, since the cores may have come nearer than they were known to
        lie; whether repeats wait now."""
        apart = self.given.distance.apart
        standing = self.trips.keys() - self.kept
        self._doubt(sorted(slot for slot in standing if apart(self.trips[slot])))
        return bool(self.waiting)

    def _doubt(self, slots: list[Slot]) -> None:
        """Has the repeats taken again, as far as may be."""
        again, kept = slots[: self.spare], slots[self.spare :]
        self.spare -= len(again)
        for _, at in again:
            self.notes[at].retaken += 1
        for number, at in kept:
            self.notes[at].short.add(number)
        self.kept.update(kept)
        for slot in again:
            self.trips.pop(slot, None)
        self.given.retaken += len(again)
        self.given.short += len(kept)
        self.waiting.extend(again)
