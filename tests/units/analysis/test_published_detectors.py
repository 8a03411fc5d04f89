"""Published figures of detectors, and the rows that compare them with counts."""

import pytest

from patchword.analysis.published.dense import PUBLISHED_DETECTORS
from patchword.analysis.published.dense_comparison import dense_rows
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS

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


def test_every_row_is_there_once():
    assert len({row.name for row in PUBLISHED_DETECTORS}) == len(PUBLISHED_DETECTORS)
    assert DETECTORS.keys() - {row.detector for row in PUBLISHED_DETECTORS} == {"faster-rcnn"}


def test_published_figures_are_those_of_the_detectors_built_here():
    rows = [row for row in dense_rows(["swin-tiny", "resnet-50"]) if row.can_be_built]
    assert len(rows) == 8
    for row in rows:
        assert row.marks() == {}
        if row.published.macs is not None:
            assert row.macs / 1e9 == pytest.approx(row.published.macs, rel=0.01)
            assert row.parameters / 1e6 == pytest.approx(row.published.parameters, abs=0.5)


def test_a_wrong_figure_is_marked():
    from dataclasses import replace

    row = dense_rows(["atss"])[0]
    wrong = replace(row, macs=2 * row.macs)
    assert wrong.marks().keys() == {"MACs"}
    assert "below the count" in wrong.to_json()["remarks"][0]


def test_names_and_patterns():
    assert {row.published.detector for row in dense_rows(["sparse*"])} == {"sparse-rcnn"}
    assert not any(row.can_be_built for row in dense_rows(["detr"]))
    with pytest.raises(UserError, match="no published detector matches 'yolo'"):
        dense_rows(["yolo"])
