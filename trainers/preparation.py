"""What agents see of Atari games and of MiniGrid: the wrappers that come with them."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

FRAMES = 4  # of the game, in one step of the agent; and that one observation shows
SIZE = 42  # pixels of a picture's side


def preparation(env: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Arguments of make_vec for an Atari game or a MiniGrid by its id; none for anything else.

    Of a MiniGrid, the picture alone: its mission is a text, which has no fixed size. Of a game,
    each step is FRAMES frames of the game, the observation the last FRAMES steps in grey, uint8
    [FRAMES, SIZE, SIZE]. Sticky actions are the id's own (v5: 0.25). A `frameskip` among the
    parameters leaves the environment as it is.
    """
    name = env.removeprefix("gymnasium:") if isinstance(env, str) else ""
    if name.startswith(("MiniGrid-", "BabyAI-")) and importlib.util.find_spec("minigrid"):
        from minigrid.wrappers import ImgObsWrapper

        return {"wrappers": (ImgObsWrapper,)}
    if not name.startswith("ALE/") or "frameskip" in params:
        return {}
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    prepared = functools.partial(AtariPreprocessing, frame_skip=FRAMES, screen_size=SIZE)
    stacked = functools.partial(FrameStackObservation, stack_size=FRAMES)
    return {"frameskip": 1, "wrappers": (prepared, stacked)}
