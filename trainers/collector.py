"""Fused collection: native environments and a native policy in one C loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine._core import pool_api
from ..engine.errors import ArgumentError, CallOrderError, CheckError, ClosedError
from ..engine.vector import VecEnv
from . import _native
from ._native import Rollout, StopFlag, Weights
from .policy import OBS_CLIP, PolicySpec, seed_key
from .rollout import MaskError, NonFiniteError, Stopped

REWARD_CLIP = 10.0  # bound of normalised rewards


class FusedCollector:
    """Collects rollouts from a VecEnv in SameStep mode, on its pool of threads.

    Blocks of 64 worlds run `horizon` steps each without a barrier; advantages (GAE) follow while
    the block is in cache. Results depend on the seed, not on the number of threads.
    """

    def __init__(
        self,
        vec: VecEnv,
        policy: PolicySpec,
        *,
        horizon: int,
        gamma: float,
        gae_lambda: float,
        seed: int,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
        profile: bool = False,
        stop: StopFlag | None = None,
    ) -> None:
        """Arguments:

        vec: environments in SameStep mode, reset before the first `collect`.
        policy: made for their spec.
        horizon: steps of each row in one rollout.
        gamma, gae_lambda: discount of rewards, and decay of the advantage estimator.
        seed: of the run; actions are drawn by (seed, row, step).
        normalize_obs, normalize_reward: by the running statistics in the weights.
        profile: measure the time of each stage (see `profile`) in every step rather than in a
            few, which costs some per cent.
        stop: makes `collect` leave off in the middle, once it is raised.

        Raises:
            ArgumentError: a horizon below 1, environments in another mode, or a policy that was
                made for others.
        """
        if horizon < 1:
            raise ArgumentError(f"horizon is {horizon}: expected at least 1")
        if vec.autoreset_mode.value != "SameStep":
            raise ArgumentError(
                f"autoreset_mode is {vec.autoreset_mode.value!r}: "
                "collection needs make_vec(..., autoreset_mode='SameStep')"
            )
        self.vec, self.policy = vec, policy
        if vec.pool is not None:
            vec.pool.be_patient()  # acting and learning are both done by its threads
        workers = _native.Workers(pool_api, None if vec.pool is None else vec.pool.capsule)
        self._native = _native.Collector(
            policy.net,
            vec.core.capsule,
            workers,
            horizon=horizon,
            gamma=gamma,
            gae_lambda=gae_lambda,
            key=seed_key(seed),
            obs_clip=OBS_CLIP if normalize_obs else 0.0,
            reward_clip=REWARD_CLIP if normalize_reward else 0.0,
            profile=profile,
            stop=stop,
        )
        self._rollout = self._native.new_rollout()
        self._started = False
        self._under_way = 0  # shares that step the environments
        self._failure: dict[str, Any] | None = None  # of an HR_CHECK, until it is raised

    def new_rollout(self) -> Rollout:
        """A rollout for `collect(..., into=...)`, so that several can be there at once."""
        return self._native.new_rollout()

    def collect(self, weights: Weights, into: Rollout | None = None) -> Rollout:
        """Takes `horizon` steps in every environment and computes their advantages.

        Args:
            weights: act throughout.
            into: the rollout to fill; default: the collector's own, which the next call
                overwrites.

        Raises:
            NonFiniteError: an observation or a reward is NaN or infinite.
            MaskError: an action mask allows nothing.
            CheckError: HR_CHECK failed (checked builds).
            ArgumentError: weights or a rollout of another shape.
            Stopped: the StopFlag was raised. The environments stand in the middle of a rollout,
                each block elsewhere: restore them before they are used again.
            CallOrderError: the environments were never reset, are in flight or being stepped.
        """
        self._check_ready()
        rollout = self._rollout if into is None else into
        self.begin()
        try:
            fault = self._native.collect(weights, rollout)
        finally:
            self.end()
        self._check(fault, self._native.step - self._native.horizon)
        return rollout

    def split(self, replicas: int) -> list[_native.Share]:
        """The environments cut into `replicas` shares of whole blocks of 64 worlds, which may
        fill their parts of a rollout apart (see Pipeline); then `finish` makes it whole.

        Raises:
            ArgumentError: more replicas than blocks.
        """
        self._check_ready()
        blocks = self._native.blocks
        if not 1 <= replicas <= blocks:
            raise ArgumentError(
                f"replicas is {replicas}: {self.vec.worlds} worlds make {blocks} blocks of 64, so "
                f"1 to {blocks}"
            )
        self._native.split(replicas)
        shares: list[_native.Share] = self._native.shares
        return shares

    def begin(self) -> None:
        """Claims the environments before shares are started: nobody else may step them until as
        many `end` have come.

        Raises:
            CallOrderError: somebody else steps them.
        """
        if self._under_way == 0:
            self._failure = self._failure or self.vec.core.take_failure()
            self.vec.core.acquire()
        self._under_way += 1

    def end(self) -> None:
        """Ends what `begin` began."""
        self._under_way -= 1
        if self._under_way == 0:
            self.vec.core.release()

    def finish(self, rollout: Rollout, *, actors_ahead: int) -> None:
        """Makes a rollout whole when all shares have filled their parts; actors_ahead: rollouts
        that the first of them has filled since this one began, this one included."""
        fault = self._native.finish(rollout)
        self._check(fault, self._native.step - self._native.horizon * actors_ahead)

    def advance(self, rollouts: int) -> None:
        """After a break: every share counts its steps on from so many rollouts after the first
        share's, so that no random number is drawn twice."""
        state = self._native.state_dict()
        self._native.load_state_dict(
            {**state, "step": state["step"] + rollouts * self._native.horizon}
        )

    @property
    def threads(self) -> int:
        """Threads that may collect at once."""
        return 1 if self.vec.pool is None else int(self.vec.pool.threads)

    def close(self) -> None:
        """Waits for shares that are under way. The environments stay open."""
        self._native.close()

    def _check_ready(self) -> None:
        if self.vec.closed:
            raise ClosedError("collect() after the environments were closed")
        if self.vec.core.in_flight:
            raise CallOrderError("collect() with environments in flight: recv() them first")
        if not self._started:
            if not np.all(self.vec.buffers.arrays["rng"][:, 0]):
                raise CallOrderError("collect() before reset(): reset the environments first")
            self._started = True

    def _check(self, fault: tuple[Any, ...] | None, began: int) -> None:
        """Raises for what went wrong in a rollout that began `began` steps into the run."""
        failure, self._failure = self._failure or self.vec.core.take_failure(), None
        if failure is not None:
            raise CheckError(f"environment {self.vec.spec_.name!r}: {failure}")
        if fault is not None and fault[0] == "stopped":
            raise Stopped
        if fault is not None and fault[0] == "mask":
            raise MaskError(self.vec.spec_.name, fault[2], began + fault[1])
        if fault is not None:
            raise self._error(began, *fault)

    def _error(
        self, began: int, kind: str, step: int, row: int, feature: int, value: float
    ) -> NonFiniteError:
        at = began + step
        name = self.policy.feature_name(feature) if kind == "observation" else None
        what = f"observation {name!r}" if name else "the reward"
        return NonFiniteError(
            f"environment {self.vec.spec_.name!r}: {what} of row {row} is {value} at step {at}",
            kind=kind,
            value=value,
            row=row,
            step=at,
            name=name,
        )

    def profile(self) -> dict[str, float]:
        """Seconds per stage since the start, summed over threads: collect_task is all of them;
        those within a block are of a few steps alone, unless profile=True."""
        return self._native.profile()

    @property
    def stage_seconds(self) -> NDArray[np.float64]:
        """What `profile` sums up, as it is being counted: [threads, stages]."""
        seconds: NDArray[np.float64] = self._native.seconds
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs, the environments' own state left out."""
        return self._native.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self._native.load_state_dict(state)
