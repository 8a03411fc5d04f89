"""One field of a config of transformers is changed at a time: the outputs stay equal, or a refusal names the field."""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import sides
from support.helpers import difference, pixels, randomise
from support.parity import opened_whole

COMMON: dict[str, tuple[Any, ...]] = {  # fields of every config of transformers
    "transformers_version": ("4.40.0",),
    "architectures": (),  # `save_pretrained` writes the class
    "output_hidden_states": (True,),
    "return_dict": (False,),
    "dtype": ("float16",),
    "chunk_size_feed_forward": (1,),
    "is_encoder_decoder": (),  # no encoder-decoder reads images here
    "id2label": ({0: "a", 1: "b", 2: "c"},),
    "label2id": ({"a": 0, "b": 1},),
    "problem_type": ("single_label_classification", "multi_label_classification"),
    "_name_or_path": ("somewhere",),
    "_attn_implementation_internal": (),
    "_experts_implementation_internal": (),
}


@dataclass(frozen=True)
class Walk:
    """A config class of transformers.

    base: tiny sizes. changes: other values of each field; () where transformers itself runs no other. refused: those
    that we refuse. reading: overrides of `load`. head: the end of the name of their model's class.
    """

    kind: str
    base: dict[str, Any]
    changes: dict[str, tuple[Any, ...]]
    refused: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    head: str = "ForImageClassification"

    def values(self, name: str) -> tuple[Any, ...]:
        return self.changes[name] if name in self.changes else COMMON[name]

    def fields(self) -> list[str]:
        """Return every field of the config class, and those that only some of its models read."""
        own = [one.name for one in fields(getattr(transformers, f"{self.kind}Config"))]
        return [*own, *(name for name in self.changes if name not in own)]

    def cases(self) -> list[tuple[str, Any]]:
        return [(name, value) for name in self.fields() for value in self.values(name)]

    def model(self, **change: Any) -> nn.Module:
        """Their model with the base's sizes, one of them changed, and large random weights."""
        config = getattr(transformers, f"{self.kind}Config")(**{"num_labels": 5, **self.base, **change})
        return randomise(getattr(transformers, self.kind + self.head)(config)).eval()


def images_for(model: nn.Module) -> Tensor:
    """Two images of the size in the config of their model; 64 x 64 if it has none."""
    config: Any = model.config
    image = getattr(config, "image_size", 64)
    return pixels(2, config.num_channels, *sides(image if isinstance(image, int) else tuple(image)))


def scores(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model.float()(images).logits
    return logits


def outcome(walk: Walk, name: str, value: Any, folder: Path, *, hidden: bool = False) -> str:
    """Return "equal", "refused" or what is wrong. hidden: a mutation; the config that we read has the base's value.

    What is equal is saved for transformers, too, and computes the same there, unless that is refused.
    """
    theirs = walk.model(**{name: value})
    theirs.to(theirs.config.dtype).save_pretrained(folder)
    theirs.config.return_dict = True
    if hidden:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        base = walk.model().config.to_dict()
        path.write_text(json.dumps({**config, name: base.get(name)}))
    images = images_for(theirs)
    try:
        with torch.no_grad():
            found = patchword.load(folder, **walk.reading)(images)
    except UserError as error:
        words = f"{error} {error.hint}"
        return "refused" if name in words else f"refused without the field's name: {words}"
    expected = scores(theirs, images)
    if found.shape != expected.shape:
        return f"wrong shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    if (error := difference(found, expected)) > 1e-5:
        return f"wrong by {error:.1e}"
    return _way_back(walk, folder, images, expected)


def _way_back(walk: Walk, folder: Path, images: Tensor, expected: Tensor) -> str:
    """Return "equal" if transformers computes the same from what we save, or if we refuse to save it."""
    try:
        patchword.save(patchword.load(folder, **walk.reading), folder / "back", layout="huggingface")
    except UserError:
        return "equal"
    again = opened_whole(getattr(transformers, walk.kind + walk.head), folder / "back")
    error = difference(scores(again, images), expected)
    return "equal" if error < 1e-5 else f"wrong by {error:.1e} on the way back"
