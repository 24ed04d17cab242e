"""Memory: see a cue, wait, and say which cue it was.

Nothing that is seen while waiting tells of the cue, so that without memory no policy does better
than chance.

observation  cue: one number per cue, 1 for the one that is shown (in the first step), else 0;
             ask: 1 in the step whose action is the answer, else 0
action       0 .. CUES - 1, the answer; it counts only when asked for
reward       1 for the right answer, -1 for a wrong one; 0 while waiting
start        any cue, each as likely as the others
end          terminated with the answer, in step DELAY + 2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.numba import discrete, field, numba_env

DELAY = 8  # steps between the cue and the question, at least 0
CUES = 4  # at least 2

if DELAY < 0 or CUES < 2:
    raise ValueError(f"DELAY is {DELAY} and CUES is {CUES}: give at least 0 and at least 2")

COLORS = ((86, 182, 194), (232, 184, 72), (224, 108, 117), (152, 195, 121), (198, 120, 221))


@numba_env
class Memory:
    """The environment of this file."""

    state = np.dtype([("cue", np.int32), ("steps", np.int32)])
    action = {"answer": discrete(CUES)}
    obs = {"cue": field(0, 1, shape=CUES), "ask": field(0, 1)}

    @staticmethod
    def reset(p: Any, s: Any, rng: Any) -> None:
        s.cue = rng.randint(CUES)

    @staticmethod
    def step(p: Any, s: Any, a: Any, out: Any, rng: Any) -> None:
        asked = s.steps == DELAY + 1
        s.steps += 1
        if asked:
            out.reward = 1.0 if a.answer == s.cue else -1.0
        out.terminated = asked

    @staticmethod
    def observe(p: Any, s: Any, o: Any) -> None:
        for cue in range(CUES):
            o.cue[cue] = 1.0 if s.steps == 0 and cue == s.cue else 0.0
        o.ask = 1.0 if s.steps == DELAY + 1 else 0.0

    @staticmethod
    def draw(p: Any, s: Any, frame: Any) -> None:
        width, height = frame.width, frame.height
        size = min(width, height)
        frame.fill((28, 31, 38))
        if s.steps == 0:
            frame.disc(0.5 * width, 0.45 * height, 0.25 * size, COLORS[s.cue % len(COLORS)])
            frame.text(0.5 * width - 0.03 * size, 0.42 * height, 0.012 * size, (0, 0, 0), s.cue)
        elif s.steps == DELAY + 1:
            frame.text(0.5 * width - 0.1 * size, 0.3 * height, 0.04 * size, (220, 223, 228), "?")
        share = min(s.steps / (DELAY + 2), 1.0)
        frame.rect(0.1 * width, 0.85 * height, 0.8 * width, 0.04 * height, (46, 51, 61))
        frame.rect(0.1 * width, 0.85 * height, 0.8 * width * share, 0.04 * height, (120, 126, 140))
