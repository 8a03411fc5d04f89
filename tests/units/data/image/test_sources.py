import gzip
import hashlib
import io
import json
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.image import images
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images, InMemory, OnDisk, decode, in_memory, load_pixels, resize
from patchword.data.image.listing import folder_source, manifest_source
from patchword.data.image.named_datasets import DATASETS, NamedDataset, fetch, find_dataset, open_source
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.image.splits import held_out
from patchword.data.skipping import FaultySamples
from support.material import idx_bytes, without_sets, write_classes, write_idx_set, write_picture

FILES = [f"{stem}-{kind}-ubyte" for stem in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def everything(pictures: Images) -> torch.Tensor:
    return pictures.pixels.take(torch.arange(len(pictures)))


# Pictures


def test_a_picture_comes_back_as_it_is(tmp_path):
    path = write_picture(tmp_path / "a.png", mode="RGB", size=(6, 4))
    expected = torch.from_numpy(np.asarray(Image.open(path)).copy()).permute(2, 0, 1)
    assert torch.equal(decode(path, ImageFormat((4, 6), 3)), expected)


def test_colours_become_grey_and_grey_becomes_colours(tmp_path):
    Image.new("RGB", (4, 4), (255, 0, 0)).save(tmp_path / "red.png")
    Image.new("L", (4, 4), 77).save(tmp_path / "grey.png")
    assert decode(tmp_path / "red.png", ImageFormat(4, 1)).unique().tolist() == [76]  # 0.299 of 255
    assert decode(tmp_path / "grey.png", ImageFormat(4, 3)).unique().tolist() == [77]
    assert decode(tmp_path / "grey.png", ImageFormat(4, 3)).shape == (3, 4, 4)


def test_16_bits_are_scaled_and_not_clipped(tmp_path):
    Image.fromarray((np.arange(256) * 257).astype(np.uint16).reshape(16, 16)).save(tmp_path / "deep.png")
    assert decode(tmp_path / "deep.png", ImageFormat(16, 1)).flatten().tolist() == list(range(256))
    assert torch.equal(
        decode(tmp_path / "deep.png", ImageFormat(16, 3))[1], decode(tmp_path / "deep.png", ImageFormat(16, 1))[0]
    )


def test_floats_are_scaled_to_their_largest(tmp_path):
    Image.fromarray(np.linspace(0, 5, 16, dtype=np.float32).reshape(4, 4)).save(tmp_path / "float.tif")
    values = decode(tmp_path / "float.tif", ImageFormat(4, 1)).flatten().tolist()
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0, 255)


@pytest.mark.parametrize("mode", ["P", "CMYK", "RGBA", "LA", "1"])
def test_every_mode_becomes_its_colour(tmp_path, mode):
    colour = (255, 255, 255) if mode in ("LA", "1") else (200, 40, 120)
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (8, 8), colour).convert(mode).save(path)
    found = decode(path, ImageFormat(8, 3)).float().mean((1, 2))
    assert found.sub(torch.tensor(colour)).abs().max() < 8  # JPEG and a palette are near, a raw index would not be


def test_a_picture_stands_upright(tmp_path):
    wide = np.zeros((4, 8), np.uint8)
    wide[:, :4] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: to be shown a quarter to the right
    Image.fromarray(wide).save(tmp_path / "turned.png", exif=exif)
    upright = decode(tmp_path / "turned.png", ImageFormat((8, 4), 1))[0]
    assert torch.equal(upright, torch.from_numpy(np.rot90(wide, -1).copy()))


def test_the_shorter_side_is_fitted_and_the_middle_kept(tmp_path):
    stripes = np.repeat(np.array([10, 10, 200, 200, 10, 10], np.uint8), 4)[None].repeat(8, 0)
    Image.fromarray(stripes).save(tmp_path / "wide.png")  # 24 x 8: the middle 8 x 8 is 200
    assert decode(tmp_path / "wide.png", ImageFormat(8, 1)).unique().tolist() == [200]


@pytest.mark.parametrize("kind", ["png", "jpg", "gif", "bmp", "tif", "webp"])
def test_a_truncated_picture_is_named(tmp_path, kind):
    path = write_picture(tmp_path / f"whole.{kind}", mode="RGB", size=(64, 64))
    cut = tmp_path / f"cut.{kind}"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(UserError, match=rf"cannot read the image .*cut\.{kind}: got .*\nremove or replace"):
        decode(cut, ImageFormat(8, 3))


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_named(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read the image .*a\.png"):
        decode(tmp_path / "a.png", ImageFormat(8, 1))


def test_a_picture_too_large_to_be_true_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("patchword.data.image.image_file.PIXELS", 300)
    write_picture(tmp_path / "a.png", size=(20, 20))
    with pytest.raises(UserError, match=r"cannot read the image .*a\.png: got 20 x 20 pixels, more than 300"):
        decode(tmp_path / "a.png", ImageFormat(8, 1))


def test_pictures_of_a_model_with_two_channels_are_refused(tmp_path):
    write_picture(tmp_path / "a.png")
    with pytest.raises(UserError, match="1 or 3 channels") as caught:
        decode(tmp_path / "a.png", ImageFormat(8, 2))
    assert "remove" not in str(caught.value)  # nothing is wrong with the file


def test_pictures_are_held_if_they_fit_and_read_again_if_not(tmp_path, monkeypatch):
    paths = [write_picture(tmp_path / f"{number}.png", seed=number) for number in range(300)]
    output = []
    files, faulty = [(path, "a") for path in paths], FaultySamples("", "images")
    in_memory, _ = load_pixels(files, ImageFormat(8, 1), faulty, lambda done, of: output.append((done, of)))
    monkeypatch.setattr(images, "MEMORY", 300 * 64 - 1)
    on_disk, _ = load_pixels(files, ImageFormat(8, 1), faulty)
    assert isinstance(in_memory, InMemory)
    assert isinstance(on_disk, OnDisk)
    assert output == [(256, 300), (300, 300)]
    index = torch.tensor([299, 5, 0])
    assert torch.equal(in_memory.take(index), on_disk.take(index))
    assert torch.equal(in_memory.subset(index).take(torch.tensor([1])), on_disk.subset(index).take(torch.tensor([1])))
    assert torch.equal(in_memory.take(torch.tensor([5]))[0], decode(paths[5], ImageFormat(8, 1)))


def test_fitted_weighs_colours_as_pillow_does():
    colours = torch.randint(0, 256, (5, 3, 6, 6), dtype=torch.uint8)
    pillow = [np.asarray(Image.fromarray(one.permute(1, 2, 0).numpy()).convert("L")) for one in colours]
    ours = resize(colours, 6, 1)[:, 0].int()
    assert (ours - torch.from_numpy(np.stack(pillow)).int()).abs().max() <= 1


def test_fitted_does_not_overshoot():
    """Bicubic weights are partly negative; 260 or -5 as a byte would be a black dot in white or the reverse."""
    halves = torch.tensor([0, 255], dtype=torch.uint8).repeat_interleave(4).expand(1, 1, 8, 8)
    larger = resize(halves, (8, 40), 1)[0, 0, 0].int()
    assert torch.equal(larger, larger.sort().values)
    assert (int(larger[0]), int(larger[-1])) == (0, 255)


def test_classes_are_renumbered_to_a_models_own():
    pictures = Images(
        "set", "here", InMemory(torch.zeros(3, 1, 2, 2)), torch.tensor([0, 1, 1]), ("cat", "dog"), torch.arange(3)
    )
    assert pictures.with_classes(("dog", "bird", "cat")).labels.tolist() == [2, 0, 0]
    with pytest.raises(UserError, match=r"does not know class 'cat' of set\ndid you mean 'cats'"):
        pictures.with_classes(("cats", "dog"))


# A folder of classes


def test_a_folder_of_classes_is_split_once_and_for_all(tmp_path):
    source = open_source(str(write_classes(tmp_path / "pets", count=20)))
    train, test = source.read("train", ImageFormat(8, 1)), source.read("test", ImageFormat(8, 1))
    assert (train.name, train.classes, test.classes) == ("pets", ("cat", "dog"), ("cat", "dog"))
    assert train.labels.bincount().tolist() == [18, 18]
    assert test.labels.bincount().tolist() == [2, 2]
    pictures = {picture.numpy().tobytes() for part in (train, test) for picture in everything(part)}
    assert len(pictures) == 40  # every picture is different, so none is in both parts
    assert torch.equal(everything(source.read("test", ImageFormat(8, 1))), everything(test))


def test_a_folder_with_its_own_parts_is_left_as_it_is(tmp_path):
    write_classes(tmp_path / "train", count=3)
    write_classes(tmp_path / "test", ("dog",), count=2)
    source = folder_source(tmp_path)
    assert source.read("train", ImageFormat(8, 1)).labels.tolist() == [0, 0, 0, 1, 1, 1]
    test = source.read("test", ImageFormat(8, 1))
    assert test.labels.tolist() == [1, 1]
    assert torch.equal(everything(test)[0], decode(tmp_path / "test/dog/0.png", ImageFormat(8, 1)))


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev"])
def test_a_folder_may_bring_its_own_validation_part(tmp_path, name):
    for part, count in (("train", 4), (name, 2), ("test", 3)):
        write_classes(tmp_path / part, count=count)
    source = folder_source(tmp_path)
    assert source.has_validation
    found = {
        part: source.read(part, ImageFormat(8, 1)).labels.bincount().tolist()
        for part in ("train", "validation", "test")
    }
    assert found == {"train": [4, 4], "validation": [2, 2], "test": [3, 3]}


def test_a_lone_validation_part_serves_as_test(tmp_path):
    write_classes(tmp_path / "train", count=4)
    write_classes(tmp_path / "val", count=2)
    source = folder_source(tmp_path)
    assert not source.has_validation  # so some of the training part is set aside, and nothing is seen twice
    assert source.read("train", ImageFormat(8, 1)).labels.bincount().tolist() == [4, 4]
    assert source.read("test", ImageFormat(8, 1)).labels.bincount().tolist() == [2, 2]


@pytest.mark.parametrize("name", ["training", "test", "dev"])
def test_a_class_may_be_called_like_a_part(tmp_path, name):
    source = folder_source(write_classes(tmp_path, ("running", name)))
    assert source.read("train", ImageFormat(8, 1)).classes == tuple(sorted(("running", name)))


def test_only_pictures_are_read(tmp_path):
    write_classes(tmp_path, count=4)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "readme.md").write_text("neither")
    (tmp_path / ".hidden").mkdir()
    write_picture(tmp_path / "dog" / "deeper" / "4.PNG")
    rows = folder_source(tmp_path).rows
    assert len(rows) == 9
    assert {path.suffix.lower() for path, _, _ in rows} <= IMAGE_SUFFIXES


def test_an_empty_class_folder_is_named(tmp_path):
    write_classes(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"class folder .*empty is empty: expected images"):
        open_source(str(tmp_path))


def test_a_folder_without_classes_is_named(tmp_path):
    write_picture(tmp_path / "a.png")
    with pytest.raises(UserError, match="has no class folders"):
        open_source(str(tmp_path))


def test_a_corrupt_picture_is_named_before_training(tmp_path):
    write_classes(tmp_path / "train")
    write_classes(tmp_path / "test")
    corrupt = tmp_path / "train" / "dog" / "7.png"
    corrupt.write_bytes(corrupt.read_bytes()[:60])
    source = open_source(str(tmp_path))
    with pytest.raises(UserError, match=r"cannot read the image .*train/dog/7\.png"):
        source.read("train", ImageFormat(8, 1))
    assert len(source.read("test", ImageFormat(8, 1))) == 20


def test_a_set_without_a_test_part_has_some_of_it_held_out(tmp_path):
    source = folder_source(write_classes(tmp_path / "train", count=10).parent)
    assert source.read("train", ImageFormat(8, 1)).labels.bincount().tolist() == [9, 9]
    assert source.read("test", ImageFormat(8, 1)).labels.bincount().tolist() == [1, 1]


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_set_without_a_training_part_is_refused(tmp_path, part):
    write_picture(tmp_path / "a.png")
    (tmp_path / "list.csv").write_text("path,label,split\na.png,cat,test\n")
    with pytest.raises(UserError, match="train"):
        open_source(str(tmp_path / "list.csv")).read(part, ImageFormat(8, 1))


def test_one_picture_a_class_leaves_nothing_to_test(tmp_path):
    """Said when the training part is read, and not after hours of training."""
    source = open_source(str(write_classes(tmp_path, count=1)))
    with pytest.raises(UserError, match="test"):
        source.read("train", ImageFormat(8, 1))


# Manifests


@pytest.fixture
def listed(tmp_path):
    """Two pictures, and a writer of manifests beside them."""
    write_picture(tmp_path / "pictures" / "a.png", seed=1)
    write_picture(tmp_path / "pictures" / "b.png", seed=2)

    def write(name: str, text: str | bytes):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_csv_lists_paths_and_labels(listed, start, end):
    lines = ["label,path,split", 'boots,"pictures/a.png",train', "shoes,pictures/b.png,test", ""]
    source = open_source(str(listed("list.csv", start + end.join(lines))))
    train, test = source.read("train", ImageFormat(8, 1)), source.read("test", ImageFormat(8, 1))
    assert (train.classes, train.labels.tolist(), test.labels.tolist()) == (("boots", "shoes"), [0], [1])
    assert torch.equal(everything(test)[0], decode(listed("x", "").parent / "pictures/b.png", ImageFormat(8, 1)))


def test_json_lines_list_paths_and_labels(listed):
    records = [{"path": "pictures/a.png", "label": "é"}, {"path": "pictures/b.png", "label": "z", "split": "test"}]
    text = "\n\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    source = manifest_source(listed("list.jsonl", text))
    assert source.read("train", ImageFormat(8, 1)).classes == ("z", "é")
    assert source.read("test", ImageFormat(8, 1)).labels.tolist() == [0]


def test_a_label_may_be_a_number(listed):
    records = [{"path": "pictures/a.png", "label": 0}, {"path": "pictures/b.png", "label": 1, "split": "test"}]
    source = manifest_source(listed("list.jsonl", "\n".join(map(json.dumps, records))))
    assert source.read("train", ImageFormat(8, 1)).classes == ("0", "1")


def test_a_manifest_without_parts_is_split(listed):
    rows = "".join(f"pictures/{name}.png,{label}\n" for label in "xy" for name in "ab" for _ in range(5))
    source = manifest_source(listed("list.csv", "path,label\n" + rows))
    assert source.read("train", ImageFormat(8, 1)).labels.bincount().tolist() == [9, 9]
    assert source.read("test", ImageFormat(8, 1)).labels.bincount().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "path,class\npictures/a.png,x\n", r"a\.csv, line 2: no label: expected path and label"),
        ("a.csv", "path,label\npictures/a.png,x\npictures/b.png\n", r"line 3: no label"),
        ("a.csv", "path,label\npictures/a.png,x\n\npictures/gone.png,x\n", r"line 4: there is no image .*gone\.png"),
        ("a.jsonl", '{"path": "pictures/a.png"}', r"a\.jsonl, line 1: no label"),
        ("a.jsonl", '\n{"path": "gone.png", "label": "x"}', r"line 2: there is no image .*gone\.png"),
        ("a.csv", "path,label\n", r"a\.csv lists no images"),
        ("a.csv", "", r"a\.csv lists no images"),
        ("a.csv", b"path,label\npictures/a.png,\xff\n", r"cannot read .*a\.csv: expected UTF-8 CSV"),
        ("a.jsonl", b'{"path": "\xff"}', r"cannot read .*a\.jsonl: expected UTF-8 CSV or JSON lines"),
        ("a.jsonl", '{"path": ', r"a\.jsonl, line 1: not JSON"),
    ],
)
def test_a_wrong_manifest_says_where(listed, name, text, message):
    with pytest.raises(UserError, match=message):
        open_source(str(listed(name, text)))


def test_broken_json_says_which_line(listed):
    good = '{"path": "pictures/a.png", "label": "x"}'
    with pytest.raises(UserError, match="line 3"):
        manifest_source(listed("a.jsonl", f"{good}\n{good}\n{{broken}}"))


@pytest.mark.parametrize("line", ["[1, 2]", '"path"', "3", "null"])
def test_json_that_is_no_record_says_which_line(listed, line):
    with pytest.raises(UserError, match="line 1"):
        manifest_source(listed("a.jsonl", line))


def test_a_part_of_another_name_is_refused(listed):
    """Taken for training, a misspelt test part would be trained on."""
    text = "path,label,split\npictures/a.png,x,train\npictures/b.png,x,Tset\n"
    with pytest.raises(UserError, match="Tset"):
        manifest_source(listed("a.csv", text)).read("train", ImageFormat(8, 1))


# Held out


def test_a_share_of_each_class_is_held_out():
    labels = torch.cat([torch.zeros(100), torch.ones(10), torch.full((3,), 2), torch.full((1,), 3)]).long()
    labels = labels[torch.randperm(len(labels))]
    aside = held_out(labels, torch.arange(len(labels)), 0.1)
    assert labels[aside].bincount(minlength=4).tolist() == [10, 1, 1, 0]  # one at least, but never the last of a class
    assert labels[~aside].bincount(minlength=4).tolist() == [90, 9, 2, 1]
    assert not held_out(labels, torch.arange(len(labels)), 0.0).any()


def test_what_is_held_out_never_changes():
    labels, keys = torch.arange(1000) % 10, torch.arange(1000)
    before = held_out(labels, keys, 0.1)
    torch.manual_seed(123)
    assert torch.equal(held_out(labels, keys, 0.1), before)
    other = held_out(labels, keys, 0.1, purpose=11)  # the test part is drawn apart from the validation part
    assert 0 < int((before & other).sum()) < 30


def test_what_is_held_out_is_spread_over_the_set():
    aside = held_out(torch.zeros(10_000, dtype=torch.int64), torch.arange(10_000), 0.1).nonzero()[:, 0]
    assert (aside // 1000).bincount(minlength=10).sub(100).abs().max() < 40


# Named sets


def test_a_set_that_is_not_here_names_the_three_ways(tmp_path, monkeypatch):
    without_sets(monkeypatch, tmp_path)
    with pytest.raises(UserError) as caught:
        open_source("fashion-mnist")
    output = str(caught.value)
    assert "fashion-mnist is not on this machine" in output
    assert f"1. put its four idx files into {tmp_path / 'fashion-mnist'}" in output
    assert "2. apt-get install dataset-fashion-mnist" in output
    assert "3. patchword data get fashion-mnist" in output


def test_the_users_folder_comes_before_debians(tmp_path, monkeypatch):
    without_sets(monkeypatch, tmp_path / "mine")
    known = DATASETS["fashion-mnist"]
    monkeypatch.setitem(
        DATASETS, "fashion-mnist", NamedDataset(**{**vars(known), "package_folder": str(tmp_path / "debian")})
    )
    assert find_dataset("fashion-mnist") is None
    write_idx_set(tmp_path / "debian", labels=[1])
    assert find_dataset("fashion-mnist") == (tmp_path / "debian", f"dataset-fashion-mnist ({tmp_path / 'debian'})")
    assert open_source("fashion-mnist").read("train", ImageFormat(28, 1)).labels.tolist() == [1]
    write_idx_set(tmp_path / "mine" / "fashion-mnist", labels=[2])
    images = open_source("fashion-mnist").read("train", ImageFormat(28, 1))
    assert images.labels.tolist() == [2]
    assert images.origin == f"data folder ({tmp_path / 'mine' / 'fashion-mnist'})"
    assert images.classes[0] == "T-shirt/top"


def test_the_users_folder_can_be_anywhere(tmp_path, monkeypatch):
    without_sets(monkeypatch, tmp_path)
    monkeypatch.delenv("PATCHWORD_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    write_idx_set(tmp_path / "patchword" / "mnist", labels=[4])
    assert open_source("mnist").read("test", ImageFormat(28, 1)).labels.tolist() == [4]


@pytest.mark.parametrize("where", ["fashion_mnist", "digit", "/no/such/folder"])
def test_a_name_nobody_knows(where):
    with pytest.raises(
        UserError, match=r"there is no data set .*: expected a name, a folder, a \.zip, \.tar, \.csv or"
    ):
        open_source(where)


class Network:
    """Answers addresses with bytes, and remembers what was asked."""

    def __init__(self, files: dict[str, bytes | Exception]) -> None:
        self.files, self.asked = files, []

    def __call__(self, address: str, timeout: float) -> io.BytesIO:
        assert timeout > 0
        self.asked.append(address.rsplit("/", 1)[-1])
        answer = self.files[self.asked[-1]]
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A machine without sets; the public source holds a tiny mnist whose digests are known."""
    without_sets(monkeypatch, tmp_path)
    files = {
        f"{name}.gz": gzip.compress(idx_bytes(np.zeros((10, 28, 28)) if "images" in name else range(10)), mtime=0)
        for name in FILES
    }
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    monkeypatch.setitem(DATASETS, "mnist", NamedDataset(**{**vars(DATASETS["mnist"]), "digests": digests}))
    network = Network(files)
    monkeypatch.setattr("urllib.request.urlopen", network)
    return network


def test_a_download_is_verified_and_then_found(tmp_path, network):
    output = []
    assert fetch("mnist", output.append) == tmp_path / "mnist"
    assert network.asked == [f"{name}.gz" for name in FILES]
    assert len(output) == 4
    assert sorted(path.name for path in (tmp_path / "mnist").iterdir()) == sorted(network.files)
    assert open_source("mnist").read("test", ImageFormat(28, 1)).labels.tolist() == list(range(10))
    fetch("mnist", output.append)
    assert len(network.asked) == 4  # here already
    assert "mnist is already available" in output[-1]


def test_nothing_is_downloaded_unasked(network):
    with pytest.raises(UserError, match="not on this machine"):
        open_source("mnist")
    assert network.asked == []


@pytest.mark.parametrize("content", [b"something else", b""])
def test_a_file_of_another_digest_is_not_kept(tmp_path, network, content):
    network.files[f"{FILES[0]}.gz"] = content
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz has another digest: expected sha256"):
        fetch("mnist", print)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("failure", [OSError("no route"), TimeoutError("timed out"), IncompleteRead(b"half")], ids=repr)
def test_a_failed_download_says_the_other_ways(tmp_path, network, failure):
    network.files[f"{FILES[0]}.gz"] = failure
    with pytest.raises(UserError, match=r"cannot download .*\n.*get it in one of these ways"):
        fetch("mnist", print)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_download_cut_short_is_completed_the_next_time(network):
    third = f"{FILES[2]}.gz"
    whole, network.files[third] = network.files[third], OSError("the line dropped")
    with pytest.raises(UserError, match="cannot download"):
        fetch("mnist", print)
    network.files[third] = whole
    fetch("mnist", print)
    assert open_source("mnist").read("test", ImageFormat(28, 1)).labels.tolist() == list(range(10))


def test_a_set_nobody_knows_is_not_fetched(network):
    with pytest.raises(UserError, match=r"no data set is called 'mnits'\ndid you mean 'mnist'"):
        fetch("mnits", print)
    assert network.asked == []


# The digits


def test_the_digits_need_no_download(network):
    from sklearn.datasets import load_digits

    source = open_source("digits")
    train, test = source.read("train", ImageFormat(8, 1)), source.read("test", ImageFormat(8, 1))
    assert (len(train), len(test)) == (1438, 359)
    bunch = load_digits()
    assert test.labels.tolist() == bunch.target[4::5].tolist()
    expected = torch.from_numpy(np.rint(bunch.images[4::5] * 255 / 16)).to(torch.uint8)
    assert torch.equal(everything(test)[:, 0], expected)
    assert int(everything(train).max()) == 255
    assert train.classes == tuple("0123456789")
    assert everything(source.read("test", ImageFormat(28, 3))).shape == (359, 3, 28, 28)
    assert network.asked == []


def test_a_new_picture_moves_no_other_between_the_parts(tmp_path):
    """Held out by place in the list, a picture that was trained on would become one of the test."""
    write_classes(tmp_path, count=40)

    def keys(part):
        return set(open_source(str(tmp_path)).read(part, ImageFormat(8, 1)).keys.tolist())

    before = {part: keys(part) for part in ("train", "test")}
    write_picture(next(path for path in tmp_path.iterdir() if path.is_dir()) / "000.png")
    assert not keys("test") & before["train"]
    assert len(before["train"] - keys("train")) <= 1  # at most the one whose place the new one took


def test_a_class_may_be_called_train(tmp_path):
    write_classes(tmp_path, ("train", "bus"), count=10)
    assert open_source(str(tmp_path)).read("train", ImageFormat(8, 1)).classes == ("bus", "train")


def test_a_set_too_large_for_memory_is_resized_batch_by_batch(monkeypatch):
    pixels = torch.randint(0, 256, (10, 1, 8, 8), dtype=torch.uint8)
    whole = in_memory(pixels, ImageFormat(16, 3))
    monkeypatch.setattr("patchword.data.image.images.MEMORY", 1000)
    lazy = in_memory(pixels, ImageFormat(16, 3))
    assert (type(whole).__name__, type(lazy).__name__) == ("InMemory", "Resized")
    index = torch.tensor([3, 7])
    assert torch.equal(lazy.take(index), whole.take(index))
    assert torch.equal(lazy.subset(index).take(torch.tensor([1])), whole.take(index[1:]))


def test_what_a_mac_adds_to_an_archive_is_no_class(tmp_path):
    write_classes(tmp_path / "pets")
    write_picture(tmp_path / "pets" / "__MACOSX" / "._0.png")
    assert open_source(str(tmp_path / "pets")).read("train", ImageFormat(8, 1)).classes == ("cat", "dog")


def test_all_samples_are_read_at_once(tmp_path):
    source = open_source(str(write_classes(tmp_path / "pets")))
    assert not source.has_test
    assert len(source.read("all", ImageFormat(8, 1))) == 20
    for split in ("train", "test"):
        write_classes(tmp_path / "parted" / split)
    assert open_source(str(tmp_path / "parted")).has_test


@pytest.mark.parametrize(("mode", "color"), [("L", False), ("LA", False), ("RGB", True), ("RGBA", True)])
def test_one_image_with_colours_makes_a_set_with_colours(tmp_path, mode, color):
    write_classes(tmp_path / "pets")
    write_picture(tmp_path / "pets" / "cat" / "another.png", mode=mode)
    assert open_source(str(tmp_path / "pets")).has_color() == color


@pytest.mark.parametrize("place", ["/", "/proc/sys", "/sys", "/dev"])
def test_folders_of_the_system_hold_no_images(tmp_path, place):
    with pytest.raises(UserError, match=f"{place} is a folder of the system: expected a folder of images"):
        folder_source(Path(place))
    (tmp_path / "images").symlink_to(place)
    with pytest.raises(UserError, match=r"images, which leads to .*, is a folder of the system"):
        folder_source(tmp_path / "images")


def test_a_class_that_links_to_the_system_is_refused(tmp_path):
    write_picture(tmp_path / "images" / "cat" / "a.png")
    (tmp_path / "images" / "dog").symlink_to("/proc")
    with pytest.raises(UserError, match="is a folder of the system"):
        folder_source(tmp_path / "images")
