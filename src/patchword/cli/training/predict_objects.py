"""predict with a detector: objects of images, folders and video frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from patchword.cli.text.answers import progress
from patchword.cli.training.object_outputs import Found, ObjectOutputs, write_objects
from patchword.core.printable import path_text

if TYPE_CHECKING:
    from PIL import Image

    from patchword.pipelines.detection.engine import DetectionEngine
    from patchword.pipelines.image_inputs import OneImage

_AT_ONCE = 16  # images that are in memory
_QUALITY = 92  # of drawn JPEG files


@dataclass(frozen=True)
class Item:
    """An image or a frame to detect in. name: what results call it. file: the name of its drawn image."""

    name: str
    image: "OneImage"
    file: Path


def predict_objects(
    model: Path,
    inputs: Sequence[str],
    outputs: ObjectOutputs,
    score: float | None,
    every: float | None,
    device: str,
    precision: Literal["auto", "float32", "bfloat16"],
) -> None:
    """Detect objects in images, folders of images and videos, and write the results."""
    from patchword.core.errors import UserError
    from patchword.pipelines.detection.engine import SCORE, DetectionEngine
    from patchword.pipelines.detection.opening import open_detector
    from patchword.pipelines.detection.videos import require_reader

    paths, videos = _split(inputs)
    if videos:
        require_reader(videos[0])
    if outputs.draw is not None:
        _check_folder(outputs.draw, paths)
    engine = DetectionEngine.of(open_detector(model), device, precision, str(model))
    least = SCORE if score is None else score
    found: list[Found] = []
    drawn: dict[Path, str] = {}
    with progress(len(paths), "images") as bar:
        for items in chain(_images(paths), *(_frames(video, 1.0 if every is None else every) for video in videos)):
            if isinstance(items, Found):
                found.append(items)
                continue
            found += _detect(engine, items, least, outputs.draw, drawn)
            bar(sum(isinstance(one.image, Path) for one in items))
    if all(one.error for one in found):
        raise UserError(found[0].error if found else "there are no frames in the videos")
    write_objects(found, outputs, engine.labels, len(drawn), least)


def _split(inputs: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the images and the videos of the inputs; folders are searched for images."""
    from patchword.core.errors import UserError
    from patchword.pipelines.detection.videos import VIDEO_SUFFIXES, is_video
    from patchword.pipelines.image_inputs import list_images

    videos = [Path(one) for one in inputs if is_video(Path(one)) and not Path(one).is_dir()]
    others = [one for one in inputs if Path(one) not in videos]
    if not inputs:
        raise UserError("there are no images to detect objects in", expected="images, folders of images, or videos")
    images = list_images(others, "detect objects in") if others else []
    missing = [video for video in videos if not video.is_file()]
    if missing:
        raise UserError(f"there is nothing at {missing[0]}", expected=f"a video: {' '.join(sorted(VIDEO_SUFFIXES))}")
    return [one for one in images if isinstance(one, Path)], videos


def _images(paths: Sequence[Path]) -> Iterator[list[Item]]:
    """Yield images, a few at once."""
    for start in range(0, len(paths), _AT_ONCE):
        yield [Item(path_text(path), path, _drawn_name(path)) for path in paths[start : start + _AT_ONCE]]


def _frames(video: Path, every: float) -> Iterator[list[Item] | Found]:
    """Yield the frames of a video, a few at once; at the end, the error of a video that cannot be read."""
    from patchword.core.errors import UserError
    from patchword.pipelines.detection.videos import video_frames

    frames = video_frames(video, every)
    while True:
        try:
            some = list(islice(frames, _AT_ONCE))
        except UserError as error:
            yield Found(path_text(video), None, path_text(error).splitlines()[0])
            return
        if not some:
            return
        yield [
            Item(
                f"{path_text(video)} at {one.seconds:.2f} s", one.image, Path(f"{video.stem}_frame{one.number:06d}.jpg")
            )
            for one in some
        ]


def _drawn_name(path: Path) -> Path:
    return Path(path.stem + (".jpg" if path.suffix.lower() in (".jpg", ".jpeg") else ".png"))


def _check_folder(folder: Path, paths: Sequence[Path]) -> None:
    """Refuse a folder that is a file, or where a drawn image would replace an image that is read."""
    from patchword.core.errors import UserError

    if folder.exists() and not folder.is_dir():
        raise UserError(f"cannot write to {folder}", expected="a folder", got="a file")
    inside = next((path for path in paths if path.resolve().parent == folder.resolve()), None)
    if inside is not None:
        raise UserError(
            f"{folder} holds images that are read, such as {inside.name}", expected="another folder for drawn images"
        )


def _detect(
    engine: "DetectionEngine", items: Sequence[Item], score: float, draw: Path | None, drawn: dict[Path, str]
) -> list[Found]:
    from patchword.core.errors import UserError
    from patchword.pipelines.detection.pixels import upright_image

    found = []
    for item, answer in zip(items, engine.detect([item.image for item in items], score), strict=True):
        if isinstance(answer, UserError):
            found.append(Found(item.name, None, str(answer).splitlines()[0]))
            continue
        if draw is not None:
            path = _free_name(draw / item.file, drawn)
            _save(answer.draw(upright_image(item.image)), path)
            drawn[path] = item.name
        found.append(Found(item.name, answer))
    return found


def _free_name(path: Path, taken: dict[Path, str]) -> Path:
    """Return the path, with a number if another image of this call has it."""
    number, free = 1, path
    while free in taken:
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    return free


def _save(image: "Image.Image", path: Path) -> None:
    from patchword.core.files import whole_file

    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        image.save(temporary, "JPEG" if path.suffix == ".jpg" else "PNG", quality=_QUALITY)
