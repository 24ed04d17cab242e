"""The three parts of a run that fit together: policy, collector, learner.

native environment, native policy     FusedCollector     NativeLearner
Python environment, native policy     SteppedCollector   NativeLearner
any environment, torch policy         SteppedCollector   TorchLearner
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gymnasium.vector import VectorEnv

from ..engine._core import Pool
from ..engine.cpus import available_cpus
from ..engine.vector import VecEnv
from ._native import StopFlag
from .actor import Actor, NativeActor
from .batch import Batch
from .collector import FusedCollector
from .config import TrainConfig
from .encoding import Divisors
from .learner import NativeLearner
from .pipeline import InTurn, Pipeline, Source
from .policies import native_policy, torch_policy
from .policy import PolicySpec
from .stepped import SteppedCollector


class Parts(NamedTuple):
    """What a run trains with."""

    policy: Any  # PolicySpec or TorchPolicy
    collector: Any  # FusedCollector or SteppedCollector
    learner: Any  # NativeLearner or TorchLearner
    pool: Pool | None  # threads of its own, to be closed; None where it has the environments'


def make_parts(
    config: TrainConfig,
    vec: VectorEnv,
    module: Any = None,
    stop: StopFlag | None = None,
    divisors: Divisors | None = None,
) -> Parts:
    """The parts for these environments.

    Args:
        config: of the run.
        vec: its environments, reset, in SameStep mode.
        module: a torch module, or a function of (observation_space, action_space) that makes
            one, where the run's policy is an object of Python.
        stop: makes collector and native learner leave off in the middle, once it is raised.
        divisors: see `PolicySpec.from_env`.

    Raises:
        ConfigError: settings that do not fit together, a file that holds no such policy.
    """
    if config.policy != "native":
        return _torch_parts(config, vec, module, stop, divisors)
    if isinstance(vec, VecEnv):
        policy = native_policy(config, vec.spec_, divisors)
        collector = FusedCollector(
            vec,
            policy,
            horizon=config.horizon,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            seed=config.seed,
            normalize_obs=config.normalize_obs,
            normalize_reward=config.normalize_reward,
            stop=stop,
        )
        return Parts(policy, collector, _native_learner(config, policy, vec.pool, stop), None)
    batch = Batch(vec)
    policy = native_policy(config, batch.spec, divisors)
    actor = NativeActor(policy, normalize_obs=config.normalize_obs)
    pool = Pool(config.threads or available_cpus())
    learner = _native_learner(config, policy, pool, stop)
    return Parts(policy, _stepped(config, batch, actor, stop), learner, pool)


def make_source(config: TrainConfig, collector: Any, learner: Any) -> Source:
    """Collecting and learning in turn, or at the same time.

    Raises:
        ArgumentError: more replicas than these environments can be shared among.
    """
    if not config.async_:
        return InTurn(collector, learner)
    return Pipeline(
        collector,
        learner,
        max_lag=config.max_lag,
        replicas=config.replicas,
        inflight=config.inflight,
        deterministic=config.deterministic,
    )


def _native_learner(
    config: TrainConfig, policy: PolicySpec, pool: Pool | None, stop: StopFlag | None
) -> NativeLearner:
    return NativeLearner(
        policy,
        pool,
        seed=config.seed,
        stop=stop,
        **_learning(config),
    )


def _learning(config: TrainConfig) -> dict[str, Any]:
    """What every learner is told."""
    return {
        "minibatches": config.minibatches,
        "epochs": config.epochs,
        "clip": config.clip,
        "vf_clip": config.vf_clip,
        "vf_coef": config.vf_coef,
        "max_grad_norm": config.max_grad_norm,
        "target_kl": config.target_kl,
        "normalize_advantage": config.normalize_advantage,
        "correction": config.correction,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "recall": config.recall,
    }


def _stepped(
    config: TrainConfig, batch: Batch, actor: Actor, stop: StopFlag | None
) -> SteppedCollector:
    return SteppedCollector(
        batch,
        actor,
        horizon=config.horizon,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        seed=config.seed,
        fill=config.fill,
        normalize_obs=config.normalize_obs,
        normalize_reward=config.normalize_reward,
        stop=stop,
    )


# ---- torch -------------------------------------------------------------------------------------


def _torch_parts(
    config: TrainConfig,
    vec: VectorEnv,
    module: Any,
    stop: StopFlag | None,
    divisors: Divisors | None,
) -> Parts:
    from .torch_learner import TorchLearner
    from .torch_policy import TorchActor

    batch = Batch(vec)
    policy = torch_policy(config, batch.spec, module, divisors)
    actor = TorchActor(
        policy,
        normalize_obs=config.normalize_obs,
        device=config.actor_device,
        compiled=config.compile,
        graphs=config.graphs,
    )
    learner = TorchLearner(
        policy,
        seed=config.seed,
        optimizer=config.optimizer,
        compiled=config.compile,
        graphs=config.graphs,
        stop=stop,
        **_learning(config),
    )
    return Parts(policy, _stepped(config, batch, actor, stop), learner, None)
