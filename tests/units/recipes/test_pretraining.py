"""Pretraining on raw text, from files to a scored run: what is learned from what; a restart changes nothing."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.text.batching.batches import IGNORE, TextBatch
from patchword.data.text.corpus.sentence_pairs import plan_order, plan_pairs
from patchword.data.text.formats.news import FieldTokens
from patchword.data.text.tokenizers.template import Frame
from patchword.objectives.text import MaskedWords
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.pretraining.evaluation import PretrainingEvaluation
from patchword.recipes.pretraining.parts import NextPairs
from patchword.recipes.pretraining.task import PretrainingTask, judge
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import build_task, train
from support.material import settings, silent, without_sets
from support.texts import numbered_corpus
from support.tiny_texts import QUICK, SPECIALS, assert_the_same_run, refusal, stop_after, vocabulary_of

ALPHABET = [f"{first}{second}" for first in "abcdefgh" for second in "aeiou"]
STEADY = ("model.dropout=0", "model.attention_dropout=0")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and a machine without sets."""
    monkeypatch.chdir(tmp_path)
    without_sets(monkeypatch, tmp_path / "data")


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    vocabulary_of([*ALPHABET, *(f"##{word}" for word in ALPHABET), "."], folder)
    return folder


def stories(
    path: Path,
    documents: int = 60,
    seed: int = 0,
    sentences: tuple[int, int] = (1, 8),
    variety: int = 5,
    kinds: int = 8,
) -> Path:
    """A document a line. All words of one begin with the same letter, so that they can be guessed from each other."""
    generator = random.Random(seed)
    lines = []
    for number in range(documents):
        known = [word for word in ALPHABET if word[0] == "abcdefgh"[number % kinds]][:variety]
        count = generator.randint(*sentences)
        output = [" ".join(generator.choices(known, k=generator.randint(3, 7))) for _ in range(count)]
        lines.append(" ".join(f"{sentence.capitalize()}." for sentence in output))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe_of(words: Path, *fields: str) -> Recipe:
    """Of the file texts.txt."""
    fixed = ("documents=line", "length=24", "batch_size=16", "held_out=0.2", "masked=0.2", "learning_rate=5e-3")
    return find_recipe("bert-pretrain").with_settings(
        [*QUICK, *fixed, f"text={Path('texts.txt').absolute()}", f"tokenizer={words}", *fields]
    )


def task_of(words: Path, *fields: str) -> PretrainingTask:
    found = build_task(recipe_of(words, *fields), silent())
    assert isinstance(found, PretrainingTask)
    return found


def words_of(batch: TextBatch) -> torch.Tensor:
    """The tokens of a batch as they were before masking."""
    targets = batch.targets.values
    return torch.where(targets == IGNORE, batch.ids.values, targets)


# The whole way


@pytest.mark.parametrize("sentences", ["next", "packed"])
def test_words_are_learned_and_scored_on_documents_set_aside(words, sentences):
    stories(Path("texts.txt"), sentences=(4, 8), variety=1, kinds=2)
    folder = Path("runs/run")
    recipe = recipe_of(words, *STEADY, f"sentences={sentences}", "epochs=4", "batch_size=8", "learning_rate=1e-2")
    assert train(recipe, folder, silent())
    found = evaluate(Run(folder), "cpu")
    assert isinstance(found, PretrainingEvaluation)
    measures = found.measures
    # an untrained model guesses among 86 words; two words and a mark are left to those who have learned
    assert measures["perplexity"] < 3.7
    if sentences == "packed":
        assert measures["accuracy"] > 0.7  # one word would be right in half of the places
    beside = math.log(measures["perplexity"])  # the loss of the words; that of the next sentence is added
    assert measures["loss"] > beside + 0.1 if sentences == "next" else measures["loss"] == pytest.approx(beside)
    assert ("next_accuracy" in measures) == (sentences == "next")
    assert read_json(folder / "evaluation.json")["part"] == "held out"
    records = Run(folder).metrics()
    assert records[-1]["loss"] < records[0]["loss"]
    best = max(records, key=lambda record: record["validation_accuracy"])
    assert best["validation_accuracy"] == pytest.approx(measures["accuracy"])
    assert any("perplexity" in line for line in found.lines())
    assert {"tokenizer.json", "vocab.txt", "model.safetensors"} <= {path.name for path in folder.iterdir()}


def test_what_was_pretrained_can_be_fine_tuned(words):
    stories(Path("texts.txt"))
    assert train(recipe_of(words, "epochs=1"), Path("pretrained"), silent())
    Path("train.csv").write_text("text,label\n" + "ba be,b\nca ce,c\n" * 10)
    fields = ["model=pretrained", "train=train.csv", "device=cpu", "length=16"]
    task = build_task(find_recipe("classify-text").with_settings(fields), silent())
    pretrained = Run(Path("pretrained")).model().state_dict()
    for name, tensor in task.model.state_dict().items():
        if not name.startswith("head.linear"):
            assert tensor.equal(pretrained[name]), name


def test_texts_are_tokenised_once(words):
    stories(Path("texts.txt"))
    first = task_of(words)
    kept = {path: path.stat().st_mtime_ns for path in Path("data").rglob("*.bin")}
    assert len(kept) == 3
    assert task_of(words).fingerprint() == first.fingerprint()
    assert {path: path.stat().st_mtime_ns for path in Path("data").rglob("*.bin")} == kept


# Restarts


@pytest.mark.parametrize("fields", [("sentences=next", "packed=true"), ("sentences=packed", "masks=words")])
def test_a_restarted_run_is_the_same_bit_by_bit(words, monkeypatch, fields):
    """With dropout, an average, other examples and masks in every epoch, and batches made ahead."""
    stories(Path("texts.txt"), documents=50)
    random_ways = (
        "model.dropout=0.1",
        "model.attention_dropout=0.1",
        "ema_decay=0.9",
        "gradient_accumulation=2",
        "bias_correction=false",
    )
    recipe = recipe_of(words, *random_ways, *fields, "epochs=2")
    assert train(recipe, Path("whole"), silent())
    steps = json.loads(sorted(Path("whole/checkpoints").glob("*/state.json"))[-1].read_text())["step"]
    assert steps >= 8
    for stops in ([1, 2], [steps - 1]):
        folder = Path(f"run-{'-'.join(map(str, stops))}")
        for stop in stops:
            stop_after(monkeypatch, stop)
            assert not train(recipe, folder, silent(), resume=True)
        stop_after(monkeypatch, 0)
        assert train(recipe, folder, silent(), resume=True)
        assert_the_same_run(folder, Path("whole"))


def test_other_texts_are_refused_on_a_restart(words, monkeypatch):
    stories(Path("texts.txt"))
    stop_after(monkeypatch, 2)
    assert not train(recipe_of(words), Path("run"), silent())
    stories(Path("texts.txt"), seed=1)
    with pytest.raises(ValueError, match="the training samples of the texts have changed"):
        train(recipe_of(words), Path("run"), silent(), resume=True)


# Examples


def corpus_of_short_documents(share: float, documents: int = 3000) -> object:
    """So many of the documents have one sentence; the others have long sentences, which often fill a chunk alone."""
    generator = np.random.default_rng(0)
    lengths = []
    for _ in range(documents):
        count = 1 if generator.random() < share else int(generator.integers(2, 12))
        lengths.append(generator.integers(4, 40, count).tolist())
    return numbered_corpus(lengths)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_half_of_the_pairs_have_a_random_partner(share):
    corpus, frame = corpus_of_short_documents(share), Frame.bert(2, 3)
    documents = np.arange(len(corpus))
    chosen = NextPairs.balanced(corpus, frame, 64, documents).random_probability
    assert 0 < chosen < 0.5
    long = documents[np.diff(corpus.documents) > 1]
    for seed, epoch in ((1, 0), (2, 5)):
        plan = plan_pairs(corpus, frame, 64, seed, epoch, long, random_probability=chosen)
        assert abs(plan.label.mean() - 0.5) < 0.02
        assert plan_pairs(corpus, frame, 64, seed, epoch, long).label.mean() > 0.53  # with 0.5 there would be too many


def test_pairs_are_made_of_documents_that_have_two_sentences(words):
    stories(Path("texts.txt"))
    task = task_of(words)
    for share in (task.train, task.held):
        assert (np.diff(share.corpus.documents)[share.documents] > 1).all()
    packed = task_of(words, "sentences=packed")
    assert len(packed.train.documents) + len(packed.held.documents) == 60
    assert packed.train.second == ""


@pytest.mark.parametrize("sentences", ["next", "packed"])
def test_documents_set_aside_are_never_trained_on(words, sentences):
    """Every document has words of its own, and those that the model reads are looked at."""
    folder = vocabulary_of([f"w{number}" for number in range(40)], Path("numbers")) and Path("numbers")
    Path("texts.txt").write_text("".join(f"{f'W{number} w{number}. ' * 4}\n" for number in range(40)))
    task = task_of(words, f"tokenizer={folder}", f"sentences={sentences}", "batch_size=4", "masked=0.1")
    documents = {"trained": set[int](), "validated": set[int]()}
    for epoch in range(3):
        for batch in task.data(epoch, 0):
            documents["trained"] |= set(words_of(batch).tolist())
    held = task.held.examples(0)
    documents["validated"] |= set(words_of(held.batch(torch.arange(len(held)))).tolist())
    special = set(range(len(SPECIALS)))
    trained, validated = (found - special for found in documents.values())
    assert not trained & validated
    assert len(validated) == 8
    assert len(trained) > 24


def test_every_epoch_has_other_masks_and_other_examples(words):
    stories(Path("texts.txt"))
    task = task_of(words, "sentences=packed")
    index, planned = torch.arange(8), task.train.examples(0)
    first, again, later = (replace(planned, epoch=epoch).batch(index) for epoch in (0, 0, 1))
    assert first.ids.values.equal(again.ids.values)
    assert words_of(first).equal(words_of(later))
    assert not first.targets.values.equal(later.targets.values)
    epochs = [torch.cat([words_of(batch) for batch in task.data(epoch, 0)]).tolist() for epoch in (0, 1)]
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("sentences", ["next", "packed"])
def test_an_epoch_goes_on_from_any_batch(words, sentences):
    stories(Path("texts.txt"))
    task = task_of(words, f"sentences={sentences}", "batch_size=8")
    whole = list(task.data(1, 0))
    assert len(whole) == task.steps_per_epoch()
    for first in (0, 1, len(whole) - 1, len(whole)):
        rest = list(task.data(1, first))
        assert [batch.ids.values.tolist() for batch in rest] == [batch.ids.values.tolist() for batch in whole[first:]]


@pytest.mark.parametrize(
    "fields", [("sentences=next",), ("sentences=packed", "masks=ngrams"), ("packed=true", "masks=words")]
)
def test_what_is_asked_of_a_text_does_not_depend_on_others(words, fields):
    """several batches are made together"""
    stories(Path("texts.txt"))
    task = task_of(words, "batch_size=4", *fields)
    examples, made = task.train.examples(1), list(task.data(1, 0))
    assert len(made) > 8
    for batch in made:
        alone = examples.batch(batch.samples)
        assert alone.ids.values.equal(batch.ids.values)
        assert alone.targets.values.equal(batch.targets.values)
        assert alone.segments.values.equal(batch.segments.values)
        assert (alone.labels is None) == (batch.labels is None)
        assert alone.labels is None or alone.labels.equal(batch.labels)


@pytest.mark.parametrize("sentences", ["next", "packed"])
def test_a_step_of_so_many_tokens(words, sentences):
    """As many examples as they hold, and every example as long as it was said to be."""
    stories(Path("texts.txt"))
    task = task_of(words, f"sentences={sentences}", "tokens=300", "packed=true", "batch_size=3")
    batches, lengths = list(task.data(0, 0)), task.train.examples(0).lengths
    assert len(batches) == task.steps_per_epoch() > 3
    assert all(300 - int(lengths.max()) < batch.tokens <= 300 for batch in batches)
    assert all(batch.ids.lengths.equal(lengths[batch.samples]) for batch in batches)
    assert len({len(batch) for batch in batches}) > 1
    rest = list(task.data(0, 2))
    assert [batch.samples.tolist() for batch in rest] == [batch.samples.tolist() for batch in batches[2:]]


@pytest.mark.parametrize("sentences", ["next", "packed"])
def test_without_padding_the_loss_is_the_same(words, sentences):
    stories(Path("texts.txt"))
    losses, measures, gradients = [], [], []
    for rows in ("true", "false"):
        task = task_of(words, *STEADY, f"packed={rows}", f"sentences={sentences}")
        batch = next(task.data(0, 0))
        assert (batch.text.packed is not None) == (rows == "true")
        outcome = MaskedWords(task.model)(batch, batch)
        outcome.loss.backward()
        losses.append(float(outcome.loss.detach()))
        gradients.append({name: parameter.grad for name, parameter in task.model.named_parameters()})
        measures.append(judge(task.model.eval(), task.held))
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert measures[0] == pytest.approx(measures[1], abs=1e-5)
    for name, gradient in gradients[0].items():
        assert (gradient - gradients[1][name]).abs().max() < 1e-5, name


def test_the_scores_are_those_of_the_masked_words(words):
    """Against the mean over the whole held-out set, by hand."""
    stories(Path("texts.txt"))
    task = task_of(words, *STEADY)
    model = task.model.eval()
    held = task.held.examples(0)
    batch = held.batch(torch.arange(len(held)))
    with torch.no_grad():
        scores, following = model(batch.text)
    targets = batch.flat_targets[batch.flat_targets != IGNORE]
    loss = -scores.log_softmax(-1)[torch.arange(len(targets)), targets].mean()
    found = judge(model, task.held)
    parting = torch.nn.functional.cross_entropy(following, batch.labels)
    assert found["loss"] == pytest.approx(float(loss + parting), rel=1e-5)
    assert found["perplexity"] == pytest.approx(float(loss.exp()), rel=1e-5)
    assert found["accuracy"] == pytest.approx(float((scores.argmax(-1) == targets).float().mean()))
    assert found["next_accuracy"] == pytest.approx(float((following.argmax(-1) == batch.labels).float().mean()))


# Bad input


@pytest.fixture
def refused(command, words):
    """Of a pretraining: one clear message, exit code 2, nothing written."""

    def run(*fields: str) -> str:
        fixed = (*QUICK, f"tokenizer={words}", "cache=kept", *fields)
        return refusal(command, "train", "bert-pretrain", "--name", "bad", *settings(*fixed))

    return run


def test_no_texts(refused):
    assert "no texts are given: expected text=FILE" in refused()
    assert "there is no file or folder" in refused("text=nowhere.txt")


def test_a_vocabulary_without_a_mask(refused):
    stories(Path("texts.txt"))
    vocabulary_of(ALPHABET, Path("maskless"), specials=[name for name in SPECIALS if name != "[MASK]"])
    assert "the vocabulary has no [MASK]" in refused("text=texts.txt", "tokenizer=maskless")


def test_a_length_over_the_models_positions(refused):
    stories(Path("texts.txt"))
    output = refused("text=texts.txt", "length=64", "model.max_length=32")
    assert "recipe field 'length': expected at most 32, the maximum of the model, got 64" in output


def test_a_tokenizer_of_another_size_than_the_checkpoint(refused, words):
    stories(Path("texts.txt"))
    assert train(recipe_of(words, "epochs=1"), Path("m"), silent())
    vocabulary_of([f"w{number}" for number in range(300)], Path("other"))
    assert "the tokenizer does not belong to the model" in refused("text=texts.txt", "model=m", "tokenizer=other")


def test_a_model_of_images(command, words):
    stories(Path("texts.txt"))
    fields = settings("model=resnet-18", "text=texts.txt", f"tokenizer={words}", "device=cpu")
    output = refusal(command, "train", "bert-pretrain", "--name", "bad", *fields)
    assert "'resnet-18' reads images: expected a model of texts" in output


@pytest.mark.parametrize(
    ("documents", "fields", "message"),
    [
        (
            1,
            ("sentences=packed",),
            "keeps too few documents for validation: expected one document, got 0 of 1 documents",
        ),
        (1, (), "next-sentence pairs need two documents: got 1"),
        (20, ("held_out=0.01",), "held_out=0.01 keeps too few documents for validation: expected two documents"),
    ],
)
def test_too_few_documents_are_found_out_before_an_epoch_is_spent(words, documents, fields, message):
    stories(Path("texts.txt"), documents=documents, sentences=(3, 6))
    with pytest.raises(ValueError, match=message):
        train(recipe_of(words, *fields), Path("run"), silent())
    assert not Path("run").exists()


# What the family of BERT changed

TINY_SIZES = ("model.depth=1", "model.width=32", "model.heads=2", "model.hidden=64")


def test_in_order_or_exchanged(words):
    """Documents are runs of one letter in order, so that what was exchanged can be told."""
    corpus, frame = numbered_corpus([[5] * 12 for _ in range(400)]), Frame.bert(2, 3)
    plan = plan_order(corpus, frame, 32, 0, 0)
    ids, segments, labels = plan.batch(torch.arange(len(plan)))
    assert abs(labels.double().mean() - 0.5) < 0.05
    for row, parts, label in zip(range(len(ids)), range(len(ids)), labels.tolist(), strict=True):
        tokens, side = ids.row(row)[1:-1], segments.row(parts)[1:-1]
        first, second = tokens[(side == 0) & (tokens > 9)], tokens[(side == 1) & (tokens > 9)]
        assert bool(first.max() < second.min()) == (label == 0)
        assert bool(second.max() < first.min()) == (label == 1)
        assert (first.max() - 10) // 60 == (second.max() - 10) // 60  # of one document
    assert plan_order(corpus, frame, 32, 0, 1).label.tolist() != plan.label.tolist()


def test_albert_learns_order_and_ngrams(words):
    stories(Path("texts.txt"), sentences=(3, 8))
    recipe = recipe_of(words, "model=albert-base", "model.embedding=16", *TINY_SIZES, "sentences=order", "masks=ngrams")
    task = build_task(recipe, silent())
    found = judge(task.model, task.held)
    assert 0 <= found["order_accuracy"] <= 1
    assert "next_accuracy" not in found


def test_a_causal_model_is_asked_for_every_next_word(words):
    stories(Path("texts.txt"))
    task = task_of(words, "model=gpt2-small", *TINY_SIZES, "sentences=packed")
    assert task.unit == "words"
    batch = next(iter(task.data(0, 0)))
    for row in range(len(batch)):
        ids, targets = batch.ids.row(row), batch.targets.row(row)
        assert targets.tolist() == [*ids[1:].tolist(), IGNORE]
    scores = task.model(batch.text)
    assert scores.shape == (batch.weight, task.tokenizer.vocabulary)


def test_a_causal_model_learns(words):
    stories(Path("texts.txt"), documents=80)
    recipe = recipe_of(words, "model=gpt2-small", *TINY_SIZES, *STEADY, "sentences=packed", "epochs=6")
    assert train(recipe, Path("run"), silent())
    metrics = Run(Path("run")).metrics()
    assert metrics[-1]["validation_loss"] < metrics[0]["validation_loss"] - 0.3


def test_a_causal_model_takes_no_pairs(words, command):
    stories(Path("texts.txt"))
    output = refusal(
        command,
        "train",
        "bert-pretrain",
        "--set",
        "model=gpt2-small",
        *TINY_SIZES,
        "text=texts.txt",
        f"tokenizer={words}",
    )
    assert "is causal and predicts the next word" in output
    assert "sentences=packed" in output


def pairs_file(path: Path, count: int = 40) -> Path:
    """The second language has other vowels."""
    generator = random.Random(3)
    lines = []
    for _ in range(count):
        said = generator.choices(ALPHABET[:20], k=generator.randint(3, 8))
        lines.append(f"{' '.join(said)}\t{' '.join(word[0] + 'u' for word in said)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_sentence_stands_beside_its_translation(words):
    pairs_file(Path("pairs.tsv"))
    recipe = find_recipe("xlm-pretrain").with_settings(
        [
            *TINY_SIZES,
            "device=cpu",
            "length=24",
            "batch_size=8",
            f"parallel={Path('pairs.tsv').absolute()}",
            f"tokenizer={words}",
        ]
    )
    task = build_task(recipe, silent())
    batch = next(iter(task.data(0, 0)))
    assert task.train.examples(0).lengths[batch.samples].equal(batch.ids.lengths)
    text, separator = batch.text, task.tokenizer.sep
    ids, targets = batch.ids, batch.targets
    for row in range(len(batch)):
        whole = torch.where(targets.row(row) == IGNORE, ids.row(row), targets.row(row))
        length = len(whole)
        ends = (whole == separator).nonzero()[:, 0].tolist()
        assert len(ends) == 4
        assert ends[0] == 0
        assert ends[2] == ends[1] + 1
        assert ends[3] == length - 1
        assert text.languages[row, :length].tolist() == [0] * ends[2] + [1] * (length - ends[2])
        assert text.positions[row, :length].tolist() == [*range(ends[2]), *range(length - ends[2])]
    packed = replace(batch, form=replace(batch.form, packed=True)).text
    assert packed.positions[0].equal(text.positions[batch.ids.mask()])
    assert packed.languages[0].equal(text.languages[batch.ids.mask()])
    assert train(recipe.with_settings(["epochs=1", "warmup=0"]), Path("run"), silent())


def test_phrases_of_a_file_are_masked_as_wholes(words):
    stories(Path("texts.txt"), variety=3, kinds=2)
    Path("phrases.txt").write_text("aa ae\nba be bi\n", encoding="utf-8")
    task = task_of(words, "masks=units", f"units={Path('phrases.txt').absolute()}", "sentences=packed")
    first, second = (task.tokenizer.ids_of([word])[0][0] for word in ("aa", "ae"))
    seen = 0
    for batch in task.data(0, 0):
        whole, asked = words_of(batch), batch.targets.values != IGNORE
        inside = ((whole[:-1] == first) & (whole[1:] == second)).nonzero()[:, 0]
        seen += int(asked[inside].sum())
        assert asked[inside].equal(asked[inside + 1])
    assert seen > 0


def articles(path: Path, count: int = 60) -> Path:
    """The headline says which letter the words of the body begin with."""
    generator = random.Random(5)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            known = [word for word in ALPHABET if word[0] == "abcd"[number % 4]]
            body = " ".join(generator.choices(known, k=12))
            record = {"title": f"about {known[0]}", "body": body, "domain": "site.org", "authors": ["ada", "bo"]}
            file.write(json.dumps(record) + "\n")
    return path


def test_news_are_learned_field_by_field(command):
    file = articles(Path("news.jsonl"))
    assert command("tokenizer", "train", file, "--out", "words", "--kind", "news", "--vocabulary", "400")[0] == 0
    fields = (f"articles={file}", "tokenizer=words", "length=96", "batch_size=8", "device=cpu", "held_out=0.1")
    recipe = find_recipe("grover-pretrain").with_settings([*TINY_SIZES, *STEADY, *fields, "epochs=2", "warmup=0"])
    task = build_task(recipe, silent())
    tokens = FieldTokens.of(task.tokenizer)
    first, later = (task.train.examples(epoch).batch(torch.arange(32)) for epoch in (0, 1))
    assert task.train.examples(1).lengths[:32].equal(later.ids.lengths)
    starts = [int(first.ids.row(row)[0]) for row in range(32)]
    assert set(starts) <= set(tokens.begin.values())
    assert len(set(starts)) > 2  # fields in any order
    assert first.ids.values.tolist() != later.ids.values.tolist()
    assert task.unit == "words"
    code, _, complaint = command("train", "grover-pretrain", "--set", *TINY_SIZES, *STEADY, *fields, "epochs=1")
    assert code == 0, complaint
    given = ("--headline", "about aa", "--field", "body", "--tokens", "8")
    code, _, complaint = command("generate", "runs/grover-pretrain", *given)
    assert code == 0, complaint


def test_news_without_a_body_are_named_by_line(command, words):
    Path("news.jsonl").write_text('{"title": "a", "body": "b"}\n{"title": "c"}\n', encoding="utf-8")
    output = refusal(command, "tokenizer", "train", "news.jsonl", "--out", "words", "--kind", "news")
    assert "news.jsonl, line 2: no body" in output


def test_a_tokenizer_without_fields_is_refused_for_news(command, words):
    articles(Path("news.jsonl"))
    output = refusal(
        command, "train", "grover-pretrain", "--set", *TINY_SIZES, "articles=news.jsonl", f"tokenizer={words}"
    )
    assert "the tokenizer has no tokens for news fields" in output


@pytest.mark.parametrize(
    ("recipe", "model", "message"),
    [
        (
            "gpt-pretrain",
            "roberta-base",
            r"predicts masked words, but the recipe has objective=next: expected a c",
        ),
        (
            "bert-pretrain",
            "gpt2-small",
            r"predicts the next word, but the recipe has objective=masked: expected a b",
        ),
    ],
)
def test_a_model_with_another_objective_is_refused(words, recipe, model, message):
    stories(Path("texts.txt"))
    fields = [f"model={model}", *TINY_SIZES, "text=texts.txt", f"tokenizer={words}", "sentences=packed", "device=cpu"]
    masked = ["objective=masked"] if recipe == "bert-pretrain" else []
    with pytest.raises(UserError, match=message) as caught:
        build_task(find_recipe(recipe).with_settings([*fields, "length=16", *masked]), silent())
    assert "pretrains this model with its own objective" in str(caught.value)
