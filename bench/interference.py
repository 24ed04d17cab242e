"""What other work did to a measurement: the cores that it kept busy meanwhile."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..engine.cpus import available_cpus
from .distance import were_apart
from .given import ENOUGH, Given

ROOM = 0.1  # share of a core that others may take of each before figures count as disturbed
SHORTEST = 0.1  # seconds below which the system's clock ticks are too coarse


class Interference:
    """Watches from when it is made: call `cores` when everything measured has ended."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._began = self._reading()

    def _reading(self) -> tuple[float, float, float] | None:
        """(wall, busy, own) seconds: of the CPUs of this process's affinity, and of itself with the
        children that it has waited for. None where the system does not tell."""
        try:
            lines = (self._proc / "stat").read_text().splitlines()
            used = os.sched_getaffinity(0)
        except (OSError, AttributeError):
            return None
        ticks = 0
        for line in lines:
            name, _, rest = line.partition(" ")
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in used:
                user, nice, system, _, _, irq, softirq, steal = map(int, rest.split()[:8])
                ticks += user + nice + system + irq + softirq + steal
        return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])

    def cores(self) -> float | None:
        """Cores that other work kept busy, with what a hypervisor took; None where nobody knows."""
        now = self._reading()
        if self._began is None or now is None or now[0] - self._began[0] < SHORTEST:
            return None
        wall, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        return round(max(0.0, busy - own) / wall, 2)


def disturbs(others: float | None) -> bool:
    """Whether other work, of so many cores, left less than this process may use."""
    if others is None:
        return False
    cores = len(os.sched_getaffinity(0))
    return others > cores - (1 - ROOM) * available_cpus()


def told(watch: Interference, given: Given) -> dict[str, Any]:
    """For a document's machine: cores that other work kept busy, whether that was too much, and
    what the CPUs gave and how far they lay apart."""
    others = watch.cores()
    return {"other_work": others, "disturbed": disturbs(others), **given.told()}


def together(machines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `told` says of several benchmarks, as one: the worst of each."""
    given = [each["cores_given"] for each in machines if each["cores_given"]]
    trips = [each["round_trip_ns"] for each in machines if each["round_trip_ns"]]
    return {
        "other_work": max((each["other_work"] or 0.0 for each in machines), default=None),
        "cores_given": {key: min(each[key] for each in given) for key in given[0]}
        if given
        else None,
        "round_trip_ns": {
            key: pick(each[key] for each in trips)
            for key, pick in (("least", min), ("median", median), ("most", max))
        }
        if trips
        else None,
        "retaken": sum(each["retaken"] for each in machines),
        "short": sum(each["short"] for each in machines),
        "disturbed": any(each["disturbed"] for each in machines),
    }


def forewarn(seconds: float = 0.2) -> None:
    """Says on stderr that other work keeps the machine busy, before anything is measured."""
    watch = Interference()
    time.sleep(seconds)
    others = watch.cores()
    if disturbs(others):
        text = f"headrace: other work keeps {others:.2g} cores busy now; figures will be rough"
        print(text, file=sys.stderr)


def warning(machine: Mapping[str, Any]) -> str | None:
    """What to say of the figures where other work disturbed them; machine: of their document."""
    return "\n".join(filter(None, (_of_others(machine), _of_given(machine)))) or None


def _of_others(machine: Mapping[str, Any]) -> str | None:
    others, load = machine.get("other_work"), machine.get("load")
    if others is not None:
        if not machine.get("disturbed"):
            return None
        return f"other work kept {others:.2g} cores busy meanwhile and disturbs these figures"
    if load is None or load <= 0.5 * available_cpus():  # of the minute before: all that is known
        return None
    return f"load {load:g}: other work disturbs these figures"


def _of_given(machine: Mapping[str, Any]) -> str | None:
    given, again, stand = (machine.get(key) for key in ("cores_given", "retaken", "short"))
    if not given or not (again or stand):
        return None
    said = [f"{again} repeats were taken again"] if again else []
    said += [f"{stand} stand and disturb their figures"] if stand else []
    trip = machine.get("round_trip_ns")
    why = []
    if trip and were_apart(trip):
        times = trip["most"] / trip["least"]
        why = [f"the cores lay up to {times:.1f} times as far apart as at best"]
    if given["least"] < ENOUGH * machine["cores"] or not why:
        why.insert(0, f"the CPUs gave {given['least']:.2g} of {machine['cores']} cores")
    return f"{' and '.join(why)} at times: {', '.join(said)}"
