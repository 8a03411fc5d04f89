"""Objectives of text models: classes, labels, numbers, tags, spans, and the pretraining of BERT.

Every objective returns the contribution of a micro-batch to the mean loss of its batch, so that micro-batches add up.
"""

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.text import Text
from patchword.layers import TokenLosses, token_losses
from patchword.objectives.classification import Outcome


class Piece(Protocol):
    """Texts with targets. weight: the number of terms in the mean of the loss."""

    @property
    def text(self) -> Text: ...
    @property
    def answers(self) -> Tensor:
        """Return (texts, ...): the target of each text, on the device."""
        ...

    @property
    def text_weights(self) -> Tensor | None:
        """Return (texts,): the weight of each text, 1 on average; None if all are equal."""
        ...

    @property
    def flat_targets(self) -> Tensor:
        """Return the targets of all tokens, (tokens,) on the device."""
        ...

    @property
    def asked_targets(self) -> Tensor:
        """Return the targets of the tokens at `predict_at` only."""
        ...

    @property
    def weight(self) -> int: ...
    def __len__(self) -> int: ...


Forward = Callable[[Text], Tensor]


def _summed(losses: Tensor, piece: Piece) -> Tensor:
    """Return the sum of the losses, weighted by the weights of the texts: (texts,) -> ()."""
    return losses.sum() if piece.text_weights is None else losses @ piece.text_weights


class TextClasses:
    """One class per text. weights: (classes,) class weights, for unbalanced data."""

    def __init__(self, model: Forward, weights: Tensor | None = None, smoothing: float = 0.0) -> None:
        self.model, self.weights, self.smoothing = model, weights, smoothing

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores, labels, weights = self.model(piece.text).float(), piece.answers, self.weights
        losses = F.cross_entropy(scores, labels, weights, reduction="none", label_smoothing=self.smoothing)
        total = len(batch) if weights is None else weights[batch.answers].sum()
        return Outcome(_summed(losses, piece) / total, (scores.detach().argmax(-1) == labels).sum())


class TextLabels:
    """Any number of labels per text, each a binary decision; a text is correct if all of its labels are."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores, labels = self.model(piece.text).float(), piece.answers
        losses = F.binary_cross_entropy_with_logits(scores, labels.float(), reduction="none").mean(-1)
        right = ((scores.detach() > 0) == labels.bool()).all(-1).sum()
        return Outcome(_summed(losses, piece) / len(batch), right)


class TextNumbers:
    """Regression of one number per text by the squared error; no prediction counts as correct."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores = self.model(piece.text).float()[:, 0]
        losses = F.mse_loss(scores, piece.answers.float(), reduction="none")
        return Outcome(_summed(losses, piece) / len(batch), torch.full((), torch.nan, device=scores.device))


class TokenTags:
    """One class per token that has a target."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores = self.model(piece.text).float().flatten(0, 1)
        targets = piece.flat_targets
        summed = F.cross_entropy(scores, targets, reduction="sum")  # targets of -100 are ignored
        return Outcome(summed / batch.weight, (scores.detach().argmax(-1) == targets).sum())


class AnswerSpan:
    """The first and the last token of an answer, as two classifications. A text is correct if both are."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        text, labels = piece.text, piece.answers
        scores = padded_scores(self.model(text), text)
        summed = F.cross_entropy(scores[..., 0], labels[:, 0], reduction="sum")
        summed = summed + F.cross_entropy(scores[..., 1], labels[:, 1], reduction="sum")
        right = (scores.detach().argmax(1) == labels).all(-1).sum()
        return Outcome(summed / (2 * len(batch)), right)


def padded_scores(scores: Tensor, text: Text) -> Tensor:
    """Unpack and mask: (batch, tokens, 2), padded or packed -> (texts, max_seqlen, 2) float32.

    Padding gets the lowest finite value.
    """
    mask = text.mask
    if text.packed is not None:
        scores, mask = text.packed.pad(scores), text.packed.mask
    scores = scores.float()
    return scores if mask is None else scores.masked_fill(~mask[..., None], torch.finfo(torch.float32).min)


WordOutput = Tensor | TokenLosses


class MaskedWords:
    """Masked language modelling and, if the model has a head for it, next-sentence prediction.

    The two losses are added, as in BERT. Correct predictions are words. The model gets the targets and may return
    losses instead of logits, to save memory; a model that returns logits works as well.
    """

    def __init__(self, model: Callable[[Text], WordOutput | tuple[WordOutput, Tensor]]) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        targets = piece.asked_targets
        answer = self.model(piece.text._replace(targets=targets))
        words, following = (answer, None) if isinstance(answer, Tensor | TokenLosses) else answer
        guessed = token_losses(words, targets) if isinstance(words, Tensor) else words
        loss = guessed.losses.sum() / batch.weight
        if following is not None:
            loss = loss + F.cross_entropy(following.float(), piece.answers, reduction="sum") / len(batch)
        return Outcome(loss, (guessed.words == targets).sum())
