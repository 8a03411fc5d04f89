"""A handout is one file that asks nothing of the network."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser

import pytest

from patchword.core.errors import UserError
from patchword.lab.bundle import PAGE, read_bundle
from patchword.lab.costs import cost_json
from patchword.lab.handout import handout, read_pages, write_handout
from patchword.weights.local_path import local_path
from support.lab.page import SCRIPT, write_page

ADDRESS = re.compile(r"""https?://(?!www\.w3\.org/|svelte\.dev/e/)[^\s"'`<>)]*""")


class Reader(HTMLParser):
    """The scripts and styles of a page, and the files that its elements name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.files: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._inside = tag
        self.files += [value for name, value in attrs if name in ("src", "href") and not value.startswith("data:")]
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside in self.texts:
            self.texts[self._inside][-1] += data


@pytest.fixture(scope="module")
def written(page, models) -> str:
    return handout(["cost", "draw"], read_bundle(page), models["vit-exercise"])


def data_of(page: str) -> dict:
    first = Reader(page).texts["script"][0]
    assert first.startswith("window.__HANDOUT__=")
    return json.loads(first.removeprefix("window.__HANDOUT__="))


def test_a_handout_names_no_other_file(written):
    assert Reader(written).files == []
    assert ADDRESS.findall(written) == []


def test_a_handout_has_the_script_and_the_style(written):
    read = Reader(written)
    assert len(read.texts["script"]) == 2
    assert read.texts["style"] == ["body { margin: 0 }\n"]
    # In a string of JavaScript \x3c is <; here it keeps the script from ending or from becoming a comment.
    assert read.texts["script"][1].replace("\\x3c", "<") == SCRIPT
    assert "</script" not in read.texts["script"][1]
    assert written.index('<div id="lab">') < written.index("window.__HANDOUT__")


def test_a_handout_has_the_model_and_the_cost(written):
    data, folder = data_of(written), local_path("zoo:vit-exercise")
    assert data["pages"] == ["cost", "draw"]
    assert b64decode(data["weights"]) == (folder / "model.safetensors").read_bytes()
    assert data["config"] == json.loads((folder / "config.json").read_text())
    assert data["cost"] == json.loads(json.dumps(cost_json("vit-exercise")))


def test_labels_cannot_end_the_script(page, models):
    class Hostile(type(models["vit-exercise"])):
        def config(self):
            return {"labels": ["</script><script>alert(1)</script>"]}

    hostile = Hostile(**vars(models["vit-exercise"]))
    found = handout(["draw"], read_bundle(page), hostile)
    assert data_of(found)["config"] == hostile.config()
    assert len(Reader(found).texts["script"]) == 2


def test_the_file_is_written(page, models, tmp_path):
    path = tmp_path / "out.html"
    size = write_handout(path, ["cost"], read_bundle(page), models["vit-exercise"])
    assert path.stat().st_size == size > 1_000_000
    assert data_of(path.read_text(encoding="utf-8"))["pages"] == ["cost"]
    with pytest.raises(UserError, match="HTML file"):
        write_handout(tmp_path / "out.pdf", ["cost"], read_bundle(page), models["vit-exercise"])


@pytest.mark.parametrize(("text", "pages"), [("cost,draw", ["cost", "draw"]), (" draw , draw,", ["draw"])])
def test_pages_are_read(text, pages):
    assert read_pages(text) == pages


@pytest.mark.parametrize("text", ["", ",", "cots", "cost,runs", "cost draw"])
def test_other_pages_are_an_error(text):
    with pytest.raises(UserError, match=r"expected pages of cost, draw"):
        read_pages(text)


def test_a_page_without_the_script_of_handouts_is_an_error(tmp_path, models):
    write_page(tmp_path)
    (tmp_path / "assets" / "handout.js").unlink()
    with pytest.raises(UserError, match=r"no file assets/handout\.js"):
        handout(["cost"], read_bundle(tmp_path), models["vit-exercise"])


def test_the_real_page_asks_nothing_of_the_network(models):
    written = handout(["cost", "draw"], read_bundle(PAGE), models["vit-exercise"])
    assert Reader(written).files == []
    assert ADDRESS.findall(written) == []
    assert len(Reader(written).texts["script"]) == 2
