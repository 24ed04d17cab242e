"""docs/vector-envs.md: the name that it registers is free."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.engine.registration import registered

TEXT = (Path(__file__).parents[2] / "docs" / "vector-envs.md").read_text()


def test_registered_names_are_free():
    names = re.findall(r'headrace\.register\("(\w+)"', TEXT)
    assert names == ["walk"]
    assert not set(names) & {name for name, each in registered().items() if each.shipped}
