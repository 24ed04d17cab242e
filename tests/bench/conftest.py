"""The machine that benchmarks are tested on gives all its cores, which lie equally far from each
other, whatever it does meanwhile."""

from __future__ import annotations

import pytest

from headrace.bench import distance, given


@pytest.fixture(autouse=True)
def every_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """What benchmarks do does not depend on other work."""
    monkeypatch.setattr(given.Given, "probed_by", lambda self: lambda: float(self.cores))
    monkeypatch.setattr(distance, "round_trip", lambda: 100.0)
