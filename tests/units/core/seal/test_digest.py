"""The digest of a large file is that of its chunks; seals without chunks stay readable."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.core.seal import manifest
from patchword.core.seal.checking import check
from patchword.core.seal.digest import CHUNK, Entry
from patchword.core.seal.manifest import SEAL, Seal, read_seal


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("large") / "model.safetensors"
    path.write_bytes(bytes(range(256)) * (2 * CHUNK // 256) + b"the rest")
    return path


def test_a_large_file_is_digested_in_chunks(large):
    content = large.read_bytes()
    digests = [hashlib.sha256(content[start : start + CHUNK]).digest() for start in (0, CHUNK, 2 * CHUNK)]
    assert Entry.of(large) == Entry(2 * CHUNK + 8, hashlib.sha256(b"".join(digests)).hexdigest(), CHUNK)
    assert "sha256 of chunks of 16 MiB" in str(Entry.of(large))


@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 2 * CHUNK, 2 * CHUNK + 7])
def test_a_changed_bit_of_any_chunk_is_found(large, place):
    whole = Entry.of(large)
    _flip(large, place)
    changed = Entry.of(large)
    _flip(large, place)
    assert changed.sha256 != whole.sha256
    assert Entry.of(large) == whole


def test_a_smaller_file_has_its_own_digest(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"{}")
    assert Entry.of(path) == Entry(2, hashlib.sha256(b"{}").hexdigest())
    Seal(files={path.name: Entry.of(path)}).write(tmp_path)
    assert "chunk" not in (tmp_path / SEAL).read_text()


def test_a_seal_of_an_earlier_version_is_compared_with_its_own_digest(large, monkeypatch):
    plain = hashlib.sha256(large.read_bytes()).hexdigest()
    monkeypatch.setattr(manifest, "_FORMAT", 1)
    Seal(files={large.name: Entry(large.stat().st_size, plain)}).write(large.parent)
    monkeypatch.undo()
    assert re.search(r'"format": 1,', (large.parent / SEAL).read_text())
    seal = check(large.parent)
    assert seal is not None
    assert Entry.of(large, like=seal.files[large.name]) == seal.files[large.name]
    _flip(large, CHUNK)
    with pytest.raises(UserError, match=r"model\.safetensors has changed"):
        check(large.parent)
    _flip(large, CHUNK)


def test_chunks_of_another_size_are_refused(tmp_path):
    entry = Entry(3, "0" * 64)
    Seal(files={"a": replace(entry, chunk=1)}).write(tmp_path)  # as many digests as bytes
    with pytest.raises(UserError, match=r"the entry of 'a'"):
        read_seal(tmp_path)


def _flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
