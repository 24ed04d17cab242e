"""`headrace plot`: pictures and text of how runs went."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from headrace import charts, cli
from headrace.charts import text_chart
from headrace.curves import Curve, curves
from headrace.trainers.config import TrainConfig
from headrace.trainers.run import Run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run_of(path, returns, *, torn=False, **settings):
    """A run that logged these returns, one a second, every 1000 steps."""
    config = TrainConfig(env="cartpole", run_dir=path, **settings)
    run = Run.create(config, "cartpole")
    run.write_config(config, {})
    lines = [
        {"steps": 1000 * k, "seconds": float(k), "episode/return": value, "sps": 1000.0}
        for k, value in enumerate(returns, 1)
    ]
    text = "".join(json.dumps({**line, "time/bottleneck": "queue"}) + "\n" for line in lines)
    (run.path / "metrics.jsonl").write_text(text + '{"steps": 9' * torn)
    return path


def test_curves_leave_out_what_is_not_there(capsys):
    run_of("a", [None, 10.0, 30.0], target=475.0, torn=True)
    (curve,) = curves(["a"], "episode/return")
    assert curve.label == "a"
    assert curve.target == 475.0
    np.testing.assert_array_equal(curve.steps, [2000, 3000])
    np.testing.assert_array_equal(curve.seconds, [2, 3])
    np.testing.assert_array_equal(curve.values, [10, 30])
    assert curves(["a"], "sps")[0].target is None


def test_runs_of_the_same_name_go_by_their_paths():
    paths = [run_of(f"{place}/run", [1.0, 2.0]) for place in ("x", "y")]
    assert [curve.label for curve in curves(paths, "episode/return")] == paths


@pytest.mark.parametrize(
    ("file", "begins"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml"), ("p.pdf", b"%PDF")]
)
def test_pictures_in_three_formats(file, begins, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    run_of("a", [1.0, 5.0, 9.0], target=8.0)
    run_of("b", [2.0])
    assert cli.main(["plot", "a", "b", "--out", file]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"drawn in {file}\n"
    data = (tmp_path / file).read_bytes()
    assert data.startswith(begins)
    if file.endswith("png"):
        assert struct.unpack(">II", data[16:24]) == (1500, 600)


def test_json_says_where_the_curves_end(capsys):
    run_of("a", [1.0, 9.0, 5.0])
    assert cli.main(["plot", "a", "--text", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "metric": "episode/return",
        "file": None,
        "runs": [{"run": "a", "steps": 3000, "seconds": 3.0, "value": 5.0, "highest": 9.0}],
    }


def test_without_matplotlib_it_is_text(monkeypatch, capsys):
    monkeypatch.setattr(charts.importlib.util, "find_spec", lambda _: None)
    run_of("a", [1.0, 9.0])
    assert cli.main(["plot", "a"]) == 0
    out, err = capsys.readouterr()
    assert "a: episode/return 9" in out
    assert "pip install 'headrace[plots]'" in err
    assert cli.main(["plot", "a", "--out", "p.png"]) == 2
    assert "--text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["a", "--metric", "episode/returns"], 2, "did you mean episode/return?"),
        (["a", "--metric", "time/bottleneck"], 2, "unknown metric in a: time/bottleneck"),
        (["a", "--metric", "foo"], 2, "unknown metric in a: foo; there are episode/"),
        (["a", "--out", "p.jpg"], 2, "--out must end in .png or .svg or .pdf, not 'p.jpg'"),
        (["a", "--out", "no/such/p.png"], 1, "no/such/p.png cannot be written: No such file"),
        (["nothing"], 2, "nothing is no run"),
        (["empty"], 1, "run empty has logged nothing yet"),
        (["none"], 1, "run none has no episode/return yet"),
        ([], 2, "required: RUNS"),
    ],
)
def test_mistakes_are_one_sentence(arguments, code, sentence, capsys):
    run_of("a", [1.0, 9.0])
    run_of("empty", [])
    run_of("none", [None])
    if "no/such/p.png" in arguments:
        pytest.importorskip("matplotlib")
    assert cli.main(["plot", *arguments]) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def line_of(values, steps=None):
    steps = np.arange(1.0, len(values) + 1) if steps is None else np.asarray(steps, float)
    return Curve("one", steps, steps, np.asarray(values, float), None)


def test_text_charts_share_their_scales_and_keep_to_the_width():
    rising, low = line_of(np.arange(100)), line_of(np.full(50, 0.0))
    lines = text_chart([rising, low], "return", 60, height=4)
    assert max(map(len, lines)) <= 60
    assert lines[0] == "one: return 99"
    assert lines[1].startswith("       99 ┤")
    assert lines[4].startswith("        0 ┤")
    first, last = lines[1][11:], lines[4][11:]
    assert first.strip("⠀ ")  # the end is at the top
    assert first.startswith("⠀" * 30)
    assert last[0] != "⠀"
    flat = lines[6:11]
    assert [len(line) for line in flat[1:4]] == [11, 11, 11]  # nothing but at the bottom
    assert lines[-1].endswith("100 steps")


@pytest.mark.parametrize(
    "curve", [line_of([3.0]), line_of([3.0, 3.0]), line_of([1.0, 2.0], [5, 5])]
)
def test_text_charts_of_hardly_anything(curve):
    text = "".join(text_chart([curve], "return", 40))
    assert any(0x2800 < ord(letter) <= 0x28FF for letter in text)
