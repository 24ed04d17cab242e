"""What `reset` and `step` of an environment must take and return, said where they do not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ArgumentTypeError, kind_of

RESET = "reset(self, *, seed=None, options=None) -> (observation, info)"
STEP = "step(self, action) -> (observation, reward, terminated, truncated, info)"


def call_reset(env: Any, seed: int | None, options: Any) -> tuple[Any, Any]:
    """What `reset` returns: observation and info.

    Raises:
        ArgumentTypeError: it takes no seed or options, or returns something else.
    """
    try:
        given = env.reset(seed=seed, options=options)
    except TypeError:
        refusing = _refusing(env)
        if refusing is None:
            raise
        raise ArgumentTypeError(
            f"reset of {refusing} does not take seed and options: expected {RESET}"
        ) from None
    if isinstance(given, (tuple, list)) and len(given) == 2:
        obs, info = given
        if info is None or isinstance(info, Mapping):
            return obs, info
    raise ArgumentTypeError(f"reset of {_name(env)} returned {_shown(given)}: expected {RESET}")


def five_of(step: Callable[[Any], Any], given: Any) -> tuple[Any, ...]:
    """What `step` returned, as a tuple; ArgumentTypeError where that is not five values."""
    values = tuple(given) if hasattr(given, "__iter__") else ()
    if len(values) != 5:
        name = _name(getattr(step, "__self__", step))
        raise ArgumentTypeError(f"step of {name} returned {_shown(given)}: expected {STEP}")
    return values


def _refusing(env: Any) -> str | None:
    """Which of an environment and what it wraps has a `reset` without seed and options."""
    while env is not None:
        try:
            inspect.signature(env.reset).bind(seed=None, options=None)
        except TypeError:
            return type(env).__name__
        except ValueError:  # of some functions nothing is known
            pass
        env = getattr(env, "__dict__", {}).get("env")
    return None


def _name(env: Any) -> str:
    return type(getattr(env, "unwrapped", env)).__name__


def _shown(given: Any) -> str:
    return f"{len(given)} values" if isinstance(given, (tuple, list)) else kind_of(given)
