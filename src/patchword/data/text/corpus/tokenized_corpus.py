"""A tokenised corpus in its folder: three memory-mapped files and their manifest."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.randomness import HELD_OUT_DOCUMENTS, uniform
from patchword.data.text.corpus.documents import TextSource, digest

PARTS = ("tokens", "sentences", "documents")


@dataclass(frozen=True)
class Manifest:
    """The manifest of a cached corpus.

    key: hash of texts, tokenizer and cache version. seconds: time spent on tokenizing. digests: of the three files.
    """

    key: str
    vocabulary: int
    documents: int
    sentences: int
    tokens: int
    unknown: int
    seconds: float
    digests: dict[str, str]
    sources: tuple[TextSource, ...]


class Tokens(Protocol):
    """A sequence of tokens: an array, or an object that is indexed like one."""

    @property
    def nbytes(self) -> int: ...
    def __getitem__(self, index: Any, /) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class Corpus:
    """A tokenized corpus.

    tokens: the concatenated tokens. sentences: offsets into the tokens. documents: offsets into the sentences.

    Offsets are int64, one more than there are sentences or documents; len() is the number of documents.
    """

    manifest: Manifest
    tokens: Tokens
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def mapped(cls, folder: Path, manifest: Manifest) -> "Corpus":
        tokens = np.asarray(np.memmap(part_file(folder, "tokens"), token_dtype(manifest.vocabulary), "r"))
        return cls(manifest, tokens, mapped_offsets(folder, "sentences"), mapped_offsets(folder, "documents"))

    def __len__(self) -> int:
        return len(self.documents) - 1

    @property
    def unknown_fraction(self) -> float:
        return self.manifest.unknown / self.manifest.tokens

    @property
    def size(self) -> int:
        """Return the size of the three files in bytes."""
        return self.tokens.nbytes + self.sentences.nbytes + self.documents.nbytes

    def fingerprint(self) -> str:
        return self.manifest.key

    def split(self, fraction: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the training documents and the held-out ones; the split does not depend on the seed of a run."""
        draw = uniform(0, 0, torch.arange(len(self)), HELD_OUT_DOCUMENTS).numpy()
        count = min(len(self) - 1, max(1, round(len(self) * fraction))) if fraction > 0 else 0
        aside = np.zeros(len(self), bool)
        aside[np.argsort(draw, kind="stable")[:count]] = True
        return np.flatnonzero(~aside), np.flatnonzero(aside)


def part_file(folder: Path, part: str) -> Path:
    return folder / f"{part}.bin"


def mapped_offsets(folder: Path, part: str) -> NDArray[np.int64]:
    """Map an offset file as a plain array; slicing a np.memmap object is slower."""
    return np.asarray(np.memmap(part_file(folder, part), np.int64, "r"))


def token_dtype(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 2**16 else np.uint32


def complete_manifest(folder: Path, parts: Sequence[str] = PARTS) -> Manifest | None:
    """Return the manifest if it exists and the digest of every file agrees, else None."""
    with suppress(UserError, TypeError, KeyError, OSError):
        fields = read_json(folder / "manifest.json")
        manifest = Manifest(**{**fields, "sources": tuple(TextSource(**source) for source in fields["sources"])})
        if all(digest(part_file(folder, part)) == manifest.digests[part] for part in parts):
            return manifest
    return None
