"""Dropout as a module."""

from torch import Tensor, nn

from patchword.kernels.dropout import dropout


class Dropout(nn.Dropout):
    """nn.Dropout, with counter-based random bits in a model that is compiled for a GPU."""

    def forward(self, tokens: Tensor) -> Tensor:
        return dropout(tokens, self.p, self.training, self.inplace)


def is_inactive(module: nn.Module) -> bool:
    """True for a dropout that passes everything through now: in evaluation, or at rate 0."""
    if isinstance(module, nn.Dropout):
        return not module.training or module.p == 0
    return isinstance(module, nn.Identity)
