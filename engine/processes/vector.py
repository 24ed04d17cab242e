"""ProcessVecEnv: a batch of Python environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from ..arguments import parse_batch_size, parse_count, parse_mode, parse_rows
from ..asynchronous import Flight
from ..cpus import available_cpus
from ..errors import ArgumentError, ArgumentTypeError, CallOrderError, ClosedError, WorkerError
from ..infos import FINAL_OBS
from ..memory import available_memory, check_memory
from ..seeds import parse_seeds
from .actions import ActionWriter
from .crew import Crew, LocalCrew
from .description import Description
from .infos import BatchInfos
from .launch import check_start_method
from .leaves import leaves_of, map_leaves
from .memory import BatchBuffers, Layout
from .share import DISABLED, NEXT_STEP, SAME_STEP
from .sources import Source, source_of

_FRESH, _READY, _IN_FLIGHT, _CLOSED = range(4)
_MODES = {
    AutoresetMode.NEXT_STEP: NEXT_STEP,
    AutoresetMode.SAME_STEP: SAME_STEP,
    AutoresetMode.DISABLED: DISABLED,
}
MAX_WORKERS = 1024


class ProcessVecEnv(VectorEnv):
    """`num_envs` rows of Python environments, stepped by worker processes; made by `make_vec`.

    A row is one agent; world w, one environment, owns the rows [w * agents, (w + 1) * agents).
    Each worker has a contiguous share of the worlds. All arrays lie in memory that the workers
    share: with `copy=False`, what `reset` and `step` return are views of it.

    Attributes:
        agents, worlds: rows per world; worlds in the batch.
        executor, workers: "processes" or "serial"; how many processes there are.
        name: of the environment, as it was named, or of its class.
        frame_skip: frames of a game in one step, 1 where nothing skips, None where it varies.
        buffers: the shared arrays, see BatchBuffers.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int | None = None,
        *,
        executor: str = "processes",
        workers: int | None = None,
        start_method: str = "spawn",
        timeout: float | None = 300.0,
        restarts: int = 0,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        batch_size: int | None = None,
        copy: bool = True,
        final_obs: str = "object",
        seed: Any = None,
        render_mode: str | None = None,
        observation_mode: str | tuple[spaces.Space, spaces.Space] = "same",
        wrappers: Sequence[str | Callable[[Any], Any]] = (),
        **params: Any,
    ) -> None:
        """Arguments are those of `make_vec`, and errors likewise.

        num_envs: may be left out where `env` is a list of functions.
        observation_mode: "same", "different" (equal shapes, other bounds), or the batched and
            the single space, as Gymnasium's vector environments have it.
        """
        self.executor = executor
        self.copy = bool(copy)
        self.autoreset_mode = parse_mode(autoreset_mode)
        if final_obs not in FINAL_OBS:
            raise ArgumentError(f"final_obs is {final_obs!r}: expected 'dense' or 'object'")
        source = source_of(env, params, render_mode, wrappers)
        rows = len(source.make) if num_envs is None else parse_count("num_envs", num_envs)
        self.spec, self.name = source.spec, source.name
        self._seed = seed
        self._closing = False
        if executor == "serial":
            self._crew: Crew | LocalCrew = LocalCrew(source)
        else:
            count = min(parse_workers(workers), rows)
            timeout, restarts = parse_patience(timeout), parse_count("restarts", restarts, 0)
            self._crew = Crew(source, count, check_start_method(start_method), timeout, restarts)
        try:
            self._set_up(source, rows, batch_size, final_obs, observation_mode)
        except BaseException:
            self._crew.close()
            self.closed = True
            raise

    def _set_up(
        self, source: Source, rows: int, batch_size: Any, final_obs: str, observation_mode: Any
    ) -> None:
        """Makes the environments and lays out the memory."""
        first = self._crew.probe()
        self.agents = first.agents
        self.num_envs = parse_rows("num_envs", rows, first.agents)
        self.worlds = rows // first.agents
        self.batch_size = parse_batch_size(batch_size, self.num_envs, self.agents)
        if len(source.make) not in (1, self.worlds):
            raise ArgumentError(
                f"env has {len(source.make)} functions, but num_envs {rows} is {self.worlds} "
                "environments: give as many"
            )
        parse_seeds(self._seed, self.worlds)  # an error now rather than at the first reset
        observation = leaves_of(first.observation_space, "observation")
        action = leaves_of(first.action_space, "action")
        others = self._crew.make(self.worlds)
        self._set_spaces(first, others, observation_mode)
        layout = Layout.of(observation, action, self.agents, self._crew.starts)
        check_memory(layout.size, f"{rows:,} environments of {source.name}", available_memory())
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.frame_skip = first.frame_skip
        mode = _MODES[self.autoreset_mode]
        memory = self._crew.attach(
            layout, first.observation_space, mode, final_obs == "object" and mode == SAME_STEP
        )
        self.workers = len(self._crew.pids())
        self.buffers = BatchBuffers.of(memory, first.observation_space, first.action_space)
        arrays = memory.arrays
        self._obs = self.buffers.obs
        self._rewards, self._terminated = arrays["rewards"], arrays["terminated"]
        self._truncated, self._pending = arrays["truncated"], arrays["pending"]
        self._present = arrays["present"]
        if not first.comes_and_goes:
            self._present[:] = True
        self._disabled = mode == DISABLED
        self._phase = _FRESH
        self._reset_once = np.zeros(self.worlds, np.bool_)
        self._flight = Flight(self._crew, self.worlds, self.agents)
        agents, pending, present = self.agents, self._pending, self._present
        if self._disabled:
            pending = np.zeros_like(pending)  # those are refused

        def ignored(rows: np.ndarray | None) -> np.ndarray:
            """Which rows ignore their action: they are reset, or nobody is there. Not a method:
            a batch that refers to itself would keep its memory until it is collected."""
            every = ~present | np.repeat(pending, agents)
            return every if rows is None else every[rows]

        self._writer = ActionWriter(first.action_space, action, memory.actions, ignored)
        self._infos = BatchInfos(
            self._crew,
            memory,
            self.buffers,
            mode == SAME_STEP,
            final_obs == "object",
            present if first.comes_and_goes else None,
        )

    def _set_spaces(
        self, first: Description, others: dict[int, Description], observation_mode: Any
    ) -> None:
        """Checks that all environments fit into one batch, and batches their spaces."""
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        custom = isinstance(observation_mode, tuple) and len(observation_mode) == 2
        if custom:
            for each in observation_mode:
                if not isinstance(each, spaces.Space):
                    raise ArgumentTypeError(
                        "Expected both elements of observation_mode to be Spaces, got "
                        f"{type(each).__name__}"
                    )
        elif observation_mode not in ("same", "different"):
            raise ArgumentError(
                "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single "
                f"and batch observation space, actual got {observation_mode}"
            )
        for world, other in others.items():
            self._check_like_first(first, other, world, observation_mode)
        if custom:
            batched, self.single_observation_space = observation_mode
            if not is_space_dtype_shape_equiv(
                self.single_observation_space, first.observation_space
            ):
                raise ArgumentError(
                    f"observation_mode has the single space {self.single_observation_space}, whose "
                    f"shape or dtype is not that of the environments' {first.observation_space}"
                )
            self.observation_space = batched
        elif observation_mode == "different":
            ordered = [others.get(world, first).observation_space for world in range(self.worlds)]
            self.observation_space = batch_differing_spaces(ordered)

    def _check_like_first(
        self, first: Description, other: Description, world: int, observation_mode: Any
    ) -> None:
        if other.agents != first.agents:
            raise ArgumentError(
                f"environment {world} has {other.agents} agents, environment 0 has {first.agents}"
            )
        if other.action_space != first.action_space:
            raise SpaceMismatchError(
                f"environment {world} has the action space {other.action_space}, environment 0 "
                f"has {first.action_space}: environments of a batch share one"
            )
        same = other.observation_space == first.observation_space
        if observation_mode == "same" and not same:
            raise SpaceMismatchError(
                f"observation_mode='same', but the sub-environments observation spaces are not "
                f"equivalent. Environment {world} has {other.observation_space}, environment 0 "
                f"has {first.observation_space}. If this is intentional, use "
                "`observation_mode='different'` instead."
            )
        if not same and not is_space_dtype_shape_equiv(
            other.observation_space, first.observation_space
        ):
            raise SpaceMismatchError(
                f"the observation spaces of environment {world}, {other.observation_space}, and "
                f"environment 0, {first.observation_space}, differ in shape or dtype"
            )

    # ---- Gymnasium's surface ----------------------------------------------------------

    @cached_property
    def observation_space(self) -> Any:  # type: ignore[override]
        """The batched observation space, [num_envs, ...]."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> Any:  # type: ignore[override]
        """The batched action space, [num_envs, ...]."""
        return batch_space(self.single_action_space, self.num_envs)

    @property
    def np_random_seed(self) -> Any:
        """The seed of each world."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """The random number generator of each world, as it is now."""
        return self.get_attr("np_random")

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; returns (observations, infos).

        Args:
            seed: an integer s gives world w the seed s + w; a list holds an integer or None for
                each world.
            options: are handed to the environments, but for options["reset_mask"], bool
                [num_envs], which resets only the rows that are set.
        """
        if self._phase >= _IN_FLIGHT:
            self._refuse("reset")
        chosen, rest = parse_mask(options, self.worlds, self.agents)
        never = ~(self._reset_once | chosen)
        if never.any():
            row = int(never.argmax()) * self.agents
            raise CallOrderError(
                f"options['reset_mask'] leaves out environment {row}, which was never reset: "
                "reset all of them first"
            )
        if seed is None and not self._reset_once.any():
            seed = self._seed
        numbers, given = parse_seeds(seed, self.worlds)
        worlds = np.flatnonzero(chosen)
        seeds = [int(numbers[w]) if given[w] else None for w in worlds]
        try:
            told = self._crew.reset(worlds.tolist(), seeds, rest)
        except WorkerError:
            self._give_up()
            raise
        self._reset_once |= chosen
        self._phase = _READY
        self._flight.hand_out_all()
        infos = self._infos.of_reset(told, self.num_envs)
        return self._shown(self._obs), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every row with its action; actions have the structure of `action_space`.

        Returns:
            observations, rewards float64 [num_envs], terminated [num_envs], truncated
            [num_envs], infos.

        Raises:
            WorkerError: a worker raised, ended or hung; the batch is closed.
        """
        if self._phase != _READY:
            self._refuse("step")
        if self._disabled and self._pending.any():
            self._refuse("step")
        self._writer.read(actions, None)
        self._phase = _IN_FLIGHT
        self._flight.launch_all()
        self._landing(self._flight.land_all)
        infos = self._infos.of_step(None)
        obs, rewards = self._obs, self._rewards
        terminated, truncated = self._terminated, self._truncated
        if self.copy:
            obs = obs.copy() if isinstance(obs, np.ndarray) else map_leaves(np.copy, obs)
            rewards, terminated, truncated = rewards.copy(), terminated.copy(), truncated.copy()
        return obs, rewards, terminated, truncated, infos

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Starts a step of some rows and returns at once; `recv` collects them.

        Args:
            actions: in the structure of `action_space`, len(env_ids) rows.
            env_ids: int [k], rows, whole worlds at a time; None: those that the last `reset` or
                `recv` handed out, in that order.
        """
        if self._phase not in (_READY, _IN_FLIGHT):
            self._refuse("send")
        finished = self._pending if self._disabled else None
        self._flight.send(self._writer.read, actions, env_ids, finished)
        self._phase = _IN_FLIGHT

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for the `batch_size` rows in flight that are ready first.

        Returns what `step` does, for these rows in ascending order; `infos["env_id"]` names
        them, int64 [k]. With `copy=False` and rows that follow each other, as those of one
        worker do, the arrays are views of `buffers`, valid until these rows are sent again.
        """
        if self._phase not in (_READY, _IN_FLIGHT):
            self._refuse("recv")
        rows = self._receive(self.batch_size // self.agents)
        infos = self._infos.of_step(rows)
        infos["env_id"] = rows.copy()
        pick: Any = rows
        if not self.copy and rows[-1] - rows[0] == len(rows) - 1:
            pick = slice(int(rows[0]), int(rows[-1]) + 1)
        return (
            map_leaves(lambda array: array[pick], self._obs),
            self._rewards[pick],
            self._terminated[pick],
            self._truncated[pick],
            infos,
        )

    def _receive(self, worlds: int) -> np.ndarray:
        """The rows of the first `worlds` worlds that are ready, ascending."""
        _, rows = self._landing(lambda: self._flight.recv(worlds))
        return rows

    def _landing(self, wait: Callable[[], Any]) -> Any:
        """What `wait` returns, which waits for worlds in flight."""
        try:
            landed = wait()
        except WorkerError:
            self._give_up()
            raise
        except Exception:
            if self.executor == "serial":  # the environment's own: it may be reset
                self._flight.forget()
                self._phase = _FRESH
            raise
        self._phase = _IN_FLIGHT if self._flight.in_flight else _READY
        return landed

    def render(self) -> tuple[Any, ...]:
        """What `render` of each world returns."""
        return self._call("render", (), {})

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The method's result, or the attribute's value, for each world."""
        return self._call(name, args, kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute's value for each world."""
        return self._call(name, (), {})

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute: one value for all worlds, or a list or tuple of one for each."""
        if self._phase >= _IN_FLIGHT:
            self._refuse("set_attr")
        if not isinstance(values, (list, tuple)):
            values = [values] * self.worlds
        if len(values) != self.worlds:
            raise ArgumentError(
                f"values has {len(values)} entries: expected {self.worlds}, one for each world"
            )
        try:
            self._crew.set(name, values)
        except WorkerError:
            self._give_up()
            raise

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 (as Gymnasium calls it)
        """Closes the environments and ends the workers; called once by `close`."""
        self._phase = _CLOSED
        self._crew.close()

    # ---- beyond Gymnasium -------------------------------------------------------------

    @property
    def restarted(self) -> int:
        """Workers that were lost and replaced so far."""
        return self._crew.restarted

    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return self._crew.pids()

    # ---- inside -----------------------------------------------------------------------

    def _call(self, name: str, args: Any, kwargs: Any) -> tuple[Any, ...]:
        if self._phase >= _IN_FLIGHT:
            self._refuse(name)
        try:
            return tuple(self._crew.call(name, args, kwargs))
        except WorkerError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """A worker was lost for good, and with it the batch."""
        self._phase = _CLOSED
        self.closed = True

    def _shown(self, value: Any) -> Any:
        return map_leaves(np.copy, value) if self.copy else value

    def __repr__(self) -> str:
        name = "" if self.spec is None else f"{self.spec.id}, "
        return f"ProcessVecEnv({name}num_envs={self.num_envs}, workers={self.workers})"

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a ProcessVecEnv cannot be pickled or copied: make another one")

    def _refuse(self, call: str) -> NoReturn:
        """Raises for a call that is out of order."""
        if self._phase == _CLOSED:
            raise ClosedBatchError(f"{call}() after close(): make a new environment")
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


class ClosedBatchError(ClosedError, ClosedEnvironmentError):
    """A call on a batch that was closed."""


class SpaceMismatchError(ArgumentError, RuntimeError):
    """Environments of a batch have spaces that do not fit together."""


def parse_workers(value: Any) -> int:
    """How many processes; None: one for each CPU of this process."""
    if value is None:
        return min(available_cpus(), MAX_WORKERS)
    return parse_count("workers", value, most=MAX_WORKERS)


def parse_patience(value: Any) -> float | None:
    """Seconds that a step of one world may take; None: any."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not value > 0:
        raise ArgumentError(f"timeout is {value!r}: expected seconds, more than 0, or None")
    return float(value)


def parse_mask(options: Any, worlds: int, agents: int) -> tuple[np.ndarray, Any]:
    """The worlds that options["reset_mask"] asks to reset, bool [worlds], and the options that
    remain. Messages are Gymnasium's."""
    if options is None or "reset_mask" not in options:
        return np.ones(worlds, np.bool_), options
    mask, rows = options["reset_mask"], worlds * agents
    rest = {key: value for key, value in options.items() if key != "reset_mask"}
    if not isinstance(mask, np.ndarray):
        raise ArgumentTypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (rows,):
        raise ArgumentError(
            f"`options['reset_mask']` must have shape `({rows},)`, got {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise ArgumentTypeError(
            f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}"
        )
    if not mask.any():
        raise ArgumentError(
            "`options['reset_mask']` must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    by_world = mask.reshape(worlds, agents)
    if (by_world.any(axis=1) != by_world.all(axis=1)).any():
        raise ArgumentError(
            "`options['reset_mask']` splits the agents of an environment, which reset as one"
        )
    return np.ascontiguousarray(by_world[:, 0]), rest
