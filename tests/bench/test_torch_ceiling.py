"""`bench torch` measures what it says, once."""

import pytest

pytest.importorskip("torch")

from headrace.bench import torch_ceiling


def _once(work, count):
    work()
    return 1.0


def test_every_shape_has_its_three_figures(monkeypatch):
    monkeypatch.setattr(torch_ceiling, "_seconds", _once)
    found = torch_ceiling.run(rounds=1, steps=1, announce=lambda done, total: None)
    assert [each.name for each in found] == [
        f"{what}-{shape}" for shape in ("16x16", "64x64") for what in
        ("train", "of-own-times", "of-eager")
    ]  # fmt: skip
    own = [each.value for each in found if each.name.startswith("of-own-times")]
    assert all(value is not None and 0 < value < 1 for value in own)
