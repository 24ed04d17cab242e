"""The files of a module, against what importing it executes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from headrace.engine.modules import files_of


@pytest.mark.parametrize("name", ["json", "json.decoder", "headrace.engine.pyfile"])
def test_files_are_those_that_an_import_executes(name: str) -> None:
    parts = name.split(".")
    packages = [".".join(parts[: at + 1]) for at in range(len(parts))]
    files = [importlib.import_module(each).__file__ for each in packages]
    assert files_of(name) == [Path(str(file)) for file in files]


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "unlooked" / "inner"
    inner.mkdir(parents=True)
    files = [inner.parent / "__init__.py", inner / "__init__.py", inner / "last.py"]
    for file in files:
        file.write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    assert files_of("unlooked.inner.last") == files
    assert "unlooked" not in sys.modules


@pytest.mark.parametrize(
    "name",
    ["builtins", "sys", "__main__", "no_such_module", "json.no", "sys.no", "", ".json", "a b"],
)
def test_what_has_no_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = sys.modules["__main__"]  # a file where pytest was started by `python -m`
    monkeypatch.delattr(main, "__file__", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    assert files_of(name) is None


def test_folders_without_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "last.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert files_of("plain") is None
    assert files_of("plain.last") == [tmp_path / "plain" / "last.py"]
