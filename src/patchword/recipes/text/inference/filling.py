"""Predicts the words at [MASK] tokens."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.batching.assembly import add_special_tokens
from patchword.layers.heads.text import split_objectives
from patchword.recipes.text.inference.reader import Reader


@dataclass(frozen=True)
class Filling:
    word: str  # with ## in front if it continues a word
    probability: float
    sentence: str  # the text with the word inserted; other masks remain


@dataclass(frozen=True)
class Gap:
    """One [MASK] of a text: its character positions and the most probable words."""

    start: int
    end: int
    fillings: tuple[Filling, ...]

    def to_json(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "fillings": [vars(filling) for filling in self.fillings]}


@dataclass(frozen=True)
class MaskedText:
    """A text with its tokens, special tokens included. gaps: the characters of each mask. places: their tokens."""

    text: str
    ids: NDArray[np.int32]
    gaps: tuple[tuple[int, int], ...]
    places: tuple[int, ...]


def fill(reader: Reader, text: str, top: int = 5, pieces: bool = False) -> list[Gap]:
    """Predict the words at every [MASK]. Special tokens are skipped; probabilities are over the whole vocabulary.

    pieces: also return continuations of words (##ing); otherwise only if the mask follows a letter
    """
    return fill_masked(reader, masked_text(reader, text), top, pieces)


def masked_text(reader: Reader, text: str) -> MaskedText:
    """Tokenize a text with masks; check that the model can fill them."""
    require_words(reader)
    if reader.model.causal:
        raise UserError(
            f"the model in {reader.folder} is causal and cannot fill a mask",
            expected="a masked model, such as a BERT",
            got=f"{reader.model.card.model!r}, which is causal",
            hint=f'it can continue a text: `patchword generate {reader.folder} "The cat sat on"`',
        )
    mask = reader.tokenizer.require_mask()
    found = reader.tokenizer.encode_masked([text])[0]
    gaps = np.flatnonzero(found.ids == mask)
    if not len(gaps):
        name = reader.tokenizer.tokens([mask])[0]
        raise UserError(
            f"there is no {name} in the text", hint=f'put it in place of a word: "The {name} sat on the mat"'
        )
    ids, _ = add_special_tokens(reader.tokenizer, found.ids)
    if len(ids) > reader.max_length:
        expected = f"at most {reader.max_length} tokens, with special tokens"
        raise UserError("the text is longer than the maximum of the model", expected=expected, got=f"{len(ids):,}")
    spans = tuple((int(found.starts[gap]), int(found.ends[gap])) for gap in gaps)
    return MaskedText(text, ids, spans, tuple((gaps + len(reader.tokenizer.frame.before)).tolist()))


@torch.inference_mode()
def fill_masked(reader: Reader, masked: MaskedText, top: int, pieces: bool) -> list[Gap]:
    """Predict the words at the masks of a tokenized text, as `fill` does."""
    ids, places = torch.as_tensor(masked.ids).long()[None], torch.tensor(masked.places)
    scores = split_objectives(reader.model(Text(ids, predict_at=places).to(reader.form.device)))[0].float().cpu()
    return [_gap(reader, masked.text, gap, row, top, pieces) for gap, row in zip(masked.gaps, scores, strict=True)]


def filled(text: str, gaps: list[Gap], continues: str = "##") -> str:
    """Return the text with the most probable word at every mask."""
    for gap in reversed(gaps):
        text = put_in(text, (gap.start, gap.end), gap.fillings[0].word, continues)
    return text


def put_in(text: str, place: tuple[int, int], word: str, continues: str = "##") -> str:
    """Insert a word; a continuation piece is attached to the word before it."""
    before, after = text[: place[0]], text[place[1] :]
    if word.startswith(continues) and len(word) > len(continues):
        return before.rstrip() + word.removeprefix(continues) + after
    return before + word + after


def require_words(reader: Reader) -> None:
    if reader.head not in ("words", "pretraining"):
        raise UserError(
            f"the model in {reader.folder} has no language modelling head",
            expected="a run of bert-pretrain, or a masked language model's folder",
            got=f"the head {reader.head!r}",
            hint="a fine-tuned model or a sentence encoder does not have it; pretrain a model with "
            "`patchword train bert-pretrain --set text=FILE tokenizer=FOLDER`",
        )


def _gap(reader: Reader, text: str, place: tuple[int, int], scores: Tensor, top: int, pieces: bool) -> Gap:
    probabilities = scores.softmax(-1)[: reader.tokenizer.vocabulary]  # a padded embedding has rows without a word
    allowed = torch.ones_like(probabilities, dtype=torch.bool)
    allowed[list(reader.tokenizer.specials)] = False
    continues = torch.as_tensor(reader.tokenizer.continues)
    if reader.tokenizer.spaced and not text[: place[0]].strip():
        continues = torch.zeros_like(continues)  # the first word of a text has no leading space
    if not pieces and not text[: place[0]][-1:].isalnum():
        allowed &= ~continues
    best = probabilities.masked_fill(~allowed, -1).topk(min(top, int(allowed.sum())))
    written = zip(reader.tokenizer.written(best.indices), continues[best.indices].tolist(), strict=True)
    words = [f"##{word}" if goes_on else word for word, goes_on in written]
    pairs = zip(words, best.values.tolist(), strict=True)
    return Gap(*place, tuple(Filling(word, probability, put_in(text, place, word)) for word, probability in pairs))
