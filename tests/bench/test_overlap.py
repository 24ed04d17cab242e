"""`headrace bench overlap`: both ways are measured, and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.bench import overlap, runs

Times = list[float | None]
MISSED = "(the other counts as longer)"


def test_every_preset_is_trained_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, bool]] = []

    def speed(env: str, steps: int, seed: int, asynchronous: bool) -> float:
        asked.append((env, seed, asynchronous))
        return (90.0 if asynchronous else 100.0) + seed if seed else 1.0

    def time(env: str, seed: int, asynchronous: bool) -> float | None:
        timed.append((env, seed, asynchronous))
        return None if (env, seed) == ("pong", 2) else 2.0 + seed + asynchronous

    timed: list[tuple[str, int, bool]] = []
    monkeypatch.setattr(overlap, "_speed", speed)
    monkeypatch.setattr(overlap, "_time", time)
    told: list[tuple[int, int]] = []
    found = overlap.run(rounds=5, steps=10, seeds=3, announce=lambda *at: told.append(at))
    assert len(asked) == 6 * 4
    assert told == [(k, 36) for k in range(1, 37)]
    assert sorted(set(timed)) == [
        (env, seed, way) for env in overlap.ENVS for seed in (1, 2, 3) for way in (False, True)
    ]
    found, more = found[:4], found[4:]
    assert [(each.name, each.samples, each.note) for each in more[:4]] == [
        ("cartpole-sync-solve", (3, 4, 5), "3 of 3 seeds solved"),
        ("cartpole-async-solve", (4, 5, 6), "3 of 3 seeds solved"),
        ("pong-sync-solve", (3, 5), f"2 of 3 seeds solved {MISSED}"),
        ("pong-async-solve", (4, 6), f"2 of 3 seeds solved {MISSED}"),
    ]
    assert [each.value for each in more[:4]] == [4, 5, 5, 6]
    assert [each.name for each in more[4:]] == ["cartpole-preset", "pong-preset"]
    assert [each.name for each in found] == [
        "cartpole-sync", "cartpole-async", "pong-sync", "pong-async",
    ]  # fmt: skip
    assert [each.median for each in found] == [103.0, 93.0] * 2
    assert [each.unit for each in found] == ["steps/s"] * 4
    for _, ratio in overlap.ratios(found):
        assert ratio.samples == tuple((90 + seed) / (100 + seed) for seed in range(1, 6))


def test_a_real_run() -> None:
    found = overlap.run(rounds=1, steps=1, seeds=0, announce=lambda *_: None)
    assert [each.name for each in found] == [f"{e}-{w}" for e in overlap.ENVS for w in overlap.WAYS]
    assert all(each.value and each.value > 0 for each in found)


def test_an_interrupt_offers_no_run_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("interrupted; continue with --resume /somewhere")

    monkeypatch.setattr(runs, "train", train)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted; nothing was saved$"):
        overlap.run(rounds=1, steps=1, seeds=0, announce=lambda *_: None)


def test_which_way_a_preset_picks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    preset = tmp_path / "own.toml"
    monkeypatch.setattr(overlap, "preset_of", lambda _: preset)
    for text, way in (("async = true", "async"), ("async = false", "sync"), ("", "sync")):
        preset.write_text(text)
        assert overlap.picked("cartpole") == way


FAST, SLOW = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.2, 2.4, 2.6, 2.8]


@pytest.mark.parametrize(
    ("pick", "sync", "asynchronous", "said", "ratio"),
    [
        ("sync", FAST, SLOW, "async / sync: the preset picks sync, the better one", 2.0),
        ("sync", SLOW, FAST, "async / sync: the preset picks sync, not the better one: async is",
         0.5),
        ("async", SLOW, FAST, "sync / async: the preset picks async, the better one", 2.0),
        ("sync", FAST, FAST, "async / sync: the preset picks sync, as good as async, as far as "
         "these times tell", 1.0),
        ("sync", FAST, [None] * 5, "async / sync: the preset picks sync, the better one", None),
        ("sync", [*FAST[:4], None], [None, *FAST[1:]], "async / sync: the preset picks sync, as "
         "good as async, as far as these times tell", 1.0),
    ],
)  # fmt: skip
def test_whether_it_is_the_better_one(
    pick: str, sync: Times, asynchronous: Times, said: str, ratio: float | None
) -> None:
    times = {("pong", "sync"): sync, ("pong", "async"): asynchronous}
    found = overlap.verdict("pong", pick, times, 2)
    assert found.note == f"time to the target {said}"
    assert found.value == (None if ratio is None else pytest.approx(ratio))
    assert (found.name, found.unit) == ("pong-preset", "ratio")
