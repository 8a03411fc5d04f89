"""Activation checkpointing: the activations of a block are recomputed in the backward pass instead of stored."""

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
    """Base of modules that run blocks, with or without activation checkpointing."""

    recompute = False

    def run(self, block: nn.Module, *inputs: Any) -> Any:
        """Return block(*inputs); checkpointed in training, if `recompute` is set."""
        if not (self.recompute and self.training and torch.is_grad_enabled()):
            return block(*inputs)
        if torch.compiler.is_compiling():  # the compiler traces a block once, so batch statistics count once
            return checkpoint(block, *inputs, use_reentrant=False)
        contexts: Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]
        contexts = partial(_contexts, block)
        return checkpoint(block, *inputs, use_reentrant=False, context_fn=contexts)


def checkpoint_activations(model: nn.Module, stages: Iterable[int] | None = None) -> None:
    """Enable activation checkpointing in these stages of a model and disable it in the others; None means all stages.

    A text model is one stage. The early stages of a pyramid have the most activations:
    checkpoint_activations(model, [0, 1]) saves most of the memory that all stages would save.
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
    """Keep the second forward pass from updating the running statistics of batch norms again."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, (momentum, tracked) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, tracked
