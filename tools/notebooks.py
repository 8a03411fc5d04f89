"""Run the notebooks of docs/notebooks, and write them as HTML pages for reading.

`make notebooks` runs this file. Notebooks are stored without outputs. The cell with the tag "parameters" holds the
settings of a notebook; its metadata (`patchword.small`) hold the settings with which the tests run it in seconds.
"""

import argparse
import base64
import copy
import html
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4.rwbase import split_lines

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
SECONDS = 3600  # of one cell
STYLE = ".jp-RenderedMarkdown .highlight { margin-bottom: 1em }"  # else the text below touches the code
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)


def small_settings(notebook: NotebookNode) -> dict[str, Any]:
    """Return the settings with which the tests run a notebook."""
    return dict(notebook.metadata["patchword"]["small"])


def parameters_cell(notebook: NotebookNode) -> int:
    """Return the index of the cell that holds the settings."""
    found = [at for at, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]
    if len(found) != 1:
        raise ValueError(f"expected one cell with the tag 'parameters', got {len(found)}")
    return found[0]


def faults(notebook: NotebookNode) -> Iterator[str]:
    """Yield what must not be stored: outputs, numbers of executions, small settings that no cell has."""
    nbformat.validate(notebook)
    settings = notebook.cells[parameters_cell(notebook)].source
    for name in small_settings(notebook):
        if f"{name} =" not in settings and f"{name}, " not in settings and f", {name} " not in settings:
            yield f"{name} is not set in the cell with the tag 'parameters'"
    for cell in notebook.cells:
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            yield f"cell {cell.id} has outputs: python tools/notebooks.py strip"


def execute(notebook: NotebookNode, folder: Path, settings: Mapping[str, Any]) -> None:
    """Run all cells in a folder, with other settings. The outputs become part of `notebook`."""
    if settings:
        source = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
        notebook.cells.insert(parameters_cell(notebook) + 1, nbformat.v4.new_code_cell(source))
    NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()


def page_of(notebook: NotebookNode) -> str:
    """Return a notebook with its outputs as one HTML page that needs no network: formulas are drawn, not scripts."""
    drawn = copy.deepcopy(notebook)
    for cell in drawn.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(lambda found: _image(found[1] or found[2], bool(found[1])), cell.source)
    # The exporter needs the scripts for formulas and diagrams only.
    page, _ = HTMLExporter(embed_images=True, mathjax_url="", require_js_url="", mermaid_js_url="").from_notebook_node(
        drawn
    )
    page = re.sub(r"<script\b.*?</script>", "", str(page), flags=re.DOTALL)
    return page.replace("</head>", f"<style>{STYLE}</style></head>", 1)


def _image(formula: str, is_block: bool) -> str:
    """Draw a formula of TeX as an inline SVG image."""
    target, tex = io.BytesIO(), " ".join(formula.split())
    depth = math_to_image(f"${tex}$", target, prop=FontProperties(size=11), format="svg")
    data = base64.b64encode(target.getvalue()).decode()
    style = "display:block;margin:0.8em auto" if is_block else f"vertical-align:-{depth:.1f}pt"
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(tex)}" style="{style}">'


def strip(path: Path) -> None:
    """Remove the outputs of a notebook, as it is stored."""
    notebook = read(path)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    lines = split_lines(notebook)  # a line of the file per line of a cell, so that differences can be read
    path.write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def run(paths: Iterable[Path], out: Path, small: bool) -> None:
    """Run notebooks in OUT, and write OUT/NAME.html and OUT/NAME.ipynb, also of one that fails."""
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        print(path.stem, flush=True)
        notebook = read(path)
        try:
            execute(notebook, out, small_settings(notebook) if small else {})
        finally:
            nbformat.write(notebook, out / path.name)
            (out / f"{path.stem}.html").write_text(page_of(notebook), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "strip"])
    parser.add_argument("names", nargs="*", help="names of notebooks, such as 1-exercise; by default all")
    parser.add_argument("--small", action="store_true", help="with the settings of the tests")
    parser.add_argument("--out", type=Path, default=Path("site/notebooks"), help="folder of the pages")
    asked = parser.parse_args()
    paths = [FOLDER / f"{name}.ipynb" for name in asked.names] or sorted(FOLDER.glob("*.ipynb"))
    if asked.action == "strip":
        for path in paths:
            strip(path)
    else:
        run(paths, asked.out, asked.small)


if __name__ == "__main__":
    main()
