"""The folder layouts of label maps: two trees of files, CamVid, ADE20K, Pascal VOC, and a YAML file that names them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from patchword.core.errors import UserError
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.data.detection.formats.values import image_named, text_lines
from patchword.data.faults import report_fault
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.segmentation.formats.pairs import FoundImages, KnownClasses, pair_folders, split_named
from patchword.data.segmentation.records import LabelledImage

IMAGE_FOLDERS = ("images", "image", "imgs", "img", "JPEGImages", "rgb")
LABEL_FOLDERS = (
    *("masks", "mask", "labels", "label", "annotations", "annotation", "SegmentationClass"),
    *("segmentation", "segmentations", "label_maps", "gt"),
)
_VOC_LISTS = Path("ImageSets", "Segmentation")
_CONFIGS = ("config.yaml", "data.yaml")
_CAMVID = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist")
_VOC = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("dining table", "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa", "train", "tv monitor"),
)
_ADE20K = 150


@dataclass(frozen=True)
class Layout:
    """A folder layout. about: its name in messages."""

    about: str
    recognises: Callable[[Path], bool]
    find: Callable[[Path], FoundImages]


# CamVid and ADE20K


def _is_camvid(path: Path) -> bool:
    return (path / "train").is_dir() and (path / "trainannot").is_dir()


def _find_camvid(path: Path) -> FoundImages:
    pairs = [(path / name, path / f"{name}annot", split_named(name)) for name in ("train", "val", "test")]
    found = [one for images, labels, split in pairs if labels.is_dir() for one in pair_folders(images, labels, split)]
    return FoundImages(tuple(found), KnownClasses(_CAMVID, ignored=(len(_CAMVID),)))


def _is_ade20k(path: Path) -> bool:
    return (path / "images" / "training").is_dir() and (path / "annotations" / "training").is_dir()


def _find_ade20k(path: Path) -> FoundImages:
    names = _ade20k_names(path / "objectInfo150.txt") or tuple(f"class_{value}" for value in range(1, _ADE20K + 1))
    found = pair_folders(path / "images", path / "annotations")
    return FoundImages(tuple(found), KnownClasses(names, first=1, ignored=(0,)))


def _ade20k_names(path: Path) -> tuple[str, ...]:
    """Return the names of ADE20K's own table: the first word of the last column."""
    if not path.is_file():
        return ()
    rows = [line.split("\t") for line in text_lines(path) if line.strip()]
    names = tuple(row[-1].split(",")[0].strip() for row in rows if row[0].strip().isdigit())
    if len(names) != _ADE20K:
        raise UserError(f"{path}: not the list of ADE20K's classes", expected=f"{_ADE20K} rows", got=len(names))
    return names


# Pascal VOC


def _is_voc(path: Path) -> bool:
    return (path / "JPEGImages").is_dir() and (path / "SegmentationClass").is_dir()


def _find_voc(path: Path) -> FoundImages:
    """Return the images of the lists; without lists, those with a label map."""
    lists = [path / _VOC_LISTS / f"{name}.txt" for name in ("train", "val", "test")]
    found, images, labels = [], path / "JPEGImages", path / "SegmentationClass"
    for file in (one for one in lists if one.is_file()):
        for name in (line.strip() for line in text_lines(file) if line.strip()):
            image, label = image_named(images / name), image_named(labels / name)
            if image is None or label is None:
                missing = f"{images if image is None else labels}/{name}"
                report_fault(UserError(f"{file}: {name} is incomplete", expected=f"{missing} with a suffix"))
            else:
                found.append(LabelledImage(image, label, split_named(file.stem)))
    if not any(file.is_file() for file in lists):
        named = ((label, image_named(images / label.stem)) for label in sorted(labels.iterdir()) if _is_image(label))
        for label, image in named:
            if image is None:
                report_fault(UserError(f"{label}: its image is missing", expected=f"{images / label.stem}.jpg"))
            else:
                found.append(LabelledImage(image, label))
    return FoundImages(tuple(found), KnownClasses(_VOC))


# Two trees of files, and a YAML file


def _is_folders(path: Path) -> bool:
    return bool(_trees(path))


def _find_folders(path: Path) -> FoundImages:
    found = [one for images, labels, name in _trees(path) for one in pair_folders(images, labels, split_named(name))]
    return FoundImages(tuple(found))


def _trees(path: Path) -> list[tuple[Path, Path, str]]:
    """Return the folders of images and label maps, and the name of the split folder around them, or ""."""
    own = _two_trees(path)
    if own is not None:
        return [(*own, "")]
    splits = sorted(one for one in path.iterdir() if one.is_dir() and split_named(one.name)) if path.is_dir() else []
    return [(*found, one.name) for one in splits if (found := _two_trees(one)) is not None]


def _two_trees(path: Path) -> tuple[Path, Path] | None:
    images = next((path / name for name in IMAGE_FOLDERS if (path / name).is_dir()), None)
    labels = next((path / name for name in LABEL_FOLDERS if (path / name).is_dir() and _has_images(path / name)), None)
    return None if images is None or labels is None else (images, labels)


def _has_images(folder: Path) -> bool:
    return any(_is_image(path) for path in folder.rglob("*"))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def _config(path: Path) -> tuple[Path, dict[str, object]] | None:
    """Return the YAML file of a folder, or the file itself, if it names folders of masks."""
    files = [path / name for name in _CONFIGS] if path.is_dir() else [path] * (path.suffix in (".yaml", ".yml"))
    for file in (one for one in files if one.is_file()):
        try:
            content = parse_yaml(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError):
            continue
        if isinstance(content, dict) and any(_names_masks(value) for value in content.values()):
            return file, {str(key): value for key, value in content.items()}
    return None


def _names_masks(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("images"), str) and isinstance(value.get("masks"), str)


def _find_config(path: Path) -> FoundImages:
    given = _config(path)
    if given is None:
        raise UserError(f"{path} names no folders of masks", expected="a YAML file with train: images and masks")
    file, content = given
    found: list[LabelledImage] = []
    for name, value in content.items():
        if isinstance(value, dict) and _names_masks(value):
            images, labels = ((file.parent / str(value[key])) for key in ("images", "masks"))
            for folder in (one for one in (images, labels) if not one.is_dir()):
                raise UserError(f"{file}, {name}: there is no folder {folder}")
            found += pair_listed(images, labels, name)
    classes = content.get("classes")
    ids = classes.items() if isinstance(classes, dict) else enumerate(classes if isinstance(classes, list) else ())
    return FoundImages(tuple(found), ids=_class_ids(file, [(str(id), str(name)) for id, name in ids]))


def _class_ids(file: Path, given: list[tuple[str, str]]) -> tuple[tuple[int, str], ...]:
    """Return value and name of each class, sorted."""
    wrong = [value for value, _ in given if not value.isdecimal()]
    names = [name for _, name in given]
    twice = [name for name in names if names.count(name) > 1]
    if wrong or twice:
        raise UserError(
            f"{file}: classes",
            expected="a number and another name for each class, such as 0: road",
            got=f"{(wrong or twice)[0]!r}{' twice' if not wrong else ''}",
        )
    return tuple(sorted((int(value), name) for value, name in given))


def pair_listed(images: Path, labels: Path, name: str) -> list[LabelledImage]:
    """Return the label maps of a folder with their images, which may be among others without a label map."""
    split, found = split_named(name), []
    for label in sorted(one for one in labels.rglob("*") if _is_image(one)):
        image = image_named(images / label.relative_to(labels).with_suffix(""))
        if image is None:
            report_fault(UserError(f"{label}: its image is missing", expected=f"an image in {images}"))
        else:
            found.append(LabelledImage(image, label, split))
    return found


LAYOUTS = {
    "camvid": Layout("CamVid (train, trainannot)", _is_camvid, _find_camvid),
    "ade20k": Layout("ADE20K (images/training, annotations/training)", _is_ade20k, _find_ade20k),
    "voc": Layout("Pascal VOC (JPEGImages, SegmentationClass)", _is_voc, _find_voc),
    "yaml": Layout(
        "a YAML file with the folders of images and masks", lambda path: _config(path) is not None, _find_config
    ),
    "folders": Layout("folders of images and label maps (images, masks)", _is_folders, _find_folders),
}
