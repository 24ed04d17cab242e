"""docs/train.md: its example of a module is run as it stands."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

import headrace

PAGE = Path(__file__).parents[2] / "docs" / "train.md"


def test_the_example_of_a_policy_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(# net\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    Path("net.py").write_text(example)
    result = headrace.train("cartpole", policy="net.py:Net", steps=600_000, run_dir="r")
    assert result.return_mean > 300
    assert headrace.evaluate("r", policy="net.py:Net", episodes=5).return_mean > 300


def test_the_examples_of_acting_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = headrace.train("cartpole", run_dir="runs/cartpole-20260101-120000")
    told: dict = {"headrace": headrace, "result": result}
    examples = [e for e in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
                if "load_policy" in e]  # fmt: skip
    assert len(examples) == 2
    for example in examples:
        exec(example, told)
    assert told["action"] in (0, 1)
    assert told["truncated"], "an agent that has solved CartPole holds the pole to the end"


def test_the_page_names_every_kind_of_policy_and_block():
    text = PAGE.read_text()
    for name in headrace.nn.__all__:
        if name[0].isupper():
            assert f"`{name}`" in text
    for flag in ("--policy", "--memory", "--device", "--actor-device", "--bf16", "--compile",
                 "--optimizer", "--target-kl", "--batch-size", "--fill"):  # fmt: skip
        assert flag in text
