"""Named shared memory whose mapping lives as long as an array of it does.

`multiprocessing.shared_memory` has two traits that do not suit arrays: `close` fails while a
NumPy view exists, and before Python 3.13 a process that merely attaches registers the block
with its resource tracker, which then unlinks it at that process's exit. Here the arrays own
the mapping, and only the process that made the block is tracked.
"""

from __future__ import annotations

import _posixshmem
import contextlib
import errno
import mmap
import os
import sys
from multiprocessing import resource_tracker

import numpy as np

from .errors import ArgumentError


class SharedBlock:
    """One block of POSIX shared memory; see `create` and `attach`."""

    def __init__(self, name: str, mapping: mmap.mmap, owner: int | None) -> None:
        self.name = name
        self._mapping = mapping
        self._owner = owner  # process that unlinks it; None when nobody here does

    @classmethod
    def create(cls, name: str, size: int) -> SharedBlock:
        """A new block of `size` zero bytes, unlinked by `unlink` or when the program ends.

        Raises:
            ArgumentError: the name is taken or not allowed, or the memory cannot be had.
        """
        handle = _open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        try:
            _reserve(handle, size)
            mapping = mmap.mmap(handle, size)
        except OSError as error:
            _posixshmem.shm_unlink(f"/{name}")
            raise ArgumentError(
                f"shared memory {name!r} of {size:,} bytes cannot be had: {error.strerror}"
            ) from None
        finally:
            os.close(handle)
        resource_tracker.register(f"/{name}", "shared_memory")
        return cls(name, mapping, os.getpid())

    @classmethod
    def attach(cls, name: str) -> SharedBlock:
        """The existing block of that name; whoever made it unlinks it.

        Raises:
            ArgumentError: there is none.
        """
        handle = _open(name, os.O_RDWR)
        try:
            size = os.fstat(handle).st_size
            if size == 0:
                raise ArgumentError(f"shared memory {name!r} is empty")
            mapping = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        return cls(name, mapping, None)

    def array(self) -> np.ndarray:
        """All bytes, uint8; page-aligned."""
        return np.frombuffer(self._mapping, np.uint8)

    def unlink(self) -> None:
        """Removes the name, once, in the process that made the block. Mappings stay."""
        if self._owner != os.getpid():
            return
        self._owner = None
        with contextlib.suppress(FileNotFoundError):  # removed by somebody else: just as well
            _posixshmem.shm_unlink(f"/{self.name}")
        resource_tracker.unregister(f"/{self.name}", "shared_memory")

    def __del__(self) -> None:
        self.unlink()


def available_shared_memory() -> int | None:
    """Bytes left for shared memory; None where the system does not tell."""
    try:
        told = os.statvfs("/dev/shm")
    except OSError:
        return None
    return told.f_bavail * told.f_frsize


def _open(name: str, flags: int) -> int:
    if not name or "/" in name or "\0" in name:
        raise ArgumentError(f"shared is {name!r}: a name of shared memory is a plain word")
    try:
        return _posixshmem.shm_open(f"/{name}", flags, mode=0o600)
    except FileExistsError:
        raise ArgumentError(f"shared memory {name!r} exists already: use another name") from None
    except FileNotFoundError:
        raise ArgumentError(
            f"there is no shared memory {name!r}: its maker may have closed it"
        ) from None
    except OSError as error:
        raise ArgumentError(f"shared memory {name!r} cannot be opened: {error.strerror}") from None


def _reserve(handle: int, size: int) -> None:
    """Gives the block its size, and on Linux its pages, so that no later write can fail."""
    os.ftruncate(handle, size)
    if sys.platform == "linux":
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
