"""Trainings of a benchmark leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.bench import runs


def test_the_folder_of_the_run_is_gone_afterwards() -> None:
    with runs.run_of("cartpole", steps=1, target=None, seed=3) as (result, folder):
        assert result.seed == 3
        assert (Path(folder) / "config.toml").exists()
    assert not Path(folder).exists()


def test_an_interrupted_benchmark_offers_no_run_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("interrupted; continue with --resume /somewhere")

    monkeypatch.setattr(runs, "train", train)
    with pytest.raises(KeyboardInterrupt) as told:
        runs.trained("cartpole")
    assert str(told.value) == "interrupted; nothing was saved"
