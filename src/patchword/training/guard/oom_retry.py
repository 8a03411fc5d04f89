"""Out of memory: computes the same gradient again in smaller micro-batches."""

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.memory import is_out_of_memory
from patchword.training.checkpoint.checkpoint import Log
from patchword.training.guard.model_buffers import ModelBuffers
from patchword.training.sam import save_rng
from patchword.training.step import Batch, ComputesGradient, PlainStep


class OomRetry:
    """Computes the gradient again from its beginning, in twice as many micro-batches, when the memory is full.

    The batch stays the same, and so does its gradient, up to the order of additions, since the micro-batches' losses
    add up to the mean loss of the batch. Later steps keep the larger number of micro-batches. Both gradients of SAM are
    computed again, so that both draw the same random numbers. As with gradient accumulation, dropout draws per
    micro-batch, and a batch norm sees micro-batches instead of the batch.

    With several processes the run stops instead, since the other processes would not wait.

    resume_command: resumes a run that was stopped; it is part of the error message.
    """

    def __init__(
        self, step: ComputesGradient, plain: PlainStep, model: nn.Module, log: Log, resume_command: str = "--resume"
    ) -> None:
        self.step, self.plain, self.log, self.resume_command = step, plain, log, resume_command
        self.buffers = ModelBuffers(model)

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        buffers, restore_rng = self.buffers.saved(), save_rng(batch.device)
        while (found := self._try(batch)) is None:  # outside `except`: its traceback would keep the memory in use
            self.plain.optimizer.zero_grad(set_to_none=True)
            self.buffers.restore(buffers)
            restore_rng()
            if batch.device.type == "cuda":
                torch.cuda.empty_cache()
            self._use_smaller_micro_batches(batch)
        return found

    def _try(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        try:
            return self.step.gradient(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        return None

    def _use_smaller_micro_batches(self, batch: Batch) -> None:
        before = len(batch.split(self.plain.micro_batches))
        now = len(batch.split(2 * before))
        if now == before:
            hint = (
                "use a smaller model, free memory, or recompute activations in the backward pass:\n"
                f"{self.resume_command} activation_checkpointing=true"
            )
            raise _does_not_fit(now, hint)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            count = 2 * before * torch.distributed.get_world_size()  # over all processes, as the recipe counts them
            raise _does_not_fit(
                before, f"resume with twice as many micro-batches:\n{self.resume_command} gradient_accumulation={count}"
            )
        self.plain.micro_batches = 2 * before
        self.log(
            f"out of memory: each batch is now computed in {now} micro-batches; "
            "the batch size and the gradient stay the same"
        )


def _does_not_fit(count: int, hint: str) -> UserError:
    how = "as a whole" if count == 1 else f"in {count} micro-batches"
    return UserError(f"out of memory: a batch does not fit into memory {how}", hint=hint)
