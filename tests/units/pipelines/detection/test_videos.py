"""Frames of videos, with a stand-in for the reader."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.pipelines.detection import videos
from patchword.pipelines.detection.videos import is_video, video_frames


class Capture:
    """OpenCV's reader: five frames at two frames per second, blue in its order of colours."""

    def __init__(self, path: str) -> None:
        self.left = 5 if Path(path).read_bytes() else 0
        self.opened = self.left > 0

    def isOpened(self) -> bool:  # noqa: N802
        return self.opened

    def get(self, _: int) -> float:
        return 2.0

    def read(self):
        self.left -= 1
        return self.left >= 0, np.full((4, 6, 3), (255, 0, 0), np.uint8)

    def release(self) -> None:
        self.opened = False


@pytest.fixture
def video(tmp_path, monkeypatch) -> Path:
    fake = SimpleNamespace(
        VideoCapture=Capture, CAP_PROP_FPS=5, COLOR_BGR2RGB=4, cvtColor=lambda pixels, _: pixels[..., ::-1].copy()
    )
    monkeypatch.setitem(sys.modules, "cv2", fake)
    monkeypatch.setattr(videos, "find_spec", lambda name: True if name == "cv2" else None)
    path = tmp_path / "clip.MP4"
    path.write_bytes(b"video")
    return path


@pytest.mark.parametrize(
    ("every", "seconds"), [(0, [0, 0.5, 1, 1.5, 2]), (1, [0, 1, 2]), (0.75, [0, 1, 1.5]), (10, [0])]
)
def test_frames_are_read_at_equal_distances(video, every, seconds):
    frames = list(video_frames(video, every))
    assert [frame.seconds for frame in frames] == seconds
    assert [frame.number for frame in frames] == [round(2 * second) for second in seconds]
    assert frames[0].image.getpixel((0, 0)) == (0, 0, 255)


def test_pyav_comes_first(video, monkeypatch):
    class Container:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def decode(self, video):
            for number in range(3):
                yield SimpleNamespace(time=number / 2, to_image=lambda: Image.new("RGB", (6, 4)))

    fake = SimpleNamespace(open=lambda path: Container(), error=SimpleNamespace(FFmpegError=OSError))
    monkeypatch.setitem(sys.modules, "av", fake)
    monkeypatch.setattr(videos, "find_spec", lambda name: True)
    assert [frame.seconds for frame in video_frames(video, 1)] == [0, 1]


def test_a_broken_video_is_named(video):
    video.write_bytes(b"")
    with pytest.raises(UserError, match=r"cannot read the video .*clip\.MP4"):
        list(video_frames(video, 1))
    with pytest.raises(UserError, match="there is nothing at"):
        list(video_frames(video.with_name("gone.mp4"), 1))


def test_without_a_reader_the_message_names_what_to_install(video, monkeypatch):
    monkeypatch.setattr(videos, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install av"):
        list(video_frames(video, 1))


def test_videos_are_known_by_their_suffix():
    assert is_video(Path("a.MOV"))
    assert not is_video(Path("a.png"))
