"""Whose code a run may execute: what somebody has named on this computer, and nothing else.

The folder of a run is data that may come from anywhere, and its config.toml names the file or
module of its environment, and those of wrappers around it. A file is compiled or imported only if
it is named again, or if it was named before, by this user, to train: then its path and a digest of
its contents are on record. Of a module that goes for its file and those of the packages it is in;
one without such files is on no record, and is named each time. Records are empty files in the
user's data folder ($HEADRACE_DATA_DIR, where that is set).
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..engine.modules import files_of
from ..engine.processes.sources import module_of_pettingzoo
from ..engine.processes.wrappers import parse_wrapper
from ..engine.pyfile import split_class
from ..engine.registration import registered
from .config import OBJECT
from .settings import ConfigError

# Modules whose wrappers are in presets.
_KNOWN = ("minigrid.wrappers",)


def remember(env: str, wrappers: Sequence[str] = ()) -> None:
    """Puts on record that the user has named this environment and these wrappers. Where no record
    can be written, they will have to be named again."""
    code = [_files_of_env(env)] if env and is_code(env) else []
    code += map(_files_of_wrapper, _code_among(wrappers))
    try:
        for file in (file for files in code for file in files or ()):
            record = _record(file)
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()
    except OSError:
        return


def _remembered(files: Sequence[Path] | None) -> bool:
    """Whether these are on record as they are now; None: files that nobody knows."""
    try:
        return files is not None and all(_record(file).is_file() for file in files)
    except OSError:  # a file that cannot be read
        return False


def check_env(env: str, given: str | None, command: str) -> None:
    """Raises ConfigError unless the environment of a saved run may be executed.

    Args:
        env: as the run has it.
        given: as the user has named it now, or the label of an object; None: not at all.
        command: how to name it, {env} standing for the environment.
    """
    if env.startswith(OBJECT):
        if given != env:
            raise ConfigError(
                f"env {env.removeprefix(OBJECT)} of this run was given as an object of Python, "
                "which no command line can name: in Python, give it again, as env=..., such as "
                "headrace.evaluate(run, env=...)"
            )
    elif given is not None:
        if lasting_env(given) != env:
            raise ConfigError(f"env {given} is not this run's: it is {env}")
        remember(env)
    elif is_code(env) and not _remembered(_files_of_env(env)):
        again = command.replace("{env}", shlex.quote(env))
        raise ConfigError(
            f"env {env} of this run is code that was never trained with on this computer, or has "
            f"changed since, and opening a run executes none: if you trust it, name it, with "
            f"{again}"
        )


def check_wrappers(wrappers: Sequence[str], given: Sequence[str] | None, command: str) -> None:
    """Raises ConfigError unless the wrappers of a saved run may be executed.

    Args:
        wrappers: as the run has them.
        given: as the user has named them now; None: not at all.
        command: how to name them, {wrappers} standing for the list.
    """
    if given is not None:
        again = tuple(map(lasting_wrapper, given))
        if again != tuple(wrappers):
            raise ConfigError(
                f"wrappers {_listed(again)} are not this run's: they are {_listed(wrappers)}"
            )
        remember("", again)
        return
    for name in _code_among(wrappers):
        if not _remembered(_files_of_wrapper(name)):
            again_all = command.replace("{wrappers}", shlex.quote(_listed(wrappers)))
            raise ConfigError(
                f"wrapper {name} of this run is code that was never trained with on this computer, "
                "or has changed since, and opening a run executes none: if you trust it, name it, "
                f"with {again_all}"
            )


def _listed(wrappers: Sequence[str]) -> str:
    return ",".join(wrappers) or "none"


def lasting_wrapper(text: str) -> str:
    """A wrapper with the absolute path of its file, where it is of one."""
    name = parse_wrapper(text).name
    file, member = split_class(name)
    if not member:
        return text.strip()
    return f"{Path(file).expanduser().resolve()}:{member}{text.strip()[len(name) :]}"


def _code_among(wrappers: Sequence[str]) -> list[str]:
    """The names of those that are neither Gymnasium's nor in presets."""
    names = [parse_wrapper(text).name for text in wrappers]
    return [name for name in names if ":" in name and name.rpartition(":")[0] not in _KNOWN]


def lasting_env(env: str) -> str:
    """What the environment is called in every folder and process: a shipped name, else the
    absolute path of its file (my_env.py:Snake keeps what follows the colon)."""
    known = registered().get(env)
    if known is not None:
        return env if known.shipped else str(known.path)
    file, colon, member = env.partition(":") if not Path(env).is_file() else (env, "", "")
    path = Path(file).expanduser()
    return f"{path.resolve()}{colon}{member}" if path.is_file() else env


def is_code(env: str) -> bool:
    """Whether an environment is a file or a module of somebody's, not one that is shipped or
    that an installed package has registered with Gymnasium."""
    known = registered().get(env)
    if known is not None:
        return not known.shipped
    kind, _, rest = env.partition(":")
    if kind == "gymnasium":
        return ":" in rest  # gymnasium:module:ID imports the module
    if kind == "pettingzoo":
        return module_of_pettingzoo(rest) == rest
    return True


def _files_of_env(env: str) -> list[Path] | None:
    """The files that an environment of code executes, without what they import."""
    known = registered().get(env)
    if known is not None:
        return [known.path]
    kind, _, rest = env.partition(":")
    if kind == "gymnasium":
        return files_of(rest.partition(":")[0])
    if kind == "pettingzoo":
        return files_of(rest)
    # my_env.py:Snake; what else the file has is trusted with it
    return [Path(env if Path(env).is_file() else split_class(env)[0])]


def _files_of_wrapper(name: str) -> list[Path] | None:
    file, member = split_class(name)
    return [Path(file)] if member else files_of(name.rpartition(":")[0])


def _record(file: Path) -> Path:
    """Of a file as it is now; OSError where it cannot be read."""
    key = hashlib.sha256(f"{file}\0".encode() + file.read_bytes()).hexdigest()
    return _folder() / "named" / key


def _folder() -> Path:
    own = os.environ.get("HEADRACE_DATA_DIR")
    if own:
        return Path(own)
    import platformdirs

    return platformdirs.user_data_path("headrace")
