"""VecEnv: a batch of native environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from . import _core
from .actions import ActionReader
from .arguments import (
    parse_batch_size,
    parse_count,
    parse_mode,
    parse_options,
    parse_render_mode,
    parse_rows,
    parse_threads,
)
from .asynchronous import Flight, index_of, taken
from .buffers import Buffers
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    AttributeNameError,
    CallOrderError,
    ClosedError,
)
from .failures import check_error
from .infos import Infos, map_arrays
from .params import Parameters
from .seeds import entropy_seeds, parse_seeds
from .snapshot import Snapshot, check_match
from .spec import EnvSpec

MAX_STEPS = 2**31 - 1  # of an episode
FRAME_SIZE = (400, 600)  # height and width of what `render` returns, pixels

# Phases of a VecEnv; small integers, since `step` compares one on every call.
_FRESH, _READY, _IN_FLIGHT, _CLOSED = range(4)

_AUTORESET = {
    AutoresetMode.NEXT_STEP: 0,
    AutoresetMode.SAME_STEP: 1,
    AutoresetMode.DISABLED: 2,
}  # hr_autoreset


class VecEnv(VectorEnv):
    """`num_envs` rows of one native environment, stepped together; made by `make_vec`.

    A row is one agent. World w, one instance of the environment, owns the `agents` rows from
    w * agents on and is reset as one; with one agent, rows and worlds are the same.

    With `copy=False`, arrays that `reset` and `step` return are views of `buffers`: valid
    until the next call (`recv`: see there).

    Attributes:
        spec_: EnvSpec of the environment (`spec` is Gymnasium's).
        agents, worlds: rows per world; worlds in the batch.
        executor, threads: how it is stepped.
        core, pool, buffers: the native batch, its threads (None when serial), its arrays.
    """

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
        self._phase = _FRESH
        self._blocked = False  # Disabled: some world must be reset before the next step
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
        self._reader = ActionReader(self.spec_, self.buffers.action_slots)
        self._totals = _core.EpisodeTotals(self.core)
        turns = _core.Turns(self.core, self.pool, self._reader.direct, self._totals)
        self._step_all = turns.step
        self._infos = Infos(self.spec_, self.buffers, self.autoreset_mode, final_obs, self.copy)
        self._always_infos = self._infos.always
        self._obs = self.buffers.obs
        self._rewards = arrays["rewards"]
        self._terminated = arrays["terminated"]
        self._truncated = arrays["truncated"]
        self._pending = arrays["pending"]
        # Gymnasium's vector environments give float64 rewards, and so does the mode for them
        self._wide_rewards = final_obs == "object"
        self._disabled = self.autoreset_mode is AutoresetMode.DISABLED

    # ---- Gymnasium's surface --------------------------------------------------------

    @cached_property
    def observation_space(self) -> Any:  # type: ignore[override]
        """The batched observation space, [num_envs, ...]."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Any:  # type: ignore[override]
        """The batched action space, [num_envs, ...]."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; returns (observations, infos).

        Args:
            seed: an integer s gives world w the seed s + w; a list holds an integer or None
                for each world. A world that is given no seed continues its stream; one that
                never had a seed gets one from the operating system.
            options: {"reset_mask": bool [num_envs]} resets only the rows that are set.
        """
        if self._phase >= _IN_FLIGHT:
            self._refuse("reset")
        chosen = parse_options(options, self.worlds, self.agents)
        never = ~(self._started | chosen)
        if never.any():
            row = int(never.argmax()) * self.agents
            raise CallOrderError(
                f"options['reset_mask'] leaves out environment {row}, which was never reset: "
                "reset all of them first"
            )
        if seed is None and not self._started.any():
            seed = self._seed
        seeds, given = parse_seeds(seed, self.worlds)
        self._reset_worlds(chosen, seeds, given & chosen)
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
        if self._checked:
            self._raise_failure()
        return self._begin(None if chosen.all() else chosen)

    def _reset_worlds(self, chosen: np.ndarray, seeds: np.ndarray, given: np.ndarray) -> None:
        """Resets the worlds `chosen`; those of `given`, or without a stream, start a new one."""
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

    def _begin(self, chosen: np.ndarray | None = None) -> tuple[Any, dict[str, Any]]:
        """The batch is ready to be stepped; returns what it shows, with the infos of the worlds
        `chosen` (None: all)."""
        self._phase = _READY
        self._update_blocked()
        self._flight.hand_out_all()
        infos = self._infos.build(0, worlds=chosen) if self._always_infos else {}
        return map_arrays(np.copy, self._obs) if self.copy else self._obs, infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every row with its action.

        Args:
            actions: array-like of the shape of `action_space`.

        Returns:
            observations, rewards [num_envs], terminated [num_envs], truncated [num_envs],
            infos. Infos are empty where there is nothing to say.
        """
        if self._phase != _READY or self._blocked:
            self._refuse("step")
        ended = self._step_all(actions)
        if ended < 0:
            self._reader.read(actions)
            ended = self._step_all()
        if self._checked:
            self._steps += 1
            self._raise_failure()
        infos = self._infos.build(ended) if ended or self._always_infos else {}
        if ended and self._disabled:
            self._update_blocked()
        obs, rewards = self._obs, self._rewards
        terminated, truncated = self._terminated, self._truncated
        if self.copy:
            obs = obs.copy() if isinstance(obs, np.ndarray) else map_arrays(np.copy, obs)
            rewards, terminated, truncated = rewards.copy(), terminated.copy(), truncated.copy()
        if self._wide_rewards:
            rewards = rewards.astype(np.float64)
        return obs, rewards, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...]:
        """One RGB frame per world, uint8 [height, width, 3]; needs render_mode="rgb_array"."""
        if self._phase != _READY:
            self._refuse("render")
        if self.render_mode is None:
            raise CallOrderError(
                "render() of an environment without a render mode: make it with "
                "render_mode='rgb_array'"
            )
        return tuple(self.draw(world) for world in range(self.worlds))

    def draw(self, world: int) -> np.ndarray:
        """An RGB frame of one world, uint8 [height, width, 3]."""
        if self._phase != _READY:
            self._refuse("draw")
        frame = np.zeros((*FRAME_SIZE, 3), np.uint8)
        self.core.draw(world, frame)
        return frame

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 (as Gymnasium calls it)
        """Waits for what is in flight and ends the threads; called once by `close`."""
        self.core.check_unused()
        self._flight.close()
        self._phase = _CLOSED
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
        if self._phase == _CLOSED:
            self._refuse("get_attr")
        if name in self._params.names:
            values = self._params.per_world(name)
            return tuple(value for value in values for _ in range(self.agents))
        if name == "np_random_seed":
            if self._phase == _FRESH:
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

    # ---- sending and receiving ------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Starts a step of some rows and returns at once; `recv` collects them.

        Args:
            actions: [len(env_ids), ...].
            env_ids: int [k], rows, whole worlds at a time; None: those that the last `reset`
                or `recv` handed out, in that order.
        """
        if self._phase not in (_READY, _IN_FLIGHT):
            self._refuse("send")
        finished = self._pending if self._disabled else None
        self._flight.send(self._reader.read, actions, env_ids, finished)
        self._phase = _IN_FLIGHT

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for the `batch_size` rows in flight that are ready first.

        Fewer only when fewer are in flight. Returns what `step` does, for these rows in
        ascending order; `infos["env_id"]` names them, int64 [k]. With `copy=False` and rows that
        follow each other, the arrays are views of `buffers`, valid until these rows are sent
        again.
        """
        if self._phase not in (_READY, _IN_FLIGHT):
            self._refuse("recv")
        worlds, rows = self._flight.recv(self.batch_size // self.agents)
        self._phase = _IN_FLIGHT if self._flight.in_flight else _READY
        ended = self._totals.count_worlds(worlds)
        if self._checked:
            self._steps[worlds] += 1
            self._raise_failure()
        if self._phase == _READY:
            self._update_blocked()
        infos = self._infos.build(ended, rows)
        infos["env_id"] = rows.copy()
        index, copy = index_of(rows), self.copy
        rewards = taken(self._rewards, index, copy)
        return (
            map_arrays(lambda array: taken(array, index, copy), self._obs),
            rewards.astype(np.float64) if self._wide_rewards else rewards,
            taken(self._terminated, index, copy),
            taken(self._truncated, index, copy),
            infos,
        )

    # ---- parameters, states, snapshots ------------------------------------------------

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name: a number, or an array of one per world, or a shared array."""
        if self._phase == _CLOSED:
            self._refuse("params")
        return self._params.values()

    def set_params(self, **values: Any) -> None:
        """Sets parameters by name, from the next step on.

        A scalar parameter takes one number for all worlds, or one per world, [worlds]; an
        array parameter takes an array, which is copied and shared by all worlds.

        Raises:
            ArgumentError: an unknown name, a wrong shape or value; nothing is changed then.
        """
        if self._phase >= _IN_FLIGHT:
            self._refuse("set_params")
        self._params.set(values)
        self.core.set_params(self._params.table(), self._params.arrays())

    @property
    def state(self) -> np.ndarray:
        """The bytes of all States, uint8 [worlds, sizeof(State)]: a view that can be written.

        `vec.state.view(np.float32)` is a State of floats. What is written is what the next
        step starts from; observations follow after it.
        """
        if self._phase != _READY:
            self._refuse("state")
        return self.buffers.arrays["state"]

    def statistics(self, *, clear: bool = False) -> dict[str, float]:
        """Means over the episodes that ended since the start, or since `clear=True`.

        `episodes` counts them; `return_mean`, `return_min`, `return_max`, `length_mean` (steps)
        and the environment's metrics by name follow; NaN before the first episode.
        """
        if self._phase == _CLOSED:
            self._refuse("statistics")
        episodes, returns, lengths, least, most, over, *metrics = self._totals.values.tolist()
        nan = float("nan")
        result = {
            "episodes": int(episodes),
            "return_mean": returns / episodes if episodes else nan,
            "return_min": least if episodes else nan,
            "return_max": most if episodes else nan,
            "length_mean": lengths / episodes if episodes else nan,
        }
        for name, total in zip(self.spec_.metric_names, metrics, strict=True):
            result[name] = total / over if over else nan
        if clear:
            self._totals.clear()
        return result

    def snapshot(self) -> Snapshot:
        """Everything that the future depends on, copied; `restore` goes back to it."""
        if self._phase != _READY:
            self._refuse("snapshot")
        arrays = {name: array.copy() for name, array in self._lasting_arrays().items()}
        return self._as_snapshot({**arrays, "params": self._params.dump()})

    def restore(self, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        """Goes back to a snapshot of this environment; returns what `reset` does.

        Raises:
            ArgumentError: a snapshot of another environment, version of its source, number of
                environments, autoreset mode, time limit or array parameter.
        """
        if self._phase >= _IN_FLIGHT:
            self._refuse("restore")
        own = self._lasting_arrays()
        check_match(snapshot, self._as_snapshot({**own, "params": self._params.dump()}))
        self._params.load(snapshot.arrays["params"])
        self.core.set_params(self._params.table(), self._params.arrays())
        for name, array in own.items():
            array[...] = snapshot.arrays[name]
        return self._begin()

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

    # ---- refusals -----------------------------------------------------------------------

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a VecEnv cannot be pickled or copied: make another one and restore() a snapshot()"
        )

    def _update_blocked(self) -> None:
        self._blocked = self._disabled and bool(self._pending.any())

    def _refuse(self, call: str) -> NoReturn:
        """Raises for a call that is out of order."""
        if self._phase == _CLOSED:
            raise ClosedError(f"{call}() after close(): make a new environment")
        if self._phase == _FRESH:
            raise CallOrderError(f"{call}() before reset(): call reset() first")
        if self._phase == _IN_FLIGHT:
            rows = self._flight.in_flight * self.agents
            raise CallOrderError(
                f"{call}() while {rows} environments are in flight: recv() them first"
            )
        row = int(self._pending.argmax()) * self.agents
        raise CallOrderError(
            f"{call}() while the episode of environment {row} has ended: with "
            "autoreset_mode='Disabled' reset it first, with options={'reset_mask': ...}"
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
