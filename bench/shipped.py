"""Which of the shipped environments a benchmark is asked for."""

from __future__ import annotations

import difflib

from ..engine.processes.sources import is_python
from ..engine.registration import registered
from ..flags import UsageError

HELP = "names of shipped environments, such as pong,snake, or all"


def shipped() -> list[str]:
    """The names of the environments that ship, in order."""
    return sorted(name for name, known in registered().items() if known.shipped)


def chosen(text: str, *, python: bool = False) -> list[str]:
    """The names in `text`, what --envs was given; UsageError for one that does not ship, unless
    `python` allows it and it is a Python environment ("gymnasium:ID")."""
    known = shipped()
    if text == "all":
        return known
    names = [name for name in dict.fromkeys(text.replace(" ", "").split(",")) if name]
    for name in names:
        if name not in known and not (python and is_python(name)):
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"--envs: {name!r} does not ship; {hint}")
    if not names:
        raise UsageError(f"--envs is empty: expected {HELP}")
    return names
