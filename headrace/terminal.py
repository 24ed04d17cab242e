"""The terminal as a screen and a keyboard: half blocks in colour, single keys, put back at the end.

Only escape sequences that every terminal emulator knows are used, so that it works over ssh.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]  # [height, width, 3]

TRUECOLOR, PALETTE, LETTERS = "truecolor", "256 colours", "letters"  # what a terminal can show
_SHADES = " .:-=+*#%@"  # from dark to light
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # other screen, no cursor, cleared
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
    "\r": "enter", "\n": "enter", "\x1b": "escape", "\x03": "escape", "\x04": "escape",
}  # fmt: skip


def abilities(environment: dict[str, str] | os._Environ[str] = os.environ) -> str:
    """TRUECOLOR, PALETTE or LETTERS, by what the environment variables say of the terminal."""
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR") or term in ("", "dumb"):
        return LETTERS
    direct = "direct" in term or environment.get("COLORTERM", "") in ("truecolor", "24bit")
    return TRUECOLOR if direct else PALETTE


def shrink(frame: Frame, columns: int, rows: int) -> Frame:
    """The mean colour of each of `rows` x `columns` parts of the frame."""
    height, width = frame.shape[0] // rows, frame.shape[1] // columns
    cut = frame[: rows * height, : columns * width].astype(np.float32)
    return cut.reshape(rows, height, columns, width, 3).mean(axis=(1, 3)).round().astype(np.uint8)


def text_of(image: Frame, ability: str) -> list[str]:
    """Lines of text that show an image [2 * lines, columns, 3]: two pixels to a character."""
    if ability == LETTERS:
        light = (image @ np.array([0.299, 0.587, 0.114])).reshape(len(image) // 2, 2, -1).mean(1)
        shades = (light / 256 * len(_SHADES)).astype(int)
        return ["".join(_SHADES[shade] for shade in line) for line in shades]
    colors = _palette_codes(image)[..., None] if ability == PALETTE else image
    return [_line(colors[at], colors[at + 1], ability) for at in range(0, len(image), 2)]


def _line(upper: NDArray[Any], lower: NDArray[Any], ability: str) -> str:
    """One line of half blocks; a colour is set only where it changes."""
    parts, before = [], (None, None)
    kind = "2" if ability == TRUECOLOR else "5"
    for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
        if above != before[0]:
            parts.append(f"\x1b[38;{kind};{';'.join(map(str, above))}m")
        if below != before[1]:
            parts.append(f"\x1b[48;{kind};{';'.join(map(str, below))}m")
        before = (above, below)
        parts.append("▀")
    return "".join(parts) + "\x1b[0m"


def _palette_codes(image: Frame) -> NDArray[np.int64]:
    """Numbers of the nearest colours of the 6 x 6 x 6 cube, or of its ramp of greys."""
    wide = image.astype(np.int64)
    levels = np.array([0, 95, 135, 175, 215, 255])
    nearest = np.abs(wide[..., None] - levels).argmin(axis=-1)
    cube = 16 + nearest @ np.array([36, 6, 1])
    grey = np.clip((wide.mean(axis=-1) - 8) / 10, 0, 23).round().astype(np.int64)
    far_cube = np.abs(levels[nearest] - wide).sum(axis=-1)
    far_grey = np.abs((8 + 10 * grey)[..., None] - wide).sum(axis=-1)
    return np.where(far_grey < far_cube, 232 + grey, cube)


def keys_in(text: str) -> list[str]:
    """Names of the keys in what was read: "left", "enter", "escape", or the character."""
    keys = []
    while text:
        name = next((text[:n] for n in (3, 1) if text[:n] in _KEYS), None)
        if name is None or (name == "\x1b" and len(text) > 1):
            skipped = 3 if text[0] == "\x1b" else 1  # a sequence that means nothing here
            if text[0] != "\x1b":
                keys.append(text[0])
            text = text[skipped:]
            continue
        keys.append(_KEYS[name])
        text = text[len(name) :]
    return keys


class Terminal:
    """A context in which the terminal is ours; afterwards it is as it was before, whatever
    happens in between."""

    def __init__(self) -> None:
        self.ability = abilities()
        self._saved: list[Any] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Terminal:
        self._saved = termios.tcgetattr(sys.stdin)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _stop)
        tty.setcbreak(sys.stdin)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)
        self._write(_LEAVE)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def size(self) -> tuple[int, int]:
        """(columns, lines) of the terminal now."""
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def show(self, lines: list[str]) -> None:
        """Puts lines on the screen from the top; what was below them goes."""
        self._write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines[:-1]) + lines[-1]
                    + "\x1b[K\x1b[J")  # fmt: skip

    def keys(self, seconds: float | None) -> list[str]:
        """Keys pressed within `seconds` (None: waits for one); [] where there are none."""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return []
        read = os.read(sys.stdin.fileno(), 1024)
        return keys_in(read.decode(errors="ignore")) if read else ["escape"]

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _stop(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
