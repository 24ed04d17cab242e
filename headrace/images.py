"""Frames into files: PNG and GIF by the standard library, MP4 by imageio-ffmpeg."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .engine.errors import ArgumentError, HeadraceError

Frame = NDArray[np.uint8]  # [height, width, 3]

VIDEOS = (".mp4", ".gif")
_GIF_HUNDREDTHS = 4  # shortest time between two images that browsers keep to, with margin


class Sink(Protocol):
    """Something that takes frames, one after the other; also a context manager."""

    def __enter__(self) -> Sink: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def add(self, frame: Frame) -> None: ...


def check_video(path: Path) -> None:
    """ArgumentError where no video can be written under this name."""
    if path.suffix.lower() not in VIDEOS:
        raise ArgumentError(f"video {str(path)!r} must end in .mp4 or .gif")
    if path.suffix.lower() == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise ArgumentError(
            "writing .mp4 needs imageio-ffmpeg, which is not installed: run "
            "`pip install 'headrace[video]'`, or write a .gif"
        )
    if not path.parent.is_dir():
        raise ArgumentError(f"video {str(path)!r}: there is no folder {str(path.parent)!r}")


def video(path: Path, fps: int) -> Sink:
    """A video file to add frames to, `fps` of them a second."""
    check_video(path)
    return Mp4(path, fps) if path.suffix.lower() == ".mp4" else Gif(path, fps)


def write_png(path: Path, frame: Frame) -> None:
    """Writes one frame as a PNG image."""
    height, width = frame.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter, 0: none
    rows[:, 1:] = frame.reshape(height, -1)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    with _opened(path) as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in parts:
            checksum = zlib.crc32(kind + data)
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum))


class Pngs:
    """A folder of numbered PNG images."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __enter__(self) -> Pngs:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise HeadraceError(f"{self._folder} cannot be made: {fault.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def add(self, frame: Frame) -> None:
        """Writes one more image."""
        write_png(self._folder / f"{self._count:05}.png", frame)
        self._count += 1


class Mp4:
    """H.264 in yuv420p with even sizes: what every browser plays."""

    def __init__(self, path: Path, fps: int) -> None:
        self._path, self._fps = path, fps
        self._writer: Any = None

    def __enter__(self) -> Mp4:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, frame: Frame) -> None:
        """Encodes one more frame; odd sizes lose a row or column."""
        height, width = (size // 2 * 2 for size in frame.shape[:2])
        if self._writer is None:
            self._writer = self._started(width, height)
        self._writer.send(np.ascontiguousarray(frame[:height, :width]))

    def _started(self, width: int, height: int) -> Any:
        import imageio_ffmpeg

        writer = imageio_ffmpeg.write_frames(
            str(self._path),
            (width, height),
            fps=self._fps,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=2,
            quality=None,
            output_params=["-crf", "20", "-movflags", "+faststart"],
        )
        writer.send(None)
        return writer


class Gif:
    """An animated GIF that repeats for ever; each image holds only what has changed."""

    def __init__(self, path: Path, fps: int) -> None:
        self._path = path
        wanted = 100 / fps  # hundredths of a second between frames
        self._every = max(1, round(_GIF_HUNDREDTHS / wanted))
        self._delay = max(round(self._every * wanted), 2)
        self._count = 0
        self._shown: Frame | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Gif:
        self._file = _opened(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.write(b"\x3b")
            self._file.close()

    def add(self, frame: Frame) -> None:
        """Encodes one more frame; frames that browsers could not show are left out."""
        assert self._file is not None
        self._count += 1
        if (self._count - 1) % self._every:
            return
        if self._shown is None:
            height, width = frame.shape[:2]
            self._file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0x70, 0, 0))
            self._file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")
        top, bottom, left, right = _changed(self._shown, frame)
        indices, palette = _indexed(frame[top:bottom, left:right])
        bits = max(2, (len(palette) - 1).bit_length())
        table = np.zeros((1 << bits, 3), np.uint8)
        table[: len(palette)] = palette
        self._file.write(b"\x21\xf9\x04" + struct.pack("<BHBB", 4, self._delay, 0, 0))
        place = struct.pack("<HHHH", left, top, right - left, bottom - top)
        self._file.write(b"\x2c" + place + bytes([0x80 | (bits - 1)]) + table.tobytes())
        self._file.write(bytes([bits]))
        data = lzw(indices.ravel().tolist(), bits)
        for at in range(0, len(data), 255):
            block = data[at : at + 255]
            self._file.write(bytes([len(block)]) + block)
        self._file.write(b"\x00")
        self._shown = frame.copy()


def _changed(shown: Frame | None, frame: Frame) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of what differs; one pixel where nothing does."""
    if shown is None:
        return 0, frame.shape[0], 0, frame.shape[1]
    differs = (shown != frame).any(axis=2)
    if not differs.any():
        return 0, 1, 0, 1
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _indexed(frame: Frame) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(index of each pixel, palette [colours, 3]): exact up to 256 colours, then 3-3-2 bits."""
    packed = frame.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colors, indices = np.unique(packed, return_inverse=True)
    if len(colors) > 256:
        packed &= 0xE0E0C0
        colors, indices = np.unique(packed, return_inverse=True)
    palette = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1)
    return indices.reshape(packed.shape).astype(np.uint8), palette.astype(np.uint8)


def lzw(pixels: list[int], bits: int) -> bytes:
    """Variable-length-code LZW of GIF: pixels are below 2**bits."""
    clear, end = 1 << bits, (1 << bits) + 1
    out = bytearray()
    buffer = filled = 0
    codes: dict[tuple[int, int], int] = {}
    following, width = end + 1, bits + 1

    def emitted(codes_out: Iterable[tuple[int, int]]) -> None:
        nonlocal buffer, filled
        for code, size in codes_out:
            buffer |= code << filled
            filled += size
            while filled >= 8:
                out.append(buffer & 255)
                buffer >>= 8
                filled -= 8

    def coded() -> Iterator[tuple[int, int]]:
        nonlocal codes, following, width
        yield clear, width
        prefix = pixels[0]
        for pixel in pixels[1:]:
            known = codes.get((prefix, pixel))
            if known is not None:
                prefix = known
                continue
            yield prefix, width
            codes[prefix, pixel] = following
            if following == 1 << width and width < 12:
                width += 1
            following += 1
            prefix = pixel
            if following == 4096:
                yield clear, width
                codes, following, width = {}, end + 1, bits + 1
        yield prefix, width
        # a decoder has made one more entry by now
        yield end, width + (following == 1 << width and width < 12)

    emitted(coded())
    if filled:
        out.append(buffer & 255)
    return bytes(out)


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as fault:
        raise HeadraceError(f"{path} cannot be written: {fault.strerror}") from None
