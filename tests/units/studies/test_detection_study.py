"""Backbones of Mask R-CNN on scenes: equal cost, equal budget, weights that fit, and a table with both APs."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from patchword.analysis.cost.detection import count_detector, largest_input
from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.detection import create_detector
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.schema.recipe import Recipe
from patchword.reports.comparison.seeds import seeds_grid, seeds_in_words
from patchword.reports.comparison.with_and_without import Comparison
from patchword.studies import STUDIES
from patchword.studies.detection import BACKBONES, in_words, scene_backbones, scene_backbones_pretrain
from patchword.studies.run_models import check_model
from patchword.studies.seeds import study_over_seeds
from patchword.studies.study import Result, Study
from patchword.weights import save
from patchword.weights.io.backbone_weights import load_backbone
from support.detection.rectangles import write_rectangles

TINY = ("model.backbone_fields.width=8", "model.backbone_fields.depths=[1, 1, 1, 1]", "model.width=16")
TINY += ("model.hidden=16", "model.min_size=64", "model.max_size=64", "model.roi_samples=16")
QUICK = ("epochs=1", "passes=1", "batch_size=8", "device=cpu", *TINY)


def save_classifier(label: str, folder: Path, **sizes: object) -> dict[str, torch.Tensor]:
    """Save a new classifier as the pretraining study names it; return its tensors."""
    choice = scene_backbones_pretrain().runs[label].model
    model = REGISTRY.create(choice.name, **{**choice.overrides(), "classes": 10, **sizes})
    save(model, folder / label)
    return model.state_dict()


def only_resnet() -> Study:
    study = scene_backbones()
    return replace(study, runs={label: recipe for label, recipe in study.runs.items() if label.startswith("resnet")})


def train(folder: Path, *words: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "scene-backbones", only_resnet)
        patch.setattr("patchword.api.evaluation.write_report", lambda run, found: run.folder / "report.html")
        return CliRunner().invoke(app, ["train", "scene-backbones", *words, "--runs", str(folder)])


def row(run: str, box: float, mask: float) -> Result:
    measures = {"box_ap": box, "mask_ap": mask}
    return Result(run, "mask-rcnn with m", 5_000_000, 8_000_000_000, "box_ap", "test", measures, 1.0, 2, 90.0)


ROWS = [
    row("swin-scratch-seed-0", 0.50, 0.40),
    row("swin-scratch-seed-1", 0.52, 0.42),
    row("swin-pretrained-seed-0", 0.55, 0.40),
    row("swin-pretrained-seed-1", 0.57, 0.40),
    row("cvt-scratch-seed-0", 0.60, 0.30),
    row("cvt-pretrained-seed-0", 0.50, 0.35),
]


def test_the_runs_differ_in_the_backbone_and_its_weights_alone():
    study = scene_backbones()
    assert list(study.runs) == [f"{label}-{arm}" for label in BACKBONES for arm in ("scratch", "pretrained")]
    assert list(BACKBONES) == ["resnet", "swin", "pvt", "cswin", "pale", "cvt"]
    for label in BACKBONES:
        scratch, pretrained = study.runs[f"{label}-scratch"], study.runs[f"{label}-pretrained"]
        assert scratch.backbone_weights == ""
        assert scratch.model_copy(update={"backbone_weights": f"{{pretrained}}/{label}"}) == pretrained

    def without_backbone(recipe: Recipe) -> str:
        fields = recipe.model.overrides() | {"name": recipe.model.name, "backbone": "", "backbone_fields": {}}
        return recipe.model_copy(update={"model": fields, "backbone_weights": ""}).model_dump_json(warnings=False)

    assert len({without_backbone(recipe) for recipe in study.runs.values()}) == 1
    assert len(study_over_seeds(study, 3).runs) == 36


def test_the_classifiers_differ_in_the_model_alone():
    study = scene_backbones_pretrain()
    assert list(study.runs) == list(BACKBONES)
    same = {recipe.model_copy(update={"model": "m"}).model_dump_json(warnings=False) for recipe in study.runs.values()}
    assert len(same) == 1
    study.check(Path("nowhere"))
    for label, recipe in study.runs.items():
        detector = scene_backbones().runs[f"{label}-scratch"].model.overrides()
        assert (recipe.model.name, recipe.model.overrides()) == (detector["backbone"], detector["backbone_fields"])


def test_the_backbones_cost_about_the_same():
    costs = []
    for label in BACKBONES:
        recipe = scene_backbones().runs[f"{label}-scratch"]
        assert isinstance(recipe, DetectionRecipe)
        with torch.device("meta"):
            detector = create_detector("mask-rcnn", **recipe.model.overrides())
        assert detector.backbone.strides == (4, 8, 16, 32)[: 3 if label == "cvt" else 4]
        assert largest_input(detector.card) == (128, 128)
        assert all(one.requires_grad for one in detector.parameters())
        costs.append(count_detector(detector.card, "backbone", (128, 128)))
    assert all(2_500_000 < cost.parameters < 3_500_000 for cost in costs)
    macs = [cost.macs for cost in costs]
    assert max(macs) < 1.3 * min(macs)


@pytest.mark.parametrize("label", BACKBONES)
def test_the_weights_of_a_classifier_fit_the_backbone_of_the_same_name(label: str, tmp_path: Path):
    given = save_classifier(label, tmp_path)
    study = scene_backbones().with_settings([f"pretrained={tmp_path}"])
    recipe = study.runs[f"{label}-pretrained"]
    assert recipe.backbone_weights == str(tmp_path / label)
    check_model(recipe)
    detector = create_detector("mask-rcnn", **recipe.model.overrides())
    loaded = load_backbone(detector, recipe.backbone_weights)
    assert all("norms." in name for name in loaded.left)  # the norms of the maps, which a classifier does not have
    found, same = detector.state_dict(), 0
    for name in loaded.loaded:
        inner = name.removeprefix("backbone.").removeprefix("backbone.")
        same += inner in given and torch.equal(found[name], given[inner])
    assert same >= len(loaded.loaded) - 1  # PVT's last position table is loaded without the row of [CLS]


def test_weights_are_checked_before_the_first_run(tmp_path: Path):
    with pytest.raises(UserError, match="this study needs pretrained="):
        only_resnet().check(tmp_path)
    study = only_resnet().with_settings([f"pretrained={tmp_path}"])
    with pytest.raises(UserError, match="there is nothing at"):
        study.check(tmp_path)
    save_classifier("resnet", tmp_path, width=8)
    with pytest.raises(UserError, match=r"(?s)other weights than those.*width: expected 32, got 8"):
        study.check(tmp_path)


def test_a_detector_that_cannot_be_built_is_an_error_before_the_first_run(tmp_path: Path):
    save_classifier("resnet", tmp_path)
    study = only_resnet().with_settings([f"pretrained={tmp_path}", "model.roi_samples=1"])
    with pytest.raises(UserError, match="roi_samples"):
        study.check(tmp_path)


def test_a_trained_study_has_both_aps(tmp_path: Path):
    write_rectangles(tmp_path / "objects", count=10)
    save_classifier("resnet", tmp_path, width=8, depths=(1, 1, 1, 1))
    printed = train(tmp_path / "runs", *QUICK, f"data={tmp_path / 'objects'}", f"pretrained={tmp_path}")
    assert printed.exit_code == 0, printed.output
    folder = tmp_path / "runs" / "scene-backbones"
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert [row["run"] for row in rows] == ["resnet-scratch", "resnet-pretrained"]
    for found in rows:
        evaluation = json.loads((folder / found["run"] / "evaluation.json").read_text())
        assert float(found["box_ap"]) == evaluation["boxes"]["AP"]
        assert float(found["mask_ap"]) == evaluation["masks"]["AP"]
        assert found["model"] == "mask-rcnn with resnet-18"
        detector = create_detector(
            "mask-rcnn", **json.loads((folder / found["run"] / "config.json").read_text())["config"]
        )
        assert int(found["parameters"]) == sum(one.numel() for one in detector.parameters())
        assert int(found["macs"]) == count_detector(detector.card, size=(64, 64)).macs
    printed_table = (folder / "results.md").read_text()
    assert "| model | arm | parameters | MACs | training time | test box AP | test mask AP |" in printed_table
    assert "| resnet | scratch |" in printed_table
    assert "| resnet | pretrained |" in printed_table
    assert Image.open(folder / "results.png").size[0] > 1000


def test_the_table_has_mean_and_spread_of_both_aps():
    found = Comparison.of(scene_backbones(), ROWS)
    cost = ["5,000,000", "8.00 G", "1\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}30\N{NO-BREAK SPACE}s"]
    assert found.grid().rows[:2] == [
        ["swin", "scratch", *cost, "51.00 ± 1.41", "41.00 ± 1.41"],
        ["swin", "pretrained", *cost, "56.00 ± 1.41", "40.00 ± 0.00"],
    ]
    figure = found.figure()
    assert [axes.get_ylabel() for axes in figure.axes] == ["test box AP (%)", "test mask AP (%)"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["scratch", "pretrained"]


def test_without_masks_the_table_and_the_conclusion_have_the_boxes_alone():
    rows = [replace(one, measures={"box_ap": one.score}) for one in ROWS]
    assert Comparison.of(scene_backbones(), rows).grid().columns[-2:] == ["training time", "test box AP"]
    lines = in_words(rows).splitlines()
    assert lines[0] == "swin: pretraining changes box AP by +5.00 points (from 51.00 to 56.00)."
    assert lines[2] == "scratch: cvt has the highest box AP (60.00)."


def test_the_conclusion_is_of_the_means():
    assert in_words(ROWS).splitlines() == [
        "swin: pretraining changes box AP by +5.00 points (from 51.00 to 56.00), "
        "mask AP by -1.00 points (from 41.00 to 40.00).",
        "cvt: pretraining changes box AP by -10.00 points (from 60.00 to 50.00), "
        "mask AP by +5.00 points (from 30.00 to 35.00).",
        "scratch: cvt has the highest box AP (60.00), swin has the highest mask AP (41.00).",
        "pretrained: swin has the highest box AP (56.00), swin has the highest mask AP (40.00).",
    ]


def test_a_series_of_seeds_has_both_aps():
    rows = [replace(one, run=f"seed-{number}") for number, one in enumerate(ROWS[:2])]
    table = seeds_grid(rows)
    assert table.columns[:4] == ["run", "test box AP", "test mask AP", "test loss"]
    assert table.below[0][:3] == ["mean", "51.00%", "41.00%"]
    assert seeds_in_words(rows).startswith("test box AP over 2 seeds: mean 51.00%")
