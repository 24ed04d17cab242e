"""When a run is saved, and which of its checkpoints is the best."""

from __future__ import annotations

from pathlib import Path

from .episodes import WINDOW
from .run import Best
from .session import Session


class Checkpoints:
    """Saves a session; the best checkpoint is that of the best evaluation, or, in a run without
    any, that at which the mean return of the last 100 episodes was highest."""

    def __init__(self, session: Session, *, resumed: bool) -> None:
        """resumed: the session was read from the checkpoint of its steps."""
        self._session, self._config, self._run = session, session.config, session.run
        self._saved = session.steps if resumed else None  # steps of the last checkpoint
        self._fork = self._saved  # where the run goes on, until it has saved for the first time
        self._due = session.seconds + self._config.checkpoint_seconds

    @property
    def due(self) -> bool:
        """Whether the interval between checkpoints has passed."""
        return self._session.seconds >= self._due

    @property
    def behind(self) -> bool:
        """Whether something was learned that is not saved, and can be."""
        return self._session.sound and self._session.steps > (self._saved or 0)

    def save(self) -> Path:
        """Writes a checkpoint of everything that the rest of the run depends on; its folder."""
        steps, tensors, state = self._session.state()
        self._due = self._session.seconds + self._config.checkpoint_seconds
        folder = self._run.checkpoint_path(steps)
        if steps != self._saved:
            if self._fork is not None:
                self._run.forget_after(self._fork)
            self._run.save(steps, tensors, state, self._config.keep_checkpoints)
            self._saved, self._fork = steps, None
            self._compare_training(steps)
        return folder

    def evaluated(self, score: float) -> None:
        """Saves the weights that an evaluation gave the best score so far."""
        best = self._run.best()
        if best is None or not best.evaluated or score > best.score:
            self.save()
            self._run.mark_best(Best(self._session.steps, score, evaluated=True))

    def _compare_training(self, steps: int) -> None:
        episodes, best = self._session.episodes, self._run.best()
        score = episodes.return_mean
        if score is None or episodes.count < WINDOW or self._config.eval_every > 0:
            return
        if best is None or (not best.evaluated and score > best.score):
            self._run.mark_best(Best(steps, score, evaluated=False))
