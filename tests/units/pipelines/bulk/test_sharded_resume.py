"""A killed call goes on from its last finished shard, and ends with the bytes of a call that was not killed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from patchword.pipelines.bulk import driver, identity
from patchword.pipelines.bulk.driver import State, run
from patchword.pipelines.bulk.work import EmbedWork
from support.tiny.bulk import (
    SEED,
    classifier_of_texts,
    finished_shards,
    peak_memory,
    run_killed,
    some_texts,
    started,
    text_model,
)
from support.tiny_texts import refusal, write_table

ROWS = int(os.environ.get("BULK_ROWS", "20000"))  # of the slow test of kills
KILLS = int(os.environ.get("BULK_KILLS", "50"))


class Killed(BaseException):
    """Stands for the end of a process."""


def stopped_after(shards: int) -> Callable[[State], None]:
    seen = []

    def report(state: State) -> None:
        seen.append(state)
        if len(seen) == shards:
            raise Killed

    return report


def begin(work: EmbedWork, rows: Path, out: Path, shards: int, size: int = 5) -> None:
    with pytest.raises(Killed):
        run(work, rows, out, size=size, report=stopped_after(shards))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl", "csv", "npy"])
def test_a_call_that_was_stopped_goes_on_and_says_so(command, encoder, rows, kind):
    out, work = Path(f"v.{kind}"), EmbedWork(str(encoder))
    begin(work, rows, out, 2)
    assert (finished_shards(out), out.exists()) == (2, False)
    code, output, noted = command("embed", encoder, rows, "--out", out, "--shard", 5)
    assert (code, f"10 rows are finished, in v.{kind}.parts: going on" in noted) == (0, True), noted
    assert "10 were finished before" in output
    run(work, rows, Path(f"whole.{kind}"), size=5)
    assert out.read_bytes() == Path(f"whole.{kind}").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == sorted(["rows.csv", out.name, f"whole.{kind}"])


def test_finished_shards_are_not_computed_again(encoder, rows, monkeypatch):
    out, work, numbers = Path("v.npy"), EmbedWork(str(encoder)), list[int]()
    begin(work, rows, out, 3)
    computed = driver.computed
    monkeypatch.setattr(driver, "computed", lambda *one: numbers.append(one[2].number) or computed(*one))
    run(work, rows, out, size=5)
    assert numbers == [3, 4]


@pytest.mark.parametrize(
    ("words", "differs"),
    [
        (("--layer", "0"), "layer 0"),
        (("--normalize",), "normalize True"),
        (("--shard", "6"), "rows of a shard 6"),
        (("--text", "label"), "text label"),
    ],
)
def test_other_options_are_refused_with_what_differs(command, encoder, rows, words, differs):
    begin(EmbedWork(str(encoder)), rows, Path("v.npy"), 2)
    complaint = refusal(
        command, "embed", encoder, rows, "--out", "v.npy", *(("--shard", 5) if "--shard" not in words else ()), *words
    )
    assert "v.npy.parts was begun by another call" in complaint
    assert f"got {differs}" in complaint


def test_another_input_or_model_is_refused(command, tmp_path, rows):
    folder = text_model(tmp_path / "mine", head="tokens")
    begin(EmbedWork(str(folder)), rows, Path("v.npy"), 2)
    text = rows.read_text()
    rows.write_text(text.replace("n22", "n23"))
    assert "input sha256" in refusal(command, "embed", folder, rows, "--out", "v.npy", "--shard", 5)
    rows.write_text(text)
    text_model(tmp_path / "mine", head="tokens", seed=1)
    assert "expected model" in refusal(command, "embed", folder, rows, "--out", "v.npy", "--shard", 5)


def test_an_input_that_changes_while_it_is_read_is_refused(encoder, rows):
    def change(state: State) -> None:
        rows.write_text(rows.read_text() + "n23,more,?\n")

    with pytest.raises(ValueError, match="has changed while it was read"):
        run(EmbedWork(str(encoder)), rows, Path("v.npy"), size=23, report=change)
    assert not Path("v.npy").exists()


def test_what_a_kill_leaves_is_repaired(encoder, rows):
    """A line that was half written, a temporary file, a shard without a line, a line without its shard."""
    out, work, parts = Path("v.npy"), EmbedWork(str(encoder)), Path("v.npy.parts")
    begin(work, rows, out, 3)
    lines = (parts / "shards.jsonl").read_bytes().splitlines(keepends=True)
    (parts / "shards.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    (parts / "00000000").unlink()
    (parts / ".00000004.99.tmp").write_bytes(b"half")
    Path(".v.npy.99.tmp").write_bytes(b"half")
    Path(".v.npy.parts.removed").mkdir()
    summary = run(work, rows, out, size=5)
    assert (summary.rows, summary.kept) == (23, 5)
    run(work, rows, Path("whole.npy"), size=5)
    assert out.read_bytes() == Path("whole.npy").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == ["rows.csv", "v.npy", "whole.npy"]


def test_a_shard_that_changed_is_named_and_computed_again(encoder, rows):
    out, work, part = Path("v.npy"), EmbedWork(str(encoder)), Path("v.npy.parts/00000001")
    begin(work, rows, out, 2)
    part.write_bytes(bytes([part.read_bytes()[0] ^ 1]) + part.read_bytes()[1:])
    with pytest.raises(ValueError, match="00000001 has changed since it was written"):
        run(work, rows, out, size=5)
    assert run(work, rows, out, size=5).kept == 18
    run(work, rows, Path("whole.npy"), size=5)
    assert out.read_bytes() == Path("whole.npy").read_bytes()


def test_two_calls_do_not_write_one_output(command, encoder, rows):
    def second(state: State) -> None:
        assert "is in use" in command("embed", encoder, rows, "--out", "v.npy", "--shard", 5)[2]

    run(EmbedWork(str(encoder)), rows, Path("v.npy"), size=5, report=second)


def test_a_folder_of_other_files_is_left_alone(command, encoder, rows):
    Path("v.npy.parts").mkdir()
    Path("v.npy.parts", "mine.txt").write_text("x")
    assert "holds other files, such as mine.txt" in refusal(
        command, "embed", encoder, rows, "--out", "v.npy", "--shard", 5
    )


def test_a_large_input_is_told_by_its_size_its_time_and_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "WHOLE", 2**20)
    path = tmp_path / "large"
    path.write_bytes(bytes(2**24 + 5))
    first = identity.file_identity(path)
    assert first == identity.file_identity(path)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(2**24 + 4)
        file.write(b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = identity.file_identity(path)
    assert [name for name in first if first[name] != changed[name]] == ["sha256 of samples"]


def numbered_table(path: Path, count: int) -> Path:
    return write_table(path, [[number, text] for number, text in enumerate(some_texts(count))], ("id", "text"))


def uninterrupted(work: EmbedWork, rows: Path, out: Path, size: int) -> Path:
    process = started(work, rows, out, size)
    process.join()
    assert process.exitcode == 0
    return out


def test_kills_change_nothing(encoder):
    """2,000 rows; six kills at random moments, repeatable up to the times of the processes."""
    rows, work = numbered_table(Path("rows.csv"), 2000), EmbedWork(str(encoder), device="cpu")
    assert run_killed(work, rows, Path("v.parquet"), 50, kills=6) >= 3, f"few kills with seed {SEED}"
    uninterrupted(work, rows, Path("whole.parquet"), 50)
    assert Path("v.parquet").read_bytes() == Path("whole.parquet").read_bytes()
    assert pq.read_table("v.parquet").column("id").to_pylist() == [str(number) for number in range(2000)]


@pytest.mark.slow
def test_many_kills_change_nothing():
    """BULK_ROWS rows with bert-mini of the zoo, BULK_KILLS kills."""
    rows, work = numbered_table(Path("rows.csv"), ROWS), EmbedWork("zoo:bert-mini", device="cpu")
    size = max(1, ROWS // (4 * KILLS))
    assert run_killed(work, rows, Path("v.jsonl"), size, KILLS) >= KILLS // 2
    uninterrupted(work, rows, Path("whole.jsonl"), size)
    assert Path("v.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    lines = Path("v.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(number) for number in range(ROWS)]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten times the rows, which are larger than 64 MiB with their vectors, take less than 64 MiB more."""
    folder = classifier_of_texts(tmp_path / "run")
    few, many = (
        peak_memory(EmbedWork(str(folder)), numbered_table(Path(f"{count}.csv"), count), Path(f"{count}.parquet"), 1000)
        for count in (ROWS, 10 * ROWS)
    )
    assert many - few < 2**26, (few, many)
