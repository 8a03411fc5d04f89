"""A small data set of coloured rectangles with boxes and masks, as COCO JSON."""

import json

import numpy as np
from PIL import Image

_SIZES = (
    "model.backbone=resnet-18",
    "model.backbone_fields.width=8",
    "model.frozen=0",
    "model.min_size=64",
    "model.max_size=64",
)
TINY_ATSS = ("model=atss", *_SIZES, "model.width=64", "model.depth=1")
TINY_FASTER_RCNN = ("model=faster-rcnn", *_SIZES, "model.width=16", "model.hidden=16")
TINY_MASK_RCNN = ("model=mask-rcnn", *TINY_FASTER_RCNN[1:])
TINY_DETR = (
    *("model=detr", *_SIZES, "model.width=16", "model.hidden=16", "model.heads=2"),
    *("model.encoder_depth=1", "model.decoder_depth=2", "model.queries=8", "model.max_detections=8"),
)
COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230)}


def write_rectangles(folder, count=20, side=64, masks=True, seed=0):
    """Write `count` images with one to three rectangles each, and one without any; return the folder."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for number in range(count):
        pixels = generator.integers(90, 130, (side, side, 3), dtype=np.uint8)
        for _ in range(0 if number == 0 else generator.integers(1, 4)):
            width, height = (int(length) for length in generator.integers(side // 5, side // 2, 2))
            x, y = int(generator.integers(0, side - width)), int(generator.integers(0, side - height))
            label = int(generator.integers(0, len(COLORS)))
            pixels[y : y + height, x : x + width] = list(COLORS.values())[label]
            corners = [x, y, x + width, y, x + width, y + height, x, y + height]
            annotation = {"id": len(annotations) + 1, "image_id": number, "category_id": label + 1}
            annotation |= {"bbox": [x, y, width, height], "area": width * height, "iscrowd": 0}
            annotations.append(annotation | ({"segmentation": [corners]} if masks else {}))
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")
        images.append({"id": number, "file_name": f"{number:03d}.png", "height": side, "width": side})
    categories = [{"id": label + 1, "name": name} for label, name in enumerate(COLORS)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(content))
    return folder
