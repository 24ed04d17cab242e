"""Rollouts filled with random rows, for the tests of loss and learner."""

from __future__ import annotations

from typing import Any

import naive
import numpy as np

from headrace.trainers import _native
from headrace.trainers.tiles import from_tiles


def random_rollout(policy, params, rng, *, horizon=3, worlds=100, off=0.3):
    """A rollout whose behaviour policy was near `params`, some rows not valid; and its rows as
    `naive` takes them."""
    ro = _native.Rollout(policy.net, horizon=horizon, worlds=worlds, agents=1)
    tiles = len(ro.obs)
    n = tiles * 64
    obs = rng.standard_normal((n, policy.features)).astype(np.float32)
    ro.obs[:] = tiled(obs)
    mask = None
    if policy.env.mask_size:
        mask = (rng.random((n, policy.env.mask_size)) < 0.6).astype(np.uint8)
        column = 0
        for head in policy.heads:  # something is allowed
            if head.size:
                mask[np.arange(n), column + rng.integers(head.size, size=n)] = 1
                column += head.size
        ro.mask[:] = tiled(mask)
    actions, bits = random_actions(policy, mask, rng, n)
    ro.actions[:] = tiled(bits)
    noise = rng.standard_normal((4, n))
    rows: dict[str, Any] = {
        "horizon": horizon,
        "obs": obs,
        "actions": actions,
        "mask": mask,
        "valid": (rng.random(n) < 0.9).astype(np.float32),
        "done": (rng.random(n) < 0.2).astype(np.float32),
        "states": rng.standard_normal((n // horizon, policy.state_size)).astype(np.float32),
    }
    ro.states[:] = tiled(rows["states"])
    out = naive.outputs(policy, params, rows)
    logp, _ = naive.logp_and_entropy(policy, params, out, actions, mask)
    columns = {
        "logp": logp + off * noise[0],
        "value": out[:, -1] + noise[1],
        "advantage": noise[2],
        "ret": out[:, -1] + noise[3],
    }
    rows |= {name: column.astype(np.float32) for name, column in columns.items()}
    for name in (*columns, "valid", "done"):
        getattr(ro, name)[:] = rows[name].reshape(tiles, 64)
    ro.count_rows()
    return ro, rows


def random_actions(policy, mask, rng, n):
    """Allowed actions [n, heads] as numbers, and as the bits that a rollout holds."""
    numbers, bits = np.zeros((n, len(policy.heads))), np.zeros((n, len(policy.heads)), np.int32)
    column = 0
    for k, head in enumerate(policy.heads):
        if head.size:
            weight = rng.random((n, head.size))
            if mask is not None:
                weight = weight * mask[:, column : column + head.size]
            numbers[:, k] = bits[:, k] = weight.argmax(1)
            column += head.size
        else:
            drawn = rng.standard_normal(n).astype(np.float32)
            numbers[:, k], bits[:, k] = drawn, drawn.view(np.int32)
    return numbers, bits


def tiled(rows):
    """[tiles * 64, k] as [tiles, k, 64]."""
    return rows.reshape(len(rows) // 64, 64, rows.shape[1]).transpose(0, 2, 1)


def mask_tiles(mask):
    """Masks [rows, columns] as tiles [tiles, columns, 64]; padding allows everything."""
    rows = -len(mask) % _native.TILE
    padded = np.concatenate([mask, np.ones((rows, mask.shape[1]), np.uint8)])
    return np.ascontiguousarray(
        padded.reshape(-1, _native.TILE, mask.shape[1]).transpose(0, 2, 1), np.uint8
    )


def untiled(tiles):
    """[tiles, k, 64] as [tiles * 64, k]."""
    return from_tiles(tiles, len(tiles) * 64)
