"""The page Positions: every encoding with its numbers, the kernel that attention computes, the address."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from patchword.analysis.positions import position_tables
from patchword.layers.embedding.sinusoids import sinusoids_at
from patchword.weights import load
from patchword.zoo.entries import entry_folder
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect


def address(page: Any) -> str:
    page.wait_for_timeout(300)
    return str(page.evaluate("location.hash"))


def test_sinusoids_follow_the_sliders(visit: Open) -> None:
    page = visit("#/positions?length=60&width=32&position=5&dimension=7").page
    expect(page.locator("[data-figure=matrix]")).to_be_visible()
    expect(page.locator("output[for=position]")).to_have_text("5")
    page.locator("#position").press("ArrowRight")
    found = saved_json(page, "Save the vectors")
    expected = sinusoids_at(torch.arange(60), 32, "interleaved")
    assert found["shape"] == [60, 32]
    assert (torch.tensor(found["values"]).view(60, 32) - expected).abs().max() < 1e-5
    near = saved_json(page, "Save the similarity")
    assert near["position"] == 6
    assert (torch.tensor(near["similarity"]) - F.cosine_similarity(expected, expected[6], dim=-1)).abs().max() < 1e-5
    assert "position=6&dimension=7" in address(page)
    page.locator("#length").press("Home")
    assert saved_json(page, "Save the vectors")["shape"] == [10, 32]


@pytest.mark.parametrize(("name", "closest"), [("vit-exercise", None), ("bert-mini", 18)])
def test_learned_vectors_are_those_of_the_model(visit: Open, name: str, closest: int | None) -> None:
    page = visit(f"#/positions?show=learned&model={name}&position=17").page
    expect(page.locator("[data-figure=similarity]")).to_be_visible()
    table = position_tables(load(entry_folder(f"zoo:{name}")))[0].table
    similarity = F.cosine_similarity(table, table[17], dim=-1)
    found = torch.tensor(saved_json(page, "Save the similarity")["similarity"])
    assert (found - similarity).abs().max() < 1e-5
    similarity[17] = -1
    assert page.locator("[data-closest]").get_attribute("data-closest") == str(int(similarity.argmax()))
    assert closest in (None, int(similarity.argmax()))


def test_the_relative_biases_of_a_block(visit: Open) -> None:
    page = visit("#/positions?show=relative&table=3&position=8").page
    expect(page.locator("[data-figure=relative]")).to_be_visible()
    expect(page.get_by_role("heading", name="Relative bias, 4 heads")).to_be_visible()
    found = saved_json(page, "Save the biases")
    table = position_tables(load(entry_folder("zoo:swin-mini")))[2].table
    biases = torch.tensor(found["biases"])
    assert biases.shape == (4, 49)
    for key in (0, 8, 30):
        expected = table[1 - key // 7 + 6, 1 - key % 7 + 6]
        assert (biases[:, key] - expected).abs().max() < 1e-6


def test_rotary_scores_depend_on_the_distance(visit: Open) -> None:
    page = visit("#/positions?show=rotary&m=9&n=4").page
    score = page.locator("[data-score]")
    expect(score).to_have_text(f"{torch.cos(5 * 10_000.0 ** -(torch.arange(32) / 32)).mean():.3f}")
    before = score.inner_text()
    page.locator("#m").press("ArrowRight")
    assert score.inner_text() != before
    page.locator("#n").press("ArrowRight")
    expect(score).to_have_text(before)


def test_attention_computes_the_kernel(visit: Open) -> None:
    page = visit("#/positions?show=convolution&kernel=1,0,-1,2,0,-2,1,0,-1&sample=Ring").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.locator("#kernel-5").press("ArrowRight")
    found = saved_json(page, "Save the result")
    assert found["kernel"] == [1, 0, -1, 2, 0.25, -2, 1, 0, -1]
    image = torch.tensor(found["image"]).view(1, 1, 14, 14)
    expected = F.conv2d(image, torch.tensor(found["kernel"]).view(1, 1, 3, 3), padding=1).flatten()
    assert (torch.tensor(found["attention"]) - expected).abs().max() < 1e-5
    assert found["difference"] < 1e-12
    assert "kernel=1%2C0%2C-1%2C2%2C0.25%2C-2" in address(page)
    page.locator("#strength").press("Home")
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    assert float(page.locator("[data-difference]").get_attribute("data-difference")) > 0.1


@pytest.mark.parametrize("show", ["patches", "rotary", "relative", "convolution"])
def test_every_view_is_accessible_and_saved(visit: Open, show: str) -> None:
    found = visit(f"#/positions?show={show}", theme="dark")
    figure = {"patches": "wave", "rotary": "circle", "relative": "relative", "convolution": "result"}[show]
    expect(found.page.locator(f"[data-figure={figure}]")).to_be_visible()
    assert not found.violations()
    group = {"patches": "the dimension", "rotary": "the score", "relative": "the biases", "convolution": "the heads"}
    assert saved(found.page, f"Save {group[show]}", "SVG").startswith(b"<svg")
    assert saved(found.page, f"Save {group[show]}", "PNG").startswith(b"\x89PNG")
    assert len(saved(found.page, f"Save {group[show]}", "CSV").splitlines()) > 10
