"""From what a user names to functions that make one environment each, in a worker process."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import parse_count
from ..errors import ArgumentError, ArgumentTypeError, kind_of
from ..modules import files_of
from ..numba.define import options_of
from ..pyfile import module_of, split_class
from ..registration import registered
from .constructors import check_arguments, takes
from .wrappers import NamedWrapper, parse_wrapper

# Packages that register their environments with Gymnasium once they are imported, by the
# namespace or the start of an id.
_PROVIDERS = {"ALE/": "ale_py", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}


@dataclass(frozen=True)
class Source:
    """Environments to be made: `make[w]()` makes world w; of one function, all of them."""

    name: str
    make: Sequence[Callable[[], Any]]  # one, or one for each world
    spec: Any = None  # Gymnasium's EnvSpec, where the environment has one

    def of(self, world: int) -> Callable[[], Any]:
        """The function that makes world `world`."""
        return self.make[0 if len(self.make) == 1 else world]


def is_python(env: Any) -> bool:
    """Whether `env` names environments that are written in Python."""
    if isinstance(env, (str, os.PathLike)):
        text = os.fspath(env)
        if text.partition(":")[0] in ("gymnasium", "pettingzoo") and ":" in text:
            return True
        return _in_file(text) is not None
    if options_of(env):  # compiled by Numba
        return False
    return callable(env) or isinstance(env, (list, tuple))


def source_of(
    env: Any,
    params: Mapping[str, Any],
    render_mode: str | None = None,
    wrappers: Sequence[str | Callable[[Any], Any]] = (),
) -> Source:
    """How to make `env`.

    env: "gymnasium:ID", "pettingzoo:MODULE" (a parallel environment: "pettingzoo:
        butterfly.pistonball_v6"), "my_env.py:Class", a class or function, or a list of functions;
    params: keyword arguments of the environment; wrappers: functions of an environment that
        return another, or their names (see parse_wrapper), the innermost first.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown id, a package that is missing, a value
            that makes no environment.
    """
    given = dict(params)
    if render_mode is not None:
        given["render_mode"] = render_mode
    wraps = _wraps(wrappers)
    if isinstance(env, (str, os.PathLike)):
        env = os.fspath(env)
        kind, _, rest = env.partition(":")
        if kind == "gymnasium":
            spec = _gymnasium_spec(rest)
            if "max_steps" in given:  # Gymnasium has -1 for none
                given["max_episode_steps"] = _limit(given.pop("max_steps")) or -1
            _check_gymnasiums(env, spec, given)
            return Source(env, [_Make(_FromSpec(spec), given, wraps)], spec)
        if kind == "pettingzoo":
            return Source(env, [_Make(_parallel(rest), given, wraps)])
        member = _in_file(env)
        if member is None:
            raise ArgumentError(f"env {env!r} names no environment that is written in Python")
        return Source(member.name, [_made_by(member, member.name, given, wraps)])
    if isinstance(env, (list, tuple)):
        if not env:
            raise ArgumentError("env is an empty list: give a function for each environment")
        for at, each in enumerate(env):
            if not callable(each):
                raise ArgumentTypeError(
                    f"env[{at}] is {kind_of(each)}: expected a function that makes an environment"
                )
        return Source(
            _name_of(env[0]), [_made_by(each, _name_of(each), given, wraps) for each in env]
        )
    return Source(_name_of(env), [_made_by(env, _name_of(env), given, wraps)])


def _made_by(
    function: Callable[..., Any],
    name: str,
    given: Mapping[str, Any],
    wraps: tuple[Callable[[Any], Any], ...],
) -> _Make:
    """How to make what is the user's own, which takes the arguments; `max_steps` is a wrapper
    where it is none of them."""
    own = function.found() if isinstance(function, _Member) else function
    kwargs = dict(given)
    if "max_steps" in kwargs and not takes(own, "max_steps"):
        limit = _limit(kwargs.pop("max_steps"))
        wraps = (NamedWrapper("TimeLimit", (limit,)), *wraps) if limit else wraps
    check_arguments(own, name, kwargs)
    return _Make(function, kwargs, wraps)


def _limit(value: Any) -> int:
    return parse_count("max_steps", value, 0)


def _check_gymnasiums(name: str, spec: Any, given: Mapping[str, Any]) -> None:
    """Raises ArgumentError unless the environment's class, or gymnasium.make, takes these."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    made = inspect.signature(gymnasium.make).parameters
    own = {key: value for key, value in given.items() if key not in (*made, "render_mode")}
    if not own:
        return
    try:
        creator = spec.entry_point
        creator = creator if callable(creator) else load_env_creator(creator)
    except Exception:  # a package is missing: gymnasium.make says so
        return
    check_arguments(creator, name, {**spec.kwargs, **own})


def _wraps(wrappers: Sequence[str | Callable[[Any], Any]]) -> tuple[Callable[[Any], Any], ...]:
    """The wrappers as functions; those that are named are there, and take their arguments."""
    if isinstance(wrappers, str):
        raise ArgumentTypeError(
            f"wrappers is {wrappers!r}: expected a list, such as [{wrappers!r}]"
        )
    found: list[Callable[[Any], Any]] = []
    for at, wrapper in enumerate(wrappers):
        if isinstance(wrapper, str):
            named = parse_wrapper(wrapper)
            named.check()
            found.append(named)
        elif callable(wrapper):
            found.append(wrapper)
        else:
            raise ArgumentTypeError(
                f"wrappers[{at}] is {wrapper!r}: expected a function of an environment, or the "
                "name of a wrapper"
            )
    return tuple(found)


@dataclass(frozen=True)
class _Member:
    """A class or function of a user's file, which each process runs for itself."""

    path: Path
    name: str

    def __call__(self, **kwargs: Any) -> Any:
        return self.found()(**kwargs)

    def found(self) -> Any:
        return getattr(module_of(self.path), self.name)


def _in_file(text: str) -> _Member | None:
    """What "my_env.py:Class", or "my_env.py" with one gymnasium.Env, names; None where it is no
    such file, or one with an environment for Numba.

    Raises:
        EnvDefinitionError: the file cannot be run; ArgumentError: it has no such class.
    """
    file, name = split_class(text)
    path = Path(file).expanduser()
    if text in registered() or path.suffix != ".py" or not path.is_file():
        return None
    module = module_of(path)
    own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    native = [n for n, value in own.items() if options_of(value)]
    plain = [n for n, value in own.items() if makes_one_agent(value)]
    if not name and (native or not plain):
        return None
    if not name and len(plain) > 1:
        raise ArgumentError(
            f"{path.name} defines {len(plain)} environments ({', '.join(plain)}): say which one, "
            f"{path.name}:{plain[0]}"
        )
    name = name or plain[0]
    found = getattr(module, name, None)
    if options_of(found):
        return None
    if not callable(found):
        there = ", ".join([*native, *plain]) or "none"
        raise ArgumentError(f"{path.name} has no environment {name}: it has {there}")
    return _Member(path.resolve(), name)


def makes_one_agent(env: Any) -> bool:
    """Whether each environment of `env` is known to be that of a single agent."""
    import gymnasium

    if isinstance(env, str):
        member = None if env.startswith(("gymnasium:", "pettingzoo:")) else _in_file(env)
        env = member.found() if member else env
        if isinstance(env, str):
            return env.startswith("gymnasium:")
    known = inspect.isclass(env) and issubclass(env, gymnasium.Env)
    return known and not issubclass(env, gymnasium.Wrapper)


@dataclass(frozen=True)
class _Make:
    """Makes one environment and wraps it."""

    function: Callable[..., Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    wrappers: tuple[Callable[[Any], Any], ...] = ()

    def __call__(self) -> Any:
        env = self.function(**self.kwargs)
        for wrapper in self.wrappers:
            env = wrapper(env)
        return env


@dataclass(frozen=True)
class _FromSpec:
    """gymnasium.make of a spec, which a process knows that did not register its id.

    Without Gymnasium's checker, which looks at an environment's first step: it costs a call
    in every step after.
    """

    spec: Any

    def __call__(self, **kwargs: Any) -> Any:
        import gymnasium

        return gymnasium.make(self.spec, disable_env_checker=True, **kwargs)


def _gymnasium_spec(env_id: str) -> Any:
    import gymnasium

    for start, package in _PROVIDERS.items():
        if env_id.startswith(start) and env_id not in gymnasium.registry:
            if importlib.util.find_spec(package) is None:
                raise ArgumentError(
                    f"env 'gymnasium:{env_id}' needs the package {package}: pip install "
                    f"{package.replace('_', '-')}"
                )
            gymnasium.register_envs(importlib.import_module(package))
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ArgumentError(f"env 'gymnasium:{env_id}' cannot be found: {first}") from None


def module_of_pettingzoo(name: str) -> str:
    """The module that "pettingzoo:NAME" imports: PettingZoo's own, or else the one that has this
    name. Nothing is executed to tell."""
    own = f"pettingzoo.{name}"
    return name if files_of(own) is None else own


def _parallel(name: str) -> Callable[..., Any]:
    """The `parallel_env` of a module of PettingZoo, or of any module with such a function."""
    if importlib.util.find_spec("pettingzoo") is None:
        raise ArgumentError(f"env 'pettingzoo:{name}' needs PettingZoo: pip install pettingzoo")
    module = module_of_pettingzoo(name)
    found = None
    try:
        if all(map(str.isidentifier, module.split("."))):
            found = getattr(importlib.import_module(module), "parallel_env", None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ArgumentError(
                f"env 'pettingzoo:{name}' needs the package {error.name}, which is not installed"
            ) from None
    if found is None:
        raise ArgumentError(
            f"env 'pettingzoo:{name}' is no module with a function parallel_env: give one such as "
            "'pettingzoo:butterfly.pistonball_v6'"
        )
    return found


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
