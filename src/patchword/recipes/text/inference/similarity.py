"""One word in several sentences: the similarity of its vectors, per layer (Ethayarajh, 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_spans import find_word
from patchword.recipes.text.inference.embedder import TextEmbedder
from patchword.recipes.text.inference.embedding import layer_number
from patchword.recipes.text.inference.input import TextInput


@dataclass(frozen=True)
class Use:
    """An occurrence of the word in a sentence."""

    text: str
    start: int
    end: int

    def marked(self, around: int = 36) -> str:
        """Return the word in brackets with `around` characters before and after it, cut between words."""
        before, after = self.text[: self.start], self.text[self.end :]
        if len(before) > around:
            before = "… " + (before[-around:].partition(" ")[2] or before[-around:])
        if len(after) > around:
            after = (after[:around].rpartition(" ")[0] or after[:around]) + " …"
        return " ".join(f"{before}[{self.text[self.start : self.end]}]{after}".split())


@dataclass(frozen=True)
class Similarity:
    """The similarity of a word's vectors in several sentences.

    layers: layer -> (uses, uses) cosines. left_out: sentences without the word, or with the word where the
    model has no vector for it. unread: number of sentences that were not read, because there are enough uses.
    """

    word: str
    uses: tuple[Use, ...]
    layers: dict[int, Tensor]
    left_out: int = 0
    unread: int = 0

    def to_json(self) -> dict[str, Any]:
        cosines = {str(layer): [[round(v, 6) for v in row] for row in m.tolist()] for layer, m in self.layers.items()}
        return {"word": self.word, "uses": [vars(use) for use in self.uses], "layers": cosines}


@torch.inference_mode()
def similar(
    embedder: TextEmbedder, word: str, asked: Sequence[TextInput], layers: Sequence[int] = (-1,), most: int = 40
) -> Similarity:
    """Compare the vectors of a word. Layer 0, without context, comes first."""
    if not word.strip() or any(letter.isspace() for letter in word.strip()):
        raise UserError("cannot search for this word", expected="one word", got=repr(word))
    chosen = list(dict.fromkeys([0, *(layer_number(embedder.depth, layer) for layer in layers)]))
    uses: list[Use] = []
    vectors: list[Tensor] = []
    left_out = unread = 0
    for number, one in enumerate(asked):
        if len(uses) == most:
            unread = len(asked) - number
            break
        places = find_word(word.strip(), one.text)
        found = embedder.word_vectors(one.text, places, chosen) if places else {}
        if not found:
            left_out += 1
            _require_typed(one, word, embedder.missing if places else "it is not in it as a whole word")
        for place, vector in list(found.items())[: most - len(uses)]:
            uses.append(Use(one.text, *place))
            vectors.append(vector)
    if len(uses) < 2:
        raise UserError(f"the word {word!r} was found {'once' if uses else 'nowhere'}", expected="at least twice")
    unit = F.normalize(torch.stack(vectors), dim=-1)
    cosines = torch.einsum("ild,jld->lij", unit, unit).clamp(-1, 1)
    return Similarity(word.strip(), tuple(uses), dict(zip(chosen, cosines, strict=True)), left_out, unread)


def _require_typed(one: TextInput, word: str, missing: str) -> None:
    """Raise an error if a typed sentence lacks the word; lines of a file may lack it. missing: why"""
    if one.place:
        return
    raise UserError(f"the sentence {one.text[:80]!r}", expected=f"the word {word!r}", got=missing)
