"""data show: shows the images of a data set as the model gets them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import RecipeFields, RecipeSettings, console, settings_of

if TYPE_CHECKING:
    from patchword.data.image.batches import Batches
    from patchword.recipes.image.recipe import ImageRecipe


def show(
    what: Annotated[
        str,
        typer.Argument(metavar="DATA|RECIPE|RUN", help="A data set, the name or file of a recipe, or a run folder."),
    ],
    fields: RecipeFields = None,
    augment: Annotated[
        str,
        typer.Option(
            "--augmentation", metavar="NAME|LIST", help="none, light, deit, 3-augment, or a list such as flip,crop."
        ),
    ] = "",
    settings: RecipeSettings = None,
    size: Annotated[
        int, typer.Option("--size", min=4, help="Side of the images in pixels, for your own data sets.")
    ] = 224,
    count: Annotated[int, typer.Option("--count", min=1, max=64, help="Number of images.")] = 24,
    epoch: Annotated[int, typer.Option("--epoch", min=1, help="Which epoch of the run.")] = 1,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE.png", help="Output file of the batch; the operations go to a second file."),
    ] = Path("images.png"),
) -> None:
    """Show images as the model gets them: the first images of an epoch, augmented, with their class or mixed classes.

    A second figure shows one image under each augmentation at several strengths. A run with the same seed trains on
    exactly these images: the augmentation of a sample depends only on the seed, the epoch and the sample.

    Examples:

      patchword data show fashion-mnist --augmentation deit
      patchword data show my/images --size 224 --augmentation flip,crop,randaugment --out augmented.png
      patchword data show image-folder-vit data=my/images augmentation.randaugment=5
      patchword data show runs/fashion-mnist-vit --epoch 3
    """
    from patchword.core.errors import UserError
    from patchword.core.files import whole_file
    from patchword.reports.plots.augmentations import batch_figure, operations_figure

    if out.suffix.lower() != ".png":
        raise UserError("the figures are PNG files", expected="--out FILE.png", got=str(out))
    chosen = [*([f"augmentation={augment}"] if augment else []), *settings_of(settings, fields)]
    recipe = _recipe(what, size).with_settings(chosen)
    batches = _batches(recipe, max(2, count))  # at least two: mixup needs a second image
    images = batches.images
    batch = next(iter(batches.epoch(epoch - 1, recipe.seed, recipe.augmentation.made())))
    parts = ", ".join(recipe.augmentation.parts()) or "nothing"
    title = f"{images.name}: epoch {epoch}, seed {recipe.seed}; augmentation: {parts}"
    first = batch_figure(batch.first(count), batches.normalization, images.classes, title)
    pair = images.pixels.take(batch.samples[:2])
    second = operations_figure(pair[0], pair[-1], batches.normalization)
    beside = out.with_name(f"{out.stem}-operations{out.suffix}")
    for path, content in ((out, first), (beside, second)):
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
        typer.echo(path)


def _recipe(what: str, size: int) -> "ImageRecipe":
    """Return the recipe of a run, a file or a name; for a data set, a minimal recipe with a model of its size."""
    from patchword.cli.common import find_run
    from patchword.core.errors import UserError
    from patchword.data.image.named_datasets import DATASETS
    from patchword.recipes import RECIPES, find_recipe
    from patchword.recipes.image.recipe import ImageRecipe
    from patchword.recipes.schema.reading import read_recipe
    from patchword.recipes.schema.recipe import ModelChoice
    from patchword.zoo.entries import is_zoo_name

    path = Path(what)
    if what in DATASETS or what == "digits":
        side = 8 if what == "digits" else 28
        model = {"name": "vit-exercise", "image": side, "patch": side // 4, "channels": 1}
        return ImageRecipe(model=ModelChoice.model_validate(model), data=what)
    if what in RECIPES:
        recipe = find_recipe(what)
    elif path.suffix.lower() in (".yaml", ".yml"):
        recipe = read_recipe(path)
    elif is_zoo_name(what) or (path / "recipe.yaml").is_file() or (Path("runs") / path / "recipe.yaml").is_file():
        recipe = find_run(path).recipe()
    else:
        model = {"name": "vit-tiny-16", "image": size, "patch": size, "channels": 3}
        return ImageRecipe(model=ModelChoice.model_validate(model), data=what)
    if not isinstance(recipe, ImageRecipe):
        raise UserError(f"{what} trains on texts", expected="a recipe, a run or a data set of images")
    return recipe


def _batches(recipe: "ImageRecipe", count: int) -> "Batches":
    """Return the batches that a run of the recipe trains on."""
    import torch

    from patchword.data.image.batches import Batches
    from patchword.data.image.named_datasets import open_source
    from patchword.data.skipping import read_with, skipped_lines
    from patchword.recipes.image.checks import sampler_of
    from patchword.recipes.image.model import plan_image_model
    from patchword.recipes.image.task import measured, split

    with console().status(f"reading {recipe.data}") as status:
        source, _ = read_with(recipe.skip_rule(), open_source, recipe.data)
        plan = plan_image_model(recipe.model, source)

        def report(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} images")

        images, skipped = read_with(recipe.skip_rule(), source.read, "train", plan.format, report)
        train, _ = split(source, images, recipe, plan.format)
    for line in skipped_lines(skipped):
        console().print(line, highlight=False, markup=False)
    device, sampler = torch.device("cpu"), sampler_of(recipe, train)
    return Batches(train, min(count, len(train)), measured(train), device, sampler)
