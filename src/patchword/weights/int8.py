"""A text model whose matrices and tables are 8-bit integers, for ONNX Runtime on a CPU.

Of a model that was trained with `quantise` the learned thresholds are used: activations are rounded by fixed scales,
as in training. Any other model gets a scale for each output channel and each row of a table, and activations are
rounded by their range in each call. Products are summed in 32-bit integers; softmax, norms and GELU stay float32.

Differences to the fake-quantised model: biases stay float32, and -128 is used where a value below the threshold is cut
off, which training cuts at -127.
"""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from patchword.layers.bottleneck import PartlyTied
from patchword.layers.quantize import LARGEST, QuantisedEmbedding, Thresholds, weight_thresholds
from patchword.layers.text import TextModel
from patchword.layers.text_heads import TiedLinear
from patchword.weights.int8_operations import int8_product, int8_rounded, int8_rows, int8_tied


class Int8Linear(nn.Module):
    """A matrix in 8 bits. outward: what the last bit of the outputs is worth, where training rounded these."""

    weight: Tensor
    scales: Tensor
    bias: Tensor | None
    inward: Tensor | None
    outward: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        seen = _learned(linear)
        parts = len(seen.output) if seen else len(linear.weight)
        limits = weight_thresholds(linear.weight, parts).repeat_interleave(len(linear.weight) // parts)
        weight, scales = _integers(linear.weight, limits)
        self.register_buffer("weight", weight.T.contiguous())
        self.register_buffer("scales", scales)
        self.register_buffer("bias", linear.bias)
        self.register_buffer("inward", None if seen is None else seen.input / LARGEST)
        self.register_buffer("outward", None if seen is None or seen.answers else seen.output / LARGEST)

    def forward(self, tokens: Tensor) -> Tensor:
        answer = cast(Tensor, int8_product(tokens, self.weight, self.scales, self.inward))
        answer = answer if self.bias is None else answer + self.bias
        return answer if self.outward is None else cast(Tensor, int8_rounded(answer, self.outward))


class Int8Embedding(nn.Module):
    """A table in 8 bits."""

    weight: Tensor
    scales: Tensor

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings = table.num_embeddings
        learned = isinstance(table, QuantisedEmbedding) and bool(table.quantised.steps)
        parts = 1 if learned else len(table.weight)
        limits = weight_thresholds(table.weight, parts).repeat_interleave(len(table.weight) // parts)
        weight, scales = _integers(table.weight, limits)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)

    def forward(self, ids: Tensor) -> Tensor:
        return cast(Tensor, int8_rows(ids, self.weight, self.scales))


class Int8Tied(nn.Module):
    """A score for each word by the 8-bit table of words."""

    scales: Tensor
    bias: Tensor | None
    inward: Tensor | None
    outward: Tensor | None

    def __init__(self, tied: TiedLinear, words: Int8Embedding) -> None:
        super().__init__()
        seen = _learned(tied)
        self.register_buffer("scales", words.scales)
        self.register_buffer("bias", tied.bias)
        self.register_buffer("inward", None if seen is None else seen.input / LARGEST)
        self.register_buffer("outward", None if seen is None or seen.answers else seen.output / LARGEST)

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        answer = cast(Tensor, int8_tied(tokens, table, self.scales, self.inward))
        answer = answer if self.bias is None else answer + self.bias
        return answer if self.outward is None else cast(Tensor, int8_rounded(answer, self.outward))


@torch.no_grad()
def in_int8(model: TextModel) -> TextModel:
    """A copy of the model in 8 bits, to be exported. Answers are those of ONNX Runtime, but slow."""
    found = copy.deepcopy(model).eval()
    partly = [module for module in found.modules() if isinstance(module, PartlyTied)]
    left = {id(module.extra) for module in partly} | ({id(found.entrance.words)} if partly else set())
    for module in list(found.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear) and id(child) not in left:
                setattr(module, name, Int8Linear(child))
            elif isinstance(child, nn.Embedding) and id(child) not in left:
                setattr(module, name, Int8Embedding(child))
    words = cast(nn.Module, found.entrance.words)
    for module in list(found.modules()):
        for name, child in module.named_children():
            if isinstance(child, TiedLinear) and isinstance(words, Int8Embedding):
                setattr(module, name, Int8Tied(child, words))
    return found


def _learned(part: nn.Module) -> Thresholds | None:
    """what training has learned of the part's ranges"""
    seen = getattr(part, "quantised", None)
    if not isinstance(seen, Thresholds):
        return None
    known = seen.answers or bool((seen.output > 0).all())
    return seen if known and bool(seen.input > 0) else None


def _integers(weight: Tensor, limits: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, columns) float32 and the largest magnitude of each row -> int8, and what its last bit is worth: (rows,)"""
    limits = limits.clamp(min=torch.finfo(torch.float32).tiny)
    scale = torch.full_like(limits, LARGEST) / limits
    return (weight * scale[:, None]).round().clamp(-LARGEST, LARGEST).to(torch.int8), limits / LARGEST
