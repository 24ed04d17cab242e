"""The checked build: the same functions with assertions, bounds and errors switched on.

Kernels are Python functions that call one world after the other, so that an exception can be
reported with its world and its line. They are for finding mistakes, not for speed.
"""

from __future__ import annotations

import ctypes
import traceback
from typing import Any

import numpy as np
from numba import njit, types

from .. import _core
from . import messages, source
from .build import adapted
from .drawing import member, memory_at
from .layout import OUTCOME, Layout
from .types import argument_types

_RANGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FLAGGED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_RESET = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_METRICS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


class CheckedKernels:
    """Kernels of a checked build; `fail` of the Description is given before the first call."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.report: Any = None  # Description.fail
        converters = argument_types(layout)
        self._functions = {
            name: _compiled(layout.functions[name], name, converters)
            for name in layout.functions
            if name != "draw"
        }
        self._callbacks = {
            "step": _RANGE(self._step),
            "observe": _RANGE(self._observe),
            "reset": _RESET(self._reset),
            "present": _FLAGGED(lambda *given: self._flags("present", layout.agents, *given)),
            "mask": _FLAGGED(
                lambda *given: self._flags("mask", layout.agents * layout.mask_size, *given)
            ),
            "metrics": _METRICS(self._metrics),
        }
        self.addresses = {
            name: ctypes.cast(callback, ctypes.c_void_p).value or 0
            for name, callback in self._callbacks.items()
            if name in self._functions
        }

    def _call(self, name: str, batch: int, world: int, *addresses: int) -> None:
        params = member(batch, "params") + world * member(batch, "params_stride")
        state = member(batch, "state") + world * self._layout.state.itemsize
        try:
            self._functions[name](params, state, *addresses)
        except Exception as fault:
            file, line = self._place(name, fault)
            text = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
            self.report(f"{name}: {text}", file, line, world)

    def _place(self, name: str, fault: Exception) -> tuple[str, int]:
        """File and line of the author's that an exception came from."""
        function = self._layout.functions[name]
        own = [
            f for f in traceback.extract_tb(fault.__traceback__) if f.filename == function.filename
        ]
        return function.filename, (own[-1].lineno if own else None) or function.node.lineno

    def _step(self, batch: int, lo: int, hi: int) -> None:
        layout = self._layout
        agents = layout.agents
        outcomes = np.zeros(agents, OUTCOME)
        for world in range(lo, hi):
            outcomes[:] = 0
            actions = member(batch, "actions") + world * agents * layout.action.itemsize
            rng = member(batch, "rng") + world * _core.RNG_SIZE
            self._call("step", batch, world, actions, outcomes.ctypes.data, rng)
            for array, name, dtype in (
                ("rewards", "reward", np.float32),
                ("terminated", "terminated", np.uint8),
                ("truncated", "truncated", np.uint8),
            ):
                size = np.dtype(dtype).itemsize
                place = member(batch, array) + world * agents * size
                memory_at(place, dtype, agents)[:] = outcomes[name]

    def _observe(self, batch: int, lo: int, hi: int) -> None:
        size = self._layout.agents * self._layout.obs.itemsize
        for world in range(lo, hi):
            self._call("observe", batch, world, member(batch, "obs") + world * size)

    def _reset(self, batch: int, worlds: int, count: int) -> None:
        size = self._layout.state.itemsize
        for world in memory_at(worlds, np.int32, count).tolist():
            memory_at(member(batch, "state") + world * size, np.uint8, size)[:] = 0
            self._call("reset", batch, world, member(batch, "rng") + world * _core.RNG_SIZE)

    def _flags(self, name: str, width: int, batch: int, lo: int, hi: int, flags: int) -> None:
        memory_at(flags + lo * width, np.uint8, (hi - lo) * width)[:] = 0
        for world in range(lo, hi):
            self._call(name, batch, world, flags + world * width)

    def _metrics(self, batch: int, world: int, out: int) -> None:
        memory_at(out, np.float32, len(self._layout.metrics))[:] = 0
        self._call("metrics", batch, world, out)


def _compiled(function: source.Function, name: str, converters: Any) -> Any:
    """The function of addresses, compiled with everything that finds mistakes."""
    wrap = njit(error_model="numpy", fastmath=False, boundscheck=True)
    prepared = source.prepare(function, checked=True)
    adapter = wrap(adapted(wrap(prepared.realise(wrap)), name, converters))
    with messages.at_the_authors_line(function, name):
        adapter.compile((types.intp,) * adapter.py_func.__code__.co_argcount)
    return adapter
