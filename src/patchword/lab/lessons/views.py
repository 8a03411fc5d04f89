"""The addresses of views: which pages the lab has, and which fields each reads from its address."""

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from patchword.core.errors import UserError, nearest
from patchword.lab.bundle import Bundle

Pages = Mapping[str, tuple[str, ...]]
PAGES = "pages.json"
EXAMPLE = "#/cost?model=vit-exercise&depth=8"
_ADDRESS = re.compile(r"#/([a-z]+)(?:\?([^\s#]*))?")


def known_pages(bundle: Bundle) -> Pages:
    """Return the fields of each page, as the page itself lists them."""
    return {page["id"]: tuple(page["fields"]) for page in json.loads(bundle.text(PAGES))}


def check_view(address: str, pages: Pages) -> str:
    """Return the address of a view if the lab has its page and the page has its fields."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UserError("no view of the lab", expected=f"an address inside the lab, e.g. {EXAMPLE}", got=address[:80])
    page, query = found[1], found[2] or ""
    if page not in pages:
        raise UserError("no view of the lab", expected="a page of the lab", got=page[:80], hint=nearest(page, pages))
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True, max_num_fields=30)]
    wrong = next((name for name in names if name not in pages[page] or names.count(name) > 1), None)
    if wrong is not None:
        fields = f"each field of the page {page} once: {', '.join(pages[page]) or 'it has none'}"
        raise UserError("no view of the lab", expected=fields, got=wrong[:80])
    return address
