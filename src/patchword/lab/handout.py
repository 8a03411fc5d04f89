"""A handout: one HTML file with pages of the lab and all that they need, which opens from the disk without a server."""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError, nearest
from patchword.core.files import write_text
from patchword.lab.bundle import Bundle
from patchword.lab.costs import cost_json
from patchword.lab.models import ListedModel

PAGES = ("cost", "draw")
MODEL = "vit-exercise"
SCRIPT = "handout.js"  # the page as one classic script: modules do not load from the disk
STYLE = "handout.css"
_SCRIPTS = re.compile(r"\s*<script\b[^>]*>\s*</script>")
_LINKS = re.compile(r"\s*<link\b[^>]*>")
_HREF = re.compile(r"""\bhref=["']?(?:\./|/)?assets/([^"'\s>]+)""")


def read_pages(text: str) -> list[str]:
    """Return the pages of a text such as "cost,draw"."""
    pages = list(dict.fromkeys(page.strip() for page in text.split(",") if page.strip()))
    wrong = next((page for page in pages if page not in PAGES), None)
    if wrong is not None or not pages:
        what = f"a handout has no page {wrong!r}" if wrong else "the handout has no pages"
        raise UserError(what, expected=f"pages of {', '.join(PAGES)}, separated by commas", hint=nearest(text, PAGES))
    return pages


def handout(pages: Sequence[str], bundle: Bundle, model: ListedModel) -> str:
    """Return the HTML of a handout. model: the one that the page Draw runs."""
    data: dict[str, Any] = {"pages": list(pages), "model": model.to_json(), "config": model.config()}
    data["weights"] = b64encode(model.weights()).decode()
    data["cost"] = cost_json(MODEL)
    style = f"<style>{_in_style(bundle.text(STYLE))}</style>\n"
    script = f"<script>window.__HANDOUT__={_json(data)}</script>\n<script>{_in_script(bundle.text(SCRIPT))}</script>\n"
    page = _LINKS.sub(lambda link: "" if _HREF.search(link[0]) else link[0], _SCRIPTS.sub("", bundle.index))
    before, head, rest = page.partition("</head>")
    inside, body, after = rest.rpartition("</body>")
    if not head or not body:
        raise UserError("the page of the lab is not complete", expected="index.html with </head> and </body>")
    return f"{before}{style}{head}{inside}{script}{body}{after}"


def write_handout(path: Path, pages: Sequence[str], bundle: Bundle, model: ListedModel) -> int:
    """Write a handout and return its size in bytes."""
    if path.suffix not in (".html", ".htm"):
        raise UserError("a handout is an HTML file", expected="a name such as out.html", got=str(path))
    page = handout(pages, bundle, model)
    write_text(path, page)
    return len(page.encode())


def _json(value: Any) -> str:
    """Return JSON that cannot end the script around it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _in_script(code: str) -> str:
    r"""Escape what would end or comment a script inside HTML; in strings \x3c is the same character."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", code, flags=re.IGNORECASE)


def _in_style(sheet: str) -> str:
    return re.sub(r"<(?=/style)", r"\\3c ", sheet, flags=re.IGNORECASE)
