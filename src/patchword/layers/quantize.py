"""Q8BERT (Zafrir et al., 2019): quantization-aware training, after which the model can run in 8 bits.

A tensor is quantised symmetrically: q = round(x * 127 / threshold), clipped to -127 ... 127, and x becomes
q * threshold / 127. The threshold of weights is their largest magnitude in every pass; that of a matrix's input is a
moving average of its largest magnitude, updated in training and used in evaluation. The gradient is passed straight
through, also for clipped values. All matrices and embeddings are quantised; softmax, norms and activations are not.

The paper has one threshold per matrix and also rounds outputs. Here each row of a matrix or an embedding has its own
threshold, and outputs are not rounded, because the sums, norms and softmax that follow are computed in float32 anyway:
a few rows of trained models are forty times as large as the others, and the paper's method cost MiniLM two points.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.heads.text import TiedLinear, TokenLosses, token_losses
from patchword.layers.text.bottleneck import PartlyTied

LARGEST = 127  # the largest 8-bit value of a symmetric range
DECAY = 0.9999
MARK = ".quantised.steps"  # suffix of state-dict keys that only quantised models have
_PART = ".quantised."


class _StraightThrough(torch.autograd.Function):
    """Rounding with the straight-through estimator: its gradient is 1 everywhere."""

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
    """Return the tensor rounded to 8 bits, in float32; unchanged where `active` is False."""
    return cast(Tensor, _StraightThrough.apply(tensor, threshold, active))  # type: ignore[no-untyped-call]  # torch has no types for it


def row_thresholds(weight: Tensor) -> Tensor:
    """(..., columns) -> (..., 1): the largest magnitude of each row."""
    return weight.detach().abs().amax(-1, keepdim=True)


class Thresholds(nn.Module):
    """The observed range of inputs. Nothing is quantised in the first `start` forward passes of training.

    input: (), the threshold; 0 before the first observation. steps: forward passes in training so far.
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
        """Return (): True if this pass rounds; in evaluation, True if there is a threshold."""
        return self.steps >= self.start if self.training else self.steps > self.start

    def count(self) -> None:
        """Count one forward pass in training."""
        if self.training:
            self.steps += 1

    def rounded(self, tokens: Tensor, active: Tensor) -> Tensor:
        """Round the input; in training also update the moving average, which starts at the first observation."""
        if self.training:
            with torch.no_grad():
                largest = tokens.detach().abs().amax().float()
                moved = self.decay * self.input + (1 - self.decay) * largest
                moved = torch.where(self.input == 0, largest, moved)
                self.input.copy_(torch.where(active, moved, self.input))
        return fake_quantised(tokens, self.input, active)


class QuantisedLinear(nn.Linear):
    """A linear layer with 8-bit weights and inputs. The bias is added in float32."""

    quantised: Thresholds

    def forward(self, tokens: Tensor) -> Tensor:
        return _product(tokens, self.weight, self.bias, self.quantised)


class QuantisedTied(TiedLinear):
    """The tied output layer with 8-bit weights and inputs."""

    quantised: Thresholds

    def forward(self, tokens: Tensor, table: Tensor) -> Tensor:
        return _product(tokens, table, self.bias, self.quantised)

    def losses(self, tokens: Tensor, table: Tensor, targets: Tensor) -> TokenLosses:
        return token_losses(self(tokens, table), targets)


def _product(tokens: Tensor, matrix: Tensor, bias: Tensor | None, seen: Thresholds) -> Tensor:
    active = seen.active()
    weight = fake_quantised(matrix, row_thresholds(matrix), active)
    found = F.linear(seen.rounded(tokens, active), weight, bias)
    seen.count()
    return found


class QuantisedEmbedding(nn.Embedding):
    """An 8-bit embedding. Only the rows that are read need to be rounded."""

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
_LEFT = (PartlyTied,)  # uses the weight of its matrix directly: stays in float32


def quantise(model: nn.Module, start: int = 0, decay: float = DECAY) -> nn.Module:
    """Quantise the matrices and embeddings of a model in place and return it; weights and their names do not change.

    start: forward passes of training in float32 before. decay: of the moving averages.
    The observed ranges are in the state dict, so that a run can be saved and resumed.
    """
    for module in [module for module in model.modules() if not isinstance(module, _LEFT)]:
        for child in module.children():
            if kind := _KINDS.get(type(child)):
                device = next((weights.device for weights in child.parameters()), None)
                child.quantised = Thresholds(start, decay).to(device).train(child.training)
                child.__class__ = kind
    return model


def dequantise(model: nn.Module) -> nn.Module:
    """Undo `quantise`: the same weights in float32, without the observed ranges."""
    for module in list(model.modules()):
        if plain := _PLAIN.get(type(module)):
            del module.quantised
            module.__class__ = plain
    return model


def is_quantised(model: nn.Module) -> bool:
    """Return True if `quantise` was applied to the model."""
    return any(isinstance(module, Thresholds) for module in model.modules())


def without_ranges(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict without the observed ranges, as the float32 model needs it."""
    return {name: tensor for name, tensor in tensors.items() if _PART not in name}
