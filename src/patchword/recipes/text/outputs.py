"""What a model answers to each of many texts."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from patchword.data.text.batches import Examples, Form, TextBatch, TextBatches

TOKENS, TOKENS_CPU = 32_768, 4_096  # of a batch

Outputs = list[Tensor]  # for each text of the examples, in their order: its scores, or those of its tokens
Ask = Callable[[TextBatch], Tensor]
Advance = Callable[[float], None]  # told how many more texts are done


def nobody(done: float) -> None:
    """Is told what nobody looks at."""


def outputs_of(ask: Ask, examples: Examples, form: Form, size: int, advance: Advance = nobody) -> Outputs:
    """In the order of the examples. ask: a model in evaluation mode, given batches of this size."""
    return _answered(ask, TextBatches(examples, size, form).whole(), advance)


def packed_outputs(ask: Ask, examples: Examples, form: Form, advance: Advance = nobody) -> Outputs:
    """The same, in batches of as many texts as fill the device."""
    tokens = TOKENS_CPU if form.device.type == "cpu" else TOKENS
    return _answered(ask, TextBatches(examples, len(examples), form).packed(tokens), advance)


@torch.inference_mode()
def _answered(ask: Ask, batches: Iterable[TextBatch], advance: Advance) -> Outputs:
    found: dict[int, Tensor] = {}
    for batch in batches:
        found.update(zip(batch.samples.tolist(), _per_text(batch, ask(batch)), strict=True))
        advance(len(batch))
    return [found[number] for number in range(len(found))]


def _per_text(batch: TextBatch, answer: Tensor) -> Outputs:
    """(texts, scores), or (texts, tokens, scores) without the padding, or the same in a row"""
    answer = answer.float().cpu()
    if answer.ndim == 2:
        return list(answer)
    lengths = batch.ids.lengths.tolist()
    if batch.text.rows is not None:
        return list(answer[0].split(lengths))
    return [scores[:length] for scores, length in zip(answer, lengths, strict=True)]
