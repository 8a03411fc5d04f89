"""Texts in shards: the same corpus as in one file, on several disks, and what is said when a part of it is gone."""

import math
import random
import shutil
from itertools import count

import numpy as np
import pytest

from patchword.core import files
from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import read_json, write_json
from patchword.data.shards import folders, open_files
from patchword.data.shards.folders import Folders
from patchword.data.shards.manifest import MANIFEST
from patchword.data.shards.sharded_corpus import ShardedTokens, build_sharded_corpus
from patchword.data.shards.text_contents import JsonLinesWriter, holds_texts, text_contents
from patchword.data.shards.writing import write_shards
from patchword.data.text.corpus.documents import text_files
from patchword.data.text.corpus.token_cache import build_cache
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from support.material import differing, silent
from support.texts import Letters
from support.tiny_texts import QUICK, vocabulary_of

WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    """Waiting for the disk guards against power cuts, which are not tried here."""
    monkeypatch.setattr(files, "flush", lambda path: None)


@pytest.fixture
def texts(tmp_path):
    """Documents of one to six lines, with blank lines between."""
    rng = random.Random(0)
    counts = [rng.randint(1, 6) for _ in range(60)]
    blocks = ["\n".join(" ".join(rng.choices(WORDS, k=7)).capitalize() + "." for _ in range(n)) for n in counts]
    (tmp_path / "corpus.txt").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return tmp_path / "corpus.txt"


@pytest.fixture
def shards(texts, tmp_path, monkeypatch):
    """Two of the shards in the first folder, the others in the second."""
    one, other = tmp_path / "one", tmp_path / "other"
    monkeypatch.setattr(
        folders, "free_bytes", lambda path: 10**9 if path != one or len(list(one.glob("*.jsonl"))) < 2 else 0
    )
    manifest = write_shards(text_contents(texts), Folders((one, other)), 1250)
    assert (len(manifest.shards), manifest.samples) == (6, 60)
    return one


def same(ours, theirs):
    everything = np.arange(theirs.manifest.tokens)
    pairs = ((ours.tokens[everything], theirs.tokens), (ours.sentences, theirs.sentences))
    return all(np.array_equal(*pair) for pair in (*pairs, (ours.documents, theirs.documents)))


def test_the_corpus_is_that_of_the_one_file(texts, shards, tmp_path):
    whole = build_cache([texts], Letters(), tmp_path / "whole")
    assert same(build_cache([shards], Letters(), tmp_path / "again"), whole)
    spread = build_sharded_corpus(shards, Letters())
    assert same(spread, whole)
    assert spread.size == whole.size
    assert len(list((tmp_path / "other").rglob("tokens.bin"))) == 4  # on the disks of their shards
    assert same(build_sharded_corpus(shards, Letters()), whole)  # from what is there


def test_an_order_that_follows_from_the_texts_alone(shards, tmp_path):
    before, key = [path.name for path in text_files([shards])], build_sharded_corpus(shards, Letters()).fingerprint()
    shutil.move(tmp_path / "other" / "shard-00004.jsonl", shards)
    assert [path.name for path in text_files([shards])] == before == sorted(before)
    assert build_sharded_corpus(shards, Letters()).fingerprint() == key


def test_tokens_in_several_files_are_read_like_one_array(tmp_path, monkeypatch):
    monkeypatch.setattr(open_files, "OPEN", 2)
    whole = np.random.default_rng(0).integers(0, 60000, 50).astype(np.uint16)
    counts, paths = [7, 0, 20, 1, 22], [tmp_path / str(number) for number in range(5)]
    for path, part in zip(paths, np.split(whole, np.cumsum(counts)[:-1]), strict=True):
        path.write_bytes(part.tobytes())
    spread = ShardedTokens(paths, counts, np.uint16)
    rng = np.random.default_rng(1)
    for index in (np.arange(50), np.array([], np.int64), np.array([6, 7, 8, 26, 27, 28, 3, 3]), rng.permutation(50)):
        assert np.array_equal(spread[index], whole[index])
    for part in (slice(5, 30), slice(0, 0), slice(48, 60)):
        assert np.array_equal(spread[part], whole[part])
    assert spread.nbytes == 100
    assert len(spread._files) == 2
    paths[4].write_bytes(b"")
    with pytest.raises(RecoverableError, match="it ends before byte 44"):
        spread[np.array([49])]
    spread._files.close()
    with pytest.raises(RecoverableError, match="missing or truncated"):
        spread[np.array([49])]


def test_a_kill_loses_one_shard(texts, shards, tmp_path, monkeypatch):
    out, add = tmp_path / "out", JsonLinesWriter.add

    def broken(self, content):
        if len(list(out.glob("*.jsonl"))) == 3:
            raise KeyboardInterrupt
        add(self, content)

    monkeypatch.setattr(JsonLinesWriter, "add", broken)
    with pytest.raises(KeyboardInterrupt):
        write_shards(text_contents(texts), Folders((out,)), 1250)
    with pytest.raises(UserError, match="not finished"):
        text_files([out])
    before = {path.name: path.stat().st_ino for path in out.glob("*.jsonl")}
    monkeypatch.setattr(JsonLinesWriter, "add", add)
    write_shards(text_contents(texts), Folders((out,)), 1250)
    assert all((out / name).stat().st_ino == number for name, number in before.items())
    whole = {shard["file"]: shard["sha256"] for shard in read_json(shards / MANIFEST)["shards"]}
    assert {shard["file"]: shard["sha256"] for shard in read_json(out / MANIFEST)["shards"]} == whole


def test_missing_and_changed_shards_are_named(shards, tmp_path, command):
    path = tmp_path / "other" / "shard-00003.jsonl"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"w1", b"w2", 1))
    code, _, complaint = command("data", "check", shards)
    assert (code, "shard-00003.jsonl has changed since it was written" in complaint) == (2, True)
    path.write_bytes(content)
    assert "60 documents in 6 files" in command("data", "check", shards)[1]
    path.unlink()
    write_json(shards / MANIFEST, read_json(shards / MANIFEST) | {"folders": ["."]})
    code, _, complaint = command("data", "check", shards)
    assert code == 2
    assert all(f"shard-0000{number}.jsonl is missing" in complaint for number in (2, 3, 4, 5))


def test_texts_and_pictures_are_told_apart(tmp_path, shards):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    (tmp_path / "b.jsonl").write_text('{"path": "a.png", "label": "x"}\n')
    (tmp_path / "c.txt").write_text("one\n")
    found = {name: holds_texts(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "c.txt", "none.csv")}
    assert found == {"a.jsonl": True, "b.jsonl": False, "c.txt": True, "none.csv": False}
    with pytest.raises(UserError, match="already in shards"):
        text_contents(shards)


def test_a_run_whose_tokens_vanish_goes_on_with_the_same_bits(shards, tmp_path, monkeypatch):
    vocabulary_of(WORDS, tmp_path / "words")
    fields = (*QUICK, "epochs=2", "batch_size=8", "length=24", "held_out=0.2", "sentences=packed", "save_minutes=0")
    given = (f"text={shards}", f"tokenizer={tmp_path / 'words'}")
    asked = find_recipe("bert-pretrain").with_settings([*fields, *given])
    read, taken, until = ShardedTokens.__getitem__, count(1), math.inf

    def vanishing(self, index):
        if next(taken) == until:
            path.rename(tmp_path / "away")
            self._files.close()
        return read(self, index)

    monkeypatch.setattr(ShardedTokens, "__getitem__", vanishing)
    assert recipe_run.train(asked, tmp_path / "whole", silent())
    path = next((tmp_path / "other").rglob("shard-00004/tokens.bin"))
    taken, until = count(1), next(taken) // 2
    assert until > 2
    with pytest.raises(
        RecoverableError, match=r"(?s)tokens\.bin.*missing.*then resume with:\npatchword train .*--resume"
    ):
        recipe_run.train(asked, tmp_path / "parted", silent())
    monkeypatch.setattr(ShardedTokens, "__getitem__", read)
    (tmp_path / "away").rename(path)
    assert recipe_run.train(asked, tmp_path / "parted", silent(), resume=True)
    assert differing(tmp_path / "whole" / "model.safetensors", tmp_path / "parted" / "model.safetensors") == []
