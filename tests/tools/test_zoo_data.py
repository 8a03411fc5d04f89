"""tools/zoo_data.py: from raw sets to small clean texts."""

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.source_code import load_tool
from support.toys.raw_texts import write_raw_texts


@pytest.fixture(scope="module")
def tool():
    return load_tool("zoo_data")


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    return write_raw_texts(tmp_path_factory.mktemp("raw"))


def test_articles_lose_titles_headings_and_stubs(tool, tmp_path):
    long = "The river rises in the hills () and flows north through two old towns. " * 6
    blocks = [
        f'<doc id="1" url="?" title="River">\nRiver\n\n{long}\nCourse.\n{long}\n\n</doc>',
        '<doc id="2" url="?" title="Stub">\nStub\n\n\n</doc>',
        '<doc id="3" url="?" title="Short">\nShort\n\nIt is a village in the north, beside the sea.\n\n</doc>',
    ]
    (tmp_path / "wiki.xz").write_bytes(lzma.compress("\n".join(blocks).encode()))
    found = list(tool.articles(tmp_path / "wiki.xz"))
    assert len(found) == 1
    assert len(found[0]) == 2
    assert found[0][0].startswith("The river rises in the hills and flows north")


def test_novels_lose_header_and_chapter_titles(tool, tmp_path):
    text = "# Title: Emma\n\n## Year: 1815\n\n-------\n\n##  CHAPTER I \n\nBetween _them_ it was\nlove.\n\nFINIS\n"
    with tarfile.open(tmp_path / "books.tar.xz", "w:xz") as archive:
        info = tarfile.TarInfo("Jane Austen/Emma.md")
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    assert list(tool.novels(tmp_path / "books.tar.xz")) == [["Between them it was love."]]


def test_a_cut_keeps_whole_documents_in_their_order(tool):
    documents = [[f"document {index} " + "x" * 100] for index in range(50)]
    kept = tool.chosen(documents, 0.002)
    size = sum(len(paragraph) + 2 for document in kept for paragraph in document)
    assert 1500 < size <= 2000
    assert [documents.index(document) for document in kept] == sorted(documents.index(document) for document in kept)
    assert tool.chosen(list(reversed(documents)), 0.002) == list(reversed(kept))


def test_texts_are_prepared_and_unpacked(tool, raw, tmp_path):
    tool.prepare_texts(raw, tmp_path / "texts", vocabulary=300)
    files = {path.name for path in (tmp_path / "texts").iterdir()}
    assert {"wikipedia.txt.xz", "books.txt.xz", "wordpiece", "bytes", "multi30k-train.de.gz"} <= files
    assert not files & {"wikipedia.txt", "books.txt"}
    assert Tokenizer.read(tmp_path / "texts/wordpiece").vocabulary <= 300
    tool.unpack(tmp_path / "texts", tmp_path / "unpacked")
    text = (tmp_path / "unpacked/books.txt").read_text()
    assert text.count("\n\n") == 8
    assert "#" not in text
    with gzip.open(tmp_path / "unpacked/multi30k-val.en.gz", "rt") as lines:
        assert len(lines.readlines()) == 20
    assert Tokenizer.read(tmp_path / "unpacked/bytes").vocabulary <= 300
    assert {path.name for path in (tmp_path / "texts").iterdir()} == files
    before = (tmp_path / "unpacked/books.txt").stat().st_mtime_ns
    tool.unpack(tmp_path / "texts", tmp_path / "unpacked")
    assert (tmp_path / "unpacked/books.txt").stat().st_mtime_ns == before


def test_a_missing_set_is_named(tool, tmp_path):
    with pytest.raises(UserError, match=r"text_enwiki.*expected one file, got 0"):
        tool.prepare_texts(tmp_path, tmp_path / "texts")
