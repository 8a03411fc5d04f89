"""A tokenised corpus as it lies in its folder: three files, read through memory maps, and their manifest."""

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
from patchword.data.randomness import uniform
from patchword.data.text.corpus.documents import Source, digest

PARTS = ("tokens", "sentences", "documents")
_HELD_OUT = 13  # purpose of the random numbers


@dataclass(frozen=True)
class Manifest:
    """key: of the texts, the tokenizer and the rules. seconds: spent tokenising. digests: of the three files."""

    key: str
    vocabulary: int
    documents: int
    sentences: int
    tokens: int
    unknown: int
    seconds: float
    digests: dict[str, str]
    sources: tuple[Source, ...]


class Tokens(Protocol):
    """Tokens in a row: an array, or what can be indexed like one."""

    @property
    def nbytes(self) -> int: ...
    def __getitem__(self, index: Any, /) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class Corpus:
    """tokens: all of them in a row. sentences: offsets into the tokens. documents: offsets into the sentences.

    Offsets are int64 and one more than there are; len() counts documents.
    """

    manifest: Manifest
    tokens: Tokens
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def mapped(cls, folder: Path, manifest: Manifest) -> "Corpus":
        tokens = np.asarray(np.memmap(part_file(folder, "tokens"), token_type(manifest.vocabulary), "r"))
        return cls(manifest, tokens, mapped_offsets(folder, "sentences"), mapped_offsets(folder, "documents"))

    def __len__(self) -> int:
        return len(self.documents) - 1

    @property
    def unknown_share(self) -> float:
        return self.manifest.unknown / self.manifest.tokens

    @property
    def size(self) -> int:
        """bytes of the three files"""
        return self.tokens.nbytes + self.sentences.nbytes + self.documents.nbytes

    def fingerprint(self) -> str:
        return self.manifest.key

    def split(self, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The documents to learn from, and the share set aside: always the same ones, whatever the seed of a run."""
        draw = uniform(0, 0, torch.arange(len(self)), _HELD_OUT).numpy()
        count = min(len(self) - 1, max(1, round(len(self) * share))) if share > 0 else 0
        aside = np.zeros(len(self), bool)
        aside[np.argsort(draw, kind="stable")[:count]] = True
        return np.flatnonzero(~aside), np.flatnonzero(aside)


def part_file(folder: Path, part: str) -> Path:
    return folder / f"{part}.bin"


def mapped_offsets(folder: Path, part: str) -> NDArray[np.int64]:
    """Read where they lie; numpy's own class for maps would make every slice slower."""
    return np.asarray(np.memmap(part_file(folder, part), np.int64, "r"))


def token_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocabulary <= 2**16 else np.uint32


def whole_manifest(folder: Path, parts: Sequence[str] = PARTS) -> Manifest | None:
    """None unless a manifest is there and each of the files is what it says."""
    with suppress(UserError, TypeError, KeyError, OSError):
        fields = read_json(folder / "manifest.json")
        manifest = Manifest(**{**fields, "sources": tuple(Source(**source) for source in fields["sources"])})
        if all(digest(part_file(folder, part)) == manifest.digests[part] for part in parts):
            return manifest
    return None
