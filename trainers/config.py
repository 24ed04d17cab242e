"""The configuration of a training run: one frozen dataclass, presets, and their precedence.

default < preset (a TOML file beside the environment) < what the caller gave.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine._core import MAX_THREADS
from .policy import MEMORIES
from .settings import (
    ConfigError,
    Setting,
    Values,
    check,
    member,
    replaced,
    required,
    setting,
    settings,
    unknown,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_NUM_ENVS = 256  # rows of the batch
PYTHON_NUM_ENVS = 64  # the same of Python environments

OBJECT = "object:"  # begins a setting that stands for an object of Python

# Settings that only torch policies heed, as they are for the others.
TORCH_ONLY = {
    "device": "cpu",
    "actor_device": None,
    "bf16": False,
    "compile": False,
    "graphs": False,
    "encoder": "nature",
    "optimizer": "adam",
}


# Settings that only asynchronous training heeds, as they are for synchronous training.
ASYNC_ONLY = {
    "max_lag": 1,
    "replicas": 1,
    "inflight": True,
    "deterministic": False,
    "correction": "clip",
}


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run. Every field may stand in a preset."""

    env: str = required(
        "a shipped environment (cartpole), a file of your own (my_env.c), or one in Python "
        "(gymnasium:LunarLander-v3, my_env.py:Class)"
    )
    seed: int = setting(0, "seed of the whole run", low=0, high=2**63 - 1)
    steps: int = setting(
        10_000_000,
        "training stops after so many steps of agents (whole rollouts: rounded up), or at --target",
        low=1,
    )
    target: float | None = setting(
        None, "mean return of the last 100 episodes at which training stops"
    )
    run_dir: str | None = setting(None, "folder of the run (default: runs/<env>-<time>)")
    num_envs: int | None = setting(
        None,
        f"rows of the batch, one per agent (default: {DEFAULT_NUM_ENVS}, rounded up to whole "
        f"worlds; {PYTHON_NUM_ENVS} for Python environments)",
        low=1,
    )
    threads: int | None = setting(
        None,
        "threads that collect and learn (default: every CPU usable here)",
        low=1,
        high=MAX_THREADS,
    )
    caller_share: float = setting(
        0.0,
        "Python environments: how many of them the process that trains steps itself, of as many "
        "as a worker process has; for quick environments, which then are no longer kept apart",
        low=0,
        high=1,
    )
    params: Values = setting(
        (),
        "parameters and compile-time sizes of the environment: name=number,name=number; an array: "
        "name=FILE.npy; of Python environments also booleans and texts: slippery=false,map=8x8",
    )
    wrappers: tuple[str, ...] = setting(
        (),
        "what is put around each Python environment, the innermost first: wrappers of Gymnasium "
        "by name, module:Class, or my_env.py:Class, each with its arguments: "
        "TimeLimit(200),ClipReward(-1,1)",
    )
    policy: str = setting(
        "native",
        "which policy: native (an MLP or a MinGRU in C kernels on the CPU), torch (the same "
        "network, or convolutions for pictures, in PyTorch), or a torch module of your own: "
        "net.py:Net",
    )
    hidden: tuple[int, ...] = setting((64, 64), "widths of the hidden layers, such as 64,64")
    activation: str = setting(
        "tanh", "activation of the hidden layers: tanh or relu", choices=("tanh", "relu")
    )
    separate: bool = setting(False, "give the value function a network of its own")
    memory: str = setting(
        "none",
        "memory of the policy, as wide as the last of --hidden, behind the layers before it: none, "
        "mingru; or, for torch policies, lstm or gru",
        choices=("none", "lstm", "gru", "mingru"),
    )
    encoder: str = setting(
        "nature",
        "what makes features of a picture, for torch policies: nature (three convolutions, of "
        "grids two), small (two, a third of the time), resnet (residual ones, several times), or "
        "flat: the hidden layers, which suit grids of few cells",
        choices=("nature", "small", "resnet", "flat"),
    )
    recall: bool = setting(
        False,
        "policies with a memory: what is remembered when a rollout begins is computed anew, "
        "from the rollout before, by the weights that learn; else it is what the weights that "
        "acted remembered",
    )
    device: str = setting("cpu", "where a torch policy learns: cpu, cuda, cuda:1")
    actor_device: str | None = setting(None, "where a torch policy acts (default: where it learns)")
    bf16: bool = setting(False, "multiply in bfloat16 (torch policies)")
    compile: bool = setting(False, "compile the module with torch.compile (torch policies)")
    graphs: bool = setting(
        False, "on CUDA, record acting and learning as graphs and replay them (torch policies)"
    )
    optimizer: str = setting(
        "adam",
        "optimiser: adam; or, for torch policies, muon for the hidden layers' matrices",
        choices=("adam", "muon"),
    )
    target_kl: float = setting(
        0.0,
        "nats: an update ends after the epoch whose mean KL divergence is above (0: never)",
        low=0,
    )
    batch_size: int | None = setting(
        None,
        "rows for which a policy acts at once where it does not run inside the native engine "
        "(default: all; half of them for Python environments, which step meanwhile)",
        low=1,
    )
    fill: float = setting(
        1.0,
        "share of a rollout at which it is closed, so that slow environments hold nobody up, "
        "where the policy does not run inside the native engine",
        above=0,
        high=1,
    )
    horizon: int = setting(32, "steps of each environment in one rollout", low=1, high=1_000_000)
    minibatches: int = setting(
        4,
        "parts into which a rollout is cut for learning; at most one for each step of 64 rows",
        low=1,
        high=1_000_000,
    )
    epochs: int = setting(2, "passes over each rollout", low=1, high=1_000_000)
    lr: float = setting(2e-3, "learning rate at the start", above=0)
    lr_schedule: str = setting(
        "linear",
        "what becomes of the learning rate until --steps: constant, or down to 0, linear or cosine",
        choices=("constant", "linear", "cosine"),
        replaces=("anneal_lr", "schedule"),
    )
    gamma: float = setting(0.99, "discount of a reward per step of delay", low=0, high=1)
    gae_lambda: float = setting(0.95, "lambda of generalised advantage estimation", low=0, high=1)
    clip: float = setting(0.2, "clip range of PPO's probability ratio", above=0)
    vf_clip: float = setting(
        0.0,
        "clip range of the value function around its old values (0: not clipped)",
        low=0,
        replaces=("value_clip",),
    )
    vf_coef: float = setting(0.5, "weight of the value loss", low=0)
    ent_coef: float = setting(0.005, "weight of the entropy bonus", low=0)
    ent_coef_final: float | None = setting(
        None, "to which it changes, evenly, until --steps (default: it stays as it is)", low=0
    )
    max_grad_norm: float = setting(0.5, "longest gradient before it is scaled down", above=0)
    normalize_obs: bool = setting(True, "scale observations by their running mean and deviation")
    normalize_reward: bool = setting(
        True, "scale rewards by the running deviation of the discounted return"
    )
    normalize_advantage: bool = setting(
        True, "scale the advantages of each rollout to mean 0 and deviation 1"
    )
    async_: bool = setting(
        False, "collect the next rollout while learning from one (docs/async.md)"
    )
    max_lag: int = setting(
        1,
        "with --async: most updates by which weights that act may be older than those that learn",
        low=0,
        high=64,
    )
    replicas: int = setting(
        1,
        "with --async: actors, each with a share of the environments",
        low=1,
        high=4096,
    )
    inflight: bool = setting(
        True, "with --async: actors take new weights within a rollout, as soon as they are there"
    )
    deterministic: bool = setting(
        False, "with --async: a fixed schedule, which repeats bit for bit; none in flight"
    )
    correction: str = setting(
        "clip",
        "with --async: what is done about rows of older weights: none, clip, vtrace or decoupled",
        choices=("none", "clip", "vtrace", "decoupled"),
    )
    eval_every: int = setting(
        0,
        "steps between evaluations, in environments of their own, which find the best checkpoint "
        "(0: none)",
        low=0,
    )
    eval_episodes: int = setting(100, "whole episodes of each evaluation", low=1)
    checkpoint_seconds: float = setting(60.0, "seconds between checkpoints", above=0)
    tensorboard: bool = setting(False, "also log to TensorBoard, in <run>/tensorboard")
    wandb: bool = setting(
        False,
        "also log to Weights & Biases; WANDB_PROJECT, WANDB_ENTITY and WANDB_MODE=offline count",
    )
    keep_checkpoints: int = setting(
        3, "how many of the newest checkpoints are kept, beside the best", low=1
    )

    def __post_init__(self) -> None:
        check(self)
        self._check_policy()
        self._check_async()
        object.__setattr__(self, "params", tuple(self.params))

    def _check_policy(self) -> None:
        """Which policies there are, and what is for torch's alone."""
        if self.memory != "none" and self.separate:
            raise ConfigError(
                "memory is for a network that is not separate: give separate or memory, not both"
            )
        if self.recall and self.policy in ("native", "torch") and self.memory == "none":
            raise ConfigError("recall is of policies with a memory: add --memory mingru")
        if self.policy == "native":
            if self.memory not in MEMORIES:
                raise _of_torch("memory", self.memory)
            for name, default in TORCH_ONLY.items():
                given = getattr(self, name)
                if given != default:
                    raise _of_torch(name, given)
        elif self.policy != "torch" and not self.policy.startswith(OBJECT):
            file, colon, name = self.policy.rpartition(":")
            if not (colon and file.endswith(".py") and name):
                raise ConfigError(
                    f"policy {self.policy!r} is none: expected native, torch or a class in a "
                    "file of yours, such as net.py:Net"
                )

    def _check_async(self) -> None:
        """What is for asynchronous training alone."""
        for name, default in ASYNC_ONLY.items():
            given = getattr(self, name)
            if given != default and not self.async_:
                raise ConfigError(f"{name} {given} is of asynchronous training: add --async")

    def replace(self, **changes: Any) -> TrainConfig:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)


def _of_torch(name: str, given: Any) -> ConfigError:
    """For a setting that only torch policies heed."""
    return ConfigError(f"{name} {given} needs a torch policy: add --policy torch")


def label(value: Any) -> str:
    """What an object of Python, or the first of a list, is called among the settings."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return OBJECT + getattr(first, "__name__", type(first).__name__)


def configure(env: str, preset: Path | None, given: Mapping[str, Any]) -> TrainConfig:
    """The configuration of a run: defaults, then the preset's values, then those given.

    Raises ConfigError for names that do not exist and values that do not fit.
    """
    known = settings(TrainConfig)
    given = {member(name): value for name, value in given.items()}
    for name in given:
        reject_unknown(name, known)
    return TrainConfig(env=env, **_merged(read_preset(preset) if preset else {}, given))


def _merged(preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values before the preset's; of the environment's parameters, each by itself."""
    values = {**preset, **given}
    if "params" in preset and "params" in given:
        known = settings(TrainConfig)["params"]
        values["params"] = {**dict(preset["params"]), **dict(known.convert(given["params"]))}
    return values


def reject_unknown(name: str, known: Mapping[str, Setting]) -> None:
    """Raises ConfigError unless `name` is a setting, with the one that has replaced it, or the
    nearest one."""
    if name not in known:
        raise replaced(name, known) or unknown(name, known)


def read_preset(path: Path) -> dict[str, Any]:
    """The settings in a preset file, converted and checked; errors name the file."""
    known = {name: item for name, item in settings(TrainConfig).items() if name != "env"}
    values = {}
    for name, value in read_toml(path).items():
        try:
            reject_unknown(member(name), known)
            values[member(name)] = known[member(name)].convert(value)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """The contents of a TOML file; ConfigError when it cannot be read or is not TOML."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a valid TOML file: {error}") from error
