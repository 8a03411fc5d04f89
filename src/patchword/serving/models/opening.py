"""Opens the models that a server answers for, and measures them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from patchword.core.errors import UserError
from patchword.pipelines.images import ImageEngine
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.opening import Precision, pipeline
from patchword.pipelines.texts import TextEngine
from patchword.recipes.translation.translating import Translating
from patchword.serving.engine.engine import Engine
from patchword.serving.engine.queue import QueueLimits, WorkQueue
from patchword.serving.engine.speed import Speed
from patchword.serving.engine.threads import Measured, ThreadedCompute, measure
from patchword.serving.models.images import ServedImages
from patchword.serving.models.language import ServedLanguage
from patchword.serving.models.served import ServedModel
from patchword.serving.models.texts import ServedTexts
from patchword.serving.models.translators import ServedTranslator

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Source:
    """A model to serve. name: in addresses and requests. source: what `patchword.pipeline` opens."""

    name: str
    source: str

    @classmethod
    def parse(cls, text: str) -> "Source":
        """Parse SOURCE or NAME=SOURCE; without a name, it is the last part of the source."""
        name, equals, source = text.partition("=")
        if not equals or Path(text).exists():
            found = cls(re.split(r"[/:@]", text.rstrip("/"))[-1] if "@" not in text else _before_revision(text), text)
        else:
            found = cls(name, source)
        if found.source in (".", "..", "") or not _NAME.fullmatch(found.name):
            expected = "NAME=SOURCE with letters, digits, dots and hyphens in the name"
            raise UserError(f"the model {text!r} has no usable name", expected=expected)
        return found


@dataclass(frozen=True)
class Served:
    """A model with its engine. measured: its speed and its threads."""

    model: ServedModel
    engine: Engine
    measured: Measured


def parse_sources(texts: Iterable[str]) -> list[Source]:
    found = [Source.parse(text) for text in texts]
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two models have the name {twice!r}", expected="different names", hint="NAME=SOURCE names one")
    return found


def open_served(source: Source, device: str, precision: Precision, download: bool, waiting: float) -> Served:
    """Open a model, check that it can be served, and measure it. waiting: seconds of work in its queue"""
    return serve_pipeline(
        source.name, pipeline(source.source, device=device, precision=precision, download=download), waiting
    )


def serve_pipeline(
    name: str,
    opened: Pipeline,
    waiting: float = 2.0,
    measured: Callable[[ServedModel], Measured] | None = None,
) -> Served:
    """Return an open model with an engine, which is not started. measured: replaces the measurement"""
    model = _model(name, opened)
    found = (measured or _measured)(model)
    queue = WorkQueue(QueueLimits(found.budget, waiting), Speed(found.per_second, found.size))
    return Served(model, Engine(name, ThreadedCompute(model.compute, found), queue), found)


def _model(name: str, opened: Pipeline) -> ServedModel:
    engine = opened.engine
    if isinstance(engine, TextEngine):
        has_words = engine.reader.head in ("words", "pretraining")
        return ServedLanguage(name, engine) if has_words else ServedTexts(name, engine)
    if isinstance(engine, Translating):
        return ServedTranslator(name, engine)
    if isinstance(engine, ImageEngine) and engine.has_classes:
        return ServedImages(name, engine)
    expected = "a model that predicts for texts, embeds, continues or translates them, or classifies images"
    got = f"{opened.model.card.model}, for which there is no route yet"
    raise UserError(f"{name} cannot be served", expected=expected, got=got)


def _measured(model: ServedModel) -> Measured:
    before = torch.get_num_threads()
    try:
        found = measure(model.compute, model.sample(), model.threads)
        torch.set_num_threads(found.single)
        if isinstance(model, ServedLanguage):
            model.measure_token(found.per_second)
        return found
    finally:
        torch.set_num_threads(before)


def _before_revision(text: str) -> str:
    """hf:OWNER/REPO@REVISION -> REPO"""
    return re.split(r"[/:]", text.partition("@")[0])[-1]
