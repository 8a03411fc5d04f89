"""ELMo's pretraining objective: predict the next word forward and the previous word backward."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from patchword.core.text import Text
from patchword.objectives.classification import Outcome


class Head(Protocol):
    @property
    def words(self) -> nn.Linear:
        """The linear layer from the state of one direction to the logits of all words."""
        ...


class BidirectionalModel(Protocol):
    @property
    def head(self) -> Head: ...
    def encode(self, text: Text) -> Sequence[Tensor]:
        """Return the states of all layers, each (batch, tokens, 2 * width); the last one is the input of the head."""
        ...


class WordBatch(Protocol):
    """Texts with the word id of every token. weight: the number of words to predict in both directions."""

    @property
    def text(self) -> Text: ...
    @property
    def flat_targets(self) -> Tensor:
        """Return the word ids of all tokens of the batch, (tokens,) on the device of the model."""
        ...

    @property
    def followed(self) -> Tensor:
        """Return the indices, in the flattened batch, of the tokens followed by another token of their text."""
        ...

    @property
    def weight(self) -> int: ...


class Softmax(Protocol):
    """A loss over the vocabulary."""

    def __call__(self, vectors: Tensor, targets: Tensor, words: nn.Linear) -> Outcome:
        """Return the summed loss and the number of correct predictions. vectors: (count, width); targets: (count,)."""
        ...


class FullSoftmax:
    """Cross-entropy over all words. It computes at most `scores` logits at a time, which bounds the memory.

    If the batch needs several chunks, their logits are recomputed in the backward pass (Chen et al., 2016).
    """

    def __init__(self, scores: int = 2**27) -> None:
        self.scores = scores

    def __call__(self, vectors: Tensor, targets: Tensor, words: nn.Linear) -> Outcome:
        size = max(1, self.scores // words.out_features)
        if len(targets) <= size:
            return self._outcome(vectors, targets, words)
        chunks = zip(vectors.split(size), targets.split(size), strict=True)
        outcomes = [
            checkpoint(self._outcome, *chunk, words, use_reentrant=False, preserve_rng_state=False) for chunk in chunks
        ]
        losses, right = zip(*outcomes, strict=True)
        return Outcome(torch.stack(losses).sum(), torch.stack(right).sum())

    def _outcome(self, vectors: Tensor, targets: Tensor, words: nn.Linear) -> Outcome:
        scores = words(vectors).float()
        loss = F.cross_entropy(scores, targets, reduction="sum")
        return Outcome(loss, (scores.detach().argmax(-1) == targets).sum())


class Candidates(NamedTuple):
    """Negative words of a sampled softmax.

    words: (count,) the sampled ids; duplicates count once. chances: (vocabulary,) the probability of each word to be
    sampled at least once.
    """

    words: Tensor
    chances: Tensor


class SampledSoftmax:
    """Sampled softmax: `count` negative words per call, used at all positions (Jean et al., 2015).

    Word ids are ordered by frequency; id k is sampled with the probability log((k + 2) / (k + 1)) / log(words + 1). The
    log-probability of being sampled is subtracted from each logit. A prediction counts as correct if the true word has
    a higher logit than all sampled words.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, vectors: Tensor, targets: Tensor, words: nn.Linear) -> Outcome:
        return sampled(vectors, targets, words, self.draw(words.out_features, vectors.device))

    def draw(self, vocabulary: int, device: torch.device) -> Candidates:
        """Sample by the inverse of the cumulative distribution function: floor((words + 1) ** u) - 1."""
        uniform = torch.rand(self.count, device=device, dtype=torch.float64)
        words = ((vocabulary + 1) ** uniform).long() - 1
        rank = torch.arange(vocabulary, device=device)
        each = (1 / (rank + 1)).log1p() / math.log(vocabulary + 1)
        return Candidates(words.clamp(0, vocabulary - 1), -(self.count * (-each).log1p()).expm1())


def sampled(vectors: Tensor, targets: Tensor, words: nn.Linear, drawn: Candidates) -> Outcome:
    """Return the loss of the softmax over the true word and the sampled words. A duplicate counts once."""
    others = drawn.words.sort().values
    again = others.diff(prepend=others.new_full((1,), -1)) == 0
    rows = torch.cat([targets, others])
    weight, lowered = words.weight[rows], drawn.chances.log()[rows]
    bias = -lowered if words.bias is None else words.bias[rows] - lowered
    count = len(targets)
    true = (vectors * weight[:count]).sum(-1).float() + bias[:count]
    against = F.linear(vectors, weight[count:]).float() + bias[count:]
    against = against.masked_fill(again | (others == targets[:, None]), -torch.inf)
    scores = torch.cat([true[:, None], against], 1)
    first = torch.zeros_like(targets)
    return Outcome(F.cross_entropy(scores, first, reduction="sum"), (scores.detach().argmax(-1) == 0).sum())


class BidirectionalLM:
    """ELMo's loss: the mean cross-entropy over the predictions of both directions. Padding does not count."""

    def __init__(self, model: BidirectionalModel, softmax: Softmax | None = None) -> None:
        self.model, self.softmax = model, softmax or FullSoftmax()

    def __call__(self, piece: WordBatch, batch: WordBatch) -> Outcome:
        after, before = self.both_directions(piece)
        return Outcome((after.loss + before.loss) / batch.weight, after.right + before.right)

    def both_directions(self, piece: WordBatch) -> tuple[Outcome, Outcome]:
        """Return the summed losses of both directions: next words from the forward states, previous from the backward.

        Each state has a forward half and a backward half, each (tokens, width) in the flattened batch.
        """
        forwards, backwards = self.model.encode(piece.text)[-1].flatten(0, 1).chunk(2, -1)
        place, words = piece.followed, piece.flat_targets
        after = self.softmax(forwards[place], words[place + 1], self.model.head.words)
        before = self.softmax(backwards[place + 1], words[place], self.model.head.words)
        return after, before
