"""A trained ELMo as a frozen encoder: the hidden states of each word of a sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.data.text.tokenizers.characters import CharacterReader, Sentences
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.models.text.elmo import Elmo
from patchword.training.step import autocast
from patchword.weights import load

WORDS = "words.txt"  # file in a run's folder: the vocabulary of its softmax, one word per line
_WORDS = 8192  # tokens per batch, with padding


def open_elmo(folder: str | Path, device: str = "auto") -> tuple[Elmo, CharacterReader]:
    """Open an ELMo in evaluation mode, with the character reader that it needs.

    The folder is a run, a saved model, or has the authors' files (*options.json and *weights.hdf5); or the .hdf5 file.
    """
    model = as_elmo(load(folder), folder)
    return model.to(pick_device(device)), reader_of(model)


def as_elmo(model: Model, name: str | Path) -> Elmo:
    if not isinstance(model, Elmo):
        reads = REGISTRY.reads(model.card.model)
        raise UserError(f"{name} reads {reads}", expected="an ELMo, which reads the characters of words")
    return model


def known_words(folder: Path) -> tuple[str, ...]:
    """Return the vocabulary of a run's softmax; empty if the folder is not a run of this library."""
    path = folder / WORDS
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1]) if path.is_file() else ()


def reader_of(model: Elmo) -> CharacterReader:
    """Return the reader that converts words to characters for the model."""
    config = model.card.config
    return CharacterReader(config["characters"], max(size for size, _ in config["filters"]))


@torch.no_grad()
def vectors(
    model: Elmo, sentences: Sentences, precision: Literal["auto", "float32", "bfloat16"] = "auto"
) -> list[Tensor]:
    """Return (layers + 1, words, 2 * width) per sentence, float32 on the CPU, the lowest layer first.

    A sentence is a list of words, split like the model's training text; other sentences do not change its result.
    """
    reader, device = reader_of(model), next(model.parameters()).device
    training, found = model.training, dict[int, Tensor]()
    model.eval()
    for numbers in _groups([len(sentence) for sentence in sentences]):
        text = reader([sentences[number] for number in numbers]).to(device)
        with autocast(pick_precision(precision, device), device):
            states = torch.stack([state.float() for state in model.states(text)], 1).cpu()
        for number, state in zip(numbers, states, strict=True):
            found[number] = state[:, : len(sentences[number])].clone()
    model.train(training)
    return [found[number] for number in range(len(sentences))]


def _groups(lengths: list[int]) -> Iterator[list[int]]:
    """Return batches of sentences of similar length, the longest first."""
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    while order:
        most = max(1, _WORDS // (lengths[order[0]] + 2))
        yield order[:most]
        order = order[most:]
