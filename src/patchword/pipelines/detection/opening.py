"""Finds out whether a run, a model folder or a file of weights is a detector, and loads it."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from patchword.core.errors import UserError
from patchword.core.files import parse_json, read_json
from patchword.layers.dense.detector import Detector
from patchword.models.detection import DETECTORS
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.schema.reading import read_recipe
from patchword.weights import load_detector


def is_detector(path: Path) -> bool:
    """Return whether a run, a model folder or a file of weights is a detector; nothing but its description is read."""
    if (path / "recipe.yaml").is_file():
        return isinstance(read_recipe(path / "recipe.yaml"), DetectionRecipe)
    return described_model(path) in DETECTORS


def open_detector(path: Path) -> Detector:
    """Load the detector of a run, of a model folder or of a file."""
    return RunFolder(path).detector() if (path / "recipe.yaml").is_file() else load_detector(path)


def described_model(path: Path) -> str | None:
    """Return the name of the model in config.json (of transformers: its type), or in the header of a file, or None."""
    try:
        if path.is_dir():
            config = read_json(path / "config.json")
        elif path.suffix == ".safetensors" and path.is_file():
            with safe_open(path, "numpy") as file:
                config = parse_json((file.metadata() or {}).get("patchword", "{}"))
        else:
            return None
    except (UserError, SafetensorError, OSError, ValueError):
        return None  # loading it names the fault
    found = config.get("model", config.get("model_type")) if isinstance(config, dict) else None
    return found if isinstance(found, str) else None
