"""A built page of the lab of a few lines, in place of the real one."""

from collections.abc import Sequence
from pathlib import Path

from patchword.lab.app import LabSettings, build_app
from patchword.lab.bundle import read_bundle
from patchword.lab.lessons.lesson import Lesson
from patchword.lab.models import ListedModel
from patchword.serving.access import Access
from support.lab.asgi import Caller

INDEX = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>patchword lab</title>
    <link rel="icon" href="data:," />
    <script type="module" crossorigin src="./assets/lab.js"></script>
    <link rel="stylesheet" crossorigin href="./assets/style.css">
  </head>
  <body>
    <div id="lab"></div>
  </body>
</html>
"""
SCRIPT = 'const a = "</script><!--<script>", space = "http://www.w3.org/2000/svg"; window.begun = a + space\n'
FILES = {
    "index.html": INDEX,
    "assets/lab.js": 'import "./cost.js"\n',
    "assets/cost.js": "export const cost = 1\n",
    "assets/handout.js": SCRIPT,
    "assets/handout.css": "body { margin: 0 }\n",
    "assets/style.css": "body { margin: 1px }\n",
    "assets/pages.json": (Path(__file__).parents[3] / "web/src/pages.json").read_text(encoding="utf-8"),
    "secret.txt": "outside of assets",
}


def write_page(folder: Path) -> Path:
    """Write the page and return its folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def caller(page: Path, models: dict[str, ListedModel], lessons: Sequence[Lesson] = ()) -> Caller:
    """Return a caller of a lab, which sends the cookie."""
    access = Access(8765)
    app = build_app(LabSettings(access, read_bundle(page), models, lessons))
    return Caller(app, {"host": "127.0.0.1:8765", "cookie": f"{access.cookie}={access.token}"})
