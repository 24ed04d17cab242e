"""Runs of a batch that differ in one thing only, and the first byte in which two of them differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import CheckError
from .batch import Memory, Runner, Source, Trace
from .plan import Plan
from .report import FAIL, Finding

FILLS = (0xA5, 0x5B)  # what memory holds before the environment writes
WORLDS = 8
_TRACE_BYTES = 24 << 20  # of one trace, at most
_MOST_STEPS, _LEAST_STEPS = 128, 32

# says which (world, step) is about to be taken, in case it crashes or hangs
SEVERAL, OUTSIDE = -1, -2  # worlds at once; no call of the environment
Note = Callable[[int, int], None]


class Broken(CheckError):
    """A rule broke in the middle of a run: `finding` says how."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def steps_for(source: Source) -> int:
    """How many steps a run takes: as many as fit into memory."""
    spec = source.spec
    each = spec.state_size + spec.agents * (spec.obs_dtype.itemsize + spec.mask_size + 16)
    return int(np.clip(_TRACE_BYTES // (2 * WORLDS * each), _LEAST_STEPS, _MOST_STEPS))


class Experiments:
    """Runs of one environment in this process, all with the same plan and seeds."""

    def __init__(self, source: Source, *, exact: bool, note: Note, steps: int) -> None:
        self.source, self.exact, self.note = source, exact, note
        self.plan = Plan(source.spec, WORLDS, steps, source.seed)
        self.memory = self._memory(WORLDS)
        self.elsewhere = self._memory(WORLDS)  # both live, so their addresses differ
        self.steps = steps

    def _memory(self, worlds: int) -> Memory:
        return Memory(self.source.spec, worlds, exact=self.exact)

    def run(
        self,
        *,
        order: str = "ascending",
        fill: int = FILLS[0],
        elsewhere: bool = False,
        guarded: bool = False,
    ) -> Trace:
        """All worlds from their seeds on, one after the other (`order` "ascending" or
        "descending") or as one range ("whole").

        guarded: also looks whether a step touched what is not its world's.
        """
        memory = self.elsewhere if elsewhere else self.memory
        memory.fill(fill)
        runner = Runner(self.source, memory, self.plan)
        trace = Trace(self.source.spec, WORLDS, self.steps)
        self.note(SEVERAL, 0)
        runner.reset(trace)
        refuse_failure(runner, 0)
        self._go_on(runner, trace, 0, order, fill, guarded)
        return trace

    def _go_on(
        self, runner: Runner, trace: Trace, done: int, order: str, fill: int, guarded: bool
    ) -> None:
        """The steps after the first `done`, into the trace."""
        singles = [(world, world + 1) for world in range(WORLDS)]
        ranges = {"ascending": singles, "descending": singles[::-1], "whole": [(0, WORLDS)]}[order]
        for step in range(done, self.steps):
            runner.put_actions(step)
            for lo, hi in ranges:
                self.note(lo if hi == lo + 1 else SEVERAL, step + 1)
                if guarded:
                    runner.memory.remember()
                runner.step([(lo, hi)], fill)
                refuse_failure(runner, step + 1)  # the next step forgets it
                if guarded:
                    self._refuse_touched(runner, lo, step + 1)
            trace.keep(runner.memory, step + 1)
            over = runner.memory.arrays["world_over"] != 0
            if over.any():
                runner.restart(over, fill)
                trace.keep_start(runner.memory, step + 1, over, 0)
            refuse_failure(runner, step + 1)

    def alone(self) -> Trace:
        """Each world in a batch of its own."""
        trace = Trace(self.source.spec, WORLDS, self.steps)
        for world in range(WORLDS):
            memory = self._memory(1)
            memory.fill(FILLS[0])
            runner = Runner(self.source, memory, self.plan, first=world)
            self.note(world, 0)
            runner.reset(trace)
            for step in range(self.steps):
                runner.put_actions(step)
                self.note(world, step + 1)
                over = runner.step([(0, 1)], FILLS[0]) != 0
                trace.keep(memory, step + 1, world)
                if over.any():
                    runner.restart(over, FILLS[0])
                    trace.keep_start(memory, step + 1, over, world)
                refuse_failure(runner, step + 1)
        return trace

    def reset_again(self) -> Trace:
        """The worlds played, reset from their seeds and played again: the second half."""
        self.memory.fill(FILLS[0])
        runner = Runner(self.source, self.memory, self.plan)
        for _ in range(2):
            trace = Trace(self.source.spec, WORLDS, self.steps)
            runner.reset(trace)
            self._go_on(runner, trace, 0, "ascending", FILLS[0], False)
        return trace

    def resumed(self, whole: Trace) -> Trace:
        """The second half of a run, from a copy of everything at half time, in another place."""
        half = self.steps // 2
        self.memory.fill(FILLS[0])
        runner = Runner(self.source, self.memory, self.plan)
        trace = Trace(self.source.spec, WORLDS, self.steps)
        runner.reset(trace)
        steps, self.steps = self.steps, half
        try:
            self._go_on(runner, trace, 0, "ascending", FILLS[0], False)
        finally:
            self.steps = steps
        self.elsewhere.fill(FILLS[1])
        self.elsewhere.copy_from(self.memory)
        # the first batch goes on in another way: what it leaves behind must not matter
        runner.put_actions(0)
        runner.step([(0, WORLDS)], FILLS[1])
        again = Runner(self.source, self.elsewhere, self.plan)
        self._go_on(again, trace, half, "ascending", FILLS[0], False)
        for name, part in trace.parts.items():
            part[: half + 1] = whole.parts[name][: half + 1]
        return trace

    def _refuse_touched(self, runner: Runner, world: int, step: int) -> None:
        touched = runner.memory.touched(world)
        if touched is None:
            return
        name, other = touched
        whose = f"that of world {other}" if other is not None else "bytes beside the batch's own"
        raise Broken(
            Finding(
                "memory",
                FAIL,
                f"stepping world {world} changed {name!r} of another slot, {whose}",
                world=world,
                step=step,
                seed=self.source.seed + world,
            )
        )


def refuse_failure(runner: Runner, step: int) -> None:
    """Raises Broken for a condition of the author's (HR_CHECK, assert) that did not hold, or an
    index that was out of bounds (Numba)."""
    failure = runner.vec.take_failure()
    if failure is None:
        return
    world = max(int(failure["world"]), 0) + runner.first
    raise Broken(
        Finding(
            "memory" if "IndexError" in failure["message"] else "conditions",
            FAIL,
            failure["message"],
            world=world,
            step=step,
            seed=runner.source.seed + world,
            file=failure["file"] or None,
            line=failure["line"] or None,
        )
    )


def first_difference(one: Trace, other: Trace) -> tuple[int, int, str, int] | None:
    """(step, world, part, byte) where two traces first differ; None when they do not."""
    found: list[tuple[int, int, int, str, int]] = []
    for rank, name in enumerate(one.parts):
        differs = one.parts[name] != other.parts[name]
        steps = differs.any(axis=(1, 2))
        if steps.any():
            step = int(steps.argmax())
            world = int(differs[step].any(axis=1).argmax())
            byte = int(differs[step, world].argmax())
            found.append((step, rank, world, name, byte))
    if not found:
        return None
    step, _, world, name, byte = min(found)
    return step, world, name, byte
