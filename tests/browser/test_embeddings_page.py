"""The page Embeddings shows the map of p.embed, its neighbours, and word vectors."""

import csv
import io
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np

import patchword
from patchword.analysis.embeddings import neighbours, pca
from patchword.recipes.vectors.words import WordVectors
from patchword.weights.local_path import local_path
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

DIGITS = "#/embeddings?model=digits-vit&set=sample"
SVG = "{http://www.w3.org/2000/svg}"


@cache
def embedded(layer: int, pool: str | None = None) -> np.ndarray:
    files = sorted((local_path("zoo:digits-vit") / "sample").glob("*.png"))
    return patchword.pipeline("zoo:digits-vit", device="cpu").embed(files, layer=layer, pool=pool)


def ready(page: Any, layer: int) -> None:
    expect(page.locator(f"[data-ready=yes][data-layer='{layer}']")).to_be_visible()


def assert_shows(page: Any, vectors: np.ndarray) -> None:
    found = np.asarray(saved_json(page, "Save the map")["points"])
    np.testing.assert_allclose(np.abs(found), np.abs(pca(vectors).points), atol=1e-4)


def test_it_opens_with_a_map(visit: Open) -> None:
    page = visit("#/embeddings").page
    expect(page.locator("[data-ready=yes]")).to_be_visible(timeout=60_000)  # 300 images, if the machine has them
    expect(page.locator("[data-figure=map] path[data-kind]")).to_have_count(10)


def test_each_layer_is_the_pca_of_p_embed(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    assert_shows(page, embedded(4))
    expect(page.locator("[data-agreements]")).not_to_contain_text("…")
    page.locator("#embeddings-layer").press("ArrowLeft")
    ready(page, 3)
    assert_shows(page, embedded(3))
    page.locator("#embeddings-layer").press("Home")
    ready(page, 0)
    expect(page.get_by_text("All vectors of this layer are the same")).to_be_visible()
    page.locator("#embeddings-pool").select_option("mean")
    ready(page, 0)
    expect(page.get_by_text("All vectors of this layer are the same")).to_have_count(0)
    assert_shows(page, embedded(0, "mean"))
    tsne = page.locator("#embeddings-projection option[value=tsne]")
    if tsne.get_attribute("disabled") is None:
        page.locator("#embeddings-projection").select_option("tsne")
        expect(page.locator("[data-ready=yes]")).to_be_visible()
        assert len(saved_json(page, "Save the map")["points"][0]) == 2


def test_a_click_shows_the_nearest_neighbours(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    surface = page.get_by_role("application")
    box = surface.bounding_box()
    places = np.asarray(saved_json(page, "Save the map")["points"])[:, :2]
    centre = (places.max(0) + places.min(0)) / 2
    marker = page.locator("[data-figure=map] path[data-kind='0']").bounding_box()
    spread = places[:4]  # the zeros
    scale = (marker["width"] - 2 * 0.34 * 16) / np.ptp(spread[:, 0])
    point = int(np.abs(places - centre).sum(1).argmax())
    x, y = (places[point] - centre) * scale
    page.mouse.move(box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y)
    shown = int(page.locator("[data-tip]").get_attribute("data-tip"))
    page.mouse.down()
    page.mouse.up()
    expect(page.locator(f"[data-chosen='{shown}']")).to_be_attached()
    expect(page.locator("[data-neighbour]")).to_have_count(8)
    found = [int(one.get_attribute("data-neighbour")) for one in page.locator("[data-neighbour]").all()]
    assert found == [row for row, _ in neighbours(embedded(4), shown, 8)]
    page.wait_for_timeout(400)  # the address follows after 200 ms
    assert f"point={shown + 1}" in page.evaluate("location.hash")


def test_the_address_restores_the_view(visit: Open) -> None:
    page = visit(f"{DIGITS}&layer=2&pool=mean&point=5&axes=23").page
    ready(page, 2)
    expect(page.locator("[data-chosen='4']")).to_be_attached()
    expect(page.locator("[data-point='4']")).to_contain_text("1")
    assert page.locator("#embeddings-axes").input_value() == "23"
    assert_shows(page, embedded(2, "mean"))
    page.evaluate("location.hash = '#/embeddings?model=bert-mini&set=topics&layer=1'")
    ready(page, 1)
    expect(page.locator("#embeddings-model")).to_have_value("bert-mini")


def test_it_works_by_keyboard(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("[data-tip]").get_attribute("data-tip")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowUp")
    second = page.locator("[data-tip]").get_attribute("data-tip")
    assert first != second
    page.keyboard.press("Space")
    expect(page.locator("[data-selected='2']")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(f"[data-chosen='{second}']")).to_be_attached()
    before = page.locator("[data-figure=map] path[data-kind='0']").get_attribute("d")
    page.keyboard.press("+")
    assert page.locator("[data-figure=map] path[data-kind='0']").get_attribute("d") != before
    page.keyboard.press("0")
    assert page.locator("[data-figure=map] path[data-kind='0']").get_attribute("d") == before


def test_the_lasso_selects_and_classes_are_hidden(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    page.get_by_role("button", name="Lasso").click()
    box = page.get_by_role("application").bounding_box()
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    expect(page.locator("[data-selected='40']")).to_be_visible()
    page.get_by_role("group", name="Classes").get_by_role("button", name="3").click()
    assert page.locator("[data-figure=map] path[data-kind='3']").get_attribute("d") == ""


def test_the_views_are_saved(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    page.get_by_role("button", name="Images", exact=True).click()
    svg = ElementTree.fromstring(saved(page, "Save the map", "SVG"))
    assert len(svg.findall(f".//{SVG}use")) == 40
    assert len(svg.findall(f".//{SVG}image")) == 1
    assert saved(page, "Save the map", "PNG").startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(saved(page, "Save the map", "CSV").decode())))
    assert [row["label"] for row in rows] == [str(number // 4) for number in range(40)]
    np.testing.assert_allclose([float(row["norm"]) for row in rows], np.linalg.norm(embedded(4), axis=1), rtol=1e-5)


def test_typed_texts_are_mapped(visit: Open) -> None:
    found = visit("#/embeddings?model=bert-mini&set=topics&layer=4")
    page = found.page
    ready(page, 4)
    page.get_by_text("Your texts", exact=True).click()
    page.locator("#given-texts").fill("One.\nTwo.\nThree.")
    page.get_by_role("button", name="Show them").click()
    expect(page.get_by_role("alert")).to_contain_text("4 to 500")
    found.errors.clear()  # the browser reports the 422
    page.locator("#given-texts").fill("A dog barks.\nA cat sleeps.\n\nThe stock fell.\nThe bank pays.")
    page.get_by_role("button", name="Show them").click()
    expect(page.get_by_text("4 points")).to_be_visible()
    ready(page, 4)
    texts = ["A dog barks.", "A cat sleeps.", "The stock fell.", "The bank pays."]
    assert_shows(page, patchword.pipeline("zoo:bert-mini", device="cpu").embed(texts, normalize=False))


def test_word_vectors_answer_analogies(visit: Open) -> None:
    words = WordVectors.read("zoo:word-vectors")
    found = visit("#/embeddings?model=word-vectors&word=paris&analogy=france+paris+germany")
    page = found.page
    expect(page.locator("[data-answer]")).to_have_text(words.analogy("france", "paris", "germany", 1)[0].word)
    expect(page.locator("[data-words=near] li")).to_have_count(10)
    shown = [one.inner_text() for one in page.locator("[data-words=near] li > span:first-child").all()]
    assert shown == [one.word for one in words.near("paris")]
    page.locator("#near-word").fill("parris")
    page.locator("#near-word").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("parris")
    found.errors.clear()  # the browser reports the 422


def test_the_table_has_every_point(visit: Open) -> None:
    page = visit(DIGITS).page
    ready(page, 4)
    page.get_by_text("Points as a table").click()
    expect(page.locator(".table tbody tr")).to_have_count(40)
    page.get_by_role("button", name="Choose 7", exact=True).click()
    expect(page.locator("[data-chosen='6']")).to_be_attached()
