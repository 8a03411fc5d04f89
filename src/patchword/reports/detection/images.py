"""Test images of a detection report, truth beside prediction."""

import io
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from PIL import Image
from torch import Tensor

from patchword.objectives.metrics.detection.errors import DetectionErrors
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.reports.detection.beside import draw_beside
from patchword.reports.detection.records import CROWDED, drawn_predictions, drawn_truth
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted

_EXAMPLES, _WORST = 3, 6
_SMALLEST, _LARGEST = 480, 640  # pixels of the longer side of one panel
_LABELS = f"With more than {CROWDED} objects in an image, only errors are labelled."
_QUALITY = 85  # of JPEG, which keeps a report of photos small


class Drawable(Protocol):
    """The images of an evaluation with their objects and detections."""

    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def truth(self) -> Sequence[ImageObjects]: ...
    @property
    def found(self) -> Sequence[ImageDetections]: ...
    @property
    def names(self) -> tuple[str, ...]: ...

    def image(self, index: int) -> Tensor:
        """Return the pixels of an image: uint8 (channels, height, width)."""
        ...


def examples_section(found: Drawable, errors: DetectionErrors) -> str:
    """Return the section with a few images: of all images by their number of errors, those at equal distances."""
    with_objects = [index for index, one in enumerate(found.truth) if len(one.labels)]
    ranked = sorted(with_objects, key=lambda index: int(errors.per_image[index].sum()))
    places = np.linspace(0, max(len(ranked) - 1, 0), _EXAMPLES + 2)[:-1].round().astype(int)
    chosen = list(dict.fromkeys(ranked[place] for place in places[:_EXAMPLES])) if ranked else []
    about = f"Test images from few to many errors. Boxes with a score of at least {errors.threshold:.2f} are drawn; "
    about += f"dashed boxes are errors. {_LABELS}"
    shown = "".join(_figure(found, errors, index) for index in chosen)
    return page.section("Examples", page.paragraph(about) + shown if chosen else "")


def worst_section(found: Drawable, errors: DetectionErrors) -> str:
    """Return the section with the images that have the most errors."""
    chosen = errors.worst(_WORST)
    if not chosen:
        return page.section("Worst images", page.paragraph("None: every object was found, and no box is false."))
    wrong = int((errors.per_image.sum(axis=1) > 0).sum())
    about = f"{counted(wrong, 'image')} of {errors.images:,} with errors"
    about += f"; the {len(chosen)} with the most errors." if wrong > len(chosen) else ", those with the most first."
    about += " Dashed boxes are errors: missed objects on the left, false boxes and wrong classes on the right. "
    about += _LABELS
    shown = "".join(_figure(found, errors, index) for index in chosen)
    return page.section("Worst images", page.paragraph(about) + shown)


def to_image(pixels: Tensor) -> Image.Image:
    """Return uint8 pixels (channels, height, width) as an RGB image."""
    array = pixels.cpu().permute(1, 2, 0).numpy()
    return Image.fromarray(np.ascontiguousarray(array[..., 0] if array.shape[2] == 1 else array)).convert("RGB")


def _figure(found: Drawable, errors: DetectionErrors, index: int) -> str:
    truth = drawn_truth(found.truth[index], errors, index, found.classes)
    predicted = drawn_predictions(found.found[index], errors, index, found.classes)
    panels = [(f"truth ({len(truth)})", truth), (f"prediction ({len(predicted)})", predicted)]
    drawn = draw_beside(to_image(found.image(index)), panels, _SMALLEST, _LARGEST)
    missed, false, confused = errors.per_image[index].tolist()
    summary = f"{missed} missed, {false} false, {confused} of a wrong class"
    name = found.names[index].replace("\\", "/").rpartition("/")[2]
    caption = f"<b>{page.escape(name)}</b>: {summary}"
    buffer = io.BytesIO()
    drawn.save(buffer, "JPEG", quality=_QUALITY)
    alternative = f"{name}, truth beside prediction: {summary}"
    return page.figure(page.embedded("jpeg", buffer.getvalue()), alternative, caption, "detections")
