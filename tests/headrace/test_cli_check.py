"""`headrace check`: exit codes, the checklist and the document."""

import json
from pathlib import Path

from headrace.cli import main

BROKEN = Path(__file__).parent.parent / "engine" / "broken"


def test_a_kept_contract_is_exit_0_and_a_checklist(capsys):
    assert main(["check", "cartpole", "--no-sanitize"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "✓ order" in out
    assert "✗" not in out


def test_a_broken_rule_is_exit_1_and_one_document(capsys):
    assert main(["check", str(BROKEN / "out_of_space.c"), "--json", "--no-sanitize"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False
    broken = [rule for rule in document["rules"] if rule["status"] == "fail"]
    assert [rule["rule"] for rule in broken] == ["space"]
    assert broken[0]["member"] == "Obs.place[1]"
    assert (broken[0]["step"], broken[0]["seed"]) == (21, broken[0]["world"])


def test_sizes_parameters_and_seed_are_passed_on(capsys):
    argv = ["--params", "SIZE=5,limit=3", "--seed", "9", "--no-sanitize", "--json"]
    assert main(["check", "squared", *argv]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seed"] == 9
    ends = next(rule for rule in document["rules"] if rule["rule"] == "ends")
    assert "2 to 3 steps" in ends["message"]


def test_mistakes_are_one_sentence(capsys, tmp_path):
    for argv, said in (
        (["nowhere.c"], "there is no such file"),
        (["cartpole", "--params", "gravty=1"], "did you mean 'gravity'?"),
        (["cartpole", "--patience", "0"], "--patience must be a number above 0"),
        ([], "required: ENV"),
    ):
        assert main(["check", *argv]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
        assert err.count("\n") == 1


def test_a_file_that_does_not_compile_is_exit_1_at_its_line(capsys, tmp_path):
    path = tmp_path / "bad.c"
    path.write_text("#include <headrace.h>\nfloat x = ;\n")
    assert main(["check", str(path)]) == 1
    assert f"{path}:2" in capsys.readouterr().err
