"""The worlds of one worker: they are made, reset and stepped here, over the batch's memory."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from ._board import RowStepper, RowWriter
from .description import Description
from .fitting import bounds_of
from .leaves import reader, writer
from .memory import INFO_BYTES, Memory
from .worlds import GymnasiumWorld, ParallelWorld, World, as_world

NEXT_STEP, SAME_STEP, DISABLED = range(3)


# The infos of one row: (row, info, ending). ending is None, or of an episode that ended with
# SameStep: (final observation or None, final info); the info is then the new episode's.
RowInfo = tuple[int, dict[str, Any], Any]


class Share:
    """Worlds [first, first + len(worlds)) of a batch.

    Attributes:
        working_on: the world that is being made or reset, for messages.
        stepper: steps worlds, after `attach`.
    """

    stepper: RowStepper

    def __init__(self, first: int) -> None:
        self.first = first
        self.worlds: list[World] = []
        self.working_on = first

    def make(self, functions: Sequence[Callable[[], Any]]) -> dict[int, Description]:
        """Makes one more world of each function.

        Returns the descriptions, by the worlds' numbers, of this worker's first world and of
        those that differ from it.
        """
        told = {}
        for function in functions:
            number = self.first + len(self.worlds)
            self.working_on = number
            world = as_world(function())
            if not self.worlds or not world.description.same_spaces(self.worlds[0].description):
                told[number] = world.description
            self.worlds.append(world)
        return told

    def attach(
        self, memory: Memory, observation: spaces.Space, mode: int, object_finals: bool
    ) -> None:
        """Gives the worlds the batch's memory.

        observation: the batch's single space; mode: NEXT_STEP, SAME_STEP or DISABLED;
        object_finals: final observations travel as the objects that the environment gave.
        """
        arrays = memory.arrays
        self._mode = mode
        self._object_finals = object_finals
        self._obs, self._final = memory.obs, memory.final
        self._terminated, self._truncated = arrays["terminated"], arrays["truncated"]
        self._rewards = arrays["rewards"]
        self._pending, self._lost = arrays["pending"], arrays["lost"]
        self._infos, self._info_bytes = arrays["infos"], arrays["info_bytes"]
        for at, world in enumerate(self.worlds):
            world.attach(memory, observation, self.first + at)
        self.stepper = self._stepper(memory, observation, arrays["idle"])

    def reset(
        self, worlds: Sequence[int], seeds: Sequence[int | None], options: Any
    ) -> list[RowInfo]:
        """Starts new episodes of the worlds; returns the infos that are not empty."""
        told: list[RowInfo] = []
        for number, seed in zip(worlds, seeds, strict=True):
            self.working_on = number
            world = self.worlds[number - self.first]
            rows = world.rows
            self._terminated[rows] = False
            self._truncated[rows] = False
            self._rewards[rows] = 0.0
            self._pending[number] = False
            self._lost[number] = False
            told += [(row, info, None) for row, info in world.reset(seed, options).items() if info]
        return told

    def _stepper(self, memory: Memory, observation: spaces.Space, idle: np.ndarray) -> RowStepper:
        """What steps the worlds: those of one row by itself, in an ordinary step."""
        arrays = memory.arrays
        flags = (arrays[name].view(np.uint8) for name in ("terminated", "truncated"))
        bounds = bounds_of(observation)
        write = writer(observation, memory.obs)
        put = RowWriter(write, memory.obs, bounds, arrays["rewards"], *flags)
        steps = [w.env.step if isinstance(w, GymnasiumWorld) else None for w in self.worlds]
        read = reader(self.worlds[0].description.action_space, memory.actions)
        only = memory.actions[0] if len(memory.actions) == 1 else None
        scalars = only if only is not None and only.ndim == 1 else None
        return RowStepper(put, self.first, steps, idle, read, scalars, self._after, self._step)

    def _after(self, number: int, over: bool, obs: Any, info: dict[str, Any]) -> bytes | None:
        """What remains after a step of a world of one row: its end, or infos."""
        if over:
            if self._mode == SAME_STEP:
                world = self.worlds[number - self.first]
                assert isinstance(world, GymnasiumWorld)
                world.keep(obs)
                return self._put(number, self._restart(world, {number: info}))
            self._pending[number] = True
        return self._put(number, [(number, info, None)] if info else [])

    def _step(self, number: int) -> bytes | None:
        """Steps a world of several rows, or resets any where that is what the step is to do."""
        world = self.worlds[number - self.first]
        if self._pending[number] or self._lost[number]:
            return self._step_idle(world, number)
        assert isinstance(world, ParallelWorld)
        over, infos = world.step()
        if self._mode == SAME_STEP:
            if over:
                return self._put(number, self._restart(world, infos))
            return self._put(number, self._leave(world, infos))
        self._pending[number] = over
        return self._put(number, [(row, info, None) for row, info in infos.items() if info])

    def _step_idle(self, world: World, number: int) -> bytes | None:
        """A step in which the environment is not stepped."""
        if self._lost[number]:
            return self._lose(world, number)
        rows = world.rows
        self._pending[number] = False
        infos = world.reset(None, None)
        self._rewards[rows] = 0.0
        self._terminated[rows] = False
        self._truncated[rows] = False
        return self._put(number, [(row, info, None) for row, info in infos.items() if info])

    def _restart(self, world: World, infos: dict[int, dict[str, Any]]) -> list[RowInfo]:
        """Resets a world whose episode has ended, in the same step."""
        finals = self._finals(world, infos)
        fresh = world.reset(None, None)
        return [
            (row, fresh.get(row, {}), finals.get(row))
            for row in world.row_numbers
            if fresh.get(row) or row in finals
        ]

    def _leave(self, world: World, infos: dict[int, dict[str, Any]]) -> list[RowInfo]:
        """Agents that leave while their world goes on: what they see stays their last."""
        finals = self._finals(world, infos)
        ended = self._terminated | self._truncated
        return [
            (row, {} if ended[row] else infos.get(row, {}), finals.get(row))
            for row in world.row_numbers
            if row in finals or (infos.get(row) and not ended[row])
        ]

    def _finals(self, world: World, infos: dict[int, dict[str, Any]]) -> dict[int, Any]:
        """Keeps the final observations of the rows whose episode ended; their endings by row,
        but for those that the flags alone tell."""
        finals: dict[int, Any] = {}
        for row in world.row_numbers:
            if not (self._terminated[row] or self._truncated[row]):
                continue
            for final, obs in zip(self._final, self._obs, strict=True):
                final[row] = obs[row]
            info = infos.get(row, {})
            if self._object_finals:
                finals[row] = (world.last_observation(row), info)
            elif info:  # else the flags say all that there is to say
                finals[row] = (None, info)
        return finals

    def _lose(self, world: World, number: int) -> bytes | None:
        """Ends the episode that a world had in a worker that was replaced: truncated."""
        rows = world.rows
        self._lost[number] = False
        self._rewards[rows] = 0.0
        self._terminated[rows] = False
        self._truncated[rows] = True
        told: dict[str, Any] = {"restarted": True}
        if self._mode != SAME_STEP:
            self._pending[number] = True
            return self._put(number, [(row, told, None) for row in world.row_numbers])
        for final, obs in zip(self._final, self._obs, strict=True):
            final[rows] = obs[rows]
        last = {row: world.read_observation(row) for row in world.row_numbers}
        fresh = world.reset(None, None)
        return self._put(
            number,
            [(row, fresh.get(row, {}), (last[row], told)) for row in world.row_numbers],
        )

    def _put(self, number: int, infos: list[RowInfo]) -> bytes | None:
        if not infos:
            return None
        data = dumps(infos)
        if len(data) > INFO_BYTES:
            self._info_bytes[number] = -1
            return data
        self._infos[number, : len(data)] = np.frombuffer(data, np.uint8)
        self._info_bytes[number] = len(data)
        return None

    def call(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """A method's result or an attribute's value, for each world."""
        results = []
        for at, world in enumerate(self.worlds):
            self.working_on = self.first + at
            found = world.get(name)
            results.append(found(*args, **kwargs) if callable(found) else found)
        return results

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each world to its value."""
        for at, (world, value) in enumerate(zip(self.worlds, values, strict=True)):
            self.working_on = self.first + at
            world.set(name, value)

    def close(self) -> None:
        """Closes the worlds, once; what one of them raises is lost with it."""
        worlds, self.worlds = self.worlds, []
        self.__dict__.pop("stepper", None)  # it refers to this, which would keep the memory
        for world in worlds:
            with contextlib.suppress(Exception):
                world.env.close()


def dumps(value: Any) -> bytes:
    """Pickled, between processes of one batch; by value where a name would not be found."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        return cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL)
