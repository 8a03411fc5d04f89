"""Masked image modelling: the loss, the masks, a run with a restart, and what is fine-tuned from it."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import patchword
from patchword.core.errors import UserError
from patchword.core.tensor_files import read_tensors
from patchword.data.image.patch_masks import fixed_masks, masked_count, training_masks
from patchword.layers.convolution.stem import PatchEmbed, cut_patches, join_patches
from patchword.objectives.masked_image import MaskedImageModel, MaskedImages, MaskedPixels
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.checking import check_data
from patchword.recipes.evaluation import evaluate
from patchword.recipes.image_pretraining.batches import MaskedImageBatch
from patchword.recipes.image_pretraining.model import DECODER
from patchword.recipes.image_pretraining.recipe import ImagePretrainingRecipe
from patchword.recipes.image_pretraining.task import ImagePretrainingTask, build_task
from patchword.recipes.run import Run
from patchword.recipes.sample_names import sample_names
from patchword.recipes.train import train
from patchword.reports.run.kinds import result_lines, write_report
from support.helpers import difference, randomise, unequal_tensors
from support.material import differing, silent, write_classes, write_picture

SIZES = {"image": 8, "patch": 2, "depth": 1, "width": 16, "heads": 2, "hidden": 32}
MODEL = ("model=vit-exercise", *(f"model.{field}={value}" for field, value in SIZES.items()))
QUICK = ("epochs=2", "batch_size=16", "device=cpu", "data=photos")
LAST = "epoch-00002-batch-0000000"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos() -> Path:
    """An unlabelled folder of stripes: a visible patch determines the masked ones."""
    Path("photos").mkdir()
    for number in range(80):
        shade, vertical = 40 + 2 * number, number % 2
        pixels = np.full((8, 8), 255 - shade, np.uint8)
        pixels[:, ::2] = shade
        Image.fromarray(pixels.T.copy() if vertical else pixels).save(f"photos/{number}.png")
    return Path("photos")


def recipe(*settings: str) -> ImagePretrainingRecipe:
    return find_recipe("image-pretrain").with_settings([*MODEL, *QUICK, *settings])


def built(*settings: str) -> tuple[ImagePretrainingTask, str]:
    console = Console(file=io.StringIO(), width=200)
    return build_task(recipe(*settings), console), console.file.getvalue()


def masked_model(name: str = "vit-exercise", **fields: object) -> MaskedImageModel:
    return randomise(MaskedImageModel(patchword.create(name, **{**SIZES, "channels": 3, **fields}))).eval()


def batch_of(count: int = 5, ratio: float = 0.6) -> MaskedImageBatch:
    torch.manual_seed(3)
    samples = torch.arange(count)
    return MaskedImageBatch(torch.randn(count, 3, 8, 8), training_masks(samples, 16, ratio, 0, 0), samples)


# The loss


def loss_by_hand(model: MaskedImageModel, batch: MaskedImageBatch) -> float:
    """The mean of |prediction - pixel| over all pixels of masked patches, one after another."""
    predicted, errors = model(batch.masked), []
    for image, mask, guesses in zip(batch.inputs, batch.mask, predicted, strict=True):
        for number in mask.nonzero()[:, 0].tolist():
            row, column = 2 * (number // 4), 2 * (number % 4)
            patch = image[:, row : row + 2, column : column + 2].reshape(-1)
            errors += [abs(float(a) - float(b)) for a, b in zip(guesses[number], patch, strict=True)]
    return sum(errors) / len(errors)


@torch.no_grad()
def test_the_loss_is_the_mean_absolute_error_of_masked_pixels():
    model, batch = masked_model(), batch_of()
    expected = loss_by_hand(model, batch)
    objective = MaskedPixels(model, 2)
    assert float(objective(batch, batch).loss) == pytest.approx(expected, rel=1e-5)
    pieces = [float(objective(piece, batch).loss) for piece in batch.split(2)]
    assert sum(pieces) == pytest.approx(expected, rel=1e-5)
    assert len(pieces) == 2
    other = batch._replace(mask=batch.mask.roll(1, 1))  # so the comparison above can fail
    assert float(objective(other, other).loss) != pytest.approx(expected, rel=1e-3)


@torch.no_grad()
def test_only_masked_patches_have_a_loss():
    batch = batch_of()
    patches = cut_patches(batch.inputs, 2)
    visible, masked = ~batch.mask[..., None], batch.mask[..., None]
    wrong_where_visible = MaskedPixels(lambda inputs: patches + 7 * visible, 2)
    assert float(wrong_where_visible(batch, batch).loss) == 0
    wrong_where_masked = MaskedPixels(lambda inputs: patches + 7 * masked, 2)
    assert float(wrong_where_masked(batch, batch).loss) == pytest.approx(7, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit-exercise", "deit-mini", "deit-mini-distilled"])
def test_the_pixels_of_masked_patches_are_hidden_from_the_model(name):
    model, batch = masked_model(name), batch_of()
    patches = cut_patches(batch.inputs, 2)
    noise = torch.randn_like(patches)
    hidden, seen = (
        join_patches(torch.where(chosen[..., None], noise, patches), 2, model.stage.stem.grid(8, 8))
        for chosen in (batch.mask, ~batch.mask)
    )
    expected = model(batch.masked)
    assert expected.shape == (5, 16, 12)
    assert torch.equal(model(MaskedImages(hidden, batch.mask)), expected)
    assert difference(model(MaskedImages(seen, batch.mask)), expected) > 0.01


@torch.no_grad()
def test_without_a_mask_the_encoder_is_that_of_the_classifier():
    vit = randomise(patchword.create("vit-exercise", **SIZES)).eval()
    model, images = MaskedImageModel(vit), torch.randn(2, 1, 8, 8)
    tokens, grid = vit.encode(images)
    nothing = torch.zeros(2, 16, dtype=torch.bool)
    assert torch.equal(model(MaskedImages(images, nothing)), model.head(tokens[:, grid.prefix :]))


def test_patches_are_joined_as_they_were_cut():
    images = torch.randn(2, 3, 4, 6)
    stem = PatchEmbed(3, 5, 2)
    assert torch.equal(join_patches(cut_patches(images, 2), 2, stem.grid(4, 6)), images)
    expected = torch.nn.functional.conv2d(images, stem.weight, stem.bias, 2).flatten(2).transpose(1, 2)
    assert difference(stem(images)[0], expected) < 1e-6


# The masks


@pytest.mark.parametrize(("ratio", "count"), [(0.6, 10), (0.5, 8), (0.01, 1), (0.99, 15)])
def test_the_mask_ratio_is_exact(ratio, count):
    masks = training_masks(torch.arange(300), 16, ratio, 0, 0)
    assert masks.sum(1).unique().tolist() == [count] == [masked_count(16, ratio)]
    frequency = masks.float().mean(0)
    assert (frequency - count / 16).abs().max() < 0.15  # every patch is masked equally often


def test_a_mask_depends_on_seed_epoch_and_sample_only():
    samples = torch.arange(40)
    masks = training_masks(samples, 16, 0.6, 1, 2)
    assert torch.equal(training_masks(samples[7:9], 16, 0.6, 1, 2), masks[7:9])
    for other in (training_masks(samples, 16, 0.6, 2, 2), training_masks(samples, 16, 0.6, 1, 3)):
        assert not torch.equal(other, masks)
    assert len(masks.unique(dim=0)) > 30
    assert not torch.equal(fixed_masks(samples, 16, 0.6), training_masks(samples, 16, 0.6, 0, 0))


def test_validation_masks_are_fixed(photos):
    measures = [built("seed=0")[0].held, built("seed=9")[0].held]
    model = masked_model(channels=1)
    assert measures[0].measure(model) == measures[1].measure(model)


# A run


def test_a_run_learns_and_is_reported(photos, command):
    code, output, errors = command(
        "train", "image-pretrain", *MODEL, *QUICK, "epochs=8", "batch_size=4", "learning_rate=1e-2"
    )
    assert code == 0, errors
    assert "masks    10 of 16 patches per image" in output
    assert "photos: 65 images for training, 7 for validation; labels are not used" in output
    run = Run(next(Path("runs").iterdir()))
    result = json.loads((run.folder / "evaluation.json").read_text())
    assert result["loss"] < 0.5 * result["mean_pixel_loss"]
    assert result["error_reduction"] == pytest.approx(1 - result["loss"] / result["mean_pixel_loss"])
    report = (run.folder / "report.html").read_text()
    assert report.count("<figcaption>reconstructed") == 6
    assert "Test Error Reduction against the Mean Pixel" in output


def test_a_stopped_run_resumes_bit_equal(photos, stop_after):
    settings = ("ema_decay=0.9", "model.drop_path=0.2", "augmentation.shift=1")
    assert train(recipe(*settings), Path("whole"), silent())
    steps = built(*settings)[0].steps_per_epoch()
    stop_after(steps + 2)
    assert not train(recipe(*settings), Path("parts"), silent())
    stop_after(0)
    assert train(recipe(*settings), Path("parts"), silent(), resume=True)
    for file in ("model.safetensors", DECODER, f"checkpoints/{LAST}/tensors.safetensors"):
        assert differing(Path("parts", file), Path("whole", file)) == [], file
    assert {"model.mask_token", "model.head.weight", "average.mask_token"} <= {
        *read_tensors(Path("whole/checkpoints", LAST, "tensors.safetensors"))[0]
    }
    other = recipe(*settings, "seed=1")
    assert train(other, Path("other"), silent())
    assert differing(Path("other/model.safetensors"), Path("whole/model.safetensors"))


def test_the_encoder_is_fine_tuned_as_it_is(photos):
    assert train(recipe(), Path("pretrained"), silent())
    model = patchword.load("pretrained")
    assert (model.card.model, model.card.labels) == ("vit-exercise", ())
    assert not any("mask_token" in name for name in model.state_dict())
    write_classes(Path("labelled"), ("cat", "dog", "eel"))
    fine = find_recipe("finetune-images").with_settings(
        ["model=pretrained", "data=labelled", "epochs=1", "batch_size=8", "device=cpu"]
    )
    task = recipe_run.build_task(fine, silent())
    assert all(name.startswith("head.") for name in unequal_tensors(task.model, model))
    assert task.model.card.normalization == model.card.normalization
    assert train(fine, Path("fine"), silent())
    assert patchword.load("fine").card.labels == ("cat", "dog", "eel")


def test_pretraining_continues_from_weights(photos):
    assert train(recipe("epochs=1"), Path("first"), silent())
    task = build_task(recipe().with_settings(["model=first"]), silent())
    before = patchword.load("first").state_dict()
    own = {name: tensor for name, tensor in task.model.state_dict().items() if name in before and "head" not in name}
    assert len(own) > 10
    assert all(torch.equal(tensor, before[name]) for name, tensor in own.items())


def test_what_is_saved_is_what_was_measured(photos):
    task, _ = built()
    randomise(task.model)
    Path("run").mkdir()
    task.save(Path("run"))
    Path("run/recipe.yaml").write_text(task.recipe.to_yaml())
    task.model.eval()
    found = evaluate(Run(Path("run")), "cpu")
    assert found.images.pixels.shape == (1, 8, 8)
    again = type(task.held).of(found.images, task.model.card.normalization, 0.6, torch.device("cpu"))
    assert found.measures == again.measure(task.model)
    assert torch.equal(found.examples.original, found.images.pixels.take(torch.arange(6)))  # of 8 test images
    assert not torch.equal(found.examples.masked, found.examples.original)
    assert result_lines(found)[0] == f"Test Loss of Masked Pixels: {found.measures['loss']:.4f}"
    assert write_report(Run(Path("run")), found).is_file()
    Path("run", DECODER).unlink()
    with pytest.raises(UserError, match=r"has no decoder\.safetensors"):
        evaluate(Run(Path("run")), "cpu")


# The data and the model


def test_the_test_images_of_a_labelled_set_are_not_trained_on(photos):
    write_classes(Path("labelled"), ("cat", "dog"), count=12)
    task, _ = built("data=labelled")
    classifier = recipe_run.build_task(
        find_recipe("image-folder-vit").with_settings([*MODEL, "data=labelled", "device=cpu"]), silent()
    )
    assert task.train.images.keys.tolist() == classifier.train.images.keys.tolist()


def test_folders_without_labels(photos):
    assert check_data(recipe()) == ("80 images", [])
    task, _ = built()
    assert sample_names(task)(next(task.data(0, 0)))[0].startswith("photos/")
    write_classes(Path("single"), ("all",), count=12)
    assert check_data(recipe("data=single"))[0] == "12 images"
    write_picture(Path("mixed/a.png"))
    write_classes(Path("mixed"), ("b", "c"), count=6)
    assert check_data(recipe("data=mixed"))[0] == "13 images"
    write_picture(Path("logo/logo.png"))
    for part in ("train", "test"):
        write_classes(Path("logo", part), count=3)
    assert check_data(recipe("data=logo"))[0] == "12 images"  # the split is kept, so loose images are not read
    with pytest.raises(UserError, match="have the same class"):
        check_data(find_recipe("image-folder-vit").with_settings(["data=single"]))


def test_other_families_are_refused(photos):
    for name, title in (("swin-mini", "Swin"), ("resnet-mini", "ResNet")):
        with pytest.raises(UserError, match=rf"'{name}' is a {title}, which .* expected a ViT or DeiT"):
            built(f"model={name}")
    patchword.save(patchword.create("pvt-mini", image=32), "pvt")
    with pytest.raises(UserError, match="'pvt-mini' is a PVT"):
        build_task(recipe().with_settings(["model=pvt"]), silent())


def test_a_single_patch_is_refused(photos):
    with pytest.raises(UserError, match="two or more patches"):
        built("model.patch=8")


def test_a_pretrained_run_predicts_nothing(photos, command):
    assert train(recipe("epochs=1"), Path("run"), silent())
    code, _, errors = command("predict", "run", "photos/0.png")
    assert code == 2
    assert "is pretrained only; it has no classes yet" in errors
    assert "finetune-images model=run" in errors
    with pytest.raises(
        UserError, match="run is a run of the kind image-pretraining: expected a run of the kind images"
    ):
        Run(Path("run")).image_recipe()
