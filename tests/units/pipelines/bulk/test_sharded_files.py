"""Every kind of input and of output holds the same vectors, in the order of the input."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import patchword
from support.tiny_texts import refusal, write_table

INPUTS = ["csv", "tsv", "jsonl", "txt", "parquet", "arrow"]
OUTPUTS = ["parquet", "arrow", "feather", "jsonl", "csv", "npy"]


def vectors(path: Path) -> np.ndarray:
    """The vectors of an output, NaN where it has none."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
        return np.array([[float(row[str(place)] or "nan") for place in range(32)] for row in rows], np.float32)
    if path.suffix == ".jsonl":
        found = [json.loads(line).get("vector") for line in path.read_text().splitlines()]
    else:
        found = table(path).column("vector").to_pylist()
    return np.array([[np.nan] * 32 if one is None else one for one in found], np.float32)


def table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def written(kind: str, rows: list[dict[str, object]]) -> Path:
    path = Path(f"in.{kind}")
    if kind == "txt":
        path.write_text("\n".join(str(row["text"]) for row in rows) + "\n\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=6)
    elif kind == "arrow":
        data = pa.Table.from_pylist(rows)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, data.schema) as writer:
            writer.write_table(data)
    else:
        write_table(path, [list(row.values()) for row in rows], list(rows[0]))
        if kind == "tsv":
            path.write_text(path.read_text().replace(",", "\t"))
    return path


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_vectors_of_the_pipeline(command, encoder, good_rows, kind):
    rows = [row | {"text": str(row["text"]).replace(",", "")} for row in good_rows]
    code, output, _ = command("embed", encoder, written(kind, rows), "--out", "v.parquet", "--shard", 5)
    assert code == 0, output
    assert "23 rows in v.parquet" in output
    expected = patchword.pipeline(encoder).embed([str(row["text"]) for row in rows])
    np.testing.assert_allclose(vectors(Path("v.parquet")), expected, atol=1e-5)
    found = table(Path("v.parquet"))
    assert found.column("text").to_pylist() == [row["text"] for row in rows]
    assert found.column("error").to_pylist() == [None] * 23
    if kind != "txt":
        assert [int(one) for one in found.column("id").to_pylist()] == list(range(23))
    assert not Path("v.parquet.parts").exists()


@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_output_holds_the_same_vectors(command, encoder, rows, kind):
    _, _, noted = command("embed", encoder, rows, "--out", f"v.{kind}", "--shard", 5)
    assert "2 of 23 rows cannot be read" in noted
    assert "line 9, column 'text': the text is empty" in noted
    found = vectors(Path(f"v.{kind}"))
    broken = [number for number in range(23) if np.isnan(found[number]).all()]
    assert (found.shape, broken) == ((23, 32), [6, 9])
    command("embed", encoder, rows, "--out", "again.npy", "--shard", 5)
    np.testing.assert_array_equal(found, np.load("again.npy"))


def test_vectors_are_those_of_embed_without_shards(command, encoder, good_rows):
    command("embed", encoder, "good.jsonl", "--out", "whole.npy")
    command("embed", encoder, "good.jsonl", "--out", "shards.npy", "--shard", 23)
    assert Path("whole.npy").read_bytes() == Path("shards.npy").read_bytes()


def test_a_spreadsheet_carries_out_no_cell(command, encoder, rows):
    command("embed", encoder, rows, "--out", "v.csv", "--shard", 5)
    cells = list(csv.DictReader(io.StringIO(Path("v.csv").read_bytes().decode(), newline="")))
    assert cells[3]["text"] == "'=1+1 is a sum"
    assert cells[4]["text"] == "two\nlines"
    assert [cell["line"] for cell in cells][4:7] == ["6", "8", "9"]
    assert "too short" in cells[9]["error"]


def test_columns_of_parquet_keep_their_types(command, encoder):
    columns = {
        "small": pa.array([1, None, 3], pa.int8()),
        "half": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "when": pa.array([1, 2, 3], pa.timestamp("ns")),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
        "vector": pa.array([[1], [2], [3]]),
        "text": pa.array(["The cat", None, "sat."], pa.large_string()),
    }
    pq.write_table(pa.table(columns), "in.parquet")
    command("embed", encoder, "in.parquet", "--out", "v.parquet", "--shard", 2)
    given, found = pq.read_table("in.parquet"), table(Path("v.parquet"))
    assert found.schema.field("vector").type == pa.list_(pa.float32(), 32)
    for name in ("small", "half", "when", "kind"):
        assert found.column(name).cast(pa.string()).equals(given.column(name).cast(pa.string()))
        assert found.schema.field(name).type == given.schema.field(name).type
    assert found.column("given_vector").to_pylist() == [[1], [2], [3]]
    assert found.column("row").to_pylist() == [0, 1, 2]
    assert "in.parquet, row 1, column 'text': the text is empty" in found.column("error").to_pylist()[1]
    command("embed", encoder, "in.parquet", "--out", "v.jsonl", "--shard", 2)
    assert json.loads(Path("v.jsonl").read_text().splitlines()[0])["when"] == "1970-01-01 00:00:00.000000001"


def test_values_of_several_types_become_text_and_a_note(command, encoder):
    values = [1, 2, "x", None, True, 2.5]
    Path("a.jsonl").write_text("".join(json.dumps({"text": "A cat", "v": value}) + "\n" for value in values))
    _, _, noted = command("embed", encoder, "a.jsonl", "--out", "v.parquet", "--shard", 2)
    assert "column 'v' has values of several types; they are written as text" in noted
    assert table(Path("v.parquet")).column("v").to_pylist() == ["1", "2", "x", None, "true", "2.5"]


def test_images_of_a_folder(command, classifier):
    colors = np.random.default_rng(0).integers(0, 255, (7, 40, 30, 3), np.uint8)
    for number, pixels in enumerate(colors):
        path = Path("photos", "ab"[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    Path("photos", "a", "3.png").write_bytes(b"nothing")
    code, output, noted = command("embed", classifier, "photos", "--out", "v.parquet", "--shard", 3)
    assert (code, "1 of 8 rows cannot be read" in noted) == (0, True), (output, noted)
    found = table(Path("v.parquet"))
    names = ["a/0.png", "a/2.png", "a/3.png", "a/4.png", "a/6.png", "b/1.png", "b/3.png", "b/5.png"]
    assert found.column("path").to_pylist() == [f"photos/{name}" for name in names]
    whole = [f"photos/{name}" for name in names if name != "a/3.png"]
    np.testing.assert_allclose(
        vectors(Path("v.parquet"))[[0, 1, 3, 4, 5, 6, 7]], patchword.pipeline(classifier).embed(whole), atol=1e-5
    )
    assert "a/3.png" in found.column("error").to_pylist()[2]


def test_what_cannot_be_done_is_refused_before_anything_is_written(command, encoder, classifier, rows, monkeypatch):
    pq.write_table(pa.table({"n": [1], "texts": ["a"]}), "in.parquet")
    Path("photos").mkdir()
    assert "there is no column 'text'" in refusal(command, "embed", encoder, "in.parquet", "--out", "v.npy")
    assert "did you mean 'texts'" in refusal(command, "embed", encoder, "in.parquet", "--out", "v.npy")
    assert "column 'n' is not text" in refusal(command, "embed", encoder, "in.parquet", "--out", "v.npy", "--text", "n")
    assert "there is no column 'x'" in refusal(command, "embed", encoder, rows, "--out", "v.parquet", "--text", "x")
    assert "has no images" in refusal(command, "embed", classifier, "photos", "--out", "v.parquet")
    assert "reads texts" in refusal(command, "embed", encoder, "photos", "--out", "v.parquet")
    assert "one vector per row" in refusal(command, "embed", encoder, rows, "--out", "v.parquet", "--pool", "none")
    assert "unknown file type" in refusal(command, "embed", encoder, rows, "--out", "v.safetensors", "--shard", 5)
    assert "rows.csv is the input" in refusal(command, "embed", encoder, rows, "--out", rows, "--shard", 5)
    assert "made of one file" in refusal(command, "embed", encoder, "-", "--out", "v.parquet")
    assert "--shard" in refusal(command, "embed", encoder, rows, "--out", "v.npy", "--on-broken", "skip")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'patchword[parquet]'" in refusal(command, "embed", encoder, rows, "--out", "v.parquet")
    assert command("embed", encoder, rows, "--out", "v.npy", "--shard", 5)[0] == 0
