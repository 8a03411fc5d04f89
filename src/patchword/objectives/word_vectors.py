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
    scores, weight: (blocks, predictions, true + count), the false ones last; a pair that is not there weighs nothing.
    """

    inputs: Tensor
    outputs: Tensor
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
    return Change(error @ outputs, error.transpose(1, 2) @ inputs, scores, weight, centres)


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
    change = error[..., :1] * true + error[..., 1:] @ false
    back = torch.cat([error[..., :1] * mean, error[..., 1:].transpose(1, 2) @ mean], 1)
    return Change(near.transpose(1, 2) @ change, back, scores, weight, 1)


OBJECTIVES = {"skip-gram": skip_gram, "cbow": cbow}


@torch.no_grad()
def step(
    tables: Tables, kind: Kind, around: Tensor, near: Tensor, false: Tensor, negatives: int, rate: float
) -> Change:
    """Changes the tables in place. What a step adds to one row is the sum over all pairs the word is in."""
    centres = middle(around, near)
    predicted = torch.cat([centres, false], 1)
    differs = (centres[:, :, None] != false[:, None]).float()
    width = tables.inputs.shape[1]
    inputs = tables.inputs.index_select(0, around.reshape(-1)).view(*around.shape, width)
    outputs = tables.outputs.index_select(0, predicted.view(-1)).view(*predicted.shape, width)
    change = OBJECTIVES[kind](inputs, outputs, near, differs, negatives)
    tables.inputs.index_add_(0, around.reshape(-1), change.inputs.view(-1, width), alpha=rate)
    tables.outputs.index_add_(0, predicted.view(-1), change.outputs.view(-1, width), alpha=rate)
    return change
