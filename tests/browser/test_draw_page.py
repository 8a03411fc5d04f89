"""The page Draw: what is drawn is classified by the model in the page as by torch, with the same attention."""

import torch

from support.lab.actions import draw, saved, saved_json
from support.lab.browser import Open, expect
from support.lab.vit_reference import reference


def test_a_drawing_is_classified_as_by_torch(visit: Open) -> None:
    page = visit("#/draw").page
    expect(page.locator("[data-answer]")).to_contain_text("T-shirt/top")
    expect(page.locator("#draw-hint")).to_contain_text("your first stroke replaces it")
    draw(page)
    expect(page.locator("#draw-hint")).not_to_contain_text("your first stroke replaces it")
    expect(page.locator("[data-answer]")).to_contain_text("%")
    page.wait_for_timeout(200)
    found = saved_json(page, "Save the prediction")
    logits, attention = reference(torch.tensor(found["pixels"]))
    assert (torch.tensor(found["logits"]) - logits).abs().max() < 1e-5
    assert page.locator("[data-answer]").get_attribute("data-answer") == found["labels"][logits.argmax()]
    for layer in (4, 1):
        page.get_by_role("button", name=f"Layer {layer}").click()
        maps = saved_json(page, "Save the attention")
        assert maps["layer"] == layer
        weights = torch.tensor(maps["weights"]).reshape(maps["shape"])
        assert (weights - attention[layer - 1]).abs().max() < 1e-5


def test_the_query_is_the_patch_under_the_mouse(visit: Open) -> None:
    page = visit("#/draw").page
    expect(page.locator("[data-figure=heads]")).to_be_visible()
    draw(page)
    box = page.locator("[data-figure=heads] image").first.bounding_box()
    cell = box["width"] / 7
    page.mouse.move(box["x"] + 3.5 * cell, box["y"] + 2.5 * cell)
    expect(page.locator("output[for=query]")).to_have_text("row 3, column 4")
    page.mouse.move(1, 1)
    expect(page.locator("output[for=query]")).to_have_text("[CLS]")
    page.locator("#query").press("ArrowRight")
    expect(page.locator("output[for=query]")).to_have_text("row 1, column 1")


def test_it_draws_with_the_keyboard(visit: Open) -> None:
    page = visit("#/draw").page
    surface = page.get_by_role("application")
    expect(page.locator("[data-figure=heads]")).to_be_visible()
    surface.focus()
    for key in ("ArrowUp", "ArrowUp", "Space", "Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator("[data-answer]")).to_contain_text("%")
    pixels = torch.tensor(saved_json(page, "Save the prediction")["pixels"]).reshape(28, 28)
    assert pixels[13, 13] == 1
    assert pixels[0].sum() == 0
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("[data-answer]")).to_have_text("Nothing is drawn yet.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("[data-answer]")).to_contain_text("%")


def test_it_draws_by_touch(visit: Open) -> None:
    page = visit("#/draw", size=(390, 844)).page
    expect(page.locator("[data-figure=heads]")).to_be_visible()
    box = page.locator(".surface").bounding_box()
    session = page.context.new_cdp_session(page)
    for kind, x in (("touchStart", 0.3), ("touchMove", 0.5), ("touchMove", 0.7)):
        point = {"x": box["x"] + x * box["width"], "y": box["y"] + 0.5 * box["height"]}
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("[data-answer]")).to_contain_text("%")
    assert sum(saved_json(page, "Save the prediction")["pixels"]) > 20


def test_the_figures_are_saved(visit: Open) -> None:
    page = visit("#/draw?layer=2").page
    expect(page.locator("[data-figure=heads]")).to_be_visible()
    draw(page)
    for group in ("Save the prediction", "Save the attention"):
        assert saved(page, group, "SVG").startswith(b"<svg")
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
    lines = saved(page, "Save the attention", "CSV").decode().splitlines()
    assert lines[0] == "layer,query,key,head 1,head 2,head 3,head 4"
    assert len(lines) == 51
