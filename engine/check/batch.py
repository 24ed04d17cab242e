"""A batch in memory that the check prepares, and what it did, step by step.

The memory is filled with a byte of the check's choice wherever the environment has to write, and
each array lies between guard bytes (or, under AddressSanitizer, exactly between its red zones).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from ..buffers import ALIGNMENT, layout
from ..params import Parameters
from ..spec import EnvSpec
from .plan import Plan

GUARD = 4096  # bytes before and after each array
_GUARD_BYTE = 0xC3
# what the author's functions write, before the engine reads it
_WRITTEN = ("state", "obs", "final_obs", "rewards", "terminated", "truncated", "mask")
# [worlds, ...] or [rows, ...] of each step, in the order in which a difference is named
RECORDED = (
    "state", "obs", "rewards", "terminated", "truncated", "present", "mask", "rng",
)  # fmt: skip
_DISABLED = 2  # hr_autoreset


@dataclass(frozen=True)
class Source:
    """The environment under check, loaded."""

    library: _core.Library
    spec: EnvSpec
    params: dict[str, Any]  # parameters by name
    seed: int
    max_steps: int | None = None  # None: the environment's own limit


class Memory:
    """The arrays of a batch of `worlds` worlds, as `_core.Vec` takes them."""

    def __init__(self, spec: EnvSpec, worlds: int, *, exact: bool) -> None:
        """exact: each array is an allocation of its own size, for AddressSanitizer to guard."""
        self._guards: list[tuple[str, np.ndarray]] = []
        self.worlds = worlds
        self.arrays: dict[str, np.ndarray] = {}
        for array in layout(spec, worlds)[0]:
            if exact:
                data = np.empty(array.nbytes, np.uint8)
            else:
                block = np.empty(array.nbytes + 2 * GUARD + ALIGNMENT, np.uint8)
                start = GUARD + -(block.ctypes.data + GUARD) % ALIGNMENT
                data = block[start : start + array.nbytes]
                self._guards.append((array.name, block[start - GUARD : start]))
                self._guards.append((array.name, block[start + array.nbytes :][:GUARD]))
            self.arrays[array.name] = data.view(array.dtype).reshape(array.shape)
        self._bytes = {name: a.view(np.uint8).reshape(-1) for name, a in self.arrays.items()}
        self.slots = {
            name: data.reshape(worlds, -1) for name, data in self._bytes.items() if data.size
        }
        self._before: dict[str, np.ndarray] = {}

    def fill(self, byte: int) -> None:
        """Starts anew: `byte` wherever the environment has to write, 0 elsewhere."""
        for name, data in self._bytes.items():
            data[:] = byte if name in _WRITTEN else 0
        for _, guard in self._guards:
            guard[:] = _GUARD_BYTE

    def fill_outputs(self, byte: int, lo: int, hi: int) -> None:
        """`byte` in what the next step has to write for the worlds [lo, hi)."""
        for name in ("obs", "rewards", "terminated", "truncated"):
            self.slots[name][lo:hi] = byte

    def remember(self) -> None:
        """Keeps what the arrays hold, for `touched`."""
        self._before = {name: data.copy() for name, data in self.slots.items()}

    def touched(self, world: int) -> tuple[str, int | None] | None:
        """(array, world) that has changed since `remember` though it is not `world`'s; the
        world is None beside the arrays. None when there is none."""
        for name, guard in self._guards:
            if (guard != _GUARD_BYTE).any():
                return name, None
        for name, data in self.slots.items():
            changed = (data != self._before[name]).any(axis=1)
            changed[world] = False
            if changed.any():
                return name, int(changed.argmax())
        return None

    def copy_from(self, other: Memory) -> None:
        """Takes over the contents of another batch of this size."""
        for name, data in self._bytes.items():
            data[:] = other._bytes[name]


class Trace:
    """What each world did: arrays [steps + 1, worlds, bytes] by name; entry 0 is the reset.

    `start_state` and `start_obs` hold what the reset after a step wrote, and 0 where there was
    none.
    """

    def __init__(self, spec: EnvSpec, worlds: int, steps: int) -> None:
        self.spec, self.worlds, self.steps = spec, worlds, steps
        sizes = {array.name: array.nbytes for array in layout(spec, 1)[0]}
        names = [name for name in RECORDED if name in sizes]
        self.parts = {name: np.zeros((steps + 1, worlds, sizes[name]), np.uint8) for name in names}
        for name in ("state", "obs"):
            self.parts[f"start_{name}"] = np.zeros_like(self.parts[name])
        self.actions = np.zeros((steps + 1, worlds, sizes["actions"]), np.uint8)

    def keep(self, memory: Memory, step: int, world: int | None = None) -> None:
        """Records what the arrays hold after a step; world: where a batch of one stands."""
        where = slice(None) if world is None else slice(world, world + 1)
        for name in self.parts:
            if not name.startswith("start_"):
                self.parts[name][step, where] = memory.slots[name]
        self.actions[step, where] = memory.slots["actions"]

    def keep_start(self, memory: Memory, step: int, over: np.ndarray, at: int) -> None:
        """Records what the resets of the worlds in `over` wrote; at: number of the first."""
        for name in ("state", "obs"):
            self.parts[f"start_{name}"][step, at + np.flatnonzero(over)] = memory.slots[name][over]


class Runner:
    """A batch that follows a plan, in memory that is given."""

    def __init__(self, source: Source, memory: Memory, plan: Plan, *, first: int = 0) -> None:
        """first: number of the batch's first world, which gives its seed and its actions."""
        self.source, self.memory, self.plan, self.first = source, memory, plan, first
        params = Parameters(source.spec, memory.worlds, source.params)
        self.vec = _core.Vec(
            source.library,
            memory.worlds,
            arrays=memory.arrays,
            params=params.table(),
            param_arrays=params.arrays(),
            autoreset=_DISABLED,
            max_steps=source.max_steps,
        )
        self.seeds = np.arange(memory.worlds, dtype=np.uint64) + np.uint64(source.seed + first)

    def reset(self, trace: Trace | None = None) -> None:
        """Starts all worlds from their seeds."""
        self.vec.reset(self.seeds)
        if trace is not None:
            trace.keep(self.memory, 0, self.first if self.memory.worlds == 1 else None)

    def put_actions(self, step: int) -> None:
        """Writes the actions of a step, counted from 0."""
        worlds = slice(self.first, self.first + self.memory.worlds)
        arrays = self.memory.arrays
        arrays["actions"][:] = self.plan.at(step, arrays.get("mask"), worlds)

    def step(self, ranges: Iterable[tuple[int, int]], fill: int) -> np.ndarray:
        """Steps the given ranges of worlds; returns which worlds' episodes are over."""
        for lo, hi in ranges:
            self.memory.fill_outputs(fill, lo, hi)
            self.vec.step_range(lo, hi)
        return self.memory.arrays["world_over"]

    def restart(self, over: np.ndarray, fill: int) -> None:
        """Resets the worlds in `over`, which go on drawing from their streams."""
        for world in np.flatnonzero(over):
            self.memory.slots["obs"][world] = fill
        self.vec.reset(None, over.copy())
