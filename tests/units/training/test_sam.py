"""SAM: equal to two passes written by hand, and to the plain step with rho 0."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import patchword
from patchword.core.errors import UserError
from patchword.data.image.batches import Batch
from patchword.layers.model import Model
from patchword.objectives.classification import Classification
from patchword.recipes import find_recipe
from patchword.recipes.steps import build_step
from patchword.recipes.train import train
from patchword.training import sam
from patchword.training.guard.nonfinite import NonFiniteGuard
from patchword.training.guard.oom_retry import OomRetry
from patchword.training.optimizer import adamw
from patchword.training.sam import Adaptive, SharpnessAware, Steepest
from patchword.training.step import PlainStep
from support.helpers import tiny, unequal_tensors
from support.material import silent

RHO = 0.3


def batch_of(count: int = 10, seed: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 3, 32, 32, generator=generator)
    return Batch(inputs, torch.randint(0, 7, (count,), generator=generator), torch.arange(count))


def model_of(name: str = "vit-tiny-16", **fields: object) -> Model:
    if name == "vit-tiny-16":
        return tiny(name, **fields).train()
    torch.manual_seed(0)
    return patchword.create(name, channels=3, image=32, classes=7, width=4, depths=(1, 1), **fields).train()


def steps_of(model: Model, ascent: sam.Ascent | None, count: int, **options: object) -> list[tuple[Tensor, Tensor]]:
    """Take `count` steps on `count` batches, seeded as in the loop."""
    plain = PlainStep(Classification(model, 0.1), adamw(model, 1e-2, 0.05), **options)
    step = plain if ascent is None else SharpnessAware(plain, model, ascent)
    results = []
    for number in range(count):
        torch.manual_seed(number)
        results.append(step(batch_of(seed=number), 1e-2))
    return results


def by_hand(
    model: Model, top: Callable[[dict[str, Tensor], dict[str, Tensor]], dict[str, Tensor]], clip_norm: float = 0.0
):
    """One step without code of the library; returns both gradients."""
    batch = batch_of()
    optimizer = adamw(model, 1e-2, 0.05)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def gradient(at: dict[str, Tensor]) -> dict[str, Tensor]:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in at.items()}
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        torch.manual_seed(5)
        scores = torch.func.functional_call(model, {**leaves, **buffers}, (batch.inputs,))
        loss = F.cross_entropy(scores, batch.labels, label_smoothing=0.1)
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    first = gradient(weights)
    second = gradient(top(weights, first))
    for name, parameter in model.named_parameters():
        parameter.grad = second[name]
    if clip_norm:
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return first, second


def steepest(weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    length = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()
    return {name: weights[name] + RHO * gradients[name] / (length + 1e-12) for name in weights}


def adaptive(weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    scaled = {name: weights[name].abs() * gradients[name] for name in weights}
    length = torch.cat([part.flatten() for part in scaled.values()]).norm()
    return {name: weights[name] + RHO * weights[name].abs() * scaled[name] / (length + 1e-12) for name in weights}


ASCENTS = {"steepest": (Steepest(RHO), steepest), "adaptive": (Adaptive(RHO), adaptive)}


def caught_gradient(model: Model, ascent: sam.Ascent, **options: object) -> tuple[dict[str, Tensor], Tensor]:
    """The gradient that the optimizer receives, and the loss that is returned."""
    optimizer, caught = adamw(model, 1e-2, 0.05), {}
    optimizer.register_step_pre_hook(
        lambda *_: caught.update({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    )
    step = SharpnessAware(PlainStep(Classification(model, 0.1), optimizer, **options), model, ascent)
    torch.manual_seed(5)
    loss, _ = step(batch_of(), 1e-2)
    return caught, loss


def furthest(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference, relative to the largest value."""
    largest = max(float(tensor.abs().max()) for tensor in expected.values())
    return max(float((found[name] - expected[name]).abs().max()) for name in expected) / largest


@pytest.mark.parametrize("kind", ASCENTS)
@pytest.mark.parametrize("fields", [{"name": "vit-tiny-16", "dropout": 0.1}, {"name": "resnet-mini"}])
@pytest.mark.parametrize("clip_norm", [0.0, 0.01])
def test_a_step_is_the_two_passes_written_by_hand(kind, fields, clip_norm):
    ascent, top = ASCENTS[kind]
    expected, found = model_of(**fields), model_of(**fields)
    first, second = by_hand(expected, top, clip_norm)
    caught, _ = caught_gradient(found, ascent, clip_norm=clip_norm)
    if clip_norm:
        second = {name: parameter.grad for name, parameter in expected.named_parameters()}
        assert torch.cat([gradient.flatten() for gradient in second.values()]).norm() == pytest.approx(
            clip_norm, rel=1e-4
        )
    assert furthest(caught, second) < 1e-5
    assert furthest(caught, first) > 1e-2  # the weights were perturbed


@pytest.mark.parametrize("kind", ASCENTS)
def test_the_optimizer_receives_the_unperturbed_weights(kind):
    model = model_of("resnet-mini")
    before, found, optimizer = sam.clones(model.parameters()), [], adamw(model, 1e-2, 0.05)
    optimizer.register_step_pre_hook(lambda *_: found.extend(sam.clones(model.parameters())))
    SharpnessAware(PlainStep(Classification(model), optimizer), model, ASCENTS[kind][0])(batch_of(), 1e-2)
    assert all(torch.equal(one, other) for one, other in zip(before, found, strict=True))
    assert not torch.equal(before[0], next(model.parameters()))


def test_the_two_ascents_differ():
    caught = [caught_gradient(model_of(), ascent)[0] for ascent, _ in ASCENTS.values()]
    assert furthest(*caught) > 1e-2


def check_equal(ascent: sam.Ascent, name: str, fields: dict[str, object], count: int = 2, **options: object) -> None:
    plain, other = model_of(name, **fields), model_of(name, **fields)
    expected, found = steps_of(plain, None, count, **options), steps_of(other, ascent, count, **options)
    for (loss, right), (other_loss, other_right) in zip(expected, found, strict=True):
        assert torch.equal(loss, other_loss)
        assert torch.equal(right, other_right)
    assert unequal_tensors(plain, other) == []


@pytest.mark.parametrize("ascent", [Steepest(0.0), Adaptive(0.0)], ids=["steepest", "adaptive"])
@pytest.mark.parametrize("options", [{}, {"micro_batches": 3}, {"clip_norm": 0.1}])
def test_without_a_radius_it_is_bit_equal_to_the_plain_step(ascent, options):
    check_equal(ascent, "vit-tiny-16", {"dropout": 0.2, "drop_path": 0.2}, **options)
    check_equal(ascent, "resnet-mini", {"drop_path": 0.2}, **options)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch's, on processors without bfloat16
def test_without_a_radius_it_is_the_plain_step_in_half_precision_too():
    fields = {"dropout": 0.2, "patch": 32, "depth": 1}
    check_equal(Steepest(0.0), "vit-tiny-16", fields, 1, micro_batches=2, precision="bfloat16")


def test_micro_batches_share_one_perturbation():
    """The perturbation is that of the whole batch, not of each micro-batch."""
    whole, _ = caught_gradient(model_of(), Steepest(RHO))
    pieces, _ = caught_gradient(model_of(), Steepest(RHO), micro_batches=4)
    assert furthest(pieces, whole) < 1e-5


def test_the_returned_loss_is_that_of_the_unperturbed_weights():
    model = model_of()
    batch = batch_of()
    torch.manual_seed(5)
    with torch.no_grad():
        expected = F.cross_entropy(model(batch.inputs), batch.labels, reduction="sum", label_smoothing=0.1)
    assert torch.isclose(caught_gradient(model, Steepest(RHO))[1], expected, rtol=1e-5)


def test_running_statistics_change_once():
    plain, other = model_of("resnet-mini"), model_of("resnet-mini")
    steps_of(plain, None, count=1)
    steps_of(other, Steepest(RHO), count=1)
    statistics = {name: buffer for name, buffer in plain.named_buffers() if "running" in name or "tracked" in name}
    assert len(statistics) > 10
    for name, buffer in statistics.items():
        assert torch.equal(buffer, other.get_buffer(name)), name


def test_the_comparison_detects_running_statistics_of_both_passes(monkeypatch):
    monkeypatch.setattr(sam, "with_buffers", lambda model, earlier: nullcontext())
    with pytest.raises(AssertionError):
        test_running_statistics_change_once()


def test_the_comparison_detects_other_random_numbers_in_the_second_pass(monkeypatch):
    monkeypatch.setattr(sam, "save_rng", lambda device: lambda: None)
    with pytest.raises(AssertionError):
        check_equal(Steepest(0.0), "vit-tiny-16", {"dropout": 0.2})


def test_the_generator_of_the_given_device_is_restored(monkeypatch):
    """Not that of the default device of the module."""

    class Module:
        def __init__(self) -> None:
            self.states = {0: "first", 1: "second"}

        def get_rng_state(self, device: torch.device) -> str:
            return self.states[device.index]

        def set_rng_state(self, state: str, device: torch.device) -> None:
            self.states[device.index] = state

    module = Module()
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    back = sam.save_rng(torch.device("cuda", 1))
    module.states[1] = "later"
    back()
    assert module.states == {0: "first", 1: "second"}


class Halves(nn.Module):
    """Its second half has a gradient in the first pass, and none after it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = self.first(inputs)
        return answer + self.second(inputs) if self.calls == 1 else answer


def test_a_weight_without_a_gradient_in_the_second_pass_is_restored():
    model = Halves()
    before = model.second.weight.detach().clone()
    batch = Batch(torch.randn(5, 4), torch.randint(0, 3, (5,)), torch.arange(5))
    plain = PlainStep(Classification(model), torch.optim.SGD(model.parameters(), 0.1))
    SharpnessAware(plain, model, Steepest(1.0))(batch, 0.1)
    assert torch.equal(model.second.weight, before)
    assert model.calls == 2


def test_the_weights_are_restored_when_the_second_pass_fails():
    model = model_of()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    calls = []

    def objective(piece: Batch, batch: Batch) -> object:
        calls.append(len(piece.labels))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return Classification(model)(piece, batch)

    with pytest.raises(KeyboardInterrupt):
        SharpnessAware(PlainStep(objective, adamw(model, 1e-2, 0.0)), model, Steepest(RHO))(batch_of(), 1e-2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_zero_gradient_gives_no_perturbation():
    weights, gradients = [torch.ones(3), torch.ones(2)], [torch.zeros(3), torch.zeros(2)]
    for ascent in (Steepest(1.0), Adaptive(1.0)):
        assert all(not moved.any() for moved in ascent(weights, gradients))


@contextmanager
def one_process() -> Iterator[None]:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def test_processes_synchronize_both_gradients():
    """So that all have the same perturbation, as one process with all samples."""
    alone, shared = model_of(), model_of()
    steps_of(alone, Steepest(RHO), count=2)
    calls = []

    def hook(state: object, bucket: torch.distributed.GradBucket) -> torch.futures.Future[Tensor]:
        calls.append(bucket.index())
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    with one_process():
        spread = nn.parallel.DistributedDataParallel(shared)
        spread.register_comm_hook(None, hook)
        plain = PlainStep(Classification(spread, 0.1), adamw(shared, 1e-2, 0.05))
        step = SharpnessAware(plain, shared, Steepest(RHO))
        for number in range(2):
            torch.manual_seed(number)
            step(batch_of(seed=number), 1e-2)
            assert calls.count(0) == 2 * (number + 1)
    for name, parameter in alone.named_parameters():
        assert torch.allclose(parameter, shared.get_parameter(name), atol=1e-5), name


# From a recipe


def test_a_recipe_selects_the_step(tmp_path):
    """NonFiniteGuard contains OomRetry, which contains SAM if the recipe sets it, or the plain step."""
    base, model = find_recipe("digits-vit"), model_of()
    train = SimpleNamespace(images=SimpleNamespace(pixels=None))
    task = SimpleNamespace(model=model, device=torch.device("cpu"), recipe=base, train=train)
    optimizer = adamw(model, 1e-3, 0.0)
    made = {}
    for words in ("sam=0", "sam=0.05", "sam=2 sam_adaptive=true"):
        recipe = base.with_settings(words.split())
        guard = build_step(recipe, task, Classification(model), optimizer, tmp_path, silent())
        assert isinstance(guard, NonFiniteGuard)
        assert isinstance(guard.step, OomRetry)
        made[words] = guard.step.step
        assert guard.plain is guard.step.plain is getattr(made[words], "plain", made[words])
    assert isinstance(made["sam=0"], PlainStep)
    assert made["sam=0.05"].ascent == Steepest(0.05)
    assert made["sam=2 sam_adaptive=true"].ascent == Adaptive(2.0)
    assert made["sam=0.05"].plain.clip_norm == base.clip_norm


@pytest.mark.parametrize("recipe", ["digits-vit", "classify-text", "bert-pretrain"])
def test_a_negative_radius_is_refused_in_every_kind_of_recipe(recipe):
    with pytest.raises(UserError, match=r"recipe field 'sam': expected a number, 0 or more, got -0\.05"):
        find_recipe(recipe).with_settings(["sam=-0.05"])


def test_adaptive_sam_needs_a_radius(tmp_path):
    with pytest.raises(UserError, match="'sam_adaptive' has no effect without 'sam'"):
        train(find_recipe("digits-vit").with_settings(["sam_adaptive=true"]), tmp_path / "run", silent())
    assert not (tmp_path / "run").exists()
