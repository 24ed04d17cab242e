"""Trainings that a benchmark measures: the run's folder is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..trainers.train import TrainResult, train


@contextmanager
def run_of(env: str, **settings: Any) -> Iterator[tuple[TrainResult, str]]:
    """What came of a training, and the folder of its run while it lasts."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        try:
            result = train(env, run_dir=run, **settings)
        except KeyboardInterrupt:  # whose message offers to resume a run that is gone
            raise KeyboardInterrupt("interrupted; nothing was saved") from None
        yield result, run


def trained(env: str, **settings: Any) -> TrainResult:
    """What came of a training."""
    with run_of(env, **settings) as (result, _):
        return result
