"""One checkpoint on disk: a folder of arrays and numbers, which says what its bytes were.

    policy.safetensors   weights and normalisation: equal policies, equal bytes
    state.safetensors    everything else that resuming needs: arrays …
    state.json           … and numbers
    SHA256SUMS           of the three, as `sha256sum --check` reads it

It is written under a temporary name and renamed, so that a folder that has its name is whole.
Reading one only ever reads data: nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import ArgumentError, HeadraceError

Tensors = dict[str, NDArray[Any]]

POLICY, ARRAYS, NUMBERS, SUMS = (
    "policy.safetensors", "state.safetensors", "state.json", "SHA256SUMS",
)  # fmt: skip


class RunError(HeadraceError):
    """A run folder that is missing, in the way, incomplete or damaged."""


class RunFolderError(RunError, ArgumentError):
    """The folder or checkpoint that was named is not there, or a folder is not free."""


def write(folder: Path, policy: Tensors, state: Mapping[str, Any]) -> None:
    """Writes a checkpoint, in the place of one that is there.

    state: a nested dict of arrays, numbers, texts and None.

    Raises:
        RunError: the disk refuses; what was there before stays as it is.
    """
    arrays, plain = flatten(state)
    files = {
        POLICY: _packed(policy),
        ARRAYS: _packed(arrays),
        NUMBERS: json.dumps(plain, allow_nan=False).encode(),
    }
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()]
    files[SUMS] = "".join(sums).encode()
    temporary = folder.with_name(f".{folder.name}-{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, data in files.items():
            (temporary / name).write_bytes(data)
        discard(folder)
        temporary.rename(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(f"checkpoint {folder} cannot be written: {error.strerror}") from error


def read_policy(folder: Path) -> Tensors:
    """The policy's tensors by name. RunError for a file that is missing or damaged."""
    return _unpacked(folder / POLICY)


def read_state(folder: Path) -> dict[str, Any]:
    """The state, nested as it was given to `write`. Errors likewise."""
    file = folder / NUMBERS
    try:
        plain = json.loads(_contents(file))
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}") from None
    return unflatten(_unpacked(folder / ARRAYS), plain)


def discard(folder: Path) -> None:
    """Removes a checkpoint; under another name first, so that none is ever seen half gone."""
    if folder.exists():
        doomed = folder.with_name(f".old-{folder.name}-{os.getpid()}")
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Removes what a process that was killed had not finished writing or removing."""
    for left in parent.glob(".*-*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def flatten(state: Mapping[str, Any], prefix: str = "") -> tuple[Tensors, dict[str, Any]]:
    """Splits a nested dict into (arrays, plain values), both flat with names like "a/b"."""
    arrays: Tensors = {}
    plain: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            more_arrays, more_plain = flatten(value, f"{prefix}{name}/")
            arrays |= more_arrays
            plain |= more_plain
        elif isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            plain[prefix + name] = value.item() if isinstance(value, np.generic) else value
    return arrays, plain


def unflatten(arrays: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dict that `flatten` took apart."""
    state: dict[str, Any] = {}
    for name, value in (*arrays.items(), *plain.items()):
        *path, last = name.split("/")
        inner = state
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return state


def _packed(tensors: Mapping[str, Any]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in tensors.items()})


def _unpacked(file: Path) -> Tensors:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(_contents(file)))
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{file} is damaged, no safetensors file: {error}") from None


def _contents(file: Path) -> bytes:
    """The bytes of a checkpoint's file, which are those that were written."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{file} is missing") from None
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}") from error
    wanted = _sums(file.parent).get(file.name)
    if wanted is not None and wanted != hashlib.sha256(data).hexdigest():
        raise RunError(f"{file} is damaged: it is not what was written (its SHA-256 differs)")
    return data


def _sums(folder: Path) -> dict[str, str]:
    """The digests by file; {} where there are none, as in a copy of a single file."""
    try:
        lines = (folder / SUMS).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
