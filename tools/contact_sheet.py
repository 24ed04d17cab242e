"""Draws docs/envs.png: every shipped environment, four moments of an episode each.

    python tools/contact_sheet.py [--check]

The episode is the longest first one of 64 worlds that act at random. With --check nothing is
written; exit code 1 says that the picture is not what the environments draw now.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

import headrace
from headrace.controls import random_actions
from headrace.engine.describing import describe
from headrace.engine.frame import Frame
from headrace.engine.registration import registered
from headrace.engine.vector import VecEnv
from headrace.images import write_png
from headrace.terminal import shrink

SHEET = Path(__file__).resolve().parent.parent / "docs" / "envs.png"
WORLDS, STEPS, SHOWN = 64, 400, 4
WIDTH, HEIGHT, MARGIN, LABEL = 240, 160, 8, 26  # pixels
BACKGROUND, INK = (226, 227, 224), (40, 44, 52)


def moments(name: str) -> list[np.ndarray]:
    """Frames [HEIGHT, WIDTH, 3] of the start, two moments between, and the end of an episode."""
    lengths = np.full(WORLDS, STEPS)
    for step, vec in played(name):
        ended = vec.buffers.arrays["world_over"] != 0
        lengths = np.where(ended & (lengths == STEPS), step, lengths)
    world = int(lengths.argmax())
    wanted = np.linspace(0, lengths[world], SHOWN).round().astype(int).tolist()
    frames = {}
    for step, vec in played(name):
        if step in wanted:
            big = np.zeros((2 * HEIGHT, 2 * WIDTH, 3), np.uint8)
            vec.core.draw(world, big)
            frames[step] = shrink(big, WIDTH, HEIGHT)
    return [frames[step] for step in wanted]


def played(name: str) -> Iterator[tuple[int, VecEnv]]:
    """(steps taken, the worlds of `name`) from the start to STEPS, acting at random."""
    spec = describe(name)
    rng = np.random.default_rng(7)
    rows = WORLDS * spec.agents
    with closing(headrace.make_vec(name, rows, executor="serial", copy=False, seed=7)) as vec:
        assert isinstance(vec, VecEnv)
        vec.reset()
        yield 0, vec
        for step in range(1, STEPS + 1):
            mask = vec.buffers.arrays.get("mask")
            vec.step(spec.view_actions(random_actions(spec, mask, rng, rows)))
            yield step, vec


def sheet() -> np.ndarray:
    """The whole picture, two environments side by side, uint8 [height, width, 3]."""
    names = [name for name, entry in registered().items() if entry.shipped]
    strip = SHOWN * (WIDTH + MARGIN) + 2 * MARGIN
    row = LABEL + HEIGHT + MARGIN
    pixels = np.full((-(-len(names) // 2) * row + MARGIN, 2 * strip, 3), BACKGROUND, np.uint8)
    for index, name in enumerate(names):
        top, left = MARGIN + index // 2 * row, MARGIN + index % 2 * strip
        Frame(pixels).text(left, top + 4, 2, INK, name)
        for at, frame in enumerate(moments(name)):
            x = left + at * (WIDTH + MARGIN)
            pixels[top + LABEL : top + LABEL + HEIGHT, x : x + WIDTH] = frame
    return pixels


def image_data(path: Path) -> bytes:
    """The rows of a PNG image that write_png wrote; b"" where there is none."""
    if not path.exists():
        return b""
    data, at = path.read_bytes(), 8
    while data[at + 4 : at + 8] != b"IDAT":
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return zlib.decompress(data[at + 8 : at + 8 + int.from_bytes(data[at : at + 4], "big")])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    if not parser.parse_args().check:
        write_png(SHEET, sheet())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        now = Path(folder) / SHEET.name
        write_png(now, sheet())
        current = image_data(now) == image_data(SHEET)
    said = "current" if current else "out of date: run tools/contact_sheet.py and look at it"
    print(f"docs/{SHEET.name} is {said}")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
