"""Every family of the registry against its own reference paths: float64, the formula of attention, other batches."""

import random
from dataclasses import fields
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

import patchword
from patchword.core.text import Text
from patchword.layers import TokenMixing, reference_attention
from patchword.models import REGISTRY
from support.fuzz.case import SINGLE, Check, Outcome
from support.helpers import one_row, pixels, randomise, smallest, texts

READS = ("images", "texts")


def check(family: str, compiled: bool, draw: random.Random, outcome: Outcome) -> None:
    """compiled: also under torch.compile, without graph breaks, which takes seconds."""
    name = smallest(family)
    images = REGISTRY.reads_images(name)
    config = {**(_image_sizes if images else _text_sizes)(draw, name), **_choices(draw, name)}
    outcome.config |= {"model": name, **config}
    model = randomise(patchword.create(name, **config), draw.randint(0, 999)).eval()
    given = _images(draw, model) if images else _texts(draw, model)
    outcome.config["batch"] = tuple(given.shape) if images else given.mask.sum(1).tolist()
    single = _first(model(given))
    with TemporaryDirectory() as folder:
        again = patchword.load(patchword.save(model, folder))
        outcome.compare("saved and loaded", _first(again(given)), single, 0.0)
    if compiled:
        run = torch.compile(model, backend="aot_eager", fullgraph=True)
        outcome.compare("compiled", _first(run(given)), single, SINGLE)
        torch.compiler.reset()
    given = given.double() if images else given
    found = _first(model.double()(given))
    outcome.compare("float32", single, found, SINGLE)
    with reference_attention(model):
        outcome.compare("reference attention", _first(model(given)), found)
    if images:
        outcome.compare("one image alone", _first(model(given[:1])), found[:1])
        return
    real = found[given.mask] if found.ndim == 3 else found
    row = _first(model(one_row(given)))
    outcome.compare("packed", row[0] if row.ndim == 3 else row, real)


def _text_sizes(draw: random.Random, name: str) -> dict[str, Any]:
    heads = draw.choice((1, 2, 4))
    known = vars(REGISTRY.find(name)[1].config)
    sizes = {
        "vocabulary": draw.randint(12, 90),
        "max_length": draw.randint(20, 60),
        "width": heads * draw.choice((4, 6, 8)),
        "depth": draw.randint(1, 3),
        "heads": heads,
        "hidden": draw.randint(5, 70),
        "block": draw.choice((2, 4)),
        "random_blocks": draw.choice((1, 2)),
        "classes": draw.randint(1, 5),
    }
    return {field: value for field, value in sizes.items() if field in known}


def _image_sizes(draw: random.Random, name: str) -> dict[str, Any]:
    known = vars(REGISTRY.find(name)[1].config)
    sizes = {"classes": draw.randint(1, 5), "channels": draw.choice((1, 3)), "image": draw.choice((28, 32, 40))}
    return {field: value for field, value in sizes.items() if field in known}


def _choices(draw: random.Random, name: str) -> dict[str, Any]:
    """Another value of some of the fields with named values, of all of which a model may be made."""
    kind = type(REGISTRY.find(name)[1].config)
    hints = get_type_hints(kind)
    named = {
        field.name: get_args(hints[field.name]) for field in fields(kind) if get_origin(hints[field.name]) is Literal
    }
    return {field: draw.choice(values) for field, values in sorted(named.items()) if draw.random() < 0.4}


def _images(draw: random.Random, model: Any) -> Tensor:
    config = model.card.config
    free = not any(isinstance(part, TokenMixing) for part in model.modules()) and draw.random() < 0.5
    height, width = (draw.randint(28, 44), draw.randint(28, 44)) if free else (config["image"], config["image"])
    return pixels(draw.randint(1, 3), config["channels"], height, width, seed=draw.randint(0, 999))


def _texts(draw: random.Random, model: Any) -> Text:
    config = model.card.config
    lengths = [draw.randint(1, config["max_length"]) for _ in range(draw.randint(1, 4))]
    found = texts(*lengths, vocabulary=config["vocabulary"], seed=draw.randint(0, 999))
    return found if config.get("segments", 0) > 1 else found._replace(segments=None)


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def checks(compiled: bool = False) -> dict[str, Check]:
    """A check per family of the registry that reads images or texts."""
    return {
        f"{family.name}-alone": partial(check, family.name, compiled)
        for family in REGISTRY.families
        if family.reads in READS
    }
