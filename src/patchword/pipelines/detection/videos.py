"""Frames of video files, read with PyAV or OpenCV, whichever is installed."""

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from patchword.core.errors import UserError

VIDEO_SUFFIXES = {".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"}
_SLACK = 1e-6  # seconds; times are rounded


class Frame(NamedTuple):
    """One frame of a video. number: from 0. seconds: since the start."""

    number: int
    seconds: float
    image: Image.Image


def is_video(path: Path) -> bool:
    """Return whether a path has the suffix of a video."""
    return path.suffix.lower() in VIDEO_SUFFIXES


def video_frames(path: Path, every: float) -> Iterator[Frame]:
    """Yield one frame per `every` seconds, the first at the start. every: 0 yields all frames."""
    if not path.is_file():
        raise UserError(f"there is nothing at {path}", expected="a video")
    if every < 0:
        raise UserError("every", expected="0 or more seconds", got=every)
    due = 0.0
    for frame in _all_frames(path):
        if frame.seconds + _SLACK >= due:
            due = every * (1 + (frame.seconds + _SLACK) // every) if every else 0.0
            yield frame


def require_reader(path: Path) -> None:
    """Raise an error if no reader of videos is installed. path: the video, for the message."""
    if find_spec("av") is None and find_spec("cv2") is None:
        raise UserError(f"{path} is a video, and no reader of videos is installed", hint="install one: pip install av")


def _all_frames(path: Path) -> Iterator[Frame]:
    require_reader(path)
    if find_spec("av") is not None:
        return _from_av(import_module("av"), path)
    return _from_opencv(import_module("cv2"), path)


def _from_av(av: Any, path: Path) -> Iterator[Frame]:
    try:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                yield Frame(number, float(frame.time or 0.0), frame.to_image())
    except (av.error.FFmpegError, IndexError) as error:
        raise UserError(f"cannot read the video {path}", got=str(error)) from None


def _from_opencv(cv2: Any, path: Path) -> Iterator[Frame]:
    capture = cv2.VideoCapture(str(path))
    try:
        if not capture.isOpened():
            raise UserError(f"cannot read the video {path}")
        rate, number = capture.get(cv2.CAP_PROP_FPS) or 25.0, 0
        while True:
            is_read, pixels = capture.read()
            if not is_read:
                return
            yield Frame(number, number / rate, Image.fromarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)))
            number += 1
    finally:
        with suppress(Exception):
            capture.release()
