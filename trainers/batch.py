"""A vector environment of ours as stepped collection sees it: rows sent, rows received.

Observations and actions are structs (see spaces.py), rows are named by number, and nothing
here depends on what kind of executor steps them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import ArgumentError, CallOrderError, ClosedError
from ..engine.vector import VecEnv
from .codec import Codec, Rows


class Batch:
    """Sends actions to rows and reads what they show.

    Attributes:
        vec: the vector environment, in SameStep mode.
        spec: EnvSpec of it, see Codec.
        rows, agents, group: rows in all; of one world; that one `recv` waits for.
        all: the numbers of all rows: what `recv` gives where they step as one.
    """

    def __init__(self, vec: Any) -> None:
        """Raises ArgumentError for environments in another autoreset mode."""
        mode = vec.metadata["autoreset_mode"].value
        if mode != "SameStep":
            raise ArgumentError(
                f"autoreset_mode is {mode!r}: "
                "collection needs make_vec(..., autoreset_mode='SameStep')"
            )
        self.vec = vec
        self.rows = vec.num_envs
        self.agents: int = self.vec.agents
        self.group: int = self.vec.batch_size
        self.in_flight = 0
        self.all: Rows = np.arange(self.rows)
        self._whole: Any = None  # actions of all rows, when they are stepped as one
        self._codec = Codec.of(vec)
        self.spec = self._codec.spec
        arrays, buffers = self.vec.buffers.arrays, self.vec.buffers
        self._native = isinstance(vec, VecEnv)
        names = ("obs", "final_obs")
        self._obs, self._final = (
            [arrays[name].view(np.uint8).reshape(self.rows, -1) for name in names]
            if self._native
            else [getattr(buffers, name) for name in names]
        )
        # with several agents, one may end before its world does
        away = self.spec.has_present or self.agents > 1
        self._present = arrays["present"] if away else None
        self._ended = arrays["ended"] if away and self._native else None
        self._mask = arrays.get("mask")
        self._floats = [f for f in self.spec.obs_fields if f.dtype == "float32"]
        self._all_floats = 4 * sum(f.size for f in self._floats) == self.spec.obs_dtype.itemsize
        own = self._native and self._all_floats
        self._numbers: Any = self._obs.view(np.float32).reshape(-1) if own else None

    def check_ready(self) -> None:
        """Raises unless the environments were reset and are open."""
        if self.vec.closed:
            raise ClosedError("collect() after the environments were closed")
        rng = self.vec.buffers.arrays.get("rng")
        if rng is not None and not np.all(rng[:, 0]):
            raise CallOrderError("collect() before reset(): reset the environments first")

    def seen(
        self, rows: Rows
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None, NDArray[np.bool_] | None]:
        """What rows that are not in flight show: Obs structs as bytes [k, size], zeros for
        agents that are not there; masks uint8 [k, mask_size], 0 where a choice is not allowed,
        or None; which agents are there, bool [k], None: all. They may be views, which last until
        the rows are sent."""
        plain = rows is self.all and self._native and self._present is None
        raw = self._obs if plain else self._structs(self._obs, rows)
        mask = None if self._mask is None else self._mask[rows].view(np.uint8)
        if self._present is None:
            return raw, mask, None
        live = self._present[rows].astype(np.bool_)
        raw[~live] = 0
        return raw, mask, live

    def standing(self, rows: Rows) -> NDArray[np.uint8]:
        """What rows whose episode goes on show, whether or not their agent acts next, as bytes
        [k, size]; zeros for the others."""
        raw = self._structs(self._obs, rows)
        if self._ended is not None:
            raw[self._ended[rows].astype(np.bool_)] = 0
        elif self._present is not None:
            raw[~self._present[rows].astype(np.bool_)] = 0
        return raw

    def final_observations(self, rows: Rows) -> NDArray[np.uint8]:
        """The same of the last observations of the episodes that ended in these rows."""
        return self._structs(self._final, rows)

    def _structs(self, obs: Any, rows: Rows) -> NDArray[np.uint8]:
        if self._native:
            raw: NDArray[np.uint8] = obs[rows]
            return raw
        return self._codec.pack(obs, rows)

    def first_bad(self, raw: NDArray[np.uint8]) -> tuple[int, str, float] | None:
        """(index, field's name, number) of the first number in raw that is not finite."""
        if self._all_floats:
            numbers = self._numbers if raw is self._obs else raw.view(np.float32).reshape(-1)
            if math.isfinite(numbers.dot(numbers)):  # quicker than asking each
                return None
        for field in self._floats:
            part = raw[:, field.offset : field.offset + 4 * field.size]
            numbers = np.ascontiguousarray(part).view(np.float32)
            bad = ~np.isfinite(numbers)
            if bad.any():
                at, element = (int(k) for k in np.argwhere(bad)[0])
                where = np.unravel_index(element, field.shape) if field.shape else ()
                index = f"[{', '.join(str(int(k)) for k in where)}]" if where else ""
                return at, field.name + index, float(numbers[at, element])
        return None

    def send(self, actions: NDArray[np.int32], rows: Rows) -> None:
        """Starts a step of whole worlds with int32 [len(rows), heads] (floats by their bits)."""
        if len(rows) == self.rows and self.group == self.rows:
            self._whole = self._codec.actions(actions)  # nobody else to wait for: see `recv`
        else:
            self.vec.send(self._codec.actions(actions), rows)
        self.in_flight += len(rows)

    def recv(self) -> tuple[Rows, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Waits for the `group` rows that are ready first: their numbers, rewards, terminated
        and truncated, [k] each."""
        if self._whole is not None:
            _, reward, terminated, truncated, _ = self.vec.step(self._whole)
            self._whole, rows = None, self.all
        else:
            _, reward, terminated, truncated, infos = self.vec.recv()
            rows = infos["env_id"]
        self.in_flight -= len(rows)
        return rows, np.asarray(reward, np.float32), terminated, truncated
