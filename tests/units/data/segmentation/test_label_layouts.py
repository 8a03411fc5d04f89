"""Layouts of label maps: which files are paired, which classes they have, and which splits."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.segmentation.reading import read_segmentation, recognised_layouts
from patchword.data.segmentation.samples import load_sample
from patchword.data.segmentation.splits import open_splits
from support.segmentation.label_maps import COLORS, save_map, write_label_maps


def one_pair(image: Path, labels: Path, values=((0, 1), (1, 255))) -> None:
    image.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (2, 2), (9, 9, 9)).save(image)
    save_map(labels, np.array(values, np.uint8))


def labels_of(dataset, place=0):
    return load_sample(dataset.images[place], dataset.table).labels.tolist()


@pytest.mark.parametrize("mode", ["L", "P", "I;16", "RGB"])
def test_every_kind_of_file_gives_the_same_labels(tmp_path, mode):
    plain = read_segmentation(write_label_maps(tmp_path / "plain", count=3))
    ignored = ("Void",) if mode == "RGB" else (255,)
    other = read_segmentation(write_label_maps(tmp_path / "other", count=3, mode=mode), ignored=ignored)
    assert other.table.names == tuple(COLORS)
    assert [labels_of(other, place) for place in range(3)] == [labels_of(plain, place) for place in range(3)]
    assert other.table.colors == (tuple(COLORS.values()) if mode in ("P", "RGB") else ())


def test_numbers_that_are_saved_as_rgb(tmp_path):
    folder = write_label_maps(tmp_path, count=2)
    plain = labels_of(read_segmentation(folder))
    for path in (folder / "masks").iterdir():
        Image.open(path).convert("RGB").save(path)
    assert labels_of(read_segmentation(folder)) == plain


def test_folders_with_splits_inside_and_around(tmp_path):
    for split in ("train", "val", "test"):
        one_pair(tmp_path / f"in/images/{split}/a/x.jpg", tmp_path / f"in/labels/{split}/a/x.png")
        one_pair(tmp_path / f"out/{split}/images/x.jpg", tmp_path / f"out/{split}/masks/x_mask.png")
    for folder in ("in", "out"):
        dataset = read_segmentation(tmp_path / folder)
        assert sorted(str(one.split) for one in dataset.images) == ["test", "train", "validation"]
        assert dataset.table.names == ("class_0", "class_1")
    one_pair(tmp_path / "none/images/strain/x.jpg", tmp_path / "none/masks/strain/x.png")
    assert read_segmentation(tmp_path / "none").images[0].split is None


def test_camvid(tmp_path):
    one_pair(tmp_path / "train/a.png", tmp_path / "trainannot/a.png", ((0, 10), (11, 11)))
    one_pair(tmp_path / "val/b.png", tmp_path / "valannot/b.png")
    dataset = read_segmentation(tmp_path)
    assert (len(dataset.table.names), dataset.table.names[3]) == (11, "road")
    assert labels_of(dataset) == [[0, 10], [255, 255]]
    assert [one.split for one in dataset.images] == ["train", "validation"]


def test_ade20k(tmp_path):
    one_pair(tmp_path / "images/training/a.jpg", tmp_path / "annotations/training/a.png", ((0, 1), (150, 2)))
    one_pair(tmp_path / "images/validation/b.jpg", tmp_path / "annotations/validation/b.png")
    dataset = read_segmentation(tmp_path)
    assert labels_of(dataset) == [[255, 0], [149, 1]]
    assert len(dataset.table.names) == 150
    rows = ["Idx\tRatio\tTrain\tVal\tName", *(f"{n}\t0.1\t1\t1\tname {n}, other" for n in range(1, 151))]
    (tmp_path / "objectInfo150.txt").write_text("\n".join(rows))
    assert read_segmentation(tmp_path).table.names[:2] == ("name 1", "name 2")


def test_pascal_voc(tmp_path):
    for name in ("a", "b", "c"):
        one_pair(tmp_path / f"JPEGImages/{name}.jpg", tmp_path / f"SegmentationClass/{name}.png", ((0, 20), (255, 3)))
    Image.new("RGB", (2, 2)).save(tmp_path / "JPEGImages/without.jpg")
    dataset = read_segmentation(tmp_path)
    assert len(dataset.images) == 3
    lists = tmp_path / "ImageSets/Segmentation"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("a\n")
    (lists / "val.txt").write_text("c\n")
    dataset = read_segmentation(tmp_path)
    assert [(one.image.stem, one.split) for one in dataset.images] == [("a", "train"), ("c", "validation")]
    assert labels_of(dataset) == [[0, 20], [255, 3]]
    assert dataset.table.names[20] == "tv monitor"
    (lists / "val.txt").write_text("gone\n")
    with pytest.raises(UserError, match="gone is incomplete"):
        read_segmentation(tmp_path)


def test_a_yaml_file_names_the_folders(tmp_path):
    one_pair(tmp_path / "images/one/a.jpg", tmp_path / "semantic/masks/one/a.png", ((0, 7), (7, 200)))
    (tmp_path / "images/one/without.jpg").write_bytes((tmp_path / "images/one/a.jpg").read_bytes())
    content = "train:\n  images: ../images/one\n  masks: masks/one\nclasses:\n  0: none\n  7: cat\n  200: dog\n"
    (tmp_path / "semantic/config.yaml").write_text(content)
    assert recognised_layouts(tmp_path / "semantic") == ("yaml",)
    dataset = read_segmentation(tmp_path / "semantic", ignored=(0, 255))
    assert dataset.table.names == ("cat", "dog")
    assert labels_of(dataset) == [[255, 0], [0, 1]]


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("classes.txt", "# comment\nfirst\nsecond\n", ("first", "second")),
        ("classes.json", json.dumps(["first", "second"]), ("first", "second")),
        ("classes.json", json.dumps({"1": "second", "0": "first"}), ("first", "second")),
        ("classes.json", json.dumps([{"name": "b", "id": 1}, {"name": "a", "id": 0}]), ("b", "a")),
    ],
)
def test_files_of_class_names(tmp_path, name, content, names):
    one_pair(tmp_path / "images/a.png", tmp_path / "masks/a.png")
    (tmp_path / name).write_text(content)
    dataset = read_segmentation(tmp_path)
    assert dataset.table.names == names
    values = dataset.table.values
    assert labels_of(dataset) == [[values.index(0), values.index(1)], [values.index(1), 255]]


@pytest.mark.parametrize("line", ["{r} {g} {b} {name}", "{name},{r},{g},{b}", "{name}: {r}, {g}, {b}"])
def test_files_of_class_colors(tmp_path, line):
    folder = write_label_maps(tmp_path, count=2, mode="RGB")
    (folder / "label_colors.txt").unlink()
    lines = [line.format(name=name, r=r, g=g, b=b) for name, (r, g, b) in {**COLORS, "a void": (0, 0, 0)}.items()]
    (folder / "label_colors.txt").write_text("\n".join(lines))
    table = read_segmentation(folder, ignored=("a void",)).table
    assert table.names == tuple(COLORS)
    assert table.colors == tuple(COLORS.values())


def test_splits_are_disjoint_and_do_not_move(tmp_path):
    folder = write_label_maps(tmp_path)
    splits = open_splits(str(folder), 0.1)
    parts = [{part.file(n) for n in range(len(part))} for part in (splits.train, splits.validation, splits.test)]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert len(set.union(*parts)) == 20
    before = splits.train.fingerprint()
    assert open_splits(str(folder), 0.1).train.fingerprint() == before
    path = Path(splits.train.file(0)).parent.parent / "masks" / Path(splits.train.file(0)).name
    values = np.array(Image.open(path))
    values[0, 0] = (values[0, 0] + 1) % 4
    Image.fromarray(values).save(path)
    assert open_splits(str(folder), 0.1).train.fingerprint() != before


def test_files_of_ade20k_name_the_values_from_one(tmp_path):
    one_pair(tmp_path / "images/training/a.jpg", tmp_path / "annotations/training/a.png", ((0, 1), (150, 2)))
    one_pair(tmp_path / "images/validation/b.jpg", tmp_path / "annotations/validation/b.png", ((0, 1), (1, 2)))
    by_value = {str(value): f"name {value}" for value in range(1, 151)}
    listed = [{"name": f"name {n}", "id": n - 1, "color": [n, 0, 0]} for n in range(1, 151)]
    for content in (by_value, list(by_value.values()), listed):
        (tmp_path / "classes.json").write_text(json.dumps(content))
        dataset = read_segmentation(tmp_path)
        assert labels_of(dataset) == [[255, 0], [149, 1]]
        assert dataset.table.names[:2] == ("name 1", "name 2")
    assert dataset.table.colors[:2] == ((1, 0, 0), (2, 0, 0))


def test_palettes_that_differ_are_refused(tmp_path):
    for name, palette in (("a", [0, 0, 0, 255, 0, 0]), ("b", [255, 0, 0, 0, 0, 0])):
        one_pair(tmp_path / f"images/{name}.jpg", tmp_path / f"masks/{name}.png", ((0, 1), (1, 1)))
        with Image.open(tmp_path / f"masks/{name}.png") as opened:
            image = Image.fromarray(np.asarray(opened), "P")
        image.putpalette(palette)
        image.save(tmp_path / f"masks/{name}.png")
    with pytest.raises(UserError, match=r"the value 0 is \(0, 0, 0\) in one file and \(255, 0, 0\) in another"):
        read_segmentation(tmp_path)


@pytest.mark.parametrize(("classes", "got"), [("{road: 0, sky: 1}", "'road'"), ("[road, road]", "'road' twice")])
def test_classes_of_a_yaml_file_are_checked(tmp_path, classes, got):
    one_pair(tmp_path / "images/a.jpg", tmp_path / "maps/a.png")
    (tmp_path / "data.yaml").write_text(f"train: {{images: images, masks: maps}}\nclasses: {classes}\n")
    with pytest.raises(UserError, match=got):
        read_segmentation(tmp_path, "yaml")
