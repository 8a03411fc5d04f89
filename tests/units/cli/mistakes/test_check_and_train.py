"""What `data check` finds and what `train` refuses before its first step are the same, for odd folders and tables."""

from pathlib import Path

import pytest

from support.material import QUICK, write_classes, write_picture
from support.tiny_texts import QUICK as QUICK_TEXTS
from support.tiny_texts import vocabulary_of, write_table


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _sound(folder: Path) -> None:
    write_classes(folder, count=6)


def _one_class(folder: Path) -> None:
    write_classes(folder, classes=("cat",))


def _one_image_each(folder: Path) -> None:
    write_classes(folder, count=1)


def _two_images_each(folder: Path) -> None:
    write_classes(folder, count=2)


def _an_empty_class(folder: Path) -> None:
    write_classes(folder, count=6)
    (folder / "emu").mkdir()


def _splits_with_few(folder: Path) -> None:
    for part in ("train", "test"):
        write_classes(folder / part, count=1)


def _no_classes(folder: Path) -> None:
    write_picture(folder / "a.png")


FOLDERS = {
    _sound: 0,
    _one_class: 2,
    _one_image_each: 2,
    _two_images_each: 2,
    _an_empty_class: 2,
    _splits_with_few: 2,
    _no_classes: 2,
}
TABLES = {
    "two classes": ([("a b", "x"), ("c d", "y")] * 8, 0),
    "one class": ([("a b", "x")] * 8, 2),
    "no rows": ([], 2),
    "an unknown label in the test set": ([("a b", "x"), ("c d", "y")] * 8, 2),
}


def agreed(command, checking: tuple[object, ...], training: tuple[object, ...]) -> int:
    """Return the exit code of both; an error is one of the user's."""
    checked, _, found = command("data", "check", *checking)
    trained, _, refused = command("train", *training, "--name", "run")
    assert checked == trained, (found, refused)
    assert [text.startswith("error: ") for text in (found, refused)] == [checked == 2] * 2
    return checked


@pytest.mark.parametrize("made", FOLDERS, ids=lambda made: made.__name__.strip("_"))
def test_folders(command, made):
    made(Path("photos"))
    assert agreed(command, ["photos"], ["digits-vit", "data=photos", "model.image=8", *QUICK]) == FOLDERS[made]


@pytest.mark.parametrize("name", TABLES)
def test_tables(command, name):
    rows, code = TABLES[name]
    write_table(Path("a.csv"), rows)
    write_table(Path("b.csv"), [("e f", "z")])
    fields = ["train=a.csv", *(["test=b.csv"] if "test" in name else [])]
    vocabulary_of("abcdef", Path("words"))
    training = ["classify-text", *fields, "tokenizer=words", "epochs=1", *QUICK_TEXTS]
    assert agreed(command, ["classify-text", *fields], training) == code
