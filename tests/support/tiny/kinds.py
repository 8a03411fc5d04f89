"""A tiny recipe of every kind, with its data, for what must work with all of them."""

import random
from collections.abc import Callable
from pathlib import Path

from patchword.recipes import find_recipe
from patchword.recipes.schema.recipe import Recipe
from support.detection.rectangles import TINY_ATSS, write_rectangles
from support.material import TINY_MODEL, write_classes
from support.segmentation.label_maps import TINY_UPERNET, write_label_maps
from support.tiny_texts import QUICK, vocabulary_of, write_conll, write_table

SYLLABLES = [first + second for first in "abcdefgh" for second in "aeiou"]
ELMO = (
    "model.width=16",
    "model.cell=24",
    "model.highways=1",
    "model.filters=[[1, 8], [2, 16]]",
    "model.character_width=6",
)
DENSE = ("batch_size=4", "precision=float32")


def _lines(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(SYLLABLES, k=draw.randint(3, 8))) + "." for _ in range(count)]


def _images() -> tuple[str, list[str]]:
    return "digits-vit", [*TINY_MODEL, "batch_size=64"]


def _texts() -> tuple[str, list[str]]:
    vocabulary_of([*SYLLABLES, "."], Path("words"))
    table = write_table(Path("texts.csv"), [(text, number % 2) for number, text in enumerate(_lines(80))])
    return "classify-text", [*QUICK, f"train={table}", "tokenizer=words", "batch_size=8", "length=16"]


def _pretraining() -> tuple[str, list[str]]:
    vocabulary_of([*SYLLABLES, "."], Path("words"))
    sentences = [line.capitalize() for line in _lines(300)]
    documents = [" ".join(sentences[start : start + 5]) for start in range(0, 300, 5)]
    Path("documents.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    fields = ["text=documents.txt", "tokenizer=words", "documents=line", "length=24", "batch_size=8", "held_out=0.2"]
    return "bert-pretrain", [*QUICK, *fields]


def _vectors() -> tuple[str, list[str]]:
    rows = [[(word, word[0].upper()) for word in line.split()] for line in _lines(60)]
    table = write_conll(Path("tags.conll"), rows)
    return "over-vectors", ["vectors=random:8", "model.width=16", "batch_size=8", f"train={table}"]


def _translation() -> tuple[str, list[str]]:
    pairs = (f"{line}\t{line.title()}\n" for line in _lines(80))
    Path("pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    sizes = ["model.width=32", "model.depth=1", "model.heads=2", "model.hidden=64", "words=300"]
    return "translation", [*sizes, "train=pairs.tsv", "validation=0.1", "batch_size=128"]


def _elmo() -> tuple[str, list[str]]:
    Path("lines.txt").write_text("\n".join(_lines(80)) + "\n", encoding="utf-8")
    return "elmo-pretrain", ["text=lines.txt", *ELMO, "batch_size=100", "held_out=0.1", "words=300", "drawn=16"]


def _image_pretraining() -> tuple[str, list[str]]:
    write_classes(Path("photos"), count=20)
    sizes = ["model=vit-exercise", "model.image=8", "model.patch=2", "model.depth=1", "model.width=16", "model.heads=2"]
    return "image-pretrain", [*sizes, "data=photos", "batch_size=8"]


def _detection() -> tuple[str, list[str]]:
    write_rectangles(Path("objects"))
    return "detect-objects", [*TINY_ATSS, *DENSE, "data=objects"]


def _segmentation() -> tuple[str, list[str]]:
    write_label_maps(Path("maps"), mode="P")
    return "segment-images", [*TINY_UPERNET, *DENSE, "data=maps"]


TINY: dict[str, Callable[[], tuple[str, list[str]]]] = {
    "images": _images,
    "text": _texts,
    "pretraining": _pretraining,
    "over-vectors": _vectors,
    "translation": _translation,
    "elmo": _elmo,
    "image-pretraining": _image_pretraining,
    "detection": _detection,
    "segmentation": _segmentation,
}


def tiny_words(kind: str) -> list[str]:
    """Return the arguments of `patchword train` for a tiny recipe of a kind; its data are written into this folder."""
    recipe, fields = TINY[kind]()
    return [recipe, *fields, "device=cpu"]


def tiny_kind(kind: str, *fields: str) -> Recipe:
    """Return the recipe itself."""
    recipe, *words = tiny_words(kind)
    return find_recipe(recipe).with_settings([*words, *fields])
