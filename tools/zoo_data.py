"""Prepare the data that the models of patchword-zoo are trained on, small enough to be carried to another machine.

    python tools/zoo_data.py DATA OUT

DATA has text_enwiki (Wikipedia in <doc> blocks), text_books (a tar of Markdown files) and multi30k. OUT gets
two folders, which can be carried one at a time:

images/fashion-mnist   the four files of Fashion-MNIST, as they are
texts/                 wikipedia.txt.xz and books.txt.xz: one paragraph per line, a blank line between documents;
                       the sentence pairs of Multi30k; the tokenizers `wordpiece` and `bytes`
`unpack` decompresses the texts where they are used.
"""

import argparse
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import make_folder, whole_file
from patchword.data.image.named_datasets import find_dataset, how_to_get
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.data.text.tokenizers.vocabulary_config import VocabularyConfig
from patchword.data.text.tokenizers.vocabulary_training import VocabularyKind

VOCABULARY = 8192
LARGEST = 60.0  # megabytes of each text; both compress to about 30 MB
SHORTEST_ARTICLE, SHORTEST_PARAGRAPH = 300, 40  # characters; shorter ones are stubs, headings and lists
_DOC = re.compile(r"<doc [^>]*>\n(.*?)\n?</doc>", re.DOTALL)
_MARKS = re.compile(r"[_*#>]+|\(\s*[,;]*\s*\)")  # Markdown's emphasis, and brackets whose content was removed
_PAIRS = ("train", "val", "test_2016_flickr")


def articles(file: Path) -> Iterator[list[str]]:
    """Yield the paragraphs of each article, without its title, headings and stubs."""
    with lzma.open(file, "rt", encoding="utf-8") as opened:
        text = opened.read()
    for block in _DOC.finditer(text):
        found = [line for line in map(cleaned, block[1].split("\n")[1:]) if len(line) >= SHORTEST_PARAGRAPH]
        if sum(map(len, found)) >= SHORTEST_ARTICLE:
            yield found


def novels(file: Path) -> Iterator[list[str]]:
    """Yield the paragraphs of each book, without its header and the titles of its chapters."""
    with tarfile.open(file) as books:
        for member in sorted(books.getmembers(), key=lambda member: member.name):
            content = books.extractfile(member) if member.name.endswith(".md") else None
            if content is None:
                continue
            _, _, body = content.read().decode("utf-8", errors="replace").partition("-------\n")
            blocks = (block for block in re.split(r"\n\s*\n", body) if not block.lstrip().startswith("#"))
            found = [paragraph for paragraph in map(cleaned, blocks) if " " in paragraph]
            if found:
                yield found


def cleaned(text: str) -> str:
    """Return the text as one line without marks.

    >>> cleaned("Between _them_ it was\\nmore the intimacy () of  sisters.")
    'Between them it was more the intimacy of sisters.'
    """
    return " ".join(_MARKS.sub("", text).split())


def chosen(documents: Iterable[list[str]], megabytes: float) -> list[list[str]]:
    """Return documents of at most this size in their order; which ones depends on their text alone."""
    found = list(documents)
    left, kept = megabytes * 1e6, set[int]()
    for index in sorted(range(len(found)), key=lambda index: zlib.crc32(found[index][0].encode())):
        size = sum(len(paragraph.encode()) + 1 for paragraph in found[index]) + 1
        if size <= left:
            kept.add(index)
            left -= size
    return [document for index, document in enumerate(found) if index in kept]


def write_documents(documents: Iterable[list[str]], file: Path) -> None:
    with whole_file(file) as temporary, temporary.open("w", encoding="utf-8") as opened:
        for document in documents:
            opened.write("\n".join(document) + "\n\n")


def prepare_texts(data: Path, out: Path, megabytes: float = LARGEST, vocabulary: int = VOCABULARY) -> None:
    """Write the texts, the sentence pairs and the tokenizers. data: the folder with the raw sets"""
    make_folder(out)
    readers = {"wikipedia": ("text_enwiki/*.xz", articles), "books": ("text_books/*.tar.xz", novels)}
    texts = []
    for name, (pattern, reader) in readers.items():
        texts.append(out / f"{name}.txt")
        write_documents(chosen(reader(only(data, pattern)), megabytes), texts[-1])
    for part in _PAIRS:
        for language in ("en", "de"):
            source = only(data / "multi30k", f"**/raw/{part}.{language}.gz")
            shutil.copyfile(source, out / f"multi30k-{part}.{language}.gz")
    kinds: tuple[VocabularyKind, ...] = ("wordpiece", "bytes")
    for kind in kinds:
        config = VocabularyConfig(kind, vocabulary)
        Tokenizer(config.library(config.from_files(texts))).save(out / kind)
    for text in texts:
        with whole_file(text.with_suffix(".txt.xz")) as temporary, lzma.open(temporary, "wb", preset=9) as packed:
            packed.write(text.read_bytes())
        text.unlink()


def prepare_images(out: Path) -> None:
    """Copy the files of Fashion-MNIST."""
    found = find_dataset("fashion-mnist")
    if found is None:
        raise UserError("fashion-mnist is not on this machine", hint=how_to_get("fashion-mnist"))
    shutil.copytree(found[0], out / "fashion-mnist", dirs_exist_ok=True)


def unpack(folder: Path, target: Path) -> None:
    """Copy the prepared data and decompress its texts; files that are there already stay.

    The folder itself does not grow, so it can be carried again.
    """
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        is_packed = file.name.endswith(".txt.xz")
        copy = target / file.relative_to(folder)
        copy = copy.with_suffix("") if is_packed else copy
        if not copy.is_file():
            make_folder(copy.parent)
            with lzma.open(file) if is_packed else file.open("rb") as opened, whole_file(copy) as temporary:
                temporary.write_bytes(opened.read())


def only(folder: Path, pattern: str) -> Path:
    """Return the one file that matches."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise UserError(f"the data of the zoo: {folder / pattern}", expected="one file", got=len(found))
    return found[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="the folder with text_enwiki, text_books and multi30k")
    parser.add_argument("out", type=Path, help="the folder that gets images/ and texts/")
    parser.add_argument("--megabytes", type=float, default=LARGEST, help="at most this much of each text")
    given = parser.parse_args()
    prepare_images(given.out / "images")
    prepare_texts(given.data, given.out / "texts", given.megabytes)
    for file in sorted(path for path in given.out.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.relative_to(given.out)}")
