"""Opening a run executes no code that nobody has named."""

import re
import shlex
import sys

import pytest

import headrace
from headrace.cli import main
from headrace.engine.errors import ArgumentError
from headrace.engine.processes.sources import source_of
from headrace.trainers import trust
from headrace.trainers.settings import ConfigError

SMALL = {"steps": 2000, "num_envs": 64, "horizon": 8}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def own(point, tmp_path):
    """A file of this test alone."""
    path = tmp_path / "my point.c"
    path.write_text(point.read_text())
    return path


def moved(monkeypatch, tmp_path):
    """Another user, or another computer: nothing is on record."""
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "elsewhere"))


def test_what_was_trained_with_is_evaluated_and_resumed(own):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    assert headrace.evaluate(run, episodes=4).episodes == 4
    assert headrace.train(resume=run, steps=4000).steps >= 4000


def test_a_file_that_was_never_named_is_not_executed(own, tmp_path, monkeypatch):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    moved(monkeypatch, tmp_path)
    named = shlex.quote(str(own))
    with pytest.raises(ConfigError, match=re.escape(f"headrace eval r --env {named}")):
        headrace.evaluate(run, episodes=4)
    with pytest.raises(ConfigError, match=re.escape(f"headrace train {named} --resume r")):
        headrace.train(resume=run, steps=4000)
    assert headrace.evaluate(run, episodes=4, env=str(own)).episodes == 4
    assert headrace.evaluate(run, episodes=4).episodes == 4  # it is on record now
    moved(monkeypatch, tmp_path / "again")
    assert headrace.train(str(own), resume=run, steps=4000).steps >= 4000


def test_a_file_that_has_changed_is_not_executed(own):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    own.write_text(own.read_text() + "\n/* changed */\n")
    with pytest.raises(ConfigError, match="has changed since"):
        headrace.evaluate(run, episodes=4)


@pytest.mark.parametrize("named", [False, True])
def test_a_run_is_not_resumed_in_a_source_that_has_changed(named, own, capsys):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    own.write_text(own.read_text() + "\n/* changed */\n")
    assert main(["train", *[str(own)] * named, "--resume", run, "--steps", "4000"]) == 2
    assert capsys.readouterr().err == (
        f"headrace: the source of {own} (or of a header of headrace) has changed since, and the "
        "run cannot be resumed: train a new one, or restore the file as it was\n"
    )


def test_a_source_that_has_changed_is_evaluated_with_a_warning(own, capsys):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    argv = ["eval", run, "--env", str(own), "--episodes", "4"]
    assert main(argv) == 0
    assert "has changed since" not in capsys.readouterr().err
    own.write_text(own.read_text() + "\n/* changed */\n")
    assert main(argv) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "compiling" not in line]
    assert len(told) == 1
    assert told[0].startswith(f"headrace: the source of {own} (or of a header of headrace) has")


def test_a_run_cannot_name_another_file(own, tmp_path):
    run = headrace.train(str(own), run_dir="r", **SMALL).run
    other = tmp_path / "other.c"
    other.write_text(own.read_text())
    config = tmp_path / "r" / "config.toml"
    config.write_text(config.read_text().replace(str(own), str(other)))
    with pytest.raises(ConfigError, match=f"--env {other}"):
        headrace.evaluate(run, episodes=4)
    with pytest.raises(ConfigError, match=f"is not this run's: it is {other}"):
        headrace.evaluate(run, episodes=4, env=str(own))


def test_modules_that_a_gymnasium_id_names_count_as_code(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('executed', 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    run = headrace.train("cartpole", run_dir="r", **SMALL).run
    config = tmp_path / "r" / "config.toml"
    config.write_text(config.read_text().replace('"cartpole"', '"gymnasium:evil:Env-v0"'))
    with pytest.raises(ConfigError, match="executes none"):
        headrace.evaluate(run, episodes=4)
    assert not (tmp_path / "executed").exists()


def test_shipped_environments_need_no_record(tmp_path, monkeypatch):
    run = headrace.train("cartpole", run_dir="r", **SMALL).run
    moved(monkeypatch, tmp_path)
    assert headrace.evaluate(run, episodes=4).episodes == 4


LINE = """
import gymnasium, numpy as np

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x += 2.0 * action - 1.0
        return np.array([self.x], np.float32), 1.0, abs(self.x) > 4, False, {}
"""
WRAPS = """
import gymnasium

class Doubled(gymnasium.ObservationWrapper):
    def observation(self, obs):
        return 2 * obs
"""
FEW = {"steps": 200, "num_envs": 4, "horizon": 8, "threads": 1, "hidden": [8]}


def test_python_files_and_wrappers_are_named_like_others(tmp_path, monkeypatch):
    line, wraps = tmp_path / "line.py", tmp_path / "wraps.py"
    line.write_text(LINE)
    wraps.write_text(WRAPS)
    wrappers = ["wraps.py:Doubled", "TimeLimit(50)"]
    assert headrace.train("line.py:Line", **FEW).run.startswith("runs/Line-")
    result = headrace.train("line.py:Line", wrappers=wrappers, run_dir="r", **FEW)
    assert result.env == f"{line}:Line"
    assert result.return_mean is not None
    assert headrace.evaluate("r", episodes=4).episodes == 4
    assert headrace.train(resume="r", wrappers=wrappers, steps=300).steps >= 300
    with pytest.raises(
        ConfigError, match=r"wrappers TimeLimit\(50\) are not this run's: they are .*wraps"
    ):
        headrace.train(resume="r", wrappers=["TimeLimit(50)"], steps=400)
    moved(monkeypatch, tmp_path)
    with pytest.raises(ConfigError, match="executes none"):
        headrace.evaluate("r", episodes=4)
    with pytest.raises(ConfigError, match=f"wrapper {wraps}:Doubled of this run is code"):
        headrace.evaluate("r", episodes=4, env="line.py:Line")
    named = shlex.quote(f"{wraps}:Doubled,TimeLimit(50)")
    for opened, command in (
        (lambda: headrace.evaluate("r", episodes=4), "eval r"),
        (lambda: headrace.train(resume="r", steps=400), "train --resume r"),
    ):
        with pytest.raises(ConfigError, match=re.escape(f"headrace {command} --wrappers {named}")):
            opened()
    headrace.train("line.py:Line", wrappers=wrappers, run_dir="s", **FEW)
    assert headrace.evaluate("r", episodes=4).episodes == 4
    wraps.write_text(WRAPS + "x = 1")
    with pytest.raises(ConfigError, match="has changed since"):
        headrace.evaluate("r", episodes=4)


def test_modules_of_wrappers_count_as_code(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('executed', 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "line.py").write_text(LINE)
    run = headrace.train("line.py", run_dir="r", **FEW).run
    config = tmp_path / "r" / "config.toml"
    config.write_text(config.read_text().replace("wrappers = []", 'wrappers = ["evil:Thing"]'))
    assert "evil" in config.read_text()
    for opened in (headrace.evaluate, lambda run: headrace.train(resume=run, steps=400)):
        with pytest.raises(ConfigError, match="wrapper evil:Thing of this run is code"):
            opened(run)
    assert not (tmp_path / "executed").exists()


def test_wrappers_of_a_run_can_be_named_to_evaluate_and_export(tmp_path, monkeypatch):
    (tmp_path / "line.py").write_text(LINE)
    (tmp_path / "wraps.py").write_text(WRAPS)
    wrappers = ["wraps.py:Doubled", "TimeLimit(50)"]
    headrace.train("line.py", wrappers=wrappers, run_dir="r", **FEW)
    moved(monkeypatch, tmp_path)
    with pytest.raises(ConfigError, match=r"wrappers TimeLimit\(50\) are not this run's"):
        headrace.evaluate("r", episodes=4, env="line.py", wrappers=["TimeLimit(50)"])
    assert headrace.evaluate("r", episodes=4, env="line.py", wrappers=wrappers).episodes == 4
    assert headrace.evaluate("r", episodes=4).episodes == 4  # they are on record now
    moved(monkeypatch, tmp_path / "again")
    assert headrace.export_policy("r", env="line.py", wrappers=wrappers).file
    moved(monkeypatch, tmp_path / "thrice")
    flags = ["--env", "line.py", "--wrappers", ",".join(wrappers), "--episodes", "4"]
    assert main(["eval", "r", *flags]) == 0


def test_what_is_named_now_needs_no_record(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_DATA_DIR", "/proc/nope")
    (tmp_path / "line.py").write_text(LINE)
    (tmp_path / "wraps.py").write_text(WRAPS)
    wrappers = ["wraps.py:Doubled"]
    headrace.train("line.py", wrappers=wrappers, run_dir="r", **FEW)
    assert headrace.train("line.py", wrappers=wrappers, resume="r", steps=300).steps >= 300
    with pytest.raises(ConfigError, match="executes none"):
        headrace.evaluate("r", episodes=4, env="line.py")


# ---- modules -----------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules that can be imported, a PettingZoo among them."""
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] == "pettingzoo":
            del sys.modules[name]
    folder = tmp_path / "modules"
    for package in "pettingzoo", "kit":
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in set(sys.modules) - set(before):
        if name.partition(".")[0] in ("pettingzoo", "kit", "evil", "fine", "bare"):
            del sys.modules[name]
    sys.modules.update(before)


TRACE = "open('executed', 'w')\ndef parallel_env(): pass\n"


def test_pettingzoo_means_its_own_modules(modules, tmp_path):
    (modules / "pettingzoo" / "fine.py").write_text("def parallel_env(): pass")
    (modules / "pettingzoo" / "bare.py").write_text("")
    for name in "evil", "fine", "bare":
        (modules / f"{name}.py").write_text(TRACE)
    trust.check_env("pettingzoo:fine", None, "")
    trust.check_env("pettingzoo:bare", None, "")
    with pytest.raises(ConfigError, match="env pettingzoo:evil of this run is code"):
        trust.check_env("pettingzoo:evil", None, "")
    assert source_of("pettingzoo:fine", {}).make
    for wrong in "bare", "", ".evil", "kit..evil":
        with pytest.raises(ArgumentError, match="no module with a function parallel_env"):
            source_of(f"pettingzoo:{wrong}", {})
    assert not (tmp_path / "executed").exists()
    trust.check_env("pettingzoo:evil", "pettingzoo:evil", "")
    trust.check_env("pettingzoo:evil", None, "")
    assert source_of("pettingzoo:evil", {}).make
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("changed", ["kit/__init__.py", "kit/evil.py"])
def test_a_module_that_has_changed_is_not_executed(modules, tmp_path, changed):
    (modules / "kit" / "evil.py").write_text(TRACE)
    (modules / "kit" / "__init__.py").write_text(TRACE)
    envs = "gymnasium:kit.evil:Thing-v0", "pettingzoo:kit.evil"
    for env in envs:
        trust.remember(env)
        trust.check_env(env, None, "")
    trust.check_wrappers(["kit.evil:Thing(1)"], None, "")
    (modules / changed).write_text(TRACE + "# changed\n")
    for env in envs:
        with pytest.raises(ConfigError, match="has changed since"):
            trust.check_env(env, None, "")
    with pytest.raises(ConfigError, match="has changed since"):
        trust.check_wrappers(["kit.evil:Thing(1)"], None, "")
    trust.check_wrappers(["kit.evil:Thing(1)"], ["kit.evil:Thing(1)"], "")
    trust.check_wrappers(["kit.evil:Thing(1)"], None, "")
    assert not (tmp_path / "executed").exists()


def test_modules_at_another_place_are_others(modules, tmp_path, monkeypatch):
    (modules / "evil.py").write_text(TRACE)
    trust.remember("", ["evil:Thing"])
    other = tmp_path / "other"
    other.mkdir()
    (other / "evil.py").write_text(TRACE)
    monkeypatch.syspath_prepend(other)
    with pytest.raises(ConfigError, match="wrapper evil:Thing of this run is code"):
        trust.check_wrappers(["evil:Thing"], None, "")


@pytest.mark.parametrize(
    "wrapper", ["builtins:print", "sys:exit", "__main__:x", "no.such:x", "..x:y"]
)
def test_modules_without_a_file_are_named_each_time(wrapper):
    trust.check_wrappers([wrapper], [wrapper], "")
    with pytest.raises(ConfigError, match="executes none"):
        trust.check_wrappers([wrapper], None, "")
