"""`headrace new`: writes a small environment, its preset and its test into the current folder."""

from __future__ import annotations

import dataclasses
import importlib.util
import keyword
import re
from pathlib import Path

from .engine.errors import ArgumentError, HeadraceError
from .engine.registration import registered
from .flags import Verb
from .trainers.settings import required, setting

# Whole environments called demo (class Demo), which the tests check and train.
TEMPLATES = Path(__file__).parent / "templates"
SUFFIXES = {"c": ".c", "cython": ".pyx", "numba": ".py"}

_C_WORDS = frozenset(
    "auto bool break case char const continue default do double else enum extern false float for "
    "goto if inline int long main register restrict return short signed sizeof static struct "
    "switch true typedef union unsigned void volatile while class delete friend new operator "
    "private protected public template this throw typename using virtual namespace".split()
)


@dataclasses.dataclass(frozen=True)
class NewFlags:
    """The flags of `headrace new`."""

    name: str = required("what the environment is called: small letters, digits and _")
    lang: str = setting("c", "its language: c, cython or numba", choices=tuple(SUFFIXES))


VERB = Verb(
    "new",
    "Writes a small environment that works, its preset (NAME.toml) and its test (test_NAME.py) "
    "into the current folder, to start from. It overwrites nothing.",
    NewFlags,
    "headrace new my_env --lang numba",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    name = given["name"]
    suffix = SUFFIXES[given.get("lang", "c")]
    _check_name(name)
    files = render(name, suffix)
    for path in files:
        if path.exists():
            raise ArgumentError(f"{path} is there already: remove it, or choose another name")
    for path, text in files.items():
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as fault:
            raise HeadraceError(f"{path} cannot be written: {fault.strerror}") from None
    source = f"{name}{suffix}"
    print(f"wrote {', '.join(map(str, files))}")
    print(f"next: headrace check {source}")
    print(f"      headrace train {source}")
    return 0


def render(name: str, suffix: str) -> dict[Path, str]:
    """The files of a new environment and their contents."""
    sources = {
        Path(f"{name}{suffix}"): f"demo{suffix}",
        Path(f"{name}.toml"): "demo.toml",
        Path(f"test_{name}.py"): "test_demo.py",
    }
    return {path: _renamed(source, name, suffix) for path, source in sources.items()}


def _renamed(template: str, name: str, suffix: str) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    if template == "test_demo.py":
        text = text.replace("demo.c", f"demo{suffix}")
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    text = text.replace("demo", name).replace("class Demo", f"class {camel}")
    return _aligned(text, len(name) - len("demo")) if suffix != ".py" else text


def _aligned(text: str, shift: int) -> str:
    """The second line of `NAME_step(...` moved to where its parenthesis is."""
    lines = text.split("\n")
    for at, line in enumerate(lines[1:], 1):
        if re.match(r"(static inline|cdef) void \w+_step\(", lines[at - 1]):
            indent = len(line) - len(line.lstrip()) + shift
            lines[at] = " " * indent + line.lstrip()
    return "\n".join(lines)


def _check_name(name: str) -> None:
    """Raises ArgumentError for what cannot name a file, a C function and a class."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ArgumentError(
            f"NAME is {name!r}: use small letters, digits and _, beginning with a letter"
        )
    if len(name) > 40:
        raise ArgumentError(f"NAME has {len(name)} characters: use at most 40")
    if keyword.iskeyword(name) or name in _C_WORDS or name.startswith("hr_"):
        raise ArgumentError(f"NAME is {name!r}, a word of the language: choose another")
    if name in registered():
        raise ArgumentError(f"NAME is {name!r}, which is a shipped environment: choose another")
    if importlib.util.find_spec(name) is not None and not Path(f"{name}.py").exists():
        raise ArgumentError(f"NAME is {name!r}, which is a Python module: choose another")
