import gzip

import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.image.idx import read_idx
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.sources import IdxSource
from support.material import idx_bytes, write_idx_set

PIXELS = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
WHOLE = idx_bytes(PIXELS)
DIGITS = tuple("0123456789")


@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_plain_and_gzipped_files_come_back(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(WHOLE) if name.endswith(".gz") else WHOLE)
    values = read_idx(tmp_path / name)
    assert values.dtype == torch.uint8
    assert torch.equal(values, torch.from_numpy(PIXELS))
    values[0] = 0  # our own memory: a read-only view would make torch complain


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-1], r"is truncated: expected 76 bytes for sizes 5 x 4 x 3, got 75 bytes"),
        (WHOLE[:16], r"is truncated"),
        (WHOLE[:7], r"is truncated"),
        (WHOLE + b"\0", r"is too long: expected 76 bytes for sizes 5 x 4 x 3, got 77 bytes"),
        (b"\0\0\x0d" + WHOLE[3:], r"is not an idx file: expected bytes 00 00 08 at its start, got 00 00 0d"),
        (b"PK\x03\x04", r"is not an idx file"),
        (b"\0\0", r"is not an idx file"),
        (b"", r"is not an idx file"),
    ],
    ids=["a byte short", "header only", "in the header", "a byte long", "floats", "zip", "two bytes", "empty"],
)
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_a_wrong_file_is_named(tmp_path, content, message, name):
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(UserError, match=rf"{name} {message}"):
        read_idx(tmp_path / name)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(WHOLE)[:-10], gzip.compress(WHOLE)[:12], WHOLE, b"", gzip.compress(WHOLE)[:12] + b"\xff" * 30],
    ids=["cut", "cut early", "not gzip", "empty", "garbage inside"],
)
def test_a_broken_gzip_is_named(tmp_path, content):
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"file\.gz"):
        read_idx(tmp_path / "file.gz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*nothing"):
        read_idx(tmp_path / "nothing")


def test_a_set_has_its_two_parts(tmp_path):
    write_idx_set(tmp_path, labels=[3, 1, 2])
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros((2, 28, 28))))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes([9, 0])))
    source = IdxSource("clothes", tmp_path, DIGITS, "here")
    train, test = source.read("train", ImageFormat(28, 1)), source.read("test", ImageFormat(28, 1))
    assert train.labels.tolist() == [3, 1, 2]
    assert test.labels.tolist() == [9, 0]
    assert train.pixels.take(torch.arange(3)).shape == (3, 1, 28, 28)
    assert not test.pixels.take(torch.arange(2)).any()


def test_pixels_are_the_files_own(tmp_path):
    write_idx_set(tmp_path)
    raw = read_idx(tmp_path / "train-images-idx3-ubyte")
    source = IdxSource("clothes", tmp_path, DIGITS, "here")
    assert torch.equal(source.read("train", ImageFormat(28, 1)).pixels.take(torch.arange(30))[:, 0], raw)
    coloured = source.read("train", ImageFormat(28, 3)).pixels.take(torch.arange(30))
    assert torch.equal(coloured, raw[:, None].expand(-1, 3, -1, -1))
    small = source.read("train", ImageFormat((14, 7), 1)).pixels.take(torch.arange(30))
    assert (small.shape, small.dtype) == ((30, 1, 14, 7), torch.uint8)


def test_a_label_out_of_range_names_the_sample(tmp_path):
    write_idx_set(tmp_path, labels=[0, 9, 10, 3, 200])
    with pytest.raises(UserError, match=r"sample 2 of clothes is out of range: expected 0 to 9 .*, got 10\n2 labels"):
        IdxSource("clothes", tmp_path, DIGITS, "here").read("train", ImageFormat(28, 1))


def test_images_and_labels_must_be_as_many(tmp_path):
    write_idx_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes([1, 2, 3]))
    with pytest.raises(UserError, match=r"do not belong together: .* and \(3,\)"):
        IdxSource("clothes", tmp_path, DIGITS, "here").read("train", ImageFormat(28, 1))


def test_a_file_that_is_not_there_is_named(tmp_path):
    write_idx_set(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    source = IdxSource("clothes", tmp_path, DIGITS, "here")
    source.read("train", ImageFormat(28, 1))
    with pytest.raises(UserError, match=r"lacks t10k-labels-idx1-ubyte"):
        source.read("test", ImageFormat(28, 1))


@pytest.mark.parametrize("channels", [2, 4])
def test_a_model_of_other_channels_is_refused(tmp_path, channels):
    write_idx_set(tmp_path)
    with pytest.raises(UserError, match=rf"expected {channels}, got 1\nset model.channels=1"):
        IdxSource("clothes", tmp_path, DIGITS, "here").read("train", ImageFormat(28, channels))
