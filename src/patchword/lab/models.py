"""The models of the lab. They are listed when it starts; every route names them by id, and none takes a path."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.core.files import read_json
from patchword.core.grid import sides
from patchword.lab.errors import UnknownIdError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS
from patchword.recipes.schema.reading import read_recipe
from patchword.weights.io.loading import open_weights
from patchword.weights.local_path import is_model_name, local_path
from patchword.zoo.card import read_card
from patchword.zoo.entries import PREFIX, entries, is_entry

MOST_BYTES = 5_000_000  # of weights that the page may fetch
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class ListedModel:
    """A model of the lab.

    id: its name in addresses. source: what `patchword.pipeline` opens. kind: images, text, ... as in its recipe.
    model: its name in the registry, "" for word vectors. image: channels, height and width of a model of images.
    """

    id: str
    name: str
    source: str
    kind: str
    model: str
    labels: tuple[str, ...]
    image: tuple[int, int, int] | None
    folder: Path

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows; the folder stays on this side."""
        image = list(self.image) if self.image else None
        names = {"id": self.id, "name": self.name, "source": self.source, "kind": self.kind, "model": self.model}
        return {**names, "labels": list(self.labels), "image": image}

    def weights(self) -> bytes:
        """Return the bytes of the weights of a model of images that is small enough to run in the page."""
        if self.image is None:
            raise UserError(f"{self.name} does not run in the page", expected="a classifier of images")
        path = self.folder / WEIGHTS
        try:
            size = path.stat().st_size
            if size > MOST_BYTES:
                most = f"at most {MOST_BYTES:,} bytes of weights"
                raise UserError(f"{self.name} is too large for the page", expected=most, got=f"{size:,}")
            return path.read_bytes()
        except OSError:
            raise UnknownIdError(f"the weights of {self.name} are gone", expected=WEIGHTS) from None

    def card(self) -> Card:
        """Return the model's name in the registry with all fields of its config."""
        return _card(self.folder)

    def config(self) -> dict[str, Any]:
        """Return config.json, which has the sizes, the labels and the normalization."""
        path = self.folder / "config.json"
        if not path.is_file():
            raise UnknownIdError(f"{self.name} has no config.json")
        return dict(read_json(path))


def list_models(sources: Iterable[str]) -> dict[str, ListedModel]:
    """Return the given runs and models, then those of the zoo, by their ids. A source that does not exist is an error.

    sources: runs, by their folders or their names inside `runs`; folders of runs; model folders; zoo:NAME;
    hf:OWNER/REPO in the cache.
    """
    found: dict[str, ListedModel] = {}
    seen = set[Path]()
    given = (one for source in sources for one in _runs_of(source) or [source])
    for source in [*given, *(f"{PREFIX}{name}" for name in entries())]:
        folder = _folder(source)
        if folder.resolve() not in seen:
            seen.add(folder.resolve())
            model = _listed(source, folder, found)
            found[model.id] = model
    return found


def find_model(models: Mapping[str, ListedModel], id: str) -> ListedModel:
    """Return a model by its id; an unknown id is an error that names the closest ones."""
    if id not in models:
        raise UnknownIdError(f"the lab has no model {id[:80]!r}", hint=nearest(id[:80], models))
    return models[id]


def _runs_of(source: str) -> list[str]:
    """Return the runs with weights inside a folder that is no run and no model itself."""
    folder = Path(source)
    with suppress(OSError):  # of a name that is too long
        if not any((folder / name).is_file() for name in ("recipe.yaml", "config.json")):
            found = sorted(path.parent for path in folder.glob("*/recipe.yaml"))
            return [str(run) for run in found if (run / WEIGHTS).is_file()]
    return []


def _folder(source: str) -> Path:
    if is_model_name(source):
        return local_path(source)
    for folder in (Path(source), Path("runs") / source):
        with suppress(OSError):  # of a name that is too long
            if (folder / "recipe.yaml").is_file() or (folder / "config.json").is_file():
                return folder
    runs = sorted(path.parent.name for path in Path("runs").glob("*/recipe.yaml"))
    expected = "a run, its name inside the folder runs, a folder of runs, a model folder, or zoo:NAME"
    raise UserError(f"there is no model at {source}", expected=expected, hint=nearest(source, runs) if runs else "")


def _listed(source: str, folder: Path, taken: Iterable[str]) -> ListedModel:
    name = source.removeprefix(PREFIX) if source.startswith(PREFIX) else folder.resolve().name
    has_card = (folder / "config.json").is_file()
    card = _card(folder) if has_card else Card("", {})
    if is_entry(folder):
        kind = read_card(folder).kind
    elif (folder / "recipe.yaml").is_file():
        kind = str(read_recipe(folder / "recipe.yaml").kind)
    else:
        kind = _kind_of(card.model)
    image = _image_size(card)
    return ListedModel(_id(name, taken), name, source, kind, card.model, tuple(card.labels), image, folder)


def _card(folder: Path) -> Card:
    """Return the card of a model folder; only a folder of another library needs its tensors for that."""
    saved = read_json(folder / "config.json")
    if isinstance(saved, dict) and saved.get("library") == "patchword":
        try:
            return Card(str(saved["model"]), dict(saved["config"]), tuple(map(str, saved.get("labels", ()))))
        except (KeyError, TypeError, ValueError):
            expected = "the fields model, config and labels"
            raise UserError(f"cannot read {folder / 'config.json'}", expected=expected) from None
    return open_weights(folder).card


def _kind_of(model: str) -> str:
    if model in DETECTORS or model in SEGMENTERS:
        return "detection" if model in DETECTORS else "segmentation"
    return REGISTRY.reads(model)


def _image_size(card: Card) -> tuple[int, int, int] | None:
    if card.model not in REGISTRY.names() or not REGISTRY.reads_images(card.model):
        return None
    config = REGISTRY.configure(card.model, card.config)
    return (config.channels, *sides(config.image))


def _id(name: str, taken: Iterable[str]) -> str:
    """Return a short name of letters, digits and hyphens that no model has yet."""
    first = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "model"
    known, number = set(taken), 2
    id = first
    while id in known:
        id, number = f"{first}-{number}", number + 1
    return id
