"""What a batch must know of an environment before it can lay out its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import spaces


@dataclass(frozen=True)
class Description:
    """An environment as its batch sees it."""

    observation_space: spaces.Space
    action_space: spaces.Space
    agents: int
    comes_and_goes: bool  # agents may be absent
    metadata: dict[str, Any]
    render_mode: str | None
    frame_skip: int | None = 1  # frames of a game in one step; None: any

    def same_spaces(self, other: Description) -> bool:
        """Whether the other has as many agents and equal spaces."""
        return (
            self.agents == other.agents
            and self.observation_space == other.observation_space
            and self.action_space == other.action_space
        )
