"""Text models with matrices and embeddings in 8-bit integers, for ONNX Runtime on a CPU.

Each output channel and each row of an embedding has its own scale. Inputs of a matrix are quantised with the range
learned in training with `quantise`, in other models with their range in each call (dynamic quantisation). Products are
summed in 32-bit integers; softmax, norms and GELU stay in float32.

Differences from the fake-quantised model: biases stay in float32, and values below the threshold are clipped to -128,
in training to -127.
"""

import copy
from typing import cast

import torch
from torch import Tensor, nn

from patchword.layers.heads.text import TiedLinear
from patchword.layers.quantize import LARGEST, Thresholds, row_thresholds
from patchword.layers.text.bottleneck import PartlyTied
from patchword.layers.text.model import TextModel
from patchword.weights.export.int8_operations import int8_product, int8_rows, int8_tied


class Int8Linear(nn.Module):
    """A linear layer with int8 weights. inward: step size of the inputs, if training has learned it."""

    weight: Tensor
    scales: Tensor
    bias: Tensor | None
    inward: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scales = _integers(linear.weight)
        self.register_buffer("weight", weight.T.contiguous())
        self.register_buffer("scales", scales)
        self.register_buffer("bias", linear.bias)
        self.register_buffer("inward", _learned(linear))

    def forward(self, tokens: Tensor) -> Tensor:
        answer = cast(Tensor, int8_product(tokens, self.weight, self.scales, self.inward))
        return answer if self.bias is None else answer + self.bias


class Int8Embedding(nn.Module):
    """An embedding with int8 weights."""

    weight: Tensor
    scales: Tensor

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings = table.num_embeddings
        weight, scales = _integers(table.weight)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)

    def forward(self, ids: Tensor) -> Tensor:
        return cast(Tensor, int8_rows(ids, self.weight, self.scales))


class Int8Tied(nn.Module):
    """Logits of the vocabulary from the int8 word embedding (tied weights)."""

    scales: Tensor
    bias: Tensor | None
    inward: Tensor | None

    def __init__(self, tied: TiedLinear, words: Int8Embedding) -> None:
        super().__init__()
        self.register_buffer("scales", words.scales)
        self.register_buffer("bias", tied.bias)
        self.register_buffer("inward", _learned(tied))

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        answer = cast(Tensor, int8_tied(tokens, table, self.scales, self.inward))
        return answer if self.bias is None else answer + self.bias


@torch.no_grad()
def in_int8(model: TextModel) -> TextModel:
    """Return a copy of the model in int8 for export. It computes the outputs of ONNX Runtime, but slowly."""
    found = copy.deepcopy(model).eval()
    partly = [module for module in found.modules() if isinstance(module, PartlyTied)]
    left = {id(module.extra) for module in partly} | ({id(found.embedding.words)} if partly else set())
    for module in list(found.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear) and id(child) not in left:
                setattr(module, name, Int8Linear(child))
            elif isinstance(child, nn.Embedding) and id(child) not in left:
                setattr(module, name, Int8Embedding(child))
    words = cast(nn.Module, found.embedding.words)
    for module in list(found.modules()):
        for name, child in module.named_children():
            if isinstance(child, TiedLinear) and isinstance(words, Int8Embedding):
                setattr(module, name, Int8Tied(child, words))
    return found


def _learned(part: nn.Module) -> Tensor | None:
    """Return the step size of the module's inputs, if it was learned in training."""
    seen = getattr(part, "quantised", None)
    return seen.input / LARGEST if isinstance(seen, Thresholds) and bool(seen.input > 0) else None


def _integers(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a matrix per row: (rows, columns) float32 -> int8, and the step size of each row, (rows,)."""
    limits = row_thresholds(weight).clamp(min=torch.finfo(torch.float32).tiny)
    scale = torch.full_like(limits, LARGEST) / limits
    return (weight * scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), limits[:, 0] / LARGEST
