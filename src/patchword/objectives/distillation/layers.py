"""What a student learns from a teacher's layers, one paired with one: states and attention.

The mean is over tokens: padding does not count. (TinyBERT's and MobileBERT's own code takes padding into its means.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.objectives.distillation.distillation import ByTokens, Part, Seen

NOTHING_READ = -1e2  # scores from here down are masks, in TinyBERT

Layers = tuple[int, ...]  # for each layer of the student, the teacher's that it is paired with, counted from 1


def even_layers(student: int, teacher: int) -> Layers:
    """TinyBERT's pairs: every k-th layer of the teacher, the last with the last. student, teacher: how many layers."""
    if teacher % student:
        divisors = [depth for depth in range(1, teacher + 1) if teacher % depth == 0]
        raise UserError(
            f"{student} layers do not pair evenly with the teacher's {teacher}",
            expected=f"a student of {', '.join(map(str, divisors))} layers, or the pairs themselves",
        )
    return tuple(range(teacher // student, teacher + 1, teacher // student))


@dataclass(frozen=True)
class SameStates(ByTokens):
    """TinyBERT: the squared error of states, what enters the first block included, summed over the pairs.

    fit: one map from the student's width to the teacher's, shared by all layers and trained with the student.
    """

    layers: Layers
    fit: Callable[[Tensor], Tensor]
    reads: Part = field(default="states", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        pairs = enumerate((0, *self.layers))
        errors = [_squares(self.fit(student.states[own]), teacher.states[other]) for own, other in pairs]
        return torch.stack([_over_tokens(error, student.there) for error in errors]).sum()


@dataclass(frozen=True)
class SameDirection(ByTokens):
    """DistilBERT: 1 - cosine of the last states, which have one width."""

    reads: Part = field(default="states", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        own, other = student.states[-1].float(), teacher.states[-1].float()
        return _over_tokens(1 - F.cosine_similarity(own, other, dim=-1), student.there)


@dataclass(frozen=True)
class SameScores(ByTokens):
    """TinyBERT: the squared error of attention before the softmax, head by head, summed over the pairs."""

    layers: Layers
    reads: Part = field(default="attention", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        total = []
        for own, other in enumerate(self.layers):
            scores, theirs = student.attention[own].scores.float(), teacher.attention[other - 1].scores.float()
            scores, theirs = (part.masked_fill(part <= NOTHING_READ, 0.0) for part in (scores, theirs))
            squares = _squares(scores, theirs, student.queries).mean(1)
            total.append(_over_tokens(squares, student.queries))
        return torch.stack(total).sum()


@dataclass(frozen=True)
class SameFeatures(ByTokens):
    """MobileBERT: the squared error of states after a norm without weights on both sides, the mean of the pairs."""

    layers: Layers
    reads: Part = field(default="states", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        errors = []
        for own, other in enumerate(self.layers, 1):
            pair = (student.states[own].float(), teacher.states[other].float())
            normed, theirs = (F.layer_norm(states, states.shape[-1:]) for states in pair)
            errors.append(_over_tokens(_squares(normed, theirs), student.there))
        return torch.stack(errors).mean()


@dataclass(frozen=True)
class SameAttention(ByTokens):
    """MobileBERT: KL(teacher || student) of where each head looks, the mean of heads and pairs."""

    layers: Layers
    reads: Part = field(default="attention", init=False)

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor:
        total = []
        for own, other in enumerate(self.layers):
            pair = (student.attention[own].scores.float(), teacher.attention[other - 1].scores.float())
            said, told = (scores.log_softmax(-1).clamp(min=-1e30) for scores in pair)
            divergence = (told.exp() * (told - said)).sum(-1).mean(1)
            total.append(_over_tokens(divergence, student.queries))
        return torch.stack(total).mean()


def check_pairs(student: Sequence[int], teacher: Sequence[int], layers: Layers) -> None:
    """Before anything is trained. student, teacher: the heads of each layer, counted where attention is learned."""
    if len(layers) != len(student) or not all(1 <= layer <= len(teacher) for layer in layers):
        raise UserError(
            "the layers do not pair with the teacher's",
            expected=f"{len(student)} numbers from 1 to {len(teacher)}",
            got=list(layers),
        )
    for own, other in enumerate(layers):
        if student[own] != teacher[other - 1]:
            raise UserError(
                "attention can be learned head by head only",
                expected=f"{teacher[other - 1]} heads, as the teacher has",
                got=student[own],
                hint="train the student with as many heads, or leave attention out",
            )


def _squares(own: Tensor, other: Tensor, keys: Tensor | None = None) -> Tensor:
    """the mean of the squares over the last axis. keys: (batch, keys), True where there is one"""
    squares = (own.float() - other.float()).square()
    if keys is None:
        return squares.mean(-1)
    there = keys[:, None, None].float()
    return (squares * there).sum(-1) / there.sum(-1)


def _over_tokens(values: Tensor, there: Tensor | None) -> Tensor:
    """(batch, tokens) -> (), the mean over the tokens that are there"""
    return values.mean() if there is None else values.masked_fill(~there, 0.0).sum() / there.sum()
