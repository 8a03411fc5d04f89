"""Images that were saved again are found in another split; images that only resemble each other are not."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchword.data.faults import collect_faults
from patchword.data.image import near_duplicates
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from patchword.data.image.near_duplicates import near_pairs


@pytest.fixture
def photos(tmp_path):
    """A data set of 12 smooth images per class and split."""
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            for number in range(12):
                colors = Image.fromarray(random.integers(0, 256, (5, 5, 3), dtype=np.uint8))
                colors.resize((96, 80), Image.Resampling.BICUBIC).save(tmp_path / split / label / f"{number}.png")
    return tmp_path


def doubts(folder: Path, training: bool = False) -> list[str]:
    with collect_faults() as report:
        source = open_source(str(folder))
        if training:
            source.read("train", ImageFormat(32, 3))
            source.check(ImageFormat(32, 3))
        else:
            source.examine()
    return [fault.line for fault in report.doubts]


def resave(folder: Path, name: str, **options: int) -> None:
    """Put copies of all training images into the test split in another format."""
    shutil.rmtree(folder / "test")
    for path in sorted((folder / "train").rglob("*.png")):
        new = folder / "test" / path.parent.name / f"{path.stem}.{name}"
        new.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.save(new, **options)


@pytest.mark.parametrize("training", [False, True])
def test_different_images_are_no_copies(photos, training):
    assert doubts(photos, training) == []


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("name", "options"), [("bmp", {}), ("jpg", {"quality": 75}), ("webp", {"quality": 90})])
def test_training_images_saved_again_as_test_images_are_found(photos, name, options, training):
    resave(photos, name, **options)
    found = doubts(photos, training)
    assert len(found) == 24
    assert f"{photos}/test/cat/0.{name} (test) is like {photos}/train/cat/0.png (train)" in found


def test_a_copy_with_equal_bytes_is_named_once(photos):
    shutil.copy(photos / "train/cat/0.png", photos / "test/cat/0.png")
    (found,) = doubts(photos)
    assert "is like" not in found


def test_the_same_scene_with_another_object_is_no_copy(photos):
    with Image.open(photos / "train/cat/0.png") as image:
        image.paste((255, 255, 255), (40, 40, 56, 56))
        image.save(photos / "test/cat/0.png")
    assert doubts(photos) == []


def test_more_images_than_are_compared_are_said(photos, monkeypatch):
    resave(photos, "bmp")
    monkeypatch.setattr(near_duplicates, "MOST", 20)
    assert doubts(photos) == ["there are more than 20"]


def test_the_nearest_thumbnail_is_found_among_equally_bright_ones():
    random = np.random.default_rng(1)
    others = random.integers(0, 256, (300, 256), dtype=np.uint8)
    asked = others[[7, 250, 13]].clip(1) - random.integers(0, 2, (3, 256), dtype=np.uint8)
    asked = np.concatenate([asked, 255 - others[:2]])
    assert list(near_pairs(asked, others)) == [(0, 7), (1, 250), (2, 13)]
    assert not list(near_pairs(asked, others[:0]))
