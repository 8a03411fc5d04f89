"""Compares a quantised model with its float32 version on the CPU: score, file size and speed."""

import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import cast

import torch
from torch import Tensor

from patchword.data.text.batching.batches import BatchFormat, TextBatch
from patchword.layers.quantize import dequantise
from patchword.layers.text.model import TextModel
from patchword.recipes.text.inference.outputs import outputs_of
from patchword.recipes.text.tasks.sets import TextSet
from patchword.weights.export.export import export
from patchword.weights.export.formats import FORMATS, Runner

_TURNS, _TEXTS = 20, 32  # repetitions of the timing; texts per batch of the scoring


@dataclass(frozen=True)
class ExportedFile:
    """One of the two files. milliseconds: median time of one text of the recipe's length."""

    name: str
    score: float
    megabytes: float
    milliseconds: float


@dataclass(frozen=True)
class Compression:
    """The same weights as float32 and int8. difference: between the int8 file and the trained model."""

    metric: str
    files: tuple[ExportedFile, ExportedFile]
    difference: float
    tokens: int
    reader: str

    def lines(self) -> Sequence[str]:
        lines = [
            f"{file.name}: {self.metric} {file.score:.4f}, {file.megabytes:.1f} MB, {file.milliseconds:.1f} ms per text"
            for file in self.files
        ]
        plain, small = self.files
        lines.append(
            f"int8 is {small.megabytes / plain.megabytes:.2f} of the size and {self.faster:.2f} times as fast "
            f"({self.reader}, one text of {self.tokens} tokens)"
        )
        return lines

    @property
    def faster(self) -> float:
        return self.files[0].milliseconds / self.files[1].milliseconds

    def summary(self) -> Mapping[str, object]:
        return {**asdict(self), "files": [asdict(file) for file in self.files]}


def compression(model: TextModel, texts: TextSet, metric: str, form: BatchFormat, tokens: int) -> Compression:
    """Export both files, score them on all texts, and time them alternately. form: padded, on the CPU"""
    trained = copy.deepcopy(model).cpu().eval()
    plain = cast(TextModel, dequantise(copy.deepcopy(trained)))
    with tempfile.TemporaryDirectory() as folder:
        written = [
            export(plain, Path(folder) / "float32.onnx"),
            export(trained, Path(folder) / "int8.onnx", int8=True),
        ]
        runners = [FORMATS[".onnx"].open(done.path) for done in written]
        spent = _milliseconds(runners, min(tokens, model.card.config["max_length"]))
        outputs = [outputs_of(ExportedModel(run), texts.examples, form, _TEXTS) for run in runners]
        scores = [texts.judge(output).measures[metric] for output in outputs]
    parts = zip(("float32", "int8"), scores, written, spent, strict=True)
    first, second = (ExportedFile(name, score, done.size / 1e6, ms) for name, score, done, ms in parts)
    return Compression(metric, (first, second), written[1].difference, tokens, written[1].reader)


@dataclass(frozen=True)
class ExportedModel:
    """Runs an exported file on batches, like a model."""

    run: Runner

    def __call__(self, batch: TextBatch) -> Tensor:
        text = batch.text
        mask = torch.ones_like(text.ids) if text.mask is None else text.mask.long()
        segments = torch.zeros_like(text.ids) if text.segments is None else text.segments
        return self.run(text.ids, segments, mask)


def _milliseconds(runners: Sequence[Runner], tokens: int) -> list[float]:
    """Time the files alternately, so that other load on the machine affects both."""
    ids = torch.ones(1, tokens, dtype=torch.int64)
    times: list[list[float]] = [[] for _ in runners]
    for _ in range(_TURNS):
        for run, found in zip(runners, times, strict=True):
            began = time.perf_counter()
            run(ids, torch.zeros_like(ids), torch.ones_like(ids))
            found.append(1e3 * (time.perf_counter() - began))
    return [median(found) for found in times]
