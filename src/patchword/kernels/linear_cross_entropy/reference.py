"""The linear cross-entropy in operations of torch: the reference of the operation and of its Triton kernels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class TokenLosses(NamedTuple):
    """losses: (count,) float32, 0 where the target is negative. words: (count,) the tokens with the highest logits."""

    losses: Tensor
    words: Tensor


def linear_cross_entropy_reference(vectors: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor) -> TokenLosses:
    """Return the losses of tokens whose logits are vectors @ table' + bias, in operations of torch.

    vectors: (count, width). table: (vocabulary, width). bias: (vocabulary,). targets: (count,)
    """
    return token_losses(F.linear(vectors, table, bias), targets)


def token_losses(scores: Tensor, targets: Tensor) -> TokenLosses:
    """The cross-entropy of logits (count, vocabulary) and targets (count,), in float32."""
    return TokenLosses(F.cross_entropy(scores.float(), targets, reduction="none"), scores.detach().argmax(-1))


def row_losses_reference(logits: Tensor, targets: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes `rows.row_losses` with operations of torch."""
    valid = logits[:, :vocabulary].float()
    logsumexp, has_target = valid.logsumexp(-1), targets >= 0
    target_logits = valid.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    return torch.where(has_target, logsumexp - target_logits, 0.0), valid.argmax(-1), logsumexp


def row_gradients_reference(
    logits: Tensor, logsumexp: Tensor, targets: Tensor, gradient: Tensor, vocabulary: int
) -> Tensor:
    """Computes `rows.row_gradients` with operations of torch."""
    found = (logits.float() - logsumexp[:, None]).exp_()
    found[:, vocabulary:] = 0
    found.scatter_add_(1, targets.clamp(min=0)[:, None], found.new_full((len(found), 1), -1.0))
    return found.mul_(torch.where(targets >= 0, gradient.float(), 0.0)[:, None]).to(logits.dtype)
