"""Snapshots: everything that the future of a batch depends on, as plain arrays."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .errors import ArgumentError, ArgumentTypeError, kind_of

_FORMAT = 1
_HEADER = "header"
_COUNTS = ("elapsed", "episode_length", "last_length", "steps")  # arrays of numbers >= 0


@dataclass(frozen=True)
class Snapshot:
    """The batch at one moment: states, generators, counters, pending resets, parameters,
    statistics and the current observations. Made by `VecEnv.snapshot`."""

    env: str  # name of the environment
    source_hash: str  # of the source that it was compiled from
    num_envs: int
    autoreset_mode: str
    max_steps: int  # time limit in steps, 0: none
    arrays: Mapping[str, np.ndarray]  # by name, copies

    def to_bytes(self) -> bytes:
        """The snapshot as an .npz archive; nothing in it is executed when it is read."""
        header = {
            "format": _FORMAT,
            "env": self.env,
            "source_hash": self.source_hash,
            "num_envs": self.num_envs,
            "autoreset_mode": self.autoreset_mode,
            "max_steps": self.max_steps,
        }
        stored = {_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}
        stored.update(self.arrays)
        out = io.BytesIO()
        np.savez(out, allow_pickle=False, **stored)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Reads what `to_bytes` wrote.

        Raises:
            ArgumentError: `data` is something else, or of another version of headrace.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop(_HEADER).tobytes())
            form = header.pop("format")
        except (OSError, ValueError, KeyError, AttributeError, EOFError, zipfile.BadZipFile):
            raise ArgumentError("data holds no snapshot: pass what to_bytes() gave") from None
        if form != _FORMAT:
            raise ArgumentError(
                f"data holds a snapshot of format {form}: this version reads format {_FORMAT}"
            )
        return cls(arrays=arrays, **header)


def check_match(snapshot: Snapshot, expected: Snapshot) -> None:
    """Raises unless `snapshot` fits the batch that `expected` was just taken from."""
    if not isinstance(snapshot, Snapshot):
        raise ArgumentTypeError(
            f"snapshot is {kind_of(snapshot)}: pass what VecEnv.snapshot() returned"
        )
    if snapshot.env != expected.env:
        raise ArgumentError(
            f"snapshot is of the environment {snapshot.env!r} and cannot be restored into "
            f"{expected.env!r}"
        )
    if snapshot.source_hash != expected.source_hash:
        raise ArgumentError(
            f"snapshot is of another version of the source of {snapshot.env!r}: it can only be "
            "restored into the version that it was taken from"
        )
    for name in ("num_envs", "autoreset_mode", "max_steps"):
        theirs, ours = getattr(snapshot, name), getattr(expected, name)
        if theirs != ours:
            raise ArgumentError(f"snapshot has {name}={theirs!r}, this environment has {ours!r}")
    for name, array in expected.arrays.items():
        theirs = snapshot.arrays.get(name)
        if theirs is None or theirs.shape != array.shape or theirs.dtype != array.dtype:
            raise ArgumentError(f"snapshot does not fit: its array {name!r} is missing or differs")
        if theirs.dtype == np.bool_ and (theirs.view(np.uint8) > 1).any():
            raise ArgumentError(f"snapshot is damaged: flags in {name!r} are neither 0 nor 1")
        if name in _COUNTS and (theirs < 0).any():
            raise ArgumentError(f"snapshot is damaged: {name!r} holds a negative number")
