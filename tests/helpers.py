"""What several tests share: random weights, tiny models, comparing, asking for an error."""

import torch
from torch import Tensor, nn

import patchword
from patchword.core.text import Rows, Text
from patchword.layers import Pyramid, TextModel, record_attention
from patchword.models import REGISTRY

TINY = {"width": 32, "depth": 2, "heads": 4, "hidden": 64, "patch": 8, "image": 32, "classes": 7}

TINY_TEXT = {"vocabulary": 61, "positions": 24, "width": 32, "depth": 2, "heads": 4, "hidden": 64}

SHARP = ("query", "key", "joint", "qkv", "q_proj", "k_proj")  # matrices of queries and keys, here and elsewhere


def tiny(name: str = "vit-tiny-16", seed: int = 0, **overrides: object) -> Pyramid:
    """A model of a few thousand weights, all of them random and large, ready to evaluate."""
    return randomise(patchword.create(name, **TINY | overrides), seed).eval()


def tiny_text(name: str = "bert-tiny", seed: int = 0, **overrides: object) -> TextModel:
    """The same of texts."""
    return randomise(patchword.create(name, **TINY_TEXT | overrides), seed).eval()


def image_models() -> list[str]:
    return [name for name in REGISTRY.names() if REGISTRY.reads_images(name)]


def text_models() -> list[str]:
    return [name for name in REGISTRY.names() if not REGISTRY.reads_images(name)]


def image_families() -> list[str]:
    return [family.name for family in REGISTRY.families if family.preparation]


def smallest(family: str) -> str:
    """The name of a family's smallest model."""
    names = [name for name in REGISTRY.names() if REGISTRY.find(name)[0].name == family]
    return min(names, key=lambda name: REGISTRY.find(name)[1].parameters)


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
            else:
                scale = 3.4 if parameter.ndim == 2 and any(word in name for word in SHARP) else 1.7
                parameter.copy_(scale * noise / parameter[0].numel() ** 0.5)
        for name, statistic in model.named_buffers():  # of batch norms
            if name.endswith("running_mean"):
                statistic.copy_(0.3 * torch.randn(statistic.shape, generator=generator))
            elif name.endswith("running_var"):
                statistic.copy_(0.5 + torch.rand(statistic.shape, generator=generator))
    return model


def pixels(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def texts(*lengths: int, vocabulary: int = 61, seed: int = 2) -> Text:
    """Texts of two segments, padded to the longest; what stands under the padding is no zero."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, vocabulary, (len(lengths), max(lengths)), generator=generator)
    count, place = torch.tensor(lengths)[:, None], torch.arange(max(lengths))
    return Text(ids, (place >= count // 2).long(), place < count)


def one_row(text: Text) -> Text:
    """The same texts one behind the other."""
    assert text.mask is not None
    assert text.segments is not None
    return Text(text.ids[text.mask][None], text.segments[text.mask][None], rows=Rows.of(text.mask.sum(1)))


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the scale of the values."""
    assert ours.shape == theirs.shape
    return float(((ours - theirs).abs().max() / theirs.abs().max()).detach())


def assert_sharp(model: nn.Module, images: Tensor | Text) -> None:
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
