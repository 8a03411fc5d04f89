"""Image recipes that begin from trained weights: what is kept, what is new, what is fixed, and what is printed."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.core.tensor_files import read_tensors
from patchword.layers.model import Model
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate, evaluated
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.image.task import ImageTask, build_task
from patchword.recipes.run import Run
from patchword.recipes.train import build_task as build_any
from patchword.recipes.train import train
from patchword.studies import STUDIES
from support.helpers import difference, pixels, randomise
from support.material import silent, write_classes, write_picture

VIT = {"image": 8, "patch": 4, "depth": 2, "width": 16, "heads": 2, "hidden": 32, "channels": 1}
QUICK = ("epochs=1", "batch_size=8", "device=cpu", "data=photos")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos() -> Path:
    return write_classes(Path("photos"), ("cat", "dog", "eel"))


def weights(name: str = "vit-exercise", labels: tuple[str, ...] = tuple("abcdefghij"), **fields: object) -> Path:
    """Write large random weights with labels and a normalization of their own."""
    model = randomise(patchword.create(name, **{**(VIT if name == "vit-exercise" else {}), **fields}))
    channels = model.card.config["channels"]
    model.card = replace(model.card, labels=labels, normalization=Normalization((0.3,) * channels, (0.2,) * channels))
    return patchword.save(model, Path("weights"))


def recipe(*settings: str, name: str = "finetune-images") -> ImageRecipe:
    return find_recipe(name).with_settings([*QUICK, *settings])


def built(*settings: str, name: str = "finetune-images") -> tuple[ImageTask, str]:
    """Return the task of a recipe and what it printed."""
    console = Console(file=io.StringIO(), width=200)
    return build_task(recipe(*settings, name=name), console), console.file.getvalue()


def without_head(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("head.")}


# What is kept, and what is new


def test_all_weights_but_the_head_are_kept(photos):
    task, output = built(f"model={weights()}")
    trained = patchword.load("weights")
    assert all(torch.equal(tensor, without_head(trained)[name]) for name, tensor in without_head(task.model).items())
    assert task.model.card.labels == ("cat", "dog", "eel")
    assert task.model.head.linear.weight.shape == (3, 16)
    assert "weights  weights; new head for 3 classes\n" in output


def test_the_normalization_of_the_weights_is_kept(photos):
    task, _ = built(f"model={weights()}")
    assert task.model.card.normalization.mean == (0.3,)
    assert task.train.normalization == task.held.normalization == task.model.card.normalization
    random, _ = built("model=vit-exercise", "model.image=8", "model.patch=4")
    assert random.model.card.normalization.mean != (0.3,)


def test_a_head_for_the_same_classes_is_kept(photos):
    task, output = built(f"model={weights(labels=('cat', 'dog', 'eel'), classes=3)}")
    assert torch.equal(task.model.head.linear.weight, patchword.load("weights").head.linear.weight)
    assert "its head is kept" in output


def test_a_head_for_as_many_other_classes_is_new(photos):
    task, output = built(f"model={weights(labels=('a', 'b', 'c'), classes=3)}")
    assert difference(task.model.head.linear.weight, patchword.load("weights").head.linear.weight) > 0.1
    assert "new head for 3 classes" in output


@pytest.mark.parametrize("name", ["vit-exercise", "swin-mini"])
def test_position_tables_are_resized_for_another_resolution(photos, name):
    image = 16 if name == "vit-exercise" else 40
    extra = [] if name == "vit-exercise" else ["model.window=5"]
    task, output = built(f"model={weights(name)}", f"model.image={image}", *extra)
    expected = patchword.load("weights", image=image, **({} if name == "vit-exercise" else {"window": 5}))
    tables = [key for key in expected.state_dict() if key.endswith(".table")]
    assert tables
    assert all(torch.equal(task.model.state_dict()[key], expected.state_dict()[key]) for key in tables)
    assert f"position tables resized from {8 if name == 'vit-exercise' else 28} x" in output
    assert task.train.images.pixels.shape == (1, image, image)


def test_only_the_sizes_of_weights_are_taken_from_scratch(photos):
    task, output = built(f"model={weights()}", "model.from_scratch=true")
    assert task.model.card.config["width"] == 16
    assert difference(task.model.norm.weight, patchword.load("weights").norm.weight) > 0.1
    assert "random: training starts from scratch" in output


def test_a_hugging_face_folder_is_fine_tuned(photos):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=5)
    theirs = randomise(transformers.ViTForImageClassification(config)).eval()
    theirs.save_pretrained("theirs")
    transformers.ViTImageProcessor(size=32, image_mean=[0.1] * 3, image_std=[0.4] * 3).save_pretrained("theirs")
    task, _ = built("model=theirs")
    assert task.model.card.normalization.mean == (0.1, 0.1, 0.1)
    given = pixels(2, 3, 32, 32)
    randomise(task.model.head)  # a new one is zero
    with torch.no_grad():
        states = theirs.vit(given).last_hidden_state[:, 0]
        expected = torch.nn.functional.linear(states, task.model.head.linear.weight, task.model.head.linear.bias)
        assert difference(task.model.eval()(given), expected) < 1e-5
    assert train(recipe("model=theirs"), Path("tuned"), silent())
    assert patchword.load("tuned").card.labels == ("cat", "dog", "eel")


# Channels and sizes


def test_a_model_for_grey_images_is_built_for_colours_if_the_data_has_them(photos):
    write_picture(photos / "cat" / "colour.png", mode="RGB")
    task, output = built("model=resnet-mini", name="image-folder-vit")
    assert task.train.images.pixels.shape == (3, 28, 28)
    assert "input    28 x 28 pixels, colour\n" in output
    assert "note:" not in output


@pytest.mark.parametrize("choice", [("model=weights",), ("model=resnet-mini", "model.channels=1")], ids=" ".join)
def test_lost_colours_are_reported(photos, choice):
    weights()
    write_picture(photos / "cat" / "colour.png", mode="RGB")
    task, output = built(*choice, "learning_rate=1e-4")
    assert task.train.images.pixels.shape[0] == 1
    assert "note: the images have colours, but the model reads grey ones, so colours are lost" in output


def test_a_named_model_has_its_own_size_and_random_weights(photos):
    task, output = built("model=vit-exercise", name="image-folder-vit")
    assert task.train.images.pixels.shape == (1, 28, 28)
    assert "weights  random: training starts from scratch" in output


def test_the_summary_has_the_sizes_of_the_splits(photos):
    task, output = built(f"model={weights()}")
    assert f"{len(task.train.images)} images for training, {len(task.held.images)} for validation, 3 classes" in output
    assert "device   cpu, float32" in output


def test_a_learning_rate_for_random_weights_is_reported(photos):
    path = weights()
    assert "learning_rate=0.001 is high for trained weights" in built(f"model={path}", "learning_rate=1e-3")[1]
    assert "is high" not in built(f"model={path}")[1]
    assert "is high" not in built("model=vit-exercise", "learning_rate=1e-3")[1]


# Fixed weights


def run(*settings: str, name: str = "tuned") -> Model:
    assert train(recipe(f"model={Path('weights').absolute()}", *settings), Path(name), silent())
    return patchword.load(name)


def changed(model: torch.nn.Module) -> set[str]:
    """The tensors that differ from those before."""
    before = patchword.load("weights").state_dict()
    return {
        name
        for name, tensor in model.state_dict().items()
        if name in before and before[name].shape == tensor.shape and not torch.equal(before[name], tensor)
    }


def test_a_linear_probe_changes_nothing_but_the_head(photos):
    weights(labels=("cat", "dog", "eel"), classes=3)
    assert changed(run("freeze=backbone", "epochs=2")) == {"head.linear.weight", "head.linear.bias"}


def test_the_statistics_of_batch_norms_are_fixed_too(photos):
    weights("resnet-mini", labels=("cat", "dog", "eel"), classes=3)
    assert changed(run("freeze=backbone")) == {"head.linear.weight", "head.linear.bias"}
    assert any(name.endswith("running_mean") for name in changed(run(name="all")))


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_one_more_block_learns_in_every_epoch(photos, epochs):
    """The order is head; block 1 with the norm after it; block 0; the stem."""
    weights(labels=("cat", "dog", "eel"), classes=3)
    parts = ["head.", "stages.0.encoder.blocks.1.", "stages.0.encoder.blocks.0.", "stages.0.stem."]
    run("freeze=gradual", f"epochs={epochs}", "learning_rate=1e-3", "save_minutes=0")
    newest = max(Path("tuned/checkpoints").glob("epoch-*"))
    found, _ = read_tensors(newest / "tensors.safetensors")
    before = patchword.load("weights").state_dict()
    moved = {name for name, tensor in before.items() if not torch.equal(found[f"model.{name}"], tensor)}
    assert [any(name.startswith(part) for name in moved) for part in parts] == [n < epochs for n in range(4)]


@pytest.mark.parametrize("setting", ["compile=true", "bias_correction=false"])
def test_what_gradual_unfreezing_excludes_is_refused(photos, setting):
    weights()
    with pytest.raises(UserError, match="gradual unfreezing changes the set of trained weights"):
        train(recipe("model=weights", "freeze=gradual", setting), Path("tuned"), silent())


# Mistakes and paths


def test_what_is_neither_a_path_nor_a_name_is_refused(photos):
    with pytest.raises(UserError, match="no model is called 'runs/smal', and there is no such file or folder"):
        built("model=runs/smal")


def test_weights_of_texts_are_refused(photos):
    patchword.save(patchword.create("bert-mini", vocabulary=30, width=16, depth=1, heads=2, hidden=32), Path("bert"))
    with pytest.raises(UserError, match="expected a model of images"):
        built("model=bert")


def test_a_fine_tuned_run_is_evaluated_from_any_folder(photos, monkeypatch):
    weights()
    assert train(recipe("model=weights"), Path("tuned"), silent())
    assert Run(Path("tuned")).recipe().model.name == str(Path("weights").absolute())


def test_the_study_compares_the_weights_with_random_ones_of_the_same_sizes(photos):
    study = STUDIES["images-pretrained-or-scratch"]().with_settings([f"model={weights()}", "data=photos", "device=cpu"])
    assert list(study.runs) == [f"{label}-seed-{seed}" for label in ("pretrained", "scratch") for seed in range(3)]
    pretrained, scratch = (build_task(study.runs[f"{label}-seed-1"], silent()) for label in ("pretrained", "scratch"))
    assert difference(pretrained.model.norm.weight, patchword.load("weights").norm.weight) == 0
    assert difference(scratch.model.norm.weight, patchword.load("weights").norm.weight) > 0.1
    assert pretrained.model.state_dict().keys() == scratch.model.state_dict().keys()


# Evaluation on other data


def test_a_run_is_evaluated_on_other_images(photos):
    weights(labels=("cat", "dog", "eel"), classes=3)
    assert train(recipe("model=weights"), Path("tuned"), silent())
    found = Run(Path("tuned"))
    own = evaluated(found, found.recipe(), "cpu")
    others = write_classes(Path("others"), ("dog", "eel"), count=7)
    all_of = evaluated(found, found.recipe().with_settings(["data=others"]), "cpu")
    assert all_of.scores.labels.bincount().tolist() == [0, 7, 7]  # no cat
    assert all_of.lines()[0] == "others: all images, since there is no test split (14)"
    for label in ("dog", "eel"):
        write_picture(others / "train" / label / "0.png")
        write_picture(others / "test" / label / "0.png")
    tested = evaluated(found, found.recipe().with_settings(["data=others"]), "cpu")
    assert tested.lines()[0] == "others: the test images (2)"
    assert own.lines()[0].startswith("Test Loss")


def test_a_result_on_other_images_has_its_own_file_and_report(photos, command):
    weights(labels=("cat", "dog", "eel"), classes=3)
    assert train(recipe("model=weights"), Path("tuned"), silent())
    evaluate(Run(Path("tuned")), "cpu")
    before = Path("tuned/evaluation.json").read_text()
    write_classes(Path("others"), ("dog", "eel"), count=7)
    code, output, _ = command("evaluate", "tuned", "data=others", "--device", "cpu")
    assert code == 0
    assert "no images of 1 of the 3 classes: cat" in output
    assert "report: tuned/evaluations/data-others.html" in output
    assert Path("tuned/evaluation.json").read_text() == before
    found = read_json(Path("tuned/evaluations/data-others.json"))
    assert found["examples"] == 14
    assert found["on"]["settings"] == ["data=others"]
    assert [one["support"] for one in found["per_class"]] == [0, 7, 7]
    page = Path("tuned/evaluations/data-others.html").read_text()
    assert "Evaluated with data=others." in page
    assert "on the 14 test images of others" in page
    command("evaluate", "tuned", "data=others", "--device", "cpu")
    write_classes(Path("more/others"), ("dog", "eel"), count=3)
    command("evaluate", "tuned", "data=more/others", "--device", "cpu")
    names = sorted(path.name for path in Path("tuned/evaluations").glob("*.json"))
    assert names == ["data-others-2.json", "data-others.json"]


def test_other_images_with_an_unknown_class_are_refused(photos):
    weights(labels=("cat", "dog", "eel"), classes=3)
    assert train(recipe("model=weights"), Path("tuned"), silent())
    write_classes(Path("others"), ("cat", "cow"))
    with pytest.raises(UserError, match="the model does not know class 'cow' of others"):
        evaluated(Run(Path("tuned")), Run(Path("tuned")).recipe().with_settings(["data=others"]), "cpu")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("finetune-images", (), "expected model=WEIGHTS data=FOLDER"),
        ("finetune-images", ("data=photos",), "expected model=WEIGHTS\n"),
        ("image-folder-vit", (), "expected data=FOLDER\n"),
        ("image-pretrain", (), "expected data=FOLDER\n"),
    ],
)
def test_missing_settings_are_named(photos, name, settings, expected):
    with pytest.raises(UserError, match="the recipe needs more settings") as caught:
        build_any(find_recipe(name).with_settings(settings), silent())
    assert expected in str(caught.value)
