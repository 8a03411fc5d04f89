"""docs/notebooks: every notebook is stored without outputs, and runs with its small settings."""

import os
import re
import sys
from pathlib import Path

import pytest

from support.hub.repositories import sentence_encoder
from support.material import write_idx_set
from support.source_code import ROOT, load_tool

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SENTENCES = "the bank raised its interest rates . she put money into they sat on of river my where is parcel"


@pytest.fixture(scope="module")
def tool():
    return load_tool("notebooks")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tiny Fashion-MNIST and a tiny BERT; the command `patchword` is that of these sources."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PATCHWORD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    write_idx_set(tmp_path / "data" / "fashion-mnist", tuple(range(10)) * 40)
    sentence_encoder(tmp_path / "bert", tuple(dict.fromkeys(SENTENCES.split())))
    return tmp_path


def settings_of(name: str, desk: Path) -> dict[str, object]:
    """The settings that only a test has: the folder of the tiny BERT, which has two layers."""
    bert = {"BERT": str(desk / "bert")}
    return {"3-your-csv": bert, "4-inside-bert": {**bert, "LAYER": 2, "HEAD": 3}}.get(name, {})


def test_there_is_a_notebook_for_each_subject():
    assert [path.stem for path in NOTEBOOKS] == [
        "1-exercise",
        "2-your-images",
        "3-your-csv",
        "4-inside-bert",
        "5-windows-stripes-pales",
        "6-translate",
        "7-your-attention",
    ]
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"notebooks/{path.name}" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(tool, path):
    assert list(tool.faults(tool.read(path))) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stripping_changes_nothing_but_outputs(tool, path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    tool.strip(copy)
    assert copy.read_bytes() == path.read_bytes()


def test_stored_outputs_and_unknown_settings_are_faults(tool, tmp_path):
    notebook = tool.read(NOTEBOOKS[0])
    notebook.cells[tool.parameters_cell(notebook)].execution_count = 1
    notebook.metadata["patchword"]["small"]["NO_SUCH_SETTING"] = 1
    assert len(list(tool.faults(notebook))) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_page_needs_no_network_and_shows_its_formulas(tool, path):
    notebook = tool.read(path)
    page = tool.page_of(notebook)
    assert "<h1" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=.https?:[^>]*\.(js|css)", page)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    formulas = [found for text in texts for found in tool.FORMULA.findall(text)]
    assert len(re.findall(r"<img[^>]*data:image/svg", page)) == len(formulas)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(tool, path, desk):
    notebook = tool.read(path)
    tool.execute(notebook, desk, {**tool.small_settings(notebook), **settings_of(path.stem, desk)})
    written = [
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.get("name") == "stderr"
    ]
    assert not any("Warning" in text for text in written), written
    assert "image/png" in tool.page_of(notebook) or path.stem == "7-your-attention"
