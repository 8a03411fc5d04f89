"""Q8BERT (Zafrir et al., 2019): training that feels the rounding to 8 bits, so that the model can then be run in them.

A tensor is quantised symmetrically: q = round(x * 127 / threshold), kept within -127 to 127, and x becomes
q * threshold / 127. Weights take their largest magnitude as threshold in every pass; activations a moving average of
theirs, which training keeps and evaluation uses. Gradients pass straight through, also where a value was cut off.
Inputs and outputs of every matrix are quantised, and the tables of embeddings; softmax, norms and activations are not,
and neither are a head's answers, which begin near zero and whose range is yet to be learned.

A matrix that is several in one, such as that of queries, keys and values, has a threshold for each of them.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.attention.projection import LinearProjection, ReducedProjection
from patchword.layers.bottleneck import BottleneckProjection, PartlyTied
from patchword.layers.text_heads import PretrainingHead, SentenceHead, TiedLinear, TokenHead

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


def weight_thresholds(weight: Tensor, parts: int = 1) -> Tensor:
    """(rows, columns) -> (parts,): the largest magnitude of each of the matrices that stand one above the other"""
    return weight.detach().abs().view(parts, -1).amax(1)


class Thresholds(nn.Module):
    """What is learned of the range of activations. Nothing is quantised before training has taken `start` passes.

    answers: the outputs are the model's answers, and stay as they are.
    input: () and output: (parts,), 0 as long as nothing was seen. steps: passes of training so far.
    """

    input: Tensor
    output: Tensor
    steps: Tensor
    start: Tensor

    def __init__(self, parts: int, start: int, decay: float, answers: bool = False) -> None:
        super().__init__()
        self.decay, self.answers = decay, answers
        self.register_buffer("input", torch.zeros(()))
        self.register_buffer("output", torch.zeros(parts))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("start", torch.tensor(start))

    def active(self) -> Tensor:
        """(): in evaluation, whether there are thresholds to use"""
        return self.steps >= self.start if self.training else self.steps > self.start

    @torch.no_grad()
    def follow(self, threshold: Tensor, largest: Tensor, active: Tensor) -> None:
        """The first value is taken as it is, later ones move the average."""
        moved = torch.where(threshold == 0, largest, self.decay * threshold + (1 - self.decay) * largest)
        threshold.copy_(torch.where(active, moved, threshold))

    def inward(self, tokens: Tensor, active: Tensor) -> Tensor:
        if self.training:
            self.follow(self.input, tokens.detach().abs().amax().float(), active)
        return fake_quantised(tokens, self.input, active)

    def outward(self, tokens: Tensor, active: Tensor) -> Tensor:
        """(..., parts * width), each part by its own threshold"""
        if self.training:
            self.steps += 1
        if self.answers:
            return tokens
        parts = tokens.unflatten(-1, (len(self.output), -1))
        if self.training:
            self.follow(self.output, parts.detach().abs().movedim(-2, 0).flatten(1).amax(1).float(), active)
        return fake_quantised(parts, self.output[:, None], active).flatten(-2)


class QuantisedLinear(nn.Linear):
    """A matrix of `parts` matrices, its input and its outputs in 8 bits. The bias is added in float32."""

    quantised: Thresholds

    def forward(self, tokens: Tensor) -> Tensor:
        seen = self.quantised
        active, parts = seen.active(), len(seen.output)
        thresholds = weight_thresholds(self.weight, parts).repeat_interleave(len(self.weight) // parts)
        weight = fake_quantised(self.weight, thresholds[:, None], active)
        return seen.outward(F.linear(seen.inward(tokens, active), weight, self.bias), active)


class QuantisedEmbedding(nn.Embedding):
    """A table in 8 bits."""

    quantised: Thresholds

    def forward(self, ids: Tensor) -> Tensor:
        active = self.quantised.active()
        if self.training:
            self.quantised.steps += 1
        rows = F.embedding(ids, self.weight, self.padding_idx)  # rounding the rows that are read is enough
        return fake_quantised(rows, weight_thresholds(self.weight), active)


class QuantisedTied(TiedLinear):
    """The table of words as the last matrix, its input in 8 bits."""

    quantised: Thresholds

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        seen = self.quantised
        active = seen.active()
        weight = fake_quantised(table, weight_thresholds(table), active)
        return seen.outward(F.linear(seen.inward(tokens, active), weight, self.bias), active)


_KINDS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: QuantisedLinear,
    nn.Embedding: QuantisedEmbedding,
    TiedLinear: QuantisedTied,
}
_PLAIN = {quantised: plain for plain, quantised in _KINDS.items()}
# matrices that are several in one: queries, keys and values
_JOINT: dict[type[nn.Module], dict[str, int]] = {
    LinearProjection: {"joint": 3},
    ReducedProjection: {"joint": 2},
    BottleneckProjection: {"query_key": 2},
}
_HEADS = (SentenceHead, TokenHead, PretrainingHead)  # their map called linear makes the answers, as TiedLinear does
_LEFT = (PartlyTied,)  # reads the weight of its matrix and not the matrix: stays in float32


def quantise(model: nn.Module, start: int = 0, decay: float = DECAY) -> nn.Module:
    """The model itself, its matrices and tables now quantised; their weights and names stay what they are.

    start: passes of training in float32 before. decay: of the moving averages.
    What was learned of ranges is in the model's state, so that a run can be saved and gone on with.
    """
    for module in [module for module in model.modules() if not isinstance(module, _LEFT)]:
        joint = _JOINT.get(type(module), {})
        for name, child in module.named_children():
            if kind := _KINDS.get(type(child)):
                device = next((weights.device for weights in child.parameters()), None)
                answers = isinstance(child, TiedLinear) or (isinstance(module, _HEADS) and name == "linear")
                learned = Thresholds(joint.get(name, 1), start, decay, answers)
                child.quantised = learned.to(device).train(child.training)
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
