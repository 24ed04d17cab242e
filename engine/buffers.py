"""Buffers: every array of a batch, as NumPy views of one contiguous block of memory.

The block is this process's own, or named shared memory that other processes attach to.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ArgumentError, ClosedError
from .memory import available_memory, check_memory
from .sharedblock import SharedBlock, available_shared_memory
from .spec import EnvSpec

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
_MAGIC = b"headrace-buffers-1\0"


@dataclass(frozen=True)
class ArraySpec:
    """One array of the block."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the arrays

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def layout(spec: EnvSpec, worlds: int) -> tuple[list[ArraySpec], int]:
    """The arrays of a batch of `worlds` worlds, each on a cache line of its own, and the bytes
    of all of them. Names are those of hr_vec and hr_batch (engine/core/vec.h)."""
    rows = worlds * spec.agents
    members: list[tuple[str, Any, tuple[int, ...]]] = [
        ("state", np.uint8, (worlds, spec.state_size)),
        ("rng", np.uint64, (worlds, 2)),  # key and counter
        ("actions", spec.action_dtype, (rows,)),
        ("obs", spec.obs_dtype, (rows,)),
        ("final_obs", spec.obs_dtype, (rows,)),
        ("rewards", np.float32, (rows,)),
        ("terminated", np.bool_, (rows,)),
        ("truncated", np.bool_, (rows,)),
        ("present", np.bool_, (rows,)),
        ("ended", np.bool_, (rows,)),
        ("acted", np.bool_, (rows,)),
        ("carried", np.float32, (rows,)),
        ("elapsed", np.int32, (worlds,)),
        ("pending", np.bool_, (worlds,)),
        ("world_over", np.bool_, (worlds,)),
        ("episode_return", np.float32, (rows,)),
        ("episode_length", np.int32, (rows,)),
        ("last_return", np.float32, (rows,)),
        ("last_length", np.int32, (rows,)),
    ]
    if spec.mask_size:
        members.append(("mask", np.bool_, (rows, spec.mask_size)))
    if spec.metrics_size:
        members.append(("last_metrics", np.float32, (worlds, spec.metrics_size)))
    arrays, offset = [], 0
    for name, dtype, shape in members:
        array = ArraySpec(name, np.dtype(dtype), shape, offset)
        arrays.append(array)
        offset = _aligned(offset + array.nbytes)
    return arrays, offset


class Buffers:
    """All arrays of a batch; zeroed.

    Attributes:
        arrays: by name, see `layout`. `obs`, `final_obs` and `actions` are structured.
        obs, final_obs: the same memory as the observation space has it: an array
            [rows, *shape], or a dict of them.
        actions: likewise for the action space (discrete ones are int32).
        action_slots: uint8 [rows, sizeof(Action)], the same memory as bytes.
        name: of the shared memory, None when it is this process's own.
    """

    def __init__(self, spec: EnvSpec, worlds: int, *, shared: str | bool = False) -> None:
        """shared: True (a name is made up) or a name gives named shared memory.

        Raises:
            ArgumentError: more memory than there is; a name that is taken or not allowed.
        """
        if worlds < 1:
            raise ArgumentError(f"worlds is {worlds}: expected at least 1")
        arrays, size = layout(spec, worlds)
        what = f"{worlds * spec.agents:,} environments of {spec.name!r}"
        check_memory(size, what, available_memory())
        self._block: SharedBlock | None = None
        if shared is False:
            memory = np.zeros(size + ALIGNMENT, np.uint8)
            start = -memory.ctypes.data % ALIGNMENT
            memory = memory[start : start + size]
        else:
            header = _header(arrays)
            check_memory(size + len(header), what, available_shared_memory())
            name = f"headrace-{os.getpid()}-{secrets.token_hex(4)}" if shared is True else shared
            self._block = SharedBlock.create(name, len(header) + size)
            block = self._block.array()
            block[: len(header)] = np.frombuffer(header, np.uint8)
            memory = block[len(header) :]
        self.name = None if self._block is None else self._block.name
        self.arrays = _views(memory, arrays)
        self.obs = spec.view_observations(self.arrays["obs"])
        self.final_obs = spec.view_observations(self.arrays["final_obs"])
        self.actions = spec.view_actions(self.arrays["actions"])
        self.action_slots = self.arrays["actions"].view(np.uint8).reshape(worlds * spec.agents, -1)
        self.nbytes = size

    @staticmethod
    def attach(name: str) -> dict[str, np.ndarray]:
        """The arrays of shared buffers that another process made: views of the same memory,
        which stays mapped as long as one of them lives.

        Raises:
            ArgumentError: there are no such buffers.
        """
        memory = SharedBlock.attach(name).array()
        prefix = len(_MAGIC) + 8
        if len(memory) < prefix or memory[: len(_MAGIC)].tobytes() != _MAGIC:
            raise ArgumentError(f"shared memory {name!r} holds no headrace buffers")
        length = int.from_bytes(memory[len(_MAGIC) : prefix].tobytes(), "big")
        listed = json.loads(memory[prefix : prefix + length].tobytes())
        arrays = [
            ArraySpec(entry, _dtype_from(dtype), tuple(shape), offset)
            for entry, dtype, shape, offset in listed
        ]
        return _views(memory[_aligned(prefix + length) :], arrays)

    def close(self) -> None:
        """Removes the shared memory's name: nobody can attach any more. Arrays that exist stay
        valid. Does nothing when it was done before, or when the memory is not shared."""
        if self._block is not None:
            self._block.unlink()

    def __reduce__(self) -> Any:
        raise ClosedError(
            "Buffers cannot be pickled: make them with shared=True and pass their name to "
            "Buffers.attach"
        )


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _views(memory: np.ndarray, arrays: list[ArraySpec]) -> dict[str, np.ndarray]:
    return {
        a.name: memory[a.offset : a.offset + a.nbytes].view(a.dtype).reshape(a.shape)
        for a in arrays
    }


# ---- the header of a shared block: _MAGIC, its length (8 bytes, big-endian), JSON ---------


def _header(arrays: list[ArraySpec]) -> bytes:
    listed = [[a.name, _dtype_to(a.dtype), list(a.shape), a.offset] for a in arrays]
    text = json.dumps(listed).encode()
    header = _MAGIC + len(text).to_bytes(8, "big") + text
    return header.ljust(_aligned(len(header)), b"\0")


def _dtype_to(dtype: np.dtype) -> Any:
    if dtype.fields is None:
        return dtype.str
    parts = []
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]
        parts.append([name, field.base.str, list(field.shape), offset])
    return {"size": dtype.itemsize, "fields": parts}


def _dtype_from(told: Any) -> np.dtype:
    if isinstance(told, str):
        return np.dtype(told)
    return np.dtype(
        {
            "names": [part[0] for part in told["fields"]],
            "formats": [(part[1], tuple(part[2])) for part in told["fields"]],
            "offsets": [part[3] for part in told["fields"]],
            "itemsize": told["size"],
        }
    )
