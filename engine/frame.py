"""Frame: drawing into an RGB image from Python, as headrace/draw.h draws from C."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

Color = tuple[int, int, int]  # red, green, blue: 0 .. 255 each

_HEADER = Path(__file__).resolve().parent / "include" / "headrace" / "draw.h"


class Frame:
    """An image to draw into; `pixels` is uint8 [height, width, 3].

    Coordinates are pixels, x to the right and y down, (0, 0) the corner of the first pixel. A
    pixel is painted when its centre lies in the shape; what lies outside the image is left out.
    """

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels
        self.height, self.width = pixels.shape[:2]

    def fill(self, color: Color) -> None:
        """Paints all of it."""
        self.pixels[:] = color

    def rect(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Paints the rectangle with corners (x, y) and (x + width, y + height)."""
        rows = slice(_pixel(y, self.height), _pixel(_add(y, height), self.height))
        columns = slice(_pixel(x, self.width), _pixel(_add(x, width), self.width))
        self.pixels[rows, columns] = color

    def line(
        self, x0: float, y0: float, x1: float, y1: float, thickness: float, color: Color
    ) -> None:
        """Paints the line from (x0, y0) to (x1, y1) with round ends."""
        ax, ay, bx, by = (np.float32(each) for each in (x0, y0, x1, y1))
        radius = np.float32(0.5) * np.float32(thickness)
        dx, dy = bx - ax, by - ay
        square = dx * dx + dy * dy
        scale = np.float32(1) / square if square > 0 else np.float32(0)
        top, bottom = (
            _pixel(each, self.height) for each in (min(ay, by) - radius, max(ay, by) + radius)
        )
        left, right = (
            _pixel(each, self.width) for each in (min(ax, bx) - radius, max(ax, bx) + radius)
        )
        if top >= bottom or left >= right:
            return
        px = np.arange(left, right, dtype=np.float32) + np.float32(0.5) - ax
        py = np.arange(top, bottom, dtype=np.float32)[:, None] + np.float32(0.5) - ay
        along = np.clip((px * dx + py * dy) * scale, np.float32(0), np.float32(1))
        ex, ey = px - along * dx, py - along * dy
        self.pixels[top:bottom, left:right][ex * ex + ey * ey < radius * radius] = color

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        """Paints the disc around (x, y)."""
        self.line(x, y, x, y, 2 * radius, color)

    def text(self, x: float, y: float, scale: float, color: Color, text: Any) -> float:
        """Writes printable ASCII with its top left corner at (x, y).

        Characters have 5 by 7 squares of `scale` pixels and lie 6 apart; other characters leave
        a gap. Returns the x at which more text would follow.
        """
        font, left, size = _font(), np.float32(x), np.float32(scale)
        for character in str(text):
            glyph = ord(character) - ord(" ")
            if 0 <= glyph < len(font):
                for column, row in zip(*np.nonzero(font[glyph]), strict=True):
                    self.rect(
                        float(left + np.float32(column) * size),
                        float(np.float32(y) + np.float32(row) * size),
                        scale,
                        scale,
                        color,
                    )
            left += np.float32(6) * size
        return float(left)


def _add(place: float, length: float) -> float:
    return float(np.float32(place) + np.float32(length))


def _pixel(place: float, size: int) -> int:
    """Index of the first pixel whose centre is at or after `place`, within 0 .. size."""
    first = -np.floor(np.float32(0.5) - np.float32(place))
    return int(min(max(first, 0), size)) if first == first else 0


@functools.cache
def _font() -> np.ndarray:
    """The header's font, bool [95, 5, 7]: characters from the space on, columns, rows."""
    table = re.search(r"hr__font\[[^\]]*\] = \{(.*?)\};", _HEADER.read_text(), re.S)
    assert table is not None
    columns = np.array([int(each, 16) for each in re.findall(r"0x[0-9a-f]{2}", table[1])])
    return (columns.reshape(95, 5, 1) >> np.arange(7) & 1).astype(bool)
