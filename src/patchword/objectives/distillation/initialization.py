"""A student that begins with layers of its teacher (DistilBERT: Sanh et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers.text.model import TextModel

DISTILBERT = (0, 2, 4, 7, 9, 11)  # of twelve, counted from 0


@dataclass(frozen=True)
class Copied:
    """Which tensors of a student were its teacher's. afresh: those it begins on its own, by name."""

    copied: int
    afresh: tuple[str, ...]


def chosen_layers(student: int, teacher: int) -> tuple[int, ...]:
    """DistilBERT's six of twelve; of other depths as evenly, the first and the last among them. Counted from 0."""
    if (student, teacher) == (len(DISTILBERT), 12):
        return DISTILBERT
    if not 1 <= student <= teacher:
        raise UserError("a student has no more layers than its teacher", expected=f"{teacher} at most", got=student)
    return tuple(torch.linspace(0, teacher - 1, student).round().int().tolist()) if student > 1 else (0,)


@torch.no_grad()
def copy_layers(teacher: TextModel, student: TextModel, layers: Sequence[int]) -> Copied:
    """The student's blocks become those of the teacher's `layers`; embedding, norm and head follow where they fit.

    layers: one for each block that the student runs, counted from 0.
    """
    order = student.encoder.order
    if len(layers) != len(order) or not all(0 <= layer < len(teacher.encoder.order) for layer in layers):
        depth = len(teacher.encoder.order)
        raise UserError(
            "these layers cannot be copied", expected=f"{len(order)} numbers from 0 to {depth - 1}", got=list(layers)
        )
    if len(set(order)) != len(order):
        raise UserError("a student that runs one block again and again cannot begin with several of its teacher")
    copied, afresh = 0, []
    for index, layer in zip(order, layers, strict=True):
        block, source = student.encoder.blocks[index], teacher.encoder.blocks[teacher.encoder.order[layer]]
        theirs = source.state_dict()
        misfits = _misfits(block, theirs)
        if misfits:
            raise UserError(
                f"block {index} of the student is not like its teacher's",
                expected=f"the teacher's width, hidden width and parts ({', '.join(misfits[:3])})",
                hint="a narrower student learns states through a map instead: leave the copying out",
            )
        block.load_state_dict(theirs)
        copied += len(theirs)
    for name in ("embedding", "norm", "head"):
        part, theirs = getattr(student, name), getattr(teacher, name).state_dict()
        misfits = _misfits(part, theirs)
        fitting = {key: tensor for key, tensor in theirs.items() if key in part.state_dict() and key not in misfits}
        part.load_state_dict(fitting, strict=False)
        copied += len(fitting)
        afresh += [f"{name}.{key}" for key in misfits]
    return Copied(copied, tuple(afresh))


def _misfits(part: nn.Module, theirs: dict[str, Tensor]) -> list[str]:
    """the names of the tensors of a part that the teacher lacks, or has in another shape"""
    own = part.state_dict()
    return [key for key, tensor in own.items() if key not in theirs or theirs[key].shape != tensor.shape]
