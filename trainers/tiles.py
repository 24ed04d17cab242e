"""Rows as tiles of 64, feature by feature, as the kernels take them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native


def to_tiles(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows [rows, features] as zero-padded tiles [tiles, features, 64]."""
    rows, features = x.shape
    tiles = _native.aligned((-(-rows // _native.TILE), features, _native.TILE), np.float32)
    padded = np.zeros((len(tiles) * _native.TILE, features), np.float32)
    padded[:rows] = x
    tiles[:] = padded.reshape(len(tiles), _native.TILE, features).transpose(0, 2, 1)
    return tiles


def from_tiles(tiles: NDArray[Any], rows: int) -> NDArray[Any]:
    """The inverse of `to_tiles` for the first `rows` rows."""
    return np.ascontiguousarray(tiles.transpose(0, 2, 1)).reshape(-1, tiles.shape[1])[:rows]
