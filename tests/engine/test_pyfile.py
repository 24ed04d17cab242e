"""Python files of a user's as modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.engine.pyfile import module_of


@pytest.mark.parametrize("wrong", [True, 1.0, "1"])
def test_a_size_is_an_integer_whatever_was_asked_for_before(tmp_path: Path, wrong: Any) -> None:
    path = tmp_path / "sized.py"
    path.write_text("N = 5\n")
    assert module_of(path).N == 5
    assert module_of(path, {"N": 1}).N == 1
    assert module_of(path, {"N": np.int64(1)}) is module_of(path, {"N": 1})
    with pytest.raises(TypeError, match=f"size N is {wrong!r}: give an integer"):
        module_of(path, {"N": wrong})
