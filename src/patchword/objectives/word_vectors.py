"""Skip-gram and CBOW with negative sampling (Mikolov et al., 2013): one step of gradient descent, written out.

Autograd would keep a gradient of the size of both tables; here only the rows of a step are touched. Of each kind of
pair with score s, d log sigmoid(s) / ds = 1 - sigmoid(s) and d log sigmoid(-s) / ds = -sigmoid(s): the label less the
sigmoid, times the other vector.

around: (blocks, words) words of a block, its centres in the middle. near: (blocks, centres, words), 1 where a word is
in the window of a centre. false: (blocks, count) words that stand for `negatives` false ones of each pair, so each
has a weight of negatives / count: the gradient that is expected is that of drawing anew for every pair.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Kind = Literal["skip-gram", "cbow"]
_FARTHEST = 4.0  # of rate times curves. These sum up as if all vectors of a step had one direction, which they have not


class Tables(NamedTuple):
    """inputs: the vectors that are wanted. outputs: those of words that are predicted. Both (words, width) float32."""

    inputs: Tensor
    outputs: Tensor

    @classmethod
    def start(cls, words: int, width: int, seed: int) -> "Tables":
        """U(-0.5, 0.5) / width and zero, as word2vec's program has it."""
        drawn = torch.rand(words, width, generator=torch.Generator().manual_seed(seed))
        return cls((drawn - 0.5) / width, torch.zeros(words, width))


class Change(NamedTuple):
    """What a step adds to rows of the tables, at a rate of 1.

    inputs: (blocks, words, width). outputs: (blocks, centres + count, width).
    input_curves: (blocks, words, 1), output_curves: (blocks, centres + count, 1): of each row, the sum over its pairs
    of weight * |label - sigmoid| * |other vector| ** 2. The second derivative, with sigmoid * (1 - sigmoid) instead,
    is never above it, and would vanish where a score is large and wrong.
    scores, weight: (blocks, predictions, true + count), the false ones last; a pair that is not there weighs nothing.
    """

    inputs: Tensor
    outputs: Tensor
    input_curves: Tensor
    output_curves: Tensor
    scores: Tensor
    weight: Tensor
    true: int

    def loss(self) -> float:
        """-log sigmoid of what was true and of the negated false ones: their mean over the true."""
        signs = torch.ones(self.scores.shape[-1])
        signs[self.true :] = -1
        total = -(F.logsigmoid(self.scores * signs) * self.weight).sum()
        return float(total / self.weight[..., : self.true].sum().clamp(min=1))


def middle(around: Tensor, near: Tensor) -> Tensor:
    """The centres: (blocks, centres)."""
    window = (around.shape[1] - near.shape[1]) // 2
    return around[:, window : window + near.shape[1]]


def squares(vectors: Tensor) -> Tensor:
    """(..., width) -> (..., 1): squared lengths"""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length.square_()


def skip_gram(inputs: Tensor, outputs: Tensor, near: Tensor, differs: Tensor, negatives: int) -> Change:
    """Each word of a window predicts the centre.

    inputs: (blocks, words, width). outputs: (blocks, centres + count, width), the false ones last.
    differs: (blocks, centres, count), 1 where a false word is not the centre itself.
    """
    pairs, centres = near.transpose(1, 2), near.shape[1]
    weight = torch.cat([pairs, pairs @ differs * (negatives / differs.shape[2])], 2)
    scores = inputs @ outputs.transpose(1, 2).contiguous()  # many small products of a view are slow
    error = torch.sigmoid(scores)
    error[..., :centres] -= 1
    error *= -weight
    size = error.abs()
    curves = size @ squares(outputs), size.transpose(1, 2) @ squares(inputs)
    return Change(error @ outputs, error.transpose(1, 2) @ inputs, *curves, scores, weight, centres)


def cbow(inputs: Tensor, outputs: Tensor, near: Tensor, differs: Tensor, negatives: int) -> Change:
    """The mean of a window predicts the centre.

    As in word2vec's program, each word of the window gets the whole gradient of the mean, not its share of it.
    """
    centres = near.shape[1]
    true, false = outputs[:, :centres], outputs[:, centres:]
    size = near.sum(2, keepdim=True)
    there = (size > 0).float()
    mean = near @ inputs / size.clamp(min=1)
    weight = torch.cat([there, there * differs * (negatives / differs.shape[2])], 2)
    scores = torch.cat([(mean * true).sum(2, keepdim=True), mean @ false.transpose(1, 2).contiguous()], 2)
    error = torch.sigmoid(scores)
    error[..., :1] -= 1
    error *= -weight
    forward, back = _cbow_sums(error, mean, outputs)
    curves, back_curves = _cbow_sums(error.abs(), squares(mean), squares(outputs))
    inside = near.transpose(1, 2)
    return Change(inside @ forward, back, inside @ curves, back_curves, scores, weight, 1)


def _cbow_sums(error: Tensor, means: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """What the predicted words do to each mean, and the means to each predicted word."""
    true, false = error[..., :1], error[..., 1:]
    forward = true * outputs[:, : means.shape[1]] + false @ outputs[:, means.shape[1] :]
    return forward, torch.cat([true * means, false.transpose(1, 2) @ means], 1)


OBJECTIVES = {"skip-gram": skip_gram, "cbow": cbow}


@torch.no_grad()
def step(
    tables: Tables,
    kind: Kind,
    around: Tensor,
    near: Tensor,
    false: Tensor,
    negatives: int,
    crowd: tuple[Tensor, Tensor],
    rate: float,
) -> Change:
    """Changes the tables in place. What a step adds to one row is the sum over its pairs, if not too far.

    crowd: (words,) for inputs and outputs: how many steps change a row at the same time, this one included. With 0, a
    row goes any distance.
    """
    centres = middle(around, near)
    predicted = torch.cat([centres, false], 1)
    differs = (centres[:, :, None] != false[:, None]).float()
    width = tables.inputs.shape[1]
    inputs = tables.inputs.index_select(0, around.reshape(-1)).view(*around.shape, width)
    outputs = tables.outputs.index_select(0, predicted.view(-1)).view(*predicted.shape, width)
    change = OBJECTIVES[kind](inputs, outputs, near, differs, negatives)
    _add(tables.inputs, around.reshape(-1), change.inputs, change.input_curves, crowd[0], rate)
    _add(tables.outputs, predicted.view(-1), change.outputs, change.output_curves, crowd[1], rate)
    return change


def _add(table: Tensor, words: Tensor, change: Tensor, curve: Tensor, crowd: Tensor, rate: float) -> None:
    """A row goes as far as its pairs push it, but not so far that they would push it back harder.

    Its pairs see one value and all push at once. One after the other, each would push less than the one before, as
    the row has moved: by rate times its curve. Where rate times all the curves is above a bound, the sum would
    overshoot and grow from step to step, so the row goes only as far as the bound lets it, in the same direction.
    """
    rows, place = words.unique(return_inverse=True)
    curves = curve.new_zeros(len(rows)).index_add_(0, place, curve.view(-1))
    share = (curves * crowd[rows] * (rate / _FARTHEST)).clamp_(min=1).reciprocal_()
    table.index_add_(0, words, change.view(-1, table.shape[1]) * share[place, None], alpha=rate)
