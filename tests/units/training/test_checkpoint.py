"""Checkpoints with flipped bits, truncated files, foreign folders and faulty disks."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from patchword.core.errors import UserError
from patchword.core.formats.safetensors_bytes import chunks, size_of
from patchword.training.checkpoint import checkpoint, manifest
from patchword.training.checkpoint.checkpoint import Checkpoints


def place(batch: int, epoch: int = 0) -> str:
    return f"epoch-{epoch:05d}-batch-{batch:07d}"


def save(checkpoints: Checkpoints, batch: int, also_keep: str = "", epoch: int = 0) -> None:
    tensors = {"weight": torch.full((64,), float(batch)), "steps": torch.tensor(batch)}
    checkpoints.save(place(batch, epoch), tensors, {"batch": batch}, also_keep)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def two(tmp_path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 2)
    return checkpoints


def test_tensors_of_an_earlier_version_are_renamed(tmp_path):
    checkpoints, one, two = Checkpoints(tmp_path), torch.ones(2), torch.zeros(2)
    older = {"model.stages.10.entrance.weight": one, "average.entrance.words.weight": two, "optimizer.0.step": one}
    checkpoints.save(place(1), older, {})
    tensors, _ = checkpoints.newest(print)
    assert tensors.keys() == {"model.stages.10.stem.weight", "average.embedding.words.weight", "optimizer.0.step"}
    assert torch.equal(tensors["model.stages.10.stem.weight"], one)


# The file


def test_a_file_is_what_safetensors_reads(tmp_path):
    kinds = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8]
    tensors = {str(kind): (torch.arange(15) - 4).to(kind).view(3, 5) for kind in kinds}
    tensors |= {"bool": torch.tensor([True, False]), "one": torch.tensor(3.0), "none": torch.empty(0, 4)}
    tensors |= {"turned": torch.arange(6.0).view(2, 3).t(), "é": torch.ones(1)}
    content = b"".join(chunks(tensors))
    (tmp_path / "file.safetensors").write_bytes(content)
    read = load_file(tmp_path / "file.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype, name
        assert torch.equal(read[name], tensor), name
    assert size_of(tensors) == len(content)


def test_a_large_tensor_is_written_in_chunks(monkeypatch):
    monkeypatch.setattr("patchword.core.formats.safetensors_bytes._PIECE", 64)
    tensors = {"a": torch.randn(100)}
    parts = list(chunks(tensors))
    assert max(map(len, parts[1:])) == 64
    assert b"".join(parts[1:]) == tensors["a"].numpy().tobytes()


# Damage


def damaged(two: Checkpoints, file: Path, content: bytes) -> None:
    """The damage is detected and named, and the checkpoint before is used."""
    good, messages = file.read_bytes(), []
    file.write_bytes(content)
    found = Checkpoints(two.folder).newest(messages.append)
    file.write_bytes(good)
    assert found is not None
    assert found[1] == {"batch": 1}, file.name
    assert len(messages) == 1
    assert messages[0].startswith(f"checkpoint {place(2)} is skipped: ")
    assert file.name in messages[0] or "its manifest" in messages[0]


FILES = ("tensors.safetensors", "state.json", "manifest.json")


@pytest.mark.parametrize("name", FILES)
def test_fifty_flipped_bits_are_detected_in_every_file(two, name):
    file, rng = two.folder / place(2) / name, random.Random(name)
    content = file.read_bytes()
    bits = rng.sample(range(8 * len(content)), min(50, 8 * len(content)))
    assert len(bits) == 50
    for bit in bits:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        damaged(two, file, bytes(changed))
    assert two.newest(pytest.fail)[1] == {"batch": 2}


@pytest.mark.parametrize("name", FILES)
def test_ten_truncations_are_detected_of_every_file(two, name):
    file, rng = two.folder / place(2) / name, random.Random(name)
    content = file.read_bytes()
    for length in [0, 1, len(content) - 1, *rng.sample(range(2, len(content) - 1), 7)]:
        damaged(two, file, content[:length])


def test_every_bit_of_a_manifest_counts(two):
    """All of them, since no other file has a digest of the manifest."""
    content = (two.folder / place(2) / "manifest.json").read_bytes()
    entries, unnoticed = manifest.entries(content), []
    assert entries.keys() == set(FILES[:2])
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            unnoticed.append((bit, manifest.entries(bytes(changed))))
    # without the key "files" it is not one of our manifests: its entries are not digests
    assert all("sha256" not in entries.get("tensors.safetensors", {}) for _, entries in unnoticed)
    assert len(unnoticed) <= 8 * len("files")


def test_a_file_that_only_the_manifest_names_is_reported_missing(two):
    file = two.folder / place(2) / "state.json"
    file.unlink()
    messages = []
    assert two.newest(messages.append)[1] == {"batch": 1}
    assert messages == [f"checkpoint {place(2)} is skipped: its manifest cannot be used (state.json is missing)"]


def test_checkpoints_of_the_first_format_are_read(two):
    import hashlib

    folder = two.folder / place(2)
    old = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES[:2]}
    (folder / "manifest.json").write_text(json.dumps(old))
    assert two.newest(pytest.fail)[1] == {"batch": 2}
    (folder / "state.json").write_text('{"batch": 3}')
    assert two.newest(lambda _: None)[1] == {"batch": 1}


@pytest.mark.parametrize("spoil", [lambda content: content[:-9] + b"\1" + content[-8:], lambda content: content[:-1]])
def test_a_faulty_disk_is_detected_before_an_older_checkpoint_is_removed(two, monkeypatch, spoil):
    """What is read back is compared with what was written; older checkpoints stay unchanged."""
    written = checkpoint.flush

    def forgetful(path: Path) -> None:
        written(path)
        if path.name == "tensors.safetensors":
            path.write_bytes(spoil(path.read_bytes()))

    monkeypatch.setattr(checkpoint, "flush", forgetful)
    with pytest.raises(UserError, match=r"cannot write the checkpoint .*differs from what was written"):
        save(two, 3)
    assert names(two.folder) == [place(1), place(2)]
    assert two.newest(pytest.fail)[1] == {"batch": 2}


# Retention


def test_the_best_one_is_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for batch in range(1, 7):
        save(checkpoints, batch, also_keep=place(2))
    assert names(tmp_path) == [place(2), place(5), place(6)]
    save(checkpoints, 7, also_keep=place(6))
    assert names(tmp_path) == [place(6), place(7)]


def test_a_damaged_one_does_not_count_as_kept(tmp_path):
    """The last two intact ones are kept: a damaged one does not replace an intact one."""
    first = Checkpoints(tmp_path, keep=3)
    for batch in (1, 2, 3):
        save(first, batch)
    (tmp_path / place(3) / "state.json").write_text("{}")
    again = Checkpoints(tmp_path)
    assert again.newest(lambda _: None)[1] == {"batch": 2}
    save(again, 4)
    assert names(tmp_path) == [place(2), place(4)]


def test_a_newer_damaged_one_is_not_read_and_does_not_block(two):
    (two.folder / place(2) / "state.json").write_text("{}")
    again = Checkpoints(two.folder)
    assert again.newest(lambda _: None)[1] == {"batch": 1}
    save(again, 2)
    assert again.newest(pytest.fail)[1] == {"batch": 2}


def test_other_folders_are_never_touched(two):
    foreign = ["epoch-notes", f"{place(1)}-mine", f"{place(1)} (copy)", ".epoch-old", "best", ".cache.tmp"]
    for name in foreign:
        shutil.copytree(two.folder / place(1), two.folder / name)
    (two.folder / "epoch-1").write_text("a file, no folder")
    for batch in (3, 4, 5):
        save(two, batch)
    assert names(two.folder) == sorted([*foreign, "epoch-1", place(4), place(5)])
    assert two.newest(pytest.fail)[1] == {"batch": 5}


def test_deleting_begins_with_a_rename(two, monkeypatch):
    removed, remove = [], shutil.rmtree

    def watched(path: Path, **options: object) -> None:
        removed.append(Path(path).name)
        remove(path, **options)

    monkeypatch.setattr(checkpoint.shutil, "rmtree", watched)
    save(two, 3)
    assert f".{place(1)}.old" in removed
    assert all(name.startswith(".") for name in removed)


def test_an_older_one_is_removed_only_after_the_newer_one_is_renamed(two, monkeypatch):
    remove, there = Checkpoints._remove, []

    def watched(self: Checkpoints, folder: Path) -> None:
        there.append((folder.name, (two.folder / place(3)).is_dir()))
        remove(self, folder)

    monkeypatch.setattr(Checkpoints, "_remove", watched)
    save(two, 3)
    assert (place(1), True) in there
    assert (place(1), False) not in there


def test_a_save_measures_its_cost(two):
    save(two, 3)
    assert two.cost.bytes >= size_of({"weight": torch.zeros(64), "steps": torch.tensor(1)})
    assert two.cost.seconds == two.cost.waited > 0
