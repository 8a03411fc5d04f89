"""Tiny models that all tests of bulk work share, and files of rows."""

import json
from pathlib import Path

import pytest

from support.tiny.bulk import TEXTS, classifier_of_texts, image_model, some_texts, text_model
from support.tiny_texts import write_table


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_model(tmp_path_factory.mktemp("bulk") / "encoder", head="tokens")


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier_of_texts(tmp_path_factory.mktemp("bulk") / "reviews")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_model(tmp_path_factory.mktemp("bulk") / "classifier")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rows(_elsewhere: None) -> Path:
    """A table of 23 rows: a line feed in a cell, a formula, one row without a text, one that is too short."""
    texts = [*TEXTS, "two\nlines", *some_texts(18)]
    cells: list[list[object]] = [[f"n{number}", text, "?"] for number, text in enumerate(texts)]
    cells[6][1] = " "
    cells[9] = ["n9"]
    return write_table(Path("rows.csv"), cells, ("id", "text", "label"))


@pytest.fixture
def good_rows(_elsewhere: None) -> list[dict[str, object]]:
    """23 rows of a table as JSON lines, which are written to good.jsonl."""
    found: list[dict[str, object]] = [{"id": number, "text": text} for number, text in enumerate(some_texts(23))]
    Path("good.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return found
