"""The sample images of the models of the zoo, by their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.image.listing import manifest_source
from patchword.lab.errors import UnknownIdError
from patchword.lab.models import ListedModel
from patchword.zoo.entries import PREFIX, is_entry

DEFAULT = f"{PREFIX}vit-exercise"  # its samples are offered for models that have none


@dataclass(frozen=True)
class SampleImages:
    """The images of one model of the zoo. id: of this model. rows: the files with their classes."""

    id: str
    rows: tuple[tuple[Path, str], ...]

    def to_json(self) -> dict[str, object]:
        """Return the classes; an image is asked for by its place in this list."""
        return {"id": self.id, "labels": [label for _, label in self.rows]}

    def image(self, number: int) -> Path:
        """Return the file of an image, counted from 0."""
        if not 0 <= number < len(self.rows):
            raise UnknownIdError("there is no such sample image", expected=f"0 to {len(self.rows) - 1}")
        return self.rows[number][0]


def samples_for(models: Mapping[str, ListedModel], id: str) -> SampleImages:
    """Return the images of a model of the lab, or those of the default if it has none."""
    first = models[id]
    candidates = [first, *(one for one in models.values() if one.source == DEFAULT)]
    for model in candidates:
        if model.image is not None and (rows := _rows(model.folder)):
            return SampleImages(model.id, rows)
    return SampleImages(id, ())


@cache
def _rows(folder: Path) -> tuple[tuple[Path, str], ...]:
    path = folder / "sample" / "labels.csv"
    if not is_entry(folder) or not path.is_file():
        return ()
    home = path.parent.resolve()
    try:
        rows = manifest_source(path).rows
    except UserError:
        return ()
    return tuple((image, label) for image, label, _ in rows if image.resolve().is_relative_to(home))
