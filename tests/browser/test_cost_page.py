"""The page Cost shows what Python counts, for every position of its sliders."""

import csv
import io
from xml.etree import ElementTree

from patchword.analysis.cost import count
from patchword.core.card import Card
from patchword.lab.costs import cost_json
from patchword.models import REGISTRY
from support.lab.actions import move, saved, saved_json, sums
from support.lab.browser import Open, expect


def counted(model: str = "vit-exercise", **fields: float) -> dict[str, int]:
    """Return the sums as the page names them."""
    overrides = [(name, str(value)) for name, value in fields.items()]
    exact = cost_json(model, overrides)
    block = exact["block"]
    layer = {"layer-macs": block["macs"]["total"], "layer-parameters": block["parameters"]}
    return {**layer, "macs": exact["macs"]["total"], "parameters": exact["parameters"]}


def test_it_starts_with_the_exercise(visit: Open) -> None:
    page = visit("#/cost").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    assert sums(page) == counted()
    assert sums(page)["layer-macs"] == 2_777_600
    assert sums(page)["layer-parameters"] == 49_984
    _, variant = REGISTRY.find("vit-exercise")
    assert sums(page)["macs"] == count(Card("vit-exercise", vars(variant.config))).macs


def test_sliders_change_every_line_and_the_model_agrees(visit: Open) -> None:
    page = visit("#/cost").page
    fields = {"image": 56, "width": 96, "depth": 6, "heads": 8, "mlp_ratio": 2.5}
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    for name, value in fields.items():
        move(page, name, value)
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    assert sums(page) == counted(**fields)
    row = page.locator(".steps tr", has_text="query, key, value")
    assert "3 × 197 × 96 × 96" in row.inner_text()
    assert f"{3 * 197 * 96 * 96:,}" in row.inner_text()


def test_the_address_restores_the_view(visit: Open) -> None:
    page = visit("#/cost?model=vit-exercise&image=42&patch=6&depth=2&with=deit-tiny").page
    expect(page.locator("[data-sums=deit-tiny]")).to_be_visible()
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    assert sums(page) == counted(image=42, patch=6, depth=2)
    assert sums(page, "deit-tiny") == counted("deit-tiny")
    move(page, "depth", 3)
    page.wait_for_timeout(400)  # the address follows after 200 ms
    restored = page.evaluate("location.hash")
    assert "depth=3" in restored
    assert "with=deit-tiny" in restored


def test_fields_that_do_not_fit_are_explained(visit: Open) -> None:
    page = visit("#/cost?model=vit-exercise&image=30&patch=4").page
    expect(page.get_by_role("alert")).to_contain_text("cannot be cut into patches")
    assert sums(page) == counted()


def test_a_model_with_stages_shows_its_own_numbers(visit: Open) -> None:
    page = visit("#/cost?model=swin-mini").page
    expect(page.locator("[data-sums=swin-mini]")).to_be_visible()
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    assert page.locator("input[type=range]").count() == 0
    shown = page.locator("[data-sums=swin-mini] [data-sum=macs]").inner_text()
    assert int(shown.replace(",", "")) == cost_json("swin-mini")["macs"]["total"]


def test_an_unknown_model_is_an_error_message(visit: Open) -> None:
    found = visit("#/cost?model=no-such-model")
    expect(found.page.get_by_role("alert")).to_contain_text("no-such-model")
    found.errors.clear()  # the browser reports the 404


def test_every_view_is_saved(visit: Open) -> None:
    page = visit("#/cost").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    for group in ("Save the parts", "Save the curve"):
        svg = ElementTree.fromstring(saved(page, group, "SVG"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in ElementTree.tostring(svg, "unicode").replace('fill="var', "")
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
    table = list(csv.DictReader(io.StringIO(saved(page, "Save the table", "CSV").decode())))
    assert sum(int(row["times"]) * int(row["macs"]) for row in table) == counted()["macs"]
    assert sum(int(row["times"]) * int(row["parameters"]) for row in table) == counted()["parameters"]
    curve = {row["image"]: row["macs"] for row in saved_json(page, "Save the curve")}
    assert curve[112] == counted(image=112)["macs"]
    shares = saved_json(page, "Save the parts")
    assert sum(row["macs"] for row in shares) == counted()["macs"]


def test_the_calculation_is_copied(visit: Open) -> None:
    page = visit("#/cost").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.locator("[data-notice]")).to_have_text("Copied.")
    markdown = page.evaluate("navigator.clipboard.readText()")
    assert "3 × N × D × D = 3 × 50 × 64 × 64 = 614,400" in markdown
    assert "**2,777,600**" in markdown
    page.get_by_role("button", name="Copy as LaTeX").click()
    page.wait_for_timeout(100)
    latex = page.evaluate("navigator.clipboard.readText()")
    assert latex.count("\\begin{align*}") == latex.count("\\end{align*}") > 3
    assert "11{,}161{,}216" in latex
