"""Pairs each image of a folder with its label map in another folder."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.detection.formats.values import images_in
from patchword.data.faults import report_fault
from patchword.data.image.splits import Split
from patchword.data.segmentation.records import LabelledImage

WITHOUT_MAP, WITHOUT_IMAGE = "an image without a label map", "a label map without an image"
_ENDINGS = ("_mask", "_masks", "_label", "_labels", "_gt", "_seg", "_L", "_labelIds", "_labelTrainIds")
_SPLITS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


@dataclass(frozen=True)
class KnownClasses:
    """What a layout defines of its classes. names: empty if it defines none. first: the value of the first class.

    ignored: values without a class.
    """

    names: tuple[str, ...] = ()
    first: int = 0
    ignored: tuple[int, ...] = ()


@dataclass(frozen=True)
class FoundImages:
    """The images of a layout with their label maps. ids: names by value, where a file of the layout gives them."""

    images: tuple[LabelledImage, ...]
    known: KnownClasses = KnownClasses()
    ids: tuple[tuple[int, str], ...] = ()


def split_named(name: str) -> Split | None:
    """Return the split of a folder called train, val2017, testing and so on; None without one."""
    return _SPLITS.get(name.lower().rstrip("0123456789_-"))


def pair_folders(images: Path, labels: Path, split: Split | None = None) -> list[LabelledImage]:
    """Return the images of one folder with their label maps, which have the same path inside of the other folder.

    A label map may have an ending such as _mask or _labelIds. Without `split`, the first folder inside may name it.
    Images and label maps without a partner are faults.
    """
    photos = _by_stem(images, images_in(images))
    maps = _by_stem(labels, images_in(labels))
    found = []
    for stem, path in maps.items():
        own = next((one for one in _image_stems(stem) if one in photos), None)
        if own is None:
            what = f"{path}: its image is missing"
            report_fault(UserError(what, expected=f"{images / stem} with the suffix of an image"), WITHOUT_IMAGE)
            continue
        found.append(LabelledImage(photos.pop(own), path, split or _inner_split(stem)))
    for stem, path in photos.items():
        what = f"{path}: its label map is missing"
        hint = "add the label map, or remove the image"
        report_fault(UserError(what, expected=str(labels / f"{stem}.png"), hint=hint), WITHOUT_MAP)
    return sorted(found, key=lambda one: str(one.image))


def _by_stem(folder: Path, files: Iterable[Path]) -> dict[str, Path]:
    """Return files by their path inside of the folder, without the suffix."""
    found: dict[str, Path] = {}
    for path in files:
        stem = path.relative_to(folder).with_suffix("").as_posix()
        if stem in found:
            report_fault(UserError(f"{path}: two images have the same name", got=f"also {found[stem].name}"))
        found[stem] = path
    return found


def _image_stems(stem: str) -> list[str]:
    """Return the stems that the image of a label map may have."""
    return [stem, *(stem.removesuffix(ending) for ending in _ENDINGS if stem.endswith(ending))]


def _inner_split(stem: str) -> Split | None:
    first, slash, _ = stem.partition("/")
    return split_named(first) if slash else None
