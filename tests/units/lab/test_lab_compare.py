"""The page Compare: the registry's counts beside published figures, and the source code of a model."""

from pathlib import Path

import pytest

import patchword.models
from patchword.analysis.published.comparison import row_of
from patchword.analysis.published.dense import PUBLISHED_DENSE
from patchword.analysis.published.dense_comparison import dense_row_of
from patchword.analysis.published.text import PUBLISHED_TEXTS
from patchword.lab.comparison import comparison_json, year_of
from patchword.lab.costs import cost_json
from patchword.lab.model_code import code_json
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS

FOLDER = Path(patchword.models.__file__).parent


@pytest.fixture(scope="module")
def groups(call):
    return {name: group["rows"] for name, group in call("/api/compare").json().items()}


def row(groups, group, id):
    return next(one for one in groups[group] if one["id"] == id)


def test_every_model_of_the_registry_has_one_row(groups):
    names = [one["model"] for group in ("images", "texts") for one in groups[group]]
    assert sorted(names) == sorted(REGISTRY.names())
    assert len({one["id"] for one in groups["dense"]}) == len(groups["dense"]) == len(PUBLISHED_DENSE)


def test_a_row_has_the_published_and_the_counted_figures(groups):
    found, expected = row(groups, "images", "swin-tiny"), row_of("swin-tiny")
    assert (found["parameters"], found["macs"]) == (expected.parameters, expected.macs)
    assert found["macs"] == cost_json("swin-tiny")["macs"]["total"]
    assert found["published"] == {"parameters": 29, "macs": 4.5, "source": expected.published.source}
    top1 = {"value": 81.3, "note": "ImageNet-1k", "source": expected.published.source}
    assert found["scores"] == {"ImageNet top-1": top1}
    assert (found["family"], found["year"], found["input"], found["marks"]) == ("Swin", 2021, "224 × 224", {})


def test_figures_that_differ_are_marked(groups):
    for one in groups["images"]:
        assert one["marks"] == row_of(one["model"]).marks()
    assert "below the count" in row(groups, "images", "deit-tiny")["marks"]["parameters"]
    marked = row(groups, "texts", "bert-base-multilingual")
    assert marked["marks"]["parameters"].startswith("published 110 M, counted 17")


def test_a_text_model_has_all_its_scores(groups):
    found = row(groups, "texts", "distilbert-base")
    expected = {one.task: one.value for one in PUBLISHED_TEXTS["distilbert-base"].scores}
    assert {name: score["value"] for name, score in found["scores"].items()} == expected
    assert found["scores"]["GLUE"]["note"] == "dev"


def test_nothing_is_built_for_the_list(monkeypatch):
    monkeypatch.setattr("torch.nn.Module.__init__", None)
    assert comparison_json()["dense"]["rows"][0]["macs"] is None


def test_a_dense_system_is_counted_when_it_is_asked_for(call, groups):
    id = "retinanet-resnet-50-1x"
    found, published = call(f"/api/compare/{id}").json(), row(groups, "dense", id)["published"]
    expected = dense_row_of(next(one for one in PUBLISHED_DENSE if one.name == "retinanet, resnet-50, 1x"))
    assert (found["parameters"], found["macs"]) == (expected.parameters, expected.macs)
    assert found["macs"] / 1e9 == pytest.approx(published["macs"], rel=0.03)
    assert call("/api/compare/retinanet").status == 404


@pytest.mark.parametrize(
    ("paper", "year"), [("arXiv:1706.03762", 2017), ("Radford et al., 2018", 2018), ("", None), ("arXiv", None)]
)
def test_the_year_of_a_paper(paper, year):
    assert year_of(paper) == year


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("swin-tiny", "vision/swin.py"),
        ("tinybert-4-312", "text/tinybert.py"),
        ("transformer-base", "seq2seq/transformer.py"),
        ("detr", "detection/detr.py"),
        ("upernet", "segmentation/segmenters.py"),
    ],
)
def test_the_code_of_a_model_is_the_file_of_its_family(call, model, file):
    found = call(f"/api/code/{model}").json()
    assert found["file"] == f"patchword/models/{file}"
    assert found["code"] == (FOLDER / file).read_text()


def test_every_model_has_code():
    for family in REGISTRY.families:
        assert f'name="{family.name}"' in code_json(next(iter(family.names())))["code"]
    for name in (*DETECTORS, *SEGMENTERS):
        assert code_json(name)["file"].startswith("patchword/models/")


@pytest.mark.parametrize("model", ["swin", "no-such-model", "..%2f..%2fcore%2ferrors", "vision/swin.py", "x" * 5000])
def test_code_is_found_by_the_names_of_models_alone(call, model):
    found = call(f"/api/code/{model}")
    assert found.status == 404
    assert len(found.body) < 1000
