"""make_vec: one call from the name of an environment to a batch of them."""

from __future__ import annotations

import operator
from typing import Any

from .errors import ArgumentError, ArgumentTypeError
from .resolve import resolve
from .vector import VecEnv

EXECUTORS = ("threads", "serial", "processes")


def make_vec(
    env: Any,
    num_envs: int,
    *,
    executor: str | None = None,
    threads: int | None = None,
    autoreset_mode: Any = "NextStep",
    batch_size: int | None = None,
    copy: bool = True,
    final_obs: str = "dense",
    seed: Any = None,
    render_mode: str | None = None,
    checked: bool = False,
    **params: Any,
) -> VecEnv:
    """Makes a vector environment: `num_envs` rows that are stepped together.

    Args:
        env: a registered name ("cartpole") or a C file ("my_env.c").
        num_envs: rows of the batch, one per agent; a multiple of the environment's agents.
        executor: "threads" (default) or "serial".
        threads: how many threads step the batch; default: the CPUs that this process may use.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", as in Gymnasium.
        batch_size: how many rows one `recv` returns; default: all.
        copy: whether what `reset` and `step` return stays as it is (True), or is a view that
            the next call overwrites (False).
        final_obs: "dense" arrays in the infos, or "object" arrays as Gymnasium has them (and
            float64 rewards).
        seed: used by the first `reset` that is given none.
        render_mode: "rgb_array" or None.
        checked: compile with HR_CHECK switched on; a failed check raises.
        **params: members of the environment's Params by name, one value or one per world;
            `max_steps`, the time limit in steps (0: none); and, in capitals, compile-time sizes.

    Raises:
        HeadraceError: one sentence that names the argument, its value and the way out.
    """
    if executor is not None and executor not in EXECUTORS:
        raise ArgumentError(f"executor is {executor!r}: expected one of {', '.join(EXECUTORS)}")
    if executor == "processes":
        raise ArgumentError(
            "executor is 'processes', which this version does not have yet: use 'threads' or "
            "'serial'"
        )
    defines = {name: _size(name, value) for name, value in params.items() if name.isupper()}
    values = {name: value for name, value in params.items() if not name.isupper()}
    found = resolve(env, defines=defines, checked=checked)
    return VecEnv(
        found.library,
        found.spec,
        num_envs,
        executor=executor or "threads",
        threads=threads,
        autoreset_mode=autoreset_mode,
        batch_size=batch_size,
        copy=copy,
        final_obs=final_obs,
        seed=seed,
        render_mode=render_mode,
        checked=checked,
        max_steps=values.pop("max_steps", None),
        params=values,
    )


def make_gymnasium_vec(
    env: Any, num_envs: int = 1, *, max_episode_steps: int | None = None, **kwargs: Any
) -> VecEnv:
    """What `gymnasium.make_vec` calls: Gymnasium's infos, rewards and name of the time limit."""
    if max_episode_steps is not None:
        kwargs["max_steps"] = max_episode_steps
    kwargs.setdefault("final_obs", "object")
    return make_vec(env, num_envs, **kwargs)


def _size(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{name} is {value!r}: names in capitals are compile-time sizes, give an integer"
        ) from None
