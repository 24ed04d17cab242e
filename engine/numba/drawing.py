"""`draw` of an environment in Python: called by the engine, run as plain Python."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from ..frame import Frame
from .layout import Layout

_DRAW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


class Drawing:
    """The author's `draw` as a C function; an exception in it waits for `raise_pending`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._function = layout.functions["draw"].function
        self._pending: BaseException | None = None
        self._callback = _DRAW(self._draw)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def raise_pending(self) -> None:
        """Raises what `draw` raised."""
        pending, self._pending = self._pending, None
        if pending is not None:
            raise pending

    def _draw(self, batch: int, world: int, frame: int) -> None:
        try:
            params = params_at(self._layout, batch, world)
            state = record_at(batch, "state", world, self._layout.state)
            self._function(params, state, frame_at(frame))
        except BaseException as fault:  # the engine's C code cannot pass it on
            self._pending = fault


def member(batch: int, name: str) -> int:
    """A pointer (or the stride) in hr_batch."""
    return ctypes.c_size_t.from_address(batch + _core.BATCH_OFFSETS[name]).value


def memory_at(address: int, dtype: Any, count: int) -> np.ndarray:
    """`count` elements at an address."""
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype, count)


def record_at(batch: int, array: str, world: int, dtype: np.dtype) -> Any:
    """One world's struct, its members readable as attributes."""
    address = member(batch, array) + world * dtype.itemsize
    return memory_at(address, dtype, 1).view(np.recarray)[0]


def params_at(layout: Layout, batch: int, world: int) -> SimpleNamespace:
    """One world's Params; arrays cannot be written."""
    base = member(batch, "params") + world * member(batch, "params_stride")
    values: dict[str, Any] = {}
    for param in layout.params:
        if param.length_offset < 0:
            values[param.name] = memory_at(base + param.offset, param.dtype, 1)[0]
            continue
        length = int(memory_at(base + param.length_offset, np.int32, 1)[0])
        data = int(memory_at(base + param.offset, np.uintp, 1)[0])
        values[param.name] = memory_at(data, param.dtype, length)
        values[param.name].flags.writeable = False
    return SimpleNamespace(**values)


def frame_at(address: int) -> Frame:
    """The engine's hr_frame."""
    width, height = (
        ctypes.c_int32.from_address(address + _core.FRAME_OFFSETS[name]).value
        for name in ("width", "height")
    )
    pixels = ctypes.c_size_t.from_address(address + _core.FRAME_OFFSETS["pixels"]).value
    return Frame(memory_at(pixels, np.uint8, height * width * 3).reshape(height, width, 3))
