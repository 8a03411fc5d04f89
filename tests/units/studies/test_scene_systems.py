"""All detectors and segmenters on scenes: the same images and budget, and one table of AP, mIoU and cost."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from patchword.analysis.cost.detection import count_detector, largest_input
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.cli.app import app
from patchword.data.detection.sources import SIZES
from patchword.models.detection import DETECTORS, create_detector
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.recipes.detection import task as detection_task
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.segmentation import task as segmentation_task
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.reports.comparison.measures import MeasuresComparison
from patchword.studies import STUDIES
from patchword.studies.detection import BACKBONES, scene_backbones
from patchword.studies.scene_systems import in_words, scene_systems
from patchword.studies.seeds import study_over_seeds
from patchword.studies.study import Result, Study
from support.material import idx_bytes, without_sets

SYSTEMS = [*DETECTORS, *SEGMENTERS]
QUICK = ("epochs=1", "passes=1", "max_images=2", "batch_size=2", "device=cpu", "model.width=16")
QUICK += ("model.backbone_fields.width=8", "model.backbone_fields.depths=[1,1,1,1]")
ONE_STAGE = ("model.depth=1", "model.min_size=64", "model.max_size=64")
RCNN = ("model.hidden=16", "model.roi_samples=16", "model.max_proposals=20", "model.max_training_proposals=20")
RCNN += ONE_STAGE[1:]
QUERIES = ("model.heads=2", "model.hidden=16", *ONE_STAGE[1:])
SMALL = {
    "faster-rcnn": RCNN,
    "mask-rcnn": RCNN,
    "cascade-mask-rcnn": (*RCNN, "model.convolutions=1"),
    "retinanet": ONE_STAGE,
    "atss": (*ONE_STAGE, "model.groups=8"),
    "reppoints-v2": (*ONE_STAGE, "model.groups=8", "model.corner_width=16", "model.rounds=1"),
    "sparse-rcnn": (*QUERIES, "model.inner=4", "model.proposals=8", "model.stages=2"),
    "detr": (*QUERIES, "model.encoder_depth=1", "model.decoder_depth=1", "model.queries=8", "model.max_detections=8"),
    "upernet": ("model.auxiliary=8", "crop=64"),
    "semantic-fpn": ("model.hidden=8", "crop=64"),
}


def small() -> Study:
    study = scene_systems()
    runs = {name: recipe.with_settings([*QUICK, *SMALL[name]]) for name, recipe in study.runs.items()}
    return replace(study, runs=runs)


@pytest.fixture(scope="module")
def garments(tmp_path_factory: pytest.TempPathFactory):
    """A tiny Fashion-MNIST of grey squares, and few scenes for validation and test."""
    folder = tmp_path_factory.mktemp("garments")
    (folder / "fashion-mnist").mkdir()
    for stem in ("train", "t10k"):
        files = {"images-idx3": np.full((24, 28, 28), 200), "labels-idx1": np.arange(24) % 10}
        for kind, content in files.items():
            (folder / "fashion-mnist" / f"{stem}-{kind}-ubyte").write_bytes(idx_bytes(content))
    with pytest.MonkeyPatch.context() as patch:
        without_sets(patch, folder)
        for split in ("validation", "test"):
            patch.setitem(SIZES, split, 2)
        yield folder


@pytest.fixture(scope="module")
def trained(garments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study of all systems, trained for one step each."""
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "scene-systems", small)
        patch.setattr("patchword.api.evaluation.write_report", lambda run, found: run.folder / "report.html")
        printed = CliRunner().invoke(app, ["train", "scene-systems", "--runs", str(runs)])
    assert printed.exit_code == 0, printed.output
    (runs / "printed.txt").write_text(printed.output)
    return runs / "scene-systems"


def row(run: str, seconds: float = 90.0, **measures: float) -> Result:
    metric = next(iter(measures))
    return Result(run, "m", 5_000_000, 8_000_000_000, metric, "test", measures, 1.0, 2, seconds)


ROWS = [
    row("atss-seed-0", 60.0, box_ap=0.40),
    row("atss-seed-1", 120.0, box_ap=0.42),
    row("mask-rcnn-seed-0", box_ap=0.50, mask_ap=0.30),
    row("mask-rcnn-seed-1", box_ap=0.56, mask_ap=0.30),
    row("cascade-mask-rcnn-seed-0", box_ap=0.51, mask_ap=0.42),
    row("cascade-mask-rcnn-seed-1", box_ap=0.53, mask_ap=0.40),
    row("upernet-seed-0", mean_iou=0.6, pixel_accuracy=0.9, mean_accuracy=0.7),
]


def test_the_runs_are_all_systems_on_one_backbone_with_one_budget():
    study = scene_systems()
    assert list(study.runs) == SYSTEMS
    mask_rcnn = scene_backbones().runs["resnet-scratch"]
    assert study.runs["mask-rcnn"].model_copy(update={"about": mask_rcnn.about}) == mask_rcnn
    for name, recipe in study.runs.items():
        assert isinstance(recipe, DetectionRecipe | SegmentationRecipe)
        fields = recipe.model.overrides()
        assert recipe.model.name == name
        assert (fields["backbone"], fields["backbone_fields"]) == (
            BACKBONES["resnet"][0],
            {"image": 128, "channels": 1, **BACKBONES["resnet"][1]},
        )
        assert (fields["frozen"], fields["batch_norms"], fields["width"], recipe.backbone_weights) == (
            *(0, "train", 96),
            "",
        )
        budget = (
            "data",
            "max_images",
            "epochs",
            "passes",
            "batch_size",
            "weight_decay",
            "warmup",
            "schedule",
        )
        assert name == "detr" or recipe.learning_rate == mask_rcnn.learning_rate
        assert all(getattr(recipe, field) == getattr(mask_rcnn, field) for field in budget)
        assert recipe.epochs * recipe.passes * recipe.max_images // recipe.batch_size == 750
    assert len(study_over_seeds(study, 3).runs) == 30


def test_every_system_reads_whole_scenes():
    for name, recipe in scene_systems().runs.items():
        with torch.device("meta"):
            if isinstance(recipe, DetectionRecipe):
                detector = create_detector(name, **recipe.model.overrides())
                assert largest_input(detector.card) == (128, 128)
                assert all(one.requires_grad for one in detector.parameters())
            else:
                assert isinstance(recipe, SegmentationRecipe)
                assert recipe.crop == 128
                assert recipe.augmentation.smallest_scale == recipe.augmentation.largest_scale == 1
                assert all(one.requires_grad for one in create_segmenter(name, **recipe.model.overrides()).parameters())


def test_detectors_and_segmenters_learn_the_same_scenes(garments: Path):
    runs = scene_systems().with_settings(["max_images=4"]).runs
    objects = detection_task.open_data(runs["atss"], 1)
    labels = segmentation_task.open_data(runs["upernet"], 1)
    for split in ("train", "validation", "test"):
        first, second = getattr(objects, split), getattr(labels, split)
        assert len(first) == len(second) > 0
        for index in range(len(first)):
            assert torch.equal(first.sample(index).pixels, second.sample(index).pixels)


def test_every_system_is_trained_and_evaluated(trained: Path):
    rows = {found["run"]: found for found in csv.DictReader((trained / "results.csv").open())}
    assert list(rows) == SYSTEMS
    for name, found in rows.items():
        evaluation = json.loads((trained / name / "evaluation.json").read_text())
        config = json.loads((trained / name / "config.json").read_text())["config"]
        assert found["model"] == f"{name} with resnet-18"
        if name in DETECTORS:
            assert float(found["box_ap"]) == evaluation["boxes"]["AP"]
            assert bool(found["mask_ap"]) == ("mask" in name)
            model = create_detector(name, **config)
        else:
            assert float(found["mean_iou"]) == evaluation["mean_iou"]
            assert float(found["pixel_accuracy"]) == evaluation["pixel_accuracy"]
            model = create_segmenter(name, **config)
        assert int(found["parameters"]) == sum(one.numel() for one in model.parameters())
        if name in ("detr", "semantic-fpn"):
            count = count_detector if name in DETECTORS else count_segmenter
            assert int(found["macs"]) == count(model.card, size=(64, 64)).macs


def test_the_files_of_the_study_have_all_systems(trained: Path):
    text = (trained / "results.md").read_text()
    head = (
        "| model | parameters | MACs | training time | test box AP | test mask AP | test mIoU | test pixel accuracy |"
    )
    assert head in text
    assert all(f"\n| {name} |" in text for name in SYSTEMS)
    assert "- box AP: " in text
    assert json.loads((trained / "results.json").read_text())["means"].keys() == set(SYSTEMS)
    assert Image.open(trained / "results.png").size[0] > 1000
    printed = (trained.parent / "printed.txt").read_text()
    assert "cascade-mask-rcnn" in printed
    assert "test pixel accuracy" in printed  # no title is cut


def test_the_table_has_mean_and_spread_and_no_number_where_a_measure_does_not_apply():
    found = MeasuresComparison.of(scene_systems(), ROWS)
    time = "1\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}30\N{NO-BREAK SPACE}s"
    cost = ["5,000,000", "8.00 G", time]
    assert found.grid().rows == [
        ["atss", *cost, "41.00 ± 1.41", "", "", ""],
        ["mask-rcnn", *cost, "53.00 ± 4.24", "30.00 ± 0.00", "", ""],
        ["cascade-mask-rcnn", *cost, "52.00 ± 1.41", "41.00 ± 1.41", "", ""],
        ["upernet", *cost, "", "", "60.00", "90.00"],
    ]
    assert found.note.startswith("Mean and standard deviation over 2 seeds. Units: test box AP: %;")
    figure = found.figure()
    assert [axes.get_xlabel() for axes in figure.axes] == [f"{column.title} (%)" for column in found.columns]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["atss", "mask-rcnn", "cascade-mask-rcnn", "upernet"]
    numbers = [{int(one.xy[1]): one.get_text() for one in axes.texts} for axes in figure.axes]
    assert numbers[0] == {0: "41.00", 1: "53.00", 2: "52.00"}
    assert numbers[1] == {1: "30.00", 2: "41.00"}  # rows of runs without masks are empty
    assert numbers[2] == {3: "60.00"}


def test_a_measure_that_no_run_has_is_no_column():
    columns = MeasuresComparison.of(scene_systems(), ROWS[:2]).grid().columns
    assert columns == ["model", "parameters", "MACs", "training time", "test box AP"]


def test_the_conclusion_names_the_best_of_each_measure():
    assert in_words(ROWS).splitlines() == [
        "box AP: mask-rcnn is best with 53.00, 1.00 points above cascade-mask-rcnn, which is not more than the larger "
        "standard deviation of the two (4.24).",
        "mask AP: cascade-mask-rcnn is best with 41.00, 11.00 points above mask-rcnn, which is more than the larger "
        "standard deviation of the two (1.41).",
    ]
    assert in_words([ROWS[0], ROWS[2]]) == "box AP: mask-rcnn is best with 50.00, 10.00 points above atss."
