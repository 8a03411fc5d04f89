"""Embeds texts as vectors: the choice of the layer and of the pooling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.core.formats.sentence_transformers import encoder_folder
from patchword.data.text.batching.assembly import Limit, sentences
from patchword.data.text.batching.batches import TextBatch
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.text.model import TextModel
from patchword.recipes.text.inference.outputs import Advance, ignore_progress
from patchword.recipes.text.inference.reader import Reader, grouped

Pool = Literal["mean", "first", "pooler", "none"]
_CHARACTERS = 100_000  # characters per group of texts


@dataclass(frozen=True)
class EmbeddingOptions:
    """Options of embedding.

    layer: 0 is the input of the first block. pool none: one vector per token. length: at most so many tokens per text;
    None for all.
    """

    layer: int
    pool: Pool
    normalize: bool
    length: int | None


@dataclass(frozen=True)
class Embedded:
    """Vectors of some texts: (texts, width); with `tokens` (tokens, width), and `offsets` of each text."""

    vectors: NDArray[np.float32]
    tokens: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1 if self.offsets else len(self.vectors)

    def rows(self, text: int) -> slice:
        """Return the slice of the rows that belong to one text."""
        return slice(*self.offsets[text : text + 2]) if self.offsets else slice(text, text + 1)


def embedding_options(
    reader: Reader,
    layer: int | None,
    pool: Pool | None,
    normalize: bool | None,
    length: int | None,
    prefix: str = "--",
) -> EmbeddingOptions:
    """Return the options; None takes the default: sentence-transformers' pooling, else the mean of the last layer.

    prefix: of the names of options in messages; "" for Python
    """
    config = reader.model.card.config
    is_own = reader.head in ("vector", "pooled") and config["pool"] != "pooler"
    chosen = layer_number(reader.depth, -1 if layer is None else layer, prefix)
    own = is_own and chosen == reader.depth and pool in (None, config["pool"])
    pooled = pool or (cast(Pool, config["pool"]) if is_own else "mean")
    if pooled == "pooler":
        _require_pooler(reader, chosen, prefix)
    scaled = normalize if normalize is not None else own and reader.head == "vector"
    return EmbeddingOptions(chosen, pooled, scaled, _length(reader, length, prefix))


def layer_number(depth: int, layer: int, prefix: str = "--") -> int:
    """Return the layer index; negative numbers count from the last layer. depth: the index of the last layer"""
    found = layer + depth + 1 if layer < 0 else layer
    if not 0 <= found <= depth:
        raise UserError(f"{prefix}layer", expected=f"0 (the embeddings) to {depth}, or -1 for the last", got=layer)
    return found


def embed(
    reader: Reader, texts: Sequence[str], manner: EmbeddingOptions, advance: Advance = ignore_progress
) -> Iterator[Embedded]:
    """Yield the vectors of some texts at a time, so that memory does not grow with the size of a file."""
    reader = replace(reader, model=fuse_on_gpu(reader.model))
    for group in grouped(texts, len, _CHARACTERS):
        examples = sentences(reader.tokenizer, "asked", group, None, Limit(manner.length or reader.max_length))
        reader.counts.add(examples)
        parts = reader.outputs(examples, len(group), advance, lambda batch: _vectors(reader, batch, manner))
        if manner.pool != "none":
            yield Embedded(torch.stack(parts).numpy())
            continue
        tokens, lengths = reader.tokenizer.tokens(examples.ids.values), examples.ids.lengths.tolist()
        yield Embedded(torch.cat(parts).numpy(), tuple(tokens), tuple(np.cumsum([0, *lengths]).tolist()))


def _vectors(reader: Reader, batch: TextBatch, manner: EmbeddingOptions) -> Tensor:
    """Return one vector per text, (texts, width), or the hidden states of all tokens in the layout of the batch."""
    states = state_of(reader.model, batch, manner.layer)
    match manner.pool:
        case "mean":
            found = batch.text.mean(states)
        case "first":
            found = batch.text.first(states)
        case "pooler":
            found = cast(Any, reader.model.head).pool(states, batch.text)
        case "none":
            found = states
    return F.normalize(found, dim=-1) if manner.normalize else found


def state_of(model: TextModel, batch: TextBatch, layer: int) -> Tensor:
    last = layer == model.card.config["depth"]
    return model.encode(batch.text) if last else model.states(batch.text)[layer]


def _require_pooler(reader: Reader, layer: int, prefix: str) -> None:
    if not hasattr(getattr(reader.model.head, "pool", None), "linear"):
        raise UserError(f"the model in {reader.folder} has no pooler", expected=f"{prefix}pool mean or first")
    if layer != reader.depth:
        raise UserError("the pooler belongs to the last layer", expected=f"{prefix}layer {reader.depth}", got=layer)


def _length(reader: Reader, asked: int | None, prefix: str) -> int:
    if asked is not None:
        if not 3 <= asked <= reader.max_length:
            raise UserError(
                f"{prefix}length", expected=f"3 to {reader.max_length} tokens, the maximum of the model", got=asked
            )
        return asked
    folders = (reader.folder, encoder_folder(reader.folder))
    path = next((found for folder in folders if (found := folder / "sentence_bert_config.json").is_file()), None)
    settings = read_json(path) if path else {}
    longest = settings.get("max_seq_length") if isinstance(settings, dict) else None
    return min(longest, reader.max_length) if isinstance(longest, int) and longest > 2 else reader.max_length
