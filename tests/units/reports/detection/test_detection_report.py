"""The report of a detector: its numbers, figures and images, and nothing a user wrote can break it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from patchword.layers.dense.anchor_detector import AnchorDetector
from patchword.models.detection import DETECTORS, create_detector
from patchword.objectives.metrics.detection.average_precision import UNDEFINED, average_precision
from patchword.objectives.metrics.detection.errors import best_threshold, find_errors
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import ModelChoice
from patchword.reports.detection.cost import cost_section
from patchword.reports.detection.images import to_image
from patchword.reports.detection.records import CROWDED, drawn_predictions, drawn_truth
from patchword.reports.detection.sections import class_section, confusion_section, frequent_errors, percentage
from patchword.reports.run.detection import detection_report, learning_section
from support.detection.evaluations import StandInEvaluation, stand_in
from support.pages import Page

SECTIONS = ["Average precision", "Examples", "Learning", "Precision and recall", "Classes", "Confusion", "Worst images"]
HOSTILE = ("<script>alert(1)</script>", 'a" onerror="alert(1)', r"$\bill$ & more")


def run_in(folder: Path, epochs: int = 3) -> Run:
    recipe = ImageRecipe(model=ModelChoice(name="vit-exercise"), data="photos/of/cells")
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    records = [
        {"epoch": epoch, "loss": 1 / epoch, "validation_ap": 0.1 * epoch, "seconds": 60.0 * epoch}
        for epoch in range(1, epochs + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return Run(folder)


def page_of(folder: Path, found: StandInEvaluation, epochs: int = 3) -> Page:
    return Page(detection_report(run_in(folder, epochs), found))


def headings(html: str) -> list[str]:
    return [part.split("</h2>")[0] for part in html.split("<h2>")[1:]]


def test_the_report_has_all_sections_numbers_and_images(tmp_path):
    found = stand_in(masks=True)
    html = detection_report(run_in(tmp_path), found)
    page = Page(html)
    assert headings(html) == [*SECTIONS, "Cost", "Recipe"]
    assert percentage(found.boxes.ap()) in page.text
    assert percentage(found.masks.ap(threshold=0.75)) in page.text
    assert "mask-rcnn with resnet-18 on cells" in page.text
    errors = find_errors(found.truth, found.found, 3, best_threshold(found.truth, found.found, 3)[0])
    for index in errors.worst(6):
        assert found.names[index] in page.text
    assert "One image of 96 x 64 pixels" in page.text
    parameters = sum(parameter.numel() for parameter in found.model.parameters())
    assert f"{parameters:,}" in page.text
    images = [one["src"] for one in page.pictures() if one["src"].startswith("data:image/jpeg")]
    assert len(images) == 3 + len(errors.worst(6))
    assert all(one["src"].startswith("data:") for one in page.pictures())


def test_names_from_the_user_are_escaped(tmp_path):
    found = stand_in(classes=HOSTILE)
    found = replace(found, names=tuple(f"<img src=x>{name}" for name in found.names))
    page = page_of(tmp_path, found)
    assert "script" not in {tag for tag, _ in page.elements}
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert all((one["src"] or "").startswith("data:") for one in page.pictures())


@pytest.mark.parametrize("kept", [0, 1])
def test_a_report_without_detections_or_epochs_is_written(tmp_path, kept):
    """Nothing found, and classes without objects."""
    some = stand_in(classes=("cat", "dog", "car", "bird"))
    found = [replace_scores(one, kept) for one in some.found]
    found = replace(some, found=found, boxes=average_precision(some.truth, found, 4))
    page = page_of(tmp_path, found, epochs=0)
    assert "This run has no recorded epoch." in page.text


def replace_scores(one, kept):
    return type(one)(one.boxes[:kept], one.labels[:kept], one.scores[:kept])


def test_many_classes_are_folded():
    classes = tuple(f"class {number}" for number in range(40))
    found = stand_in(classes=classes, images=20)
    errors = find_errors(found.truth, found.found, 40)
    html = class_section(found.boxes, None, classes, errors)
    assert "All 40 classes" in html
    assert "\N{EN DASH}" in html  # classes without objects
    assert "All other objects were predicted as another class." in html
    assert "Classes are numbered from 0" in (matrix := confusion_section(errors, classes))
    assert "40 is <b>no object</b>" in matrix


def test_undefined_numbers_are_a_dash():
    assert percentage(UNDEFINED) == "\N{EN DASH}"
    assert percentage(0.41249) == "41.2"


def test_the_most_frequent_errors_come_first():
    counts = np.array([[5, 1, 4], [0, 7, 3], [2, 0, 0]])
    assert frequent_errors(counts, ("cat", "<dog>")) == [
        "<b>cat</b> was missed 4 times (40.0% of its objects).",
        "<b>&lt;dog&gt;</b> was missed 3 times (30.0% of its objects).",
        "2 false boxes of <b>cat</b>.",
        "<b>cat</b> was predicted as <b>&lt;dog&gt;</b> 1 time (10.0% of its objects).",
    ]
    assert frequent_errors(np.diag([3, 3, 0]), ("cat", "dog")) == ["No object was missed, and no box is false."]
    assert frequent_errors(np.array([[0, 0], [1, 0]]), ("cat",)) == ["1 false box of <b>cat</b>."]


def test_the_loss_of_the_validation_set_is_optional():
    records = [{"epoch": epoch, "loss": 1.0, "validation_loss": None, "seconds": 1.0} for epoch in (1, 2)]
    assert learning_section(records).count("<img") == 1
    with_loss = [record | {"validation_loss": 2.0, "validation_ap": 0.5} for record in records]
    assert learning_section(with_loss).count("<img") == 2


def test_of_many_objects_only_errors_have_labels():
    found = stand_in(images=1)
    number = CROWDED + 1
    boxes = np.array([[20.0 * index, 0, 20 * index + 10, 10] for index in range(number)])
    truth = type(found.truth[0])(boxes, np.zeros(number, dtype=int), np.full(number, 100.0), np.zeros(number, bool))
    moved = np.concatenate((boxes[1:], boxes[:1] + 100))
    detections = type(found.found[0])(moved, np.zeros(number, dtype=int), np.linspace(0.9, 0.5, number))
    errors = find_errors([truth], [detections], 1)
    texts = [one.text for one in drawn_truth(truth, errors, 0, ("cat",))]
    assert texts == ["cat (missed)"] + [""] * CROWDED
    assert [one.text for one in drawn_predictions(detections, errors, 0, ("cat",)) if one.text] == ["cat 0.50 (false)"]


def test_grey_pixels_become_colours():
    image = stand_in().image(0)
    assert to_image(image[:1]).mode == to_image(image).mode == "RGB"
    assert to_image(image).size == (image.shape[2], image.shape[1])


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.usefixtures("quick_meta")
def test_the_cost_of_every_detector_has_its_sum(name):
    with torch.device("meta"):
        detector = create_detector(name, backbone="resnet-18", min_size=64, max_size=96)
    html = cost_section(detector.card)
    assert f">{sum(one.numel() for one in detector.parameters()):,}<" in html
    assert ("Anchors of each level" in html) == isinstance(detector, AnchorDetector)
