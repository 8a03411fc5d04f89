"""The report of a run: everything is in it, nothing outside it is needed, and nothing a user wrote can break it."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from patchword.analysis.cost import blocks_of, count
from patchword.core.card import Normalization
from patchword.data.image.images import Images, InMemory
from patchword.objectives.metrics.classification import Scores, score
from patchword.objectives.metrics.quality import Fitted
from patchword.recipes.image.evaluation import ImageEvaluation
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Expect, ModelChoice
from patchword.reports import write_report
from patchword.reports.plots import figures
from patchword.reports.plots.numbers import amount, counted, duration, shortened
from patchword.reports.run.class_results import confusing_pairs
from patchword.reports.run.costs import grouped
from patchword.reports.run.kinds import result_lines
from support.helpers import tiny
from support.pages import Page

SECTIONS = ["Result", "Learning", "Confusion", "Classes", "Most confident errors", "Attention", "Cost", "Recipe"]
HOSTILE = ["<script>alert(1)</script>", 'a" onerror="alert(1)', r"$\bill$ & more", "\udcff\x00\u202e"]


def metrics(epochs: int) -> list[dict[str, float]]:
    return [
        {"epoch": epoch, "loss": 1 / epoch, "accuracy": 0.5, "validation_loss": 2 / epoch, "seconds": 60.0 * epoch}
        | {"validation_accuracy": 0.75 if epoch >= 2 else 0.5}
        for epoch in range(1, epochs + 1)
    ]


def made(
    folder: Path, classes: tuple[str, ...], predictions: Tensor, epochs: int = 3, channels: int = 1, **fields: object
) -> tuple[Run, ImageEvaluation]:
    """A finished run in `folder`; picture i is of class i modulo the number of classes."""
    model = tiny("vit-exercise", image=(8, 16), patch=4, channels=channels, classes=len(classes))
    model.card = replace(model.card, labels=classes, normalization=Normalization((0.5,) * channels, (0.5,) * channels))
    recipe = ImageRecipe(model=ModelChoice(name="vit-exercise"), expect=Expect(accuracy=0.84), **fields)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics(epochs)))
    labels = torch.arange(len(predictions)) % len(classes)
    scores = Scores(0.25, labels, predictions, torch.linspace(0.999, 0.1, len(labels)), classes)
    held = InMemory(torch.randint(0, 256, (len(labels), channels, 8, 16), dtype=torch.uint8))
    images = Images("clothes", "a test", held, labels, classes, torch.arange(len(labels)))
    return Run(folder), ImageEvaluation(model, scores, images)


def scored(classes: int, fitted: Fitted | None = None) -> ImageEvaluation:
    """Forty images with random logits of so many classes."""
    labels, logits = torch.arange(40) % classes, torch.randn(40, classes)
    names = tuple(f"kind {number}" for number in range(classes))
    scores = score(lambda inputs: inputs, [(logits, labels, torch.empty(0))], names)
    held = InMemory(torch.zeros(40, 1, 8, 16, dtype=torch.uint8))
    model = tiny("vit-exercise", image=(8, 16), patch=4, classes=classes)
    model.card = replace(model.card, labels=names, normalization=Normalization((0.5,), (0.5,)))
    images = Images("clothes", "a test", held, labels, names, torch.arange(40))
    return ImageEvaluation(model, scores, images, fitted=fitted)


def page_of(*run: object) -> Page:
    return Page(write_report(*run).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Three classes, forty pictures; every answer is Shirt."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    folder.mkdir()
    return page_of(*made(folder, ("Shirt", "Coat", "Bag"), torch.zeros(40, dtype=torch.long)))


def test_every_section_is_there_in_order(usual: Page) -> None:
    places = [attributes["id"] for tag, attributes in usual.elements if tag == "section"]
    assert places == [title.lower().replace(" ", "-") for title in SECTIONS]
    assert [attributes["href"] for tag, attributes in usual.elements if tag == "a"] == [f"#{place}" for place in places]


def test_the_result_in_words_and_numbers(usual: Page) -> None:
    sentence = "vit-exercise reached an accuracy of 35.00% on the 40 test images of clothes after 3 epochs "
    sentence += "(3\xa0min\xa000\xa0s)."
    assert f"{sentence} The recipe expected at least 84%, which this run did not reach." in usual.text
    for number in ("14 of 40", "0.2500", "epoch 3", "Coat was predicted as Shirt 13 times (100.0% of its images)"):
        assert number in usual.text
    assert usual.text.count("lowest") == 2  # Coat and Bag, which were never recognised
    assert "--name again" in usual.text
    assert "validation: 0.1" in usual.text


def test_the_most_confident_errors_come_first_with_their_images(usual: Page) -> None:
    shown = [picture["alt"] for picture in usual.pictures() if picture["alt"].startswith("Test image")]
    assert len(shown) == 24
    assert shown[:2] == ["Test image 1: Coat, predicted Shirt", "Test image 2: Bag, predicted Shirt"]
    assert re.search(r"predicted Shirt 97\.6%,\s*true Coat", usual.text)


def test_attention_is_drawn_for_each_layer_of_different_classes(usual: Page) -> None:
    names = [picture["alt"] for picture in usual.pictures()]
    assert names.count("Attention of layer 1") == names.count("Attention of layer 2") == 3
    assert names.count("Attention rollout over the image") == 3
    assert "correct, 99.9%" in usual.text


def test_the_cost_of_a_block_is_worked_out(usual: Page) -> None:
    # 8 patches and [CLS], width 32: 3 x 9 x 32 x 32
    assert "3 × N × D × D = 3 × 9 × 32 × 32 = 27,648" in usual.text
    assert "2 encoder blocks" in usual.text
    assert "N = 9 (tokens)" in usual.text


def test_the_page_needs_nothing_else(usual: Page) -> None:
    tags = {tag for tag, _ in usual.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base"}
    for tag, attributes in usual.elements:
        for name, value in attributes.items():
            assert "http:" not in (value or ""), (tag, name)
            assert "https:" not in (value or ""), (tag, name)
            assert not name.startswith("on")
        if tag == "img":
            assert attributes["src"].startswith("data:image/")
            assert attributes["alt"]
    assert "@import" not in usual.text
    assert "url(" not in usual.text


def test_every_drawing_is_whole_and_every_table_has_a_caption(usual: Page) -> None:
    for picture in usual.pictures():
        kind, content = re.fullmatch(r"data:image/(png|svg\+xml);base64,(.+)", picture["src"]).groups()
        content = base64.b64decode(content)
        assert content.startswith(b"\x89PNG") if kind == "png" else ElementTree.fromstring(content) is not None
    tags = [tag for tag, _ in usual.elements]
    assert tags.count("table") == tags.count("caption") == 4


def test_names_that_attack_are_only_text(tmp_path: Path) -> None:
    classes = tuple(HOSTILE)
    page = page_of(*made(tmp_path, classes, torch.arange(12) // 3, about="</code><img src=x onerror=alert(1)>"))
    assert "script" not in {tag for tag, _ in page.elements}
    assert all(picture["src"].startswith("data:") for picture in page.pictures())
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert HOSTILE[0] in page.text
    assert HOSTILE[2] in page.text
    assert "\ufffd\ufffd\ufffd" in page.text
    assert "\u202e" not in page.text
    assert "</code><img src=x onerror=alert(1)>" in page.text


def test_a_run_without_mistakes(tmp_path: Path) -> None:
    run = made(tmp_path, ("Shirt", "Coat"), torch.arange(6) % 2)
    page = page_of(*run)
    assert "None: every test image was classified correctly." in page.text
    assert "No two classes were confused." in page.text
    assert "lowest" not in page.text
    assert "did not reach" not in page.text


def test_a_run_without_metrics_of_one_picture(tmp_path: Path) -> None:
    page = page_of(*made(tmp_path, ("Shirt", "Coat"), torch.tensor([1]), epochs=0))
    assert "This run has no recorded epoch." in page.text
    assert "on the 1 test image of clothes. The recipe" in page.text
    assert "All errors, the highest predicted probability first." in page.text
    assert "no test images" in page.text


def test_many_classes_in_colour(tmp_path: Path) -> None:
    classes = tuple(f"class {number}" for number in range(120))
    page = page_of(*made(tmp_path, classes, torch.arange(240) // 2 % 120, epochs=1, channels=3))
    assert "The 10 classes with the lowest test accuracy" in page.text
    assert "All 120 classes" in page.text


def test_a_model_without_attention_has_no_such_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchword.reports.run.attention.layers", lambda *_: [])
    page = page_of(*made(tmp_path, ("Shirt", "Coat"), torch.tensor([1, 1, 0])))
    assert "attention" not in [attributes["id"] for tag, attributes in page.elements if tag == "section"]


def test_the_distances_of_heads_are_drawn_behind_the_maps(tmp_path: Path) -> None:
    names = [picture["alt"] for picture in page_of(*made(tmp_path, ("Shirt", "Coat"), torch.tensor([1, 1]))).pictures()]
    assert "Attention rollout over the image" in names
    assert any(re.match(r"Mean attention distance in pixels: layer 1 \d+\.\d, layer 2", name) for name in names)


def test_nothing_half_written_is_left_when_a_figure_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path, ("Shirt", "Coat"), torch.tensor([1, 1, 0]))
    before = sorted(tmp_path.iterdir())

    def broken(*_: object) -> bytes:
        raise RuntimeError("no ink")

    monkeypatch.setattr(figures, "confusion", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        write_report(*run)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("number", [2, 10, 30, 100])
def test_the_confusion_matrix_writes_what_there_is_room_for(number: int) -> None:
    counts = torch.eye(number, dtype=torch.long) * 871
    counts[0, 1] = 129
    svg = figures.confusion(counts, [f"name {index}" for index in range(number)]).decode()
    assert (">129<" in svg) == (number <= figures.WITH_NUMBERS)
    assert ("name 1" in svg) == (number <= figures.WITH_NAMES)


def test_pairs_are_told_by_how_often_both_ways() -> None:
    counts = torch.tensor([[5, 3, 0], [4, 6, 1], [0, 0, 9]])
    sentences = [re.sub("<.*?>", "", sentence) for sentence in confusing_pairs(counts, ("a", "b", "c"))]
    assert sentences == [
        "b was predicted as a 4 times (36.4% of its images); the reverse happened 3 times.",
        "b was predicted as c 1 time (9.1% of its images); the reverse happened 0 times.",
    ]


def test_equal_blocks_are_one_row_and_nothing_is_lost() -> None:
    card = tiny("vit-exercise", image=28, patch=4, channels=1, depth=3).card
    whole = count(card)
    groups = list(grouped(whole, blocks_of(card)))
    assert [len(group) for group in groups] == [1, 3, 1]
    assert sum(part.macs for group in groups for part in group) == whole.macs
    assert sum(part.parameters for group in groups for part in group) == whole.parameters


def test_numbers_as_people_say_them() -> None:
    assert [amount(number) for number in (999, 205_066, 11_161_216, 17_563_828_224)] == [
        "999",
        "205 k",
        "11.16 M",
        "17.56 G",
    ]
    assert [duration(seconds) for seconds in (4.3, 303, 7325)] == [
        "4\xa0s",
        "5\xa0min\xa003\xa0s",
        "2\xa0h\xa002\xa0min",
    ]
    assert [counted(1, "class"), counted(2, "class"), counted(1000, "epoch")] == [
        "1 class",
        "2 classes",
        "1,000 epochs",
    ]
    assert shortened("a\nvery long name", 8) == "a\ufffdvery …"


def test_two_classes_have_a_threshold_and_a_calibration(tmp_path: Path) -> None:
    run, _ = made(tmp_path, ("a", "b"), torch.arange(4) % 2)
    found = scored(2, Fitted(temperature=1.75, threshold=0.31, examples=77))
    page = page_of(run, found)
    places = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert places.index("result") == 0
    assert places.index("classes") < places.index("threshold") < places.index("calibration")
    summary = found.summary()
    chosen, after = summary["binary"]["chosen"], summary["calibration"]["after"]
    sentence = f"a threshold of 0.310 has the best F1; on the test images it gives {100 * chosen['f1']:.2f}%"
    for text in (sentence, "fitted on the 77 validation images", "temperature 1.750", f"{100 * after['ece']:.2f}%"):
        assert text in page.text
    assert f"{summary['roc-auc']:.4f}" in page.text
    lines = result_lines(found)
    assert f"Test ROC AUC: {summary['roc-auc']:.4f}" in lines
    assert any(line.endswith(f"({100 * after['ece']:.2f}% at temperature 1.750)") for line in lines)


def test_a_temperature_that_could_not_be_fitted_is_told_as_such(tmp_path: Path) -> None:
    run, _ = made(tmp_path, ("a", "b"), torch.arange(4) % 2)
    found = scored(2, Fitted(temperature=1.0, threshold=0.31, examples=7))
    assert "The 7 validation images do not determine a temperature" in (text := page_of(run, found).text)
    assert "temperature 1.000" not in text
    assert any("the 7 validation examples do not determine one" in line for line in result_lines(found))


def test_many_classes_are_folded_and_have_top_5(tmp_path: Path) -> None:
    run, _ = made(tmp_path, ("a", "b"), torch.arange(4) % 2)
    page = page_of(run, found := scored(33))
    assert "All 33 classes" in page.text
    assert "The 10 classes with the lowest test accuracy" in page.text
    assert f"top-5 accuracy{100 * found.summary()['top5-accuracy']:.2f}%" in page.text.replace("\n", "")
    assert "no temperature was fitted" in page.text
    assert "threshold" not in [attributes["id"] for tag, attributes in page.elements if tag == "section"]


def test_a_class_without_images_is_not_the_lowest(tmp_path: Path) -> None:
    run, found = made(tmp_path, ("a", "b", "c"), torch.zeros(40, dtype=torch.long))
    labels = torch.arange(40) % 2
    scores = Scores(0.25, labels, torch.zeros(40, dtype=torch.long), torch.full((40,), 0.5), ("a", "b", "c"))
    assert page_of(run, replace(found, scores=scores)).text.count("lowest") == 1
