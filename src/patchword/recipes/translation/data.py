"""Reads and tokenizes the pairs of a translation recipe."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.faults import collect_faults
from patchword.data.text.batching.pair_batches import PairBatchFormat
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.parallel_text import Parallel, read_parallel
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.schema.fields import listed
from patchword.recipes.text.data import held_out
from patchword.recipes.translation.recipe import TranslationRecipe


@dataclass(frozen=True)
class Languages:
    """The tokenizers of source and target, which can be the same."""

    source: Tokenizer
    target: Tokenizer

    def __post_init__(self) -> None:
        for tokenizer in (self.source, self.target):
            if tokenizer.end is None:
                raise UserError("the tokenizer has no token that ends a text", expected="</s>, [SEP] or the like")

    @property
    def begin(self) -> int:
        """Return the first token of every target."""
        found = self.target.cls if self.target.cls is not None else self.target.end
        assert found is not None, "a tokenizer with an end"
        return found

    @property
    def end(self) -> int:
        assert self.target.end is not None, "a tokenizer with an end"
        return self.target.end

    def form(self, device: torch.device) -> PairBatchFormat:
        return PairBatchFormat((self.source.pad or 0, self.target.pad or 0), self.begin, device)

    def fingerprint(self) -> str:
        return self.source.fingerprint() + self.target.fingerprint()


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentences and translations, as texts and as tokens, each with its end token."""

    texts: Parallel
    source: Ragged
    target: Ragged

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Tensor) -> "Pairs":
        return Pairs(self.texts.take(index.tolist()), self.source.take(index), self.target.take(index))

    def fingerprint(self) -> str:
        found = hashlib.sha256()
        for side in (self.source, self.target):
            found.update(side.values.numpy().tobytes())
            found.update(side.offsets.numpy().tobytes())
        return found.hexdigest()


def read_files(recipe: TranslationRecipe, part: str) -> Parallel:
    """Read the pairs of one data split. part: the recipe field that names the files."""
    names = getattr(recipe, part)
    if not names:
        raise UserError(
            f"no pairs are given for recipe field {part!r}", expected=f"{part}=ENGLISH,GERMAN or {part}=PAIRS.tsv"
        )
    return read_parallel([Path(name) for name in listed(names)])


def read_all(recipe: TranslationRecipe) -> dict[str, Parallel]:
    """Read the files of every split, by field name; raise one error that lists all faults."""
    parts = [
        "train",
        *(["validation"] if recipe.validation_fraction() is None else []),
        *(["test"] if recipe.test else []),
    ]
    with collect_faults() as report:
        found = {part: report.attempt(read_files, recipe, part) for part in parts}
    return {part: texts for part, texts in found.items() if texts is not None}


def languages_of(recipe: TranslationRecipe, texts: Parallel) -> Languages:
    """Read the tokenizers that the recipe names, or train them on the training pairs."""
    if recipe.tokenizer:
        read = [Tokenizer.read(Path(name)) for name in listed(recipe.tokenizer)]
        if len(read) > 2:
            raise UserError("recipe field 'tokenizer'", expected="one folder, or two", got=len(read))
        return Languages(read[0], read[-1])
    if recipe.vocabularies == "shared":
        both = Tokenizer.train_on([*texts.first, *texts.second], recipe.words, kind="bytes")
        return Languages(both, both)
    return Languages(*(Tokenizer.train_on(side, recipe.words, kind="bytes") for side in (texts.first, texts.second)))


def encoded(tokenizer: Tokenizer, texts: Sequence[str], longest: int, where: str) -> Ragged:
    """Return the tokens of each text with the end token. longest: maximum tokens of the model

    where: the file of the texts, one per line, to name a text that is too long
    """
    found, end = tokenizer.ids_of(texts), np.int32(tokenizer.placeholder if tokenizer.end is None else tokenizer.end)
    if line := next((number for number, ids in enumerate(found, 1) if len(ids) >= longest), 0):
        raise UserError(
            f"{where}, line {line}: a text is longer than the maximum of the model",
            expected=f"at most {longest} tokens, with the end token",
            got=f"{len(found[line - 1]) + 1}, {texts[line - 1][:40]!r}",
            hint="leave it out, or train a model with a larger maximum: model.max_length=1024",
        )
    return Ragged.of([np.append(ids, end) for ids in found])


def tokenised(texts: Parallel, languages: Languages, longest: int, files: str) -> Pairs:
    names = listed(files)
    source = encoded(languages.source, texts.first, longest, names[0])
    return Pairs(texts, source, encoded(languages.target, texts.second, longest, names[-1]))


def parted(pairs: Pairs, fraction: float) -> tuple[Pairs, Pairs]:
    """Split the pairs; pairs with the same source stay in the same split."""
    groups = torch.from_numpy(np.unique(np.array(pairs.texts.first), return_inverse=True)[1]).long()
    aside = held_out(groups, torch.zeros(len(pairs), dtype=torch.int64), fraction)
    if aside.all():
        raise UserError(
            "there are too few pairs to keep any for validation", expected="validation=FILES, or more pairs"
        )
    return pairs.take((~aside).nonzero()[:, 0]), pairs.take(aside.nonzero()[:, 0])
