"""What the batches of native and of Python environments have in common as a VectorEnv."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .arguments import parse_options
from .asynchronous import Flight, index_of, taken
from .errors import ArgumentTypeError, CallOrderError, ClosedError
from .infos import map_arrays
from .seeds import parse_seeds

if TYPE_CHECKING:
    from .asynchronous import Numbers, Read

# Phases of a batch; small integers, since `step` compares one on every call.
FRESH, READY, IN_FLIGHT, CLOSED = range(4)


class BatchEnv(VectorEnv):
    """`num_envs` rows that are reset, stepped, sent and received together.

    A row is one agent. World w, one instance of the environment, owns the `agents` rows from
    w * agents on and is reset as one; with one agent, rows and worlds are the same.

    Here is the order of calls, and the sentence for a call that is out of order. A subclass
    makes the arrays and the parts below, starts episodes, steps, and tells infos.

    Attributes:
        agents, worlds: rows per world; worlds in the batch.
        batch_size: rows of one `recv`.
        copy: whether arrays that are returned are the caller's own, or views.
    """

    agents: int
    worlds: int
    batch_size: int
    copy: bool
    autoreset_mode: AutoresetMode

    _obs: Any  # [rows, ...], or a dict or tuple of such
    _rewards: np.ndarray
    _terminated: np.ndarray
    _truncated: np.ndarray
    _pending: np.ndarray  # bool [worlds]: the episode has ended, and no new one has begun
    _flight: Flight
    _read: Read
    _totals: Any  # .values: as hr_episode_total lays them out; .clear()
    _metric_names: tuple[str, ...] = ()
    _wide_rewards = False  # float32 rewards are handed out as float64
    _instead_of_copying = "make another one"

    _phase = FRESH
    _blocked = False  # Disabled: some world must be reset before the next step
    _seed: Any  # of the first reset that is given none
    _started: np.ndarray  # bool [worlds]: was reset

    def _start_worlds(
        self, chosen: np.ndarray, seeds: np.ndarray, given: np.ndarray, options: Any
    ) -> Any:
        """Starts episodes of the worlds `chosen`, bool [worlds]; of those in `given` with their
        seed. Returns what `_infos_of_reset` is to be told."""
        raise NotImplementedError

    def _infos_of_reset(self, chosen: np.ndarray, told: Any) -> dict[str, Any]:
        """Infos after a reset of the worlds `chosen`."""
        raise NotImplementedError

    def _receive(self, worlds: int) -> tuple[Numbers, Numbers]:
        """The first `worlds` worlds that are ready and their rows, ascending."""
        return self._flight.recv(worlds)

    def _infos_of(self, worlds: Numbers, rows: Numbers) -> dict[str, Any]:
        """Counts a step of these in, and tells its infos."""
        raise NotImplementedError

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
            options: {"reset_mask": bool [num_envs]} resets only the rows that are set. Python
                environments are handed the other options.
        """
        if self._phase >= IN_FLIGHT:
            self._refuse("reset")
        chosen, rest = parse_options(options, self.worlds, self.agents)
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
        told = self._start_worlds(chosen, seeds, given & chosen, rest)
        if isinstance(seed, (int, np.integer)):
            self._np_random, self._np_random_seed = seeding.np_random(int(seed))
        self._started |= chosen
        return self._begin(chosen, told)

    def _begin(self, chosen: np.ndarray, told: Any = None) -> tuple[Any, dict[str, Any]]:
        """The batch is ready to be stepped; returns what it shows, with the infos of the worlds
        `chosen`."""
        self._phase = READY
        self._update_blocked()
        self._flight.hand_out_all()
        infos = self._infos_of_reset(chosen, told)
        return map_arrays(np.copy, self._obs) if self.copy else self._obs, infos

    # ---- sending and receiving ------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Starts a step of some rows and returns at once; `recv` collects them.

        Args:
            actions: for len(env_ids) rows, in the structure of `action_space`.
            env_ids: int [k], rows, whole worlds at a time; None: those that the last `reset`
                or `recv` handed out, in that order.
        """
        if self._phase not in (READY, IN_FLIGHT):
            self._refuse("send")
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        finished = self._pending if disabled else None
        self._flight.send(self._read, actions, env_ids, finished)
        self._phase = IN_FLIGHT

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Waits for the `batch_size` rows in flight that are ready first.

        Fewer only when fewer are in flight. Returns what `step` does, for these rows in
        ascending order; `infos["env_id"]` names them, int64 [k]. With `copy=False` and rows that
        follow each other, the arrays are views of `buffers`, valid until these rows are sent
        again, and `env_id` is one that cannot be written to.
        """
        if self._phase not in (READY, IN_FLIGHT):
            self._refuse("recv")
        worlds, rows = self._receive(self.batch_size // self.agents)
        self._phase = IN_FLIGHT if self._flight.in_flight else READY
        if self._phase == READY:
            self._update_blocked()
        infos = self._infos_of(worlds, rows)
        index, copy = index_of(rows), self.copy
        infos["env_id"] = self._flight.numbers(rows, copy)
        rewards = taken(self._rewards, index, copy)
        return (
            taken(self._obs, index, copy)
            if isinstance(self._obs, np.ndarray)
            else map_arrays(lambda array: taken(array, index, copy), self._obs),
            rewards.astype(np.float64) if self._wide_rewards else rewards,
            taken(self._terminated, index, copy),
            taken(self._truncated, index, copy),
            infos,
        )

    # ---- statistics -------------------------------------------------------------------

    def statistics(self, *, clear: bool = False) -> dict[str, float]:
        """Means over the episodes that ended since the start, or since `clear=True`.

        `episodes` counts them; `return_mean`, `return_min`, `return_max`, `length_mean` (steps)
        and the environment's metrics by name follow; NaN before the first episode.
        """
        if self._phase == CLOSED:
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
        for name, total in zip(self._metric_names, metrics, strict=True):
            result[name] = total / over if over else nan
        if clear:
            self._totals.clear()
        return result

    # ---- refusals -----------------------------------------------------------------------

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            f"a {type(self).__name__} cannot be pickled or copied: {self._instead_of_copying}"
        )

    def _update_blocked(self) -> None:
        disabled = self.autoreset_mode is AutoresetMode.DISABLED
        self._blocked = disabled and bool(self._pending.any())

    def _refuse(self, call: str) -> NoReturn:
        """Raises for a call that is out of order."""
        if self._phase == CLOSED:
            raise ClosedBatchError(f"{call}() after close(): make a new environment")
        if self._phase == FRESH:
            raise CallOrderError(f"{call}() before reset(): call reset() first")
        if self._phase == IN_FLIGHT:
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
