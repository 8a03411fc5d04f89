import json
import shutil

import pytest

from patchword import load
from patchword.core.errors import UserError
from patchword.core.seal.checking import check
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal, verify_run
from patchword.recipes.train import train
from support.material import silent


def test_it_prints_every_file(command, mine):
    code, printed, _ = command("verify", str(mine))
    assert code == 0
    for name in ("model.safetensors", "config.json", "recipe.yaml", "calibration.json", "data.json"):
        assert any(line.split() == [name, "ok"] for line in printed.splitlines())
    assert "all files are as they were sealed" in printed


def test_changed_missing_and_added_files_are_shown(command, mine):
    (mine / "config.json").write_text("{}")
    (mine / "calibration.json").unlink()
    (mine / "tokenizer.json").write_text("{}")
    code, printed, _ = command("verify", str(mine))
    assert code == 1
    states = {line.split()[0]: line.split()[1] for line in printed.splitlines()[:-1]}
    assert states["config.json"] == "changed"
    assert states["calibration.json"] == "missing"
    assert states["tokenizer.json"] == "added"
    assert "expected" in printed
    assert "3 of 8 files are not as sealed" in printed
    code, printed, _ = command("verify", str(mine), "--json")
    assert code == 1
    assert {"name": "tokenizer.json", "state": "added", "expected": "no such file", "found": "a file"} in json.loads(
        printed
    )["files"]


def test_a_deliberate_change_is_sealed_and_recorded(command, mine):
    recipe = mine / "recipe.yaml"
    recipe.write_text(f"# my own note\n{recipe.read_text()}")
    with pytest.raises(UserError, match=r"recipe\.yaml has changed"):
        load(mine)
    run = check_run(mine)
    code, printed, _ = command("verify", str(mine), "--reseal", "--why", "a note on top")
    assert code == 0
    assert "sealed: recipe.yaml" in printed
    assert "recipe.yaml: a note on top" in printed
    load(mine)
    (change,) = check(mine).changes
    assert change.files == ["recipe.yaml"]
    assert change.why == "a note on top"
    assert check(mine).run == run
    assert "the seal fits already" in command("verify", str(mine), "--reseal")[1]


def check_run(folder) -> str:
    return verify_run(folder)[0].run


def test_a_lost_seal_gets_the_id_of_its_checkpoints(mine):
    run = check(mine).run
    (mine / "seal.json").unlink()
    assert reseal(mine).files[0] == "seal.json"
    seal = check(mine)
    assert seal.run == run
    assert not seal.resealed
    train(Run(mine).recipe(), mine, silent(), resume=True)


def test_a_damaged_seal_is_replaced(command, mine):
    seal = mine / "seal.json"
    seal.write_text(seal.read_text().replace('"bytes"', '"Bytes"', 1))
    code, _, error = command("verify", str(mine))
    assert code == 2
    assert "seal.json cannot be used" in error
    assert command("verify", str(mine), "--reseal")[0] == 0
    load(mine)


@pytest.mark.parametrize("source", ["zoo:vit-exercise", "theirs", "nothing"])
def test_what_has_no_seal_says_so(command, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text('{"model_type": "bert"}')
    for options in ((), ("--reseal",)):
        code, _, error = command("verify", source, *options)
        assert code == 2
        assert "has no seal" in error or "is not a run" in error or "there is no folder" in error


def test_a_run_of_an_earlier_version_says_how_it_is_sealed(command, mine):
    (mine / "seal.json").unlink()
    code, _, error = command("verify", str(mine))
    assert code == 2
    assert f"patchword verify {mine} --reseal" in error


def test_a_reason_needs_a_change(command, mine):
    assert "--why has no effect" in command("verify", str(mine), "--why", "x")[2]


def test_a_copy_elsewhere_is_verified(command, mine, tmp_path):
    shutil.move(mine, tmp_path / "runs" / "moved")
    assert command("verify", "moved", "--runs", str(tmp_path / "runs"))[0] == 0
