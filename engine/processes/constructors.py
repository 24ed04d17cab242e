"""The arguments that what makes an environment takes, known before a process makes it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ArgumentError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_arguments(function: Callable[..., Any], name: str, given: Mapping[str, Any]) -> None:
    """Raises ArgumentError unless `function` takes the keyword arguments.

    name: of the environment, for the message.
    """
    known = _signature(function)
    if known is None:
        return
    try:
        known.bind(**given)
    except TypeError as error:
        own = [each for each, rule in known.parameters.items() if rule.kind in _NAMED]
        there = f"its parameters are {', '.join(own)}" if own else "it takes none"
        if any(rule.kind is inspect.Parameter.VAR_KEYWORD for rule in known.parameters.values()):
            wrong = None
        else:
            wrong = next((each for each in given if each not in own), None)
        if wrong is None:  # one that is missing
            raise ArgumentError(f"environment {name!r}: {error}; {there}") from None
        near = difflib.get_close_matches(wrong, own, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ArgumentError(
            f"environment {name!r} has no parameter {wrong}: {there}{hint}"
        ) from None


def takes(function: Callable[..., Any], argument: str) -> bool:
    """Whether `function`, or what a class passes its arguments on to, takes the argument."""
    known = _signature(function)
    if known is None:
        return True
    rest = any(rule.kind is inspect.Parameter.VAR_KEYWORD for rule in known.parameters.values())
    if argument in known.parameters or not rest:
        return argument in known.parameters
    if not inspect.isclass(function):
        return True
    made = (vars(base).get("__init__") for base in function.__mro__)
    return any(argument in inspect.signature(init).parameters for init in made if init)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # of some functions nothing is known
        return None
