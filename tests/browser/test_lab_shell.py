"""Every page: accessible in both themes, by keyboard alone, at each size, without errors or foreign requests."""

from pathlib import Path

import pytest

from patchword.lab.bundle import PAGE, read_bundle
from patchword.lab.handout import handout
from patchword.lab.models import list_models
from support.lab.actions import draw, move, sums
from support.lab.browser import Open, expect
from support.lab.vit_reference import NAME

READY = {
    "#/start": "[data-start]",
    "#/lessons": "[data-lessons]",
    "#/cost": "[data-check=agrees]",
    "#/draw": "[data-figure=heads]",
    "#/embeddings?model=digits-vit&set=sample": "[data-ready=yes]",
    "#/windows": "[data-seen]",
    "#/landscape": "[data-figure=landscape]",
    "#/compare?code=on": "[data-code=swin-tiny]",
    "#/words": "[data-figure=sheet]",
    "#/words?view=fill": "[data-filled]",
    "#/words?view=similar": "[data-figure=similarity]",
    "#/words?view=walk": "[data-figure=stream]",
    "#/patches": "[data-look]",
    "#/translate": "[data-panel=first][data-state=ready] [data-figure=next] [role=button] >> nth=0",
    "#/positions": "[data-figure=matrix]",
    "#/positions?show=convolution": "[data-check=agrees]",
    "#/runs": "#start-training",
}
SIZES = [(1366, 768), (3840, 2160), (390, 844)]


@pytest.mark.parametrize("address", READY)
def test_axe_finds_no_violation(visit: Open, address: str) -> None:
    found = visit(address)
    expect(found.page.locator(READY[address])).to_be_visible()
    for theme in ("light", "dark"):
        found.page.emulate_media(color_scheme=theme)
        expect(found.page.locator(f":root[data-theme={theme}]")).to_be_attached()
        assert not found.violations(), theme
    if address == "#/draw":
        draw(found.page)
        found.page.get_by_text("Attention as a table").click()
        assert not found.violations()


@pytest.mark.parametrize("address", READY)
def test_nothing_is_wider_than_the_window(visit: Open, address: str) -> None:
    found = visit(address)
    expect(found.page.locator(READY[address])).to_be_visible()
    for mode in ("off", "on"):
        for width, height in SIZES:
            found.page.set_viewport_size({"width": width, "height": height})
            found.page.wait_for_timeout(300)  # figures are drawn again
            assert found.overflow() <= 0, (width, mode)
        found.page.get_by_role("button", name="Projector").click()


def test_projector_mode_has_large_type(visit: Open) -> None:
    page = visit("#/cost").page
    page.get_by_role("button", name="Projector").click()
    assert page.evaluate("getComputedStyle(document.body).fontSize") == "26px"


def test_the_theme_is_the_system_s_until_it_is_chosen(visit: Open) -> None:
    page = visit("#/cost", theme="dark").page
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()


def test_all_by_keyboard(visit: Open) -> None:
    page = visit("#/cost").page
    expect(page.locator(READY["#/cost"])).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        seen.append(name)
        visible = page.evaluate("document.activeElement.matches(':focus-visible')")
        assert visible or name == "" or page.evaluate("document.activeElement === document.body")
    fields = [f"field-{name}" for name in ("image", "patch", "width", "depth", "heads", "mlp_ratio")]
    assert {"Cost", "Draw", "model", "other", "Copy as LaTeX", "SVG", *fields} <= set(seen)
    page.evaluate("document.activeElement.blur()")  # in a field, a number is text
    page.keyboard.press("5")
    expect(page.locator(READY["#/draw"])).to_be_visible()
    page.keyboard.press("8")
    expect(page.locator(READY["#/cost"])).to_be_visible()


def test_an_unknown_page_is_said(visit: Open) -> None:
    expect(visit("#/nowhere").page.get_by_text("There is no such page.")).to_be_visible()


def test_a_handout_works_from_the_disk(visit: Open, tmp_path: Path) -> None:
    model = next(one for one in list_models([]).values() if one.source == NAME)
    path = tmp_path / "out.html"
    path.write_text(handout(["cost", "draw"], read_bundle(PAGE), model), encoding="utf-8")
    found = visit("", origin=path.as_uri(), start=path.as_uri())
    expect(found.page.locator("[data-sums=vit-exercise]")).to_be_visible()
    move(found.page, "depth", 8)
    assert sums(found.page)["macs"] == 50_176 + 8 * 2_777_600 + 640
    found.page.get_by_role("link", name="Draw").click()
    expect(found.page.locator(READY["#/draw"])).to_be_visible()
    draw(found.page)
    expect(found.page.locator("[data-answer]")).to_contain_text("%")
