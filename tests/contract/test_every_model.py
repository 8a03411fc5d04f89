"""What holds for every model of the registry; a new family is held to all of it without a line here."""

from dataclasses import asdict

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import patchword
from helpers import TINY, assert_sharp, difference, pixels, randomise
from patchword.core.grid import sides
from patchword.layers import plain_attention, record_attention
from patchword.models import REGISTRY


def twins() -> dict[str, dict[str, object]]:
    """One tiny config for each structure in the registry: variants that differ in their sizes only are twins."""
    found: dict[str, dict[str, object]] = {}
    for name in REGISTRY.names():
        config = asdict(REGISTRY.find(name)[1].config)
        small = config | {field: size for field, size in TINY.items() if field in config}
        if small not in found.values():
            found[name] = small
    return found


TWINS = twins()


@pytest.fixture(params=TWINS)
def model(request):
    return randomise(patchword.create(request.param, **TWINS[request.param])).eval()


def images(model, count: int, size: tuple[int, int] = (32, 32)) -> torch.Tensor:
    return pixels(count, model.card.config["channels"], *size)


def test_every_family_has_a_twin():
    assert {REGISTRY.find(name)[0].name for name in TWINS} == {family.name for family in REGISTRY.families}


@pytest.mark.parametrize("name", REGISTRY.names())
def test_counts_are_those_of_the_table(name):
    variant = REGISTRY.find(name)[1]
    with torch.device("meta"):
        model = patchword.create(name)
        image = torch.zeros(1, variant.config.channels, *sides(variant.config.image))
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with FlopCounterMode(display=False) as counter:
        model(image)
    assert counter.get_total_flops() == 2 * variant.macs


def test_every_weight_gets_a_gradient(model):
    scores = model.train()(images(model, 2))
    assert scores.shape == (2, TINY["classes"])
    torch.nn.functional.cross_entropy(scores, torch.tensor([0, 3])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(model, tmp_path):
    patchword.save(model, tmp_path / "model")
    again = patchword.load(tmp_path / "model")
    assert again.card == model.card
    assert not again.training
    assert list(again.state_dict()) == list(model.state_dict())
    assert torch.equal(again(images(model, 2)), model(images(model, 2)))


@pytest.mark.parametrize("size", [(48, 48), (16, 40)])
@torch.no_grad()
def test_an_image_of_another_size(model, size):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with record_attention(model) as maps:
        scores = model(images(model, 2, size))
    assert scores.shape == (2, TINY["classes"])
    assert scores.isfinite().all()
    assert (maps[0].grid.height, maps[0].grid.width) == (size[0] // 8, size[1] // 8)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@torch.no_grad()
def test_an_image_does_not_depend_on_its_batch(model):
    batch = images(model, 4)
    assert difference(model(batch[2:3]), model(batch)[2:3]) < 1e-5


@torch.no_grad()
def test_fused_equals_plain_where_attention_is_sharp(model):
    batch = images(model, 2)
    assert_sharp(model, batch)
    with plain_attention(model):
        plain = model(batch)
    assert difference(model(batch), plain) < 1e-5


@torch.no_grad()
def test_compiles_without_a_break(model):
    batch = images(model, 2)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert difference(compiled(batch), model(batch)) < 1e-5


def test_weights_are_float32_and_contiguous(model):
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.float32, name
        assert tensor.is_contiguous(), name
