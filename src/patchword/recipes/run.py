"""A run is a folder: the recipe, the checkpoints, the metrics, and the best weights as a model anyone can load.

recipe.yaml         what was done; can be trained again as it is
config.json         the model's card
model.safetensors   the weights that were best on the validation set
metrics.jsonl       a line an epoch
checkpoints/        where a restart goes on
evaluation.json     the test result
report.html         all of it, to read
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from patchword.core.card import Preparation
from patchword.core.errors import UserError
from patchword.core.files import make_folder, read_json, write_json, write_text
from patchword.core.grid import Size
from patchword.data.augment import Augmentation
from patchword.data.batches import Batches
from patchword.data.images import Images
from patchword.data.named import open_source
from patchword.data.randomness import step_seed
from patchword.data.sources import held_out
from patchword.layers.pyramid import Pyramid
from patchword.models import REGISTRY
from patchword.objectives.classification import Classification
from patchword.objectives.scores import Scores, score
from patchword.recipes.recipe import Recipe, read_recipe
from patchword.training.average import Average
from patchword.training.checkpoint import Checkpoints
from patchword.training.journal import RunJournal, read_metrics
from patchword.training.lock import exclusive, interruptible
from patchword.training.loop import Loop, Validation
from patchword.training.optimizer import adamw
from patchword.training.schedule import WarmupCosine
from patchword.training.step import PlainStep, autocast
from patchword.weights import load, save

_EVALUATION_BATCH = 500


@dataclass(frozen=True)
class Run:
    """A run's folder, read."""

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / "recipe.yaml").is_file():
            runs = sorted(path.parent.name for path in self.folder.parent.glob("*/recipe.yaml"))
            hint = f"runs here: {', '.join(runs)}" if runs else "`patchword train RECIPE` makes one"
            raise UserError(f"{self.folder} is not a run", expected="a folder with recipe.yaml", hint=hint)

    def recipe(self) -> Recipe:
        return read_recipe(self.folder / "recipe.yaml")

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.folder / "metrics.jsonl")

    def evaluation(self) -> dict[str, Any]:
        path = self.folder / "evaluation.json"
        return dict(read_json(path)) if path.is_file() else {}

    def model(self) -> Pyramid:
        if not (self.folder / "model.safetensors").is_file():
            hint = f"patchword train {self.folder / 'recipe.yaml'} --name {self.folder.name} --resume"
            raise UserError(f"{self.folder} has no weights yet", hint=f"let its first epoch end: {hint}")
        return load(self.folder)

    def test_images(self) -> Images:
        config = self.model_config()
        source = open_source(self.recipe().data)
        return source.read("test", config["image"], config["channels"]).with_classes(self.labels())

    def model_config(self) -> dict[str, Any]:
        return dict(read_json(self.folder / "config.json")["config"])

    def labels(self) -> tuple[str, ...]:
        return tuple(read_json(self.folder / "config.json")["labels"])


@dataclass(frozen=True)
class Material:
    """What a recipe asks for, brought together and checked, before anything is written."""

    recipe: Recipe
    model: Pyramid
    train: Images
    validation: Images
    device: torch.device


def gather(recipe: Recipe, console: Console) -> Material:
    """Reads the training part of the data and builds the model; the test part is not touched."""
    device = pick_device(recipe.device)
    overrides = recipe.model.overrides()
    config = REGISTRY.configure(recipe.model.name, overrides)
    size: Size = config.image
    with console.status(f"reading {recipe.data}") as status:
        images = open_source(recipe.data).read(
            "train", size, config.channels, lambda done, of: status.update(f"reading {recipe.data}: {done:,} of {of:,}")
        )
    classes = int(overrides.get("classes", len(images.classes)))
    labels = images.classes[:classes] + tuple(f"unused {index}" for index in range(len(images.classes), classes))
    images = replace(images, classes=labels)  # fewer classes than labels is an error, and is named
    aside = held_out(images.labels, recipe.validation)
    train, validation = images.subset((~aside).nonzero()[:, 0]), images.subset(aside.nonzero()[:, 0])
    torch.manual_seed(recipe.seed)
    model = REGISTRY.create(recipe.model.name, **{**overrides, "classes": classes})
    model.card = replace(model.card, labels=labels, preparation=measured(train))
    return Material(recipe, model.to(device), train, validation, device)


def train(recipe: Recipe, folder: Path, console: Console, resume: bool = False) -> bool:
    """Trains until the end (True) or until asked to stop (False); the same call with `resume` goes on bit by bit."""
    make_folder_for(recipe, folder, resume)
    material = gather(recipe, console)
    with exclusive(folder), interruptible() as interrupted:
        write_text(folder / "recipe.yaml", recipe.to_yaml())
        loop = assemble(material, folder, console)
        loop.interrupted = interrupted
        if resume and loop.resume(console.print):
            console.print(f"going on from epoch {loop.state.epoch + 1}, batch {loop.state.batch + 1}", highlight=False)
        return loop.run()


def make_folder_for(recipe: Recipe, folder: Path, resume: bool) -> None:
    """Refuses to mix two runs in one folder."""
    if (folder / "recipe.yaml").is_file():
        before = read_recipe(folder / "recipe.yaml")
        if not resume:
            raise UserError(
                f"{folder} holds a run already", hint="add --resume to go on with it, or give another --name"
            )
        changed = [name for name in Recipe.model_fields if getattr(before, name) != getattr(recipe, name)]
        changed = [name for name in changed if name not in ("about", "expect", "save_minutes")]
        if changed:
            was = ", ".join(f"{name}={getattr(before, name)}" for name in changed)
            raise UserError(
                f"{folder} was started with another recipe", expected=was, hint="give this run another --name"
            )
    make_folder(folder) if folder.exists() else _check_parent(folder)


def _check_parent(folder: Path) -> None:
    """The folder can be made, without making it yet."""
    parent = next(path for path in folder.absolute().parents if path.exists())
    make_folder(parent)


def assemble(material: Material, folder: Path, console: Console) -> Loop:
    """The loop of a recipe."""
    recipe, model, device = material.recipe, material.model, material.device
    precision = _precision(recipe, device)
    forward: nn.Module = torch.compile(model) if recipe.compile else model  # type: ignore[assignment]
    batches = Batches(material.train, recipe.batch, model.card.preparation, device).on_device()
    held = Batches(material.validation, _EVALUATION_BATCH, model.card.preparation, device).on_device()
    augmentation = Augmentation(**recipe.augmentation.model_dump())
    steps = batches.steps_per_epoch()
    optimizer = adamw(model, recipe.rate, recipe.decay)
    total = steps * recipe.epochs

    def validate() -> Validation:
        with autocast(precision, device):
            scores = score(model, held.whole(), model.card.labels)
        return Validation(scores.loss, scores.accuracy)

    return Loop(
        model=model,
        optimizer=optimizer,
        step=PlainStep(
            Classification(forward, recipe.smoothing),
            optimizer,
            clip=recipe.clip,
            parts=recipe.accumulate,
            precision=precision,
        ),
        schedule=WarmupCosine(recipe.rate, total, round(total * recipe.warmup), recipe.floor),
        average=Average(model, recipe.average),
        data=lambda epoch, first: batches.epoch(epoch, recipe.seed, augmentation, first),
        validate=validate,
        keep_best=lambda: _keep(model, folder),
        checkpoints=Checkpoints(folder / "checkpoints"),
        journal=RunJournal(folder, console),
        step_seed=lambda step: step_seed(recipe.seed, step),
        epochs=recipe.epochs,
        steps_per_epoch=steps,
        patience=recipe.patience,
        save_seconds=60 * recipe.save_minutes,
    )


def _keep(model: Pyramid, folder: Path) -> None:
    save(model, folder)


def evaluate(run: Run, device: str = "auto") -> tuple[Scores, Images]:
    """The best weights on the test set, which nothing has read before; the result is kept in evaluation.json."""
    target = pick_device(device)
    model, images = run.model().to(target), run.test_images()
    batches = Batches(images, _EVALUATION_BATCH, model.card.preparation, target)
    scores = score(model, batches.whole(), model.card.labels)
    write_json(run.folder / "evaluation.json", scores.summary())
    return scores, images


def measured(images: Images) -> Preparation:
    """The mean and spread of each channel, over the first 10,000 training pictures at most."""
    sample = images.pixels.take(torch.arange(min(10_000, len(images)))).double() / 255
    mean, std = sample.mean((0, 2, 3)), sample.std((0, 2, 3)).clamp(min=1e-3)
    return Preparation(tuple(round(value, 4) for value in mean.tolist()), tuple(round(v, 4) for v in std.tolist()))


def pick_device(name: str) -> torch.device:
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"cannot use device {name!r}", got=str(error).splitlines()[0], hint="device=auto") from None
    return device


def _precision(recipe: Recipe, device: torch.device) -> str:
    if recipe.precision != "auto":
        return recipe.precision
    return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
