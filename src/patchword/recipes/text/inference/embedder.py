"""What embeds texts, whatever the kind of its model: vectors of whole texts, and of single words in each layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.data.text.batching.assembly import add_special_tokens
from patchword.data.text.corpus.word_spans import Span
from patchword.recipes.text.inference.embedding import Embedded, EmbeddingOptions, Pool, embed, embedding_options
from patchword.recipes.text.inference.outputs import Advance, ignore_progress
from patchword.recipes.text.inference.reader import Counts, Reader


class TextEmbedder(Protocol):
    """A trained model as a source of vectors. Layer 0 is its embedding, without context."""

    @property
    def depth(self) -> int:
        """The index of the last layer."""
        ...

    @property
    def unit(self) -> Literal["token", "word"]:
        """What has a vector."""
        ...

    @property
    def missing(self) -> str:
        """Why a word that a text contains can be without a vector, for messages."""
        ...

    @property
    def counts(self) -> Counts:
        """The number of truncated texts so far."""
        ...

    def with_new_counts(self) -> "TextEmbedder":
        """Return the same embedder with counts of its own, so that calls do not share them."""
        ...

    def options(
        self, layer: int | None, pool: Pool | None, normalize: bool | None, length: int | None, prefix: str = "--"
    ) -> EmbeddingOptions:
        """Return the options of `embed`; None takes the default. prefix: of the names of options in messages"""
        ...

    def embed(
        self, texts: Sequence[str], options: EmbeddingOptions, advance: Advance = ignore_progress
    ) -> Iterator[Embedded]:
        """Yield the vectors of some texts at a time, so that memory does not grow with the size of a file."""
        ...

    def word_vectors(self, text: str, places: Sequence[Span], layers: Sequence[int]) -> dict[Span, Tensor]:
        """Return (layers, width) float32 on the CPU for each of these places of a text that has a vector."""
        ...


@dataclass(frozen=True)
class SubwordEmbedder:
    """A text model with its tokenizer; the vector of a word is the mean over its pieces."""

    reader: Reader
    unit: Literal["token"] = "token"
    missing: str = "it is beyond the maximum length of the model"

    @property
    def depth(self) -> int:
        return self.reader.depth

    @property
    def counts(self) -> Counts:
        return self.reader.counts

    def with_new_counts(self) -> "SubwordEmbedder":
        return replace(self, reader=replace(self.reader, counts=Counts()))

    def options(
        self, layer: int | None, pool: Pool | None, normalize: bool | None, length: int | None, prefix: str = "--"
    ) -> EmbeddingOptions:
        return embedding_options(self.reader, layer, pool, normalize, length, prefix)

    def embed(
        self, texts: Sequence[str], options: EmbeddingOptions, advance: Advance = ignore_progress
    ) -> Iterator[Embedded]:
        return embed(self.reader, texts, options, advance)

    @torch.inference_mode()
    def word_vectors(self, text: str, places: Sequence[Span], layers: Sequence[int]) -> dict[Span, Tensor]:
        """Return the vectors of the places within the model's maximum length."""
        reader = self.reader
        found = reader.tokenizer.encode([text])[0]
        frame = reader.tokenizer.frame
        room = reader.max_length - frame.single
        ids, _ = add_special_tokens(reader.tokenizer, found.ids[:room])
        states = reader.model.states(Text(torch.as_tensor(ids).long()[None]).to(reader.form.device))
        stacked = torch.stack([states[layer][0] for layer in layers]).float().cpu()
        starts, ends = found.starts[:room], found.ends[:room]
        seen = len(text) if len(found) <= room else int(ends[-1])
        vectors = {}
        for start, end in (place for place in places if place[1] <= seen):
            pieces = np.flatnonzero((ends > start) & (starts < end))
            if len(pieces):
                vectors[start, end] = stacked[:, torch.as_tensor(pieces) + len(frame.before)].mean(1)
        return vectors
