"""What a data check notes: equal texts in two files, texts with two labels, merged folders, images without a white."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.faults import collect_faults
from patchword.data.image.image_file import read_image
from patchword.data.image.listing import MERGED, folder_source
from patchword.data.text.near_duplicates import normalized_text
from patchword.recipes.checking import check_data
from patchword.recipes.text.recipe import TextRecipe
from support.material import write_classes
from support.tiny_texts import write_table

LONG = "It was a long and quiet film about the sea"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def notes(**tests: str) -> list[str]:
    write_table(Path("train.csv"), [(LONG, "good"), ("It was too long for me, by far", "bad"), *ROWS])
    write_table(Path("test.csv"), [(text, "good") for text in tests.values()])
    _, doubts = check_data(TextRecipe(train="train.csv", test="test.csv"))
    return [f"{doubt.kind}: {doubt.line}" for doubt in doubts]


ROWS = [(f"another text with the number {number}", ("good", "bad")[number % 2]) for number in range(20)]


@pytest.mark.parametrize("text", [f"  {LONG.upper()}!", LONG.replace(" ", "  "), LONG.replace("a", "\uff41")])
def test_a_test_text_that_differs_in_form_only_is_noted(text):
    (found,) = notes(first=text)
    assert "but for case, spaces or punctuation" in found
    assert found.endswith("test.csv, line 2 is like train.csv, line 2")


@pytest.mark.parametrize("text", [LONG.replace("quiet", "noisy"), "Good!", "another text with the number 77"])
def test_another_text_is_not_noted(text):
    assert notes(first=text) == []


def test_a_test_text_that_differs_in_few_words_is_noted():
    longer = f"{LONG}, which nobody will forget who has seen it in a small cinema of the north on a cold evening"
    write_table(Path("train.csv"), [(longer, "good"), *ROWS])
    write_table(Path("test.csv"), [(longer.replace("quiet", "noisy"), "good"), (longer[:60], "good")])
    _, doubts = check_data(TextRecipe(train="train.csv", test="test.csv"))
    (found,) = [f"{doubt.kind}: {doubt.line}" for doubt in doubts]
    assert found.startswith("a text of the test file that is in the training file but for a few words: ")
    assert found.endswith("test.csv, line 2 is like train.csv, line 2: 80% of the runs of three words are equal")


def test_a_text_with_two_labels_is_a_contradiction_and_a_repeated_one_is_not():
    rows = [*ROWS, (LONG, "good"), (LONG, "good"), (LONG, "bad")]
    write_table(Path("train.csv"), rows)
    _, doubts = check_data(TextRecipe(train="train.csv"))
    assert [doubt.kind for doubt in doubts] == ["a text with two labels, one of which is wrong"]
    assert doubts[0].line == "train.csv, line 24: 'bad'; train.csv, line 22: 'good'"


def test_short_texts_are_not_compared_by_form():
    assert normalized_text(("Good!",)) == ""
    assert normalized_text(("A film to see -- twice!", "A film to see -- twice!")) == "afilmtoseetwice"


def test_classes_with_folders_of_splits_are_named():
    for label in ("cat", "dog"):
        write_classes(Path("set") / label, ("train", "test"), count=3)
    with collect_faults() as report:
        source = folder_source(Path("set"))
    assert [doubt.kind for doubt in report.doubts] == [MERGED] * 2
    assert "set/cat: test, train" in report.doubts[0].line
    assert {part for _, _, part in source.rows} == {None}


def test_an_image_of_negative_numbers_is_refused_and_others_are_scaled():
    values = np.linspace(-2, -1, 64, dtype=np.float32).reshape(8, 8)
    Image.fromarray(values).save("negative.tif")
    with pytest.raises(UserError, match="all are negative"):
        read_image(Path("negative.tif"), 1)
    Image.fromarray(values + 2).save("fine.tif")
    assert np.asarray(read_image(Path("fine.tif"), 1)).max() == 255
