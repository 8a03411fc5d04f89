"""What the shell completes, as bash and zsh ask for it; no answer waits for torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.recipes import RECIPES
from patchword.studies import STUDIES


def in_zsh(line: str) -> list[str]:
    """The words that zsh shows for a line."""
    environment = {"_PATCHWORD_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"patchword {line}"}
    output = CliRunner().invoke(app, [], env=environment, prog_name="patchword").output
    return [found for found in output.split('"')[1::2] if found]


def in_bash(*words: str) -> list[str]:
    """The words that bash shows. It splits words at "="; the last word is the one that is completed."""
    environment = {
        "_PATCHWORD_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["patchword", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return CliRunner().invoke(app, [], env=environment, prog_name="patchword").output.split()


@pytest.fixture
def runs():
    for name in ("runs/mine", "runs/many/one", "elsewhere/other"):
        Path(name).mkdir(parents=True)
        (Path(name) / "recipe.yaml").touch()


def test_recipes_studies_and_runs(runs):
    found = in_bash("train", "")
    assert found == [*RECIPES, *STUDIES, "many/one", "mine", "runs/many/one", "runs/mine"]
    assert in_bash("train", "finetune") == ["finetune-images"]
    assert in_bash("train", "mi") == ["mine"]
    assert in_bash("train", "--runs", "elsewhere", "ot") == ["other"]
    assert in_bash("recipes", "copy", "over") == ["over-vectors"]
    assert in_bash("evaluate", "runs/m") == ["runs/many/one", "runs/mine"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("finetune-images", "ba"), ["batch_size=", "batch_size=VALUE"]),  # two, so that bash puts no space behind "="
        (("digits-vit", "augmentation.ra"), ["augmentation.randaugment=", "augmentation.randaugment_std=",
                                             "augmentation.random_erasing="]),
        (("digits-vit", "prec"), ["precision=", "precision=auto", "precision=float32", "precision=bfloat16"]),
        (("digits-vit", "epochs", "=", "3", "precision", "="), ["auto", "float32", "bfloat16"]),
        (("digits-vit", "precision", "=", "bf"), ["bfloat16"]),
        (("digits-vit", "model.de"), ["model.depth=", "model.depth=VALUE"]),
        (("digits-vit", "compile", "=", "t"), ["true"]),
        (("detr", "compi"), []),  # detection refuses it
        (("detr", "model.encoder_d"), ["model.encoder_depth=", "model.encoder_depth=VALUE"]),
    ],
)  # fmt: skip
def test_fields_and_their_values_in_bash(words, found):
    assert in_bash("train", *words) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("train digits-vit precision=b", ["precision=bfloat16"]),
        ("train digits-vit model=swin-ti", ["model=swin-tiny", "model=swin-tiny-384"]),
        ("train digits-vit model=swin-tiny model.win", ["model.window=", "model.window=VALUE"]),
        ("train digits-vit --set sched", ["schedule=", *(f"schedule={name}" for name in
                                          ("cosine", "linear", "inverse-root", "step"))]),
        ("train digits-vit --model cswin-ti", ["cswin-tiny", "cswin-tiny-384"]),
        ("train digits-vit --data dig", ["digits"]),
        ("data get kmn", ["kmnist"]),
        ("show resnet-1", ["resnet-18"]),
        ("cost vit-tiny-16 --set posi", ["position="]),
        ("bench mob", ["mobilebert"]),
    ],
)  # fmt: skip
def test_names_fields_and_values_in_zsh(line, found):
    shown = in_zsh(line)
    assert shown[: len(found)] == found


def test_completion_does_not_import_torch(tmp_path):
    environment = {
        **os.environ,
        "_PATCHWORD_COMPLETE": "complete_bash",
        "COMP_WORDS": "patchword\ntrain\ndigits-vit\nba",
        "COMP_CWORD": "3",
    }
    words = [sys.executable, "-X", "importtime", "-c", "from patchword.cli import main; main()"]
    words[-1] = "import sys; sys.argv[0] = 'patchword'; " + words[-1]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["batch_size=", "batch_size=VALUE"]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "patchword.cli.completion" in imported
    assert not imported & {"torch", "numpy", "patchword.recipes", "patchword.models"}
