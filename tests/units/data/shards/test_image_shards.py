"""Pictures in shards: what is written, what is read back, in which order, and what is said when one is not there."""

import hashlib
import json
import re
import shutil
import tarfile
from dataclasses import replace

import pytest
import torch

from patchword.core import files
from patchword.core.card import Normalization
from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import read_json, write_json
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.faults import DataError, collect_faults
from patchword.data.image.batches import Batch, Batches
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from patchword.data.shards import folders, open_files, shard_source, sharded_images, writing
from patchword.data.shards.folders import Folders, parse_size
from patchword.data.shards.image_contents import TarWriter, image_contents
from patchword.data.shards.manifest import MANIFEST, read_manifest
from patchword.data.shards.writing import write_shards
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.image.task import build_task
from patchword.recipes.sample_names import sample_names
from patchword.training.parallel.process_group import DataParallel
from support.checkpoints import assert_close
from support.material import TINY_MODEL, differing, silent, write_classes, write_picture
from support.parallel_runs import Asked, Workers, do
from support.tiny_texts import refusal

COUNT, SIZE = 60, 7000  # pictures; bytes of a shard, which then has seven of them


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    """Waiting for the disk guards against power cuts, which are not tried here."""
    monkeypatch.setattr(files, "flush", lambda path: None)


@pytest.fixture
def pictures(tmp_path):
    return write_classes(tmp_path / "pictures", ("cat", "dog", "fish"), count=COUNT // 3)


def sharded(where, *out, size=SIZE):
    return write_shards(image_contents(open_source(str(where)), str(where)), Folders(tuple(out)), size)


@pytest.fixture
def shards(pictures, tmp_path):
    sharded(pictures, tmp_path / "shards")
    return tmp_path / "shards"


def train_part(where):
    return open_source(str(where)).read("train", ImageFormat(8, 1))


def test_a_manifest_of_an_earlier_version_is_read(shards):
    path = shards / MANIFEST
    expected = train_part(shards)
    assert '"kind": "images"' in path.read_text()
    path.write_text(path.read_text().replace('"kind": "images"', '"kind": "pictures"'))
    assert read_manifest(shards).kind == "images"
    assert train_part(shards).classes == expected.classes


# What is written


def test_every_picture_is_in_one_shard_as_it_was(pictures, shards):
    manifest = read_json(shards / MANIFEST)
    found = {}
    for shard in manifest["shards"]:
        path = shards / shard["file"]
        assert (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) == (shard["bytes"], shard["sha256"])
        with tarfile.open(path) as file:
            inside = {info.name: file.extractfile(info).read() for info in file}
        assert len(inside) == shard["samples"]
        assert not found.keys() & inside.keys()
        found |= inside
    assert len(manifest["shards"]) > 8
    assert found == {f"{path.parent.name}/{path.name}": path.read_bytes() for path in pictures.glob("*/*.png")}
    assert manifest["classes"] == ["cat", "dog", "fish"]
    listed = {shard["file"].replace(".tar", ending) for shard in manifest["shards"] for ending in (".tar", ".index")}
    assert {path.name for path in shards.iterdir()} == {MANIFEST, ".lock"} | listed


def test_a_shard_is_a_sample_of_all_classes(shards):
    """A folder lists its classes one after the other; shuffled within some shards, they would stay together."""
    images = train_part(shards)
    classes = [set(images.labels[images.pixels.shard == number].tolist()) for number in range(8)]
    assert sum(len(some) > 1 for some in classes) >= 7


def test_parts_and_pixels_are_those_of_the_folder(pictures, shards):
    for part in ("train", "test"):
        ours, theirs = (open_source(str(where)).read(part, ImageFormat(8, 3)) for where in (shards, pictures))
        assert sorted(ours.keys.tolist()) == sorted(theirs.keys.tolist())
        assert ours.classes == theirs.classes
        mine, other = ours.keys.argsort(), theirs.keys.argsort()
        assert torch.equal(ours.labels[mine], theirs.labels[other])
        assert torch.equal(ours.pixels.take(mine), theirs.pixels.take(other))


def test_parts_that_a_folder_brings_have_shards_of_their_own(tmp_path):
    for part, count in (("train", 12), ("val", 4), ("test", 5)):
        write_classes(tmp_path / "set" / part, count=count)
    manifest = sharded(tmp_path / "set", tmp_path / "out")
    source = open_source(str(tmp_path / "out"))
    assert source.has_validation
    assert [len(source.read(part, ImageFormat(8, 1))) for part in ("train", "validation", "test")] == [24, 8, 10]
    assert sorted({shard.part for shard in manifest.shards}) == ["test", "train", "validation"]


def test_a_kill_loses_one_shard_and_the_same_bytes_come_out(pictures, shards, tmp_path, monkeypatch):
    def broken(self, content, add=TarWriter.add):
        if len(list(out.glob("*.tar"))) == 4 and len(self.rows) == 3:
            raise KeyboardInterrupt
        add(self, content)

    out = tmp_path / "again"
    monkeypatch.setattr(TarWriter, "add", broken)
    with pytest.raises(KeyboardInterrupt):
        sharded(pictures, out)
    with pytest.raises(UserError, match="not finished"):
        open_source(str(out))
    before = {path.name: path.stat().st_ino for path in out.glob("*.tar")}
    monkeypatch.undo()
    monkeypatch.setattr(type(open_source(str(pictures))), "examine", None)  # checked before, and not again
    sharded(pictures, out)
    assert len(before) == 4
    assert all((out / name).stat().st_ino == number for name, number in before.items())
    whole, again = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (shards, out))
    assert whole == again


def test_what_is_finished_is_not_written_again_and_other_pictures_are_refused(pictures, shards, monkeypatch):
    monkeypatch.setattr(writing, "whole_file", None)
    sharded(pictures, shards)
    with pytest.raises(UserError, match="of another --size"):
        sharded(pictures, shards, size=SIZE + 1)
    write_picture(pictures / "cat" / "new.png")
    with pytest.raises(UserError, match="shards of other data"):
        sharded(pictures, shards)


def test_a_broken_picture_is_told_before_anything_is_written(pictures, tmp_path):
    for name in ("cat/3.png", "dog/5.png"):
        (pictures / name).write_bytes(b"broken")
    with pytest.raises(DataError, match=r"(?s)2 faults.*cat/3\.png.*dog/5\.png"):
        sharded(pictures, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_the_next_folder_is_filled_when_a_disk_is_full(pictures, tmp_path, monkeypatch):
    one, other = tmp_path / "one", tmp_path / "other"

    def free(path):
        return 10**9 if path != one or len(list(one.glob("*.tar"))) < 3 else 0

    monkeypatch.setattr(folders, "free_bytes", free)
    manifest = sharded(pictures, one, other)
    assert (len(list(one.glob("*.tar"))), len(list(other.glob("*.tar")))) == (3, len(manifest.shards) - 3)
    assert len(train_part(one)) == 54
    monkeypatch.setattr(folders, "free_bytes", lambda path: 0)
    with pytest.raises(UserError, match=r"(?s)too little space.*--out FOLDER"):
        sharded(pictures, tmp_path / "third")


@pytest.mark.parametrize(("text", "size"), [("256MB", 256_000_000), ("1.5 gb", 1_500_000_000), ("2000000B", 2_000_000)])
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "256", "MB", "-3MB", "1.2.3MB", "10KB", "1e9B"])
def test_sizes_that_are_none_are_refused(text):
    with pytest.raises(UserError, match="shard"):
        parse_size(text)


def test_the_command_cuts_and_says_what_it_did(pictures, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, _ = command("data", "shard", pictures, "--out", tmp_path / "out", "--size", "1MB")
    assert (code, output.startswith("60 images in 1 shard, ")) == (0, True)
    assert "no faults: 60 images" in command("data", "check", tmp_path / "out")[1]
    for words, complaint in (
        (("digits", "--out", tmp_path / "b"), "digits cannot be written as shards"),
        ((tmp_path / "out", "--out", tmp_path / "b"), "cannot be written as shards"),
        ((pictures, "--out", tmp_path / "b", "--size", "3"), "invalid shard size"),
        ((tmp_path / "none", "--out", tmp_path / "b"), "there is no data set"),
    ):
        assert complaint in refusal(command, "data", "shard", *words)


# The order


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(open_files, "TOGETHER", 2)
    monkeypatch.setattr(open_files, "OPEN", 4)


def test_an_epoch_is_every_sample_once_and_needs_few_shards_at_a_time(shards, few):
    images = train_part(shards).pixels
    orders = [images.order(*place) for place in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert torch.equal(orders[0], orders[3])
    assert not any(torch.equal(orders[0], other) for other in orders[1:3])
    for order in orders:
        assert sorted(order.tolist()) == list(range(len(images.shard)))
        visited = images.shard[order].tolist()
        seen = list(dict.fromkeys(visited))
        spans = {number: (visited.index(number), len(visited) - visited[::-1].index(number)) for number in seen}
        assert max(sum(a <= place < b for a, b in spans.values()) for place in range(len(visited))) <= 2
    neighbours = [{frozenset(images.shard[order[:8]].tolist())} for order in orders[:3]]
    assert len(set.union(*neighbours)) > 1  # other shards are together in other epochs


def test_few_shards_mean_a_shuffle_of_all(shards):
    """Up to a group, nothing is lost against a set that is held."""
    images = train_part(shards).pixels
    assert len(images.shard[images.order(0, 0)[:20]].unique()) > 5


def test_an_epoch_can_begin_anywhere_and_be_dealt_to_any_number_of_processes(shards, few):
    batches = Batches(train_part(shards), 8, Normalization((0.3,), (0.2,)), torch.device("cpu"))
    augmentation = Augmentation(flip=0.5, shift=1)
    whole = list(batches.epoch(1, 3, augmentation))
    for size in (1, 2, 3):
        for first in (0, 2):
            parts = [
                list(batches.epoch(1, 3, augmentation, first, DataParallel(number, size, None)))
                for number in range(size)
            ]
            for number, batch in enumerate(whole[first:]):
                dealt = torch.cat([part[number].samples for part in parts])
                assert sorted(dealt.tolist()) == sorted(batch.samples.tolist())
                rows = {int(sample): row for sample, row in zip(batch.samples, batch.inputs, strict=True)}
                inputs = torch.cat([part[number].inputs for part in parts])
                assert all(torch.equal(rows[int(s)], row) for s, row in zip(dealt, inputs, strict=True))


def test_few_files_stay_open(shards, few):
    images = train_part(shards)
    list(Batches(images, 8, Normalization((0.3,), (0.2,)), torch.device("cpu")).epoch(0, 0, Augmentation()))
    images.pixels.take(torch.arange(len(images)))
    assert len(images.pixels.files) == 4


# What is not there


def test_missing_and_short_shards_are_named_at_once(shards):
    (shards / "shard-00002.tar").unlink()
    with (shards / "shard-00005.tar").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(
        DataError, match=r"(?s)2 faults.*shard-00002\.tar is missing.*shard-00005\.tar has a wrong size"
    ):
        build_task(recipe(shards), silent())


def test_a_changed_byte_is_found_by_the_full_check(shards):
    path = shards / "shard-00003.tar"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    train_part(shards)
    with pytest.raises(UserError, match=r"shard-00003\.tar has changed since it was written"), collect_faults():
        open_source(str(shards)).examine()


def test_shards_may_be_moved_when_the_manifest_knows_where(shards, tmp_path):
    before = train_part(shards)
    seen = before.pixels.take(torch.arange(len(before)))
    (tmp_path / "mount").mkdir()
    shutil.move(shards / "shard-00001.tar", tmp_path / "mount")
    with pytest.raises(RecoverableError, match=r"shard-00001\.tar is missing.*\n.*add its folder to `folders`"):
        train_part(shards)
    write_json(shards / MANIFEST, read_json(shards / MANIFEST) | {"folders": [".", str(tmp_path / "mount")]})
    after = train_part(shards)
    assert after.fingerprint() == before.fingerprint()
    assert torch.equal(after.pixels.take(torch.arange(len(after))), seen)


@pytest.mark.parametrize(
    "change",
    [{"file": "../shard-00000.tar"}, {"file": "/shard-00000.tar"}, {"samples": -1}, {"bytes": "many"}, {"part": "x"}],
    ids=str,
)
def test_a_manifest_that_leads_elsewhere_is_refused(shards, change):
    manifest = read_json(shards / MANIFEST)
    manifest["shards"][0] |= change
    write_json(shards / MANIFEST, manifest)
    with pytest.raises(UserError, match=r"cannot read .*shards\.json"):
        open_source(str(shards))


def test_a_number_of_samples_is_not_believed_before_the_index_is_read(shards, monkeypatch):
    """So many would not fit into any memory: nothing is counted up to it."""
    monkeypatch.setattr(shard_source, "range", lambda _: pytest.fail("counted"), raising=False)
    manifest = read_json(shards / MANIFEST)
    manifest["shards"][0]["samples"] = 10**15
    write_json(shards / MANIFEST, manifest)
    with pytest.raises(UserError, match=r"cannot read .*shard-00000\.index, .*values do not belong to the shard"):
        train_part(shards)


def test_an_index_of_another_digest_is_refused(shards):
    shutil.copy(shards / "shard-00001.index", shards / "shard-00000.index")
    with pytest.raises(UserError, match=r"cannot read .*shard-00000\.index"):
        train_part(shards)


def test_a_broken_picture_and_a_bad_row_have_the_name_of_their_entry(shards):
    images, named = train_part(shards), sample_names(build_task(recipe(shards), silent()))
    path, begin = shards / "shard-00000.tar", int(images.pixels.begin[0])
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(b"none")
    with pytest.raises(UserError, match=r"cannot read the image .*shard-00000\.tar/(cat|dog|fish)/\d+\.png"):
        images.pixels.take(torch.tensor([0]))
    (name,) = named(Batch(torch.zeros(1, 1, 8, 8), torch.zeros(1), torch.tensor([1])))
    assert re.fullmatch(r".*shard-0000\d\.tar/(cat|dog|fish)/\d+\.png", name)


# Runs


def recipe(where, *more):
    fixed = ("model.image=8", "model.channels=1", "epochs=2", "batch_size=8", "device=cpu", "augmentation.shift=1")
    return find_recipe("image-folder-vit").with_settings(
        [*TINY_MODEL, *fixed, "save_minutes=0", f"data={where}", *more]
    )


def test_a_shard_that_vanishes_ends_a_run_that_goes_on_with_the_same_bits(shards, few, tmp_path, monkeypatch):
    asked = recipe(shards)
    assert recipe_run.train(asked, tmp_path / "whole", silent())
    taken, gone = [], []

    def vanishing(self, index, take=sharded_images.ShardedImages.take):
        taken.append(index)
        if len(taken) == 2 + 6 + 1 + 4:  # colours, mean, an epoch, its validation, and the fourth batch of the second
            gone.append(shards / f"shard-{int(self.shard[index][0]):05d}.tar")
            gone[0].rename(tmp_path / "away")
            self.files.close()
        return take(self, index)

    monkeypatch.setattr(sharded_images.ShardedImages, "take", vanishing)
    with pytest.raises(
        RecoverableError, match=r"(?s)shard-\d+\.tar is missing.*then resume with:\npatchword train .*--resume"
    ):
        recipe_run.train(asked, tmp_path / "parted", silent())
    state = json.loads(sorted((tmp_path / "parted" / "checkpoints").glob("*/state.json"))[-1].read_text())
    assert (state["epoch"], state["batch"]) == (1, 3)
    (tmp_path / "away").rename(gone[0])
    assert recipe_run.train(asked, tmp_path / "parted", silent(), resume=True)
    assert differing(tmp_path / "whole" / "model.safetensors", tmp_path / "parted" / "model.safetensors") == []


def test_a_run_does_not_go_on_with_shards_that_were_cut_anew(pictures, shards, tmp_path):
    """The same pictures in other shards come in another order."""
    before = train_part(shards)
    shutil.rmtree(shards)
    sharded(pictures, shards, size=2 * SIZE)
    after = train_part(shards)
    assert torch.equal(after.keys, before.keys)
    assert after.fingerprint() != before.fingerprint()


@pytest.mark.slow
def test_two_processes_one_and_two_again_see_the_samples_of_one(pictures, tmp_path):
    manifest = sharded(pictures, tmp_path / "shards", size=2000)
    assert len(manifest.shards) > open_files.TOGETHER
    more = (
        "model.image=8",
        "model.channels=1",
        "epochs=2",
        "batch_size=8",
        "device=cpu",
        "learning_rate=1e-4",
        "save_minutes=100",
    )
    fields = (*TINY_MODEL, *more, f"data={tmp_path / 'shards'}")
    parted = Asked(str(tmp_path / "parted"), "image-folder-vit", fields, stop=(1, 3))
    whole = Asked(str(tmp_path / "whole"), "image-folder-vit", fields)
    assert do(whole)
    Workers([parted], tmp_path / "plan").wait()
    assert not do(replace(parted, resume=True, stop=(0, 4)))
    Workers([replace(parted, resume=True, stop=())], tmp_path / "more").wait()
    expected = noted(tmp_path / "whole", "alone")
    dealt = list(zip(noted(tmp_path / "parted", 0), noted(tmp_path / "parted", 1), strict=True))
    found = [one + other for one, other in dealt[:3]] + noted(tmp_path / "parted", "alone")
    found += [one + other for one, other in dealt[3:]]
    assert len(expected) == 12
    assert [sorted(step) for step in found] == [sorted(step) for step in expected]
    assert_close(tmp_path / "parted", tmp_path / "whole")


def noted(folder, process):
    return [json.loads(line) for line in (folder / f"samples-{process}.jsonl").read_text().splitlines()]
