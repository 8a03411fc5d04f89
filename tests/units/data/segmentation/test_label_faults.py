"""Faults of label maps are reported by file; a few faulty images are skipped in training."""

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.faults import DataError
from patchword.data.segmentation.reading import (
    check_segmentation,
    read_segmentation,
    read_usable_segmentation,
)
from patchword.data.segmentation.samples import load_sample
from support.segmentation.label_maps import save_map, write_label_maps


@pytest.fixture
def folder(tmp_path):
    return write_label_maps(tmp_path, count=4)


def fault(folder, **options) -> str:
    with pytest.raises(UserError) as raised:
        check_segmentation(folder, **options)
    return str(raised.value)


def test_good_data_has_a_summary(folder):
    summary, notes = check_segmentation(folder)
    assert summary.startswith("4 images with label maps of 4 classes, ignored values: 255")
    assert list(notes) == []


def test_each_fault_names_its_file(folder):
    def gone():
        (folder / "masks/001.png").unlink()

    gone()
    assert "001.png: its label map is missing" in fault(folder)
    (folder / "images/001.png").unlink()
    (folder / "images/002.png").unlink()
    assert "masks/002.png: its image is missing" in fault(folder)


def test_values_that_are_no_class(folder):
    save_map(folder / "masks/002.png", np.full((40, 48), 9, np.uint8))
    message = fault(folder)
    assert "masks/002.png: pixel values that are no class" in message
    assert "ignored=[255,9]" in message
    assert check_segmentation(folder, ignored=(9, 255))[0].startswith("4 images")


def test_a_map_of_another_size(folder):
    save_map(folder / "masks/000.png", np.zeros((48, 40), np.uint8))
    message = fault(folder)
    assert "masks/000.png: the label map has another size than the image" in message
    assert "expected 48 x 40, got 40 x 48" in message


@pytest.mark.parametrize("kind", ["masks", "images"])
def test_an_unreadable_file(folder, kind):
    path = folder / kind / "003.png"
    path.write_bytes(path.read_bytes()[:60])
    assert "003.png" in fault(folder)


def test_a_lossy_map(folder):
    Image.open(folder / "masks/000.png").save(folder / "masks/000.jpg")
    (folder / "masks/000.png").unlink()
    assert "000.jpg: a label map in a lossy format" in fault(folder)
    for path in (folder / "masks").glob("*.png"):
        path.unlink()
    Image.new("L", (48, 40)).save(folder / "masks/001.jpg")
    assert "a label map that cannot be read (2)" in fault(folder)


def test_a_photo_is_no_label_map(folder):
    noise = np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "masks/000.png")
    assert "not a label map" in fault(folder)


def test_colors_need_names(tmp_path):
    folder = write_label_maps(tmp_path, count=2, mode="RGB")
    message = fault(folder, ignored=(255, 11))
    assert "colours instead of numbers" in message
    assert "no class is called 'void'" in fault(folder, ignored=("void",))
    (folder / "label_colors.txt").write_text("110 110 110 ground\n220 30 30 red\n")
    assert "pixels of unknown colours" in fault(folder)
    (folder / "label_colors.txt").unlink()
    message = fault(folder)
    assert "no file names the classes of the colours" in message
    assert "beside each colour of the label maps: 0 0 0, 30 200 40, 40 60 230, 110 110 110, 220 30 30" in message


def test_masks_of_0_and_255(tmp_path):
    folder = write_label_maps(tmp_path, count=2, names=False)
    for path in (folder / "masks").iterdir():
        values = np.where(np.array(Image.open(path)) == 1, 255, 0).astype(np.uint8)
        values[0] = 255
        save_map(path, values)
    assert "ignored=[] makes it a class" in fault(folder)
    assert read_segmentation(folder, ignored=()).table.values == (0, 255)


def test_all_faults_are_reported_together(folder):
    save_map(folder / "masks/000.png", np.full((40, 48), 9, np.uint8))
    save_map(folder / "masks/001.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(DataError) as raised:
        check_segmentation(folder)
    assert len(raised.value.faults) == 2


def test_one_faulty_image_is_skipped_in_training_and_many_are_not(tmp_path):
    folder = write_label_maps(tmp_path, count=20)
    save_map(folder / "masks/007.png", np.full((40, 48), 9, np.uint8))
    dataset, skipped = read_usable_segmentation(folder)
    assert len(dataset.images) == 19
    assert "007.png" in skipped[0].line
    for number in (8, 9):
        save_map(folder / f"masks/{number:03d}.png", np.full((40, 48), 9, np.uint8))
    with pytest.raises(UserError, match="at most 5% are skipped"):
        read_usable_segmentation(folder)


def test_a_map_of_stored_pixels_is_rotated_with_its_image(tmp_path):
    """Orientation 6: the first row of the stored pixels is the right column of the upright image."""
    stored = np.zeros((2, 4, 3), np.uint8)
    stored[0] = 200
    labels = (stored[..., 0] > 0).astype(np.uint8)
    (tmp_path / "images").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(stored).save(tmp_path / "images/a.png", exif=exif)
    save_map(tmp_path / "masks/a.png", labels)
    dataset = read_segmentation(tmp_path)
    sample = load_sample(dataset.images[0], dataset.table)
    assert sample.size == (4, 2)
    assert sample.labels.tolist() == [[0, 1]] * 4
    assert (sample.pixels[0] > 100).int().tolist() == [[0, 1]] * 4
    save_map(tmp_path / "masks/a.png", np.rot90(labels, -1))  # a map of the upright image is not rotated
    dataset = read_segmentation(tmp_path)
    assert load_sample(dataset.images[0], dataset.table).labels.tolist() == [[0, 1]] * 4
    _, notes = check_segmentation(tmp_path)
    assert any("EXIF" in note.kind for note in notes)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("classes.txt", "a\na\n", "two classes have the same name"),
        ("classes.txt", "\n", "no classes"),
        ("classes.txt", "1 2 3 a\nb\n", "others have none"),
        ("classes.txt", "1 2 300 a\n", "not a colour"),
        ("classes.json", "{}", "not a list of classes"),
        ("classes.json", '[{"name": "a", "color": [1, 2]}]', "not a colour"),
        ("classes.json", '[{"name": "a", "id": -1}]', "not the number of a class"),
        ("classes.json", '[{"name": "a", "id": 1}, {"name": "b", "id": 1}]', "the same number"),
        ("classes.txt", "only one\n", "too few classes"),
    ],
)
def test_wrong_files_of_classes(folder, name, content, message):
    (folder / "classes.txt").unlink()
    (folder / name).write_text(content)
    assert message in fault(folder)


def test_what_is_no_data(tmp_path):
    assert "has no label maps" in fault(tmp_path)
    assert "no layout of label maps is called 'ade'" in fault(tmp_path, format="ade")
    assert "there is no file or folder" in fault(tmp_path / "nothing")
