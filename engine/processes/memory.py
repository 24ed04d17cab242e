"""The shared memory of a batch: all its arrays in one block that has no name.

A block without a name cannot be left behind: the system frees it with the last process that
maps it, however that process ends. Worker processes get it as a file handle over a socket.
"""

from __future__ import annotations

import math
import mmap
import os
import secrets
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ..buffers import ALIGNMENT, ArraySpec
from ..errors import ArgumentError
from ._board import board_bytes
from .leaves import Leaf, assemble

INFO_BYTES = 2048  # of a world's pickled infos in shared memory; longer ones take the socket


@dataclass(frozen=True)
class Layout:
    """The arrays of a batch and where they lie; the same in every process."""

    observation: list[Leaf]
    action: list[Leaf]
    agents: int
    starts: np.ndarray  # int64 [workers + 1]: worker k has the worlds [starts[k], starts[k+1])
    arrays: list[ArraySpec]
    size: int  # bytes

    @classmethod
    def of(
        cls, observation: list[Leaf], action: list[Leaf], agents: int, starts: np.ndarray
    ) -> Layout:
        """Lays out a batch of starts[-1] worlds of `agents` rows each."""
        worlds = int(starts[-1])
        rows = worlds * agents
        members: list[tuple[str, Any, tuple[int, ...]]] = [
            ("board", np.uint8, (board_bytes(starts),)),
            ("rewards", np.float64, (rows,)),
            ("terminated", np.bool_, (rows,)),
            ("truncated", np.bool_, (rows,)),
            ("present", np.bool_, (rows,)),  # acts at the next step
            ("idle", np.uint16, (worlds,)),  # pending and lost, see Memory
            ("info_bytes", np.int64, (worlds,)),  # 0: none; -1: they come by letter
            ("infos", np.uint8, (worlds, INFO_BYTES)),
        ]
        for at, leaf in enumerate(action):
            members.append((f"action{at}", leaf.dtype, (rows, *leaf.shape)))
        for kind in ("obs", "final"):
            for at, leaf in enumerate(observation):
                members.append((f"{kind}{at}", leaf.dtype, (rows, *leaf.shape)))
        arrays, offset = [], 0
        for name, dtype, shape in members:
            array = ArraySpec(name, np.dtype(dtype), shape, offset)
            arrays.append(array)
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return cls(observation, action, agents, starts, arrays, offset)


class Memory:
    """The arrays of a Layout over a block of memory.

    Attributes:
        arrays: by name, see Layout.of.
        obs, final, actions: the arrays of the leaves, [rows, ...] each, in order.
    """

    def __init__(self, layout: Layout, block: Any) -> None:
        """block: a writable buffer of layout.size bytes, aligned to a page or cache line."""
        data = np.frombuffer(block, np.uint8)
        # dtypes by name: a pickled one is equal to NumPy's own, but another object, and the hot
        # paths compare objects
        self.arrays = {
            each.name: data[each.offset : each.offset + math.prod(each.shape) * each.dtype.itemsize]
            .view(np.dtype(each.dtype.str))
            .reshape(each.shape)
            for each in layout.arrays
        }
        idle = self.arrays["idle"].view(np.bool_).reshape(-1, 2)
        self.arrays["pending"] = idle[:, 0]  # its episode has ended
        self.arrays["lost"] = idle[:, 1]  # its worker was replaced
        self.obs = [self.arrays[f"obs{at}"] for at in range(len(layout.observation))]
        self.final = [self.arrays[f"final{at}"] for at in range(len(layout.observation))]
        self.actions = [self.arrays[f"action{at}"] for at in range(len(layout.action))]


@dataclass(frozen=True)
class BatchBuffers:
    """What a batch shares with its workers, as arrays in the structure of its spaces.

    They are overwritten whenever a row is stepped or reset.
    """

    obs: Any  # [rows, ...]
    final_obs: Any  # [rows, ...]
    actions: Any  # [rows, ...]
    # rewards, terminated, truncated, present: [rows]; pending, who will be reset: [worlds]
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, memory: Memory, observation: spaces.Space, action: spaces.Space) -> BatchBuffers:
        """The arrays of `memory` in the structure of the single spaces."""
        return cls(
            assemble(observation, memory.obs),
            assemble(observation, memory.final),
            assemble(action, memory.actions),
            {
                name: memory.arrays[name]
                for name in ("rewards", "terminated", "truncated", "present", "pending")
            },
        )


def open_block(size: int) -> int:
    """A handle of `size` zero bytes of memory that processes may share; it has no name.

    Raises:
        ArgumentError: the memory cannot be had.
    """
    try:
        handle = _anonymous()
        try:
            os.ftruncate(handle, size)
            if sys.platform == "linux":  # its pages now, so that no later write can fail
                os.posix_fallocate(handle, 0, size)
        except OSError:
            os.close(handle)
            raise
    except OSError as error:
        raise ArgumentError(
            f"shared memory of {size:,} bytes cannot be had: {error.strerror}"
        ) from None
    return handle


def map_block(handle: int, size: int) -> mmap.mmap:
    """Maps a block; the mapping lives as long as an array of it does."""
    return mmap.mmap(handle, size)


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("headrace", os.MFD_CLOEXEC)
    import _posixshmem

    name = f"/headrace-{secrets.token_hex(6)}"
    handle = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    _posixshmem.shm_unlink(name)
    return handle
