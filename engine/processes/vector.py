"""ProcessVecEnv: a batch of Python environments as a gymnasium.vector.VectorEnv."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from ..arguments import parse_batch_size, parse_count, parse_mode, parse_rows
from ..asynchronous import Flight, as_array
from ..base import CLOSED, FRESH, IN_FLIGHT, READY, BatchEnv
from ..errors import ArgumentError, WorkerError
from ..infos import FINAL_OBS, map_arrays
from ..memory import available_memory, check_memory
from ..seeds import parse_seeds
from ._board import EpisodeTally
from .actions import ActionWriter
from .arguments import parse_caller_share, parse_patience, parse_workers
from .crew import Crew
from .infos import BatchInfos
from .launch import check_start_method
from .leaves import leaves_of
from .local import LocalCrew
from .memory import BatchBuffers, Layout
from .share import DISABLED, NEXT_STEP, SAME_STEP, RowInfo
from .sources import Source, source_of
from .spaces import observation_spaces

if TYPE_CHECKING:
    from ..asynchronous import Numbers

_MODES = {
    AutoresetMode.NEXT_STEP: NEXT_STEP,
    AutoresetMode.SAME_STEP: SAME_STEP,
    AutoresetMode.DISABLED: DISABLED,
}


class ProcessVecEnv(BatchEnv):
    """`num_envs` rows of Python environments, stepped by worker processes; made by `make_vec`.

    Each worker has a contiguous share of the worlds. All arrays lie in memory that the workers
    share: with `copy=False`, what `reset` and `step` return are views of it.

    Attributes:
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
        caller_share: float = 0.0,
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
            share = parse_caller_share(caller_share)
            count = min(parse_workers(workers, share), rows)
            timeout, restarts = parse_patience(timeout), parse_count("restarts", restarts, 0)
            method = check_start_method(start_method)
            self._crew = Crew(source, count, method, timeout, restarts, share)
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
        self.single_action_space = first.action_space
        self.single_observation_space, batched = observation_spaces(
            first, others, self.worlds, observation_mode
        )
        if batched is not None:
            self.observation_space = batched
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
        self._started = np.zeros(self.worlds, np.bool_)
        self._flight = Flight(self._crew, self.worlds, self.agents)
        agents, pending, present = self.agents, self._pending, self._present
        if self._disabled:
            pending = np.zeros_like(pending)  # those are refused

        def ignored(rows: np.ndarray | None) -> np.ndarray:
            """Which rows ignore their action: they are reset, or nobody is there. Not a method:
            a batch that refers to itself would keep its memory until it is collected."""
            every = ~present | np.repeat(pending, agents)
            return every if rows is None else every[rows]

        self._read = ActionWriter(first.action_space, action, memory.actions, ignored).read
        self._totals = EpisodeTally(
            self._rewards, self._terminated, self._truncated, self._present, mode == NEXT_STEP
        )
        self.buffers.arrays["last_return"] = self._totals.last_return
        self.buffers.arrays["last_length"] = self._totals.last_length
        self._infos = BatchInfos(
            self._crew,
            memory,
            self.buffers,
            mode == SAME_STEP,
            final_obs == "object",
            present if first.comes_and_goes else None,
        )

    # ---- Gymnasium's surface ----------------------------------------------------------

    @property
    def np_random_seed(self) -> Any:
        """The seed of each world."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """The random number generator of each world, as it is now."""
        return self.get_attr("np_random")

    def _start_worlds(
        self, chosen: np.ndarray, seeds: np.ndarray, given: np.ndarray, options: Any
    ) -> list[RowInfo]:
        worlds = np.flatnonzero(chosen)
        numbers = [int(seeds[w]) if given[w] else None for w in worlds]
        with self._crew_at_work():
            return self._crew.reset(worlds.tolist(), numbers, options)

    def _infos_of_reset(self, chosen: np.ndarray, told: list[RowInfo]) -> dict[str, Any]:
        self._totals.begin(np.repeat(chosen, self.agents))
        return self._infos.of_reset(told, self.num_envs)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps every row with its action; actions have the structure of `action_space`.

        Returns:
            observations, rewards float64 [num_envs], terminated [num_envs], truncated
            [num_envs], infos.

        Raises:
            WorkerError: a worker raised, ended or hung; the batch is closed.
        """
        if self._phase != READY or self._blocked:
            self._refuse("step")
        self._read(actions, None)
        self._phase = IN_FLIGHT
        self._flight.launch_all()
        self._landed(self._flight.land_all)
        self._phase = READY
        ended = self._totals.count(None)
        if ended and self._disabled:
            self._update_blocked()
        infos = self._infos.of_step(None, ended)
        obs, rewards = self._obs, self._rewards
        terminated, truncated = self._terminated, self._truncated
        if self.copy:
            obs = obs.copy() if isinstance(obs, np.ndarray) else map_arrays(np.copy, obs)
            rewards, terminated, truncated = rewards.copy(), terminated.copy(), truncated.copy()
        return obs, rewards, terminated, truncated, infos

    def _receive(self, worlds: int) -> tuple[Numbers, Numbers]:
        return self._landed(lambda: self._flight.recv(worlds))

    def _infos_of(self, worlds: Numbers, rows: Numbers) -> dict[str, Any]:  # noqa: ARG002
        rows = as_array(rows)
        return self._infos.of_step(rows, self._totals.count(rows))

    def _landed(self, wait: Callable[[], Any]) -> Any:
        """What `wait` returns, which waits for worlds in flight."""
        try:
            return wait()
        except WorkerError:
            self._give_up()
            raise
        except BaseException:
            if self.executor == "serial":  # the environment's own, or Ctrl-C: it may be reset
                self._flight.forget()
                self._phase = FRESH
            raise

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
        if self._phase >= IN_FLIGHT:
            self._refuse("set_attr")
        if not isinstance(values, (list, tuple)):
            values = [values] * self.worlds
        if len(values) != self.worlds:
            raise ArgumentError(
                f"values has {len(values)} entries: expected {self.worlds}, one for each world"
            )
        with self._crew_at_work():
            self._crew.set(name, values)

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 (as Gymnasium calls it)
        """Closes the environments and ends the workers; called once by `close`."""
        self._phase = CLOSED
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
        if self._phase >= IN_FLIGHT:
            self._refuse(name)
        with self._crew_at_work():
            return tuple(self._crew.call(name, args, kwargs))

    @contextmanager
    def _crew_at_work(self) -> Iterator[None]:
        """Closes the batch where an error has ended the crew."""
        try:
            yield
        finally:
            if not self._crew.alive:
                self._give_up()

    def _give_up(self) -> None:
        """A worker was lost for good, and with it the batch."""
        self._phase = CLOSED
        self.closed = True

    def __repr__(self) -> str:
        name = "" if self.spec is None else f"{self.spec.id}, "
        return f"ProcessVecEnv({name}num_envs={self.num_envs}, workers={self.workers})"
