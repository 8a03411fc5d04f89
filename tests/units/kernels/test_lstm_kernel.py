"""The fused step of a recurrent layer is its plain twin: on a GPU, or else in Triton's interpreter, if it is there."""

import pytest
import torch

from patchword.kernels.lstm import steps as lstm_steps
from patchword.kernels.lstm.operation import Bounds, Weights, quick_lstm
from patchword.kernels.lstm.steps import Read, TorchSteps, TorchStepsBack

pytest.importorskip("triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def triton_steps(monkeypatch):
    if DEVICE.type == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    from patchword.kernels.lstm import triton as lstm_triton

    return lstm_triton


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def narrow(request):
    return request.param


def both_ways(ahead, back, narrow, cells=600, bound=0.5):
    """Three steps forwards and back; cells are more than a block of the kernel and no multiple of it."""
    generator = torch.Generator().manual_seed(0)
    sums = (2 * torch.randn(2, 3, 2, 4 * cells, generator=generator)).to(DEVICE, narrow)
    held = sums.new_empty(2, 2, cells)
    steps, leaving = ahead(sums.clone(), bound), []
    for number in range(3):
        steps.take(number, held)
        leaving.append(held.clone())
    read = Read(*steps.read(), sums, sums)
    returned = back(read, narrow)
    for number in (2, 1, 0):
        returned.take(number, leaving[number])
    return [part.float() for part in (*read[:4], *leaving, returned.sums)]


def plain(sums, bound):
    return TorchSteps(sums, bound, torch.float32)


def test_the_fused_step_is_the_plain_one(triton_steps, narrow):
    ours = both_ways(triton_steps.TritonSteps, triton_steps.TritonStepsBack, narrow)
    expected = both_ways(plain, TorchStepsBack, narrow)
    assert 0.1 < float(expected[3].mean()) < 0.9  # cells that the bound leaves as they are
    rounding = {"rtol": 1e-5, "atol": 1e-6} if narrow == torch.float32 else {"rtol": 2e-2, "atol": 2e-3}
    torch.testing.assert_close(ours[:3], expected[:3], rtol=1e-5, atol=1e-6)
    assert float((ours[3] != expected[3]).float().mean()) < 1e-3  # a sum that is rounded across its bound
    torch.testing.assert_close(ours[4:], expected[4:], **rounding)


def test_another_bound_is_seen(triton_steps):
    ours = both_ways(triton_steps.TritonSteps, triton_steps.TritonStepsBack, torch.float32, bound=0.51)
    expected = both_ways(plain, TorchStepsBack, torch.float32)
    assert all((one - other).abs().max() > 1e-3 for one, other in zip(ours[1:], expected[1:], strict=True))


def test_tanh_is_near_everywhere(triton_steps):
    """Where it is small, too: relative to itself."""
    points = torch.cat([torch.logspace(-20, 1.5, 600), -torch.logspace(-20, 1.5, 600)]).to(DEVICE)
    sums = torch.zeros(1, 1, 1, 4800, device=DEVICE)
    sums[..., 3600:] = points
    steps = triton_steps.TritonSteps(sums.clone(), 1.0)
    steps.take(0, sums.new_empty(1, 1, 1200))
    torch.testing.assert_close(steps.read()[0][0, 0, 0, 3600:], points.tanh(), rtol=1e-6, atol=0)


def test_the_layer_takes_it_where_it_works(triton_steps, monkeypatch):
    shapes = (2, 5, 3, 4), (2, 4, 20), (2, 3, 20), (2, 1, 20), (2, 5, 3)
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=generator).to(DEVICE).requires_grad_() for shape in shapes]
    found, taken = [], []
    original = triton_steps.TritonStepsBack
    monkeypatch.setattr(triton_steps, "TritonStepsBack", lambda *some: taken.append(some) or original(*some))
    for works in (True, False):
        monkeypatch.setattr(lstm_steps, "fused", lambda device, works=works: works)
        states = quick_lstm(given[0], Weights(*given[1:]), Bounds(0.5, 0.3), torch.float32)
        found.append([states.detach(), *torch.autograd.grad(states.sin().sum(), given)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert len(taken) == 1


def test_it_is_tried_before_it_is_trusted(triton_steps, monkeypatch):
    steps, back = triton_steps.TritonSteps, triton_steps.TritonStepsBack
    assert lstm_steps._alike(DEVICE, torch.bfloat16, steps, back)
    assert not lstm_steps._alike(DEVICE, torch.bfloat16, lambda sums, bound: steps(sums, 0.6), back)
    assert not lstm_steps.fused(torch.device("cpu"))
