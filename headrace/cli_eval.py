"""`headrace eval`: measures the agent of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from .flags import Verb
from .images import check_video
from .output import print_json, print_table
from .trainers.evaluate import EvalConfig, evaluate
from .trainers.settings import setting, settings


@dataclasses.dataclass(frozen=True)
class EvalFlags(EvalConfig):
    """The flags of `headrace eval`: every field of the configuration, and these."""

    video: str | None = setting(None, "also record the first episodes: a file.mp4 or file.gif")
    frames: str | None = setting(None, "also record them as PNG images in this folder")
    fps: int = setting(30, "frames a second of the video, one for each step", low=1, high=100)
    video_seconds: float = setting(30.0, "longest video", above=0)
    json: bool = setting(False, "print the result as one JSON document on stdout")


VERB = Verb(
    "eval",
    "Plays episodes with the agent of a run and sums up their returns. Each environment plays "
    "the same number of episodes, so that short ones do not count more often than long ones.",
    EvalFlags,
    "headrace eval runs/cartpole-20260101-120000 --episodes 100",
)


_RECORDING = ("video", "frames", "fps", "video_seconds")


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    as_json = given.pop("json", False)
    given, recording = _split(given)
    if recording.get("video") is not None:
        check_video(Path(recording["video"]))  # before the episodes are played
    result = dataclasses.asdict(evaluate(**given))
    if recording.get("video") is not None or recording.get("frames") is not None:
        result |= _record(given, recording)
    if as_json:
        print_json(result)
    else:
        shown = [
            (name, f"{v:.6g}" if isinstance(v, float) else str(v)) for name, v in result.items()
        ]
        print_table(("figure", "value"), shown)
    return 0


def _split(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what is evaluated, how it is recorded)"""
    return (
        {name: value for name, value in given.items() if name not in _RECORDING},
        {name: value for name, value in given.items() if name in _RECORDING},
    )


def _record(given: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """Records, and returns what there is to add to the result."""
    from .recording import record

    flags = {**{name: settings(EvalFlags)[name].default for name in _RECORDING}, **recording}
    count = record(
        EvalConfig(**given),
        to=flags["video"],
        frames=flags["frames"],
        fps=flags["fps"],
        seconds=flags["video_seconds"],
    )
    return {"video": flags["video"], "frames": flags["frames"], "frame_count": count}
