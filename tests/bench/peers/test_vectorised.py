"""A peer's vectorisation in `bench vec`: checked by what it recorded, timed over there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from headrace.bench.batches import Batch, NotInstalled, transitions_per_row
from headrace.bench.check import CheckFailed, check_cartpole
from headrace.bench.peers import vectorised
from headrace.bench.peers.drivers.protocol import STEP, VEC, VEC_ENVS, Case, Desk, Running
from headrace.bench.peers.driving import Local
from headrace.bench.peers.vectorised import multiprocessing, remote_loop


def vec(**settings: Any) -> Any:
    return gymnasium.make_vec("CartPole-v1", VEC_ENVS, vectorization_mode="sync", **settings)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a peer is asked that has two cases; how often it ran, and whether it was closed."""
    seen: list[Any] = []
    with_case: dict[str, Callable[..., Any]] = {"vec": vec}
    seen.append(with_case)

    def make() -> Running:
        return Running(0.75 * VEC_ENVS, lambda count: seen.append(count))

    def driver(*_: Any) -> Local:
        recorded = Batch("step", "Peer", VEC_ENVS, 3, lambda: with_case["vec"]())
        own = Case(VEC, VEC, "Peer", "64 environments", 3, make, recorded=recorded)
        other = Batch("step", "Peer", 1, 1, lambda: pytest.fail("the wrong environments"))
        return Local(Desk(("numpy",), other, [Case("a", STEP, "Peer", "", 1, make), own]))

    monkeypatch.setattr(vectorised, "_driver", driver)
    return seen


def opened() -> Batch:
    return multiprocessing("Peer Multiprocessing", "pufferlib", install=False, tell=bool)


def test_it_is_checked_here_and_runs_there(asked: list[Any]) -> None:
    batch = opened()
    assert (batch.impl, batch.threads, batch.num_envs) == ("Peer Multiprocessing", 3, VEC_ENVS)
    env = batch.make()
    check_cartpole(env, batch)
    assert transitions_per_row(env, batch) == 0.75
    remote_loop(env, batch)(7)
    assert asked[1:] == [7]


def test_another_task_is_not_timed(asked: list[Any]) -> None:
    asked[0]["vec"] = lambda: gymnasium.wrappers.vector.TransformObservation(
        vec(), lambda obs: 1.001 * obs
    )
    batch = opened()
    with pytest.raises(CheckFailed, match="Peer Multiprocessing"):
        check_cartpole(batch.make(), batch)


def test_what_cannot_be_recorded_is_told(asked: list[Any]) -> None:
    def broken() -> Any:
        raise vectorised.HeadraceError("no such environment")

    asked[0]["vec"] = broken
    with pytest.raises(NotInstalled, match="no such environment"):
        opened()


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vectorised, "folder_of", lambda _: tmp_path / "absent")
    with pytest.raises(NotInstalled, match="without --quick installs it") as told:
        opened()
    assert told.value.impl == "Peer Multiprocessing"
