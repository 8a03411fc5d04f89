"""Opens the model of a work, and its input by what it is: a table, a text file, Parquet, Arrow, a folder of images."""

from pathlib import Path

from patchword.core.errors import UserError
from patchword.pipelines.bulk import arrow_files, line_files
from patchword.pipelines.bulk.arrow_files import ArrowFile
from patchword.pipelines.bulk.embedding import EmbedImages, EmbedTexts
from patchword.pipelines.bulk.image_folders import ImageFolder
from patchword.pipelines.bulk.line_files import LineFile
from patchword.pipelines.bulk.predicting import PredictImages, PredictTexts
from patchword.pipelines.bulk.rows import Source
from patchword.pipelines.bulk.work import OpenedWork, PredictWork, Work
from patchword.pipelines.images import ImageEngine
from patchword.pipelines.opening import pipeline
from patchword.pipelines.texts import TextEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.text.inference.input import Columns

_TEXTS = (*line_files.SUFFIXES, *arrow_files.SUFFIXES)


def open_work(work: Work) -> OpenedWork:
    """Open the model of a work."""
    engine = pipeline(work.model, device=work.device, precision=work.precision).engine
    if isinstance(work, PredictWork):
        if isinstance(engine, (ImageEngine, TextEngine)):
            return _predicting(work, engine)
        hint = "detectors and segmenters write --jsonl, --coco or --masks"
        expected = "a classifier of images, or a model of texts"
        raise UserError(f"{work.model} cannot be asked for many rows", expected=expected, hint=hint)
    if isinstance(engine, ImageEngine):
        return EmbedImages(work, engine)
    if isinstance(engine, (TextEngine, ElmoEmbedder)):
        return EmbedTexts(work, engine.embedder if isinstance(engine, TextEngine) else engine)
    raise UserError(f"{work.model} gives no vectors", expected="a model of texts or a classifier of images")


def _predicting(work: PredictWork, engine: ImageEngine | TextEngine) -> OpenedWork:
    if isinstance(engine, TextEngine):
        return PredictTexts(work, engine.calibrated() if work.calibrated else engine)
    if not engine.has_classes:
        hint = f"fine-tune it: `patchword train finetune-images model={work.model} data=FOLDER`"
        raise UserError(f"{work.model} is pretrained only; it has no classes yet", hint=hint)
    return PredictImages(work, engine.calibrated() if work.calibrated else engine)


def open_source(path: Path, columns: Columns | None) -> Source:
    """Open and check an input. columns: what a model of texts reads; None for a model of images"""
    source = _opened(path, columns)
    source.check()
    return source


def _opened(path: Path, columns: Columns | None) -> Source:
    if not path.exists():
        raise UserError(f"there is nothing at {path}", expected="a file, or a folder of images")
    if columns is None:
        if not path.is_dir():
            raise UserError(f"{path} is a file, and the model reads images", expected="a folder of images")
        return ImageFolder(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder, and the model reads texts", expected=f"a file in {', '.join(_TEXTS)}")
    suffix = path.suffix.lower()
    if suffix in line_files.SUFFIXES:
        return LineFile(path, columns)
    if suffix in arrow_files.SUFFIXES:
        return ArrowFile(path, columns)
    raise UserError(f"{path}: unknown file type", expected=f"a name in {', '.join(_TEXTS)}")
