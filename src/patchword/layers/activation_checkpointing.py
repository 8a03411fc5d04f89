"""Gradient checkpointing: activations of a block are computed again in the backward pass instead of being kept."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from patchword.core.errors import UserError


class CheckpointedBlock(nn.Module):
    """Something that runs blocks, and can run them so that memory is saved at the price of a second forward pass."""

    recompute = False

    def run(self, block: nn.Module, *inputs: Any) -> Any:
        if not (self.recompute and self.training and torch.is_grad_enabled()):
            return block(*inputs)
        if torch.compiler.is_compiling():  # the compiler traces a block once, so its statistics count once anyhow
            return checkpoint(block, *inputs, use_reentrant=False)
        contexts: Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]
        contexts = partial(_contexts, block)
        return checkpoint(block, *inputs, use_reentrant=False, context_fn=contexts)


def checkpoint_activations(model: nn.Module, stages: Iterable[int] | None = None) -> None:
    """Switches recomputing on in these stages of a model and off in the others; None is all of them. A text model is
    one stage.

    The early stages of a pyramid hold the most activations: recompute(model, [0, 1]) saves most of what all would.
    """
    found = list(model.get_submodule("stages").children()) if hasattr(model, "stages") else [model]
    chosen = set(range(len(found)) if stages is None else stages)
    if not chosen <= set(range(len(found))):
        raise UserError("no such stage to recompute", expected=f"0 to {len(found) - 1}", got=sorted(chosen))
    for index, stage in enumerate(found):
        for module in stage.modules():
            if isinstance(module, CheckpointedBlock):
                module.recompute = index in chosen


def _contexts(block: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _keeping_statistics(block)


@contextmanager
def _keeping_statistics(block: nn.Module) -> Iterator[None]:
    """The second pass must not count the batch a second time in the running statistics of batch norms."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, (momentum, tracked) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, tracked
