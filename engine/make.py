"""make_vec: one call from the name of an environment to a batch of them."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import ArgumentError, ArgumentTypeError
from .processes.sources import is_python
from .processes.vector import ProcessVecEnv
from .resolve import resolve
from .spec import EnvSpec
from .vector import VecEnv

EXECUTORS = ("threads", "serial", "processes")


def make_vec(
    env: Any,
    num_envs: int,
    *,
    executor: str | None = None,
    threads: int | None = None,
    workers: int | None = None,
    caller_share: float = 0.0,
    autoreset_mode: Any = "NextStep",
    batch_size: int | None = None,
    copy: bool = True,
    final_obs: str = "dense",
    seed: Any = None,
    render_mode: str | None = None,
    checked: bool = False,
    start_method: str = "spawn",
    timeout: float | None = 300.0,
    restarts: int = 0,
    wrappers: Sequence[str | Callable[[Any], Any]] = (),
    **params: Any,
) -> VecEnv | ProcessVecEnv:
    """Makes a vector environment: `num_envs` rows that are stepped together.

    Args:
        env: a registered name ("cartpole") or a file ("my_env.c"): a native environment, stepped
            by threads. Or a Python one, stepped by worker processes: "gymnasium:ID",
            "pettingzoo:MODULE", "my_env.py:Class", a class or function that makes one, or a list
            of functions.
        num_envs: rows of the batch, one per agent; a multiple of the environment's agents.
        executor: "threads" (native), "processes" (Python), or "serial": in the calling thread.
        threads: how many threads step the batch; default: the CPUs that this process may use.
        workers: likewise for worker processes, each of which has a share of the environments.
        caller_share: processes: from 0 to 1, how many environments the calling process steps
            itself, of as many as a worker has. More than 0 saves the switching between the
            caller and a worker on one CPU, and gives up what a process of their own protects.
        autoreset_mode: "NextStep", "SameStep" or "Disabled", as in Gymnasium.
        batch_size: how many rows one `recv` returns; default: all.
        copy: whether what `reset` and `step` return stays as it is (True), or is a view that
            the next call overwrites (False).
        final_obs: "dense" arrays in the infos, or "object" arrays as Gymnasium has them (and
            float64 rewards, which Python environments always have).
        seed: used by the first `reset` that is given none.
        render_mode: "rgb_array" or None; for Python environments, one of theirs.
        checked: native: compile with HR_CHECK switched on; a failed check raises.
        start_method: processes: "spawn", "fork" or "forkserver".
        timeout: processes: seconds that one step, reset or call of one environment may take
            before its worker counts as lost; None: any.
        restarts: processes: how many lost workers are replaced, their episodes truncated.
        wrappers: Python: what is put around each environment, the innermost first: functions of
            an environment that return another, or names, such as "TimeLimit(200)" for one of
            gymnasium.wrappers, "module:Class", or "my_env.py:Class".
        **params: native: members of the environment's Params by name, one value or one per
            world; and, in capitals, compile-time sizes. Python: keyword arguments of the
            environment. Both: `max_steps`, the time limit in steps (0: none); for Python ones
            Gymnasium's TimeLimit, unless their own argument has this name.

    Raises:
        HeadraceError: one sentence that names the argument, its value and the way out.
    """
    if executor is not None and executor not in EXECUTORS:
        raise ArgumentError(f"executor is {executor!r}: expected one of {', '.join(EXECUTORS)}")
    shared = {
        "autoreset_mode": autoreset_mode,
        "batch_size": batch_size,
        "copy": copy,
        "final_obs": final_obs,
        "seed": seed,
        "render_mode": render_mode,
    }
    python = is_python(env)
    _refuse(
        python,
        executor,
        {"threads": threads, "checked": checked or None},
        {
            "workers": workers,
            "caller_share": caller_share or None,
            "wrappers": wrappers or None,
            "restarts": restarts or None,
        },
    )
    if python:
        return ProcessVecEnv(
            env,
            num_envs,
            executor=executor or "processes",
            workers=workers,
            caller_share=caller_share,
            start_method=start_method,
            timeout=timeout,
            restarts=restarts,
            wrappers=wrappers,
            **shared,
            **params,
        )
    defines = {name: _size(name, value) for name, value in params.items() if name.isupper()}
    values = {name: value for name, value in params.items() if not name.isupper()}
    found = resolve(env, defines=defines, checked=checked)
    _refuse_misspelt(values, found.spec)
    return VecEnv(
        found.library,
        found.spec,
        num_envs,
        executor=executor or "threads",
        threads=threads,
        checked=checked,
        max_steps=values.pop("max_steps", None),
        params=values,
        **shared,
    )


def _refuse_misspelt(values: Mapping[str, Any], spec: EnvSpec) -> None:
    """Raises where a name is no parameter but nearly an argument of `make_vec`."""
    params = [param.name for param in spec.params]
    arguments = [name for name in inspect.signature(make_vec).parameters if name != "params"]
    for name in values.keys() - {*params, "max_steps"}:
        near = difflib.get_close_matches(name, params + arguments, n=1)
        if near and near[0] in arguments:
            raise ArgumentError(
                f"{name!r} is no argument of make_vec, nor a parameter of the environment "
                f"{spec.name!r}: did you mean {near[0]!r}?"
            )


def _refuse(
    python: bool, executor: str | None, of_native: dict[str, Any], of_python: dict[str, Any]
) -> None:
    """Raises for an executor or an argument that belongs to the other kind of environment."""
    if python and executor == "threads":
        raise ArgumentError(
            "executor is 'threads', which is for native environments: Python ones need "
            "'processes' or 'serial'"
        )
    if not python and executor == "processes":
        raise ArgumentError(
            "executor is 'processes', which is for Python environments: native ones are faster "
            "with 'threads'"
        )
    for name, value in (of_native if python else of_python).items():
        if value is not None:
            kind, other = ("Python", "native") if python else ("native", "Python")
            instead = ": use workers" if name == "threads" else ""
            raise ArgumentError(
                f"{name} is {value!r}, but env is a {kind} environment: {name} is for {other} "
                f"ones{instead}"
            )


def make_gymnasium_vec(
    env: Any,
    num_envs: int = 1,
    *,
    max_episode_steps: int | None = None,
    time_limit: int = 0,
    **kwargs: Any,
) -> VecEnv | ProcessVecEnv:
    """What `gymnasium.make_vec` calls: Gymnasium's infos, rewards and name of the time limit.

    time_limit: for single environments only, which get the same arguments.
    """
    del time_limit
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
