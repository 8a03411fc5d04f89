"""The cross-entropy of rows of logits, and its gradient: Triton kernels on a GPU, else operations of torch."""

from torch import Tensor

from patchword.kernels.common.availability import is_installed
from patchword.kernels.linear_cross_entropy.reference import row_gradients_reference, row_losses_reference


def row_losses(logits: Tensor, targets: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, vocabulary or more) -> losses, the tokens with the highest logits, log-sum-exp: (rows,) each.

    vocabulary: how many columns are valid; the others pad a row to an aligned length.
    """
    if logits.is_cuda and is_installed():
        from patchword.kernels.linear_cross_entropy.triton import row_losses as kernel

        return kernel(logits, targets, vocabulary)
    return row_losses_reference(logits, targets, vocabulary)


def row_gradients(logits: Tensor, logsumexp: Tensor, targets: Tensor, gradient: Tensor, vocabulary: int) -> Tensor:
    """Returns (softmax - one-hot target) * gradient, in the dtype of the logits; 0 in the columns of padding.

    gradient: (rows,) of the losses
    """
    if logits.is_cuda and is_installed():
        from patchword.kernels.linear_cross_entropy.triton import row_gradients as kernel

        return kernel(logits, logsumexp, targets, gradient, vocabulary)
    return row_gradients_reference(logits, logsumexp, targets, gradient, vocabulary)
