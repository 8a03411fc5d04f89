"""What several tests share: random weights, tiny models, comparing, asking for an error."""

import torch
from torch import Tensor, nn

import patchword
from patchword.layers import Pyramid, record_attention
from patchword.models import REGISTRY

TINY = {"width": 32, "depth": 2, "heads": 4, "hidden": 64, "patch": 8, "image": 32, "classes": 7}

SHARP = ("query", "key", "joint", "qkv", "q_proj", "k_proj")  # matrices of queries and keys, here and elsewhere


def tiny(name: str = "vit-tiny-16", seed: int = 0, **overrides: object) -> Pyramid:
    """A model of a few thousand weights, all of them random and large, ready to evaluate."""
    return randomise(patchword.create(name, **TINY | overrides), seed).eval()


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


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the scale of the values."""
    assert ours.shape == theirs.shape
    return float(((ours - theirs).abs().max() / theirs.abs().max()).detach())


def assert_sharp(model: nn.Module, images: Tensor) -> None:
    """Attention looks somewhere: otherwise exchanging two keys or heads would hardly show."""
    with torch.no_grad(), record_attention(model) as maps:
        model(images)
    assert max(float(attention.weights.max()) for attention in maps) > 0.5
    for attention in maps:
        uniform = 1 / attention.weights.shape[-1]
        assert float((attention.weights - uniform).abs().mean()) > 0.2 * uniform


def swap_heads(model: Pyramid, block: int, first: int = 0, second: int = 1, stage: int = 0) -> None:
    """A mutation: two heads of one block exchange their columns of the output, and no longer fit what they compute."""
    attention = model.stages[stage].encoder.blocks[block].attention.sublayer
    weight = attention.output.weight
    with torch.no_grad():
        heads = weight.view(len(weight), attention.core.heads * len(attention.patterns), -1)
        heads[:, [first, second]] = heads[:, [second, first]]
