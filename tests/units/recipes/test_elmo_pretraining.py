"""elmo-pretrain: a text as numbers of words, batches that cover it, a run that learns, goes on and is used frozen."""

import json

import pytest
import torch
from rich.console import Console

from patchword.core.errors import UserError
from patchword.core.text import Packed, Text
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.corpus.word_corpus import SpelledTexts, WordCorpus, batches_by_length, split_long
from patchword.data.text.corpus.word_counts import word_splitter
from patchword.data.text.tokenizers.characters import CharacterReader, SpelledBatch, WordList, followed
from patchword.models.text.elmo import Elmo
from patchword.recipes import find_recipe
from patchword.recipes.elmo.run import known_words, open_elmo, reader_of, vectors
from patchword.recipes.elmo.task import build_task
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.train import assemble, train
from patchword.reports import write_report
from support.helpers import difference

LINES = ["The cat sat.", "A dog ran, far away!", "The dog sat.", "Cats ran off with the bird's hat."] * 20
SIZES = (
    "model.width=16",
    "model.cell=24",
    "model.highways=1",
    "model.filters=[[1, 8], [2, 16]]",
    "model.character_width=6",
    "model.dropout=0",
)
CUT = word_splitter("marks")
QUIET = Console(quiet=True)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    fields = (f"text={path}", *SIZES, "epochs=3", "batch_size=100", "learning_rate=0.02", "held_out=0.1", "device=cpu")
    return find_recipe("elmo-pretrain").with_settings(fields)


# The text


def test_words_are_cut_as_they_are_written():
    assert " ".join(CUT("The bird's hat, (a 2nd) one—gone!")) == "The bird's hat , ( a 2nd ) one — gone !"


def test_words_are_numbered_by_how_often_they_are_seen():
    corpus = WordCorpus.read(LINES, CUT)
    assert corpus.words[:6] == ("</S>", "<S>", "<UNK>", ".", "The", "dog")
    first = [corpus.words[number] for number in corpus.sentences.row(0).tolist()]
    assert first == ["<S>", "The", "cat", "sat", ".", "</S>"]
    assert len(corpus.sentences) == len(LINES)
    again = WordCorpus.read(["Fish sat."], CUT, corpus.words[:6])
    assert again.words == (*corpus.words[:6], "Fish", "sat")
    assert again.fingerprint() != corpus.fingerprint()


def test_long_texts_are_learned_in_parts_of_like_length():
    texts = Ragged.of([list(range(7)), [1, 2], list(range(10, 26))])
    found = split_long(texts, 6)
    assert found.lengths.tolist() == [3, 4, 2, 5, 5, 6]
    assert torch.equal(found.values, texts.values)
    assert found.row(1).tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("most", [1, 40, 1000])
def test_batches_have_every_text_once_and_as_many_in_every_epoch(most):
    lengths = torch.randint(2, 30, (200,), generator=torch.Generator().manual_seed(0))
    epochs = [batches_by_length(lengths, most, 3, epoch) for epoch in (0, 1)]
    assert len(epochs[0]) == len(epochs[1])
    for batches in epochs:
        assert torch.equal(torch.cat(batches).sort().values, torch.arange(200))
        assert all(len(batch) == 1 or len(batch) * int(lengths[batch].max()) <= most for batch in batches)
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))


def test_a_batch_is_the_plain_one():
    """Spelled once a word from a table, or every word anew: the same characters, targets and places."""
    sentences = [CUT(line) for line in LINES[:4]]
    corpus, reader = WordCorpus.read(LINES, CUT), CharacterReader(limit=9, spare=2)
    texts = SpelledTexts(corpus.sentences, reader.table(corpus.words), 6, reader, torch.device("cpu"))
    found = texts.batch(torch.arange(4))
    plain = SpelledBatch.of(sentences, reader, WordList(corpus.words[:6]))
    assert torch.equal(found.words, plain.words)
    assert torch.equal(found.text.mask, plain.text.mask)
    assert torch.equal(found.followed, plain.followed)
    assert found.weight == plain.weight
    characters = found.text.spelling[found.text.ids]
    assert torch.equal(characters[plain.text.mask], plain.text.ids[plain.text.mask])
    assert len(found.text.spelling) == len({word for sentence in sentences for word in sentence}) + 2


def test_what_is_followed():
    words = torch.tensor([[5, 6, 7], [8, IGNORE, IGNORE], [3, 4, IGNORE]])
    assert followed(Text(words), words).tolist() == [0, 1, 6]
    row = torch.tensor([[5, 6, 7, 8, 3, 4]])
    assert followed(Text(row, packed=Packed.of(torch.tensor([3, 1, 2]))), row).tolist() == [0, 1, 4]


# A run


def test_a_run_learns_and_its_report_says_so(recipe, tmp_path):
    folder = tmp_path / "run"
    assert train(recipe.with_settings(["epochs=10"]), folder, QUIET)
    output = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert output[-1]["validation_perplexity"] < 0.5 * output[0]["validation_perplexity"]
    assert output[-1]["validation_loss"] < output[0]["validation_loss"]
    found = evaluate(Run(folder), "cpu")
    best = max(output, key=lambda record: (record["validation_accuracy"], -record["validation_loss"]))
    for name in ("next_perplexity", "previous_perplexity", "accuracy"):
        assert found.measures[name] == pytest.approx(best[f"validation_{name}"], rel=1e-4)
    page = write_report(Run(folder), found).read_text(encoding="utf-8")
    assert "Held-out perplexity of the previous word" in page
    assert known_words(folder)[:3] == ("</S>", "<S>", "<UNK>")


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(recipe, tmp_path):
    recipe = recipe.with_settings(["drawn=4", "words=9", "model.dropout=0.1"])
    whole = assemble(recipe, build_task(recipe, QUIET), tmp_path / "whole", QUIET)
    assert whole.run()
    loop = assemble(recipe, build_task(recipe, QUIET), tmp_path / "parted", QUIET)
    loop.interrupted = lambda: loop.state.step == 8
    assert not loop.run()
    assert loop.state.batch > 0
    again = assemble(recipe, build_task(recipe, QUIET), tmp_path / "parted", QUIET)
    assert again.resume(lambda text: None)
    assert again.run()
    assert all(torch.equal(*pair) for pair in zip(again.model.parameters(), whole.model.parameters(), strict=True))


def test_training_goes_on_from_a_run_with_its_words(recipe, tmp_path):
    assert train(recipe.with_settings(["epochs=1"]), tmp_path / "run", QUIET)
    other = tmp_path / "other.txt"
    other.write_text("A new word sat.\nThe zebra ran.\n" * 4, encoding="utf-8")
    fields = [f"model={tmp_path / 'run'}", f"text={other}"]
    task = build_task(recipe.with_settings(fields), QUIET)
    assert task.corpus.words[: task.train.vocabulary] == known_words(tmp_path / "run")
    trained = open_elmo(tmp_path / "run", "cpu")[0]
    assert all(torch.equal(*pair) for pair in zip(task.model.parameters(), trained.parameters(), strict=True))
    fresh = build_task(recipe.with_settings([*fields, "model.from_scratch=true"]), QUIET)
    assert not torch.equal(fresh.model.head.words.weight, trained.head.words.weight)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("text=", "no texts are given"),
        ("model=bert-mini", "'bert-mini' reads texts: expected a model of characters"),
        ("compile=true", "compile has no effect"),
        ("drawn=30000", "fewer than the 30,000 words"),
        ("cut=letters", "recipe field 'cut'"),
    ],
)
def test_what_cannot_be_trained(recipe, field, message):
    with pytest.raises(UserError, match=message):
        build_task(recipe.with_settings([field]), QUIET)


# Frozen


@torch.no_grad()
def test_vectors_are_the_states_of_the_words_alone(recipe):
    model = build_task(recipe, QUIET).model
    assert isinstance(model, Elmo)
    sentences = [["The", "cat"], [], ["A", "dog", "ran", "unheard-of"], ["cat"]]
    found = vectors(model.train(), sentences)
    assert model.training
    model.eval()
    assert [tuple(states.shape) for states in found] == [(3, 2, 32), (3, 0, 32), (3, 4, 32), (3, 1, 32)]
    for sentence, states in zip(sentences, found, strict=True):
        alone = model.states(reader_of(model)([sentence]))
        assert not sentence or difference(states, torch.stack([state[0] for state in alone])) < 1e-5
    assert difference(found[0][0, 1], found[3][0, 0]) < 1e-5  # by its letters alone
    assert difference(found[0][2, 1], found[3][2, 0]) > 1e-4  # where it stands
    assert vectors(model, []) == []


def test_what_is_no_elmo(tmp_path):
    import patchword

    patchword.save(patchword.create("bert-tiny", vocabulary=20), tmp_path / "bert")
    with pytest.raises(UserError, match="reads texts: expected an ELMo"):
        open_elmo(tmp_path / "bert")
