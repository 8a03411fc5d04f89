"""Checks of the data of image recipes, and the names of their samples."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from patchword.core.errors import UserError
from patchword.data.faults import Fault, collect_faults
from patchword.data.image.images import Images
from patchword.data.image.sources import ListedSource
from patchword.data.image.splits import Split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.data.sampling import BalancedSampler, Sampler
from patchword.data.shards.sharded_images import ShardedImages
from patchword.data.skipping import read_with
from patchword.recipes.image.recipe import ImageDataRecipe, ImageRecipe
from patchword.training.guard.report import SampleNames


def check_images_of(recipe: ImageDataRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    """Read all images of a recipe; return their number in words, and possible mistakes."""
    with collect_faults() as report:
        count = recipe.open_data().examine(progress)
    return f"{count:,} images", report.doubts


def contents_of(recipe: ImageDataRecipe, parts: Collection[Split]) -> Mapping[Split, Contents]:
    """Return the images of these splits as they are stored."""
    source, _ = read_with(recipe.skip_rule(), recipe.open_data)
    return {part: source.contents(part) for part in parts if part != "validation" or source.has_validation}


def sampler_of(recipe: ImageRecipe, train: Images) -> Sampler | None:
    """Return the sampler of the training images; None if an epoch has each of them once."""
    if recipe.sampling == "natural":
        return None
    if isinstance(train.pixels, ShardedImages):
        raise UserError(
            "sampling=balanced reads images in random order, which is slow in shards",
            expected="a folder of images or a list",
            got=train.origin,
            hint="class_weights=balanced also helps rare classes, and reads shards in their order",
        )
    return BalancedSampler(train.labels.cpu())


def image_names(recipe: ImageDataRecipe, images: Images) -> SampleNames:
    """Name images by their files, which are looked up on first use; images of a single-file set by their index."""
    if isinstance(shards := images.pixels, ShardedImages):
        return lambda piece: [shards.name_of(sample) for sample in piece.samples.tolist()]

    @cache
    def files() -> dict[int, str]:
        try:
            source, _ = read_with(recipe.skip_rule(), recipe.open_data)
        except UserError:  # the data set was removed; another message reports that
            return {}
        if not isinstance(source, ListedSource):
            return {}
        return {key: str(path) for key, (path, _, _) in zip(source.keys().tolist(), source.rows, strict=True)}

    def name(piece: Any) -> list[str]:
        keys = images.keys[piece.samples.cpu()].tolist()
        return [files().get(key, f"image {key} of {images.name}") for key in keys]

    return name
