"""A tagger and a classifier over frozen vectors, and the study that compares them."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.data.text.formats.conll import read_conll
from patchword.layers import Frozen, VectorEmbedding
from patchword.models import REGISTRY
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.recipes.vectors.sets import read_words
from patchword.recipes.vectors.sources_models import open_sources
from patchword.recipes.vectors.vector_cache import fill
from patchword.recipes.vectors.words import WordVectors
from patchword.studies import STUDIES
from support.material import differing
from support.tiny_texts import refusal, stop_after, vocabulary_of, without_seconds, write_conll, write_table

SIZES = {"sources": ((3, 6), (1, 4)), "width": 8, "classes": 3, "dropout": 0.0}
QUICK = ("device=cpu", "model.width=16", "epochs=2", "batch_size=8", "learning_rate=0.01", "vectors=random:16")
WORDS = ("a", "b", "x", *(f"w{number}" for number in range(8)))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _unreported(monkeypatch):
    """Without the report of each run, which takes longer than such a run."""
    monkeypatch.setattr("patchword.api.evaluation.write_report", lambda run, found: run.folder / "report.html")


def ambiguous(path: str) -> Path:
    """What "x" is tagged follows from the word before it: A after "a", B after "b"."""
    rows = [
        [(one, "W"), (first, "F"), ("x", first.upper()), (other, "W")]
        for first, one, other in product("ab", WORDS[3:], WORDS[3:])
    ]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1)).tolist()
    return write_conll(Path(path), [rows[number] for number in order])


def reviews(path: str, count: int = 40) -> Path:
    rows = [(f"this film is {'good' if number % 2 else 'bad'} indeed {number}", number % 2) for number in range(count)]
    return write_table(Path(path), rows)


@pytest.mark.parametrize("head", ["tags", "classes"])
@pytest.mark.parametrize("depth", [0, 2])
def test_a_text_does_not_depend_on_the_padding_of_its_batch(head, depth):
    model = patchword.create("over-vectors", **SIZES, head=head, depth=depth).eval()
    values, mask = torch.randn(2, 5, 22), torch.arange(5) < torch.tensor([[3], [5]])
    both, alone = model(Frozen(values, mask)), model(Frozen(values[:1, :3]))
    torch.testing.assert_close(both[:1, :3] if head == "tags" else both[:1], alone)
    assert both.shape == ((2, 5, 3) if head == "tags" else (2, 3))


def test_the_layers_of_each_source_are_mixed_by_weights_of_their_own():
    model = patchword.create("over-vectors", **SIZES, depth=0).eval()
    with torch.no_grad():
        model.embedding.mixtures[0].weights.copy_(torch.tensor([-40.0, 40.0, -40.0]))
    values = torch.randn(1, 2, 22)
    other = values.clone()
    other[..., :6] = torch.randn(1, 2, 6)  # the lowest layer, which counts nothing
    torch.testing.assert_close(model(Frozen(values)), model(Frozen(other)))
    other[..., 6:12] = torch.randn(1, 2, 6)
    assert not torch.allclose(model(Frozen(values)), model(Frozen(other)))
    assert [[round(share, 6) for share in shares] for shares in model.layer_weights()] == [[0.0, 1.0, 0.0], [1.0]]
    torch.testing.assert_close(model(Frozen(values * 7)), model(Frozen(values)), atol=1e-4, rtol=1e-4)  # none is louder


def test_what_all_vectors_of_a_source_have_in_common_is_not_heard():
    """The same words far from zero and squeezed give the same answers, and a word that is not known stays zero."""
    embedding = VectorEmbedding([(2, 6), (1, 4)], 8).eval()
    values = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    embedding.fit_scale(values)
    answers = embedding(values[None])
    unknown = torch.cat([values[:1, :12], torch.zeros(1, 4)], dim=1)
    moved = 40 + 0.1 * values
    assert not torch.allclose(embedding(moved[None]), answers, atol=0.1)
    embedding.fit_scale(moved)
    torch.testing.assert_close(embedding(moved[None]), answers, atol=1e-3, rtol=0)
    embedding.fit_scale(values)
    alone = VectorEmbedding([(2, 6)], 8).eval()
    alone.load_state_dict(
        embedding.state_dict()
        | {"linear.weight": embedding.linear.weight[:, :6]}
        | {name: getattr(embedding, name)[:12] for name in ("middle", "spread")},
        strict=False,
    )
    torch.testing.assert_close(embedding(unknown[None]), alone(unknown[None, :, :12]))


def test_what_stands_above_the_vectors_has_one_size():
    sizes = {"head": "tags", "classes": 17}
    narrow, wide = (REGISTRY.create("over-vectors", sources=one, **sizes) for one in (((1, 8),), ((7, 384), (1, 300))))
    for part in ("encoder", "head"):
        assert [value.shape for value in getattr(narrow, part).parameters()] == [
            value.shape for value in getattr(wide, part).parameters()
        ]


def learned(vectors: str) -> float:
    """How many of the ambiguous words a linear map tells, of sentences that it was not fitted to."""
    sentences = read_conll(ambiguous("train.conll"))
    sources = open_sources(vectors, torch.device("cpu"))
    bank = fill(sources, [sentence.words for sentence in sentences], torch.device("cpu"))
    places = torch.tensor([4 * number + 2 for number in range(len(sentences))])
    truth = torch.tensor([sentence.tags[2] == "B" for sentence in sentences]).long()
    asked = Frozen(bank.values[places][:, None])
    shapes = tuple((source.layers, source.width) for source in sources)
    model = patchword.create("over-vectors", sources=shapes, depth=0, width=16, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(Frozen(asked.values[:96]))[:, 0], truth[:96]).backward()
        optimizer.step()
    return float((model(asked)[:, 0].argmax(-1) == truth)[96:].float().mean())


def test_context_is_in_the_vectors_of_a_model_and_not_in_a_table(tmp_path):
    """Every word by itself under a linear map: what tells A from B must be in the vector of "x"."""
    tokenizer = vocabulary_of(WORDS, tmp_path / "bert")
    model = patchword.create("bert-tiny", depth=2, width=32, heads=2, hidden=32, vocabulary=tokenizer.vocabulary)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=2 * parameter.shape[1] ** -0.5)
    patchword.save(model, tmp_path / "bert")
    random = np.random.default_rng(0).normal(size=(len(WORDS), 32)).astype(np.float32)
    WordVectors(WORDS, random).save(Path("words.txt"))
    assert learned("words.txt") <= 0.7
    assert learned("bert") >= 0.95
    assert learned("words.txt+bert") >= 0.95


def test_a_classifier_is_trained_evaluated_and_told(command):
    reviews("train.csv")
    reviews("test.csv", 6)
    words = ("train", "over-vectors", "--set", "task=classes", "train=train.csv", "test=test.csv", *QUICK, "epochs=4")
    code, output, complaint = command(*words)
    assert code == 0, complaint
    assert "vectors of 240 words: 0.00 GiB" in output
    assert "Test Accuracy: 100.00%" in output
    before = Path("runs/over-vectors/evaluation.json").read_bytes()
    assert command("evaluate", "runs/over-vectors")[0] == 0
    assert Path("runs/over-vectors/evaluation.json").read_bytes() == before
    report = Path("runs/over-vectors/report.html").read_text()
    assert "With frozen vectors of random: 100.00% accuracy on the 6 test texts" in report
    assert "Confusion" in report
    complaint = refusal(command, "predict", "runs/over-vectors", "a good film")
    assert "reads vectors: expected a model of texts" in complaint


@pytest.mark.usefixtures("_unreported")
def test_a_run_that_was_stopped_ends_with_the_same_bits(command, monkeypatch):
    ambiguous("train.conll")
    words = ("train", "over-vectors", "--set", "train=train.conll", *QUICK)
    assert command(*words, "--name", "whole")[0] == 0
    stop_after(monkeypatch, 9)
    assert command(*words, "--name", "stopped")[0] == 130
    stop_after(monkeypatch, 0)
    assert command(*words, "--name", "stopped", "--resume")[0] == 0
    weights = [Path("runs", name, "model.safetensors") for name in ("stopped", "whole")]
    assert differing(*weights) == []
    assert without_seconds(Path("runs/stopped")) == without_seconds(Path("runs/whole"))


def test_a_run_does_not_go_on_with_other_words(command, monkeypatch):
    path = ambiguous("train.conll")
    words = ("train", "over-vectors", "--set", "train=train.conll", *QUICK)
    stop_after(monkeypatch, 3)
    assert command(*words)[0] == 130
    path.write_text(path.read_text().replace("w3 W", "w9 W"))
    assert "have changed since" in refusal(command, *words, "--resume")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["vectors="], "no vectors are given"),
        (["vectors=nowhere.txt"], "there is nothing at nowhere.txt"),
        (["model=bert-tiny"], "does not read vectors"),
        (["model.classes=4"], "model.classes follows from the vectors and the texts"),
        (["memory=1e-6"], "the vectors of all words take too much memory"),
        (["task=classes"], "train.conll: unknown table format"),
        (["train="], "no training texts are given"),
    ],
)
def test_what_cannot_be_trained_is_refused(command, changes, message):
    ambiguous("train.conll")
    assert message in refusal(command, "train", "over-vectors", "--set", "train=train.conll", *QUICK, *changes)


def test_the_words_of_a_text_are_cut_as_those_of_word_vectors():
    path = write_table(Path("t.csv"), [("It's GOOD, really!", "1"), ("!!!", "0"), ("a b c d", "0")])
    recipe = OverVectorsRecipe(task="classes", train=str(path), length=3)
    read = read_words(recipe, task_spec_of(recipe.texts()).read("train"))
    assert read.words == (("it's", "good", "really"), ("!!!",), ("a", "b", "c"))
    assert read.shortened == 1


@pytest.mark.usefixtures("_unreported")
def test_the_study_runs_both_tasks_over_all_vectors_that_are_there(command, monkeypatch):
    monkeypatch.setattr("patchword.studies.vectors.SEEDS", 2)
    ambiguous("train.conll")
    reviews("train.csv")
    WordVectors(WORDS, np.eye(len(WORDS), dtype=np.float32)).save(Path("words.txt"))
    files = ("tags=train.conll", "tags_test=train.conll", "classes=train.csv", "classes_test=train.csv")
    others = ("words=words.txt", "translation=none", "elmo=none", "bert=none")
    sizes = ("device=cpu", "model.width=8", "epochs=1", "learning_rate=0.01", "batch_size=32")
    code, output, complaint = command("train", "contextual-or-static", "--set", *files, *others, *sizes)
    assert code == 0, complaint
    assert "tags-cove-seed-0 is left out: its vectors are none" in output
    assert output.count("computed in") == 4  # the seeds share the vectors
    folder = Path("runs/contextual-or-static")
    found = json.loads((folder / "results.json").read_text())
    assert {task: list(rows) for task, rows in found["means"].items()} == {
        "tags": ["random", "word2vec"],
        "classes": ["random", "word2vec"],
    }
    assert len(found["runs"]) == 8
    rows = (folder / "results.md").read_text().splitlines()
    assert any(row.startswith("| word2vec | ") and row.count("\N{PLUS-MINUS SIGN}") == 2 for row in rows)
    assert "tags: " in rows[-1]
    assert min(Image.open(folder / "results.png").size) > 300


def test_the_study_asks_for_what_it_needs():
    study = STUDIES["contextual-or-static"]().with_settings(["words=w.txt", "bert=runs/b", "epochs=3"])
    assert study.runs["tags-cove-seed-1"].vectors == "w.txt+{translation}"
    assert {recipe.epochs for recipe in study.runs.values()} == {3}
    with pytest.raises(UserError, match="this study needs translation="):
        study.check(Path("nowhere"))
