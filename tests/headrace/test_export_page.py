"""What docs/export.md shows works as it stands."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from headrace.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text()


def block(language, number=0):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--run-dir", "runs/cart", "--steps", "20000"]) == 0
    capsys.readouterr()
    return "runs/cart"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_of_the_page(run, capsys):
    argv = ["export", run, "--format", "c", "--out", "cartpole_policy.h"]
    assert f"headrace {' '.join(argv)}\n" in block("sh")
    assert main(argv) == 0
    assert "cartpole_policy.h" in capsys.readouterr().out
    Path("main.c").write_text(block("c"))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *strict, "main.c", "-lm"], check=True)
    said = subprocess.run("./a.out", capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"push [01], value -?\d\S*\n", said)


def test_the_onnx_of_the_page(run, capsys):
    pytest.importorskip("onnxruntime")
    argv = ["export", run, "--format", "onnx", "--out", "cartpole_policy.onnx"]
    assert f"headrace {' '.join(argv)}\n" in block("sh")
    assert main([*argv, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == Path("cartpole_policy.onnx").stat().st_size
    names: dict = {}
    exec(block("python", 1), names)
    assert names["action"].dtype == np.int32
    assert [names[n].shape for n in ("action", "outputs", "value")] == [(3,), (3, 2), (3,)]


def test_a_run_that_is_not_there_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "nowhere"]) == 2
    assert "nowhere is no run" in capsys.readouterr().err
