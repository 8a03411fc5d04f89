"""`predict --out` writes what `predict` writes, in shards."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from support.tiny.bulk import classifier_of_texts, text_model
from support.tiny_texts import refusal, write_table


def test_json_lines_and_csv_are_those_without_shards(command, reviews, rows):
    command("predict", reviews, rows, "--csv", "whole.csv", "--jsonl", "whole.jsonl")
    for size in (5, 100):
        command("predict", reviews, rows, "--out", "shards.csv", "--shard", size)
        code, output, noted = command("predict", reviews, rows, "--out", "shards.jsonl", "--shard", size)
        assert (code, "2 of 23 rows cannot be read" in noted, "23 rows in shards.jsonl" in output) == (0, True, True)
        for kind in ("jsonl", "csv"):
            found, expected = Path(f"shards.{kind}").read_bytes(), Path(f"whole.{kind}").read_bytes()
            assert found.count(b"\n") == expected.count(b"\n")
            if size == 100:  # with other batches, last digits may differ
                assert found == expected


def test_a_broken_row_does_not_show_its_own_label_as_the_answer(command, reviews, rows):
    command("predict", reviews, rows, "--csv", "whole.csv")
    found = list(csv.DictReader(Path("whole.csv").read_text().splitlines()))
    broken = next(row for row in found if row["error"] and row["given_label"])
    assert (broken["label"], broken["given_label"]) == ("", "?")


@pytest.mark.parametrize("task", ["labels", "number", "tags", "span"])
def test_answers_of_every_task_as_parquet(command, tmp_path, task):
    folder = classifier_of_texts(tmp_path / "run", task, ("A", "B") if task in ("labels", "tags") else ())
    texts = ["The cat sat.", "A dog", " ", "ran to the bank of the river."]
    columns = [[number, text, text, "Who ran?"] for number, text in enumerate(texts)]
    write_table(Path("in.csv"), columns, ("id", "text", "context", "question"))
    command("predict", folder, "in.csv", "--out", "found.parquet", "--shard", 2)
    command("predict", folder, "in.csv", "--jsonl", "whole.jsonl")
    found = pq.read_table("found.parquet").to_pylist()
    expected = [json.loads(line) for line in Path("whole.jsonl").read_text().splitlines()]
    assert [row["id"] for row in found] == ["0", "1", "2", "3"]
    assert "is empty" in found[2]["error"]
    for number in (0, 1, 3):
        answer = {name: value for name, value in expected[number].items() if name not in ("file", "line")}
        _assert_close({name: found[number][name] for name in answer}, answer)


def _assert_close(found: object, expected: object) -> None:
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            _assert_close(found[name], value)
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else expected)


def test_images_of_a_folder_as_predict_writes_them(command, classifier):
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (5, 32, 32, 3), np.uint8)):
        Path("photos").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(f"photos/{number}.png")
    Path("photos/2.png").write_bytes(b"nothing")
    command("predict", classifier, "photos", "--csv", "whole.csv", "--jsonl", "whole.jsonl", "--top", 2)
    for kind in ("csv", "jsonl"):
        command("predict", classifier, "photos", "--out", f"shards.{kind}", "--shard", 8, "--top", 2)
        assert Path(f"shards.{kind}").read_bytes() == Path(f"whole.{kind}").read_bytes()


def test_a_broken_row_can_end_the_call(command, reviews, rows):
    complaint = refusal(command, "predict", reviews, rows, "--out", "a.csv", "--shard", 8, "--on-broken", "stop")
    assert "line 9, column 'text': the text is empty" in complaint
    assert "--on-broken skip answers the others" in complaint
    command("predict", reviews, rows, "--out", "a.csv", "--shard", 4, "--on-broken", "stop")
    code, output, noted = command("predict", reviews, rows, "--out", "a.csv", "--shard", 4)
    assert (code, "4 rows are finished" in noted, "23 rows in a.csv" in output) == (0, True, True)


def test_a_file_in_which_no_row_can_be_read_is_refused(command, reviews):
    Path("a.jsonl").write_text('{"text": ""}\n' * 7)
    assert "a.jsonl, line 1, column 'text'" in refusal(command, "predict", reviews, "a.jsonl", "--out", "b.csv")


def test_a_file_that_is_not_utf8_loses_only_its_broken_rows(command, reviews):
    for name, lines in {"a.txt": [b"A cat", b"caf\xe9", b"A dog"], "a.csv": [b"text", b"A cat", b"\xff", b"A"]}.items():
        Path(name).write_bytes(b"\n".join(lines))
        _, _, noted = command("predict", reviews, name, "--out", "b.jsonl")
        found = [json.loads(line) for line in Path("b.jsonl").read_text().splitlines()]
        assert ["error" in row for row in found] == [False, True, False]
        assert "this is not UTF-8" in noted


def test_options_that_do_not_go_together(command, reviews, tmp_path, rows):
    pretrained = text_model(tmp_path / "pretrained", head="words")
    assert "--out and --csv" in refusal(command, "predict", reviews, rows, "--out", "a.csv", "--csv", "b.csv")
    assert "--shard belongs to --out" in refusal(command, "predict", reviews, rows, "--shard", 5)
    assert "no --pair" in refusal(command, "predict", reviews, rows, "--out", "a.csv", "--pair", "id")
    assert "--question" in refusal(command, "predict", reviews, rows, "--out", "a.csv", "--question", "Who?")
    assert "has no head for a task" in refusal(command, "predict", pretrained, rows, "--out", "a.csv")
    Path("in.parquet").write_bytes(b"")
    assert "is read in shards" in refusal(command, "predict", reviews, "in.parquet")
    assert "expected a Parquet file" in refusal(command, "predict", reviews, "in.parquet", "--out", "a.csv")
