"""Our environments in other libraries' trainers.

Each function imports its library when it is called, and says in one sentence when it is not
installed:

    to_sb3(vec)          a VecEnv of Stable-Baselines3
    to_puffer(vec)       a PufferEnv of PufferLib
    to_parallel(env)     a parallel environment of PettingZoo
"""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError

__all__ = ["to_parallel", "to_puffer", "to_sb3"]


def to_sb3(vec: Any) -> Any:
    """A `stable_baselines3.common.vec_env.VecEnv` over a batch that `make_vec` made with
    autoreset_mode="SameStep"; see adapters/sb3.py."""
    try:
        from .sb3 import SB3VecEnv
    except ModuleNotFoundError as error:
        raise _missing(error, "stable-baselines3") from None
    return SB3VecEnv(vec)


def to_puffer(vec: Any, buf: Any = None) -> Any:
    """A `pufferlib.PufferEnv` over a batch that `make_vec` made with
    autoreset_mode="SameStep"; see adapters/puffer.py.

    buf: the arrays that PufferLib's vectorisation hands to an environment.
    """
    try:
        from .puffer import HeadracePufferEnv
    except ModuleNotFoundError as error:
        raise _missing(error, "pufferlib-core") from None
    return HeadracePufferEnv(vec, buf)


def to_parallel(env: Any, **params: Any) -> Any:
    """A `pettingzoo.ParallelEnv`: one world of a native environment, with all of its agents;
    see adapters/parallel.py.

    env, params: as `make_vec` takes them.
    """
    try:
        from .parallel import HeadraceParallelEnv
    except ModuleNotFoundError as error:
        raise _missing(error, "pettingzoo") from None
    return HeadraceParallelEnv(env, **params)


def _missing(error: ModuleNotFoundError, package: str) -> Exception:
    if error.name is None or error.name.startswith("headrace"):
        return error
    return ArgumentError(f"{error.name} is not installed: pip install {package}")
