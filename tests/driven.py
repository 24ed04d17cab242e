"""Calls the kernels of one environment with plain arrays, through tests/engine/c/driver.h."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headrace.engine import compile
from headrace.engine._core import Library

C_FILES = Path(__file__).parent / "engine" / "c"


def load(name: str, **options: Any) -> ctypes.CDLL:
    """The compiled test file tests/engine/c/NAME.c."""
    return ctypes.CDLL(str(compile.build(C_FILES / f"{name}.c", **options)))


def address(array: np.ndarray) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def params_bytes(description: Mapping[str, Any], **values: Any) -> np.ndarray:
    """A Params struct with the defaults, changed by `values`; arrays must stay alive."""
    raw = bytearray(description["params_size"])
    for param in description["params"]:
        value = values.get(param["name"], param["default"])
        if param["is_array"]:
            ctypes.c_void_p.from_buffer(raw, param["offset"]).value = value.ctypes.data
            ctypes.c_int32.from_buffer(raw, param["length_offset"]).value = value.size
        else:
            item = np.array([value], param["dtype"]).tobytes()
            raw[param["offset"] : param["offset"] + len(item)] = item
    return np.frombuffer(bytes(raw), np.uint8)


class Driven:
    """`worlds` worlds of a file that ends in driver.h; every array may be read and written.

    state, obs and actions are bytes: [worlds or rows, size of the struct].
    """

    def __init__(self, name: str, worlds: int, params: Any = None, **options: Any) -> None:
        path = compile.build(C_FILES / f"{name}.c", **options)
        self.about: dict[str, Any] = Library(str(path)).describe()
        self.lib = ctypes.CDLL(str(path))
        self.worlds, rows = worlds, worlds * self.about["agents"]
        self.params = params_bytes(self.about) if params is None else params(self.about)
        self.state = np.full((worlds, self.about["state_size"]), 0xAB, np.uint8)
        self.rng = np.zeros((worlds, 2), np.uint64)
        self.rng[:, 0] = np.arange(worlds) + 1
        self.actions = np.zeros((rows, self.about["action_size"]), np.uint8)
        self.rewards = np.full(rows, np.nan, np.float32)
        self.terminated = np.full(rows, 77, np.uint8)
        self.truncated = np.full(rows, 77, np.uint8)
        self.obs = np.full((rows, self.about["obs_size"]), 0xCD, np.uint8)
        self.bind()

    def bind(self) -> None:
        """Makes these the arrays of the calls that follow: instances may share a library."""
        stride = self.params.strides[0] if self.params.ndim == 2 else 0
        self.lib.drive_arrays(
            address(self.params),
            ctypes.c_int64(stride),
            *map(address, (self.state, self.rng, self.actions, self.rewards)),
            *map(address, (self.terminated, self.truncated, self.obs)),
        )

    def call(self, kernel: str, lo: int = 0, hi: int | None = None) -> None:
        self.bind()
        hi = self.worlds if hi is None else hi
        getattr(self.lib, f"drive_{kernel}")(ctypes.c_int64(lo), ctypes.c_int64(hi))

    def reset(self, lo: int = 0, hi: int | None = None, which: np.ndarray | None = None) -> None:
        self.bind()
        hi = self.worlds if hi is None else hi
        chosen = np.arange(lo, hi) if which is None else lo + np.flatnonzero(which)
        worlds = np.ascontiguousarray(chosen, np.int32)
        self.lib.drive_reset(address(worlds), ctypes.c_int64(len(worlds)))

    def flags(self, kernel: str, width: int) -> np.ndarray:
        self.bind()
        out = np.full((self.worlds * self.about["agents"], width), 77, np.uint8)
        getattr(self.lib, f"drive_{kernel}")(
            ctypes.c_int64(0), ctypes.c_int64(self.worlds), address(out)
        )
        return out

    def field(self, array: str, name: str) -> np.ndarray:
        """A view of one member of all observations or actions, as its description says."""
        fields = self.about["obs_fields" if array == "obs" else "action_fields"]
        field = next(each for each in fields if each["name"] == name)
        raw: np.ndarray = getattr(self, array)
        dtype = np.dtype(
            {
                "names": [name],
                "formats": [(field["dtype"], field["shape"])],
                "offsets": [field["offset"]],
                "itemsize": raw.shape[1],
            }
        )
        return raw.view(dtype)[name][:, 0]
