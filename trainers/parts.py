"""The three parts of a run that fit together: policy, collector, learner.

native environment, native policy     FusedCollector     NativeLearner
Python environment, native policy     SteppedCollector   NativeLearner
any environment, torch policy         SteppedCollector   TorchLearner
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from ..engine._core import Pool
from ..engine.cpus import available_cpus
from ..engine.spec import EnvSpec
from ..engine.vector import VecEnv
from ._native import StopFlag
from .actor import Actor, Draw, NativeActor
from .batch import Batch, Codec
from .collector import FusedCollector
from .config import OBJECT, TrainConfig
from .learner import NativeLearner
from .pipeline import InTurn, Pipeline, Source
from .policy import MEMORIES, PolicySpec, seed_key
from .settings import ConfigError
from .stepped import SteppedCollector


class Parts(NamedTuple):
    """What a run trains with."""

    policy: Any  # PolicySpec or TorchPolicy
    collector: Any  # FusedCollector or SteppedCollector
    learner: Any  # NativeLearner or TorchLearner
    pool: Pool | None  # threads of its own, to be closed; None where it has the environments'


def make_parts(
    config: TrainConfig, vec: VectorEnv, module: Any = None, stop: StopFlag | None = None
) -> Parts:
    """The parts for these environments.

    Args:
        config: of the run.
        vec: its environments, reset, in SameStep mode.
        module: a torch module, or a function of (observation_space, action_space) that makes
            one, where the run's policy is an object of Python.
        stop: makes collector and native learner leave off in the middle, once it is raised.

    Raises:
        ConfigError: settings that do not fit together, a file that holds no such policy.
    """
    if config.policy != "native":
        return _torch_parts(config, vec, module, stop)
    if isinstance(vec, VecEnv):
        policy = native_policy(config, vec.spec_)
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
    policy = native_policy(config, batch.spec)
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


def native_policy(config: TrainConfig, spec: EnvSpec) -> PolicySpec:
    """The native policy that the settings describe."""
    memory = config.memory
    return PolicySpec.from_env(spec, config.hidden, config.activation, config.separate, memory)


def _native_learner(
    config: TrainConfig, policy: PolicySpec, pool: Pool | None, stop: StopFlag | None
) -> NativeLearner:
    return NativeLearner(
        policy,
        pool,
        seed=config.seed,
        correction=config.correction,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        recall=config.recall,
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


def _torch_parts(config: TrainConfig, vec: VectorEnv, module: Any, stop: StopFlag | None) -> Parts:
    from .torch_learner import TorchLearner
    from .torch_policy import TorchActor

    batch = Batch(vec)
    policy = torch_policy(config, batch.spec, module)
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
        recall=config.recall,
        stop=stop,
        **_learning(config),
    )
    return Parts(policy, _stepped(config, batch, actor, stop), learner, None)


def torch_policy(config: TrainConfig, spec: EnvSpec, module: Any = None) -> Any:
    """A TorchPolicy with the initial weights of the run. Arguments as `make_parts` has them."""
    require_torch(config.policy)
    import torch

    from .torch_policy import TorchPolicy

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        made = _module(config, spec, module)
    threads = config.threads or available_cpus()
    if config.async_:  # the others are the actor's, and those of the processes that it waits for
        threads = max(1, threads // 2)
    return TorchPolicy(spec, made, device=config.device, bf16=config.bf16, threads=threads)


def require_torch(policy: str) -> None:
    """ConfigError in one sentence where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(
            f"policy {policy} needs PyTorch, which is not installed: pip install headrace[torch], "
            "or train with --policy native"
        )


def _module(config: TrainConfig, spec: EnvSpec, given: Any) -> Any:
    """The module of the run, as it starts out."""
    from torch import nn

    if config.policy == "torch":
        return _default_module(config, spec)
    if given is None and config.policy.startswith(OBJECT):
        raise ConfigError(
            f"policy {config.policy.removeprefix(OBJECT)!r} of this run was given as an object of "
            "Python: give it again, as policy=..."
        )
    if given is None:
        given = class_in(config.policy)
    if isinstance(given, nn.Module):
        return given
    made = given(spec.single_observation_space, spec.single_action_space)
    if not isinstance(made, nn.Module):
        raise ConfigError(
            f"policy {config.policy} made a {type(made).__name__}: expected a torch.nn.Module"
        )
    return made


def _default_module(config: TrainConfig, spec: EnvSpec) -> Any:
    """By space and settings; what the native policy has too starts from its very weights."""
    import torch

    from . import nn as blocks

    spaces = spec.single_observation_space, spec.single_action_space
    encoder: Any = None
    if blocks.image_shape(spec.single_observation_space) is not None:
        encoder = (
            blocks.ResNet(spaces[0])
            if config.encoder == "resnet"
            else blocks.Convolutions(spaces[0], layers=config.encoder)
        )
    elif config.encoder != "nature":
        raise ConfigError(
            f"encoder {config.encoder} is of pictures, and the observation is none: it is "
            f"{spaces[0]}"
        )
    if config.memory != "none":
        hidden = config.hidden[:-1] or config.hidden
        module: Any = blocks.Recurrent(
            *spaces, config.memory, config.hidden[-1], hidden, encoder, config.activation
        )
    elif encoder is not None:
        module = blocks.CNN(*spaces, encoder)
    else:
        module = blocks.MLP(*spaces, config.hidden, config.activation, config.separate)
    if config.memory in MEMORIES and encoder is None:
        native = native_policy(config, spec)
        start = native.to_tensors(native.weights(native.init(config.seed)))
        module.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
    return module


def class_in(text: str) -> Callable[[Any, Any], Any]:
    """What "net.py:Net" names, from the user's own file.

    Raises:
        ConfigError: no such file or name, or the file's own error.
    """
    file, _, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        raise ConfigError(f"policy {text!r}: there is no file {file}")
    known = importlib.util.spec_from_file_location(f"headrace_policy_{path.stem}", path)
    assert known is not None
    assert known.loader is not None
    module = importlib.util.module_from_spec(known)
    sys.modules[known.name] = module  # dataclasses and pickles of the file look it up
    try:
        known.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"policy {text!r}: {path.name} raised {error!r}") from error
    found = getattr(module, name, None)
    if not callable(found):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v) and _own(v, module)]
        there = f": it has {', '.join(classes)}" if classes else ""
        raise ConfigError(f"policy {text!r}: {path.name} has no class {name}{there}")
    return found


def _own(member: Any, module: Any) -> bool:
    return getattr(member, "__module__", None) == module.__name__


# ---- whose code runs ---------------------------------------------------------------------------


def check_policy(saved: TrainConfig, given: str | None) -> None:
    """Raises ConfigError unless the policy of a saved run can be made from what was given: its
    code is never taken from the run's own word."""
    own = saved.policy
    if given is not None and lasting_policy(given) != own:
        raise ConfigError(f"policy {given} is not this run's: it is {own}")
    if given is None and own not in ("native", "torch"):
        named = own.removeprefix(OBJECT)
        again = f"policy={named}" if own.startswith(OBJECT) else f"--policy {own}"
        raise ConfigError(
            f"policy {named} is code of yours, and opening a run executes none: name it again, "
            f"with {again}"
        )


def lasting_policy(policy: str) -> str:
    """The policy setting with the absolute path of its file."""
    file, _, name = policy.rpartition(":")
    return f"{Path(file).expanduser().resolve()}:{name}" if file.endswith(".py") else policy


def make_actor(config: TrainConfig, policy: Any) -> Actor:
    """Another actor of a run's policy (PolicySpec or TorchPolicy)."""
    if config.policy == "native":
        return NativeActor(policy, normalize_obs=config.normalize_obs)
    from .torch_policy import TorchActor

    return TorchActor(policy, normalize_obs=config.normalize_obs, device=config.actor_device)


# ---- playing -----------------------------------------------------------------------------------


class ActorPlayer:
    """A policy with its weights that plays any vector environment; it keeps the recurrent state
    of every row, so that `ended` must be told of the ends of episodes.

    Attributes:
        policy, weights: PolicySpec or TorchPolicy, and what it plays with.
    """

    def __init__(self, vec: VectorEnv, actor: Actor, policy: Any, weights: Any) -> None:
        self._codec, self._actor = Codec(vec), actor
        self.policy, self.weights = policy, weights
        self._rows = np.arange(vec.num_envs)
        self._state = np.zeros((vec.num_envs, actor.state_size), np.float32)

    def act(
        self,
        obs: Any,
        mask: NDArray[np.uint8] | None = None,
        *,
        greedy: bool = True,
        seed: int = 0,
        step: int = 0,
    ) -> Any:
        """Actions for batched observations of all rows, as `PolicySpec.act` gives them."""
        draw = Draw(seed_key(seed), self._rows, np.full(len(self._rows), step), greedy)
        raw = self._codec.pack(obs)
        mask = None if mask is None else mask.view(np.uint8)
        acted = self._actor.act(self.weights, raw, mask, self._state, draw)
        self._state = acted.state
        return self._codec.actions(acted.actions)

    def ended(self, rows: NDArray[np.bool_]) -> None:
        """The episodes of these rows have ended: bool [rows]."""
        self._state = np.where(rows[:, None], np.float32(0.0), self._state)


def make_player(
    config: TrainConfig, vec: VectorEnv, tensors: Mapping[str, NDArray[Any]], module: Any = None
) -> Any:
    """A run's policy with saved tensors, to play in `vec`.

    Raises:
        ArgumentError: tensors of another policy.
        ConfigError: see `make_parts`.
    """
    if config.policy == "native":
        policy = native_policy(config, Codec(vec).spec)
        if isinstance(vec, VecEnv):
            return policy.load(tensors)
        actor: Actor = NativeActor(policy, normalize_obs="obs.mean" in tensors)
        return ActorPlayer(vec, actor, policy, policy.from_tensors(tensors))
    require_torch(config.policy)
    from .torch_policy import TorchActor

    own = torch_policy(config.replace(device="cpu", bf16=False), Codec(vec).spec, module)
    actor = TorchActor(own, normalize_obs="obs.mean" in tensors)
    return ActorPlayer(vec, actor, own, own.from_tensors(tensors))
