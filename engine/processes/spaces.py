"""The spaces of a batch of environments, which must fit together."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces

from ..errors import ArgumentError, ArgumentTypeError
from .description import Description


class SpaceMismatchError(ArgumentError, RuntimeError):
    """Environments of a batch have spaces that do not fit together."""


def observation_spaces(
    first: Description, others: dict[int, Description], worlds: int, observation_mode: Any
) -> tuple[spaces.Space, spaces.Space | None]:
    """The single observation space of a batch and the batched one, None for the single one's
    own; checks that all environments fit into one batch.

    others: descriptions by world, of those that may differ from the first.
    """
    custom = isinstance(observation_mode, tuple) and len(observation_mode) == 2
    if custom:
        for each in observation_mode:
            if not isinstance(each, spaces.Space):
                raise ArgumentTypeError(
                    "Expected both elements of observation_mode to be Spaces, got "
                    f"{type(each).__name__}"
                )
    elif observation_mode not in ("same", "different"):
        raise ArgumentError(
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single "
            f"and batch observation space, actual got {observation_mode}"
        )
    for world, other in others.items():
        _check_like_first(first, other, world, observation_mode)
    if custom:
        batched, single = observation_mode
        if not is_space_dtype_shape_equiv(single, first.observation_space):
            raise ArgumentError(
                f"observation_mode has the single space {single}, whose shape or dtype is not "
                f"that of the environments' {first.observation_space}"
            )
        return single, batched
    if observation_mode == "different":
        ordered = [others.get(world, first).observation_space for world in range(worlds)]
        return first.observation_space, batch_differing_spaces(ordered)
    return first.observation_space, None


def _check_like_first(
    first: Description, other: Description, world: int, observation_mode: Any
) -> None:
    if other.agents != first.agents:
        raise ArgumentError(
            f"environment {world} has {other.agents} agents, environment 0 has {first.agents}"
        )
    if other.action_space != first.action_space:
        raise SpaceMismatchError(
            f"environment {world} has the action space {other.action_space}, environment 0 "
            f"has {first.action_space}: environments of a batch share one"
        )
    same = other.observation_space == first.observation_space
    if observation_mode == "same" and not same:
        raise SpaceMismatchError(
            f"observation_mode='same', but the sub-environments observation spaces are not "
            f"equivalent. Environment {world} has {other.observation_space}, environment 0 "
            f"has {first.observation_space}. If this is intentional, use "
            "`observation_mode='different'` instead."
        )
    if not same and not is_space_dtype_shape_equiv(
        other.observation_space, first.observation_space
    ):
        raise SpaceMismatchError(
            f"the observation spaces of environment {world}, {other.observation_space}, and "
            f"environment 0, {first.observation_space}, differ in shape or dtype"
        )
