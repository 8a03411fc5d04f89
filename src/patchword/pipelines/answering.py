"""From the inputs of a user to predictions and vectors; truncated texts are a warning."""

import warnings
from dataclasses import replace

import numpy as np

from patchword.core.errors import UserError
from patchword.pipelines.detection.engine import DetectionEngine, require_one
from patchword.pipelines.image_inputs import list_images
from patchword.pipelines.images import ImageEngine, Vectors
from patchword.pipelines.images import Pool as ImagePool
from patchword.pipelines.predictions import Prediction, Predictions
from patchword.pipelines.segmentation.engine import SegmentationEngine
from patchword.pipelines.text_inputs import check_pairs, single_texts
from patchword.pipelines.texts import TextEngine
from patchword.recipes.text.inference.embedder import TextEmbedder
from patchword.recipes.text.inference.embedding import Pool
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.reader import Counts
from patchword.recipes.text.tasks.all_tasks import task_spec_of


def classify_images(engine: ImageEngine, inputs: object, top: int) -> Predictions:
    """Return the classes of images; an image that cannot be read has an error, unless none can be read."""
    images = list_images(inputs)
    return Predictions(
        Prediction(image, None, error=str(answer).splitlines()[0])
        if isinstance(answer, UserError)
        else Prediction(image, answer)
        for image, answer in zip(images, engine.classify(images, check_top(top)), strict=True)
    )


def detect_objects(engine: DetectionEngine, inputs: object, score: float) -> Predictions:
    """Return the objects of images; an image that cannot be read has an error, unless none can be read."""
    images = list_images(inputs, "detect objects in")
    answers = engine.detect(images, score)
    require_one(answers)
    return Predictions(
        Prediction(image, None, error=str(answer).splitlines()[0])
        if isinstance(answer, UserError)
        else Prediction(image, answer)
        for image, answer in zip(images, answers, strict=True)
    )


def segment_pixels(engine: SegmentationEngine, inputs: object) -> Predictions:
    """Return the label maps of images; an image that cannot be read has an error, unless none can be read."""
    images = list_images(inputs, "segment")
    answers = engine.segment(images)
    errors = [answer for answer in answers if isinstance(answer, UserError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    return Predictions(
        Prediction(image, None, error=str(answer).splitlines()[0])
        if isinstance(answer, UserError)
        else Prediction(image, answer)
        for image, answer in zip(images, answers, strict=True)
    )


def predict_texts(engine: TextEngine, inputs: list[TextInput], top: int, empty: bool | None = None) -> Predictions:
    """Return what the head of the model predicts for texts, pairs or questions."""
    recipe = engine.recipe(paired=any(one.pair is not None for one in inputs))
    task = task_spec_of(recipe)
    check_pairs(inputs, task.paired, "question" in task.asked_as, engine.name)
    engine = _counting(engine)
    answers = engine.predict(inputs, recipe, check_top(top), empty)
    _warn_truncated(engine.reader.counts, recipe.length)
    return Predictions(Prediction(one.text, answer, one.pair) for one, answer in zip(inputs, answers, strict=True))


def embed_texts(
    embedder: TextEmbedder,
    inputs: object,
    layer: int | None,
    pool: Pool | None,
    normalize: bool | None,
    length: int | None,
) -> Vectors:
    """Return one vector per text, (texts, width)."""
    texts, embedder = single_texts(inputs), embedder.with_new_counts()
    if pool == "none":
        raise UserError("pool", expected="mean, first or pooler", got="none", hint="p.model.states returns all tokens")
    options = embedder.options(layer, pool, normalize, length, prefix="")
    vectors: Vectors = np.concatenate([part.vectors for part in embedder.embed(texts, options)])
    _warn_truncated(embedder.counts, options.length, embedder.unit)
    return vectors


def embed_images(
    engine: ImageEngine, inputs: object, layer: int | None, pool: Pool | None, normalize: bool | None
) -> Vectors:
    """Return the pooled features of images, (images, width)."""
    return _scaled(engine.features(list_images(inputs), layer, _image_pool(pool)), normalize)


def embed_image_layers(engine: ImageEngine, inputs: object, pool: Pool | None, normalize: bool | None) -> list[Vectors]:
    """Return the pooled features of images in every layer."""
    return [_scaled(found, normalize) for found in engine.features_of_layers(list_images(inputs), _image_pool(pool))]


def _image_pool(pool: Pool | None) -> ImagePool | None:
    if pool not in (None, "mean", "first"):
        raise UserError("pool", expected="mean (of the patches) or first ([CLS])", got=pool)
    return pool


def _scaled(found: Vectors, normalize: bool | None) -> Vectors:
    scaled: Vectors = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return scaled if normalize else found


def check_top(top: int) -> int:
    """Return the number of classes, answers or words to return; it must be at least 1."""
    if top < 1:
        raise UserError("top", expected="1 or more", got=top)
    return top


def _counting(engine: TextEngine) -> TextEngine:
    """Return the engine with a new count of truncated texts, so that calls do not share one."""
    return replace(engine, reader=replace(engine.reader, counts=Counts()))


def _warn_truncated(counts: Counts, length: int | None, unit: str = "token") -> None:
    if cut := counts.shortened:
        what = "1 text is" if cut == 1 else f"{cut:,} texts are"
        warnings.warn(f"{what} longer than {length} {unit}s and truncated", stacklevel=4)
