"""YOLO text files: one per image, one line per object: class x y width height, or class x1 y1 x2 y2 x3 y3 ...

Coordinates are fractions of the width and the height of the upright image; x and y are the centre of a box. The file of
`images/a.jpg` is `labels/a.txt`, or `a.txt` beside the image. An image without a file has no objects. The names of the
classes are in a YAML file (`names`, with the folders `train`, `val`, `test`) or in classes.txt.
"""

from itertools import cycle
from pathlib import Path

import yaml

from patchword.core.errors import UserError
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.data.detection.formats.values import (
    CLASS_FILES,
    class_file,
    image_named,
    images_in,
    numbers,
    polygon,
    split_of,
    text_lines,
    unknown_class,
    whole,
)
from patchword.data.detection.orientation import upright_size
from patchword.data.detection.records import AnnotatedImage, AnnotatedObject, DetectionDataset, Polygons
from patchword.data.faults import attempt, report_fault, warn
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.image.splits import Split

NAME = "YOLO text"
_YAML = (".yaml", ".yml")
_KEYS: tuple[tuple[str, Split], ...] = (("train", "train"), ("val", "validation"), ("test", "test"))
Root = tuple[Path, Split | None]  # a folder of images, or a text file that lists images
Classes = dict[int, str]  # in the order of the labels; the numbers of a YAML file may have gaps


def recognises(path: Path) -> bool:
    """True for a YAML file with `names`, a folder that has one, or a folder with label files."""
    if not path.is_dir():
        return _settings(path) is not None
    if any(_settings(file) is not None for file in _yaml_files(path)):
        return True
    return bool(_label_folders(path)) or (any((path / name).is_file() for name in CLASS_FILES) and _has_pair(path))


def read(path: Path) -> DetectionDataset:
    """Read the label files of all images."""
    classes, roots = _names_and_roots(path)
    images = [(image, split) for root, split in roots for image in attempt(_list_images, root) or ()]
    if not any(label_file(image).is_file() for image, _ in images):
        expected = f"files such as {label_file(images[0][0])}" if images else "images"
        raise UserError(f"{path} has no label files of images", expected=expected)
    for root, _ in roots:
        _report_labels_without_image(root)
    read_images = [one for image, split in images if (one := attempt(_image, image, split, classes)) is not None]
    if classes is None:
        most = max((int(image.labels.max(initial=-1)) for image in read_images), default=-1)
        classes = {label: str(label) for label in range(most + 1)}
    return DetectionDataset(path, NAME, tuple(classes.values()), tuple(classes), tuple(read_images))


def _names_and_roots(path: Path) -> tuple[Classes | None, list[Root]]:
    settings = path if path.is_file() else _one_yaml(path)
    if settings is not None:
        return _named_roots(settings)
    names = class_file([path, *_label_folders(path)])
    if names is not None:
        return dict(enumerate(names)), _roots(path)
    warn("no names of the classes", f"{path}: they are called 0, 1, ...; list them in {path / CLASS_FILES[0]}")
    return None, _roots(path)


def label_file(image: Path) -> Path:
    """Return the label file of an image: `labels` instead of the last `images` in its path, else beside the image."""
    parts = list(image.parts)
    if "images" in parts[:-1]:
        parts[len(parts) - 2 - parts[:-1][::-1].index("images")] = "labels"
    return Path(*parts).with_suffix(".txt")


def _settings(file: Path) -> dict[str, object] | None:
    if file.suffix.lower() not in _YAML or not file.is_file():
        return None
    try:
        found = parse_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("names"), (list, dict)) else None


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(file for suffix in _YAML for file in folder.glob(f"*{suffix}"))


def _one_yaml(folder: Path) -> Path | None:
    files = [file for file in _yaml_files(folder) if _settings(file) is not None]
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise UserError(
            f"{folder} has several YAML files with names of classes",
            expected="one",
            got=names,
            hint=f"type the file that you mean, e.g. {files[0]}",
        )
    return files[0] if files else None


def _named_roots(file: Path) -> tuple[Classes, list[Root]]:
    settings = _settings(file) or {}
    given = settings.get("names")
    items = dict(enumerate(given)) if isinstance(given, list) else given if isinstance(given, dict) else {}
    classes = {whole(id, f"{file}, names"): str(name) for id, name in items.items()}
    roots: list[Root] = []
    for key, split in _KEYS:
        values = settings.get(key) or []
        for value in values if isinstance(values, list) else [values]:
            roots.append((_place(file, str(settings.get("path") or "."), str(value)), split))
    return dict(sorted(classes.items())), roots or _roots(file.parent)


def _place(file: Path, base: str, value: str) -> Path:
    """Return the folder of a split: relative to `path`, or to the file. Some tools write `../` where it is wrong."""
    places = [file.parent / base / value, file.parent / value, file.parent / value.removeprefix("../")]
    for place in places:
        if place.exists():
            return place
    expected = " or ".join(dict.fromkeys(str(place) for place in places))
    raise UserError(f"{file}: there is no folder {value!r}", expected=expected)


def _label_folders(folder: Path) -> list[Path]:
    """The folders `labels` of a data set without a YAML file."""
    below = [folder / "labels", *(sub / "labels" for sub in sorted(folder.iterdir()) if split_of(sub.name))]
    return [labels for labels in below if (labels.parent / "images").is_dir() and any(labels.rglob("*.txt"))]


def _has_pair(folder: Path) -> bool:
    files = (file for file in folder.glob("*.txt") if file.name not in CLASS_FILES)
    return any(image_named(file.with_suffix("")) is not None for file in files)


def _roots(folder: Path) -> list[Root]:
    """The folders of images beside those of labels; sub-folders that are named after splits are splits."""
    roots: list[Root] = []
    for labels in _label_folders(folder):
        images = labels.parent / "images"
        split = split_of(labels.parent.name) if labels.parent != folder else None
        parts = sorted(sub for sub in images.iterdir() if sub.is_dir() and split_of(sub.name))
        roots += [(sub, split_of(sub.name)) for sub in parts] if parts and split is None else [(images, split)]
    return roots or [(folder, None)]


def _list_images(root: Path) -> list[Path]:
    if root.is_dir():
        return images_in(root)
    lines = [line.strip() for line in text_lines(root)]
    return [root.parent / line for line in lines if Path(line).suffix.lower() in IMAGE_SUFFIXES]


def _report_labels_without_image(root: Path) -> None:
    if not root.is_dir():
        return
    labels = label_file(root / "x.jpg").parent
    for file in sorted(labels.rglob("*.txt")):
        image = root / file.relative_to(labels).with_suffix("")
        if file.name not in CLASS_FILES and image_named(image) is None:
            report_fault(UserError(f"{file}: its image is missing", expected=f"{image} with the suffix of an image"))


def _image(image: Path, split: Split | None, classes: Classes | None) -> AnnotatedImage:
    size, file = upright_size(image), label_file(image)
    lines = text_lines(file) if file.is_file() else []
    objects = [
        one
        for line, text in enumerate(lines, 1)
        if text.strip() and (one := attempt(_object, text, f"{file}, line {line}", line, size, classes)) is not None
    ]
    return AnnotatedImage.of(image, size, objects, file if file.is_file() else image, "line", split)


def _object(text: str, where: str, line: int, size: tuple[int, int], classes: Classes | None) -> AnnotatedObject:
    words = text.split()
    id = whole(words[0], f"{where}, class")
    if id < 0 or (classes is not None and id not in classes):
        raise unknown_class(where, id, [f"{id} {name}" for id, name in (classes or {}).items()])
    label = id if classes is None else list(classes).index(id)
    values, (height, width) = numbers(words[1:], where), size
    if len(values) == 4:
        x, y, w, h = values[0] * width, values[1] * height, values[2] * width, values[3] * height
        return AnnotatedObject((x - w / 2, y - h / 2, x + w / 2, y + h / 2), label, line)
    if len(values) == 5:
        raise UserError(
            f"{where}: 6 numbers",
            expected="class x y width height, or class and the corners of a polygon",
            hint="files of detections have a sixth number, the score; files of objects have none",
        )
    scaled = [value * side for value, side in zip(values, cycle((width, height)), strict=False)]
    outline = Polygons((polygon(scaled, where),))
    return AnnotatedObject(outline.box, label, line, outline)
