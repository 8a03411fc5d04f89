"""What holds for every model of images; a new family is held to all of it without a line here."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import patchword
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.layers import TokenMixing, checkpoint_activations, record_attention, reference_attention
from patchword.models import REGISTRY
from support.helpers import (
    assert_sharp,
    difference,
    image_families,
    image_models,
    image_structures,
    pixels,
    randomise,
    smallest,
)
from support.sweeps import sweep

SIZES = [(29, 31), (20, 36)]  # divisible by nothing; not square


STRUCTURES = image_structures()


@pytest.fixture(params=STRUCTURES)
def model(request):
    name, config = STRUCTURES[request.param]
    return randomise(patchword.create(name, **config)).eval()


def images(model, count: int, size: tuple[int, int] = (28, 28)) -> torch.Tensor:
    return pixels(count, model.card.config["channels"], *size)


def has_attention(model) -> bool:
    return any(isinstance(module, patchword.layers.Attention) for module in model.modules())


def takes_one_size(model) -> bool:
    return any(isinstance(module, TokenMixing) for module in model.modules())


def test_every_family_has_a_structure():
    assert {REGISTRY.find(name)[0].name for name in STRUCTURES} == set(image_families())


# By default one model of every structure in the registry, and the smallest of every family; the other sizes are slow.
@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize("name", sweep(image_models(), [*STRUCTURES, *map(smallest, image_families())]))
def test_counts_are_those_of_the_table(name):
    variant = REGISTRY.find(name)[1]
    with torch.device("meta"):
        model = patchword.create(name)
        image = torch.zeros(1, variant.config.channels, *sides(variant.config.image))
    assert sum(parameter.numel() for parameter in model.parameters()) == variant.parameters
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(image)
    assert counter.get_total_flops() == 2 * variant.macs


@pytest.mark.usefixtures("quick_meta")
def test_the_working_adds_up(model):
    from patchword.analysis.cost import count

    cost = count(Card(model.card.model, model.card.config))
    with FlopCounterMode(display=False) as counter:
        model.to("meta")(images(model, 1).to("meta"))
    assert 2 * cost.macs == counter.get_total_flops()


def test_every_weight_gets_a_gradient(model):
    tokens, grid = model.train().encode(images(model, 4))
    scores = model.head(tokens, grid)
    assert scores.shape == (4, 10)
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 3, 9, 5]))
    (loss + tokens.square().mean()).backward()  # a [CLS] token does not need the other queries of the last block
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


@pytest.mark.parametrize("size", SIZES)
@torch.no_grad()
def test_an_image_of_another_size(model, size):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if takes_one_size(model):
        with pytest.raises(UserError, match="one number of patches"):
            model(images(model, 2, size))
        return
    with record_attention(model) as maps:
        scores = model(images(model, 2, size))
    assert scores.shape == (2, 10)
    assert scores.isfinite().all()
    assert all(attention.weights.isfinite().all() for attention in maps)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("size", SIZES)
@torch.no_grad()
def test_created_for_another_size(model, size):
    changes = {**model.card.config, "image": size}
    if "patch" in changes and any(side % changes["patch"] for side in size) and model.card.model in ONE_STAGE:
        with pytest.raises(UserError, match="cannot be cut into patches"):
            patchword.create(model.card.model, **changes)
        return
    other = randomise(patchword.create(model.card.model, **changes)).eval()
    scores = other(images(model, 2, size))
    assert scores.shape == (2, 10)
    assert scores.isfinite().all()


# Patches of these families are words; an image that they do not divide is a mistake when the model is made for it.
ONE_STAGE = ("vit-exercise", "deit-mini", "mixer-mini")


@pytest.mark.parametrize("size", [(28, 28), *SIZES])
@torch.no_grad()
def test_features(model, size):
    if takes_one_size(model) and size != (28, 28):
        return
    backbone = patchword.create(model.card.model, features=True, **model.card.config)
    tensors = model.state_dict()
    backbone.load_state_dict({name: tensors[name] for name in backbone.state_dict()})
    maps = backbone.eval()(images(model, 2, size))
    assert len(maps) == len(model.stages) == len(backbone.strides) == len(backbone.widths)
    for feature_map, stride, width in zip(maps, backbone.strides, backbone.widths, strict=True):
        assert feature_map.shape[:2] == (2, width)
        for side, pixel_count in zip(feature_map.shape[2:], size, strict=True):
            assert side in (pixel_count // stride, -(-pixel_count // stride))
    tokens, grid = model.encode(images(model, 2, size))
    assert difference(model.norm(maps[-1].flatten(2).transpose(1, 2)), tokens[:, grid.prefix :]) < 1e-5


@torch.no_grad()
def test_an_image_does_not_depend_on_its_batch(model):
    batch = images(model, 4)
    assert difference(model(batch[2:3]), model(batch)[2:3]) < 1e-5


@pytest.mark.parametrize("size", [(28, 28), *SIZES])
@torch.no_grad()
def test_fused_equals_plain_where_attention_is_sharp(model, size):
    if not has_attention(model):
        return
    batch = images(model, 2, size)
    assert_sharp(model, batch)
    with reference_attention(model):
        plain = model(batch)
    assert difference(model(batch), plain) < 1e-5


@torch.no_grad()
def test_compiles_without_a_break(model):
    batch = images(model, 2)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert difference(compiled(batch), model(batch)) < 1e-5


@torch.no_grad()
def test_exports_with_any_batch(model):
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(model, (images(model, 3),), dynamic_shapes=({0: batch},))
    for count in (1, 5):
        assert difference(exported.module()(images(model, count)), model(images(model, count))) < 1e-5


def test_recomputing_changes_nothing_but_memory(model):
    gradients, statistics = [], []
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for on in (False, True):
        model.load_state_dict(start)
        checkpoint_activations(model.train(), None if on else [])
        model.zero_grad()
        model(images(model, 4)).square().mean().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
        statistics.append({name: tensor.clone() for name, tensor in model.named_buffers()})
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])
    assert all(torch.equal(statistics[0][name], statistics[1][name]) for name in statistics[0])


def test_stochastic_depth_rises(model):
    config = {**model.card.config, "drop_path": 0.5}
    rates = [
        module.rate
        for module in patchword.create(model.card.model, **config).modules()
        if isinstance(module, patchword.layers.DropPath)
    ]
    risen = [rate for rate in rates if rate]
    assert len(risen) > 1
    assert risen == sorted(risen)
    assert risen[-1] == 0.5
    assert rates[0] == 0


def test_weights_are_float32_and_contiguous(model):
    for name, tensor in model.state_dict().items():
        counts = name.endswith("num_batches_tracked")
        assert tensor.dtype == (torch.int64 if counts else torch.float32), name
        assert tensor.is_contiguous(), name


def test_no_part_is_a_subclass_of_block_or_attention():
    def below(kind: type[nn.Module]) -> list[type[nn.Module]]:
        return kind.__subclasses__()

    assert not below(patchword.layers.Block)
    assert not below(patchword.layers.Attention)
