"""Small texts as tools/zoo_data.py reads them: Wikipedia's <doc> blocks, a tar of novels, sentence pairs."""

import gzip
import io
import lzma
import random
import tarfile
from pathlib import Path

_SUBJECTS = [
    "the river",
    "an old man",
    "the queen",
    "a red fox",
    "the captain",
    "her brother",
    "this town",
    "a tall ship",
]
_VERBS = ["crosses", "remembers", "paints", "follows", "forgets", "builds", "carries", "watches"]
_OBJECTS = ["the bridge", "a letter", "two horses", "the winter", "an island", "his garden", "the crowd", "a song"]


def write_raw_texts(folder: Path, documents: int = 40) -> Path:
    """Write the raw sets of the zoo's texts."""
    draw = random.Random(0)
    blocks = (f'<doc id="{n}" url="?" title="T{n}">\nT{n}\n\n{_lines(draw, 5)}\n\n</doc>' for n in range(documents))
    _file(folder / "text_enwiki/wiki.txt.xz").write_bytes(lzma.compress("\n".join(blocks).encode()))
    with tarfile.open(_file(folder / "text_books/books.tar.xz"), "w:xz") as archive:
        for number in range(8):
            text = f"# Title: Book {number}\n\n-------\n\n## CHAPTER I\n\n" + _lines(draw, 5).replace("\n", "\n\n")
            info = tarfile.TarInfo(f"Somebody/Book {number}.md")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    for part, count in (("train", 100), ("val", 20), ("test_2016_flickr", 20)):
        pairs = [_sentence(draw) for _ in range(count)]
        for language, change in (("en", str), ("de", str.upper)):
            text = "\n".join(map(change, pairs)) + "\n"
            file = _file(folder / f"multi30k/data/task1/raw/{part}.{language}.gz")
            file.write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _lines(draw: random.Random, count: int) -> str:
    return "\n".join(" ".join(_sentence(draw) for _ in range(4)) for _ in range(count))


def _sentence(draw: random.Random) -> str:
    return f"{draw.choice(_SUBJECTS).capitalize()} {draw.choice(_VERBS)} {draw.choice(_OBJECTS)}."
