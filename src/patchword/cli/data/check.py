"""data check: finds all faults of a data set before anything is trained."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import DataFields, DataSettings, console, settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchword.data.faults import Fault
    from patchword.data.progress import Progress
    from patchword.recipes import Recipe

FORMAT = "format="
INSTANCES = "masks that are read as masks of instances"
TABLES, TAGS, QUESTIONS, RAW = (".csv", ".tsv", ".jsonl"), (".conll", ".conllu"), (".json",), (".txt", ".text", ".md")


def check(
    what: Annotated[
        str,
        typer.Argument(metavar="DATA|RECIPE", help="A data set, a file of texts, or a recipe's name or YAML file."),
    ],
    fields: DataFields = None,
    settings: DataSettings = None,
) -> None:
    """Find everything that is wrong with images, objects in images or texts, without training.

    Training makes the same check before its first step; a few unreadable images or rows with empty cells do not stop
    it, they are skipped with a warning. Every image is decoded (training reads only the headers of a
    set with more than 200,000 images that does not fit in memory), every row of every file is checked, and all faults
    are reported at once, by file and row: images that are truncated, empty or far too large, classes without images,
    rows of the wrong length, labels that are missing or unknown, text that is not UTF-8, answers that do not occur in
    their text, archives with entries outside of their folder. What may be intended, such as an image in both the
    training and the test split, or one that was saved again in another format, is a note.

    Annotations of objects (COCO JSON, YOLO text, Pascal VOC XML, LabelMe JSON, instance masks) are recognised by their
    files. Their faults are reported by file and object: boxes that are empty, swapped or outside of the image, unknown
    classes, polygons with two corners, masks of another size, duplicates, missing images.

    Label maps of semantic segmentation (CamVid, ADE20K, Pascal VOC, folders of images and labels) are recognised, too;
    where a folder may also hold instance masks, `segment-images data=FOLDER` checks it as label maps.

    The exit code is 0 if nothing is wrong, and 2 otherwise.

    Examples:

      patchword data check my/images
      patchword data check images.zip
      patchword data check my/instances_train.json
      patchword data check VOC2012 format=voc
      patchword data check CamVid ignored=11
      patchword data check segment-images data=my/photos
      patchword data check reviews.csv text=review label=mood
      patchword data check train.csv validation=valid.csv test=test.csv
      patchword data check train.conllu test=test.conllu
      patchword data check classify-text train=reviews.csv label=mood
      patchword data check corpus.txt
      patchword data check bert-pretrain text=corpus,more.jsonl
    """
    out, begun = console(), time.perf_counter()
    with out.status(f"reading {what}") as status:

        def report(done: int, of: int) -> None:
            status.update(f"reading {what}: {done:,} of {of:,} images")

        counts, notes = _check(what, settings_of(settings, fields), report)
    from patchword.recipes.notes import print_notes

    print_notes(notes, out, most=20)
    seconds = time.perf_counter() - begun
    out.print(f"no faults: {counts}, read in {seconds:.1f} s", highlight=False, markup=False)


def _check(what: str, fields: list[str], progress: "Progress") -> "tuple[str, Sequence[Fault]]":
    """Check annotations of objects if there are some, else the data of a recipe."""
    from patchword.core.errors import UserError
    from patchword.data.detection.checking import check_detection
    from patchword.data.detection.reading import annotated_folders
    from patchword.recipes import RECIPES, find_recipe
    from patchword.recipes.checking import check_data

    if _has_objects(what, fields):
        summary, notes = check_detection(Path(what), "".join(field.removeprefix(FORMAT) for field in fields), progress)
        return summary, [*notes, *([] if fields else _instances_or_classes(what))]
    if _has_label_maps(what):
        return check_data(find_recipe("segment-images").with_settings([f"data={what}", *fields]), progress)
    try:
        return check_data(_recipe(what, fields), progress)
    except UserError as error:
        inside = [] if what in RECIPES else annotated_folders(Path(what))
        if not inside:
            raise
        hint = f"{inside[0]} has annotations of objects: `patchword data check {inside[0]}`"
        hints = "\n".join(part for part in (error.hint, hint) if part)
        raise UserError(error.what, expected=error.expected, got=error.got, hint=hints) from error


def _has_objects(what: str, fields: list[str]) -> bool:
    """Return whether a file or folder has annotations of objects. The only field is their format."""
    from patchword.data.detection.reading import recognised_formats
    from patchword.data.shards.manifest import is_sharded
    from patchword.recipes import RECIPES

    path = Path(what)
    if what in RECIPES or not path.exists() or is_sharded(path):
        return False
    has_only_format = all(field.startswith(FORMAT) for field in fields) and len(fields) < 2
    return has_only_format and bool(recognised_formats(path))


def _instances_or_classes(what: str) -> "list[Fault]":
    """Return a note if masks were read as masks of instances and could also be label maps."""
    from patchword.core.errors import UserError
    from patchword.data.detection.reading import recognised_formats
    from patchword.data.faults import Fault

    if recognised_formats(Path(what)) != ("masks",) or not _has_label_maps(what):
        return []
    hint = f"if they are classes: `patchword data check segment-images data={what}`"
    return [Fault(INSTANCES, UserError(f"{what}: each value of a mask is one object", hint=hint))]


def _has_label_maps(what: str) -> bool:
    """Return whether a folder has label maps of semantic segmentation."""
    from patchword.data.segmentation.reading import recognised_layouts
    from patchword.data.shards.manifest import is_sharded
    from patchword.recipes import RECIPES

    path = Path(what)
    return what not in RECIPES and path.is_dir() and not is_sharded(path) and bool(recognised_layouts(path))


def _recipe(what: str, fields: list[str]) -> "Recipe":
    """Return the recipe itself, or a minimal recipe for the data."""
    from patchword.data.shards.manifest import is_sharded, read_manifest
    from patchword.recipes import RECIPES, find_recipe
    from patchword.recipes.image.recipe import ImageRecipe
    from patchword.recipes.pretraining.recipe import PretrainingRecipe
    from patchword.recipes.schema.reading import read_recipe
    from patchword.recipes.text.recipe import TextRecipe

    path, suffix = Path(what), Path(what).suffix.lower()
    if what in RECIPES:
        return find_recipe(what).with_settings(fields)
    if suffix in (".yaml", ".yml"):
        return read_recipe(path).with_settings(fields)
    if suffix in TAGS:
        return TextRecipe(task="tags", train=what).with_settings(fields)
    if suffix in QUESTIONS:
        return TextRecipe(task="span", train=what).with_settings(fields)
    if suffix in RAW or (is_sharded(path) and read_manifest(path).kind == "texts"):
        return PretrainingRecipe(text=(what,)).with_settings(fields)
    if suffix in TABLES and (fields or not _is_manifest(path)):
        return TextRecipe(train=what).with_settings(fields)
    return ImageRecipe(data=what).with_settings(fields)


def _is_manifest(path: Path) -> bool:
    """Return whether a table lists images: its header has the column path and no column text."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        first = file.readline(10_000)
    return b"path" in first and b"text" not in first
