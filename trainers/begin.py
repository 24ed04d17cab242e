"""How a session comes to be: from settings, or from the folder of a run."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.errors import ArgumentError
from ..engine.registration import registered
from .build import RunWarning, hash_of, hash_of_file, refuse_other_source
from .codec import Codec
from .config import OBJECT, TrainConfig, configure, reject_unknown
from .encoding import TensorError, saved_divisors
from .environments import AnyVecEnv, default_rows, environments, name_of
from .loggers import require_loggers
from .policies import check_policy, lasting_policy, require_torch
from .run import LAST, Run, RunError
from .seeds import TRAINING
from .session import Session
from .settings import ConfigError, is_array, settings
from .trust import check_env, check_wrappers, lasting_env, lasting_wrapper, remember

PRESETS = Path(__file__).parent / "presets"  # of environments that are not ours

# What may change when a run is resumed.
RESUMABLE = (
    "steps",
    "target",
    "threads",
    "device",
    "actor_device",
    "eval_every",
    "eval_episodes",
    "checkpoint_seconds",
    "keep_checkpoints",
    "tensorboard",
    "wandb",
)


class Objects(NamedTuple):
    """What was given as an object of Python rather than by name; None: by name."""

    env: Any = None  # a class or function that makes an environment, or a list of functions
    policy: Any = None  # a torch module, or a function that makes one


def preset_of(env: str | Path) -> Path | None:
    """The preset beside the environment's file: cartpole.toml beside cartpole.c, if it is there;
    of a Gymnasium id, one in trainers/presets with the name of the environment or its family."""
    kind, _, name = str(env).partition(":")
    if kind == "gymnasium":
        for own in re.split("-v[0-9]+$", name)[0], re.split("[/-]", name)[0]:
            preset = PRESETS / f"{own}.toml"
            if re.fullmatch("[A-Za-z0-9]+", own) and preset.is_file():
                return preset
        return None
    known = registered().get(str(env))
    source = known.path if known else Path(env).expanduser()
    preset = source.with_suffix(".toml")
    return preset if source.suffix and preset.is_file() else None


def begun(
    env: str, given: Mapping[str, Any], objects: Objects, base: TrainConfig | None = None
) -> Session:
    """A new run: configured, its environments made, its folder with config.toml written.

    base: settings that stand in the place of the defaults and the preset.
    """
    config = _configured(env, given, base)
    require_loggers(config)
    if config.policy != "native":
        require_torch(config.policy)
    if config.num_envs is None:
        config = config.replace(num_envs=default_rows(config, objects.env))
    try:
        vec = _environments(config, objects.env)
    except ArgumentError as error:
        preset = None if base is not None or "params" in given else preset_of(env)
        raise _blamed(error, config, preset) from None
    try:
        session = Session(config, vec, objects.policy, objects.env)
        if objects.env is None:
            session.run = Run.create(config, name_of(vec))
            remember(config.env, config.wrappers)
        else:
            session.run = Run.create(config, config.env.removeprefix(OBJECT))
        session.run.write_config(config, session.build_table())
        session.run.write_environment(Codec.of(vec))
    except BaseException:
        vec.close()
        raise
    return session


def _configured(env: str, given: Mapping[str, Any], base: TrainConfig | None) -> TrainConfig:
    """The settings of a new run, its files by paths that last."""
    name = lasting_env(env)
    if base is None:
        config = configure(name, preset_of(env), given)
    else:
        for key in given:
            reject_unknown(key, settings(TrainConfig))
        config = base.replace(env=name, **given)
    if config.policy == "native" and "encoder" in given:  # what is its default elsewhere, too
        raise ConfigError(f"encoder {config.encoder} needs a torch policy: add --policy torch")
    params = tuple((n, str(Path(str(v)).resolve()) if is_array(v) else v) for n, v in config.params)
    wrappers = tuple(map(lasting_wrapper, config.wrappers))
    return config.replace(policy=lasting_policy(config.policy), params=params, wrappers=wrappers)


def _blamed(error: ArgumentError, config: TrainConfig, preset: Path | None) -> ArgumentError:
    """The error, with the preset's name where a parameter in it is wrong."""
    named = set(re.findall(r"\w+", str(error)))
    if preset is None or not named & {name for name, _ in config.params}:
        return error
    return ConfigError(f"{preset}: {error}")


def resumed(
    run: Run, env: str | None, given: dict[str, Any], objects: Objects, checkpoint: str = LAST
) -> Session:
    """A run continued from one of its checkpoints, see `Run.find`."""
    saved, before = run.read_config()
    check_policy(saved, given.pop("policy", None))
    if env is not None and lasting_env(env) != saved.env:
        raise ConfigError(f"env cannot change when a run is resumed: it is {saved.env}")
    refuse_other_source(saved, before, hash_of_file(saved))
    resume = f"--resume {shlex.quote(str(run.path))}"
    check_env(saved.env, env, f"headrace train {{env}} {resume}")
    wrappers = given.pop("wrappers", None)
    check_wrappers(saved.wrappers, wrappers, f"headrace train {resume} --wrappers {{wrappers}}")
    for name in given:
        reject_unknown(name, settings(TrainConfig))
        if name not in RESUMABLE:
            raise ConfigError(
                f"{name} cannot change when a run is resumed; only {', '.join(RESUMABLE)} can"
            )
    config = saved.replace(**given)
    require_loggers(config)
    step = run.find(checkpoint)
    state, tensors = run.load_state(step), run.load_policy(step)
    vec = _environments(config, objects.env)
    try:
        refuse_other_source(saved, before, hash_of(vec))
        divisors = saved_divisors(tensors, Codec.of(vec).spec)
        session = Session(config, vec, objects.policy, objects.env, divisors)
        session.run = run
        run.sweep()
        _restore(session, state, run.checkpoint_path(step))
        _warn_of_build(before, session.build_table())
        run.write_config(config, session.build_table())
        run.write_environment(Codec.of(vec))
    except TensorError as error:
        vec.close()
        raise RunError(f"{run.checkpoint_path(step)} does not fit its run: {error}") from None
    except BaseException:
        vec.close()
        raise
    return session


def _restore(session: Session, state: Mapping[str, Any], checkpoint: Path) -> None:
    """RunError where the state is not of this run."""
    try:
        session.restore(state)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{checkpoint} does not fit its run or is damaged: {error}") from error


def _warn_of_build(before: Mapping[str, str], build: Mapping[str, str]) -> None:
    """Warns where a run goes on with other code, which may change its weights."""
    changed = [name for name, value in build.items() if before and before.get(name) != value]
    if changed:
        warnings.warn(
            f"the run was begun with another build ({', '.join(changed)} changed): it goes on, but "
            "its weights are not those of an uninterrupted run",
            RunWarning,
            stacklevel=5,
        )


def _environments(config: TrainConfig, source: Any) -> AnyVecEnv:
    rows = config.num_envs or default_rows(config, source)
    return environments(config, rows, config.threads, config.seed, TRAINING, source=source)
