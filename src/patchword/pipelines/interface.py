"""The object that a user asks: a trained model with everything that its inputs and outputs need."""

from collections.abc import Sequence
from typing import Literal, cast

import torch

from patchword.analysis.cost import Cost, count, text_of
from patchword.analysis.cost.detection import count_detector, largest_input
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.inspection.attention_options import PREDICTED, AttentionOptions
from patchword.inspection.attention_texts import text_attention
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model
from patchword.pipelines.abilities import Engine, abilities, require
from patchword.pipelines.answering import (
    check_top,
    classify_images,
    detect_objects,
    embed_image_layers,
    embed_images,
    embed_texts,
    predict_texts,
    segment_pixels,
)
from patchword.pipelines.attention import Attention, image_attention
from patchword.pipelines.detection.engine import SCORE, DetectionEngine
from patchword.pipelines.fillings import Fillings
from patchword.pipelines.image_inputs import ImageInput, Transform
from patchword.pipelines.images import ImageEngine, Vectors
from patchword.pipelines.predictions import Prediction, Predictions
from patchword.pipelines.segmentation.engine import SegmentationEngine
from patchword.pipelines.text_inputs import TextGiven, list_texts, single_texts
from patchword.pipelines.texts import TextEngine
from patchword.recipes.elmo.embedder import ElmoEmbedder
from patchword.recipes.text.inference.embedder import TextEmbedder
from patchword.recipes.text.inference.generation import Continuation, GenerationOptions
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.search import Search
from patchword.recipes.translation.translating import Translating
from patchword.training.step import Precision


class Pipeline:
    """A trained model that answers, opened by `patchword.pipeline`.

    Which methods it has an answer for depends on the model; any other raises an error that names those it has.

    | model | ask |
    |---|---|
    | classes of images | `p(image)`, `p.embed(images)`, `p.attention(image)` |
    | objects in images | `p(image)`, `p.detect(images, score=0.5)` |
    | classes of pixels | `p(image)`, `p.segment(images)` |
    | classes, labels or a number per text | `p(text)`, `p.embed(texts)`, `p.attention(text)` |
    | tags of words | `p.tag(text)` |
    | answers in a text | `p.answer(question, context)` |
    | masked language model | `p.fill("The [MASK] sat.")` |
    | causal language model | `p.generate("Once upon")` |
    | ELMo | `p.embed(texts)` |
    | translator | `p.translate(texts)` |

    `p.model`, `p.labels`, `p.transform` (images), `p.tokenizer` (texts), `p.device`, `p.precision` and `p.cost()` are
    there for your own code.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """What was opened."""
        return self._engine.name

    @property
    def engine(self) -> Engine:
        """What answers, of the kind of the model; the functions of the library take its parts."""
        return self._engine

    @property
    def model(self) -> Model:
        """The model, on its device, in evaluation mode; `p.detector` and `p.segmenter` have the types of those."""
        if isinstance(self._engine, (DetectionEngine, SegmentationEngine)):
            return cast(Model, self._engine.model)  # as of `patchword.load`
        return self._engine.reader.model if isinstance(self._engine, TextEngine) else self._engine.model

    @property
    def detector(self) -> Detector:
        """The detector, on its device, in evaluation mode."""
        return self._objects("p.detect").model

    @property
    def segmenter(self) -> Segmenter:
        """The segmenter, on its device, in evaluation mode."""
        return self._pixels("p.segment").model

    @property
    def translator(self) -> Translating:
        """The translator with its tokenizers: alignment, and the search step by step."""
        require(self._engine, "p.translate")
        assert isinstance(self._engine, Translating), "only a translator has this ability"
        return self._engine

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def precision(self) -> Precision:
        """float32 or bfloat16."""
        if isinstance(self._engine, Translating):
            return "float32"
        return self._engine.reader.precision if isinstance(self._engine, TextEngine) else self._engine.precision

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes or tags, or their numbers if they have no names; empty without classes."""
        if isinstance(self._engine, (DetectionEngine, SegmentationEngine)):
            return self._engine.labels
        if isinstance(self._engine, ImageEngine):
            return self._engine.labels if self._engine.has_classes else ()
        if isinstance(self._engine, TextEngine) and self._engine.task in ("classes", "labels", "tags"):
            return self._engine.reader.labels
        return ()

    @property
    def transform(self) -> Transform:
        """Converts one image to the normalized input tensor of the model."""
        if isinstance(self._engine, DetectionEngine):
            raise UserError(f"{self.name} is a detector, which takes images of any size", expected="p.detect(images)")
        if isinstance(self._engine, SegmentationEngine):
            raise UserError(f"{self.name} is a segmenter, which takes images of any size", expected="p.segment(images)")
        if not isinstance(self._engine, ImageEngine):
            own = "p.embed(texts)" if isinstance(self._engine, ElmoEmbedder) else "p.tokenizer"
            raise UserError(f"{self.name} reads texts", expected=own)
        return self._engine.transform

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; of a translator, that of the source language."""
        if isinstance(self._engine, DetectionEngine):
            raise UserError(f"{self.name} reads images", expected="p.detect(images)")
        if isinstance(self._engine, SegmentationEngine):
            raise UserError(f"{self.name} reads images", expected="p.segment(images)")
        if isinstance(self._engine, ImageEngine):
            raise UserError(f"{self.name} reads images", expected="p.transform")
        if isinstance(self._engine, ElmoEmbedder):
            raise UserError(f"{self.name} reads the characters of words", expected="p.embed(texts)")
        if isinstance(self._engine, Translating):
            return self._engine.languages.source
        return self._engine.reader.tokenizer

    @property
    def layers(self) -> int:
        """The number of the last layer that `p.embed` reads: of a Transformer, its depth."""
        require(self._engine, "p.embed")
        return self._engine.model.depth if isinstance(self._engine, ImageEngine) else self._embedder().depth

    def __call__(
        self,
        inputs: ImageInput | TextGiven | Sequence[ImageInput | TextGiven],
        *,
        top: int = 3,
        pair: str | None = None,
        question: str | None = None,
        calibrated: bool = False,
    ) -> Predictions:
        """Predict, for one input or for many; the result has one `Prediction` per input, in the same order.

        inputs: for a model of images, one of these or a list of them: the path of an image or of a folder; a PIL
            image; a uint8 array (height, width[, channels]); a tensor (channels, height, width) or a batch of it.
            A uint8 tensor holds pixels, which are resized and normalized; a float tensor holds values that are
            normalized already, in the input size of the model. In a list, an image that cannot be read becomes a
            prediction with `error`; alone, it raises.
            For a model of texts: a text, a pair (text, text), or a list of them. A text is never read as a file name.
        top: how many classes or answers to return.
        pair: the second text, for a model of pairs.
        question: the question about the text, for a model that answers questions.
        calibrated: of a classifier that was trained here: scale the probabilities by the temperature that was fitted
            on the validation data of its run. No prediction changes.
        """
        engine = self._calibrated() if calibrated else self._engine
        if isinstance(engine, (ImageEngine, DetectionEngine, SegmentationEngine)):
            require(engine, "p(image)")
            if pair is not None or question is not None:
                raise UserError(f"{self.name} reads images", expected="no pair and no question")
            if isinstance(engine, DetectionEngine):
                return detect_objects(engine, inputs, SCORE)
            if isinstance(engine, SegmentationEngine):
                return segment_pixels(engine, inputs)
            return classify_images(engine, inputs, top)
        asks = isinstance(engine, TextEngine) and engine.task == "span"
        texts = self._texts("p.answer" if asks else "p(text)")
        asked = list_texts(inputs, pair, question)
        return predict_texts(engine if isinstance(engine, TextEngine) else texts, asked, top)

    def detect(self, images: ImageInput | Sequence[ImageInput], *, score: float = SCORE) -> Predictions:
        """Detect the objects of one image or of several; the result has one `Prediction` per image.

        `.boxes`, `.labels`, `.scores` and `.masks` are the objects, best first; `.draw()` returns the image with them.

        images: the inputs that `p(...)` takes, in any size; tensors hold uint8 pixels.
        score: the lowest score of an object, from 0 to 1.
        """
        return detect_objects(self._objects("p.detect"), images, score)

    def segment(self, images: ImageInput | Sequence[ImageInput]) -> Predictions:
        """Classify every pixel of one image or of several; the result has one `Prediction` per image.

        `.segmentation` is the answer: `.labels` (height, width), `.classes`, `.share` of each class, and `.save(path)`
        writes a PNG with a palette; `.draw()` returns the image with its classes.

        images: the inputs that `p(...)` takes, in any size; tensors hold uint8 pixels.
        """
        return segment_pixels(self._pixels("p.segment"), images)

    def answer(self, question: str, context: str, *, top: int = 3, empty: bool | None = None) -> Prediction:
        """Answer a question from a text: `.answer` is the best part of the text, `.answers` has the others.

        empty: whether the text may have no answer; by default as in the training data
        """
        return predict_texts(self._texts("p.answer"), list_texts(context, question=question), top, empty)[0]

    def tag(self, texts: str | Sequence[str]) -> Predictions:
        """Tag the words of one text or of several: `p.tag(text)[0].words`, and `.spans` for BIO tags."""
        return predict_texts(self._texts("p.tag"), list_texts(texts), 1)

    def embed(
        self,
        inputs: ImageInput | Sequence[ImageInput],
        *,
        layer: int | None = None,
        pool: Literal["mean", "first", "pooler"] | None = None,
        normalize: bool | None = None,
        length: int | None = None,
    ) -> Vectors:
        """Return one vector per image or text: float32 of shape (inputs, width).

        Images: the pooled tokens of a layer, of the inputs that `p(...)` takes; by default what the head reads. Texts:
        the pooled tokens of a layer; by default as the folder of sentence-transformers defines it, else the mean of the
        last layer. The tokens of an ELMo are words.

        layer: 0 is the input of the first block, -1 the last layer. The layers of an image model are the blocks of all
            its stages; `p.layers` is the number of the last one.
        pool: how the vectors of the tokens become one. Of an image model: mean (of the patches) or first ([CLS]); by
            default as its head does, and the mean of the patches in stages without a [CLS] token.
        normalize: scale the vectors to length 1.
        length: of a text model: maximum number of tokens per text, special tokens included.
        """
        require(self._engine, "p.embed")
        if not isinstance(self._engine, ImageEngine):
            return embed_texts(self._embedder(), inputs, layer, pool, normalize, length)
        if length is not None:
            raise UserError(f"{self.name} reads images", expected="no length")
        return embed_images(self._engine, inputs, layer, pool, normalize)

    def embed_layers(
        self,
        inputs: ImageInput | Sequence[ImageInput],
        *,
        pool: Literal["mean", "first"] | None = None,
        normalize: bool | None = None,
    ) -> list[Vectors]:
        """Return what `embed` returns for each layer from 0 to `p.layers`; images pass through the model only once.

        >>> for layer, vectors in enumerate(p.embed_layers("photos", pool="mean")): ...
        """
        require(self._engine, "p.embed")
        if isinstance(self._engine, ImageEngine):
            return embed_image_layers(self._engine, inputs, pool, normalize)
        layers = range(self.layers + 1)
        return [self.embed(inputs, layer=layer, pool=pool, normalize=normalize) for layer in layers]

    def fill(self, text: str, *, top: int = 5, pieces: bool = False) -> Fillings:
        """Return the most probable words at every [MASK] of a text.

        pieces: also return continuations of words (##ing)
        """
        return Fillings(text, self._texts("p.fill").fill(text, check_top(top), pieces))

    def generate(
        self,
        prompt: str,
        *,
        tokens: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        beams: int = 0,
        penalty: float = 0.6,
        seed: int = 0,
        samples: int = 1,
    ) -> list[Continuation]:
        """Return continuations of a text; `.text` is without the prompt.

        tokens: maximum number of new tokens.
        temperature: below 1, unlikely tokens are rarer; 0 always takes the most likely token.
        top_k, top_p: sample from the k most likely tokens, or from the fewest with this total probability.
        beams: beam search with this many beams instead of sampling, with this length penalty.
        samples: how many continuations.
        """
        engine = self._texts("p.generate")
        options = GenerationOptions(tokens, temperature, top_k, top_p, beams, penalty, seed, samples)
        return engine.generate(engine.prompt(prompt), options)

    def translate(self, texts: str | Sequence[str], *, beams: int = 5, penalty: float = 0.6) -> list[str]:
        """Translate one text or several; the translations have the order of the texts.

        beams: of the search; 1 is greedy decoding. penalty: length penalty of the beam search
        """
        engine = self.translator
        inputs = [TextInput(text, place={"file": "the texts"}) for text in single_texts(texts)]
        return engine.texts(engine.sources(inputs), Search(beams, penalty), lambda done: None)

    def attention(
        self,
        given: ImageInput,
        *,
        pair: str = "",
        layers: Sequence[int] = (),
        heads: Sequence[int] = (),
        at: tuple[int, int] | None = None,
        relevance: str | None = None,
    ) -> Attention:
        """Return what the model attends to in one image or one text: maps of layers and heads, rollout, relevance.

        pair: a second text. layers, heads: only these, counted from 1.
        at: the pixel (x, y) of the query patch in the resized image; by default [CLS], or the mean of all patches.
        relevance: the class; by default the predicted one, if the model predicts classes.
        """
        require(self._engine, "p.attention")
        predicts = not isinstance(self._engine, ImageEngine) or self._engine.has_classes
        about = relevance if relevance is not None else PREDICTED if predicts else ""
        options = AttentionOptions(tuple(layers), tuple(heads), at, True, about)
        if isinstance(self._engine, ImageEngine):
            if pair:
                raise UserError(f"{self.name} reads images", expected="no pair")
            return image_attention(self._engine, given, options)
        (text,) = single_texts([given])
        return Attention(text_attention(self._texts("p.attention").reader, text, pair, options))

    def cost(self, tokens: int | None = None) -> Cost:
        """Count parameters and multiply-accumulates: `.parameters`, `.macs`. tokens: the length of the text.

        Of a detector: for the largest image that it reads. Of a segmenter: for a training crop.
        """
        if isinstance(self._engine, SegmentationEngine):
            crop = int(self._engine.model.card.config["crop"])
            return count_segmenter(self._engine.model.card, size=(crop, crop))
        if isinstance(self._engine, DetectionEngine):
            return count_detector(self.model.card, size=largest_input(self.model.card))
        return count(self.model.card, inputs=None if tokens is None else text_of(self.model.card, tokens))

    def __repr__(self) -> str:
        where = f"{self.device.type}, {self.precision}"
        return f"Pipeline({self.name}: {self.model.card.model}, {where}; {', '.join(abilities(self._engine))})"

    def _calibrated(self) -> Engine:
        if isinstance(self._engine, (ImageEngine, TextEngine)):
            return self._engine.calibrated()
        raise UserError(f"{self.name} is no classifier", expected="no calibrated")

    def _objects(self, ability: str) -> DetectionEngine:
        require(self._engine, ability)
        assert isinstance(self._engine, DetectionEngine), "only a detector has this ability"
        return self._engine

    def _pixels(self, ability: str) -> SegmentationEngine:
        require(self._engine, ability)
        assert isinstance(self._engine, SegmentationEngine), "only a segmenter has this ability"
        return self._engine

    def _embedder(self) -> TextEmbedder:
        return self._engine if isinstance(self._engine, ElmoEmbedder) else self._texts("p.embed").embedder

    def _texts(self, ability: str) -> TextEngine:
        require(self._engine, ability)
        assert isinstance(self._engine, TextEngine), "only a text model has this ability"
        return self._engine
