import multiprocessing
import os
import random
import signal
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from patchword.core import files
from patchword.core.errors import UserError
from patchword.data.faults import collect_faults
from patchword.data.text.corpus import tokenized_corpus
from patchword.data.text.corpus.token_cache import build_cache
from patchword.data.text.corpus.tokenized_corpus import complete_manifest
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.texts import Letters, bytes_of

SHARD, SHARDS = 300, 4  # bytes of text; so many make the corpus below
FORKED = multiprocessing.get_context("fork")  # a new interpreter would wait for torch


def write_corpus(folder: Path) -> Path:
    """Two files; documents of one sentence and of many, one longer than a shard."""
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join("".join(rng.choices("abcdefghij", k=rng.randint(1, 8))) for _ in range(8)).capitalize() + "."

    folder.mkdir()
    for name, counts in (("a.txt", (1, 12, 3, 1, 2)), ("b.txt", (4, 5, 1))):
        text = "\n\n".join("\n".join(sentence() for _ in range(count)) for count in counts)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    """Waiting for the disk guards against power cuts, which are not tried here."""
    monkeypatch.setattr(files, "flush", lambda path: None)


@pytest.fixture
def texts(tmp_path):
    return write_corpus(tmp_path / "texts")


def build(texts, folder, **options):
    return build_cache([texts], options.pop("tokenizer", None) or Letters(), folder, shard=SHARD, **options)


# What is in it


def test_a_cache_holds_the_tokens_the_sentences_and_the_documents(texts, tmp_path):
    corpus = build(texts, tmp_path / "cache")
    assert len(corpus) == 8
    assert np.diff(corpus.documents).tolist() == [1, 12, 3, 1, 2, 4, 5, 1]
    lines = [line for name in ("a.txt", "b.txt") for line in (texts / name).read_text().split("\n") if line]
    expected = Letters().ids_of(lines)
    assert corpus.tokens.dtype == np.uint16
    assert corpus.tokens.tolist() == np.concatenate(expected).tolist()
    assert np.diff(corpus.sentences).tolist() == [len(ids) for ids in expected]
    assert (corpus.manifest.sentences, corpus.manifest.tokens) == (29, len(corpus.tokens))
    assert corpus.size == 2 * len(corpus.tokens) + 8 * (30 + 9)
    assert [source.form for source in corpus.manifest.sources] == ["blank", "blank"]


def test_words_carry_the_space_of_running_text(tmp_path):
    (tmp_path / "a.txt").write_text("The dog. Walks on.\nIt sat.\n\nThe 北京。首都 ok。\n", encoding="utf-8")
    tokenizer = Tokenizer.train_on(["The dog walks on."], 261, kind="bytes")
    corpus = build_cache([tmp_path / "a.txt"], tokenizer, tmp_path / "cache")
    spelled = [tokenizer.decode(corpus.tokens[start:end]) for start, end in pairwise(corpus.sentences.tolist())]
    assert spelled == ["The dog.", " Walks on.", " It sat.", "The 北京。", "首都 ok。"]


def test_the_size_of_shards_changes_nothing(texts, tmp_path):
    build(texts, tmp_path / "small")
    build_cache([texts], Letters(), tmp_path / "large")
    assert bytes_of(tmp_path / "small") == bytes_of(tmp_path / "large")
    assert {path.name for path in (tmp_path / "small").iterdir()} - {".lock"} == {
        "tokens.bin",
        "sentences.bin",
        "documents.bin",
        "manifest.json",
    }


@pytest.mark.parametrize("shard", [1, 10**6])
def test_sentences_and_documents_without_tokens_are_dropped(tmp_path, shard):
    (tmp_path / "a.txt").write_text("ab\n...\n\n---\n\n***\n\n???\ncd\nef\n\n!!!\n", encoding="utf-8")
    corpus = build_cache([tmp_path / "a.txt"], Letters(), tmp_path / "cache", documents="blank", shard=shard)
    assert corpus.sentences.tolist() == [0, 2, 4, 6]
    assert corpus.documents.tolist() == [0, 1, 3]


def test_unknown_tokens_are_counted(tmp_path):
    (tmp_path / "a.txt").write_text("abc äöü\n", encoding="utf-8")
    assert build(tmp_path / "a.txt", tmp_path / "cache").unknown_fraction == 0.5


def test_a_large_vocabulary_takes_wider_numbers(texts, tmp_path):
    tokenizer = Letters()
    tokenizer.vocabulary = 2**16
    assert build(texts, tmp_path / "one", tokenizer=tokenizer).tokens.dtype == np.uint16
    tokenizer.vocabulary += 1
    wide = build(texts, tmp_path / "two", tokenizer=tokenizer)
    assert wide.tokens.dtype == np.uint32
    assert wide.tokens.tolist() == build(texts, tmp_path / "one").tokens.tolist()


def test_progress_reaches_all_bytes(texts, tmp_path):
    output = []
    build(texts, tmp_path / "cache", progress=lambda done, total: output.append((done, total)))
    total = sum(path.stat().st_size for path in texts.iterdir())
    assert output[-1] == (total, total)
    assert output == sorted(output)
    assert len(output) == 2 * SHARDS


def test_an_empty_corpus_is_refused_and_leaves_no_cache(tmp_path):
    (tmp_path / "a.txt").write_text(" \n\n...\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"no text in .*a.txt"):
        build(tmp_path / "a.txt", tmp_path / "cache")
    assert bytes_of(tmp_path / "cache") == {}


def test_broken_utf8_in_the_middle_leaves_no_cache(texts, tmp_path):
    (texts / "b.txt").write_bytes(b"fine\n" * 100 + b"\xff\n")
    with pytest.raises(UserError, match=r"b.txt, line 101, byte 1 of the line: not UTF-8"):
        build(texts, tmp_path / "cache")
    assert complete_manifest(tmp_path / "cache") is None


def test_broken_utf8_leaves_no_cache_inside_the_report_of_others_either(texts, tmp_path):
    """There an error is no exception at once, and lines that were left out must not be kept as the whole text."""
    with (texts / "b.txt").open("ab") as file:
        file.write(b"\xff\nfine\n")
    with pytest.raises(UserError, match=r"b\.txt, line \d+, byte 1 of the line: not UTF-8"), collect_faults():
        build(texts, tmp_path / "cache")
    assert complete_manifest(tmp_path / "cache") is None
    assert not list((tmp_path / "cache").glob("shard-*"))


def test_texts_that_grow_meanwhile_leave_no_cache(texts, tmp_path):
    class Writing(Letters):
        def ids_of(self, given):
            with (texts / "a.txt").open("a") as file:
                file.write("More.\n")
            return super().ids_of(given)

    with pytest.raises(UserError, match=r"a.txt changed while it was read"):
        build(texts, tmp_path / "cache", tokenizer=Writing())
    assert complete_manifest(tmp_path / "cache") is None


# Held-out documents


def test_documents_set_aside_are_always_the_same_and_never_all(texts, tmp_path):
    corpus = build(texts, tmp_path / "cache")
    train, aside = corpus.split(0.25)
    assert len(aside) == 2
    assert sorted([*train, *aside]) == list(range(8))
    assert all(np.array_equal(*pair) for pair in zip((train, aside), corpus.split(0.25), strict=True))
    assert [len(corpus.split(share)[1]) for share in (0, 0.001, 0.5, 1)] == [0, 1, 4, 7]


# When it is used again, and when it is not


def test_a_cache_is_used_again(texts, tmp_path):
    first = build(texts, tmp_path / "cache")
    again = Letters()
    second = build(texts, tmp_path / "cache", tokenizer=again)
    assert again.asked == 0
    assert second.fingerprint() == first.fingerprint()


def test_a_copy_of_the_texts_with_another_time_is_the_same_corpus(texts, tmp_path):
    first = build(texts, tmp_path / "cache")
    os.utime(texts / "a.txt", (1, 1))
    moved = texts.rename(tmp_path / "moved")
    again = Letters()
    assert build(moved, tmp_path / "cache", tokenizer=again).fingerprint() == first.fingerprint()
    assert again.asked == 0


def changed_text(texts: Path) -> dict[str, object]:
    path = texts / "b.txt"
    path.write_text(path.read_text().replace("a", "b"), encoding="utf-8")  # of the same size
    os.utime(path, (1, 1))
    return {}


def added_text(texts: Path) -> dict[str, object]:
    (texts / "c.txt").write_text("More.\n", encoding="utf-8")
    return {}


@pytest.mark.parametrize(
    "change",
    [
        changed_text,
        added_text,
        lambda texts: {"tokenizer": Letters("others")},
        lambda texts: {"documents": "file"},
    ],
    ids=["changed text", "added text", "another tokenizer", "another form"],
)
def test_a_cache_of_something_else_is_made_anew(texts, tmp_path, change):
    before = build(texts, tmp_path / "cache")
    held, old = before.tokens, before.tokens.tolist()
    options = change(texts)
    after = build(texts, tmp_path / "cache", **options)
    assert after.fingerprint() != before.fingerprint()
    build(texts, tmp_path / "fresh", **options)
    assert bytes_of(tmp_path / "cache") == bytes_of(tmp_path / "fresh")
    assert held.tolist() == old  # what was open still reads as it was


@pytest.mark.parametrize("name", ["tokens.bin", "sentences.bin", "documents.bin", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_cache_is_refused_and_mended(texts, tmp_path, name, damage):
    build(texts, tmp_path / "cache")
    good, path = bytes_of(tmp_path / "cache"), tmp_path / "cache" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])
    if (name, damage) != ("manifest.json", "cut"):  # which loses only its last line break
        assert complete_manifest(tmp_path / "cache") is None
    build(texts, tmp_path / "cache")
    assert bytes_of(tmp_path / "cache") == good


# Kills


def forked(texts, folder, prepare=lambda: None, pause=0.0):
    """A process that builds the cache."""

    def work():
        prepare()
        build(texts, folder, tokenizer=Letters(pause=pause))

    process = FORKED.Process(target=work)
    process.start()
    return process


def refused_or_whole(folder: Path, good: dict[str, bytes]) -> None:
    assert complete_manifest(folder) is None or bytes_of(folder) == good


def killed_at(number: int, after: bool) -> None:
    """From here on this process kills itself when it gives a file its name for the `number`th time."""
    replace, calls = Path.replace, iter(range(1000))

    def deadly(self, target):
        last = next(calls) == number
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(self, target)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    Path.replace = deadly


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_file_that_takes_its_name_changes_nothing(texts, tmp_path, after):
    build(texts, tmp_path / "whole")
    good = bytes_of(tmp_path / "whole")
    for number in range(1000):
        folder = tmp_path / f"cache{number}"
        process = forked(texts, folder, lambda number=number: killed_at(number, after))
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        refused_or_whole(folder, good)
        assert after or list(folder.glob(".*.tmp"))
        tokenizer = Letters()
        build(texts, folder, tokenizer=tokenizer)
        whole = (number + after) // 2  # two files a shard
        assert tokenizer.asked <= (29 - whole if whole < SHARDS else 0)
        assert bytes_of(folder) == good
        assert list(folder.glob(".*.tmp")) == []
    assert number == 2 * SHARDS + 4


def kill_at_random(texts, tmp_path, kills, pause):
    rng, done, runs = random.Random(kills), 0, 0
    build(texts, tmp_path / "whole")
    good = bytes_of(tmp_path / "whole")
    while done < kills:
        folder = tmp_path / f"cache{runs}"
        while True:
            process = forked(texts, folder, pause=pause)
            process.join(rng.uniform(0, 8 * pause))
            if done == kills or process.exitcode is not None:
                process.join()
                break
            process.kill()
            process.join()
            done += process.exitcode == -signal.SIGKILL
            refused_or_whole(folder, good)
        assert process.exitcode == 0
        assert bytes_of(folder) == good
        runs += 1


def test_five_kills_at_random_moments_change_nothing(texts, tmp_path):
    kill_at_random(texts, tmp_path, kills=5, pause=0.01)


@pytest.mark.slow
def test_two_hundred_kills_at_random_moments_change_nothing(texts, tmp_path):
    kill_at_random(texts, tmp_path, kills=200, pause=0.02)


def test_shards_of_another_tokenizer_are_not_taken(texts, tmp_path):
    forked(texts, tmp_path / "cache", lambda: killed_at(7, after=True)).join()
    assert len(list((tmp_path / "cache").glob("shard-*.json"))) == SHARDS
    build(texts, tmp_path / "cache", tokenizer=Letters("others"))
    build(texts, tmp_path / "whole", tokenizer=Letters("others"))
    assert bytes_of(tmp_path / "cache") == bytes_of(tmp_path / "whole")


@pytest.mark.parametrize("damage", ["cut", "without its label"])
def test_a_shard_that_is_not_whole_is_made_again(texts, tmp_path, damage):
    build(texts, tmp_path / "whole")
    folder = tmp_path / "cache"
    forked(texts, folder, lambda: killed_at(7, after=True)).join()
    path = folder / "shard-00003.safetensors"
    label = path.with_suffix(".json")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-2])
    else:
        label.unlink()
    build(texts, folder)
    assert bytes_of(folder) == bytes_of(tmp_path / "whole")


def test_a_second_process_waits_for_the_first_and_uses_its_cache(texts, tmp_path):
    folder = tmp_path / "cache"
    first = forked(texts, folder, pause=0.02)
    while not list(folder.glob("shard-*")):
        time.sleep(0.001)
    second = Letters()
    corpus = build(texts, folder, tokenizer=second)
    first.join()
    assert first.exitcode == 0
    assert second.asked == 0
    assert len(corpus) == 8


def test_opening_reads_only_maps(texts, tmp_path):
    corpus = build(texts, tmp_path / "cache")
    assert isinstance(corpus.tokens.base, np.memmap)
    assert not corpus.tokens.flags.writeable
    assert tokenized_corpus.complete_manifest(tmp_path / "cache") == corpus.manifest
