"""Skip-gram and CBOW with negative sampling (Mikolov et al., 2013): one step of gradient descent, no autograd.

Autograd would store a gradient of the size of both tables; here only the rows of a step are changed. For a pair with
score s, d log sigmoid(s) / ds = 1 - sigmoid(s) and d log sigmoid(-s) / ds = -sigmoid(s): the label less the
sigmoid, times the other vector.

around: (blocks, words) words of a block, its centres in the middle. near: (blocks, centres, words), 1 where a word is
in the window of a centre. false: (blocks, count) negative words, shared by all pairs, in the place of `negatives` per
pair, so each has the weight negatives / count: the expected gradient is that of independent samples per pair.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Kind = Literal["skip-gram", "cbow"]
_FARTHEST = 4.0  # bound of rate * curvature; the sum of the curvatures is an upper estimate


class Tables(NamedTuple):
    """The tables of vectors, each (words, width) float32.

    inputs: the word vectors. outputs: the vectors of predicted words.
    """

    inputs: Tensor
    outputs: Tensor

    @classmethod
    def start(cls, words: int, width: int, seed: int) -> "Tables":
        """Initialize with U(-0.5, 0.5) / width and zeros, as word2vec does."""
        drawn = torch.rand(words, width, generator=torch.Generator().manual_seed(seed))
        return cls((drawn - 0.5) / width, torch.zeros(words, width))


class Change(NamedTuple):
    """The updates of the rows of both tables, at a learning rate of 1.

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
        """Return the negative-sampling loss, averaged over the true pairs."""
        signs = torch.ones(self.scores.shape[-1])
        signs[self.true :] = -1
        total = -(F.logsigmoid(self.scores * signs) * self.weight).sum()
        return float(total / self.weight[..., : self.true].sum().clamp(min=1))


def middle(around: Tensor, near: Tensor) -> Tensor:
    """Return the centre words: (blocks, centres)."""
    window = (around.shape[1] - near.shape[1]) // 2
    return around[:, window : window + near.shape[1]]


def squares(vectors: Tensor) -> Tensor:
    """Return squared lengths: (..., width) -> (..., 1)."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length.square_()


def skip_gram(inputs: Tensor, outputs: Tensor, near: Tensor, differs: Tensor, negatives: int) -> Change:
    """Skip-gram: each word of a window predicts the centre.

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
    """CBOW: the mean of a window predicts the centre.

    As in word2vec, each word of the window gets the whole gradient of the mean, not a fraction of it.
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
    """Return the gradients of the means and of the predicted words."""
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
    """Update the tables in place. The update of a row is the bounded sum over its pairs.

    crowd: (words,) for inputs and outputs: the number of concurrent steps that change a row, this one included. With 0
    the update is not bounded.
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
    """Bound the update of each row, so that the sum over its pairs does not overshoot.

    All pairs of a step use the same value of the row. In sequence, each pair would change it less than the one before,
    by rate * curvature. If rate times the summed curvature is above a bound, the sum would overshoot and grow from step
    to step, so the update is scaled down to the bound, in the same direction.
    """
    rows, place = words.unique(return_inverse=True)
    curves = curve.new_zeros(len(rows)).index_add_(0, place, curve.view(-1))
    share = (curves * crowd[rows] * (rate / _FARTHEST)).clamp_(min=1).reciprocal_()
    table.index_add_(0, words, change.view(-1, table.shape[1]) * share[place, None], alpha=rate)
