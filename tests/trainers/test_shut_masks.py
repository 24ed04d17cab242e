"""A mask that allows nothing is named where an agent plays, as it is where one trains."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.trainers.rollout import MaskError, check_masks

SHUT = str(Path(__file__).parent / "worlds" / "shut.c")


@pytest.mark.parametrize("sample", [False, True])
def test_evaluating_names_row_and_step(tmp_path, sample):
    folder = tmp_path / "r"
    headrace.train(SHUT, steps=1, horizon=2, target=None, run_dir=str(folder))
    config = folder / "config.toml"
    assert "shut = -1" not in config.read_text()
    config.write_text(config.read_text().replace("[params]\n", "[params]\nshut = 3\n"))
    with pytest.raises(MaskError, match="'shut': the action mask of row 0 allows no action at st"):
        headrace.evaluate(str(folder), sample=sample)


def test_only_agents_that_act_count_and_every_element_must_allow_something():
    spec = headrace.make_vec(str(Path(SHUT).with_name("pick.c")), 64).spec_
    mask = np.ones((4, spec.mask_size), np.bool_)
    mask[2, 3:7] = False  # the first finger
    there = np.array([True, True, False, True])
    check_masks(spec, mask, there, 5)
    with pytest.raises(MaskError, match="row 2 allows no action at step 5"):
        check_masks(spec, mask, np.bool_(True), 5)
