"""`headrace train`: trains an agent and says where it is."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from .figures import count, duration, frames_beside
from .flags import Verb
from .output import print_json
from .progress import display
from .trainers.begin import preset_of
from .trainers.config import TrainConfig, read_preset
from .trainers.run import LAST
from .trainers.settings import ConfigError, setting
from .trainers.train import TrainResult, train


@dataclasses.dataclass(frozen=True)
class TrainFlags(TrainConfig):
    """The flags of `headrace train`: every field of the configuration, and these."""

    env: str | None = setting(  # type: ignore[assignment]
        None,
        "a shipped environment (see headrace envs), a file of your own (my_env.c, my_env.py:Class) "
        "or gymnasium:ID; the preset beside it (my_env.toml), where there is one, replaces the "
        "defaults below",
        positional=True,
    )
    resume: str | None = setting(None, "continue the run in this folder (instead of ENV)")
    checkpoint: str = setting(
        LAST,
        "with --resume: continue from this checkpoint: last, best, or its number of steps; later "
        "ones go at the first that is saved",
    )
    json: bool = setting(False, "print the result as one JSON document on stdout")
    quiet: bool = setting(False, "show no progress")


VERB = Verb(
    "train",
    "Trains a PPO agent until the mean return of the last 100 episodes reaches --target, or for "
    "--steps steps (10 million unless a preset or you say otherwise: seconds for a small "
    "environment). Ctrl-C saves and stops; --resume continues.",
    TrainFlags,
    "headrace train my_env.c --steps 5_000_000 --hidden 64,64",
)


def main(argv: list[str]) -> int:
    """Runs the verb; the exit code is 0 whether or not the target was reached."""
    given = VERB.parse(argv, _help_defaults(argv))
    as_json, quiet = given.pop("json", False), given.pop("quiet", False)
    env, resume = given.pop("env", None), given.pop("resume", None)
    if env is None and resume is None:
        raise ConfigError(
            "ENV is missing: name a shipped environment (headrace envs lists them) or a file, "
            "such as headrace train cartpole"
        )
    if quiet:
        result = train(env, resume=resume, **given)
    else:
        with display() as observer:
            result = train(env, resume=resume, observer=observer, **given)
    if as_json:
        print_json(dataclasses.asdict(result))
    print(_sentence(result), file=sys.stderr)
    return 0


def _help_defaults(argv: list[str]) -> dict[str, Any]:
    """The values of the preset of the environment named before --help, for the help to show."""
    if not {"-h", "--help"} & set(argv) or argv[0].startswith("-"):
        return {}
    preset = preset_of(argv[0])
    return read_preset(preset) if preset else {}


def _sentence(result: TrainResult) -> str:
    frames = frames_beside(result.steps, result.frames)
    figures = (
        f"{count(result.steps)} steps{frames} in {duration(result.seconds)} ({count(result.sps)}/s)"
    )
    reward = "no episode finished" if result.return_mean is None else f"{result.return_mean:.4g}"
    if result.solved and result.solved_seconds is not None:
        head = f"solved in {duration(result.solved_seconds)}: return {reward}"
    elif result.return_target is not None:
        head = f"target {result.return_target:g} not reached: return {reward}"
    else:
        head = f"done: return {reward}"
    return f"{head}, {figures}; the run is in {result.run}"
