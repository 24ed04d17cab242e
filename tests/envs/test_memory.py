"""Memory: rules, and that chance is the best without memory."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

DELAY, CUES = 8, 4


@pytest.mark.parametrize(("delay", "cues"), [(DELAY, CUES), (0, 2), (3, 7)])
def test_an_episode(delay: int, cues: int) -> None:
    worlds = 500
    vec = headrace.make_vec("memory", worlds, DELAY=delay, CUES=cues)
    obs, _ = vec.reset(seed=0)
    assert (obs[:, :cues].sum(axis=1) == 1).all()
    assert (obs[:, cues] == 0).all()
    cue = obs[:, :cues].argmax(axis=1)
    random = np.random.default_rng(0)
    for step in range(1, delay + 2):
        obs, rewards, terminated, truncated, _ = vec.step(random.integers(0, cues, worlds))
        assert (obs[:, :cues] == 0).all()
        assert (obs[:, cues] == (step == delay + 1)).all()
        assert not (rewards.any() or terminated.any() or truncated.any())
    answer = np.where(np.arange(worlds) % 2, cue, (cue + 1) % cues)
    _, rewards, terminated, truncated, _ = vec.step(answer)
    np.testing.assert_array_equal(rewards, np.where(np.arange(worlds) % 2, 1, -1))
    assert terminated.all()
    assert not truncated.any()


def test_cues_are_equally_likely() -> None:
    obs, _ = headrace.make_vec("memory", 40_000).reset(seed=1)
    shares = obs[:, :CUES].mean(axis=0)
    assert np.abs(shares - 1 / CUES).max() < 0.01


def test_waiting_tells_nothing() -> None:
    """Worlds with other cues are seen alike from the second step on."""
    vec = headrace.make_vec("memory", 64)
    vec.reset(seed=2)
    for _ in range(DELAY + 1):
        obs = vec.step(np.arange(64) % CUES)[0]
        assert (obs == obs[0]).all()


def test_sizes_are_checked() -> None:
    with pytest.raises(
        ValueError, match="DELAY is 8 and CUES is 1: give at least 0 and at least 2"
    ):
        headrace.make_vec("memory", 1, CUES=1)


def test_frames_differ_by_cue() -> None:
    vec = headrace.make_vec("memory", 50)
    obs, _ = vec.reset(seed=3)
    frames = {int(obs[w, :CUES].argmax()): vec.draw(w) for w in range(50)}
    assert len(frames) == CUES
    assert (frames[0] != frames[1]).any()
