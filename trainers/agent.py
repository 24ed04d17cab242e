"""The agent of a run: its policy, ready to play in environments like those it was trained in."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from .build import hash_of, warn_of_other_source
from .codec import Codec
from .config import TrainConfig, label
from .environments import AnyVecEnv, environments, whole_worlds
from .player import Player
from .policies import acting, check_policy
from .run import LAST, Run
from .seeds import EVALUATION
from .settings import check, required, setting
from .trust import check_env, check_wrappers


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """Whose agent."""

    run: str = required("the folder of the run, as train printed it")
    checkpoint: str = setting(LAST, "the checkpoint to load: last, best, or its number of steps")
    env: str | None = setting(
        None,
        "the environment's file, where the run has one of your own with which nobody has trained "
        "on this computer, or which has changed since",
    )
    wrappers: tuple[str, ...] | None = setting(
        None,
        "the wrappers, all that the run has, where some are code of your own with which nobody has "
        "trained on this computer, or which has changed since",
    )
    policy: str | None = setting(
        None, "the policy's file, net.py:Net, where the run has one of your own"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint", str(self.checkpoint))  # a number will do
        check(self)


@dataclasses.dataclass(frozen=True)
class Agent:
    """The policy of a run and the environments it is to act in, just reset."""

    trained: TrainConfig  # the run's configuration
    checkpoint: int  # step after which the policy was saved
    vec: AnyVecEnv
    player: Player


def load_agent(
    config: AgentConfig,
    rows: int,
    seed: int = 0,
    threads: int | None = None,
    autoreset_mode: str = "SameStep",
    module: Any = None,
    source: Any = None,
    verb: str = "eval",
) -> Agent:
    """The agent that `config` names, in `rows` environments, rounded up to whole worlds.

    Args:
        seed, threads: of the environments.
        module, source: policy and environment of a run that was given objects of Python.
        verb: of the command line, for messages.

    Raises:
        RunError: no run there, no such checkpoint, or a damaged one.
        ConfigError: the run's policy, environment or wrappers are code, which must be given again.
    """
    folder = Run.open(config.run)
    trained, before = folder.read_config()
    check_policy(trained, config.policy, module)
    quoted = shlex.quote(str(folder.path))
    given = config.env if source is None else label(source)
    again = f"headrace {verb} {quoted}"
    check_env(trained.env, given, f"{again} --env {{env}}")
    check_wrappers(trained.wrappers, config.wrappers, f"{again} --wrappers {{wrappers}}")
    step = folder.find(config.checkpoint)
    rows = whole_worlds(trained, rows, source)
    vec = environments(trained, rows, threads, seed, EVALUATION, autoreset_mode, source=source)
    try:
        warn_of_other_source(trained, before, hash_of(vec))
        made = acting(trained, Codec.of(vec).spec, folder, step, module)
        return Agent(trained, step, vec, Player(vec, made))
    except BaseException:
        vec.close()
        raise


def objects_in(given: dict[str, Any]) -> tuple[Any, Any]:
    """Takes (policy, environment) out of some settings where they are objects of Python rather
    than names; None for the others."""
    return tuple(  # type: ignore[return-value]
        None if isinstance(given.get(name), (str, Path, type(None))) else given.pop(name)
        for name in ("policy", "env")
    )
