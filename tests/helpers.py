"""What several tests share: random weights, tiny models, comparing, asking for an error."""

import torch
from torch import Tensor, nn

import patchword
from patchword.layers import Pyramid, record_attention

TINY = {"width": 32, "depth": 2, "heads": 4, "hidden": 64, "patch": 8, "image": 32, "classes": 7}


def tiny(name: str = "vit-tiny-16", seed: int = 0, **overrides: object) -> Pyramid:
    """A model of a few thousand weights, all of them random and large, ready to evaluate."""
    return randomise(patchword.create(name, **TINY | overrides), seed).eval()


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Weights large enough that attention is far from uniform, so that no mistake in it can hide."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:  # biases and norms
                parameter.copy_(0.5 + 0.3 * noise)
            elif parameter.ndim == 3:  # leading tokens and positions
                parameter.copy_(noise)
            else:
                parameter.copy_(1.7 * noise / parameter[0].numel() ** 0.5)
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


def swap_heads(model: Pyramid, block: int, first: int = 0, second: int = 1) -> None:
    """A mutation: two heads of one block exchange their rows of the joint weight, and no longer fit the output."""
    attention = model.stages[0].encoder.blocks[block].attention.sublayer
    weight = attention.projection.joint.weight
    with torch.no_grad():
        heads = weight.view(3, attention.core.heads, -1, weight.shape[1])
        heads[:, [first, second]] = heads[:, [second, first]]
