"""The native PPO learner: turns rollouts into the next version of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine._core import Pool, pool_api
from ..engine.errors import ArgumentError
from ..engine.memory import available_memory, show_bytes
from . import _native
from ._native import Rollout, RunningMoments, StopFlag, Weights
from .policy import PolicySpec, seed_key
from .rollout import NonFiniteError, Stopped, check_sums

RHO_MAX, C_MAX = 1.0, 1.0  # bounds of V-trace's ratios (Espeholt et al. 2018)
WEIGHT_MAX = 5.0  # bound of the decoupled objective's weights


class LearnStats(NamedTuple):
    """One update in numbers: means over its minibatches, weighted by rows."""

    policy_loss: float  # PPO's clipped objective, negated
    value_loss: float  # half the squared error
    entropy: float  # nats
    kl: float  # nats: mean of (ratio - 1) - log ratio
    clip_fraction: float  # share of rows whose ratio left the clip range
    grad_norm: float  # length of the gradient before clipping, mean over minibatches
    explained_variance: float  # of the returns by the values; NaN when all returns are equal
    ess: float = 1.0  # effective sample size of the rows, a share
    lag: float = 0.0  # updates between the weights that acted and those that learned, mean
    lag_max: int = 0  # the greatest


def _check_room(num_params: int) -> None:
    """ArgumentError before a learner takes more memory than there is."""
    needed = 4 * num_params * (_native.MAX_CHUNKS + 4)  # a gradient for each chunk
    available = available_memory()
    if available is not None and needed > available:
        raise ArgumentError(
            f"learning {num_params} parameters would need {show_bytes(needed)} of memory, of which "
            f"{show_bytes(available)} are available: use smaller hidden layers"
        )


class NativeLearner:
    """Proximal policy optimisation (Schulman et al. 2017) in C kernels, on a pool of threads.

    The loss of a minibatch is the mean over its valid rows of the clipped surrogate
    + vf_coef * 0.5 (V - return)^2 - ent_coef * entropy; gradients are clipped by their global
    norm; Adam takes the step. Weights are the same bit for bit for any number of threads.
    """

    def __init__(
        self,
        policy: PolicySpec,
        pool: Pool | None,
        *,
        seed: int,
        minibatches: int = 4,
        epochs: int = 1,
        clip: float = 0.2,
        vf_coef: float = 0.5,
        vf_clip: float = 0.0,
        max_grad_norm: float = 0.5,
        target_kl: float = 0.0,
        normalize_advantage: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-5,
        correction: str = "clip",
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        recall: bool = False,
        profile: bool = False,
        stop: StopFlag | None = None,
    ) -> None:
        """Arguments:

        policy: what is trained; parameters start from `policy.init(seed)`.
        pool: threads, or None for the calling one.
        minibatches, epochs: of one update; minibatches are of tiles of 64 rows, dealt
            out at random.
        clip: range of the probability ratio around 1.
        vf_coef, vf_clip: weight of the value loss; range of the value around the old one (0:
            not clipped).
        max_grad_norm: bound of the gradient's length; 0: none.
        target_kl: nats; an update ends after the epoch whose mean KL divergence is above; 0:
            never.
        normalize_advantage: by mean and deviation over the rollout.
        betas, eps: Adam's.
        correction: what is done about rows of older weights: none, clip, vtrace or decoupled
            (docs/async.md says what each does).
        gamma, gae_lambda: of V-trace.
        recall: what a policy with a memory remembers when a rollout begins is computed anew
            from the rollout before, by the weights that learn; else it is that of the weights
            that acted.
        profile: measure the time of each stage (see `profile`) and not only that of whole
            tasks, which costs some per cent.
        stop: makes `learn` leave off in the middle, once it is raised.

        Raises:
            ArgumentError: a setting out of range, or a policy too large for the memory.
        """
        for name, count in (("minibatches", minibatches), ("epochs", epochs)):
            if count < 1:
                raise ArgumentError(f"{name} is {count}: expected at least 1")
        if correction not in _native.CORRECTIONS:
            raise ArgumentError(
                f"correction is {correction!r}: expected one of {', '.join(_native.CORRECTIONS)}"
            )
        self.policy = policy
        _check_room(policy.num_params)
        workers = _native.Workers(pool_api, None if pool is None else pool.capsule)
        self._native = _native.Learner(
            policy.net,
            workers,
            policy.init(seed),
            key=seed_key(seed) ^ 0x6C6561726E,
            epochs=epochs,
            minibatches=minibatches,
            normalize_advantage=normalize_advantage,
            clip=clip,
            value_clip=vf_clip,
            value_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            target_kl=target_kl,
            betas=betas,
            eps=eps,
            correction=correction,
            weight_max=WEIGHT_MAX,
            gamma=gamma,
            gae_lambda=gae_lambda,
            rho_max=RHO_MAX,
            c_max=C_MAX,
            recall=recall,
            profile=profile,
            stop=stop,
        )
        self._obs = RunningMoments(policy.features)
        self._returns = RunningMoments(1)
        self._scales: tuple[Any, ...] = ()
        self.version = 0  # updates so far
        self._measure()
        self.weights = self._publish()

    def learn(self, rollout: Rollout, *, lr: float, ent_coef: float = 0.0) -> LearnStats:
        """One update from one rollout; `weights` are the next version afterwards.

        Raises:
            NonFiniteError: the loss or the gradient is NaN or infinite, or sums overflow.
            Stopped: the StopFlag was raised; parameters are between two updates: restore them.
        """
        check_sums(rollout, self.version)
        lag, lag_max = rollout.lag(self.version)
        fault, numbers = self._native.learn(rollout, lr, ent_coef, lagged=lag_max > 0)
        if fault is not None and fault[0] == "stopped":
            raise Stopped
        if fault is not None:
            raise self._error(*fault)
        self.version += 1
        if rollout.obs_sums is not None or rollout.reward_sums is not None:
            self.observe(rollout)
        else:
            self.weights = self._publish()
        return LearnStats._make([*numbers, lag, lag_max])

    def observe(self, rollout: Rollout) -> None:
        """Takes in the rollout's statistics of observations and rewards. `learn` does; by itself
        it serves to settle the normalisation before the first update; `weights` follow."""
        if rollout.obs_sums is not None:
            self._obs.merge_observations(rollout)
        if rollout.reward_sums is not None:
            self._returns.merge_rewards(rollout)
        self._measure()
        self.weights = self._publish()

    def _measure(self) -> None:
        """The scales of the next weights."""
        self._scales = (
            self._obs.mean.astype(np.float32),
            self._obs.scale().astype(np.float32),
            float(self._returns.mean[0]),
            float(self._returns.scale()[0]),
        )

    def _publish(self) -> Weights:
        params = _native.aligned(self.policy.num_params, np.float32)
        params[:] = self._native.params
        return Weights(params, *self._scales, version=self.version)

    def _error(
        self, kind: str, minibatch: int, index: int, _feature: int, value: float
    ) -> NonFiniteError:
        update = self.version
        if kind == "loss":
            name = LearnStats._fields[index]
            message = f"{name} is {value} in update {update}, minibatch {minibatch}"
        else:
            name = self.policy.param_name(index)
            message = (
                f"the gradient of {name!r} is {value} in update {update}, minibatch {minibatch}"
            )
        return NonFiniteError(
            f"{message}: a lower learning rate or normalisation may help",
            kind=kind,
            value=value,
            name=name,
            update=update,
        )

    def profile(self) -> dict[str, float]:
        """Seconds per stage since the start, summed over threads: learn_task and optimizer are
        all of them; the others stay 0 without profile=True."""
        return self._native.profile()

    @property
    def stage_seconds(self) -> NDArray[np.float64]:
        """What `profile` sums up, as it is being counted: [threads, stages]."""
        seconds: NDArray[np.float64] = self._native.seconds
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs."""
        return {
            "version": self.version,
            "native": self._native.state_dict(),
            "observations": self._obs.state_dict(),
            "returns": self._returns.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.version = int(state["version"])
        self._native.load_state_dict(state["native"])
        self._obs.load_state_dict(state["observations"])
        self._returns.load_state_dict(state["returns"])
        self._measure()
        self.weights = self._publish()
