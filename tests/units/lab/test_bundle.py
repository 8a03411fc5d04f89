"""The committed page of the lab is the one that `web/` builds, small, and without foreign addresses. Needs no Node."""

import gzip
import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from patchword.lab.bundle import PAGE, Bundle, read_bundle

WEB = Path(__file__).parents[3] / "web"
SKIPPED = {"node_modules", "package-lock.json", ".vite"}
BUILD = "`make web` builds the page again"
FILES = re.compile(r"""(?:src|href)="\./assets/([\w.-]+)\"""")
IMPORTS = re.compile(r"""(?:\bfrom|\bimport)\s*["'`]\./([\w.-]+\.js)["'`]""")  # not import(), which waits
FIRST_PAGE = ("Start.js", "Start.css")
ADDRESS = re.compile(r"https?://[^\s\"'`)<>\\]+")
KNOWN = ("http://www.w3.org/", "https://svelte.dev/e/")  # namespaces, and error messages of Svelte; never requested


def hashes(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {
        name: sha256(path.read_bytes()).hexdigest()
        for name, path in names.items()
        if not SKIPPED & set(name.split("/")) and name != "built.json"
    }


def test_the_sources_are_those_of_the_build() -> None:
    assert hashes(WEB) == json.loads((PAGE / "built.json").read_text())["sources"], BUILD


def test_the_page_is_that_of_the_build() -> None:
    assert hashes(PAGE) == json.loads((PAGE / "built.json").read_text())["page"], BUILD


def first_load(bundle: Bundle) -> set[str]:
    """The assets that are loaded before the first page is shown."""
    found: set[str] = set()
    waiting = [*FIRST_PAGE, *FILES.findall(bundle.index)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += IMPORTS.findall(bundle.text(name)) if name.endswith(".js") else []
    return found


def gzipped(contents: Iterable[bytes]) -> int:
    return sum(len(gzip.compress(content)) for content in contents)


def test_the_first_load_has_at_most_40_kb() -> None:
    bundle = read_bundle(PAGE)
    names = first_load(bundle)
    assert {"lab.js", "svelte.js", "lab.css", "common.css"} < names
    assert gzipped([bundle.index.encode(), *(bundle.assets[name].content for name in names)]) <= 40 * 1024


def test_all_pages_have_at_most_200_kb() -> None:
    assets = {name: asset for name, asset in read_bundle(PAGE).assets.items() if not name.startswith("handout.")}
    assert gzipped(asset.content for asset in assets.values()) <= 200 * 1024


def test_the_page_names_no_foreign_address() -> None:
    found = {
        address
        for path in PAGE.rglob("*")
        if path.is_file()
        for address in ADDRESS.findall(path.read_text(encoding="utf-8"))
    }
    assert not [address for address in found if not address.startswith(KNOWN)]


def test_no_source_maps_and_no_inline_code() -> None:
    bundle = read_bundle(PAGE)
    assert not [name for name in bundle.assets if name.endswith(".map")]
    assert not any(b"sourceMappingURL" in asset.content for asset in bundle.assets.values())
    assert not re.search(r"<script(?![^>]*\bsrc=)", bundle.index)
    assert "<style" not in bundle.index
    assert "style=" not in bundle.index


def test_the_handout_cannot_end_its_script() -> None:
    assert "</script" not in read_bundle(PAGE).text("handout.js").lower()
