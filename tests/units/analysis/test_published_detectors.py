"""Published figures of detectors and segmenters, and the rows that compare them with counts."""

import pytest

from patchword.analysis.published.dense import PUBLISHED_DENSE, PUBLISHED_DETECTORS, PUBLISHED_SEGMENTERS
from patchword.analysis.published.dense_comparison import dense_rows
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS
from patchword.models.segmentation import SEGMENTERS

pytestmark = pytest.mark.usefixtures("quick_meta")


@pytest.mark.parametrize("row", PUBLISHED_DETECTORS, ids=lambda row: row.name)
def test_figures_are_plausible_and_have_a_source(row):
    assert row.box_ap is not None or row.mask_ap is not None
    assert row.box_ap is None or 30 < row.box_ap < 60
    assert row.mask_ap is None or 30 < row.mask_ap < (row.box_ap or 60)
    assert row.parameters is None or 20 < row.parameters < 200
    assert row.macs is None or 80 < row.macs < 1100
    assert row.source
    assert row.backbone in REGISTRY.names()


@pytest.mark.parametrize("row", PUBLISHED_SEGMENTERS, ids=lambda row: row.name)
def test_figures_of_segmenters_are_plausible(row):
    assert row.box_ap is row.mask_ap is None
    assert row.miou is None or 30 < row.miou < 60
    assert row.parameters is None or 20 < row.parameters < 200
    assert row.backbone in REGISTRY.names()


def test_every_row_is_there_once():
    assert len({row.name for row in PUBLISHED_DENSE}) == len(PUBLISHED_DENSE)
    assert DETECTORS.keys() - {row.system for row in PUBLISHED_DETECTORS} == {"faster-rcnn"}
    assert SEGMENTERS.keys() == {row.system for row in PUBLISHED_SEGMENTERS}


def test_published_figures_are_those_of_the_systems_built_here():
    rows = dense_rows(["swin-tiny", "resnet-50"])
    assert len(rows) == 15
    for row in rows:
        if row.published.system == "detr":
            assert row.marks().keys() == {"MACs"}  # the published number is for other sizes of images
            continue
        assert row.marks() == {}
        if row.published.macs is not None:
            assert row.macs / 1e9 == pytest.approx(row.published.macs, rel=0.022)
            assert row.parameters / 1e6 == pytest.approx(row.published.parameters, abs=0.5)


def test_a_wrong_figure_is_marked():
    from dataclasses import replace

    row = dense_rows(["atss"])[0]
    wrong = replace(row, macs=2 * row.macs)
    assert wrong.marks().keys() == {"MACs"}
    assert "below the count" in wrong.to_json()["remarks"][0]


def test_names_and_patterns():
    assert {row.published.system for row in dense_rows(["sparse*"])} == {"sparse-rcnn"}
    assert [row.is_segmenter for row in dense_rows(["upernet", "detr"])] == [False] * 2 + [True] * 6
    with pytest.raises(UserError, match="no published detector or segmenter matches 'yolo'"):
        dense_rows(["yolo"])
