"""Settings: what is accepted, what is refused in which words, and who wins over whom."""

import dataclasses

import numpy as np
import pytest

from headrace.trainers.config import TrainConfig, configure, read_preset
from headrace.trainers.settings import ConfigError, settings


@pytest.fixture
def preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("target = 475\nlr = 0.01\nhidden = [32]\n[params]\ngravity = 3.5\nSIZE = 9\n")
    return path


def test_default_preset_and_given_values_come_in_this_order(preset):
    config = configure("mine.c", preset, {"lr": 0.02})
    assert config.lr == 0.02
    assert config.target == 475.0
    assert config.hidden == (32,)
    assert config.params == (("SIZE", 9), ("gravity", 3.5))
    assert config.gamma == TrainConfig(env="mine.c").gamma


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("lr", "fast", "lr must be a number above 0, not 'fast'"),
        ("lr", 0, "lr must be a number above 0, not 0"),
        ("lr", float("nan"), "lr must be a number above 0, not nan"),
        ("lr", True, "lr must be a number above 0, not True"),
        ("gamma", 1.5, "gamma must be a number from 0 to 1, not 1.5"),
        ("steps", 1.5, "steps must be a whole number of at least 1, not 1.5"),
        ("num_envs", 0, "num_envs must be a whole number of at least 1, not 0"),
        ("num_envs", -1, "num_envs must be a whole number of at least 1, not -1"),
        ("normalize_obs", 1, "normalize_obs must be true or false, not 1"),
        ("activation", "gelu", "activation must be tanh or relu, not 'gelu'"),
        ("hidden", (64, 0), "hidden must be a list of whole numbers of at least 1, such as 64,64, "
                            "not (64, 0)"),
        ("hidden", (), "hidden must be a list of whole numbers of at least 1, such as 64,64, "
                       "not ()"),
        ("params", {"gravity": [1]}, "params must be names with numbers, booleans or texts, such "
                                     "as gravity=3.7, not {'gravity': [1]}"),
        ("policy", "jax", "policy 'jax' is none: expected native, torch or a class in a file of "
                           "yours, such as net.py:Net"),
        ("memory", "lstm", "memory lstm needs a torch policy: add --policy torch"),
        ("bf16", True, "bf16 True needs a torch policy: add --policy torch"),
    ],
)  # fmt: skip
def test_value_that_does_not_fit_is_named_with_what_would(name, value, sentence):
    with pytest.raises(ConfigError) as caught:
        TrainConfig(env="cartpole", **{name: value})
    assert str(caught.value) == sentence


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"^unknown setting num_env; did you mean num_envs\?$"):
        configure("cartpole", None, {"num_env": 4})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_lag": 2}, "max_lag 2 is of asynchronous training: add --async"),
        ({"correction": "vtrace"}, "correction vtrace is of asynchronous training: add --async"),
        ({"async": True, "max_lag": 65}, "max_lag must be a whole number from 0 to 64, not 65"),
        (
            {"async_": True, "correction": "both"},
            "correction must be none or clip or vtrace or decoupled, not 'both'",
        ),
        ({"async": 1}, "async must be true or false, not 1"),
    ],
)
def test_settings_of_asynchronous_training(settings, sentence):
    with pytest.raises(ConfigError) as caught:
        configure("cartpole", None, settings)
    assert str(caught.value) == sentence


def test_async_is_a_word_of_python_but_a_key_like_others(tmp_path):
    path = tmp_path / "fast.toml"
    path.write_text("async = true\nmax_lag = 2\n")
    assert read_preset(path) == {"async_": True, "max_lag": 2}
    assert configure("cartpole", path, {}).async_
    assert not configure("cartpole", None, {}).async_
    assert not configure("cartpole", path, {"async": False, "max_lag": 1}).async_


def test_preset_with_unknown_key_names_file_and_nearest_key(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("gama = 0.9\n")
    with pytest.raises(ConfigError) as caught:
        read_preset(path)
    assert str(caught.value) == f"{path}: unknown setting gama; did you mean gamma?"


def test_preset_with_wrong_type_names_file_and_key(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('gamma = "0.9"\n')
    with pytest.raises(ConfigError) as caught:
        read_preset(path)
    assert str(caught.value) == f"{path}: gamma must be a number from 0 to 1, not '0.9'"


def test_preset_that_is_no_toml_names_file(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("gamma = = 0.9\n")
    with pytest.raises(ConfigError, match="is not a valid TOML file"):
        read_preset(path)


def test_whole_floats_and_numpy_numbers_are_numbers():
    config = TrainConfig(env="cartpole", steps=1e6, seed=np.int64(3), lr=np.float32(0.5))
    assert (config.steps, config.seed, config.lr) == (1_000_000, 3, 0.5)
    assert type(config.steps) is int
    assert type(config.seed) is int
    assert type(config.lr) is float


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden", "64,32", (64, 32)),
        ("hidden", "64", (64,)),
        ("steps", "2e6", 2_000_000),
        ("steps", "1_000", 1000),
        ("target", "none", None),
        ("lr", "1e-3", 0.001),
        ("params", "gravity=3.5, SIZE=9", (("SIZE", 9), ("gravity", 3.5))),
    ],
)
def test_text_of_the_command_line_becomes_the_value(name, text, value):
    assert settings(TrainConfig)[name].parse(text, f"--{name}") == value


def test_every_field_is_a_documented_setting():
    fields = [field.name for field in dataclasses.fields(TrainConfig)]
    assert list(settings(TrainConfig)) == fields
    assert all(item.rule.help for item in settings(TrainConfig).values())
