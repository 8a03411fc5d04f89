"""Gradient checkpointing, seen by how often a block runs."""

from collections import Counter

import pytest
import torch
from torch import nn

import patchword
from patchword.core.errors import UserError
from patchword.layers import ConvResidual, DropPath, checkpoint_activations, drop_path_rates
from patchword.layers.block import Block
from support.helpers import image_families, pixels, randomise, smallest

PYRAMIDS = ["swin-mini", "resnet-mini", "regnety-mini", "pvt-mini"]


def runs(model: nn.Module, *, backward: bool = True) -> list[set[int]]:
    """How often the blocks of each stage run in one step: stage by stage, the different counts."""
    counted: Counter[str] = Counter()
    blocks = {name: module for name, module in model.named_modules() if isinstance(module, Block | ConvResidual)}
    handles = [
        module.register_forward_pre_hook(lambda *_, name=name: counted.update([name]))
        for name, module in blocks.items()
    ]
    scores = model(pixels(2, 1, 14, 14))
    if backward:
        scores.square().mean().backward()
    for handle in handles:
        handle.remove()
    stages = range(len(model.stages))
    return [{counted[name] for name in blocks if name.startswith(f"stages.{stage}.")} for stage in stages]


@pytest.mark.parametrize("name", PYRAMIDS)
def test_only_the_chosen_stages_run_their_blocks_again(name):
    model = patchword.create(name).train()
    later = len(model.stages) - 1
    assert later >= 1
    assert runs(model) == [{1}] * (later + 1)
    checkpoint_activations(model, [0])
    assert runs(model) == [{2}] + [{1}] * later
    checkpoint_activations(model, [later])
    assert runs(model) == [{1}] * later + [{2}]
    checkpoint_activations(model)
    assert runs(model) == [{2}] * (later + 1)
    checkpoint_activations(model, [])
    assert runs(model) == [{1}] * (later + 1)


@pytest.mark.parametrize("name", ["swin-mini", "resnet-mini"])
def test_nothing_is_kept_to_be_recomputed_where_nothing_is_learned(name):
    model = patchword.create(name)
    checkpoint_activations(model)
    assert runs(model.eval()) == [{1}] * len(model.stages)
    with torch.no_grad():
        assert runs(model.train(), backward=False) == [{1}] * len(model.stages)


@pytest.mark.parametrize("stages", [[2], [-1], [0, 5]])
def test_a_stage_that_there_is_not_is_the_users_error(stages):
    model = patchword.create("swin-mini")
    with pytest.raises(UserError, match="no such stage to recompute: expected 0 to 1") as caught:
        checkpoint_activations(model, stages)
    assert caught.value.got == sorted(stages)
    assert not any(stage.encoder.recompute for stage in model.stages)


def test_a_backbone_can_be_recomputed_too():
    backbone = patchword.create("swin-mini", features=True).train()
    checkpoint_activations(backbone, [1])
    assert [stage.encoder.recompute for stage in backbone.stages] == [False, True]


def test_the_batch_is_counted_once_in_the_statistics():
    model = randomise(patchword.create("resnet-mini")).train()
    checkpoint_activations(model)
    runs(model)
    counts = {int(count) for name, count in model.named_buffers() if name.endswith("num_batches_tracked")}
    assert counts == {1}
    momenta = {module.momentum for module in model.modules() if isinstance(module, nn.BatchNorm2d)}
    assert momenta == {0.1}


def test_the_second_pass_drops_what_the_first_dropped():
    """Stochastic depth draws anew in each pass, unless the state of the generator is restored."""
    gradients = []
    for stages in ([], None):
        model = randomise(patchword.create("swin-mini", drop_path=0.5, dropout=0.3)).train()
        checkpoint_activations(model, stages)
        torch.manual_seed(3)
        model(pixels(4, 1, 14, 14)).square().mean().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(kept, again) for kept, again in zip(*gradients, strict=True))


# Stochastic depth


def test_rates_rise_from_nought_to_the_last_block():
    rates = drop_path_rates(0.3, (1, 2, 4))
    assert [len(stage) for stage in rates] == [1, 2, 4]
    assert [rate for stage in rates for rate in stage] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])


def test_a_single_block_is_never_dropped():
    assert drop_path_rates(0.3, [1]) == [[0.0]]
    assert drop_path_rates(0.0, [2, 2]) == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("swin-mini", [0, 0.1, 0.2, 0.3]),
        ("cswin-mini", [0, 0.1, 0.2, 0.3]),
        ("pale-mini", [0, 0.1, 0.2, 0.3]),
        ("pvt-mini", [0, 0.1, 0.2, 0.3]),
        ("cvt-mini", [0, 0, 0, 0.3]),  # only in the last stage
    ],
)
def test_a_pyramids_rates_rise_over_its_stages(name, expected):
    model = patchword.create(name, drop_path=0.3)
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    for residual in ("attention", "feed_forward"):
        assert [getattr(block, residual).drop_path.rate for block in blocks] == pytest.approx(expected)


def test_every_family_can_drop():
    for name in map(smallest, image_families()):
        rates = [module.rate for module in patchword.create(name, drop_path=0.3).modules() if type(module) is DropPath]
        assert max(rates) == pytest.approx(0.3), name


# A compiler's time grows with the blocks. One block per stage has every kind of block: attention, attention with
# convolutions and batch norms, convolutions. The whole models are under the slow marker.
SHALLOW = {"vit-exercise": {"depth": 1}, "cvt-mini": {"depths": (1, 1)}, "resnet-mini": {"depths": (1, 1, 1)}}


@pytest.mark.parametrize(
    ("name", "fields"),
    [*SHALLOW.items(), *(pytest.param(name, {}, marks=pytest.mark.slow) for name in SHALLOW)],
    ids=lambda value: value if isinstance(value, str) else "shallow" if value else "whole",
)
def test_recomputing_and_compiling_go_together(name, fields):
    model = randomise(patchword.create(name, **fields)).train()
    start, found = {key: tensor.clone() for key, tensor in model.state_dict().items()}, []
    for on in (False, True):
        model.load_state_dict(start)
        model.zero_grad()
        checkpoint_activations(model, None if on else [])
        torch.compiler.reset()
        forward = torch.compile(model, backend="aot_eager", fullgraph=True) if on else model
        forward(pixels(4, 1, 28, 28)).square().mean().backward()
        buffers = [buffer.clone() for buffer in model.buffers()]
        found.append(([parameter.grad for parameter in model.parameters()], buffers))
    largest = max(float(gradient.abs().max()) for gradient in found[0][0])
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert float((one - other).abs().max()) < 1e-5 * largest
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other)
