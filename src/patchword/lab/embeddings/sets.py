"""Sets of inputs that the page Embeddings can show, per model. A set is named by an id; no route takes a path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images
from patchword.data.image.named_datasets import DATASETS, find_dataset, open_source
from patchword.data.text.formats.tables import Table
from patchword.lab.embeddings.topics import TOPICS
from patchword.lab.errors import UnknownIdError
from patchword.lab.models import ListedModel
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run import Run
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.text.data import read_evaluated
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.vectors.words import WordVectors
from patchword.zoo.card import read_card
from patchword.zoo.entries import entries, is_entry

FEW_IMAGES, MOST_IMAGES = 300, 1000  # of a test set
MOST_TEXTS = 500
MOST_WORDS = 1000
MOST_CHARACTERS = 2000  # of one text
WORDS = "word-vectors"
_READS = {"images": "images", "text": "texts", "pretraining": "texts", "elmo": "texts", WORDS: "words"}


@dataclass(frozen=True)
class PointSet:
    """Inputs with their labels.

    inputs: uint8 images (count, channels, height, width), texts, or words. labels: one per input, or none at all.
    total: how many inputs the whole set has, of which these are an evenly spaced part.
    """

    inputs: Tensor | tuple[str, ...]
    labels: tuple[str, ...] = ()
    total: int = 0

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def images(self) -> Tensor:
        if not isinstance(self.inputs, Tensor):
            raise UnknownIdError("the set has no images")
        return self.inputs

    def first(self, count: int) -> "PointSet":
        """Return at most so many inputs, evenly spaced over the set."""
        total = self.total or len(self)
        if len(self) <= count:
            return PointSet(self.inputs, self.labels, total)
        rows = [number * len(self) // count for number in range(count)]
        labels = tuple(self.labels[row] for row in rows) if self.labels else ()
        chosen = self.inputs[rows] if isinstance(self.inputs, Tensor) else tuple(self.inputs[row] for row in rows)
        return PointSet(chosen, labels, total)


@dataclass(frozen=True)
class ListedSet:
    """A set that is not read yet. card: of the model that reads images; the others do not need one."""

    id: str
    title: str
    read: Callable[[Card | None], PointSet]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title}


def reads_of(model: ListedModel) -> str:
    """Return images, texts or words; "" for a model that embeds none of them."""
    return "images" if model.image is not None else _READS.get(model.kind, "")


def sets_of(model: ListedModel) -> dict[str, ListedSet]:
    """Return the sets of a model by id, the most instructive one first."""
    reads = reads_of(model)
    found = {"images": _image_sets, "texts": _text_sets, "words": _word_sets}[reads](model) if reads else []
    return {one.id: one for one in found}


def _image_sets(model: ListedModel) -> list[ListedSet]:
    found, recipe = [], _recipe_of(model.folder)
    if isinstance(recipe, ImageRecipe) and _is_here(recipe.data):
        for count in (FEW_IMAGES, MOST_IMAGES):
            id, title = f"test-{count}", f"{count:,} test images"
            found.append(ListedSet(id, title, partial(_test_images, model.folder, count)))
        if recipe.data == "digits":
            found.append(ListedSet("digits", "All 1,797 digits", _all_digits))
    samples = {name: folder for name, folder in entries().items() if (folder / "sample" / "labels.csv").is_file()}
    own = [name for name, folder in samples.items() if folder.resolve() == model.folder.resolve()]
    for name in own or [name for name in ("vit-exercise", "digits-vit") if name in samples]:
        id, title = ("sample", "40 sample images") if own else (f"sample-{name}", f"40 images of {name}")
        found.append(ListedSet(id, title, partial(_sample_images, samples[name] / "sample" / "labels.csv")))
    return found


def _text_sets(model: ListedModel) -> list[ListedSet]:
    found, recipe = [], _recipe_of(model.folder)
    if isinstance(recipe, TextRecipe) and not is_entry(model.folder) and (recipe.test or recipe.train):
        found.append(ListedSet("test", "Test texts of the run", partial(_test_texts, model.folder)))
    count = sum(map(len, TOPICS.values()))
    found.append(ListedSet("topics", f"{count} sentences, {len(TOPICS)} topics", lambda card: _topics()))
    if is_entry(model.folder) and "text" in (settings := read_card(model.folder).sample.settings):
        found.append(ListedSet("sample", "Sample texts", partial(_sample_texts, model.folder / settings["text"])))
    return found


def _word_sets(model: ListedModel) -> list[ListedSet]:
    found = []
    if is_entry(model.folder) and "analogies" in (settings := read_card(model.folder).sample.settings):
        path = model.folder / settings["analogies"]
        found.append(ListedSet("analogies", "Words of analogies", lambda card: _analogy_words(path)))
    title = f"{MOST_WORDS:,} frequent words"
    return [*found, ListedSet("frequent", title, partial(_frequent_words, model.source))]


def _recipe_of(folder: Path) -> object:
    path = folder / "recipe.yaml"
    return read_recipe(path) if path.is_file() else None


def _is_here(data: str) -> bool:
    """True if the images are on this machine."""
    if data == "digits":
        return find_spec("sklearn") is not None
    return find_dataset(data) is not None if data in DATASETS else Path(data).exists()


def _test_images(folder: Path, most: int, card: Card | None) -> PointSet:
    assert card is not None, "a model of images has a card"
    images = Run(folder).test_images(card)
    count = min(len(images), most)
    rows = torch.arange(count) * len(images) // count
    return replace(_of_images(images.subset(rows)), total=len(images))


def _all_digits(card: Card | None) -> PointSet:
    assert card is not None, "a model of images has a card"
    parts = [open_source("digits").read(part, ImageFormat.of(card)) for part in ("train", "test")]
    order = torch.cat([part.keys for part in parts]).argsort()
    sets = [_of_images(part) for part in parts]
    labels = [label for one in sets for label in one.labels]
    return PointSet(torch.cat([one.images for one in sets])[order], tuple(labels[row] for row in order.tolist()))


def _sample_images(manifest: Path, card: Card | None) -> PointSet:
    assert card is not None, "a model of images has a card"
    return _of_images(open_source(str(manifest)).read("all", ImageFormat.of(card)))


def _of_images(images: Images) -> PointSet:
    labels = tuple(images.classes[label] for label in images.labels.tolist())
    return PointSet(images.pixels.take(torch.arange(len(images))), labels, len(images))


def _test_texts(folder: Path, card: Card | None) -> PointSet:
    recipe = _recipe_of(folder)
    assert isinstance(recipe, TextRecipe), "the set is only listed for such a run"
    rows, _ = read_evaluated(task_spec_of(recipe), "test" if recipe.test and not recipe.glue else "validation")
    if not isinstance(rows, Table):
        raise UserError("the test data of the run are not single texts", hint="choose another set")
    return checked_texts(rows.columns["text"], rows.columns.get("label", ())).first(MOST_TEXTS)


def _sample_texts(path: Path, card: Card | None) -> PointSet:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return checked_texts([line for line in lines if line]).first(MOST_TEXTS)


def _topics() -> PointSet:
    pairs = [(text, topic) for topic, texts in TOPICS.items() for text in texts]
    return PointSet(tuple(text for text, _ in pairs), tuple(topic for _, topic in pairs))


def _analogy_words(path: Path) -> PointSet:
    """Return the words of a file of analogies, each labelled by the first section that has it."""
    found, section = dict[str, str](), ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(":"):
            section = line[1:].strip()
        for word in line.split() if not line.startswith(":") else ():
            found.setdefault(word, section)
    return PointSet(tuple(found), tuple(found.values())).first(MOST_WORDS)


def _frequent_words(source: str, card: Card | None) -> PointSet:
    words = WordVectors.read(source).words
    return PointSet(words[:MOST_WORDS], total=len(words))


def checked_texts(texts: Sequence[str], labels: Sequence[str] = ()) -> PointSet:
    """Return a set of texts; long ones are cut."""
    return PointSet(tuple(text[:MOST_CHARACTERS] for text in texts), tuple(label[:80] for label in labels))


def find_set(sets: Mapping[str, ListedSet], id: str) -> ListedSet:
    """Return a set by its id; an unknown id is an error."""
    if id not in sets:
        raise UnknownIdError(f"there is no set {id[:80]!r}", expected=", ".join(sets) or "none")
    return sets[id]
