"""The run folder: what is written can be read, is never half there, and never runs code."""

import hashlib
import json
import pickle

import numpy as np
import pytest

from headrace.engine.errors import ArgumentError
from headrace.trainers.checkpoint import flatten, unflatten
from headrace.trainers.config import TrainConfig, read_toml
from headrace.trainers.run import Best, Run, RunError, RunFolderError, toml_lines

POLICY = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2, np.float32)}
STATE = {
    "steps": 64,
    "solved": None,
    "learner": {"m": np.ones(3, np.float32), "inner": {"t": 7, "name": "adam"}},
}


@pytest.fixture
def run(tmp_path):
    run = Run.create(TrainConfig(env="cartpole", run_dir=str(tmp_path / "run")), "cartpole")
    run.write_config(TrainConfig(env="cartpole", seed=5, params={"gravity": 3.5}), {"isa": "base"})
    return run


def test_configuration_comes_back_as_it_was(run):
    config, build = run.read_config()
    wanted = TrainConfig(env="cartpole", seed=5, params={"gravity": 3.5}, run_dir=str(run.path))
    assert config == wanted
    assert build == {"isa": "base"}


def test_texts_and_numbers_survive_toml(tmp_path):
    table = {
        "text": 'quote " back\\slash \n tab\t del\x7f é 猫',
        "small": 1e-05,
        "large": 2**63 - 1,
        "inf": float("inf"),
        "flag": True,
        "list": [1, 2],
        "left_out": None,
    }
    file = tmp_path / "t.toml"
    file.write_text(toml_lines(table), encoding="utf-8")
    del table["left_out"]
    assert read_toml(file) == table


def test_two_runs_in_one_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = TrainConfig(env="cartpole")
    paths = {Run.create(config, "cartpole").path for _ in range(5)}
    assert len(paths) == 5
    assert all(path.parent.name == "runs" for path in paths)


def test_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(RunFolderError, match=r"is not empty; name another with --run-dir"):
        Run.create(TrainConfig(env="cartpole", run_dir=str(tmp_path)), "cartpole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]


def test_file_in_place_of_the_folder_is_one_sentence(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(RunError, match="cannot be made"):
        Run.create(TrainConfig(env="cartpole", run_dir=str(file)), "cartpole")


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_folder_that_is_no_run_is_refused(tmp_path, kind):
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
    with pytest.raises(RunError, match="is no run"):
        Run.open(path)


def test_checkpoint_comes_back_as_it_was(run):
    run.save(64, POLICY, STATE, keep=3)
    policy = run.load_policy(64)
    assert policy.keys() == POLICY.keys()
    for name, array in POLICY.items():
        np.testing.assert_array_equal(policy[name], array)
    state = run.load_state(64)
    np.testing.assert_array_equal(state["learner"].pop("m"), STATE["learner"]["m"])
    assert state == {"steps": 64, "solved": None, "learner": {"inner": {"t": 7, "name": "adam"}}}


def test_equal_policies_are_equal_files(run):
    first = run.save(64, POLICY, STATE, keep=3)
    second = run.save(128, dict(reversed(POLICY.items())), {}, keep=3)
    name = "policy.safetensors"
    assert (first / name).read_bytes() == (second / name).read_bytes()


def test_only_the_newest_checkpoints_are_kept(run):
    for step in (64, 128, 1024, 256):
        run.save(step, POLICY, STATE, keep=2)
    assert run.checkpoints() == [256, 1024]
    assert run.latest() == 1024
    assert sorted(e.name for e in (run.path / "checkpoints").iterdir()) == ["1024", "256"]


def test_same_step_saved_twice_is_the_later_one(run):
    run.save(64, POLICY, {"steps": 1}, keep=3)
    run.save(64, POLICY, {"steps": 2}, keep=3)
    assert run.load_state(64) == {"steps": 2}


def test_missing_checkpoint_names_those_that_are_there(run):
    with pytest.raises(RunError, match="holds no checkpoint yet"):
        run.latest()
    run.save(64, POLICY, STATE, keep=3)
    with pytest.raises(RunError, match="has no checkpoint 65; there are: 64"):
        run.load_policy(65)


DAMAGES = {
    "empty": lambda data: b"",
    "a byte": lambda data: b"\x10",
    "junk": lambda data: b"junk" * 9,
    "a pickle": lambda data: pickle.dumps({"w": 1}),
    "truncated": lambda data: data[:-4],
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.parametrize("name", ["policy.safetensors", "state.safetensors", "state.json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@pytest.mark.parametrize("summed", [True, False])
def test_a_damaged_file_is_refused_by_name(run, name, damage, summed):
    folder = run.save(64, POLICY, STATE, keep=3)
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    if not summed:
        (folder / "SHA256SUMS").unlink()
        if damage is DAMAGES["one bit"] and name != "state.json":
            return  # nothing could tell
    load = run.load_policy if name.startswith("policy") else run.load_state
    with pytest.raises(RunError, match=rf"64/{name} is damaged.*; the run has no earlier check"):
        load(64)


def test_a_missing_file_is_named(run):
    folder = run.save(64, POLICY, STATE, keep=3)
    (folder / "state.json").unlink()
    with pytest.raises(RunError, match=r"64/state\.json is missing"):
        run.load_state(64)


def test_the_checkpoint_before_a_damaged_one_is_offered(run):
    for step in (64, 128, 192):
        folder = run.save(step, POLICY, STATE, keep=3)
    (folder / "state.safetensors").write_bytes(b"")
    (folder / "policy.safetensors").write_bytes(b"")
    for load in (run.load_policy, run.load_state):
        with pytest.raises(RunError, match="before it is 128: take it with --checkpoint 128"):
            load(192)
    assert run.load_state(128)["steps"] == 64


def test_sums_are_those_of_sha256sum(run):
    folder = run.save(64, POLICY, STATE, keep=3)
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_the_best_checkpoint_is_kept_and_found(run):
    with pytest.raises(RunFolderError, match="has no best checkpoint"):
        run.find("best")
    for step in (64, 128, 192, 256):
        run.save(step, POLICY, STATE, keep=2)
        if step == 128:
            run.mark_best(Best(128, 7.5, evaluated=True))
    assert run.checkpoints() == [128, 192, 256]
    assert run.best() == Best(128, 7.5, evaluated=True)
    assert [run.find(which) for which in ("best", "last", "192")] == [128, 256, 192]
    run.forget_after(192)
    assert run.checkpoints() == [128, 192]
    with pytest.raises(RunError, match="has no checkpoint 256; there are: 128, 192"):
        run.find("256")
    with pytest.raises(ArgumentError, match="checkpoint must be best, last or a number"):
        run.find("newest")
    run.mark_best(Best(256, 7.5, evaluated=True))
    assert run.best() is None


def test_what_was_left_half_done_is_swept(run):
    run.save(64, POLICY, STATE, keep=3)
    (run.path / "checkpoints" / ".128-7").mkdir()
    (run.path / "checkpoints" / ".old-32-7").mkdir()
    (run.path / "checkpoints" / ".best.json-7").touch()
    run.sweep()
    assert [e.name for e in (run.path / "checkpoints").iterdir()] == ["64"]


def test_damaged_configuration_is_refused_by_name(run):
    (run.path / "config.toml").write_text('env = "cartpole"\nlr = "x"\n')
    with pytest.raises(RunError, match=r"config\.toml is damaged: lr must be a number above 0"):
        run.read_config()


@pytest.mark.parametrize(
    ("line", "successor"),
    [
        ("anneal_lr = true", "lr_schedule, constant, linear or cosine,"),
        ('schedule = "cosine"', "lr_schedule, constant, linear or cosine,"),
        ("value_clip = 0.2", "vf_clip"),
    ],
)
def test_a_setting_of_an_older_headrace_names_what_has_replaced_it(run, line, successor):
    (run.path / "config.toml").write_text(f'env = "cartpole"\n{line}\n')
    name = line.partition(" ")[0]
    message = (
        f"older headrace: {name} is there no more: {successor} has replaced it; change it there"
    )
    with pytest.raises(RunError, match=message):
        run.read_config()


def test_a_setting_that_never_was_is_named(run):
    (run.path / "config.toml").write_text('env = "cartpole"\nlearning_rte = 1\n')
    with pytest.raises(RunError, match=r"config\.toml is damaged: unknown setting learning_rte"):
        run.read_config()


def test_failed_save_leaves_earlier_checkpoints_whole(run):
    run.save(64, POLICY, STATE, keep=1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.save(128, POLICY, {"bad": float("nan")}, keep=1)
    assert run.checkpoints() == [64]
    assert run.load_state(64)["steps"] == 64
    assert [e.name for e in (run.path / "checkpoints").iterdir()] == ["64"]


def test_flatten_and_unflatten_are_inverse():
    arrays, plain = flatten(STATE)
    assert set(arrays) == {"learner/m"}
    assert json.loads(json.dumps(plain)) == plain
    back = unflatten(arrays, plain)
    assert back["learner"]["m"] is STATE["learner"]["m"]
    assert back["learner"]["inner"] == STATE["learner"]["inner"]
