"""What a text model learns: classes, labels, numbers, tags, spans; and the words and sentences of pretraining.

Every objective answers a piece's share of the mean loss of its batch, so that pieces add up to the whole.
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
    """Texts with what is to be learned from them. weight: the terms of the mean of the loss."""

    @property
    def text(self) -> Text: ...
    @property
    def answers(self) -> Tensor:
        """(texts, ...) what is true of each, on the device"""
        ...

    @property
    def text_weights(self) -> Tensor | None:
        """(texts,) how much each counts, 1 on average over all; None: alike"""
        ...

    @property
    def flat_targets(self) -> Tensor:
        """(tokens,) on the device"""
        ...

    @property
    def asked_targets(self) -> Tensor:
        """those of the asked tokens alone"""
        ...

    @property
    def weight(self) -> int: ...
    def __len__(self) -> int: ...


Forward = Callable[[Text], Tensor]


def _summed(losses: Tensor, piece: Piece) -> Tensor:
    """(texts,) -> (), each as much as it counts"""
    return losses.sum() if piece.text_weights is None else losses @ piece.text_weights


class TextClasses:
    """One class for each text. weights: (classes,) how much each counts, against a lack of balance."""

    def __init__(self, model: Forward, weights: Tensor | None = None, smoothing: float = 0.0) -> None:
        self.model, self.weights, self.smoothing = model, weights, smoothing

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores, labels, weights = self.model(piece.text).float(), piece.answers, self.weights
        losses = F.cross_entropy(scores, labels, weights, reduction="none", label_smoothing=self.smoothing)
        total = len(batch) if weights is None else weights[batch.answers].sum()
        return Outcome(_summed(losses, piece) / total, (scores.detach().argmax(-1) == labels).sum())


class TextLabels:
    """Any number of labels for each text, each by itself; right is a text all of whose labels are."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores, labels = self.model(piece.text).float(), piece.answers
        losses = F.binary_cross_entropy_with_logits(scores, labels.float(), reduction="none").mean(-1)
        right = ((scores.detach() > 0) == labels.bool()).all(-1).sum()
        return Outcome(_summed(losses, piece) / len(batch), right)


class TextNumbers:
    """One number for each text, by the squared error; nothing is right or wrong."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores = self.model(piece.text).float()[:, 0]
        losses = F.mse_loss(scores, piece.answers.float(), reduction="none")
        return Outcome(_summed(losses, piece) / len(batch), torch.full((), torch.nan, device=scores.device))


class TokenTags:
    """A class for each token that has a target."""

    def __init__(self, model: Forward) -> None:
        self.model = model

    def __call__(self, piece: Piece, batch: Piece) -> Outcome:
        scores = self.model(piece.text).float().flatten(0, 1)
        targets = piece.flat_targets
        summed = F.cross_entropy(scores, targets, reduction="sum")  # -100 is left out
        return Outcome(summed / batch.weight, (scores.detach().argmax(-1) == targets).sum())


class AnswerSpan:
    """Where an answer begins and where it ends; right is a text of which both are."""

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
    """(batch, tokens, 2) or in a row -> (texts, longest, 2) float32, lowest where a text has no token"""
    mask = text.mask
    if text.packed is not None:
        scores, mask = text.packed.pad(scores), text.packed.mask
    scores = scores.float()
    return scores if mask is None else scores.masked_fill(~mask[..., None], torch.finfo(torch.float32).min)


MLMTransform = Tensor | TokenLosses


class MaskedWords:
    """The words that were masked, and where the model has a head for it whether the second sentence follows.

    The two losses are added, as BERT did. Right are words. The model is told the targets, so that it need not hold the
    scores of all words; one that answers with scores nevertheless is understood.
    """

    def __init__(self, model: Callable[[Text], MLMTransform | tuple[MLMTransform, Tensor]]) -> None:
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
