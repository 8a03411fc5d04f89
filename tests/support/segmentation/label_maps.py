"""A small data set of coloured rectangles with label maps, in folders of images and masks."""

import numpy as np
from PIL import Image

TINY_UPERNET = (
    "model=upernet",
    "model.backbone=resnet-18",
    "model.backbone_fields.width=8",
    "model.frozen=0",
    "model.width=8",
    "model.auxiliary=8",
    "model.scales=[1,2]",
    "crop=32",
)
COLORS = {"ground": (110, 110, 110), "red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230)}
VOID = 255


def draw_rectangles(generator, height, width):
    """Return pixels and labels: up to three rectangles on noise, and a column without a label."""
    pixels = generator.integers(90, 130, (height, width, 3), dtype=np.uint8)
    labels = np.zeros((height, width), np.uint8)
    for _ in range(generator.integers(1, 4)):
        rows, columns = (int(generator.integers(side // 4, side // 2 + 1)) for side in (height, width))
        top, left = int(generator.integers(0, height - rows)), int(generator.integers(0, width - columns))
        label = int(generator.integers(1, len(COLORS)))
        pixels[top : top + rows, left : left + columns] = list(COLORS.values())[label]
        labels[top : top + rows, left : left + columns] = label
    labels[:, -2:] = VOID
    return pixels, labels


def save_map(path, labels, mode="L"):
    """Write a label map with numbers (L), a palette (P), 16 bits (I;16) or colours (RGB)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.zeros((256, 3), np.uint8)
    table[: len(COLORS)] = list(COLORS.values())
    if mode == "RGB":
        Image.fromarray(table[labels]).save(path)
    elif mode == "I;16":
        Image.fromarray(labels.astype(np.uint16)).save(path)
    else:
        image = Image.fromarray(labels)
        if mode == "P":
            image.putpalette(table.reshape(-1).tolist())
        image.save(path)


def write_label_maps(folder, count=20, size=(40, 48), seed=0, mode="L", names=True, inside="{images}/{stem}"):
    """Write `count` images with label maps; return the folder. names: also classes.txt."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        pixels, labels = draw_rectangles(generator, *size)
        image = folder / (inside.format(images="images", stem=f"{number:03d}") + ".png")
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(image)
        save_map(folder / (inside.format(images="masks", stem=f"{number:03d}") + ".png"), labels, mode)
    if names and mode != "RGB":
        (folder / "classes.txt").write_text("\n".join(COLORS) + "\n")
    if mode == "RGB":
        lines = [f"{red} {green} {blue}\t{name}" for name, (red, green, blue) in COLORS.items()]
        (folder / "label_colors.txt").write_text("\n".join([*lines, "0 0 0\tVoid"]) + "\n")
    return folder
