"""Attention of a text model: from token to token, per layer and head."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchword.analysis.attention.distance import distances
from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, layers, readout_row
from patchword.analysis.attention.relevance import relevance_rows
from patchword.analysis.attention.rollout import rollout_rows
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.text import Text
from patchword.inspection.attention_options import (
    PREDICTED,
    AttentionOptions,
    chosen_heads,
    chosen_layers,
    class_number,
)
from patchword.recipes.text.inference.reader import Reader


@dataclass(frozen=True)
class TextLayerLook:
    number: int  # counted from 1, as are the heads
    heads: tuple[int, ...]
    weights: Tensor  # (heads, query tokens, key tokens)
    distance: Tensor  # (heads,) in tokens


@dataclass(frozen=True)
class TextAttention:
    """The attention of a model over a text. rollout: (tokens, tokens). relevance: (tokens,) for the class `about`.

    words: the tokens as a figure names them, `##` before the continuation of a word. special: of each token, whether
    the tokenizer added it. prediction: the predicted class with its probability, if the model has classes
    """

    model: str
    tokens: tuple[str, ...]
    layers: tuple[TextLayerLook, ...]
    rollout: Tensor | None = None
    relevance: Tensor | None = None
    about: str = ""
    words: tuple[str, ...] = ()
    special: tuple[bool, ...] = ()
    prediction: str = ""

    def without_special(self) -> "TextAttention":
        """Return the rows and columns of all other tokens. Weights stay as they are: rows no longer sum to 1."""
        kept = [place for place, special in enumerate(self.special) if not special]
        if not kept or not self.special:
            raise UserError("there is nothing to draw without special tokens", expected="a text with words")
        pick = torch.tensor(kept)
        return replace(
            self,
            tokens=tuple(self.tokens[place] for place in kept),
            words=tuple(self.words[place] for place in kept),
            special=(False,) * len(kept),
            layers=tuple(replace(one, weights=one.weights[:, pick][:, :, pick]) for one in self.layers),
            rollout=None if self.rollout is None else self.rollout[pick][:, pick],
            relevance=None if self.relevance is None else self.relevance[pick],
        )


def text_attention(reader: Reader, text: str, pair: str, question: AttentionOptions) -> TextAttention:
    """Compute the attention over one text or a pair, with its special tokens."""
    if question.at is not None:
        raise UserError("a text has no pixels", expected="no --at")
    ids, read = _read(reader, text, pair)
    geometry = Geometry(reader.model)
    found = layers(reader.model, read, geometry)
    if not found:
        raise UserError(f"{reader.model.card.model!r} has no attention", expected="a model with attention")
    shown = []
    for number, layer in chosen_layers(found, question):
        heads = chosen_heads(layer, question)
        picked = torch.tensor(heads) - 1
        weights, far = layer.dense()[0].float().cpu(), distances(layer, geometry)[0].cpu()
        shown.append(TextLayerLook(number, tuple(heads), weights[picked], far[picked]))
    whole = torch.eye(len(ids), device=read.device)[None]
    speaks, about = _relevance(reader, read, found, geometry, question.relevance)
    return TextAttention(
        reader.model.card.model,
        tuple(reader.tokenizer.tokens(ids)),
        tuple(shown),
        rollout_rows(found, geometry, whole)[0].cpu() if question.rollout else None,
        speaks,
        about,
        _words(reader, ids),
        _special(reader, ids),
        _prediction(reader, read),
    )


def _read(reader: Reader, text: str, pair: str) -> tuple[list[int], Text]:
    tokenizer, texts = reader.tokenizer, [text, *([pair] if pair else [])]
    ids, segments = tokenizer.frame.around(*(found.ids for found in tokenizer.encode(texts)))
    if not len(ids):
        raise UserError("the text is empty", expected="at least one word")
    if len(ids) > reader.max_length:
        raise UserError("the text is too long", expected=f"at most {reader.max_length} tokens", got=len(ids))
    device = next(reader.model.parameters()).device
    parts = [torch.as_tensor(part, dtype=torch.long, device=device)[None] for part in (ids, segments)]
    return ids.tolist(), Text(parts[0], parts[1])


def _words(reader: Reader, ids: list[int]) -> tuple[str, ...]:
    """Return each token as it appears in text, special tokens by their name."""
    continues, special = reader.tokenizer.continues, set(reader.tokenizer.specials)
    names = zip(ids, reader.tokenizer.tokens(ids), reader.tokenizer.written(ids), strict=True)
    found = (name if number in special else f"##{text}" if continues[number] else text for number, name, text in names)
    return tuple(word.strip() or "\N{OPEN BOX}" for word in found)


def _special(reader: Reader, ids: list[int]) -> tuple[bool, ...]:
    """Return which tokens the tokenizer added; [MASK] and unknown words are part of the text."""
    tokenizer = reader.tokenizer
    added = set(tokenizer.specials) - {tokenizer.mask, tokenizer.unknown}
    return tuple(number in added for number in ids)


def _prediction(reader: Reader, read: Text) -> str:
    if reader.head != "classes" or len(reader.labels) < 2:
        return ""
    with torch.no_grad():
        share, label = reader.model(read)[0].float().softmax(-1).max(-1)
    return f"{reader.labels[int(label)]} ({100 * float(share):.0f}%)"


def _relevance(
    reader: Reader, read: Text, found: list[Layer], geometry: Geometry, asked: str
) -> tuple[Tensor | None, str]:
    """Compute the relevance for a class, which requires a head that classifies whole texts."""
    if not asked or (asked == PREDICTED and reader.head != "classes"):
        return None, ""
    if reader.head != "classes":
        raise UserError(
            f"{reader.folder} does not predict classes", expected="a model with a class head", got=reader.head
        )
    if asked == PREDICTED:
        with torch.no_grad():
            label = int(reader.model(read).argmax(-1))
    else:
        label = class_number(reader.model, asked)
    answer = _answering(reader, found[-1].grid).to(read.device)
    rows = relevance_rows(reader.model, read, torch.tensor([label]), found, geometry, answer)
    return rows[0, 0].cpu(), reader.labels[label]


def _answering(reader: Reader, grid: Grid) -> Tensor:
    """Return the weights of the tokens that the head reads, (1, 1, tokens)."""
    pool = reader.model.card.config.get("pool")
    if pool == "mean":
        return readout_row(grid)
    row = torch.zeros(1, 1, grid.tokens)
    row[..., -1 if pool == "last" else 0] = 1
    return row
