"""How many frames of a game one step of an environment is."""

from __future__ import annotations

from typing import Any

import gymnasium

# Attributes of Gymnasium's wrappers that repeat an action, by their classes.
_SKIPS = {"AtariPreprocessing": "frame_skip", "MaxAndSkipObservation": "_skip"}


def frame_skip(env: gymnasium.Env) -> int | None:
    """Frames per step, by the wrappers and by ALE's own skip; 1 where nothing skips, None where it
    is drawn anew at each step."""
    frames = 1
    while isinstance(env, gymnasium.Wrapper):
        frames *= int(getattr(env, _SKIPS.get(type(env).__name__, ""), 1))
        env = env.env
    own: Any = getattr(env, "_frameskip", 1)  # of ale_py's AtariEnv: a number or a range
    return frames * own if isinstance(own, int) else None
