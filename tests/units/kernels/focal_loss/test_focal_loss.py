"""The focal loss kernel matches the reference, on a GPU or in Triton's interpreter."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from patchword.kernels.focal_loss import focal_loss, tuning
from patchword.kernels.focal_loss import operation as module
from patchword.kernels.focal_loss.operation import has_focal_loss_kernel
from patchword.kernels.focal_loss.reference import focal_loss_reference
from patchword.objectives.detection import losses as objective
from support.dense.operators import assert_compiles
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, needs_triton


@pytest.fixture
def chosen(triton, monkeypatch):
    """The kernel runs for every tensor, also on the CPU."""
    monkeypatch.setattr(module, "has_focal_loss_kernel", lambda logits: True)


def given(*shape, dtype=torch.float32, scale=6.0):
    """Return logits, and labels of which some are background (negative or too large)."""
    torch.manual_seed(0)
    return (torch.randn(shape) * scale).to(DEVICE, dtype), torch.randint(-2, shape[-1] + 2, shape[:-1]).to(DEVICE)


def differentiated(run, logits):
    leaf = logits.detach().requires_grad_()
    output = run(leaf)
    slopes = (torch.arange(output.numel(), device=DEVICE) % 7 - 2).view(output.shape)  # exact in every dtype
    return [output.detach(), *torch.autograd.grad(output, leaf, slopes.to(output.dtype))]


def check(logits, labels, gamma, alpha):
    def by_reference(leaf):
        return focal_loss_reference(leaf, labels, gamma, alpha)

    exact = differentiated(by_reference, logits.double())
    found = differentiated(lambda leaf: focal_loss(leaf, labels, gamma=gamma, alpha=alpha), logits)
    if logits.dtype == torch.float32:
        assert_as_exact(found, differentiated(by_reference, logits), exact)
    else:
        assert all(part.dtype == logits.dtype for part in found)
        assert_rounded(found, exact)


@pytest.mark.parametrize("gamma", [2.0, 1.5])
def test_the_reference_is_the_loss_of_the_objectives(gamma):
    logits, labels = (part.cpu() for part in given(4, 7, 5))  # where no kernel runs
    expected = objective.focal_loss(logits, labels, gamma=gamma, alpha=0.3)
    assert torch.equal(focal_loss_reference(logits, labels, gamma, 0.3), expected)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("gamma", [0.0, 1.0, 1.5, 2.0, 5.0])
@pytest.mark.parametrize("shape", [(3, 11, 5), (9, 1), (4, 80)], ids=str)
def test_the_kernel_matches_the_reference(gamma, shape):
    check(*given(*shape), gamma, 0.25)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_logits(dtype):
    check(*given(3, 7, 5, dtype=dtype), 2.0, 0.25)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("label", [0, 9])
def test_small_losses_are_exact_too(label):
    """Each loss alone: a norm would hide small ones. They fall like exp(-3 x), so a rounding of x counts 3 x times."""
    logits = torch.linspace(-20, 20, 41, device=DEVICE)[:, None]
    labels = torch.full((41,), label, device=DEVICE)
    found = differentiated(lambda leaf: focal_loss(leaf, labels, gamma=2.0, alpha=0.5), logits)
    exact = differentiated(lambda leaf: focal_loss_reference(leaf, labels, 2.0, 0.5), logits.double())
    bound = 2 * torch.finfo(torch.float32).eps * (1 + 3 * logits.abs())
    for one, other in zip(found, exact, strict=True):
        assert ((one.double() - other).abs() <= bound * other.abs()).all()


@pytest.mark.usefixtures("chosen")
def test_several_programs_views_and_no_logits(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 16)
    logits, labels = given(6, 9, 5)
    check(logits.transpose(0, 1), labels.t(), 2.0, 0.25)
    check(logits[:, ::2], labels[:, ::2].int(), 2.0, 0.25)
    assert focal_loss(logits[:0], labels[:0], gamma=2.0, alpha=0.25).shape == (0, 9, 5)
    assert tuning.BLOCK > 16


@pytest.mark.usefixtures("chosen")
def test_second_derivatives():
    logits, labels = given(2, 3, scale=1.0)

    def curvature(run):
        leaf = logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(run(leaf, labels, 2.0, 0.25).sum(), leaf, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), leaf)[0]

    assert torch.allclose(curvature(module.fused_focal_loss), curvature(focal_loss_reference))


@pytest.mark.usefixtures("chosen")
def test_a_compiled_graph_has_one_operation_forward_and_one_backward():
    logits, labels = given(4, 5)
    seen: list[str] = []

    def backend(graph, _):
        seen.extend(str(node.target) for node in graph.graph.nodes if "patchword" in str(node.target))
        return make_boxed_func(graph)

    def run(leaf):
        return focal_loss(leaf, labels, gamma=2.0, alpha=0.25)

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend=aot_autograd(fw_compiler=backend, bw_compiler=backend))
    for one, other in zip(differentiated(compiled, logits), differentiated(run, logits), strict=True):
        assert torch.equal(one, other)
    assert seen == ["patchword.focal_loss_forward.default", "patchword.focal_loss_back.default"]
    assert_compiles(focal_loss, logits, labels, gamma=2.0, alpha=0.25)


@pytest.mark.usefixtures("chosen")
def test_autocast_gives_float32():
    logits, labels = given(4, 5, dtype=torch.bfloat16)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        output, gradient = differentiated(lambda leaf: focal_loss(leaf, labels, gamma=2.0, alpha=0.25), logits)
    assert (output.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)


def test_when_it_is_chosen(hopper):
    logits = torch.empty(2, 3, 80, device=hopper, dtype=torch.bfloat16)
    assert has_focal_loss_kernel(logits)
    assert not has_focal_loss_kernel(torch.empty(2, 80, device=hopper, dtype=torch.float64))
    found = focal_loss(logits, torch.empty(2, 3, device=hopper, dtype=torch.long), gamma=2.0, alpha=0.25)
    assert (found.shape, found.dtype) == ((2, 3, 80), torch.bfloat16)


@needs_triton
def test_the_self_test_passes_and_notices_a_wrong_kernel(monkeypatch):
    assert module.matches_reference(DEVICE)
    kernel = module.fused_focal_loss
    monkeypatch.setattr(module, "fused_focal_loss", lambda *given: kernel(*given[:3], 1 - given[3]))
    assert not module.matches_reference(DEVICE)
