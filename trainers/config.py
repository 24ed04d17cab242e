"""The configuration of a training run: one frozen dataclass, presets, and their precedence.

default < preset (a TOML file beside the environment) < what the caller gave.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .settings import ConfigError, Pairs, check, required, setting, settings, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_NUM_ENVS = 256  # rows of the batch


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run. Every field may stand in a preset."""

    env: str = required("a shipped environment (cartpole) or a file of your own (my_env.c)")
    seed: int = setting(0, "seed of the whole run", low=0, high=2**63 - 1)
    steps: int = setting(
        10_000_000, "training stops after so many steps of agents, or at --target", low=1
    )
    target: float | None = setting(
        None, "mean return of the last 100 episodes at which training stops"
    )
    run_dir: str | None = setting(None, "folder of the run (default: runs/<env>-<time>)")
    num_envs: int | None = setting(
        None,
        f"rows of the batch, one per agent (default: {DEFAULT_NUM_ENVS}, rounded up to whole "
        "worlds)",
        low=1,
    )
    threads: int | None = setting(
        None, "threads that collect and learn (default: every CPU usable here)", low=1, high=4096
    )
    params: Pairs = setting(
        (), "parameters and compile-time sizes of the environment: name=number,name=number"
    )
    policy: str = setting("native", "which policy: native (an MLP on the CPU)")
    hidden: tuple[int, ...] = setting((64, 64), "widths of the hidden layers, such as 64,64")
    activation: str = setting(
        "tanh", "activation of the hidden layers: tanh or relu", choices=("tanh", "relu")
    )
    separate: bool = setting(False, "give the value function a network of its own")
    horizon: int = setting(32, "steps of each environment in one rollout", low=1, high=1_000_000)
    minibatches: int = setting(
        4, "parts into which a rollout is cut for learning", low=1, high=1_000_000
    )
    epochs: int = setting(2, "passes over each rollout", low=1, high=1_000_000)
    lr: float = setting(2e-3, "learning rate of Adam at the start", above=0)
    anneal_lr: bool = setting(True, "let the learning rate fall linearly to 0 at --steps")
    gamma: float = setting(0.99, "discount of a reward per step of delay", low=0, high=1)
    gae_lambda: float = setting(0.95, "lambda of generalised advantage estimation", low=0, high=1)
    clip: float = setting(0.2, "clip range of PPO's probability ratio", above=0)
    vf_clip: float = setting(
        0.0, "clip range of the value function around its old values (0: not clipped)", low=0
    )
    vf_coef: float = setting(0.5, "weight of the value loss", low=0)
    ent_coef: float = setting(0.005, "weight of the entropy bonus", low=0)
    max_grad_norm: float = setting(0.5, "longest gradient before it is scaled down", above=0)
    normalize_obs: bool = setting(True, "scale observations by their running mean and deviation")
    normalize_reward: bool = setting(
        True, "scale rewards by the running deviation of the discounted return"
    )
    normalize_advantage: bool = setting(
        True, "scale the advantages of each minibatch to mean 0 and deviation 1"
    )
    checkpoint_seconds: float = setting(60.0, "seconds between checkpoints", above=0)
    keep_checkpoints: int = setting(3, "how many of the newest checkpoints are kept", low=1)

    def __post_init__(self) -> None:
        check(self)
        if self.policy != "native":
            raise ConfigError(
                f"policy {self.policy!r} is not part of this version; native is the only one"
            )
        object.__setattr__(self, "params", tuple(self.params))

    def replace(self, **changes: Any) -> TrainConfig:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)


def configure(env: str, preset: Path | None, given: Mapping[str, Any]) -> TrainConfig:
    """The configuration of a run: defaults, then the preset's values, then those given.

    Raises ConfigError for names that do not exist and values that do not fit.
    """
    known = settings(TrainConfig)
    for name in given:
        reject_unknown(name, known)
    return TrainConfig(env=env, **{**(read_preset(preset) if preset else {}), **given})


def reject_unknown(name: str, known: Mapping[str, Any]) -> None:
    """Raises ConfigError unless `name` is a setting, with the nearest one that is."""
    if name not in known:
        raise unknown(name, known)


def read_preset(path: Path) -> dict[str, Any]:
    """The settings in a preset file, converted and checked; errors name the file."""
    known = {name: item for name, item in settings(TrainConfig).items() if name != "env"}
    values = {}
    for name, value in read_toml(path).items():
        try:
            reject_unknown(name, known)
            values[name] = known[name].convert(value)
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
