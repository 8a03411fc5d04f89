"""Small files for the commands that `patchword lecture --check` runs: texts, pairs, a table, images."""

from pathlib import Path

import numpy as np
from PIL import Image

_ANIMALS = ("cat", "dog", "bird", "horse", "fish", "sheep")
_DEEDS = ("sat", "slept", "ran", "waited", "ate", "played")
_PLACES = ("mat", "hill", "road", "bridge", "river", "field")
_GERMAN = dict(
    zip(
        (*_ANIMALS, *_DEEDS, *_PLACES),
        (
            *("Katze", "Hund", "Vogel", "Pferd", "Fisch", "Schaf"),
            *("sass", "schlief", "lief", "wartete", "frass", "spielte"),
            *("Matte", "Huegel", "Strasse", "Bruecke", "Fluss", "Feld"),
        ),
        strict=True,
    )
)
_SIDE = 28  # pixels of an image
_IMAGES = 20  # per class


def write_samples(folder: Path) -> None:
    """Write all files into an existing folder."""
    sentences = [(animal, deed, place) for animal in _ANIMALS for deed in _DEEDS for place in _PLACES]
    english = [f"The {animal} {deed} by the {place}." for animal, deed, place in sentences]
    german = [f"{_GERMAN[animal]} {_GERMAN[deed]} bei {_GERMAN[place]}." for animal, deed, place in sentences]
    documents = ["\n".join(english[start : start + 6]) for start in range(0, len(english), 6)]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    (folder / "pairs.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "pairs.de").write_text("\n".join(german) + "\n", encoding="utf-8")
    rows = [f"{text},{'good' if number % 2 else 'bad'}" for number, text in enumerate(english)]
    (folder / "reviews.csv").write_text("\n".join(["review,sentiment", *rows]) + "\n", encoding="utf-8")
    _write_images(folder)


def _write_images(folder: Path) -> None:
    """Write photos/CLASS/N.png, bright above or below, and garment.png."""
    numbers = np.random.default_rng(0)
    for label in ("above", "below"):
        (folder / "photos" / label).mkdir(parents=True)
        for index in range(_IMAGES):
            pixels = numbers.integers(0, 100, (_SIDE, _SIDE))
            pixels[: _SIDE // 2] += 150 * (label == "above")
            pixels[_SIDE // 2 :] += 150 * (label == "below")
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "photos" / label / f"{index}.png")
    Image.fromarray(pixels.astype(np.uint8)).save(folder / "garment.png")
