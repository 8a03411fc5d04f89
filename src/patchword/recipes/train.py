"""From a recipe to a finished run: gather what it asks for, assemble the loop, run it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from patchword.core.card import Preparation
from patchword.core.errors import UserError
from patchword.core.files import clear_litter, make_folder, read_json, write_json, write_text
from patchword.data.augment import Augmentation
from patchword.data.batches import Batches
from patchword.data.images import Images
from patchword.data.named import SETS, open_source
from patchword.data.randomness import step_seed
from patchword.data.sources import Source, held_out
from patchword.layers.pyramid import Pyramid
from patchword.layers.recompute import recompute
from patchword.models import REGISTRY
from patchword.objectives.classification import Classification
from patchword.objectives.scores import score
from patchword.recipes.device import machine, pick_device, pick_precision
from patchword.recipes.recipe import Recipe, read_recipe
from patchword.recipes.run import EVALUATION_BATCH
from patchword.training.average import Average
from patchword.training.checkpoint import Checkpoints
from patchword.training.journal import RunJournal
from patchword.training.lock import exclusive, interruptible
from patchword.training.loop import Loop, Validation
from patchword.training.optimizer import adamw
from patchword.training.schedule import WarmupCosine
from patchword.training.step import PlainStep, autocast
from patchword.weights import save


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
    with console.status(f"reading {recipe.data}") as status:

        def told(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} pictures")

        source = open_source(recipe.data)
        images = source.read("train", config.image, config.channels, told)
        source.check(config.image, config.channels)
    classes = int(overrides.get("classes", len(images.classes)))
    labels = images.classes[:classes] + tuple(f"unused {index}" for index in range(len(images.classes), classes))
    images = replace(images, classes=labels)  # fewer classes than labels is an error, and is named
    train, validation = split(source, images, recipe)
    torch.manual_seed(recipe.seed)
    model = REGISTRY.create(recipe.model.name, **{**overrides, "classes": classes})
    model.card = replace(model.card, labels=labels, preparation=measured(train))
    if recipe.recompute is not False:
        recompute(model, None if recipe.recompute is True else recipe.recompute)
    return Material(recipe, model.to(device), train, validation, device)


def split(source: Source, images: Images, recipe: Recipe) -> tuple[Images, Images]:
    """The training part without its validation samples, and those: the source's own, or some of each class."""
    if source.brings_validation:
        config = REGISTRY.configure(recipe.model.name, recipe.model.overrides())
        return images, source.read("validation", config.image, config.channels).with_classes(images.classes)
    aside = held_out(images.labels, images.keys, recipe.validation)
    if not aside.any():
        raise UserError(f"{images.name} has too few pictures to set any aside", expected="two or more of some class")
    return images.subset((~aside).nonzero()[:, 0]), images.subset(aside.nonzero()[:, 0])


def train(recipe: Recipe, folder: Path, console: Console, resume: bool = False) -> bool:
    """Trains until the end (True) or until asked to stop (False); the same call with `resume` goes on bit by bit."""
    recipe = located(recipe)
    check_folder(recipe, folder, resume)
    material = gather(recipe, console)
    with exclusive(folder), interruptible() as interrupted:
        remember_data(material.train, folder)
        clear_litter(folder)
        write_text(folder / "recipe.yaml", recipe.to_yaml())
        write_json(folder / "machine.json", machine(material.device))
        loop = assemble(material, folder, console)
        loop.interrupted = interrupted
        if resume and loop.resume(console.print) and not loop.finished():
            console.print(f"going on from epoch {loop.state.epoch + 1}, batch {loop.state.batch + 1}", highlight=False)
        return loop.run()


def located(recipe: Recipe) -> Recipe:
    """Data in files is named by its whole path, so that the run can be evaluated from anywhere."""
    path = Path(recipe.data)
    is_file = recipe.data not in (*SETS, "digits") and path.exists()
    return recipe.model_copy(update={"data": str(path.absolute())}) if is_file else recipe


def remember_data(images: Images, folder: Path) -> None:
    """Refuses to go on with other training samples than a run began with."""
    now = {"name": images.name, "samples": len(images), "fingerprint": images.fingerprint()}
    before = read_json(folder / "data.json") if (folder / "data.json").is_file() else now
    if before != now:
        raise UserError(
            f"the training samples of {images.name} have changed since {folder} was begun",
            expected=f"{before.get('samples')} samples as they were",
            got=f"{len(images)} samples",
            hint="restore them, or give this run another --name",
        )
    write_json(folder / "data.json", now)


def check_folder(recipe: Recipe, folder: Path, resume: bool) -> None:
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
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """The folder can be made or written into, found out without making it yet."""
    if len(os.fsencode(folder.name)) > 200:
        raise UserError("the run's name is too long", expected="200 letters at most", got=len(folder.name))
    make_folder(next(path for path in (folder, *folder.absolute().parents) if path.exists()))


def assemble(material: Material, folder: Path, console: Console) -> Loop:
    """The loop of a recipe."""
    recipe, model, device = material.recipe, material.model, material.device
    precision = pick_precision(recipe.precision, device)
    forward: Callable[[Tensor], Tensor] = compiled(model, device) if recipe.compile else model
    batches = Batches(material.train, recipe.batch, model.card.preparation, device).on_device()
    held = Batches(material.validation, EVALUATION_BATCH, model.card.preparation, device).on_device()
    augmentation = Augmentation(**recipe.augmentation.model_dump())
    steps = batches.steps_per_epoch()
    optimizer = adamw(model, recipe.rate, recipe.decay)
    total = steps * recipe.epochs

    def validate() -> Validation:
        with autocast(precision, device):
            scores = score(model, held.whole(), model.card.labels)
        return Validation(scores.loss, scores.accuracy)

    def keep_best() -> None:
        save(model, folder)

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
        keep_best=keep_best,
        checkpoints=Checkpoints(folder / "checkpoints"),
        journal=RunJournal(folder, console),
        step_seed=lambda step: step_seed(recipe.seed, step),
        epochs=recipe.epochs,
        steps_per_epoch=steps,
        patience=recipe.patience,
        save_seconds=60 * recipe.save_minutes,
    )


def compiled(model: Pyramid, device: torch.device) -> Callable[[Tensor], Tensor]:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels."""
    mode = "reduce-overhead" if device.type == "cuda" else "default"
    return torch.compile(model, mode=mode)


def measured(images: Images) -> Preparation:
    """The mean and spread of each channel, over 4,096 training pictures at most, spread evenly over the set."""
    sample = torch.arange(0, len(images), -(-len(images) // 4096))
    mean = squares = torch.zeros(1, dtype=torch.float64)
    for part in sample.split(64):
        pixels = images.pixels.take(part).double() / 255
        mean = mean + pixels.mean((2, 3)).sum(0) / len(sample)
        squares = squares + pixels.square().mean((2, 3)).sum(0) / len(sample)
    std = (squares - mean.square()).clamp(min=0).sqrt().clamp(min=1e-3)
    return Preparation(tuple(round(value, 4) for value in mean.tolist()), tuple(round(v, 4) for v in std.tolist()))
