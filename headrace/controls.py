"""From keys to actions: what the author wrote about the actions decides which key means what."""

from __future__ import annotations

import re

import numpy as np

from .engine.check.plan import convert
from .engine.spec import EnvSpec, FieldSpec

_ARROWS = ("left", "right", "up", "down")
_WORDS = {  # key: words of the author's that call for it
    "left": r"\bleft|counter-?clockwise|backwards?\b",
    "right": r"\bright|(?<!counter)(?<!counter-)\bclockwise|forwards?\b",
    "up": r"\bup\b|\bjump|\bmain\b|\brise|north",
    "down": r"\bdown\b|\bdrop|south",
    "idle": r"\b(stays?|nothing|not at all|straight|idle|waits?|coasts?|noop|rests?)\b",
}


class Controls:
    """Holds the action that keys have chosen; elements of an action are set one at a time.

    turns: the environment should wait for a key, since no action leaves things as they are.
    """

    def __init__(self, spec: EnvSpec, rules: str) -> None:
        self._spec = spec
        self._fields = [
            (field, element) for field in spec.action_fields for element in range(field.size)
        ]
        self._chosen = 0  # which of them the keys act on
        self._values = [_middle(field) for field, _ in self._fields]
        self._meanings = meanings(rules) if self._single else {}
        self.keys: dict[str, int] = self._bound() if self._single else {}
        self.idle: int | None = self.keys.pop("idle", None)
        discrete = all(field.kind == "discrete" for field in spec.action_fields)
        few = self._single and (self.idle is not None or spec.action_fields[0].choices <= 2)
        self.turns = discrete and not few
        if self.idle is not None:
            self._values[0] = float(self.idle)

    @property
    def _single(self) -> bool:
        """Whether an action is one choice of few."""
        field = self._fields[0][0]
        return len(self._fields) == 1 and field.kind == "discrete" and field.choices <= 10

    def _bound(self) -> dict[str, int]:
        """Keys (and "idle") with the choices that they stand for."""
        choices = self._spec.action_fields[0].choices
        keys: dict[str, int] = {}
        for choice, words in self._meanings.items():
            for key, pattern in _WORDS.items():
                if choice < choices and re.search(pattern, words) and key not in keys:
                    keys[key] = choice
                    break
        if not set(keys) & set(_ARROWS):
            known = {2: ("left", "right"), 3: ("left", "idle", "right")}.get(choices, ())
            keys |= {key: choice for choice, key in enumerate(known)}
        return keys | {str(digit): digit for digit in range(choices)}

    def press(self, key: str) -> bool:
        """Takes a key; whether it meant something."""
        if self._single:
            if key in self.keys:
                self._values[0] = float(self.keys[key])
            return key in self.keys or key == "enter"
        if key in ("up", "down"):
            self._chosen = (self._chosen + (1 if key == "down" else -1)) % len(self._fields)
            return False
        if key in ("left", "right"):
            field = self._fields[self._chosen][0]
            low, high, step = _span(field)
            value = self._values[self._chosen] + (step if key == "right" else -step)
            self._values[self._chosen] = min(max(value, low), high)
        return key == "enter"

    def release(self) -> None:
        """Goes back to the idle action, where there is one."""
        if self.idle is not None:
            self._values[0] = float(self.idle)

    def action(self) -> np.ndarray:
        """The chosen action as one Action struct, [1]."""
        action = np.zeros(1, self._spec.action_dtype)
        for (field, element), value in zip(self._fields, self._values, strict=True):
            action[field.name].reshape(-1)[element] = value
        return action

    def help(self) -> str:
        """Which keys do what, in a line."""
        if not self._single:
            chosen = [
                ("▸" if at == self._chosen else "") + f"{_name(field, element)} {value:.3g}"
                for at, ((field, element), value) in enumerate(
                    zip(self._fields, self._values, strict=True)
                )
            ]
            return "↑↓ choose, ←→ change, enter step:  " + "  ".join(chosen)
        shown = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
        arrows = {choice: shown[key] for key, choice in self.keys.items() if key in shown}
        parts = [
            f"{arrows.get(choice, '')}{choice} {self._meanings.get(choice, '')}".strip()
            for choice in range(self._spec.action_fields[0].choices)
        ]
        return "  ".join(parts)


def meanings(rules: str) -> dict[int, str]:
    """What the header comment says of each action: "0 goes to the left, 1 stays" by number."""
    found = re.search(r"^action +(.*?)(?=^\S|\Z)", rules, re.M | re.S)
    text = " ".join(found[1].split()) if found else ""
    parts = re.findall(r"(?:^|[\s,;(])(\d+):?\s+([^\d,;.]*[^\d,;.\s])", text)
    return {int(number): words for number, words in parts if len(words) > 4 or words.isalpha()}


def _name(field: FieldSpec, element: int) -> str:
    return field.name + (f"[{element}]" if field.size > 1 else "")


def _span(field: FieldSpec) -> tuple[float, float, float]:
    """(lowest, highest, how far one key press goes) of an element."""
    if field.kind == "discrete":
        return 0.0, field.choices - 1.0, 1.0
    low, high = max(field.low, -1e3), min(field.high, 1e3)
    return low, high, (high - low) / 10


def _middle(field: FieldSpec) -> float:
    if field.kind == "discrete":
        return 0.0
    low, high, _ = _span(field)
    return min(max(0.0, low), high)


def random_actions(
    spec: EnvSpec, mask: np.ndarray | None, rng: np.random.Generator, rows: int | None = None
) -> np.ndarray:
    """Random Action structs, [rows] (None: one for each agent of a world), allowed by `mask`
    [rows, mask_size]."""
    elements = sum(field.size for field in spec.action_fields)
    return convert(spec, rng.random((spec.agents if rows is None else rows, elements)), mask)
