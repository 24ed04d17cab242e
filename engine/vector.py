"""VecEnv: a batch of native environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from . import _core
from .actions import ActionReader
from .arguments import (
    parse_batch_size,
    parse_count,
    parse_mode,
    parse_render_mode,
    parse_rows,
    parse_threads,
)
from .asynchronous import Flight, as_array
from .base import CLOSED, FRESH, IN_FLIGHT, READY, BatchEnv
from .buffers import Buffers
from .errors import (
    ArgumentError,
    AttributeNameError,
    CallOrderError,
)
from .failures import check_error
from .infos import Infos, map_arrays
from .params import Parameters
from .seeds import entropy_seeds, parse_seeds
from .snapshot import Snapshot, check_match
from .spec import EnvSpec

if TYPE_CHECKING:
    from .asynchronous import Numbers

MAX_STEPS = 2**31 - 1  # of an episode
FRAME_SIZE = (400, 600)  # height and width of what `render` returns, pixels

_AUTORESET = {
    AutoresetMode.NEXT_STEP: 0,
    AutoresetMode.SAME_STEP: 1,
    AutoresetMode.DISABLED: 2,
}  # hr_autoreset


class VecEnv(BatchEnv):
    """`num_envs` rows of one native environment, stepped together; made by `make_vec`.

    With `copy=False`, arrays that `reset` and `step` return are views of `buffers`: valid
    until the next call (`recv`: see there).

    Attributes:
        spec_: EnvSpec of the environment (`spec` is Gymnasium's).
        executor, threads: how it is stepped.
        core, pool, buffers: the native batch, its threads (None when serial), its arrays.
    """

    _instead_of_copying = "make another one and restore() a snapshot()"

    def __init__(
        self,
        library: _core.Library,
        spec: EnvSpec,
        num_envs: int,
        *,
        executor: str = "threads",
        threads: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        batch_size: int | None = None,
        copy: bool = True,
        final_obs: str = "dense",
        seed: Any = None,
        render_mode: str | None = None,
        checked: bool = False,
        max_steps: int | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """Arguments are those of `make_vec`; errors likewise."""
        self.spec_ = spec
        self.agents = spec.agents
        self.num_envs = parse_rows("num_envs", num_envs, spec.agents)
        self.worlds = self.num_envs // spec.agents
        self.batch_size = parse_batch_size(batch_size, self.num_envs, spec.agents)
        self.executor = executor
        self.threads = parse_threads(executor, threads)
        self.autoreset_mode = parse_mode(autoreset_mode)
        self.render_mode = parse_render_mode(render_mode, spec.name, spec.has_draw)
        limit = spec.max_steps if max_steps is None else max_steps
        self.max_steps = parse_count("max_steps", limit, 0, MAX_STEPS)
        self.copy = bool(copy)
        self.metadata = {
            "render_modes": ["rgb_array"] if spec.has_draw else [],
            "render_fps": 50,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = spec.single_observation_space
        self.single_action_space = spec.single_action_space

        # first, since it refuses more memory than there is
        self.buffers = Buffers(spec, self.worlds)
        self._params = Parameters(spec, self.worlds, params or {})
        parse_seeds(seed, self.worlds)  # an error now rather than at the first reset
        self._seed = seed
        self._seeds = np.zeros(self.worlds, np.uint64)  # that each world's stream started from
        self._started = np.zeros(self.worlds, np.bool_)  # has a stream
        self._steps = np.zeros(self.worlds, np.int64)  # since the seed, in checked builds
        self._checked = checked
        self.core = _core.Vec(
            library,
            self.worlds,
            arrays=self.buffers.arrays,
            params=self._params.table(),
            param_arrays=self._params.arrays(),
            autoreset=_AUTORESET[self.autoreset_mode],
            max_steps=self.max_steps,
        )
        self.pool = _core.Pool(self.threads) if executor == "threads" else None
        stepper = _core.AsyncStepper(self.core, self.pool)
        self._flight = Flight(stepper, self.worlds, self.agents)
        self._bind(final_obs)

    def _bind(self, final_obs: str) -> None:
        """What `step` uses, looked up once."""
        arrays = self.buffers.arrays
        reader = ActionReader(self.spec_, self.buffers.action_slots)
        self._read = reader.read
        self._totals = _core.EpisodeTotals(self.core)
        self._infos = Infos(self.spec_, self.buffers, self.autoreset_mode, final_obs, self.copy)
        self._always_infos = self._infos.always
        self._obs = self.buffers.obs
        self._rewards = arrays["rewards"]
        self._terminated = arrays["terminated"]
        self._truncated = arrays["truncated"]
        flags = self._rewards, self._terminated, self._truncated
        plain = isinstance(self._obs, np.ndarray) and self._obs.flags.c_contiguous
        turns = _core.Turns(
            self.core,
            self.pool,
            reader.direct,
            self._totals,
            (self._obs, *flags) if plain else flags,
        )
        self._step_all, self._step_copied = turns.step, turns.step_copied
        self._pending = arrays["pending"]
        # Gymnasium's vector environments give float64 rewards, and so does the mode for them
        self._wide_rewards = final_obs == "object"
        self._metric_names = tuple(self.spec_.metric_names)
        self._disabled = self.autoreset_mode is AutoresetMode.DISABLED

    # ---- Gymnasium's surface --------------------------------------------------------

    def _start_worlds(
        self, chosen: np.ndarray, seeds: np.ndarray, given: np.ndarray, options: Any
    ) -> None:
        """Resets the worlds `chosen`; those of `given`, or without a stream, start a new one."""
        for key in options or ():
            raise ArgumentError(f"options has the key {key!r}: only 'reset_mask' is known")
        fresh = chosen & ~(self._started | given)
        if fresh.any():
            seeds[fresh] = entropy_seeds(int(fresh.sum()))
            given = given | fresh
        goes_on = chosen & ~given
        if given.any():
            self.core.reset(seeds, None if given.all() else given)
        if goes_on.any():
            self.core.reset(None, None if goes_on.all() else goes_on)
        self._seeds[given] = seeds[given]
        self._started[given] = True
        self._steps[given] = 0
        if self._checked:
            self._raise_failure()

    def _infos_of_reset(self, chosen: np.ndarray, told: Any) -> dict[str, Any]:  # noqa: ARG002
        worlds = None if chosen.all() else chosen
        return self._infos.build(0, worlds=worlds) if self._always_infos else {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every row with its action.

        Args:
            actions: array-like of the shape of `action_space`.

        Returns:
            observations, rewards [num_envs], terminated [num_envs], truncated [num_envs],
            infos. Infos are empty where there is nothing to say.
        """
        if self._phase != READY or self._blocked:
            self._refuse("step")
        copies: list[np.ndarray] = []
        ended = -1
        if actions is not None:
            ended, copies = self._turn(actions)
        if ended < 0:
            self._read(actions, None)
            ended, copies = self._turn(None)
        if self._checked:
            self._steps += 1
            self._raise_failure()
        infos = self._infos.build(ended) if ended or self._always_infos else {}
        if ended and self._disabled:
            self._update_blocked()
        obs, rewards = self._obs, self._rewards
        terminated, truncated = self._terminated, self._truncated
        if self.copy:
            *first, rewards, terminated, truncated = copies
            obs = first[0] if first else map_arrays(np.copy, obs)
        if self._wide_rewards:
            rewards = rewards.astype(np.float64)
        return obs, rewards, terminated, truncated, infos

    def _turn(self, actions: Any) -> tuple[int, list[np.ndarray]]:
        """One step of all worlds: how many rows ended, and the results' copies, where they are
        wanted. REFUSED (below 0): the actions have to be read first."""
        return self._step_copied(actions) if self.copy else (self._step_all(actions), [])

    def render(self) -> tuple[np.ndarray, ...]:
        """One RGB frame per world, uint8 [height, width, 3]; needs render_mode="rgb_array"."""
        if self._phase != READY:
            self._refuse("render")
        if self.render_mode is None:
            raise CallOrderError(
                "render() of an environment without a render mode: make it with "
                "render_mode='rgb_array'"
            )
        return tuple(self.draw(world) for world in range(self.worlds))

    def draw(self, world: int) -> np.ndarray:
        """An RGB frame of one world, uint8 [height, width, 3]."""
        if self._phase != READY:
            self._refuse("draw")
        frame = np.zeros((*FRAME_SIZE, 3), np.uint8)
        self.core.draw(world, frame)
        return frame

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 (as Gymnasium calls it)
        """Waits for what is in flight and ends the threads; called once by `close`."""
        self.core.check_unused()
        self._flight.close()
        self._phase = CLOSED
        self.core.close()
        if self.pool is not None:
            self.pool.close()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`render`, or what `get_attr` gives, for each row (render: for each world)."""
        if name == "render":
            return self.render()
        if args or kwargs:
            raise ArgumentError(f"{name!r} takes no arguments")
        return self.get_attr(name)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """A parameter, by name, or another attribute of the single environment, for each row."""
        if self._phase == CLOSED:
            self._refuse("get_attr")
        if name in self._params.names:
            values = self._params.per_world(name)
            return tuple(value for value in values for _ in range(self.agents))
        if name == "np_random_seed":
            if self._phase == FRESH:
                self._refuse("get_attr")
            return tuple(int(seed) for seed in np.repeat(self._seeds, self.agents))
        shared = {
            "observation_space": self.single_observation_space,
            "action_space": self.single_action_space,
            "spec": self.spec,
            "metadata": self.metadata,
            "render_mode": self.render_mode,
            "max_steps": self.max_steps,
        }
        if name not in shared:
            raise AttributeNameError(
                f"name {name!r} is no attribute of the environment "
                f"{self.spec_.name!r}{_suggest(name, [*shared, *self._params.names])}"
            )
        return (shared[name],) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Sets a parameter: one value for all worlds, or a list or tuple of one for each."""
        if isinstance(values, (list, tuple)) and len(values) != self.worlds:
            raise ArgumentError(
                f"values has {len(values)} entries: expected {self.worlds}, one for each world"
            )
        self.set_params(**{name: values})

    def _infos_of(self, worlds: Numbers, rows: Numbers) -> dict[str, Any]:
        ended = self._totals.count_worlds(worlds)
        if self._checked:
            self._steps[as_array(worlds)] += 1
            self._raise_failure()
        return self._infos.build(ended, rows)

    # ---- parameters, states, snapshots ------------------------------------------------

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name: a number, or an array of one per world, or a shared array."""
        if self._phase == CLOSED:
            self._refuse("params")
        return self._params.values()

    def set_params(self, **values: Any) -> None:
        """Sets parameters by name, from the next step on.

        A scalar parameter takes one number for all worlds, or one per world, [worlds]; an
        array parameter takes an array, which is copied and shared by all worlds.

        Raises:
            ArgumentError: an unknown name, a wrong shape or value; nothing is changed then.
        """
        if self._phase >= IN_FLIGHT:
            self._refuse("set_params")
        self._params.set(values)
        self.core.set_params(self._params.table(), self._params.arrays())

    @property
    def state(self) -> np.ndarray:
        """The bytes of all States, uint8 [worlds, sizeof(State)]: a view that can be written.

        `vec.state.view(np.float32)` is a State of floats. What is written is what the next
        step starts from; observations follow after it.
        """
        if self._phase != READY:
            self._refuse("state")
        return self.buffers.arrays["state"]

    def snapshot(self) -> Snapshot:
        """Everything that the future depends on, copied; `restore` goes back to it."""
        if self._phase != READY:
            self._refuse("snapshot")
        arrays = {name: array.copy() for name, array in self._lasting_arrays().items()}
        return self._as_snapshot({**arrays, "params": self._params.dump()})

    def restore(self, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        """Goes back to a snapshot of this environment; returns what `reset` does.

        Raises:
            ArgumentError: a snapshot of another environment, version of its source, number of
                environments, autoreset mode, time limit or array parameter.
        """
        if self._phase >= IN_FLIGHT:
            self._refuse("restore")
        own = self._lasting_arrays()
        check_match(snapshot, self._as_snapshot({**own, "params": self._params.dump()}))
        self._params.load(snapshot.arrays["params"])
        self.core.set_params(self._params.table(), self._params.arrays())
        for name, array in own.items():
            array[...] = snapshot.arrays[name]
        return self._begin(np.ones(self.worlds, np.bool_))

    def _lasting_arrays(self) -> dict[str, np.ndarray]:
        """All that a snapshot carries, beside the parameters: the arrays themselves."""
        arrays = {name: array for name, array in self.buffers.arrays.items() if name != "actions"}
        arrays["seeds"] = self._seeds
        arrays["started"] = self._started
        arrays["steps"] = self._steps
        arrays["totals"] = self._totals.values
        return arrays

    def _as_snapshot(self, arrays: dict[str, np.ndarray]) -> Snapshot:
        return Snapshot(
            env=self.spec_.name,
            source_hash=self.spec_.source_hash,
            num_envs=self.num_envs,
            autoreset_mode=self.autoreset_mode.value,
            max_steps=self.max_steps,
            arrays=arrays,
        )

    def _raise_failure(self) -> None:
        """Raises when an HR_CHECK has failed since the last call."""
        failure = self.core.take_failure()
        if failure is None:
            return
        world = failure["world"]
        when = ""
        if 0 <= world < self.worlds:
            when = f", step {self._steps[world]} since the seed {self._seeds[world]}"
        raise check_error(failure, self.spec_.name, self.agents, self.worlds, when)


def _suggest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else f"; it has {', '.join(known)}"
