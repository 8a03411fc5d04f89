"""The page computes what Python computes: its ViT as torch, its formulas as the count of the model."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from patchword.lab.costs import cost_json
from support.lab.node import run_node
from support.lab.vit_reference import exercise_folder, reference

RUN_VIT = """(page, given, readFileSync) => {
  const card = JSON.parse(readFileSync(given.folder + '/config.json', 'utf8'))
  const file = readFileSync(given.folder + '/model.safetensors')
  const bytes = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength)
  const weights = page.readSafetensors(bytes)
  return given.images.map((image) => {
    const { logits, attention } = page.forward(card, weights, Float32Array.from(image))
    return { logits: [...logits], attention: attention.map((map) => [...map]), softmax: page.softmax(logits) }
  })
}"""
RUN_FORMULAS = """(page, given) => given.configs.map((fields) => {
  const found = page.compute(given.cost, fields)
  return { macs: found.macs, parameters: found.parameters, layer: found.groups.find((one) => one.isBlock).macs }
})"""
ADJUSTABLE = "(page, given) => given.map((cost) => page.adjustable(cost))"


def images() -> torch.Tensor:
    """Noise, an empty image, a white one and a garment-like shape."""
    shape = torch.zeros(28, 28)
    shape[6:26, 8:20] = 0.9
    shape[6:12, 2:26] = 0.6
    noise = torch.rand(28, 28, generator=torch.Generator().manual_seed(0))
    return torch.stack([noise, torch.zeros(28, 28), torch.ones(28, 28), shape])


def test_the_vit_of_the_page_equals_torch(tmp_path: Path) -> None:
    given = {"folder": str(exercise_folder()), "images": images().flatten(1).tolist()}
    answers = run_node(tmp_path, "vit.js", RUN_VIT, given)
    for image, answer in zip(images(), answers, strict=True):
        logits, attention = reference(image)
        assert (torch.tensor(answer["logits"]) - logits).abs().max() < 1e-5
        assert (torch.tensor(answer["softmax"]) - logits.softmax(0)).abs().max() < 1e-5
        assert len(attention) == len(answer["attention"]) == 4
        for expected, found in zip(attention, answer["attention"], strict=True):
            assert (torch.tensor(found).reshape(expected.shape) - expected).abs().max() < 1e-5


def some_configs(count: int) -> list[dict[str, float]]:
    draw = random.Random(0)
    found = []
    for _ in range(count):
        patch, heads = draw.choice([2, 4, 7, 8]), draw.choice([1, 2, 3, 4, 8])
        width = heads * draw.randrange(2, 24, 2)
        sizes = {"image": patch * draw.randint(2, 12), "patch": patch, "width": width, "heads": heads}
        found.append({**sizes, "depth": draw.randint(1, 8), "mlp_ratio": draw.choice([1, 1.5, 2, 2.5, 3, 4, 5.5])})
    return found


def check_formulas(folder: Path, model: str, configs: list[dict[str, float]]) -> None:
    given = {"cost": cost_json(model), "configs": configs}
    for fields, found in zip(configs, run_node(folder, "formulas.js", RUN_FORMULAS, given), strict=True):
        exact = cost_json(model, [(name, str(value)) for name, value in fields.items()])
        expected = {"macs": exact["macs"]["total"], "parameters": exact["parameters"]}
        assert found == {**expected, "layer": exact["block"]["macs"]["total"]}, fields


def test_the_formulas_of_the_page_equal_the_count(tmp_path: Path) -> None:
    check_formulas(tmp_path, "vit-exercise", some_configs(20))


@pytest.mark.slow
def test_the_formulas_of_the_page_equal_the_count_for_200_configurations(tmp_path: Path) -> None:
    check_formulas(tmp_path, "vit-exercise", some_configs(200))


def test_the_exercise_in_numbers(tmp_path: Path) -> None:
    given: dict[str, Any] = {"cost": cost_json("vit-exercise"), "configs": [{}]}
    [found] = run_node(tmp_path, "formulas.js", RUN_FORMULAS, given)
    assert found == {"macs": 11_161_216, "parameters": 205_066, "layer": 2_777_600}


def test_models_with_equal_blocks_have_sliders(tmp_path: Path) -> None:
    costs = [cost_json(name) for name in ("vit-exercise", "deit-tiny", "swin-mini", "bert-tiny")]
    vit, deit, swin, bert = run_node(tmp_path, "formulas.js", ADJUSTABLE, costs)
    assert vit == deit == ["image", "patch", "width", "depth", "heads", "mlp_ratio"]
    assert swin == []
    assert "image" not in bert
