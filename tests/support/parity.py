"""Block by block comparison with another library, which names the first block that drifts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from patchword.layers import Pyramid, Stage
from support.helpers import TINY_TEXT, difference

Stages = Sequence[Sequence[nn.Module]]  # the blocks of each stage

TEXT_SIZES = {  # of a tiny text model, as their configs call them
    "vocab_size": TINY_TEXT["vocabulary"],
    "max_position_embeddings": TINY_TEXT["max_length"],
    "hidden_size": TINY_TEXT["width"],
    "num_hidden_layers": TINY_TEXT["depth"],
    "num_attention_heads": TINY_TEXT["heads"],
    "intermediate_size": TINY_TEXT["hidden"],
}


def opened_whole(kind: Any, folder: Path) -> nn.Module:
    """A folder as a class of theirs reads it: no tensor may be missing, left over or of another shape."""
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(report[part] for part in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def states(model: Pyramid, images: Tensor) -> dict[str, Tensor]:
    """What enters the first block of each stage, what leaves each block, and the scores, by their names."""
    stages = [list(stage.encoder.blocks if isinstance(stage, Stage) else stage.blocks) for stage in model.stages]
    names: list[str] = []
    for number, blocks in enumerate(stages):
        start = f"stage {number} " if len(stages) > 1 else ""
        names += [f"{start}embedding", *(f"{start}block {index}" for index in range(len(blocks)))]
    return dict(zip([*names, "scores"], watch(stages, lambda: model(images)), strict=True))


def their_states(model: nn.Module, images: Tensor, stages: Stages | None = None, **options: object) -> list[Tensor]:
    """The same of a model of Hugging Face's. stages: its blocks, if they are more than one list."""
    if stages is not None:
        return watch(stages, lambda: model.eval()(images, **options).logits)
    with torch.no_grad():
        output = model.eval()(images, output_hidden_states=True, **options)
    return [*output.hidden_states, output.logits]


def watch(stages: Stages, run: Callable[[], Tensor]) -> list[Tensor]:
    """What enters and leaves the blocks while `run` runs, and its answer."""
    seen: list[Tensor] = []
    hooks = [blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])) for blocks in stages]
    for block in (block for blocks in stages for block in blocks):
        hooks.append(block.register_forward_hook(lambda *call: seen.append(_first(call[2]))))
    with torch.no_grad():
        seen.append(run())
    for hook in hooks:
        hook.remove()
    return seen


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def first_drift(ours: dict[str, Tensor], theirs: Sequence[Tensor], tolerance: float = 1e-5) -> str | None:
    """The name of the first place where the two differ, or None if they agree everywhere."""
    for (name, one), other in zip(ours.items(), theirs, strict=True):
        if difference(one, other) > tolerance:
            return name
    return None
