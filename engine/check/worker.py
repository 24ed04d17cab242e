"""The process in which an environment under check runs; started by process.py, never imported
by it. It reads its job, and leaves findings, a trace, and where it was should it crash.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from ..compile import build
from ..resolve import resolve
from ..spec import EnvSpec
from .batch import Source, Trace
from .executors import judge_executors
from .experiments import FILLS, OUTSIDE, Broken, Experiments, first_difference
from .members import Struct, obs_struct, state_struct
from .report import FAIL, PASS, SKIP, Finding
from .rules import (
    action_of,
    drive,
    drive_steps,
    judge_actions,
    judge_draw,
    judge_ends,
    judge_numbers,
)

SANITIZED, CHECKED, PLAIN = "sanitized", "checked", "plain"  # kinds of build
_DRIVES = {PLAIN: (64, 2048), SANITIZED: (8, 1024), CHECKED: (8, 256)}  # worlds, steps
PROGRESS = struct.Struct("=3q")  # calls so far, world (or SEVERAL, OUTSIDE), step


@dataclasses.dataclass(frozen=True)
class Job:
    """What a worker is to do; `result`, `trace` and `progress` are files."""

    env: str  # registered name, file or file:Class
    file: str  # the author's
    cls: str  # of a Numba environment, else ""
    kind: str
    defines: dict[str, int]
    params: str  # .npz of parameters, "" when none are given
    seed: int
    max_steps: int | None
    steps: int
    whole: bool  # all experiments; False: one run, for its trace
    result: str
    trace: str
    progress: str


def main(path: str) -> None:
    """Does the job in the JSON file `path`."""
    os.environ.pop("LD_PRELOAD", None)  # not for the compiler, should it be needed
    job = Job(**json.loads(Path(path).read_text()))
    with open(job.progress, "r+b") as file:
        progress = mmap.mmap(file.fileno(), PROGRESS.size)
    calls = 0

    def note(world: int, step: int) -> None:
        nonlocal calls
        calls += 1
        PROGRESS.pack_into(progress, 0, calls, world, step)

    source, cls = load(job)
    examination = Examination(job, source, cls, note)
    findings = examination.run()
    result = {"findings": [dataclasses.asdict(each) for each in findings]}
    Path(job.result).write_text(json.dumps(result, default=str))


def load(job: Job) -> tuple[Source, Any]:
    """The environment in the job's kind of build, and the class of a Numba environment."""
    params: dict[str, Any] = {}
    if job.params:
        with np.load(job.params, allow_pickle=False) as archive:
            params = {name: archive[name] for name in archive.files}
    cls = None
    if job.cls:
        from ..numba.loading import classes_in

        cls = classes_in(Path(job.file), job.defines)[job.cls]
    if job.kind == SANITIZED:
        path = build(job.file, defines=job.defines, checked=True, sanitize=True)
        library = _core.Library(str(path), job.file)
        spec = EnvSpec.from_library(library)
    else:
        found = resolve(cls or job.env, defines={} if cls else job.defines,
                        checked=job.kind == CHECKED)  # fmt: skip
        library, spec = found.library, found.spec
    return Source(library, spec, params, job.seed, job.max_steps), cls


class Examination:
    """All experiments with one build; `run` gives what they found."""

    def __init__(
        self, job: Job, source: Source, cls: Any, note: Callable[[int, int], None]
    ) -> None:
        self.job, self.source, self.cls, self.note = job, source, cls, note
        self.experiments = Experiments(
            source, exact=job.kind == SANITIZED, note=note, steps=job.steps
        )
        self.findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """The findings; a broken condition or slot ends the examination early."""
        try:
            if self.job.kind == SANITIZED and self.job.whole:
                self.experiments.alone()  # first, since the world is known if it crashes
            base = self.experiments.run(guarded=self.job.whole)
            self.note(OUTSIDE, self.job.steps)
            parts: dict[str, Any] = {"actions": base.actions, **base.parts}
            np.savez(self.job.trace, **parts)
            if self.job.whole:
                self.findings += judge_numbers(self.source, base)
                self.findings.append(judge_actions(self.source, base))
                self._compare(base)
                self._drive()
                self.findings.append(judge_draw(self.source, self.note))
        except Broken as broken:
            self.findings.append(broken.finding)
        return self.findings

    def _compare(self, base: Trace) -> None:
        """Repeats the run `base` with one thing changed at a time."""
        runs = self.experiments
        self._same("state", base, [lambda: runs.run()], (), "when it ran a second time")
        self._same(
            "written",
            base,
            [lambda: runs.run(fill=FILLS[1])],
            ("state",),
            "where memory held something else before",
        )
        self._same(
            "addresses",
            base,
            [lambda: runs.run(elsewhere=True)],
            ("state",),
            "elsewhere in memory",
        )
        needed: tuple[str, ...] = ("state", "written", "addresses")
        self._same(
            "order",
            base,
            [
                lambda: runs.run(order="descending"),
                lambda: runs.run(order="whole"),
                lambda: runs.alone(),
            ],
            needed,
            "when its worlds were stepped in another order, all at once, or alone",
        )
        needed = (*needed, "order")
        self._same("reset", base, [lambda: runs.reset_again()], needed, "after another reset")
        self._same(
            "snapshot", base, [lambda: runs.resumed(base)], needed, "after a snapshot was restored"
        )

    def _same(
        self,
        rule: str,
        base: Trace,
        others: list[Callable[[], Trace]],
        needs: tuple[str, ...],
        when: str,
    ) -> None:
        """A finding on whether each of `others` gives the bytes of `base`."""
        if self._skips(rule, needs):
            return
        for other in others:
            found = self.difference(rule, base, other(), when)
            if found is not None:
                self.findings.append(found)
                return
        self.findings.append(Finding(rule, PASS))

    def _skips(self, rule: str, needs: tuple[str, ...]) -> bool:
        """Whether a rule cannot be judged since one that it builds on is broken."""
        broken = {each.rule for each in self.findings if each.status == FAIL}
        blocking = [need for need in needs if need in broken]
        if blocking:
            self.findings.append(Finding(rule, SKIP, f"{blocking[0]} is broken"))
        return bool(blocking)

    def difference(self, rule: str, one: Trace, other: Trace, when: str) -> Finding | None:
        """The finding about the first byte in which two traces differ; None when there is none."""
        place = first_difference(one, other)
        if place is None:
            return None
        step, world, part, byte = place
        self.note(OUTSIDE, step)
        name, values = self._named(part, byte, one, other, step, world)
        return Finding(
            rule,
            FAIL,
            f"{name} differs {when}: {values}",
            world=world,
            step=step,
            seed=self.source.seed + world,
            member=name,
            action=action_of(self.source.spec, one, step, world),
        )

    def _named(
        self, part: str, byte: int, one: Trace, other: Trace, step: int, world: int
    ) -> tuple[str, str]:
        """(the member at a byte of a part of the trace, its value in both)."""
        pair = [trace.parts[part][step, world] for trace in (one, other)]
        kind = part.removeprefix("start_")
        if kind not in ("state", "obs"):
            size = 4 if kind == "rewards" else 8 if kind == "rng" else 1
            dtype = np.dtype({4: np.float32, 8: np.uint64, 1: np.uint8}[size])
            at = byte // size
            name = {"rewards": "reward", "rng": "random stream"}.get(kind, kind)
            values = [str(data.view(dtype)[at].item()) for data in pair]
            if kind in ("rewards", "terminated", "truncated") and self.source.spec.agents > 1:
                name += f" of agent {at}"
            return name, " and ".join(values)
        struct_ = self.struct(kind)
        agent, at = divmod(byte, struct_.size)
        name = struct_.at(at)[0]
        whole = slice(agent * struct_.size, (agent + 1) * struct_.size)
        values = [struct_.value(np.ascontiguousarray(data[whole]), at) for data in pair]
        if agent or (kind == "obs" and self.source.spec.agents > 1):
            name += f" of agent {agent}"
        return name, " and ".join(values)

    def struct(self, kind: str) -> Struct:
        """The members of State or Obs."""
        if kind == "obs":
            return obs_struct(self.source.spec)
        return state_struct(self.source.spec, Path(self.job.file), self.job.defines, self.cls)

    def _drive(self) -> None:
        """Many steps at random; with the build that training uses, executors and ends too."""
        plain = self.job.kind == PLAIN
        worlds, steps = _DRIVES[self.job.kind]
        steps = drive_steps(self.source, steps)
        found, lengths = drive(self.source, self.note, worlds, steps, singly=not plain)
        self.findings += found
        if plain:
            self.findings.append(judge_ends(self.source, lengths, steps))
            if not self._skips("executors", ("state", "written", "addresses", "order")):
                self.findings.append(judge_executors(self.source, self.note))


if __name__ == "__main__":
    main(sys.argv[1])
