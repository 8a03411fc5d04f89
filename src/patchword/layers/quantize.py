"""Q8BERT (Zafrir et al., 2019): training that feels the rounding to 8 bits, so that the model can then be run in them.

A tensor is quantised symmetrically: q = round(x * 127 / threshold), kept within -127 to 127, and x becomes
q * threshold / 127. Weights take their largest magnitude as threshold in every pass; the inputs of a matrix a moving
average of theirs, which training keeps and evaluation uses. Gradients pass straight through, also where a value was cut
off. All matrices are quantised and the tables of embeddings; softmax, norms and activations are not.

The paper has one threshold for a matrix, and rounds outputs too. Here each row of a matrix or a table has its own, and
outputs stay as they are, since sums, norms and softmax follow, which are computed in float32 anyway: a few rows of
trained models are forty times as large as the others, and with the paper's way MiniLM lost two points.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.heads.text import TiedLinear
from patchword.layers.text.bottleneck import PartlyTied

LARGEST = 127  # of the numbers of 8 bits, so that they lie alike on both sides of 0
DECAY = 0.9999
MARK = ".quantised.steps"  # the end of a name that only quantised models have in their state
_PART = ".quantised."


class _StraightThrough(torch.autograd.Function):
    """Rounding, whose gradient is taken to be 1 everywhere."""

    @staticmethod
    def forward(tensor: Tensor, threshold: Tensor, active: Tensor) -> Tensor:
        return torch.where(active, _rounded(tensor.float(), threshold), tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None


def _rounded(tensor: Tensor, threshold: Tensor) -> Tensor:
    scale = torch.full_like(threshold, LARGEST) / threshold.clamp(min=torch.finfo(torch.float32).tiny)
    return (tensor * scale).round().clamp(-LARGEST, LARGEST) / scale


def fake_quantised(tensor: Tensor, threshold: Tensor, active: Tensor) -> Tensor:
    """The tensor as 8 bits would keep it, in float32; as it is where `active` is False."""
    return cast(Tensor, _StraightThrough.apply(tensor, threshold, active))  # type: ignore[no-untyped-call]  # torch has no types for it


def row_thresholds(weight: Tensor) -> Tensor:
    """(..., columns) -> (..., 1): the largest magnitude of each row"""
    return weight.detach().abs().amax(-1, keepdim=True)


class Thresholds(nn.Module):
    """What is learned of the range of inputs. Nothing is quantised before training has taken `start` passes.

    input: (), 0 as long as nothing was seen. steps: passes of training so far.
    """

    input: Tensor
    steps: Tensor
    start: Tensor

    def __init__(self, start: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("input", torch.zeros(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("start", torch.tensor(start))

    def active(self) -> Tensor:
        """(): whether to round this pass; in evaluation, whether there are thresholds to use"""
        return self.steps >= self.start if self.training else self.steps > self.start

    def count(self) -> None:
        if self.training:
            self.steps += 1

    def rounded(self, tokens: Tensor, active: Tensor) -> Tensor:
        """The first range is taken as it is, later ones move the average."""
        if self.training:
            with torch.no_grad():
                largest = tokens.detach().abs().amax().float()
                moved = self.decay * self.input + (1 - self.decay) * largest
                moved = torch.where(self.input == 0, largest, moved)
                self.input.copy_(torch.where(active, moved, self.input))
        return fake_quantised(tokens, self.input, active)


class QuantisedLinear(nn.Linear):
    """A matrix in 8 bits, and its input. The bias is added in float32."""

    quantised: Thresholds

    def forward(self, tokens: Tensor) -> Tensor:
        return _product(tokens, self.weight, self.bias, self.quantised)


class QuantisedTied(TiedLinear):
    """The table of words as the last matrix."""

    quantised: Thresholds

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        return _product(tokens, table, self.bias, self.quantised)


def _product(tokens: Tensor, matrix: Tensor, bias: Tensor | None, seen: Thresholds) -> Tensor:
    active = seen.active()
    weight = fake_quantised(matrix, row_thresholds(matrix), active)
    found = F.linear(seen.rounded(tokens, active), weight, bias)
    seen.count()
    return found


class QuantisedEmbedding(nn.Embedding):
    """A table in 8 bits. Rounding the rows that are read is enough."""

    quantised: Thresholds

    def forward(self, ids: Tensor) -> Tensor:
        rows = F.embedding(ids, self.weight, self.padding_idx)
        found = fake_quantised(rows, row_thresholds(rows), self.quantised.active())
        self.quantised.count()
        return found


_KINDS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: QuantisedLinear,
    nn.Embedding: QuantisedEmbedding,
    TiedLinear: QuantisedTied,
}
_PLAIN = {quantised: plain for plain, quantised in _KINDS.items()}
_LEFT = (PartlyTied,)  # reads the weight of its matrix and not the matrix: stays in float32


def quantise(model: nn.Module, start: int = 0, decay: float = DECAY) -> nn.Module:
    """The model itself, its matrices and tables now quantised; their weights and names stay what they are.

    start: passes of training in float32 before. decay: of the moving averages.
    What was learned of ranges is in the model's state, so that a run can be saved and gone on with.
    """
    for module in [module for module in model.modules() if not isinstance(module, _LEFT)]:
        for child in module.children():
            if kind := _KINDS.get(type(child)):
                device = next((weights.device for weights in child.parameters()), None)
                child.quantised = Thresholds(start, decay).to(device).train(child.training)
                child.__class__ = kind
    return model


def dequantise(model: nn.Module) -> nn.Module:
    """The way back: the same weights in float32, without what was learned of ranges."""
    for module in list(model.modules()):
        if plain := _PLAIN.get(type(module)):
            del module.quantised
            module.__class__ = plain
    return model


def is_quantised(model: nn.Module) -> bool:
    return any(isinstance(module, Thresholds) for module in model.modules())


def without_ranges(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of a model without what was learned of ranges, which its plain kind has not."""
    return {name: tensor for name, tensor in tensors.items() if _PART not in name}
