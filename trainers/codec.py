"""Observations and actions of an environment as structs, which policies read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from ..engine.spec import EnvSpec
from ..engine.vector import VecEnv
from .policy import PolicySpec
from .spaces import SpaceCodec, leaf_arrays, spec_of_spaces

Rows = NDArray[np.int64]  # numbers of rows


class Codec:
    """Observations and actions of an environment as structs.

    Attributes:
        spec: EnvSpec of it; made from its spaces where it is no native environment.
        parts: the codecs of both spaces; None for a native environment.
    """

    def __init__(self, spec: EnvSpec, parts: tuple[SpaceCodec, SpaceCodec] | None = None) -> None:
        self.spec, self.parts = spec, parts
        self._shapes = PolicySpec.from_env(self.spec, ())
        space = self.spec.single_action_space
        self._plain = isinstance(space, spaces.Discrete) and space.start == 0

    @classmethod
    def of(cls, vec: VectorEnv) -> Codec:
        """That of a vector environment of ours."""
        if isinstance(vec, VecEnv):
            return cls(vec.spec_)
        name = vec.spec.id if vec.spec is not None else getattr(vec, "name", "environment")
        agents = getattr(vec, "agents", 1)
        return cls.of_spaces(
            name, vec.single_observation_space, vec.single_action_space, agents=agents
        )

    @classmethod
    def of_spaces(
        cls, name: str, observation: spaces.Space, action: spaces.Space, *, agents: int
    ) -> Codec:
        """That of an environment in Python.

        Raises:
            ArgumentTypeError: a space whose values have no fixed size.
        """
        parts = SpaceCodec(observation, "observation"), SpaceCodec(action, "action")
        return cls(spec_of_spaces(name, *parts, agents, has_present=True), parts)

    def pack(self, obs: Any, rows: Rows | None = None) -> NDArray[np.uint8]:
        """Obs structs as bytes [k, size] of rows (None: all) of batched observations."""
        if self.parts is None:
            structs = self._shapes.obs_structs(obs)
            structs = structs if rows is None else structs[rows]
        else:
            leaves = leaf_arrays(obs)
            chosen = np.arange(len(leaves[0])) if rows is None else rows
            structs = self.parts[0].pack(leaves, chosen)
        return structs.view(np.uint8).reshape(len(structs), structs.itemsize)

    def actions(self, chosen: NDArray[np.int32]) -> Any:
        """Actions int32 [k, heads] as a batch of the action space, clipped to its bounds."""
        if self._plain:
            return chosen.reshape(-1)
        structs = self._shapes.action_structs(chosen)
        if self.parts is not None:
            return self.parts[1].unpack(structs)
        return self.spec.view_actions(structs)
