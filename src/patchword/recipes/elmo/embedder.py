"""An ELMo as an embedder of texts: it cuts them into words and reads the characters of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.data.text.corpus.word_counts import WordSplitting, word_splitter
from patchword.data.text.corpus.word_spans import Span, located_words
from patchword.models.text.elmo import Elmo
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.run import vectors
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.text.inference.embedding import Embedded, EmbeddingOptions, Pool, layer_number
from patchword.recipes.text.inference.outputs import Advance, ignore_progress
from patchword.recipes.text.inference.reader import Counts, grouped

_CHARACTERS = 50_000  # characters per group of texts


@dataclass(frozen=True)
class ElmoEmbedder:
    """An ELMo. Layer 0 is the character vector of a word, without context; the LSTM layers follow.

    name: what the user opened, for messages. cut: how the text that the model was trained on was split into words.
    """

    model: Elmo
    name: str
    cut: WordSplitting
    precision: Literal["float32", "bfloat16"] = "float32"
    counts: Counts = field(default_factory=Counts)
    unit: Literal["word"] = "word"

    @classmethod
    def of(
        cls,
        model: Elmo,
        path: Path | None,
        name: str,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "float32",
    ) -> "ElmoEmbedder":
        """Move an ELMo to its device, in evaluation mode. path: of its weights; None for a model object"""
        target = pick_device(device)
        return cls(model.to(target).eval(), name, _cut_of(path), pick_precision(precision, target))

    @property
    def depth(self) -> int:
        return int(self.model.card.config["depth"])

    @property
    def missing(self) -> str:
        return f"the model reads it inside a longer word (its texts were split with cut={self.cut})"

    def with_new_counts(self) -> "ElmoEmbedder":
        return replace(self, counts=Counts())

    def options(
        self, layer: int | None, pool: Pool | None, normalize: bool | None, length: int | None, prefix: str = "--"
    ) -> EmbeddingOptions:
        """Return the options. The default is the mean of the last layer over all words, not normalized."""
        chosen = layer_number(self.depth, -1 if layer is None else layer, prefix)
        if pool not in (None, "mean", "none"):
            raise UserError(f"{self.name} has no [CLS] and no pooler", expected=f"{prefix}pool mean", got=pool)
        if length is not None and length < 1:
            raise UserError(f"{prefix}length", expected="1 word or more", got=length)
        return EmbeddingOptions(chosen, pool or "mean", bool(normalize), length)

    def embed(
        self, texts: Sequence[str], options: EmbeddingOptions, advance: Advance = ignore_progress
    ) -> Iterator[Embedded]:
        """Yield the vectors of some texts at a time. The mean of a text without a word is zero."""
        split = word_splitter(self.cut)
        for group in grouped(texts, len, _CHARACTERS):
            sentences = [split(text) for text in group]
            read = [words[: options.length] for words in sentences]
            self.counts.shortened += sum(len(a) > len(b) for a, b in zip(sentences, read, strict=True))
            states = [layers[options.layer] for layers in vectors(self.model, read, self.precision)]
            advance(len(group))
            if options.pool == "none":
                offsets = np.cumsum([0, *map(len, read)]).tolist()
                tokens = tuple(word for words in read for word in words)
                yield Embedded(_scaled(torch.cat(states), options).numpy(), tokens, tuple(offsets))
                continue
            means = torch.stack([state.sum(0) / max(1, len(state)) for state in states])
            yield Embedded(_scaled(means, options).numpy())

    def word_vectors(self, text: str, places: Sequence[Span], layers: Sequence[int]) -> dict[Span, Tensor]:
        """Return the vectors of the places that are words of their own as the model reads the text."""
        words, spans = located_words(text, self.cut)
        wanted = set(places) & set(spans)
        if not wanted:
            return {}
        (states,) = vectors(self.model, [words], self.precision)
        return {span: states[list(layers), number] for number, span in enumerate(spans) if span in wanted}


def _scaled(found: Tensor, options: EmbeddingOptions) -> Tensor:
    return F.normalize(found, dim=-1) if options.normalize else found


def _cut_of(path: Path | None) -> WordSplitting:
    """Return how the texts of a run were split; of other weights, the default of the recipe."""
    folder = path if path is None or path.is_dir() else path.parent
    recipe = None if folder is None else folder / "recipe.yaml"
    found = read_recipe(recipe) if recipe is not None and recipe.is_file() else None
    return found.cut if isinstance(found, ElmoRecipe) else ElmoRecipe().cut
