import csv
import io
import json
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from itertools import count as endless
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS
from patchword.recipes import RECIPES, find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.schema.reading import read_recipe
from support.helpers import tiny
from support.material import (
    QUICK,
    everything_below,
    idx_bytes,
    sealed,
    settings,
    without_sets,
    write_classes,
    write_idx_set,
    write_picture,
)

INNER = {
    "recipes": ["list", "cat", "copy"],
    "runs": ["list", "show", "compare", "clean", "rename", "delete"],
    "data": ["check", "get", "shard", "show"],
    "tokenizer": ["train", "show"],
    "vectors": ["train", "near", "analogy", "evaluate"],
}
VERBS = [
    "attention",
    "robustness",
    "panoptic",
    "positions",
    "attention-as-convolution",
    "bench",
    "demo",
    "models",
    "show",
    "cost",
    "compare",
    "windows",
    "generate",
    "get",
    "recipes",
    "train",
    "translate",
    "evaluate",
    "predict",
    "fill",
    "embed",
    "similar",
    "runs",
    "sharpness",
    "lab",
    "serve",
    "landscape",
    "export",
    "data",
    "tokenizer",
    "vectors",
    "verify",
    "sign",
    "doctor",
    "lecture",
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and a machine without sets."""
    monkeypatch.chdir(tmp_path)
    without_sets(monkeypatch, tmp_path / "data")


@pytest.fixture
def refused(command):
    """The words are refused with one clear message and exit code 2, and write nothing; answers the message."""

    def run(*words: object) -> str:
        before = {path: path.read_bytes() if path.is_file() else b"" for path in everything_below(Path.cwd())}
        code, output, complaint = command(*words)
        assert code == 2, (output, complaint)
        assert complaint.startswith("error: ")
        assert complaint.count("error:") == 1
        assert "Traceback" not in output + complaint
        after = {path: path.read_bytes() if path.is_file() else b"" for path in everything_below(Path.cwd())}
        assert after == before
        return complaint

    return run


def train_words(*fields: str, recipe: str = "digits-vit") -> list[str]:
    return ["train", recipe, "--name", "bad", *settings(*QUICK, *fields)]


# Bad input


def test_an_unknown_model_names_the_nearest(refused):
    for words in (train_words("model=vit-exercize"), ["cost", "vit-exercize"], ["show", "vit-exercize"]):
        assert re.search(r"no model is called 'vit-exercize'.*\n.*did you mean 'vit-exercise'", refused(*words))


def test_a_width_the_heads_do_not_divide(refused):
    for words in (train_words("model.heads=3"), ["cost", "vit-exercise", "--set", "heads=3"]):
        output = refused(*words)
        assert re.search(r"width \d+ cannot be shared by 3 heads", output)
        assert "try heads=" in output


def test_an_image_the_patch_does_not_divide(refused):
    assert "8 x 8 cannot be cut into patches of 3 x 3" in refused(*train_words("model.patch=3"))
    output = refused("cost", "vit-base-16", "--set", "image=[224, 230]")
    assert "224 x 230 cannot be cut into patches of 16 x 16" in output
    assert "resize the image to 224 x 224" in output


def test_a_wrong_number_of_channels(refused):
    assert "expected 2, got 1\n  set model.channels=1" in refused(*train_words("model.channels=2"))
    write_classes(Path("pets"))
    assert "1 or 3 channels" in refused(*train_words("data=pets", "model.channels=2"))
    with pytest.raises(UserError, match=r"wrong shape: expected \(batch, 3, height, width\), got \(2, 1, 32, 32\)"):
        tiny()(torch.zeros(2, 1, 32, 32))


@pytest.mark.parametrize("file", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_a_truncated_idx_file(refused, file):
    write_idx_set(Path("data/fashion-mnist"))
    path = Path("data/fashion-mnist") / file
    path.write_bytes(path.read_bytes()[:-3])
    output = refused(*train_words(recipe="fashion-mnist-vit"))
    assert re.search(rf"{file} is truncated: expected [\d,]+ bytes", output)


def test_a_label_out_of_range(refused):
    write_idx_set(Path("data/fashion-mnist"), labels=[1, 2, 3, 10])
    output = refused(*train_words(recipe="fashion-mnist-vit"))
    assert "the label of sample 3 of fashion-mnist is out of range: expected 0 to 9 (10 classes), got 10" in output
    assert "sample" in refused(*train_words("model.classes=9"))


def test_idx_files_of_another_kind(refused):
    """Labels where the pictures should be."""
    write_idx_set(Path("data/fashion-mnist"))
    Path("data/fashion-mnist/train-images-idx3-ubyte").write_bytes(idx_bytes([1] * 30))
    assert "images" in refused(*train_words(recipe="fashion-mnist-vit"))


def test_an_empty_class_folder(refused):
    write_classes(Path("pets"))
    Path("pets/bird").mkdir()
    assert "pets/bird is empty" in refused(*train_words("data=pets"))


def test_a_corrupt_picture_is_named(refused):
    write_classes(Path("pets"), count=4)
    for number in range(4):
        path = Path(f"pets/dog/{number}.png")
        path.write_bytes(path.read_bytes()[:50])
    assert re.search(r"cannot read the image .*pets/dog/\d\.png", refused(*train_words("data=pets")))


def test_too_few_pictures_to_hold_any_out(refused):
    write_classes(Path("pets"), count=1)
    refused(*train_words("data=pets"))
    write_classes(Path("split/train"), count=1)
    write_classes(Path("split/test"), count=1)
    refused(*train_words("data=split"))


def test_a_checkpoint_of_another_shape(refused, mine):
    tensors = load_file(mine / "model.safetensors")
    tensors["head.linear.weight"] = tensors["head.linear.weight"][:, :-1].contiguous()
    save_file(tensors, mine / "model.safetensors")
    sealed(mine)
    for words in (["evaluate", mine], ["predict", mine, write_picture(Path("a.png"))], ["cost", mine]):
        output = refused(*words)
        assert "does not fit 'vit-exercise': 1 tensors differ" in output
        assert "misshapen   head.linear.weight: expected (10, 16), got (10, 15)" in output


@pytest.mark.parametrize("name", ["model.pt", "pytorch_model.bin", "model.safetensors"])
def test_a_pickle(refused, mine, name):
    (mine / "model.safetensors").unlink()
    (mine / name).write_bytes(pickle.dumps({"weight": [1.0]}))
    sealed(mine)
    output = refused("cost", mine / name)
    assert f"{name} is a pickle, which can run any code when it is opened" in output
    assert "convert it once" in output
    assert "is a pickle" in refused("cost", mine)


def test_a_weight_file_of_any_header_length_is_no_pickle(tmp_path):
    """A safetensors file begins with the length of its header; every 32nd begins with a pickle's first byte."""
    model, starts = tiny(), set()
    for length in range(32):
        model.card = replace(model.card, labels=("x" * (8 * length + 1), *"bcdefg"))
        patchword.save(model, tmp_path)
        starts.add((tmp_path / "model.safetensors").read_bytes()[0])
        assert patchword.load(tmp_path).card == model.card
    assert 0x80 in starts


def test_an_unknown_recipe_field_names_the_nearest(refused):
    assert "a recipe has no field 'epoch'\n  did you mean 'epochs'" in refused(*train_words("epoch=3"))
    assert "has no field 'dept'\n  did you mean 'depth'" in refused(*train_words("model.dept=3"))
    Path("mine.yaml").write_text("bach: 3\n")
    assert "a recipe has no field 'bach'\n  did you mean 'batch_size'" in refused("train", "mine.yaml")


@pytest.mark.parametrize("where", ["--runs file", "--runs file/deeper"])
def test_a_run_folder_that_cannot_be_written(refused, where):
    Path("runs").mkdir()
    for path in ("file", "runs/file"):
        Path(path).write_text("in the way")  # binds root too, unlike permissions
    assert "cannot make the folder" in refused(*train_words(), *where.split())


def test_a_run_whose_name_is_a_file(refused):
    Path("runs").mkdir()
    Path("runs/bad").write_text("in the way")
    assert "cannot make the folder runs/bad" in refused(*train_words())


@pytest.mark.parametrize(
    "field",
    [
        "model.width=0",
        "model.heads=0",
        "model.patch=0",
        "model.image=0",
        "model.image=-8",
        "model.depth=-1",
        "model.hidden=0",
        "model.dropout=2",
        "model.attention_dropout=-0.5",
        "model.drop_path=2",
        "seed=100000000000000000000",
    ],
)
def test_sizes_that_make_no_sense(refused, field):
    assert field.split("=")[0].split(".")[-1] in refused(*train_words("model.depth=2", field))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "digit-vit"], r"no recipe is called 'digit-vit'\n  did you mean 'digits-vit'"),
        (["train", "gone.yaml"], r"cannot read the recipe gone\.yaml"),
        (
            train_words("data=fashion-mnist"),
            r"not on this machine\n.*\n.*1\. put .*\n.*2\. apt-get .*\n.*3\. patchword",
        ),
        (train_words("device=tpu"), r"recipe field 'device': expected auto, cpu, cuda"),
        (train_words("epochs=x"), r"recipe field 'epochs'"),
        (["evaluate", "nothing"], r"nothing is not a run: expected a folder with recipe\.yaml"),
        (["predict", "nothing", "a.png"], r"nothing is not a run"),
        (["cost", "vit-exercise", "--block", "5"], r"has no block 5: expected 1 to 4, or -1 for the last, got 5"),
        (["cost", "vit-exercise", "--block", "0"], r"has no block 0: expected 1 to 4"),
        (["cost", "vit-exercise", "--block", "-2"], r"has no block -2"),
        (["cost", "vit-exercise", "--part", "stages.0.encodr"], r"did you mean 'stages\.0\.encoder'"),
        (["cost", "cswin-mini", "--set", "width=1"], r"local positions \(LePE\): expected a channel or more"),
        (["cost", "swin-tiny", "--set", "image=99999"], r"16,384 at most.*, got 99999"),
        (["cost", "vit-exercise", "--set", "image"], r"cannot set 'image': expected field=value"),
        (["cost", "vit-exercise", "--set", "imag=3"], r"has no field 'imag'\n  did you mean 'image'"),
        (["models", "bart-*"], r"no model matches 'bart-\*'"),
        (["recipes", "cat", "x"], r"no recipe is called 'x'"),
        (["data", "get", "mnits"], r"no data set is called 'mnits'\n  did you mean 'mnist'"),
        (["data", "get", "mnist", "--yes"], r"cannot download"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, list) else "",
)
def test_other_mistakes(refused, words, message):
    assert re.search(message, refused(*words))


@pytest.mark.parametrize("setting", ["image=[1", "name=x", "self=1", "image={", "patch=0"])
def test_settings_that_cannot_be_read(refused, setting):
    refused("cost", "vit-exercise", "--set", setting)


def test_pictures_that_cannot_be_read(refused, trained):
    Path("empty").mkdir()
    Path("broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    assert "there is nothing at gone.png" in refused("predict", trained, "gone.png")
    assert "no images to classify" in refused("predict", trained, "empty")
    assert "cannot read the image broken.png" in refused("predict", trained, "broken.png", "--csv", "out.csv")
    write_picture(Path("a.png"))
    assert "cannot make the folder a.png" in refused("predict", trained, "a.png", "--csv", "a.png/out.csv")


def test_an_image_that_cannot_be_read_does_not_lose_the_others(command, trained):
    Path("broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    for name in ("a.png", "b.png"):
        write_picture(Path(name))
    words = ["predict", trained, "a.png", "broken.png", "b.png"]
    code, output, _ = command(*words, "--csv", "out.csv", "--top", 2)
    assert code == 0
    assert "note: no prediction: cannot read the image broken.png" in output
    assert re.search(r"^1 of \d skipped$", output, re.MULTILINE)
    assert "cannot read the image broken.png" in command(*words, "--on-broken", "stop")[2]
    assert "2 answers in out.csv" in output
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["path"] for row in rows] == ["a.png", "broken.png", "b.png"]
    assert [bool(row["class_1"]) for row in rows] == [True, False, True]
    assert [bool(row["error"]) for row in rows] == [False, True, False]
    _, output, _ = command(*words, "--json")
    assert ["error" in json.loads(line) for line in output.splitlines()] == [False, True, False]
    command("predict", trained, "a.png", "--csv", "whole.csv")
    assert "error" not in Path("whole.csv").read_text()


def test_a_run_that_has_not_ended_an_epoch(refused, mine):
    (mine / "model.safetensors").unlink()
    assert "has no weights yet" in refused("evaluate", mine)


def test_a_process_ends_with_code_2():
    words = [sys.executable, "-m", "patchword", "cost", "vit-exercise", "--block", "7"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: 'vit-exercise' has no block 7: expected 1 to 4, or -1 for the last, got 7\n"


def test_ctrl_c_while_python_ends_prints_no_traceback():
    script = """
import atexit, os, signal, sys, time
def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
atexit.register(interrupted)
from patchword.cli import main
sys.argv = ["patchword", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    assert done.stdout.startswith("patchword ")


# Help


def test_every_help_answers_without_torch():
    script = """
import sys
from typer import main, testing
from patchword.cli.app import app
parsers = main.get_command(app)
testing._get_command = lambda app: parsers  # all of them, built once
verbs = [command.name for command in app.registered_commands]
inner = [[group.name, command.name] for group in app.registered_groups
         for command in group.typer_instance.registered_commands]
groups = [group.name for group in app.registered_groups]
for words in [[], *([verb] for verb in verbs + groups), *inner]:
    for option in ("--help", "-h"):
        answer = testing.CliRunner().invoke(app, [*words, option])
        assert answer.exit_code == 0, (words, answer.output)
        assert "Usage" in answer.output, words
        if words:
            print(words[-1], len(answer.output.strip().splitlines()))
heavy = {"torch", "numpy", "matplotlib", "PIL", "sklearn", "transformers", "tokenizers"} & sys.modules.keys()
assert not heavy, heavy
print("verbs", sorted(verbs + groups))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *helps, last = done.stdout.splitlines()
    assert last == f"verbs {sorted(VERBS)}"
    inner = [name for names in INNER.values() for name in names]
    assert sorted(line.split()[0] for line in helps) == sorted([*VERBS, *inner] * 2)


def test_the_version(command):
    assert command("--version")[:2] == (0, f"patchword {patchword.__version__}\n")


# For other programs


def test_cost_as_json(command):
    code, output, _ = command("cost", "vit-exercise", "--block", 1, "--json")
    cost = json.loads(output)
    assert code == 0
    assert (cost["parameters"], cost["macs"]["total"]) == (49_984, 2_777_600)
    assert (cost["macs"]["linear"], cost["macs"]["attention"]) == (2_457_600, 320_000)
    whole = json.loads(command("cost", "vit-exercise", "--json")[1])
    assert (whole["parameters"], whole["macs"]["total"], whole["part"]) == (205_066, 11_161_216, "")
    larger = json.loads(command("cost", "vit-base-16", "--set", "image=384", "--json")[1])
    assert larger["input"] == [1, 3, 384, 384]
    assert larger["macs"]["total"] > 3 * 17_563_828_224


def test_cost_in_words(command):
    _, output, _ = command("cost", "vit-exercise", "--block", 1, "--steps")
    assert "query, key, value   3 x N x D x D = 3 x 50 x 64 x 64 = 614,400" in output
    assert re.search(r"linear layers +2,457,600 MACs\n +attention products +320,000 MACs\n", output)
    assert re.search(r"total +2,777,600 MACs\n +parameters +49,984\n", output)
    assert "N = (H_0 / P) x (W_0 / P) + 1 = (28 / 4) x (28 / 4) + 1 = 7 x 7 + 1 = 50 (tokens)\n" in output
    _, whole, _ = command("cost", "vit-exercise")
    assert re.search(r"stages\.0\.encoder\.blocks\.0 to 3 +11,110,400 +199,936\n", whole)
    assert re.search(r"parameters +205,066\n", whole)


def test_cost_shows_the_mlp_ratio_which_another_width_keeps(command):
    code, output, _ = command("cost", "vit-exercise", "--set", "width=128")
    assert code == 0
    assert "4 (hidden 512 / width 128)" in output
    both = ("--set", "width=128", "--set", "hidden=128")
    assert "1 (hidden 128 / width 128)" in command("cost", "vit-exercise", *both)[1]


@pytest.mark.parametrize(
    "words",
    [
        ["depth=2", "heads=2"],
        ["--set", "depth=2", "--set", "heads=2"],
        ["--set", "depth=2", "heads=2"],
        ["depth=2", "--set", "heads=2"],
        ["--set", "model.depth=2", "model.heads=2"],
    ],
    ids=" ".join,
)
def test_settings_of_a_model_are_typed_in_any_form(command, words):
    cost = json.loads(command("cost", "vit-exercise", *words, "--json")[1])
    assert (cost["parameters"], cost["symbols"]["h"]["value"]) == (105_098, 2)
    assert command("show", "vit-exercise", *words)[1].startswith("vit-exercise  105,098 parameters\n")


def test_settings_of_other_verbs_are_typed_in_any_form(command, refused):
    code, output, _ = command("windows", "swin-mini", "--set", "depths=[1,1]", "window=5", "--out", "figures")
    assert (code, "windows of 5 x 5" in output) == (0, True)
    assert command("cost", "--formula", "--set", "width=48", "window=5")[0] == 0
    assert command("cost", "--formula", "width=48", "window=5")[0] == 0
    assert "has no field 'windo'" in refused("export", "swin-mini", "--onnx", "a.onnx", "windo=5")
    for inputs in (["a.png", "--set", "window=5"], ["--data", "test"]):
        assert "has no field 'windo'" in command("attention", "swin-mini", *inputs, "windo=5")[2]
    assert "cannot set 'depth'" in refused("show", "vit-exercise", "depth")
    assert "no field 'epoch'" in refused("data", "show", "fashion-mnist-vit", "epoch=5")
    assert "no field 'lable'" in refused("data", "check", "classify-text", "--set", "lable=a", "train=b.csv")


def test_formats_of_a_cost(command, refused):
    _, text, _ = command("cost", "vit-exercise", "--block", 1, "--format", "latex")
    assert r"\mathbf{2{,}777{,}600}" in text
    _, text, _ = command("cost", "vit-exercise", "--format", "markdown")
    assert "- MACs: stem + 4 × block + head = 50,176 + 4 × 2,777,600 + 640 = **11,161,216**" in text
    assert "feed-forward" not in text  # without --steps, the parts alone
    assert "--json and --format" in refused("cost", "vit-exercise", "--json", "--format", "latex")
    assert "'elmo-small' has no blocks" in refused("cost", "elmo-small", "--block", 1)


@pytest.mark.parametrize("name", ["transformer-small", "lstm-translation-small"])
def test_a_translator_is_shown(command, name):
    code, output, _ = command("show", name)
    assert (code, "decoder: " in output, "input 1 x 32;" in output) == (0, True, True)


def test_cost_names_the_directions_of_shared_heads(command):
    _, output, _ = command("cost", "cswin-mini", "--block", 1)
    assert re.findall(r"query x key, (\w+)", output) == ["vertical", "horizontal"]
    _, output, _ = command("cost", "pale-mini", "--block", 1)
    assert re.findall(r"query x key, (\w+)", output) == ["rows", "columns"]
    assert "query x key  " in command("cost", "swin-mini", "--block", 1)[1]


def test_show_tells_convolutions_in_few_words(command):
    _, output, _ = command("show", "resnet-mini")
    assert "convolution: Conv2d(16 -> 32, 3 x 3, stride 2)  1 x 32 x 14 x 14  4,608\n" in output
    assert "norm: BatchNorm2d(32)  1 x 32 x 14 x 14  64\n" in output
    assert "depthwise" in command("show", "pale-mini")[1]


def test_a_checkpoint_can_be_counted_at_another_size(command, mine):
    """What --set says is put before the weights are read."""
    code, output, _ = command("cost", mine, "--set", "image=16", "--json")
    assert code == 0
    assert json.loads(output)["input"][2:] == [16, 16]


@pytest.mark.usefixtures("quick_meta")
def test_models_as_json_and_in_words(command):
    rows = json.loads(command("models", "--json")[1])
    assert [row["name"] for row in rows] == [*REGISTRY.names(), *DETECTORS, *SEGMENTERS]
    assert {row["name"]: row["macs"] for row in rows}["vit-base-16"] == 17_563_828_224
    some = json.loads(command("models", "deit-*-distilled", "--json")[1])
    assert [row["name"] for row in some] == REGISTRY.names("deit-*-distilled")
    assert len(some) == 4
    _, output, _ = command("models")
    assert all(name in output for name in REGISTRY.names())
    assert re.search(r"vit-base-16 .* 86,567,656 .* 17,563,828,224 .* 3 x 224 x 224 .* arXiv:2010\.11929", output)


def test_show(command):
    code, output, _ = command("show", "deit-tiny-distilled")
    assert code == 0
    assert "…" not in output
    assert "5,910,800 parameters" in output
    assert re.search(r"0 \.\. 11: Block x 12 +1 x 198 x 192", output)
    assert "distilled: Linear" in output


# Recipes and data


def test_recipes_are_listed_printed_and_copied(command, refused):
    for words in (["recipes"], ["recipes", "list"]):
        _, output, _ = command(*words)
        assert all(name in output for name in RECIPES)
    _, output, _ = command("recipes", "cat", "digits-vit")
    assert yaml.safe_load(output) == find_recipe("digits-vit").model_dump(mode="json")
    code, output, _ = command("recipes", "copy", "digits-vit")
    assert (code, "patchword train digits-vit.yaml" in output) == (0, True)
    assert read_recipe(Path("digits-vit.yaml")) == find_recipe("digits-vit")
    assert "digits-vit.yaml already exists" in refused("recipes", "copy", "digits-vit")
    command("recipes", "copy", "digits-vit", "new/place.yaml")
    assert read_recipe(Path("new/place.yaml")) == find_recipe("digits-vit")


def test_data_says_what_is_here(command):
    write_idx_set(Path("data/kmnist"))
    _, output, _ = command("data")
    lines = {line.split()[1]: line for line in output.splitlines() if line.startswith("│ ")}
    assert "data folder" in " ".join(output.split())
    assert set(lines) >= {"fashion-mnist", "mnist", "kmnist", "digits"}
    assert "absent" in lines["mnist"]
    assert "absent" not in lines["kmnist"]


def test_data_is_fetched_only_when_allowed(command, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    code, output, _ = command("data", "get", "mnist")
    assert code == 1
    assert "install or download mnist" in output
    assert everything_below(Path("data")) == []
    write_idx_set(Path("data/mnist"))
    assert command("data", "get", "mnist")[0] == 0  # here already: nothing to ask


# End to end


def overall(output: str) -> str:
    return re.findall(r"^Test Accuracy \(Overall\): \d+\.\d\d% \(\d+/359\)$", output, re.M)[0]


def test_train_evaluate_predict(command, refused):
    code, output, complaint = command(*train_words(), "--name", "first")
    run = Path("runs/first")
    assert (code, complaint) == (0, "")
    assert len(re.findall(r"^Test Accuracy of Class \d \(\d\): \d+\.\d\d% \(\d+/\d+\)$", output, re.M)) == 10
    assert re.search(r"^Test Loss: \d+\.\d{4}$", output, re.M)
    assert "report: runs/first/report.html" in output
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "recipe.yaml",
        "config.json",
        "model.safetensors",
        "metrics.jsonl",
        "evaluation.json",
        "finished.json",
    }
    assert "checkpoints" not in names
    assert "removed the checkpoints, which only an unfinished run needs: " in output
    result, report = overall(output), (run / "report.html").read_text()
    assert result.split()[3] in report  # the percentage
    assert not re.search(r"(src|href)=.https?:", report)
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert f"({round(evaluation['accuracy'] * 359)}/359)" in result

    (run / "report.html").unlink()
    for word in ("first", "runs/first"):
        code, again, _ = command("evaluate", word)
        assert (code, overall(again)) == (0, result)
    minute = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"  # at which it was written
    assert len(re.findall(minute, report)) == 1
    assert re.sub(minute, "", (run / "report.html").read_text()) == re.sub(minute, "", report)

    from sklearn.datasets import load_digits

    Path("pictures").mkdir()
    for number, digit in enumerate(load_digits().images[:5]):
        Image.fromarray((digit * 255 / 16).round().astype(np.uint8)).save(f"pictures/{number}.png")
    code, output, _ = command("predict", "first", "pictures", "--csv", "out/answers.csv", "--top", 2)
    assert (code, output) == (0, "5 answers in out/answers.csv\n")
    rows = list(csv.DictReader(Path("out/answers.csv").read_text().splitlines()))
    assert list(rows[0]) == ["path", "class_1", "probability_1", "class_2", "probability_2"]
    assert [row["path"] for row in rows] == [f"pictures/{number}.png" for number in range(5)]
    model = patchword.load(run)
    mean, std = model.card.normalization.mean[0], model.card.normalization.std[0]
    pixels = torch.from_numpy(load_digits().images[:5] * 255 / 16).round().float()[:, None] / 255
    best = model((pixels - mean) / std).softmax(1).topk(2)
    for row, values, indices in zip(rows, best.values.tolist(), best.indices.tolist(), strict=True):
        assert [row["class_1"], row["class_2"]] == [str(index) for index in indices]
        assert [float(row["probability_1"]), float(row["probability_2"])] == pytest.approx(values, abs=1e-5)
    code, output, _ = command("predict", "first", "pictures/0.png")
    assert code == 0
    assert "pictures/0.png" in output

    assert "has a run already" in refused(*train_words(), "--name", "first")
    assert "started with another recipe" in refused(*train_words("seed=3"), "--name", "first", "--resume")
    code, again, _ = command(*train_words(), "--name", "first", "--resume")
    assert (code, f"runs/first is finished: 1 epoch, test accuracy {result.split()[3]}" in again) == (0, True)
    code, output, _ = command("cost", run, "--json")
    assert json.loads(output)["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_an_answer_has_as_many_cells_as_the_head(command, trained):
    write_picture(Path("a.png"))
    command("predict", trained, "a.png", "--csv", "a.csv", "--top", 50)
    head, row = csv.reader(Path("a.csv").read_text().splitlines())
    assert len(head) == len(row) == 21


def test_names_in_brackets_are_printed_as_they_are(command):
    write_classes(Path("pets"), ("[cat]", "[dog]"))
    code, output, _ = command(*train_words("data=pets", "batch_size=8"), "--name", "[pets]")
    assert code == 0
    assert "Test Accuracy of Class 0 ([cat]):" in output
    assert "report: runs/[pets]/report.html" in output
    _, output, _ = command("predict", "runs/[pets]", "pets/[dog]/1.png")
    assert "pets/[dog]/1.png" in output
    assert re.search(r"│ \[(cat|dog)\] ", output)


def test_a_stopped_run_says_how_to_go_on(command, monkeypatch):
    with monkeypatch.context() as patch:

        @contextmanager
        def after_three():
            taken = endless(1)
            yield lambda: next(taken) == 3

        patch.setattr(recipe_run, "interruptible", after_three)
        code, output, _ = command(*train_words(), "--name", "stopped", "--runs", "elsewhere")
    assert code == 130
    assert "everything is saved" in output
    words = shlex.split(output.strip().splitlines()[-1])
    assert words[:2] == ["patchword", "train"]
    code, output, _ = command(*words[1:])
    assert code == 0
    assert "resuming from epoch 1, batch 4" in output
    assert overall(output)


def test_a_saved_recipe_trains_again_under_its_own_name(command, trained, monkeypatch):
    shutil.copytree(trained, "runs/digits")
    monkeypatch.chdir("runs/digits")
    code, output, _ = command("train", "recipe.yaml", "--runs", "..", "--resume")
    assert code == 0, output
    assert "report: ../digits/report.html" in output


@pytest.mark.parametrize("here", [True, False], ids=["fashion-mnist", "digits"])
def test_demo(command, monkeypatch, here):
    name = "fashion-mnist-vit-short" if here else "digits-vit"
    short = find_recipe(name).with_settings(["epochs=1", "batch_size=256", "device=cpu"])
    monkeypatch.setitem(RECIPES, name, lambda: short)
    if here:
        write_idx_set(Path("data/fashion-mnist"))
    code, output, complaint = command("demo")
    assert (code, complaint) == (0, "")
    assert ("uses scikit-learn's digits instead" in output) is not here
    marks = ["1. Training", "2. Evaluation", "Test Accuracy (Overall)", "3. The cost of one", "read the report"]
    assert [output.index(mark) for mark in marks] == sorted(output.index(mark) for mark in marks)
    if here:
        assert re.search(r"total +2,777,600 MACs", output)
        assert "Test Accuracy of Class 0 (T-shirt/top): " in output
    assert Path(output.strip().splitlines()[-1].split(": ")[1]).is_file()


def test_a_damaged_test_part_is_found_before_training(refused):
    write_idx_set(Path("data/fashion-mnist"))
    damaged = Path("data/fashion-mnist/t10k-images-idx3-ubyte")
    damaged.write_bytes(damaged.read_bytes()[:-5])
    assert "t10k-images-idx3-ubyte is truncated" in refused(*train_words(recipe="fashion-mnist-vit"))


def test_a_run_on_own_pictures_is_evaluated_from_anywhere(command, monkeypatch):
    write_classes(Path("pets"), ("cat", "dog"), count=12)
    assert command(*train_words("data=pets", "batch_size=8"), "--name", "pets")[0] == 0
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    code, output, _ = command("evaluate", "../runs/pets")
    assert (code, "Test Accuracy (Overall)" in output) == (0, True)


def test_a_run_is_not_resumed_with_other_pictures(command):
    write_classes(Path("pets"), ("cat", "dog"), count=12)
    words = [*train_words("data=pets", "batch_size=8", "keep_checkpoints=true"), "--name", "pets", "--resume"]
    assert command(*words)[0] == 0
    Path("runs/pets/finished.json").unlink()  # as if it was stopped while the test images were evaluated
    write_classes(Path("pets"), ("cat", "dog"), count=15)
    code, _, output = command(*words)
    assert (code, "have changed since" in output) == (2, True)


def test_a_diverging_run_is_an_error_and_keeps_no_weights(command):
    code, _, output = command(*train_words("learning_rate=1e30", "clip_norm=0"), "--name", "wild")
    assert (code, "the loss is nan" in output) == (2, True)
    assert not Path("runs/wild/model.safetensors").exists()


def test_a_saved_model_predicts_without_its_run(command, trained):
    write_picture(Path("a.png"))
    patchword.save(patchword.load(trained), "exported")
    code, output, _ = command("predict", "exported", "a.png")
    assert (code, "a.png" in output) == (0, True)


def test_writing_where_a_folder_is_says_so(command, trained):
    write_picture(Path("a.png"))
    Path("answers").mkdir()
    code, _, output = command("predict", trained, "a.png", "--csv", "answers")
    assert (code, "cannot write answers" in output) == (2, True)


def test_a_block_and_a_part_at_once(refused):
    assert "--block and --part" in refused("cost", "vit-exercise", "--block", 1, "--part", "norm")
