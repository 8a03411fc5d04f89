"""Opens a pipeline: finds the weights, and the tokenizer or the image format that belongs to them."""

from pathlib import Path
from typing import Literal, TypeAlias

from patchword.core.errors import UserError, nearest
from patchword.core.seal.checking import check_small
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import Pyramid, Translator
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model
from patchword.layers.text.model import TextModel
from patchword.models import REGISTRY
from patchword.models.text.elmo import Elmo
from patchword.pipelines.abilities import Engine
from patchword.pipelines.detection.engine import DetectionEngine
from patchword.pipelines.detection.opening import is_detector, open_detector
from patchword.pipelines.images import ImageEngine
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.segmentation.engine import SegmentationEngine
from patchword.pipelines.segmentation.opening import holds_segmenter, run_options, saved_colors
from patchword.pipelines.texts import TextEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run_folder import RunFolder, refuse_several_runs
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.text.inference.reader import reader_of
from patchword.recipes.text.model import check_vocabulary
from patchword.recipes.translation.data import Languages
from patchword.recipes.translation.run import open_tokenizers
from patchword.recipes.translation.translating import Translating
from patchword.weights import load, load_segmenter
from patchword.weights.hub.download import fetch
from patchword.weights.hub.name import HubName, is_hub_name
from patchword.weights.local_path import is_model_name, local_path

Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]
TokenizerGiven: TypeAlias = Tokenizer | str | Path | tuple[Tokenizer, Tokenizer]


def pipeline(
    source: str | Path | Model | Detector | Segmenter,
    *,
    tokenizer: TokenizerGiven | None = None,
    device: str = "auto",
    precision: Precision = "auto",
    download: bool = False,
) -> Pipeline:
    """Open a trained model as one object that answers: with its labels, its image transform or its tokenizer.

    >>> p = patchword.pipeline("runs/photos")
    >>> p("photo.png")[0].label
    'cat'
    >>> p(["a.png", "b.png"])                      # also PIL images, arrays, tensors, folders
    >>> p.embed("photos").shape
    (1000, 192)
    >>> p.attention("photo.png")                   # figures in a notebook

    >>> p = patchword.pipeline("runs/cells")        # a detector
    >>> p("photo.png")[0].boxes
    >>> p("photo.png")[0].draw().save("drawn.png")

    >>> p = patchword.pipeline("runs/streets")      # a segmenter
    >>> p("photo.png")[0].segmentation.share
    >>> p("photo.png")[0].segmentation.save("labels.png")

    >>> p = patchword.pipeline("runs/reviews")
    >>> p("What a film!")[0].probability
    0.98
    >>> patchword.pipeline("zoo:digits-vit")("digit.png")
    >>> patchword.pipeline("hf:google-bert/bert-base-uncased", download=True).fill("The [MASK] sat on the mat.")

    source: a run (its folder, or its name inside `runs`), a model folder or a file of weights that `load` reads, a
        trained model that comes along (zoo:NAME), a name of the hub (hf:OWNER/REPO), or a model object. A model object
        is moved to the device and set to evaluation mode.
    tokenizer: for a model object that reads texts: a tokenizer, or its folder. A translator with two vocabularies has
        a pair (source, target). Other sources have their own.
    device: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps.
    precision: auto is bfloat16 on a GPU with bfloat16 units, else float32.
    download: fetch a model of the hub that is not in the cache of huggingface_hub.

    What a pipeline can be asked depends on the model; see `Pipeline`.
    """
    if isinstance(source, (Model, Detector, Segmenter)):
        return Pipeline(_engine(source, source.card.model, None, tokenizer, device, precision))
    if not isinstance(source, (str, Path)):
        raise UserError(
            "cannot open a pipeline",
            expected="a run, a model folder, zoo:NAME, hf:OWNER/REPO, or a model",
            got=type(source),
        )
    path = _located(source, download)
    check_small(path if path.is_dir() else path.parent)  # before they decide how the weights are read
    return Pipeline(_engine(_loaded(path), str(source), path, tokenizer, device, precision))


def _located(source: str | Path, download: bool) -> Path:
    """Return the path of the weights."""
    if download and is_hub_name(source):
        return fetch(HubName.parse(str(source)))
    if is_model_name(source):
        return local_path(source)
    found = next((path for path in (Path(source), Path("runs") / source) if path.exists()), None)
    if found is not None:
        return found
    runs = sorted(path.parent.name for path in Path("runs").glob("*/recipe.yaml"))
    hint = nearest(str(source), runs) if runs else ""
    if str(source) in REGISTRY.names():
        hint = (
            "a name of the registry has no trained weights: train it, or use public weights: "
            f'pipeline(patchword.create("{source}", pretrained=True))'
        )
    raise UserError(
        f"there is nothing at {source}",
        expected="a run, a model folder, a file of weights, zoo:NAME, or hf:OWNER/REPO",
        hint=hint,
    )


def _loaded(path: Path) -> Model | Detector | Segmenter:
    if is_detector(path):
        return open_detector(path)
    if holds_segmenter(path):
        return RunFolder(path).segmenter() if (path / "recipe.yaml").is_file() else load_segmenter(path)
    if (path / "recipe.yaml").is_file():
        return RunFolder(path).model()
    if path.is_dir() and not (path / "config.json").is_file():
        refuse_several_runs(path)
    return load(path)


def _engine(
    model: Model | Detector | Segmenter,
    name: str,
    path: Path | None,
    tokenizer: TokenizerGiven | None,
    device: str,
    precision: Precision,
) -> Engine:
    """Return the engine of a model. path: of its weights; None for a model object."""
    if isinstance(model, Detector):
        if tokenizer is not None:
            raise UserError(f"{name} reads images", expected="no tokenizer")
        return DetectionEngine.of(model, device, precision, name)
    if isinstance(model, Segmenter):
        if tokenizer is not None:
            raise UserError(f"{name} reads images", expected="no tokenizer")
        options, colors = (None, ()) if path is None else (run_options(path), saved_colors(path, model.card))
        return SegmentationEngine.of(model, device, precision, name, options, colors)
    if isinstance(model, Pyramid):
        if tokenizer is not None:
            raise UserError(f"{name} reads images", expected="no tokenizer")
        engine = ImageEngine.of(model, device, precision, name, path)
        return engine.without_classes() if path is not None and _is_pretrained_only(path) else engine
    folder = path if path is None or path.is_dir() else path.parent
    if isinstance(model, TextModel):
        found = _tokenizer(tokenizer, folder, name)
        check_vocabulary(model, found, name)
        return TextEngine(reader_of(folder or Path(f"<{name}>"), model, found, device, precision), name)
    if isinstance(model, Elmo):
        if tokenizer is not None:
            raise UserError(f"{name} reads the characters of words", expected="no tokenizer")
        return ElmoEmbedder.of(model, path, name, device, precision)
    if isinstance(model, Translator):
        return Translating.of(model, _languages(tokenizer, folder, name), device, name)
    reads = REGISTRY.reads(model.card.model)
    raise UserError(f"{name} reads {reads}", expected="a model that reads images, texts or pairs of texts")


def _is_pretrained_only(path: Path) -> bool:
    """True for a run on images without labels, whose head is not trained."""
    recipe = path / "recipe.yaml"
    return recipe.is_file() and not isinstance(read_recipe(recipe), ImageRecipe)


def _tokenizer(given: TokenizerGiven | None, folder: Path | None, name: str) -> Tokenizer:
    if isinstance(given, tuple):
        raise UserError(f"{name} has one tokenizer", expected="a tokenizer, or its folder", got="a pair")
    if isinstance(given, Tokenizer):
        return given
    where = Path(given) if given is not None else folder
    if where is None:
        raise UserError(f"{name} reads texts, and a model object has no tokenizer", expected="tokenizer=")
    return Tokenizer.read(where)


def _languages(given: TokenizerGiven | None, folder: Path | None, name: str) -> Languages:
    if isinstance(given, tuple):
        return Languages(*given)
    if given is None and folder is not None:
        return Languages(*open_tokenizers(folder))
    found = _tokenizer(given, folder, name)
    return Languages(found, found)
