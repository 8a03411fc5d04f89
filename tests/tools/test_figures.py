"""tools/figures.py: figures of docs from the numbers in benchmarks/results."""

import pytest
from PIL import Image

from patchword.reports.colors import style_of
from support.source_code import ROOT, load_tool


@pytest.fixture(scope="module")
def figures():
    return load_tool("figures")


def test_the_encodings_have_their_values_and_colours(figures):
    (axes,) = figures.positions().axes
    curves = {line.get_label(): line for line in axes.lines}
    record = figures.json.loads((figures.RESULTS / "positions.json").read_text(encoding="utf-8"))
    for one in record["encodings"]:
        assert list(curves[one["encoding"]].get_ydata()) == [100 * value for value in one["accuracy"].values()]
        assert curves[one["encoding"]].get_color() == style_of(one["encoding"]).color


def test_the_tasks_have_two_arms_of_three_seeds(figures):
    panels = figures.pretraining_or_scratch().axes
    assert [axes.get_title() for axes in panels] == [
        "SST-2: accuracy",
        "MRPC: F1",
        "STS-B: Spearman",
        "UD English POS: accuracy",
    ]
    table = (ROOT / "docs" / "bert.md").read_text(encoding="utf-8")
    for axes in panels:
        arms = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(arms) == 2
        for seeds in arms:
            assert " / ".join(f"{value:.2f}" for value in seeds) in table


def test_the_backbones_have_two_arms_of_three_seeds(figures):
    figure = figures.scene_backbones()
    box, mask = figure.axes
    assert [label.get_text() for label in box.get_xticklabels()] == ["resnet", "swin", "pvt", "cswin", "pale", "cvt"]
    assert box.lines[0].get_ydata().tolist() == [42.99, 43.94, 43.76]
    assert figure.get_suptitle() == "test box AP, test mask AP: scratch or pretrained"
    assert mask.get_ylabel() == "test mask AP (%)"


def test_the_systems_have_the_measures_of_their_kind(figures):
    figure = figures.scene_systems()
    box, mask, iou, _ = figure.axes
    assert [label.get_text() for label in box.get_yticklabels()][::8] == ["faster-rcnn", "upernet"]
    assert [text.get_text() for text in mask.texts] == ["38.5", "44.0"]
    assert [text.get_text() for text in iou.texts] == ["39.6", "39.4"]
    assert figure.get_suptitle() == "test box AP, test mask AP, test mIoU, test pixel accuracy"


def test_the_speeds_are_those_of_compiled_inference(figures, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures.scatter, "speed", lambda rows, caption: drawn.update(rows=rows) or {"png": b"figure"})
    assert figures.compare_speed() == b"figure"
    speeds = {row.model: round(row.speed.rate) for row in drawn["rows"]}
    assert speeds["swin-tiny"] == 33474
    assert set(speeds) == {"vit-base-16", "deit-small", "swin-tiny", "swin-base", "cswin-tiny", "pale-tiny"}


def test_a_command_returns_the_figure_that_it_writes(figures):
    assert figures.windows_of_stage() == (ROOT / "docs" / "windows-swin-tiny-stage-1.png").read_bytes()


def test_every_figure_is_drawn_by_name_and_others_are_refused(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    figures.main(["contextual-or-static"])
    with Image.open(tmp_path / "docs" / "contextual-or-static.png") as picture:
        assert picture.mode == "RGBA"
    with pytest.raises(SystemExit, match="no figure is called 'nothing': expected one of positions"):
        figures.main(["nothing"])


@pytest.mark.parametrize("name", sorted({path.stem for path in (ROOT / "docs").glob("*.png")}))
def test_figures_of_docs_have_no_palette(name):
    with Image.open(ROOT / "docs" / f"{name}.png") as picture:
        assert picture.mode in ("RGB", "RGBA")
