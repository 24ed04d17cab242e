"""Watches the agent of a run: its episodes as frames, into a video or a folder of images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from .engine.errors import HeadraceError
from .engine.vector import VecEnv
from .images import Frame, Pngs, check_video, video
from .trainers.agent import Agent, load_agent
from .trainers.evaluate import EvalConfig
from .trainers.seeds import EVALUATION, world_seeds


def record(
    config: EvalConfig, *, to: str | None, frames: str | None, fps: int, seconds: float
) -> int:
    """Plays the first episodes of the evaluation again and records world 0.

    Args:
        config: whose agent, which checkpoint and seed, at most how many episodes.
        to: an .mp4 or .gif; frames: a folder for PNG images; None: none.
        fps: frames a second, one for each step.
        seconds: longest video.

    Returns:
        how many frames were recorded.

    Raises:
        ArgumentError: a name that no video can have, imageio-ffmpeg is missing for an .mp4.
        RunError: no such run or checkpoint.
        HeadraceError: an environment that does not draw itself.
    """
    if to is not None:
        check_video(Path(to))
    agent = load_agent(config, 1, config.seed, config.threads, "NextStep")
    with closing(agent.vec), ExitStack() as stack:
        drawable(agent.vec, "recorded")
        sinks = [stack.enter_context(video(Path(to), fps))] if to is not None else []
        if frames is not None:
            sinks.append(stack.enter_context(Pngs(Path(frames))))
        count = 0
        for frame in watch(agent, config):
            for sink in sinks:
                sink.add(frame)
            count += 1
            if count >= seconds * fps:
                break
    return count


def drawable(vec: Any, what: str) -> VecEnv:
    """`vec`, if it draws itself; HeadraceError otherwise. what: what was to be done with it."""
    if not isinstance(vec, VecEnv):
        raise HeadraceError(
            f"environments in Python cannot be {what} here: use Gymnasium's RecordVideo wrapper"
        )
    if not vec.spec_.has_draw:
        raise HeadraceError(
            f"environment {vec.spec_.name!r} cannot be {what}: it has no draw function"
        )
    return vec


def watch(agent: Agent, config: EvalConfig) -> Iterator[Frame]:
    """Frames of world 0, uint8 [height, width, 3]: its start, and what each step leads to."""
    vec = drawable(agent.vec, "watched")
    arrays = vec.buffers.arrays
    key = int(world_seeds(config.seed, 1, EVALUATION)[0])
    step = episodes = 0
    yield vec.draw(0)
    while episodes < config.episodes:
        over = bool(arrays["world_over"][0])
        vec.step(agent.player.act_in(vec, greedy=not config.sample, seed=key, step=step))
        if over:
            agent.player.ended(np.ones(vec.num_envs, np.bool_))
        step += not over  # the step after an end only resets, which is none of the evaluation's
        yield vec.draw(0)
        episodes += bool(arrays["world_over"][0])
