"""Write a data set of any format as COCO JSON."""

import os
from pathlib import Path

from patchword.core.files import write_json
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.records import AnnotatedImage, DetectionDataset, Outline

_DIGITS = 9  # of widths and heights: removes the error of x2 - x1, so that a file that is read and written is the same


def write_coco(dataset: DetectionDataset, path: Path) -> None:
    """Write a COCO file; image names are relative to its folder.

    The numbers of images and objects are kept if they are unique in the data set. Otherwise they are 1, 2, ...
    """
    write_json(path, coco_record(dataset, path.parent))


def coco_record(dataset: DetectionDataset, folder: Path) -> dict[str, object]:
    """Return the data set as COCO's lists of images, annotations and categories."""
    image_ids = _unique([image.id for image in dataset.images])
    object_ids = iter(_unique([int(id) for image in dataset.images for id in image.ids]))
    annotations = [
        _annotation(image, index, next(object_ids), image_id, dataset.class_ids)
        for image, image_id in zip(dataset.images, image_ids, strict=True)
        for index in range(len(image))
    ]
    images = [
        {"id": id, "file_name": _name(image.image, folder), "height": image.height, "width": image.width}
        for image, id in zip(dataset.images, image_ids, strict=True)
    ]
    categories = [{"id": id, "name": name} for id, name in zip(dataset.class_ids, dataset.classes, strict=True)]
    return {"images": images, "annotations": annotations, "categories": categories}


def _unique(ids: list[int]) -> list[int]:
    return ids if len(set(ids)) == len(ids) else list(range(1, len(ids) + 1))


def _name(image: Path, folder: Path) -> str:
    return Path(os.path.relpath(image, folder)).as_posix()


def _annotation(
    image: AnnotatedImage, index: int, id: int, image_id: int, class_ids: tuple[int, ...]
) -> dict[str, object]:
    x1, y1, x2, y2 = image.boxes[index].tolist()
    entry: dict[str, object] = {
        "id": id,
        "image_id": image_id,
        "category_id": class_ids[int(image.labels[index])],
        "bbox": [x1, y1, round(x2 - x1, _DIGITS), round(y2 - y1, _DIGITS)],
        "area": float(image.areas[index]),
        "iscrowd": int(image.crowd[index]),
        "segmentation": _segmentation(image.outlines[index]),
    }
    return entry | ({"difficult": 1} if image.difficult[index] else {})


def _segmentation(outline: Outline | None) -> object:
    if outline is None:
        return []
    if isinstance(outline, RunLengths):
        return {"size": [outline.height, outline.width], "counts": outline.to_text()}
    return [part.reshape(-1).tolist() for part in outline.parts]
