"""The reports of runs on texts: what each task shows, and that nothing a user wrote can break the page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from patchword.core.card import Card
from patchword.data.text.formats.conll import Sentence
from patchword.data.text.formats.squad import Answer, Question
from patchword.data.text.formats.tables import Table
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.objectives.metrics.answers import CHINESE, ENGLISH
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.quality import Fitted
from patchword.recipes.pretraining.evaluation import PretrainingEvaluation
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.task import build_task, judge
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.model import batch_format
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.task import answered
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.reports import write_report
from patchword.reports.plots.numbers import percent
from patchword.reports.run.result_lines import text_lines
from patchword.reports.run.text.answers import answer_length, question_word
from patchword.reports.run.text.attention import last_attention, words_of
from patchword.reports.run.text.lengths import whole_lengths
from patchword.reports.run.text.markup import Part, Shade, marked, shaded
from patchword.reports.run.text.masked_words import joined
from support.helpers import tiny_text
from support.pages import Page

HOSTILE = "<script>alert(1)</script>"
TEXTS = ["a fine film", "a dull plot & a dull end", "fine, fine acting", "the plot <b>thickens</b>", HOSTILE, "no end"]
PAIRS = ["a film", "the end", "acting", "a plot", "<img src=x onerror=alert(1)>", "an end"]
CLASSES = ["result", "learning", "confusion", "classes", "threshold", "most-confident-errors", "calibration"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train_on([*TEXTS, *PAIRS] * 3, vocabulary=120)


@pytest.fixture
def pieces(tmp_path: Path) -> Tokenizer:
    """A vocabulary of which one entry continues words."""
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "##fine", ",", "end"]
    (tmp_path / "vocab.txt").write_text("\n".join(entries) + "\n")
    return Tokenizer.read(tmp_path / "vocab.txt")


def table(labels: list[str], pairs: bool = False) -> Table:
    columns = {"text": TEXTS, **({"pair": PAIRS} if pairs else {}), "label": labels}
    return Table(Path("reviews.csv"), {name: name for name in columns}, columns, list(range(2, 8)))


def evaluated(
    tokenizer: Tokenizer, recipe: TextRecipe, rows: object, labels: tuple[str, ...], part: str = "validation", **fields
) -> TextEvaluation:
    """What a tiny model with random weights answers."""
    goal = task_spec_of(recipe)
    head = {"head": goal.head, "classes": goal.classes(labels)}
    model = tiny_text(vocabulary=tokenizer.vocabulary, max_length=64, **head, **fields)
    model.card = Card(model.card.model, model.card.config, labels)
    texts = goal.texts(tokenizer, rows, labels, part)
    judged = texts.judge(answered(model, texts.examples, batch_format("false", tokenizer, torch.device("cpu"))))
    scores = texts.scores(judged) if isinstance(texts, ClassSet) else None
    return TextEvaluation(model, tokenizer, texts, judged, goal.metric(labels), part, scores)


def page_of(folder: Path, recipe: Recipe, found: TextEvaluation | PretrainingEvaluation) -> Page:
    """The report of a run of two epochs, whose second was the better."""
    metric = found.metric if isinstance(found, TextEvaluation) else "accuracy"
    records = [
        {"epoch": epoch, "loss": 1 / epoch, "accuracy": 0.5, "validation_loss": 1.0, "seconds": 3.0 * epoch}
        | {f"validation_{metric}": 0.2 * epoch}
        for epoch in (1, 2)
    ]
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "data.json").write_text('{"name": "reviews.csv", "samples": 90, "fingerprint": ""}')
    return Page(write_report(Run(folder), found).read_text(encoding="utf-8"))


def sections(page: Page) -> list[str]:
    return [attributes["id"] for tag, attributes in page.elements if tag == "section"]


def classes(tokenizer: Tokenizer, recipe: TextRecipe, part: str = "validation", **fields: object) -> TextEvaluation:
    return evaluated(tokenizer, recipe, table(["bad", "good"] * 3), ("bad", "good"), part, **fields)


def test_the_report_of_a_classifier(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="data/reviews.csv", length=32)
    found = classes(tokenizer, recipe)
    page = page_of(tmp_path, recipe, found)
    assert sections(page) == [*CLASSES, "texts", "cost", "recipe"]
    right = int((found.scores.predictions == found.scores.labels).sum())
    assert (
        f"bert-tiny reached an accuracy of {100 * right / 6:.2f}% on the 6 validation texts of reviews.csv" in page.text
    )
    assert "The best epoch was chosen on these same texts" in page.text
    assert "no text is longer than the maximum of 32 tokens" in page.text
    assert "trained on 90 texts of reviews.csv" in page.text
    assert "A row is the true class of the texts" in page.text
    assert len(re.findall(r"predicted (bad|good) [\d.]+%, true (?!\1)(bad|good)", page.text)) == 6 - right > 0
    assert "image" not in page.text.split("Learning")[-1].split("Cost")[0]


def test_a_result_that_was_chosen_on_the_same_texts_is_told_as_such(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="data/reviews.csv", length=32)
    found = replace(classes(tokenizer, recipe), fitted=Fitted(temperature=1.5, threshold=0.31, examples=6))
    best = percent(found.summary()["binary"]["chosen"]["f1"])
    text = page_of(tmp_path, recipe, found).text
    assert f"It was chosen on these same texts, so {best} is too good." in text
    assert "The texts here are the same ones, so the second row is a little too good." in text
    said = "the best epoch, the temperature and the threshold were chosen on these same texts"
    assert said in text_lines(found)[-1]
    assert said in found.lines()[-1]
    other = replace(found, part="test")
    assert "these same texts" not in page_of(tmp_path, recipe, other).text
    assert not any("these same texts" in line for line in text_lines(other))


def test_what_a_user_wrote_is_only_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="data/<i>.csv", pair="pair", length=32, about="</p><script>")
    names = (HOSTILE, 'a" onerror="alert(1)')
    wrong = evaluated(tokenizer, recipe, table(list(names) * 3, pairs=True), names)
    scores = wrong.scores
    flipped = Scores(scores.loss, scores.labels, 1 - scores.labels, scores.confidence, names)
    found = TextEvaluation(wrong.model, tokenizer, wrong.texts, wrong.judged, wrong.metric, wrong.part, flipped)
    page = page_of(tmp_path, recipe, found)
    assert "script" not in {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert all(picture["src"].startswith("data:") for picture in page.pictures())
    for text in (*TEXTS, *PAIRS, *names, "data/<i>.csv"):
        assert text in page.text


def test_a_result_of_test_texts_is_told_as_such(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="reviews.csv", test="test.csv", length=32)
    page = page_of(tmp_path, recipe, classes(tokenizer, recipe, "test"))
    assert "on the 6 test texts" in page.text
    assert "these same texts" not in page.text
    assert "Best validation accuracy40.00%epoch 2" in page.text


def test_a_loss_that_training_weighs_is_told_to_be_plain_in_validation(tmp_path: Path, tokenizer: Tokenizer) -> None:
    output = "with smoothed labels, with larger weights for rare classes; validation values"
    for fields, there in (({}, False), ({"class_weights": "balanced", "label_smoothing": 0.1}, True)):
        recipe = TextRecipe(train="reviews.csv", length=32, **fields)
        page = page_of(tmp_path, recipe, classes(tokenizer, recipe))
        assert (output in page.text, "with the plain loss" in page.text) == (there, there)


def test_attention_is_that_of_the_reader_of_the_last_layer(tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="reviews.csv", length=32)
    for pool, expected in (("first", 0), ("mean", slice(None))):
        found = classes(tokenizer, recipe, pool=pool)
        seen = []
        core = found.model.encoder.blocks[-1].attention.sublayer.core
        core.recorder = None
        weights = last_attention(found.model, found.texts.examples, 1)
        core.recorder = lambda weights, *_, seen=seen: seen.append(weights)
        found.model(found.texts.examples.ids.row(1).long()[None])
        whole = seen[0][0].mean(0)
        assert torch.allclose(weights, whole[expected] if pool == "first" else whole.mean(0), atol=1e-6)
        assert float(weights.sum()) == pytest.approx(1, abs=1e-5)


def test_the_pieces_of_a_word_are_joined(pieces: Tokenizer) -> None:
    text = "fine filmfine, end"
    words = words_of(pieces, text, torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0]))
    assert [text[word.start : word.end] for word in words] == ["fine", "filmfine", ",", "end"]
    assert [word.weight for word in words] == pytest.approx([0.1, 0.5, 0.4, 0.0])
    assert [text[word.start : word.end] for word in words_of(pieces, text, torch.ones(2))] == ["fine", "film"]
    assert words_of(pieces, "", torch.ones(0)) == []


def test_shading_keeps_the_text_and_says_what_was_not_read() -> None:
    html = shaded("a <b> c", [Shade(0, 1, 1.0), Shade(2, 5, 0.5)], 100)
    assert html.count("<span") == 2
    assert re.sub("<.*?>", "", html) == "a &lt;b&gt; \N{HORIZONTAL ELLIPSIS}"
    assert "0.55)" in html
    assert shaded("abc def", [Shade(0, 3, 1.0), Shade(4, 7, 1.0)], 5).endswith("abc</span> \N{HORIZONTAL ELLIPSIS}")


def test_marks_may_overlap_and_are_shown_with_their_surroundings() -> None:
    html = marked("one two three four", [Part(4, 13, "true"), Part(8, 18, "given")])
    assert html == (
        'one <mark class="true">two </mark><mark class="true given">three</mark><mark class="given"> four</mark>'
    )
    text = "x " * 100 + "here " + "y " * 200 + "there " + "z " * 100
    start, end = text.index("here"), text.index("there")
    html = marked(text, [Part(start, start + 4, "true"), Part(end, end + 5, "given")], around=10)
    assert re.sub("<.*?>", "", html) == "… x x x x here y y y y … y y y y there z z z z …"


def test_a_long_text_is_told_and_its_first_window_shown(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="reviews.csv", length=8, stride=4)
    page = page_of(tmp_path, recipe, classes(tokenizer, recipe))
    assert re.search(r"\d texts? longer than 8 tokens, read in windows; none is truncated", page.text)
    cut = recipe.model_copy(update={"stride": 0})
    page = page_of(tmp_path, cut, classes(tokenizer, cut))
    assert re.search(r"truncated to 8 tokens \([\d.]+%\); stride=4 would read them in windows", page.text)


def test_lengths_are_those_before_anything_was_cut(tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(train="reviews.csv", pair="pair", length=8)
    found = evaluated(tokenizer, recipe, table(["bad", "good"] * 3, pairs=True), ("bad", "good"))
    ids = tokenizer.ids_of([TEXTS[1], PAIRS[1]])
    assert whole_lengths(found.texts, tokenizer)[1] == 3 + len(ids[0]) + len(ids[1]) > 8


def test_the_report_of_numbers(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(task="number", train="reviews.csv", length=32)
    found = evaluated(tokenizer, recipe, table(["0", "1", "2", "3", "4", "50"]), ())
    page = page_of(tmp_path, recipe, found)
    assert sections(page)[2:4] == ["numbers", "largest-errors"]
    said = float(found.judged.answers[5])
    assert page.text.index(f"predicted {said:.3g}, true 50: {said - 50:+.3g}") < page.text.index(", true 0:")
    assert "reached a Pearson correlation of" in page.text


def test_the_report_of_labels(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(task="labels", train="reviews.csv", length=32)
    found = evaluated(tokenizer, recipe, table(["x", "x|y", "", "y", "x", ""]), ("x", "y"))
    sure = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.1], [0.99, 0.7], [0.6, 0.1], [0.2, 0.3]])
    judged = Judged(found.judged.loss, found.judged.measures, sure)
    found = TextEvaluation(found.model, tokenizer, found.texts, judged, found.metric, found.part, None)
    page = page_of(tmp_path, recipe, found)
    assert "Of 6 validation texts, 4 have exactly the true labels (66.7%)" in page.text
    assert re.search(r"x\s*85\.7%75\.0%100\.0%3", page.text)
    assert page.text.index("has the label x, 99.0%") < page.text.index("does not have the label y, 80.0%")


def test_the_report_of_tags(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(task="tags", train="names.conll", length=32)
    labels = ("B-<b>", "I-<b>", "O")
    rows = [
        Sentence(
            ("a", "fine", "film", "of", "plot", HOSTILE, "end"), ("O", "B-<b>", "I-<b>", "O", "O", "B-<b>", "O"), 1
        ),
        Sentence(("no", "end"), ("O", "B-<b>"), 9),
    ]
    found = evaluated(tokenizer, recipe, rows, labels)
    said = [["O", "B-<b>", "O", "O", "O", "O", "O"], ["O", "B-<b>"]]
    judged = Judged(0.5, {"f1": 0.5, "accuracy": 7 / 9}, said)
    found = TextEvaluation(found.model, tokenizer, found.texts, judged, "f1", "validation", None)
    page = page_of(tmp_path, recipe, found)
    assert sections(page)[2:5] == ["kinds-of-spans", "tags", "confusions"]
    assert re.search(r"<b>\s*40\.0%50\.0%33\.3%3", page.text)  # one of two predicted spans, of three
    assert re.search(r"B-<b>\s*80\.0%100\.0%66\.7%3", page.text)
    assert "7 of 9 have the correct tag" in page.text
    assert "I-<b> predicted as O 1 time 100.0% of its words" in page.text
    marks = [attributes["class"] for tag, attributes in page.elements if tag == "mark"]
    assert marks == ["wrong", "wrong"]
    assert "script" not in {tag for tag, _ in page.elements}


def questions() -> list[Question]:
    context = "The plot of the film <b>thickens</b> in the end ."
    return [
        Question("1", "How does the film go?", context, (Answer("thickens", 24),), "", False),
        Question("2", f"What {HOSTILE}", context, (Answer("the plot", None), Answer("film", 16)), "", False),
        Question("3", "Name it", context, (), "", True),
    ]


def test_the_report_of_answers(tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = TextRecipe(task="span", train="questions.json", length=64, stride=16)
    found = evaluated(tokenizer, recipe, questions(), ())
    page = page_of(tmp_path, recipe, found)
    assert sections(page)[2:4] == ["answers", "most-confident-errors"]
    for word in ("how", "what", "other", "no answer", "F1, questions without an answer"):
        assert word in page.text
    assert "3 validation questions" in page.text
    assert "script" not in {tag for tag, _ in page.elements}
    assert "<b>thickens</b>" in page.text.split("Most confident errors")[-1]


def test_questions_are_grouped_by_what_they_ask() -> None:
    how, what, name = questions()
    assert [question_word(question) for question in (how, what, name)] == ["how", "what", "other"]
    assert question_word(Question("", "By how much did it grow?", "", (), "", False)) == "how many"
    assert [answer_length(question, ENGLISH) for question in (how, what, name)] == ["1", "1", "no answer"]
    assert answer_length(Question("", "", "", (Answer("四个字长", None),), "", False), CHINESE) == "3 to 5"


def test_the_report_of_pretraining(tmp_path: Path, tokenizer: Tokenizer) -> None:
    sentence = "the plot thickens and the film goes on to the end with a fine & dull <script> acting ."
    (tmp_path / "texts.txt").write_text("\n\n".join([f"{sentence}\n{sentence}"] * 30))
    tokenizer.save(tmp_path / "words")
    recipe = PretrainingRecipe.model_validate(
        {"model": {"name": "bert-tiny", "width": 32, "heads": 2, "depth": 1, "hidden": 32, "max_length": 64}}
        | {"text": [str(tmp_path / "texts.txt")], "tokenizer": str(tmp_path / "words"), "length": 64}
        | {"held_out": 0.2, "cache": str(tmp_path / "cache"), "device": "cpu", "documents": "blank"}
    )
    task = build_task(recipe, Console(quiet=True))
    task.model.eval()
    page = page_of(tmp_path, recipe, PretrainingEvaluation(task.model, judge(task.model, task.held), task))
    assert sections(page) == ["learning", "masked-tokens", "corpus", "cost", "recipe"]
    assert re.search(r"Held-out next-sentence accuracy[\d.]+%50% is chance", page.text)
    assert re.search(r"documents\s*30", page.text)
    assert re.search(r"held-out documents\s*6", page.text)
    gaps = [attributes for tag, attributes in page.elements if tag == "mark" and attributes["class"] == "gap"]
    assert len(gaps) >= 6
    assert "script" not in {tag for tag, _ in page.elements}


def test_pieces_are_put_together_again(pieces: Tokenizer) -> None:
    ids = torch.from_numpy(pieces.ids_of(["a filmfine end"])[0])
    text, spans = joined(pieces, ids)
    assert text == "a filmfine end"
    assert [text[start:end] for start, end in spans] == ["a", "film", "fine", "end"]
