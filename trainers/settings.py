"""Settings: fields of a frozen dataclass that carry their own help, type and bounds.

One declaration serves the Python constructor, the preset files (TOML), the command line and
the saved configuration of a run. A value that does not fit gives one sentence that names the
setting, the value and what is accepted.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import keyword
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..engine.errors import ArgumentError

Pairs = tuple[tuple[str, float | str], ...]  # names with numbers or .npy files, sorted by name
Values = tuple[tuple[str, float | bool | str], ...]  # likewise, with booleans and texts too

NUMBERS = "names with numbers, such as gravity=3.7,force=12"  # what Pairs are


class ConfigError(ArgumentError):
    """A setting that does not exist, has the wrong type, or is out of its bounds.

    Its sentence begins with the setting's name, for which a command line shows the flag.
    """


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a setting means and which values it takes (None: unbounded)."""

    help: str
    low: float | None = None  # smallest value, inclusive
    above: float | None = None  # bound below, exclusive
    high: float | None = None  # largest value, inclusive
    choices: tuple[str, ...] = ()  # of a text, all that are accepted
    positional: bool = False  # on the command line: by place, not by flag
    replaces: tuple[str, ...] = ()  # settings that there were before, which runs on disk may have


def setting(default: Any, help: str, **rule: Any) -> Any:
    """A dataclass field with a default, its help and its bounds (see `Rule`)."""
    return dataclasses.field(default=default, metadata={"rule": Rule(help, **rule)})


def required(help: str, **rule: Any) -> Any:
    """A dataclass field without a default, given by place on the command line."""
    return dataclasses.field(metadata={"rule": Rule(help, positional=True, **rule)})


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field of a settings class, as readers of flags and files need it."""

    name: str
    kind: Any  # bool, int, float, str, tuple[int, ...] or Pairs
    optional: bool  # None is a value
    default: Any  # dataclasses.MISSING where there is none
    rule: Rule

    def convert(self, value: Any, label: str | None = None) -> Any:
        """`value` in this setting's type, checked; raises ConfigError with `label` as the name."""
        if value is None and self.optional:
            return None
        problem = _problem(self, value)
        if problem is not None:
            raise ConfigError(f"{label or key(self.name)} must be {problem}, not {_shown(value)}")
        return _converted(self.kind, value)

    def parse(self, text: str, label: str) -> Any:
        """The value written as `text` on a command line."""
        if self.optional and text.lower() == "none":
            return None
        return self.convert(_READERS[self.kind](text), label)


def settings(owner: type[Any]) -> dict[str, Setting]:
    """The settings of a dataclass by name, in the order of declaration."""
    hints = typing.get_type_hints(owner)
    found = {}
    for field in dataclasses.fields(owner):
        rule = field.metadata.get("rule")
        if rule is None:
            continue
        kind, optional = _unwrapped(hints[field.name])
        found[field.name] = Setting(field.name, kind, optional, field.default, rule)
    return found


def member(name: str) -> str:
    """The field of a setting: async, a word of Python's, is the field async_."""
    return f"{name}_" if keyword.iskeyword(name) else name


def key(field: str) -> str:
    """The name of a field as files and flags have it; the inverse of `member`."""
    return field.rstrip("_")


def check(instance: Any) -> None:
    """Converts and checks every setting of a frozen dataclass in place (for __post_init__)."""
    for item in settings(type(instance)).values():
        object.__setattr__(instance, item.name, item.convert(getattr(instance, item.name)))


def unknown(
    name: str, known: Iterable[str], what: str = "setting", *, listed: bool = False
) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does; listed: with all
    of them where none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    others = f"; there are {', '.join(names)}" if listed else ""
    hint = f"; did you mean {near[0]}?" if near else others
    return ConfigError(f"unknown {what} {name}{hint}")


def replaced(
    name: str, known: Mapping[str, Setting], shown: Callable[[str], str] = str
) -> ConfigError | None:
    """The error for a setting that there was before; None where `name` was none. shown: names as
    flags or as they are."""
    for item in known.values():
        if name in item.rule.replaces:
            values = f", {_either(item.rule.choices)}," if item.rule.choices else ""
            return ConfigError(
                f"{shown(name)} is there no more: {shown(item.name)}{values} has replaced it"
            )
    return None


def _either(choices: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))


def _unwrapped(hint: Any) -> tuple[Any, bool]:
    """(the type without None, whether None is allowed)."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return kinds[0], True
    return hint, False


def _number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, (bool, str))


def _whole(value: Any) -> bool:
    return _number(value) and math.isfinite(value) and float(value) == int(value)


def _problem(item: Setting, value: Any) -> str | None:
    """What `value` should have been, or None when it is fine."""
    rule, kind = item.rule, item.kind
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if kind is str:
        fits = isinstance(value, str) and (not rule.choices or value in rule.choices)
        return None if fits else " or ".join(rule.choices) or "a text"
    if kind == tuple[int, ...]:
        fits = isinstance(value, (list, tuple)) and all(_whole(v) and v >= 1 for v in value)
        return None if fits and value else "a list of whole numbers of at least 1, such as 64,64"
    if kind == tuple[str, ...]:
        fits = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
        return None if fits else "a list of texts"
    if kind in (Pairs, Values):
        return _problem_of_pairs(_pairs(value), plain=kind == Pairs)
    fits = _whole(value) if kind is int else _number(value) and math.isfinite(value)
    noun = "a whole number" if kind is int else "a number"
    if fits and _within(rule, value):
        return None
    return noun + _bounds(rule)


def _problem_of_pairs(pairs: tuple[tuple[Any, Any], ...] | None, *, plain: bool) -> str | None:
    """What parameters should have been; plain: without booleans and texts."""
    fits = pairs is not None and all(
        isinstance(n, str)
        and (_number(v) or is_array(v) or (not plain and isinstance(v, (bool, str)) and v != ""))
        for n, v in pairs
    )
    what = "names with numbers" if plain else "names with numbers, booleans or texts"
    if not fits:
        return NUMBERS if plain else f"{what}, such as gravity=3.7"
    twice = len({name for name, _ in pairs or ()}) < len(pairs or ())
    return f"{what}, each name once" if twice else None


def _within(rule: Rule, value: float) -> bool:
    return (
        (rule.low is None or value >= rule.low)
        and (rule.above is None or value > rule.above)
        and (rule.high is None or value <= rule.high)
    )


def _bounds(rule: Rule) -> str:
    if rule.above is not None:
        return f" above {rule.above}" + (f" and at most {rule.high}" if rule.high else "")
    if rule.low is not None and rule.high is not None:
        return f" from {rule.low} to {rule.high}"
    return f" of at least {rule.low}" if rule.low is not None else ""


def _converted(kind: Any, value: Any) -> Any:
    if kind is int or kind is float:
        return kind(value)
    if kind == tuple[int, ...]:
        return tuple(int(v) for v in value)
    if kind == tuple[str, ...]:
        return tuple(value)
    if kind in (Pairs, Values):
        pairs = _pairs(value) or ()
        return tuple(sorted(((n, _kept(v)) for n, v in pairs), key=lambda p: p[0]))
    return value


def is_array(value: Any) -> bool:
    """Whether a value of a parameter names the file of an array."""
    return isinstance(value, str) and value.endswith(".npy")


def _kept(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        return value
    return int(value) if _whole(value) and abs(value) < 2**63 else float(value)


def _pairs(value: Any) -> tuple[tuple[Any, Any], ...] | None:
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, (list, tuple)) and all(
        isinstance(entry, (list, tuple)) and len(entry) == 2 for entry in value
    ):
        return tuple((entry[0], entry[1]) for entry in value)
    return None


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _read_number(text: str) -> Any:
    """A whole number where the text is one ("1_000", "2e6"), else a float, else the text."""
    for reader in (int, float):
        try:
            return reader(text)
        except ValueError:
            continue
    return text


def _read_bool(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def _read_list(text: str) -> Any:
    return [_read_number(part) for part in text.split(",") if part.strip()]


def _read_texts(text: str) -> Any:
    """The parts between commas; those in brackets separate nothing: "A(1,b=2),B" are two."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _read_pairs(text: str) -> Any:
    entries = [part.partition("=") for part in text.split(",") if part.strip()]
    return tuple((name.strip(), _read_number(value)) for name, _, value in entries)


def _read_values(text: str) -> Any:
    entries = [part.partition("=") for part in _read_texts(text)]
    return tuple((name.strip(), _read_literal(value.strip())) for name, _, value in entries)


def _read_literal(text: str) -> Any:
    """A number, a boolean or what else is a literal of Python; else the text."""
    value = _read_bool(text)
    value = _read_number(text) if value is text else value
    if value is text:
        with contextlib.suppress(SyntaxError, ValueError):
            return ast.literal_eval(text)
    return value


_READERS: dict[Any, Any] = {
    bool: _read_bool,
    int: _read_number,
    float: _read_number,
    str: str,
    tuple[int, ...]: _read_list,
    tuple[str, ...]: _read_texts,
    Pairs: _read_pairs,
    Values: _read_values,
}
