"""Stepped collection: any environment and any policy, one step of some rows at a time.

Rows are sent to their environments in groups, and whichever come back first are acted for
next: while one group steps, the policy acts for another. A row's segment is its steps of one
rollout. It may end early, when enough other steps are there: then it is bootstrapped with the
value of where it stands, the rest of it is not valid, and a step that is under way becomes the
first of the next rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from ..engine.errors import ArgumentError
from ._native import TILE, RowBook, StopFlag, aligned
from .actor import Actor, Draw, Floats
from .batch import Batch, Rows
from .collector import REWARD_CLIP
from .policy import OBS_CLIP, seed_key
from .rollout import MaskError, NonFiniteError, SteppedRollout, Stopped

STAGES = ("act", "env", "record", "finish")


class _UnderWay(NamedTuple):
    """Steps that had not come back when a rollout was closed."""

    rows: Rows
    raw: NDArray[np.uint8]
    actions: NDArray[np.int32]
    mask: NDArray[np.uint8] | None
    logp: Floats
    value: Floats
    versions: NDArray[np.int64]


class _Cut(NamedTuple):
    """Episodes that were cut: their last observations wait for their value."""

    places: Rows
    raw: NDArray[np.uint8]
    state: Floats


class SteppedCollector:
    """Collects rollouts from any vector environment of ours with any policy.

    Results depend on the seed and, for what actions they get, on nothing else: random numbers
    belong to (seed, row, step). With `fill` below 1, which steps are in which rollout depends
    on which rows were ready first.
    """

    def __init__(
        self,
        vec: VectorEnv | Batch,
        actor: Actor,
        *,
        horizon: int,
        gamma: float,
        gae_lambda: float,
        seed: int,
        fill: float = 1.0,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
        stop: StopFlag | None = None,
    ) -> None:
        """Arguments:

        vec: environments in SameStep mode, or a Batch of them, reset before the first
            `collect`; their batch_size is how many rows act at once, at most half of them where
            one group is to step while the policy acts for another.
        actor: the policy, made for `Batch(vec).spec`.
        horizon: most steps of each row in one rollout.
        gamma, gae_lambda: discount of rewards, and decay of the advantage estimator.
        seed: of the run; actions are drawn by (seed, row, step).
        fill: share of horizon * rows steps at which a rollout is closed; 1: every row takes all
            its steps, and waits for the others.
        normalize_obs, normalize_reward: by the running statistics in the weights.
        stop: makes `collect` leave off between two steps, once it is raised.

        Raises:
            ArgumentError: a horizon below 1, a fill out of (0, 1], another autoreset mode.
        """
        if horizon < 1:
            raise ArgumentError(f"horizon is {horizon}: expected at least 1")
        if not 0.0 < fill <= 1.0:
            raise ArgumentError(f"fill is {fill}: expected more than 0 and at most 1")
        self.batch = vec if isinstance(vec, Batch) else Batch(vec)
        self.actor = actor
        self._stop = stop
        self.horizon = horizon
        self._gamma, self._lambda = gamma, gae_lambda
        self._key = seed_key(seed)
        self._wanted = max(1, int(np.ceil(fill * horizon * self.batch.rows)))
        self._obs_clip = OBS_CLIP if normalize_obs else 0.0
        self._normalize_reward = normalize_reward
        rows = self.batch.rows
        self._book = RowBook(rows, self.batch.agents, horizon)
        self._state = np.zeros((rows, actor.state_size), np.float32)  # for the next action
        self._before = np.zeros_like(self._state)  # that the last action started from
        self._discounted = np.zeros(rows, np.float32)
        self._own: SteppedRollout | None = None
        self._under_way: _UnderWay | None = None
        self._filled = 0  # valid steps in the open rollout
        self._cuts: list[_Cut] = []
        self._seconds = dict.fromkeys(STAGES, 0.0)

    def new_rollout(self) -> SteppedRollout:
        """A rollout for `collect(..., into=...)`, so that several can be there at once."""
        return SteppedRollout(
            self.actor.rollout_net,
            horizon=self.horizon,
            worlds=self.batch.rows // self.batch.agents,
            agents=self.batch.agents,
            obs_size=self.batch.spec.obs_dtype.itemsize,
            state_size=self.actor.state_size,
            normalize_obs=self._obs_clip > 0,
            normalize_reward=self._normalize_reward,
        )

    def collect(
        self, weights: Any | Callable[[], Any], into: SteppedRollout | None = None
    ) -> SteppedRollout:
        """Takes up to `horizon` steps in every row and computes their advantages.

        Args:
            weights: that act; or a function that gives them, asked before every action, so
                that new ones are in use at the next step.
            into: the rollout to fill; default: the collector's own, which the next call
                overwrites.

        Raises:
            NonFiniteError: an observation or a reward is NaN or infinite.
            MaskError: an action mask allows nothing.
            CallOrderError: the environments were never reset.
            Stopped: the StopFlag was raised; what was collected of this rollout is dropped.
        """
        self.batch.check_ready()
        if into is None:
            into = self._own = self._own or self.new_rollout()
        latest = weights if callable(weights) else lambda: weights
        self._open(into)
        for rows in self._groups(~self._book.flying):
            self._act(into, rows, latest())
        while self.batch.in_flight and self._filled < self._wanted:
            if self._stop is not None and self._stop.raised:
                raise Stopped
            rows = self._receive(into)
            if rows is self.batch.all:  # they step together
                if self._book.cursor[0] < self.horizon:
                    self._act(into, rows, latest())
                continue
            more = self._book.cursor[rows] < self.horizon
            if more.any():
                self._act(into, rows if more.all() else rows[more], latest())
        self._close(into, latest())
        return into

    def _groups(self, chosen: NDArray[np.bool_]) -> list[Rows]:
        """The chosen rows [rows], as many at a time as act at once."""
        if self.batch.group == self.batch.rows and chosen.all():
            return [self.batch.all]
        rows = np.flatnonzero(chosen)
        return [rows[k : k + self.batch.group] for k in range(0, len(rows), self.batch.group)]

    def _open(self, ro: SteppedRollout) -> None:
        """An empty rollout, but for the steps that are under way."""
        ro.clear()
        self._book.cursor[:], self._filled = 0, 0
        self._cuts = []
        left, self._under_way = self._under_way, None
        if left is not None:
            at = ro.place(left.rows)
            tile, lane = at // TILE, at % TILE
            ro.raw[at], ro.actions[tile, :, lane] = left.raw, left.actions
            if left.mask is not None:
                ro.mask[tile, :, lane] = left.mask
            ro.flat["logp"][at], ro.flat["value"][at] = left.logp, left.value
            ro.versions[at] = left.versions
            ro.set_states(left.rows, self._before[left.rows])

    def _act(self, ro: SteppedRollout, rows: Rows, weights: Any) -> None:
        """Acts for rows that wait and sends them off."""
        start = perf_counter()
        raw, mask, live = self.batch.seen(rows)
        self._check_observations(raw, rows)
        before = self._state[rows] if self.actor.state_size else self._state[: len(rows)]
        taken = self._book.taken
        draw = Draw(self._key, rows, taken if rows is self.batch.all else taken[rows])
        acted = self.actor.act(weights, raw, mask, before, draw)
        if self.actor.state_size:
            fresh = self._book.cursor[rows] == 0
            ro.set_states(rows[fresh], before[fresh])
            self._before[rows] = before
            after = acted.state
            self._state[rows] = after if live is None else np.where(live[:, None], after, before)
        shut = self._book.send(
            ro, rows, raw, acted.actions, mask, acted.logp, acted.value, live, weights.version
        )
        if shut >= 0:
            at = int(self._book.taken[shut]) - 1
            raise MaskError(self.batch.spec.name, shut, at)
        acted_at = perf_counter()
        self.batch.send(acted.actions, rows)  # a serial executor steps here
        self._seconds["act"] += acted_at - start
        self._seconds["env"] += perf_counter() - acted_at

    def _receive(self, ro: SteppedRollout) -> Rows:
        """Waits for some rows and writes down what became of their actions."""
        start = perf_counter()
        rows, reward, terminated, truncated = self.batch.recv()
        received = perf_counter()
        steps, bad, over, cut = self._book.receive(ro, rows, reward, terminated, truncated)
        self._filled += steps
        if bad >= 0:
            self._refuse("reward", "the reward", int(rows[bad]), float(reward[bad]), None)
        if len(over):
            self._end_episodes(rows[over], cut)
        self._seconds["env"] += received - start
        self._seconds["record"] += perf_counter() - received
        return rows

    def _end_episodes(self, rows: Rows, places: Rows) -> None:
        """Keeps the final observations of episodes that were cut (places of their steps; -1:
        it ended by itself), and forgets what is remembered of all."""
        cut = places >= 0
        count = np.count_nonzero(cut)
        if count:
            over, at = (rows, places) if count == len(rows) else (rows[cut], places[cut])
            raw = self.batch.final_observations(over)
            self._check_observations(raw, over)
            state = self._state[over] if self.actor.state_size else self._state[:count]
            self._cuts.append(_Cut(at, raw, state))
        if self.actor.state_size:
            self._state[rows] = 0.0

    def _close(self, ro: SteppedRollout, weights: Any) -> None:
        """Values of what was cut and of where the rows stand, then advantages."""
        start = perf_counter()
        if self._normalize_reward:
            ro.scale_rewards(
                self._discounted,
                self._gamma,
                weights.reward_mean,
                weights.reward_scale,
                REWARD_CLIP,
            )
        self._bootstrap(ro, weights)
        last = aligned(ro.blocks * ro.width, np.float32)
        flying = np.flatnonzero(self._book.flying)
        for rows in self._groups(~self._book.flying):
            raw = self.batch.standing(rows)
            self._check_observations(raw, rows)
            last[rows] = self.actor.value(weights, raw, self._state[rows])
        if len(flying):
            self._under_way = self._kept(ro, flying)
            last[flying] = self._under_way.value
        if ro.obs.size:  # a native policy's
            ro.encode(ro.raw, weights, self._obs_clip)
        ro.set_weights(weights)
        acted = np.where(ro.flat["valid"] > 0, ro.versions, weights.version)
        ro.block_versions[:] = acted.reshape(ro.blocks, -1).min(1)
        ro.version = int(ro.block_versions.min())
        ro.sort_episodes()
        ro.finish(last, self._gamma, self._lambda)
        self._seconds["finish"] += perf_counter() - start

    def _bootstrap(self, ro: SteppedRollout, weights: Any) -> None:
        """Values of the last observations of episodes that were cut, all at once."""
        if self._cuts:
            places, raw, state = (np.concatenate(parts) for parts in zip(*self._cuts, strict=True))
            ro.flat["bootstrap"][places] = self.actor.value(weights, raw, state)

    def _kept(self, ro: SteppedRollout, rows: Rows) -> _UnderWay:
        """The steps under way, for the next rollout."""
        at = ro.place(rows) + self._book.cursor[rows] * ro.width
        tile, lane = at // TILE, at % TILE
        return _UnderWay(
            rows,
            ro.raw[at],
            ro.actions[tile, :, lane],
            None if ro.mask is None else ro.mask[tile, :, lane],
            ro.flat["logp"][at],
            ro.flat["value"][at],
            ro.versions[at],
        )

    def _check_observations(self, raw: NDArray[np.uint8], rows: Rows) -> None:
        bad = self.batch.first_bad(raw)
        if bad is not None:
            at, name, value = bad
            self._refuse("observation", f"observation {name!r}", int(rows[at]), value, name)

    def _refuse(self, kind: str, what: str, row: int, value: float, name: str | None) -> None:
        """kind, row, value, name: see NonFiniteError."""
        step = int(self._book.taken[row]) - (kind == "reward")
        raise NonFiniteError(
            f"environment {self.batch.spec.name!r}: {what} of row {row} is {value} at step {step}",
            kind=kind,
            value=value,
            row=row,
            step=step,
            name=name,
        )

    def settle(self) -> None:
        """Waits for the rows in flight and drops their steps, so that the environments stand
        still: what a checkpoint needs when rollouts are closed early."""
        while self.batch.in_flight:
            rows, reward, terminated, truncated = self.batch.recv()
            _, _, over, _ = self._book.receive(None, rows, reward, terminated, truncated)
            self._state[rows[over]] = 0.0
        self._under_way = None

    @property
    def step(self) -> int:
        """Steps of the row that has taken most since the run began."""
        return int(self._book.taken.max())

    def profile(self) -> dict[str, float]:
        """Seconds per stage since the start: the policy, waiting for environments, writing
        down, and what closes a rollout."""
        return dict(self._seconds)

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs, the environments' own state left out. What
        is in flight is waited for and dropped."""
        self.settle()
        return {
            "taken": self._book.taken.copy(),
            "state": self._state.copy(),
            "returns": self._book.returns.copy(),
            "lengths": self._book.lengths.copy(),
            "discounted": self._discounted.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self._book.taken[:] = state["taken"]
        self._book.returns[:], self._book.lengths[:] = state["returns"], state["lengths"]
        self._state[:] = state["state"]
        self._discounted[:] = state["discounted"]

    def forget_episodes(self) -> None:
        """After a reset of all environments: their episodes begin."""
        self._state[:], self._book.returns[:], self._book.lengths[:] = 0.0, 0.0, 0
        self._discounted[:] = 0.0
