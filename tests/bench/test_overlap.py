"""`headrace bench overlap`: both ways are measured, and told."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.bench import overlap


def test_every_preset_is_trained_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, bool]] = []

    def speed(_: Any, env: str, steps: int, seed: int, asynchronous: bool) -> float:
        asked.append((env, seed, asynchronous))
        return (90.0 if asynchronous else 100.0) + seed if seed else 1.0

    monkeypatch.setattr(overlap, "_speed", speed)
    found = overlap.run(rounds=5, steps=10, announce=lambda *_: None)
    assert len(asked) == 6 * 4
    assert [each.name for each in found] == [
        "cartpole-sync", "cartpole-async", "pong-sync", "pong-async",
    ]  # fmt: skip
    assert [each.median for each in found] == [103.0, 93.0] * 2
    assert [each.unit for each in found] == ["steps/s"] * 4
    for _, ratio in overlap.ratios(found):
        assert ratio.samples == tuple((90 + seed) / (100 + seed) for seed in range(1, 6))


def test_a_real_run() -> None:
    found = overlap.run(rounds=1, steps=1, announce=lambda *_: None)
    assert all(each.value and each.value > 0 for each in found)
