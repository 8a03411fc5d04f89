"""Load a model from a run, a saved folder, another library's folder or one file."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from patchword.core.card import Card, ConfigValue
from patchword.core.errors import AmbiguityWarning, UnsealedWarning, UserError
from patchword.core.seal.checking import checked, unsealed
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model
from patchword.models.detection import DETECTORS, DetectorName
from patchword.models.segmentation import SEGMENTERS, SegmenterName
from patchword.weights.hub.download import fetch
from patchword.weights.hub.name import HubName, is_hub_name
from patchword.weights.io.building import build_detector, build_model, build_segmenter
from patchword.weights.io.identification import identify
from patchword.weights.io.weight_source import WeightSource, read_file, read_folder
from patchword.weights.local_path import local_path
from patchword.zoo.entries import is_entry


@overload
def load(  # a detector by position, so that **overrides of any type do not match
    source: str | Path, model: DetectorName, /, *, download: bool = False, **overrides: ConfigValue
) -> Detector: ...


@overload
def load(
    source: str | Path, model: SegmenterName, /, *, download: bool = False, **overrides: ConfigValue
) -> Segmenter: ...


@overload
def load(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> Model: ...


def load(  # type: ignore[misc]  # of the first signature, no override is called source or model
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> Model | Detector | Segmenter:
    """Load a model, a detector or a segmenter in float32 and evaluation mode.

    source: a run folder, a folder written by `save`, a Hugging Face folder, or one .safetensors file with our tensor
        names, Hugging Face's, timm's or the authors'; or one .npz file of the authors of ViT or Mixer; or one .hdf5
        file of the authors of ELMo with its options.json in the same folder, or that folder; or zoo:NAME, a trained
        model that comes along; or the name of a model on the hub, hf:OWNER/REPO or hf:OWNER/REPO@REVISION, which is
        read from the cache of huggingface_hub.
    model: the registry name; needed only if it cannot be inferred from the source. A file without a config does not
        contain the number of heads: it is taken from the model of the same width, depth and hidden width, if any.
    overrides: config fields to change, e.g. image=384; position tables are resized. With classes=... or head=... the
        model gets a newly initialised head, unless the source already has this head. A detector or a segmenter
        with another number of classes gets new layers where the number of outputs depends on it.
    download: fetch a model of the hub that is not in the cache; without it nothing is requested from the network.
    """
    opened = open_weights(source, model, download=download, **overrides)
    if opened.is_segmenter:
        return opened.build_segmenter(**overrides)
    return opened.build_detector(**overrides) if opened.is_detector else opened.build(**overrides)


def load_model(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> Model:
    """Load a model as `load` does; a detector or a segmenter is an error."""
    return open_weights(source, model, download=download, **overrides).build(**overrides)


def load_detector(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> Detector:
    """Load a detector as `load` does; any other model is an error."""
    return open_weights(source, model, download=download, **overrides).build_detector(**overrides)


def load_segmenter(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> Segmenter:
    """Load a segmenter as `load` does; any other model is an error."""
    return open_weights(source, model, download=download, **overrides).build_segmenter(**overrides)


def open_weights(
    source: str | Path, model: str | None = None, *, download: bool = False, **overrides: ConfigValue
) -> "OpenWeights":
    """Read the weights of a source and identify their model, with the arguments of `load`."""
    path = fetch(HubName.parse(str(source))) if download and is_hub_name(source) else local_path(source)
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a run, a model folder, a .safetensors or an .npz file")
    folder = path if path.is_dir() else path.parent
    with checked(folder) as seal:
        found = read_folder(path) if path.is_dir() else read_file(path)
    if seal is None and (folder / "recipe.yaml").is_file() and not is_entry(folder):
        warnings.warn(unsealed(folder), UnsealedWarning, stacklevel=3)
    card = identify(found, model, overrides)
    for field, note in found.layout.unstated(found.config).items():
        if field not in overrides:
            warnings.warn(note, AmbiguityWarning, stacklevel=3)
    return OpenWeights(found, card, Path(source))


@dataclass(frozen=True)
class OpenWeights:
    """Weights that have been read. card: their model, as it was trained. path: as it was given, for messages."""

    source: WeightSource
    card: Card
    path: Path

    @property
    def is_detector(self) -> bool:
        """True if these are the weights of a detector."""
        return self.card.model in DETECTORS

    @property
    def is_segmenter(self) -> bool:
        """True if these are the weights of a segmenter."""
        return self.card.model in SEGMENTERS

    def build(self, **overrides: ConfigValue) -> Model:
        """Return the model in float32 and evaluation mode; `load` describes the overrides."""
        if self.is_detector or self.is_segmenter:
            kind = "detector" if self.is_detector else "segmenter"
            expected = "the weights of a classifier or of a model of texts"
            raise UserError(f"{self.path} has the weights of a {kind}, {self.card.model!r}", expected=expected)
        return build_model(self.source, self.card, overrides, self.path)

    def trained_outputs(self, classes: tuple[str, ...]) -> str:
        """Describe what training for these classes makes of the output layers of a detector or a segmenter."""
        before = int(self.card.config.get("classes", len(self.card.labels)))
        if before != len(classes):
            return f"new output layers for {len(classes):,} instead of {before:,} classes"
        if self.card.labels and self.card.labels != classes:
            return f"output layers of {before:,} classes with other names are kept"
        return "output layers are kept"

    def build_detector(self, **overrides: ConfigValue) -> Detector:
        """Return the detector in float32 and evaluation mode; `load` describes the overrides."""
        if not self.is_detector:
            known = ", ".join(DETECTORS)
            raise UserError(f"{self.path} has no detector", expected=f"one of {known}", got=repr(self.card.model))
        return build_detector(self.source, self.card, overrides, self.path)

    def build_segmenter(self, **overrides: ConfigValue) -> Segmenter:
        """Return the segmenter in float32 and evaluation mode; `load` describes the overrides."""
        if not self.is_segmenter:
            known = ", ".join(SEGMENTERS)
            raise UserError(f"{self.path} has no segmenter", expected=f"one of {known}", got=repr(self.card.model))
        return build_segmenter(self.source, self.card, overrides, self.path)
