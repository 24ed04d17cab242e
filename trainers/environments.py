"""The environments that a run's agent acts in, seeded from the run's one seed."""

from __future__ import annotations

import math
import re
from typing import Any

from ..engine.make import make_vec
from ..engine.processes.sources import is_python, makes_one_agent
from ..engine.processes.vector import ProcessVecEnv
from ..engine.resolve import resolve
from ..engine.vector import VecEnv
from .config import DEFAULT_NUM_ENVS, PYTHON_NUM_ENVS, TrainConfig
from .params import params_for
from .seeds import world_seeds

AnyVecEnv = VecEnv | ProcessVecEnv


def default_rows(config: TrainConfig, source: Any = None) -> int:
    """Rows of a batch where nobody said how many; source: as `environments` has it."""
    python = is_python(config.env if source is None else source)
    return whole_worlds(config, PYTHON_NUM_ENVS if python else DEFAULT_NUM_ENVS, source)


def whole_worlds(config: TrainConfig, rows: int, source: Any = None) -> int:
    """`rows` rounded up to a multiple of the agents of one world; as they are for Python
    environments, whose agents are known once they are made; of a list, as many as it holds."""
    env = config.env if source is None else source
    if isinstance(env, (list, tuple)):
        return len(env)
    if is_python(env):
        return rows
    defines = {n: int(v) for n, v in config.params if n.isupper() and not isinstance(v, str)}
    agents = resolve(env, defines=defines).spec.agents
    return -(-rows // agents) * agents


def environments(
    config: TrainConfig,
    rows: int,
    threads: int | None,
    seed: int,
    stream: int,
    autoreset_mode: str = "SameStep",
    *,
    source: Any = None,
) -> AnyVecEnv:
    """The run's environment, `rows` of it, with its parameters, each world with its own seed.

    source: the environment where it is an object of Python: a class or function that makes one,
        or a list of functions.
    """
    env = config.env if source is None else source
    python = is_python(env)
    params = params_for(env, config.params)
    vec = make_vec(
        env,
        rows,
        threads=None if python else threads,
        workers=_workers(config, threads) if python else None,
        caller_share=config.caller_share,
        autoreset_mode=autoreset_mode,
        batch_size=group_of(config, rows, env),
        copy=False,
        **params,
        wrappers=config.wrappers,
    )
    try:
        reset(vec, seed, stream)
    except BaseException:
        vec.close()
        raise
    return vec


def _workers(config: TrainConfig, threads: int | None) -> int | None:
    """How many worker processes: one less where this process does the work of one."""
    return threads if threads is None or not config.caller_share else max(1, threads - 1)


def reset(vec: AnyVecEnv, seed: int, stream: int) -> None:
    """Begins the first episodes again, each world's with its own seed."""
    seeds = world_seeds(seed, vec.worlds, stream)
    native = isinstance(vec, VecEnv)
    # what seeds Python environments take differs: 31 bits suit all
    vec.reset(seed=seeds if native else [int(s) >> 33 for s in seeds])


def group_of(config: TrainConfig, rows: int, env: Any) -> int | None:
    """How many of `rows` rows a policy acts for at once; None: all of them."""
    if config.batch_size is not None:
        return min(config.batch_size, rows)
    if config.caller_share == 1:  # nobody steps while this process acts: it does so at once
        return None
    return -(-rows // 2) if is_python(env) and makes_one_agent(env) else None


def name_of(vec: AnyVecEnv) -> str:
    """The environment's name, as folders may have it."""
    if isinstance(vec, VecEnv):
        return vec.spec_.name
    name = vec.spec.id if vec.spec is not None else vec.name
    return re.sub(r"[^\w.-]+", "-", name)


def frames_of(vec: AnyVecEnv, steps: int) -> int | None:
    """Frames of the game that so many steps were; None where they were not counted."""
    skip = vec.frame_skip if isinstance(vec, ProcessVecEnv) else 1
    return None if skip is None else steps * skip


def environment_metrics(vec: AnyVecEnv) -> dict[str, float]:
    """The environment's own metrics: each the mean over the worlds of the episode that ended
    last there. Empty where it has none, or before the first episode has ended."""
    names = vec.spec_.metric_names if isinstance(vec, VecEnv) else ()
    if not names:
        return {}
    arrays = vec.buffers.arrays
    ended = arrays["last_length"].reshape(vec.worlds, vec.agents).any(1)
    means = arrays["last_metrics"][ended].mean(0, dtype=float) if ended.any() else ()
    return {name: float(m) for name, m in zip(names, means, strict=False) if math.isfinite(m)}
