"""Whose code a run may execute: what somebody has named on this computer, and nothing else.

The folder of a run is data that may come from anywhere, and its config.toml names the file of its
environment. A file is compiled or imported only if it is named again, or if it was named before,
by this user, to train: then its path and a digest of its contents are on record. Records are empty
files in the user's data folder ($HEADRACE_DATA_DIR, where that is set).
"""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

from ..engine.registration import registered
from .config import OBJECT
from .settings import ConfigError


def remember(env: str) -> None:
    """Puts on record that the user has named this environment. Where no record can be written,
    it will have to be named again."""
    if is_code(env):
        record = _record(env)
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()
        except OSError:
            return


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
                f"env {env.removeprefix(OBJECT)} of this run was given as an object of Python: "
                "give it again, as env=..."
            )
    elif given is not None:
        if lasting_env(given) != env:
            raise ConfigError(f"env {given} is not this run's: it is {env}")
        remember(env)
    elif is_code(env) and not _record(env).is_file():
        again = command.replace("{env}", shlex.quote(env))
        raise ConfigError(
            f"env {env} of this run is code that was never trained with on this computer, or has "
            f"changed since, and opening a run executes none: if you trust it, name it, with "
            f"{again}"
        )


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
    if kind in ("gymnasium", "pettingzoo"):
        return kind == "gymnasium" and ":" in rest  # gymnasium:module:ID imports the module
    return True


def _record(env: str) -> Path:
    known = registered().get(env)
    file = env if known is None else str(known.path)
    if not Path(file).is_file():
        file = file.rpartition(":")[0]  # my_env.py:Snake
    try:
        contents = Path(file).read_bytes()
    except OSError:
        contents = b""  # a module
    key = hashlib.sha256(f"{env}\0".encode() + contents).hexdigest()
    return _folder() / "named" / key


def _folder() -> Path:
    own = os.environ.get("HEADRACE_DATA_DIR")
    if own:
        return Path(own)
    import platformdirs

    return platformdirs.user_data_path("headrace")
