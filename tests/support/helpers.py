"""Helpers that several tests share: random weights, tiny models, comparisons, expected errors."""

from dataclasses import asdict, fields
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

import patchword
from patchword.core.text import Packed, Pair, Text
from patchword.layers import Pyramid, TextModel, Translator, record_attention
from patchword.models import REGISTRY

TINY = {"width": 32, "depth": 2, "heads": 4, "hidden": 64, "patch": 8, "image": 32, "classes": 7}

TINY_TEXT = {"vocabulary": 61, "max_length": 24, "width": 32, "depth": 2, "heads": 4, "hidden": 64}

TINY_PAIR = {
    "vocabulary": 61,
    "target_vocabulary": 47,
    "max_length": 24,
    "width": 32,
    "depth": 2,
    "heads": 4,
    "hidden": 64,
}

SHARP = ("query", "key", "joint", "qkv", "q_proj", "k_proj")  # matrices of queries and keys, here and elsewhere


def tiny(name: str = "vit-tiny-16", seed: int = 0, **overrides: object) -> Pyramid:
    """A model of a few thousand weights, all of them random and large, ready to evaluate."""
    return randomise(patchword.create(name, **TINY | overrides), seed).eval()


def tiny_text(name: str = "bert-tiny", seed: int = 0, **overrides: object) -> TextModel:
    """The same of texts."""
    return randomise(patchword.create(name, **TINY_TEXT | overrides), seed).eval()


def tiny_pair(name: str = "transformer-small", seed: int = 0, **overrides: object) -> Translator:
    """The same of models that write a text for a text."""
    return randomise(patchword.create(name, **tiny_sizes(name) | overrides), seed).eval()


def tiny_sizes(name: str) -> dict[str, int]:
    """The tiny sizes that such a model has: an LSTM has no heads."""
    known = vars(REGISTRY.find(name)[1].config)
    return {field: value for field, value in TINY_PAIR.items() if field in known}


def image_models() -> list[str]:
    return _models("images")


def text_models() -> list[str]:
    return _models("texts")


def pair_models() -> list[str]:
    return _models("pairs")


def character_models() -> list[str]:
    return _models("characters")


def _models(reads: str) -> list[str]:
    return [name for family in REGISTRY.families if family.reads == reads for name in family.names()]


def image_families() -> list[str]:
    return [family.name for family in REGISTRY.families if family.normalization]


@cache
def smallest(family: str) -> str:
    """The name of a family's smallest model."""
    variants = next(one for one in REGISTRY.families if one.name == family).names()
    return min(variants, key=lambda name: variants[name].parameters)


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Weights large enough that attention is far from uniform, so that no mistake in it can hide."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:  # biases and norms
                parameter.copy_(0.5 + 0.3 * noise)
            elif parameter.ndim == 3:  # leading tokens and positions
                parameter.copy_(noise)
            elif parameter.numel():  # a part of MobileBERT is empty if its embedding has the width of a token
                scale = 3.4 if parameter.ndim == 2 and any(word in name for word in SHARP) else 1.7
                parameter.copy_(scale * noise / parameter[0].numel() ** 0.5)
        for name, statistic in model.named_buffers():  # of batch norms
            if name.endswith("running_mean"):
                statistic.copy_(0.3 * torch.randn(statistic.shape, generator=generator))
            elif name.endswith("running_var"):
                statistic.copy_(0.5 + torch.rand(statistic.shape, generator=generator))
    return model


def unequal_tensors(model: nn.Module, other: nn.Module) -> list[str]:
    """The names of the tensors that two models do not have alike; each `state_dict()` visits all modules."""
    ours, theirs = model.state_dict(), other.state_dict()
    return sorted(
        name
        for name in ours.keys() | theirs.keys()
        if name not in ours or name not in theirs or not torch.equal(ours[name], theirs[name])
    )


def pixels(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def texts(*lengths: int, vocabulary: int = 61, seed: int = 2) -> Text:
    """Texts of two segments, padded to the longest; what stands under the padding is no zero."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, vocabulary, (len(lengths), max(lengths)), generator=generator)
    count, place = torch.tensor(lengths)[:, None], torch.arange(max(lengths))
    return Text(ids, (place >= count // 2).long(), place < count)


def pairs(sources: tuple[int, ...], targets: tuple[int, ...], seed: int = 2) -> Pair:
    """Texts of these lengths and others for them, padded; what stands under the padding is no zero."""
    source = texts(*sources, vocabulary=TINY_PAIR["vocabulary"], seed=seed)
    target = texts(*targets, vocabulary=TINY_PAIR["target_vocabulary"], seed=seed + 1)
    return Pair(source._replace(segments=None), target._replace(segments=None))


def one_row(text: Text) -> Text:
    """The same texts one behind the other."""
    assert text.mask is not None
    row = {
        name: part[text.mask][None]
        for name, part in (("segments", text.segments), ("languages", text.languages))
        if part is not None
    }
    return Text(text.ids[text.mask][None], packed=Packed.of(text.mask.sum(1)), **row)


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the scale of the values."""
    assert ours.shape == theirs.shape
    return float(((ours - theirs).abs().max() / theirs.abs().max()).detach())


def assert_sharp(model: nn.Module, images: Tensor | Text | Pair) -> None:
    """Attention looks somewhere: otherwise exchanging two keys or heads would hardly show."""
    with torch.no_grad(), record_attention(model) as maps:
        model(images)
    assert max(float(attention.weights.max()) for attention in maps) > 0.5
    for attention in maps:
        uniform = 1 / attention.weights.shape[-1]
        assert float((attention.weights - uniform).abs().mean()) > 0.2 * uniform


def swap_heads(model: Pyramid | TextModel, block: int, first: int = 0, second: int = 1, stage: int = 0) -> None:
    """A mutation: two heads of one block exchange their columns of the output, and no longer fit what they compute."""
    encoder = model.encoder if isinstance(model, TextModel) else model.stages[stage].encoder
    attention = encoder.blocks[block].attention.sublayer
    weight = attention.output.weight
    with torch.no_grad():
        heads = weight.view(len(weight), attention.core.heads * len(attention.patterns), -1)
        heads[:, [first, second]] = heads[:, [second, first]]


def structures(name: str) -> list[dict[str, str]]:
    """Return the choices of a variant's config that have names, and each other value of one of them."""
    config = REGISTRY.find(name)[1].config
    hints = get_type_hints(type(config))
    choices = [field.name for field in fields(config) if get_origin(hints[field.name]) is Literal]
    default = {field: getattr(config, field) for field in choices}
    return [default] + [
        {field: value} for field in choices for value in get_args(hints[field]) if value != default[field]
    ]


def image_structures() -> dict[str, tuple[str, dict[str, object]]]:
    """Return each structure of an image family at the family's smallest size; variants of other sizes count once."""
    found: dict[str, tuple[str, dict[str, object]]] = {}
    for name in image_models():
        family, variant = REGISTRY.find(name)
        structure = {field: value for field, value in asdict(variant.config).items() if isinstance(value, str | bool)}
        base = smallest(family.name)
        reduced = (base, asdict(REGISTRY.find(base)[1].config) | structure)
        if reduced not in found.values():
            found[name] = reduced
    return found
