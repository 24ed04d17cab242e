"""The environments that a run's agent acts in, seeded from the run's one seed."""

from __future__ import annotations

import inspect
import math
from typing import Any

from ..engine.make import make_vec
from ..engine.resolve import resolve
from ..engine.vector import VecEnv
from .config import TrainConfig
from .seeds import world_seeds
from .settings import ConfigError


def whole_worlds(config: TrainConfig, rows: int) -> int:
    """`rows` rounded up to a multiple of the agents of one world."""
    defines = {name: int(value) for name, value in config.params if name.isupper()}
    agents = resolve(config.env, defines=defines).spec.agents
    return -(-rows // agents) * agents


def environments(
    config: TrainConfig,
    rows: int,
    threads: int | None,
    seed: int,
    stream: int,
    autoreset_mode: str = "SameStep",
) -> VecEnv:
    """The run's environment, `rows` of it, with its parameters, each world with its own seed."""
    params: dict[str, Any] = dict(config.params)
    for name in params.keys() & inspect.signature(make_vec).parameters.keys():
        raise ConfigError(f"params: {name} is no parameter of an environment")
    vec = make_vec(
        config.env, rows, threads=threads, autoreset_mode=autoreset_mode, copy=False, **params
    )
    vec.reset(seed=world_seeds(seed, vec.worlds, stream))
    return vec


def environment_metrics(vec: VecEnv) -> dict[str, float]:
    """The environment's own metrics: each the mean over the worlds of the episode that ended
    last there. Empty where it has none, or before the first episode has ended."""
    names = vec.spec_.metric_names
    if not names:
        return {}
    arrays = vec.buffers.arrays
    ended = arrays["last_length"].reshape(vec.worlds, vec.agents).any(1)
    means = arrays["last_metrics"][ended].mean(0, dtype=float) if ended.any() else ()
    return {name: float(m) for name, m in zip(names, means, strict=False) if math.isfinite(m)}
