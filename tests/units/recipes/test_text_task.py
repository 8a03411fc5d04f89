"""Fine-tuning on texts, from files to a scored run: every task learns, restarts exactly, and refuses bad input."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch

from patchword.core.files import read_json
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.objectives.metrics.quality import Fitted
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate, evaluated
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.text.data import Parts, held_out, read_parts
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.recipe import TextTaskName
from patchword.recipes.text.tasks.all_tasks import TEXT_TASKS, task_spec_of
from patchword.recipes.text.tasks.table_sets import merged
from patchword.recipes.train import build_task, train
from support.material import settings, silent, without_sets
from support.tiny_texts import (
    QUICK,
    asked,
    assert_the_same_run,
    refusal,
    stop_after,
    vocabulary_of,
    write_conll,
    write_questions,
    write_table,
)

FILLER = ("the", "film", "was", "seen", "by", "a", "man", "who", "sat", "near", "my", "old", "friend", "on", "day")
CITIES = ("paris", "london", "rome")
COLOURS = ("red", "green", "blue")
NUMBERS = ("one", "two", "three", "four", "five")
NAMES = {
    "ada": "B-PER",
    "lovelace": "I-PER",
    "lives": "O",
    "in": "O",
    "paris": "B-LOC",
    "sleeps": "O",
    "london": "B-LOC",
}
WORDS = [*FILLER, "good", "bad", "where", "lived", *CITIES, *COLOURS, *NUMBERS, *NAMES]
STEADY = ("model.dropout=0", "model.attention_dropout=0", "model.pool=mean")  # learns in seconds
LEARN = (*QUICK, *STEADY, "learning_rate=1e-2", "batch_size=8", "length=24")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and a machine without sets."""
    monkeypatch.chdir(tmp_path)
    without_sets(monkeypatch, tmp_path / "data")


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> Path:
    """A tokenizer learned from all the words below."""
    folder = tmp_path_factory.mktemp("tokenizer")
    Tokenizer.train_on([" ".join(WORDS)] * 3, vocabulary=200).save(folder)
    return folder


def sentence(generator: random.Random, *known: str) -> str:
    """The known words somewhere among others."""
    text = [*generator.sample(FILLER, generator.randint(2, 8)), *known]
    generator.shuffle(text)
    return " ".join(text)


def opinions(path: Path, count: int = 64, seed: int = 0) -> Path:
    generator = random.Random(seed)
    rows = [(sentence(generator, word), word) for word in ("good", "bad") * (count // 2)]
    return write_table(path, rows)


def trained(recipe: Recipe) -> tuple[Path, TextEvaluation]:
    folder = Path("runs/run")
    assert train(recipe, folder, silent())
    found = evaluate(Run(folder), "cpu")
    assert isinstance(found, TextEvaluation)
    written = read_json(folder / "evaluation.json")
    assert written == json.loads(json.dumps(found.summary()))
    assert {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt"} <= {p.name for p in folder.iterdir()}
    return folder, found


def tuned(recipe: str, words: Path, *fields: str) -> Recipe:
    return find_recipe(recipe).with_settings([*LEARN, f"tokenizer={words}", *fields])


def parts_of(recipe: Recipe) -> Parts:
    return read_parts(task_spec_of(recipe))


# Every task learns


def test_every_task_that_a_recipe_can_name_has_its_goal():
    assert set(TEXT_TASKS) == set(get_args(TextTaskName))


def test_classes_are_learned_and_scored_on_the_test_file(words):
    train_file, test = opinions(Path("train.csv"), count=120), opinions(Path("test.csv"), count=40, seed=1)
    recipe = tuned(
        "classify-text",
        words,
        f"train={train_file}",
        f"test={test}",
        "epochs=6",
        "class_weights=balanced",
        "validation=0.25",
    )
    folder, found = trained(recipe)
    assert found.judged.measures["accuracy"] > 0.9
    assert found.judged.measures.keys() == {"accuracy", "f1", "matthews"}
    assert (found.part, found.metric, found.texts.labels) == ("test", "accuracy", ("bad", "good"))
    assert len(found.texts.examples) == 40
    assert found.judged.answers.sum(-1).allclose(torch.ones(40))
    assert Run(folder).model().card.labels == ("bad", "good")
    assert any("accuracy" in line.lower() for line in found.lines())
    best = max(record["validation_accuracy"] for record in Run(folder).metrics())
    assert best > 0.9


def test_temperature_and_threshold_are_fitted_on_the_validation_texts_of_the_best_epoch(words):
    files = [
        opinions(Path(name), count=60, seed=seed) for seed, name in enumerate(("train.csv", "held.csv", "test.csv"))
    ]
    train_file, held, test = files
    recipe = tuned("classify-text", words, f"train={train_file}", f"validation={held}", f"test={test}", "epochs=3")
    folder, found = trained(recipe)
    on_validation = evaluated(Run(folder), recipe.with_settings([f"test={held}"]), "cpu")
    wanted = Fitted.of(on_validation.scores)
    assert found.fitted.temperature == pytest.approx(wanted.temperature, rel=1e-4)
    assert found.fitted.threshold == pytest.approx(wanted.threshold, abs=1e-4)
    assert found.fitted.examples == 60
    summary = found.summary()
    assert summary["calibration"]["temperature"] == found.fitted.temperature
    assert summary["binary"]["positive"] == "good"


def test_without_a_test_file_the_validation_texts_are_told_as_such(words):
    folder, found = trained(tuned("classify-text", words, f"train={opinions(Path('train.csv'))}", "epochs=2"))
    assert found.part == "validation"
    assert "the best epoch, the temperature and the threshold were chosen on these same texts" in found.lines()[-1]
    best = max(record["validation_accuracy"] for record in Run(folder).metrics())
    assert found.judged.measures["accuracy"] == pytest.approx(best)


def test_pairs_are_learned(words):
    generator = random.Random(0)
    rows = [(sentence(generator), sentence(generator, word), word) for word in ("good", "bad") * 32]
    table = write_table(Path("pairs.csv"), rows, ("text", "other", "label"))
    _, found = trained(tuned("classify-text", words, f"train={table}", "pair=other", "epochs=5", "length=32"))
    assert found.judged.measures["accuracy"] > 0.8
    assert int(found.texts.examples.segments.values.max()) == 1


def test_several_labels_are_learned(words):
    generator = random.Random(0)
    chosen = [[colour for colour in COLOURS if generator.random() < 0.5] for _ in range(80)]
    table = write_table(Path("train.csv"), [(sentence(generator, *row), "|".join(row)) for row in chosen])
    _, found = trained(tuned("classify-text", words, "task=labels", f"train={table}", "epochs=8"))
    assert found.texts.labels == ("blue", "green", "red")
    assert found.judged.measures["multilabel-f1-micro"] > 0.75
    assert found.metric == "multilabel-f1-micro"


def test_a_number_is_learned(words):
    generator = random.Random(0)
    rows = [(sentence(generator, NUMBERS[number % 5]), 1 + number % 5) for number in range(80)]
    table = write_table(Path("train.csv"), rows)
    _, found = trained(tuned("classify-text", words, "task=number", f"train={table}", "epochs=8"))
    assert found.judged.measures["pearson"] > 0.8
    assert found.judged.answers.shape == (8,)


@pytest.mark.parametrize("rows", ["true", "false"])
def test_tags_are_learned(words, rows):
    generator = random.Random(0)
    lines = []
    for _ in range(60):
        name = ["ada", "lovelace"][: generator.randint(1, 2)]
        verb = ["lives", "in"] if generator.random() < 0.5 else ["sleeps", "in"]
        lines.append([(word, NAMES[word]) for word in [*name, *verb, generator.choice(["paris", "london"])]])
    recipe = tuned("tag", words, f"train={write_conll(Path('names.conll'), lines)}", "epochs=4", f"packed={rows}")
    _, found = trained(recipe)
    assert found.judged.measures.keys() == {"accuracy", "f1", "precision", "recall"}
    assert found.judged.measures["f1"] > 0.9
    assert found.metric == "f1"
    assert [len(tags) for tags in found.judged.answers] == [len(line.words) for line in found.texts.sentences]


def places(count: int) -> list[tuple[str, list[dict[str, object]]]]:
    generator = random.Random(0)
    found = []
    for number in range(count):
        city = generator.choice(CITIES)
        context = sentence(generator, city)
        found.append((context, [asked(number, "where lived ada", city, context.find(city))]))
    return found


def test_answers_are_found(words):
    file = write_questions(Path("questions.json"), places(60))
    _, found = trained(tuned("squad", words, f"train={file}", "epochs=6", "length=16", "stride=4"))
    assert found.judged.measures["exact"] > 0.8
    assert found.metric == "f1"
    contexts = [question.context for question in found.texts.windows.questions]
    answers = [answer.answer() for answer in found.judged.answers]
    assert all(answer.text in context for answer, context in zip(answers, contexts, strict=True))


def test_a_task_of_glue_is_learned(words):
    folder = Path("glue/SST-2")
    folder.mkdir(parents=True)
    for part, count in (("train", 48), ("dev", 20)):
        generator = random.Random(count)
        rows = [f"{sentence(generator, word)} \t{int(word == 'good')}" for word in ("good", "bad") * (count // 2)]
        (folder / f"{part}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    _, found = trained(tuned("glue-sst2", words, "train=glue", "epochs=6"))
    assert found.texts.labels == ("negative", "positive")
    assert found.judged.measures["accuracy"] > 0.8
    assert len(found.texts.examples) == 20


def test_windows_read_what_cutting_off_would_miss(words):
    """The word that decides stands behind the limit."""
    generator = random.Random(0)
    rows = [(" ".join([*generator.choices(FILLER, k=12), word]), word) for word in ("good", "bad") * 32]
    table = write_table(Path("train.csv"), rows)
    fields = (f"train={table}", "length=10", "stride=6", "epochs=6")
    found = build_task(tuned("classify-text", words, *fields), silent())
    assert (found.train.examples.windowed, found.train.examples.shortened) == (len(found.train.truth), 0)
    _, windowed = trained(tuned("classify-text", words, *fields))
    assert windowed.judged.measures["accuracy"] > 0.8
    assert len(windowed.judged.answers) == len(windowed.texts.truth)  # one for each row, not for each window


def test_the_scores_of_windows_are_averaged():
    scores = torch.tensor([[1.0, 3.0], [5.0, 5.0], [2.0, 0.0], [3.0, 1.0]])
    assert merged(scores, torch.tensor([0, 1, 1, 0]), 2).tolist() == [[2.0, 2.0], [3.5, 2.5]]


def test_a_text_in_many_windows_counts_once(words):
    table = write_table(Path("train.csv"), [("good " * 500, "a"), ("good " * 20, "a"), *[("bad day", "b")] * 8])
    fields = (f"train={table}", f"validation={table}", "length=10")
    console = silent()
    task = build_task(tuned("classify-text", words, *fields, "stride=8"), console)
    examples = task.train.examples
    totals = torch.zeros(len(task.train.truth)).index_add(0, examples.owner, examples.loss_weights)
    assert totals.allclose(totals[:1].expand_as(totals))
    assert float(examples.loss_weights.mean()) == pytest.approx(1)
    assert "2 longer than 10 are split into 66 windows" in " ".join(console.file.getvalue().split())
    assert len(examples) == 66 + 8
    assert build_task(tuned("classify-text", words, *fields), silent()).train.examples.loss_weights is None


def test_what_becomes_of_long_and_unknown_texts_is_told(words):
    rows = [(f"the good {number} " * 30, "good") for number in range(10)]
    rows += [("the bad 北 " + "bad " * number, "bad") for number in range(10)]
    table = write_table(Path("train.csv"), [*rows, ("nothing", "Bad"), rows[0]])
    console = silent()
    build_task(tuned("classify-text", words, f"train={table}"), console)
    output = " ".join(console.file.getvalue().split())
    assert re.search(r"3 classes: bad \d+, Bad \d, good \d+|3 classes: Bad \d, bad \d+, good \d+", output)
    assert re.search(r"labels that differ only in case or number format: (bad, Bad|Bad, bad)", output)
    assert "longer than 24 are truncated (stride=... splits them into windows)" in output
    assert "of the tokens are unknown" in output


def test_a_trained_model_is_fine_tuned_further(words):
    """model=FOLDER brings its own tokenizer and weights; its head is replaced."""
    trained(tuned("classify-text", words, f"train={opinions(Path('train.csv'))}", "epochs=1"))
    generator = random.Random(0)
    table = write_table(Path("colours.csv"), [(sentence(generator, colour), colour) for colour in COLOURS * 10])
    fields = ("model=runs/run", f"train={table}", "device=cpu", "epochs=1", "length=16")
    found = build_task(find_recipe("classify-text").with_settings(fields), silent())
    before = Run(Path("runs/run")).model()
    assert found.model.embedding.words.weight.equal(before.embedding.words.weight)
    assert found.model.head.linear.weight.shape == (3, 32)
    assert found.model.card.labels == ("blue", "green", "red")


# Validation texts


def test_validation_texts_are_set_aside_whatever_the_seed(words):
    table = opinions(Path("train.csv"), count=100)
    parts = [
        parts_of(tuned("classify-text", words, f"train={table}", "validation=0.2", f"seed={seed}")) for seed in (0, 1)
    ]
    assert parts[0].validation.lines == parts[1].validation.lines
    assert len(parts[0].validation) == 20
    assert set(parts[0].train.lines) | set(parts[0].validation.lines) == set(range(2, 102))
    assert not set(parts[0].train.lines) & set(parts[0].validation.lines)


def test_questions_over_one_article_stay_together(words):
    articles = [(context, [qa, {**qa, "id": qa["id"] + "again"}]) for context, (qa,) in places(30)]
    file = write_questions(Path("questions.json"), articles)
    parts = parts_of(tuned("squad", words, f"train={file}", "validation=0.3"))
    aside, kept = ({question.article for question in rows} for rows in (parts.validation, parts.train))
    assert not aside & kept
    assert (len(aside), len(kept)) == (9, 21)
    assert len(parts.validation) == 18


def test_a_share_of_each_class_is_set_aside(words):
    generator = random.Random(0)
    counts = {"good": 100, "bad": 35, "rare": 5, "only": 1}
    rows = [(f"{sentence(generator)} {number}", name) for name, count in counts.items() for number in range(count)]
    generator.shuffle(rows)
    parts = parts_of(tuned("classify-text", words, f"train={write_table(Path('t.csv'), rows)}", "validation=0.2"))
    aside = parts.validation.columns["label"]
    assert {name: aside.count(name) for name in counts} == {"good": 20, "bad": 7, "rare": 1, "only": 0}
    assert parts.labels == ("bad", "good", "only", "rare")


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_what_is_set_aside_is_a_share_of_all_and_leaves_some_of_each(share):
    sizes = [1, 2, 3, 3, 3, 8, 41]
    strata = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    aside = held_out(torch.arange(len(strata)), strata, share)
    counts = [int(aside[strata == number].sum()) for number in range(len(sizes))]
    assert all(count < size for count, size in zip(counts, sizes, strict=True))
    assert all(abs(count - size * share) <= 1 for count, size in zip(counts, sizes, strict=True))
    assert sum(counts) == round(61 * share) or share == 0.9  # then some of each are all that can be left


def test_one_text_cannot_be_parted(words):
    table = write_table(Path("train.csv"), [("good", 1)])
    with pytest.raises(ValueError, match="too few texts to keep any for validation"):
        parts_of(tuned("classify-text", words, "task=number", f"train={table}"))


# Restarts


DROPOUT = ("model.dropout=0.1", "model.attention_dropout=0.1")
RANDOM = (
    *QUICK,
    *DROPOUT,
    "learning_rate=5e-3",
    "batch_size=8",
    "length=24",
    "epochs=2",
    "ema_decay=0.9",
    "bias_correction=false",
)


def restartable(words: Path, *fields: str) -> Recipe:
    """With dropout, an average, rates by layer, several pieces a batch and a batch left over."""
    table = opinions(Path("train.csv"), count=50)
    chosen = [
        *RANDOM,
        "layer_decay=0.8",
        "gradient_accumulation=3",
        "label_smoothing=0.1",
        f"train={table.absolute()}",
        f"tokenizer={words}",
        *fields,
    ]
    return find_recipe("classify-text").with_settings(chosen)


@pytest.mark.parametrize("rows", ["false", "true"])
def test_a_restarted_run_is_the_same_bit_by_bit(words, monkeypatch, rows):
    recipe = restartable(words, f"packed={rows}")
    assert train(recipe, Path("whole"), silent())
    steps = json.loads(sorted(Path("whole/checkpoints").glob("*/state.json"))[-1].read_text())["step"]
    assert steps == 10
    for stops in ([3, 4], [9]):
        folder = Path(f"run-{'-'.join(map(str, stops))}")
        for stop in stops:
            stop_after(monkeypatch, stop)
            assert not train(recipe, folder, silent(), resume=True)
        stop_after(monkeypatch, 0)
        assert train(recipe, folder, silent(), resume=True)
        assert_the_same_run(folder, Path("whole"))


def test_balanced_sampling_draws_every_class_equally_often_and_restarts_exactly(words, monkeypatch):
    rows = [
        (f"the film was {'bad' if number % 10 else 'good'} on day {number}", number % 10 > 0) for number in range(80)
    ]
    data = f"train={write_table(Path('rare.csv'), rows).absolute()}"
    recipe = restartable(words, data, "sampling=balanced")
    task = build_task(recipe, silent())
    drawn = torch.cat([batch.labels for batch in task.data(0, 0)])
    assert drawn.bincount().tolist() == [len(drawn) // 2] * 2
    assert len(drawn) == len(task.train.examples) == task.samples()["training"]
    assert train(recipe, Path("whole"), silent())
    stop_after(monkeypatch, 5)
    assert not train(recipe, Path("parts"), silent(), resume=True)
    stop_after(monkeypatch, 0)
    assert train(recipe, Path("parts"), silent(), resume=True)
    assert_the_same_run(Path("parts"), Path("whole"))


def test_another_seed_gives_another_run(words):
    assert train(restartable(words), Path("one"), silent())
    assert train(restartable(words, "seed=1"), Path("two"), silent())
    assert (Path("one/model.safetensors")).read_bytes() != (Path("two/model.safetensors")).read_bytes()


def test_other_training_texts_are_refused(words, monkeypatch):
    recipe = restartable(words)
    stop_after(monkeypatch, 2)
    assert not train(recipe, Path("run"), silent())
    opinions(Path("train.csv"), count=50, seed=9)
    with pytest.raises(ValueError, match=r"the training samples of train\.csv have changed"):
        train(recipe, Path("run"), silent(), resume=True)


# Bad input


@pytest.fixture
def refused(command, words):
    """Of a training of this recipe: one clear message, exit code 2, nothing written."""

    def run(*fields: str, recipe: str = "classify-text") -> str:
        return refusal(command, "train", recipe, "--name", "bad", *settings(*LEARN, f"tokenizer={words}", *fields))

    return run


def test_a_missing_column(refused):
    table = write_table(Path("train.csv"), [("good", "a")], ("review", "sentiment"))
    output = refused(f"train={table}", "text=reviw", "label=sentiment")
    assert "train.csv, line 1: there is no column 'reviw' for the text" in output
    assert "'review'" in output


def test_an_empty_text(refused):
    table = write_table(Path("train.csv"), [("good", "a"), ("  ", "b"), ("bad", "a")])
    assert "train.csv, line 3, column 'text': the text is empty" in refused(f"train={table}")


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_label_that_training_has_not_seen(refused, part):
    opinions(Path("train.csv"))
    write_table(Path("other.csv"), [("good", "good"), ("bad", "baad")])
    output = refused("train=train.csv", f"{part}=other.csv")
    assert "other.csv, line 3, column 'label': the label 'baad' is not one of the known labels" in output
    assert "did you mean 'bad'" in output


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_tag_that_training_has_not_seen(refused, part):
    write_conll(Path("train.conll"), [[("ada", "B-PER"), ("lives", "O")]] * 10)
    write_conll(Path("other.conll"), [[("ada", "B-PER")], [("ada", "B-ORG")]])
    output = refused("train=train.conll", f"{part}=other.conll", recipe="tag")
    assert "other.conll, line 3, column 2, word 'ada': the tag 'B-ORG' is not one of the known tags" in output


def test_broken_utf8(refused):
    Path("train.csv").write_bytes(b"text,label\ngood,a\nb\xff,b\n")
    assert "train.csv, line 3, byte 2: this is not UTF-8" in refused("train=train.csv")


def test_unequal_columns_of_conll(refused):
    Path("train.conll").write_text("ada B-PER\nlives O\nin\n")
    output = refused("train=train.conll", recipe="tag")
    assert "train.conll, line 3: wrong number of columns: expected 2 columns as on line 1, got 1" in output


def test_a_training_answer_that_is_not_in_its_context(refused):
    found = places(20)
    for _, (qa,) in found:
        qa["answers"] = [{"text": "berlin", "answer_start": 3}]
    output = refused(f"train={write_questions(Path('train.json'), found)}", "length=16", recipe="squad")
    assert "train.json, question '" in output
    assert "no answer to train on: expected an answer that is in its context" in output
    assert "'berlin'" in output


def test_a_validation_answer_that_is_not_in_its_context_is_scored(words):
    found = places(10)
    file = write_questions(Path("train.json"), found)
    other = write_questions(Path("other.json"), [("the man", [asked(1, "where lived ada", "paris", 0)])])
    task = build_task(tuned("squad", words, f"train={file}", f"validation={other}", "length=16"), silent())
    assert task.held.examples.labels.tolist() == [[0, 0]]


@pytest.mark.parametrize("extra", [1, 200])
def test_a_tokenizer_of_another_size_than_the_checkpoint(refused, words, extra):
    assert train(tuned("classify-text", words, f"train={opinions(Path('train.csv'))}", "epochs=1"), Path("m"), silent())
    entries = Path("m/vocab.txt").read_text().splitlines()
    vocabulary_of([*entries, *(f"##{number}" for number in range(extra))], Path("other"), specials=())
    output = refused("train=train.csv", "model=m", "tokenizer=other")
    assert "the tokenizer does not belong to the model" in output
    assert f"expected a vocabulary of {len(entries):,}, got {len(entries) + extra:,}" in output


def test_a_vocabulary_too_small_for_the_tokenizer(refused):
    opinions(Path("train.csv"))
    assert "the tokenizer does not belong to the model bert-tiny" in refused("train=train.csv", "model.vocabulary=20")


def test_a_length_over_the_models_positions(refused):
    opinions(Path("train.csv"))
    output = refused("train=train.csv", "length=40", "model.max_length=32")
    assert "recipe field 'length': expected at most 32, the maximum of the model, got 40" in output


def test_an_unknown_task_of_glue(refused):
    Path("glue").mkdir()
    assert "GLUE has no task 'sst3' did you mean 'sst2'" in refused("train=glue", "glue=sst3")
    assert "glue has no folder SST-2" in refused("train=glue", recipe="glue-sst2")


def test_an_unknown_metric(refused):
    opinions(Path("train.csv"))
    output = refused("train=train.csv", "metric=bleu")
    assert "this task is not scored by 'bleu': expected accuracy or f1 or matthews" in output


@pytest.mark.parametrize("recipe", ["classify-text", "tag", "squad", "glue-mrpc"])
def test_a_recipe_without_texts(refused, recipe):
    assert "no training texts are given: expected train=FILE e.g. train=" in refused(recipe=recipe)


def test_files_that_are_not_there(refused):
    opinions(Path("train.csv"))
    assert "there is no file nowhere.csv: expected the train texts" in refused("train=nowhere.csv")
    for part in ("validation", "test"):
        output = refused("train=train.csv", f"{part}=nowhere.csv")
        assert f"there is no file nowhere.csv: expected the {part} texts" in output


@pytest.mark.parametrize("share", ["0", "1.5", "1", "-0.1", "nan"])
def test_a_share_that_is_none(refused, share):
    opinions(Path("train.csv"))
    output = refused("train=train.csv", f"validation={share}")
    assert "recipe field 'validation': expected a file, or a fraction between 0 and 1" in output


def test_one_class_only(refused):
    table = write_table(Path("train.csv"), [("good", "a")] * 10)
    assert "train.csv have the same label: expected at least two classes, got a" in refused(f"train={table}")


def test_no_labels_at_all(refused):
    table = write_table(Path("train.csv"), [("good", "")] * 10)
    assert "train.csv has a label: expected labels such as a|b" in refused(f"train={table}", "task=labels")


def test_a_number_that_is_none(refused):
    table = write_table(Path("train.csv"), [("good", "1")] * 9 + [("bad", "many")])
    output = refused(f"train={table}", "task=number")
    assert "train.csv, line 11, column 'label': expected a finite number, got 'many'" in output


def test_a_model_of_images_in_a_recipe_of_texts(command, words):
    opinions(Path("train.csv"))
    fields = settings("model=vit-tiny-16", "train=train.csv", f"tokenizer={words}", "device=cpu")
    output = refusal(command, "train", "classify-text", "--name", "bad", *fields)
    assert "'vit-tiny-16' reads images: expected a model of texts" in output


def test_a_model_of_texts_in_a_recipe_of_images(command):
    output = refusal(command, "train", "digits-vit", "--name", "bad", *settings("model=bert-tiny", "device=cpu"))
    assert "'bert-tiny' reads texts: expected a model of images" in output


def test_a_name_without_a_tokenizer(command):
    opinions(Path("train.csv"))
    output = refusal(command, "train", "classify-text", "--name", "bad", *settings("train=train.csv", "device=cpu"))
    assert "'bert-mini' needs a tokenizer: expected tokenizer=FOLDER" in output


def test_ignored_tokens_are_never_scored(words):
    """The accuracy of tags is over words; pieces that continue a word are not asked."""
    lines = [[("lovelace", "B-PER"), ("filmsawman", "O")]] * 12
    task = build_task(tuned("tag", words, f"train={write_conll(Path('t.conll'), lines)}"), silent())
    targets = task.train.examples.targets.values
    assert int((targets != IGNORE).sum()) == 2 * len(task.train.sentences)
    assert len(targets) > 4 * len(task.train.sentences)  # [CLS], [SEP] and a word each would be 4


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (["pair=label", "stride=8"], "stride"),
        (["task=number", "class_weights=balanced"], "class_weights"),
        (["task=labels", "sampling=balanced"], "sampling"),
        (["task=labels", "label_smoothing=0.1"], "label_smoothing"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value),
)
def test_a_setting_that_would_do_nothing(refused, fields, field):
    write_table(Path("train.csv"), [("good", "1"), ("bad", "0")] * 10)
    assert f"recipe field {field!r} has no effect here" in refused("train=train.csv", *fields)


def test_a_setting_of_columns_with_glue(refused):
    folder = Path("glue/CoLA")
    folder.mkdir(parents=True)
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("a\t1\t\tIt rains.\na\t0\t*\tIt rain.\n")
    assert "recipe field 'text' has no effect here" in refused("train=glue", "text=sentence", recipe="glue-cola")


def test_a_task_of_glue_is_what_it_is(words, refused):
    folder = Path("glue/STS-B")
    folder.mkdir(parents=True)
    rows = ["sentence1\tsentence2\tscore", *(f"it rains {number}\tit pours\t{number % 5}" for number in range(9))]
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text("\n".join(rows) + "\n")
    task = build_task(tuned("classify-text", words, "train=glue", "glue=stsb"), silent())
    assert (task.metric, task.model.card.config["classes"]) == ("spearman", 1)
    assert "recipe field 'task' has no effect here" in refused("train=glue", "glue=stsb", "task=tags")


@pytest.mark.slow
def test_ten_megabytes_in_one_cell_do_not_exhaust_memory(words):
    """In a process of its own, whose memory at its highest is asked for."""
    write_table(Path("train.csv"), [("good " * 2_000_000, "a"), ("bad", "b")])
    code = f"""
import resource
from pathlib import Path
from patchword.data.text.batching.assembly import Limit, sentences
from patchword.data.text.formats.tables import read_table
from patchword.data.text.tokenizers.tokenizer import Tokenizer
tokenizer = Tokenizer.read(Path({str(words)!r}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = read_table(Path("train.csv"), {{"text": "text", "label": "label"}})
examples = sentences(tokenizer, "long", table.columns["text"], None, Limit(128))
assert (len(examples), examples.shortened) == (2, 1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700 * 1024  # KiB; the text alone is 10 MB, its tokens 8 MB


def test_equal_texts_stay_on_one_side_of_the_split():
    texts = [f"text {number % 15}" for number in range(60)]
    write_table(Path("train.csv"), [(text, "ab"[number % 2]) for number, text in enumerate(texts)])
    recipe = find_recipe("classify-text").with_settings(["train=train.csv", "validation=0.2"])
    parts = parts_of(recipe)
    learned, aside = (set(part.columns["text"]) for part in (parts.train, parts.validation))
    assert not learned & aside
    assert (len(learned), len(aside)) == (12, 3)


def test_a_column_of_names_is_not_one_of_classes(refused):
    write_table(Path("train.csv"), [(f"text {number}", f"id {number}") for number in range(20)])
    assert "every text of" in refused("train=train.csv")


def test_a_run_that_kept_nothing_may_be_begun_anew(words):
    table = opinions(Path("train.csv"))
    folder = Path("runs/run")
    folder.mkdir(parents=True)
    recipe = tuned("classify-text", words, f"train={table}", "epochs=1")
    (folder / "recipe.yaml").write_text(recipe.with_settings(["learning_rate=1e9"]).to_yaml())
    assert train(recipe, folder, silent())
