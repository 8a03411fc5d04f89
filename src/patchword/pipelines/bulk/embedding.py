"""Vectors for the rows of a shard."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.core.printable import path_text
from patchword.pipelines.bulk.answered import Answer, Answered, VectorAnswer
from patchword.pipelines.bulk.rows import Row
from patchword.pipelines.bulk.work import EmbedWork, OpenedWork
from patchword.pipelines.images import ImageEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.text.inference.answers import NoAnswer
from patchword.recipes.text.inference.embedder import SubwordEmbedder, TextEmbedder
from patchword.recipes.text.inference.input import Columns, TextInput


class EmbedTexts(OpenedWork):
    """One vector per text. Texts of similar length share a batch."""

    asked_as = ("text",)

    def __init__(self, work: EmbedWork, embedder: TextEmbedder) -> None:
        self._embedder, self.columns = embedder, Columns(work.text)
        chosen = embedder.options(work.layer, work.pool, work.normalize, work.length)
        self._options = chosen
        self.width = next(iter(embedder.embed(["a"], chosen))).vectors.shape[1]
        self.record_names, self.row_names = _names(self.width)
        model, precision = _model_of(embedder)
        self.options = {
            "text": work.text,
            "layer": chosen.layer,
            "pool": chosen.pool,
            "normalize": chosen.normalize,
            "length": chosen.length,
            "device": next(model.parameters()).device.type,
            "precision": precision,
        }

    def answer(self, rows: Sequence[Row]) -> Answered:
        embedder = self._embedder.with_new_counts()
        good = [row.given.text for row in rows if isinstance(row.given, TextInput) and row.error is None]
        vectors = (vector for part in embedder.embed(good, self._options) for vector in part.vectors)
        answers = [VectorAnswer(next(vectors)) if row.error is None else no_answer(row.error) for row in rows]
        return Answered(answers, embedder.counts.shortened)


class EmbedImages(OpenedWork):
    """One vector per image."""

    columns = None
    asked_as = ()

    def __init__(self, work: EmbedWork, engine: ImageEngine) -> None:
        if work.length is not None:
            raise UserError(f"{work.model} reads images", expected="no --length")
        if work.pool == "pooler":
            raise UserError("--pool", expected="mean (of the patches) or first ([CLS])", got=work.pool)
        self._engine, self._layer, self._pool = engine, work.layer, work.pool
        self._normalize = bool(work.normalize)
        blank = torch.zeros(engine.transform.format.shape, dtype=torch.uint8)
        self.width = engine.features([blank], work.layer, work.pool).shape[1]
        self.record_names, self.row_names = _names(self.width)
        depth = engine.model.depth
        layer = depth if work.layer is None else work.layer + depth + 1 if work.layer < 0 else work.layer
        self.options = {
            "layer": layer,
            "pool": work.pool or "as the head",
            "normalize": self._normalize,
            "device": engine.device.type,
            "precision": engine.precision,
        }

    def answer(self, rows: Sequence[Row]) -> Answered:
        images = [row.given for row in rows if isinstance(row.given, Path)]
        found = self._engine.try_features(images, self._layer, self._pool)
        return Answered(list(self._answers(found)))

    def _answers(self, found: Sequence[np.ndarray | UserError]) -> Iterator[Answer]:
        for one in found:
            if isinstance(one, UserError):
                yield no_answer(one)
            else:
                length = np.maximum(np.linalg.norm(one), 1e-12) if self._normalize else 1
                yield VectorAnswer((one / length).astype(np.float32))


def no_answer(error: UserError) -> NoAnswer:
    """Return what takes the place of the answer of a row that cannot be read."""
    return NoAnswer(path_text(error).splitlines()[0])


def _model_of(embedder: TextEmbedder) -> tuple[nn.Module, str]:
    if isinstance(embedder, SubwordEmbedder):
        return embedder.reader.model, embedder.reader.precision
    assert isinstance(embedder, ElmoEmbedder), "texts are embedded by a text model or an ELMo"
    return embedder.model, embedder.precision


def _names(width: int) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(["vector"]), frozenset(map(str, range(width)))
