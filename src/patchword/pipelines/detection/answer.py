"""The objects of one image, in the forms of every answer: a JSON record, rows of a table, cells for the terminal."""

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from PIL import Image

from patchword.objectives.metrics.detection.records import ImageDetections
from patchword.reports.detection.drawing import SMALLEST, draw_objects
from patchword.reports.detection.records import drawn_detections

BoxArray: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # (objects, 4)
ScoreArray: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]  # (objects,)
MaskArray: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]  # (objects, height, width)


@dataclass(frozen=True, eq=False)
class DetectionAnswer:
    """The detected objects of one image, best first.

    found: boxes, labels and scores, and masks if the detector has them. classes: the names of all classes.
    height, width: of the image in pixels.
    """

    found: ImageDetections
    classes: tuple[str, ...]
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.found.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The class name of each object."""
        return tuple(self.classes[label] for label in self.found.labels)

    @property
    def boxes(self) -> BoxArray:
        """The boxes of the objects: (objects, 4) as x1, y1, x2, y2 in pixels."""
        return cast(BoxArray, self.found.boxes)

    @property
    def scores(self) -> ScoreArray:
        """The scores of the objects: (objects,)."""
        return cast(ScoreArray, self.found.scores)

    @property
    def masks(self) -> MaskArray | None:
        """The masks of the objects: (objects, height, width) of bool, or None."""
        if self.found.masks is None:
            return None
        found = [mask.to_mask() for mask in self.found.masks]
        return cast(MaskArray, np.stack(found)) if found else np.zeros((0, self.height, self.width), dtype=np.bool_)

    def draw(self, image: Image.Image, smallest: int = SMALLEST, largest: int | None = None) -> Image.Image:
        """Return a copy of the image with the objects drawn on it."""
        return draw_objects(image, drawn_detections(self.found, self.classes), smallest, largest)

    def record(self) -> dict[str, Any]:
        """Return width, height and the objects; a mask has COCO's run lengths."""
        return {"width": self.width, "height": self.height, "objects": [self._object(k) for k in range(len(self))]}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per object: label, score, x1, y1, x2, y2."""
        return [
            {"label": name, "score": f"{score:.6f}"}
            | dict(zip(("x1", "y1", "x2", "y2"), (f"{side:.2f}" for side in box), strict=True))
            for name, score, box in self._objects()
        ]

    def cells(self) -> list[dict[str, str]]:
        """Return one row per object, or one without an object."""
        return [
            {"label": name, "score": f"{score:.2f}", "box (x1, y1, x2, y2)": ", ".join(f"{side:.0f}" for side in box)}
            for name, score, box in self._objects()
        ] or [{"label": "no objects"}]

    def _objects(self) -> list[tuple[str, float, list[float]]]:
        return list(zip(self.names, self.found.scores.tolist(), self.found.boxes.tolist(), strict=True))

    def _object(self, index: int) -> dict[str, Any]:
        name, score, box = self._objects()[index]
        entry: dict[str, Any] = {"label": name, "score": score, "box": box}
        if self.found.masks is not None:
            mask = self.found.masks[index]
            entry["mask"] = {"size": [mask.height, mask.width], "counts": mask.to_text()}
        return entry
