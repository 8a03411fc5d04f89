"""Names that are code are shown as text: classes come from files that others may have written."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.lab.browser import Open, expect
from support.lab.process import running_lab
from support.lab.vit_reference import exercise_folder

IMAGE = '<img src=x onerror="window.hacked = 1">'
SCRIPT = "</script><script>window.hacked = 1</script>"
LABELS = [f"{number} {SCRIPT if number % 2 else IMAGE}" for number in range(10)]


@pytest.fixture(scope="module")
def hostile(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A lab with a model whose classes have names that are code."""
    folder = Path(shutil.copytree(exercise_folder(), tmp_path_factory.mktemp("hostile") / "hostile"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"labels": LABELS}), encoding="utf-8")
    with running_lab(folder) as address:
        yield address


@pytest.mark.parametrize(
    ("page_name", "ready"),
    [
        ("patches", "[data-look=hostile] [data-answer]"),
        ("draw", "[data-figure=heads]"),
    ],
)
def test_class_names_that_are_code_are_text(visit: Open, hostile: str, page_name: str, ready: str) -> None:
    origin = f"{urlsplit(hostile).scheme}://{urlsplit(hostile).netloc}"
    page = visit(f"#/{page_name}?model=hostile", start=hostile, origin=origin).page
    expect(page.locator(ready)).to_be_visible()
    expect(page.get_by_text("window.hacked").first).to_be_attached()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x'], main script").count() == 0
