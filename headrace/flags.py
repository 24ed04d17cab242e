"""Command-line flags made from a settings class (see trainers/settings.py).

Each setting becomes one flag; its help and the values it takes come from the class. What the
user got wrong is one sentence that names the flag, the value and the way out.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from .engine.errors import ArgumentError
from .trainers.settings import ConfigError, Pairs, Setting, Values, key, replaced, settings, unknown


class UsageError(ArgumentError):
    """A command line that cannot be understood."""


@dataclasses.dataclass(frozen=True)
class Verb:
    """One command of headrace: what it does and the settings it takes."""

    name: str
    summary: str
    settings: type
    example: str

    def parse(
        self, argv: Sequence[str], defaults: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The values given in `argv` by name: flags that were not given are left out.

        `defaults` replaces the defaults that the help shows. Raises UsageError or ConfigError;
        SystemExit(0) after printing the help.
        """
        parser = _parser(self, defaults or {})
        known = settings(self.settings)
        given, rest = parser.parse_known_args(_single_tokens(argv, known))
        if rest:
            raise _unrecognised(self.name, rest[0], known)
        return {
            name: _parsed(known[name], value) if isinstance(value, str) else value
            for name, value in vars(given).items()
        }


def _parsed(item: Setting, text: str) -> Any:
    """The value of a flag; a list that is wrong is shown as it was typed."""
    try:
        return item.parse(text, _label(item))
    except ConfigError as error:
        wanted, _, _ = str(error).rpartition(", not ")
        if item.kind in (int, float, str) or not wanted:
            raise
        raise ConfigError(f"{wanted}, not {text!r}") from None


_EXAMPLE = "example: "


class _Formatter(argparse.HelpFormatter):
    """argparse's, which breaks no command that is there to be copied, nor any word at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLE):
            return indent + text
        return textwrap.fill(
            text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )


class _Parser(argparse.ArgumentParser):
    """argparse that raises its complaints instead of printing usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[0].lower()}{message[1:]}; see {self.prog} --help")


def flag(name: str) -> str:
    """The flag of a setting: num_envs is --num-envs."""
    return "--" + key(name).replace("_", "-")


def _parser(verb: Verb, defaults: Mapping[str, Any]) -> _Parser:
    width = min(shutil.get_terminal_size().columns, 100)
    places = [item for item in settings(verb.settings).values() if item.rule.positional]
    parser = _Parser(
        prog=f"headrace {verb.name}",
        usage=" ".join([f"headrace {verb.name}", *map(_place, places), "[flags]"]),
        description=verb.summary,
        epilog=f"{_EXAMPLE}{verb.example}",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        formatter_class=lambda prog: _Formatter(prog, max_help_position=30, width=width),
    )
    for item in settings(verb.settings).values():
        text = _help(item, defaults.get(item.name, item.default)).replace("%", "%%")
        if item.rule.positional:
            parser.add_argument(
                item.name, metavar=item.name.upper(), nargs=_how_many(item), help=text
            )
        elif item.kind is bool:
            switch: Any = argparse.BooleanOptionalAction
            parser.add_argument(flag(item.name), action=switch, dest=item.name, help=text)
        else:
            parser.add_argument(flag(item.name), dest=item.name, metavar=_metavar(item), help=text)
    return parser


def _help(item: Setting, default: Any) -> str:
    if default is dataclasses.MISSING or default is None or default == ():
        return item.rule.help
    if isinstance(default, bool):
        shown = "yes" if default else "no"
    elif isinstance(default, tuple):
        shown = ",".join(f"{v[0]}={v[1]}" if isinstance(v, tuple) else str(v) for v in default)
    else:
        shown = str(default)
    meaning = re.sub(r" \(default: [^)]*\)$", "", item.rule.help)  # a preset's takes its place
    return f"{meaning} (default: {shown})"


def _how_many(item: Setting) -> str | None:
    """How many words a setting given by place takes, as argparse has it."""
    if item.kind == tuple[str, ...]:
        return "+"
    return "?" if item.optional or item.default is not dataclasses.MISSING else None


def _place(item: Setting) -> str:
    return item.name.upper() + " ..." * (item.kind == tuple[str, ...])


def _metavar(item: Setting) -> str:
    known = {int: "N", float: "X", str: "TEXT", tuple[int, ...]: "N,N"}
    known |= dict.fromkeys((Pairs, Values), "NAME=X")
    return known.get(item.kind, "NAME,NAME")


def _label(item: Setting) -> str:
    return item.name.upper() if item.rule.positional else flag(item.name)


def _single_tokens(argv: Sequence[str], known: Mapping[str, Setting]) -> list[str]:
    """`--lr -1` as `--lr=-1`, so that a negative number is a value and reaches its check."""
    takes_value = {flag(item.name) for item in known.values() if item.kind is not bool}
    joined: list[str] = []
    for token in argv:
        if joined and joined[-1] in takes_value and token[:1] == "-" and _negative(token):
            joined[-1] += f"={token}"
        else:
            joined.append(token)
    return joined


def _negative(token: str) -> bool:
    return token[1:2].isdigit() or token[1:2] == "."


def _unrecognised(verb: str, token: str, known: Mapping[str, Setting]) -> ArgumentError:
    if not token.startswith("-"):
        return UsageError(f"unexpected argument {token!r}")
    name = token.partition("=")[0]
    for item in known.values():
        if item.rule.positional and name == flag(item.name):
            place = _place(item)
            return UsageError(f"unknown flag {name}: name it by its place, headrace {verb} {place}")
    before = name.removeprefix("--").removeprefix("no-").replace("-", "_")
    old = replaced(before, known, flag)
    if old is not None:
        return old
    flags: list[str] = []
    for item in known.values():
        if not item.rule.positional:
            flags += [flag(item.name)] + ([f"--no-{flag(item.name)[2:]}"] * (item.kind is bool))
    return unknown(name, flags, "flag")


Command = Callable[[list[str]], int]
__all__ = ["Command", "ConfigError", "UsageError", "Verb", "flag"]
