"""The results of a pipeline: one `Prediction` per input, in a sequence that prints itself as a table."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from PIL import Image

from patchword.core.errors import UserError
from patchword.pipelines.detection.answer import BoxArray, DetectionAnswer, MaskArray, ScoreArray
from patchword.pipelines.detection.pixels import upright_image
from patchword.pipelines.html import prediction_rows, table_of
from patchword.pipelines.image_inputs import OneImage
from patchword.pipelines.segmentation.answer import SegmentationAnswer
from patchword.pipelines.tables import shown_input, text_table
from patchword.recipes.text.inference.answers import (
    ClassAnswer,
    FoundAnswer,
    LabelsAnswer,
    NumberAnswer,
    SpanAnswer,
    TagAnswer,
    Tagged,
    TagSpan,
    TextAnswer,
)

_SHOWN = 50  # predictions in a table


@dataclass(frozen=True, repr=False, eq=False)
class Prediction:
    """What a model predicts for one input.

    input: the path, image or text. pair: the second text, or the question. output: the answer as a typed object, one
    of `ClassAnswer`, `LabelsAnswer`, `NumberAnswer`, `TagAnswer`, `SpanAnswer`, `DetectionAnswer` and
    `SegmentationAnswer`; None if the image cannot be read. error: why it cannot be read, else "".

    The properties read the output. One that the output does not have is an error that names those that it has.
    """

    input: OneImage | str
    output: TextAnswer | DetectionAnswer | SegmentationAnswer | None
    pair: str | None = None
    error: str = ""

    @property
    def label(self) -> str:
        """The most probable class."""
        return self.classes[0][0]

    @property
    def probability(self) -> float:
        """The probability of the most probable class, or of the best answer to a question."""
        if isinstance(self.output, SpanAnswer):
            return self.answers[0].probability if self.answers else 0.0
        return self.classes[0][1]

    @property
    def classes(self) -> tuple[tuple[str, float], ...]:
        """The most probable classes with their probabilities, the best first; of several labels, all of them."""
        if isinstance(self.output, ClassAnswer):
            return self.output.probabilities
        if isinstance(self.output, LabelsAnswer):
            return tuple(sorted(self.output.probabilities, key=lambda pair: -pair[1]))
        raise self._missing("classes")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels with a probability above 0.5, of a model that predicts several labels per text.

        Of a detector: the class name of each object.
        """
        if isinstance(self.output, DetectionAnswer):
            return self.output.names
        if not isinstance(self.output, LabelsAnswer):
            raise self._missing("labels")
        return tuple(name for name, _ in self.output.chosen)

    @property
    def number(self) -> float:
        """The predicted number."""
        if not isinstance(self.output, NumberAnswer):
            raise self._missing("number")
        return self.output.number

    @property
    def words(self) -> tuple[Tagged, ...]:
        """The words of the text, each with its tag, its probability and its characters."""
        if not isinstance(self.output, TagAnswer):
            raise self._missing("words")
        return self.output.words

    @property
    def spans(self) -> tuple[TagSpan, ...]:
        """The names or phrases of tagged words; empty if the tags are not BIO tags."""
        if not isinstance(self.output, TagAnswer):
            raise self._missing("spans")
        return tuple(self.output.spans())

    @property
    def answer(self) -> str:
        """The best answer to the question; "" means that the text has no answer."""
        return self.answers[0].text if self.answers else ""

    @property
    def answers(self) -> tuple[FoundAnswer, ...]:
        """The best answers to the question with their characters, scores and probabilities."""
        if not isinstance(self.output, SpanAnswer):
            raise self._missing("answers")
        return tuple(self.output.ranked())

    @property
    def boxes(self) -> BoxArray:
        """The boxes of the detected objects, best first: (objects, 4) as x1, y1, x2, y2 in pixels of the image."""
        return self._objects("boxes").boxes

    @property
    def scores(self) -> ScoreArray:
        """The scores of the detected objects: (objects,), from 0 to 1."""
        return self._objects("scores").scores

    @property
    def masks(self) -> MaskArray | None:
        """The masks of the detected objects: (objects, height, width) of bool; None of a detector of boxes."""
        return self._objects("masks").masks

    @property
    def segmentation(self) -> SegmentationAnswer:
        """The label map of a segmenter: `.labels`, `.classes`, `.share`, `.mask(name)`, `.save(path)`."""
        if not isinstance(self.output, SegmentationAnswer):
            raise self._missing("segmentation")
        return self.output

    def draw(self) -> Image.Image:
        """Return the image with its detected objects: boxes, class names, scores and masks; or with its label map.

        An image whose longer side is shorter than 640 pixels is enlarged.
        """
        found = self.output if isinstance(self.output, SegmentationAnswer) else self._objects("draw")
        assert not isinstance(self.input, str), "detectors and segmenters read images"
        return found.draw(upright_image(self.input))

    def __repr__(self) -> str:
        return repr(Predictions([self]))

    def _repr_html_(self) -> str:
        return Predictions([self])._repr_html_()

    def _objects(self, name: str) -> DetectionAnswer:
        if not isinstance(self.output, DetectionAnswer):
            raise self._missing(name)
        return self.output

    def _missing(self, name: str) -> UserError:
        if self.output is None:
            return UserError(f"there is no prediction for {shown_input(self.input)}", got=self.error)
        return UserError(
            f"the prediction has no property {name!r}", expected=" or ".join(_PROPERTIES[type(self.output)])
        )


_PROPERTIES: dict[type[TextAnswer | DetectionAnswer | SegmentationAnswer], tuple[str, ...]] = {
    ClassAnswer: ("label", "probability", "classes"),
    LabelsAnswer: ("labels", "classes"),
    NumberAnswer: ("number",),
    TagAnswer: ("words", "spans"),
    SpanAnswer: ("answer", "probability", "answers"),
    SegmentationAnswer: ("segmentation", "draw"),
    DetectionAnswer: ("boxes", "labels", "scores", "masks", "draw"),
}


class Predictions(Sequence[Prediction]):
    """Predictions in the order of the inputs. A terminal prints them as a table, a notebook as HTML."""

    def __init__(self, predictions: Iterable[Prediction]) -> None:
        self._all = tuple(predictions)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...

    @overload
    def __getitem__(self, index: slice) -> "Predictions": ...

    def __getitem__(self, index: int | slice) -> "Prediction | Predictions":
        return Predictions(self._all[index]) if isinstance(index, slice) else self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._all)

    def __repr__(self) -> str:
        rows = [row for prediction in self._all[:_SHOWN] for row in _cells(prediction)]
        return text_table(rows) + self._rest()

    def _repr_html_(self) -> str:
        shown = self._all[:_SHOWN]
        rows = [prediction_rows(one.input, one.pair, one.output, one.error) for one in shown]
        return table_of(rows, self._rest().strip())

    def _rest(self) -> str:
        more = len(self) - _SHOWN
        return f"\n... and {more:,} more" if more > 0 else ""


def _cells(prediction: Prediction) -> list[dict[str, str]]:
    """Return the rows of one prediction in a table; the input is in the first of them."""
    image = not isinstance(prediction.input, str)
    first = {"image" if image else "text": shown_input(prediction.input)}
    if prediction.pair is not None:
        asks = isinstance(prediction.output, SpanAnswer)
        first["question" if asks else "pair"] = shown_input(prediction.pair)
    if prediction.output is None:
        return [first | {"error": prediction.error}]
    cells, *others = prediction.output.cells()
    return [first | cells, *others]
