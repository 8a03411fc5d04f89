"""Archives made to write where they should not, or to fill the memory: refused, and nothing is ever unpacked."""

import io
import stat
import tarfile
import zipfile

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.faults import DataError, collect_faults, fault_lines
from patchword.data.image import archives
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from support.material import everything_below, write_classes, write_picture
from support.tiny_texts import refusal

ESCAPES = {
    "up": "../../escaped.png",
    "inside": "cat/../../escaped.png",
    "absolute": "/escaped-from-an-archive.png",
    "drive": "C:/escaped.png",
    "backslash": "cat\\..\\..\\escaped.png",
    "control": "cat/\x07.png",
}


@pytest.fixture
def picture(tmp_path):
    return write_picture(tmp_path / "picture.png").read_bytes()


def zipped(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries:
            file.writestr(name, content)
    return path


def tarred(path, entries):
    with tarfile.open(path, "w") as file:
        for name, content in entries:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def linked(kind, name="cat/link.png", target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def symbolic(name="cat/link.png"):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.fixture
def hostile(tmp_path, picture):
    """Twelve kinds, several of which can be packed both ways."""
    sound = [(f"{label}/{number}.png", picture) for label in ("cat", "dog") for number in range(5)]
    made = {}
    for kind, name in ESCAPES.items():
        made[f"zip {kind}"] = zipped(tmp_path / f"{kind}.zip", [*sound, (name, picture)])
        made[f"tar {kind}"] = tarred(tmp_path / f"{kind}.tar", [*sound, (name, picture)])
    made["zip link"] = zipped(tmp_path / "link.zip", [*sound, (symbolic(), "/etc/passwd")])
    for kind, number in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("device", tarfile.CHRTYPE)):
        made[f"tar {kind}"] = tarred(tmp_path / f"{kind}.tar", [*sound, (linked(number), b"")])
    with pytest.warns(UserWarning, match="Duplicate"):
        made["zip twice"] = zipped(tmp_path / "twice.zip", [*sound, sound[0]])
    made["tar twice"] = tarred(tmp_path / "twice.tar", [*sound, sound[0]])
    made["zip bomb"] = zipped(tmp_path / "bomb.zip", [*sound, ("cat/bomb.png", bytes(20_000_000))])
    return made


def test_every_hostile_archive_is_refused_and_nothing_is_written(tmp_path, hostile, command, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    before = everything_below(tmp_path)
    assert len({name.partition(" ")[2] for name in hostile}) >= 11
    for name, path in hostile.items():
        message = refusal(command, "data", "check", path)
        assert ", entry '" in message, name
        assert "check its origin" in message
        if "up" in name or "bomb" in name:
            refusal(command, "train", "image-folder-vit", f"data={path}")
    assert everything_below(tmp_path) == before


def test_all_entries_of_one_archive_are_in_one_report(tmp_path, picture):
    entries = [(name, picture) for name in ("cat/1.png", *ESCAPES.values(), "dog/1.png")]
    path = zipped(tmp_path / "a.zip", entries)
    with pytest.raises(DataError) as caught, collect_faults():
        open_source(str(path))
    assert len(caught.value.faults) == len(ESCAPES)
    assert "it leads out of the archive" in "\n".join(fault_lines(caught.value.faults, None))


def test_too_many_entries_are_refused(tmp_path, picture, monkeypatch):
    monkeypatch.setattr(archives, "ENTRIES", 5)
    for pack, ending in ((zipped, "zip"), (tarred, "tar")):
        path = pack(tmp_path / f"many.{ending}", [(f"cat/{number}.png", picture) for number in range(9)])
        with pytest.raises(UserError, match="too many entries"):
            open_source(str(path))


@pytest.mark.parametrize("ending", ["zip", "tar"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"no archive" * 100])
def test_a_broken_archive_is_one_error(tmp_path, ending, content):
    (tmp_path / f"a.{ending}").write_bytes(content)
    with pytest.raises(UserError):
        open_source(str(tmp_path / f"a.{ending}"))


@pytest.mark.parametrize("ending", ["zip", "tar"])
@pytest.mark.parametrize("top", ["", "pets/"])
@pytest.mark.parametrize("parts", [False, True])
def test_an_archive_is_read_like_its_folder(tmp_path, ending, top, parts):
    for part in ("train", "test") if parts else ("",):
        write_classes(tmp_path / "pets" / part, count=10)
    files = sorted((tmp_path / "pets").rglob("*.png"))
    entries = [(f"{top}{file.relative_to(tmp_path / 'pets')}", file.read_bytes()) for file in files]
    entries += [("__MACOSX/cat/._1.png", b"junk"), (f"{top}readme.txt", b"read me")]
    path = (zipped if ending == "zip" else tarred)(tmp_path / f"packed.{ending}", entries)
    for part in ("train", "test"):
        packed, plain = (open_source(str(where)).read(part, ImageFormat(8, 1)) for where in (path, tmp_path / "pets"))
        assert packed.classes == plain.classes
        if parts:
            everything = torch.arange(len(plain))
            assert torch.equal(packed.pixels.take(everything), plain.pixels.take(everything))
            assert torch.equal(packed.labels, plain.labels)
        assert len(packed) == len(plain)


def test_a_damaged_entry_is_named(tmp_path, picture, command):
    path = zipped(tmp_path / "a.zip", [(f"{label}/{n}.png", picture) for label in ("cat", "dog") for n in range(5)])
    data = bytearray(path.read_bytes())
    data[60] ^= 255
    path.write_bytes(data)
    code, _, complaint = command("data", "check", path)
    assert code == 2
    assert "a.zip/cat/0.png" in complaint.replace("\n", "")
