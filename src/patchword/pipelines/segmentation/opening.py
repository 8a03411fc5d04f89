"""Finds out whether a run, a model folder or a file of weights is a segmenter, and opens it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.models.segmentation import SEGMENTERS
from patchword.pipelines.detection.opening import described_model
from patchword.pipelines.segmentation.engine import SegmentationEngine
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.segmentation.inference import InferenceOptions, inference_options
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.segmentation.task import COLORS
from patchword.reports.detection.colors import Color
from patchword.weights import load_segmenter


def holds_segmenter(path: Path) -> bool:
    """Return whether a run, a model folder or a file of weights is a segmenter; only its description is read."""
    if (path / "recipe.yaml").is_file():
        return isinstance(read_recipe(path / "recipe.yaml"), SegmentationRecipe)
    return described_model(path) in SEGMENTERS


def open_segmenter(
    path: Path,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    name: str = "",
) -> SegmentationEngine:
    """Open the segmenter of a run, of a model folder or of a file. A run is tested as its recipe says."""
    is_run = (path / "recipe.yaml").is_file()
    model = RunFolder(path).segmenter() if is_run else load_segmenter(path)
    return SegmentationEngine.of(
        model, device, precision, name or str(path), run_options(path), saved_colors(path, model.card)
    )


def run_options(path: Path) -> InferenceOptions | None:
    """Return how a run segments images; None if there is no run. Images are segmented one by one."""
    recipe = read_recipe(path / "recipe.yaml") if (path / "recipe.yaml").is_file() else None
    return replace(inference_options(recipe), batch_size=1) if isinstance(recipe, SegmentationRecipe) else None


def saved_colors(path: Path, card: Card) -> tuple[Color, ...]:
    """Return the colours of the classes that training saved beside the weights; empty without them."""
    file = (path if path.is_dir() else path.parent) / COLORS
    if not file.is_file():
        return ()
    classes = int(card.config["classes"])
    content = read_json(file)
    try:
        colors = tuple((int(red), int(green), int(blue)) for red, green, blue in content)
    except (TypeError, ValueError):
        raise UserError(f"{file}: not a list of colours", expected="[[red, green, blue], ...]") from None
    if len(colors) != classes or any(not 0 <= part <= 255 for color in colors for part in color):
        raise UserError(f"{file}: not one colour per class", expected=f"{classes} colours of 0 to 255", got=len(colors))
    return colors
