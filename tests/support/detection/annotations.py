"""Small detection data sets, written in each format."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from patchword.data.faults import DataError, fault_lines

HEIGHT, WIDTH = 24, 32
SQUARE = [4, 4, 12, 4, 12, 10, 4, 10]  # a polygon: x 4 to 12, y 4 to 10


def write_image(path: Path, height: int = HEIGHT, width: int = WIDTH, orientation: int = 1) -> Path:
    """Write noise; orientation: the EXIF tag, the sizes are those of the stored pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 256, (height, width, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(path, **({"exif": exif} if orientation != 1 else {}))
    return path


def coco_image(id: int = 1, name: str = "a.png", **changes: object) -> dict:
    return {"id": id, "file_name": name, "height": HEIGHT, "width": WIDTH} | changes


def coco_object(id: int = 1, **changes: object) -> dict:
    """An object of image 1 and of class 3, whose box and polygon agree."""
    entry = {"id": id, "image_id": 1, "category_id": 3, "bbox": [4, 4, 8, 6], "area": 47.5, "iscrowd": 0}
    return entry | {"segmentation": [SQUARE]} | changes


def write_coco_file(path: Path, images: list[dict], annotations: list[dict]) -> Path:
    """Write a COCO file of the classes 3 (cat) and 7 (dog), in the other order."""
    categories = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def coco_folder(folder: Path, *annotations: dict, **image: object) -> Path:
    """Write one image and a COCO file with the annotations; return the file."""
    write_image(folder / "a.png")
    return write_coco_file(folder / "train.json", [coco_image(**image)], list(annotations))


def voc_object(box: tuple[object, ...], name: str = "cat", more: str = "") -> str:
    sides = "".join(
        f"<{side}>{value}</{side}>" for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    return f"<object><name>{name}</name>{more}<bndbox>{sides}</bndbox></object>"


def write_voc(folder: Path, name: str, *objects: str, size: tuple[int, int] = (HEIGHT, WIDTH)) -> Path:
    """Write an image and its XML file."""
    write_image(folder / "JPEGImages" / f"{name}.png")
    path = folder / "Annotations" / f"{name}.xml"
    path.parent.mkdir(exist_ok=True)
    sides = f"<size><width>{size[1]}</width><height>{size[0]}</height></size>"
    path.write_text(f"<annotation><filename>{name}.png</filename>{sides}{''.join(objects)}</annotation>")
    return path


def write_yolo(folder: Path, **labels: str) -> Path:
    """Write images/NAME.png and labels/NAME.txt; an empty text writes no label file."""
    for name, text in labels.items():
        write_image(folder / "images" / f"{name}.png")
        if text:
            (folder / "labels").mkdir(exist_ok=True)
            (folder / "labels" / f"{name}.txt").write_text(text)
    return folder


def write_labelme(path: Path, *shapes: dict, **changes: object) -> Path:
    """Write a LabelMe file; its image is NAME.png beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"version": "5.0", "shapes": list(shapes), "imagePath": f"{path.stem}.png", "imageData": None}
    path.write_text(json.dumps(record | {"imageHeight": HEIGHT, "imageWidth": WIDTH} | changes))
    return path


def shape(points: list[list[float]], label: str = "cat", kind: str = "polygon", **changes: object) -> dict:
    return {"label": label, "points": points, "group_id": None, "shape_type": kind} | changes


def write_values(path: Path, values: np.ndarray, palette: bool = False) -> Path:
    """Write a PNG of one value per pixel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values)
    if palette:
        image = Image.fromarray(values, "L")
        image.putpalette([255 - index // 3 for index in range(768)])
    image.save(path)
    return path


def listed(error: Exception) -> str:
    """Return every fault of an error."""
    return "\n".join(fault_lines(error.faults, None)) if isinstance(error, DataError) else str(error)
