"""Out of memory: the same step again, in smaller pieces."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.guard.batch_statistics import Statistics
from patchword.training.sam import drawing
from patchword.training.step import Halves, PlainStep


class OomRetry:
    """A step that, when the memory is full, is taken again from its beginning in twice as many pieces.

    The batch, and up to the order of additions its gradient, stay the same: pieces are shares of the batch's mean loss.
    It goes on with so many pieces. Both gradients of SAM are taken anew, so that both draw the same random numbers.
    As with `gradient_accumulation`, dropout draws for each piece, and a batch norm sees the pieces and not the batch.

    again: what goes on with a run that was stopped. Several processes stop, since the others would not wait.
    """

    def __init__(
        self, step: Halves, plain: PlainStep, model: nn.Module, say: Callable[[str], None], again: str = "--resume"
    ) -> None:
        self.step, self.plain, self.say, self.again = step, plain, say, again
        self.statistics = Statistics(model)

    def gradient(self, batch: Any) -> tuple[Tensor, Tensor]:
        noted, back = self.statistics.noted(), drawing(batch.device)
        while (told := self._tried(batch)) is None:  # outside `except`, whose traceback keeps the full memory alive
            self.plain.optimizer.zero_grad(set_to_none=True)
            self.statistics.put(noted)
            back()
            if batch.device.type == "cuda":
                torch.cuda.empty_cache()
            self._halve(batch)
        return told

    def descend(self, rate: float) -> Tensor:
        return self.step.descend(rate)

    def _tried(self, batch: Any) -> tuple[Tensor, Tensor] | None:
        try:
            return self.step.gradient(batch)
        except (RuntimeError, MemoryError) as error:
            if not _is_full(error):
                raise
        return None

    def _halve(self, batch: Any) -> None:
        before = len(batch.split(self.plain.parts))
        now = len(batch.split(2 * before))
        if now == before:
            hint = "take a smaller model, free the memory, or compute activations again:"
            hint += f"\n{self.again} activation_checkpointing=true"
            raise _too_large(now, hint)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            pieces = (
                2 * before * torch.distributed.get_world_size()
            )  # of all processes, as gradient_accumulation counts
            raise _too_large(before, f"go on in twice as many:\n{self.again} gradient_accumulation={pieces}")
        self.plain.parts = 2 * before
        self.say(f"the memory is full: each batch is now worked on in {now} pieces; the batch stays as large as it is")


def _is_full(error: Exception) -> bool:
    """torch has a type for it, but for the main memory and some of NVIDIA's libraries only words."""
    words = ("not enough memory", "can't allocate memory", "ALLOC_FAILED")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(word in str(error) for word in words)


def _too_large(parts: int, hint: str) -> UserError:
    return UserError(f"the memory does not hold a batch in {parts} pieces", hint=hint)
