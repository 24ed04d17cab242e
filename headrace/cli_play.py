"""`headrace play`: an environment in the terminal, for a person or for a trained agent."""

from __future__ import annotations

import dataclasses
import sys
import time
from contextlib import closing
from typing import Any

import numpy as np

from .controls import Controls, random_actions
from .engine.errors import ArgumentError
from .engine.make import make_vec
from .engine.resolve import resolve
from .engine.vector import VecEnv
from .explain import rules
from .flags import Verb
from .recording import drawable
from .terminal import LETTERS, Terminal, shrink, text_of
from .trainers.params import params_for
from .trainers.settings import ConfigError, Pairs, setting

_OVERSAMPLED = 4  # pixels drawn for each one shown, along each side
_ASPECT = 1.5  # of a frame, width by height
_PLAIN_COLUMNS = 60  # of a frame that is printed
_INTERRUPTED = 130  # exit code after ^C
_MARGIN = 3  # lines below the frame


@dataclasses.dataclass(frozen=True)
class PlayFlags:
    """The flags of `headrace play`."""

    env: str | None = setting(
        None, "a shipped environment or a file of your own (or --agent)", positional=True
    )
    agent: str | None = setting(None, "watch the agent of the run in this folder")
    policy: str | None = setting(None, "the agent's policy, net.py:Net, where it is your own")
    seed: int = setting(0, "seed of the first episode", low=0, high=2**62)
    fps: int = setting(12, "steps a second", low=1, high=100)
    params: Pairs = setting(
        (), "parameters and compile-time sizes of the environment: name=number,name=number"
    )
    frames: int | None = setting(
        None, "stop after so many frames; without a terminal they are printed as text", low=1
    )


VERB = Verb(
    "play",
    "Shows an environment in the terminal and lets you act: arrows or digits, space pauses, r "
    "starts anew, q quits. Where no action leaves things as they are, it waits for your key.",
    PlayFlags,
    "headrace play snake",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    flags = PlayFlags(**given)
    if (flags.env is None) == (flags.agent is None):
        raise ConfigError(
            "ENV is missing: name an environment to play, or --agent RUN to watch"
            if flags.env is None
            else "ENV and --agent are both given: the run knows its environment, leave ENV out"
        )
    _refuse_unheeded(flags)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not terminal and flags.frames is None:
        raise ArgumentError(
            "play needs a terminal; without one, --frames N prints N frames as text"
        )
    game = Watched(flags) if flags.agent is not None else Played(flags)
    with closing(game.vec):
        if terminal:
            try:
                with Terminal() as screen:
                    _interact(game, screen, flags)
            except KeyboardInterrupt:
                return _INTERRUPTED
        else:
            _print(game, flags.frames or 1)
    return 0


def _refuse_unheeded(flags: PlayFlags) -> None:
    """ConfigError for what one of a person and an agent does not heed."""
    if flags.agent is not None and flags.params:
        raise ConfigError("params are those of the run, and --agent is given: leave them out")
    if flags.agent is None and flags.policy is not None:
        raise ConfigError("policy is of an agent: add --agent RUN")


class Game:
    """One world and who acts in it; `vec` is in NextStep mode, so that ends can be seen."""

    vec: VecEnv
    turns = False  # waits for a key before each step

    def press(self, key: str) -> bool:
        """Takes a key; whether it is an action."""
        raise NotImplementedError

    def actions(self) -> Any:
        """Actions of all agents, as the action space has them."""
        raise NotImplementedError

    def help(self) -> str:
        """Which keys do what."""
        raise NotImplementedError

    def step(self) -> None:
        """Takes one step, or starts a new episode where the last one has ended."""
        self.vec.step(self.actions())

    def restart(self) -> None:
        """Starts a new episode."""
        self.vec.reset()

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.vec.buffers.arrays["world_over"][0])

    def status(self) -> str:
        """Steps and return of the running episode, of every agent."""
        arrays = self.vec.buffers.arrays
        returns = ", ".join(f"{each:.4g}" for each in arrays["episode_return"].tolist())
        end = "   over: any action starts anew" if self.over else ""
        return f"step {int(arrays['elapsed'][0])}   return {returns}{end}"


class Played(Game):
    """A person acts for the first agent that is there, chance for the others."""

    def __init__(self, flags: PlayFlags) -> None:
        params = params_for(flags.env, flags.params)
        sizes = {name: int(value) for name, value in params.items() if name.isupper()}
        found = resolve(flags.env, defines=sizes)
        rows = found.spec.agents
        vec = make_vec(flags.env, rows, executor="serial", copy=False, seed=flags.seed, **params)
        self.vec = drawable(vec, "shown")
        self.vec.reset()
        self.controls = Controls(found.spec, rules(found))
        self.turns = self.controls.turns
        self._rng = np.random.default_rng(flags.seed)

    def press(self, key: str) -> bool:
        return self.controls.press(key)

    def actions(self) -> Any:
        spec, arrays = self.vec.spec_, self.vec.buffers.arrays
        mask = arrays.get("mask")
        structs = random_actions(spec, mask, self._rng)
        present = np.flatnonzero(arrays["present"])
        if present.size:
            structs[present[0]] = self.controls.action()[0]
        self.controls.release()
        return spec.view_actions(structs)

    def help(self) -> str:
        return f"{self.controls.help()}   space pause  r restart  q quit"


class Watched(Game):
    """The agent of a run acts for all."""

    def __init__(self, flags: PlayFlags) -> None:
        from .trainers.agent import AgentConfig, load_agent

        config = AgentConfig(run=str(flags.agent), policy=flags.policy)
        self._agent = load_agent(config, 1, flags.seed, autoreset_mode="NextStep")
        self.vec = drawable(self._agent.vec, "shown")

    def press(self, key: str) -> bool:
        return key == "enter"

    def step(self) -> None:
        over = self.over
        super().step()
        if over:  # the step only began a new episode
            self._forget()

    def restart(self) -> None:
        super().restart()
        self._forget()

    def _forget(self) -> None:
        self._agent.player.ended(np.ones(self.vec.num_envs, np.bool_))

    def actions(self) -> Any:
        return self._agent.player.act_in(self.vec)

    def help(self) -> str:
        return f"the agent of {self._agent.trained.run_dir}   space pause  enter step  q quit"


def picture(vec: VecEnv, columns: int, lines: int, ability: str) -> list[str]:
    """World 0 as lines of text that fit into `columns` x `lines`."""
    columns = max(2, min(columns, int(2 * lines * _ASPECT)))
    rows = max(1, round(columns / _ASPECT / 2)) * 2
    frame = np.zeros((rows * _OVERSAMPLED, columns * _OVERSAMPLED, 3), np.uint8)
    vec.core.draw(0, frame)
    return text_of(shrink(frame, columns, rows), ability)


def _print(game: Game, frames: int) -> None:
    """Frames as plain text on stdout, where there is no terminal; nobody presses a key."""
    for frame in range(frames):
        if frame:
            game.step()
        for line in picture(game.vec, _PLAIN_COLUMNS, _PLAIN_COLUMNS, LETTERS):
            print(line.rstrip())
        print(game.status())


def _interact(game: Game, screen: Terminal, flags: PlayFlags) -> None:
    """Shows, reads keys and steps, until q, escape, or so many frames."""
    paused, shown = False, 0
    while True:
        columns, lines = screen.size()
        text = picture(game.vec, columns, max(lines - _MARGIN, 1), screen.ability)
        text += [game.status()[:columns] + ("   paused" if paused else ""), game.help()[:columns]]
        screen.show(text)
        shown += 1
        if flags.frames is not None and shown >= flags.frames:
            return
        acted, due = False, time.monotonic() + 1 / flags.fps
        waits = paused or game.turns
        while not acted and (waits or time.monotonic() < due):
            keys = screen.keys(None if waits else max(due - time.monotonic(), 0.0))
            if "q" in keys or "escape" in keys:
                return
            if "r" in keys:
                game.restart()
            if " " in keys:
                paused = not paused
            pressed = [game.press(key) for key in keys if key not in ("q", "r", " ")]
            acted = waits and any(pressed)
            if not acted and (keys and waits):
                break
        if acted or not (paused or game.turns):
            game.step()
