"""Wrappers of Gymnasium environments by name: what a preset or a command line can say."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..pyfile import module_of, split_class


@dataclass(frozen=True)
class NamedWrapper:
    """A wrapper with its arguments; it is looked up where it is needed, in a worker process."""

    name: str  # "TimeLimit" of gymnasium.wrappers, "module:Class", or "my_env.py:Class"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, env: Any) -> Any:
        """The environment with the wrapper around it; ArgumentError where one of Gymnasium's
        refuses it."""
        try:
            return self.function()(env, *self.args, **self.kwargs)
        except Exception as error:
            if ":" in self.name:  # somebody's own code: the traceback says more
                raise
            how = f"{type(error).__name__}: {error}"
            raise ArgumentError(f"wrapper {self.name!r} cannot go around {env}: {how}") from error

    def function(self) -> Callable[..., Any]:
        """What makes the wrapper.

        Raises:
            ArgumentError: there is none of this name.
        """
        file, name = split_class(self.name)
        if name:
            path = Path(file).expanduser()
            if not path.is_file():
                raise ArgumentError(f"wrapper {self.name!r}: there is no file {file}")
            return self._member(module_of(path), name)
        module, _, name = self.name.rpartition(":")
        if not module:
            return self._gymnasiums()
        try:
            return self._member(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise ArgumentError(
                f"wrapper {self.name!r} needs the module {error.name}, which is not installed"
            ) from None

    def check(self) -> None:
        """Raises ArgumentError unless the wrapper is there and takes its arguments."""
        function = self.function()
        try:
            inspect.signature(function).bind(None, *self.args, **self.kwargs)
        except ValueError:  # of some functions nothing is known
            return
        except TypeError as error:
            raise ArgumentError(f"wrapper {self.name!r}: {error}") from None

    def _member(self, module: Any, name: str) -> Callable[..., Any]:
        found = getattr(module, name, None)
        if not callable(found):
            where = self.name.rpartition(":")[0]
            near = difflib.get_close_matches(name, [n for n in vars(module) if n[0] != "_"], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ArgumentError(f"wrapper {self.name!r}: {where} has no class {name}{hint}")
        return found

    def _gymnasiums(self) -> Callable[..., Any]:
        from gymnasium import Wrapper
        from gymnasium import wrappers as known

        found = getattr(known, self.name, None)
        if inspect.isclass(found) and issubclass(found, Wrapper):
            return found
        near = difflib.get_close_matches(self.name, dir(known), 1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ArgumentError(
            f"wrapper {self.name!r} is none of gymnasium.wrappers{hint or ': name others as'}"
            + ("" if hint else " module:Class")
        )


def parse_wrapper(text: str) -> NamedWrapper:
    """The wrapper that a text names: NAME or NAME(VALUE, name=VALUE), values being literals.

    Raises:
        ArgumentError: a text that is nothing of the kind.
    """
    name, bracket, rest = text.strip().partition("(")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    try:
        if bracket:
            call = ast.parse(f"_({rest}", mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                raise ValueError  # A(1)(2) calls what A(1) gives
            if None in (each.arg for each in call.keywords):
                raise ValueError
            args = tuple(ast.literal_eval(value) for value in call.args)
            kwargs = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        if not name.strip():
            raise ValueError
    except (SyntaxError, TypeError, ValueError):  # TypeError: {[]: 1}
        raise ArgumentError(
            f"wrapper {text!r} cannot be read: expected a name, or one with plain values such as "
            "AtariPreprocessing(screen_size=84)"
        ) from None
    return NamedWrapper(name.strip(), args, kwargs)
