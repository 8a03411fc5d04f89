"""Distillation losses on hidden states and attention: each student layer is paired with one teacher layer.

Losses are averaged over tokens without padding. (The code of TinyBERT and MobileBERT includes padding in its means.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.objectives.distillation.distillation import ByTokens, Part, Recorded

NOTHING_READ = -1e2  # TinyBERT treats scores up to this value as masked

Layers = tuple[int, ...]  # per layer of the student, the number of its teacher layer, counted from 1


def even_layers(student: int, teacher: int) -> Layers:
    """Pair the layers as TinyBERT does: with every k-th layer of the teacher, up to its last one.

    student, teacher: number of layers.
    """
    if teacher % student:
        divisors = [depth for depth in range(1, teacher + 1) if teacher % depth == 0]
        raise UserError(
            f"{student} student layers cannot be paired evenly with {teacher} teacher layers",
            expected=f"a student of {', '.join(map(str, divisors))} layers, or an explicit list of teacher layers",
        )
    return tuple(range(teacher // student, teacher + 1, teacher // student))


@dataclass(frozen=True)
class SameStates(ByTokens):
    """TinyBERT's hidden-state loss: squared errors of the states, with the first block's input, summed over the pairs.

    fit: a linear map from the student's width to the teacher's. All layers use it, and it is trained with the student.
    """

    layers: Layers
    fit: Callable[[Tensor], Tensor]
    reads: Part = field(default="states", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        pairs = enumerate((0, *self.layers))
        errors = [_squares(self.fit(student.states[own]), teacher.states[other]) for own, other in pairs]
        return torch.stack([_over_tokens(error, student.there) for error in errors]).sum()


@dataclass(frozen=True)
class SameDirection(ByTokens):
    """DistilBERT's cosine loss: 1 - cosine similarity of the last hidden states; both models have the same width."""

    reads: Part = field(default="states", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        own, other = student.states[-1].float(), teacher.states[-1].float()
        return _over_tokens(1 - F.cosine_similarity(own, other, dim=-1), student.there)


@dataclass(frozen=True)
class SameScores(ByTokens):
    """TinyBERT's attention loss: squared errors of the attention scores before the softmax, summed over the pairs.

    Errors are averaged over the heads; head h of the student is compared with head h of the teacher.
    """

    layers: Layers
    reads: Part = field(default="attention", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        total = []
        for own, other in enumerate(self.layers):
            scores, theirs = student.attention[own].scores.float(), teacher.attention[other - 1].scores.float()
            scores, theirs = (part.masked_fill(part <= NOTHING_READ, 0.0) for part in (scores, theirs))
            squares = _squares(scores, theirs, student.queries).mean(1)
            total.append(_over_tokens(squares, student.queries))
        return torch.stack(total).sum()


@dataclass(frozen=True)
class SameFeatures(ByTokens):
    """MobileBERT's feature loss: squared errors of the states after a LayerNorm without weights, mean over pairs."""

    layers: Layers
    reads: Part = field(default="states", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        errors = []
        for own, other in enumerate(self.layers, 1):
            pair = (student.states[own].float(), teacher.states[other].float())
            normed, theirs = (F.layer_norm(states, states.shape[-1:]) for states in pair)
            errors.append(_over_tokens(_squares(normed, theirs), student.there))
        return torch.stack(errors).mean()


@dataclass(frozen=True)
class SameAttention(ByTokens):
    """MobileBERT's attention loss: KL(teacher || student) of the attention weights, mean over heads and pairs."""

    layers: Layers
    reads: Part = field(default="attention", init=False)

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor:
        total = []
        for own, other in enumerate(self.layers):
            pair = (student.attention[own].scores.float(), teacher.attention[other - 1].scores.float())
            log_probs, target = (scores.log_softmax(-1).clamp(min=-1e30) for scores in pair)
            divergence = (target.exp() * (target - log_probs)).sum(-1).mean(1)
            total.append(_over_tokens(divergence, student.queries))
        return torch.stack(total).mean()


def check_pairs(student: Sequence[int], teacher: Sequence[int], layers: Layers) -> None:
    """Check before training that the layers and their heads can be paired.

    student, teacher: the number of heads of each layer; 1 everywhere if attention is not distilled.
    """
    if len(layers) != len(student) or not all(1 <= layer <= len(teacher) for layer in layers):
        raise UserError(
            "the list of teacher layers does not fit",
            expected=f"{len(student)} numbers from 1 to {len(teacher)}, one per student layer",
            got=list(layers),
        )
    for own, other in enumerate(layers):
        if student[own] != teacher[other - 1]:
            raise UserError(
                "attention can only be distilled between layers with the same number of heads",
                expected=f"{teacher[other - 1]} heads, as the teacher has",
                got=student[own],
                hint="give the student as many heads, or do not distil attention",
            )


def _squares(own: Tensor, other: Tensor, keys: Tensor | None = None) -> Tensor:
    """Return the mean squared error over the last axis. keys: (batch, keys), False for padding."""
    squares = (own.float() - other.float()).square()
    if keys is None:
        return squares.mean(-1)
    there = keys[:, None, None].float()
    return (squares * there).sum(-1) / there.sum(-1)


def _over_tokens(values: Tensor, there: Tensor | None) -> Tensor:
    """(batch, tokens) -> (): the mean over the tokens that are not padding."""
    return values.mean() if there is None else values.masked_fill(~there, 0.0).sum() / there.sum()
