"""The environments on docs/languages.md are one environment, and work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import headrace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "languages.md"


def test_both_are_the_same_environment(tmp_path: Path) -> None:
    results = []
    for language, suffix in (("python", ".py"), ("cython", ".pyx")):
        code = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S)
        assert code is not None
        env = tmp_path / f"walk{suffix}"
        env.write_text(code[1])
        vec = headrace.make_vec(str(env), 100, SIZE=4)
        assert vec.params == {"target": 2.0, "wind": np.float32(0.1)}
        found = [vec.reset(seed=1)[0]]
        for step in range(120):
            found += vec.step(np.arange(100) * step % 3)[:4]
        results.append(found)
    assert (results[0][-4] != 0).any()
    for numba, cython in zip(*results, strict=True):
        np.testing.assert_array_equal(numba, cython)
