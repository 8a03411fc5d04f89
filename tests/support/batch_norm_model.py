"""A small convolutional model with batch norms, and batches for it."""

import torch
from torch import Tensor, nn

import patchword
from patchword.data.image.batches import Batch
from patchword.training.guard.nonfinite import NonFiniteGuard

SIZE = 12


def model_of() -> nn.Module:
    """Convolutions with batch norms, whose running statistics a non-finite sample would spoil."""
    torch.manual_seed(0)
    return patchword.create("resnet-mini", channels=3, image=32, classes=7, width=4, depths=(1, 1)).train()


def batch_of(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    samples = SIZE * seed + torch.arange(SIZE)
    return Batch(torch.randn(SIZE, 3, 32, 32, generator=generator), samples % 7, samples)


def everything(guard: NonFiniteGuard) -> list[Tensor]:
    """Return all tensors of a checkpoint."""
    moments = [value for state in guard.plain.optimizer.state.values() for value in state.values()]
    return [*guard.model.state_dict().values(), *moments]


def assert_equal(ours: NonFiniteGuard, theirs: NonFiniteGuard) -> None:
    pairs = list(zip(everything(ours), everything(theirs), strict=True))
    assert len(pairs) > 50
    assert all(torch.equal(a, b) and a.isfinite().all() for a, b in pairs)
