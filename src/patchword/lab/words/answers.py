"""Masked words, next words, similarities, tags, answers and classes of texts, as JSON."""

from typing import Any

from patchword.core.errors import UserError
from patchword.lab.words.attention import reader_of
from patchword.lab.words.questions import (
    AnswerRequest,
    FillRequest,
    NextRequest,
    SimilarRequest,
    bounded,
    bounded_sentences,
)
from patchword.pipelines.interface import Pipeline
from patchword.pipelines.predictions import Prediction
from patchword.pipelines.texts import TextEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.text.inference.answers import NumberAnswer, SpanAnswer, TagAnswer
from patchword.recipes.text.inference.input import TextInput, checked_text
from patchword.recipes.text.inference.next_words import next_words
from patchword.recipes.text.inference.similarity import similar

MASK = "[MASK]"
MOST_USES = 12
MOST_ANSWERS = 5
MOST_CLASSES = 20


def filled(pipeline: Pipeline, asked: FillRequest) -> dict[str, Any]:
    """Return the words of each mask. text: the text with its masks, whose name depends on the vocabulary."""
    bounded(asked.text)
    tokenizer = pipeline.tokenizer
    name = tokenizer.tokens([tokenizer.require_mask()])[0]
    text = _masked(asked.text, asked.places, MASK).replace(MASK, name)
    found = pipeline.fill(checked_text(text, "the text"), top=asked.top)
    return {"text": text, "filled": found.filled, "gaps": [gap.to_json() for gap in found]}


def continued(pipeline: Pipeline, asked: NextRequest) -> dict[str, Any]:
    """Return the next words after a text, which may be empty."""
    text = bounded(asked.text, can_be_empty=True)
    found = next_words(reader_of(pipeline), text, asked.top)
    return {"text": text, "words": [vars(one) for one in found]}


def compared(pipeline: Pipeline, asked: SimilarRequest) -> dict[str, Any]:
    """Return the similarity of one word across sentences in every layer, and which sentences lack the word."""
    sentences = bounded_sentences(asked.sentences)
    word = bounded(asked.word, "the word").strip()
    engine = pipeline.engine
    embedder = (
        engine if isinstance(engine, ElmoEmbedder) else engine.embedder if isinstance(engine, TextEngine) else None
    )
    if embedder is None:
        raise UserError(f"{pipeline.name} has no vectors of words in sentences", expected="a text model or an ELMo")
    inputs = [
        TextInput(checked_text(one, f"sentence {number}"), None, {"line": number})
        for number, one in enumerate(sentences, 1)
    ]
    found = similar(embedder, word, inputs, range(1, embedder.depth + 1), MOST_USES)
    return {**found.to_json(), "left_out": found.left_out, "unread": found.unread}


def tagged(pipeline: Pipeline, text: str) -> dict[str, Any]:
    """Return the words of a text with their tags, and the spans of BIO tags."""
    return _record(pipeline.tag(bounded(text))[0])


def answered(pipeline: Pipeline, asked: AnswerRequest) -> dict[str, Any]:
    """Return the best answers to a question about a text."""
    question = bounded(asked.question, "the question")
    return _record(pipeline.answer(question, bounded(asked.text), top=MOST_ANSWERS))


def classified(pipeline: Pipeline, text: str) -> dict[str, Any]:
    """Return the classes of a text with their probabilities, or its number."""
    if not isinstance(pipeline.engine, TextEngine):  # a model of images would read the text as a path
        raise UserError(f"{pipeline.name} does not classify texts", expected="a text model with classes")
    found = pipeline(bounded(text), top=MOST_CLASSES)[0]
    if isinstance(found.output, NumberAnswer):
        return {"classes": [], "number": found.number}
    return {"classes": [list(pair) for pair in found.classes[:MOST_CLASSES]], "number": None}


def _record(prediction: Prediction) -> dict[str, Any]:
    assert isinstance(prediction.output, (TagAnswer, SpanAnswer)), "the pipeline has refused other models"
    return prediction.output.record()


def _masked(text: str, places: tuple[tuple[int, int], ...], mask: str) -> str:
    end = len(text)
    for start, stop in sorted(places, reverse=True):
        if not start < stop <= end:
            raise UserError("the places to mask", expected="characters [start, end) of the text that do not overlap")
        text, end = text[:start] + mask + text[stop:], start
    return text
