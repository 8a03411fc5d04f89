"""Initialize a student with layers of its teacher (DistilBERT: Sanh et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.text.model import TextModel

DISTILBERT = (0, 2, 4, 7, 9, 11)  # teacher layers of 12, counted from 0


@dataclass(frozen=True)
class Copied:
    """Which tensors were copied. copied: their number. initialized: names of tensors that keep their random values."""

    copied: int
    initialized: tuple[str, ...]


def chosen_layers(student: int, teacher: int) -> tuple[int, ...]:
    """Return the teacher layers to copy, counted from 0: DistilBERT's 6 of 12, or evenly spaced with first and last."""
    if (student, teacher) == (len(DISTILBERT), 12):
        return DISTILBERT
    if not 1 <= student <= teacher:
        raise UserError("the student has more layers than its teacher", expected=f"at most {teacher}", got=student)
    return tuple(torch.linspace(0, teacher - 1, student).round().int().tolist()) if student > 1 else (0,)


@torch.no_grad()
def copy_layers(teacher: TextModel, student: TextModel, layers: Sequence[int]) -> Copied:
    """Copy `layers` of the teacher to the student's blocks, and embedding, norm and head where the shapes are equal.

    layers: one teacher layer per block that the student runs, counted from 0.
    """
    order = student.encoder.order
    if len(layers) != len(order) or not all(0 <= layer < len(teacher.encoder.order) for layer in layers):
        depth = len(teacher.encoder.order)
        raise UserError(
            "these layers cannot be copied", expected=f"{len(order)} numbers from 0 to {depth - 1}", got=list(layers)
        )
    if len(set(order)) != len(order):
        raise UserError("cannot copy teacher layers: the student runs the same block several times")
    copied, initialized = 0, []
    for index, layer in zip(order, layers, strict=True):
        block, source = student.encoder.blocks[index], teacher.encoder.blocks[teacher.encoder.order[layer]]
        theirs = source.state_dict()
        misfits = _misfits(block, theirs)
        if misfits:
            raise UserError(
                f"block {index} of the student has other shapes than its teacher's",
                expected=f"the teacher's width, hidden width and parts ({', '.join(misfits[:3])})",
                hint="do not copy layers; a narrower student can be trained on the teacher's hidden states instead",
            )
        block.load_state_dict(theirs)
        copied += len(theirs)
    for name in ("embedding", "norm", "head"):
        part, theirs = getattr(student, name), getattr(teacher, name).state_dict()
        misfits = _misfits(part, theirs)
        fitting = {key: tensor for key, tensor in theirs.items() if key in part.state_dict() and key not in misfits}
        part.load_state_dict(fitting, strict=False)
        copied += len(fitting)
        initialized += [f"{name}.{key}" for key in misfits]
    return Copied(copied, tuple(initialized))


def _misfits(part: nn.Module, theirs: dict[str, Tensor]) -> list[str]:
    """Return the names of the tensors of a part that the teacher does not have, or has in another shape."""
    own = part.state_dict()
    return [key for key, tensor in own.items() if key not in theirs or theirs[key].shape != tensor.shape]
