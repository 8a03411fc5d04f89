"""The Triton kernels of the LSTM match their reference, on a GPU or in Triton's interpreter."""

import pytest
import torch

from patchword.kernels.lstm import dispatch
from patchword.kernels.lstm.operation import Bounds, Weights, fused_lstm
from patchword.kernels.lstm.steps import SavedSteps, TorchStepsBackward, TorchStepsForward
from support.kernel_tests import DEVICE, assert_as_exact

pytest.importorskip("triton")


@pytest.fixture
def triton_steps(monkeypatch):
    if DEVICE.type == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    from patchword.kernels.lstm import triton as lstm_triton

    return lstm_triton


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def narrow(request):
    return request.param


def both_ways(ahead, back, narrow, cells=600, bound=0.5, rounded=None):
    """Runs three steps forward and backward. `cells` is more than a block of the kernel and no multiple of it.

    Returns the tensors in the precision of the cells, the cells that are not clipped, and the tensors in `narrow`.
    """
    generator = torch.Generator().manual_seed(0)
    sums = (2 * torch.randn(2, 3, 2, 4 * cells, generator=generator)).to(DEVICE, rounded or narrow).to(narrow)
    held = sums.new_empty(2, 2, cells)
    steps, leaving = ahead(sums.clone(), bound), []
    for number in range(3):
        steps.run(number, held)
        leaving.append(held.clone())
    read = SavedSteps(*steps.saved(), sums, sums)
    returned = back(read, narrow)
    for number in (2, 1, 0):
        returned.run(number, leaving[number])
    return list(read[:3]), read[3] != 0, [*leaving, returned.pre_activations]


def reference(sums, bound):
    return TorchStepsForward(sums, bound, torch.float32)


def exactly(sums, bound):
    return TorchStepsForward(sums, bound, torch.float64)


def test_kernel_matches_reference(triton_steps, narrow):
    ours = both_ways(triton_steps.TritonStepsForward, triton_steps.TritonStepsBackward, narrow)
    expected = both_ways(reference, TorchStepsBackward, narrow)
    exact = both_ways(exactly, TorchStepsBackward, torch.float64, rounded=narrow)
    assert 0.1 < float(expected[1].float().mean()) < 0.9  # cells that are not clipped
    assert float((ours[1] != expected[1]).float().mean()) < 1e-3  # a sum may be rounded across the bound
    assert_as_exact(ours[0], expected[0], exact[0])
    assert_as_exact(ours[2], expected[2], exact[2])


def test_another_bound_changes_the_result(triton_steps):
    ours = both_ways(triton_steps.TritonStepsForward, triton_steps.TritonStepsBackward, torch.float32, bound=0.51)
    expected = both_ways(reference, TorchStepsBackward, torch.float32)
    exact = both_ways(exactly, TorchStepsBackward, torch.float64, rounded=torch.float32)
    for part in (0, 2):
        with pytest.raises(AssertionError, match="from float64"):
            assert_as_exact(ours[part], expected[part], exact[part])


def test_tanh_is_accurate_everywhere(triton_steps):
    """The error is relative to the result, also where the result is small."""
    points = torch.cat([torch.logspace(-20, 1.5, 600), -torch.logspace(-20, 1.5, 600)]).to(DEVICE)
    sums = torch.zeros(1, 1, 1, 4800, device=DEVICE)
    sums[..., 3600:] = points
    steps = triton_steps.TritonStepsForward(sums.clone(), 1.0)
    steps.run(0, sums.new_empty(1, 1, 1200))
    exact = points.double().tanh()
    ours, theirs = (
        ((found - exact) / exact).abs().max() for found in (steps.saved()[0][0, 0, 0, 3600:], points.tanh())
    )
    assert ours <= 4 * max(theirs, torch.finfo(torch.float32).eps)


def test_the_layer_uses_the_kernel_where_it_is_usable(triton_steps, monkeypatch):
    shapes = (2, 5, 3, 4), (2, 4, 20), (2, 3, 20), (2, 1, 20), (2, 5, 3)
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=generator).to(DEVICE).requires_grad_() for shape in shapes]
    exact = [part.detach().double().requires_grad_() for part in given]
    states = fused_lstm(exact[0], Weights(*exact[1:]), Bounds(0.5, 0.3), torch.float64)
    exact = [states.detach(), *torch.autograd.grad(states.sin().sum(), exact)]
    found, taken = [], []
    original = triton_steps.TritonStepsBackward
    monkeypatch.setattr(triton_steps, "TritonStepsBackward", lambda *some: taken.append(some) or original(*some))
    for works in (True, False):
        monkeypatch.setattr(dispatch, "is_usable", lambda device, works=works: works)
        states = fused_lstm(given[0], Weights(*given[1:]), Bounds(0.5, 0.3), torch.float32)
        found.append([states.detach(), *torch.autograd.grad(states.sin().sum(), given)])
    assert_as_exact(*found, exact)
    assert len(taken) == 1


def test_self_test_rejects_a_wrong_kernel(triton_steps, monkeypatch):
    steps, back = triton_steps.TritonStepsForward, triton_steps.TritonStepsBackward
    assert dispatch.matches_reference(DEVICE, torch.bfloat16, steps, back)
    assert not dispatch.matches_reference(DEVICE, torch.bfloat16, lambda sums, bound: steps(sums, 0.6), back)
    assert not dispatch.is_usable(torch.device("cpu"))
