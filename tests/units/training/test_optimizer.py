"""Adam without bias correction, layer-wise learning rates, the linear schedule; the rest is in test_training.py."""

import copy
import math

import pytest
import torch
from torch import nn

import patchword
from patchword import create
from patchword.core.errors import UserError
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.optimizer import ENDLESS, UncorrectedAdamW, adamw, optimizer_tensors, restore_optimizer
from patchword.training.schedule import WarmupLinear
from patchword.training.step import PlainStep
from support.helpers import tiny_text

RATE, DECAY, BETAS, EPS = 0.01, 0.1, (0.9, 0.999), 1e-6


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return model(inputs.to(next(model.parameters()).dtype)).square().sum() * (1 + step)


def by_hand(model: nn.Module, steps: int) -> None:
    """m and v as they are, p -= rate * (m / (sqrt(v) + eps) + decay * p), in double precision."""
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()}
    for step in range(steps):
        model.zero_grad()
        loss_of(model, step).backward()
        for name, parameter in model.named_parameters():
            first, second = moments[name]
            first.mul_(BETAS[0]).add_((1 - BETAS[0]) * parameter.grad)
            second.mul_(BETAS[1]).add_((1 - BETAS[1]) * parameter.grad.square())
            decay = DECAY if parameter.ndim > 1 else 0.0
            with torch.no_grad():
                parameter -= RATE * (first / (second.sqrt() + EPS) + decay * parameter)


def taken(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        loss_of(model, step).backward()
        optimizer.step()
        optimizer.zero_grad()


def uncorrected(model: nn.Module) -> torch.optim.AdamW:
    return adamw(model, RATE, DECAY, BETAS, bias_correction=False)


def test_without_bias_correction_it_is_the_formula():
    ours, reference = small(), small().double()
    by_hand(reference, 10)
    optimizer = uncorrected(ours)
    assert isinstance(optimizer, UncorrectedAdamW)
    taken(ours, optimizer, range(10))
    for parameter, expected in zip(ours.parameters(), reference.parameters(), strict=True):
        assert (parameter - expected).abs().max() < 1e-6


def test_a_weight_without_gradient_at_first_takes_the_same_first_step_later():
    models = [small(), small()]
    for model, skipped in zip(models, (0, 10), strict=True):
        optimizer = uncorrected(model)
        first, last = model[0].weight, model[2].weight
        for step in range(skipped + 1):
            last.grad = torch.zeros_like(last)
            first.grad = torch.ones_like(first) if step == skipped else None
            optimizer.step()
    assert torch.allclose(models[0][0].weight, models[1][0].weight, atol=1e-7)


def test_the_moments_of_an_earlier_checkpoint_are_read():
    """Earlier versions counted steps from 0."""
    models = [small(), small()]
    optimizers = [uncorrected(model) for model in models]
    for model, optimizer in zip(models, optimizers, strict=True):
        taken(model, optimizer, range(3))
    tensors = {
        name: tensor - ENDLESS if name.endswith("step") else tensor.clone()
        for name, tensor in optimizer_tensors(optimizers[1]).items()
    }
    restore_optimizer(optimizers[1], tensors)
    for model, optimizer in zip(models, optimizers, strict=True):
        taken(model, optimizer, range(3, 5))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_rewound_run_repeats_its_steps():
    """As when a run is rewound to before a loss spike."""
    model = small()
    optimizer = uncorrected(model)
    taken(model, optimizer, range(4))
    kept, before = copy.deepcopy(model), copy.deepcopy(optimizer_tensors(optimizer))
    taken(model, optimizer, range(4, 9))
    model.load_state_dict(kept.state_dict())
    restore_optimizer(optimizer, copy.deepcopy(before))
    fresh = uncorrected(kept)
    restore_optimizer(fresh, before)
    taken(model, optimizer, range(4, 6))
    taken(kept, fresh, range(4, 6))
    for one, other in zip(model.parameters(), kept.parameters(), strict=True):
        assert torch.equal(one, other)


def test_state_of_parameters_that_are_now_frozen_is_an_error():
    model = small()
    optimizer = adamw(model, RATE, DECAY)
    taken(model, optimizer, range(1))
    model[0].requires_grad_(False)
    with pytest.raises(UserError, match="other parameters: expected 2 trained parameters, got 4"):
        restore_optimizer(adamw(model, RATE, DECAY), optimizer_tensors(optimizer))
    fewer = {name: one for name, one in optimizer_tensors(optimizer).items() if name.startswith("optimizer.0.")}
    with pytest.raises(UserError, match="other parameters"):
        restore_optimizer(adamw(model, RATE, DECAY), fewer)


def test_it_resumes_from_a_checkpoint(tmp_path):
    whole, reference = small(), small().double()
    by_hand(reference, 10)
    optimizer = uncorrected(whole)
    taken(whole, optimizer, range(4))
    Checkpoints(tmp_path).save("epoch-0", optimizer_tensors(optimizer), {})
    halved = copy.deepcopy(whole)
    again = uncorrected(halved)
    restore_optimizer(again, Checkpoints(tmp_path).newest(print)[0])
    taken(halved, again, range(4, 10))
    taken(whole, optimizer, range(4, 10))
    for one, other, expected in zip(whole.parameters(), halved.parameters(), reference.parameters(), strict=True):
        assert one.equal(other)
        assert (one - expected).abs().max() < 1e-6


def test_the_first_step_is_larger_without_bias_correction():
    """By (1 - 0.9) / sqrt(1 - 0.999): at first the second moment is even smaller than the first."""
    models = [small(), small()]
    starts = [parameter.detach().clone() for parameter in models[0].parameters()]
    for model, bias_correction in zip(models, (False, True), strict=True):
        taken(model, adamw(model, RATE, 0.0, bias_correction=bias_correction), range(1))
    for start, plain, bias_correction in zip(starts, models[0].parameters(), models[1].parameters(), strict=True):
        ratio = (plain - start) / (bias_correction - start)
        assert torch.allclose(ratio, torch.full_like(ratio, 0.1 / math.sqrt(0.001)), rtol=1e-3)


def test_a_step_leaves_the_settings_as_they_were():
    model = small()
    optimizer = uncorrected(model)
    before = [{key: group[key] for key in ("lr", "eps", "weight_decay")} for group in optimizer.param_groups]
    taken(model, optimizer, range(3))
    assert [{key: group[key] for key in ("lr", "eps", "weight_decay")} for group in optimizer.param_groups] == before
    assert before == [{"lr": RATE, "eps": EPS, "weight_decay": decay} for decay in (DECAY, 0.0)]


# Layer-wise learning rates


def rates(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group["lr"] for group in optimizer.param_groups for p in group["params"]}


@pytest.mark.parametrize("head", ["classes", "pretraining"])
def test_each_block_scales_the_learning_rate_of_the_one_above(head):
    model = tiny_text(depth=3, head=head, classes=2)
    optimizer = adamw(model, 1.0, 0.01, layer_decay=0.5)

    class Objective:
        def __call__(self, piece, batch):
            loss = sum(parameter.square().sum() for parameter in model.parameters())
            return type("Outcome", (), {"loss": loss, "right": torch.zeros(())})()

    class Batch:
        weight, device = 1, torch.device("cpu")

        def split(self, parts):
            return [self]

    PlainStep(Objective(), optimizer)(Batch(), 0.8)
    found = rates(model, optimizer)
    assert found.keys() == dict(model.named_parameters()).keys()
    for name, rate in found.items():
        if name.startswith("embedding."):
            expected = 0.8 * 0.5**4
        elif name.startswith("encoder.blocks."):
            expected = 0.8 * 0.5 ** (3 - int(name.split(".")[2]))
        else:
            assert name.startswith("head.")
            expected = 0.8
        assert rate == pytest.approx(expected), name
    assert len(set(found.values())) == 5


def test_without_layer_decay_all_have_the_same_learning_rate():
    model = tiny_text(head="classes", classes=2)
    optimizer = adamw(model, 0.3, 0.01)
    assert len(optimizer.param_groups) == 2
    assert all(group["lr_scale"] == 1 for group in optimizer.param_groups)


def test_names_have_their_own_learning_rate():
    model = nn.ModuleDict({"backbone": small(), "backbone_like": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    optimizer = adamw(model, 1.0, 0.01, lr_ratios={"backbone.": 0.1})
    scales = {id(p): group["lr_scale"] for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert scales[id(parameter)] == (0.1 if name.startswith("backbone.") else 1.0), name
    assert sorted((group["lr_scale"], group["weight_decay"]) for group in optimizer.param_groups) == [
        (0.1, 0.0),
        (0.1, 0.01),
        (1.0, 0.0),
        (1.0, 0.01),
    ]


def test_a_ratio_of_one_keeps_the_order_of_the_parameters():
    """A checkpoint numbers them."""
    model = nn.ModuleDict({"head": nn.Linear(2, 2), "backbone": small()})
    one, other = (adamw(model, 1.0, 0.01, lr_ratios=ratios).param_groups for ratios in ({}, {"backbone.": 1.0}))
    assert [[id(p) for p in group["params"]] for group in one] == [[id(p) for p in group["params"]] for group in other]


def test_layer_decay_keeps_weight_decay_on_matrices_only():
    model = tiny_text(head="classes", classes=2)
    for group in adamw(model, 0.3, 0.01, layer_decay=0.9).param_groups:
        kinds = {parameter.ndim > 1 for parameter in group["params"]}
        assert kinds == {group["weight_decay"] == 0.01}


# The schedule


def test_the_learning_rate_rises_and_falls_linearly():
    schedule = WarmupLinear(peak=2.0, total=10, warmup=4)
    assert [schedule(step) for step in range(4)] == [0.5, 1.0, 1.5, 2.0]
    assert [schedule(step) for step in range(4, 11)] == pytest.approx([2 * (1 - done / 6) for done in range(7)])
    assert schedule(10) == schedule(99) == 0


def test_the_rate_ends_at_its_floor():
    schedule = WarmupLinear(peak=2.0, total=8, floor=0.25)
    assert [schedule(step) for step in (0, 4, 8, 20)] == [2.0, 1.25, 0.5, 0.5]


@pytest.mark.parametrize(("total", "warmup"), [(1, 0), (1, 1), (2, 2), (0, 0)])
def test_short_runs_have_a_rate_too(total, warmup):
    assert all(0 <= WarmupLinear(1.0, total, warmup)(step) <= 1 for step in range(4))


def test_the_blocks_of_all_stages_are_counted_through():
    model = create("swin-mini")
    rates = {}
    for group in adamw(model, 1.0, 0.01, layer_decay=0.5).param_groups:
        for parameter in group["params"]:
            rates[id(parameter)] = group["lr_scale"]
    scales = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    depths = model.card.config["depths"]
    total = sum(depths)
    assert scales["head.linear.weight"] == scales["norm.weight"] == 1.0
    before = 0
    for stage, depth in enumerate(depths):
        first = next(name for name in scales if name.startswith(f"stages.{stage}.stem."))
        assert scales[first] == 0.5 ** (total + 1 - before)
        for block in range(depth):
            names = [name for name in scales if name.startswith(f"stages.{stage}.encoder.blocks.{block}.")]
            assert {scales[name] for name in names} == {0.5 ** (total - before - block)}
        before += depth


def test_moments_from_a_checkpoint_have_the_strides_of_their_weights():
    """AdamW's fused kernel on a GPU refuses moments with other strides; a checkpoint stores them contiguous."""
    whole = nn.Conv2d(3, 4, 3)
    whole.weight.data = whole.weight.data.contiguous(memory_format=torch.channels_last)
    optimizer = adamw(whole, RATE, DECAY)
    taken_images(whole, optimizer, range(2))
    stored = {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in optimizer_tensors(optimizer).items()
    }
    resumed = copy.deepcopy(whole)
    again = adamw(resumed, RATE, DECAY)
    restore_optimizer(again, stored)
    assert again.state[resumed.weight]["exp_avg_sq"].stride() == resumed.weight.stride()
    taken_images(whole, optimizer, range(2, 4))
    taken_images(resumed, again, range(2, 4))
    assert resumed.weight.equal(whole.weight)


def taken_images(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        images = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(step))
        model(images).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", ["elmo-small", "lstm-translation-small", "transformer-small"])
def test_recurrent_matrices_are_decayed_and_lower_layers_learn_slower(name):
    with torch.device("meta"):
        model = patchword.create(name)
    optimizer = adamw(model, 1.0, 0.01, layer_decay=0.5)
    names = {id(parameter): found for found, parameter in model.named_parameters()}
    groups = {names[id(one)]: group for group in optimizer.param_groups for one in group["params"]}
    decayed = {found.rpartition(".")[2] for found, group in groups.items() if group["weight_decay"]}
    scales = {found: group["lr_scale"] for found, group in groups.items()}
    if name == "elmo-small":
        assert decayed == {"weight", "inputs", "recurrent", "output"}
        expected = {"embedding.characters.weight": 3, "encoder.layers.0.inputs": 2, "encoder.layers.1.output": 1}
    elif name == "lstm-translation-small":
        assert decayed == {"weight", "weight_ih_l0", "weight_hh_l0"}
        expected = {"source.words.weight": 3, "encoder.backwards.0.weight_ih_l0": 2, "decoder.weight_hh_l0": 1}
        assert scales["encoder.forwards.0.bias_hh_l0"] == scales["encoder.backwards.0.bias_hh_l0"]
    else:
        assert decayed == {"weight"}
        expected = {"source.words.weight": 9, "encoder.blocks.0.attention.norm.weight": 8, "decoder_norm.weight": 0}
    assert {found: scales[found] for found in expected} == {found: 0.5**below for found, below in expected.items()}
