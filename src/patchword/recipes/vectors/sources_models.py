"""Contextual sources of word vectors: the encoder of a translator (CoVe), ELMo, BERT and its family.

The vector of a word is the mean of the vectors of its word pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchword.core.device import pick_precision
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.data.text.batching.assembly import words as in_pieces
from patchword.data.text.batching.batches import IGNORE, BatchFormat
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.vector_folder import is_vector_folder
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import TextModel, Translator
from patchword.models import REGISTRY
from patchword.models.text.elmo import Elmo
from patchword.recipes.elmo.run import vectors as elmo_vectors
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.text.inference.reader import folder_of
from patchword.recipes.text.model import check_vocabulary
from patchword.recipes.translation.run import open_tokenizers
from patchword.recipes.vectors.sources import Source, Table, Words, listed_sources, random_of
from patchword.recipes.vectors.words import WordVectors
from patchword.training.step import autocast
from patchword.weights import load

_MODELS = (".safetensors", ".npz", ".hdf5")  # files that hold a model; others hold word vectors


@dataclass(frozen=True)
class Bert:
    """Any text model: the input of its first block and the output of each block."""

    model: TextModel
    tokenizer: Tokenizer
    name: str
    form: BatchFormat

    @property
    def layers(self) -> int:
        return int(self.model.card.config["depth"]) + 1

    @property
    def width(self) -> int:
        return int(self.model.card.config["width"])

    @torch.inference_mode()
    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        length = int(self.model.card.config["max_length"])
        examples, begun = in_pieces(self.tokenizer, self.name, sentences, None, length)
        batch = examples.batch(torch.arange(len(examples)), self.form)
        with autocast(pick_precision("auto", self.form.device), self.form.device):
            states = self.model.states(batch.text)
        frame = self.tokenizer.frame
        owner = _owners(begun, examples.owner.tolist(), len(frame.before), len(frame.after), sentences)
        return _means(states, owner, sentences)

    def describe(self) -> str:
        return ""


@dataclass(frozen=True)
class Translation:
    """The encoder of a translator; its last hidden states are the CoVe vectors (McCann et al., 2017)."""

    model: Translator
    tokenizer: Tokenizer
    name: str
    device: torch.device
    layers: int = 1

    @property
    def width(self) -> int:
        return int(self.model.card.config["width"])

    @torch.inference_mode()
    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        """A sentence of more pieces than the model reads is continued in another."""
        room, end = int(self.model.card.config["max_length"]) - 1, self.tokenizer.end
        assert end is not None, "the input of a translator has an end token"
        rows, owners, counts = list[np.ndarray](), list[np.ndarray](), np.cumsum([0, *map(len, sentences)])
        for number, found in enumerate(self.tokenizer.encode_words(sentences)):
            for start in range(0, len(found.ids), room):
                rows.append(np.append(found.ids[start : start + room], end))
                owners.append(np.append(found.words[start : start + room] + counts[number], IGNORE))
        ids, owner = Ragged.of(rows), Ragged.of(owners, torch.int64).padded(IGNORE)
        mask = ids.mask()
        text = Text(ids.padded(0).long(), mask=None if mask.all() else mask).to(self.device)
        with autocast(pick_precision("auto", self.device), self.device):
            states = self.model.encode(text).tokens
        return _means([states], owner, sentences)

    def describe(self) -> str:
        return ""


@dataclass(frozen=True)
class Spelled:
    """ELMo: the character-based word vector and the output of each LSTM layer."""

    model: Elmo
    name: str

    @property
    def layers(self) -> int:
        return int(self.model.card.config["depth"]) + 1

    @property
    def width(self) -> int:
        return 2 * int(self.model.card.config["width"])

    def vectors(self, sentences: Sequence[Words]) -> list[Tensor]:
        return elmo_vectors(self.model, sentences)

    def describe(self) -> str:
        return ""


def _owners(begun: Ragged, texts: list[int], before: int, after: int, sentences: Sequence[Words]) -> Tensor:
    """Return (texts, pieces): the index of the word of each piece, counted over all sentences; IGNORE if it has none.

    begun: for each piece the index of the word that begins there, IGNORE elsewhere; other pieces continue that word
    """
    counts = np.cumsum([0, *map(len, sentences)])
    rows = list[np.ndarray]()
    for number, sentence in enumerate(texts):
        row = begun.row(number).numpy()
        place = np.maximum.accumulate(np.where(row == IGNORE, -1, np.arange(len(row))))
        owner = np.where(place < 0, IGNORE, row[np.maximum(place, 0)] + counts[sentence])
        owner[:before] = IGNORE
        owner[len(owner) - after :] = IGNORE
        rows.append(owner)
    return Ragged.of(rows, torch.int64).padded(IGNORE)


def _means(states: Sequence[Tensor], owner: Tensor, sentences: Sequence[Words]) -> list[Tensor]:
    """Average the vectors of word pieces: (texts, pieces, width) per layer -> (layers, words, width) per sentence."""
    lengths = [len(words) for words in sentences]
    pieces = torch.stack([state.float() for state in states], 2).flatten(0, 1)
    flat = owner.flatten().to(pieces.device)
    flat = torch.where(flat == IGNORE, sum(lengths), flat)  # tokens without a word are summed into an extra last row
    total = pieces.new_zeros(sum(lengths) + 1, *pieces.shape[1:]).index_add(0, flat, pieces)
    count = torch.bincount(flat, minlength=sum(lengths) + 1).clamp(min=1)[:, None, None]
    return [words.transpose(0, 1) for words in (total / count)[:-1].split(lengths)]


def open_sources(names: str, device: torch.device) -> tuple[Source, ...]:
    """Open the sources of `a+b`; their vectors are concatenated."""
    return tuple(open_source(name, device) for name in listed_sources(names))


def open_source(name: str, device: torch.device) -> Source:
    """Open random vectors, a file of word vectors, or the folder of a translator, an ELMo or any text model."""
    if (found := random_of(name)) is not None:
        return found
    path = folder_of(name)
    if is_vector_folder(path) or (path.is_file() and path.suffix.lower() not in _MODELS):
        return Table(WordVectors.read(path), path.name)
    model = RunFolder(path).model() if (path / "recipe.yaml").is_file() else load(path)
    folder = path if path.is_dir() else path.parent
    model = model.to(device).eval().requires_grad_(False)
    match model:
        case Elmo():
            return Spelled(model, path.name)
        case Translator():
            return Translation(model, open_tokenizers(folder)[0], path.name, device)
        case TextModel():
            tokenizer = Tokenizer.read(folder)
            check_vocabulary(model, tokenizer, name)
            return Bert(model, tokenizer, path.name, BatchFormat(tokenizer.pad or 0, False, device))
    reads = REGISTRY.reads(model.card.model)
    raise UserError(f"{name} reads {reads}", expected="a model of texts, which has a vector for each word")
