"""Computes the outputs of a model for many texts."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.text.batching.batches import BatchFormat, Examples, TextBatch, TextBatches

TOKENS, TOKENS_CPU = 32_768, 4_096  # of a batch

Outputs = list[Tensor]  # per text, in order: its scores, or those of its tokens
Ask = Callable[[TextBatch], Tensor]
Advance = Callable[[float], None]  # called with the number of completed texts


def ignore_progress(done: float) -> None:
    """Ignore the reported progress."""


def outputs_of(
    ask: Ask,
    examples: Examples,
    form: BatchFormat,
    size: int,
    advance: Advance = ignore_progress,
    group: WorkSharing = SINGLE,
) -> Outputs:
    """Return the outputs in the order of the examples.

    ask: a model in evaluation mode. size: texts per batch. group: the processes that divide the work.
    """
    return _answered(ask, TextBatches(examples, size, form).whole(), advance, group)


def packed_outputs(
    ask: Ask, examples: Examples, form: BatchFormat, advance: Advance = ignore_progress, group: WorkSharing = SINGLE
) -> Outputs:
    """Return the outputs, computed in batches of as many texts as fill the device."""
    tokens = TOKENS_CPU if form.device.type == "cpu" else TOKENS
    return _answered(ask, TextBatches(examples, len(examples), form).packed(tokens), advance, group)


@torch.inference_mode()
def _answered(ask: Ask, batches: Sequence[TextBatch], advance: Advance, group: WorkSharing) -> Outputs:
    def answer(batch: TextBatch) -> tuple[Tensor, ...]:
        found = batch.samples, *_per_text(batch, ask(batch))
        advance(len(batch))
        return found

    found: dict[int, Tensor] = {}
    for samples, *outputs in group.map(answer, batches):
        found.update(zip(samples.tolist(), outputs, strict=True))
    return [found[number] for number in range(len(found))]


def _per_text(batch: TextBatch, answer: Tensor) -> Outputs:
    """Split the output of a batch into one tensor per text, without padding.

    The output is (texts, scores), or (texts, tokens, scores) with padding, or packed.
    """
    answer = answer.float().cpu()
    if answer.ndim == 2:
        return list(answer)
    lengths = batch.ids.lengths.tolist()
    if batch.text.packed is not None:
        return list(answer[0].split(lengths))
    return [scores[:length] for scores, length in zip(answer, lengths, strict=True)]
